"""The memory limit of a run, the budget that it begins with, and the advice to raise it, given once while a run
goes on too slowly under it. Counts of passes, and of the work in them, decide about the advice, no clock, so that
runs repeat."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from llsvm.data.source import SourceInfo
from llsvm.errors import BudgetError, UsageError
from llsvm.memory.budget import COMPILING, MemoryBudget
from llsvm.memory.plan import STATE, SmallestLimit
from llsvm.memory.process import MEASURED_BYTES, default_limit_bytes
from llsvm.memory.sizes import memory_limit_bytes
from llsvm.settings.settings import Settings
from llsvm.solvers.advice import passes_to_come
from llsvm.solvers.base import SECONDS, UPDATES, Report, in_passes
from llsvm.solvers.optim.line_search import ROUNDING
from llsvm.state.checkpoints import HELD_BYTES, Checkpoints
from llsvm.training.outcome import TrainingRun

_JOINT = ("crammer-singer", "weston-watkins")
# Their kernels take more to compile than the others: measured 308 MB under a limit of 300, 8 MB too many. The bytes
# are reserved whether they are compiled or not, so that the same limit gives the same model.
_JOINT_COMPILE_BYTES = 20_000_000
# So do those of two solvers, where pairs of classes change from coordinate descent to the smoothed Newton method:
# measured 308 MB under a limit of 302.
_PAIRS_COMPILE_BYTES = 12_000_000
# So do those of text: measured 431 MB under a limit of 430, of which 20 MB were for this, and 391 MB under one of
# 390, of which 26 MB were.
_TEXT_COMPILE_BYTES = 29_000_000
# So do those that score held-out rows, beside a solver's: measured 513 MB under a limit of 500, of which 20 MB were
# for this.
_TUNE_COMPILE_BYTES = 40_000_000

MIN_PASSES = 6  # before the gaps of short passes give a pace
TOO_MANY_PASSES = 30  # if more passes are to come, training is too slow: second order takes a few
LONG_UPDATES = 20  # updates of each row in a pass; if it takes more, the last two passes give a pace,
LONG_SECONDS = 60.0  # and training is too slow if the work of the passes to come is priced at more seconds
MAX_PREDICTED_PASSES = 1000  # a larger prediction means nothing
SECOND_ORDER = ("llsvm", "sequential-dual")  # solvers that have it, over rows in memory

_SENTENCE = (
    "after {passes} the gap falls too slowly ({pace}): the memory limit of {limit} MB has no room for all rows "
    "and second order over them, which takes far fewer passes; pass --memory-limit {enough}MB, or a smaller "
    "-C; going on meanwhile"
)


def budget_of(
    settings: Settings, info: SourceInfo, checkpoints: Checkpoints | None, tunes: bool = False
) -> tuple[MemoryBudget, BudgetError | None]:
    """Return the budget; and, where the limit leaves no room to work, the refusal: the budget then has the smallest
    limit that does, since the data may ask for more still. info: of the source. tunes: see Training.

    Raises BudgetError where the smallest limit cannot be found out. UsageError: no limit that could be kept."""
    nbytes = limit_of(settings, checkpoints)
    has_text = info.encoder is not None and info.encoder.documents is not None
    compiling = (settings.multiclass in _JOINT) * _JOINT_COMPILE_BYTES
    compiling += (settings.multiclass == "ovo") * _PAIRS_COMPILE_BYTES
    compiling += has_text * _TEXT_COMPILE_BYTES + tunes * _TUNE_COMPILE_BYTES
    more = {COMPILING: compiling} if compiling else {}
    if checkpoints is not None:
        more[STATE] = HELD_BYTES
    try:
        return MemoryBudget(nbytes, more=more), None
    except BudgetError as error:
        if settings.feature_map is not None or (info.n_bytes or 0) > MEASURED_BYTES:
            raise error.as_least() from error
        return MemoryBudget(error.smallest_bytes, more=more), error


def limit_of(settings: Settings, checkpoints: Checkpoints | None = None) -> int:
    """Return the memory limit in bytes. A resumed run has the limit that it began with, unless another is given."""
    if settings.memory_limit is not None:
        return memory_limit_bytes(settings.memory_limit)
    before = None if checkpoints is None else checkpoints.earlier.limit_bytes(settings)
    return default_limit_bytes() if before is None else memory_limit_bytes(before)


class MemoryAdvice:
    """Advice to raise the memory limit, given once at most.

    sentence: that was given, or "". enough_bytes: the limit that it names, or 0.
    """

    def __init__(self) -> None:
        self.sentence, self.enough_bytes = "", 0
        self._considered = False

    def add_to(
        self, report: Report, run: TrainingRun, limit_in_memory: Callable[[], SmallestLimit]
    ) -> Report:
        """Return the report of a full pass, with the sentence among its notes if it is time for it.
        limit_in_memory: returns the smallest limit with which all rows stay in memory, and second order over them
        has room; called once."""
        in_time = report.kind == "pass" and not (report.converged or report.cause or self._considered)
        if not in_time or not _would_help(run):
            return report
        gaps = [row["relative_gap"] for row in run.history if row["relative_gap"] is not None]
        left = min((run.settings.max_passes or math.inf) - report.passes, TOO_MANY_PASSES)
        to_come = passes_to_come(gaps, run.settings.tol)
        long = _long_passes_to_come(report, gaps, run.settings.tol)
        if left <= 0 or (not long and (len(gaps) < MIN_PASSES or 0 < to_come <= left)):
            return report
        to_come = to_come or long
        self._considered = True
        try:
            nbytes = limit_in_memory().nbytes
        except (BudgetError, UsageError):  # it cannot be told
            return report
        if nbytes <= run.stream.budget.limit_bytes + 1:  # this one is enough
            return report
        predicted = 0 < to_come < MAX_PREDICTED_PASSES
        pace = f"about {in_passes(to_come, 'more pass')} at this pace" if predicted else "it hardly falls"
        self.enough_bytes = nbytes
        self.sentence = _SENTENCE.format(
            passes=in_passes(report.passes),
            pace=pace,
            limit=f"{run.stream.budget.limit_bytes / 1e6:,.0f}",
            enough=math.ceil(nbytes / 1e6),
        )
        return replace(report, note="; ".join(filter(None, [report.note, self.sentence])))


def _long_passes_to_come(report: Report, gaps: list[float], tol: float) -> int:
    """Return how many more passes there are at the rate of the last one, if they take long; else 0."""
    updates, seconds = (report.extra.get(name, 0.0) / report.passes for name in (UPDATES, SECONDS))
    known = [gap for gap in gaps[-2:] if gap < 1]
    if updates <= LONG_UPDATES or len(known) < 2 or not tol < known[1] < known[0]:
        return 0
    fell = max(math.log(known[0] / known[1]), ROUNDING)
    to_come = math.ceil(math.log(known[1] / tol) / fell)
    return to_come if to_come * seconds > LONG_SECONDS else 0


def _would_help(run: TrainingRun) -> bool:
    """Return whether a larger limit could keep all rows, and second order over them, in memory."""
    mixed = run.stream.dataset.reading.mixed
    return run.solver in SECOND_ORDER and not run.settings.paper and not mixed
