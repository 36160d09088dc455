"""SequentialDualTuning: the constants that the sequential dual method's speed depends on, and never its answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SequentialDualTuning:
    """What each trades is said beside it; the defaults are measured (tools/bench, tools/reproduce)."""

    # The paper's heuristics, to be switched off for comparison
    shrinking: bool = True
    """Without it, every loop is a full one."""
    extrapolation: bool = True
    """Without it, loops only (extrapolation.py)."""

    # Memory
    extrapolate_below: int = 64
    """Classes: more do without extrapolation, which takes two more copies of the weights,"""
    extrapolate_share: float = 0.25
    """if these need at most this share of the memory there is."""
    keep_share: float = 0.02
    """Of the memory there is, at most, for a copy of the weights as they were last certified."""
    sparse_from: int = 32
    """Classes: their shares are packed, since most are 0: less memory, slower to get and set."""

    # Loops
    max_loops: int = 10
    """Full loops over all rows in memory, or all the survivors there, between two passes, at most."""
    block_loops: int = 4
    """... over a block at hand and the survivors: more work on each block, fewer passes."""
    until: float = 0.3
    """Loops end when the gap fell to this share. (The paper's 0.1 leaves the classes without a share out of sight
    of shrunk loops for too long; a full loop costs little more than they where rows are long and sparse.)"""
    block_until: float = 0.1
    """The same over a block at hand: measuring all rows anew costs much."""
    shrunk_effort: float = 5.0
    """Shrunk loops after a full one end, at the latest, after this many loops' worth of scores."""

    # A run that has begun at the shares of most rows, where all are in memory (run.py)
    warm_slack: float = 0.5
    """Of the scores: its first stage is over the rows of less slack, the next over those of less than a half,
    and so on."""

    # Newton's method (multipliers.py), where rows and shares of 8 bytes are in memory
    newton: bool = True
    """Without it, loops only."""
    newton_share: float = 0.5
    """Of the memory there is, at most, for the matrices of a step,"""
    newton_numbers: int = 8_000_000
    """and at most so many float64."""
    newton_steps: int = 45
    """That it is taken to need: it begins when loops have cost as much as these would (prices.py),"""
    readings_patience: float = 0.1
    """or this share of it where rows are read for each step: loops over them get on the less."""
    newton_stage: int = 25
    """Steps between two measurements, at most."""
    newton_until: float = 0.8
    """It ends when the gap is this share of what is asked for."""

    # Loops over the worst rows (worst_rows.py), where Newton's method would need conjugate gradients without a
    # preconditioner
    worst_products: int = 5
    """They follow each full loop once loops have cost as much as so many products of the rows on a face with the
    weights;"""
    worst_rows: int = 50
    """they are over so many rows,"""
    worst_share: float = 0.25
    """Of the memory that is left, at most, for them where Newton's method has no room,"""
    worst_until: float = 0.01
    """until their gap has fallen to this share,"""
    worst_loops: int = 500
    """or so often,"""
    worst_shrunk_loops: int = 9
    """with so many shrunk ones after each."""
    worst_joined: int = 3
    """Newton's method over the worst rows is followed, so many times, by one over these and what is worst then."""
    newton_from: float = 0.8
    """Where a pass left more than this share of the gap, Newton's method takes the worst rows in the next."""

    exact: float = 0.1
    """Of the tolerance: where no more is missing beside what rounding may hide, passes cannot prove more."""

    # Epochs over survivors
    max_spill_epochs: int = 5
    """Over the spilled ones: reading the spill again against reading all rows again."""
    survivors_until: float = 0.05
    """Epochs end when the survivors' gap fell to this share of the whole gap,"""
    tol_share: float = 1.0
    """or to this share of the gap that is asked for,"""
    tol_share_falls: float = 0.5
    """times this after each pass that did not do."""
    spill_share: float = 0.9
    """Free and violating rows beyond memory are spilled if they are at most this share: it saves most passes."""


DEFAULT = SequentialDualTuning()
