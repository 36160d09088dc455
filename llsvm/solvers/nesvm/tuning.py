"""What the speed of NESVM hangs on: numbers that change how it gets to the certified optimum, not where that is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SmoothingTuning:
    """Each line says what a larger value trades.

    mu: the first smoothing parameter: easier first stages for more of them.
    smoothing_share: μ falls while smoothing makes up more than this share of the gap asked for: less left for the
        rest of the gap, at an easier problem.
    ease: the curvature that is searched for falls by this factor after a step that kept its promise, and doubles
        after one that did not: nearer to 1, longer steps come later, and fewer break their promise.
    """

    mu: float = 5.0
    smoothing_share: float = 0.7
    ease: float = 0.98


@dataclass(frozen=True, slots=True)
class NESVMTuning(SmoothingTuning):
    """Of linear machines.

    decrement: μ falls when the next step promises to gain less than this share of smoothing's part of the gap:
        stages that end earlier, farther from their solution.
    """

    decrement: float = 0.1


@dataclass(frozen=True, slots=True)
class KernelTuning(SmoothingTuning):
    """Of kernel machines, where a broken promise costs no pass.

    prune_share: this share of the gap allowed is for finding the solution, the rest for leaving out rows: earlier
        ends for more support vectors.
    """

    prune_share: float = 0.9
