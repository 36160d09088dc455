"""The dual objective of the dual variables that a state has kept, and whether these are feasible.

    P(w) = ½ ‖w‖² + Σ_i C_i φ(m_i, t_i):   D(α) = Σ_i C_i b(α_i / C_i, t_i) − ½ ‖w(α)‖²,   w(α) = Σ_i α_i y_i x_i

for each problem that rows make, φ* and the bounds of α as ``conjugate_of`` has them, the constant feature a
part of x. Of all classes at once, with a_im ≥ 0, m ≠ y_i, a_im ≤ 1 (Weston-Watkins) or Σ_m a_im ≤ 1
(Crammer-Singer): D(a) = Σ_im C_i a_im − ½ Σ_m ‖w_m‖², w_m = Σ_i C_i x_i ([y_i = m] Σ_c a_ic − a_im). Of one_class
D(α) = −½ ‖Σ α_i x_i‖² where Σ α_i = ν Σ C_i, to which α is brought along the segment to 0 or to C.
Where an intercept is free, Σ α_i y_i = 0. Any feasible α proves that no weights have less than D(α).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.errors import DataError, UsageError
from llsvm.settings.objective import ONE_CLASS
from llsvm.settings.settings import Settings
from llsvm.state.container import AT_WEIGHTS, LARGEST_COST, RESULT, SHARES, Container
from llsvm.verification.machines import Machine, Scored
from llsvm.verification.problems import Problems, conjugate_of
from llsvm.verification.products import PIECE_VALUES
from llsvm.verification.reading import Rows

Array = NDArray[np.float64]

_BALANCE = 1e-10  # of Σ |α|: so far from 0 rounding may put Σ α y


class KeptDual:
    """The dual variables in the result of a state's folder. Use it as a context manager.

    settings, data: of the run that they are of, plain values. has_rows: are they there by row? smoothing: where
    they are the slopes of losses at the model's weights, with what these are smoothed (see at_weights); else None.
    """

    def __init__(self, folder: Path) -> None:
        """Raises DataError where the result is damaged or of another version, UsageError where there is none."""
        result = Container.open(folder / RESULT)
        if result is None:
            raise UsageError(
                f"{folder}: no run has come to its end with this state: pass to --state the folder that the model "
                "was trained with; if --max-seconds or a signal ended that run, let the same command come to its "
                "end"
            )
        self._result = result
        self.has_rows = SHARES in result.parts
        try:
            record, at_weights, largest = (
                result.about[name] for name in ("record", AT_WEIGHTS, LARGEST_COST)
            )
            self.settings, self.data = dict[str, Any](record["settings"]), dict[str, Any](record["data"])
            self.smoothing = None if at_weights is None else np.array(at_weights, np.float64).reshape(-1)
            self.largest_cost = np.inf if largest is None else float(largest)
            if self.has_rows and not (len(self.shape) == 2 and result.parts[SHARES].dtype[1:2] == "f"):
                raise ValueError(f"dual variables of shape {self.shape}")
        except (KeyError, TypeError, ValueError) as error:  # a state may come from anywhere
            result.close()
            raise DataError(f"{folder / RESULT}: is not what llsvm writes: {error!r}") from error

    def __enter__(self) -> KeptDual:
        return self

    def __exit__(self, *_: object) -> None:
        self._result.close()

    @property
    def shape(self) -> tuple[int, ...]:
        return self._result.parts[SHARES].shape

    def get(self, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """Return (n, width) α_i / C_i, as they were kept."""
        return self._result.rows(SHARES, rows)

    def rows_used(self) -> int:
        """Return the number of rows that have a dual variable other than 0."""
        n_rows, width = self.shape
        step = max(1, PIECE_VALUES // max(width, 1))
        starts = range(0, n_rows, step)
        return sum(
            int(self.get(np.arange(at, min(at + step, n_rows))).reshape(-1, width).any(axis=1).sum())
            for at in starts
        )


class FoundDual(ABC):
    """A dual point, of which D of each problem is worked out as rows are added.

    values, sizes, rounding: (p,) D, the size of the terms that it is the sum of, and by how much more it may be but
    for rounding; once all rows have been added, and it is finished.
    unbalanced: (p,) is Σ α_i y_i not 0, as a free intercept asks?
    infeasible: rows whose dual variables are outside their bounds; first: what is said of the first, or "".
    """

    def __init__(self, count: int) -> None:
        """Begin with no rows. count: of problems."""
        self.values = self.sizes = self.rounding = np.zeros(count)
        self.unbalanced = np.zeros(count, bool)
        self.infeasible, self.first = 0, ""

    @property
    def proves(self) -> bool:
        """Return whether it is feasible."""
        return not (self.infeasible or self.unbalanced.any())

    @abstractmethod
    def add(self, block: Block, scored: Scored) -> None:
        """Add rows, with the model's scores."""

    @abstractmethod
    def finish(self, rows: Rows) -> None:
        """Complete the sums when all rows have been added. rows: of these."""


def dual_sums(
    settings: Settings, problems: Problems, machine: Machine, state: KeptDual, n_rows: int
) -> FoundDual:
    """Return the dual point of dual variables that were kept by row, before any row was added.

    settings, problems, machine: of the model. state: of as many rows and problems. n_rows: of the data.
    """
    if settings.loss == ONE_CLASS:
        form: type[_DualSums] = _OneClass
    else:
        form = _JointLoss if problems.are_joint else _Margins
    return form(settings, problems, machine, state, n_rows)


class _DualSums(FoundDual):
    """Sums over the dual variables that were kept; a subclass knows how they make D."""

    _OTHER_SUMS = 0  # columns of coefficients beside those of the weights

    def __init__(
        self, settings: Settings, problems: Problems, machine: Machine, state: KeptDual, n_rows: int
    ) -> None:
        """Prepare the sums, see dual_sums."""
        super().__init__(problems.count)
        self._settings, self._problems, self._dual_state = settings, problems, state
        width = problems.width + self._OTHER_SUMS
        self._w, self._sum, self._mass = machine.new_sums(width, n_rows), np.zeros(width), np.zeros(width)
        self._linear, self._size = np.zeros(problems.count), np.zeros(problems.count)
        self._off = np.zeros(width)  # of w, that rounding may have moved it by

    def add(self, block: Block, scored: Scored) -> None:
        share = self._dual_state.get(block.rows).reshape(block.n_rows, -1)
        cost = np.minimum(self._problems.full_cost(block), self._dual_state.largest_cost)
        coefficients = self._coefficients(block, share, cost)
        self._w.add(block, coefficients)
        self._sum += coefficients.sum(axis=0)
        self._mass += np.abs(coefficients).sum(axis=0)
        self._off += scored.off @ np.abs(coefficients)

    @abstractmethod
    def _coefficients(self, block: Block, share: NDArray[np.floating], cost: Array) -> Array:
        """Add the block's terms that are linear in α; return (n, width) what each row adds to the weights, in
        units of itself. share: (n, row width) α_i / C_i as they were kept. cost: (n, problems) C_i."""

    def finish(self, rows: Rows) -> None:
        is_free = self._settings.intercept
        plain = self._w.squares(rows)
        squares = plain if is_free else plain + (self._settings.constant * self._sum) ** 2
        rounding = np.sqrt(np.maximum(plain, 0.0)) * self._off
        if self._problems.are_joint:
            squares, rounding = squares.sum(keepdims=True), rounding.sum(keepdims=True)
        self.values, self.sizes = self._linear - 0.5 * squares, self._size + 0.5 * squares
        self.rounding = rounding
        if is_free:
            self.unbalanced = np.abs(self._sum) > _BALANCE * self._mass

    def _note(self, block: Block, inside: NDArray[np.bool_], a: Array) -> None:
        """Count the rows outside their bounds, and word the first. inside: of each of a, is it within them?"""
        bad = np.flatnonzero(~inside.all(axis=1))
        self.infeasible += len(bad)
        if len(bad) and not self.first:
            row = int(bad[0])
            value = a[row, int(np.argmin(inside[row]))]
            self.first = f"that of row {int(block.rows[row]) + 1:,} is {value:.12g} C"


class _Margins(_DualSums):
    """Problems with a margin each: of two classes, one-vs-rest, pairs of classes, regression."""

    def _coefficients(self, block: Block, share: NDArray[np.floating], cost: Array) -> Array:
        return self._alpha(block, share, cost) * self._problems.signs[:, block.class_ids].T

    def _alpha(self, block: Block, share: NDArray[np.floating], cost: Array) -> Array:
        """Add the block's terms that are linear in α; return (n, problems) α, 0 where it is outside its bounds or
        the row takes no part."""
        conjugate, rows = conjugate_of(self._settings), np.arange(block.n_rows)
        signs = self._problems.signs[:, block.class_ids].T
        a = np.stack([share[rows, place].astype(np.float64) for place in self._places(block)], axis=1)
        for bound in (conjugate.lower, conjugate.upper):
            if np.isfinite(bound):  # it was rounded with the others
                a = np.where(np.abs(a - bound) <= np.finfo(share.dtype).eps * abs(bound), bound, a)
        inside = (a >= conjugate.lower) & (a <= conjugate.upper) & np.isfinite(a)
        self._note(block, inside | (cost == 0), a)
        target = block.y[:, None] if block.has_targets else np.ones((1, 1))
        a = np.where(inside & (signs != 0), a, 0.0)
        terms = conjugate.value(a, target)
        self._linear += (cost * terms).sum(axis=0)
        self._size += (cost * np.abs(terms)).sum(axis=0)
        return a * cost

    def _places(self, block: Block) -> list[NDArray[np.intp]]:
        """Return for each problem (n,) where the rows' dual variable of it is, that of another where they take
        no part."""
        problems, classes = self._problems, block.class_ids.astype(np.intp)
        if self._settings.multiclass != "ovo":
            return [np.full(block.n_rows, c) for c in range(problems.count)]
        pairs = combinations(range(problems.signs.shape[1]), 2)
        return [np.where(classes == i, j - 1, i) for i, j in pairs]


class _OneClass(_Margins):
    """The loss one_class, which also sums Σ C_i x_i, to bring Σ α_i to ν Σ C_i."""

    _OTHER_SUMS = 1

    def __init__(
        self, settings: Settings, problems: Problems, machine: Machine, state: KeptDual, n_rows: int
    ) -> None:
        super().__init__(settings, problems, machine, state, n_rows)
        self._alpha_sum = self._cost_sum = 0.0

    def _coefficients(self, block: Block, share: NDArray[np.floating], cost: Array) -> Array:
        alpha = self._alpha(block, share, cost)
        self._alpha_sum += float(alpha.sum())
        self._cost_sum += float(cost.sum())
        return np.c_[alpha, cost]

    def finish(self, rows: Rows) -> None:
        mixture = self._towards_their_sum()
        square, off = self._w.squares(rows, mixture), np.abs(mixture) @ self._off
        self.values, self.sizes = -0.5 * square, 0.5 * square
        self.rounding = np.sqrt(square) * off

    def _towards_their_sum(self) -> Array:
        """Return the shares of α and of C in what has the sum that is asked for."""
        total = self._settings.nu * self._cost_sum
        if self._alpha_sum >= total:
            return np.array([total / self._alpha_sum if self._alpha_sum > 0 else 0.0, 0.0])
        theta = (total - self._alpha_sum) / (self._cost_sum - self._alpha_sum)
        return np.array([1.0 - theta, theta])


class _JointLoss(_DualSums):
    """One problem of all classes: Crammer-Singer, Weston-Watkins."""

    def _coefficients(self, block: Block, share: NDArray[np.floating], cost: Array) -> Array:
        a, cost = share.astype(np.float64), cost[:, 0]
        rows, classes = np.arange(block.n_rows), block.class_ids.astype(np.intp)
        alpha_sum = a.sum(axis=1) if self._settings.multiclass == "crammer-singer" else a.max(axis=1)
        inside = (a >= 0) & (alpha_sum <= 1.0)[:, None]
        inside[rows, classes] &= a[rows, classes] == 0
        self._note(block, inside | (cost == 0)[:, None], a)
        a = np.where(inside, a, 0.0)
        total = cost * a.sum(axis=1)
        self._linear += total.sum()
        self._size += total.sum()
        coefficients = -cost[:, None] * a
        coefficients[rows, classes] += total
        return coefficients
