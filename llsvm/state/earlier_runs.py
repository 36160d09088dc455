"""Earlier runs that a state's folder knows: the state to go on from, and results to begin at.

A run that does not go on from the state begins at the dual variables of an earlier one, as far as its rows are
there still. They are kept as shares α_i / C_i, which are feasible whatever C is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import CertificateError, DataError, LLSVMError, UsageError
from llsvm.models.model import Model
from llsvm.settings.settings import Settings
from llsvm.solvers.base import Report, Solver, in_passes
from llsvm.solvers.state import Shares, ShareSums, SolverState
from llsvm.state import serialization
from llsvm.state.container import Container, require_ours
from llsvm.state.folder import LARGEST_COST, RESULT, SHARES, STATE, StateFolder
from llsvm.state.record import MAY_CHANGE, MAY_DIFFER, KnownRows, Record, known_rows
from llsvm.state.serialization import ROWS, read_model, read_sums

_SHARES_OF_STATE = ROWS + "share"


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """Run that the folder knows.

    part: the part of the container that has its shares by row; None where there are none that can be used
    without the run. sums: of them."""

    record: Record
    container: Container
    part: str | None
    sums: ShareSums | None = None

    @classmethod
    def ended(cls, result: Container) -> EarlierRun:
        """Return the run of a result."""
        by_row = SHARES in result.parts and result.about[LARGEST_COST] is None
        record = Record(**result.about["record"])
        return cls(record, result, SHARES, read_sums(result)) if by_row else cls(record, result, None)

    @classmethod
    def stopped(cls, state: Container) -> EarlierRun:
        """Return the run of a state."""
        by_row = _SHARES_OF_STATE in state.parts and LARGEST_COST not in state.about["solver"]["numbers"]
        return cls(Record(**state.about["record"]), state, _SHARES_OF_STATE if by_row else None)

    def shares(self, known: KnownRows) -> Shares:
        """Return the shares of rows by their number now; 0 of those that are new: the first pass moves them as
        their margin asks."""
        assert self.part is not None
        name = self.part
        stored = self.container.parts[name]

        def of(rows: NDArray[np.int64]) -> NDArray[np.floating]:
            before = known.numbers(rows)
            shares = np.zeros((len(rows), *stored.shape[1:]), stored.dtype)
            shares[before >= 0] = self.container.rows(name, before[before >= 0])
            return shares

        return of


@dataclass(frozen=True, slots=True)
class Beginning:
    """Point that a run begins at.

    shares: dual variables; None: it begins anew. sums: of them, where they are known. note: for people."""

    shares: Shares | None
    sums: ShareSums | None
    note: str


def beginning(earlier: Sequence[EarlierRun], now: Record) -> Beginning | None:
    """Return where a run with other settings, or over other rows, begins; None where the earlier runs have nothing
    in common with it. earlier: the newest first. now: the run that is to begin."""
    settings, data, files = now.settings, now.data, now.files
    refusal = ""  # why the newest run with rows in common is of no use
    for run in earlier:
        record = run.record
        if record.differing(settings, MAY_DIFFER):
            continue
        known = KnownRows.all(data["rows"]) if record.data == data else None
        if known is None and record.files is not None and files is not None:
            known = known_rows(record.files, files)
            if known is None:
                refusal = refusal or (
                    "of data in this format it is not known which rows were there, and are the same"
                )
                continue
        if known is None or not known.common:
            continue
        if run.part is None:
            refusal = refusal or "the run before has left no dual variables by row"
        elif record.data["classes"] != data["classes"]:
            refusal = refusal or "the data have other labels than those before"
        else:
            sums = run.sums if record.columns == now.columns and not known.gone else None
            return Beginning(run.shares(known), sums, _note(record, settings, known))
    return Beginning(None, None, f"begun anew: {refusal}") if refusal else None


def _note(record: Record, settings: Mapping[str, Any], known: KnownRows) -> str:
    changes = record.changes(settings, record.differing(settings))
    note = f"beginning at the dual variables of the run of {record.written}"
    note += f", with {changes}" if changes else ""
    if known.new or known.gone:
        note += f": {known.common:,} rows keep theirs, {known.new:,} are new"
        note += f", {known.gone:,} of those before are gone"
    return note


class EarlierRuns:
    """Runs that a folder knows. saved: the record of the state to go on from; None: there is none."""

    def __init__(self, folder: StateFolder, fresh: bool = False) -> None:
        """Open what is in the folder.

        folder: locked. fresh: begin anew, whatever is there.
        Raises DataError where what is there is damaged, or no state.
        """
        self._folder = folder
        self.saved: Record | None = None
        self._container: Container | None = None
        self._result: Container | None = None
        self._state: SolverState | None = None
        self._runs: list[EarlierRun] = []  # the newest first
        self._restored = False  # a solver goes on from the state
        if fresh:
            require_ours(folder.file(STATE))
            require_ours(folder.file(RESULT))
            return
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self._result = Container.open(self._folder.file(RESULT))
        self._container = Container.open(self._folder.file(STATE))
        if self._container is not None:
            about = self._container.about
            self.saved = Record(**about["record"])
            self._state = serialization.read_state(self._container, about["solver"])
            self._runs.append(EarlierRun.stopped(self._container))
        if self._result is not None:
            self._runs.append(EarlierRun.ended(self._result))
            if self._runs[-1].record.written >= self._runs[0].record.written:
                self._runs.reverse()

    def close(self) -> None:
        """Close the files."""
        for file in (self._container, self._result):
            if file is not None:
                file.close()

    def give_up(self) -> None:
        """Blame no error on the state any more."""
        self._restored = False

    def limit_bytes(self, settings: Settings) -> int | None:
        """Return the memory limit of the run of the state, where the settings leave it open; else None."""
        saved = self.saved
        if saved is None or settings.memory_limit is not None or saved.settings["memory_limit"] is not None:
            return None
        return saved.limit_bytes

    def require_settings(self, settings: dict[str, Any]) -> None:
        """Raise UsageError where there were runs, and none with settings that this one could begin with."""
        if self._runs and all(run.record.differing(settings, MAY_DIFFER) for run in self._runs):
            first = self._runs[0]
            first.record.require_settings(settings, str(first.container.path))

    def continues(self, settings: dict[str, Any], data: dict[str, Any] | None) -> bool:
        """Return whether this run continues the run of the state. data: None where they have not been read."""
        saved = self.saved
        if saved is None or saved.differing(settings, MAY_CHANGE):
            return False
        return data is None or saved.data == data

    def beginning(self, now: Record) -> Beginning | None:
        """Return where a run begins that does not go on; None: anew, there was none. Raises UsageError where the
        rows are others than those of all runs before."""
        start = beginning(self._runs, now)
        if start is None and self._runs:
            first = self._runs[0]
            first.record.require_data(now.data, now.files, str(first.container.path))
        return start

    def result_of(self, settings: dict[str, Any], data: dict[str, Any]) -> tuple[Model, Record, str] | None:
        """Return the model, the record, and why it had not converged, of a run with these settings, over these
        rows, that has ended; None where there was none."""
        if self._result is None:
            return None
        record = Record(**self._result.about["record"])
        if _decisive(record.settings) != _decisive(settings) or record.data != data:
            return None
        return read_model(self._folder, self._result), record, self._result.about["cause"]

    def restore(self, solver: Solver) -> None:
        """Let the solver go on from the state, if there is one. Raises UsageError where it cannot."""
        state, self._state = self._state, None
        if state is not None:
            self._restored = True
            with self._refused(), self.blame_state():
                solver.restore(state)

    def resumed(self, reports: Iterator[Report]) -> Iterator[Report]:
        """Yield the reports of a solver that was restored, which may say only now that it cannot go on."""
        with self.blame_state():  # what reports are for fails outside of it
            with self._refused():
                first = next(reports, None)
                if first is None and self.saved is not None:
                    raise UsageError(
                        f"it is after {in_passes(self.saved.passes)}, and there is nothing left to do: pass a "
                        "larger --max-passes, or begin anew"
                    )
            if first is not None:
                yield first
                yield from reports

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Add the remedy to the refusal of a state that the solver cannot go on from."""
        try:
            yield
        except UsageError as error:
            if self.saved is None:
                raise
            raise UsageError(f"{self._folder.file(STATE)}: {error}: pass --fresh for that") from error

    @contextmanager
    def blame_state(self) -> Iterator[None]:
        """Raise DataError where a solver that was restored from the state fails on a number or an array, or
        certifies what cannot be: a state may come from anywhere, and its numbers be of any size."""
        try:
            yield
        except (
            ArithmeticError,
            AttributeError,
            CertificateError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            certified = isinstance(error, CertificateError)
            if not self._restored or (isinstance(error, LLSVMError) and not certified):
                raise
            raise DataError(
                f"{self._folder.file(STATE)}: no run can go on from what it holds "
                f"({error if certified else repr(error)}): pass --fresh to begin anew"
            ) from error


def _decisive(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that the result depends on."""
    return {name: value for name, value in settings.items() if name != "spill_dir"}
