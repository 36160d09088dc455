"""The constants that second order's speed depends on, and never its answer: of the method of multipliers, of steps
along faces, and of working sets. LLSVMTuning (tuning.py) has them."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MultipliersTuning:
    """Of the method of multipliers (multipliers.py)."""

    cg_until: float = 0.1
    """Conjugate gradients end where the residual fell to this share,"""
    max_products: int = 100
    """or after so many products."""
    max_order: int = 3000
    """Of a matrix that is decomposed: beyond, conjugate gradients."""

    # When it begins; prices are in ns of processor time, of which only the ratios matter
    doubt: float = 4.0
    """So many times less than is expected the multipliers may cost where all rows are at hand, so that it is the
    last time: few rows are free after the first steps. Sweeps have cost as much, or so many times more than is
    expected are to come at their rate. Loading code counts in full."""
    steps: int = 40
    """Newton's, that are expected;"""
    smooth_steps: int = 15
    """of a loss without a kink."""
    point_price: float = 30.0
    """Of a proximal point, for each row,"""
    step_price: float = 2e5
    """of a Newton step beside its work on rows and matrices,"""
    start_price: float = 1e8
    """and of loading more code, which problems share."""


@dataclass(frozen=True, slots=True)
class FaceTuning:
    """Of conjugate gradients on the face (face.py)."""

    products: int = 200
    """Of a step, that are expected, at most: sweeps that are as many, or that are expected to be, are followed by
    one."""
    max_products: int = 300
    """Of a step, at most."""
    cg_until: float = 0.01
    """Conjugate gradients end where the residual fell to this share."""
    sweeps: int = 10
    """At a time: they find the next face, and how fast the gap falls without steps."""
    extrapolated: tuple[int, int] = (3, 6)
    """... where they are extrapolated: so many at a time, and so many of these rounds tell how fast it falls."""
    max_steps: int = 40
    """Between two passes."""
    few_steps: float = 4
    """That are expected in a working set (working_sets.py)."""
    first_sigma: float = 100.0
    """σ, in units of 1 over the mean of ‖x_i‖²;"""
    growth: float = 10.0
    """so much larger after a step of more than half the way, and smaller after one"""
    short: float = 0.25
    """of less than this share,"""
    most_sigma: float = 1e8
    """up to here."""

    def crawl(self, before: float, met: float, enough: float, n_sweeps: int) -> bool:
        """Would sweeps need more than a step, to bring the gap from ``met`` to ``enough``? before: it was so much
        ``n_sweeps`` sweeps ago. enough: a share of D, which a beginning can leave below 0: sweeps soon raise it."""
        if enough <= 0.0:
            return False
        if not met < before:
            return True
        return n_sweeps * math.log(met / enough) > self.products * math.log(before / met)

    def next_sigma(self, sigma: float, length: float, unit: float) -> float:
        """What σ becomes after a step of this length. unit: that of ``first_sigma``."""
        if length > 0.5:
            return min(self.growth * sigma, self.most_sigma * unit)
        return max(sigma / self.growth, unit) if length < self.short else sigma


@dataclass(frozen=True, slots=True)
class WorkingSetTuning:
    """Of survivors brought together (working_sets.py)."""

    passes: float = 2.0
    """None where no more passes than these are to go, at the last one's rate: sweeps alone do. A working set
    takes as many, since only passes find rows that did not survive and matter after all."""
    patience: float = 0.1
    """Sweeps have cost so many times what second order is expected to: those that read rows each time bring
    less."""
    rows_share: float = 0.3
    """Of the rows that a sweep has moved, so many must have room, until a survey has found how many are free."""
    rounds: int = 10
    """Readings of the survivors that find who violates, at most; 0: never."""


@dataclass(frozen=True, slots=True)
class InTurnTuning:
    """Of problems that begin at each other (in_turn.py)."""

    tol_share: float = 0.7
    """Second order ends at this share of the gap that is asked for: it knows the gap that a pass will measure."""
    sigma: float = 10.0
    """σ is so many times what it is from nothing: on folds of a9a that saves a tenth of the time of 1."""
    warm_share: float = 0.25
    """It takes about so many of the steps that it takes from nothing."""
    max_rounds: int = 12
    """Sweeps over all rows, at most: what is left is for epochs."""
    max_sweeps: int = 10
    """Between two of these, over rows that moved."""
