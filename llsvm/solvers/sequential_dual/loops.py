"""Loops over rows at hand, full and shrunk, the weights and the dual objective that they
move, and the extrapolation of the shares along the ways that they came.

Loops over rows creep where rows resemble each other: shares move the same way in hundreds of tiny steps. So after a
loop the shares move on along what this loop did and what the last extrapolation did, by the lengths that maximise D
as if there were no bounds (a conjugate gradient step, with the loop for a preconditioner), and are cut at their
bounds. One more loop repairs what the cut did. If D is not larger then, all is reverted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import parts_of
from llsvm.objective.rounding import NOISE
from llsvm.process.work import count_updates
from llsvm.solvers.base import LOOK_VALUES
from llsvm.solvers.optim.lapack import dot
from llsvm.solvers.sequential_dual.kernels import (
    ALL,
    GAIN,
    GAP,
    LOSS,
    MEASURE,
    SCORES,
    SHRUNK,
    move_shares,
    sweep,
)
from llsvm.solvers.sequential_dual.problem import BlockShares, JointProblem
from llsvm.solvers.state import ShareSums, Value
from llsvm.solvers.stopping import EXACT

Array = NDArray[np.float64]
Positions = NDArray[np.int64]

# Full loops over the same rows, or epochs over the survivors, between two measurements, at most; and the scores of
# shrunk loops after a full one, in full ones (the paper has five). With fewer, more passes are needed; with more,
# loops settle rows that other rows unsettle again.
MAX_LOOPS = 10
# Loops end when the gap fell to this share. (The paper's 0.1 leaves the classes without a share out of sight of
# shrunk loops for too long; with 0.5 dense rows take up to three times the work.) They, and Newton's method, also
# end at this share of the gap asked for, since other rows add to what they meet, and at this share of that after
# each pass that was not certified: else they would be content with what they have.
LOOP_ACCURACY = 0.3


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


class Loops:
    """The weights of all classes and the dual objective, and loops over rows that move them.

    w: (d + 1, k) float64. D: of all shares. accuracy: the relative gap at which to be content. made: loops and
    other changes of w and D that rounding may have spoilt. scores: computed so far; a share that extrapolation
    moves is two, one and adding to the weights.
    """

    def __init__(self, problem: JointProblem, extrapolates: bool, tol: float, seed: int) -> None:
        """extrapolates: there is room for that. seed: of the random orders."""
        self.problem = problem
        self.w, self.D = np.zeros(problem.shape), 0.0
        self.made, self.scores = 0, 0.0
        self._tol, self.accuracy = tol, LOOP_ACCURACY * tol
        self._extrapolation_room = np.zeros((2, *problem.shape)) if extrapolates else None
        self._seed = seed

    @property
    def goal(self) -> float:
        """The gap, as met by a loop, at which to be content."""
        return self.accuracy * self.D

    def tighten(self) -> None:
        """Be content with less of a gap from now on: the last pass measured more than loops had met."""
        self.accuracy *= LOOP_ACCURACY

    # -- what changes the weights and D beside loops ----------------------------------------------------------

    def begin_at(self, sums: ShareSums, factor: float) -> None:
        """Let w and D be those of shares whose sums were kept, with dual variables so many times as large."""
        sums.read(self.w.reshape(1, -1), self.w.shape[1], factor)
        self.D = factor * float(sums.linear[0]) - 0.5 * dot(self.w, self.w)

    def set_columns(self, columns: Positions, w: Array, gained: float) -> None:
        """Take in the weights (r, k) of some columns, and what D has gained by the change of shares."""
        self.w[columns] = w
        self._gain(gained)

    def _gain(self, gained: float) -> None:
        self.D += gained
        self.made += 1

    def solved(self, D: float) -> None:
        """Take in the shares of all rows and w that Newton's method has set, and D as it has summed it for them."""
        self.D = D
        self.made += 1

    def resum(self, parts: Iterable[BlockShares]) -> None:
        """Set the weights and D to what the shares make. parts: all rows, each once."""
        self.D = self.problem.sum_of(parts, self.w)

    def resum_if_drifted(
        self, parts: Iterable[BlockShares], terms: float, primal: float, rounding_gap: float
    ) -> bool:
        """``resum`` and return True where D, kept through so many changes, may be off by more than a small part of
        the gap asked for. terms: what those of D come to. primal, rounding_gap: P, and the relative gap that its
        own rounding leaves: where that is larger than the one asked for, D does not matter."""
        drifted = rounding_gap <= self._tol and NOISE * terms * self.made > EXACT * self._tol * abs(primal)
        if drifted:
            self.resum(parts)
        return drifted

    # -- loops ------------------------------------------------------------------------------------------------

    def train(
        self,
        parts: list[BlockShares],
        rows: list[Positions],
        end_gap: float | None = None,
        most_loops: int = MAX_LOOPS,
        stop: Callable[[], bool] = lambda: False,
    ) -> float:
        """Loops over these rows of each part until the gap, as a loop meets it, is at most ``end_gap``, or
        ``goal``, or ``stop`` says so after one of them; returns that of the first part as first met. end_gap: None:
        the share LOOP_ACCURACY of the gap as first met."""
        first_gap = 0.0
        for loop in range(most_loops):
            if self._is_late or (loop and stop()):
                break
            gaps, left = self._loop(parts, rows, ALL)
            gap = sum(gaps)
            if loop == 0:
                first_gap = gaps[0]
                end_gap = LOOP_ACCURACY * gap if end_gap is None else end_gap
            if gap <= max(end_gap or 0.0, self.goal):
                break
            self._shrunk_loops(parts, left, gap)
        return first_gap

    def measure(self, part: BlockShares, w: Array) -> tuple[float, Positions]:
        """Σ C_i loss_i at ``w``, and the rows that are free or violate. A range of rows a thread."""
        threads = self.problem.threads
        sums = np.zeros((threads.number, 4))

        def measure(t: int, start: int, stop: int) -> Positions:
            order = np.arange(start, stop)
            return order[: self._call(part, order, w, MEASURE, sums[t])]

        rows = np.concatenate(threads.over_rows(part.n_rows, measure))
        return float(sums[:, LOSS].sum()), rows

    @property
    def _is_late(self) -> bool:
        return self.problem.progress.out_of_time

    def _shrunk_loops(self, parts: list[BlockShares], rows: list[Positions], gap: float) -> None:
        """The paper's shrunk loops over these rows after a full one that met ``gap``."""
        most_scores = self.scores + MAX_LOOPS * self.w.shape[1] * sum(map(len, rows))
        end_gap = max(LOOP_ACCURACY * gap, self.goal)
        extrapolation = self._extrapolation(parts, rows)
        while self.scores < most_scores and not self._is_late:
            gaps, rows = self._loop(parts, rows, SHRUNK)
            if sum(gaps) <= end_gap:
                break
            if extrapolation is not None:
                before = self.D
                self.D += extrapolation.extrapolate()
                self.scores += 2.0 * len(extrapolation)
                _, rows = self._loop(parts, rows, SHRUNK)
                self.D += extrapolation.accept_or_revert(self.D - before)

    def _loop(
        self, parts: list[BlockShares], rows: list[Positions], mode: int
    ) -> tuple[list[float], list[Positions]]:
        """Sweep over these rows of each part; return what ``sweep`` does, of each."""
        swept = [self.sweep(part, of_part, mode) for part, of_part in zip(parts, rows, strict=True)]
        return [gap for gap, _ in swept], [left for _, left in swept]

    def _extrapolation(self, parts: list[BlockShares], rows: list[Positions]) -> JointExtrapolation | None:
        """Return the extrapolation of the shares of these rows; None where there is no room."""
        problem, room = self.problem, self._extrapolation_room
        if room is None:
            return None
        lists, left = list[tuple[BlockShares, Inside]](), sum(part.n_rows for part in parts)
        for part, of_part in zip(parts, rows, strict=True):
            piece_rows = problem.products(part).piece_rows
            inside = listed(part.share, of_part, problem.dual.weston_watkins, piece_rows, left)
            if inside is None:
                return None
            lists.append((part, inside))
            left -= len(inside)
        return JointExtrapolation(lists, problem, self.w, *room)

    def sweep(self, part: BlockShares, rows: Positions, mode: int) -> tuple[float, Positions]:
        """Visit these rows in random order; returns the gap as met, and those that are not settled."""
        random = np.random.default_rng((self._seed, self.made))  # so that no state of it need be kept
        order = random.permutation(rows)
        sums, left = np.zeros(4), []
        values = part.block.nnz / max(part.n_rows, 1) + 1.0
        step = max(1, int(LOOK_VALUES / (values * self.w.shape[1])))
        pieces = np.array_split(order, len(order) // step + 1)
        for number, piece in enumerate(pieces):
            if number and self._is_late:
                left += pieces[number:]
                break
            left.append(piece[: self._call(part, piece, self.w, mode, sums)])
        self._gain(sums[GAIN])
        self.scores += float(sums[SCORES])
        return float(sums[GAP]), np.concatenate(left)

    def _call(self, part: BlockShares, order: Positions, w: Array, mode: int, sums: Array) -> int:
        """One call of the kernel; returns how many of the rows, now in front, are to be seen again."""
        problem, block, before = self.problem, part.block, float(sums[SCORES])
        rows = (*parts_of(block.X), block.y, part.cost, part.share, part.slack, order)
        loss = problem.bias, problem.dual.weston_watkins
        left = int(sweep(*rows, w, *loss, mode, problem.grid, sums))
        scores = int(sums[SCORES] - before)
        count_updates(scores, scores * block.nnz // max(part.n_rows, 1), block.is_dense)
        return left

    # -- what a SolverState holds of it -----------------------------------------------------------------

    @property
    def numbers(self) -> dict[str, Value]:
        dual = float(self.D)
        return {"dual": dual, "accuracy": self.accuracy, "loops": self.made, "scores": self.scores}

    def restore(self, w: NDArray[np.float64], numbers: Mapping[str, Any]) -> None:
        """Go on from what these were."""
        self.w[...] = w
        self.D, self.accuracy = numbers["dual"], numbers["accuracy"]
        self.made, self.scores = numbers["loops"], numbers["scores"]
