"""Steps along faces (face.py) whose rows do not fit in memory: w is linear in α, so that a step of conjugate
gradients takes one reading of the survivors, block by block, for many problems at a time.

With p the direction, z = r/diagonal, K = XXᵀ with signs: where v = Σ p_j y_j x_j is known, a reading makes K p, the
new r, and Σ z_j y_j x_j, of which the next v is made, since p ← z + β p is linear, too; how long the step is to be
is known before it, pᵀ K p = ‖v‖². So little is kept of each row on the face of a problem (``_OnFaces``), as 32-bit
floats, that the problems are many; D is summed as ever, and never falls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.memory.plan import WORK_ON_ROWS
from llsvm.objective.losses import PLQLoss
from llsvm.objective.problems import Positions
from llsvm.process.work import count_products
from llsvm.solvers.llsvm.block_state import BlockState
from llsvm.solvers.llsvm.chosen_rows import ChosenRows, chosen_rows
from llsvm.solvers.llsvm.face import gain_of, on_face, slope_of
from llsvm.solvers.llsvm.face_kernels import CROSS, CURVATURE, N_TOTALS, SIZE, conjugate_step
from llsvm.solvers.llsvm.newton_system import READ_PRICE, SMALL, Prices
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.llsvm.scale import Scale
from llsvm.solvers.llsvm.second_order import PIECES
from llsvm.solvers.llsvm.sweeps import NO_ROWS
from llsvm.stream.stream import Stream

Vector = NDArray[np.float64]
_Face = tuple[Positions, Vector, Vector]  # of a problem, in a block: rows, y and r

_NOTHING: _Face = np.zeros(0, np.intp), np.zeros(0), np.zeros(0)
ENTRY_BYTES = 16  # of a row on the face of a problem,
ENTRIES_ROW_BYTES = 8  # and of a survivor
DENSE_SHARE = 8  # pieces of dense rows as float64 take this part (1/8) of the memory for work on survivors


@dataclass(slots=True)
class _OnFaces:
    """The rows of a block that are on the faces of some problems: entries, by problem; see ``conjugate_step``.

    first: (m + 1,) int64, where the entries of each problem begin. square, curvature: (n,) of all rows of the
    block. The others: (e,)."""

    first: NDArray[np.int64]
    square: NDArray[np.float32]
    curvature: NDArray[np.float32]
    at: NDArray[np.int32]
    residual: NDArray[np.float32]
    solution: NDArray[np.float32]
    direction: NDArray[np.float32]

    @classmethod
    def of(cls, square: Vector, curvature: Vector, found: list[_Face]) -> _OnFaces:
        """found: of each problem; copied."""
        first = np.zeros(len(found) + 1, np.int64)
        np.cumsum([len(at) for at, _, _ in found], out=first[1:])
        at = np.concatenate([np.where(sign > 0, at, -1 - at).astype(np.int32) for at, sign, _ in found])
        residual = np.concatenate([slope.astype(np.float32) for _, _, slope in found])
        zeros = [np.zeros(len(at), np.float32) for _ in range(2)]
        return cls(first, square.astype(np.float32), curvature.astype(np.float32), at, residual, *zeros)

    def at_problem(self, j: int) -> slice:
        return slice(int(self.first[j]), int(self.first[j + 1]))

    def rows(self, j: int) -> Positions:
        """Of one of the problems."""
        at = self.at[self.at_problem(j)].astype(np.intp)
        return np.where(at >= 0, at, -1 - at)


class SpilledFaces:
    """Steps along the faces of the survivors, those in memory and the spilled ones. Meanwhile ``run.start`` holds
    what is of no use after.

    done: (k,) the last step has left so small a gap over the survivors that the problem is to wait for the next
    pass as it is. n_free: (k,) rows on the faces, at most, as counted in the last sweep."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._columns = run.stream.dataset.n_columns + 1
        self._sigma = np.zeros(len(run.sweeps.w))
        self.done = np.zeros(len(run.sweeps.w), bool)
        self._quiet = np.zeros(len(run.sweeps.w), np.int64)  # steps of late that have hardly brought anything
        self.n_free = np.zeros(len(run.sweeps.w), np.int64)

    @property
    def stepped(self) -> NDArray[np.bool_]:
        """(k,) has there been a step of the problem in this round?"""
        return self._sigma > 0.0

    @property
    def begun(self) -> bool:
        """Has there been any?"""
        return bool(self.stepped.any())

    def begin(self) -> None:
        """A round begins."""
        self._sigma[:], self._quiet[:] = 0.0, 0
        self.n_free[:], self.done[:] = 0, False

    def begin_count(self, resident: BlockState) -> None:
        """A sweep over spilled rows begins; resident: the survivors in memory."""
        self.n_free[:] = 0
        self._count(resident, exact=True)

    def count(self, part: BlockState) -> None:
        """A block has been swept over."""
        self._count(part, exact=False)

    def _count(self, part: BlockState, exact: bool) -> None:
        """exact: else those that moved count, too."""
        loss = self._run.sweeps.loss
        for c in self._run.sweeps.open:
            if exact:
                at, alpha, _ = part.of(c)
                self.n_free[c] += np.count_nonzero(loss.free(alpha, part.cost(c)[at]))
            else:
                self.n_free[c] += len(part.active[c])

    def pay(self, problems: list[int], late: bool) -> list[int]:
        """Of these problems, those that there is room for, if sweeps over their rows have cost more than steps of
        all of them would; else those that have begun to take steps. late: they do."""
        run, dataset, room = self._run, self._run.stream.dataset, self._room_bytes()
        if not isinstance(run.sweeps.loss, PLQLoss) or run.threshold is not None or self._columns <= SMALL:
            return []
        survivors = run.stream.survivors
        if survivors.resident.n_rows * 2 >= len(survivors) or len(survivors) > self._columns:
            return []  # second order of those in memory does more; more rows than columns take many products
        few = run.tuning.face.quiet_steps
        fitting = [c for c in problems if 0 < self.n_free[c] * ENTRY_BYTES <= room and self._quiet[c] < few]
        if not fitting:
            return []
        values = dataset.nnz / max(dataset.n_rows, 1)
        prices = Prices(dataset.is_dense, self._columns, values, 0, 0, 0)
        n_free = int(self.n_free[fitting].sum())
        readings = max(n_free * ENTRY_BYTES / room, 1.0)
        reading = READ_PRICE * values * len(survivors) * readings
        step = run.tuning.face.spilled_products * (2 * n_free * prices.product() + reading)
        spent = int(run.sweeps.work[fitting].sum()) * prices.visit()
        return fitting if late or spent > step else [c for c in fitting if self._sigma[c] > 0.0]

    def step(self, problems: list[int]) -> None:
        """Move the dual variables and weights of these problems along their faces; where D does not rise, nothing
        moves."""
        room, group, used = self._room_bytes(), list[int](), 0
        for c in problems:
            nbytes = int(self.n_free[c]) * ENTRY_BYTES
            if group and used + nbytes > room:
                self._step(group)
                group, used = [], 0
            group.append(c)
            used += nbytes
        self._step(group)

    def _step(self, group: list[int]) -> None:
        dual, settings, tuning = self._run.sweeps.dual, self._run.settings, self._run.tuning.face
        before = dual[group]
        primal = _Step(self._run, group, self._sigma).take()
        small = settings.tol * dual[group]
        self.done[group] = primal - dual[group] <= tuning.enough * small
        quiet = dual[group] - before <= tuning.quiet * small
        self._quiet[group] = np.where(quiet, self._quiet[group] + 1, 0)

    def _room_bytes(self) -> int:
        """For entries: what work on the survivors in memory has, of whom there is no more meanwhile than of other
        blocks."""
        stream = self._run.stream
        room = _work_bytes(stream) - ENTRIES_ROW_BYTES * len(stream.survivors)
        return room - _work_bytes(stream) // DENSE_SHARE * stream.dataset.is_dense


def _work_bytes(stream: Stream) -> int:
    """Of memory, for work on the survivors that are in memory."""
    plan = stream.plan
    assert plan is not None
    return plan.lines[WORK_ON_ROWS] * plan.survivor_rows // (plan.survivor_rows + plan.block_rows)


class _Step:
    """Of a group of problems."""

    def __init__(self, run: Run, group: list[int], sigma: Vector) -> None:
        """sigma: (k,) σ of all problems, 0 where there is none yet; changed."""
        self._run, self._group, self._sigma = run, group, sigma
        assert isinstance(run.sweeps.loss, PLQLoss)
        self._loss: PLQLoss = run.sweeps.loss
        self._tuning = run.tuning.face
        columns = run.start.shape[1]
        self._moved = [run.start[c] for c in group]
        halves = [
            moved.view(np.float32) for moved in self._moved
        ]  # as many numbers are two vectors of float32
        self._v, self._u = [half[:columns] for half in halves], [half[columns:] for half in halves]
        self._piece_bytes = _work_bytes(run.stream) // (DENSE_SHARE * PIECES)
        self._entries: list[_OnFaces] = []

    def take(self) -> Vector:
        """Move α and the weights; returns the primals that these have over the survivors, (m,)."""
        self._find()
        self._solve()
        return self._move(self._search())

    # -- readings ------------------------------------------------------------------------------------------

    def _blocks(self) -> Iterator[Block]:
        """The survivors: every time the same blocks in the same order."""
        stream = self._run.stream
        return chain([stream.resident], stream.active(shuffle=False))

    def _parts(self) -> Iterator[tuple[BlockState, ChosenRows]]:
        """The blocks as they are worked on by problem."""
        run = self._run
        for block in self._blocks():
            rows = chosen_rows(
                block.X, run.start.shape[1] - 1, run.sweeps.bias, self._piece_bytes, run.stream.progress
            )
            yield run.duals.of(block), rows

    def _each(self, work: Callable[[int, int], object]) -> None:
        """``work(j, c)`` for each of the problems; each thread does its share of them."""
        m, n = len(self._group), self._run.sweeps.at_once

        def share(t: int) -> None:
            for j in range(t, m, n):
                work(j, self._group[j])

        self._run.sweeps.each(share, range(n))

    def _residual(self, part: BlockState, c: int, at: Positions, rows: ChosenRows) -> Vector:
        """(r,) t_i − m_i at the weights."""
        residual: Vector = part.target(at) - part.signs(c)[at] * rows.dots(at, self._run.sweeps.w[c])
        return residual

    # -- the faces -----------------------------------------------------------------------------------------

    def _find(self) -> None:
        """Set the entries: the rows on the faces, and r at the weights."""
        m = len(self._group)
        squares, counts = np.zeros(m), np.zeros(m)
        for part, rows in self._parts():
            square = rows.squares(np.arange(part.n_rows))
            curvature = self._loss.ridge / np.maximum(self._run.duals.cost_of(part.block), 1e-300)
            found = [_NOTHING] * m
            self._each(partial(self._find_in, part, rows, found))
            self._entries.append(_OnFaces.of(square, curvature, found))
            counts += [len(at) for at, _, _ in found]
            squares += [square[at].sum() for at, _, _ in found]
        self._unit = counts / np.maximum(squares, 1e-300)
        for j, c in enumerate(self._group):
            if self._sigma[c] <= 0.0:
                self._sigma[c] = self._tuning.first_sigma * self._unit[j]

    def _find_in(self, part: BlockState, rows: ChosenRows, found: list[_Face], j: int, c: int) -> None:
        """Set what ``found`` has of problem ``c``."""
        at, alpha, _ = part.of(c)
        cost = part.cost(c)[at]
        free = self._loss.free(alpha, cost) & (cost > 0)
        at, alpha, cost = at[free], alpha[free], cost[free]
        slope = slope_of(self._loss, alpha, self._residual(part, c, at, rows), cost)
        found[j] = at, part.signs(c)[at], slope

    def _solve(self) -> None:
        """Set δ, the solutions of the entries."""
        v, u, tuning, m = self._v, self._u, self._tuning, len(self._group)
        totals, ratio, length = np.zeros((m, N_TOTALS)), np.zeros(m), np.zeros(m)
        size, curvature = np.zeros(m), np.zeros(m)

        def prepare(j: int, _: int) -> None:
            """Set v, and the length of the next step."""
            if going[j]:
                v[j] *= np.float32(ratio[j])
                v[j] += u[j]
                square = float(np.einsum("i,i", v[j], v[j], dtype=np.float64))
                length[j] = size[j] / (square + curvature[j])

        for each in v:
            each[:] = 0.0
        going = np.ones(m, bool)
        self._read(going, ratio, length, totals)
        going &= totals[:, SIZE] > 0.0
        enough = tuning.cg_until**2 * totals[:, SIZE]
        least = tuning.going * np.count_nonzero(going) if m > 1 else 0
        for _ in range(tuning.max_products):
            if np.count_nonzero(going) <= least or self._run.stream.progress.out_of_time:
                return
            curvature[:] = totals[:, CURVATURE] + 2.0 * ratio * totals[:, CROSS] + ratio**2 * curvature
            size[:] = totals[:, SIZE]
            self._each(prepare)
            self._read(going, ratio, length, totals)
            ratio[going] = totals[going, SIZE] / size[going]
            going &= totals[:, SIZE] > enough

    def _read(self, going: NDArray[np.bool_], ratio: Vector, length: Vector, totals: Vector) -> None:
        """A step of conjugate gradients (``conjugate_step``) of the problems that are ``going``: sets u, totals."""
        totals[going] = 0.0
        for j in np.flatnonzero(going):
            self._u[j][:] = 0.0
        problems = self._run.duals.problems

        def step(block: Block, on: _OnFaces, j: int, c: int) -> None:
            if going[j]:
                some, variant = on.at_problem(j), problems.variants[problems.variant(c)]
                curvature = problems.weighted(c, on.curvature, block.class_ids, -1)
                ridge = on.square, curvature, variant.cost, 1.0 / self._sigma[c]
                each = on.at[some], on.residual[some], on.solution[some], on.direction[some]
                n, X = 2 * len(each[0]), block.X
                count_products(n, n * block.nnz // block.n_rows, block.is_dense)
                rows = (*X, np.empty((0, 0), X.data.dtype)) if isinstance(X, CSR) else (*NO_ROWS, X)
                into = ratio[j], length[j], self._v[j], self._u[j], totals[j]
                conjugate_step(*rows, self._run.sweeps.bias, *ridge, *each, *into)

        for each_block in zip(self._blocks(), self._entries, strict=True):
            self._each(partial(step, *each_block))

    # -- the step ------------------------------------------------------------------------------------------

    def _search(self) -> Vector:
        """(m,) the first of 1, ½, ¼, ... times δ that raises D, which the weights go along; 0 where none does."""
        sweeps, m = self._run.sweeps, len(self._group)
        length, undecided = np.ones(m), list(range(m))
        for _ in range(self._tuning.halvings):
            gain = self._gains(undecided, length)
            for j in undecided.copy():
                if gain[j] > 0.0:
                    undecided.remove(j)
                    sweeps.w[self._group[j]] += self._moved[j]
                    sweeps.dual[self._group[j]] += gain[j]
                else:
                    length[j] *= 0.5
            if not undecided:
                break
        length[undecided] = 0.0
        for j, c in enumerate(self._group):
            self._sigma[c] = self._tuning.next_sigma(self._sigma[c], length[j], self._unit[j])
        return length

    def _gains(self, problems: list[int], length: Vector) -> Vector:
        """(m,) what D gains by so much of δ, length: (m,), in some of the problems; sets how weights move."""
        gain = np.zeros(len(self._group))

        def look(part: BlockState, rows: ChosenRows, entries: _OnFaces, j: int, c: int) -> None:
            if j in problems:
                at, old, new = self._new(part, c, entries, j, length[j])
                residual = self._residual(part, c, at, rows)
                gain[j] += gain_of(self._loss, old, new, residual, part.cost(c)[at], 0.0)
                rows.add(at, (new - old) * part.signs(c)[at], self._moved[j])

        for j in problems:
            self._moved[j][:] = 0.0
        for (part, rows), entries in zip(self._parts(), self._entries, strict=True):
            self._each(partial(look, part, rows, entries))
        for j in problems:
            gain[j] -= 0.5 * float(np.einsum("i,i", self._moved[j], self._moved[j]))
        return gain

    def _move(self, length: Vector) -> Vector:
        """Go so far along δ, length: (m,); the weights are there already. Returns the primal over the survivors,
        (m,), of the best multiples of these that a pass tries."""
        factors, sweeps = Scale(self._run).factors(True), self._run.sweeps
        squares = [float(np.einsum("i,i", sweeps.w[c], sweeps.w[c])) for c in self._group]
        primal = 0.5 * np.outer(squares, factors**2)

        def move(part: BlockState, rows: ChosenRows, entries: _OnFaces, j: int, c: int) -> None:
            if length[j] > 0.0:
                at, _, new = self._new(part, c, entries, j, length[j])
                alpha, margin = part.load(c, at)
                alpha[at] = new
                part.store(c, at, alpha, margin)
            everyone = part.members(c)
            target, cost = part.target(everyone), part.cost(c)[everyone]
            margin = target - self._residual(part, c, everyone, rows)
            for number, factor in enumerate(factors):
                loss = self._loss.value(factor * margin, target)
                primal[j, number] += float(np.einsum("i,i", cost, loss))

        for (part, rows), entries in zip(self._parts(), self._entries, strict=True):
            self._each(partial(move, part, rows, entries))
            self._run.duals.store(part)
        best: Vector = primal.min(axis=1)
        return best

    def _new(
        self, part: BlockState, c: int, entries: _OnFaces, j: int, length: float
    ) -> tuple[Positions, Vector, Vector]:
        """Rows of the part that are on the face of problem ``c``, their α, and what it becomes at such a length."""
        at = entries.rows(j)
        change = length * entries.solution[entries.at_problem(j)].astype(np.float64)
        _, old, _ = part.of(c, at)
        cost = part.cost(c)[at]
        new = on_face(self._loss, old, change, cost)
        return at, old, self._run.sweeps.rounded(new, cost)
