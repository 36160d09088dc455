"""Persistence of a training: its state in a folder, which the next run goes on from, and a snapshot of the model
as of the last full pass."""

from __future__ import annotations

import json
import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.data.source import BlockSource
from llsvm.files.growing import in_pieces
from llsvm.models.header import PRUNED
from llsvm.models.model import Model
from llsvm.objective.rounding import keep_double
from llsvm.process import VERSION
from llsvm.process.trace import trace
from llsvm.settings.settings import Settings
from llsvm.solvers.auto import Choice
from llsvm.solvers.base import Report, Solver, in_passes
from llsvm.solvers.state import data_of
from llsvm.state.checkpoints import Checkpoints
from llsvm.state.folder import now_in_words
from llsvm.state.runs import Beginning, Record, described
from llsvm.stream.stream import Stream
from llsvm.training.outcome import TrainingRun

NO_MODEL = ", no model is written: no pass has been certified, or its weights are gone"
_SNAPSHOT_TRIES, _RETRY_SECONDS = 5, 0.02


@dataclass(frozen=True, slots=True)
class CompletedRun:
    """Result of an earlier run with the same settings over the same rows.

    report: with its certificate. choice: of its solver. note: for people.
    """

    model: Model
    report: Report
    choice: Choice
    history: list[dict[str, Any]]
    note: str


class Persistence:
    """State of one training in a folder; without checkpoints nothing is read or written.

    doubled: values are 64-bit floats where 32 bits would hide the optimum. note: what people should know of how the
    run begins, or "". seconds, bytes_read: of the runs that this one goes on from.
    """

    def __init__(self, settings: Settings, checkpoints: Checkpoints | None) -> None:
        """settings: resolved. Raises UsageError where the state is of another training."""
        self._checkpoints = checkpoints
        self._settings: dict[str, Any] = json.loads(json.dumps(settings.as_dict()))
        self.doubled, self.note = False, ""
        self._started = False  # a solver has begun where the earlier runs ended
        self.seconds, self.bytes_read = 0.0, 0
        self._columns = ""  # digest, once the rows have been read
        self._to_restore = False  # the state
        self._beginning: Beginning | None = None  # where there is no state to restore
        if checkpoints is None:
            return
        earlier = checkpoints.earlier
        earlier.require_settings(self._settings)
        self._to_restore = earlier.continues(self._settings, None)
        self.doubled = self._to_restore and earlier.saved is not None and earlier.saved.doubled

    def double(self, source: BlockSource) -> None:
        """Keep values as 64-bit floats from now on."""
        keep_double(source.info().rounding)
        self.doubled = True

    # -- what earlier runs have left ----------------------------------------------------------------------

    def result_of(self, stream: Stream) -> CompletedRun | None:
        """Return the result of the run, if it has ended; None where there is work left, and it is known where that
        begins. Raises UsageError where the state is of other data."""
        if self._checkpoints is None:
            return None
        earlier, data = self._checkpoints.earlier, self._data(stream)
        result = earlier.result_of(self._settings, data)
        if result is None:
            self._to_restore &= earlier.continues(self._settings, data)
            if not (self._to_restore or self._started):
                self._beginning = earlier.beginning(self._first_record(stream))
            return None
        model, record, cause = result
        coef = model.coef_
        if self._settings["intercept"] or self._settings["bias"]:
            coef = np.c_[coef, model.intercept_]
        assert model.certificate is not None
        report = Report(
            "pass",
            model.certificate.passes,
            coef,
            model.certificate,
            converged=model.converged,
            cause=cause,
            pruned=model.extra.get(PRUNED),
        )
        note = f"this training has ended, {record.written}, after {in_passes(record.passes)}: nothing is left to do"
        choice = Choice(model.extra["solver"], model.extra["why"])
        return CompletedRun(model, report, choice, record.history, note)

    def restore(self, solver: Solver, history: list[dict[str, Any]]) -> None:
        """Let the solver, and the history of its passes, go on from the state, the first time."""
        self._started = True
        if self._checkpoints is None or not self._to_restore:
            self._begin(solver)
            return
        self._to_restore, saved = False, self._checkpoints.earlier.saved
        assert saved is not None
        changes = saved.changes(self._settings, saved.differing(self._settings))
        self.note = f"going on from the state after {in_passes(saved.passes)}, written {saved.written}"
        self.note += f", with {changes}" if changes else ""
        self.seconds, history[:] = saved.seconds, saved.history
        self.bytes_read = history[-1]["bytes_read"] if history else 0
        self._checkpoints.earlier.restore(solver)
        trace("state.restored", passes=saved.passes, changes=changes)

    def _begin(self, solver: Solver) -> None:
        """Let the solver begin where an earlier run ended, if that is of use."""
        if self._beginning is None:
            return
        note, shares, sums = self._beginning.note, self._beginning.shares, self._beginning.sums
        if shares is not None or not self.note:  # a note that there is says that a state has other values
            self.note = note
        if shares is not None and not solver.begin_at(shares, sums):
            self.note = "begun anew: the solver has no use for dual variables of the run before"
        trace("state.begun_at", note=self.note)
        self._beginning = None

    def reports(self, solver: Solver, stream: Stream) -> Iterator[Report]:
        """Yield the solver's reports, and keep its dual variables after the last one."""
        if self._checkpoints is None:
            yield from solver.solve(stream)
        else:
            yield from self._checkpoints.earlier.resumed(solver.solve(stream))
            self.keep_dual(solver, stream)

    def keep_dual(self, solver: Solver, stream: Stream) -> None:
        """Keep the dual variables of a solver that has ended, or can do nothing more."""
        if self._checkpoints is not None:
            limited = self._settings["disk_limit"] is not None
            self._checkpoints.keep_dual(solver.dual_point(), stream, limited)

    def take_copies(self, stream: Stream) -> None:
        """Read the rows of files from the copies that are kept of them, where there are any, and keep more."""
        copies = None if self._checkpoints is None else self._checkpoints.copies
        if copies is None:
            return
        folder, limited = copies.folder, self._settings["disk_limit"] is not None
        reading = weakref.ref(stream)  # another may take its place, and nothing must hold on to it then

        def require(nbytes: int) -> None:
            if limited and (stream := reading()) is not None:
                stream.open_workspace().hold_elsewhere(folder.held_bytes, nbytes)

        copies.require = require
        parsing = stream.source.info().parsing
        for file in parsing:
            file.copies = copies
        if not parsing:
            self.note = (
                "--keep-cache keeps copies of svmlight files with numbers for labels, and this is none"
            )

    @property
    def copied_bytes(self) -> int:
        """Return the size of the copies of files."""
        copies = None if self._checkpoints is None else self._checkpoints.copies
        return 0 if copies is None else copies.nbytes

    # -- what this run writes -----------------------------------------------------------------------------

    @property
    def wants_one(self) -> bool:
        """Return whether the run must go on until a state can be kept, even where its time is over."""
        return self._checkpoints is not None and self._checkpoints.wants_one

    def offer(self, report: Report, solver: Solver, run: TrainingRun) -> None:
        """Write a draft of the state after a report, if it is time; see ``Checkpoints.offer``."""
        if self._checkpoints is not None:
            self._checkpoints.offer(
                report, solver, run.stream, partial(self._record, run), self._settings["max_passes"]
            )

    def sync_newest(self) -> str:
        """Sync the newest draft; see ``Checkpoints.sync_newest``."""
        return "" if self._checkpoints is None else self._checkpoints.sync_newest()

    def begin_again(self) -> None:
        """Give up all passes so far."""
        if self._to_restore:
            self.note = "the state that there was is of values as 32-bit floats: begun anew"
        self._to_restore, self._columns = False, ""
        if self._checkpoints is not None:
            self._checkpoints.begin_again()

    def end(self, model: Model, run: TrainingRun) -> None:
        """Keep the result: the same command gives the same model, unless time was short."""
        cause = "" if run.last is None else run.last.cause
        trace("training.ended", converged=model.converged, cause=cause, out_of_time=run.out_of_time)
        if self._checkpoints is not None:
            self._checkpoints.end(None if run.out_of_time else model, partial(self._record, run), cause)

    def _data(self, stream: Stream) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(json.dumps(data_of(stream.dataset)))
        return data

    def _first_record(self, stream: Stream) -> Record:
        """Return the record of a run that is about to begin."""
        info, limit = stream.source.info(), stream.budget.limit_bytes
        files = described(info.fingerprints, info.file_rows)
        self._columns = self._columns or columns_of(stream, self._settings)
        return Record(self._settings, limit, self.doubled, self._data(stream), self._columns, files)

    def _record(self, run: TrainingRun) -> Record:
        return replace(
            self._first_record(run.stream),
            history=list(run.history),
            seconds=round(self.seconds + run.seconds, 3),
            written=now_in_words(),
            passes=0 if run.last is None else run.last.passes,
            version=VERSION,
        )


def columns_of(stream: Stream, settings: Mapping[str, Any]) -> str:
    """Return a digest of what makes of a row's features and target its numbers, before columns are scaled: rows of
    two runs with the same digest are the same numbers. Where the rows themselves may have a part in that
    (vocabularies, crosses, feature maps), they are part of the digest. Columns may be added at the end.

    stream: that has been read. settings: of the run, plain values."""
    info, dataset = stream.source.info(), stream.dataset
    target = None if dataset.target is None else (dataset.target.unit, dataset.target.shift)
    known: list[Any] = [info.format, info.feature_names, dataset.first_column, str(dataset.dtype), target]
    learned, encoder = bool(settings["cross"] or settings["feature_map"]), info.encoder
    if encoder is not None:
        learned |= encoder.documents is not None or bool(encoder.crosses.crosses)
        known += [dataset.n_columns, None if learned else encoder.as_dict()]
    if learned:
        known += [dataset.digest, settings["seed"]]
    return blake2b(json.dumps(known, default=str).encode(), digest_size=16).hexdigest()


class ModelSnapshot:
    """Weights that the last full pass measured, for a model while the run goes on.

    They are the solver's own, which may change them at any time: a checksum shows that.
    """

    def __init__(self) -> None:
        self._measured: tuple[Report, int] | None = None

    def note(self, report: Report) -> None:
        """Take in the report of a full pass."""
        if report.certificate is not None and report.coef is not None:
            self._measured = report, _checksum_of(report.coef)

    def model(self, make: Callable[[Report, NDArray[np.float64]], Model]) -> Model | None:
        """Return the model of the last pass, in another thread if need be; None where there is none yet, the solver
        has changed its weights since, or it takes a pass to make it. make: of a report and its weights."""
        # the solver may just be between better weights and its report of them
        for _ in range(_SNAPSHOT_TRIES):
            if self._measured is None:
                return None
            report, checksum = self._measured
            if report.coef is None or report.expand is not None:
                return None
            model = make(report, report.coef)
            if _checksum_of(report.coef) == checksum:
                return model
            time.sleep(_RETRY_SECONDS)
        return None


def save_snapshot(model: Model | None, path: str | os.PathLike[str]) -> str:
    """Save a model as of the last full pass, if there is one; return what became of it, to end a sentence with."""
    if model is None or model.certificate is None:
        return NO_MODEL
    model.save(path)
    return (
        f", and the model so far is written to {path}: after {in_passes(model.certificate.passes)} within "
        f"{model.certificate.relative_gap:.3%} of the optimum"
    )


def _checksum_of(coef: NDArray[np.float64]) -> int:
    """Return a number that tells whether weights have changed."""
    pieces = in_pieces(np.ravel(coef, order="K").view(np.uint64))
    return sum(int(np.add.reduce(piece)) for piece in pieces) % (1 << 64)
