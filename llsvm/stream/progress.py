"""Progress: counters of the run under way, written by one thread and looked at by others; and when it is to end.

Time is over for a solver where ``out_of_time`` says so: it then ends what it is at, with something that can be
measured, makes no other step, and trains no more in the pass that measures it. What is of no use half done, such as
a matrix, calls ``check`` on the way, and whoever asked for it goes on without it. Measuring, too, is given up where
it is ``overdue``: what was certified last is the result then. Clocks decide nothing else.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from llsvm.memory.process import resident_bytes
from llsvm.process.trace import trace

PATIENCE_SECONDS = 5.0  # that measuring may take once time is over, where something is certified


class OutOfTime(Exception):
    """Time is over; caught by whoever can do without what was begun."""


@dataclass(slots=True)
class Progress:
    """phase: "reading", "pass" or "survivors". rows_total, bytes_total: of this phase, 0 where unknown.
    stop_at: by ``time.monotonic``, in seconds: there is no work but measuring from then on, which may take
    ``patience`` seconds: for ever, until there is something to fall back on. measures_since: the first look at
    these, infinite before."""

    phase: str = "reading"
    passes: int = 0
    rows_done: int = 0
    rows_total: int = 0
    bytes_done: int = 0
    bytes_total: int = 0
    relative_gap: float = float("nan")
    survivors: int = 0
    limit_bytes: int = 0
    stop_at: float = math.inf
    patience: float = math.inf
    measures_since: float = math.inf

    def begin(self, phase: str, rows_total: int = 0, bytes_total: int = 0) -> None:
        trace("phase.began", phase=phase, rows=rows_total)
        self.phase, self.rows_done, self.bytes_done = phase, 0, 0
        self.rows_total, self.bytes_total = rows_total, bytes_total

    def count(self, rows: int, bytes_done: int | None = None) -> None:
        """Take in that so many rows more are done, and so many bytes of this phase in all: None is as before."""
        self.rows_done += rows
        self.bytes_done = self.bytes_done if bytes_done is None else bytes_done

    def count_bytes(self, nbytes: int) -> None:
        """Take in that so many bytes more of this phase have been read."""
        self.bytes_done += nbytes

    def expect_bytes(self, nbytes: int) -> None:
        """Take in that so many bytes more are to be read in this phase."""
        self.bytes_total += nbytes

    def pass_ended(self, passes: int, survivors: int, relative_gap: float | None) -> None:
        """Take in a solver's report: its passes in all, the rows that it kept, and its gap, None where nothing was
        certified."""
        self.passes, self.survivors = passes, survivors
        self.relative_gap = self.relative_gap if relative_gap is None else relative_gap

    def may_fall_back(self, possible: bool) -> None:
        """Once time is over, measuring may take ``PATIENCE_SECONDS`` where there is a certified result to fall back
        on, else as long as it takes."""
        self.patience = PATIENCE_SECONDS if possible else math.inf

    def note_survivors(self, n_rows: int) -> None:
        """Take in that so many rows survive, as far as is known."""
        self.survivors = n_rows

    @property
    def used_bytes(self) -> int:
        """The resident set now."""
        return resident_bytes()

    @property
    def out_of_time(self) -> bool:
        return self.stop_at < math.inf and time.monotonic() >= self.stop_at

    def check(self) -> None:
        """Raise OutOfTime where the run's time is over."""
        if self.out_of_time:
            raise OutOfTime

    def check_measuring(self) -> None:
        """Raise OutOfTime where not even a full pass should be gone on with."""
        if (now := time.monotonic()) < self.stop_at:
            return
        self.measures_since = min(self.measures_since, now)
        if now >= self.measures_since + self.patience:
            raise OutOfTime

    def stop(self) -> None:
        """Time is over from now on, for work in other threads that goes on while an interrupt is on its way."""
        self.stop_at = -math.inf
