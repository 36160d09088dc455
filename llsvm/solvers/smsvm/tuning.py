"""SmSVMTuning: what tests and benchmarks change of the smoothed Newton method; its answer depends on none of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SmSVMTuning:
    """What each trades is said beside it; the defaults are measured (tools/bench)."""

    # The model by columns of the rows at hand, on wide data with L1
    sweeps: int = 100
    """So many of coordinate descent are made, at most, before each step on the weights that are not zero: more
    crawl, fewer leave too many weights for that step."""
    min_sweeps: int = 10
    """So many, where that step is by a Hessian, and therefore cheap."""

    near_share: float = 0.6
    """Of all rows, that are kept near the margin at most: beyond, a pass costs little more (with 0.75 raw columns
    with a free intercept take 1.4 times the work)."""
    patience: int = 30
    """Points that are summed at before the method of multipliers takes over (multipliers.py), on whichever rows:
    more waits longer for the smoothing. On wide data by columns it does so after the first."""

    # Memory, and the pieces that work is cut into
    max_active: int = 4096
    """Columns of a Hessian: beyond, the cube of it costs more than passes do."""
    piece_bytes: int = 330_000
    """Of rows that a thread works on at a time: small pieces stay in the processor's cache."""


DEFAULT = SmSVMTuning()
