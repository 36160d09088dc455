"""LLSVMTuning: the constants that coordinate descent's speed depends on, and never its answer."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace

from llsvm.objective.losses import Loss, PLQLoss


@dataclass(frozen=True, slots=True)
class LLSVMTuning:
    """What each trades is said beside it; the defaults are measured (tools/bench)."""

    # A block at hand
    block_sweeps: int = 3
    """Sweeps over the rows of a part that are free or violate, at most, between two over all its rows in epochs;
    and over a block in a full pass where few rows may be kept. Else there is one, and survivors have the others."""
    lone_sweeps: int = 30
    """The same in a full pass where few of the free or violating rows may be kept: blocks are all there is."""
    limited_below: float = 0.5
    """Few: less than this share of them."""
    sweep_until: float = 0.2
    """Sweeps of a block end when its part of the gap fell to this share: lower is more work, less is left over."""

    # Which rows survive
    probe_rows: int = 2000
    """Rows that are looked at to find how far margins have drifted: more is a better guess at what comes next."""
    probe_bytes: int = 200_000
    """... and copied, at most."""
    drift_share: float = 1.0
    """Rows whose slack is less than so much of the last pass's drift are spilled with the free and violating ones:
    a larger spill, fewer rows that are missed until the next pass."""
    spill_most: float = 4.0
    """... but of each block at most so many times as many as are free or violate."""
    spill_below: float = math.inf
    """Nothing is spilled, and epochs are over all rows of the binary cache, where more than this share of them are
    free or violate: writing most rows anew, and reading them, against reading the cache."""
    epoch_drift_share: float = 4.0
    """``drift_share`` for the drift of the last epoch, in those between two passes."""
    rewrite_below: float = 0.5
    """The spill is written anew when less than this share of its rows is still within the slack threshold: writing
    once more against reading rows that are done."""

    # Epochs over survivors, between two full passes
    max_epochs: int = 50
    """Over all the survivors in memory."""
    extrapolate_after: int = 3
    """Of these; then they are extrapolated (extrapolation.py)."""
    max_spill_epochs: int = 8
    """Over the spilled ones: reading the spill again against reading all rows again."""
    survivors_until: float = 0.1
    """Epochs end when their rows' part of the gap fell to this share of what it was: lower spends more work on the
    same rows, higher takes more passes."""
    tol_share: float = 0.3
    """... or to this share of the gap that is asked for."""
    row_share: float = 0.1
    """Where no dual variable rests at a bound: a row that adds less than this share of what the gap asked for comes
    to for each row is left alone, and need not survive: lower works more on rows that are nearly done."""

    # Small data, solved to the last digits
    small_values: int = 20_000
    """Data with at most so many rows and values is solved by second order at the end, which costs little,"""
    small_gap: float = 1e-13
    """to such a gap, a share of the objective; with the logistic loss, whose steps double the digits, until these
    change nothing. Of the sum of a one-class SVM's dual variables no more than this share is missing then."""

    # Threads that share the rows of one problem
    parallel_above: int = 500
    """Columns: below, rows share so many of them that threads undo each other's steps."""
    parallel_rows: int = 1024
    """Each thread's rows between two sums of the threads' weights, at least: fewer sums, older weights."""
    parallel_work: int = 3
    """... and as many as have so many values for each weight."""
    conflict: float = 0.3
    """Threads stop sharing a sweep when this much of their gain is lost to each other."""

    patience: float = 0.25
    """Survivors are brought together (working_sets.py) when sweeps have cost so many times what second order is
    expected to: those that read rows each time bring less. math.inf: never."""

    # Paper mode
    max_paper_epochs: int = 1000
    """Over the survivors, if α has not settled before."""

    def with_few_copies(self) -> LLSVMTuning:
        """Without what takes copies of the weights, or of other numbers of each column."""
        return replace(
            self,
            parallel_above=sys.maxsize,
        )


DEFAULT = LLSVMTuning()
# Where hardly any dual variable ever rests: all rows are wanted again.
FREE = replace(DEFAULT, spill_below=0.3)


def tuning_of(loss: Loss) -> LLSVMTuning:
    """The constants that suit a loss."""
    rests = isinstance(loss, PLQLoss) and (loss.lower == 0.0 or math.isinf(loss.smoothness))
    return DEFAULT if rests else FREE
