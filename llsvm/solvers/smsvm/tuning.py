"""SmSVMTuning: what tests and benchmarks change of the smoothed Newton method; its answer depends on none of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SmSVMTuning:
    """Each field says what it trades; the defaults are measured (tools/bench)."""

    # The model by columns of the rows at hand, on wide data with L1
    sweeps: int = 100
    """The most sweeps of coordinate descent before each Newton step on the weights that are not zero. With more,
    the last of them gain next to nothing; with fewer, that step has more weights and takes more products."""
    sweeps_by_hessian: int = 10
    """The most sweeps where that Newton step is made by a Hessian. The step is cheap then: with more, sweeps cost
    more than the steps they save; with fewer, the Hessian has more columns."""

    near_share: float = 0.6
    """The largest share of all rows that is kept near the margin between passes. With more, steps on these rows
    cost nearly as much as passes: with 0.75, raw columns with a free intercept take 1.4 times the work. With fewer,
    more steps take a pass each."""
    patience: int = 30
    """The number of points, each of a pass or of a step on near rows, after which the method of multipliers
    (multipliers.py) takes over. With more, hard problems spend more passes on the smoothing; with fewer, problems
    that the smoothing would soon have solved are handed over. On wide data by columns the method takes over after
    the first point."""

    # Memory, and the pieces that work is cut into
    max_active: int = 4096
    """The most columns of a Hessian. With more, its factorization, which takes the cube of this number, costs more
    than the passes it saves; with fewer, active sets are smaller, and L2 takes conjugate gradients sooner."""
    piece_bytes: int = 330_000
    """The bytes of rows, with the numbers made of them, that a thread works on at a time. Larger pieces leave the
    processor's cache; smaller ones cost more in calls than in work."""


DEFAULT = SmSVMTuning()
