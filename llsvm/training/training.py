"""Training: one run from end to end.

source ─ blocks ─▶ Stream ─ blocks ─▶ solver ─ reports ─▶ Training ─▶ Model
"""

from __future__ import annotations

import math
import os
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
from llsvm.process.work import work_so_far
from llsvm.settings.settings import Settings, said_of_defaults
from llsvm.solvers import make_solver
from llsvm.solvers.auto import Auto
from llsvm.solvers.base import Solver
from llsvm.solvers.choose import Choice
from llsvm.solvers.report import ROUNDED, Report
from llsvm.solvers.state import Shares
from llsvm.spill.workspace import choose_parent
from llsvm.state.checkpoints import Checkpoints
from llsvm.stream.progress import Progress
from llsvm.stream.stream import Stream
from llsvm.training import doubles
from llsvm.training.carried import ANEW, Carried, CarriedStart
from llsvm.training.class_weights import class_weights, require_classes
from llsvm.training.clock import Clock, in_time
from llsvm.training.feature_maps import FEATURE_MAP, mapped
from llsvm.training.kept import Ended, KeptRun
from llsvm.training.learning import hash_instead, learn_columns
from llsvm.training.limits import budget_of
from llsvm.training.outcome import TrainingRun, advice_on, history_row, model_of, summary
from llsvm.training.outlook import Outlook
from llsvm.training.pruning import prune, room, set_aside
from llsvm.training.so_far import SoFar, saved

_DOUBLE = "values are kept as 64-bit floats: rounding them to 32 bits could hide more than the gap asked for"
Beside = Callable[[DatasetInfo], Mapping[str, int]]  # what else is held, in bytes by line of the ledger


class Training:
    """One run. Iterate it for the reports; afterwards ``model`` and ``summary()`` have the result.

    A context manager: spill files vanish on every exit.
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
        chosen, info = settings or Settings(), source.info()
        self.settings = chosen.resolved(info.is_table)
        self.defaults = said_of_defaults(chosen, info.is_table)
        self._auto: Auto | None = None
        self._choice: Choice | None = None  # of a solver that has come to its end
        self.history: list[dict[str, Any]] = []
        self._clock, self._work_before = Clock(), work_so_far()
        self._refused: BudgetError | None = None
        self._classes_known = checkpoints is not None and checkpoints.classes_known
        self._kept, self._outlook = KeptRun(self.settings, checkpoints), Outlook()
        if budget is None:
            budget, self._refused = budget_of(self.settings, info, checkpoints, tunes)
        return_freed_memory(budget.available_bytes)
        self._map: FeatureMap | None = None
        self._support: NDArray[np.bool_] | None = None
        fitting = 0  # bytes held while a feature map is fitted, beside it
        if self.settings.feature_map is not None:
            try:
                source, fitting = mapped(source, self.settings, budget)
                self._map = source.map
            except BudgetError as error:  # it is not known how much there is to read
                raise error.as_least() from error
        disk_bytes = None if (disk := self.settings.disk_limit) is None else parse_size(disk)
        local_output = None if output is None or is_remote(output) else os.fspath(output)
        parent = choose_parent(self.settings.spill_dir, local_output)
        self._carried = Carried(parent, disk_bytes)
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
        doubtful = doubles.settings_need_double(self.settings)
        if self._kept.doubled or (doubtful and (self.settings.kernel or not info.rereadable)):
            self._kept.double(source)
        seconds = math.inf if self.settings.max_seconds is None else self.settings.max_seconds
        progress = Progress(limit_bytes=budget.limit_bytes, stop_at=self._clock.began + seconds)
        self.stream = self._new_stream(refuse_rounding=doubtful and not self._kept.doubled, progress=progress)
        self._last: Report | None = None
        self._ended: Ended | None = None  # of a run that needs no training any more
        self._so_far = SoFar()
        self._float64_bytes = 0  # the limit that 64-bit values need, once rounding hides the optimum

    def __enter__(self) -> Training:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stream.__exit__(kind, error, trace)
        self._carried.close()

    @property
    def progress(self) -> Progress:
        """Counters that another thread may look at while the run goes on."""
        return self.stream.progress

    def __iter__(self) -> Iterator[Report]:
        """Run; a report after the first reading, each full pass, each run of epochs. Raises BudgetError with the
        smallest limit that works, LLSVMError's other subclasses."""
        try:
            yield from self._clock.timing(self._reports())
        except BudgetError as error:
            if self._last is not None:
                raise
            raise self.with_smallest(error) from error

    def with_smallest(self, error: BudgetError, beside: Beside | None = None) -> BudgetError:
        """The error with the smallest limit that works, if it can be told: the first need may not be the last.
        beside: what else is held meanwhile, by line of the ledger, of the data."""
        try:
            smallest = self.smallest_limit(error.limit_bytes + 1, beside=beside)
        except (BudgetError, DataError, UsageError) as unknown:
            if isinstance(unknown, DataError) and self.stream.source.info().rereadable:
                raise  # it is not the limit that has to be mended
            return error.as_least()
        return BudgetError(error.what, error.limit_bytes, smallest.nbytes, smallest.lines)

    @property
    def limit_bytes(self) -> int:
        """The memory limit, also where it is too small for anything."""
        return self.stream.budget.limit_bytes if self._refused is None else self._refused.limit_bytes

    def smallest_limit(
        self, floor_bytes: int, in_one_block: bool = False, beside: Beside | None = None
    ) -> SmallestLimit:
        """The smallest memory limit that works, of those from ``floor_bytes`` on; or, ``in_one_block``, with which
        all rows stay in memory. beside: see ``with_smallest``.

        May read the source for it. Raises BudgetError, DataError where that cannot be done."""
        learn_columns(self.stream, self.settings)
        dataset = doubles.measured(self.stream)
        floor_bytes = max(floor_bytes, self._floor_bytes, self.stream.budget.floor_bytes)
        held = {**self._before, **room(self.settings, dataset), **(beside(dataset) if beside else {})}
        return smallest_for(dataset, held, self._needs, floor_bytes, in_one_block)

    def _enough(self) -> SmallestLimit:
        """The smallest limit above this one that keeps all rows in memory, and where the solver misses nothing."""
        dataset, floor_bytes = self.stream.dataset, self.limit_bytes + 1
        held = {**self._before, **room(self.settings, dataset)}
        return smallest_for(dataset, held, self._needs, floor_bytes, True, at_best=True)

    def plan(self) -> MemoryPlan:
        """Read the data, and tell what the memory limit would be spent on. Raises as iterating does."""
        try:
            solver = self._make_solver(self.read(), self.stream.memory_left)
            self._auto = cast(Auto, solver) if self.settings.solver == "auto" else None
            self.stream.prepare(solver.needs(self.stream.memory_left))
        except BudgetError as error:
            raise self.with_smallest(error) from error
        return self.stream.plan

    def ask(self, settings: Settings) -> None:
        """Let what is trained from now on be trained with these: nothing is known of it yet."""
        self.settings, self._last, self._so_far, self.history = settings, None, SoFar(), []

    def go_on(self, settings: Settings, shares: Shares | None) -> Iterator[Report]:
        """Train with other settings on the data as they have been read. shares: dual variables to begin at."""
        self.ask(settings)
        yield from self._reports(CarriedStart(shares), read=True)

    def _reports(self, start: CarriedStart = ANEW, read: bool = False) -> Iterator[Report]:
        while True:
            dataset = self.stream.dataset if read else self.read()
            if (ended := self._kept.result_of(self.stream)) is not None:
                self._take(ended)
                yield Report("read", 0, note=ended.note)
                return
            solver = self._make_solver(dataset, self.stream.memory_left)
            self._auto = cast(Auto, solver) if self.settings.solver == "auto" else None
            start.begin(solver)
            start, read = ANEW, False
            self._kept.restore(solver, self.history)
            chosen = f"solver {self.solver}: {self.why}" if self.why else ""
            notes = (self._kept.note, self.stream.note, _DOUBLE * self._kept.doubled, chosen)
            yield Report("read", 0, note="; ".join(filter(None, notes)))
            reports, hidden = self._kept.reports(solver, self.stream), False
            for report in in_time(reports, self.progress, self._kept):
                again = not self.progress.out_of_time and self.must_begin_again(report)
                hidden = again or doubles.rounding_hides_the_optimum(report, self.settings, False)
                if again:
                    break
                report = replace(report, cause=report.cause or (ROUNDED if hidden else ""))
                self.note(report)
                report = self._outlook.look(report, self._run, self._enough)
                self._kept.offer(report, solver, self._run)
                yield report
                unmeasured = report.kind == "epoch" and self.stream.in_one_block
                if hidden:
                    self._kept.keep_dual(solver, self.stream)
                if hidden or (self._out_of_time() and not (unmeasured or self._kept.wants_one)):
                    hidden = False  # unmeasured: which a pass is then, at little cost
                    break
            if not hidden:
                break
            start = self._carried.take(solver, dataset.n_rows)
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
        """The first reading; where values cannot be rounded to 32-bit floats, or the settings leave no room for
        it, it begins again. Raises BudgetError, DataError, DiskError."""
        if self._refused is not None:
            raise self._refused
        learn_columns(self.stream, self.settings)
        self._kept.take_copies(self.stream)
        if not doubles.is_read(self.stream):
            self.keep_double()
            self.stream.read()
        if hash_instead(self.stream, self.settings, self._before, self._needs):
            self._read_anew()
            return self.read()
        if not self._classes_known:
            require_classes(self.stream.dataset)
        set_aside(self.stream, self.settings)
        return self.stream.dataset

    def must_begin_again(self, report: Report) -> bool:
        """Does rounding to 32-bit floats hide the optimum, and do 64-bit ones fit? Then ``keep_double``."""
        able = self.stream.rounded and not self._kept.doubled and self.stream.source.info().rereadable
        if not able or not doubles.rounding_hides_the_optimum(report, self.settings, True):
            return False
        if not self._float64_bytes:
            wide = self.stream.dataset.as_float64()
            held = {**self._before, **room(self.settings, wide)}
            self._float64_bytes = smallest_for(wide, held, self._needs, self._floor_bytes).nbytes
        if has_room := self._float64_bytes <= self.limit_bytes:
            doubles.trace_restart("rounding hides the optimum", report, self.settings.tol)
        return has_room

    def keep_double(self) -> None:
        """Begin again, with values as 64-bit floats: nothing may hold on to the stream, or what came of it."""
        self._last, self._so_far, self._float64_bytes = None, SoFar(), 0
        self.history.clear()
        self._kept.begin_again()
        self._kept.double(self.stream.source)
        self._read_anew()

    def _read_anew(self) -> None:
        """The source is to be read again, as another stream: nothing may hold this one, no exception either."""
        self._auto, progress = None, self.stream.progress
        self.stream.__exit__(None, None, None)
        self.stream.budget.return_to(self._before)
        if (encoder := self.stream.source.info().encoder) is not None:
            encoder.begin_again()
        self.stream = self._new_stream(progress=progress)
        return_dropped_memory()

    def _make_solver(self, dataset: DatasetInfo, left: MemoryLeft) -> Solver:
        """The solver asked for, with C instead of λ₁ and λ₂."""
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
        """Which solver is at work."""
        choice = self._choice if self._auto is None else self._auto.choice
        return self.settings.solver if choice is None else choice.solver

    @property
    def why(self) -> str:
        """Why "auto" has chosen it, or ""."""
        choice = self._choice if self._auto is None else self._auto.choice
        return "" if choice is None else choice.why

    def _take(self, ended: Ended) -> None:
        """What a run before this one has come to."""
        self._ended, self._last, self._choice, self.history = ended, ended.report, ended.choice, ended.history

    def _out_of_time(self) -> bool:
        return self._last is not None and self._last.certificate is not None and self.progress.out_of_time

    def note(self, report: Report) -> None:
        """Take in a solver's report: counters, history, and the result if it has one."""
        gap = None if report.certificate is None else report.certificate.relative_gap
        self.progress.pass_ended(report.passes, report.survivors, gap)
        if report.certificate is not None:
            self._last = report
        if report.kind == "pass":
            self._so_far.note(report)
        if report.kind == "pass" and report.pruned is None:
            bytes_read = self.stream.bytes_read + self._kept.bytes_read
            self.history.append(history_row(report, self._clock.seconds + self._kept.seconds, bytes_read))

    def finish(self, output: str | os.PathLike[str] | None) -> Model:
        """The run is over: the model, written to ``output`` if that is given, and kept with the state. Raises as
        ``model`` and ``Model.save``."""
        model = self.model
        if output is not None:
            model.save(output)
        if self._ended is None:
            self._kept.end(model, self._run)
        return model

    @property
    def model(self) -> Model:
        """The result: the best certified weights. Raises UsageError before there are any."""
        if self._ended is not None:
            return self._ended.model
        if self._last is None or self._last.coef is None:
            raise UsageError("no pass has been completed yet, so there is no model")
        return model_of(self._run, self._last, self._last.coef)

    def model_of(self, coef: NDArray[np.float64]) -> Model:
        """A model of other weights, (k, d + 1), for the data at hand; it has no certificate."""
        return model_of(self._run, Report("pass", 0), coef)

    def model_so_far(self) -> Model | None:
        """See SoFar."""
        return self._so_far.model(lambda report, coef: model_of(self._run, report, coef))

    def save_so_far(self, path: str | os.PathLike[str]) -> str:
        """Save ``model_so_far``; returns what became of it, to go on a sentence with."""
        return saved(self.model_so_far(), path)

    def keep_state(self) -> str:
        """A signal ends the run: see ``Checkpoints.sync_newest``."""
        return self._kept.sync_newest()

    @property
    def _run(self) -> TrainingRun:
        state = self.solver, self.why, self.history, self._last, self._clock.seconds, self._out_of_time()
        more = self._map, self._support, self._outlook.sentence, self._clock.spent
        rest = self._outlook.enough_bytes, work_so_far().since(self._work_before), self._float64_bytes
        return TrainingRun(self.stream, self.settings, *state, *more, *rest)

    def summary(self) -> dict[str, Any]:
        """The run in plain values, for people's scripts. Sizes in bytes, times in seconds."""
        return summary(self._run) | {"kept_cache_bytes": self._kept.copied_bytes}

    @property
    def advice(self) -> tuple[str, str]:
        """Why the run has most likely not converged, in a word, and in a sentence with the remedy; "" if it has."""
        return advice_on(self._run)
