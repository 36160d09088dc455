"""Clock: how long a run has taken, and what its seconds went into; and what ends it where they are over."""

from __future__ import annotations

import time
from collections.abc import Iterator

from llsvm.process.trace import trace
from llsvm.solvers.report import Report
from llsvm.stream.progress import OutOfTime, Progress
from llsvm.training.kept import KeptRun


def in_time(reports: Iterator[Report], progress: Progress, kept: KeptRun) -> Iterator[Report]:
    """The reports up to where time is over and the pass at hand takes too long to be waited for, if one before it
    has certified something, and no state is wanted."""
    certified = False
    try:
        for report in reports:
            certified |= report.certificate is not None
            yield report
            progress.may_fall_back(certified and not kept.wants_one)
    except OutOfTime:
        trace("time.over", why="a pass took too long to measure; the certificate before it stands")
    finally:
        progress.may_fall_back(False)


class Clock:
    """began: by ``time.monotonic``. spent: seconds up to the last report, by what the reports were of (see Report):
    "read", "pass", "epoch"."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.spent: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self.began

    def timing(self, reports: Iterator[Report]) -> Iterator[Report]:
        """The same reports: all since the one before went into each."""
        for report in reports:
            fresh = self.seconds - sum(self.spent.values())
            self.spent[report.kind] = self.spent.get(report.kind, 0.0) + fresh
            yield report
