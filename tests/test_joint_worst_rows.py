"""Crammer-Singer and Weston-Watkins on rows of many columns: the worst rows, the best multiple, the best pass."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import run, small_pages
from test_face import texts

from llsvm import verify
from llsvm.block import CSR, Block
from llsvm.process.threads import Threads
from llsvm.solvers.row_products import RowProducts
from llsvm.solvers.sequential_dual.duals import joint_dual
from llsvm.solvers.sequential_dual.layout import WorstRoom
from llsvm.solvers.sequential_dual.resum import resum
from llsvm.solvers.sequential_dual.rounds import JointRounds
from llsvm.solvers.sequential_dual.scale import Multiple, scaled
from llsvm.solvers.sequential_dual.shares import BlockShares
from llsvm.solvers.sequential_dual.tuning import DEFAULT
from llsvm.solvers.sequential_dual.worst_rows import WorstRows, gaps
from llsvm.stream.progress import Progress

METHODS = ["crammer-singer", "weston-watkins"]
ROOM = WorstRoom(1_000_000, 81 * 4, 1_000_000)


def at_most(rows):
    return replace(DEFAULT, worst_rows=rows)


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
    np.testing.assert_allclose(gaps(part, w, 0.5, joint_dual(method))[0], gap, atol=1e-12)
    with Threads(1) as pool:
        for most in (9, 50):
            chosen = WorstRows(joint_dual(method), 0.5, pool, ROOM, 2.0**50, at_most(most)).choose(part, w)
            best = [i for i in np.argsort(-np.array(gap), kind="stable")[:most] if gap[i] > 0]
            assert chosen.tolist() == best


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("method", METHODS)
def test_newton_settles_the_worst_rows_and_gains_what_it_says(method, layout, threads):
    _, part = a_part(layout)
    dual, w = joint_dual(method), np.zeros((81, 4))
    before, start = resum([part], dual, 1.0, w), part.share.copy()
    with Threads(threads) as pool:
        worst = WorstRows(dual, 1.0, pool, ROOM, 2.0**50, at_most(12))
        rows = worst.choose(part, w)
        missing = gaps(part, w, 1.0, dual)[0][rows].sum()
        loops = SimpleNamespace(w=w, dual=before, made=0)
        gain = worst.solve(part, rows, loops, Progress())
    assert (loops.dual, loops.made) == (before + gain, 1)
    anew = np.zeros_like(w)
    assert resum([part], dual, 1.0, anew) - before == pytest.approx(gain, rel=1e-12)
    np.testing.assert_allclose(w, anew, atol=1e-12)
    assert (gaps(part, w, 1.0, dual)[0][rows].sum()) <= 2e-3 * missing
    assert gain > 1
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
        return 0.5 * t * t * (w * w).sum() + dual.loss(t * scores, part.block.y, part.cost)

    found = scaled(part, w, 0.0, method == "weston-watkins", primal(1.0), -1e12)
    assert found == Multiple(1.0, primal(1.0))  # gains too little
    found = scaled(part, w, 0.0, method == "weston-watkins", primal(1.0), 0.0)
    always = scaled(part, w, 0.0, method == "weston-watkins", primal(1.0), -1e12, always=True)
    assert always.factor > 1
    assert always.primal == pytest.approx(primal(always.factor))
    assert always.primal < primal(1.0)
    assert found.primal == pytest.approx(primal(found.factor))


@pytest.mark.parametrize("method", METHODS)
def test_the_best_weights_of_all_passes_are_handed_back(method):
    X, y = texts(n=1500, contradict=5, classes=4)
    training = run(X, y, C=1e4, multiclass=method, tol=1e-7, max_passes=6)
    primal = [report.certificate.primal[0] for report in training.reports if report.kind == "pass"]
    assert primal == sorted(primal, reverse=True)
    W = training.coef.T
    losses = joint_dual(method).loss(X @ W[:-1], y.astype(np.int32), np.full(len(y), 1e4))
    assert 0.5 * (W * W).sum() + losses == pytest.approx(primal[-1], rel=1e-9)


@pytest.mark.parametrize("layout", ["csr", "dense"])
def test_the_worst_rows_of_blocks_are_those_of_all(layout):
    _, part = a_part(layout)
    w, dual = np.random.default_rng(2).normal(size=(81, 4)), joint_dual("crammer-singer")
    pieces = [
        BlockShares(part.block.take(rows), part.cost[rows], part.share[rows])
        for rows in np.array_split(np.arange(50), 7)
    ]
    with Threads(1) as pool:
        for rows_bytes in (100_000, 1500):  # the latter is room for some
            worst = WorstRows(dual, 0.5, pool, replace(ROOM, rows_bytes=rows_bytes), 2.0**50, at_most(9))
            losses, found = worst.choose_of(pieces, w)
            best = worst.choose(part, w).tolist()
            held = found.block.rows.tolist()
            assert held == best[: len(held)]
            assert (len(held) == 9) == (rows_bytes == 100_000)
            assert found.block.nbytes <= rows_bytes + 1000
            np.testing.assert_array_equal(found.share, part.share[held])
    products = RowProducts(part.block, 0.5, 81, 4)
    scores = products.scores(products.matrix(slice(0, 50)), w)
    assert losses == pytest.approx(dual.loss(scores, part.block.y, part.cost))


def test_newton_takes_the_worst_rows_whose_columns_have_room():
    _, part = a_part("csr")
    w, dual, rows = np.zeros((81, 4)), joint_dual("crammer-singer"), np.arange(10, 40)
    X = part.block.take(rows).X
    columns = [len(np.unique(X.indices[: X.indptr[n]])) + 1 for n in range(len(rows) + 1)]
    before = part.share.copy()
    with Threads(1) as pool:
        room = WorstRoom(0, 4 * 60, 1_000_000)
        loops = SimpleNamespace(w=w, dual=0.0, made=0)
        WorstRows(dual, 1.0, pool, room, 2.0**50, at_most(30)).solve(part, rows, loops, Progress())
        none = WorstRows(dual, 1.0, pool, replace(room, weights=0), 2.0**50, at_most(30))
        assert none.solve(part, rows, loops, Progress()) == 0.0
        assert not none.has_newton
    moved = np.flatnonzero((part.share != before).any(axis=1)) - 10
    assert len(moved)
    assert columns[moved.max() + 1] <= 60


@pytest.mark.parametrize("method", METHODS)
def test_weights_are_measured_before_the_worst_rows_are_settled_out_of_core(method, monkeypatch):
    """That is a pass of its own, with nothing trained since the one before."""
    small_pages(monkeypatch, 20_000, 40_000)
    spilled, full_pass = [], JointRounds.full_pass

    def watched(rounds, measure, epochs=True):
        before = rounds._stream.bytes_spilled
        primal = full_pass(rounds, measure, epochs)
        spilled.append((epochs, rounds._stream.bytes_spilled - before))
        return primal

    monkeypatch.setattr(JointRounds, "full_pass", watched)
    X, y = texts(n=3000, contradict=5, classes=4)
    training = run(X, y, ledger=1_100_000, C=1e4, multiclass=method, max_passes=10)
    assert not training.stream.in_one_block
    unread = [nbytes for epochs, nbytes in spilled if not epochs]
    assert unread  # passes whose survivors no epochs follow spill none
    assert not any(unread)
    kinds = "".join(report.kind[0] for report in training.reports)
    assert "eppe" in kinds
    assert kinds.endswith("pp")
    W, last = training.coef.T, training.reports[-1]
    losses = joint_dual(method).loss(X @ W[:-1] + W[-1], y.astype(np.int32), np.full(len(y), 1e4))
    assert 0.5 * (W * W).sum() + losses == pytest.approx(last.certificate.total_primal, rel=1e-9)


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
