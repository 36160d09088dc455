"""Passes of multinomial logistic regression: what is summed over rows at weights W (d + 1, k), with their scores
s_i = Wᵀ x_i and probabilities p_i = e^{s_i} / Σ_m e^{s_im}.

The loss is Σ C_i (log Σ_m e^{s_im} − s_iy), its gradient Σ C_i x_i (p_i − 1_y)ᵀ, its Hessian
Σ C_i (diag p_i − p_i p_iᵀ) ⊗ x_i x_iᵀ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.objective.costs import RowCosts
from llsvm.process.threads import Threads
from llsvm.solvers.lapack import Cholesky, factor_with_ridge
from llsvm.solvers.row_products import RowProducts
from llsvm.stream.progress import Progress
from llsvm.stream.stream import Stream

Array = NDArray[np.float64]
R = TypeVar("R")
LEAST = 1e-10  # of a free weight, on a diagonal


@dataclass(slots=True)
class Measured:
    """loss: Σ C_i loss_i. entropy: Σ C_i H(p_i), H(p) = −Σ p log p. gradient: of the loss, as W. diagonal: of the
    loss's Hessian, as W; None where there is the whole one."""

    loss: float
    entropy: float
    gradient: Array
    diagonal: Array | None


@dataclass(frozen=True, slots=True)
class Passes:
    """bias: the constant feature."""

    stream: Stream
    costs: RowCosts
    threads: Threads
    bias: float

    def measure(self, W: Array, hessian: Array | None, class_sums: Array | None = None) -> Measured:
        """hessian: (k, d + 1, k, d + 1), overwritten with the loss's, classes (a, b) with a ≥ b alone; where time
        is over before it is summed, it is given up. class_sums: as W, Σ C_i x_i 1_yᵀ is added to it."""
        found = Measured(0.0, 0.0, np.zeros_like(W), np.zeros_like(W) if hessian is None else None)
        if hessian is not None:
            hessian[...] = 0.0
        for block in self.stream.all():
            rows = _Rows(block, self.costs.of(block), RowProducts(block, self.bias, *W.shape))
            for part in self.threads.over_rows(block.n_rows, rows.measure(W, hessian is None)):
                found.loss += part.loss
                found.entropy += part.entropy
                found.gradient += part.gradient
                if found.diagonal is not None and part.diagonal is not None:
                    found.diagonal += part.diagonal
            if hessian is not None:
                rows.add_hessian(W, hessian, self.threads, self.stream.progress)
            if class_sums is not None:
                rows.add_class_sums(class_sums)
        return found

    def product(self, W: Array, d: Array) -> Array:
        """The loss's Hessian at W times d."""
        out = np.zeros_like(W)
        for block in self.stream.all():
            rows = _Rows(block, self.costs.of(block), RowProducts(block, self.bias, *W.shape))
            for part in self.threads.over_rows(block.n_rows, rows.product(W, d)):
                out += part
        return out

    def shared_hessian(self, W: Array, identity: Array, rows_per_column: int) -> Cholesky | None:
        """The factor of the Hessian (d + 1, d + 1) of a class, if all had the mean of their curvatures; of a sample
        of the rows, which are in one block. identity: (d + 1, 1), the penalty's."""
        (block,) = self.stream.all()
        rows = _Rows(block, self.costs.of(block), RowProducts(block, self.bias, *W.shape))
        H = rows.shared_hessian(W, rows_per_column * len(W), self.threads)
        H.flat[:: len(H) + 1] += np.maximum(identity[:, 0], LEAST * H.diagonal())
        return factor_with_ridge(H)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Of a block, with their C_i."""

    block: Block
    cost: Array
    products: RowProducts

    def measure(self, W: Array, with_diagonal: bool) -> Callable[[int, int, int], Measured]:
        def work(t: int, start: int, stop: int) -> Measured:
            found = Measured(0.0, 0.0, np.zeros_like(W), np.zeros_like(W) if with_diagonal else None)
            for rows in self.products.pieces(start, stop):
                X, cost = self.products.matrix(rows), self.cost[rows]
                own = np.arange(rows.stop - rows.start), self.block.class_ids[rows]
                scores = self.products.scores(X, W)
                p, logs = _softmax(scores)
                found.loss += float(cost @ (logs - scores[own]))
                found.entropy += float(cost @ (logs - np.einsum("ij,ij->i", p, scores)))
                p *= cost[:, None]
                if found.diagonal is not None:
                    share = np.where(cost > 0, cost, 1.0)[:, None]
                    self.products.add_squares(X, p - p * p / share, found.diagonal)
                p[own] = -(p.sum(axis=1) - p[own])  # exact where p_y is nearly 1
                self.products.add(X, p, found.gradient)
            return found

        return work

    def product(self, W: Array, d: Array) -> Callable[[int, int, int], Array]:
        def work(t: int, start: int, stop: int) -> Array:
            out = np.zeros_like(W)
            for rows in self.products.pieces(start, stop):
                X = self.products.matrix(rows)
                p, _ = _softmax(self.products.scores(X, W))
                along = self.products.scores(X, d)
                along -= np.einsum("ij,ij->i", p, along)[:, None]
                along *= p
                along *= self.cost[rows, None]
                self.products.add(X, along, out)
            return out

        return work

    def shared_hessian(self, W: Array, most: int, threads: Threads) -> Array:
        """Σ C_i (1 − Σ_m p_im²) x_i x_iᵀ / (k − 1), from so many rows at most: those that are met at even steps of
        what they bend, each for as much as all between."""
        bend = np.empty(self.block.n_rows)

        def work(t: int, start: int, stop: int) -> None:
            for rows in self.products.pieces(start, stop):
                p, _ = _softmax(self.products.scores(self.products.matrix(rows), W))
                bend[rows] = self.cost[rows] * (1.0 - np.einsum("ij,ij->i", p, p))

        threads.over_rows(len(bend), work)
        np.maximum(bend, 0.0, out=bend)
        sums = np.cumsum(bend)
        step = sums[-1] / min(most, len(bend))
        met = np.searchsorted(sums, step * (np.arange(min(most, len(bend))) + 0.5))
        some, times = np.unique(np.minimum(met, len(bend) - 1), return_counts=True)
        X = self.products.dense(some)
        X *= np.sqrt(step * times / (W.shape[1] - 1))[:, None]
        return np.asarray(X.T @ X)

    def add_class_sums(self, out: Array) -> None:
        for rows in self.products.pieces(0, self.block.n_rows):
            own = np.zeros((rows.stop - rows.start, out.shape[1]))
            own[np.arange(len(own)), self.block.class_ids[rows]] = self.cost[rows]
            self.products.add(self.products.matrix(rows), own, out)

    def add_hessian(self, W: Array, hessian: Array, threads: Threads, progress: Progress) -> None:
        step = self.products.dense_piece_rows
        for start in range(0, self.block.n_rows, step):
            if progress.out_of_time:
                return
            rows = np.arange(start, min(start + step, self.block.n_rows))
            X, cost = self.products.dense(rows), self.cost[rows]
            p, _ = _softmax(X @ W)

            def add(a: int, X: Array = X, cost: Array = cost, p: Array = p) -> None:
                for b in range(a + 1):
                    weight = cost * p[:, a] * ((a == b) - p[:, b])
                    hessian[a, :, b, :] += (X * weight[:, None]).T @ X

            threads.map(add, range(W.shape[1]))


def _softmax(scores: Array) -> tuple[Array, Array]:
    """p, and log Σ_m e^{s_im}, (n,)."""
    most = scores.max(axis=1, keepdims=True)
    p = np.exp(scores - most)
    total = p.sum(axis=1, keepdims=True)
    p /= total
    return p, (most + np.log(total))[:, 0]
