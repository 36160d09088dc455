"""Columns: the quadratic model of a Newton step on wide data, from the rows at hand by column, without its Hessian.

A product of the Hessian with a vector costs two looks at the rows, so steps on the active set are found by
conjugate gradients, and coordinate descent keeps x_i·p of every row instead of the model's gradient.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix
from llsvm.objective.penalty import Penalty
from llsvm.solvers.smsvm.column_kernels import add_columns, dot_columns, sweep_columns
from llsvm.solvers.smsvm.tuning import DEFAULT, SmSVMTuning
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]
Index = NDArray[np.int64]


class Columns:
    """Rows at hand by column (CSC), the constant feature last."""

    def __init__(self, X: Matrix, n_columns: int, bias: float) -> None:
        """n_columns: without the constant feature of value ``bias`` (0 for none)."""
        from scipy.sparse import csc_matrix, csr_matrix

        if isinstance(X, CSR):
            first, last = int(X.indptr[0]), int(X.indptr[-1])
            parts = (X.data[first:last], X.indices[first:last], X.indptr - first)
            matrix = csr_matrix(parts, shape=(len(X.indptr) - 1, n_columns)).tocsc()
        else:
            matrix = csc_matrix(X)
        n = matrix.shape[0]
        constant = n if bias else 0
        self.indptr = np.append(matrix.indptr, matrix.indptr[-1] + constant).astype(np.int64)
        self.indices = np.append(matrix.indices, np.arange(constant, dtype=np.int32)).astype(np.int32)
        self.data = np.append(matrix.data, np.full(constant, bias, matrix.data.dtype))
        self.n_rows = n

    @staticmethod
    def bytes_per_row(values: float, itemsize: int) -> int:
        """While it is made, with so many values in a row on average."""
        return int(3 * (values + 1) * (4 + itemsize)) + 1

    @property
    def arrays(self) -> tuple[Index, NDArray[np.int32], NDArray[np.floating]]:
        return self.indptr, self.indices, self.data


class ColumnModel:
    """½ Σ_i h_i (x_i·p)² + ½ Σ_j ridge_j p_j² over some of the columns: a ``Quadratic`` of newton.py."""

    def __init__(
        self,
        columns: Columns,
        active: Index,
        h: Vector,
        ridge: Vector,
        tuning: SmSVMTuning = DEFAULT,
        progress: Progress | None = None,
    ) -> None:
        """active: (A,) the columns that p has. h: (n,) curvatures of the rows, not negative. ridge: (A,).
        progress: of the run."""
        self.columns, self.active, self.h, self.ridge = columns, active, h, ridge
        self._tuning, self._progress = tuning, progress or Progress()
        self.diagonal = np.empty(len(active))
        dot_columns(*columns.arrays, active, h, True, self.diagonal)

    def begin(self, g: Vector, w: Vector) -> None:
        self.g, self.w = g, w
        self.moved = np.zeros(self.columns.n_rows)  # x_i·p

    def sweep(self, v: Vector, slope: Vector, l1: Vector) -> float:
        some = np.flatnonzero((v != 0) | (np.abs(slope) > l1))
        fall = sweep_columns(
            *self.columns.arrays,
            self.active,
            some,
            self.h,
            self.diagonal,
            self.ridge,
            l1,
            self.g,
            self.w,
            v,
            self.moved,
        )
        self._refresh(v, slope)
        return float(fall)

    def solve(self, some: Index, right: Vector) -> Vector:
        """By conjugate gradients, nearly; any multiple of a descent direction does for the line search."""
        scale = self.diagonal[some] + self.ridge[some]
        scale[scale <= 0] = 1.0
        d, residual = np.zeros_like(right), right.copy()
        direction = residual / scale
        size = first = float(residual @ direction)
        for _ in range(self._tuning.max_products):
            if size <= self._tuning.products_until**2 * first or self._progress.out_of_time:
                break
            product = self.product(some, direction)
            bend = float(direction @ product)
            if bend <= 0:
                return d if d.any() else direction
            d += size / bend * direction
            residual -= size / bend * product
            before, size = size, float(residual @ (residual / scale))
            direction = residual / scale + size / before * direction
        return d if d.any() else direction

    def product(self, some: Index, d: Vector) -> Vector:
        columns, rows, out = self.active[some], np.zeros(self.columns.n_rows), np.empty(len(some))
        add_columns(*self.columns.arrays, columns, d, rows)
        dot_columns(*self.columns.arrays, columns, self.h * rows, False, out)
        return out + self.ridge[some] * d

    def move(self, some: Index, p: Vector, v: Vector, slope: Vector) -> None:
        add_columns(*self.columns.arrays, self.active[some], p, self.moved)
        self._refresh(v, slope)

    def _refresh(self, v: Vector, slope: Vector) -> None:
        dot_columns(*self.columns.arrays, self.active, self.h * self.moved, False, slope)
        slope += self.g + self.ridge * (v - self.w)


def active_columns(w: Vector, gradient: Vector, most: int, penalty: Penalty) -> Index:
    """At most so many columns for the active set: weights that are not zero and gradients above ½ l1. A free
    intercept is always among them.

    w: (n,) and gradient: (n,), of the objective without L1."""
    size, taken, l1 = np.abs(gradient), w != 0, penalty.l1
    taken[-1] |= penalty.intercept
    nonzero = np.flatnonzero(taken)
    if len(nonzero) >= most:  # the worst placed
        off = np.where(w != 0, np.abs(gradient + l1 * np.sign(w)), size - l1)
        if penalty.intercept:
            off[-1] = np.inf
        return np.sort(np.argpartition(-off, most - 1)[:most])
    others = np.flatnonzero(~taken & (size > 0.5 * l1))
    room = most - len(nonzero)
    if len(others) > room:
        others = others[np.argpartition(-size[others], room - 1)[:room]]
    return np.union1d(nonzero, others)
