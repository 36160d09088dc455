"""Columns: the quadratic model of a step of the method of multipliers on wide data, from the rows at hand by
column, without its Hessian.

Coordinate descent keeps h_i x_i·p of every row instead of the model's gradient (newGLMNET: Yuan, Ho & Lin 2012).
Where it crawls, the Hessian over the weights that are not zero finishes it; where these are too many, steps are
found by conjugate gradients, since a product of the Hessian with a vector costs two looks at the rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix
from llsvm.objective.penalty import Penalty
from llsvm.process.work import count_products, count_updates
from llsvm.solvers.optim.conjugate_gradients import conjugate_gradients
from llsvm.solvers.smsvm.column_kernels import (
    add_columns,
    descend_columns,
    dot_columns,
    gather_columns,
    gather_rows,
)
from llsvm.solvers.smsvm.linesearch import search
from llsvm.solvers.smsvm.newton import MAX_PRODUCTS, Dense, minimise, newton_step, violation
from llsvm.solvers.smsvm.sums import place_of
from llsvm.solvers.smsvm.tuning import SmSVMTuning
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]
Index = NDArray[np.int64]
CSC = tuple[Index, NDArray[np.int32], NDArray[np.floating]]  # indptr, indices, data
_AT_A_TIME = 16  # dense columns, turned round


class Columns:
    """Rows at hand by column (CSC), the constant feature last."""

    def __init__(self, X: Matrix, n_columns: int, bias: float) -> None:
        """n_columns: without the constant feature of value ``bias`` (0 for none)."""
        if isinstance(X, CSR):
            from scipy.sparse import csr_matrix

            n, first, last = len(X.indptr) - 1, int(X.indptr[0]), int(X.indptr[-1])
            parts = (X.data[first:last], X.indices[first:last], X.indptr - first)
            matrix = csr_matrix(parts, shape=(n, n_columns)).tocsc()
            indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
        else:
            n = len(X)
            indptr, indices, data = _by_column(X)
        constant = n if bias else 0
        self.indptr = np.append(indptr, indptr[-1] + constant).astype(np.int64)
        self.indices = np.append(indices, np.arange(constant, dtype=np.int32)).astype(np.int32, copy=False)
        self.data = np.append(data, np.full(constant, bias, data.dtype))
        self.n_rows = n

    @staticmethod
    def bytes_per_row(values: float, itemsize: int) -> int:
        """While it is made, with so many values in a row on average."""
        return int(3 * (values + 1) * (4 + itemsize)) + 1

    @staticmethod
    def copy_bytes_per_row(values: float, itemsize: int) -> int:
        """Of a ``Room`` for all of them."""
        return int((values + 1) * (4 + itemsize)) + 1

    @property
    def arrays(self) -> CSC:
        return self.indptr, self.indices, self.data


def _by_column(X: NDArray[np.floating]) -> CSC:
    """What dense rows have that is not zero, with no more memory than that takes."""
    d = X.shape[1]
    indptr = np.zeros(d + 1, np.int64)
    np.cumsum(np.count_nonzero(X, axis=0), out=indptr[1:])
    indices, data = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], X.dtype)
    for first in range(0, d, _AT_A_TIME):
        some = np.ascontiguousarray(X[:, first : first + _AT_A_TIME].T)
        for j, column in enumerate(some, first):
            rows = np.flatnonzero(column)
            indices[indptr[j] : indptr[j + 1]] = rows
            data[indptr[j] : indptr[j + 1]] = column[rows]
    return indptr, indices, data


class Room:
    """For a copy of some columns and for a Hessian, used again and again: new pages at each step cost as much as
    the step."""

    def __init__(self, most_values: int = 0) -> None:
        """most_values: that ``gather_from_rows`` may copy."""
        self._most_values = most_values
        self._indices, self._data = np.empty(0, np.int32), np.empty(0)
        self._square = np.empty(0)

    def gather(self, columns: Columns, active: Index, rows: Index) -> CSC:
        """What the active columns, (A,), have in some rows, ascending. Valid until the next."""
        indptr = np.empty(len(active) + 1, np.int64)
        indices, data = self._copy(len(columns.data), columns.data.dtype)
        gather_columns(*columns.arrays, active, place_of(rows, columns.n_rows), indptr, indices, data)
        return indptr, indices[: indptr[-1]], data[: indptr[-1]]

    def gather_from_rows(
        self, X: Matrix, bias: float, active: Index, rows: Index, n_weights: int
    ) -> CSC | None:
        """The same of rows that have no copy by column; None where these are dense, or more values than may be
        copied. n_weights: d + 1, with that of the constant feature ``bias``."""
        if not isinstance(X, CSR) or not self._most_values:
            return None
        indptr = np.empty(len(active) + 1, np.int64)
        indices, data = self._copy(self._most_values, X.data.dtype)
        if not gather_rows(*X, bias, rows, place_of(active, n_weights), indptr, indices, data):
            return None
        return indptr, indices[: indptr[-1]], data[: indptr[-1]]

    def _copy(self, most: int, dtype: np.dtype) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
        """Indices and values of a copy of so many, at most."""
        if len(self._data) < most:
            self._indices, self._data = np.empty(most, np.int32), np.empty(most, dtype)
        return self._indices, self._data

    def square(self, n: int) -> Vector:
        """(n, n) zeros. Valid until the next."""
        if len(self._square) < n * n:
            self._square = np.empty(n * n)
        H = self._square[: n * n].reshape(n, n)
        H[...] = 0.0
        return H


class ByProducts:
    """A quadratic model ½ Σ_i h_i (x_i·p)² + ½ Σ_j ridge_j p_j² whose Hessian is known by its products only.

    diagonal: (A,) Σ_i h_i x_ij². ridge: (A,)."""

    _diagonal: Vector
    ridge: Vector
    _tuning: SmSVMTuning
    _progress: Progress

    def product(self, some: Index, d: Vector) -> Vector:
        """See ``Quadratic``."""
        raise NotImplementedError

    def solve(self, some: Index, right: Vector) -> Vector:
        """By conjugate gradients, nearly; any multiple of a descent direction does for the line search."""
        scale = self._diagonal[some] + self.ridge[some]
        scale[scale <= 0] = 1.0
        until = self._tuning.products_until
        d = conjugate_gradients(
            lambda p: self.product(some, p), right, lambda r: r / scale, until, MAX_PRODUCTS, self._progress
        )
        return d if d.any() else right / scale


class ColumnModel(ByProducts):
    """½ Σ_i h_i (x_i·p)² + ½ Σ_j ridge_j p_j² over some of the columns: those are copied, and of them only what is
    in rows with h_i > 0, since the method of multipliers and losses that end leave few of these."""

    def __init__(
        self,
        arrays: CSC,
        h: Vector,
        ridge: Vector,
        tuning: SmSVMTuning,
        progress: Progress,
        hessian: Callable[[Index], Dense] | None = None,
    ) -> None:
        """arrays: the A columns that p has, in n rows. h: (n,) curvatures of these, positive. ridge: (A,).
        progress: of the run. hessian: over some positions among the active ones, ascending, where it may be had."""
        self.ridge, self._hessian = ridge, hessian
        self._tuning, self._progress = tuning, progress
        self._arrays, self._h = arrays, h
        self._all = np.arange(len(ridge))
        self._diagonal = np.empty(len(ridge))
        dot_columns(*self._arrays, self._all, self._h, True, self._diagonal)

    def minimise(self, g: Vector, w: Vector, l1: Vector, until: float) -> Vector:
        """The weights v, (A,), that nearly minimise g·p + ½ pᵀHp + Σ l1_j |v_j|, p = v − w, zeros among them exact:
        violations sum up to ``until`` times what they are at w. Where sweeps crawl, steps on the weights that are
        not zero, or nearly so, go between them.

        g, w, l1: (A,). Where time is over, v is what was found so far."""
        tuning, v = self._tuning, w.copy()
        self._g, self._w = g, w
        self._bent = np.zeros(len(self._h))  # h_i x_i·p
        enough = until * float(violation(w, g, l1).sum())
        slope = np.empty(len(v))
        sweeps = self._sweeps(int(np.count_nonzero(w)))
        for steps_left in reversed(range(tuning.newton_steps + 1)):
            of_rows, of_columns = (self._h, self._diagonal, self.ridge), (l1, g, w, v)
            made = descend_columns(*self._arrays, *of_rows, *of_columns, self._bent, enough, sweeps)
            count_updates(made * len(v), made * len(self._arrays[1]), False)
            if made < sweeps or not steps_left or self._progress.out_of_time:
                break
            self._refresh(v, slope)
            self._second_order(v, slope, l1)
        return v

    def _sweeps(self, nonzero: int) -> int:
        """Before a step of second order, which is cheaper where there is room for a Hessian over the weights that
        are not zero."""
        tuning = self._tuning
        by_hessian = self._hessian is not None and nonzero <= tuning.max_active
        return tuning.min_sweeps if by_hessian else tuning.sweeps

    def _second_order(self, v: Vector, slope: Vector, l1: Vector) -> None:
        """By the Hessian over the weights that are not zero or will soon not be; where they are too many, a step
        by conjugate gradients."""
        some = np.flatnonzero((v != 0) | (np.abs(slope) > l1))
        if self._hessian is None or len(some) > self._tuning.max_active:
            newton_step(self, v, slope, l1)
            return
        of_some = (slope[some], v[some], l1[some])
        new, _ = minimise(self._hessian(some), *of_some, True, self._progress)
        step = new - v[some]
        v[some] = new
        self.move(some, step, v, slope)

    def product(self, some: Index, d: Vector) -> Vector:
        rows, out = np.zeros(len(self._h)), np.empty(len(some))
        count_products(2 * len(some), 2 * self._values(some), False)
        add_columns(*self._arrays, some, d, rows)
        dot_columns(*self._arrays, some, self._h * rows, False, out)
        return out + self.ridge[some] * d

    def move(self, some: Index, p: Vector, v: Vector, slope: Vector) -> None:
        rows = np.zeros(len(self._h))
        count_products(len(some), self._values(some), False)
        add_columns(*self._arrays, some, p, rows)
        self._bent += self._h * rows
        self._refresh(v, slope)

    def _values(self, some: Index) -> int:
        indptr = self._arrays[0]
        return int((indptr[some + 1] - indptr[some]).sum())

    def _refresh(self, v: Vector, slope: Vector) -> None:
        count_products(len(v), len(self._arrays[1]), False)
        dot_columns(*self._arrays, self._all, self._bent, False, slope)
        slope += self._g + self.ridge * (v - self._w)


class RowModel(ByProducts):
    """The model where rows at hand have no copy by column, and a Hessian over so many columns has no room.

    Weights leave zero by a step of all columns at once, as long as the line search finds best; conjugate gradients
    then move those that are not zero."""

    def __init__(
        self,
        times: Callable[[Vector], Vector],
        diagonal: Vector,
        ridge: Vector,
        tuning: SmSVMTuning,
        progress: Progress,
    ) -> None:
        """times: p (A,) to Σ_i h_i (x_i·p) x_i over the active columns. diagonal: (A,) Σ_i h_i x_ij²."""
        self._times, self._diagonal, self.ridge = times, diagonal, ridge
        self._tuning, self._progress = tuning, progress

    def minimise(self, g: Vector, w: Vector, l1: Vector, until: float) -> Vector:
        """See ``ColumnModel.minimise``."""
        v, slope = w.copy(), g.copy()
        enough = until * float(violation(w, g, l1).sum())
        for _ in range(self._tuning.newton_steps):
            self._step_of_all(v, slope, l1)
            newton_step(self, v, slope, l1)
            if float(violation(v, slope, l1).sum()) <= enough or self._progress.out_of_time:
                break
        return v

    def _step_of_all(self, v: Vector, slope: Vector, l1: Vector) -> None:
        """Move all weights, in place, towards where each would be best by itself."""
        bend = self._diagonal + self.ridge
        bend[bend <= 0] = 1.0
        to = v - slope / bend
        d = np.sign(to) * np.maximum(np.abs(to) - l1 / bend, 0.0) - v
        Hd = self._times(d) + self.ridge * d
        step, zeros = search(float(slope @ d), float(d @ Hd), v, d, l1)
        if not np.isfinite(step):
            return
        v += step * d
        v[zeros] = 0.0
        slope += step * Hd

    def product(self, some: Index, d: Vector) -> Vector:
        return self._moved(some, d)[some]

    def move(self, some: Index, p: Vector, v: Vector, slope: Vector) -> None:
        slope += self._moved(some, p)

    def _moved(self, some: Index, p: Vector) -> Vector:
        whole = np.zeros(len(self.ridge))
        whole[some] = p
        return self._times(whole) + self.ridge * whole


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
