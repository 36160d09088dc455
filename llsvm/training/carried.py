"""Carried: what a run has come to, kept over a second reading of its data, so that what was done with rounded
values is not lost: the dual variables, and how the trial of "auto" ended."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from llsvm.solvers.auto import Auto
from llsvm.solvers.base import Solver
from llsvm.solvers.choose import Choice
from llsvm.solvers.state import RowShares, Shares
from llsvm.spill.row_state import RowState
from llsvm.spill.workspace import Workspace

_PIECE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class CarriedStart:
    """Where a solver begins. shares: dual variables; None: at 0. ended: what followed auto's trial; None: it has
    not been made."""

    shares: Shares | None = None
    ended: Choice | None = None

    def begin(self, solver: Solver) -> None:
        """Let the solver begin there, as far as it has a use for it."""
        if self.ended is not None and isinstance(solver, Auto):
            solver.begin_with(self.ended)
        if self.shares is not None:
            solver.begin_at(self.shares)


ANEW = CarriedStart()


class Carried:
    """α_i / C_i of methods that have them by row, as float32, on disk."""

    def __init__(self, folder: Path, disk_limit_bytes: int | None) -> None:
        """folder: to make a workspace in. disk_limit_bytes: None for none."""
        self._place = folder, disk_limit_bytes
        self._workspace: Workspace | None = None

    def take(self, solver: Solver, n_rows: int) -> CarriedStart:
        """What a solver at work has come to, holding nothing of it. Raises DiskError."""
        ended = solver.ended if isinstance(solver, Auto) else None
        return CarriedStart(self._shares(solver, n_rows), ended)

    def _shares(self, solver: Solver, n_rows: int) -> Shares | None:
        """A copy of what a solver at work has come to, by the rows' numbers; None where it has none to give."""
        found = solver.dual_point()
        if not isinstance(found, RowShares) or math.isfinite(found.largest_cost):
            return None
        self._workspace = Workspace(*self._place)
        width = found.values.width
        kept = RowState(n_rows, width, np.float32, self._workspace)
        step = max(1, _PIECE_BYTES // (8 * width))
        for start in range(0, n_rows, step):
            stop = min(start + step, n_rows)
            rows = np.arange(start, stop)
            kept.set(rows, found.values.get(rows))
        return lambda rows: kept.get(rows).reshape(len(rows), width)

    def close(self) -> None:
        """Let go of them, and of their file."""
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None
