"""Batches: how many candidates, a C, class weights and a fold each, are trained in the same passes, in which order.

Of a batch all C's have the same class weights and folds. The next one goes on with larger C's. Where all rows are
in memory, each of its candidates begins at the dual variables of its neighbour, the one of the next smaller C on
the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from llsvm.memory.plan import MemoryPlan
from llsvm.objective.problems import Fold, Variant
from llsvm.solvers.llsvm.start import NO_PARENT

# Where rows are not in memory: blocks of rows are at least this share of those that one candidate alone would have,
# since each block costs its reading again where few rows are seen at a time.
_BLOCK_SHARE = 1 / 8

Weights = tuple[float, ...] | None  # of classes, see Variant


@dataclass(frozen=True, slots=True)
class Batch:
    """Candidates of the same passes: each of ``costs`` with each of ``weights`` and of ``folds``, None being all
    rows.

    weights: numbers in a list of class weights. first, last: is it the first, or the last, of its weights and
    folds?"""

    costs: tuple[float, ...]
    weights: tuple[int, ...]
    folds: tuple[Fold | None, ...]
    first: bool
    last: bool

    def variants(self, weights: Sequence[Weights]) -> list[Variant]:
        """Return them in the order of the costs, within each in that of the weights, and of the folds."""
        several = len(self.folds) > 1
        return [
            Variant(C, fold, weights[w], to_begin_at=several and fold is None)
            for C in self.costs
            for w in self.weights
            for fold in self.folds
        ]

    @property
    def parents(self) -> list[int]:
        """Return where each of the variants may begin: at the next smaller C, and at the smallest of all at the
        first of the folds, if these are all rows."""
        n, at_all_rows = len(self.folds), self.first and self.folds[0] is None
        sides = len(self.weights) * n
        roots = [i - i % n if i % n and at_all_rows else NO_PARENT for i in range(sides)]
        return [*roots, *range(sides * (len(self.costs) - 1))]


def batches(
    costs: Sequence[float], n_weights: int, folds: Sequence[Fold | None], max_size: int
) -> Iterator[Batch]:
    """Yield batches of all candidates, at most ``max_size`` each. costs: ascending."""
    folds_at_once = min(max_size, len(folds))
    weights_at_once = max(1, min(n_weights, max_size // len(folds)))
    costs_at_once = max(1, max_size // (len(folds) * n_weights))
    for f in range(0, len(folds), folds_at_once):
        for w in range(0, n_weights, weights_at_once):
            for c in range(0, len(costs), costs_at_once):
                last = c + costs_at_once >= len(costs)
                weights = tuple(range(w, min(w + weights_at_once, n_weights)))
                in_batch = tuple(folds[f : f + folds_at_once])
                yield Batch(tuple(costs[c : c + costs_at_once]), weights, in_batch, c == 0, last)


def batch_size(n_costs: int, n_weights: int, n_folds: int, plan: Callable[[int], MemoryPlan | None]) -> int:
    """Return how many candidates the memory limit has room for: as many as leave all rows in memory, if there are
    such; else as many as leave blocks of rows large enough. plan: of so many; None where the limit is too small."""
    sizes = [
        *(n_folds * n_weights * c for c in range(n_costs, 0, -1)),
        *(n_folds * w for w in range(n_weights - 1, 0, -1)),
        *range(n_folds - 1, 0, -1),
    ]
    plans = {size: plan(size) for size in {*sizes, 1}}
    for size in sizes:
        if (made := plans[size]) is not None and made.in_one_block:
            return size
    alone = plans[1]
    for size in sizes:
        made = plans[size]
        if made is not None and alone is not None and made.block_bytes >= _BLOCK_SHARE * alone.block_bytes:
            return size
    return 1
