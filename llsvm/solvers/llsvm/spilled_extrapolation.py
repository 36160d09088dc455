"""Extrapolation (extrapolation.py) where the survivors do not fit in memory. w is linear in α and D is known, so
that the best combination of the last moves follows from weights alone; one reading of the survivors finds what
clipping makes of it, and their dual variables follow without the rows."""

from __future__ import annotations

from functools import partial
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.losses import Loss, PLQLoss
from llsvm.objective.problems import Positions
from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.llsvm.chosen_rows import ChosenRows, chosen_rows
from llsvm.solvers.llsvm.extrapolation import best_combination
from llsvm.solvers.llsvm.run import Run

EXTRAPOLATION = "extrapolation"  # the ledger's line
VECTORS = 3  # as long as the weights, of each problem,
POINTS = 2  # and numbers of each of its dual variables
PIECE_BYTES = 1 << 18  # of dense rows as float64, at a time
_CHUNK_ROWS = 1 << 14  # whose dual variables are moved at a time

Vector = NDArray[np.float64]
Shares = NDArray[np.floating]


def suits(loss: Loss) -> bool:
    """Is D linear in α, but for w, and w that of α?"""
    return isinstance(loss, PLQLoss) and not (loss.ridge or loss.epsilon) and loss.name != "one_class"


class SpilledExtrapolation:
    """Of the problems of a run, where that ``extrapolates``; else nothing happens.

    ``begin_epoch``, then ``note`` of each block before it is swept over, then ``end_epoch``; the same rows in every
    epoch, until ``forget``."""

    def __init__(self, run: Run) -> None:
        self._run = run
        k, shape = len(run.sweeps.w), (run.stream.dataset.n_rows, run.duals.problems.width)
        points = POINTS if run.extrapolates else 0
        # α_i / C_i as the last two epochs began, NaN where that is not known, and the weights and Σ t_i α_i then
        self._shares = [np.full(shape, np.nan, run.duals.dtype) for _ in range(points)]
        self._w = [np.zeros_like(run.sweeps.w) for _ in range(points)]
        self._sums = [np.zeros(k) for _ in range(points)]
        self._moved = np.zeros_like(run.sweeps.w[: k * bool(points)])
        self._n_points = self._n_epochs = 0

    def begin(self) -> None:
        """A round begins."""
        self.forget()
        self._n_epochs = 0

    def forget(self) -> None:
        """The next epoch has nothing to do with those before."""
        if self._n_points:
            for each in self._shares:
                each[...] = np.nan
        self._n_points = 0

    def begin_epoch(self) -> None:
        if not self._run.extrapolates:
            return
        self._n_points = min(self._n_points + 1, POINTS)
        self._n_epochs += 1
        self._w.reverse()
        self._sums.reverse()
        self._w[-1][...] = self._run.sweeps.w
        self._sums[-1][...] = self._linear()

    def note(self, part: BlockState) -> None:
        """The part's dual variables, as the epoch finds them."""
        if self._run.extrapolates:
            before, last = self._shares
            before[part.rows] = last[part.rows]
            last[part.rows] = part.shares()

    def end_epoch(self, done: NDArray[np.bool_]) -> None:
        """Move α and the weights of the open problems on, where D rises and sweeps crawl. done: (k,) those that are
        to stay as they are."""
        run, sweeps = self._run, self._run.sweeps
        if not self._n_points or self._n_epochs < run.tuning.extrapolate_after:
            return
        length = np.zeros(len(sweeps.w))
        length[sweeps.open] = 1.0
        length[done] = 0.0
        factors = self._combinations()
        rise, curvature = self._along(factors, length)
        length[rise <= 0.0] = 0.0
        short = (length > 0.0) & (rise < curvature)  # the best points on the way there
        if short.any():
            length[short] = rise[short] / curvature[short]
            rise, curvature = self._along(factors, length)
        gain = rise - 0.5 * curvature
        length[~(gain > 0.0)] = 0.0
        if run.stream.progress.out_of_time:
            return
        stored, moving = run.duals.stored, np.flatnonzero(length).tolist()
        assert stored is not None, "rows that are spilled are not at hand"
        for start in range(0, stored.n_rows if len(moving) else 0, _CHUNK_ROWS):
            rows = np.arange(start, min(start + _CHUNK_ROWS, stored.n_rows))
            share = stored.get(rows).reshape(len(rows), -1)
            for c in moving:
                share[:, c] = self._new(c, rows, share[:, c], factors[c], length[c])
            stored.set(rows, share)
        for c in moving:
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
            moves = [new - old for old, new in pairwise(points)]
            rises = [rise - np.einsum("i,i", sweeps.w[c], v) for rise, v in zip(linear, moves, strict=True)]
            curved = [[np.einsum("i,i", v, u) for u in moves] for v in moves]
            out[c, : len(moves)] = best_combination(rises, curved)[::-1]
        return out

    def _new(self, c: int, rows: Positions, share: Shares, factors: Vector, length: float) -> Shares:
        """(n,) what α_i / C_i of these rows, which are ``share`` in problem ``c``, become at such a length of the
        way; factors: (2,) of the last moves."""
        loss = self._run.sweeps.loss
        assert isinstance(loss, PLQLoss)
        old = share.astype(np.float64)
        before, last = (each[rows, c].astype(np.float64) for each in self._shares)
        change = np.nan_to_num(factors[0] * (old - last)) + np.nan_to_num(factors[1] * (last - before))
        new = np.clip(old + change, loss.lower, loss.upper)
        return (new if length == 1.0 else old + length * (new - old)).astype(share.dtype)

    def _along(self, factors: Vector, length: Vector) -> tuple[Vector, Vector]:
        """Reads the survivors: (k,) D's slope and curvature along moves of such lengths, (k,); sets ``_moved``."""
        run, sweeps, (rise, curvature) = self._run, self._run.sweeps, np.zeros((2, len(length)))
        n_columns, progress = run.stream.dataset.n_columns, run.stream.progress
        self._moved[...] = 0.0

        def add(part: BlockState, rows: ChosenRows, share: Shares, c: int) -> None:
            new = self._new(c, part.rows, share[:, c], factors[c], length[c])
            change = sweeps.loss.alpha(new, part.cost(c)) - part.alpha[c]
            J = np.flatnonzero(change)
            rise[c] += float(np.sum(part.target(J) * change[J]))
            rows.add(J, change[J] * part.signs(c)[J], self._moved[c])

        moving = np.flatnonzero(length).tolist()
        for block in chain([run.stream.resident], run.stream.active(shuffle=False)):
            if progress.out_of_time:
                break
            part = run.duals.of(block)
            rows = chosen_rows(block.X, n_columns, sweeps.bias, PIECE_BYTES, progress)
            share = part.shares().astype(run.duals.dtype)
            sweeps.each(partial(add, part, rows, share), moving)
        for c in moving:
            rise[c] -= float(np.einsum("i,i", sweeps.w[c], self._moved[c]))
            curvature[c] = float(np.einsum("i,i", self._moved[c], self._moved[c]))
        return rise, curvature
