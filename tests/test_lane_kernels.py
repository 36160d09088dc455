"""Sweeps over several problems at once: vectors in kernels; each lane as if it were alone (kernels.py, NumPy)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llsvm.block import CSR
from llsvm.kernels.options import njit
from llsvm.kernels.vectors import differ, load, maximum, minimum, spread, store, without
from llsvm.solvers.llsvm.kernels import sweep
from llsvm.solvers.llsvm.lane_kernels import (
    ProblemArguments,
    RowArguments,
    add_lanes,
    advance,
    dots_lanes,
    rows_of_runs,
    sweep_lanes,
)


@njit()
def arithmetic(a, b, out, bits, lanes):
    """Everything that vectors can do, into rows of ``out``."""
    L = len(lanes)
    x, y = load(a, 1, lanes), load(b, 1, lanes)
    for row, each in enumerate(
        (x + y, x - y, x * y, minimum(x, y), maximum(x, y), without(x, bits), spread(2.5, lanes))
    ):
        store(out, row * L, each)
    return differ(x, y), differ(x, x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [4, 8])
def test_vectors_are_worked_on_lane_by_lane(width, dtype):
    rng = np.random.default_rng(width)
    a, b = rng.normal(size=(2, width + 2)).astype(dtype)
    b[2] = a[2]
    out = np.zeros(7 * width, dtype)
    assert arithmetic(a, b, out, 0b101, (0,) * width) == (True, False)
    x, y = a[1 : width + 1].astype(float), b[1 : width + 1].astype(float)
    expected = [x + y, x - y, x * y, np.minimum(x, y), np.maximum(x, y)]
    expected += [np.where(np.arange(width) % 2 + np.arange(width) // 4, x, 0.0), np.full(width, 2.5)]
    np.testing.assert_array_equal(out.reshape(7, width), np.array(expected).astype(dtype))


class Case:
    """Sparse rows, some of them empty, and problems that leave some of them out."""

    def __init__(self, seed, width, n=40, d=30, dtype=np.float32, share=np.float64, targets=False, bias=1.0):
        rng = np.random.default_rng(seed)
        self.n, self.d, self.width, self.bias, self.targets = n, d, width, bias, targets
        self.dense = rng.normal(size=(n, d)).astype(dtype) * (rng.random((n, d)) < 0.3)
        self.dense[::7] = 0
        row, column = np.nonzero(self.dense)
        indptr = np.searchsorted(row, np.arange(n + 1)).astype(np.int64)
        self.X = CSR(indptr, column.astype(np.int32), self.dense[row, column])
        self.y = rng.normal(size=n) if targets else rng.choice([-1.0, 1.0], n)
        self.cost = rng.random(n) * (rng.random(n) < 0.9)
        self.rows = rng.permutation(n + 5)[:n].astype(np.int64)  # rows are those of a larger data set
        m = width - 1  # one lane is not used
        self.factors = np.zeros((4, width))
        self.factors[:2, :m] = 10 ** rng.uniform(-1, 1, (2, m))
        np.divide(1.0, self.factors[:2], out=self.factors[2:], where=self.factors[:2] > 0)
        self.left_out = rng.integers(0, 1 << m, n + 5).astype(np.uint8)
        self.share = np.zeros((n + 5) * width, share)
        self.active = np.zeros(n + 5, np.uint8)
        self.w = np.zeros((d + 1) * width)
        self.lanes = (0,) * width
        self.bounds = (-0.5, 1.0) if targets else (0.0, 1.0)

    @property
    def own(self):
        """(n, width) C_i in each lane."""
        side = np.ones(self.n, int) if self.targets else (self.y > 0).astype(int)
        inside = (self.left_out[self.rows][:, None] >> np.arange(self.width)) & 1 == 0
        return self.cost[:, None] * self.factors[side] * inside

    @property
    def alpha(self):
        return self.own * self.share.reshape(-1, self.width)[self.rows]

    @property
    def signs(self):
        return np.ones(self.n) if self.targets else self.y

    def weights(self, alpha):
        """(d + 1, width) that α makes."""
        X = np.column_stack([self.dense, np.full(self.n, self.bias)]).astype(float)
        return X.T @ (alpha * self.signs[:, None])

    @property
    def arguments(self):
        rows = RowArguments(*self.X, self.y, self.cost, self.rows, self.targets)
        return *rows, *ProblemArguments(self.bias, self.lanes, *self.bounds, self.factors, self.left_out)

    def sweep(self, order):
        totals = np.zeros((2, self.width))
        sweep_lanes(*self.arguments, order, self.w, self.share, self.active, totals)
        return totals

    def add(self, w, linear, moves=False, last=None, step=None, ahead=None):
        last = self.share if last is None else last
        ahead = np.zeros((2, self.width)) if ahead is None else ahead
        step = kept(last - last) if step is None else step
        add_lanes(*self.arguments, w, self.share, last, step, ahead, moves, linear)


def kept(step):
    """As bfloat16: the upper half of a float32, rounded."""
    return (step.astype(np.float32).view(np.uint32) + np.uint32(1 << 15) >> np.uint32(16)).astype(np.uint16)


def known(step):
    return (step.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 40), st.integers(1, 7), st.booleans(), st.integers(0, 100))
def test_runs_are_visited_in_their_order_and_rows_within_them(n, length, everyone, seed):
    rng = np.random.default_rng(seed)
    rows = rng.permutation(n + 3)[:n].astype(np.int64)
    active = rng.integers(0, 2, n + 3).astype(np.uint8)
    runs, order = rng.permutation(-(-n // length)), np.empty(n, np.int64)
    found = rows_of_runs(runs, length, rows, active, everyone, order)
    expected = [i for run in runs for i in range(n) if i // length == run and (everyone or active[rows[i]])]
    assert order[:found].tolist() == expected


CASES = st.builds(
    Case,
    seed=st.integers(0, 10_000),
    width=st.sampled_from([4, 8]),
    dtype=st.sampled_from([np.float32, np.float64]),
    targets=st.booleans(),
    bias=st.sampled_from([0.0, 1.0]),
)


@settings(max_examples=40, deadline=None)
@given(CASES)
def test_each_lane_is_swept_over_as_if_it_were_alone(case):
    rng = np.random.default_rng(1)
    own = case.own
    alphas, weights = np.zeros((case.width, case.n)), np.zeros((case.width, case.d + 1))
    for _ in range(4):
        order = rng.permutation(case.n)
        totals = case.sweep(order)
        for lane in range(case.width):
            theirs, before = np.zeros(2), alphas[lane].copy()
            sweep(
                *(*case.X, case.y, np.ascontiguousarray(own[:, lane]), alphas[lane], np.zeros(case.n)),
                *(
                    order.copy(),
                    weights[lane],
                    case.bias,
                    case.targets,
                    *case.bounds,
                    0.0,
                    0.0,
                    False,
                    theirs,
                ),
            )
            np.testing.assert_allclose(case.alpha[:, lane], alphas[lane], atol=1e-10)
            np.testing.assert_allclose(case.w.reshape(-1, case.width)[:, lane], weights[lane], atol=1e-9)
            np.testing.assert_allclose(totals[:, lane], theirs, atol=1e-8)
            moved = (np.abs(alphas[lane] - before) > 1e-9) & (own[:, lane] > 0)
            assert case.active[case.rows[moved]].all()
    low, high = (bound * own for bound in case.bounds)
    free = (case.alpha > low) & (case.alpha < high)
    assert case.active[case.rows[free.any(axis=1)]].all()


@pytest.mark.parametrize("share", [np.float32, np.float64])
def test_weights_are_those_of_the_shares_as_they_are_kept(share):
    case = Case(3, 8, share=share)
    for seed in range(5):
        case.sweep(np.random.default_rng(seed).permutation(case.n))
    np.testing.assert_allclose(case.w.reshape(-1, 8), case.weights(case.alpha), atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(CASES)
def test_sums_and_products_are_numpys(case):
    case.sweep(np.arange(case.n))
    out, w, linear = np.empty((case.n, case.width)), np.zeros_like(case.w), np.zeros(case.width)
    dots_lanes(*case.X, case.w, case.bias, case.lanes, out)
    X = np.column_stack([case.dense, np.full(case.n, case.bias)]).astype(float)
    np.testing.assert_allclose(out, X @ case.w.reshape(-1, case.width), atol=1e-10)
    case.add(w, linear)
    np.testing.assert_allclose(w.reshape(-1, case.width), case.weights(case.alpha), atol=1e-10)
    target = case.y if case.targets else np.ones(case.n)
    np.testing.assert_allclose(linear, target @ case.alpha, atol=1e-10)


@settings(max_examples=20, deadline=None)
@given(CASES)
def test_a_move_is_clipped_and_remembered(case):
    points = []
    for seed in range(3):
        points.append(case.share.copy())
        case.sweep(np.random.default_rng(seed).permutation(case.n))
    _, before, last = points
    step = kept(last - before)
    np.testing.assert_allclose(known(step), last - before, rtol=2.0**-8, atol=1e-30)
    ahead = np.random.default_rng(9).normal(size=(2, case.width))
    moved, rise = np.zeros_like(case.w), np.zeros(case.width)
    case.add(moved, rise, True, last, step, ahead)
    shape = -1, case.width
    a, b, to = (each.reshape(shape).copy() for each in (case.share, last, known(step)))
    new = np.clip(a + ahead[0] * (a - b) + ahead[1] * to, *case.bounds)
    change = case.own * (new - a)[case.rows]
    np.testing.assert_allclose(moved.reshape(shape), case.weights(change), atol=1e-10)
    target = case.y if case.targets else np.ones(case.n)
    np.testing.assert_allclose(rise, target @ change, atol=1e-10)
    length = np.linspace(0.0, 1.0, case.width)
    advance(case.share, last, step, ahead, length, *case.bounds, case.lanes)
    np.testing.assert_allclose(case.share.reshape(shape), a + length * (new - a), atol=1e-12)
    np.testing.assert_array_equal(last, case.share)
    np.testing.assert_array_equal(step, kept(case.share.astype(float) - b.ravel()))
