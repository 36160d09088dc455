"""Outlook: what a run that gets on too slowly under its memory limit is told once, while it goes on: what is wrong,
and which limit would do. Counts of passes, and of the work in them, decide, no clock, so that runs repeat."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from llsvm.errors import BudgetError, UsageError
from llsvm.memory.plan import SmallestLimit
from llsvm.solvers.advice import passes_to_come
from llsvm.solvers.optim.rounding import ROUNDING
from llsvm.solvers.report import SECONDS, UPDATES, Report, in_passes
from llsvm.training.outcome import TrainingRun

FIRST = 6  # passes, before which nothing can be said of short ones
MANY = 30  # more to come than so many are too slow, where second order takes some few
LONG_UPDATES = 20  # of each row in a pass: where passes take more, fewer of them tell,
LONG_SECONDS = 60.0  # and are too slow if those to come take longer, as counts of their work are priced
HARDLY = 1000  # passes to come, at the last ones' pace: their number would say nothing
SECOND_ORDER = ("llsvm", "sequential-dual")  # solvers that have it, over rows in memory

_SENTENCE = (
    "after {passes} the gap falls too slowly ({outlook}): the memory limit of {limit} MB has no room for all rows "
    "and second order over them, which takes far fewer passes; pass --memory-limit {enough}MB, or a smaller -C; "
    "going on meanwhile"
)


class Outlook:
    """sentence: that was said, or "". enough_bytes: the limit that it names, or 0."""

    def __init__(self) -> None:
        self.sentence, self.enough_bytes = "", 0
        self._looked = False

    def look(self, report: Report, run: TrainingRun, enough: Callable[[], SmallestLimit]) -> Report:
        """Return the report of a full pass, with the sentence among its notes if it is time for it. enough: the
        smallest limit with which all rows stay in memory, and second order over them has room; asked once."""
        in_time = report.kind == "pass" and not (report.converged or report.cause or self._looked)
        if not in_time or not _would_help(run):
            return report
        gaps = [row["relative_gap"] for row in run.history if row["relative_gap"] is not None]
        left = min((run.settings.max_passes or math.inf) - report.passes, MANY)
        to_come = passes_to_come(gaps, run.settings.tol)
        long = _long_passes_to_come(report, gaps, run.settings.tol)
        if left <= 0 or (not long and (len(gaps) < FIRST or 0 < to_come <= left)):
            return report
        to_come = to_come or long
        self._looked = True
        try:
            nbytes = enough().nbytes
        except (BudgetError, UsageError):  # it cannot be told
            return report
        if nbytes <= run.stream.budget.limit_bytes + 1:  # this one is enough
            return report
        outlook = (
            f"about {in_passes(to_come, 'more pass')} at this pace"
            if 0 < to_come < HARDLY
            else "it hardly falls"
        )
        self.enough_bytes = nbytes
        self.sentence = _SENTENCE.format(
            passes=in_passes(report.passes),
            outlook=outlook,
            limit=f"{run.stream.budget.limit_bytes / 1e6:,.0f}",
            enough=math.ceil(nbytes / 1e6),
        )
        return replace(report, note="; ".join(filter(None, [report.note, self.sentence])))


def _long_passes_to_come(report: Report, gaps: list[float], tol: float) -> int:
    """At the rate of the last pass, so many more, if they take long; else 0."""
    updates, seconds = (report.extra.get(name, 0.0) / report.passes for name in (UPDATES, SECONDS))
    known = [gap for gap in gaps[-2:] if gap < 1]
    if updates <= LONG_UPDATES or len(known) < 2 or not tol < known[1] < known[0]:
        return 0
    fell = max(math.log(known[0] / known[1]), ROUNDING)
    to_come = math.ceil(math.log(known[1] / tol) / fell)
    return to_come if to_come * seconds > LONG_SECONDS else 0


def _would_help(run: TrainingRun) -> bool:
    """Is there a limit under which all rows stay in memory, and second order for them?"""
    mixed = run.stream.dataset.reading.mixed
    return run.solver in SECOND_ORDER and not run.settings.paper and not mixed
