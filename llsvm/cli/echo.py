"""What the command line says to people: the one way to standard output and standard error."""

from __future__ import annotations

import typer

from llsvm.process.terminal import printable


def echo(text: str, err: bool = False) -> None:
    """A line, or lines, on standard output (``err``: standard error), with nothing in it that a terminal obeys."""
    typer.echo(printable(text, keep="\n"), err=err)
