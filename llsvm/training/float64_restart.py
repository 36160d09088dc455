"""Restart with 64-bit values: when rounding values to 32-bit floats would hide the optimum, and what the restarted
run takes over: the dual variables, and the solver that "auto" chose after its trial."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from llsvm.dataset import DatasetInfo
from llsvm.errors import DataError
from llsvm.objective.rounding import SHARE, ValuesRounded, keep_double
from llsvm.process.trace import trace
from llsvm.settings.settings import Settings
from llsvm.solvers.auto import Auto, Choice
from llsvm.solvers.base import Report, Solver
from llsvm.solvers.state import RowShares, Shares
from llsvm.spill.row_state import RowState
from llsvm.spill.workspace import Workspace
from llsvm.stream.stream import Stream

MIN_TOL, MAX_C_PER_TOL = 1e-5, 1e6  # beyond, values are kept as 64-bit floats from the start
_PIECE_BYTES = 1 << 18


def rounding_hides_the_optimum(report: Report, settings: Settings, begins_again: bool) -> bool:
    """Return whether rounding may hide so much of the requested gap that this run cannot prove it.

    begins_again: values differ from the source's, and the run can begin again with 64-bit floats; else no higher
    precision is available."""
    certificate = report.certificate
    if certificate is None or report.converged or settings.paper or settings.stop != "gap":
        return False
    rounding_gap, tol = certificate.rounding_gap, settings.tol
    measured = certificate.relative_gap - rounding_gap
    if not begins_again:
        return min(rounding_gap, certificate.rounding_floor) >= tol >= measured
    # far from the optimum little is known of the dual's move: only what stays there counts until it is near
    allowed = SHARE * tol
    return certificate.rounding_floor > allowed or (rounding_gap > allowed and measured <= tol)


def settings_need_double(settings: Settings) -> bool:
    """Return whether the tolerance is so small, or C so large, that rounding a file's values to 32-bit floats,
    by 2^-24 of them, can hardly be left out of the proof. Kernel machines take the rows as they are: their kernel
    is what is large."""
    exact = settings.kernel is not None and settings.feature_map is None
    return exact or settings.tol < MIN_TOL or MAX_C_PER_TOL * settings.tol * (1 + 1e-9) < settings.C


def read_rows(stream: Stream) -> bool:
    """Read the source; return False where it can and must be read again with values as 64-bit floats. Raises
    BudgetError, DataError, DiskError."""
    try:
        dataset = stream.read()
    except ValuesRounded:
        trace_restart("the settings leave no room for rounding values to 32-bit floats")
        return False
    except DataError as error:
        if not _overflowed(stream):
            raise
        if not stream.source.info().rereadable:
            raise DataError(
                f"{error}; write the data to a file, which is read again as 64-bit floats"
            ) from error
        trace_restart("values are too large for 32-bit floats")
        return False
    trace(
        "rows.read",
        rows=dataset.n_rows,
        features=dataset.n_features,
        values=dataset.nnz,
        place=stream.place,
        dtype=dataset.dtype,
        rounded=stream.rounded,
    )
    return True


def measure_rows(stream: Stream) -> DatasetInfo:
    """Return what ``Stream.measure`` does, with values as 64-bit floats where 32-bit ones do not hold them."""
    try:
        return stream.measure()
    except DataError:
        if not (stream.source.info().rereadable and _overflowed(stream)):
            raise
    keep_double(stream.source.info().rounding)
    return stream.measure()


def trace_restart(why: str, report: Report | None = None, tol: float = 0.0) -> None:
    """Trace that values are read again as 64-bit floats. report: whose certificate asks for it."""
    certificate = None if report is None else report.certificate
    trace(
        "float64.restart",
        why=why,
        hidden_gap=certificate and max(certificate.rounding_floor, certificate.rounding_gap),
        allowed_gap=certificate and SHARE * tol,
    )


def _overflowed(stream: Stream) -> bool:
    """Return whether values are too large for 32-bit floats."""
    return any(rounding.overflowed and not rounding.double for rounding in stream.source.info().rounding)


@dataclass(frozen=True, slots=True)
class WarmStart:
    """Point that a solver begins at.

    shares: dual variables; None: at 0. choice: what followed the trial of "auto"; None: it has not been made.
    """

    shares: Shares | None = None
    choice: Choice | None = None

    def apply(self, solver: Solver) -> None:
        """Let the solver begin there, as far as it has a use for it."""
        if self.choice is not None and isinstance(solver, Auto):
            solver.begin_with(self.choice)
        if self.shares is not None:
            solver.begin_at(self.shares)


COLD_START = WarmStart()


class DualCopy:
    """Copy on disk of α_i / C_i, as float32, of solvers that have them by row."""

    def __init__(self, folder: Path, disk_limit_bytes: int | None) -> None:
        """folder: to make a workspace in. disk_limit_bytes: None for no limit."""
        self._location = folder, disk_limit_bytes
        self._workspace: Workspace | None = None

    def take(self, solver: Solver, n_rows: int) -> WarmStart:
        """Return where a running solver has come to, without a reference to it. Raises DiskError."""
        choice = solver.ended if isinstance(solver, Auto) else None
        return WarmStart(self._copy(solver, n_rows), choice)

    def _copy(self, solver: Solver, n_rows: int) -> Shares | None:
        """Copy the solver's dual variables by row number; return None where it has none by row."""
        point = solver.dual_point()
        if not isinstance(point, RowShares) or math.isfinite(point.largest_cost):
            return None
        self._workspace = Workspace(*self._location)
        width = point.values.width
        copy = RowState(n_rows, width, np.float32, self._workspace)
        step = max(1, _PIECE_BYTES // (8 * width))
        for start in range(0, n_rows, step):
            rows = np.arange(start, min(start + step, n_rows))
            copy.set(rows, point.values.get(rows))
        return lambda rows: copy.get(rows).reshape(len(rows), width)

    def close(self) -> None:
        """Delete the copy and its file."""
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None
