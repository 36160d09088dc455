"""``llsvm guide``: what there is to read, Markdown files in ``llsvm/guide``, rendered on a terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, cast

import typer

from llsvm.cli.parsing import nearest
from llsvm.errors import UsageError

_INDEX = "README"
_ENTRY = re.compile(r"- \[(?P<topic>[a-z-]+)\]\((?P=topic)\.md\): (?P<line>.+)")
_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<topic>[a-z-]+)\.md\)")
_COMMENT = re.compile(r"<!--.*?-->\n", re.DOTALL)


def guide(
    context: typer.Context,
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="What to read about.")] = None,
) -> None:
    """Read about a topic; without one, list the topics."""
    there = topics()
    if topic is None:
        width = max(map(len, there))
        lines = [f"  {name:{width}}  {line}" for name, line in there.items()]
        typer.echo("\n".join(["llsvm guide TOPIC, of these:", "", *lines]))
        return
    if topic not in there:
        meant = nearest(topic, there) or f"; there are {', '.join(there)}"
        raise UsageError(f"there is no guide {topic!r}{meant}")
    text = guide_text(topic, cast(Any, context.parent).command.commands)
    typer.echo(_rendered(text) if sys.stdout is not None and sys.stdout.isatty() else text, nl=False)


def topics() -> dict[str, str]:
    """What each topic is about, in the order of reading, from the index."""
    found = map(_ENTRY.fullmatch, _read(_INDEX).splitlines())
    return {entry["topic"]: entry["line"] for entry in found if entry}


def guide_text(topic: str, commands: Mapping[str, Any]) -> str:
    """A guide as Markdown; that of the options with the table of all options of the program's commands."""
    text = _COMMENT.sub("", _read(topic))
    if topic == "options":
        from llsvm.cli.reference import option_tables

        text = f"{text}\n{option_tables(commands)}"
    return text


def _read(name: str) -> str:
    from importlib.resources import files

    return (files("llsvm") / "guide" / f"{name}.md").read_text(encoding="utf-8")


def _rendered(text: str) -> str:
    """As a terminal shows it; a link to another guide as the command that opens it."""
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import Markdown, TableElement
    from rich.table import Table

    class FoldingTable(TableElement):
        """A word that is wider than its column goes on in the next line: nothing is cut off."""

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for table in super().__rich_console__(console, options):
                assert isinstance(table, Table)
                table.columns[:] = [replace(column, overflow="fold") for column in table.columns]
                yield table

    class FoldingMarkdown(Markdown):
        elements = Markdown.elements | {"table_open": FoldingTable}

    text = _LINK.sub(r"\g<text> (`llsvm guide \g<topic>`)", text)
    console = Console()
    with console.capture() as shown:  # rich itself would end the program where the reader of a pipe went away
        console.print(FoldingMarkdown(text, hyperlinks=False))
    return shown.get()
