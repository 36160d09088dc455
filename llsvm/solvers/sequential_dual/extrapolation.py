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

Array = NDArray[np.float64]


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
    share: NDArray[np.floating], rows: NDArray[np.int64], weston_watkins: bool, piece_rows: int, room: int
) -> Inside | None:
    """Return the list of these rows; None where it would be longer than ``room``.

    piece_rows: so many rows are looked at at a time."""
    class_ids, counts = [np.zeros(0, np.int32)], np.zeros(len(rows) + 1, np.int64)
    for start in range(0, len(rows), piece_rows):
        piece = share[rows[start : start + piece_rows]]
        row, m = np.nonzero((piece > 0) & ((piece < 1) | (not weston_watkins)))
        room -= len(m)
        if room < 0:
            return None
        class_ids.append(m.astype(np.int32))
        counts[start + 1 : start + 1 + len(piece)] = np.bincount(row, minlength=len(piece))
    ids = np.concatenate(class_ids)
    at: NDArray[np.int64] = np.repeat(rows * share.shape[1], counts[1:])
    return Inside(rows, np.cumsum(counts), ids, np.add(at, ids, dtype=np.int64))


class JointExtrapolation:
    """Extrapolation of fixed lists of shares: a loop, ``extrapolate``, a loop, ``accept_or_revert``, a loop,
    ``extrapolate``, ...

    parts: each block at hand with its list. w: (d + 1, k) the weights, changed here. start, direction: (d + 1, k)
    float64 each, overwritten.
    """

    def __init__(
        self,
        parts: list[tuple[BlockShares, Inside]],
        problem: JointProblem,
        w: Array,
        start: Array,
        direction: Array,
    ) -> None:
        self._parts, self._problem, self._weights = parts, problem, w
        self._w, self._start, self._direction = w.reshape(-1), start.reshape(-1), direction.reshape(-1)
        self._cost = np.concatenate([part.cost[a.rows].repeat(np.diff(a.first)) for part, a in parts])
        # the last extrapolation and the loops about it; None before the first
        self._step: Array | None = None
        self._begin()

    def __len__(self) -> int:
        """Shares that are moved."""
        return len(self._cost)

    def _begin(self) -> None:
        """Begin the next step at the current weights and shares."""
        self._start[...] = self._w
        self._before = self._after_loop = self._shares()

    def extrapolate(self) -> float:
        """After a loop; returns what D gained, which may be less than 0."""
        self._after_loop = self._shares()
        w, start, direction = self._w, self._start, self._direction
        norm, across, start_norm = dot(w, w), dot(w, start), dot(start, start)
        steps = [self._after_loop - self._before]
        gram = np.array([[norm - 2 * across + start_norm]])
        slope = np.array([dot(self._cost, steps[0]) - (norm - across)])
        if self._step is not None:
            steps.append(self._step)
            along = dot(w, direction)
            cross = along - dot(start, direction)
            gram = np.array([[gram[0, 0], cross], [cross, dot(direction, direction)]])
            slope = np.append(slope, dot(self._cost, self._step) - along)
        lengths = np.linalg.lstsq(gram, slope, rcond=None)[0]
        step = lengths[0] * steps[0]
        for length, other in zip(lengths[1:], steps[1:], strict=True):
            step += length * other
        return self._move(step, norm)

    def accept_or_revert(self, gained: float) -> float:
        """After the loop that follows; ``gained``: by D since before the extrapolation. Returns what D gains
        here."""
        reverted, self._step = 0.0, None
        if gained > 0:
            self._step = self._shares() - self._before
            np.subtract(self._w, self._start, out=self._direction)
        else:
            reverted = self._move(self._after_loop - self._shares(), dot(self._w, self._w))
        self._begin()
        return reverted

    def _move(self, step: Array, norm: float) -> float:
        """Move the shares by ``step``, cut at their bounds; ``norm`` is ‖w‖². Returns what D gains."""
        problem, gain, at = self._problem, 0.0, 0
        loss = self._weights, problem.bias, problem.dual.weston_watkins, problem.grid
        for part, inside in self._parts:
            rows = (*parts_of(part.block.X), part.block.y, part.cost, part.share)
            part_step = step[at : at + len(inside)]
            gain += move_shares(*rows, inside.rows, inside.first, inside.class_ids, part_step, *loss)
            at += len(inside)
        return gain - 0.5 * (dot(self._w, self._w) - norm)

    def _shares(self) -> Array:
        """Return the shares of all parts, (v,) float64."""
        return np.concatenate(
            [part.share.reshape(-1)[inside.at] for part, inside in self._parts], dtype=np.float64
        )
