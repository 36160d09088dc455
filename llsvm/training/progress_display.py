"""Display of a run's progress: each report as a line of text, for the logger ``llsvm`` too, and live lines on a
terminal or in a notebook."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from llsvm.memory.process import resident_bytes
from llsvm.memory.sizes import format_size
from llsvm.process import printable
from llsvm.settings.kinds import require_kind
from llsvm.settings.settings import Settings
from llsvm.solvers.base import Report
from llsvm.stream.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

LOGGER = logging.getLogger("llsvm")
Show = Callable[[Report], None]
_REDRAWS_PER_SECOND = 4
_TREND_PASSES = 5  # that tell how fast the gap shrinks
_MAX_PASSES_LEFT = 1000  # a trend that asks for more is none
_PHASES = {"reading": "reading", "pass": "pass {}", "survivors": "epochs over survivors, before pass {}"}


def timestamp() -> str:
    """Return the time, to the second, as it stands before the line of a report."""
    return datetime.now().isoformat(timespec="seconds")


def report_line(report: Report) -> str:
    """Return a report as a line: ``pass 3: within 0.120% of the optimum, objective 1234.5, ...``."""
    words = []
    if report.certificate is not None:
        words.append(f"within {report.certificate.relative_gap:.3%} of the optimum")
        words.append(f"objective {report.certificate.total_primal:.8g}")
    if report.kind != "read":
        words.append(f"{report.survivors:,} {'survivors' if report.kind == 'epoch' else 'active rows'}")
    words.append(f"memory {format_size(resident_bytes())}")
    if report.note:
        words.append(report.note)
    kind = report.kind if report.kind == "read" else f"{report.kind} {report.passes}"
    return f"{kind}: {', '.join(words)}"


def is_news(report: Report) -> bool:
    """Return False for the epochs between two passes, which come by the dozen, but for the last of them."""
    return report.kind != "epoch" or report.resumable


def log(report: Report) -> None:
    """Log a report: what is news as information, the rest for debugging."""
    level = logging.INFO if is_news(report) else logging.DEBUG
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, "%s", report_line(report))


def report_display(
    progress: Progress, settings: Settings, verbose: int
) -> AbstractContextManager[Show | None]:
    """Return a context manager that yields a function which displays reports.

    verbose: 0: no display (None is yielded); 1: live lines on a terminal and in a notebook, elsewhere a line on
    standard error for each pass; 2 or more: a line for each report, of epochs over survivors too."""
    require_kind("verbose", verbose, (int, bool))
    if verbose <= 0:
        return nullcontext()
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if verbose == 1 and console.is_jupyter:
        return _notebook_lines(progress, settings)
    if verbose == 1 and console.is_terminal:
        return live_lines(progress, settings, console)
    return nullcontext(lambda report: _line(report) if verbose > 1 or is_news(report) else None)


def listener(show: Show | None, callback: Callable[[Report], object] | None) -> Show:
    """Return a function that passes a report to the logger, ``show`` and the callback."""

    def listen(report: Report) -> None:
        log(report)
        if show is not None:
            show(report)
        if callback is not None:
            callback(report)

    return listen


@contextmanager
def live_lines(progress: Progress, settings: Settings, console: Console) -> Iterator[Show]:
    """Draw the live lines on a terminal again and again, and leave a line of each pass above them."""
    from rich.live import Live

    meter = Meter(progress, settings)

    def show(report: Report) -> None:
        meter.note(report)
        if report.kind != "epoch":  # epochs come by the dozen; the live lines show them
            console.print(printable(f"{timestamp()} {report_line(report)}"), markup=False)

    with Live(
        get_renderable=meter.render,
        console=console,
        refresh_per_second=_REDRAWS_PER_SECOND,
        transient=True,
    ):
        yield show


@contextmanager
def _notebook_lines(progress: Progress, settings: Settings) -> Iterator[Show]:
    """Draw the live lines in a notebook, as HTML that replaces itself, and is removed when the run is over."""
    from IPython.display import HTML, display

    meter, ended = Meter(progress, settings), Event()
    handle: Any = display(meter.render(), display_id=True)

    def draw() -> None:
        while not ended.wait(1 / _REDRAWS_PER_SECOND):
            handle.update(meter.render())

    drawing = Thread(target=draw, daemon=True)
    drawing.start()
    try:
        yield meter.note
    finally:
        ended.set()
        drawing.join()
        handle.update(HTML(""))


def _line(report: Report) -> None:
    sys.stderr.write(f"{timestamp()} {report_line(report)}\n")


class Meter:
    """Live lines of a run: the counters of ``progress``, with the speed and the time left estimated from them."""

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
        """Remember a certificate: the trend of the gaps gives the time left."""
        if report.certificate is not None and report.kind == "pass":
            self._gaps.append((self.clock(), report.certificate.relative_gap))

    def words(self) -> tuple[list[str], list[str]]:
        """Return the parts of the two lines, the bar left out."""
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
        """Return the time until the gap reaches the tolerance, if it shrinks on as in the last passes, or a limit
        ends the run; None where it is not known."""
        now, settings = self.clock(), self.settings
        ends = [] if settings.max_seconds is None else [self._began + settings.max_seconds]
        if len(self._gaps) >= 2:
            (t0, g0), (t1, g1) = self._gaps[-_TREND_PASSES:][0], self._gaps[-1]
            count = min(len(self._gaps), _TREND_PASSES) - 1
            a_pass = (t1 - t0) / count
            if g0 > g1 > 0:
                passes = max(0.0, math.log(g1 / settings.tol) / math.log(g0 / g1) * count)
                if passes <= _MAX_PASSES_LEFT:
                    ends.append(t1 + math.ceil(passes) * a_pass)
            if settings.max_passes is not None:
                ends.append(t1 + max(0, settings.max_passes - self.progress.passes) * a_pass)
        return max(0.0, min(ends) - now) if ends else None

    def render(self) -> Table:
        """Return the two lines with a progress bar."""
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
