"""Checkpoints of a run, for the next one to go on from (see runs).

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
from dataclasses import asdict
from typing import Any

from llsvm.errors import DiskError, LLSVMWarning, UsageError
from llsvm.memory.sizes import format_size
from llsvm.models.model import Model
from llsvm.process.trace import trace
from llsvm.solvers.base import Report, Solver, in_passes
from llsvm.solvers.state import DualPoint, RowShares, SolverState
from llsvm.state.container import PIECE_BYTES, ContainerWriter
from llsvm.state.folder import (
    NEXT,
    PART,
    STATE,
    ResultWriter,
    StateFolder,
    rows_bytes,
    state_bytes,
    write_state,
)
from llsvm.state.row_cache import RowCache
from llsvm.state.runs import Beginning, EarlierRuns, Record, beginning
from llsvm.stream.stream import Stream

EVERY_SECONDS = 300.0
HELD_BYTES = 4 * PIECE_BYTES  # in memory: pieces on their way to the file, the manifest
DRAFTS_SHARE = 0.03  # of the time may go to drafts that are not synced
_WAIT_SECONDS = 0.3  # for a draft of the pass that ends just now, when a signal comes


class Checkpoints:
    """Checkpoints of one run, in its folder.

    folder: locked. earlier: the runs that it knows. copies: of parsed files, where they are kept; else None.
    classes_known: the caller knows all classes, of which rows may be still to come.
    """

    def __init__(
        self,
        folder: StateFolder,
        earlier: EarlierRuns,
        every_seconds: float = EVERY_SECONDS,
        keep_cache: bool = False,
        classes_known: bool = False,
    ) -> None:
        """folder, earlier, classes_known: see above. every_seconds: between two drafts that are synced, at least;
        0: after every pass. keep_cache: copies of parsed files are kept too."""
        self.folder, self.earlier, self.classes_known = folder, earlier, classes_known
        self.copies = RowCache(folder) if keep_cache else None
        self._every_seconds = every_seconds
        self._result: ResultWriter | None = None  # with the dual variables, while the model is not known
        self._writing = threading.Lock()  # held while files are changed; for good by a signal
        self._drafted = threading.Event()  # not set: a signal waits for a draft
        self._drafted.set()
        self._synced_at = self._drafted_at = time.monotonic()
        self._draft_seconds = 0.0  # of the last draft
        self._draft: int | None = None  # passes of the newest draft that is not the state
        self._newest = 0 if earlier.saved is None else earlier.saved.passes  # of the state
        self._has_draft = self._skipped = False  # of this run; passes were skipped since
        self._warned = False  # of errors of the disk, since the last draft

    def close(self) -> None:
        """Close all files."""
        self.earlier.close()
        self._forget_dual()

    @property
    def wants_one(self) -> bool:
        """Return whether nothing has been written of this run. One that is cut off in its first pass, time and
        again, would never come to its end."""
        return not self._has_draft

    def offer(
        self,
        report: Report,
        solver: Solver,
        stream: Stream,
        record: Callable[[], Record],
        max_passes: int | None,
    ) -> None:
        """Write a draft after a report, before the solver goes on, and sync it if it is time. Errors of the disk
        become warnings. max_passes: after so many the run ends."""
        late = stream.progress.out_of_time  # from then on solvers do less than they would
        ends = report.converged or report.cause or report.passes == max_passes
        if not report.resumable or ends or (late and self._has_draft):
            return
        now = time.monotonic()
        must_sync = now - self._synced_at >= self._every_seconds
        is_cheap = now - self._drafted_at >= self._draft_seconds / DRAFTS_SHARE
        if not (must_sync or late or not self._drafted.is_set() or is_cheap):
            self._skipped = True
            return
        with self._writing:
            try:
                with self.earlier.blame_state():
                    self._write(solver.state(), stream, record())
                if must_sync:
                    self._sync()
            except (DiskError, UsageError) as error:
                self._warn(error)
            self._drafted_at = time.monotonic()
            self._draft_seconds = self._drafted_at - now
        self._drafted.set()

    def sync_newest(self) -> str:
        """Make the newest draft the state, whatever else the process does, and write no other. Returns what became
        of it, to end a sentence with."""
        if self._skipped:
            self._drafted.clear()
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
        """Write the dual point of a solver that has ended, for the result. Errors of the disk become warnings."""
        if point is None:
            return
        with self._writing:
            try:
                self._result = result = ResultWriter(self.folder)
                if isinstance(point, RowShares):
                    self._require_disk(rows_bytes(point.values), stream, disk_limited)
                result.add_dual(point)
            except (DiskError, UsageError) as error:
                self._warn(error)
                self._forget_dual()

    def _forget_dual(self) -> None:
        if self._result is not None:
            self._result.close()
            self._result = None

    def end(self, model: Model | None, record: Callable[[], Record], cause: str) -> None:
        """Write the result of a run that is over. model: where the same command would give the same one; else None.
        Errors of the disk become warnings."""
        with self._writing:
            try:
                self._sync()
                if model is not None:
                    self._result = self._result or ResultWriter(self.folder)
                    self._result.end(model, asdict(record()), cause)
                    if self.copies is not None:
                        self.copies.remove_unused()
            except (DiskError, UsageError) as error:
                self._warn(error)

    def begin_again(self) -> None:
        """Give up what has been written: the next draft is of another run."""
        with self._writing:
            self._draft, self._has_draft, self._skipped = None, False, False
            self.earlier.give_up()
            self._forget_dual()

    def _write(self, state: SolverState, stream: Stream, record: Record) -> None:
        limited = record.settings["disk_limit"] is not None
        self._require_disk(state_bytes(state), stream, limited)
        writer = ContainerWriter(self.folder.file(STATE + PART))
        try:
            about = write_state(state, writer)
            writer.end({"record": asdict(record) | {"passes": int(state.passes)}, "solver": about})
        finally:
            writer.close()
        os.rename(self.folder.file(STATE + PART), self.folder.file(NEXT))
        self._draft, self._has_draft, self._skipped, self._warned = int(state.passes), True, False, False
        trace("checkpoint.written", passes=self._draft, bytes=state_bytes(state))

    def _sync(self) -> None:
        """Make the newest draft the state, if there is one."""
        if self._draft is not None:
            self.folder.sync(NEXT, STATE)
            self._newest, self._draft = self._draft, None
            trace("checkpoint.synced", passes=self._newest)
        self._synced_at = time.monotonic()

    def _require_disk(self, nbytes: int, stream: Stream, limited: bool) -> None:
        """Raise DiskError where there is no room for so many bytes more. limited: count the folder's files among
        the spill files, for the limit of the disk."""
        if limited:
            stream.open_workspace().hold_elsewhere(self.folder.held_bytes, nbytes)
        self.folder.require_free(nbytes, f"the state takes {format_size(nbytes)}, and ")

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
    """Yield checkpoints in ``folder``, which is locked meanwhile; None for None. every: see ``parse_seconds``.
    fresh, keep_cache: see EarlierRuns and Checkpoints.

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
        checkpoints = Checkpoints(locked, EarlierRuns(locked, fresh), seconds, keep_cache)
        try:
            yield checkpoints
        finally:
            checkpoints.close()


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def parse_seconds(text: str | float) -> float:
    """Return the seconds meant by "90", "90s", "5m", "1h", or a number of seconds, 0 or more. Raises UsageError."""
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


class _WarmStartRuns(EarlierRuns):
    """Earlier runs of the same program, of which only the dual variables are used."""

    def _open(self) -> None:
        super()._open()
        self.saved = self._state = None

    def require_settings(self, settings: dict[str, Any]) -> None:
        """Accept all settings."""

    def beginning(self, now: Record) -> Beginning | None:
        """Return where the run begins; None: anew, also where it has other rows."""
        return beginning(self._runs, now)

    def result_of(self, settings: dict[str, Any], data: dict[str, Any]) -> tuple[Model, Record, str] | None:
        """Return None: the run makes its passes, which are few where nothing has changed."""
        return None


class WarmStartCheckpoints(Checkpoints):
    """Checkpoints from one run to the next of the same program.

    No run goes on as if it were the one before, and none is refused: it begins at the dual variables of the rows
    that it has in common with that; where there are none, anew.
    """

    def __init__(self, folder: StateFolder, classes_known: bool = False) -> None:
        """folder: locked. classes_known: see Checkpoints. Raises DataError where what is there is damaged."""
        super().__init__(folder, _WarmStartRuns(folder), classes_known=classes_known)

    def sync_newest(self) -> str:
        """Make the newest draft the state; return "": the folder goes with the program."""
        super().sync_newest()
        return ""
