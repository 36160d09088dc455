"""What a state's folder knows of the runs before: the state to go on from, and results to begin at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llsvm.errors import CertificateError, DataError, LLSVMError, UsageError
from llsvm.models.model import Model
from llsvm.settings.settings import Settings
from llsvm.solvers.base import Solver
from llsvm.solvers.report import Report, in_passes
from llsvm.solvers.state import SolverState
from llsvm.state import solver_state
from llsvm.state.beginning import Beginning, Earlier, beginning
from llsvm.state.container import Container, require_ours
from llsvm.state.folder import RESULT, STATE, StateFolder
from llsvm.state.record import MAY_CHANGE, MAY_DIFFER, Record
from llsvm.state.result import read_model

_DEFINES = frozenset({"spill_dir"})  # settings that the result does not depend on


class EarlierRuns:
    """The runs that a folder knows. saved: the record of the state to go on from; None: there is none."""

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
        self._runs: list[Earlier] = []  # the newest first
        self._restored = False  # does a solver go on from the state?
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
            self.saved = Record.of(about["record"])
            self._state = solver_state.read(self._container, about["solver"])
            self._runs.append(Earlier.stopped(self._container))
        if self._result is not None:
            self._runs.append(Earlier.ended(self._result))
            if self._runs[-1].record.written >= self._runs[0].record.written:
                self._runs.reverse()

    def close(self) -> None:
        """Close the files."""
        for file in (self._container, self._result):
            if file is not None:
                file.close()

    def give_up(self) -> None:
        """Whatever is done from now on is not owed to the state."""
        self._restored = False

    def limit_bytes(self, settings: Settings) -> int | None:
        """The memory limit of the run so far, where the settings leave it open; else None."""
        open_, saved = settings.memory_limit is None, self.saved
        return (
            saved.limit_bytes
            if open_ and saved is not None and saved.settings["memory_limit"] is None
            else None
        )

    def require_settings(self, settings: dict[str, Any]) -> None:
        """Raise UsageError where there were runs, and none with settings that this one could begin with."""
        if self._runs and all(each.record.differing(settings, MAY_DIFFER) for each in self._runs):
            first = self._runs[0]
            first.record.require_settings(settings, str(first.container.path))

    def goes_on(self, settings: dict[str, Any], data: dict[str, Any] | None) -> bool:
        """Is this the run of the state, taken further? data: None where they have not been read."""
        saved = self.saved
        if saved is None or saved.differing(settings, MAY_CHANGE):
            return False
        return data is None or saved.data == data

    def beginning(self, now: Record) -> Beginning | None:
        """Where a run begins that does not go on; None: anew, there was none. Raises UsageError where the rows are
        others than those of all runs before."""
        found = beginning(self._runs, now)
        if found is None and self._runs:
            first = self._runs[0]
            first.record.require_data(now.data, now.files, str(first.container.path))
        return found

    def result_of(self, settings: dict[str, Any], data: dict[str, Any]) -> tuple[Model, Record, str] | None:
        """The model of a run with these settings, over these rows, that has come to its end, and why it had not
        converged; None where there was none."""
        if self._result is None:
            return None
        record = Record.of(self._result.about["record"])
        if _defining(record.settings) != _defining(settings) or record.data != data:
            return None
        return read_model(self._folder, self._result), record, self._result.about["cause"]

    def restore(self, solver: Solver) -> None:
        """Let the solver go on from the state, if there is one. Raises UsageError where it cannot."""
        state, self._state = self._state, None
        if state is not None:
            self._restored = True
            with self._refused(), self.blamed_on_state():
                solver.restore(state)

    def going_on(self, reports: Iterator[Report]) -> Iterator[Report]:
        """The reports of a solver that was restored, which may say only now that it cannot go on."""
        with self.blamed_on_state():  # what reports are for fails outside of it
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
        """A state that the solver cannot go on from is refused with the remedy."""
        try:
            yield
        except UsageError as error:
            if self.saved is None:
                raise
            raise UsageError(f"{self._folder.file(STATE)}: {error}: pass --fresh for that") from error

    @contextmanager
    def blamed_on_state(self) -> Iterator[None]:
        """A state may come from anywhere, and its numbers be of any size: where a solver that was restored from it
        stumbles over a number or an array, or certifies what cannot be, the state is the cause."""
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


def _defining(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in _DEFINES}
