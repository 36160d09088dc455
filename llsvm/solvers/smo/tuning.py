"""What the speed of SMO hangs on: numbers that change how it gets to the certified optimum, not where that is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SMOTuning:
    """Each line says what a larger value trades. Prices are in ns, as measured on one core; only their ratios
    matter, and no clock is looked at, so that runs repeat.

    share: of the gap allowed, at which a problem counts as solved before that is certified: earlier ends for
        certificates that fail; it falls by ``share_factor`` where one does.
    steps_between: steps of pairs, per row, between looks at the gap: fewer looks for later ends.
    pass_work: what a pass works on a problem before it certifies, in products with K: fewer certificates for later
        news.
    step_price: of a step of a pair, per row.
    factor_price: of a Cholesky factor, per cube of a row. A product takes 1 per value of K.
    newton_steps: so many steps of Newton's method are worth trying to do without: a later change to it.
    sigma_cut: σ of the method of multipliers is cut to this share where a system is not solved in ``inner_steps``
        steps of Newton's method.
    matrix_share: of the free memory that is for the systems of Newton's method and, where K is not in memory, for
        its blocks: larger working sets for fewer rows read at a time.
    """

    share: float = 0.9
    share_factor: float = 0.5
    steps_between: float = 0.5
    pass_work: float = 256.0
    step_price: float = 3.2
    factor_price: float = 1 / 30
    newton_steps: float = 30.0
    sigma_cut: float = 0.1
    inner_steps: int = 20
    matrix_share: float = 0.5
