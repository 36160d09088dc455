"""Training: one run from end to end.

source ─ blocks ─▶ Stream ─ blocks ─▶ solver ─ reports ─▶ Training ─▶ Model
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.data.source import BlockSource
from llsvm.dataset import DatasetInfo
from llsvm.errors import BudgetError, DataError, UsageError
from llsvm.features.feature_map import FeatureMap
from llsvm.files.remote import is_remote
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.plan import MemoryLeft, MemoryPlan, Needs, SmallestLimit, smallest_for
from llsvm.memory.process import default_threads, return_dropped_memory, return_freed_memory
from llsvm.memory.sizes import parse_size
from llsvm.models.model import Model
from llsvm.objective.penalty import Penalty
from llsvm.process.trace import trace
from llsvm.process.work import work_so_far
from llsvm.settings.settings import Settings, said_of_defaults
from llsvm.solvers import make_solver
from llsvm.solvers.auto import Auto, Choice
from llsvm.solvers.base import ROUNDED, Report, Solver
from llsvm.solvers.state import Shares
from llsvm.spill.workspace import choose_parent
from llsvm.state.checkpoints import Checkpoints
from llsvm.stream.progress import OutOfTime, Progress
from llsvm.stream.stream import Stream
from llsvm.training import float64_restart
from llsvm.training.class_weights import class_weights, require_classes
from llsvm.training.float64_restart import COLD_START, DualCopy, WarmStart
from llsvm.training.memory_limit import MemoryAdvice, budget_of
from llsvm.training.outcome import TrainingRun, advice_on, history_row, model_of, summary
from llsvm.training.persistence import CompletedRun, ModelSnapshot, Persistence, save_snapshot
from llsvm.training.preprocessing import FEATURE_MAP, fit_feature_map, hash_instead, learn_columns
from llsvm.training.pruning import pass_bytes, prune, reserve_pass

_DOUBLE = "values are kept as 64-bit floats: rounding them to 32 bits could hide more than the gap asked for"
ExtraBytes = Callable[[DatasetInfo], Mapping[str, int]]  # what the caller holds of the data, bytes by name


class Training:
    """One run. Iterate it for the reports; afterwards ``model`` and ``summary()`` have the result.

    It is a context manager: spill files are deleted on every exit.
    """

    def __init__(
        self,
        source: BlockSource,
        settings: Settings | None = None,
        output: str | os.PathLike[str] | None = None,
        budget: MemoryBudget | None = None,
        dry: bool = False,
        checkpoints: Checkpoints | None = None,
        tunes: bool = False,
    ) -> None:
        """source: of the rows. settings: None for the defaults.
        output: where the model will be written, beside which to spill by default (nothing is written here).
        budget: instead of the settings' memory limit.
        dry: only for ``plan``: no rows are put on disk (n-grams may be, while they are counted).
        checkpoints: to go on from, and to keep; None for none.
        tunes: candidates are trained and scored, too.

        Raises UsageError, DataError, BudgetError, DiskError."""
        requested, info = settings or Settings(), source.info()
        self.settings = requested.resolved(info.is_table)
        self.defaults = said_of_defaults(requested, info.is_table)
        self._auto: Auto | None = None
        self._choice: Choice | None = None  # of a solver that has ended
        self.history: list[dict[str, Any]] = []
        self._clock, self._work_before = Clock(), work_so_far()
        self._refused: BudgetError | None = None
        self._classes_known = checkpoints is not None and checkpoints.classes_known
        self._persistence, self._advice = Persistence(self.settings, checkpoints), MemoryAdvice()
        if budget is None:
            budget, self._refused = budget_of(self.settings, info, checkpoints, tunes)
        return_freed_memory(budget.available_bytes)
        self._map: FeatureMap | None = None
        self._support: NDArray[np.bool_] | None = None
        fitting = 0  # bytes held while a feature map is fitted, beside it
        if self.settings.feature_map is not None:
            try:
                source, fitting = fit_feature_map(source, self.settings, budget)
                self._map = source.map
            except BudgetError as error:  # it is not known how much there is to read
                raise error.as_least() from error
        disk_bytes = None if (disk := self.settings.disk_limit) is None else parse_size(disk)
        local_output = None if output is None or is_remote(output) else os.fspath(output)
        parent = choose_parent(self.settings.spill_dir, local_output)
        self._dual_copy = DualCopy(parent, disk_bytes)
        self._new_stream = partial(
            Stream,
            source,
            budget,
            parent,
            disk_limit_bytes=disk_bytes,
            spill_format=self.settings.spill_format,
            cache=self.settings.cache,
            seed=self.settings.seed,
            survivors=self.settings.survivors,
            scale=self.settings.scale,
            has_bias=self.settings.constant != 0,
            fill_missing=self.settings.missing == "mean",
            dry=dry,
        )
        self._before = budget.mark()
        self._floor_bytes = budget.floor_bytes + self._before.get(FEATURE_MAP, 0) + fitting
        doubtful = float64_restart.settings_need_double(self.settings)
        if self._persistence.doubled or (doubtful and (self.settings.kernel or not info.rereadable)):
            self._persistence.double(source)
        seconds = math.inf if self.settings.max_seconds is None else self.settings.max_seconds
        progress = Progress(limit_bytes=budget.limit_bytes, stop_at=self._clock.began + seconds)
        self.stream = self._new_stream(
            refuse_rounding=doubtful and not self._persistence.doubled, progress=progress
        )
        self._last: Report | None = None
        self._completed: CompletedRun | None = None  # by an earlier run, so that there is nothing to train
        self._snapshot = ModelSnapshot()
        self._float64_bytes = 0  # the limit that 64-bit values need, once rounding hides the optimum

    def __enter__(self) -> Training:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stream.__exit__(kind, error, trace)
        self._dual_copy.close()

    @property
    def progress(self) -> Progress:
        """Return the counters, which another thread may look at while the run goes on."""
        return self.stream.progress

    def __iter__(self) -> Iterator[Report]:
        """Run; yield a report after the first reading, each full pass, each run of epochs. Raises BudgetError with
        the smallest limit that works, LLSVMError's other subclasses."""
        try:
            yield from self._clock.timed(self._reports())
        except BudgetError as error:
            if self._last is not None:
                raise
            raise self.with_smallest(error) from error

    def with_smallest(
        self,
        error: BudgetError,
        extra: ExtraBytes | None = None,
        before: Callable[[DatasetInfo], Needs] | None = None,
    ) -> BudgetError:
        """Return the error with the smallest limit that works, if that is known: the first need may not be the
        last. extra: what the caller holds meanwhile. before: what the caller needs before it trains."""
        try:
            smallest = self.smallest_limit(error.limit_bytes + 1, extra=extra)
            if before is not None:
                dataset, floor_bytes = self.stream.measure(), error.limit_bytes + 1
                needs = before(dataset)
                first = smallest_for(dataset, self._held(dataset), lambda left: needs, floor_bytes)
                smallest = max(smallest, first, key=lambda each: each.nbytes)
        except (BudgetError, DataError, UsageError) as unknown:
            if isinstance(unknown, DataError) and self.stream.source.info().rereadable:
                raise  # the data are wrong, not the limit
            return error.as_least()
        return BudgetError(error.what, error.limit_bytes, smallest.nbytes, smallest.lines)

    @property
    def limit_bytes(self) -> int:
        """Return the memory limit, also where it is too small for anything."""
        return self.stream.budget.limit_bytes if self._refused is None else self._refused.limit_bytes

    def smallest_limit(
        self, floor_bytes: int, in_one_block: bool = False, extra: ExtraBytes | None = None
    ) -> SmallestLimit:
        """Return the smallest memory limit that works, of those from ``floor_bytes`` on; or, ``in_one_block``, with
        which all rows stay in memory. extra: see ``with_smallest``.

        May read the source for it. Raises BudgetError, DataError where that is not possible."""
        learn_columns(self.stream, self.settings)
        dataset = float64_restart.measure_rows(self.stream)
        floor_bytes = max(floor_bytes, self._floor_bytes, self.stream.budget.floor_bytes)
        held = {**self._held(dataset), **(extra(dataset) if extra else {})}
        return smallest_for(dataset, held, self._needs, floor_bytes, in_one_block)

    def _limit_in_memory(self) -> SmallestLimit:
        """Return the smallest limit above this one that keeps all rows in memory, and all that the solver can
        use."""
        dataset, floor_bytes = self.stream.dataset, self.limit_bytes + 1
        return smallest_for(dataset, self._held(dataset), self._needs, floor_bytes, True, at_best=True)

    def _held(self, dataset: DatasetInfo) -> dict[str, int]:
        """Return the bytes by name that are reserved beside a solver's."""
        return {**self._before, **pass_bytes(self.settings, dataset)}

    def plan(self) -> MemoryPlan:
        """Read the data, and return what the memory limit would be spent on. Raises as iterating does."""
        try:
            solver = self._new_solver(self.read())
            self.stream.prepare(solver.needs(self.stream.memory_left))
        except BudgetError as error:
            raise self.with_smallest(error) from error
        return self.stream.plan

    def ask(self, settings: Settings) -> None:
        """Train with these settings from now on: there is no result of them yet."""
        self.settings, self._last, self._snapshot, self.history = settings, None, ModelSnapshot(), []

    def go_on(self, settings: Settings, shares: Shares | None) -> Iterator[Report]:
        """Train with other settings on the data that have been read. shares: dual variables to begin at."""
        self.ask(settings)
        yield from self._reports(WarmStart(shares), read=True)

    def _reports(self, start: WarmStart = COLD_START, read: bool = False) -> Iterator[Report]:
        while True:
            dataset = self.stream.dataset if read else self.read()
            if (completed := self._persistence.result_of(self.stream)) is not None:
                self._completed, self._last, self._choice = completed, completed.report, completed.choice
                self.history = completed.history
                yield Report("read", 0, note=completed.note)
                return
            solver = self._new_solver(dataset)
            start.apply(solver)
            start, read = COLD_START, False
            self._persistence.restore(solver, self.history)
            choice = f"solver {self.solver}: {self.why}" if self.why else ""
            notes = (self._persistence.note, self.stream.note, _DOUBLE * self._persistence.doubled, choice)
            yield Report("read", 0, note="; ".join(filter(None, notes)))
            reports, restarts = self._persistence.reports(solver, self.stream), False
            for report in self._in_time(reports):
                restarts = not self.progress.out_of_time and self.must_begin_again(report)
                if restarts:
                    break
                is_hidden = float64_restart.rounding_hides_the_optimum(report, self.settings, False)
                report = replace(report, cause=report.cause or (ROUNDED if is_hidden else ""))
                self.note(report)
                report = self._advice.add_to(report, self._run, self._limit_in_memory)
                self._persistence.offer(report, solver, self._run)
                yield report
                unmeasured = report.kind == "epoch" and self.stream.in_one_block
                if is_hidden:
                    self._persistence.keep_dual(solver, self.stream)
                    break
                # a pass is cheap where all rows are in memory: it measures what the epochs have come to
                if self._out_of_time() and not (unmeasured or self._persistence.wants_one):
                    break
            if not restarts:
                break
            start = self._dual_copy.take(solver, dataset.n_rows)
            cast(Generator[Report, None, None], reports).close()
            del solver, reports, report  # and all they hold
            self.keep_double()
        if self._auto is not None:  # what it holds would stand beside the model
            self._choice, self._auto = self._auto.choice, None
        if self._last is not None and self._last.expand is not None:
            self._support, self._map = self._last.expand()
        if self.settings.prune is not None and self._last is not None:
            cast(Generator[Report, None, None], reports).close()
            del solver, reports, report
            self.note(prune(self.stream, self.settings, self._last))
            yield self._last

    def read(self) -> DatasetInfo:
        """Read the source for the first time; where values cannot be rounded to 32-bit floats, or the settings
        leave no room for it, read it again as 64-bit floats. Raises BudgetError, DataError, DiskError."""
        if self._refused is not None:
            raise self._refused
        learn_columns(self.stream, self.settings)
        self._persistence.take_copies(self.stream)
        if not float64_restart.read_rows(self.stream):
            self.keep_double()
            self.stream.read()
        if hash_instead(self.stream, self.settings, self._before, self._needs):
            self._read_anew()
            return self.read()
        if not self._classes_known:
            require_classes(self.stream.dataset)
        reserve_pass(self.stream, self.settings)
        return self.stream.dataset

    def must_begin_again(self, report: Report) -> bool:
        """Return whether rounding to 32-bit floats hides the optimum, and 64-bit ones fit: then ``keep_double``."""
        able = self.stream.rounded and not self._persistence.doubled and self.stream.source.info().rereadable
        if not able or not float64_restart.rounding_hides_the_optimum(report, self.settings, True):
            return False
        if not self._float64_bytes:
            wide = self.stream.dataset.as_float64()
            smallest = smallest_for(wide, self._held(wide), self._needs, self._floor_bytes)
            self._float64_bytes = smallest.nbytes
        if has_room := self._float64_bytes <= self.limit_bytes:
            float64_restart.trace_restart("rounding hides the optimum", report, self.settings.tol)
        return has_room

    def keep_double(self) -> None:
        """Begin again, with values as 64-bit floats. Nothing may refer to the stream or its results."""
        self._last, self._snapshot, self._float64_bytes = None, ModelSnapshot(), 0
        self.history.clear()
        self._persistence.begin_again()
        self._persistence.double(self.stream.source)
        self._read_anew()

    def _read_anew(self) -> None:
        """Make another stream, to read again. Nothing may refer to the current one, exceptions included."""
        self._auto, progress = None, self.stream.progress
        self.stream.__exit__(None, None, None)
        self.stream.budget.return_to(self._before)
        if (encoder := self.stream.source.info().encoder) is not None:
            encoder.begin_again()
        self.stream = self._new_stream(progress=progress)
        return_dropped_memory()

    def _new_solver(self, dataset: DatasetInfo) -> Solver:
        """Return a new solver for the data that have been read, which ``solver`` and ``why`` tell of."""
        solver = self._make_solver(dataset, self.stream.memory_left)
        self._auto = cast(Auto, solver) if self.settings.solver == "auto" else None
        return solver

    def _make_solver(self, dataset: DatasetInfo, left: MemoryLeft) -> Solver:
        """Return the requested solver, with C instead of λ₁ and λ₂."""
        settings, threads = self.settings, self.settings.threads or default_threads()
        weights = class_weights(settings.class_weight, dataset)
        penalty = Penalty.of(settings, dataset.weight_sum)
        ratio = penalty.l1 if settings.penalty == "elasticnet" else settings.l1_ratio
        settings = replace(settings, C=penalty.C, l1_ratio=ratio, lambda1=None, lambda2=None)
        if settings.solver == "auto":
            return Auto(settings, weights, threads, left)
        return make_solver(settings, weights, threads)

    def _needs(self, left: MemoryLeft) -> Needs:
        return self._make_solver(left.dataset, left).needs(left)

    @property
    def solver(self) -> str:
        """Return the name of the solver that trains."""
        choice = self._current_choice
        return self.settings.solver if choice is None else choice.solver

    @property
    def why(self) -> str:
        """Return why "auto" has chosen it, or ""."""
        choice = self._current_choice
        return "" if choice is None else choice.why

    @property
    def _current_choice(self) -> Choice | None:
        return self._choice if self._auto is None else self._auto.choice

    def _in_time(self, reports: Iterator[Report]) -> Iterator[Report]:
        """Yield the reports until time is over and the current pass takes too long to be waited for, provided that
        one before it has certified something, and no state must be kept."""
        certified = False
        try:
            for report in reports:
                certified |= report.certificate is not None
                yield report
                self.progress.may_fall_back(certified and not self._persistence.wants_one)
        except OutOfTime:
            trace("time.over", why="a pass took too long to measure; the certificate before it stands")
        finally:
            self.progress.may_fall_back(False)

    def _out_of_time(self) -> bool:
        return self._last is not None and self._last.certificate is not None and self.progress.out_of_time

    def note(self, report: Report) -> None:
        """Take in a solver's report: counters, history, and the result if it has one."""
        gap = None if report.certificate is None else report.certificate.relative_gap
        self.progress.pass_ended(report.passes, report.survivors, gap)
        if report.certificate is not None:
            self._last = report
        if report.kind == "pass":
            self._snapshot.note(report)
        if report.kind == "pass" and report.pruned is None:
            bytes_read = self.stream.bytes_read + self._persistence.bytes_read
            self.history.append(
                history_row(report, self._clock.seconds + self._persistence.seconds, bytes_read)
            )

    def finish(self, output: str | os.PathLike[str] | None) -> Model:
        """Return the model, written to ``output`` if that is given, and kept with the state. Raises as ``model``
        and ``Model.save``."""
        model = self.model
        if output is not None:
            model.save(output)
        if self._completed is None:
            self._persistence.end(model, self._run)
        return model

    @property
    def model(self) -> Model:
        """Return the best certified weights as a model. Raises UsageError before there are any."""
        if self._completed is not None:
            return self._completed.model
        if self._last is None or self._last.coef is None:
            raise UsageError("no pass has been completed yet, so there is no model")
        return model_of(self._run, self._last, self._last.coef)

    def model_of(self, coef: NDArray[np.float64]) -> Model:
        """Return a model of other weights, (k, d + 1), for the same data; it has no certificate."""
        return model_of(self._run, Report("pass", 0), coef)

    def model_so_far(self) -> Model | None:
        """Return the model as of the last full pass; see ``ModelSnapshot.model``."""
        return self._snapshot.model(lambda report, coef: model_of(self._run, report, coef))

    def save_so_far(self, path: str | os.PathLike[str]) -> str:
        """Save ``model_so_far``; return what became of it, to end a sentence with."""
        return save_snapshot(self.model_so_far(), path)

    def keep_state(self) -> str:
        """Keep the newest state where a signal ends the run: see ``Checkpoints.sync_newest``."""
        return self._persistence.sync_newest()

    @property
    def _run(self) -> TrainingRun:
        return TrainingRun(
            stream=self.stream,
            settings=self.settings,
            solver=self.solver,
            why=self.why,
            history=self.history,
            last=self._last,
            seconds=self._clock.seconds,
            out_of_time=self._out_of_time(),
            feature_map=self._map,
            support=self._support,
            memory_advice=self._advice.sentence,
            spent=self._clock.spent,
            enough_bytes=self._advice.enough_bytes,
            work=work_so_far().since(self._work_before),
            float64_bytes=self._float64_bytes,
        )

    def summary(self) -> dict[str, Any]:
        """Return the run in plain values, for people's scripts. Sizes in bytes, times in seconds."""
        return summary(self._run) | {"kept_cache_bytes": self._persistence.copied_bytes}

    @property
    def advice(self) -> tuple[str, str]:
        """Return why the run has most likely not converged; see ``advice_on``."""
        return advice_on(self._run)


class Clock:
    """Time that a run has taken.

    began: by ``time.monotonic``. spent: seconds up to the last report, by the kinds of reports (see Report):
    "read", "pass", "epoch".
    """

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.spent: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self.began

    def timed(self, reports: Iterator[Report]) -> Iterator[Report]:
        """Yield the same reports, each charged with the time since the one before."""
        for report in reports:
            fresh = self.seconds - sum(self.spent.values())
            self.spent[report.kind] = self.spent.get(report.kind, 0.0) + fresh
            yield report
