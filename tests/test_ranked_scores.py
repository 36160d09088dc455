"""Figures of evaluate that rank rows or look at all classes alike: scikit-learn's, in memory and not."""

import warnings

import numpy as np
import pyarrow as pa
import pytest
from pyarrow.csv import write_csv
from sklearn import metrics
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification

import llsvm
from llsvm.scoring.ranking import Areas, ScoreSpool, SpoolFile, Thresholds

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


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_count_as_scikit_learns_sample_weight(name, weighted, monkeypatch):
    """Some are 0, and scores go to a file."""
    monkeypatch.setattr("llsvm.scoring.measure.SpoolFile", lambda: SpoolFile(600))
    X, y = SETS[name]
    X = X / np.abs(X).max(axis=0).clip(1)
    model = llsvm.train(X[::2], y[::2], loss="logistic", tol=0.01)
    w = np.random.default_rng(0).integers(0, 7, len(y)) / 4 if weighted else None
    answer, told, p = llsvm.evaluate(model, X, y, w), model.predict(X), model.predict_proba(X)
    theirs = {"y_true": y, "y_pred": told, "sample_weight": w}
    for ours, metric in (
        ("accuracy", metrics.accuracy_score),
        ("balanced_accuracy", metrics.balanced_accuracy_score),
        ("matthews_corrcoef", metrics.matthews_corrcoef),
    ):
        assert answer[ours] == pytest.approx(metric(**theirs), rel=1e-9)
    precision, recall, f1, support = metrics.precision_recall_fscore_support(**theirs, zero_division=0)
    expected = zip(precision, recall, f1, support, strict=True)
    for each, of_class in zip(answer["classes"], expected, strict=True):
        assert [each[k] for k in ("precision", "recall", "f1", "support")] == pytest.approx(
            of_class, rel=1e-9
        )
    assert answer["log_loss"] == pytest.approx(metrics.log_loss(y, p, sample_weight=w), rel=1e-9)
    assert answer["confusion"]["counts"] == pytest.approx(metrics.confusion_matrix(y, told, sample_weight=w))
    squares = ((np.eye(len(model.classes_))[np.searchsorted(model.classes_, y)] - p) ** 2).sum(axis=1)
    brier = np.average(squares, weights=w) / (2 if len(model.classes_) == 2 else 1)
    assert answer["brier_score"] == pytest.approx(brier, rel=1e-9)
    assert (answer.get("weight"), answer["rows"]) == (None if w is None else w.sum(), len(y))
    if len(model.classes_) == 2:
        scores = model.decision_function(X)
        for ours, ranking in (
            ("roc_auc", metrics.roc_auc_score),
            ("average_precision", metrics.average_precision_score),
        ):
            assert answer[ours] == pytest.approx(ranking(y, scores, sample_weight=w), rel=1e-9)


def test_weights_of_a_regression_and_of_files(tmp_path):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(90, 2)).astype(np.float32)
    y, w = rng.normal(size=90).astype(np.float32), rng.integers(0, 5, 90) / 2
    frame = pa.table({"a": features[:, 0], "b": features[:, 1], "target": y, "w": w})
    write_csv(frame, tmp_path / "rows.csv")
    model = llsvm.train(frame.drop(["w"]), label="target", loss="squared_epsilon_insensitive")
    told = llsvm.predict(model, features)
    answer = llsvm.evaluate(model, features, y, w)
    for ours, metric in (
        ("r2", metrics.r2_score),
        ("mean_absolute_error", metrics.mean_absolute_error),
        ("mean_squared_error", metrics.mean_squared_error),
    ):
        expected = metric(y.astype(float), told, sample_weight=w)
        assert answer[ours] == pytest.approx(expected, rel=1e-9)
    for data in (tmp_path / "rows.csv", frame):
        of_data = llsvm.evaluate(model, data, label="target", weight="w")
        assert of_data == {name: pytest.approx(value, rel=1e-6) for name, value in answer.items()}
    some = llsvm.evaluate(model, frame, label="target", where="w > 1")
    assert some["rows"] == (w > 1).sum()
    with pytest.raises(llsvm.DataError, match="there is no column 'nothing' \\(weight\\)"):
        llsvm.evaluate(model, tmp_path / "rows.csv", label="target", weight="nothing")
    with pytest.raises(llsvm.DataError, match="all 90 rows have the weight 0"):
        llsvm.evaluate(model, features, y, np.zeros(90))
    with pytest.raises(llsvm.UsageError, match="thresholds is for models of two classes"):
        llsvm.evaluate(model, frame, label="target", thresholds=5)


@pytest.mark.parametrize("held_bytes", [90, 9_000, 1 << 20])
def test_scores_that_do_not_fit_are_ranked_from_a_file(held_bytes):
    rng = np.random.default_rng(0)
    scores = np.round(rng.normal(size=50_000), 3)
    positive = rng.random(50_000) < 1 / (1 + np.exp(-scores))
    weight = rng.integers(1, 9, 50_000).astype(np.float32) / 3
    signed = np.where(positive, weight, -weight)
    store = SpoolFile(held_bytes)
    kept = ScoreSpool(store)
    for at in range(0, 50_000, 7_000):
        kept.add(scores[at : at + 7_000], signed[at : at + 7_000])
    table = Thresholds(7, *(float(weight[each].sum(dtype=float)) for each in (positive, ~positive)))
    found = Areas()
    kept.rank(0, found, table)
    weighted = {"sample_weight": weight}
    assert found.roc_auc == pytest.approx(metrics.roc_auc_score(positive, scores, **weighted), rel=1e-9)
    assert found.average_precision == pytest.approx(
        metrics.average_precision_score(positive, scores, **weighted), rel=1e-9
    )
    precision, recall, thresholds = metrics.precision_recall_curve(positive, scores, **weighted)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
    rows = table.answer()
    assert len(rows) == 8
    assert max(row["f1"] for row in rows) == pytest.approx(f1.max(), rel=1e-9)
    for row in rows:
        at = np.flatnonzero(thresholds == row["threshold"])[0]
        expected = precision[at], recall[at], f1[at], weight[scores >= thresholds[at]].sum() / weight.sum()
        told = [row[name] for name in ("precision", "recall", "f1", "predicted_positive")]
        assert told == pytest.approx(expected, rel=1e-6)
    store.close()


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
    kept = ScoreSpool(SpoolFile(12))
    with pytest.raises(
        llsvm.DiskError, match="No space left on device: the scores of the rows, 12 bytes each"
    ):
        kept.add(np.zeros(3), np.ones(3, np.float32))
