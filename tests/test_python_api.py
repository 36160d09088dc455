"""What Python programs see: names, signatures, docstrings, predict and evaluate of whatever holds the rows."""

import inspect
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import scipy.sparse as sp

import llsvm
from llsvm.errors import UsageError
from llsvm.settings.option import COMMON
from llsvm.settings.settings import OPTIONS
from llsvm.train import train

LIMIT = "2GB"


def test_everything_public_is_shown_and_there():
    assert dir(llsvm) == sorted(llsvm.__all__)
    for name in llsvm.__all__:
        assert getattr(llsvm, name) is not None
    for name, each in vars(llsvm.errors).items():
        if (
            isinstance(each, type)
            and issubclass(each, Exception | Warning)
            and each.__module__ == "llsvm.errors"
        ):
            assert getattr(llsvm, name) is each
    with pytest.raises(AttributeError, match="no attribute 'tarin'"):
        _ = llsvm.tarin


def test_importing_loads_nothing_slow():
    code = "import sys, llsvm; dir(llsvm); llsvm.UsageError; print([m for m in sys.modules if m in %r])"
    slow = {"numpy", "numba", "pyarrow", "sklearn", "typer", "dataclasses"}
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code % (slow,)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("function", [llsvm.train, train])
def test_train_shows_every_option_as_it_is_declared(function):
    shown = dict(inspect.signature(function).parameters)
    own = (
        "data",
        "y",
        "sample_weight",
        "output",
        "state",
        "checkpoint_every",
        "fresh",
        "keep_cache",
        "test",
        "callback",
        "verbose",
    )
    for name in own:
        del shown[name]
    assert {name: each.default for name, each in shown.items()} == {
        name: option.default for name, option in OPTIONS.items()
    }
    assert list(shown)[: len(COMMON)] == list(COMMON)
    assert {each.kind for each in shown.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_docstrings_have_a_line_for_each_option_in_the_words_of_python():
    import llsvm.predict  # the module then stands where the function was
    import llsvm.train

    for function in (train, llsvm.predict, llsvm.evaluate, llsvm.LLSVMClassifier.fit_file):
        lines = re.findall(
            r"^    (\w+): (.+)$", inspect.getdoc(function).replace("\n", "\n    "), re.MULTILINE
        )
        told = dict(lines)
        for name in inspect.signature(function).parameters:
            assert name not in OPTIONS or told[name], name
        assert "--" not in function.__doc__


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"multi_class": "ovo"}, "multi_class is now called multiclass"),
        ({"max_iter": 5}, "max_iter is the estimator's name, here it is called max_passes"),
        ({"tool": 5}, r"unknown option 'tool'; did you mean tol\b"),
        ({"zzz": 5}, "unknown option 'zzz'; there are sample_weight, output, state"),
    ],
)
def test_unknown_options_are_refused_with_the_nearest(options, said):
    with pytest.raises(UsageError, match=said):
        llsvm.train("nowhere.svm", **options)
    if "max_iter" not in options:
        with pytest.raises(UsageError, match=said.split(";")[0]):
            llsvm.predict("model", "nowhere.svm", **options) if "multi_class" in options else train(
                "x", **options
            )


def test_what_the_estimator_is_told_is_no_option_of_reading():
    for name in ("multi_class", "max_iter"):
        with pytest.raises(UsageError, match=f"^{name} is a parameter of LLSVMClassifier, not of fit_file$"):
            llsvm.LLSVMClassifier().fit_file("nowhere.svm", **{name: 3})
    with pytest.raises(UsageError, match=r"^text must be a list of text, not 'a': write \['a'\]$"):
        llsvm.LLSVMClassifier().fit_file("nowhere.csv", text="a")


@pytest.mark.parametrize("name", ["train", "predict"])
def test_help_has_functions_alone_however_it_is_asked_for(name):
    code = f"import llsvm, llsvm.{name}; help(llsvm.{name})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"    {name}(" in done.stdout
    assert "NDArray = " not in done.stdout
    assert "Special typing form" not in done.stdout
    assert "_with(" not in done.stdout


# -- predict and evaluate -----------------------------------------------------------------------------------


def frame_of(kind, columns):
    """A data frame of one of the libraries."""
    if kind == "pyarrow":
        return pa.table(columns)
    if kind == "pandas":  # with an index that is no positions
        pandas = pytest.importorskip("pandas")
        return pandas.DataFrame(columns, index=np.arange(len(columns["age"]))[::-1])
    return pytest.importorskip("polars").DataFrame(columns)


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """(test file, model, its file, the columns of the test's rows)."""
    rng = np.random.default_rng(3)
    folder = tmp_path_factory.mktemp("people")
    for n in (600, 200):
        town = rng.choice(["Bern", "Rome", "Oslo"], n)
        age = rng.integers(20, 90, n)
        works = np.where((age < 65) ^ (town == "Oslo"), "yes", "no")
        columns = {"age": age, "town": town, "works": works}
        pyarrow.csv.write_csv(pa.table(columns), folder / f"{n}.csv")
    train, path = folder / "600.csv", folder / "model"
    model = llsvm.train(train, label="works", memory_limit=LIMIT, tol=0.01, output=path)
    return folder / "200.csv", model, path, columns


@pytest.mark.parametrize("kind", ["pyarrow", "pandas", "polars"])
def test_files_frames_and_models_give_the_same(people, kind):
    test, model, path, columns = people
    expected = llsvm.predict(path, test, memory_limit=LIMIT)
    assert expected.shape == (200,)
    assert set(expected) == {"yes", "no"}
    frame, turned = (frame_of(kind, dict(items)) for items in (columns.items(), reversed(columns.items())))
    for each in (frame, turned):
        for given in (model, str(path), path):
            np.testing.assert_array_equal(llsvm.predict(given, each, memory_limit=LIMIT), expected)
    right = int((expected == columns["works"]).sum())
    answer = llsvm.evaluate(path, [str(test)], memory_limit=LIMIT)
    assert (answer["rows"], answer["correct"], answer["accuracy"]) == (200, right, right / 200)
    assert llsvm.evaluate(model, frame, memory_limit=LIMIT) == answer
    bare = frame_of(kind, {name: columns[name] for name in ("age", "town")})
    assert llsvm.evaluate(model, bare, columns["works"], memory_limit=LIMIT) == answer
    renamed = frame_of(kind, {"age": columns["age"], "town": columns["town"], "job": columns["works"]})
    assert llsvm.evaluate(model, renamed, label="job") == answer
    with pytest.raises(
        UsageError, match="no column of X is named as labels are; pass y, or label with its name"
    ):
        llsvm.evaluate(model, renamed)


@pytest.mark.parametrize("classes", [2, 3])
def test_arrays_in_many_blocks(classes, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6))
    y = np.argmax(X[:, :classes] + rng.normal(scale=0.1, size=(500, classes)), axis=1)
    model = llsvm.train(X, y, tol=0.01, memory_limit=LIMIT)
    monkeypatch.setattr("llsvm.scoring.room._LARGEST_BLOCK_BYTES", 2000)  # 41 rows
    monkeypatch.setattr("llsvm.scoring.room.SMALLEST_BLOCK_BYTES", 1000)
    for each in (X, X.tolist(), sp.csr_matrix(X), np.asfortranarray(X)):
        np.testing.assert_array_equal(llsvm.predict(model, each), model.predict(X))
    answer = llsvm.evaluate(model, X, y)
    assert answer["accuracy"] == np.mean(model.predict(X) == y)
    assert sum(map(sum, answer["confusion"]["counts"])) == 500
    strange = np.where(y == 1, 7, y)
    assert llsvm.evaluate(model, X, strange)["unknown_labels"] == {"7": int((y == 1).sum())}


def test_one_label_against_the_rest_is_evaluated_so():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = rng.integers(0, 3, 300)
    model = llsvm.train(X, y, positive=2, tol=0.1)
    answer = llsvm.evaluate(model, X, y)
    assert answer["classes"][1]["support"] == (y == 2).sum()
    assert answer["unknown_rows"] == 0


def test_what_does_not_fit_is_refused(people):
    test, model, path, columns = people
    X = np.zeros((3, 2))
    small = llsvm.train(np.array([[0.0, 1.0], [1.0, 0.0]]), [0, 1], memory_limit=LIMIT)
    with pytest.raises(llsvm.ModelError, match="shape"):
        llsvm.predict(small, np.zeros((3, 5)))
    with pytest.raises(UsageError, match="y is missing: arrays need their labels"):
        llsvm.evaluate(small, X)
    with pytest.raises(llsvm.DataError, match="inconsistent lengths: 3 rows and 2 values"):
        llsvm.evaluate(small, X, [1, 2])
    with pytest.raises(llsvm.DataError, match="no finite score"):
        llsvm.predict(small, np.full((3, 2), np.nan))
    with pytest.raises(llsvm.DataError, match="no row"):
        llsvm.evaluate(small, np.zeros((0, 2)), np.zeros(0))
    assert len(llsvm.predict(small, np.zeros((0, 2)))) == 0  # a quiet night
    for X_, shape in (
        ([1.0, 2.0], r"\(2,\) \(list"),
        ({"a": [1]}, r"\(\) \(dict"),
        (None, r"\(\) \(NoneType"),
    ):
        for asked in (small.predict, lambda X: llsvm.predict(small, X), lambda X: llsvm.evaluate(small, X)):
            with pytest.raises(llsvm.ModelError, match=f"X has the shape {shape}"):
                asked(X_)
    with pytest.raises(llsvm.ModelError, match=r"X is text, not rows; llsvm.predict\(model, 'x.svm'\) reads"):
        small.predict("x.svm")
    for X_ in ([["a", "b"]], np.zeros((2, 2), complex)):
        with pytest.raises(llsvm.DataError, match="it must hold numbers"):
            llsvm.predict(small, X_)
    with pytest.raises(UsageError, match="format csv is for files"):
        llsvm.predict(small, X, format="csv")
    with pytest.raises(UsageError, match="y goes with arrays"):
        llsvm.evaluate(model, test, columns["works"])
    with pytest.raises(llsvm.ModelError, match="labels are text"):
        llsvm.evaluate(model, pa.table(columns), np.zeros(200))
    for given in (path, model):
        with pytest.raises(llsvm.BudgetError, match="pass memory_limit"):
            llsvm.predict(given, test, memory_limit="5MB")


KEPT = """
import gc, sys
import llsvm
from llsvm.training.training import Training

llsvm.train(sys.argv[1], label="label")
gc.collect()
print(sum(isinstance(each, Training) for each in gc.get_objects()))
"""


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_nothing_of_a_run_stays_when_it_is_over(tmp_path, suffix):
    table = pa.table({"a": [1.0, 2.0, 3.0, 4.0], "label": [0, 0, 1, 1]})
    path = str(tmp_path / f"rows.{suffix}")
    {"parquet": pyarrow.parquet.write_table, "csv": pyarrow.csv.write_csv}[suffix](table, path)
    done = subprocess.run([sys.executable, "-c", KEPT, path], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0"]
