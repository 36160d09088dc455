"""The method of multipliers for the direct multi-class problems: its parts against slow twins, the solver against a
generic optimiser, LIBLINEAR and itself."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import run
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, load_wine

import llsvm
from llsvm.block import CSR, Block
from llsvm.data import open_source
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.plan import left_after_reading, smallest_for
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.solvers.optim.conjugate_gradients import Way
from llsvm.solvers.optim.newton_system import NewtonSystem, matrix_bytes
from llsvm.solvers.sequential_dual import layout, multipliers
from llsvm.solvers.sequential_dual.loops import LOOP_ACCURACY
from llsvm.solvers.sequential_dual.multipliers import (
    FaceRows,
    JointMultipliers,
    JointRows,
    NewtonRoom,
    newton_prices,
)
from llsvm.solvers.sequential_dual.problem import BlockShares, JointProblem, joint_dual
from llsvm.solvers.sequential_dual.solver import SequentialDual
from llsvm.stream.progress import OutOfTime, Progress
from llsvm.stream.stream import Stream

DIRECT = ("crammer-singer", "weston-watkins")
ROOMY = 8_000_000


def point(seed, n=40, k=4, long=1.0):
    """Feasible p of both duals, scores, and what belongs to them; some rows cost nothing."""
    rng = np.random.default_rng(seed)
    y, cost = rng.integers(0, k, n), rng.choice([0.0, 0.1, 1.0, 1e4], n)
    share = rng.choice([0.0, 0.25, 1.0], (n, k)) * (rng.random((n, k)) < 0.5)
    share[np.arange(n), y] = 0.0
    share /= np.maximum(share.sum(axis=1), 1.0)[:, None]
    return share, y, cost, rng.normal(size=(n, k)) * long, rng


@pytest.mark.parametrize("method", DIRECT)
@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(2, 6), st.sampled_from([1e-3, 1.0, 1e3]), st.sampled_from([1e-2, 1e2])
)
def test_the_prox_is_the_projection(method, seed, k, sigma, long):
    """Optimality: no feasible q has ⟨z − p, q − p⟩ > 0, so no corner of the set has."""
    share, y, cost, scores, _ = point(seed, k=k, long=long)
    dual, i = joint_dual(method), np.arange(len(y))
    base = dual.of_shares(share, y, cost)
    p = dual.prox(base, scores, sigma, y, cost)[0]
    z = base + sigma * (scores + 1.0 - scores[i, y][:, None])
    z[i, y] -= sigma
    size = np.abs(z).max(axis=1) + cost
    assert (p >= 0).all()
    if method == "crammer-singer":
        assert np.allclose(p.sum(axis=1), cost, rtol=1e-14, atol=1e-13 * size.max())
        best = cost * (z - p).max(axis=1)
    else:
        assert (p <= cost[:, None]).all()
        assert not p[i, y].any()
        z[i, y] = 0.0
        best = (cost[:, None] * np.maximum(z - p, 0.0)).sum(axis=1)
    assert (best - np.einsum("ij,ij->i", z - p, p) <= 1e-10 * size * size * k).all()


def test_the_projection_of_scores_that_differ_in_their_last_digits_ends():
    """Rounding may lower θ where exact arithmetic raises it, and so bring back what was left out."""
    near = [float.fromhex(f"0x1.7f47c6692e47{digit}p+34") for digit in (0, 5, 1, 3)]
    cost = float.fromhex("0x1.4f8b588e368f1p-17")
    # one row of class 0, whose p_m is base_m + σ (1 + s_m − s_0)
    scores = np.array([[1.0, *near]])
    p = joint_dual("crammer-singer").prox(
        np.zeros((1, 5)), scores, 1.0, np.zeros(1, np.int32), np.array([cost])
    )[0]
    assert p.sum() == pytest.approx(cost, abs=2.0**-15)


@pytest.mark.parametrize("method", DIRECT)
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6))
def test_the_totals_are_those_of_the_prox(method, seed, k):
    share, y, cost, scores, _ = point(seed, k=k)
    dual, sigma = joint_dual(method), 0.3
    base = dual.of_shares(share, y, cost)
    p, v, totals = dual.prox(base, scores, sigma, y, cost)
    np.testing.assert_allclose(v, dual.coefficients(p, y), atol=1e-12 * cost.max())
    np.testing.assert_allclose(
        totals,
        [
            v[np.arange(len(y)), y].sum(),
            np.sum(v * scores),
            np.sum((p - base) ** 2),
            cost @ dual.losses(scores, y),
        ],
        rtol=1e-9,
        atol=1e-9 * cost.max() * len(y),
    )


def derivative(dual, face, y):
    """P of each row, (n, k, k)."""
    row, m = dual.dimensions(face)
    q = dual.factors(face[row], y[row], m)
    matrix = np.zeros((len(y), face.shape[1], face.shape[1]))
    np.add.at(matrix, row, q[:, :, None] * q[:, None, :])
    return matrix


@pytest.mark.parametrize("method", DIRECT)
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6))
def test_the_derivative_is_that_of_the_prox(method, seed, k):
    share, y, cost, scores, rng = point(seed, k=k)
    dual, sigma, step = joint_dual(method), 0.3, 1e-7
    base = dual.of_shares(share, y, cost)
    p, way = dual.prox(base, scores, sigma, y, cost)[0], rng.normal(size=scores.shape)
    face = dual.face(p, cost)
    moved = dual.prox(base, scores + step * way, sigma, y, cost)[0]
    same = (dual.face(moved, cost) == face).all(axis=1)  # beyond a kink it is another
    change = dual.coefficients(moved, y) - dual.coefficients(p, y)
    matrix = derivative(dual, face, y)
    expected = -sigma * step * np.einsum("iab,ib->ia", matrix, way)
    assert np.allclose(change[same], expected[same], atol=1e-11 * (1 + cost[same, None]))
    for a in range(k):
        for b in range(k):
            assert np.allclose(dual.pair(face, y, a, b), matrix[:, a, b])


@pytest.mark.parametrize("method", DIRECT)
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6), st.sampled_from([2.0**24, 2.0**50]))
def test_shares_are_feasible_multiples(method, seed, k, grid):
    share, y, cost, scores, _ = point(seed, k=k)
    dual = joint_dual(method)
    p = dual.prox(dual.of_shares(share, y, cost), scores, 0.3, y, cost)[0]
    found = dual.shares(p, y, cost, grid)
    assert np.array_equal(found * grid, np.rint(found * grid))
    assert (found >= 0).all()
    assert (found <= 1).all()
    assert not found[np.arange(len(y)), y].any()
    if method == "crammer-singer":
        assert (found.sum(axis=1) <= 1).all()
    p[np.arange(len(y)), y] = 0.0
    assert np.allclose(found * cost[:, None], p, atol=2 * cost[:, None] / grid * k)


def rows_at_hand(dense, seed=0, n=60, d=5, k=4):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)).astype(np.float32)
    S = sparse.csr_matrix(X)
    csr = CSR(S.indptr.astype(np.int64), S.indices.astype(np.int32), S.data)
    y = rng.integers(0, k, n).astype(np.int32)
    return Block(X if dense else csr, y, np.arange(n)), X, y, rng


def of_rows(method, shape, bias, threads):
    return JointProblem(joint_dual(method), shape, bias, 2.0**50, threads, Progress())


@pytest.mark.parametrize("method", DIRECT)
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("way", Way)
def test_a_step_solves_newtons_system(method, dense, way):
    block, X, y, rng = rows_at_hand(dense)
    n, k, bias, sigma = len(y), 4, 2.0, 0.7
    dual = joint_dual(method)
    face = (rng.random((n, k)) < 0.8) & (rng.random(n) < 0.5)[:, None]
    if method == "weston-watkins":
        face[np.arange(n), y] = False
    X = np.column_stack([X.astype(float), np.full(n, bias)])
    H = np.eye(k * 6)
    for P, x in zip(derivative(dual, face, y), X, strict=True):
        H += sigma * np.kron(np.outer(x, x), P)
    g = rng.normal(size=(6, k))
    expected = np.linalg.solve(H, -g.ravel()).reshape(6, k)
    with Threads(2) as threads:
        part = BlockShares(block, np.ones(n), np.zeros((n, k)))
        on_face = FaceRows(of_rows(method, (6, k), bias, threads), part, face)
        prices = newton_prices(dense, (6, k), 5.0, ROOMY)
        curvature = np.full(len(on_face.all), sigma)
        system = NewtonSystem(on_face, on_face.all, curvature, prices, [way])
        found = system.solve(g, 1e-11)
    assert np.allclose(found, expected, rtol=1e-9, atol=1e-9)


def solve(problem, part, w, tol):
    """Return Newton's weights, and D of the shares."""
    prices = newton_prices(part.block.is_dense, w.shape, 5.0, ROOMY)
    newton = JointMultipliers(NewtonRoom(ROOMY, True), prices, True)
    gain = newton.solve(problem, lambda: [part], lambda _: None, w, tol)
    return newton.W, gain


def primal(W, X, y, cost, method):
    s = X @ W
    i = np.arange(len(y))
    over = s - s[i, y][:, None] + 1.0
    over[i, y] = 0.0
    loss = over.max(axis=1) if method == "crammer-singer" else np.maximum(over, 0).sum(axis=1)
    return 0.5 * np.sum(W * W) + cost @ loss


def optimum(X, y, cost, method, k):
    """Clarabel's."""
    W = cp.Variable((X.shape[1], k))
    loss = 0
    for i in range(len(y)):
        over = [1 + X[i] @ (W[:, m] - W[:, y[i]]) for m in range(k) if m != y[i]]
        each = cp.maximum(0, cp.hstack(over))
        loss += cost[i] * (cp.max(each) if method == "crammer-singer" else cp.sum(each))
    return cp.Problem(cp.Minimize(0.5 * cp.sum_squares(W) + loss)).solve(solver="CLARABEL")


@pytest.mark.parametrize("method", DIRECT)
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("C", [1e-2, 1e2])
def test_it_reaches_the_optimum(monkeypatch, method, dense, C):
    monkeypatch.setattr(multipliers, "STAGE_STEPS", 100)
    block, X, y, rng = rows_at_hand(dense, n=40)
    cost = C * rng.choice([0.0, 0.5, 2.0], len(y))
    part = BlockShares(block, cost, np.zeros((len(y), 4)))
    w, bias = np.zeros((6, 4)), 1.0
    with Threads(2) as threads:
        W, gain = solve(of_rows(method, w.shape, bias, threads), part, w, 1e-7)
    X = np.column_stack([X.astype(float), np.full(len(y), bias)])
    best = optimum(X, y, cost, method, 4)
    assert primal(W, X, y, cost, method) == pytest.approx(best, rel=2e-6)
    assert gain == pytest.approx(best, rel=2e-6)
    assert gain == pytest.approx(cost @ part.share.sum(axis=1) - 0.5 * np.sum(w * w), rel=1e-9)


@pytest.mark.parametrize("method", DIRECT)
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
def test_raw_columns_end_certified(method, C, load):
    X, y = load(return_X_y=True)
    result = llsvm.train(
        X, y, multiclass=method, C=C, scale="none", threads=1, memory_limit="2GB", max_passes=40
    )
    assert result.certificate.relative_gap <= 1e-3
    assert result.certificate.passes <= 30


@pytest.mark.parametrize("method", DIRECT)
def test_newtons_method_takes_the_memory_that_is_left(tmp_path, monkeypatch, method):
    """The smallest limit, and the smallest that holds all rows, stay what they are without it."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 40)).astype(np.float32), rng.integers(0, 4, 3000)
    solver = SequentialDual(Settings(multiclass=method, tol=1e-3), np.ones(4), 2)
    with Stream(
        open_source(X, y), MemoryBudget(50_000_000, 0), tmp_path, cache="auto", has_bias=True
    ) as stream:
        stream.read()
        dataset = stream.dataset

    def smallest(in_one_block, at_best=False):
        return smallest_for(dataset, {}, solver.needs, 1, in_one_block, at_best=at_best).nbytes

    least, in_one_block, best = smallest(False), smallest(True), smallest(True, at_best=True)
    with_room = left_after_reading(dataset, 50_000_000, {})
    assert solver.layout(with_room).newton == NewtonRoom(matrix_bytes(41 * 4, False), True, 8000)
    # the best weights take the room of those that a pass begins with, wherever all rows are in memory
    plan = solver.layout(left_after_reading(dataset, in_one_block, {}))
    assert plan.needs.lines["weights"] == 2 * 8 * 4 * 41
    # and the smallest limit with which nothing is missing has room for Newton's method
    assert plan.needs.missing_bytes > 0
    assert best > in_one_block
    assert solver.layout(left_after_reading(dataset, best, {})).newton is not None
    for name in ("_with_newton", "_with_newton_by_readings"):
        monkeypatch.setattr(layout, name, lambda plan, *_: plan)
    assert (smallest(False), smallest(True), smallest(True, at_best=True)) == (
        least,
        in_one_block,
        in_one_block,
    )
    assert solver.layout(with_room).newton is None


@pytest.mark.parametrize("method", DIRECT)
def test_many_columns_miss_room_for_their_worst_rows(tmp_path, method):
    X = sparse.random(400, 20_000, density=0.002, random_state=0, format="csr", dtype=np.float32)
    y = np.random.default_rng(0).integers(0, 4, 400)
    solver = SequentialDual(Settings(multiclass=method), np.ones(4), 1)
    with Stream(open_source(X, y), MemoryBudget(50_000_000, 0), tmp_path, has_bias=True) as stream:
        stream.read()
        dataset = stream.dataset
    least, best = (
        smallest_for(dataset, {}, solver.needs, 1, True, at_best=each).nbytes for each in (False, True)
    )
    assert least < best < 50_000_000
    assert solver.layout(left_after_reading(dataset, best - 1, {})).newton is None
    assert solver.layout(left_after_reading(dataset, best, {})).newton is not None


@pytest.mark.parametrize("method", DIRECT)
def test_what_rounding_could_hide_is_proven_by_longer_weights(method):
    """Costs so large beside the objective that sums of 64-bit floats may hide more than the gap asked for."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = np.eye(3)[y] * 1e3 + rng.normal(size=(300, 3))
    result = llsvm.train(
        X, y, multiclass=method, C=1e5, scale="none", tol=1e-5, threads=1, memory_limit="2GB"
    )
    assert result.certificate.relative_gap <= 1e-5
    assert result.certificate.passes < 40


# -- long rows that contradict each other ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("multiclass", "counts", "length", "C"),
    [
        ("crammer-singer", (2, 1), 3423.00631612, 1908736.3),
        ("crammer-singer", (3, 6), 428.3198734437694, 3371809.2),
        ("weston-watkins", (3, 6), 1437.0027071883019, 41455.7),
        ("weston-watkins", (5, 5), 14228.437363408177, 35120.1),
    ],
)
def test_the_dual_stays_below_the_optimum_where_rows_are_long(multiclass, counts, length, C):
    """The same row, very long, of both classes: D as kept through visits rose above the optimum."""
    y = np.repeat([0, 1], counts)
    training = run(np.full((len(y), 1), length), y, C=C, multiclass=multiclass, max_passes=30)
    least = min(C * len(y), 2 * C * min(counts) + 0.25 / length**2)  # where x w = 0, and where it is ±1
    duals = [report.certificate.total_dual for report in training.reports if report.certificate]
    assert max(duals) <= least * (1 + 1e-9)


@pytest.mark.parametrize("multiclass", DIRECT)
def test_sums_anew_are_those_of_the_shares(multiclass):
    """Out of core, where that takes one more reading of the rows, as in memory."""
    rng = np.random.default_rng(0)
    X, y, share = rng.normal(size=(9, 2)), rng.integers(0, 3, 9).astype(np.int32), rng.random((9, 3)) / 3
    share[np.arange(9), y] = 0.0
    cost, w = rng.random(9), np.ones((3, 3))

    def parts():
        for rows in (np.arange(4), np.arange(4, 9)):
            yield BlockShares(Block(X[rows], y[rows], rows), cost[rows], share[rows])

    with Threads(1) as threads:
        value = of_rows(multiclass, w.shape, 1.5, threads).sum_of(parts(), w)
    wide = np.hstack([X, np.full((9, 1), 1.5)])
    v = -share * cost[:, None]
    v[np.arange(9), y] = -v.sum(axis=1)
    np.testing.assert_allclose(w, wide.T @ v)
    assert value == pytest.approx((share * cost[:, None]).sum() - 0.5 * (w**2).sum())


@pytest.mark.parametrize("method", DIRECT)
def test_a_step_lists_no_more_dimensions_of_faces_than_there_is_room_for(monkeypatch, method):
    """It makes the matrix of the columns, which needs no lists, or is given up."""
    k, d = 40, 3
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, d)), rng.integers(0, k, 50).astype(np.int32)
    share = joint_dual(method).nearest(rng.random((50, k)) / k, y)
    part = BlockShares(Block(X, y, np.arange(50), None), np.ones(50), share)
    W, g = np.zeros((d + 1, k)), rng.normal(size=(d + 1, k))

    def step(room_bytes):
        prices = newton_prices(True, W.shape, d, room_bytes)
        rows = JointRows(of_rows(method, W.shape, 1.0, threads), lambda: [part], lambda _: None, W, prices)
        return rows.newton_step(g, 1e-6)

    with Threads(1) as threads:
        listed = step(ROOMY)
        monkeypatch.setattr(multipliers, "MOST_ORDER", 99)
        monkeypatch.setattr(FaceRows, "all", None)
        np.testing.assert_allclose(step(ROOMY), listed, rtol=1e-9)
        with pytest.raises(OutOfTime):
            step(8)


@pytest.mark.parametrize("method", DIRECT)
def test_less_of_a_gap_is_asked_for_after_a_pass_that_was_not_certified(monkeypatch, method):
    """Of Newton's method as of loops."""
    asked, solve = [], JointMultipliers.solve

    def watched(self, problem, parts, store, w, accuracy):
        asked.append(accuracy)
        return solve(self, problem, parts, store, w, accuracy)

    monkeypatch.setattr(JointMultipliers, "price", lambda *_: 0.0)
    monkeypatch.setattr(multipliers, "STAGE_STEPS", 1)
    monkeypatch.setattr(JointMultipliers, "solve", watched)
    X, y = load_iris(return_X_y=True)
    run(X, y, multiclass=method, C=1e4, tol=1e-6, max_passes=8)
    assert len(asked) > 2
    assert asked[0] <= 1e-6
    assert asked == pytest.approx([asked[0] * LOOP_ACCURACY**n for n in range(len(asked))], rel=1e-12)
