"""Showing: what a run says of itself while it goes on, to whoever has asked a function or an estimator for it
(``verbose``); and the live lines, which the program shows as well."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from llsvm.process.terminal import printable
from llsvm.settings.kinds import require_kind
from llsvm.settings.settings import Settings
from llsvm.solvers.report import Report
from llsvm.stream.progress import Progress
from llsvm.training.meter import Meter
from llsvm.training.telling import is_news, log, report_line, timestamp

if TYPE_CHECKING:
    from rich.console import Console

_REDRAWS_PER_SECOND = 4
Show = Callable[[Report], None]


def shown(progress: Progress, settings: Settings, verbose: int) -> AbstractContextManager[Show | None]:
    """Within, reports given to what it yields are shown. verbose: 0: nothing is (None is yielded); 1: live lines on
    a terminal and in a notebook, elsewhere a line on standard error for each pass; 2 or more: a line for each
    report, of epochs over survivors too."""
    require_kind("verbose", verbose, (int, bool))
    if verbose <= 0:
        return nullcontext()
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if verbose == 1 and console.is_jupyter:
        return _in_notebook(progress, settings)
    if verbose == 1 and console.is_terminal:
        return live_lines(progress, settings, console)
    return nullcontext(lambda report: _line(report) if verbose > 1 or is_news(report) else None)


def told(show: Show | None, callback: Callable[[Report], object] | None) -> Show:
    """What tells the logger, ``show`` and the callback of a report."""

    def tell(report: Report) -> None:
        log(report)
        if show is not None:
            show(report)
        if callback is not None:
            callback(report)

    return tell


@contextmanager
def live_lines(progress: Progress, settings: Settings, console: Console) -> Iterator[Show]:
    """On a terminal: the lines are drawn again and again, and a line stays of each pass."""
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
def _in_notebook(progress: Progress, settings: Settings) -> Iterator[Show]:
    """As HTML, which takes its own place again and again, and goes when the run is over."""
    from IPython.display import HTML, display

    meter, over = Meter(progress, settings), Event()
    handle: Any = display(meter.render(), display_id=True)

    def draw() -> None:
        while not over.wait(1 / _REDRAWS_PER_SECOND):
            handle.update(meter.render())

    drawing = Thread(target=draw, daemon=True)
    drawing.start()
    try:
        yield meter.note
    finally:
        over.set()
        drawing.join()
        handle.update(HTML(""))


def _line(report: Report) -> None:
    sys.stderr.write(f"{timestamp()} {report_line(report)}\n")
