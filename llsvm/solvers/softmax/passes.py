"""Passes of multinomial logistic regression: what is summed over rows at weights W (d + 1, k), with their scores
s_i = Wᵀ x_i and probabilities p_i = e^{s_i} / Σ_m e^{s_im}.

The loss is Σ C_i (log Σ_m e^{s_im} − s_iy), its gradient Σ C_i x_i (p_i − 1_y)ᵀ, its Hessian
Σ C_i (diag p_i − p_i p_iᵀ) ⊗ x_i x_iᵀ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.objective.losses import softmax
from llsvm.objective.problems import RowCosts
from llsvm.process.threads import Threads
from llsvm.process.work import count_matrix
from llsvm.solvers.optim.row_operator import RowProducts
from llsvm.stream.progress import Progress
from llsvm.stream.stream import Stream

Array = NDArray[np.float64]


class Curvature(Enum):
    """Part of the loss's Hessian that a pass sums.

    WHOLE: all of it, (k, d + 1, k, d + 1), classes (a, b) with a ≥ b alone.
    SHARED: one matrix that its classes share, (d + 1, d + 1), the lower triangle alone: the Hessian of a class, if
        all had the mean of their curvatures.
    DIAGONAL: its diagonal, (d + 1, k).
    """

    WHOLE = auto()
    SHARED = auto()
    DIAGONAL = auto()

    def zeros(self, width: int, k: int) -> Array:
        """width: d + 1."""
        shapes = {Curvature.WHOLE: (k, width, k, width), Curvature.SHARED: (width, width)}
        return np.zeros(shapes.get(self, (width, k)))


@dataclass(slots=True)
class SoftmaxSums:
    """loss: Σ C_i loss_i. entropy: Σ C_i H(p_i), H(p) = −Σ p log p. gradient: of the loss, as W. curvature: see
    Curvature."""

    loss: float
    entropy: float
    gradient: Array
    curvature: Array


@dataclass(frozen=True, slots=True)
class Passes:
    """bias: the constant feature. kind: what is summed of the Hessian."""

    stream: Stream
    costs: RowCosts
    threads: Threads
    bias: float
    kind: Curvature

    def rows(self, block: Block, cost: Array, W: Array) -> BlockRows:
        """Return the rows of a block, whose C_i are (n,) cost."""
        return BlockRows(block, cost, RowProducts(block, self.bias, *W.shape))

    def measure(self, W: Array, curvature: Array, class_sums: Array | None = None) -> SoftmaxSums:
        """curvature: for the sums of one kind, overwritten; the whole Hessian is given up where time is over.
        class_sums: as W, overwritten with Σ C_i x_i 1_yᵀ."""
        curvature[...] = 0.0
        sums = SoftmaxSums(0.0, 0.0, np.zeros_like(W), curvature)
        if class_sums is not None:
            class_sums[...] = 0.0
        for block in self.stream.all():
            rows = self.rows(block, self.costs.of(block), W)
            for part in self.threads.over_rows(block.n_rows, rows.measure(W, self.kind)):
                sums.loss += part.loss
                sums.entropy += part.entropy
                sums.gradient += part.gradient
                if self.kind != Curvature.WHOLE:
                    curvature += part.curvature
            if self.kind == Curvature.WHOLE:
                rows.add_hessian(W, curvature, self.threads, self.stream.progress)
            if class_sums is not None:
                rows.add_class_sums(class_sums)
        total = self.stream.sum
        if class_sums is not None:
            class_sums[...] = total(class_sums)
        curvature[...] = total(curvature)
        return SoftmaxSums(total(sums.loss), total(sums.entropy), total(sums.gradient), curvature)

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
    """Rows of a block, with their C_i."""

    block: Block
    cost: Array
    products: RowProducts

    def measure(self, W: Array, kind: Curvature) -> Callable[[int, int, int], SoftmaxSums]:
        """The whole Hessian is left to ``add_hessian``."""

        def work(t: int, start: int, stop: int) -> SoftmaxSums:
            curvature = np.zeros(0) if kind == Curvature.WHOLE else kind.zeros(*W.shape)
            sums = SoftmaxSums(0.0, 0.0, np.zeros_like(W), curvature)
            for rows in self.products.pieces(start, stop):
                X, cost = self.products.matrix(rows), self.cost[rows]
                true_class = np.arange(rows.stop - rows.start), self.block.class_ids[rows]
                p, behind, logs = softmax(self.products.scores(X, W))
                sums.loss += float(cost @ (logs - behind[true_class]))
                sums.entropy += float(cost @ (logs - np.einsum("ij,ij->i", p, behind)))
                if kind == Curvature.DIAGONAL:
                    self.products.add_squares(X, cost[:, None] * (p - p * p), sums.curvature)
                elif kind == Curvature.SHARED:
                    mean = np.maximum(1.0 - np.einsum("ij,ij->i", p, p), 0.0) / (W.shape[1] - 1)
                    self.products.operator.outer(
                        np.arange(rows.start, rows.stop), cost * mean, sums.curvature
                    )
                p *= cost[:, None]
                p[true_class] = 0.0
                p[true_class] = -p.sum(axis=1)  # p_y − 1, exact where p_y is nearly 1
                self.products.add(X, p, sums.gradient)
            return sums

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

    def add_class_sums(self, out: Array) -> None:
        for rows in self.products.pieces(0, self.block.n_rows):
            weight_of_class = np.zeros((rows.stop - rows.start, out.shape[1]))
            weight_of_class[np.arange(len(weight_of_class)), self.block.class_ids[rows]] = self.cost[rows]
            self.products.add(self.products.matrix(rows), weight_of_class, out)

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
