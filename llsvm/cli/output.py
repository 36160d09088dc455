"""Output of commands: lines on standard output and standard error, tables, JSON, and the progress of a training.

Progress goes to standard error: live lines on a terminal, plain log lines elsewhere, nothing if quiet.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from llsvm.process import printable
from llsvm.process.signals import last_words, tell

if TYPE_CHECKING:
    from rich.console import Console

    from llsvm.data.source import BlockSource
    from llsvm.settings.settings import Settings
    from llsvm.solvers.base import Report
    from llsvm.stream.progress import Progress
    from llsvm.training.progress_display import Show

_WIDTH = 120  # where there is no terminal to ask


def echo(text: str, err: bool = False) -> None:
    """Print lines on standard output (``err``: standard error), with nothing in them that a terminal obeys."""
    typer.echo(printable(text, keep="\n"), err=err)


def echo_json(answer: Mapping[str, Any]) -> None:
    """Print an answer as a JSON object on standard output."""
    from llsvm.models.model_file import json_bytes

    typer.echo(json_bytes(answer).decode(), nl=False)


def print_table(names: Sequence[str], rows: Sequence[Sequence[Any]], all_left: bool = False) -> None:
    """Print a table with a column per name; the first column is aligned left, the others right unless all_left."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE, show_edge=False)
    for i, name in enumerate(names):
        table.add_column(
            Text(printable(name)), justify="right" if i and not all_left else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(printable(cell_text(cell))) for cell in row))
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    console = Console(width=None if is_terminal else _WIDTH, highlight=False)
    with console.capture() as text:  # rich itself would end the program where the reader of a pipe went away
        console.print(table)
    typer.echo(text.get(), nl=False)


def cell_text(value: Any) -> str:
    """Return a value for people: counts with separators, ratios and objectives with a few digits, ``-`` for
    none."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    from llsvm.models.record import label_text

    return label_text(value)


@contextmanager
def display(progress: Progress, settings: Settings, quiet: bool = False) -> Iterator[Show]:
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
    from llsvm.training.progress_display import is_news, report_line

    if is_news(report):
        echo_note(report_line(report))


def echo_note(sentence: str, quiet: bool = False) -> None:
    """Print a line with the time on standard error, if there is anything to say."""
    from llsvm.training.progress_display import timestamp

    if sentence and not quiet:
        echo(f"{timestamp()} {sentence}", err=True)


def echo_notes(source: BlockSource, quiet: bool = False, about: Sequence[str] = ()) -> None:
    """Print what the reader took for granted, once the source has been read. about: words of the notes that
    count; none: all do."""
    for note in source.info().notes:
        if not about or any(words in note for words in about):
            echo_note(note, quiet)


@contextmanager
def _live(progress: Progress, settings: Settings) -> Iterator[Show]:
    from rich.console import Console

    from llsvm.training.progress_display import live_lines

    console = Console(stderr=True, highlight=False)
    with last_words(lambda: _go_dark(console)), live_lines(progress, settings, console) as show:
        yield show


def _go_dark(console: Console) -> str:
    """Clear the live lines away and show the cursor, without the display itself, whose locks others hold; what it
    draws from now on, while the model is being written, goes nowhere."""
    console.file = io.StringIO()
    tell("\r\x1b[1A\x1b[J\x1b[?25h")
    return ""
