"""``verify`` of what was trained on raw columns, values of 5e4 and far from 0.

Whatever 64-bit sums lose there, a model just trained holds, and a claim that is off by a little more does not."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import llsvm
from llsvm import UsageError
from llsvm.settings.settings import Settings
from llsvm.verification.claim import TOLERANCE, measure_objectives
from llsvm.verification.rows import rows_of, settings_of

RNG = np.random.default_rng(0)
N = 50
AGE, INCOME = RNG.integers(18, 81, N).astype(float), np.round(RNG.normal(5e4, 12e3, N), 2)
TOWN = RNG.integers(0, 2, N)
RAW = np.c_[AGE, INCOME, TOWN, 1 - TOWN]
FAR = np.c_[AGE * 1.1 + 1e9, INCOME / 1e3 - 1e8, TOWN]
OFFSET = np.c_[AGE * 1.1 + 1e6, INCOME / 1e3 + 1e6, TOWN]
SCORE = AGE / 30 + INCOME / 25e3 + RNG.normal(size=N)
Y, Y3, NUMBERS = (
    (np.median(SCORE) < SCORE).astype(int),
    np.digitize(SCORE, np.quantile(SCORE, [0.33, 0.67])),
    40.0 * SCORE + 900.0,
)
WEIGHTS = RNG.uniform(0.2, 3.0, N)

CLASSES = ("hinge", "squared_hinge", "least-squares", "logistic")
NUMERIC = ("epsilon_insensitive", "squared_epsilon_insensitive", "quantile", "huber")
MANY = [{"multiclass": form} for form in ("ovr", "ovo", "crammer-singer", "weston-watkins")] + [
    {"multiclass": "softmax", "loss": "logistic"}
]
INTERCEPTS = ({}, {"bias": 1.0}, {"intercept": True})
CASES = [
    *(
        {"loss": loss, "solver": solver}
        for loss in CLASSES + NUMERIC
        for solver in ("llsvm", "smsvm", "nesvm")
    ),
    *(
        {"loss": loss, "solver": "smsvm", "penalty": penalty}
        for loss in CLASSES
        for penalty in ("l1", "elasticnet")
    ),
    *MANY,
    {"loss": "one_class", "nu": 0.3},
    *(
        {"loss": loss, "solver": solver, **kernel}
        for kernel in (
            {"kernel": "rbf"},
            {"kernel": "poly", "gamma": 1e-10, "degree": 2},
            {"kernel": "linear", "C": 1e-9},
        )
        for loss in CLASSES[:3]
        for solver in ("smo", "nesvm")
    ),
    {"kernel": "rbf", "multiclass": "ovo"},
    *(
        {"feature_map": kind, "components": 10, "loss": loss}
        for kind in ("rff", "nystroem")
        for loss in CLASSES
    ),
    {"feature_map": "nystroem", "components": 10, "loss": "squared_hinge", "penalty": "l1"},
]


SLOW = [
    each for each in CASES if each.get("kernel") not in ("poly", "linear")
]  # whose values are too large there


def labels_of(options):
    if options.get("loss") in NUMERIC:
        return NUMBERS
    return None if options.get("loss") == "one_class" else Y3 if "multiclass" in options else Y


def trained(X, options, folder=None, weight=WEIGHTS, max_passes=4):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few of these converge
        return llsvm.train(
            X,
            labels_of(options),
            sample_weight=weight,
            state=folder,
            threads=1,
            max_passes=max_passes,
            **options,
        )


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        *(("raw", options) for options in CASES),
        *(
            pytest.param(("offset", "far")[(i + i // 2) % 2], each, marks=pytest.mark.slow)
            for i, each in enumerate(SLOW)
        ),
    ],
    ids=lambda given: given if isinstance(given, str) else " ".join(map(str, given.values())),
)
def test_a_model_just_trained_holds(columns, options, tmp_path):
    X = {"raw": RAW, "offset": OFFSET, "far": FAR}[columns]
    for number, more in enumerate(INTERCEPTS if columns == "raw" else INTERCEPTS[-1:]):
        try:
            model = trained(X, options | more, tmp_path / str(number))
        except UsageError:  # of an intercept
            continue
        found = llsvm.verify(model, X, labels_of(options), WEIGHTS, state=tmp_path / str(number))
        assert found["differences"] == []


@pytest.mark.parametrize(
    ("options", "intercept"),
    [*((each, False) for each in MANY), *(({"loss": each}, True) for each in CLASSES)],
    ids=str,
)
def test_a_model_of_weights_of_all_sizes_holds(options, intercept, tmp_path):
    """The heaviest rows are all but certain: losses, entropies and p − 1 of 1e-15 times 1e36 are the objective."""
    rng = np.random.default_rng(5)
    X = (RAW - RAW.mean(axis=0)) / RAW.std(axis=0)
    large, small = 10.0 ** rng.uniform(-40, 36, N), 10.0 ** rng.uniform(-40, -20, N)
    for number, (weight, cost, passes) in enumerate([(large, 1.0, 30), (small, 1e50, 4), (small, 1e50, 30)]):
        folder = tmp_path / str(number)
        try:
            model = trained(X, options | {"C": cost, "intercept": intercept}, folder, weight, passes)
        except UsageError:  # of an intercept
            return
        found = llsvm.verify(model, X, labels_of(options), weight, state=folder)
        assert found["differences"] == []


@pytest.mark.parametrize(("seed", "max_passes"), [(23, 30), (55, 8)])
def test_what_is_certified_of_weights_of_all_sizes_is_of_the_weights_handed_back(seed, max_passes):
    """Whatever weights a step came from, and however much larger the squares of dual variables are than these."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(20, 120)), int(rng.integers(1, 8))
    X = rng.normal(size=(n, d))
    y = (X.sum(axis=1) + rng.normal(size=n) > 0).astype(int)
    weight = 10.0 ** rng.uniform(-40, 36, n)
    loss = str(rng.choice(["hinge", "squared_hinge", "logistic"], p=[0.7, 0.2, 0.1]))
    options = {"loss": loss, "solver": "smsvm", "intercept": bool(rng.random() < 0.7)}
    options |= {"C": float(10.0 ** rng.choice([0, rng.uniform(-3, 3)]))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not all converge
        model = llsvm.train(X, y, sample_weight=weight, threads=1, max_passes=max_passes, **options)
    assert llsvm.verify(model, X, y, weight)["differences"] == []


def test_softmax_weights_of_far_columns_sum_to_0():
    """What all classes' weights share changes no loss: of two classes a model has the difference alone."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(N, 2)) + 8.4e6
    y = (X.sum(axis=1) + rng.normal(size=N) > 16.8e6).astype(int)
    with pytest.warns(ConvergenceWarning):
        model = llsvm.train(X, y, multiclass="softmax", loss="logistic", bias=1.0, threads=1, max_passes=4)
    assert llsvm.verify(model, X, y)["differences"] == []


@pytest.mark.parametrize("scale", ["none", "standard", "minmax", "maxabs", "unit-row"])
@pytest.mark.parametrize(
    "columns", [RAW, FAR, np.c_[1e16 + 2.0 * TOWN, 1.0 + AGE]], ids=["raw", "far", "close"]
)
def test_a_one_class_model_of_scaled_columns_holds(columns, scale):
    model = trained(columns, {"loss": "one_class", "nu": 0.3, "scale": scale})
    assert llsvm.verify(model, columns, sample_weight=WEIGHTS)["differences"] == []
    if model.certificate.primal[0] != 0.0:
        model.coef_ *= 1.01
        assert not llsvm.verify(model, columns, sample_weight=WEIGHTS)["holds"]


def test_of_weights_with_the_same_primal_the_dual_point_is_not_another_one_s(tmp_path):
    """A pass that finds a better dual, at other weights with the very same primal."""
    X = (RAW - RAW.mean(axis=0)) / RAW.std(axis=0)
    options = {"loss": "logistic", "penalty": "l1", "intercept": True, "C": 1e4, "tol": 1e-6}
    model = llsvm.train(X, Y, state=tmp_path, **options)
    assert llsvm.verify(model, X, Y, state=tmp_path)["differences"] == []


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "rbf"},
        {"kernel": "poly", "degree": 2, "gamma": 1e-10, "loss": "squared_hinge"},
        {"loss": "squared_hinge", "C": 1e4},
        {"multiclass": "crammer-singer"},
    ],
    ids=str,
)
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_claim_that_is_off_by_more_is_refuted(options, side):
    model = trained(RAW, options)
    settings, y = settings_of(model, Settings(threads=1)), labels_of(options)
    with rows_of(model, settings, RAW, y, WEIGHTS) as stream:
        found = measure_objectives(model, settings, stream)
    allowed = TOLERANCE * found.primal[0] + 2.0 * found.rounding[0]
    assert found.rounding[0] < 1e-5 * found.primal[0]
    for share, holds in ((0.99, True), (1.01, False)):
        primal = (float(found.primal[0] + side * share * allowed), *model.certificate.primal[1:])
        model.certificate = replace(model.certificate, primal=primal)
        said = llsvm.verify(model, RAW, y, WEIGHTS)["differences"]
        assert any(each.startswith("the primal") for each in said) != holds


def test_a_kernel_machine_s_primal_is_that_of_its_decisions():
    """What rounding may have hidden stands beside it."""
    model = trained(RAW, {"kernel": "rbf", "intercept": True}, weight=None)
    margins = np.where(Y == 1, 1, -1) * model.decision_function(RAW)
    beta, Z = model.coef_[0], np.asarray(model.feature_map.landmarks)
    K = np.exp(-0.25 * ((Z[:, None] - Z) ** 2).sum(axis=2))
    primal = 0.5 * beta @ K @ beta + np.maximum(0.0, 1.0 - margins).sum()
    assert model.certificate.primal[0] == pytest.approx(primal, rel=1e-8)
    assert model.certificate.rounding[0] > 1e-6


@pytest.mark.parametrize("solver", ["llsvm", "smsvm"])
@pytest.mark.parametrize("cost", [1e14, 1e18])
def test_logistic_rows_that_are_all_but_certain_hold(solver, cost, tmp_path):
    """α/C is below 1e-15: the entropy of 1 − α/C, by which it is less than 1, is a few percent of the dual."""
    X = np.random.default_rng(3).normal(size=(8, 15))
    y = np.arange(8) % 2
    options = {"loss": "logistic", "solver": solver, "C": cost, "tol": 1e-3, "threads": 1}
    model = llsvm.train(X, y, state=tmp_path, **options)
    assert model.converged
    found = llsvm.verify(model, X, y, state=tmp_path)
    assert found["differences"] == []
    assert found["dual"] == pytest.approx(model.certificate.total_dual, rel=1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "options",
    [
        {"loss": "quantile", "solver": "smsvm", "intercept": True},
        {"loss": "epsilon_insensitive", "epsilon": 1e-6, "scale": "standard", "bias": 1.0},
        {"loss": "epsilon_insensitive", "epsilon": 1e-6, "feature_map": "rff", "components": 20, "bias": 1.0},
    ],
    ids=lambda options: options.get("feature_map") or options["loss"],
)
def test_targets_far_from_0_beside_their_spread_hold(options):
    """The intercept of the model is for targets as they are, and has fewer digits than the one that was trained."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(8, 15))
    y = 1e7 + 1e-2 * rng.normal(size=8)
    settings = {"target_scale": "standard", "C": 1e6, "tol": 1e-9, "max_passes": 30, "threads": 1} | options
    model = llsvm.train(X, y, **settings)
    assert llsvm.verify(model, X, y)["differences"] == []


def test_targets_far_from_0_of_which_a_free_intercept_leaves_little(tmp_path):
    """Σ α_i t_i is of terms of 1e6, and less than 1."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(120, 6)), 1e6 * (rng.normal(size=120) + 1e7)
    options = {"loss": "huber", "delta": 1e-6, "solver": "smsvm", "penalty": "l1", "intercept": True}
    model = llsvm.train(X, y, C=0.005, max_passes=10, threads=1, state=tmp_path, **options)
    assert llsvm.verify(model, X, y, state=tmp_path)["differences"] == []


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("shift", [0.0, 1e-4])
def test_a_dual_that_the_digits_of_scores_decide_is_not_held_against_the_model(tmp_path, shift):
    """Costs 1e6 times a score's last digit: what a free intercept balances is noise. It is said, and the primal is
    checked nevertheless."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(8, 15))
    X[:, 0] = 0.0
    y, weight = 1e7 + rng.normal(size=8), 10.0 ** rng.uniform(-22, 17, 8)
    options = {"loss": "huber", "C": 2e-11, "intercept": True, "target_scale": "standard", "max_passes": 10}
    model = llsvm.train(X, y, sample_weight=weight, tol=1e-6, threads=1, state=tmp_path, **options)
    model.intercept_ = model.intercept_ + shift
    found = llsvm.verify(model, X, y, weight, state=tmp_path)
    assert found["holds"] == (shift == 0.0)
    if not shift:
        assert "digits of scores" in found["not_checked"]
        assert found["dual"] is None
        assert found["relative_gap"] == pytest.approx(model.certificate.relative_gap, rel=1e-3)


@pytest.mark.parametrize(
    "options",
    [
        {"penalty": "l1"},
        {"loss": "quantile", "solver": "llsvm"},
        {"multiclass": "ovo"},
        {"multiclass": "crammer-singer"},
        {"multiclass": "softmax", "loss": "logistic"},
    ],
)
def test_rows_of_weight_0_may_have_any_values(options, tmp_path):
    """They are no rows to the scale, so that what it makes of them may be too large for products."""
    X, weight, state = OFFSET.copy(), WEIGHTS.copy(), tmp_path / "state"
    X[:, 0], X[:9, 0], weight[:9] = 5e177, 7e177, 0.0
    y = Y3 if "multiclass" in options else NUMBERS if options.get("loss") == "quantile" else Y
    model = llsvm.train(X, y, sample_weight=weight, scale="standard", state=state, **options)
    assert llsvm.verify(model, X, y, weight, state=state)["holds"]


@pytest.mark.parametrize(
    "options", [{"bias": 1e-3}, {"penalty": "l1", "bias": 1.0}, {"penalty": "elasticnet"}]
)
def test_a_constant_that_targets_far_from_0_have_hidden_is_penalised(options):
    """Of a penalised constant the intercept has no digits beside the targets' mean, and there is little else."""
    y, weight = 1e9 + RNG.normal(size=N), np.full(N, 1e-45)
    given = {"loss": "epsilon_insensitive", "epsilon": 0.0, "scale": "standard", "target_scale": "standard"}
    model = llsvm.train(FAR, y, sample_weight=weight, **given | options)
    assert llsvm.verify(model, FAR, y, weight)["holds"]
