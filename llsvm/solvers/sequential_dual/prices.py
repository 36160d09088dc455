"""When loops have cost as much as second order would: counts and prices, no clock, so that runs repeat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llsvm.dataset import DatasetInfo
from llsvm.process.work import Work
from llsvm.solvers.optim.conjugate_gradients import Way
from llsvm.solvers.report import SECONDS, UPDATES
from llsvm.solvers.sequential_dual.extrapolation import STEP_ROWS
from llsvm.solvers.sequential_dual.newton_system import way_of
from llsvm.solvers.sequential_dual.shares import BlockShares

STEPS = 45  # that Newton's method is taken to need: it begins when loops have cost as much as these would
READ_STEPS = 5  # ... where rows are read for each step: loops over blocks of them get on the less
PAIRS = 6  # of classes that a row on a face adds to its matrix, about


@dataclass(frozen=True, slots=True)
class Prices:
    """Seconds of work as it is counted (llsvm/process/work.py), of data of this shape."""

    dataset: DatasetInfo

    @property
    def n_classes(self) -> int:
        return len(self.dataset.classes)

    @property
    def values(self) -> float:
        """Of a row."""
        return self.dataset.nnz / max(self.dataset.n_rows, 1)

    def loops(self, scores: float) -> float:
        """Of loops that computed so many scores."""
        return self._of_rows("updated", scores)

    def so_far(self, scores: float) -> dict[str, float]:
        """On loops, for ``Report.extra``."""
        of_a_loop = max(self.dataset.n_rows, 1) * self.n_classes
        return {UPDATES: scores / of_a_loop, SECONDS: self.loops(scores)}

    def newton(self, part: BlockShares, matrix_numbers: int) -> float:
        """Of Newton's method over all rows, from shares as they are; infinite where its matrices have no room."""
        n, k = part.share.shape
        on_face = rank = 0
        for start in range(0, n, STEP_ROWS):
            some = part.share[start : start + STEP_ROWS]
            free = np.count_nonzero((some > 0) & (some < 1), axis=1)
            on_face += int(np.count_nonzero(free))
            rank += int(free.sum())
        copied = on_face * part.block.nbytes / max(n, 1) / 8
        whole = k * (self.dataset.n_columns + 1)
        way = way_of(whole, rank, copied, matrix_numbers)
        if way is Way.PRODUCTS:
            return np.inf
        of_columns = way is Way.COLUMNS
        terms = self._terms(on_face * PAIRS if of_columns else on_face**2, of_columns)
        return STEPS * (self._products + terms + _factor(whole if of_columns else rank))

    def newton_by_readings(self, n_active: int) -> float:
        """Of Newton's method whose rows are read each time. n_active: rows on a face, or that may be."""
        reading = Work(store_bytes=int(self.dataset.n_rows * self.dataset.held_bytes_per_row)).seconds
        matrix = self._terms(n_active * PAIRS, True) + _factor(self.n_classes * (self.dataset.n_columns + 1))
        return READ_STEPS * (reading + self._products + matrix)

    @property
    def _products(self) -> float:
        """Of all rows with the weights of all classes, and back."""
        return self._of_rows("multiplied", 2 * self.n_classes * self.dataset.n_rows)

    def _of_rows(self, what: str, times: float) -> float:
        kind = "dense" if self.dataset.is_dense else "sparse"
        return Work(**{f"{what}_rows": int(times), f"{what}_{kind}_values": int(times * self.values)}).seconds

    def _terms(self, n_pairs: int, of_columns: bool) -> float:
        """Of so many pairs of rows, or of rows with themselves, in a matrix: of all rows, or of_columns."""
        width = self.dataset.n_columns + 1
        if self.dataset.is_dense:
            return Work(dense_matrix_terms=n_pairs * (width * width if of_columns else width)).seconds
        values = self.values + 1.0
        return Work(sparse_matrix_terms=int(n_pairs * (values * values if of_columns else values))).seconds


def _factor(order: int) -> float:
    """Of a matrix of so many rows."""
    return Work(factorizations=1, factor_terms=order**3 // 3).seconds
