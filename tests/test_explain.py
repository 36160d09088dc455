"""Contributions of features to scores: with the intercept they sum to the score, in each format, for each model."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from test_crosses import table, write
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.errors import ModelError, UsageError
from llsvm.models.model import Model

N = 60


def numbers(k, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, N)
    X = rng.standard_normal((N, 6)).round(2)
    X[:, :3] += y[:, None] * [1.0, -1.0, 0.5]
    X[rng.random(X.shape) < 0.3] = 0
    return X, y


def total(score):
    return (
        sum(each["contribution"] for each in score["contributions"])
        + score["other_contributions"]
        + score["intercept"]
    )


@pytest.mark.parametrize("scale", ["auto", "none", "standard", "maxabs", "minmax"])
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".svm"])
def test_values_have_the_digits_that_they_are_written_with(tmp_path, scale, suffix):
    """They are read as 32-bit floats, of which 0.1 would be 0.10000000149011612."""
    rng = np.random.default_rng(3)
    columns = {
        "a": rng.normal(size=N).round(1),
        "b": (1e4 + rng.normal(size=N)).round(2),
        "y": np.arange(N) % 2,
    }
    path = tmp_path / f"rows{suffix}"
    if suffix == ".svm":
        lines = [f"{y} 1:{a} 2:{b}\n" for a, b, y in zip(*columns.values(), strict=True)]
        path.write_text("".join(lines))
    else:
        write(path, columns)
    options = {} if suffix == ".svm" else {"label": "y"}
    model = llsvm.train(path, scale=scale, **options)
    for row, *wanted in zip(llsvm.explain(model, path), columns["a"], columns["b"], strict=True):
        found = {part["feature"]: part["value"] for part in row["scores"][0]["contributions"]}
        assert set(found.values()) <= {float(value) for value in wanted}
        assert len(found) == 2 or 0.0 in wanted


@pytest.mark.parametrize(
    ("k", "options"),
    [
        (2, {}),
        (2, {"loss": "logistic"}),
        (2, {"scale": "standard", "bias": 1.0}),
        (2, {"scale": "unit-row"}),
        (3, {}),
        (3, {"multiclass": "ovo"}),
        (3, {"multiclass": "crammer-singer"}),
        (3, {"multiclass": "softmax", "loss": "logistic"}),
        (5, {"loss": "huber", "bias": 1.0}),
        (2, {"loss": "one_class", "nu": 0.2}),
    ],
)
def test_contributions_and_intercept_sum_to_the_score(tmp_path, k, options):
    X, y = numbers(k)
    X = X + 2.0 if options.get("loss") == "one_class" else X
    model = llsvm.train(
        X, None if options.get("loss") == "one_class" else y, output=tmp_path / "m", **options
    )
    scores = model.scorer()(X, 0)
    predicted = model.predict(X)
    for given in (X, sp.csr_array(X)):
        rows = list(llsvm.explain(tmp_path / "m", given, top=2, all_scores=True))
        assert [row["row"] for row in rows] == list(range(1, N + 1))
        if model.is_regression:  # sparse rows are summed in another order
            assert [row["prediction"] for row in rows] == pytest.approx(predicted.tolist())
        else:
            assert [row["prediction"] for row in rows] == predicted.tolist()
        for row, expected in zip(rows, scores, strict=True):
            assert [score["of"] for score in row["scores"]] == model.problem_names
            for score, value in zip(row["scores"], expected, strict=True):
                assert score["score"] == pytest.approx(value, abs=1e-9)
                assert total(score) == pytest.approx(value, abs=1e-6)
                sizes = [abs(each["contribution"]) for each in score["contributions"]]
                assert len(sizes) <= 2
                assert sizes == sorted(sizes, reverse=True)
                for each in score["contributions"]:
                    above = each["value"] - each["mean"]
                    assert each["contribution"] == pytest.approx(each["weight"] * above)


def test_unasked_the_score_of_the_predicted_class_is_explained():
    X, y = numbers(4)
    model = llsvm.train(X, y)
    for row in llsvm.explain(model, X):
        assert [score["of"] for score in row["scores"]] == [str(row["prediction"])]
        assert row["scores"][0]["other_features"] == 0
    pairs = llsvm.train(X, y, multiclass="ovo")
    for row in llsvm.explain(pairs, X):
        assert len(row["scores"]) == 3
        assert all(str(row["prediction"]) in score["of"] for score in row["scores"])


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "feather"])
def test_tables_are_explained_by_the_names_of_their_features(tmp_path, suffix):
    path = write(
        tmp_path / f"a.{suffix}", table(N) | {"note": ["good film", "dull plot", "a good plot"] * (N // 3)}
    )
    model = llsvm.train(path, text=["note"], cross=["country:age"], missing="mean")
    rows = list(llsvm.explain(model, path, top=100))
    names = {each["feature"] for row in rows for score in row["scores"] for each in score["contributions"]}
    assert {"age", "country=FR", "country=FR & age", "note:good"} <= names
    for row in rows:
        assert total(row["scores"][0]) == pytest.approx(row["scores"][0]["score"], abs=1e-6)
    first = {each["feature"]: each["value"] for each in rows[0]["scores"][0]["contributions"]}
    assert first["age"] == pytest.approx(float(table(N)["age"][0]))  # in its own unit, though it was scaled


@pytest.mark.parametrize("case", ["svmlight", "vw", "fasttext", "hdf5"])
def test_other_formats_are_explained(tmp_path, case):
    X, y = numbers(2)
    path, first = tmp_path / "rows", "1"
    if case == "svmlight":
        lines = (
            f"{a} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row) if v)
            for a, row in zip(y, X, strict=True)
        )
        path.write_text("\n".join(lines) + "\n")
    elif case == "vw":
        lines = (
            f"{a} |n " + " ".join(f"x{j}:{v}" for j, v in enumerate(row) if v)
            for a, row in zip(y, X, strict=True)
        )
        path, first = tmp_path / "rows.vw", "n^x0"
        path.write_text("\n".join(lines) + "\n")
    elif case == "fasttext":
        path, first = tmp_path / "rows.ft", "text:good"
        path.write_text("".join(f"__label__{a} {('good', 'bad')[a]} film\n" for a in y))
    else:
        h5py = pytest.importorskip("h5py")
        path = tmp_path / "rows.h5"
        with h5py.File(path, "w") as file:
            file["X"], file["y"] = X, y
    model = llsvm.train(path)
    rows = list(llsvm.explain(model, path))
    names = {each["feature"] for row in rows for each in row["scores"][0]["contributions"]}
    assert first in names
    for row in rows:
        assert total(row["scores"][0]) == pytest.approx(row["scores"][0]["score"], abs=1e-6)


def test_the_command_line_writes_lines_of_a_table_or_of_json(tmp_path):
    path, model = str(write(tmp_path / "a.csv", table(N))), str(tmp_path / "m")
    run = CliRunner()
    assert run.invoke(app, ["train", path, "--model", model]).exit_code == 0
    scores = Model.load(model).decision_function(pa.table(table(N)))
    told = run.invoke(app, ["predict", model, path, "--explain", "--top", "1"])
    lines = list(csv.DictReader(told.stdout.splitlines(), delimiter="\t"))
    for row, score in enumerate(scores, 1):
        own = [line for line in lines if line["row"] == str(row)]
        assert len(own) == 3  # a feature, the others, the intercept
        assert own[1]["feature"].endswith("other features)")
        assert own[2]["feature"] == "(intercept)"
        assert sum(float(line["contribution"]) for line in own) == pytest.approx(score, abs=1e-6)
    out = tmp_path / "e.csv"
    assert run.invoke(app, ["predict", model, path, "--explain", "--output", str(out)]).exit_code == 0
    with out.open() as file:
        assert len({line["row"] for line in csv.DictReader(file)}) == N
    told = run.invoke(app, ["predict", model, path, "--explain", "--json"])
    rows = [json.loads(line) for line in told.stdout.splitlines()]
    assert [row["row"] for row in rows] == list(range(1, N + 1))
    for row, score in zip(rows, scores, strict=True):
        assert total(row["scores"][0]) == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--top", "3"], "--top goes with --explain"),
        (["--json"], "--json goes with --explain"),
        (["--explain", "--top", "0"], "must be 1 or more"),
        (["--explain", "--probabilities"], "not probabilities"),
        (["--explain", "--keep", "a", "-o", "ex.csv"], "not with --explain"),
    ],
)
def test_options_that_go_with_explain_alone_are_refused_without(tmp_path, options, words):
    X, y = numbers(2)
    llsvm.train(X, y, output=tmp_path / "m")
    np.save(tmp_path / "X.npy", X)
    told = CliRunner().invoke(app, ["predict", str(tmp_path / "m"), str(tmp_path / "X.npy"), *options])
    assert isinstance(told.exception, UsageError) or told.exit_code == 2
    assert words in (str(told.exception) + told.output)


def test_models_whose_scores_are_no_sums_over_columns_are_refused():
    X, y = numbers(2)
    for options in ({"kernel": "rbf"}, {"feature_map": "nystroem", "components": 5}):
        with pytest.raises(ModelError, match="cannot be explained: its scores are no sums"):
            llsvm.explain(llsvm.train(X, y, **options), X)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "frame"])
def test_numbers_are_reasons_by_what_they_are_above_their_mean(tmp_path, suffix):
    """A date of 19,700 days, and a constant offset, are no reasons; nor does rounding spoil the sum."""
    rng = np.random.default_rng(0)
    n = 200
    days = np.datetime64("2024-01-01") + rng.integers(0, 300, n)
    age, wide = rng.normal(40, 10, n).round(1), 1e15 + rng.integers(0, 50, n)
    label = np.where(age + rng.normal(0, 3, n) > 40, "old", "young")
    columns = {"day": days, "age": age, "wide": wide, "town": ["a", "b"] * (n // 2), "label": label}
    made = pa.table(columns)
    if suffix == "frame":
        data = made.to_pandas()
    else:
        data = str(tmp_path / f"t.{suffix}")
        (pq.write_table if suffix == "parquet" else pacsv.write_csv)(made, data)
    for options in ({}, {"text": ["town"]}, {"missing": "mean"}):
        model = llsvm.train(data, label="label", output=tmp_path / "m", **options)
        rows = list(llsvm.explain(Model.load(tmp_path / "m"), data))
        scores = model.decision_function(made)
        first = [row["scores"][0]["contributions"][0]["feature"] for row in rows]
        assert first.count("age") > 0.7 * n
        assert first.count("day") < 0.1 * n
        for row, score, its_age in zip(rows, scores, age, strict=True):
            assert total(row["scores"][0]) == pytest.approx(score, abs=1e-6)
            for each in row["scores"][0]["contributions"]:
                if each["feature"] == "age":
                    assert each["mean"] == pytest.approx(age.mean(), rel=1e-6)
                    assert each["value"] == pytest.approx(its_age, rel=1e-6)
                    assert each["contribution"] == pytest.approx(
                        each["weight"] * (its_age - age.mean()), abs=1e-5
                    )
                elif each["feature"] == "wide":
                    assert each["value"] == pytest.approx(1e15, rel=1e-9)
                elif "town" in each["feature"]:
                    assert each["contribution"] == pytest.approx(each["weight"] * each["value"])
        intercept = rows[0]["scores"][0]["intercept"]
        assert intercept == pytest.approx(rows[1]["scores"][0]["intercept"])
        assert abs(intercept) < 100


def test_a_number_that_a_sparse_row_does_not_hold_is_a_reason_too(tmp_path):
    """0, where 10 is usual."""
    rows = {"n": [10, 11, 9, 0] * 20, "town": ["a", "b", "c", "a"] * 20, "label": [1, 1, 1, 0] * 20}
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    model = llsvm.train(str(tmp_path / "t.parquet"))
    told = list(llsvm.explain(model, str(tmp_path / "t.parquet")))[3]["scores"][0]
    assert told["contributions"][0]["feature"] == "n"
    assert told["contributions"][0]["value"] == 0
    assert told["contributions"][0]["contribution"] < -0.5


@pytest.mark.parametrize("mean", [np.ones(9), np.full(2, np.nan), np.ones(3, np.float32), "x"])
def test_damaged_means_are_not_relied_on(mean):
    X, y = numbers(2)
    model = llsvm.train(X, y, scale="standard", bias=1.0)
    assert model.extra["mean"] == pytest.approx(X.mean(axis=0))
    model.extra["mean"] = mean
    for row, score in zip(llsvm.explain(model, X), model.decision_function(X), strict=True):
        assert total(row["scores"][0]) == pytest.approx(score)
        assert {each["mean"] for each in row["scores"][0]["contributions"]} == {0}
