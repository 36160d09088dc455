"""Crammer-Singer and Weston-Watkins on rows of many columns: the worst rows, the best multiple, the best pass."""

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import run
from test_face import texts

from llsvm import verify
from llsvm.block import CSR, Block
from llsvm.process.threads import Threads
from llsvm.solvers.optim.row_operator import RowProducts
from llsvm.solvers.sequential_dual import rounds as worst_rows_module
from llsvm.solvers.sequential_dual.best_weights import Multiple, scaled
from llsvm.solvers.sequential_dual.loops import Loops, listed
from llsvm.solvers.sequential_dual.multipliers import NewtonRoom
from llsvm.solvers.sequential_dual.problem import BlockShares, JointProblem, joint_dual
from llsvm.solvers.sequential_dual.rounds import JOINED, settle_worst_rows, solve_for, worst_rows
from llsvm.stream.progress import Progress

METHODS = ["crammer-singer", "weston-watkins"]
ROOM = NewtonRoom(1_000_000, False, 1_000_000)
N_CLASSES = 4


def of_rows(method, bias, pool):
    return JointProblem(joint_dual(method), (81, N_CLASSES), bias, 2.0**50, pool, Progress())


def loops_at(problem, part):
    """Loops whose weights and D are those of the shares."""
    loops = Loops(problem, False, 1e-6, 0)
    loops.resum([part])
    return loops


def a_part(layout, n=50, d=80, k=4):
    """Rows, two of them empty, with shares of which most are inside their bounds."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((n, d)) < 0.3, rng.normal(size=(n, d)), 0.0)
    X[5] = X[-1] = 0
    made = sp.csr_matrix(X)
    y = rng.integers(0, k, n).astype(np.int32)
    share = np.where(rng.random((n, k)) < 0.5, rng.random((n, k)) / k, 0.0)
    share[np.arange(n), y] = 0
    share = np.rint(share * 2.0**50) / 2.0**50
    rows = CSR(made.indptr.astype(np.int64), made.indices, made.data) if layout == "csr" else X
    return X, BlockShares(Block(rows, y, np.arange(n), None), np.full(n, 3.0), share)


@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("method", METHODS)
def test_the_worst_rows_are_those_of_the_largest_gaps(method, layout):
    X, part = a_part(layout)
    part.cost[:] = np.arange(50) % 7  # the rows of no cost are never among them
    w, y = np.random.default_rng(2).normal(size=(81, 4)), part.block.y
    scores = X @ w[:80] + 0.5 * w[80]
    gap = []
    for i in range(50):
        over = {m: 1.0 + scores[i, m] - scores[i, y[i]] for m in range(4) if m != y[i]}
        hinges = [max(0.0, each) for each in over.values()]
        loss = sum(hinges) if method == "weston-watkins" else max(hinges)
        gap.append(part.cost[i] * (loss - sum(part.share[i, m] * each for m, each in over.items())))
    with Threads(1) as pool:
        problem = of_rows(method, 0.5, pool)
        np.testing.assert_allclose(problem.gaps(part, w), gap, atol=1e-12)
        for most in (9, 50):
            best = [i for i in np.argsort(-np.array(gap), kind="stable")[:most] if gap[i] > 0]
            assert worst_rows(problem, part, w, most).tolist() == best


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("method", METHODS)
def test_newton_settles_the_worst_rows_and_gains_what_it_says(method, layout, threads):
    _, part = a_part(layout)
    start = part.share.copy()
    with Threads(threads) as pool:
        problem = of_rows(method, 1.0, pool)
        loops = loops_at(problem, part)
        rows, before = worst_rows(problem, part, loops.w, 12), loops.D
        missing = problem.gaps(part, loops.w)[rows].sum()
        solve_for(rows, part, loops, ROOM)
        left = problem.gaps(part, loops.w)[rows].sum()
        anew = np.zeros_like(loops.w)
        assert problem.sum_of([part], anew) == pytest.approx(loops.D, rel=1e-12)
    assert loops.made == 1
    np.testing.assert_allclose(loops.w, anew, atol=1e-12)
    assert left <= 1e-3 * missing
    assert before + 1 < loops.D
    others = np.setdiff1d(np.arange(50), rows)
    np.testing.assert_array_equal(part.share[others], start[others])
    assert (part.share >= 0).all()
    assert (part.share <= 1).all()
    assert method == "weston-watkins" or (part.share.sum(axis=1) <= 1).all()


@pytest.mark.parametrize("method", METHODS)
def test_the_best_multiple(method):
    X, part = a_part("csr")
    part.cost[:] = 1e5
    dual, w = joint_dual(method), np.zeros((81, 4))
    w[:80] = 0.03 * X.T @ np.eye(4)[part.block.y]  # margins are a little short
    products = RowProducts(part.block, 0.0, 81, 4)
    scores = products.scores(products.matrix(slice(0, 50)), w)

    def primal(t):
        return 0.5 * t * t * (w * w).sum() + part.cost @ dual.losses(t * scores, part.block.y)

    with Threads(1) as pool:
        problem = of_rows(method, 0.0, pool)
        least = min(map(primal, np.linspace(1.0, 20.0, 2000)))
        found = scaled(problem, part, w, primal(1.0), -1e12)
        assert found == Multiple(1.0, primal(1.0))  # gains too little
        found = scaled(problem, part, w, primal(1.0), least)
    assert found.factor > 1
    assert found.primal < primal(1.0)
    assert found.primal == pytest.approx(primal(found.factor))


@pytest.mark.parametrize("method", METHODS)
def test_the_best_weights_of_all_passes_are_handed_back(method):
    X, y = texts(n=1500, contradict=5, classes=4)
    training = run(X, y, C=1e4, multiclass=method, tol=1e-7, max_passes=6)
    primal = [report.certificate.primal[0] for report in training.reports if report.kind == "pass"]
    assert primal == sorted(primal, reverse=True)
    W = training.coef.T
    losses = 1e4 * joint_dual(method).losses(X @ W[:-1], y.astype(np.int32)).sum()
    assert 0.5 * (W * W).sum() + losses == pytest.approx(primal[-1], rel=1e-9)


def test_newton_takes_the_worst_rows_whose_values_have_room():
    _, part = a_part("csr")
    rows = np.arange(10, 40)
    values = np.cumsum(np.diff(part.block.X.indptr)[rows])
    before = part.share.copy()
    with Threads(1) as pool:
        loops = loops_at(of_rows("crammer-singer", 1.0, pool), part)
        solve_for(rows, part, loops, NewtonRoom(1_000_000, False, int(values[0]) - 1))
        np.testing.assert_array_equal(part.share, before)
        moved = solve_for(rows, part, loops, NewtonRoom(1_000_000, False, int(values[11])))
    np.testing.assert_array_equal(moved, rows[:12])
    others = np.setdiff1d(np.arange(50), moved)
    np.testing.assert_array_equal(part.share[others], before[others])


@pytest.mark.parametrize("weston_watkins", [False, True])
def test_no_list_is_longer_than_there_is_room_for(weston_watkins):
    share, rows = np.random.default_rng(0).choice([0.0, 0.5, 1.0], (30, 3)), np.arange(1, 29)
    inside = listed(share, rows, weston_watkins, 4, share.size)
    assert len(listed(share, rows, weston_watkins, 4, len(inside))) == len(inside)
    assert listed(share, rows, weston_watkins, 4, len(inside) - 1) is None


def solved_in_turn(monkeypatch, worst, solve):
    """The rows of each solution; worst: rows by number of the look; solve: what is moved of the rows asked for."""
    asked = []

    def solved(rows, *_):
        asked.append(rows.tolist())
        return solve(rows)

    monkeypatch.setattr(worst_rows_module, "WORST_ROWS", 8)
    monkeypatch.setattr(worst_rows_module, "worst_rows", lambda *_: np.array(worst(len(asked))))
    monkeypatch.setattr(worst_rows_module, "solve_for", solved)
    _, part = a_part("csr")
    with Threads(1) as pool:
        settle_worst_rows(part, loops_at(of_rows("crammer-singer", 1.0, pool), part), ROOM)
    return asked


def test_worst_rows_join_a_few_times(monkeypatch):
    asked = solved_in_turn(monkeypatch, lambda look: [look, 20], lambda rows: rows)
    assert len(asked) == JOINED
    assert asked[1] == [1, 0, 20]


def test_worst_rows_are_no_more_than_there_is_room_for(monkeypatch):
    asked = solved_in_turn(monkeypatch, lambda look: range(4 + 3 * look, 3 * look, -1), lambda rows: rows)
    assert asked[1:] == [[7, 6, 5, 4, 3, 2, 1], [10, 7, 6, 5, 4, 3, 2, 1]]  # 9 and 8 come too late


def test_rows_that_are_newly_worst_have_room_first(monkeypatch):
    asked = solved_in_turn(monkeypatch, lambda look: [2 * look, 2 * look + 1], lambda rows: rows[:3])
    assert asked[2] == [4, 5, 2, 3, 0]


def test_no_rows_join_after_a_solution_without_gain(monkeypatch):
    assert len(solved_in_turn(monkeypatch, lambda look: [look], lambda rows: rows[:0])) == 1


@pytest.mark.parametrize("method", METHODS)
def test_many_columns_at_a_large_cost(method):
    X, y = texts(n=1500, contradict=5, classes=4)
    training = run(X, y, C=1e4, multiclass=method, max_seconds=60)
    last = training.reports[-1]
    assert last.converged
    assert last.passes <= 15


def twice_under_other_labels(n, again, columns, **options):
    """Train at a large cost on rows of five classes by chance; the first ``again`` of n come again."""
    rng = np.random.default_rng(0)
    X = sp.random(n, columns, density=0.003, random_state=0, format="csr")
    X.data = np.rint(8 * X.data)
    X, y = sp.vstack([X, X[:again]]).tocsr(), rng.integers(0, 5, n + again)
    training = run(X, y, C=1e4, multiclass="crammer-singer", ledger=100_000_000, max_passes=15)
    assert training.reports[-1].converged
    return training, X, y


def test_rows_twice_under_other_labels():
    """The worst row of two is one whose twin is settled: only both together can be."""
    twice_under_other_labels(900, 60, 20_000)


@pytest.mark.slow
def test_a_hundred_rows_twice_under_other_labels():
    """As many as Newton's method on the worst rows is for."""
    training, X, y = twice_under_other_labels(1500, 100, 30_000)
    assert training.model.certificate.relative_gap <= 1e-3
    assert verify(training.model, X, y)["differences"] == []
