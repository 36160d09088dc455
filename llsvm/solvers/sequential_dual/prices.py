"""When loops have cost as much as second order would: counts and prices, no clock, so that runs repeat."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from llsvm.dataset import DatasetInfo
from llsvm.process.work import Work
from llsvm.solvers.optim.conjugate_gradients import Way
from llsvm.solvers.report import SECONDS, UPDATES
from llsvm.solvers.sequential_dual.extrapolation import STEP_ROWS
from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.multipliers import JointMultipliers
from llsvm.solvers.sequential_dual.newton_system import MAX_PRODUCTS, way_of
from llsvm.solvers.sequential_dual.shares import BlockShares
from llsvm.solvers.sequential_dual.tuning import SequentialDualTuning

READINGS = 4  # of all rows, in a step of Newton's method
PAIRS = 6  # of classes that a row on a face adds to its matrix, about


class Due(Enum):
    """NOTHING but loops; NEWTON: multipliers.py; WORST_ROWS: worst_rows.py."""

    NOTHING = auto()
    NEWTON = auto()
    WORST_ROWS = auto()


@dataclass(frozen=True, slots=True)
class Prices:
    """Seconds of work as it is counted (llsvm/process/work.py), of data of this shape. loops: and what they have
    done so far."""

    loops: Loops
    dataset: DatasetInfo
    tuning: SequentialDualTuning

    @property
    def n_classes(self) -> int:
        return len(self.dataset.classes)

    @property
    def values(self) -> float:
        """Of a row."""
        return self.dataset.nnz / max(self.dataset.n_rows, 1)

    @property
    def spent(self) -> float:
        """On loops, so far. A share that extrapolation moves costs two scores: one, and adding to the weights."""
        return self._of_rows("updated", self.loops.scores + 2.0 * self.loops.moved)

    @property
    def so_far(self) -> dict[str, float]:
        """On loops, for ``Report.extra``."""
        scores = max(self.dataset.n_rows, 1) * self.n_classes
        return {UPDATES: self.loops.scores / scores, SECONDS: self.spent}

    def products(self, n_rows: int) -> float:
        """Of so many rows with the weights of all classes, and back."""
        return self._of_rows("multiplied", 2 * self.n_classes * n_rows)

    def _of_rows(self, what: str, times: float) -> float:
        kind = "dense" if self.dataset.is_dense else "sparse"
        return Work(**{f"{what}_rows": int(times), f"{what}_{kind}_values": int(times * self.values)}).seconds

    def terms(self, n_pairs: int, of_columns: bool) -> float:
        """Of so many pairs of rows, or of rows with themselves, in a matrix: of all rows, or of_columns."""
        width = self.dataset.n_columns + 1
        if self.dataset.is_dense:
            return Work(dense_matrix_terms=n_pairs * (width * width if of_columns else width)).seconds
        values = self.values + 1.0
        return Work(sparse_matrix_terms=int(n_pairs * (values * values if of_columns else values))).seconds

    def reading(self) -> float:
        """Of all rows from the cache."""
        return Work(store_bytes=int(self.dataset.n_rows * self.dataset.held_bytes_per_row)).seconds

    def due(self, newton: JointMultipliers | None, part: BlockShares) -> Due:
        """newton: None: it has no room; nothing is due once it has begun. part: all rows."""
        spent = self.spent
        if newton is None or newton.W is not None:
            return Due.NOTHING
        n, k = part.share.shape
        width = self.dataset.n_columns + 1
        on_face, rank, pairs = 0, 0, 0
        for start in range(0, n, STEP_ROWS):
            some = part.share[start : start + STEP_ROWS]
            free = np.count_nonzero((some > 0) & (some < 1), axis=1)
            on_face += int(np.count_nonzero(free))
            rank += int(free.sum())
            pairs += int(((free + 1) ** 2)[free > 0].sum())
        copied = on_face * part.block.nbytes / max(n, 1) / 8
        whole = k * width
        way = way_of(whole, rank, copied, newton.matrix_numbers)
        if way is Way.PRODUCTS and k * width**2 > newton.matrix_numbers:  # no room for a preconditioner
            return Due.WORST_ROWS if self.worst_rows_are_due(on_face) else Due.NOTHING
        if way is Way.COLUMNS:
            system = self.terms(pairs, True) + _factor(whole)
        elif way is Way.ROWS:
            system = self.terms(on_face**2, False) + _factor(rank)
        else:
            system = 0.5 * MAX_PRODUCTS * self.products(n)
        return Due.NEWTON if spent > self.tuning.newton_steps * (self.products(n) + system) else Due.NOTHING

    def readings_pay(self, n_active: int) -> bool:
        """Have loops cost so much of what Newton's method would whose rows are read each time? n_active: rows on a
        face, or that may be."""
        step = READINGS * self.reading() + self.products(self.dataset.n_rows)
        step += self.terms(n_active * PAIRS, True) + _factor(self.n_classes * (self.dataset.n_columns + 1))
        return self.spent > self.tuning.readings_patience * self.tuning.newton_steps * step

    def worst_rows_are_due(self, n_active: int) -> bool:
        """n_active: rows on a face, or that may be."""
        return self.spent > self.tuning.worst_products * self.products(n_active)


def _factor(order: int) -> float:
    """Of a matrix of so many rows."""
    return Work(factorizations=1, factor_terms=order**3 // 3).seconds
