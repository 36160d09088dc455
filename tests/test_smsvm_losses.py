"""SmSVM with every loss: its sums against the mathematics of the loss, its weights against scikit-learn's."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import rows, run, small_pages
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from llsvm import LLSVMRegressor
from llsvm.block import Block
from llsvm.objective.losses import LogisticLoss, new_loss
from llsvm.objective.penalty import Penalty
from llsvm.objective.problems import RowCosts
from llsvm.process.threads import Threads
from llsvm.settings.methods import METHODS
from llsvm.settings.objective import CLASSIFICATION, LOSSES
from llsvm.solvers.smsvm.kernels import N_TOTALS, quadratic
from llsvm.solvers.smsvm.sums import STEPS, Point, Summing
from llsvm.stream.progress import Progress

SMOOTH = [name for name in METHODS["smsvm"].objectives if np.isfinite(new_loss(name).smoothness)]


def summed(loss, X, y, w, change, a):
    cost = RowCosts.of_classes(2.5, np.array([1.0, 0.5]))
    point = Point(w + change, change, a, 0.0, 1)
    point.activate(np.arange(len(w)))
    block = Block(X, y, np.arange(len(y)))
    with Threads(2) as threads:
        summing = Summing([point], loss, cost, 1.0, threads, Progress())
        summing.add(block)
        (sums,) = summing.finish()
    return sums, cost.of(block)


def some_rows(loss, n=257, d=5):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d))
    y = rng.integers(0, 2, n).astype(np.int32) if loss.kind == CLASSIFICATION else rng.normal(size=n)
    w, change = rng.normal(size=d + 1), rng.normal(size=d + 1)
    sign = np.where(y == 1, 1.0, -1.0) if loss.kind == CLASSIFICATION else np.ones(n)
    target = 1.0 if loss.kind == CLASSIFICATION else y
    return X, y, w, change, sign, target


@pytest.mark.parametrize("name", LOSSES)
def test_a_pass_sums_what_the_loss_says(name):
    loss = new_loss(name)
    X, y, w, change, sign, target = some_rows(loss)
    sums, cost = summed(loss, X, y, w, change, 1e-9)  # as good as not smoothed
    with_constant = np.column_stack([X, np.ones(len(X))])
    margin = sign * (with_constant @ (w + change))
    alpha = -cost * loss.derivative(margin, target)
    assert sums.v == pytest.approx((alpha * sign) @ with_constant)
    assert sums.loss == pytest.approx(cost @ loss.value(margin, target))
    assert sums.alpha - sums.squares == pytest.approx(cost @ loss.dual_value(alpha / cost, target), abs=1e-6)
    for t, value in zip(STEPS, sums.losses, strict=True):
        at = sign * (with_constant @ (w + t * change))
        assert value == pytest.approx(cost @ loss.value(at, target), abs=1e-5)
    if np.isfinite(loss.smoothness):
        step = 1e-6
        bend = (loss.derivative(margin + step, target) - loss.derivative(margin - step, target)) / (2 * step)
        hessian = (with_constant.T * (cost * bend)) @ with_constant
        assert np.tril(sums.hessian) == pytest.approx(np.tril(hessian), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", ["epsilon_insensitive", "quantile"])
def test_a_loss_that_is_straight_on_both_sides_is_smoothed_and_its_gap_known(name):
    loss = new_loss(name)
    X, y, w, change, _, target = some_rows(loss)
    (sums, cost), step = summed(loss, X, y, w, change, 0.3), 1e-6
    with_constant = np.column_stack([X, np.ones(len(X))])
    margin = with_constant @ (w + change)
    for j in range(len(w)):
        moved = np.zeros(len(w))
        moved[j] = step
        up, down = (summed(loss, X, y, w, change + s * moved, 0.3)[0].losses[8] for s in (1, -1))
        assert (up - down) / (2 * step) == pytest.approx(-sums.v[j], rel=1e-4, abs=1e-4)
    gap = cost @ loss.value(margin, target) + sums.v @ (w + change) - (sums.alpha - sums.squares)
    assert sums.smoothing_gap == pytest.approx(gap)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("C", [1e-2, 1.0, 1e3])
def test_logistic_is_liblinears(C, layout):
    X, y = rows(500, 9, noise=0.5)
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y)).astype(np.float32)
    training = run(
        layout(X), y, weight, solver="smsvm", loss="logistic", C=C, tol=1e-8, class_weight={0: 1, 1: 3}
    )
    assert training.reports[-1].converged
    assert training.reports[-1].passes <= 15
    model = LogisticRegression(
        C=C, fit_intercept=False, tol=1e-12, max_iter=10_000, class_weight={0: 1, 1: 3}
    )
    theirs = model.fit(X, y, sample_weight=weight.astype(float)).coef_[0]
    assert training.coef[0][: X.shape[1]] == pytest.approx(theirs, rel=2e-3, abs=2e-3 * np.abs(theirs).max())


@pytest.mark.parametrize(
    ("n", "d", "loss", "C"),
    [
        (600, 30, "logistic", 0.03),
        (600, 30, "logistic", 1.0),
        (600, 30, "squared_hinge", 1.0),
        (150, 700, "logistic", 1.0),
        (150, 700, "squared_hinge", 0.03),
        pytest.param(150, 700, "squared_hinge", 1.0, marks=pytest.mark.slow),
    ],
)
def test_l1_has_liblinears_zeros(C, loss, n, d):
    X, y = rows(n, d, noise=0.8, density=0.4)
    X = sp.csr_matrix(X)
    training = run(X, y, solver="smsvm", loss=loss, penalty="l1", C=C, tol=1e-7)
    assert training.reports[-1].converged
    if loss == "logistic":
        model = LogisticRegression(
            C=C, l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=1e-9, max_iter=100_000
        )
    else:
        model = LinearSVC(C=C, penalty="l1", dual=False, fit_intercept=False, tol=1e-9, max_iter=100_000)
    theirs, ours = model.fit(X, y).coef_[0], training.coef[0][:d]
    primal = C * new_loss(loss).value(np.where(y == 1, 1, -1) * (X @ theirs)).sum() + np.abs(theirs).sum()
    certificate = training.reports[-1].certificate
    assert certificate.dual[0] <= primal * (1 + 1e-9)
    assert certificate.primal[0] <= primal * (1 + 1e-6)
    assert np.array_equal(ours != 0, theirs != 0)


@pytest.mark.parametrize("penalty", ["l2", "l1"])
@pytest.mark.parametrize("name", [*SMOOTH, "epsilon_insensitive"])
def test_out_of_core_reaches_the_same_weights(name, penalty, tmp_path, monkeypatch):
    X, y = rows(900, 6, noise=0.5)
    if new_loss(name).kind != CLASSIFICATION:
        y = (X @ np.arange(6.0) + np.random.default_rng(0).normal(size=len(y))).astype(np.float32)
    options = {"solver": "smsvm", "loss": name, "penalty": penalty, "tol": 1e-6, "spill_dir": str(tmp_path)}
    in_memory = run(X, y, **options)
    small_pages(monkeypatch)
    out_of_core = run(X, y, ledger=110_000, **options)
    assert in_memory.reports[-1].converged
    assert out_of_core.reports[-1].converged
    assert out_of_core.stream.place == "cache" or not out_of_core.stream.in_one_block
    scale = np.abs(in_memory.coef).max()
    assert out_of_core.coef == pytest.approx(in_memory.coef, abs=3e-3 * scale)


def test_more_than_two_classes_and_repeatability():
    X, y = rows(600, 6, classes=3, noise=0.5)
    first, second = (run(X, y, solver="smsvm", loss="logistic", threads=2) for _ in range(2))
    assert len(first.reports[-1].certificate.primal) == 3
    assert first.reports[-1].converged
    assert first.coef.tobytes() == second.coef.tobytes()


def test_the_entropy_of_large_margins_is_not_lost_in_rounding():
    loss = LogisticLoss()
    X = np.array([[60.0], [-60.0], [800.0]])
    sums, cost = summed(loss, X, np.ones(3, np.int32), np.array([1.0, 0.0]), np.zeros(2), 1.0)
    assert np.isfinite(sums.losses).all()
    assert sums.loss == pytest.approx(60.0 * cost[1])
    assert 0 < sums.alpha < 1e-20


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 1.0), (1.0, 0.0), (0.5, 0.5)])
@pytest.mark.parametrize(("squares", "longest"), [(0.0, 1.0), (0.1, 1.0), (0.1, np.inf)])
def test_duals_of_numbers_are_not_turned_round(l1, l2, squares, longest):
    # with Σ α_i t_i − ε |α_i| below 0, the best of the ray s α, s ≥ 0, is its end
    assert Penalty(1.0, l1, l2).dual(-5.0, np.array([1e-3, 0.0]), squares, longest) == 0.0


@pytest.mark.parametrize(("name", "delta"), [("huber", 0.01), ("squared_epsilon_insensitive", 1.0)])
def test_a_dual_of_targets_far_from_zero_is_below_every_primal(name, delta):
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(30, 40)) + 30).astype(np.float32)
    y, weight = 1000 + 0.03 * rng.normal(size=30), 10.0 ** rng.uniform(-4, 4, 30)
    options = {"loss": name, "C": 0.01, "fit_intercept": False, "n_jobs": 1, "memory_limit": "4GB"}
    options |= {"delta": delta} if name == "huber" else {"epsilon": 1.0}
    optimum = LLSVMRegressor(solver="llsvm", **options).fit(X, y, weight).certificate_
    assert optimum.relative_gap <= 1e-3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = LLSVMRegressor(solver="smsvm", **options).fit(X, y, weight).certificate_
    assert found.total_dual <= optimum.total_primal * (1 + 1e-7)


@pytest.mark.parametrize(
    ("penalty", "C", "delta", "level"),
    [("l1", 4.0, 0.05, 5.0), ("elasticnet", 40.0, 0.01, 1000.0), ("l2", 9e3, 1.0, 5.0)],
)
def test_huber_is_certified_where_every_row_is_beyond_its_square(penalty, C, delta, level):
    # at w = 0 the loss is straight in all rows: no Hessian there, and yet a way down
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 10)) + (30.0 if penalty == "l2" else 0.0)
    y = level + 0.5 * X[:, 0] + 0.3 * rng.normal(size=120)
    model = LLSVMRegressor(
        loss="huber", delta=delta, C=C, penalty=penalty, solver="smsvm", n_jobs=1, memory_limit="4GB"
    )
    certificate = model.fit(X, y).certificate_
    assert certificate.relative_gap <= 1e-3
    assert certificate.passes <= 60


def test_the_curvature_of_straight_parts_keeps_the_model_above_hubers_loss():
    z = np.linspace(-30.0, 30.0, 61)
    loss, one, slope, curvature = new_loss("huber", delta=2.0), np.ones(61), np.empty(61), np.empty(61)
    numbers = (loss.lower, loss.upper, loss.ridge, loss.epsilon)
    zero, losses, totals = np.zeros(61), np.zeros(len(STEPS)), np.zeros(N_TOTALS)
    quadratic(zero, zero, one, z, one, numbers, True, STEPS, slope, curvature, losses, totals)
    move = np.linspace(-50.0, 50.0, 101)[:, None]
    model = loss.value(zero, z) - slope * move + 0.5 * curvature * move * move
    assert np.all(model >= loss.value(move, z) - 1e-9)


@pytest.mark.parametrize(
    ("loss", "unit"), [("epsilon_insensitive", 1e3), ("quantile", 1e3), ("quantile", 1e-3)]
)
def test_straight_losses_are_certified_in_any_unit_of_the_targets(loss, unit):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 40))
    y = unit * (1 + X[:, 0] + 0.1 * rng.normal(size=200))
    options = {"epsilon": 0.0} if loss == "epsilon_insensitive" else {"quantile": 0.1}
    # C goes with the unit, so that the problem is the same in each
    model = LLSVMRegressor(loss=loss, C=5.0, penalty="l1", solver="smsvm", n_jobs=1, **options)
    model.set_params(memory_limit="4GB", tol=1e-4)
    certificate = model.fit(X, y).certificate_
    assert certificate.relative_gap <= 1e-4
    assert certificate.passes <= 60


@pytest.mark.parametrize("unit", [1e-6, 1e-12, 1e-18])
def test_the_primal_is_that_of_the_weights_however_small_targets_are(unit):
    """Residuals of 1e-18 are lost beside a margin of 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = unit * (X @ rng.normal(size=4) + rng.standard_t(2, 60))
    options = {"loss": "epsilon_insensitive", "epsilon": 0.0, "C": 1 / unit, "solver": "smsvm"}
    training = run(X, y, max_passes=40, **options)
    w, certificate = training.model.coef_[0], training.model.certificate
    true = 0.5 * w @ w + np.abs(y - X @ w).sum() / unit
    assert certificate.primal[0] == pytest.approx(true, rel=1e-9)
    assert certificate.dual[0] <= true
