"""Extrapolation: move the shares of the multi-class duals on along the ways that they came.

Loops over rows creep where rows resemble each other: shares move the same way in hundreds of tiny steps. So after a
loop the shares move on along what this loop did and what the last extrapolation did, by the lengths that maximise D
as if there were no bounds (a conjugate gradient step, with the loop for a preconditioner), and are cut at their
bounds. One more loop repairs what the cut did. If D is not larger then, all is reverted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.block import parts_of
from llsvm.solvers.optim.blas import dot
from llsvm.solvers.sequential_dual.kernels import move_shares
from llsvm.solvers.sequential_dual.problem import JointProblem
from llsvm.solvers.sequential_dual.shares import BlockShares

Weights = NDArray[np.float64]
Steps = list[NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Inside:
    """The shares of some rows that are inside their bounds, as a list.

    rows: (r,) positions; row t has the places first[t] to first[t + 1] of the list. class_ids: (v,) int32 of each.
    at: (v,) their places in the shares, raveled.
    """

    rows: NDArray[np.int64]
    first: NDArray[np.int64]
    class_ids: NDArray[np.int32]
    at: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.class_ids)


def listed(
    share: NDArray[np.floating], rows: NDArray[np.int64], weston_watkins: bool, piece_rows: int, most: int
) -> Inside | None:
    """Return the list of these rows; None where it would be longer than ``most``.

    piece_rows: so many rows are looked at at a time."""
    class_ids, counts = [np.zeros(0, np.int32)], np.zeros(len(rows) + 1, np.int64)
    for start in range(0, len(rows), piece_rows):
        some = share[rows[start : start + piece_rows]]
        row, m = np.nonzero((some > 0) & ((some < 1) | (not weston_watkins)))
        most -= len(m)
        if most < 0:
            return None
        class_ids.append(m.astype(np.int32))
        counts[start + 1 : start + 1 + len(some)] = np.bincount(row, minlength=len(some))
    ids = np.concatenate(class_ids)
    at: NDArray[np.int64] = np.repeat(rows * share.shape[1], counts[1:])
    return Inside(rows, np.cumsum(counts), ids, np.add(at, ids, dtype=np.int64))


class JointExtrapolation:
    """Of fixed lists of shares: a loop, ``extrapolate``, a loop, ``accept_or_revert``, a loop, ``extrapolate``, ...

    parts: each block at hand with its list. w: (d + 1, k) the weights, changed here. start, way: (d + 1, k) float64
    each, overwritten.
    """

    def __init__(
        self,
        parts: list[tuple[BlockShares, Inside]],
        problem: JointProblem,
        w: Weights,
        start: Weights,
        way: Weights,
    ) -> None:
        self._parts = parts
        self._w, self._start, self._way = w.reshape(-1), start.reshape(-1), way.reshape(-1)
        self._tail = (w, problem.bias, problem.dual.weston_watkins, problem.grid)
        self._costs = [np.repeat(part.cost[each.rows], np.diff(each.first)) for part, each in parts]
        self._steps: Steps = []  # of the last extrapolation and the loops about it; none before the first
        self._begin()

    def __len__(self) -> int:
        """Shares that are moved."""
        return sum(len(each) for _, each in self._parts)

    def _begin(self) -> None:
        """What comes now is the next step."""
        self._start[...] = self._w
        self._before = self._after_loop = self._shares()

    def extrapolate(self) -> float:
        """After a loop; returns what D gained, which may be less than 0."""
        self._after_loop = self._shares()
        ways = [_minus(self._after_loop, self._before)]
        w, start, way = self._w, self._start, self._way
        norm, across, start_norm = dot(w, w), dot(w, start), dot(start, start)
        gram = np.array([[norm - 2 * across + start_norm]])
        slope = np.array([self._linear(ways[0]) - (norm - across)])
        if self._steps:
            ways.append(self._steps)
            both = dot(w, way)
            cross = both - dot(start, way)
            gram = np.array([[gram[0, 0], cross], [cross, dot(way, way)]])
            slope = np.append(slope, self._linear(self._steps) - both)
        lengths = np.linalg.lstsq(gram, slope, rcond=None)[0]
        steps = [lengths[0] * step for step in ways[0]]
        for length, way_steps in zip(lengths[1:], ways[1:], strict=True):
            for step, other in zip(steps, way_steps, strict=True):
                step += length * other
        return self._move(steps, norm)

    def accept_or_revert(self, gained: float) -> float:
        """After the loop that follows; ``gained``: by D since before the extrapolation. Returns what D gains
        here."""
        reverted = 0.0
        if gained > 0:
            self._steps = _minus(self._shares(), self._before)
            np.subtract(self._w, self._start, out=self._way)
        else:
            reverted = self._move(_minus(self._after_loop, self._shares()), dot(self._w, self._w))
            self._steps = []
        self._begin()
        return reverted

    def _move(self, steps: Steps, norm: float) -> float:
        """Move the shares by ``steps``, cut at their bounds; ``norm`` is ‖w‖². Returns what D gains."""
        gain = 0.0
        for (part, each), step in zip(self._parts, steps, strict=True):
            rows = (*parts_of(part.block.X), part.block.y, part.cost, part.share)
            gain += move_shares(*rows, each.rows, each.first, each.class_ids, step, *self._tail)
        return gain - 0.5 * (dot(self._w, self._w) - norm)

    def _shares(self) -> list[NDArray[np.floating]]:
        return [part.share.reshape(-1)[each.at] for part, each in self._parts]

    def _linear(self, steps: Steps) -> float:
        return sum(dot(cost, step) for cost, step in zip(self._costs, steps, strict=True))


def _minus(a: list[NDArray[np.floating]], b: list[NDArray[np.floating]]) -> Steps:
    return [np.subtract(x, y, dtype=np.float64) for x, y in zip(a, b, strict=True)]
