"""Output of commands: lines on standard output and standard error, and tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import typer

from llsvm.process import printable

_WIDTH = 120  # where there is no terminal to ask


def echo(text: str, err: bool = False) -> None:
    """Print lines on standard output (``err``: standard error), with nothing in them that a terminal obeys."""
    typer.echo(printable(text, keep="\n"), err=err)


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
