"""LIBLINEAR's text models, against its own programs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from llsvm.cli.model_io import export_model
from llsvm.errors import ModelError, UsageError
from llsvm.models.liblinear import read_liblinear, write_liblinear
from llsvm.models.model import Model

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


def run_predict(data: Path, model: Path, out: Path) -> np.ndarray:
    subprocess.run([PREDICT, data, model, out], check=True, capture_output=True)
    return np.loadtxt(out)


@needs_liblinear
@pytest.mark.parametrize("labels", [[-1, 1], [1, -1], [7, 2, 5]])
@pytest.mark.parametrize("bias", ["-1", "0", "2.5"])
@pytest.mark.parametrize("solver", ["2", "3", "4"])
def test_same_predictions_both_ways(tmp_path, labels, bias, solver):
    data, theirs, ours = tmp_path / "data", tmp_path / "theirs", tmp_path / "ours"
    X, _ = write_data(data, labels)
    subprocess.run([TRAIN, "-q", "-s", solver, "-B", bias, data, theirs], check=True)
    expected = run_predict(data, theirs, tmp_path / "out")
    model = read_liblinear(theirs)
    assert np.array_equal(model.predict(X), expected)
    write_liblinear(model, ours)
    assert np.array_equal(run_predict(data, ours, tmp_path / "out"), expected)
    again = read_liblinear(ours)
    np.testing.assert_allclose(again.coef_, model.coef_, rtol=0, atol=0)
    np.testing.assert_allclose(again.intercept_, model.intercept_, rtol=1e-15)


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
    assert again.settings == settings
    assert again.index_base == 1


@pytest.mark.parametrize("classes", [["ham", "spam"], [0.5, 1.0], [0, 2**40]])
def test_labels_that_liblinear_lacks(tmp_path, classes):
    with pytest.raises(ModelError, match="labels are integers"):
        write_liblinear(Model(np.zeros((1, 2)), np.zeros(1), np.array(classes)), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


GOOD = "solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias -1\nrho 0\nw\n0.5\n-0.25\n"


def test_newer_header_lines_are_accepted(tmp_path):
    (tmp_path / "m").write_text(GOOD)
    assert read_liblinear(tmp_path / "m").coef_.tolist() == [[0.5, -0.25]]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("L2R_LR", "L2R_L2LOSS_SVR", "not a classifier"),
        ("L2R_LR", "ONECLASS_SVM", "not a classifier"),
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
