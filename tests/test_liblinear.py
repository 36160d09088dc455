"""LIBLINEAR's text models, against its own programs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cells import pairwise
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.cli.convert import export_model
from llsvm.errors import ModelError, UsageError
from llsvm.models.liblinear import read_liblinear, write_liblinear
from llsvm.models.model import Model
from llsvm.settings.objective import KINDS, REGRESSION, UNLABELLED

TRAIN, PREDICT = (shutil.which(f"liblinear-{name}") or shutil.which(name) for name in ("train", "predict"))
needs_liblinear = pytest.mark.skipif(not (TRAIN and PREDICT), reason="LIBLINEAR's programs are not on PATH")


def write_data(path: Path, labels: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """A small svmlight file without empty rows, whose first label is the first of ``labels``."""
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((90, 6)) * (rng.random((90, 6)) < 0.7), 3)
    X[:, 5] += 0.125
    y = np.array(labels)[np.arange(90) % len(labels)]
    X[:, :3] += y[:, None] * [0.4, -0.3, 0.1]
    cells = [" ".join(f"{j + 1}:{v!r}" for j, v in enumerate(x) if v) for x in X.tolist()]
    path.write_text("".join(f"{label} {row}\n" for label, row in zip(y, cells, strict=True)))
    return X, y


def run_train(data: Path, model: Path, solver: int, bias: str) -> None:
    subprocess.run([TRAIN, "-q", "-s", str(solver), "-B", bias, data, model], check=True)


def run_predict(data: Path, model: Path, out: Path, *options: str) -> np.ndarray:
    """Labels or numbers (n,); with -b 1, and probabilities (n, 1 + k) in the order of the model's labels."""
    subprocess.run([PREDICT, *options, data, model, out], check=True, capture_output=True)
    return np.loadtxt(out, skiprows=1 if options else 0)


@needs_liblinear
@pytest.mark.parametrize(
    ("solver", "bias", "labels"),
    pairwise([0, 1, 2, 3, 4, 5, 6, 7], ["-1", "0", "2.5"], [[-1, 1], [1, -1], [7, 2, 5]]),
)
def test_same_predictions_both_ways(tmp_path, labels, bias, solver):
    data, theirs, ours = tmp_path / "data", tmp_path / "theirs", tmp_path / "ours"
    X, _ = write_data(data, labels)
    run_train(data, theirs, solver, bias)
    expected = run_predict(data, theirs, tmp_path / "out")
    model = read_liblinear(theirs)
    assert np.array_equal(model.predict(X), expected)
    write_liblinear(model, ours)
    assert np.array_equal(run_predict(data, ours, tmp_path / "out"), expected)
    again = read_liblinear(ours)
    np.testing.assert_allclose(again.coef_, model.coef_, rtol=0, atol=0)
    np.testing.assert_allclose(again.intercept_, model.intercept_, rtol=1e-15)
    assert (again.settings, again.extra["imported"]["from"]) == (model.settings, "liblinear")
    if solver not in (0, 6, 7):
        assert not model.has_probabilities
        return
    expected = run_predict(data, theirs, tmp_path / "out", "-b", "1")
    order = np.argsort([int(word) for word in (tmp_path / "out").read_text().split("\n")[0].split()[1:]])
    np.testing.assert_allclose(
        model.predict_proba(X), expected[:, 1:][:, order], rtol=1e-5
    )  # as it prints them
    np.testing.assert_array_equal(run_predict(data, ours, tmp_path / "out", "-b", "1")[:, 0], expected[:, 0])


@needs_liblinear
@pytest.mark.parametrize("bias", ["-1", "2.5"])
@pytest.mark.parametrize("solver", [11, 12, 13])
def test_regressions_both_ways(tmp_path, bias, solver):
    data, theirs, ours = tmp_path / "data", tmp_path / "theirs", tmp_path / "ours"
    X, _ = write_data(data, [3, -2, 7, 1])
    run_train(data, theirs, solver, bias)
    expected = run_predict(data, theirs, tmp_path / "out")
    model = read_liblinear(theirs)
    assert model.is_regression
    assert KINDS[model.settings["loss"]] == REGRESSION
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-5)
    model.save(tmp_path / "saved")
    loaded = Model.load(tmp_path / "saved")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    write_liblinear(loaded, ours)
    np.testing.assert_array_equal(run_predict(data, ours, tmp_path / "out"), expected)


def test_huber_is_written_as_a_regression_that_predicts_alike(tmp_path):
    settings, extra = {"loss": "huber", "bias": 1.0}, {"label_kind": REGRESSION}
    model = Model([[1.0, -2.0]], [0.5], np.empty(0), settings=settings, extra=extra)
    write_liblinear(model, tmp_path / "m")
    text = "solver_type L2R_L1LOSS_SVR_DUAL\nnr_class 2\nnr_feature 2\nbias 1\nw\n1 \n-2 \n0.5 \n"
    assert (tmp_path / "m").read_text() == text
    np.testing.assert_array_equal(read_liblinear(tmp_path / "m").predict(np.eye(2)), [1.5, -1.5])


ONE_CLASS = "solver_type ONECLASS_SVM\nnr_class 2\nnr_feature 2\nbias -1\nrho 0.75\nw\n1 \n0.5 \n"


def test_one_class_both_ways(tmp_path):
    """Written as LIBLINEAR 2.50 writes it: a row is an outlier, -1, where w·x is at most rho."""
    path, again = tmp_path / "m", tmp_path / "again"
    path.write_text(ONE_CLASS)
    model = read_liblinear(path)
    assert model.label_kind == UNLABELLED
    np.testing.assert_array_equal(model.decision_function(np.eye(2)), [0.25, -0.25])
    np.testing.assert_array_equal(model.predict(np.eye(2)), [1, -1])
    write_liblinear(model, again)
    assert again.read_text() == ONE_CLASS
    path.write_text(ONE_CLASS.replace("rho 0.75\n", ""))
    with pytest.raises(ModelError, match="no line 'rho'"):
        read_liblinear(path)


@needs_liblinear
def test_softmax_is_written_as_a_joint_problem_with_the_same_labels(tmp_path):
    X, _ = write_data(tmp_path / "data", [0, 1, 2])
    rng = np.random.default_rng(3)
    settings = {"loss": "logistic", "multiclass": "softmax"}
    model = Model(rng.standard_normal((3, 6)), np.zeros(3), np.arange(3), settings=settings)
    write_liblinear(model, tmp_path / "m")
    assert (tmp_path / "m").read_text().startswith("solver_type MCSVM_CS\n")
    np.testing.assert_array_equal(
        run_predict(tmp_path / "data", tmp_path / "m", tmp_path / "out"), model.predict(X)
    )


@needs_liblinear
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_our_models_in_their_program(tmp_path, k, bias):
    X, _ = write_data(tmp_path / "data", [0, 1, 2][: max(k, 2)])
    rng = np.random.default_rng(3)
    intercept = rng.standard_normal(k) if bias else np.zeros(k)
    model = Model(rng.standard_normal((k, 6)), intercept, np.arange(max(k, 2)), settings={"bias": bias})
    write_liblinear(model, tmp_path / "m")
    assert np.array_equal(run_predict(tmp_path / "data", tmp_path / "m", tmp_path / "out"), model.predict(X))


def test_all_digits_survive(tmp_path):
    coef = np.random.default_rng(0).standard_normal((4, 30)) * 10.0 ** np.arange(-15, 15)
    settings = {"bias": 1.0, "loss": "squared_hinge"}
    model = Model(coef, np.array([0.1, 0.2, 0.3, 0.7]), np.arange(4), settings=settings)
    write_liblinear(model, tmp_path / "m")
    head = "solver_type L2R_L2LOSS_SVC_DUAL\nnr_class 4\nlabel 0 1 2 3\n"
    assert (tmp_path / "m").read_text().startswith(head)
    again = read_liblinear(tmp_path / "m")
    assert np.array_equal(again.coef_, coef)
    assert np.array_equal(again.intercept_, model.intercept_)
    assert again.settings == settings | {"penalty": "l2", "multiclass": "ovr"}
    assert again.index_base == 1


@pytest.mark.parametrize("classes", [["ham", "spam"], [0.5, 1.0], [0, 2**40]])
def test_labels_that_liblinear_lacks(tmp_path, classes):
    with pytest.raises(ModelError, match="labels are integers"):
        write_liblinear(Model(np.zeros((1, 2)), np.zeros(1), np.array(classes)), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


GOOD = "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias -1\nw\n0.5\n-0.25\n"


def test_newer_header_lines_are_accepted(tmp_path):
    (tmp_path / "m").write_text(GOOD.replace("bias -1\n", "bias -1\nnew 0\n"))
    assert read_liblinear(tmp_path / "m").coef_.tolist() == [[0.5, -0.25]]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("L2R_LR", "L3R_LR", "no solver of LIBLINEAR"),
        ("L2R_LR", "ONECLASS_SVM", "no line 'rho'"),
        ("label 1 -1\n", "", "no line 'label'"),
        ("label 1 -1", "label 1 1", "labels 1 1"),
        ("nr_class 2", "nr_class 3", "3 classes"),
        ("nr_class 2", "nr_class two", "two"),
        ("\nw\n", "\n", "line 'w'"),
        ("-0.25\n", "", "1 weights where 2 rows"),
        ("-0.25\n", "1\n2\n", "3 weights"),
        ("-0.25", "nan", "finite"),
        ("-0.25", "x", "could not convert"),
        ("L2R_LR", "\xe9", "ascii"),
    ],
)
def test_broken_files_are_refused(tmp_path, old, new, words):
    path = tmp_path / "m"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(ModelError, match=words) as caught:
        read_liblinear(path)
    assert str(path) in str(caught.value)


def test_paths_that_do_not_work(tmp_path):
    with pytest.raises(ModelError, match="no such model"):
        read_liblinear(tmp_path / "m")
    with pytest.raises(ModelError, match="cannot be read"):
        read_liblinear(tmp_path)
    with pytest.raises(UsageError, match="cannot be written"):
        write_liblinear(Model(np.zeros((1, 2)), np.zeros(1), np.array([0, 1])), tmp_path / "no" / "m")


def test_export_says_what_columns_from_0_become(tmp_path, capsys):
    model = Model(np.ones((1, 3)), np.zeros(1), np.array([-1.0, 1.0]))
    notes = []
    for model.index_base in (0, 1):
        model.save(tmp_path / "m")
        export_model(str(tmp_path / "m"), str(tmp_path / "m.liblinear"))
        notes.append(capsys.readouterr().err)
    assert "add 1 to the indices" in notes[0]
    assert not notes[1]


@pytest.mark.parametrize("labels", [["no", "yes"], ["a", "b", "c"], [0.5, 1.5], [False, True]])
@pytest.mark.parametrize("categories", [False, True])
def test_the_first_refusal_of_an_export_names_all_that_is_to_be_done(labels, categories, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60)})
    frame["y"] = np.array(labels)[np.arange(60) % len(labels)]
    if categories:
        frame["town"] = rng.choice(["oslo", "rome"], 60)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    model = llsvm.train(tmp_path / "rows.csv", label="y", categorical=["y"] if labels[0] == 0.5 else ())
    with pytest.raises(ModelError) as refused:
        llsvm.export(model, tmp_path / "m")
    said = str(refused.value)
    assert ("llsvm convert TABLE NEW.svm" in said) == categories
    assert "labels are integers" in said
    if len(labels) > 2:
        assert "write integers for the labels" in said
        return
    word = re.search("train with positive ('[^']+'|[^ ,]+), which makes them 1 and -1", said)[1].strip("'")
    rows = tmp_path / "rows.csv"
    if categories:
        done = CliRunner().invoke(
            app, ["convert", str(rows), str(rows := tmp_path / "new.svm"), "--label", "y"]
        )
        assert done.exit_code == 0, done.output
    again = llsvm.train(rows, positive=word, label=None if categories else "y")
    llsvm.export(again, tmp_path / "m")
    assert "label 1 -1" in (tmp_path / "m").read_text()
