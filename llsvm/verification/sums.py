"""Sums of the dual variables of all rows: weights w = Σ_i α_i y_i φ(x_i), and ‖w‖²."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.block import ROW_BYTES, Block
from llsvm.dataset import DatasetInfo
from llsvm.features.feature_map import FeatureMap
from llsvm.verification.products import PIECE_VALUES, dense, kernel, pieces, scores
from llsvm.verification.reading import Rows

Array = NDArray[np.float64]


class WeightSums(Protocol):
    """Sums for several w at once."""

    def add(self, block: Block, coefficients: Array) -> None:
        """Add rows. coefficients: (n, count) α_i y_i of rows that have not been added yet."""
        ...

    def squares(self, rows: Rows, mixture: Array | None = None) -> Array:
        """Return (count,) ‖w‖² of each; or (1,), of the sum of all times ``mixture`` (count,). rows: to be read
        again where that takes them."""
        ...


def kernel_sums_bytes(dataset: DatasetInfo, count: int, rows_used: int) -> int:
    """Return the bytes that KernelSums of so many weights hold. rows_used: with dual variables other than 0."""
    return 8 * dataset.n_rows * count + int(rows_used * (dataset.bytes_per_row + ROW_BYTES))


class KernelSums:
    """Sums for a kernel machine, whose w is of the rows with α ≠ 0: ‖w‖² = Σ_ij α_i y_i α_j y_j k(x_i, x_j). rows:
    these, in blocks, held in memory; none where the data are the kernel's matrix."""

    def __init__(self, map_: FeatureMap, count: int, n_rows: int) -> None:
        self._map = map_
        self._v = np.zeros((n_rows, count))
        self.rows: list[Block] = []

    def add(self, block: Block, coefficients: Array) -> None:
        self._v[block.rows] = coefficients
        used = np.flatnonzero(coefficients.any(axis=1))
        if self._map.function.name != "precomputed" and len(used):
            self.rows.append(block.take(used))

    def squares(self, rows: Rows, mixture: Array | None = None) -> Array:
        v = self._v if mixture is None else (self._v @ mixture)[:, None]
        if self._map.function.name == "precomputed":
            return self._of_matrix(rows, v)
        map_, total = self._map, np.zeros(v.shape[1])
        for block in self.rows:
            A, of_A = dense(block.X, map_.base, map_.n_features), v[block.rows]
            step = max(1, PIECE_VALUES // max(len(A), map_.n_features))
            for others in self.rows:
                for start in range(0, others.n_rows, step):
                    part = others.slice(start, min(start + step, others.n_rows))
                    B, function = dense(part.X, map_.base, map_.n_features), map_.function
                    K = kernel(function.name, function.gamma, function.degree, function.coef0, A, B)
                    total += ((K @ v[part.rows]) * of_A).sum(axis=0)
        return total

    def _of_matrix(self, rows: Rows, v: Array) -> Array:
        base, total = self._map.base, np.zeros(v.shape[1])
        for block in rows.all():
            for piece in pieces(block, v.shape[1]):
                image = scores(piece.X, np.pad(v.T, ((0, 0), (base, 0))))
                total += (image * v[piece.rows]).sum(axis=0)
        return total
