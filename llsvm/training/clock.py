"""Clock: how long a run has taken, and what its seconds went into."""

from __future__ import annotations

import time
from collections.abc import Iterator

from llsvm.solvers.report import Report


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
