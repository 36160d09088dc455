"""Checkpoints: what is kept of a run while it goes on, and what the next one goes on from.

At the end of each pass, where the solver can say what its state is, that is written to a file of its own (a draft):
it costs little, since nothing waits for the disk; where it would cost more than ``DRAFTS_SHARE`` of the time,
passes are left out. When a checkpoint is due, a signal comes, or time or the run is over, the newest draft is
synced and takes the place of the state before.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from llsvm.errors import CertificateError, DataError, DiskError, LLSVMError, LLSVMWarning, UsageError
from llsvm.memory.sizes import format_size
from llsvm.models.model import Model
from llsvm.process.trace import trace
from llsvm.settings.settings import Settings
from llsvm.solvers.base import Solver
from llsvm.solvers.report import Report, in_passes
from llsvm.solvers.state import DualPoint, RowShares, SolverState
from llsvm.spill.workspace import RESERVE_BYTES
from llsvm.state import solver_state
from llsvm.state.beginning import Beginning, Earlier, beginning
from llsvm.state.container import PIECE_BYTES, Container, ContainerWriter, require_ours
from llsvm.state.folder import NEXT, PART, RESULT, STATE, StateFolder
from llsvm.state.record import MAY_CHANGE, MAY_DIFFER, Record
from llsvm.state.result import ResultWriter, read_model
from llsvm.state.row_cache import RowCache
from llsvm.stream.stream import Stream

EVERY_SECONDS = 300.0
HELD_BYTES = 4 * PIECE_BYTES  # in memory: pieces on their way to the file, the manifest
DRAFTS_SHARE = 0.03  # of the time may go to drafts that nobody has asked for
_WAIT_SECONDS = 0.3  # for a draft of the pass that ends just now, when a signal comes
_DEFINES = frozenset({"spill_dir"})  # settings that the result does not depend on


class Checkpoints:
    """Of one run, in its folder, which is locked. saved: the record of the state to go on from, None to begin.
    classes_known: the caller knows all classes, of which rows may be still to come."""

    classes_known = False

    def __init__(
        self,
        folder: StateFolder,
        every_seconds: float = EVERY_SECONDS,
        fresh: bool = False,
        keep_cache: bool = False,
    ) -> None:
        """every_seconds: between two that are synced, at least; 0: after every pass. fresh: begin anew, whatever is
        there. keep_cache: copies of parsed files are kept too. Raises DataError where what is there is damaged, or
        no state."""
        self.folder = folder
        self.copies = RowCache(folder) if keep_cache else None
        self.saved: Record | None = None
        self._every = every_seconds
        self._container: Container | None = None
        self._result: Container | None = None
        self._state: SolverState | None = None
        self._earlier: list[Earlier] = []  # the newest first
        self._ending: ResultWriter | None = None  # has the dual variables, and waits for the model
        if fresh:
            require_ours(folder.file(STATE))
            require_ours(folder.file(RESULT))
        else:
            try:
                self._open()
            except BaseException:
                self.close()
                raise
        self._writing = threading.Lock()  # held while files are changed; for good by a signal
        self._most_passes: int | None = None
        self._wanted = False  # a signal waits for a draft
        self._drafted = threading.Event()
        self._synced_at = self._drafted_at = time.monotonic()
        self._cost = 0.0  # seconds of the last draft
        self._draft: int | None = None  # passes of the newest draft that is not the state
        self._newest = 0 if self.saved is None else self.saved.passes  # of the state
        self._restored = False  # does the solver go on from the state?
        self._any = self._skipped = False  # drafts of this run; passes since the last one
        self._warned = False  # of a disk that refuses, since the last time that it did not

    def _open(self) -> None:
        self._result = Container.open(self.folder.file(RESULT))
        self._container = Container.open(self.folder.file(STATE))
        if self._container is not None:
            about = self._container.about
            self.saved = Record.of(about["record"])
            self._state = solver_state.read(self._container, about["solver"])
            self._earlier.append(Earlier.stopped(self._container))
        if self._result is not None:
            self._earlier.append(Earlier.ended(self._result))
            if self._earlier[-1].record.written >= self._earlier[0].record.written:
                self._earlier.reverse()

    def close(self) -> None:
        for file in (self._container, self._result, self._ending):
            if file is not None:
                file.close()

    # -- going on -----------------------------------------------------------------------------------------

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
        self._most_passes = settings["max_passes"]
        if self._earlier and all(each.record.differing(settings, MAY_DIFFER) for each in self._earlier):
            first = self._earlier[0]
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
        found = self._beginning(now)
        if found is None and self._earlier:
            first = self._earlier[0]
            first.record.require_data(now.data, now.files, str(first.container.path))
        return found

    def _beginning(self, now: Record) -> Beginning | None:
        return beginning(self._earlier, now)

    def result_of(self, settings: dict[str, Any], data: dict[str, Any]) -> tuple[Model, Record, str] | None:
        """The model of a run with these settings, over these rows, that has come to its end, and why it had not
        converged; None where there was none."""
        if self._result is None:
            return None
        record = Record.of(self._result.about["record"])
        if _defining(record.settings) != _defining(settings) or record.data != data:
            return None
        return read_model(self.folder, self._result), record, self._result.about["cause"]

    def restore(self, solver: Solver) -> None:
        """Let the solver go on from the state, if there is one. Raises UsageError where it cannot."""
        state, self._state = self._state, None
        if state is not None:
            self._restored = True
            with self._refused(), self._blamed_on_state():
                solver.restore(state)

    def going_on(self, reports: Iterator[Report]) -> Iterator[Report]:
        """The reports of a solver that was restored, which may say only now that it cannot go on."""
        with self._blamed_on_state():  # what reports are for fails outside of it
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
            raise UsageError(f"{self.folder.file(STATE)}: {error}: pass --fresh for that") from error

    @contextmanager
    def _blamed_on_state(self) -> Iterator[None]:
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
                f"{self.folder.file(STATE)}: no run can go on from what it holds "
                f"({error if certified else repr(error)}): pass --fresh to begin anew"
            ) from error

    # -- keeping ------------------------------------------------------------------------------------------

    @property
    def wants_one(self) -> bool:
        """Has nothing been written of this run? One that is cut off in its first pass, time and again, would
        never come to its end."""
        return not self._any

    def offer(self, report: Report, solver: Solver, stream: Stream, record: Callable[[], Record]) -> None:
        """After a report, before the solver goes on: write a draft, and sync it if that is due. What the disk
        refuses becomes a warning."""
        late = stream.progress.out_of_time  # from then on solvers do less than they would
        ends = report.converged or report.cause or report.passes == self._most_passes
        if not report.resumable or ends or (late and self._any):
            return
        now = time.monotonic()
        due = now - self._synced_at >= self._every
        if not (due or late or self._wanted or now - self._drafted_at >= self._cost / DRAFTS_SHARE):
            self._skipped = True
            return
        with self._writing:
            try:
                with self._blamed_on_state():
                    self._write(solver.state(), stream, record())
                if due:
                    self._sync()
            except (DiskError, UsageError) as error:
                self._warn(error)
            self._drafted_at = time.monotonic()
            self._cost = self._drafted_at - now
        self._drafted.set()

    def sync_newest(self) -> str:
        """Whatever else the process is at: let the newest draft be the state, and write no other. Returns what
        became of it, to go on a sentence with."""
        if self._skipped:
            self._drafted.clear()
            self._wanted = True
            self._drafted.wait(_WAIT_SECONDS)
        self._writing.acquire()
        try:
            self._sync()
        except (DiskError, UsageError) as error:
            return f", the state is as it was: {error}"
        if self._newest:
            return f", and the state after {in_passes(self._newest)} is in {self.folder.path}, to go on from"
        return f", and no state is in {self.folder.path}: no pass is complete"

    def keep_dual(self, point: DualPoint | None, stream: Stream, disk_limited: bool) -> None:
        """The solver has come to its end: write its dual point, for the result. What the disk refuses becomes a
        warning."""
        if point is None:
            return
        with self._writing:
            try:
                self._ending = ending = ResultWriter(self.folder)
                if isinstance(point, RowShares):
                    values = point.values
                    nbytes = values.n_rows * values.width * values.dtype.itemsize
                    self._require_disk(nbytes, stream, disk_limited)
                ending.add_dual(point)
            except (DiskError, UsageError) as error:
                self._warn(error)
                self._forget_dual()

    def _forget_dual(self) -> None:
        if self._ending is not None:
            self._ending.close()
            self._ending = None

    def end(self, model: Model | None, record: Callable[[], Record], cause: str) -> None:
        """The run is over. model: that it came to, where the same command would come to the same; else None. What
        the disk refuses becomes a warning."""
        with self._writing:
            try:
                self._sync()
                if model is not None:
                    self._ending = self._ending or ResultWriter(self.folder)
                    self._ending.end(model, record(), cause)
                    if self.copies is not None:
                        self.copies.remove_unused()
            except (DiskError, UsageError) as error:
                self._warn(error)

    def begin_again(self) -> None:
        """What has been written belongs to a run that is given up: the next draft is of another."""
        with self._writing:
            self._draft, self._any, self._skipped, self._restored = None, False, False, False
            self._forget_dual()

    def _write(self, state: SolverState, stream: Stream, record: Record) -> None:
        limited = record.settings["disk_limit"] is not None
        self._require_disk(solver_state.nbytes_of(state), stream, limited)
        writer = ContainerWriter(self.folder.file(STATE + PART))
        try:
            about = solver_state.write(state, writer)
            writer.end({"record": replace(record, passes=int(state.passes)).as_dict(), "solver": about})
        finally:
            writer.close()
        os.rename(self.folder.file(STATE + PART), self.folder.file(NEXT))
        self._draft, self._any, self._skipped, self._warned = int(state.passes), True, False, False
        trace("checkpoint.written", passes=self._draft, bytes=solver_state.nbytes_of(state))

    def _sync(self) -> None:
        """The newest draft, if there is one, becomes the state."""
        if self._draft is not None:
            self.folder.sync(NEXT, STATE)
            self._newest, self._draft = self._draft, None
            trace("checkpoint.synced", passes=self._newest)
        self._synced_at = time.monotonic()

    def _require_disk(self, nbytes: int, stream: Stream, limited: bool) -> None:
        """Raise DiskError where there is no room for so many bytes more; tell the spill files what ours take, where
        the disk is limited."""
        free = self.folder.free_bytes()
        if limited:
            stream.open_workspace().hold_elsewhere(self.folder.held_bytes, nbytes)
        if nbytes + RESERVE_BYTES > free:
            raise DiskError(
                f"{self.folder.path}: the state takes {format_size(nbytes)}, and {format_size(free)} are free "
                f"there ({format_size(RESERVE_BYTES)} are left to others)"
            )

    def _warn(self, error: Exception) -> None:
        with suppress(OSError):
            self.folder.file(STATE + PART).unlink(missing_ok=True)
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"no state is written: {error} (training goes on; what was written before is as it was)",
                LLSVMWarning,
                stacklevel=3,
            )


@contextmanager
def checkpoints_in(
    folder: Any, every: str | float = EVERY_SECONDS, fresh: bool = False, keep_cache: bool = False
) -> Iterator[Checkpoints | None]:
    """Checkpoints in ``folder``, which is locked meanwhile; None for None. every: see ``parse_seconds``. fresh,
    keep_cache: see Checkpoints.

    Raises UsageError, DataError."""
    if folder is None:
        if fresh:
            raise UsageError("--fresh begins a state anew: pass --state with its folder, or leave it out")
        if keep_cache:
            raise UsageError(
                "--keep-cache keeps copies with a state: pass --state with its folder, or leave it out"
            )
        yield None
        return
    seconds = parse_seconds(every)
    with StateFolder(folder) as locked:
        checkpoints = Checkpoints(locked, seconds, fresh, keep_cache)
        try:
            yield checkpoints
        finally:
            checkpoints.close()


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_seconds(text: str | float) -> float:
    """Seconds meant by "90", "90s", "5m", "1h", or a number of seconds, 0 or more. Raises UsageError."""
    word = str(text).strip().lower()
    unit = _UNITS.get(word[-1:], 0.0)
    try:
        seconds = float(word[:-1]) * unit if unit else float(word)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < float("inf"):
        raise UsageError(
            f"--checkpoint-every must be seconds, or 90s, 5m, 1h, or 0 for after every pass, not {text!r}"
        )
    return seconds


def now_in_words() -> str:
    return datetime.now().isoformat(sep=" ", timespec="seconds")


def _defining(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in _DEFINES}
