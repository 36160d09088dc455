"""What the speed of NESVM hangs on: numbers that change how it gets to the certified optimum, not where that is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NESVMTuning:
    """Of linear machines; each line says what a larger value trades.

    max_gram_columns: up to so many columns the metric is the Gram matrix: fewer passes for its decomposition, whose
        work grows with the cube of them.
    gram_share: ... where that takes no more than this share of the free memory: fewer passes for smaller blocks.
    bundle: dual points kept for each problem: a better dual from the same passes for memory and work on them.
    bundle_share: ... where they take no more than this share of the free memory.
    power_passes: of the power iteration for the paper's step on squares: a safer constant for passes at the start.
    thin_passes: at most, that leave out weights under l1, each measures two: sparser weights for passes at the end.
    mu, paper_mu: the first smoothing parameter of either step: easier first stages for more of them.
    mu_factor: μ falls at most so fast: more stages, each from a better start.
    mu_target: μ does not fall below where smoothing makes up this share of the gap asked for: less left for the
        rest of the gap, at an easier problem.
    gap_rule: μ falls when what is not smoothing in the gap is at most so many times it (scalar metric, or l1).
    decrement_rule: μ falls when the next step promises to gain less than this share of smoothing's gap (Gram
        metric with l2). Larger values of both: stages that end earlier, farther from their solution.
    first_curvature, first_scalar_curvature: the search for τ begins at these times 1/μ (Gram and scalar metric).
    ease: τ falls by this factor after every step that kept its promise: nearer to 1, longer steps come later.
    tighten: τ grows by this factor after one that did not: shorter steps for fewer broken promises.
    """

    max_gram_columns: int = 2000
    gram_share: float = 0.25
    bundle: int = 20
    bundle_share: float = 0.25
    power_passes: int = 20
    thin_passes: int = 6
    mu: float = 1.0
    paper_mu: float = 5.0
    mu_factor: float = 0.5
    mu_target: float = 0.6
    gap_rule: float = 4.0
    decrement_rule: float = 0.01
    first_curvature: float = 0.2
    first_scalar_curvature: float = 0.05
    ease: float = 0.98
    tighten: float = 2.0


@dataclass(frozen=True, slots=True)
class KernelTuning:
    """Of kernel machines; each line says what a larger value trades.

    bundle: dual points kept for each problem: a better dual from the same passes for memory and work on them.
    mu: the first smoothing parameter. mu_factor, mu_target: see NESVMTuning.
    first_curvature: the search for L begins at 1 plus this over μ. first_smooth_curvature: of squared losses.
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

    bundle: int = 8
    mu: float = 1.0
    mu_factor: float = 0.5
    mu_target: float = 0.6
    first_curvature: float = 0.1
    first_smooth_curvature: float = 2.0
    ease: float = 0.95
    tighten: float = 2.0
    prune_share: float = 0.9
    prune_below: float = 0.01
    certify_at: float = 0.5
    max_passes_between: int = 10
