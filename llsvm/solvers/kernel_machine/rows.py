"""The rows of a binary problem of a kernel machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block, Matrix
from llsvm.objective.costs import RowCosts
from llsvm.solvers.kernel_machine.matrix import KernelMatrix
from llsvm.stream.stream import Stream

Vector = NDArray[np.float64]

_PIECE_BYTES = 1 << 16  # of rows that are copied at a time


class ProblemRows(NamedTuple):
    """The rows that take part in a problem.

    rows: (n,) their numbers.
    sign, cost: (n,) y and c > 0.
    sizes: (2, n) what tells how exactly the kernel is known, see ``KernelFunction.sizes``.
    """

    rows: NDArray[np.intp]
    sign: Vector
    cost: Vector
    sizes: Vector

    @classmethod
    def of(cls, signs: Vector, rows: KernelRowFacts) -> ProblemRows:
        """Of all rows those that take part. signs: (n_classes,) y of each class, 0 where it takes no part."""
        sign = signs[rows.ids]
        cost = rows.costs.in_problem(rows.cost, int(np.argmax(signs)), sign > 0)
        part = np.flatnonzero((sign != 0) & (cost > 0))
        return cls(part, sign[part], cost[part], rows.sizes[:, part])


class KernelRowFacts(NamedTuple):
    """ids, cost: (n_rows,) class ids and c. sizes: (2, n_rows) ``KernelMatrix.sizes``. costs: made c."""

    ids: NDArray[np.int32]
    cost: Vector
    sizes: Vector
    costs: RowCosts

    @classmethod
    def read(cls, stream: Stream, matrix: KernelMatrix, costs: RowCosts) -> KernelRowFacts:
        """In a pass over the data."""
        n_rows = stream.dataset.n_rows
        rows = cls(np.empty(n_rows, np.int32), np.empty(n_rows), np.empty((2, n_rows)), costs)
        for block in stream.all():
            rows.ids[block.rows] = block.y
            rows.cost[block.rows] = costs.of(block)
            rows.sizes[:, block.rows] = matrix.sizes(block)
        return rows


def chosen_rows(stream: Stream, chosen: NDArray[np.bool_]) -> Matrix:
    """The features of some rows, in the order of all, copied once, piece by piece; of CSR in two passes.
    chosen: (n_rows,)."""
    dataset = stream.dataset
    place, base = np.cumsum(chosen) - 1, dataset.first_column
    n = int(place[-1]) + 1
    if dataset.is_dense:
        out = np.empty((n, dataset.n_features), dataset.dtype)
        for piece in _pieces(stream, chosen):
            out[place[piece.rows]] = np.asarray(piece.X)[:, base:]
        return out
    indptr = np.zeros(n + 1, np.int64)
    for block in stream.all():
        mine = chosen[block.rows]
        indptr[1 + place[block.rows[mine]]] = np.diff(_csr(block).indptr)[mine]
    np.cumsum(indptr, out=indptr)
    indices, data = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], dataset.dtype)
    for piece in _pieces(stream, chosen):
        X, start = _csr(piece), indptr[place[piece.rows]]
        at = np.repeat(start - X.indptr[:-1], np.diff(X.indptr)) + np.arange(X.indptr[-1])
        indices[at], data[at] = X.indices - np.int32(base), X.data
    return CSR(indptr, indices, data)


def _pieces(stream: Stream, chosen: NDArray[np.bool_]) -> Iterator[Block]:
    """Copies of the chosen rows of a pass, a few at a time."""
    step = max(1, int(_PIECE_BYTES / max(stream.dataset.bytes_per_row, 1.0)))
    for block in stream.all():
        mine = np.flatnonzero(chosen[block.rows])
        for start in range(0, len(mine), step):
            yield block.take(mine[start : start + step])


def _csr(block: Block) -> CSR:
    assert isinstance(block.X, CSR)
    return block.X
