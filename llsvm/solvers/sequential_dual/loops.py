"""Loops over rows at hand, full and shrunk, and the weights and the dual objective that they move."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import parts_of
from llsvm.objective.joint_loss import JointLoss, joint_loss
from llsvm.process.threads import Threads
from llsvm.process.work import count_updates
from llsvm.solvers.base import LOOK_VALUES
from llsvm.solvers.sequential_dual.extrapolation import VARIABLE_BYTES, Inside, JointExtrapolation
from llsvm.solvers.sequential_dual.kernels import (
    ALL,
    GAIN,
    GAP,
    LOSS,
    MEASURE,
    SCORES,
    SHRUNK,
    sweep,
)
from llsvm.solvers.sequential_dual.layout import Layout
from llsvm.solvers.sequential_dual.shares import BlockShares
from llsvm.solvers.sequential_dual.tuning import SequentialDualTuning
from llsvm.solvers.state import Value
from llsvm.stream.progress import Progress

WESTON_WATKINS = joint_loss("weston-watkins", 2).number


class Loops:
    """The weights of all classes, and what moves them.

    w: (d + 1, k) float64. bias: of the constant feature. dual: D. tol_share: the share of the gap asked for at
    which loops are content. grid: shares are multiples of 1/grid. made, scores, moved: loops so far, the scores
    that they computed, and how many shares extrapolation moved. on_loop: called with D after each loop.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        loss: JointLoss,
        plan: Layout,
        bias: float,
        tol: float,
        threads: Threads,
        seed: int,
        tuning: SequentialDualTuning,
        progress: Progress,
        on_loop: Callable[[float], None] | None = None,
    ) -> None:
        """shape: of w. plan: of the memory there is. bias: of the constant feature. seed: of the random orders."""
        self.w = np.zeros(shape)
        self.dual = 0.0
        self.tol_share = tuning.tol_share
        self._on_loop = on_loop
        self.loss = loss
        self._weston_watkins = loss.number == WESTON_WATKINS
        self.bias, self._tol, self._tuning, self._progress = bias, tol, tuning, progress
        self.grid = 2.0 ** (24 if plan.dtype == np.float32 else 50)
        self._extrapolation_bytes = plan.extrapolation_bytes
        self._extrapolation_room = np.zeros((2, *shape) if plan.extrapolates else (2, 0, 0))
        self._effort = 0.0  # scores computed in the shrunk loops at hand, as the paper counts effort
        self.made, self.scores, self.moved = 0, 0.0, 0
        self._rng = np.random.default_rng(seed)
        self.threads = threads

    @property
    def goal(self) -> float:
        """The gap, as met by a loop, at which to be content."""
        return self.tol_share * self._tol * self.dual

    def tighten(self) -> None:
        """Be content with less of a gap from now on: the last pass measured more than loops had met."""
        self.tol_share *= self._tuning.tol_share_falls

    def settle(self, part: BlockShares, rows: NDArray[np.int64], enough: float) -> None:
        """Loops over these rows until their gap, as a loop over all of them meets it, is at most ``enough``, or
        ``goal``. In between come shrunk loops, and one over those that are free or violate."""
        for _ in range(self._tuning.max_loops):
            if self._progress.out_of_time:
                return
            part.active = rows
            gap = self._sweep(part, ALL)
            if gap <= max(enough, self.goal):
                return
            self._shrunk_loops([part], gap)
            self._shrunk_loops([part], self._sweep(part, ALL))

    def train(
        self,
        parts: list[BlockShares],
        until: float,
        most_loops: int,
        stop: Callable[[], bool] = lambda: False,
    ) -> float:
        """Loops over the active rows of the parts until their gap has fallen to the share ``until``, or ``stop``
        says so after one of them; returns that of the first part as met."""
        met = first = 0.0
        for loop in range(most_loops):
            if self._progress.out_of_time or (loop and stop()):
                break
            gaps = [self._sweep(part, ALL) for part in parts]
            if loop == 0:
                met, first = gaps[0], sum(gaps)
            elif sum(gaps) <= max(until * first, 0.5 * self.goal):
                break
            self._shrunk_loops(parts, sum(gaps))
        return met

    def settle_rows(self, part: BlockShares, rows: NDArray[np.int64]) -> None:
        """Loops over these rows alone, each full one followed by shrunk ones, until their gap has fallen to the
        share ``tuning.worst_until``."""
        tuning, enough = self._tuning, 0.0
        for loop in range(tuning.worst_loops):
            part.active = rows
            gap = self._sweep(part, ALL)
            if loop == 0:
                enough = tuning.worst_until * gap
            if gap <= enough or self._progress.out_of_time:
                break
            for _ in range(tuning.worst_shrunk_loops):
                self._shrunk_loop([part])

    def measure(self, part: BlockShares, w: NDArray[np.float64]) -> float:
        """Σ C_i loss_i at ``w``; sets the rows that are free or violate active. A range of rows a thread."""
        sums = np.zeros((self.threads.number, 4))

        def measure(t: int, start: int, stop: int) -> NDArray[np.int64]:
            order = np.arange(start, stop)
            return order[: self._call(part, order, w, MEASURE, sums[t])]

        part.active = np.concatenate(self.threads.over_rows(part.n_rows, measure))
        return float(sums[:, LOSS].sum())

    def loss_at_zero(self, part: BlockShares) -> float:
        """Σ C_i loss_i where all weights are 0."""
        return float(part.cost.sum()) * self.loss.at_zero

    def _shrunk_loops(self, parts: list[BlockShares], gap: float) -> None:
        """The paper's shrunk loops after a full one that met ``gap``. They leave ``active`` as they found it."""
        tuning = self._tuning
        if not tuning.shrinking:
            return
        full = [part.active for part in parts]
        effort = tuning.shrunk_effort * self.w.shape[1] * sum(len(active) for active in full)
        self._effort = 0.0
        enough = max(tuning.until * gap, 0.5 * self.goal)
        extrapolation = self._extrapolation(parts)
        while self._effort < effort and not self._progress.out_of_time and self._shrunk_loop(parts) > enough:
            if extrapolation is not None:
                dual = self.dual
                self.dual += extrapolation.extrapolate()
                self.moved += len(extrapolation)
                self._shrunk_loop(parts)
                self.dual += extrapolation.accept_or_revert(self.dual - dual)
        for part, active in zip(parts, full, strict=True):
            part.active = active

    def _shrunk_loop(self, parts: list[BlockShares]) -> float:
        return sum(self._sweep(part, SHRUNK) for part in parts)

    def _extrapolation(self, parts: list[BlockShares]) -> JointExtrapolation | None:
        """Of the active rows' shares; None where there is no room."""
        if not self._extrapolation_bytes:
            return None
        lists = [Inside(part.share, part.active, self._weston_watkins) for part in parts]
        room = sum(part.n_rows for part in parts) * self._extrapolation_bytes
        if sum(map(len, lists)) * VARIABLE_BYTES > room:
            return None
        start, way = self._extrapolation_room
        rows = list(zip(parts, lists, strict=True))
        return JointExtrapolation(rows, self.w, start, way, self.bias, self._weston_watkins, self.grid)

    def _sweep(self, part: BlockShares, mode: int) -> float:
        """Visit the active rows in random order, and drop those that are settled; returns the gap as met."""
        order = self._rng.permutation(part.active if self._tuning.shrinking else part.n_rows)
        sums, kept = np.zeros(4), []
        values = part.block.nnz / max(part.n_rows, 1) + 1.0
        step = max(1, int(LOOK_VALUES / (values * self.w.shape[1])))
        pieces = np.array_split(order, len(order) // step + 1)
        for number, piece in enumerate(pieces):
            if number and self._progress.out_of_time:
                kept += pieces[number:]
                break
            n = self._call(part, piece, self.w, mode, sums)
            kept.append(piece[:n])
        part.active = np.concatenate(kept) if len(kept) > 1 else kept[0]
        self.dual += sums[GAIN]
        self._effort += sums[SCORES]
        self.made += 1
        self.scores += float(sums[SCORES])
        if self._on_loop is not None:
            self._on_loop(self.dual)
        return float(sums[GAP])

    def _call(
        self,
        part: BlockShares,
        order: NDArray[np.int64],
        w: NDArray[np.float64],
        mode: int,
        sums: NDArray[np.float64],
    ) -> int:
        tail = (w, self.bias, self._weston_watkins, mode, self.grid, sums)
        before = float(sums[SCORES])
        kept = int(
            sweep(*parts_of(part.block.X), part.block.y, part.cost, part.share, part.slack, order, *tail)
        )
        scores, block = int(sums[SCORES] - before), part.block
        count_updates(scores, scores * block.nnz // max(part.n_rows, 1), block.is_dense)
        return kept

    # -- what a SolverState holds of it -----------------------------------------------------------------

    @property
    def numbers(self) -> dict[str, Value]:
        return {
            "dual": float(self.dual),
            "tol share": self.tol_share,
            "loops": self.made,
            "scores": self.scores,
            "moved": self.moved,
            "generator": dict(self._rng.bit_generator.state),
        }

    def restore(self, w: NDArray[np.float64], numbers: Mapping[str, Any]) -> None:
        """Go on from what these were."""
        self.w[...] = w
        self.dual, self.tol_share = numbers["dual"], numbers["tol share"]
        self.made, self.scores, self.moved = numbers["loops"], numbers["scores"], numbers["moved"]
        self._rng.bit_generator.state = numbers["generator"]
