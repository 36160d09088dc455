"""The weights that are certified: which multiple of those measured (llsvm/objective/best.py), and the best of all
passes. Both losses are hinges of margins, s_y − s_m of all other classes m (Weston-Watkins), or the least of these
(Crammer-Singer).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.best import FAR, LEFT, Folded, scaled_primal
from llsvm.objective.certificate import Certificate
from llsvm.objective.rounding import CLOSE, RoundingBound
from llsvm.solvers.optim.lapack import dot
from llsvm.solvers.optim.row_operator import coef_of
from llsvm.solvers.sequential_dual.problem import BlockShares, JointProblem
from llsvm.solvers.state import Value

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Weights are longer by so many of the shifts that rounding may make of a margin: more than one, so that margins a
# little below 1 are lifted too. Without longer weights runs of large C end uncertified; with 4 shifts the objective
# rises more, and runs take as many passes.
LONGER = 1.5
# Margins that are held at a time, 8 MB with their costs, and as much again some four times while they are sorted:
# of more, which would take more memory, the best multiple is found less exactly.
MAX_HELD = 1 << 19


@dataclass(frozen=True, slots=True)
class Multiple:
    """Weights that are ``factor`` times those measured. primal: P of them. close: Σ C_i² over the rows that have a
    margin that is not above 1 by ``beyond``, infinite where that was not measured. rounding: what may have to be
    added to P. rounding_gap: the relative gap that is due to it."""

    factor: float
    primal: float
    close: float = np.inf
    beyond: float = CLOSE
    rounding: float = 0.0
    rounding_gap: float = 0.0


def scaled(problem: JointProblem, part: BlockShares, w: Array, primal: float, dual: float) -> Multiple:
    """The best multiple of the weights w (d + 1, k); once, and ``primal``, which is P(w), where that gains little.

    dual: D."""
    if not primal - dual > FAR * primal:
        return Multiple(1.0, primal)
    t, scaled_primal = _best(_margins(problem, part, w, lambda margin: margin < 1.0), dot(w, w))
    return (
        Multiple(t, scaled_primal)
        if scaled_primal - dual <= LEFT * (primal - dual)
        else Multiple(1.0, primal)
    )


def _best(pieces: Iterator[tuple[Array, Array]], square: float) -> tuple[float, float]:
    """The best multiple of weights of ``square`` ‖w‖², and P of it: exactly, where there are few margins; each
    class of each row may have one, which together would take more memory than all else."""
    held, n_held, folded = list[tuple[Array, Array]](), 0, None
    for margin, cost in pieces:
        n_held += len(margin)
        held.append((margin, cost))
        if n_held > MAX_HELD:
            folded = folded or Folded()
            while held:
                folded.add(*held.pop())
            n_held = 0
    if folded is None:
        margin, cost = (np.concatenate(each) for each in zip(*held, strict=True))
        return scaled_primal(square, margin, cost)
    for piece in held:
        folded.add(*piece)
    return folded.best(square)


def beyond_rounding(
    problem: JointProblem, part: BlockShares, w: Array, factor: float, shift: float
) -> Multiple:
    """Weights a little longer than ``factor`` w, so that margins of 1 are above 1 by more than rounding may take
    from them: where costs dwarf the objective, nothing else proves that such rows cost nothing.

    shift: by how much rounding may move a margin of ``factor`` w."""
    longer = 1.0 + LONGER * shift
    # halfway between what rounding may take from a margin of the longer weights and what they add to one of 1
    factor, beyond = factor * longer, 0.5 * (longer + LONGER) * shift
    losses = close = 0.0
    for margin, cost in _margins(problem, part, w, lambda margin: factor * margin < 1.0 + beyond):
        losses += float(np.einsum("i,i", cost, np.maximum(1.0 - factor * margin, 0.0)))
        close += float(np.einsum("i,i", cost, cost))
    return Multiple(factor, 0.5 * factor * factor * dot(w, w) + losses, close, beyond)


def _margins(
    problem: JointProblem, part: BlockShares, w: Array, condition: Callable[[Array], Mask]
) -> Iterator[tuple[Array, Array]]:
    """Yield the margins that meet ``condition``, and the costs of their rows, some rows at a time."""
    products = problem.products(part)
    for rows in products.pieces(0, part.n_rows):
        scores, y = products.scores(products.matrix(rows), w), part.block.y[rows]
        i = np.arange(len(y))
        margin = scores[i, y][:, None] - scores
        margin[i, y] = np.inf
        if not problem.dual.weston_watkins:  # which has a hinge for each class
            margin = margin.min(axis=1, keepdims=True)
        row, m = np.nonzero(condition(margin))
        yield margin[row, m], part.cost[rows][row]


class BestWeights:
    """copy: (d + 1, k) room for a copy of the best; None: each certificate is of the weights just measured, as they
    are. much: rounding matters where it comes to more than this relative gap."""

    def __init__(self, copy: Array | None, bound: RoundingBound, problem: JointProblem, much: float) -> None:
        self.copy = copy
        self.best = Multiple(1.0, np.inf)  # what was copied
        self._bound, self._problem, self._much = bound, problem, much

    def multiple(self, part: BlockShares, w: Array, losses: float, dual: float) -> Multiple:
        """Return the best multiple of w. part: all rows. losses: Σ C_i loss_i of w. dual: D."""
        primal = 0.5 * dot(w, w) + losses
        plain = self.rounded(scaled(self._problem, part, w, primal, dual), w, dual)
        if plain.rounding_gap <= self._much:
            return plain
        shift = plain.factor * self._bound.margin_shift(coef_of(w))
        longer = self.rounded(beyond_rounding(self._problem, part, w, plain.factor, shift), w, dual)
        return min(plain, longer, key=lambda multiple: multiple.primal + multiple.rounding)

    def rounded(self, multiple: Multiple, w: Array, dual: float) -> Multiple:
        """Return the same with what rounding may add to P. w: as measured. dual: D."""
        measured, factor = self._certificate(multiple, w, min(dual, multiple.primal), 0), multiple.factor
        rounding, gap = factor * sum(measured.rounding), factor * measured.rounding_gap
        return replace(multiple, rounding=rounding, rounding_gap=gap)

    def certificate(
        self, multiple: Multiple, w: Array, dual: float, passes: int
    ) -> tuple[Array, Certificate]:
        """Return the best weights so far, (d + 1, k), where a copy of them is kept, else w; and the certificate of
        these."""
        if self.copy is not None:
            if multiple.primal + multiple.rounding < self.best.primal + self.best.rounding:
                self.best = multiple
                np.multiply(w, multiple.factor, out=self.copy)
            w, multiple = self.copy, self.best
        return w, self._certificate(multiple, w, dual, passes)

    def _certificate(self, multiple: Multiple, w: Array, dual: float, passes: int) -> Certificate:
        close = np.array([multiple.close])
        return self._bound.certificate(coef_of(w), [multiple.primal], [dual], passes, close, multiple.beyond)

    # -- what a SolverState holds of it -----------------------------------------------------------------

    @property
    def arrays(self) -> dict[str, Array]:
        return {} if self.copy is None else {"best w": self.copy}

    @property
    def numbers(self) -> dict[str, Value]:
        finite: dict[str, Value] = {
            name: value for name, value in asdict(self.best).items() if np.isfinite(value)
        }
        return {} if self.copy is None else {"best": finite}

    def restore(self, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
        """Go on from what these were."""
        if self.copy is not None and "best w" in arrays:
            self.copy[...] = arrays["best w"]
            self.best = Multiple(**numbers["best"])
