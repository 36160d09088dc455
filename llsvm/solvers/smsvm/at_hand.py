"""The rows that the method of multipliers works on, and what all others come to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.solvers.optim.lapack import mirror
from llsvm.solvers.optim.row_operator import RowOperator
from llsvm.solvers.smsvm.column_kernels import add_columns
from llsvm.solvers.smsvm.columns import CSC, ColumnModel, Columns, Room, RowModel
from llsvm.solvers.smsvm.newton import Dense
from llsvm.solvers.smsvm.sums import RowsLeftOut, place_of
from llsvm.solvers.smsvm.tuning import SmSVMTuning
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]

LEAST_COST = 1e-200  # of a row that has none


@dataclass(frozen=True, slots=True)
class Rest:
    """What the rows that are not at hand come to, their α_i being fixed: v (d + 1,) Σ α_i y_i x_i; total Σ C_i
    b(α_i / C_i); loss: theirs at the weights at (d + 1,), from where it goes on along −v."""

    v: Vector
    total: float
    loss: float
    at: Vector

    @classmethod
    def of(cls, rows: RowsLeftOut) -> Rest:
        """Of rows as SmSVM leaves them out, at the α_i that they have."""
        sums = rows.sums
        return cls(sums.v, sums.alpha - sums.smoothing_gap, sums.loss, rows.at)

    @classmethod
    def nothing(cls, n_columns: int) -> Rest:
        """Of rows without a loss."""
        none = np.zeros(n_columns)
        return cls(none, 0.0, 0.0, none)


class AtHand:
    """n rows of one binary problem. sign, target, cost: (n,) float64 y_i, t_i, C_i. max_active: columns of the
    largest Hessian that has room."""

    def __init__(
        self,
        block: Block,
        positive: int | None,
        cost: Vector,
        bias: float,
        n_weights: int,
        columns: Columns | None,
        tuning: SmSVMTuning,
        progress: Progress,
        room: Room | None = None,
    ) -> None:
        """positive: the class whose rows have sign +1; None where labels are numbers. bias: value of the constant
        feature, and n_weights: d + 1 with its weight. columns: the same rows by column, on wide data. progress: of
        the run. room: that another problem has worked in."""
        n = block.n_rows
        self.sign = np.ones(n) if positive is None else np.where(block.y == positive, 1.0, -1.0)
        self.target = np.asarray(block.y, np.float64) if positive is None else np.ones(n)
        self.cost = np.maximum(cost, LEAST_COST)
        self.n_weights, self.columns = n_weights, columns
        self.max_active = tuning.max_active
        self._bias, self._tuning, self.progress = bias, tuning, progress
        self._rows = RowOperator(block.X, n_weights - 1, bias, tuning.piece_bytes, progress)
        self._room = room or Room()

    def margins(self, w: Vector) -> Vector:
        """(n,) y_i w·x_i."""
        return self.sign * self._rows.dots(self._rows.all, w)

    def change(self, p: Vector) -> Vector:
        """(n,) y_i p·x_i of a step (d + 1,), few of it not zero where there are columns."""
        if self.columns is None:
            return self.margins(p)
        some, out = np.flatnonzero(p), np.zeros(len(self.sign))
        add_columns(*self.columns.arrays, some, p[some], out)
        return self.sign * out

    def weights(self, alpha: Vector) -> Vector:
        """(d + 1,) Σ α_i y_i x_i."""
        out = np.zeros(self.n_weights)
        self._rows.add(self._rows.all, alpha * self.sign, out)
        return out

    def squares(self, factor: Vector) -> Vector:
        """(d + 1,) Σ factor_i x_i²; factor: (n,)."""
        out = np.zeros(self.n_weights)
        self._rows.add_squares(self._rows.all, factor, out)
        return out

    def model_by_columns(
        self, h: Vector, active: NDArray[np.int64], ridge: Vector, full: bool
    ) -> ColumnModel | None:
        """Of ½ Σ h_i (x_i·p)² + ½ Σ ridge_j p_j² over the active columns; None where a copy of these has no room.
        full: enough rows bend for a Hessian that is far from singular. Raises OutOfTime."""
        self.progress.check()
        rows = np.flatnonzero(h > 0)
        arrays: CSC | None
        if self.columns is not None:
            arrays = self._room.gather(self.columns, active, rows)
        else:
            arrays = self._room.gather_from_rows(self._rows.X, self._bias, active, rows, self.n_weights)
        if arrays is None:
            return None

        def hessian(some: NDArray[np.int64]) -> Dense:
            return self.model(h, active[some], ridge[some])

        return ColumnModel(arrays, h[rows], ridge, self._tuning, self.progress, hessian if full else None)

    def model_by_products(self, h: Vector, active: NDArray[np.int64], ridge: Vector) -> RowModel:
        """The same over any number of columns, by products with the rows. Raises OutOfTime."""
        self.progress.check()

        def times(p: Vector) -> Vector:
            whole = np.zeros(self.n_weights)
            whole[active] = p
            return self.weights(h * self.margins(whole))[active]

        return RowModel(times, self.squares(h)[active], ridge, self._tuning, self.progress)

    def model(self, h: Vector, active: NDArray[np.int64], ridge: Vector) -> Dense:
        """The same with its Hessian. Raises OutOfTime."""
        self.progress.check()
        H = self._room.square(len(active))
        bent = np.flatnonzero(h)
        self._rows.outer(bent, h[bent], H, place_of(active, self.n_weights))
        mirror(H)
        H.flat[:: len(H) + 1] += ridge
        return Dense(H)
