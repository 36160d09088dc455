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
    """The run's time is over. Methods that can do without the work they have begun catch it."""


@dataclass(slots=True)
class Progress:
    """Progress of a run, and the time at which it has to end.

    phase: "reading", "pass" or "survivors". rows_total, bytes_total: size of this phase, 0 where unknown.
    stop_at: time in seconds, as ``time.monotonic`` has it, from which on a run only measures.
    patience: seconds that measuring may take then; infinite until there is a certified result.
    measures_since: when ``check_measuring`` was first called after ``stop_at``; infinite before."""

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
        """Count so many rows more, and so many bytes of this phase in all; None: as many as before."""
        self.rows_done += rows
        self.bytes_done = self.bytes_done if bytes_done is None else bytes_done

    def count_bytes(self, nbytes: int) -> None:
        """Count so many bytes more that were read in this phase."""
        self.bytes_done += nbytes

    def expect_bytes(self, nbytes: int) -> None:
        """Add so many bytes to those that this phase has to read."""
        self.bytes_total += nbytes

    def pass_ended(self, passes: int, survivors: int, relative_gap: float | None) -> None:
        """Take in a solver's report: its passes in all, the rows that it kept, and its gap, None where nothing was
        certified."""
        self.passes, self.survivors = passes, survivors
        self.relative_gap = self.relative_gap if relative_gap is None else relative_gap

    def may_fall_back(self, possible: bool) -> None:
        """Let measuring after the end of the time take ``PATIENCE_SECONDS`` where there is a certified result,
        which a run can fall back on; else as long as it takes."""
        self.patience = PATIENCE_SECONDS if possible else math.inf

    def note_survivors(self, n_rows: int) -> None:
        """Set the number of survivors, as far as it is known."""
        self.survivors = n_rows

    @property
    def used_bytes(self) -> int:
        """Return the resident set of the process now."""
        return resident_bytes()

    @property
    def out_of_time(self) -> bool:
        return self.stop_at < math.inf and time.monotonic() >= self.stop_at

    def check(self) -> None:
        """Raise OutOfTime where the run's time is over."""
        if self.out_of_time:
            raise OutOfTime

    def check_measuring(self) -> None:
        """Raise OutOfTime where a full pass, too, has to end now."""
        if (now := time.monotonic()) < self.stop_at:
            return
        self.measures_since = min(self.measures_since, now)
        if now >= self.measures_since + self.patience:
            raise OutOfTime

    def stop(self) -> None:
        """End the run's time now, so that work in other threads stops after an interrupt."""
        self.stop_at = -math.inf
