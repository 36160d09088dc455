"""What the speed of NESVM hangs on: numbers that change how it gets to the certified optimum, not where that is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NESVMTuning:
    """Each line says what a larger value trades.

    mu, paper_mu: the first smoothing parameter of either step: easier first stages for more of them.
    mu_factor: μ falls at most so fast: more stages, each from a better start.
    mu_target: μ does not fall below where smoothing makes up this share of the gap asked for: less left for the
        rest of the gap, at an easier problem.
    decrement: μ falls when the next step promises to gain less than this share of smoothing's part of the gap:
        stages that end earlier, farther from their solution.
    ease: τ falls by this factor after every step that kept its promise: nearer to 1, longer steps come later.
    tighten: τ grows by this factor after one that did not: shorter steps for fewer broken promises.
    """

    mu: float = 1.0
    paper_mu: float = 5.0
    mu_factor: float = 0.5
    mu_target: float = 0.6
    decrement: float = 0.1
    ease: float = 0.98
    tighten: float = 2.0


@dataclass(frozen=True, slots=True)
class KernelTuning:
    """Of kernel machines; each line says what a larger value trades.

    mu, mu_factor, mu_target: see NESVMTuning.
    ease: L − 1 falls by this factor before every step. tighten: and grows by this one while a step does not keep
        its promise, which costs no pass.
    prune_share: this share of the gap allowed is for finding the solution, the rest for leaving out rows: earlier
        ends for more support vectors.
    prune_below: rows with α = 0 are left out whose |β| is under this share of the largest: fewer support vectors
        for a larger objective.
    certify_at: the certificate is measured when the gap seems to have fallen to this share of the last one: more
        columns of a product for earlier news. prune_share falls by it where a certificate is worse than it seemed.
    max_passes_between: ... or after so many passes.
    """

    mu: float = 1.0
    mu_factor: float = 0.5
    mu_target: float = 0.6
    ease: float = 0.95
    tighten: float = 2.0
    prune_share: float = 0.9
    prune_below: float = 0.01
    certify_at: float = 0.5
    max_passes_between: int = 10
