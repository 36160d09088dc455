"""Progress: counters of the run under way, written by one thread and looked at by others."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from llsvm.memory.process import resident_bytes


@dataclass(slots=True)
class Progress:
    """phase: "reading", "pass" or "survivors". rows_total, bytes_total: of this phase, 0 where unknown.
    stop_at: by ``time.monotonic``, in seconds: work between passes goes on no longer."""

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

    def begin(self, phase: str, rows_total: int = 0, bytes_total: int = 0) -> None:
        self.phase, self.rows_done, self.bytes_done = phase, 0, 0
        self.rows_total, self.bytes_total = rows_total, bytes_total

    @property
    def used_bytes(self) -> int:
        """The resident set now."""
        return resident_bytes()

    @property
    def out_of_time(self) -> bool:
        return self.stop_at < math.inf and time.monotonic() >= self.stop_at
