"""SmSVMTuning: the constants that the smoothed Newton method's speed depends on, and never its answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SmSVMTuning:
    """What each trades is said beside it; the defaults are measured (tools/bench)."""

    # The smoothing parameter a (Algorithm 3); losses that are smooth have none
    first_smoothing: float = 1.0
    """a of the first pass, in units of margins: smaller has fewer halvings and worse first steps."""
    warm_smoothing: float = 0.125
    """The same with weights to begin with."""
    halve_below: float = 5.0
    """a is halved when the fall that the step promises is below so many times the smoothing gap: higher halves
    sooner, and Newton's model is then worse."""
    smooth_enough: float = 0.4
    """The share of tol · P that the smoothing may cost in the end: the rest is left for the steps."""
    min_smoothing: float = 1e-13
    """Below, a is lost in rounding: the problem ends there."""
    rounding: float = 1e-15
    """A promised fall below this share of P is none."""

    # Which step is taken
    enough_fall: float = 0.5
    """A step is taken if the objective falls by this share of what the best step on the grid would give: higher
    spends passes on better steps."""
    unseen: float = 1e-3
    """Differences below this share of tol · P are not worth another pass."""
    longer: float = 16.0
    """The next step may be so many times as long as one that the model foresaw."""

    # Without L2, columns that depend on each other or rows that are all far from the margin leave the Hessian
    # singular, and steps may be of any length. So the model gets a least curvature, a share of its mean, and more
    # of it while steps would leave the region in which the last one has proved the model right; with L2 only
    # after a step has been of no use. It moves no optimum.
    proximal: float = 1e-9
    """That share, at least: higher makes short steps, and more of them."""
    proximal_rise: float = 10.0
    """It is multiplied by this while steps are too long ..."""
    proximal_sink: float = 0.1
    """... and by this after each that was taken."""
    max_proximal: float = 1e3

    # A smooth loss that goes on straight (Huber's) has no curvature there; where all rows are there, no Hessian.
    # So such rows have a share of the curvature with which the model is nowhere below the loss: all of it at
    # first, and after a step that led too far.
    straight_sink: float = 0.1
    """The share is multiplied by this after each step that the model foresaw ..."""
    min_straight: float = 1e-4
    """... down to this: with less, steps are Newton's, and longer than they should be."""

    # The minimiser of the quadratic model
    max_rounds: int = 50
    """Sweeps, and Newton's steps on the active set after each."""
    model_until: float = 1e-8
    """It is found when the optimality conditions are violated by no more than this share of what they were."""
    model_stalled: float = 1e-12
    """... or when a round brings less than this share of the whole fall: rounding."""
    exact_columns: int = 512
    """Up to so many active columns it is cheap enough to be found exactly."""
    model_until_roughly: float = 1e-2
    """``model_until`` beyond ..."""
    model_stalled_roughly: float = 1e-3
    """... and ``model_stalled``: it is only a step."""
    columns_per_sweep: int = 24
    """Beyond ``exact_columns`` a step on the active set is as dear as one sweep for so many columns, which are
    therefore made before it."""
    ridge: float = 1e-12
    """Added to a singular Hessian's diagonal, as a share of its mean."""

    # Conjugate gradients, where there is no Hessian
    max_cg: int = 30
    """Products of a Newton step, each a pass where rows are not in memory."""
    cg_until: float = 0.1
    """Its residual's norm falls to this share: less is a better step and more products."""
    smooth_max_cg: int = 200
    """The same where the loss is smooth and the rows are in memory: half-solved steps put rows across the point
    where its curvature ends, and the step after that is worthless ..."""
    smooth_cg_until: float = 1e-3
    """... and the share."""

    # The model by columns of the rows at hand, on wide data with L1
    first_until: float = 0.1
    """Violations fall to this share of what they were in the first step: rows and weights still change ..."""
    until_share: float = 0.7
    """... to this share of it in each step after that ..."""
    least_until: float = 0.05
    """... down to this: less is more sweeps, and fewer steps."""
    sweeps: int = 100
    """So many of coordinate descent are made, at most, before a step on the weights that are not zero ..."""
    newton_steps: int = 10
    """... takes over, so many times at most."""
    min_sweeps: int = 10
    """So many at least, where that step is by a Hessian ..."""
    hessian_columns: int = 2048
    """... which may have so many columns: beyond, it is by conjugate gradients."""
    nearly: float = 0.9
    """Zeros are among these columns whose slope is at least this share of l1."""
    hessian_price: float = 0.4
    """In what a sweep takes of a value: for each pair of values that a row has ..."""
    factor_price: float = 0.07
    """... and for the cube of the columns."""
    max_products: int = 60
    """For such a step, by conjugate gradients, whose products are as dear as sweeps ..."""
    products_until: float = 0.01
    """... and the share."""

    # Steps on the rows near the margin, between two passes
    max_near: int = 60
    """So many, at most."""
    near_gap: float = 0.5
    """Their problem is solved to this share of the tolerance: the rest is left for what the other rows do."""
    near_share: float = 0.5
    """Of all rows, that are kept at most: beyond, a pass costs little more."""
    one_sided_share: float = 0.8
    """The same where all rows with a loss have to be among them."""
    near_overfull: float = 1.5
    """So many times that share may they be, when margins have drifted, to be gone on with."""
    slack_per_smoothing: float = 8.0
    """Rows are left out whose margin is so many times a away from 1: the loss is there a straight line but for
    a/500. For smooth losses so many times as much as margins still move."""
    safety: float = 4.0
    """The factor of it after too many of the rows that were left out have crossed the margin."""

    # The method of multipliers, with L1 or a free intercept, where the above crawls (multipliers.py)
    patience: int = 30
    """Points that are summed at before it takes over, on whichever rows: more waits longer for the smoothing. On
    wide data by columns it does so after the first."""
    patience_growth: int = 2
    """That is multiplied by this each time."""
    next_to_none: float = 0.01
    """Of the tolerance, that the smoothing costs afterwards, in the pass that measures the result."""
    max_multiplier_steps: int = 400
    """Newton steps and proximal points, at most."""
    new_columns: int = 200
    """Of a step's active columns, beside ..."""
    columns_growth: int = 2
    """... so many times as many as there are weights: most of the others stay zero."""
    kappa: float = 0.1
    """A proximal point is near enough where ‖∇ψ‖²/l2, or without L2 twice its gap, has come to this share of
    ‖α − α^k‖²/σ."""
    growth: float = 3.0
    """Of σ, from one proximal point to the next ..."""
    fast_growth: float = 10.0
    """... this where one Newton step has led there."""
    least_curvature: float = 1e-10
    """Without L2, of a column, as a share of what it would have if no row were at a bound ..."""
    too_short: float = 0.1
    """... and after a step of which the line search takes less than this share ..."""
    curvature_rise: float = 100.0
    """... so many times as much ..."""
    most_curvature: float = 1e-2
    """... up to this; and ..."""
    curvature_sink: float = 0.01
    """... so much less after one that is taken whole."""
    max_standing: int = 5
    """So many steps are borne that rounding leaves nothing of."""

    # Memory, and the pieces that work is cut into
    hessian_share: float = 0.25
    """Of the memory that is left, for Hessians."""
    max_active: int = 4096
    """Columns of a Hessian: beyond, the cube of it costs more than passes do."""
    all_active: int = 512
    """Up to so many columns all of them are active, however few the rows."""
    spare: float = 1.2
    """So much room, in units of what all rows take, before they are counted on to stay in memory ..."""
    copied: float = 2.5
    """... and with a copy of those near the margin."""
    piece_rows: int = 4096
    """Of a sparse block, that a thread works on at a time: small ones stay in the processor's cache."""
    piece_bytes: int = 1_000_000
    """Of a dense one, as float64."""
    piece_share: float = 0.25
    """Of the memory there is, that the pieces of all threads may take: beyond, they are smaller."""
    min_piece_rows: int = 64
    """Of a sparse block: fewer cost more in calls than in work."""


DEFAULT = SmSVMTuning()
