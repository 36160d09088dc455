"""Figures of evaluate that rank rows or look at all classes alike: scikit-learn's, in memory and not."""

import warnings

import numpy as np
import pytest
from sklearn import metrics
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification

import llsvm
from llsvm.scoring.kept_scores import KeptScores

SETS = {
    "breast cancer": load_breast_cancer(return_X_y=True),
    "iris": load_iris(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "digits": load_digits(return_X_y=True),
    "many equal scores": (lambda X, y: (np.sign(X[:, :3]), y))(*make_classification(500, random_state=0)),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("multiclass", ["ovr", "crammer-singer"])
def test_figures_are_scikit_learns(name, multiclass):
    X, y = SETS[name]
    X = X / np.abs(X).max(axis=0).clip(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = llsvm.train(X[::2], y[::2], multiclass=multiclass, tol=0.01)
    answer, told = llsvm.evaluate(model, X, y), model.predict(X)
    assert answer["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(y, told), rel=1e-9)
    assert answer["matthews_corrcoef"] == pytest.approx(metrics.matthews_corrcoef(y, told), rel=1e-9)
    if len(model.classes_) > 2:
        assert "roc_auc" not in answer
        return
    scores = model.decision_function(X)
    scores = scores[:, 1] - scores[:, 0] if scores.ndim == 2 else scores
    assert answer["roc_auc"] == pytest.approx(metrics.roc_auc_score(y, scores), rel=1e-9)
    assert answer["average_precision"] == pytest.approx(metrics.average_precision_score(y, scores), rel=1e-9)


@pytest.mark.parametrize("held_bytes", [90, 9_000, 1 << 20])
def test_scores_that_do_not_fit_are_ranked_from_a_file(held_bytes):
    rng = np.random.default_rng(0)
    scores = np.round(rng.normal(size=50_000), 3)
    positive = rng.random(50_000) < 1 / (1 + np.exp(-scores))
    kept = KeptScores(held_bytes)
    for at in range(0, 50_000, 7_000):
        kept.add(scores[at : at + 7_000], positive[at : at + 7_000])
    found = kept.ranked(room_bytes=0)
    assert found.roc_auc == pytest.approx(metrics.roc_auc_score(positive, scores), rel=1e-12)
    assert found.average_precision == pytest.approx(
        metrics.average_precision_score(positive, scores), rel=1e-12
    )
    kept.close()


def test_rows_of_one_class_have_no_area():
    X, y = load_breast_cancer(return_X_y=True)
    X = X / X.max(axis=0)
    model = llsvm.train(X, y, tol=0.1)
    answer = llsvm.evaluate(model, X[y == 1], y[y == 1])
    assert not {"roc_auc", "average_precision"} & set(answer)
    assert answer["balanced_accuracy"] == answer["accuracy"]
    assert answer["matthews_corrcoef"] == 0


def test_a_full_disk_is_said(monkeypatch, tmp_path):
    def no_room(**options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", no_room)
    kept = KeptScores(9)
    with pytest.raises(
        llsvm.DiskError, match="No space left on device: the scores of the rows, 9 bytes each"
    ):
        kept.add(np.zeros(3), np.zeros(3, bool))
