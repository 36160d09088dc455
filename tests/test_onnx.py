"""Models as ONNX: onnxruntime says what the model says, of every kind that ONNX can say; others are refused."""

import json
import warnings
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from guide_texts import ROOT, blocks
from sklearn.feature_extraction.text import CountVectorizer
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.errors import LLSVMWarning, ModelError, UsageError
from llsvm.models.decisions import CALIBRATION, KNOTS, THRESHOLD
from llsvm.models.model import Model
from llsvm.settings.objective import KINDS, REGRESSION, UNLABELLED

needs_onnx = pytest.mark.skipif(
    find_spec("onnx") is None or find_spec("onnxruntime") is None,
    reason="onnx and onnxruntime are not installed (pip install '.[dev]')",
)
N, D = 80, 5
RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, D)).astype(np.float32) * [1, 10, 100, 1, 1e4]
RULE = {"value": 0.4, "rule": "f1", "n_rows": 9, "precision": 1.0, "recall": 1.0, "f1": 1.0}


def session(model, path):
    import onnxruntime

    llsvm.export(model, path, to="onnx")
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def require_same(model, answer, rows):
    """answer: by output's name. rows: as the model takes them."""
    if model.is_regression:
        assert set(answer) == {"prediction"}
        np.testing.assert_allclose(answer["prediction"], model.predict(rows), rtol=1e-9, atol=1e-5)
        return
    np.testing.assert_array_equal(answer["label"], model.predict(rows))
    scores = np.asarray(model.decision_function(rows))
    np.testing.assert_allclose(answer["scores"], scores.reshape(len(scores), -1), rtol=1e-9, atol=1e-5)
    if "probabilities" in answer:
        np.testing.assert_allclose(answer["probabilities"], model.predict_proba(rows), atol=1e-5)


def run(model, path, inputs, rows):
    found = session(model, path)
    names = [each.name for each in found.get_outputs()]
    answer = dict(zip(names, found.run(None, inputs), strict=True))
    require_same(model, answer, rows)
    return answer


def knots(k):
    """Of k isotonic maps: with a step, and one of a single knot."""
    one = np.array([[-1.0, 0.1], [0.0, 0.2], [0.0, 0.5], [2.0, 0.9]])
    each = [np.add(one, [c / 10, 0]) for c in range(k)]
    if k > 1:
        each[1] = np.array([[0.3, 0.4]])
    ends = np.cumsum([len(part) for part in each]).tolist()
    head = {"method": "isotonic", "n_rows": 9, "slopes": [], "offsets": [], "ends": ends}
    return {CALIBRATION: head, KNOTS: np.concatenate(each)}


def maps(method, k):
    if method == "isotonic":
        return knots(k)
    n = 1 if method == "temperature" else k
    offsets = [] if method == "temperature" else np.linspace(-1, 1, k).tolist()
    slopes = np.linspace(0.5, 2, n).tolist()
    return {CALIBRATION: {"method": method, "n_rows": 9, "slopes": slopes, "offsets": offsets, "ends": []}}


OF_CLASSES = ("hinge", "squared_hinge", "least-squares", "logistic")
JOINT = ("crammer-singer", "weston-watkins")
FORMS = [("ovr", "hinge"), ("ovr", "logistic"), *((form, "hinge") for form in JOINT), ("softmax", "logistic")]
OTHERS = {loss: kind for loss, kind in KINDS.items() if kind in (REGRESSION, UNLABELLED)}
# name: (classes, settings, extra)
LINEAR = {
    **{loss: (2, {"loss": loss}, {}) for loss in OF_CLASSES},
    **{f"{form}-{loss}": (4, {"loss": loss, "multiclass": form}, {}) for form, loss in FORMS},
    **{f"ovo-{loss}": (4, {"loss": loss}, {"multi_class": "ovo"}) for loss in ("hinge", "logistic")},
    **{loss: (0, {"loss": loss}, {"label_kind": kind}) for loss, kind in OTHERS.items()},
    "threshold": (2, {"loss": "hinge"}, {THRESHOLD: RULE}),
    "unit-row": (3, {"loss": "hinge"}, {"unit_row": True}),
    "double": (2, {"loss": "hinge"}, {"double": True}),
    **{
        f"{method}-{k}": (k, {"loss": "hinge"}, maps(method, 1 if k == 2 else k))
        for method in ("platt", "isotonic", "temperature")
        for k in (2, 3)
    },
}


def linear(classes, settings, extra, labels=None):
    kind = extra.get("label_kind")
    k = {0: 1, 2: 1}.get(classes, classes * (classes - 1) // 2 if "multi_class" in extra else classes)
    known = np.array([-1.0, 1.0]) if kind == UNLABELLED else np.arange(classes) * 10.0
    coef = RNG.standard_normal((k, D)) / [1, 10, 100, 1, 1e4]
    if "unit_row" in extra:
        coef = RNG.standard_normal((k, D))
    return Model(
        coef, RNG.standard_normal(k), known if labels is None else labels, settings=settings, extra=extra
    )


@needs_onnx
@pytest.mark.parametrize("name", LINEAR)
def test_models_of_numbers(name, tmp_path):
    model = linear(*LINEAR[name])
    rows = X.astype(np.float64 if name == "double" else np.float32)
    rows[3] = 0
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        answer = run(model, tmp_path / "m.onnx", {"X": rows}, rows)
    left_out = [each for each in said if issubclass(each.category, LLSVMWarning)]
    assert bool(left_out) == (name == "ovo-logistic")
    assert ("probabilities" in answer) == (model.has_probabilities and not left_out)
    assert model.is_regression or len(set(answer["label"].tolist())) > 1


@needs_onnx
@pytest.mark.parametrize("name", ["hinge", "double"])
def test_the_example_of_the_guide_runs_models_of_either_precision(name, tmp_path, monkeypatch, capsys):
    (example,) = (
        each for each in blocks(ROOT / "llsvm" / "guide" / "losses.md") if "onnxruntime" in each.code
    )
    llsvm.export(linear(*LINEAR[name]), tmp_path / "m.onnx", to="onnx")
    monkeypatch.chdir(tmp_path)
    exec(compile(example.code, "losses.md", "exec"), {})
    assert "array" in capsys.readouterr().out


@needs_onnx
@pytest.mark.parametrize("labels", [["no", "yes"], [0.5, 2.0], [3.0, 7.0]])
def test_labels_of_all_kinds(labels, tmp_path):
    model = linear(2, {"loss": "hinge"}, {}, np.array(labels))
    answer = run(model, tmp_path / "m.onnx", {"X": X.astype(np.float32)}, X.astype(np.float32))
    assert answer["label"].dtype == (
        object if labels[0] == "no" else np.int64 if labels[0] == 3 else np.float64
    )


@needs_onnx
def test_missing_values_of_arrays_are_filled(tmp_path):
    fill = np.arange(D) + 0.5
    model = linear(2, {"loss": "hinge", "missing": "mean"}, {"fill": fill})
    rows = X.astype(np.float32)
    rows[::3, 1] = np.nan
    run(model, tmp_path / "m.onnx", {"X": rows}, rows)
    refusing = session(linear(2, {"loss": "hinge"}, {}), tmp_path / "n.onnx")
    gone = np.isnan(refusing.run(["scores"], {"X": rows})[0][:, 0])
    assert np.array_equal(gone, np.isnan(rows[:, 1]))


def people(n=200):
    rng = np.random.default_rng(5)
    age = rng.integers(18, 80, n).astype(float)
    town = np.array(["Oslo", "Lima", "Rio de Janeiro"])[rng.integers(0, 3, n)]
    job = np.array(["a", "b"])[rng.integers(0, 2, n)]
    hours = rng.uniform(0, 60, n)
    words = np.array(["the", "film", "was", "good", "bad", "lovely", "dull", "long"])
    review = [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(n)]
    liked = [text.count("good") + text.count("lovely") - text.count("dull") for text in review]
    y = np.where(age / 20 + (town == "Oslo") + np.array(liked) > 3, "yes", "no")
    gaps = pa.array([None if i % 7 == 0 else value for i, value in enumerate(hours)])
    columns = {
        "age": age,
        "town": town,
        "hours": gaps,
        "job": job,
        "embedding": list(rng.uniform(size=(n, 2))),
    }
    return pa.table({**columns, "review": review, "y": y})


def inputs(table, model):
    """As the graph takes them."""
    found = {}
    for column in model.extra["table"]["columns"]:
        values = table[column["name"]]
        if column["kind"] == "text":
            found[column["name"]] = np.array(values.to_pylist(), object)[:, None]
        elif column["kind"] == "document":
            analyse = CountVectorizer().build_analyzer()
            words = [analyse(text) for text in values.to_pylist()]
            longest = max(map(len, words))
            found[column["name"]] = np.array([each + [""] * (longest - len(each)) for each in words], object)
        elif column["kind"] == "vector":
            found[column["name"]] = np.array(values.to_pylist(), np.float32)
        else:
            numbers = [np.nan if value is None else value for value in values.to_pylist()]
            found[column["name"]] = np.array(numbers, np.float32)[:, None]
    return found


@needs_onnx
@pytest.mark.parametrize("scale", ["standard", "unit-row"])
@pytest.mark.parametrize("missing", ["mean", "zero"])
def test_tables_with_categories(missing, scale, tmp_path):
    table = people().drop_columns(["review"])
    pq.write_table(table, tmp_path / "t.parquet")
    model = llsvm.train(tmp_path / "t.parquet", label="y", missing=missing, scale=scale, loss="logistic")
    strange = table.set_column(1, "town", [["Atlantis" if i % 5 == 0 else "Lima" for i in range(len(table))]])
    for each in (table, strange):
        answer = run(model, tmp_path / "m.onnx", inputs(each, model), each)
        assert set(answer["label"]) == {"no", "yes"}


@needs_onnx
def test_a_table_of_numbers_has_one_input(tmp_path):
    table = people().select(["hours", "embedding", "age", "y"])
    pq.write_table(table, tmp_path / "t.parquet")
    model = llsvm.train(tmp_path / "t.parquet", label="y", missing="mean")
    parts = inputs(table, model)
    rows = np.concatenate([parts[name] for name in ("hours", "embedding", "age")], axis=1)
    run(model, tmp_path / "m.onnx", {"X": rows}, table)


@needs_onnx
@pytest.mark.parametrize(
    "options",
    [
        {"ngrams": "1-2"},
        {"ngrams": "2-3", "term_weight": "sublinear", "multiclass": "crammer-singer"},
        {"term_weight": "binary"},
        {"term_weight": "count", "scale": "unit-row"},
    ],
    ids=str,
)
def test_text_by_its_words(options, tmp_path):
    table = people().select(["review", "age", "town", "y"])
    pq.write_table(table, tmp_path / "t.parquet")
    model = llsvm.train(tmp_path / "t.parquet", label="y", text=["review"], **options)
    assert model.extra["text"]["options"]["hash_bits"] is None
    run(model, tmp_path / "m.onnx", inputs(table, model), table)


def train_on(folder, **options):
    pq.write_table(people().drop_columns(["hours"]), folder / "t.parquet")
    columns = ("age", "town", "review")
    return llsvm.train(folder / "t.parquet", label="y", features=columns, tol=0.1, **options)


@needs_onnx
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"hash_bits": 4, "exclude": ["review"]}, "not the hash of categories (column town)"),
        ({"text": ["review"], "vocabulary": "hashed"}, "not the hash of n-grams"),
        ({"text": ["review"], "analyzer": "char"}, "not n-grams of characters (char)"),
        ({"cross": ["age:town"], "exclude": ["review"]}, "not what crossed columns are"),
        ({"kernel": "rbf", "exclude": ["review"]}, "not a kernel or a feature map"),
    ],
)
def test_what_cannot_be_said_is_refused_by_name(options, says, tmp_path):
    model = train_on(tmp_path, **options)
    with pytest.raises(ModelError) as caught:
        llsvm.export(model, tmp_path / "m.onnx", to="onnx")
    assert says in str(caught.value)
    assert not (tmp_path / "m.onnx").exists()


@needs_onnx
def test_the_command_and_what_the_file_says_of_itself(tmp_path):
    import onnx

    model = linear(3, {"loss": "logistic"}, {})
    model.save(tmp_path / "m")
    words = ["export", str(tmp_path / "m"), str(tmp_path / "m.onnx"), "--to", "onnx"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    first = (tmp_path / "m.onnx").read_bytes()
    made = onnx.load(str(tmp_path / "m.onnx"))
    assert (made.producer_name, made.producer_version) == ("llsvm", llsvm.__version__)
    said = {each.key: json.loads(each.value) for each in made.metadata_props}
    assert said["llsvm.classes"] == ["0", "10", "20"]
    llsvm.export(str(tmp_path / "m"), tmp_path / "m.onnx", to="onnx")
    assert (tmp_path / "m.onnx").read_bytes() == first
    assert CliRunner().invoke(app, [*words[:2], "-", *words[3:]]).exit_code == 2


@needs_onnx
def test_the_command_says_that_documents_come_as_their_words(tmp_path):
    train_on(tmp_path, text=["review"]).save(tmp_path / "m")
    done = CliRunner().invoke(app, ["export", str(tmp_path / "m"), str(tmp_path / "m.onnx"), "--to", "onnx"])
    assert done.exit_code == 0, done.output
    assert "m.onnx: of review it takes the words of each row, not documents" in done.stderr


def test_the_text_of_liblinear_is_not_written_under_the_name_of_onnx(tmp_path):
    model = linear(2, {"loss": "hinge"}, {})
    model.save(tmp_path / "m")
    with pytest.raises(UsageError, match=r"m.onnx: pass to onnx, or a name"):
        llsvm.export(model, tmp_path / "m.onnx")
    done = CliRunner().invoke(app, ["export", str(tmp_path / "m"), str(tmp_path / "m.onnx")])
    assert done.exit_code == 2
    assert "pass --to onnx" in done.stderr
    assert not (tmp_path / "m.onnx").exists()


def test_without_the_package_a_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("llsvm.models.onnx.graph.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'llsvm\[onnx\]'"):
        llsvm.export(linear(2, {"loss": "hinge"}, {}), tmp_path / "m.onnx", to="onnx")
    with pytest.raises(UsageError, match="to must be one of liblinear, onnx"):
        llsvm.export(linear(2, {"loss": "hinge"}, {}), tmp_path / "m.onnx", to="onyx")
