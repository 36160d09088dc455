"""LLSVMTuning: the constants that coordinate descent's speed depends on, and never its answer."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class LLSVMTuning:
    """What each trades is said beside it; the defaults are measured (tools/bench)."""

    # A block at hand
    block_sweeps: int = 3
    """Sweeps over the rows of a part that are free or violate, at most, between two over all its rows in epochs."""
    lone_sweeps: int = 30
    """Sweeps over a block in a full pass, at most, where few rows may be kept, so that the block is all there is.
    Else there is one, and survivors have the others."""
    limited_below: float = 0.5
    """Few: less than this share of the free or violating rows."""

    # Which rows survive
    probe_bytes: int = 200_000
    """Of rows that are copied to find how far margins have drifted: more is a better guess at what comes next."""
    spill_most: float = 4.0
    """Rows whose slack is less than the last pass's drift are spilled with the free and violating ones, but of each
    block at most so many times as many as these: a larger spill, fewer rows that are missed until the next pass."""

    # Epochs over survivors, between two full passes
    max_epochs: int = 50
    """Over all the survivors in memory."""
    extrapolate_after: int = 3
    """Of these; then they are extrapolated (extrapolation.py)."""
    max_spill_epochs: int = 8
    """Over the spilled ones: reading the spill again against reading all rows again."""
    survivors_until: float = 0.1
    """Epochs end when their rows' part of the gap fell to this share of what it was, and so do the sweeps over
    active rows within one: lower spends more work on the same rows, higher takes more passes."""
    tol_share: float = 0.3
    """... or to this share of the gap that is asked for."""
    row_share: float = 0.1
    """Where no dual variable rests at a bound: a row that adds less than this share of what the gap asked for comes
    to for each row is left alone, and need not survive: lower works more on rows that are nearly done."""

    # Small data, solved to the last digits
    small_values: int = 20_000
    """Data with at most so many rows and values is solved by second order to the last digits, which costs little
    there; more of them, and this would be most of the work of a run."""

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
