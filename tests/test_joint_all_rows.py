"""The joint method of multipliers over all rows that do not fit in memory: each look at them is a reading."""

from dataclasses import replace

import numpy as np
import pytest
from oracle import rows, run, small_pages, write_svmlight
from state_suite import Case, check_resumes
from test_joint_multipliers import DIRECT, ROOMY, optimum, primal

from llsvm.block import concat
from llsvm.data import open_source
from llsvm.memory.budget import MemoryBudget
from llsvm.objective.problems import RowCosts
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.solvers.optim import row_operator
from llsvm.solvers.sequential_dual.multipliers import JointMultipliers, JointRows, newton_prices
from llsvm.solvers.sequential_dual.problem import BlockShares, JointProblem, joint_dual
from llsvm.solvers.sequential_dual.rounds import JointRounds
from llsvm.solvers.sequential_dual.solver import SequentialDual
from llsvm.solvers.state import ArrayRows
from llsvm.stream.progress import Progress
from llsvm.stream.rereading import EveryRow
from llsvm.stream.stream import Stream

K, D, N = 3, 12, 120
GRID = 2.0**50


@pytest.fixture
def small(monkeypatch):
    """Pages, and pieces that rows are worked on in."""
    small_pages(monkeypatch)
    monkeypatch.setattr(row_operator, "PIECE_BYTES", 1 << 8)


@pytest.fixture
def stream(request, tmp_path, small):
    X, y = rows(n=N, d=D, classes=K, density=request.param)
    source = open_source(write_svmlight(tmp_path / "rows.svm", X, y))
    with Stream(source, MemoryBudget(9_000, 0), tmp_path, has_bias=True) as stream:
        stream.read()
        assert stream.place == "cache"
        yield stream


def some_held(stream):
    every = EveryRow(stream, int(0.6 * N * stream.dataset.held_bytes_per_row))
    assert 0 < every.n_held < len(every)
    return every


def read_anew(problem, every, kept, costs, W):
    """All rows, as Newton's method sees them where they do not fit in memory."""

    def parts():
        for number in range(len(every)):
            block = every.block(number)
            yield BlockShares(block, costs.of(block), kept.get(block.rows))

    return JointRows(problem, parts, lambda part: kept.set(part.rows, part.share), W)


@pytest.mark.parametrize("stream", [0.2, 1.0], indirect=True)
@pytest.mark.parametrize("method", DIRECT)
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_are_read_do_what_rows_at_hand_do(stream, method, threads):
    dual, costs, rng = (
        joint_dual(method),
        RowCosts.of_classes(10.0, np.array([1.0, 0.5, 2.0])),
        np.random.default_rng(0),
    )
    d = stream.dataset.n_columns
    with Threads(threads) as pool:
        every = some_held(stream)
        whole = concat(
            [every.block(number).take(np.arange(each)) for number, each in enumerate(np.diff(every.first))]
        )
        share = rng.choice([0.0, 0.25, 0.5], (N, K)) * (rng.random((N, K)) < 0.5)
        share = dual.nearest(share, whole.y)
        kept = ArrayRows(np.empty((N, K)))
        kept.set(whole.rows, share)
        part = BlockShares(whole, costs.of(whole), share)
        own = np.zeros((d + 1, K))
        problem = JointProblem(dual, own.shape, 1.0, GRID, pool, Progress())
        D0 = problem.sum_of([part], own)
        w = own.copy()
        (W, step, g), sigma = rng.normal(size=(3, *w.shape)), 0.4
        prices = newton_prices(True, w.shape, d, ROOMY)
        held = JointRows(problem, lambda: [part], lambda _: None, W, prices, w)
        read = read_anew(problem, every, kept, costs, W)
        assert read.first_sigma == pytest.approx(held.first_sigma)
        assert pytest.approx(D0) == read.D == pytest.approx(held.D)
        for each in zip(*(each.newton_step(g, sigma) for each in (held, read)), strict=True):
            np.testing.assert_allclose(*each, rtol=1e-8, atol=1e-10)
        for each in (held, read):
            each.set_step(step)
        for length in (0.0, 0.3, 1.0):
            here, there = (each.point(sigma, length) for each in (held, read))
            for name in ("dual", "gap", "moved", "slope"):
                np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-8, atol=1e-9)
            np.testing.assert_allclose(read.weights(), held.weights() - held.rest, rtol=1e-8, atol=1e-9)
        for each in (held, read):
            each.set_step(w - W)
            each.take(1.0)
        W[...] = w
        for each in (held, read):
            each.point(1e-4)
            each.move_base(1e-4)
        found = np.zeros_like(w)
        D1 = held.finish(w)
        assert D1 > D0
        assert read.finish(found) == pytest.approx(D1, rel=1e-5)
        np.testing.assert_allclose(found, w)
        np.testing.assert_allclose(kept.get(whole.rows), part.share, atol=1e-9)
        again = BlockShares(whole, part.cost, kept.get(whole.rows))
        assert problem.sum_of([again], own) == pytest.approx(read.D)


@pytest.mark.parametrize("stream", [1.0], indirect=True)
def test_the_dual_never_falls(stream):
    """At a point that is worse the shares stay."""
    dual, costs, d = (
        joint_dual("weston-watkins"),
        RowCosts.of_classes(1.0, np.ones(K)),
        stream.dataset.n_columns,
    )
    with Threads(1) as pool:
        kept = ArrayRows(np.zeros((N, K)))
        problem = JointProblem(dual, (d + 1, K), 1.0, GRID, pool, Progress())
        read = read_anew(problem, some_held(stream), kept, costs, np.zeros((d + 1, K)))
        read.point(1e6)  # all shares at their bounds
        read.move_base(1e6)
        assert not kept.array.any()
        assert read.finish(np.zeros((d + 1, K))) == 0.0 == read.D


@pytest.fixture
def steps(monkeypatch):
    """What each stage leaves of D; the first comes after a pass."""
    monkeypatch.setattr(JointMultipliers, "price", lambda *_: 0.0)
    made, stage = [], JointRounds.newton_stage

    def watched(self, newton, accuracy):
        kept = stage(self, newton, accuracy)
        made.append(self.loops.D)
        return kept

    monkeypatch.setattr(JointRounds, "newton_stage", watched)
    return made


@pytest.mark.parametrize(("method", "density"), [("crammer-singer", 0.3), ("weston-watkins", 1.0)])
def test_it_reaches_the_optimum(tmp_path, small, monkeypatch, steps, method, density):
    X, y = rows(n=300, d=8, classes=K, density=density)
    path = write_svmlight(tmp_path / "rows.svm", X * 30, y)
    options = {"multiclass": method, "C": 100.0, "tol": 1e-5, "scale": "none", "bias": 1.0}
    training = run(path, ledger=44_000 if density < 1 else 40_000, **options)
    assert not training.stream.in_one_block
    last = training.reports[-1]
    assert last.converged
    assert steps == sorted(steps)
    width = training.coef.shape[1]
    wide = np.hstack([np.zeros((len(y), width - 9)), 30 * X, np.ones((len(y), 1))])  # columns from 0 on
    best = optimum(wide, y, np.full(len(y), 100.0), method, K)
    assert last.certificate.total_dual <= best * (1 + 1e-6)
    assert primal(training.coef.T, wide, y, np.full(len(y), 100.0), method) <= best * (1 + 2e-5)


@pytest.mark.parametrize(
    ("method", "threads", "density", "tol"),
    [("crammer-singer", 1, 0.3, 1e-3), ("weston-watkins", 2, 1.0, 1e-6)],
)
def test_it_goes_on_as_if_not_stopped(tmp_path, small, monkeypatch, steps, method, threads, density, tol):
    """With shares of 32 and of 64 bits."""
    monkeypatch.setattr(row_operator, "PIECE_BYTES", 1 << 10)
    settings = {"solver": "auto", "multiclass": method, "C": 50.0, "tol": tol, "max_passes": 9}
    case = Case(settings, ledger=60_000, threads=threads, n=400, classes=K, density=density)
    check_resumes(replace(case, from_file="cache", in_one_block=False), tmp_path)
    assert len(steps) > 2


def test_limits_that_leave_no_room_do_without(tmp_path, small):
    X, y = rows(n=N, d=D, classes=K)
    with Stream(open_source(X, y), MemoryBudget(10**6, 0), tmp_path, has_bias=True) as stream:
        stream.read()
        left = stream.memory_left
    layouts = [
        SequentialDual(Settings(multiclass="crammer-singer"), np.ones(K), 1).layout(
            replace(left, limit_bytes=limit)
        )
        for limit in (8_000, 10**6)
    ]
    assert [layout.newton is None for layout in layouts] == [True, False]
