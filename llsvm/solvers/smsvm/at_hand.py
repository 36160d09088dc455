"""The rows that the method of multipliers works on, and what all others come to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix, parts_of
from llsvm.solvers.optim.lapack import mirror
from llsvm.solvers.optim.row_operator import RowOperator
from llsvm.solvers.smsvm.column_kernels import gather_columns
from llsvm.solvers.smsvm.columns import ColumnModel, ProductModel
from llsvm.solvers.smsvm.newton import Dense
from llsvm.solvers.smsvm.rows import Labels
from llsvm.solvers.smsvm.sums import RowsLeftOut, place_of
from llsvm.solvers.smsvm.tuning import SmSVMTuning
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rest:
    """Sums over the rows that the method of multipliers does not work on, their α_i being fixed.

    v: (d + 1,) Σ α_i y_i x_i.
    total: Σ C_i b(α_i / C_i).
    loss: their loss at the weights ``at``, (d + 1,), from where it goes on along −v.
    """

    v: Vector
    total: float
    loss: float
    at: Vector

    @classmethod
    def of(cls, rows: RowsLeftOut) -> Rest:
        """Return the sums of rows as SmSVM leaves them out, at the α_i that they have."""
        sums = rows.sums
        return cls(sums.v, sums.alpha - sums.smoothing_gap, sums.loss, rows.at)

    @classmethod
    def nothing(cls, n_columns: int) -> Rest:
        """Return the sums of rows without a loss."""
        none = np.zeros(n_columns)
        return cls(none, 0.0, 0.0, none)


class AtHand:
    """n rows of one binary problem. labels: y_i, t_i, and C_i > 0. max_active: columns of the largest Hessian that
    has room."""

    def __init__(
        self,
        X: Matrix,
        labels: Labels,
        bias: float,
        n_weights: int,
        copied_values: int,
        tuning: SmSVMTuning,
        progress: Progress,
    ) -> None:
        """bias: value of the constant feature, and n_weights: d + 1 with its weight. copied_values: that a step may
        copy by column. progress: of the run."""
        # rows without a cost get one by which can be divided
        self.labels = labels._replace(cost=np.maximum(labels.cost, np.finfo(np.float64).tiny))
        self.n_weights, self.max_active = n_weights, tuning.max_active
        self._bias, self._tuning, self.progress = bias, tuning, progress
        self._rows = RowOperator(X, n_weights - 1, bias, tuning.piece_bytes, progress)
        self._copied_values = copied_values

    def margins(self, w: Vector) -> Vector:
        """(n,) y_i w·x_i."""
        return self.labels.sign * self._rows.dots(self._rows.all, w)

    def weights(self, alpha: Vector) -> Vector:
        """(d + 1,) Σ α_i y_i x_i."""
        out = np.zeros(self.n_weights)
        self._rows.add(self._rows.all, alpha * self.labels.sign, out)
        return out

    def squares(self, factor: Vector) -> Vector:
        """(d + 1,) Σ factor_i x_i²; factor: (n,)."""
        out = np.zeros(self.n_weights)
        self._rows.add_squares(self._rows.all, factor, out)
        return out

    def model_by_products(self, h: Vector, active: Index, ridge: Vector, full: bool) -> ProductModel:
        """½ Σ h_i (x_i·p)² + ½ Σ ridge_j p_j² over the active columns, by a copy of these where it has room, else
        by products with the rows. full: enough rows bend for a Hessian that is far from singular. Raises OutOfTime.
        """
        self.progress.check()
        n, bent = self.n_weights, np.flatnonzero(h)
        given, max_values = (ridge, self._tuning, self.progress), self._copied_values
        if max_values:
            rows = *parts_of(self._rows.X), self._bias, bent, h[bent], place_of(active, n)
            *columns, diagonal = gather_columns(*rows, len(active), max_values)
            if columns[0][-1] <= max_values:
                hessian = (lambda subset: self.model(h, active[subset], ridge[subset])) if full else None
                return ColumnModel(CSR(*columns), h[bent], diagonal, *given, hessian)

        def times(subset: Index, p: Vector, onto: Index) -> Vector:
            """Return Xᵀ diag(h) X p at the columns ``onto``, where p has the columns ``subset``. Both are positions
            among the active columns; the ridge is not part of it."""
            whole = np.zeros(n)
            whole[active[subset]] = p
            return self.weights(h * self.margins(whole))[active[onto]]

        return ProductModel(times, self.squares(h)[active], *given)

    def model(self, h: Vector, active: Index, ridge: Vector) -> Dense:
        """The same with its Hessian. Raises OutOfTime."""
        self.progress.check()
        H = np.zeros((len(active), len(active)))
        bent = np.flatnonzero(h)
        self._rows.outer(bent, h[bent], H, place_of(active, self.n_weights))
        mirror(H)
        H.flat[:: len(H) + 1] += ridge
        return Dense(H)
