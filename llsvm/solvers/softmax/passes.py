"""Passes of multinomial logistic regression: what is summed over rows at weights W (d + 1, k), with their scores
s_i = Wᵀ x_i and probabilities p_i = e^{s_i} / Σ_m e^{s_im}.

The loss is Σ C_i (log Σ_m e^{s_im} − s_iy), its gradient Σ C_i x_i (p_i − 1_y)ᵀ, its Hessian
Σ C_i (diag p_i − p_i p_iᵀ) ⊗ x_i x_iᵀ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.objective.costs import RowCosts
from llsvm.objective.joint_loss import softmax
from llsvm.process.threads import Threads
from llsvm.process.work import count_matrix
from llsvm.solvers.row_products import RowProducts
from llsvm.solvers.softmax.sample import RowSample
from llsvm.stream.progress import Progress
from llsvm.stream.stream import Stream

Array = NDArray[np.float64]


@dataclass(slots=True)
class SoftmaxSums:
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

    def rows(self, block: Block, cost: Array, W: Array) -> BlockRows:
        """Those of a block, whose C_i are (n,) cost."""
        return BlockRows(block, cost, RowProducts(block, self.bias, *W.shape))

    def measure(
        self,
        W: Array,
        hessian: Array | None,
        class_sums: Array | None = None,
        sample: RowSample | None = None,
    ) -> SoftmaxSums:
        """hessian: (k, d + 1, k, d + 1), overwritten with the loss's, classes (a, b) with a ≥ b alone; where time
        is over before it is summed, it is given up. class_sums: as W, Σ C_i x_i 1_yᵀ is added to it. sample: is
        taken anew."""
        found = SoftmaxSums(0.0, 0.0, np.zeros_like(W), np.zeros_like(W) if hessian is None else None)
        if hessian is not None:
            hessian[...] = 0.0
        if sample is not None:
            sample.clear()
        for block in self.stream.all():
            rows = self.rows(block, self.costs.of(block), W)
            bend = None if sample is None else np.empty(block.n_rows)
            for part in self.threads.over_rows(block.n_rows, rows.measure(W, hessian is None, bend)):
                found.loss += part.loss
                found.entropy += part.entropy
                found.gradient += part.gradient
                if found.diagonal is not None and part.diagonal is not None:
                    found.diagonal += part.diagonal
            if hessian is not None:
                rows.add_hessian(W, hessian, self.threads, self.stream.progress)
            if class_sums is not None:
                rows.add_class_sums(class_sums)
            if sample is not None and bend is not None:
                sample.add(block, rows.cost, bend)
        return self._of_all_shards(found, hessian, class_sums)

    def _of_all_shards(
        self, found: SoftmaxSums, hessian: Array | None, class_sums: Array | None
    ) -> SoftmaxSums:
        total, diagonal = self.stream.sum, found.diagonal
        for array in (hessian, class_sums):
            if array is not None:
                array[...] = total(array)
        diagonal = None if diagonal is None else total(diagonal)
        return SoftmaxSums(total(found.loss), total(found.entropy), total(found.gradient), diagonal)

    def product(self, W: Array, d: Array) -> Array:
        """The loss's Hessian at W times d."""
        out = np.zeros_like(W)
        for block in self.stream.all():
            rows = self.rows(block, self.costs.of(block), W)
            for part in self.threads.over_rows(block.n_rows, rows.product(W, d)):
                out += part
        return self.stream.sum(out)


@dataclass(frozen=True, slots=True)
class BlockRows:
    """Of a block, with their C_i."""

    block: Block
    cost: Array
    products: RowProducts

    def measure(
        self, W: Array, with_diagonal: bool, bend: Array | None = None
    ) -> Callable[[int, int, int], SoftmaxSums]:
        """bend: (n,), is set to C_i (1 − Σ_m p_im²)."""

        def work(t: int, start: int, stop: int) -> SoftmaxSums:
            found = SoftmaxSums(0.0, 0.0, np.zeros_like(W), np.zeros_like(W) if with_diagonal else None)
            for rows in self.products.pieces(start, stop):
                X, cost = self.products.matrix(rows), self.cost[rows]
                own = np.arange(rows.stop - rows.start), self.block.class_ids[rows]
                p, behind, logs = softmax(self.products.scores(X, W))
                found.loss += float(cost @ (logs - behind[own]))
                found.entropy += float(cost @ (logs - np.einsum("ij,ij->i", p, behind)))
                if bend is not None:
                    bend[rows] = cost * (1.0 - np.einsum("ij,ij->i", p, p))
                p *= cost[:, None]
                if found.diagonal is not None:
                    share = np.where(cost > 0, cost, 1.0)[:, None]
                    self.products.add_squares(X, p - p * p / share, found.diagonal)
                p[own] = 0.0
                p[own] = -p.sum(axis=1)  # p_y − 1, exact where p_y is nearly 1
                self.products.add(X, p, found.gradient)
            return found

        return work

    def product(self, W: Array, d: Array) -> Callable[[int, int, int], Array]:
        def work(t: int, start: int, stop: int) -> Array:
            out = np.zeros_like(W)
            for rows in self.products.pieces(start, stop):
                X = self.products.matrix(rows)
                p, _, _ = softmax(self.products.scores(X, W))
                along = self.products.scores(X, d)
                along -= np.einsum("ij,ij->i", p, along)[:, None]
                along *= p
                along *= self.cost[rows, None]
                self.products.add(X, along, out)
            return out

        return work

    def shared_hessian(self, W: Array) -> Array:
        """Σ C_i (1 − Σ_m p_im²) x_i x_iᵀ / (k − 1), (d + 1, d + 1): the Hessian of a class, if all had the mean of
        their curvatures."""
        H = np.zeros((len(W), len(W)))
        step = self.products.dense_piece_rows
        for start in range(0, self.block.n_rows, step):
            rows = np.arange(start, min(start + step, self.block.n_rows))
            X = self.products.dense(rows)
            p, _, _ = softmax(X @ W)
            bend = self.cost[rows] * np.maximum(1.0 - np.einsum("ij,ij->i", p, p), 0.0)
            X *= np.sqrt(bend / (W.shape[1] - 1))[:, None]
            count_matrix(len(W) * X.size, True)
            H += X.T @ X
        return H

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
            p, _, _ = softmax(X @ W)

            def add(a: int, X: Array = X, cost: Array = cost, p: Array = p) -> None:
                for b in range(a + 1):
                    weight = cost * p[:, a] * ((a == b) - p[:, b])
                    hessian[a, :, b, :] += (X * weight[:, None]).T @ X

            k = W.shape[1]
            count_matrix(k * (k + 1) // 2 * len(W) * X.size, True)
            threads.map(add, range(k))
