"""C chosen by scores that are functions, and scorers, of the caller's."""

import numpy as np
import pytest
from oracle import rows
from sklearn.metrics import (
    cohen_kappa_score,
    f1_score,
    get_scorer,
    make_scorer,
    max_error,
    mean_squared_error,
    median_absolute_error,
)
from test_tune import fold_numbers

import llsvm
from llsvm import LLSVMClassifierCV, LLSVMRegressorCV
from llsvm.errors import DataError, UsageError

COSTS = (0.01, 1.0)
X, _ = rows(n=60, d=6, seed=1)
TWO = np.where(X[:, 0] + 0.3 * X[:, 1] > 0, 1, -1)
THREE = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
NUMBERS = 100 * X[:, 0] + 1000


def table_of(score, y, **options):
    """(folds, costs) scores, and who left each row out."""
    found = llsvm.tune(X, y, C=COSTS, score=score, **options)
    return np.array([row["scores"] for row in found.table]).T, found


@pytest.mark.parametrize(
    "name", ["accuracy", "roc_auc", "log_loss", "balanced_accuracy", "average_precision"]
)
def test_scorers_say_what_our_scores_say(name):
    """The same rows with the same models."""
    options = {"loss": "logistic"} if name == "log_loss" else {}
    ours, _ = table_of(name, TWO, **options)
    theirs, found = table_of(get_scorer("neg_log_loss" if name == "log_loss" else name), TWO, **options)
    np.testing.assert_allclose(np.abs(theirs), ours, rtol=1e-12)
    assert found.best_C == llsvm.tune(X, TWO, C=COSTS, score=name, **options).best_C


@pytest.mark.parametrize("form", ["ovr", "ovo"])
def test_functions_of_labels_and_predictions(form):
    seen = []

    def share(true, predicted):
        seen.append((true, predicted))
        return float(np.mean(true == predicted))

    ours, _ = table_of("accuracy", THREE, multiclass=form)
    theirs, found = table_of(share, THREE, multiclass=form)
    np.testing.assert_array_equal(theirs, ours)
    assert found.score == "share"
    numbers = fold_numbers(X, THREE)
    for fold, (true, predicted) in enumerate(seen[:: len(COSTS)]):
        np.testing.assert_array_equal(true, THREE[numbers == fold])
        assert set(predicted) <= set(THREE)
    kappa, _ = table_of(cohen_kappa_score, THREE)
    again, _ = table_of(make_scorer(cohen_kappa_score), THREE)
    np.testing.assert_array_equal(kappa, again)


def test_scores_of_numbers_are_of_raw_targets():
    ours, _ = table_of("mse", NUMBERS, loss="huber", target_scale="standard", scale="standard")
    options = {"loss": "huber", "target_scale": "standard", "scale": "standard"}
    theirs, found = table_of(make_scorer(mean_squared_error, greater_is_better=False), NUMBERS, **options)
    np.testing.assert_allclose(-theirs, ours, rtol=1e-9)
    assert found.best_C == llsvm.tune(X, NUMBERS, C=COSTS, score="mse", **options).best_C


def test_estimators_and_any_function_of_an_estimator():
    def positives(estimator, X, y):
        assert np.array_equal(np.sort(estimator.classes_), np.unique(TWO))
        return float(np.mean(estimator.decision_function(X) > 0))

    by_function = LLSVMClassifierCV(COSTS, scoring=positives, random_state=0).fit(X, TWO)
    assert by_function.scores_.shape == (5, 2)
    # the mean of both classes, not f1 of the second
    named = LLSVMClassifierCV(COSTS, scoring="f1_macro", random_state=0).fit(X, TWO)
    own = LLSVMClassifierCV(COSTS, scoring=make_scorer(f1_score, average="macro"), random_state=0).fit(X, TWO)
    np.testing.assert_array_equal(named.scores_, own.scores_)
    second = LLSVMClassifierCV(COSTS, scoring="f1", random_state=0).fit(X, TWO)
    assert (second.scores_ != named.scores_).any()
    regressor = LLSVMRegressorCV(COSTS, scoring="neg_median_absolute_error", random_state=0).fit(X, NUMBERS)
    assert (regressor.scores_ <= 0).all()


def test_other_data_are_scored_too():
    found = llsvm.tune(X, THREE, C=COSTS, validation=(X[:20], THREE[:20]), score=cohen_kappa_score)
    ours = llsvm.tune(X, THREE, C=COSTS, validation=(X[:20], THREE[:20]))
    assert [row["gaps"] for row in found.table] == [row["gaps"] for row in ours.table]
    predicted = llsvm.train(X, THREE, C=COSTS[1], tol=1e-3).predict(X[:20])
    assert found.table[1]["scores"] == [pytest.approx(cohen_kappa_score(THREE[:20], predicted), abs=0.1)]


@pytest.mark.parametrize(
    ("score", "options", "message"),
    [
        (
            max_error,
            {"loss": "huber"},
            r"an error: pass make_scorer\(max_error, greater_is_better=False",
        ),
        (median_absolute_error, {"loss": "huber"}, "seems to be an error"),
        (lambda true, predicted: "good", {}, "gave 'good'; it must give a number"),
        (cohen_kappa_score, {"race": True}, "race drops what the best possible score"),
        (get_scorer("neg_log_loss"), {}, "needs probabilities.*pass loss logistic"),
    ],
)
def test_what_is_no_score_is_refused(score, options, message):
    with pytest.raises(UsageError, match=message):
        llsvm.tune(X, NUMBERS if "loss" in options else TWO, C=COSTS, score=score, **options)


def test_weights_count_where_the_function_takes_them():
    weight = np.arange(60) % 3
    seen = []

    def share(true, predicted, sample_weight=None):
        seen.append((len(true), sample_weight))
        return float(np.average(true == predicted, weights=sample_weight))

    numbers = fold_numbers(X, TWO)
    table, _ = table_of(share, TWO, sample_weight=weight)
    for fold, (n, own) in enumerate(seen[:: len(COSTS)]):
        expected = weight[numbers == fold]
        np.testing.assert_array_equal(own, expected[expected > 0])
        assert n == len(own)
    scorer, _ = table_of(get_scorer("accuracy"), TWO, sample_weight=weight)
    np.testing.assert_array_equal(scorer, table)
    table_of(lambda true, predicted: float(len(true)), TWO, sample_weight=weight)


def test_validation_data_may_be_whatever_has_labels_in_a_column(tmp_path):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"x": rng.normal(size=150), "town": ["Lima", "Oslo", "Rome"] * 50})
    frame["y"] = np.where(frame["x"] + rng.normal(size=150) > 0, "no", "yes")
    trained, held_out = frame[:100], frame[100:]
    held_out.to_csv(tmp_path / "rows.csv", index=False)
    wanted = llsvm.tune(trained, label="y", C=COSTS, validation=str(tmp_path / "rows.csv"))
    polars = pl.from_pandas(held_out)
    X = held_out[["x", "town"]]
    for given in (
        held_out,
        polars,
        polars.lazy(),
        lambda: [polars.to_arrow()],
        (X, held_out["y"]),
        (held_out, None),
    ):
        found = llsvm.tune(trained, label="y", C=COSTS, validation=given)
        assert (found.best_C, found.best_score) == (wanted.best_C, wanted.best_score)
    for given in (held_out.to_numpy(), (X, held_out["y"], None)):
        with pytest.raises(UsageError, match=r"validation must be files, \(X, y\), or a data frame"):
            llsvm.tune(trained, label="y", C=COSTS, validation=given)
    with pytest.raises(DataError, match=r"np\.ravel"):
        llsvm.tune(trained, label="y", C=COSTS, validation=(X, held_out[["y"]]))
