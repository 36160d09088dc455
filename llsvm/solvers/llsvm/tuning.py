"""LLSVMTuning: the constants that coordinate descent's speed depends on, and never its answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LLSVMTuning:
    """What each trades is said beside it; the defaults are measured (tools/bench)."""

    # A block at hand
    block_sweeps: int = 3
    """Sweeps over the rows of a part that are free or violate, at most, between two over all its rows in epochs."""

    # Which rows survive
    spill_most: float = 4.0
    """Rows whose slack is less than the last pass's drift are spilled with the free and violating ones, but of each
    block at most so many times as many as these: a larger spill, fewer rows that are missed until the next pass."""

    # Sweeps
    max_epochs: int = 50
    """Over all the survivors in memory; and over a block in a full pass, where rows that are free or violate have
    no room among survivors. Else there is one sweep over a block, and survivors have the others."""
    max_spill_epochs: int = 8
    """Over the spilled ones: reading the spill again against reading all rows again."""
    survivors_until: float = 0.1
    """Epochs end when their rows' part of the gap fell to this share of what it was, and so do the sweeps over
    active rows within one: lower spends more work on the same rows, higher takes more passes."""
    tol_share: float = 0.3
    """Epochs also end at this share of the gap that is asked for: at 0.1 they take a twentieth more work, higher
    takes more passes. Where no dual variable rests at a bound, a row that adds less than this share of what that
    comes to for each row is left alone, and need not survive."""

    # Small data, solved to the last digits
    small_values: int = 20_000
    """Data with at most so many rows and values is solved by second order to the last digits, which costs little
    there; more of them, and this would be most of the work of a run."""

    # Threads that share the rows of one problem
    parallel_above: int = 500
    """Columns: below, rows share so many of them that threads undo each other's steps."""
    parallel_work: float = 3.0
    """Between two sums of the threads' weights each thread's visits to rows cost so many times what the sum and the
    calls do: more of them, and the weights are older."""

    doubt: float = 4.0
    """Second order may cost so many times more or less than is expected: it begins when sweeps have cost the least
    that it may cost, as few rows are free after its first steps; or, over all rows in memory, where sweeps at their
    rate are still to cost the most. 0: survivors are never brought together (working_sets.py)."""


DEFAULT = LLSVMTuning()
