"""Training from end to end: what comes back, when it stops, what it leaves."""

import subprocess
import sys

import numpy as np
import pytest
from oracle import liblinear, objective, rows, run, small_pages, write_svmlight
from sklearn.exceptions import ConvergenceWarning

import llsvm
from llsvm.data import open_source
from llsvm.dataset import DatasetInfo
from llsvm.errors import DataError, UsageError
from llsvm.training.class_weights import class_weights
from llsvm.training.training import Training


def test_train_a_file_and_load_the_model(tmp_path):
    X, y = rows(density=0.5)
    path = write_svmlight(tmp_path / "rows.svm", X, np.where(y == 1, 1, -1))
    model = llsvm.train(path, C=0.5, bias=1.0, tol=1e-4, memory_limit="2GB", output=tmp_path / "a.model")
    theirs, _ = liblinear(X, y, C=0.5, bias=1.0)
    wide = np.hstack([X, np.ones((len(X), 1))])
    coef = np.append(model.coef_[0], model.intercept_[0])
    assert objective(coef, wide, 2.0 * y - 1, np.full(len(y), 0.5)) == pytest.approx(theirs, rel=1e-4)
    assert model.certificate.total_primal == pytest.approx(theirs, rel=1e-4)
    assert model.classes_.tolist() == [-1, 1]
    assert model.index_base == 1
    again = llsvm.load(tmp_path / "a.model")
    np.testing.assert_array_equal(again.coef_, model.coef_)
    np.testing.assert_array_equal(again.decision_function(X), X @ model.coef_[0] + model.intercept_[0])
    assert sorted(p.name for p in tmp_path.iterdir() if "log" not in p.name) == ["a.model", "rows.svm"]


@pytest.mark.parametrize("max_passes", [1, 2, 3])
def test_passes_run_out(monkeypatch, tmp_path, max_passes):
    small_pages(monkeypatch)
    X, y = rows(n=500, noise=2.0)
    training = run(X, y, ledger=30_000, tol=1e-12, max_passes=max_passes)
    last = training.reports[-1]
    assert not last.converged
    assert last.passes == max(max_passes, 2)  # one pass has nothing to show but w = 0
    assert training.model.certificate.relative_gap > 1e-12
    assert [row["passes"] for row in training.model.history] == list(range(1, last.passes + 1))


def test_time_runs_out():
    X, y = rows(n=3000, noise=2.0)
    training = run(X, y, tol=1e-15, max_passes=None, max_seconds=1e-9)
    assert not training.reports[-1].converged
    assert training.model.certificate is not None


def test_not_converged_is_said(tmp_path):
    X, y = rows(n=4000, noise=2.0)
    with pytest.warns(ConvergenceWarning, match=r"not converged: relative gap .* \(asked for 1e-12\)"):
        model = llsvm.train(X, y, tol=1e-12, max_passes=2, C=100.0, solver="nesvm")
    assert not model.converged


def test_one_class_is_refused_by_name(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n1 2:1\n")
    with pytest.raises(DataError, match=r"rows\.svm: all 2 rows have the same label, 1.*one class"):
        llsvm.train(path, memory_limit="2GB")


def dataset(classes, counts):
    facts = np.array(classes), np.array(counts), True, np.dtype(float), False
    return DatasetInfo("x", sum(counts), 2, 0, 4, *facts, class_sums=np.array(counts, float))


def test_class_weights():
    known = dataset([-1.0, 1.0], [30, 10])
    np.testing.assert_allclose(class_weights(None, known), [1, 1])
    np.testing.assert_allclose(class_weights("balanced", known), [40 / 60, 2])
    np.testing.assert_allclose(class_weights({1: 5.0}, known), [1, 5])
    np.testing.assert_allclose(class_weights({"1": 5.0, "-1.0": 2}, known), [2, 5])
    with pytest.raises(UsageError, match="class weight for 7, but the classes are -1, 1"):
        class_weights({7: 1.0}, known)
    with pytest.raises(UsageError, match=r"class weight for '1=3,-1', .*; of several the option is repeated"):
        class_weights({"1=3,-1": 1.0}, known)


def test_a_model_before_the_first_pass():
    X, y = rows()
    with Training(open_source(X, y)) as training:
        training.stream.read()
        with pytest.raises(UsageError, match="no pass has been completed yet"):
            _ = training.model


CALLS = """
import os
import numpy, numba, sklearn.svm  # what takes long, once; nothing of the package
for first in ("llsvm.train", "llsvm.estimators.classifier", "llsvm"):
    child = os.fork()
    if child == 0:
        exec(f"import {first}, llsvm")
        llsvm.train([[1.0], [-1.0]], [0, 1])
        llsvm.LLSVMClassifier
        llsvm.train([[1.0], [-1.0]], [0, 1])
        raise SystemExit
    assert os.waitpid(child, 0)[1] == 0, first
"""


def test_the_function_can_be_called_whatever_was_imported_before():
    subprocess.run([sys.executable, "-c", CALLS], check=True)
