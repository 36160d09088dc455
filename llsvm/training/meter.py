"""Meter: the live lines of a run, for a terminal or a notebook."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from llsvm.memory.sizes import format_size
from llsvm.settings.settings import Settings
from llsvm.solvers.report import Report
from llsvm.stream.progress import Progress

if TYPE_CHECKING:
    from rich.table import Table

_TREND_PASSES = 5  # that tell how fast the gap shrinks
_MAX_PASSES_TOLD = 1000  # a trend that asks for more is none
_PHASES = {"reading": "reading", "pass": "pass {}", "survivors": "epochs over survivors, before pass {}"}


class Meter:
    """The live lines: what ``progress`` says, with speed and time left worked out from successive looks."""

    def __init__(
        self, progress: Progress, settings: Settings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.progress = progress
        self.settings = settings
        self.clock = clock
        self._began = clock()
        self._gaps: list[tuple[float, float]] = []  # (time, relative gap) of each certificate
        self._phase: tuple[str, int] = ("", -1)
        self._start = (clock(), 0)  # of the phase: time, rows done

    def note(self, report: Report) -> None:
        """Remember a certificate: the trend of the gaps tells the time left."""
        if report.certificate is not None and report.kind == "pass":
            self._gaps.append((self.clock(), report.certificate.relative_gap))

    def words(self) -> tuple[list[str], list[str]]:
        """The parts of the two lines, the bar left out."""
        p = self.progress
        speed = self._rows_per_second()
        pace = [_PHASES.get(p.phase, p.phase).format(p.passes + 1)]
        if p.phase == "survivors":  # gone over again and again, until that gains little
            pace.append(f"{p.rows_total:,} rows")
        else:
            rows = _done(f"{p.rows_done:,}", p.rows_total and f"{p.rows_total:,}")
            pace.append(f"{rows} rows" + (f" ({speed:,.0f}/s)" if speed else ""))
        if p.bytes_done:  # what lies in memory is not read
            pace.append(_done(format_size(p.bytes_done), p.bytes_total and format_size(p.bytes_total)))
        state = [] if math.isnan(p.relative_gap) else [f"gap {p.relative_gap:.3%}"]
        if p.survivors:
            state.append(f"{p.survivors:,} survivors")
        state.append(f"memory {format_size(p.used_bytes)} of {format_size(p.limit_bytes)}")
        state.append(f"{_duration(self.clock() - self._began)} so far")
        left = self.seconds_left()
        if left is not None:
            state.append(f"about {_duration(left)} left")
        elif speed > 0 and p.rows_total:
            state.append(f"{_duration((p.rows_total - p.rows_done) / speed)} left in this pass")
        return pace, state

    def seconds_left(self) -> float | None:
        """Until the gap reaches the tolerance, should it go on shrinking as in the last passes, or a limit ends the
        run; None where nobody can tell."""
        now, chosen = self.clock(), self.settings
        ends = [] if chosen.max_seconds is None else [self._began + chosen.max_seconds]
        if len(self._gaps) >= 2:
            (t0, g0), (t1, g1) = self._gaps[-_TREND_PASSES:][0], self._gaps[-1]
            count = min(len(self._gaps), _TREND_PASSES) - 1
            a_pass = (t1 - t0) / count
            if g0 > g1 > 0:
                passes = max(0.0, math.log(g1 / chosen.tol) / math.log(g0 / g1) * count)
                if passes <= _MAX_PASSES_TOLD:
                    ends.append(t1 + math.ceil(passes) * a_pass)
            if chosen.max_passes is not None:
                ends.append(t1 + max(0, chosen.max_passes - self.progress.passes) * a_pass)
        return max(0.0, min(ends) - now) if ends else None

    def render(self) -> Table:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        p = self.progress
        total = p.bytes_total or None
        done = p.bytes_done
        if total is None and p.phase == "pass":  # rows in memory
            total, done = p.rows_total or None, p.rows_done
        bar = ProgressBar(total=total, completed=done, width=20, pulse=total is None)
        pace, state = self.words()
        lines = Table.grid(padding=(0, 1))
        lines.add_row(bar, ", ".join(pace))
        lines.add_row("", ", ".join(state))
        return lines

    def _rows_per_second(self) -> float:
        now, p = self.clock(), self.progress
        if (p.phase, p.passes) != self._phase or p.rows_done < self._start[1]:
            self._phase = (p.phase, p.passes)
            self._start = (now, p.rows_done)
        seconds = now - self._start[0]
        return (p.rows_done - self._start[1]) / seconds if seconds > 0 else 0.0


def _done(done: str, total: str | int) -> str:
    return f"{done} of {total}" if total else done


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
