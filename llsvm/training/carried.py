"""Carried: the dual variables that a run has come to, kept over a second reading of its data, so that what was done
with rounded values is not lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from llsvm.solvers.auto import Auto
from llsvm.solvers.base import Solver
from llsvm.spill.row_state import RowState
from llsvm.spill.workspace import Workspace

if TYPE_CHECKING:
    from llsvm.solvers.llsvm.duals import AllDuals
    from llsvm.solvers.llsvm.start import Shares

_PIECE_BYTES = 1 << 18


class Carried:
    """Of coordinate descent alone: its α_i / C_i, as float32, on disk."""

    def __init__(self, folder: Path, disk_limit_bytes: int | None) -> None:
        """folder: to make a workspace in. disk_limit_bytes: None for none."""
        self._place = folder, disk_limit_bytes
        self._workspace: Workspace | None = None

    def take(self, solver: Solver, n_rows: int) -> Shares | None:
        """A copy of what a solver at work has come to, by the rows' numbers; None where it has none to give. Raises
        DiskError."""
        duals = _duals_of(solver)
        if duals is None:
            return None
        self._workspace = Workspace(*self._place)
        width = duals.problems.width
        kept = RowState(n_rows, width, np.float32, self._workspace)
        step = max(1, _PIECE_BYTES // (8 * width))
        for start in range(0, n_rows, step):
            stop = min(start + step, n_rows)
            kept.set(np.arange(start, stop), duals.shares(start, stop))
        return lambda rows: kept.get(rows).reshape(len(rows), width)

    def close(self) -> None:
        """Let go of them, and of their file."""
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None


def _duals_of(solver: Solver) -> AllDuals | None:
    from llsvm.solvers.llsvm.solver import LLSVM

    at_work = solver.at_work if isinstance(solver, Auto) else solver
    if not isinstance(at_work, LLSVM) or at_work.settings.paper or at_work.run.threshold is not None:
        return None
    return at_work.run.duals


def begin_at(solver: Solver, shares: Shares | None) -> None:
    """Let coordinate descent, where it comes first, begin at these dual variables, if there are any."""
    from llsvm.solvers.llsvm.solver import LLSVM

    if shares is not None and isinstance(solver, LLSVM | Auto):
        solver.begin_at(shares)
