"""Probabilities and thresholds learned from held-out rows: scikit-learn's, whatever memory there is."""

import json
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from oracle import rows, small_pages, write_svmlight
from scipy.optimize import minimize
from sklearn.calibration import CalibratedClassifierCV
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, log_loss, precision_recall_curve
from sklearn.model_selection import PredefinedSplit
from sklearn.svm import LinearSVC
from test_tune import fold_numbers
from typer.testing import CliRunner

import llsvm
from llsvm.calibration.held_scores import HeldScores
from llsvm.calibration.probabilities import isotonic, platt, temperature
from llsvm.calibration.threshold import choose, rule_of
from llsvm.cli import app
from llsvm.data import open_source
from llsvm.errors import BudgetError, DataError, LLSVMWarning, ModelError, UsageError, options_as_typed
from llsvm.memory.budget import MemoryBudget
from llsvm.models.decisions import Calibration
from llsvm.models.liblinear import read_liblinear, write_liblinear
from llsvm.settings.settings import Settings
from llsvm.training.training import Training
from llsvm.tune import asked
from llsvm.tuning.run import Tuning

TWO = np.array([[-1.0, 1.0]])
PLENTY = {"threads": 1, "memory_limit": "2GB"}


def scored(n=500, seed=0, digits=None, far=1.0):
    """Scores, classes and weights of rows of two classes."""
    rng = np.random.default_rng(seed)
    f = rng.normal(size=n)
    y = (f + rng.normal(size=n) > 0.3).astype(int)
    return far * (f if digits is None else np.round(f, digits)), y, rng.integers(1, 4, n).astype(float)


def held(f, y, weight, size=100):
    """As ``HeldScores.pieces`` has them."""
    f = np.reshape(f, (len(y), -1))
    return [(y[i : i + size], f[i : i + size], weight[i : i + size]) for i in range(0, len(y), size)]


def sides(f, y, weight, size=100):
    """As ``HeldScores.of_problem`` has them."""
    signed = np.where(y == 1, weight, -weight)
    return lambda: ((f[i : i + size], signed[i : i + size]) for i in range(0, len(y), size))


def repeated(weight, *arrays):
    return [np.repeat(each, weight.astype(int), axis=0) for each in arrays]


# -- the maps --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("far", [1e-6, 1.0, 1e6])
def test_platt_is_the_optimum_and_weights_count_as_repeated_rows(far):
    f, y, weight = scored(far=far)
    (slope,), (offset,) = platt(lambda: iter(held(f, y, weight)), TWO)
    high = (weight[y == 1].sum() + 1) / (weight[y == 1].sum() + 2)
    t = np.where(y == 1, high, 1 / (weight[y == 0].sum() + 2))

    def loss(x):
        z = x[0] * f / far + x[1]
        return weight @ (np.logaddexp(0, z) - t * z)

    best = minimize(loss, np.zeros(2), tol=1e-12)
    assert loss((slope * far, offset)) <= best.fun + 1e-9
    again = platt(lambda: iter(held(*repeated(weight, f, y), np.ones(int(weight.sum())))), TWO)
    np.testing.assert_allclose(again, [[slope], [offset]], rtol=1e-7)


def test_platt_of_scores_that_separate_and_of_those_that_tell_nothing():
    y = np.repeat([0, 1], 20)
    for f in (np.repeat([-1.0, 1.0], 20), np.zeros(40), np.repeat([1e3, -1e3], 20)):
        (slope,), (offset,) = platt(lambda f=f: iter(held(f, y, np.ones(40))), TWO)
        p = 1 / (1 + np.exp(-slope * f - offset))
        wanted = np.where(y == 1, 21 / 22, 1 / 22) if f.any() else np.full(40, 0.5)  # the targets themselves
        np.testing.assert_allclose(p, wanted, rtol=1e-6)


@pytest.mark.parametrize("digits", [None, 1])
@pytest.mark.parametrize("max_rows", [10_000, 60])
def test_isotonic_is_scikit_learns_however_few_rows_are_held(digits, max_rows):
    f, y, weight = scored(digits=digits)
    knots = isotonic(sides(f, y, weight), max_rows)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(f, y, weight)
    at = np.concatenate([f, np.linspace(-5, 5, 99)])
    high = (weight[y == 1].sum() + 1) / (weight[y == 1].sum() + 2)
    low = 1 / (weight[y == 0].sum() + 2)
    np.testing.assert_allclose(np.interp(at, *knots.T), low + (high - low) * theirs.predict(at), atol=1e-12)
    again, whose = repeated(weight, f, y)
    np.testing.assert_allclose(
        isotonic(sides(again, whose, np.ones(len(whose))), max_rows), knots, atol=1e-12
    )


@pytest.mark.parametrize("far", [1e-4, 1.0, 1e5])
@pytest.mark.parametrize("classes", [2, 4])
def test_temperature_is_the_optimum(classes, far):
    rng = np.random.default_rng(0)
    y, weight = rng.integers(0, classes, 300), rng.integers(1, 4, 300).astype(float)
    f = far * (np.eye(classes)[y] + 0.7 * rng.normal(size=(300, classes)))[:, -1 if classes == 2 else 0 :]
    beta = temperature(lambda: iter(held(f, y, weight)))

    def loss(scale):
        p = Calibration("temperature", 1, (float(scale),)).probabilities(f, classes, False)
        return weight @ -np.log(p[np.arange(300), y])

    assert loss(beta) <= min(loss(beta * (1 + step)) for step in (-1e-4, 1e-4))
    again = temperature(lambda: iter(held(*repeated(weight, f, y), np.ones(int(weight.sum())))))
    assert again == pytest.approx(beta, rel=1e-8)


# -- thresholds -----------------------------------------------------------------------------------------------


def best_by_hand(f, y, weight, rule):
    """The goodness of the best of all thresholds."""
    positives, found = weight[y == 1].sum(), []
    for t in np.append(np.unique(f), f.min() - 1):
        true, false = weight[(f > t) & (y == 1)].sum(), weight[(f > t) & (y == 0)].sum()
        precision, recall = true / max(true + false, 1e-300), true / positives
        found.append(
            {
                "precision=0.8": recall if precision >= 0.8 else -1,
                "recall=0.6": precision if recall >= 0.6 else -1,
                "f1": 2 * true / (true + false + positives),
                "cost=1:3": -(false + 3 * (positives - true)),
            }[rule]
        )
    return max(found)


@pytest.mark.parametrize("rule", ["precision=0.8", "recall=0.6", "f1", "cost=1:3"])
@pytest.mark.parametrize(("digits", "max_rows"), [(None, 10_000), (None, 60), (1, 60)])
def test_a_threshold_is_the_best_of_all(rule, digits, max_rows):
    f, y, weight = scored(digits=digits)
    found = choose(sides(f, y, weight), rule_of(rule), max_rows, "rows")
    assert found["rule"] == rule
    above = f > found["value"]
    true, false = weight[above & (y == 1)].sum(), weight[above & (y == 0)].sum()
    positives = weight[y == 1].sum()
    precision, recall = true / (true + false), true / positives
    assert found["precision"] == pytest.approx(precision)
    assert found["recall"] == pytest.approx(recall)
    reached = {
        "precision=0.8": recall,
        "recall=0.6": precision,
        "f1": found["f1"],
        "cost=1:3": -(false + 3 * (positives - true)),
    }
    assert reached[rule] == pytest.approx(best_by_hand(f, y, weight, rule))
    if rule == "f1":
        p, r, _ = precision_recall_curve(y, f, sample_weight=weight)
        assert found["f1"] == pytest.approx(np.max(2 * p * r / np.maximum(p + r, 1e-300)))


def test_thresholds_at_either_end_and_those_that_are_not_there():
    f, y = np.array([3.0, 2.0, 1.0]), np.array([0, 1, 1])
    assert choose(sides(f, y, np.ones(3)), rule_of("cost=0:1"), 10, "rows")["value"] < 1
    assert choose(sides(f, y, np.ones(3)), rule_of("cost=1:0"), 10, "rows")["value"] >= 3
    with pytest.raises(DataError, match=r"no threshold has that .* the highest precision is 0\.6667"):
        choose(sides(f, y, np.ones(3)), rule_of("precision=0.7"), 10, "rows")


# -- tune -----------------------------------------------------------------------------------------------------


def theirs_of(X, y, method, C, numbers):
    svm = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-6, max_iter=1_000_000)
    made = CalibratedClassifierCV(
        svm, method={"platt": "sigmoid"}.get(method, method), cv=PredefinedSplit(numbers), ensemble=False
    )
    return made.fit(X, y)


@pytest.mark.parametrize(
    ("classes", "method"),
    [(2, "platt"), (2, "isotonic"), (2, "temperature"), (3, "platt"), (3, "isotonic"), (3, "temperature")],
)
def test_log_loss_on_other_rows_is_that_of_scikit_learn_on_the_same_folds(classes, method):
    X, y = rows(n=3000, d=4, seed=2, noise=0.6, classes=classes)
    some, other = slice(1500), slice(1500, None)
    ours = llsvm.tune(X[some], y[some], C=(0.01, 1.0), probabilities=method, tol=1e-5, **PLENTY)
    model = ours.model
    theirs = theirs_of(X[some], y[some], method, ours.best_C, fold_numbers(X[some], y[some]))
    p, q = model.predict_proba(X[other]), theirs.predict_proba(X[other])
    np.testing.assert_allclose(p, q, atol=0.03)
    assert log_loss(y[other], p) <= 1.02 * log_loss(y[other], q)
    if method == "isotonic":  # theirs has probabilities of 0 and 1, whose loss is infinite
        q = (q * len(y[some]) / classes + 1) / (len(y[some]) / classes + 2)
    assert log_loss(y[other], p) == pytest.approx(
        log_loss(y[other], q / q.sum(axis=1, keepdims=True)), rel=0.02
    )
    figures = llsvm.evaluate(model, X[other], y[other])
    assert figures["log_loss"] == pytest.approx(log_loss(y[other], p), rel=1e-9)
    assert sum(each["rows"] for each in figures["reliability"]) == 1500
    if classes == 2:
        assert figures["brier_score"] == pytest.approx(brier_score_loss(y[other], p[:, 1]), rel=1e-9)
        last = figures["reliability"][-1]
        high = p[:, 1] >= last["below"] - 0.1
        assert (last["rows"], last["share"]) == (high.sum(), pytest.approx(y[other][high].mean()))


@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_pairs_are_coupled(method):
    X, y = rows(n=600, d=4, seed=2, noise=0.6, classes=3)
    model = llsvm.tune(X, y, C=(0.01, 1.0), multiclass="ovo", probabilities=method, **PLENTY).model
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    other = llsvm.tune(X, y, C=(0.01, 1.0), probabilities=method, **PLENTY).model
    assert log_loss(y, p) < 1.01 * log_loss(y, other.predict_proba(X))
    assert (p.argmax(axis=1) == model.predict(X)).mean() > 0.9


@pytest.mark.parametrize("method", ["platt", "isotonic", "temperature"])
def test_weighted_rows_behave_as_repeated_ones(method):
    X, y = rows(n=600, d=4, seed=2, noise=0.6)
    weight = np.random.default_rng(0).integers(0, 4, 600).astype(float)
    models = []
    for whole in ((X, y, weight), repeated(weight, X, y, np.ones(600))):
        half = int(weight[:300].sum()) if len(whole[1]) > 600 else 300
        train = partial(open_source, *(each[:half] for each in whole))
        other = open_source(*(each[half:] for each in whole))
        settings = Settings(tol=1e-9, threads=1)
        question = asked([settings], (0.01, 1.0), 2, None, None, None, "best", train(), None, method, "f1")
        question = replace(question, folds=0, validation=lambda model, other=other: other)
        with Training(train(), settings, budget=MemoryBudget(100_000_000, 0)) as training:
            tuning = Tuning(training, question)
            tuning.run()
            models.append(tuning.model)
    one, two = models
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-4)
    assert one.threshold == pytest.approx(two.threshold, abs=1e-4)


def calibrated(X, y, ledger=None):
    settings = Settings(threads=1, tol=1e-6)
    opened = partial(open_source, X, y)
    source = opened()
    question = asked(
        [settings], (0.01, 1.0), 5, None, None, None, "best", source, lambda _: opened(), "platt", "f1"
    )
    with Training(source, settings, budget=MemoryBudget(ledger or 100_000_000, 0)) as training:
        tuning = Tuning(training, question)
        tuning.run()
        return tuning.model


def test_scores_and_weights_on_disk_give_the_same(monkeypatch):
    small_pages(monkeypatch)
    X, y = rows(n=1000, d=4, seed=5, noise=0.6)
    in_memory, made = [], HeldScores.__init__

    def watched(self, *args, **options):
        made(self, *args, **options)
        in_memory.append(self.in_memory)

    monkeypatch.setattr(HeldScores, "__init__", watched)
    one, two = calibrated(X, y), calibrated(X, y, ledger=80_000)
    assert in_memory == [True, False]
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=2e-3)
    assert one.threshold == pytest.approx(two.threshold, abs=2e-3)


# -- the model ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibration")
    X, y = rows(n=400, d=4, seed=5, noise=0.6)
    data = write_svmlight(folder / "rows.svm", X, y)
    model = folder / "m"
    words = ["tune", data, "--model", model, "-C", "0.01,1", "--probabilities", "isotonic"]
    done = CliRunner().invoke(app, [str(word) for word in [*words, "--threshold", "recall=0.9"]])
    assert done.exit_code == 0, done.stderr
    assert "probabilities by the scores of held-out rows: isotonic" in done.stdout
    assert "chosen for recall=0.9" in done.stdout
    return X, y, data, model


def test_the_command_line_predicts_and_evaluates(files, tmp_path):
    X, y, data, path = files
    model = llsvm.load(path)
    done = CliRunner().invoke(app, ["predict", str(path), str(data), "--probabilities"])
    table = np.array([line.split("\t") for line in done.stdout.splitlines()], float)
    np.testing.assert_allclose(table[:, 1:], model.predict_proba(X), rtol=1e-12)
    np.testing.assert_array_equal(table[:, 0], model.predict(X))
    np.testing.assert_array_equal(table[:, 0], model.decision_function(X) > model.threshold)
    assert np.mean(table[y == 1, 0]) == pytest.approx(0.9, abs=0.03)
    plot = tmp_path / "reliable.png"
    shown = CliRunner().invoke(app, ["evaluate", str(path), str(data), "--plot", str(plot)])
    assert "Brier score" in shown.stdout
    assert "1 where the score is above" in shown.stdout
    assert plot.stat().st_size > 10_000
    found = json.loads(CliRunner().invoke(app, ["evaluate", str(path), str(data), "--json"]).stdout)
    assert found["threshold"]["rule"] == "recall=0.9"
    assert found["log_loss"] == pytest.approx(log_loss(y, model.predict_proba(X)))


def test_an_export_has_the_threshold_and_says_that_it_has_no_probabilities(files, tmp_path):
    X, _, _, path = files
    model = llsvm.load(path)
    with pytest.warns(LLSVMWarning, match="no place for the probabilities that this model has learned"):
        write_liblinear(model, tmp_path / "m.txt")
    np.testing.assert_array_equal(read_liblinear(tmp_path / "m.txt").predict(X), model.predict(X))


@pytest.mark.parametrize(
    "change",
    [
        {"calibration": {"method": "platt"}},
        {"calibration": {"method": "best", "n_rows": 1, "slopes": [], "offsets": [], "ends": []}},
        {"calibration": {"method": "platt", "n_rows": 1, "slopes": [1.0], "offsets": [], "ends": []}},
        {"calibration": {"method": "isotonic", "n_rows": 1, "slopes": [], "offsets": [], "ends": [9]}},
        {"calibration_knots": np.zeros((3, 1))},
        {"calibration_knots": np.array([[0.0, np.nan]])},
        {"threshold": {"value": "1"}},
    ],
)
def test_what_is_damaged_is_refused(files, change):
    model = llsvm.load(files[3])
    with pytest.raises(ModelError, match=r"calibration is damaged|threshold"):
        llsvm.Model(model.coef_, model.intercept_, model.classes_, extra=model.extra | change)


# -- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probabilities": "plat"}, "did you mean platt"),
        ({"probabilities": "platt", "loss": "huber"}, "is for classes"),
        ({"threshold": "f1", "loss": "huber"}, "is for classes"),
        ({"threshold": "f2"}, "write precision=0.9, recall=0.9, f1, cost=FP:FN"),
        ({"threshold": "precision=0"}, "with a share above 0"),
        ({"threshold": "cost=1"}, "what a false positive"),
        ({"threshold": "cost=-1:2"}, "what a false positive"),
        ({"probabilities": "temperature", "multiclass": "ovo"}, "take platt or isotonic"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(options, message):
    X, y = rows(n=40)
    with pytest.raises(UsageError) as caught:
        llsvm.tune(X, y, **options)
    assert message in str(caught.value)


def test_a_threshold_is_for_two_classes():
    X, y = rows(n=100, classes=3)
    with pytest.raises(DataError, match="threshold is for two classes, and there are 3"):
        llsvm.tune(X, y, C=(0.1, 1.0), threshold="f1")


def test_held_out_rows_without_a_weight_tell_nothing(tmp_path):
    """The remedy names what made the held-out rows, as whoever asked has it."""
    X, y = rows(n=100)
    y = np.where(np.arange(100) % 3 == 0, 2, y)
    weight = (y != 1) * 1.0  # of the others there are two classes to train on
    answers = {
        "nothing tells its probabilities: give its rows a weight, or ask for other folds": lambda: llsvm.tune(
            X, y, C=(0.1, 1.0), probabilities="platt", sample_weight=weight
        ),
        "nothing tells its probabilities: give its rows a weight, or ask for other cv": lambda: (
            llsvm.LLSVMClassifierCV(Cs=[0.1, 1.0], probabilities="platt").fit(X, y, sample_weight=weight)
        ),
        "nothing tells its probabilities: ask for a larger holdout": lambda: llsvm.tune(
            X, y, C=(0.1, 1.0), probabilities="platt", holdout=0.1, sample_weight=weight
        ),
        "nothing tells its probabilities: give other validation data": lambda: llsvm.tune(
            X, y, C=(0.1, 1.0), probabilities="platt", validation=(X[y != 1], y[y != 1])
        ),
    }
    for said, ask in answers.items():
        with pytest.raises(DataError) as refused:
            ask()
        assert str(refused.value).endswith(said)
        assert "no held-out row with a weight is of class 1" in str(refused.value)
    with options_as_typed(), pytest.raises(DataError, match="or ask for other --folds"):
        llsvm.tune(X, y, C=(0.1, 1.0), probabilities="platt", sample_weight=weight)


def test_the_smallest_limit_counts_the_library_of_isotonic_regression(monkeypatch):
    monkeypatch.delitem(sys.modules, "scipy.optimize")
    X, y = rows(n=300, d=4, seed=5, noise=0.6)

    def run(method, nbytes):
        source, settings = open_source(X, y), Settings(threads=1)
        question = asked([settings], (0.01, 1.0), 5, None, None, None, "best", source, None, method)
        with Training(source, settings, budget=MemoryBudget(nbytes, 0)) as training:
            Tuning(training, question).run()

    smallest = {}
    for method, nbytes in (("platt", 10_000), ("isotonic", 10_000), ("isotonic", 32_010_000)):
        with pytest.raises(BudgetError) as caught:
            run(method, nbytes)
        smallest[method, nbytes] = caught.value.smallest_bytes
    assert smallest["isotonic", 32_010_000] == smallest["platt", 10_000] + 32_000_000
    assert smallest["isotonic", 10_000] == smallest["isotonic", 32_010_000]
    run("isotonic", smallest["isotonic", 10_000])
