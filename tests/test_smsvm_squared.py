"""SmSVM with the squared hinge: against LIBLINEAR and a generic convex solver; its kernel against a slow twin."""

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import liblinear, rows, run, small_pages, with_bias, with_smsvm_tuning, write_svmlight
from sklearn.svm import LinearSVC

from llsvm.objective.losses import new_loss
from llsvm.objective.penalty import Penalty
from llsvm.solvers.smsvm.kernels import ALPHA, COST, LOSS, SMOOTHING_GAP, SQUARES, quadratic
from llsvm.solvers.smsvm.sums import STEPS

MAX_PASSES = 12  # to a relative gap of 1e-6, on data with more rows than columns


def solve(X, y=None, weight=None, **options):
    return run(X, y, weight, **{"solver": "smsvm", "loss": "squared_hinge", "tol": 1e-6, **options})


def assert_optimal(training, theirs, tol=1e-6):
    last = training.reports[-1]
    assert last.converged
    assert last.certificate.relative_gap <= tol
    assert last.certificate.total_dual <= theirs * (1 + 1e-9)
    assert theirs * (1 - 1e-9) <= last.certificate.total_primal <= theirs * (1 + 2 * tol)


def test_the_kernel_sums_what_the_slow_twin_sums():
    rng, n = np.random.default_rng(0), 200
    base, change, cost = rng.normal(size=n), rng.normal(size=n), rng.random(n)
    sign = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    slope, curvature, losses, totals = np.empty(n), np.empty(n), np.zeros(len(STEPS)), np.zeros(5)
    of = (sign, np.ones(len(sign)), cost, (0.0, np.inf, 0.5, 0.0), True)
    quadratic(base + change, change, *of, STEPS, slope, curvature, losses, totals)
    loss = new_loss("squared_hinge")
    for t, found in zip(STEPS, losses, strict=True):
        assert found == pytest.approx(cost @ loss.value(sign * (base + t * change)))
    margin = sign * (base + change)
    alpha = -cost * loss.derivative(margin)
    np.testing.assert_allclose(slope, alpha)
    np.testing.assert_allclose(curvature, np.where(margin < 1, 2 * cost, 0.0))
    expected = {
        LOSS: cost @ loss.value(margin),
        ALPHA: alpha.sum(),
        SMOOTHING_GAP: 0.0,
        SQUARES: alpha.sum() - cost @ loss.dual_value(alpha / cost),
        COST: cost.sum(),
    }
    for at, value in expected.items():
        assert totals[at] == pytest.approx(value)


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 1.0), (0.7, 0.3), (1.0, 0.0)])
def test_the_dual_is_the_best_of_its_ray(l1, l2):
    rng = np.random.default_rng(1)
    for scale in (0.01, 1.0, 30.0):
        v, total, squares = scale * rng.normal(size=6), 3.0, 0.4
        best = 0.0
        for s in np.r_[0, np.geomspace(1e-4, total / squares, 40001)]:
            soft = np.maximum(s * np.abs(v) - l1, 0)
            if l2 > 0:
                best = max(best, s * total - s * s * squares - soft @ soft / (2 * l2))
            elif soft.max() <= 1e-12:
                best = max(best, s * total - s * s * squares)
        found = Penalty(1.0, l1, l2).dual(total, v, squares, np.inf)
        assert found >= best - 1e-9
        assert found == pytest.approx(best, rel=1e-3)
    assert Penalty(1.0, l1, l2).dual(0.0, np.zeros(3), 0.0, np.inf) == 0.0


@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_l2_reaches_liblinears_optimum(C, layout, bias):
    X, y = rows(n=300, d=6, density=0.7)
    training = solve(layout(X), y, C=C, bias=bias)
    theirs, _ = liblinear(X, y, C, "squared_hinge", bias=bias)
    assert_optimal(training, theirs)
    assert training.reports[-1].passes <= MAX_PASSES
    coef = training.coef[0] if bias else training.coef[0][:-1]
    margin = np.where(y == 1, 1.0, -1.0) * (with_bias(X, bias) @ coef)
    value = 0.5 * coef @ coef + C * (np.maximum(0, 1 - margin) ** 2).sum()
    assert value == pytest.approx(training.reports[-1].certificate.total_primal, rel=1e-9)


def test_weights_are_factors_of_C():
    X, y = rows(n=250, d=5, seed=2)
    weight = np.random.default_rng(0).random(250) * 3
    training = solve(X, y, weight, class_weight={"1": 2.0})
    both = weight * np.where(y == 1, 2.0, 1.0)
    assert_optimal(training, liblinear(X, y, loss="squared_hinge", weight=both)[0])


def test_more_than_two_classes_are_one_against_the_rest():
    X, y = rows(n=240, d=5, classes=3, seed=3)
    training = solve(X, y, threads=2)
    for c, primal in enumerate(training.reports[-1].certificate.primal):
        theirs, _ = liblinear(X, (y == c).astype(int), loss="squared_hinge")
        assert primal == pytest.approx(theirs, rel=2e-6)


def test_passes_do_not_grow_with_rows_and_rows_that_have_a_loss_are_gone_on_with():
    passes, near = [], 0
    for n in (1_000, 16_000):
        X, y = rows(n=n, d=10, seed=1)
        training = solve(X, y, tol=1e-5, C=100.0)
        assert training.reports[-1].converged
        passes.append(training.reports[-1].passes)
        near = max(report.survivors for report in training.reports)
    assert max(passes) <= MAX_PASSES
    assert passes[-1] <= passes[0] + 2
    assert 0 < near < 16_000


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_wide_data_needs_no_hessian(C, layout):
    """Every row has a loss in the end, and margins next to 1: many rows are near where the curvature ends."""
    X, y = rows(n=60, d=600, seed=4)
    training = solve(layout(X), y, C=C, tol=1e-4)
    assert "Hessian" not in training.stream.budget.lines
    assert_optimal(training, liblinear(X, y, C, "squared_hinge")[0], 1e-4)
    assert training.reports[-1].passes <= 4


@pytest.mark.parametrize("density", [0.3, 0.9])
def test_out_of_core_reaches_the_same_weights(density, tmp_path, monkeypatch):
    small_pages(monkeypatch)
    with_smsvm_tuning(monkeypatch, piece_bytes=4000)
    X, y = rows(n=1500, d=6, density=density)
    path = write_svmlight(tmp_path / "data.svm", X, y)
    inside, outside, roomy = (solve(str(path), ledger=ledger) for ledger in (None, 40_000, 160_000))
    assert [t.stream.place for t in (inside, outside, roomy)] == ["memory", "cache", "cache"]
    theirs, _ = liblinear(X, y, 1.0, "squared_hinge")
    for training in (inside, outside, roomy):
        assert_optimal(training, theirs)
        assert training.reports[-1].passes <= MAX_PASSES


@pytest.mark.parametrize("C", [0.02, 1.0])
def test_l1_equals_liblinear(C):
    X, y = rows(n=200, d=20, seed=20)
    theirs = LinearSVC(
        C=C, penalty="l1", loss="squared_hinge", dual=False, tol=1e-8, max_iter=1_000_000, fit_intercept=False
    ).fit(X, y)
    w, sign = theirs.coef_[0], np.where(y == 1, 1.0, -1.0)
    value = np.abs(w).sum() + C * (np.maximum(0, 1 - sign * (X @ w)) ** 2).sum()
    training = solve(X, y, penalty="l1", C=C, tol=1e-5)
    assert_optimal(training, value, 1e-5)
    assert np.count_nonzero(training.coef) <= np.count_nonzero(np.abs(w) > 1e-7) + 1


def test_elasticnet_equals_a_generic_convex_solver():
    cvxpy = pytest.importorskip("cvxpy")
    X, y = rows(n=120, d=15, seed=5)
    sign, w = np.where(y == 1, 1.0, -1.0), cvxpy.Variable(15)
    terms = cvxpy.sum_squares(cvxpy.pos(1 - cvxpy.multiply(sign, X @ w))) * 0.3
    terms += 0.25 * cvxpy.sum_squares(w) + 0.5 * cvxpy.norm1(w)
    theirs = cvxpy.Problem(cvxpy.Minimize(terms)).solve(solver="CLARABEL")
    certificate = solve(X, y, penalty="elasticnet", l1_ratio=0.5, C=0.3).reports[-1].certificate
    assert certificate.total_primal == pytest.approx(theirs, rel=2e-6)
    assert certificate.total_dual <= theirs * (1 + 1e-7)


def test_rounded_values_are_counted_in_the_certificate(tmp_path):
    """Values that are no 32-bit floats: the gap holds for those that are in the file."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(300, 5))
    y = (X[:, 0] + 0.5 * rng.normal(size=300) > 0).astype(int)
    path = write_svmlight(tmp_path / "rows.svm", sp.csr_matrix(X), y)
    training = solve(str(path), tol=1e-3)
    certificate = training.reports[-1].certificate
    theirs, _ = liblinear(X, y, 1.0, "squared_hinge")
    assert training.reports[-1].converged
    assert certificate.total_dual <= theirs
    assert certificate.total_primal + sum(certificate.rounding) >= theirs * (1 - 1e-12)
