"""Progress on standard error: live lines on a terminal, plain log lines elsewhere, nothing if quiet."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from llsvm.cli.output import echo
from llsvm.process.signals import last_words, tell
from llsvm.solvers.base import Report
from llsvm.stream.progress import Progress
from llsvm.training.progress_display import Show, is_news, live_lines, report_line, timestamp

if TYPE_CHECKING:
    from rich.console import Console

    from llsvm.data.source import BlockSource
    from llsvm.settings.settings import Settings


@contextmanager
def showing(progress: Progress, settings: Settings, quiet: bool = False) -> Iterator[Show]:
    """Show the reports that the yielded function is given, and on a terminal ``progress`` too."""
    if quiet:
        yield lambda report: None
    elif sys.stderr.isatty():
        with _live(progress, settings) as show:
            yield show
    else:
        yield _log


def _log(report: Report) -> None:
    """Print a line for the report, if it is news."""
    if is_news(report):
        echo(f"{timestamp()} {report_line(report)}", err=True)


def say(sentence: str, quiet: bool = False) -> None:
    """Print a line of its own among the reports, if there is anything to say."""
    if sentence and not quiet:
        echo(f"{timestamp()} {sentence}", err=True)


def say_notes(source: BlockSource, quiet: bool = False, about: Sequence[str] = ()) -> None:
    """Print what the reader took for granted, once the source has been read. about: words of the notes that
    count; none: all do."""
    for note in source.info().notes:
        if not about or any(words in note for words in about):
            say(note, quiet)


@contextmanager
def _live(progress: Progress, settings: Settings) -> Iterator[Show]:
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    with last_words(lambda: _go_dark(console)), live_lines(progress, settings, console) as show:
        yield show


def _go_dark(console: Console) -> str:
    """Clear the live lines away and show the cursor, without the display itself, whose locks others hold; what it
    draws from now on, while the model is being written, goes nowhere."""
    console.file = io.StringIO()
    tell("\r\x1b[1A\x1b[J\x1b[?25h")
    return ""
