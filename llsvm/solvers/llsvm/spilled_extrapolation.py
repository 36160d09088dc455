"""Extrapolation (extrapolation.py) where the survivors do not fit in memory. w is linear in α and D is known, so
that the best combination of the last moves follows from weights alone; one reading of the survivors finds what
clipping makes of it, and their dual variables follow without the rows."""

from __future__ import annotations

from functools import partial
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import Loss, PLQLoss
from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.llsvm.chosen_rows import ChosenRows, chosen_rows
from llsvm.solvers.llsvm.extrapolation import best_combination
from llsvm.solvers.llsvm.run import Run

EXTRAPOLATION = "extrapolation"  # the ledger's line
VECTORS = 3  # as long as the weights, of each problem,
POINTS = 2  # and numbers of each of its dual variables
_CHUNK_ROWS = 1 << 14  # whose dual variables are moved at a time

Vector = NDArray[np.float64]
Shares = NDArray[np.floating]


def suits(loss: Loss) -> bool:
    """D must be linear in α, but for w."""
    return isinstance(loss, PLQLoss) and loss.ridge == 0.0 and loss.epsilon == 0.0


class SpilledExtrapolation:
    """Of all problems of a run: ``begin_epoch``, then ``note`` of each block before it is swept over, then ``step``.
    A row that is noted once in an epoch must be until ``forget``."""

    def __init__(self, run: Run) -> None:
        self._run = run
        assert isinstance(run.sweeps.loss, PLQLoss)
        self._lowest, self._highest = run.sweeps.loss.lower, run.sweeps.loss.upper
        k, shape = len(run.sweeps.w), (run.stream.dataset.n_rows, run.duals.problems.width)
        # α_i / C_i as the last two epochs began, NaN where that is not known, and the weights and Σ t_i α_i then
        self._shares = [np.full(shape, np.nan, run.duals.dtype) for _ in range(POINTS)]
        self._w = [np.zeros_like(run.sweeps.w) for _ in range(POINTS)]
        self._sums = [np.zeros(k) for _ in range(POINTS)]
        self._n_points = 0
        self._moved = np.zeros_like(run.sweeps.w)

    def forget(self) -> None:
        """The next epoch has nothing to do with those before."""
        if self._n_points:
            for each in self._shares:
                each[...] = np.nan
        self._n_points = 0

    def begin_epoch(self) -> None:
        self._n_points = min(self._n_points + 1, POINTS)
        self._w.reverse()
        self._sums.reverse()
        self._w[-1][...] = self._run.sweeps.w
        self._sums[-1][...] = self._linear()

    def note(self, part: BlockState) -> None:
        """The part's dual variables, as the epoch finds them."""
        before, last = self._shares
        before[part.rows] = last[part.rows]
        last[part.rows] = part.shares()

    def step(self) -> None:
        """Move α and the weights of the open problems on, where D rises."""
        run, sweeps = self._run, self._run.sweeps
        length = np.zeros(len(sweeps.w))
        length[sweeps.open] = 1.0
        factors = self._combinations()
        rise, curvature = self._along(factors, length)
        length[rise <= 0.0] = 0.0
        short = (length > 0.0) & (rise < curvature)  # the best points on the way there
        if short.any():
            length[short] = rise[short] / curvature[short]
            rise, curvature = self._along(factors, length)
        gain = rise - 0.5 * curvature
        length[~(gain > 0.0)] = 0.0
        if not length.any() or run.stream.progress.out_of_time:
            return
        stored = run.duals.stored
        assert stored is not None
        for start in range(0, stored.n_rows, _CHUNK_ROWS):
            rows = np.arange(start, min(start + _CHUNK_ROWS, stored.n_rows))
            share = stored.get(rows).reshape(len(rows), -1)
            stored.set(rows, self._new(rows, share, factors, length))
        for c in np.flatnonzero(length):
            sweeps.w[c] += self._moved[c]
            sweeps.dual[c] += gain[c]

    def _linear(self) -> Vector:
        """(k,) Σ t_i α_i."""
        sweeps = self._run.sweeps
        return sweeps.dual + 0.5 * np.array([np.einsum("i,i", w, w) for w in sweeps.w])

    def _combinations(self) -> Vector:
        """(k, 2) how much of the last move of each problem, and of the one before it, is to be added."""
        sweeps, out, sums = self._run.sweeps, np.zeros((len(self._run.sweeps.w), 2)), self._linear()
        n = self._n_points
        for c in sweeps.open:
            points = [*(w[c] for w in self._w[-n:]), sweeps.w[c]]
            linear = np.diff([*(each[c] for each in self._sums[-n:]), sums[c]])
            steps = [new - old for old, new in pairwise(points)]
            rises = [rise - np.einsum("i,i", sweeps.w[c], v) for rise, v in zip(linear, steps, strict=True)]
            curved = [[np.einsum("i,i", v, u) for u in steps] for v in steps]
            out[c, : len(steps)] = best_combination(rises, curved)[::-1]
        return out

    def _new(self, rows: NDArray[np.int64], share: Shares, factors: Vector, length: Vector) -> Shares:
        """(n, k) what α_i / C_i of these rows become at a length, (k,), of the way; share: (n, k) what they are."""
        before, last = (each[rows].astype(np.float64) for each in self._shares)
        wide = share.astype(np.float64)
        change = factors[:, 0] * (wide - last) + factors[:, 1] * np.nan_to_num(last - before)
        new = np.clip(wide + np.nan_to_num(change), self._lowest, self._highest).astype(share.dtype)
        between = (wide + length * (new - wide)).astype(share.dtype)
        return np.where(length == 1.0, new, between)

    def _along(self, factors: Vector, length: Vector) -> tuple[Vector, Vector]:
        """Reads the survivors: (k,) D's slope and curvature along the move to such a length; sets ``_moved``."""
        run, rise, curvature = self._run, np.zeros(len(length)), np.zeros(len(length))
        bias, n_columns, progress = run.sweeps.bias, run.stream.dataset.n_columns, run.stream.progress
        loss = run.sweeps.loss
        self._moved[...] = 0.0

        def add(part: BlockState, rows: ChosenRows, new: Shares, c: int) -> None:
            alpha = part.alpha[c]
            change = loss.alpha(new[:, c], part.cost(c)) - alpha
            J = np.flatnonzero(change)
            target = part.target(J)
            rise[c] += float(np.sum(target * change[J]))
            rows.add(J, change[J] * part.signs(c)[J], self._moved[c])

        moving = [c for c in run.sweeps.open if length[c] > 0.0]
        for block in chain([run.stream.resident], run.stream.active(shuffle=False)):
            if progress.out_of_time:
                break
            part = run.duals.of(block)
            new = self._new(part.rows, part.shares(), factors, length)
            rows = chosen_rows(block.X, n_columns, bias, 1 << 18, progress)
            run.sweeps.each(partial(add, part, rows, new), moving)
        for c in moving:
            moved = self._moved[c]
            rise[c] -= float(np.einsum("i,i", run.sweeps.w[c], moved))
            curvature[c] = float(np.einsum("i,i", moved, moved))
        return rise, curvature
