"""Kept: what a training keeps of itself in a folder, and goes on from; it does nothing where there is none."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from llsvm.data.source import BlockSource
from llsvm.models.header import PRUNED
from llsvm.models.model import Model
from llsvm.objective.rounding import keep_double
from llsvm.process import VERSION
from llsvm.process.trace import trace
from llsvm.settings.settings import Settings
from llsvm.solvers.base import Solver
from llsvm.solvers.choose import Choice
from llsvm.solvers.report import Report, in_passes
from llsvm.solvers.state import data_of
from llsvm.state.beginning import Beginning
from llsvm.state.checkpoints import Checkpoints, now_in_words
from llsvm.state.record import Record, described
from llsvm.stream.stream import Stream
from llsvm.training.columns import columns_of
from llsvm.training.outcome import TrainingRun


@dataclass(frozen=True, slots=True)
class Ended:
    """What an earlier run with these settings, over these rows, has come to. report: that says so. choice: of its
    solver. note: for people."""

    model: Model
    report: Report
    choice: Choice
    history: list[dict[str, Any]]
    note: str


class KeptRun:
    """Of one training.

    doubled: values are 64-bit floats where 32 bits would hide the optimum. note: what people should know of how the
    run begins, or "". seconds, bytes_read: of the runs that this one goes on from.
    """

    def __init__(self, settings: Settings, checkpoints: Checkpoints | None) -> None:
        """settings: resolved. Raises UsageError where the state is of another training."""
        self._checkpoints = checkpoints
        self._settings: dict[str, Any] = json.loads(json.dumps(settings.as_dict()))
        self.doubled, self.note, self._started = False, "", False  # started: at what there was
        self.seconds, self.bytes_read = 0.0, 0
        self._columns = ""  # once the rows have been read
        self._to_restore = False  # the state
        self._beginning: Beginning | None = None  # where it is not
        if checkpoints is None:
            return
        earlier = checkpoints.earlier
        earlier.require_settings(self._settings)
        self._to_restore = earlier.goes_on(self._settings, None)
        self.doubled = self._to_restore and earlier.saved is not None and earlier.saved.doubled

    def double(self, source: BlockSource) -> None:
        """From now on values are 64-bit floats."""
        keep_double(source.info().rounding)
        self.doubled = True

    # -- what there is ------------------------------------------------------------------------------------

    def result_of(self, stream: Stream) -> Ended | None:
        """What the run came to, if it has ended; None where there is something to be done, and it is known where
        that begins. Raises UsageError where the state is of other data."""
        if self._checkpoints is None:
            return None
        earlier, data = self._checkpoints.earlier, self._data(stream)
        found = earlier.result_of(self._settings, data)
        if found is None:
            self._to_restore &= earlier.goes_on(self._settings, data)
            if not (self._to_restore or self._started):
                self._beginning = earlier.beginning(self._of_now(stream))
            return None
        model, record, cause = found
        coef = model.coef_
        if self._settings["intercept"] or self._settings["bias"]:
            coef = np.c_[coef, model.intercept_]
        assert model.certificate is not None
        report = Report("pass", model.certificate.passes, coef, model.certificate, converged=model.converged)
        report.cause, report.pruned = cause, model.extra.get(PRUNED)
        note = f"this training has ended, {record.written}, after {in_passes(record.passes)}: nothing is left to do"
        choice = Choice(model.extra["solver"], model.extra["why"])
        return Ended(model, report, choice, record.history, note)

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
        """Let the solver begin where an earlier run has come to, if that is of use."""
        if self._beginning is None:
            return
        note, shares, sums = self._beginning.note, self._beginning.shares, self._beginning.sums
        self.note = self.note or note if shares is None else note  # that there was a state, of other values
        if shares is not None and not solver.begin_at(shares, sums):
            self.note = "begun anew: the solver has no use for dual variables of the run before"
        trace("state.begun_at", note=self.note)
        self._beginning = None

    def reports(self, solver: Solver, stream: Stream) -> Iterator[Report]:
        """Of that solver, whose dual variables are kept when it has come to its end."""
        if self._checkpoints is None:
            yield from solver.solve(stream)
        else:
            yield from self._checkpoints.earlier.going_on(solver.solve(stream))
            self.keep_dual(solver, stream)

    def keep_dual(self, solver: Solver, stream: Stream) -> None:
        """Of a solver that has nothing left to do, or can do nothing more."""
        if self._checkpoints is not None:
            limited = self._settings["disk_limit"] is not None
            self._checkpoints.keep_dual(solver.dual_point(), stream, limited)

    def take_copies(self, stream: Stream) -> None:
        """Let the files' rows come from the copies that are kept of them, where there are such, and keep more."""
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
        for each in parsing:
            each.copies = copies
        if not parsing:
            self.note = (
                "--keep-cache keeps copies of svmlight files with numbers for labels, and this is none"
            )

    @property
    def copied_bytes(self) -> int:
        """What the copies of files take."""
        copies = None if self._checkpoints is None else self._checkpoints.copies
        return 0 if copies is None else copies.nbytes

    # -- what is to be kept -------------------------------------------------------------------------------

    @property
    def wants_one(self) -> bool:
        """Is the run to go on to the next state that can be kept, even where its time is over?"""
        return self._checkpoints is not None and self._checkpoints.wants_one

    def offer(self, report: Report, solver: Solver, run: TrainingRun) -> None:
        """After each report; see ``Checkpoints.offer``."""
        if self._checkpoints is not None:
            self._checkpoints.offer(
                report, solver, run.stream, partial(self._record, run), self._settings["max_passes"]
            )

    def sync_newest(self) -> str:
        """See ``Checkpoints``."""
        return "" if self._checkpoints is None else self._checkpoints.sync_newest()

    def begin_again(self) -> None:
        """All passes so far are given up."""
        if self._to_restore:
            self.note = "the state that there was is of values as 32-bit floats: begun anew"
        self._to_restore, self._columns = False, ""
        if self._checkpoints is not None:
            self._checkpoints.begin_again()

    def end(self, model: Model, run: TrainingRun) -> None:
        """The run is over; the same command gives the same model, unless time was short."""
        cause = "" if run.last is None else run.last.cause
        trace("training.ended", converged=model.converged, cause=cause, out_of_time=run.out_of_time)
        if self._checkpoints is not None:
            self._checkpoints.end(None if run.out_of_time else model, partial(self._record, run), cause)

    def _data(self, stream: Stream) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(json.dumps(data_of(stream.dataset)))
        return data

    def _of_now(self, stream: Stream) -> Record:
        """Of a run that is to begin."""
        info, limit = stream.source.info(), stream.budget.limit_bytes
        files = described(info.fingerprints, info.file_rows)
        self._columns = self._columns or columns_of(stream, self._settings)
        return Record(self._settings, limit, self.doubled, self._data(stream), self._columns, files)

    def _record(self, run: TrainingRun) -> Record:
        return replace(
            self._of_now(run.stream),
            history=list(run.history),
            seconds=round(self.seconds + run.seconds, 3),
            written=now_in_words(),
            passes=0 if run.last is None else run.last.passes,
            version=VERSION,
        )
