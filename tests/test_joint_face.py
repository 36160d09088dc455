"""Crammer-Singer and Weston-Watkins on rows of many columns: conjugate gradients on the face, the best multiple."""

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import run
from test_face import texts

from llsvm.block import CSR, Block
from llsvm.process.threads import Threads
from llsvm.solvers.row_products import RowProducts
from llsvm.solvers.sequential_dual.duals import joint_dual
from llsvm.solvers.sequential_dual.face import Face
from llsvm.solvers.sequential_dual.resum import resum
from llsvm.solvers.sequential_dual.scale import scaled
from llsvm.solvers.sequential_dual.shares import BlockShares
from llsvm.stream.progress import Progress

METHODS = ["crammer-singer", "weston-watkins"]


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


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layout", ["csr", "dense"])
@pytest.mark.parametrize("method", METHODS)
def test_steps_gain_what_they_say_and_come_to_the_faces_best(method, layout, threads):
    _, part = a_part(layout)
    dual, w = joint_dual(method), np.zeros((81, 4))
    before = resum([part], dual, 1.0, w)
    with Threads(threads) as pool:
        face = Face(dual, 1.0, pool, 2.0**50)
        gains = []
        for _ in range(8):
            gains.append(face.step(part, w, Progress()))
            anew = np.zeros_like(w)
            after = resum([part], dual, 1.0, anew)
            assert after - before == pytest.approx(gains[-1], abs=1e-9)
            np.testing.assert_allclose(w, anew, atol=1e-12)
            before = after
    assert (part.share >= 0).all()
    assert (part.share <= 1).all()
    assert method == "weston-watkins" or (part.share.sum(axis=1) <= 1).all()
    assert gains[0] > 1
    assert gains[-1] < 1e-9


def test_row_squares():
    for layout in ("csr", "dense"):
        X, part = a_part(layout)
        products = RowProducts(part.block, 2.0, 81, 4)
        for rows in (slice(3, 9), np.array([4, 5, 49]), np.array([5])):
            squares = products.row_squares(products.matrix(rows))
            np.testing.assert_allclose(squares, (X[rows] ** 2).sum(axis=1) + 4.0)


@pytest.mark.parametrize("method", METHODS)
def test_the_best_multiple(method):
    X, part = a_part("csr")
    part.cost[:] = 1e5
    dual, w = joint_dual(method), 0.3 * np.random.default_rng(1).normal(size=(81, 4))
    w[:80] += 0.2 * X.T @ np.eye(4)[part.block.y]
    products = RowProducts(part.block, 0.0, 81, 4)
    scores = products.scores(products.matrix(slice(0, 50)), w)

    def primal(t):
        return 0.5 * t * t * (w * w).sum() + dual.loss(t * scores, part.block.y, part.cost)

    factor, found = scaled(part, w, 0.0, method == "weston-watkins", primal(1.0), -1e12)
    assert (factor, found) == (1.0, primal(1.0))  # gains too little
    factor, found = scaled(part, w, 0.0, method == "weston-watkins", primal(1.0), 0.0)
    assert found == pytest.approx(primal(factor))


@pytest.mark.parametrize("method", METHODS)
def test_the_best_weights_of_all_passes_are_handed_back(method):
    X, y = texts(n=1500, contradict=5, classes=4)
    training = run(X, y, C=1e4, multiclass=method, tol=1e-7, max_passes=6)
    primal = [report.certificate.primal[0] for report in training.reports if report.kind == "pass"]
    assert primal == sorted(primal, reverse=True)
    W = training.coef.T
    losses = joint_dual(method).loss(X @ W[:-1], y.astype(np.int32), np.full(len(y), 1e4))
    assert 0.5 * (W * W).sum() + losses == pytest.approx(primal[-1], rel=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_many_columns_at_a_large_cost(method):
    X, y = texts(n=1500, contradict=5, classes=4)
    training = run(X, y, C=1e4, multiclass=method, max_seconds=60)
    last = training.reports[-1]
    assert last.converged
    assert last.passes <= 25
