"""SmSVMTuning: the constants that the smoothed Newton method's speed depends on, and never its answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SmSVMTuning:
    """What each trades is said beside it; the defaults are measured (tools/bench)."""

    # The smoothing parameter a (Algorithm 3); losses that are smooth have none
    first_smoothing: float = 1.0
    """a of the first pass, in units of margins: smaller has fewer halvings and worse first steps."""
    gap_share: float = 0.5
    """The share of the tolerance that the smoothing may cost in the end, and to which problems on some of the rows
    are solved: the rest is left for the steps, and for what the other rows do."""

    # Which step is taken
    enough_fall: float = 0.5
    """A step is taken if the objective falls by this share of what the best step on the grid would give: higher
    spends passes on better steps."""

    # Without L2, columns that depend on each other or rows that are all far from the margin leave the Hessian
    # singular, and steps may be of any length. So the model gets a least curvature, a share of its mean, and more
    # of it after steps of no use; with L2 only after those. It moves no optimum. The method of multipliers has it
    # without L2, as a share of the curvature that a column would have if no row were at a bound.
    proximal: float = 1e-9
    """That share, at least: higher makes short steps, and more of them."""
    safeguard: float = 10.0
    """It is multiplied by this, at least, after a step that led too far, and divided by it after each that the
    model foresaw. The distance from the margin at which rows are left out grows by it after too many of those have
    crossed the margin."""

    # The minimiser of the quadratic model
    max_rounds: int = 60
    """Sweeps and Newton's steps on the active set after each, and steps on the rows near the margin, between two
    passes."""
    model_until: float = 1e-8
    """It is found when the optimality conditions are violated by no more than this share of what they were."""
    model_stalled: float = 1e-12
    """... or when a round brings less than this share of the whole fall: rounding."""
    model_until_roughly: float = 1e-2
    """``model_until`` beyond ``few_columns`` ..."""
    model_stalled_roughly: float = 1e-3
    """... and ``model_stalled``: it is only a step."""
    ridge: float = 1e-12
    """Added to a singular Hessian's diagonal, as a share of its mean."""
    columns_per_sweep: int = 24
    """Beyond ``few_columns`` a step on the active set is as dear as one sweep for so many columns, which are
    therefore made before it."""

    # Conjugate gradients, where there is no Hessian
    max_cg: int = 200
    """Products of a Newton step on rows in memory. Where each is a pass, there are at most ``max_rounds``."""
    cg_until: float = 0.1
    """Its residual's norm falls to this share: less is more products, and fewer steps."""
    cg_until_bent: float = 1e-3
    """The same for losses whose curvature ends, on rows in memory: half-solved steps put rows across the point
    where it does, and the step after that is worthless."""

    # The model by columns of the rows at hand, on wide data with L1
    until: float = 0.05
    """Violations fall to this share of what they were in each step: less is more sweeps, and fewer steps."""
    sweeps: int = 100
    """So many of coordinate descent are made, at most, before a step on the weights that are not zero ..."""
    newton_steps: int = 10
    """... takes over, so many times at most."""
    min_sweeps: int = 10
    """So many, where that step is by a Hessian."""
    products_until: float = 0.01
    """The share that conjugate gradients reduce violations to, for such a step."""

    # Steps on the rows near the margin, between two passes
    near_share: float = 0.6
    """Of all rows, that are kept at most: beyond, a pass costs little more,"""
    one_sided_share: float = 0.75
    """and this share where all rows that have a loss are kept: without these steps, problems with an L1 penalty go
    to the method of multipliers, whose dual is not kept by row."""
    slack_per_smoothing: float = 8.0
    """Rows are left out whose margin is so many times a away from 1: the loss is there a straight line but for
    a/500. For smooth losses so many times as much as margins still move."""

    # The method of multipliers, with L1 or a free intercept, where the above crawls (multipliers.py)
    patience: int = 30
    """Points that are summed at before it takes over, on whichever rows: more waits longer for the smoothing. On
    wide data by columns it does so after the first."""
    next_to_none: float = 0.01
    """Of the tolerance, that the smoothing costs afterwards, in the pass that measures the result."""
    new_columns: int = 200
    """Of a step's active columns, beside ..."""
    columns_growth: int = 2
    """... so many times as many as there are weights: most of the others stay zero."""

    # Memory, and the pieces that work is cut into
    memory_share: float = 0.25
    """Of the memory that is left, for Hessians; of all there is, for the pieces of all threads, which are smaller
    where that is too little."""
    max_active: int = 4096
    """Columns of a Hessian: beyond, the cube of it costs more than passes do."""
    few_columns: int = 512
    """Up to so many columns a Hessian is cheap: all of them are active, however few the rows, and the model's
    minimiser is found exactly."""
    spare: float = 1.2
    """So much room, in units of what all rows take, before they are counted on to stay in memory ..."""
    copied: float = 2.5
    """... and with a copy of those near the margin."""
    piece_rows: int = 4096
    """Of a sparse block, that a thread works on at a time: small ones stay in the processor's cache."""
    piece_bytes: int = 1_000_000
    """Of a dense one, as float64."""
    min_piece_rows: int = 64
    """Of a sparse block: fewer cost more in calls than in work."""


DEFAULT = SmSVMTuning()
