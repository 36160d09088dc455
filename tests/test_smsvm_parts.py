"""The parts of SmSVM: kernels against their slow twins, line search and model against brute force, the dual."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import slow_smsvm
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import with_bias
from scipy.optimize import minimize_scalar

from llsvm.block import CSR, Block, parts_of
from llsvm.errors import UsageError
from llsvm.objective.losses import new_loss
from llsvm.objective.penalty import Penalty
from llsvm.objective.problems import RowCosts
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.solvers.optim.lapack import one_blas_thread
from llsvm.solvers.smsvm.kernels import gather_columns
from llsvm.solvers.smsvm.newton import ColumnModel, Dense, ProductModel, minimise, search, violation
from llsvm.solvers.smsvm.sums import STEPS, Point, RowsLeftOut, Summing, place_of
from llsvm.solvers.smsvm.tuning import DEFAULT
from llsvm.stream.progress import Progress

COST = np.array([0.5, 2.0])


def block_of(X, y, weight, sparse):
    matrix = X.astype(np.float32)
    if sparse:
        csr = sp.csr_matrix(matrix)
        matrix = CSR(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data)
    return Block(matrix, y.astype(np.int32), np.arange(len(y)), weight)


def problem(seed=0, n=301, d=7):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)).astype(np.float32).astype(float)
    weight = rng.random(n).astype(np.float32) + np.float32(0.1)
    return X, rng.integers(0, 2, n), weight, rng.normal(size=d + 1), rng.normal(size=d + 1)


def summed(point, block, bias, threads=2, loss="hinge"):
    with Threads(threads) as pool:
        summing = Summing([point], new_loss(loss), RowCosts(COST), bias, pool, Progress())
        for start in range(0, block.n_rows, 100):
            summing.add(block.slice(start, min(start + 100, block.n_rows)))
        return summing.finish()[0]


@pytest.mark.parametrize("previous", [0.6, 0.0])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("bias", [0.0, 1.5])
def test_a_pass_sums_what_the_slow_twin_sums(sparse, bias, previous):
    X, y, weight, w, change = problem()
    wide = np.hstack([X, np.full((len(X), 1), bias)])
    cost, sign = COST[y] * weight, np.where(y == 1, 1.0, -1.0)
    expected = slow_smsvm.sums(wide, sign, cost, w, change, 0.3, previous, STEPS)
    active = np.array([0, 2, 3, 7])
    point = Point(w + change, change, 0.3, previous, 1, diagonal=True)
    point.activate(active)
    found = summed(point, block_of(X, y, weight, sparse), bias)
    np.testing.assert_allclose(found.totals[:3], expected["totals"], rtol=1e-10, atol=1e-10)
    for name in ("losses", "v"):
        np.testing.assert_allclose(getattr(found, name), expected[name], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.diagonal, np.diag(expected["hessian"]), rtol=1e-10, atol=1e-12)
    lower = np.tril(expected["hessian"][np.ix_(active, active)])
    np.testing.assert_allclose(np.tril(found.hessian), lower, rtol=1e-10, atol=1e-10)

    direction = np.arange(1.0, len(w) + 1)
    product = summed(
        Point(w + change, change, 0.3, previous, 1, direction=direction), block_of(X, y, weight, sparse), bias
    )
    np.testing.assert_allclose(product.product, expected["hessian"] @ direction, rtol=1e-10, atol=1e-10)


def test_slope_and_curvature_are_derivatives_of_the_smoothed_hinge():
    z, a, h = np.linspace(-3, 3, 41), 0.4, 1e-6
    psi = slow_smsvm.psi
    assert np.all(psi(z, a) - np.maximum(0, z) >= 0)
    assert np.all(psi(z, a) - np.maximum(0, z) <= a / 2 + 1e-15)
    np.testing.assert_allclose(slow_smsvm.slope(z, a), (psi(z + h, a) - psi(z - h, a)) / (2 * h), atol=1e-8)
    second = (slow_smsvm.slope(z + h, a) - slow_smsvm.slope(z - h, a)) / (2 * h)
    np.testing.assert_allclose(slow_smsvm.primal_dual_curvature(z, z, a, a), second, atol=1e-7)


def test_threads_change_nothing_but_rounding_and_repeat_exactly():
    X, y, weight, w, change = problem(n=5000)
    block = block_of(X, y, weight, True)
    point = Point(w + change, change, 0.3, 0.3, 1)
    one, three, again = (summed(point, block, 1.0, threads).v for threads in (1, 3, 3))
    np.testing.assert_allclose(one, three, rtol=1e-12)
    assert np.array_equal(three, again)


numbers = st.floats(-3, 3).filter(lambda x: x == 0 or abs(x) > 1e-3)


@given(
    st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8),
    st.floats(-5, 5),
    st.floats(0.05, 5),
    st.floats(0, 3),
)
@settings(max_examples=50, deadline=None)
def test_line_search_finds_what_brute_force_finds(pairs, slope, curvature, l1):
    w, d = np.array(pairs).T

    def phi(s):
        return slope * s + 0.5 * curvature * s * s + l1 * np.abs(w + s * d).sum()

    step, zeros = search(slope, curvature, w, d, np.full(len(w), l1))
    assert step >= 0
    breaks = [-a / b for a, b in pairs if b != 0 and -a / b > 0]
    far = (abs(slope) + l1 * np.abs(d).sum()) / curvature + 1
    tried = [phi(s) for s in [0.0, *breaks, *np.linspace(0, far, 501)]]
    tried.append(minimize_scalar(phi, bounds=(0, far), method="bounded", options={"xatol": 1e-10}).fun)
    assert phi(step) <= min(tried) + 1e-9 * (1 + abs(min(tried)))
    np.testing.assert_allclose(w[zeros] + step * d[zeros], 0, atol=1e-12)


def test_line_search_without_curvature():
    step, zeros = search(-1.0, 0.0, np.array([-2.0, 1.0]), np.array([1.0, 1.0]), np.full(2, 0.8))
    assert step == 2.0  # before it φ' = −1, after it +0.6
    assert zeros.tolist() == [True, False]
    one, half = np.array([1.0]), np.array([0.5])
    assert search(-1.0, 0.0, one, one, half)[0] == np.inf
    assert search(1.0, 0.0, one, one, half)[0] == 0.0


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 12), st.floats(0, 2), st.booleans())
@settings(max_examples=50, deadline=None)
def test_the_models_minimiser_satisfies_the_optimality_conditions(seed, n, rank, l1, free):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(rank, n)) * np.exp(rng.normal(size=n))
    H, w = B.T @ B + 1e-6 * np.eye(n), rng.normal(size=n) * (rng.random(n) < 0.5)
    g = rng.normal(size=n)
    l1 = np.full(n, l1)
    if free:
        l1[-1] = 0.0
    v, fall = minimise(Dense(H), g, w, l1)
    slope = g + H @ (v - w)
    off = np.where(v != 0, np.abs(slope + l1 * np.sign(v)), np.maximum(np.abs(slope) - l1, 0))
    p = v - w
    model = g @ p + 0.5 * p @ H @ p + l1 @ np.abs(v) - l1 @ np.abs(w)
    assert fall == pytest.approx(-model, rel=1e-6, abs=1e-9 * (1 + abs(model)))
    assert off.max() <= 1e-6 * (1 + np.abs(H).max() * np.abs(v - w).max())


@pytest.mark.parametrize(("sweeps", "by_hessian"), [(2, False), (1000, False), (2, True)])
@given(st.integers(0, 10_000), st.integers(1, 15), st.integers(1, 12), st.floats(0.01, 2), st.floats(0.01, 1))
@settings(max_examples=50, deadline=None)
def test_the_model_by_columns_has_the_minimiser_of_the_dense_one(sweeps, by_hessian, seed, n, d, l1, ridge):
    """By sweeps alone, and with steps on weights that are not zero between them; of a copy by column of sparse and
    of dense rows, and by products. Rows may have no curvature."""
    tuning = replace(DEFAULT, sweeps=sweeps)
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)).astype(np.float32)
    h, w = rng.random(n) * (rng.random(n) < 0.8), rng.normal(size=d + 1) * (rng.random(d + 1) < 0.5)
    active = np.flatnonzero(rng.random(d + 1) < 0.8)
    g = rng.normal(size=len(active))
    wide = np.hstack([X, np.full((n, 1), 1.5)])[:, active]
    H = wide.T @ (h[:, None] * wide) + ridge * np.eye(len(active))
    csr = sp.csr_matrix(X)
    block = CSR(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data)
    l1 = np.full(len(active), l1)
    l1[active == d] = 0.0  # the constant feature's is free
    theirs, fall = minimise(Dense(H), g, w[active], l1)
    hessian = (lambda some: Dense(np.ascontiguousarray(H[np.ix_(some, some)]))) if by_hessian else None
    rows, ridges = np.flatnonzero(h > 0), np.full(len(active), ridge)
    bends = H - ridge * np.eye(len(active))
    place = place_of(active, d + 1)
    for held in (block, X, None):
        if held is None:
            times = lambda some, p, onto: bends[np.ix_(onto, some)] @ p  # noqa: E731
            model = ProductModel(times, bends.diagonal().copy(), ridges, tuning, Progress())
        else:
            given, most = (1.5, rows, h[rows], place, len(active)), (n + 1) * (d + 1)
            *columns, diagonal = gather_columns(*parts_of(held), *given, most)
            np.testing.assert_allclose(diagonal, bends.diagonal(), rtol=1e-6, atol=1e-12)
            model = ColumnModel(CSR(*columns), h[rows], diagonal, ridges, tuning, Progress(), hessian)
        ours = model.minimise(g, w[active], l1, 1e-9)
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * (1 + np.abs(theirs).max(initial=0)))
        p = ours - w[active]
        our_fall = -g @ p - 0.5 * p @ H @ p + l1 @ (np.abs(w[active]) - np.abs(ours))
        assert our_fall == pytest.approx(fall, rel=1e-6, abs=1e-9)


def test_rows_at_hand_and_far_ones_sum_to_all_while_none_crosses_the_margin():
    X, y, _, w, _ = problem(n=400)
    sign = np.where(y == 1, 1.0, -1.0)
    z = 1 - sign * (X @ w[:-1])
    near = np.abs(z) < 0.5
    block = block_of(X, y, None, True)
    a, zero = 1e-3, np.zeros_like(w)
    step = 1e-3 * np.ones_like(w)
    step[-1] = 0.0
    at, moved = Point(w, zero, a, 0.0, 1), Point(w + 3 * step, 2 * step, a, 0.0, 1)
    far = RowsLeftOut.between(summed(at, block, 0.0), summed(at, block.take(near), 0.0), at)
    found, expected = summed(moved, block.take(near), 0.0), summed(moved, block, 0.0)
    far.add_to(found, moved)
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-7)
    np.testing.assert_allclose(found.v, expected.v, atol=1e-4)
    assert found.loss == pytest.approx(expected.loss, rel=1e-7)
    # the straight lines' dual: Σ α_i z_i is their loss
    assert found.alpha == pytest.approx(expected.alpha, rel=1e-5)


def test_what_the_smoothing_of_far_rows_costs_is_known_at_another_smoothing():
    """Of a row it is next to nothing; of all that are far it may be more than the tolerance."""
    X, y, _, w, _ = problem(n=400)
    near = np.abs(1 - np.where(y == 1, 1.0, -1.0) * (X @ w[:-1])) < 0.5
    block, zero = block_of(X, y, None, True), np.zeros_like(w)
    at, less = Point(w, zero, 0.02, 0.0, 1), Point(w, zero, 0.005, 0.0, 1)
    far = RowsLeftOut.between(summed(at, block, 0.0), summed(at, block.take(near), 0.0), at)
    at_hand, found = summed(less, block.take(near), 0.0), summed(less, block.take(near), 0.0)
    far.add_to(found, less)
    expected = summed(less, block, 0.0)
    assert found.smoothing_gap - at_hand.smoothing_gap == pytest.approx(
        expected.smoothing_gap - at_hand.smoothing_gap, rel=0.01
    )


def test_the_slack_of_rows_is_handed_out():
    X, y, weight, w, change = problem()
    point = Point(w + change, change, 0.3, 0.6, 1)
    sign = np.where(y == 1, 1.0, -1.0)
    wide = np.hstack([X, np.ones((len(X), 1))])
    with Threads(2) as pool:
        summing = Summing([point], new_loss("hinge"), RowCosts(COST), 1.0, pool, Progress())
        summing.add(block_of(X, y, weight, True))
    np.testing.assert_allclose(summing.slack, np.abs(1 - sign * (wide @ (w + change))), rtol=1e-5)


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 1.0), (0.7, 0.3), (1.0, 0.0), (0.01, 0.99)])
def test_the_dual_is_the_best_of_its_ray(l1, l2):
    rng = np.random.default_rng(1)
    for scale in (0.01, 1.0, 30.0):
        v, total = scale * rng.normal(size=6), 3.0
        found = Penalty(1.0, l1, l2).dual(total, v)
        best = 0.0
        for s in np.linspace(0, 1, 20001):
            soft = np.maximum(s * np.abs(v) - l1, 0)
            if l2 > 0:
                best = max(best, s * total - soft @ soft / (2 * l2))
            elif soft.max() <= 1e-12:
                best = max(best, s * total)
        assert found >= best - 1e-9
        assert found == pytest.approx(best, rel=1e-3)


def test_lambdas_and_C_name_the_same_objective():
    N = 50
    for options, l1, l2 in [
        ({"penalty": "l2", "lambda2": 0.1}, 0.0, 0.1),
        ({"penalty": "l1", "lambda1": 0.2}, 0.2, 0.0),
        ({"penalty": "elasticnet", "lambda1": 0.2, "lambda2": 0.3}, 0.2, 0.3),
    ]:
        penalty = Penalty.of(Settings(solver="smsvm", **options), N)
        assert penalty.l1 / (N * penalty.C) == pytest.approx(l1)
        assert penalty.l2 / (N * penalty.C) == pytest.approx(l2)
        assert penalty.l1 + penalty.l2 == pytest.approx(1)


@pytest.mark.parametrize(
    "options",
    [
        {"penalty": "l1", "lambda2": 1.0},
        {"penalty": "elasticnet", "lambda1": 1.0},
        {"penalty": "l2", "lambda2": 0.0},
        {"penalty": "elasticnet", "l1_ratio": 1.0},
        {"penalty": "l1", "solver": "llsvm"},
        {"penalty": "l0"},
    ],
)
def test_penalties_that_make_no_sense_are_refused(options):
    with pytest.raises(UsageError):
        Settings(**{"solver": "smsvm", **options})


def test_a_large_models_active_set_is_factored_after_sweeps_alone():
    """Triangles of each of 59 active sets took a minute, of a model over 1,500 columns."""

    class Counted(Dense):
        solves = 0

        def solve(self, some, right):
            Counted.solves += 1
            return super().solve(some, right)

    rng = np.random.default_rng(0)
    X, h = rng.normal(size=(500, 700)), rng.random(500)
    H = X.T @ (h[:, None] * X)
    g = -X.T @ (h * (X @ (rng.normal(size=700) * (rng.random(700) < 0.3))))
    l1 = np.full(700, 0.05 * np.abs(g).max())
    with one_blas_thread():  # as in a run: two that wait for each other take a minute on a busy machine
        v, fall = minimise(Counted(H), g, np.zeros(700), l1, roughly=True)
    best, slope, exact = 0.0, g.copy(), np.zeros(700)
    while float(violation(exact, slope, l1).max()) > 1e-8 * np.abs(g).max():
        best += Dense(H).sweep(exact, slope, l1)  # coordinate descent alone, which takes its time
    assert fall == pytest.approx(best, rel=2e-3)
    assert 0.9 < np.count_nonzero(v) / np.count_nonzero(exact) < 1.1
    assert Counted.solves <= 5


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_a_copy_by_column_is_scipys(sparse, bias):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(30, 50)) * (rng.random((30, 50)) < 0.4)).astype(np.float32)
    rows, active = np.flatnonzero(rng.random(30) < 0.6), np.append(np.flatnonzero(rng.random(50) < 0.5), 50)
    held, place = block_of(X, np.zeros(30), None, sparse).X, place_of(active, 51)
    given = bias, rows, np.ones(len(rows)), place, len(active)
    theirs = sp.csc_matrix(with_bias(X, bias)[rows][:, active[: -1 if bias == 0 else None]])
    n = theirs.nnz
    indptr, indices, data, _ = gather_columns(*parts_of(held), *given, n)
    np.testing.assert_array_equal(indptr[: theirs.shape[1] + 1], theirs.indptr)
    assert indptr[-1] == n
    np.testing.assert_array_equal(indices, theirs.indices)
    np.testing.assert_array_equal(data, theirs.data)
    indptr, indices, data, _ = gather_columns(*parts_of(held), *given, n - 1)
    assert indptr[-1] == n
    assert len(indices) == len(data) == 0  # there is no room for one of the values
