"""``llsvm guide``: Markdown files in ``llsvm/guide``, rendered on a terminal, and the table of all options."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, cast

import typer

from llsvm.cli.parsing import nearest
from llsvm.errors import UsageError
from llsvm.settings.option import GROUPS, PLAIN

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
    """Return what each topic is about, in the order of reading, from the index."""
    entries = map(_ENTRY.fullmatch, _read(_INDEX).splitlines())
    return {entry["topic"]: entry["line"] for entry in entries if entry}


def guide_text(topic: str, commands: Mapping[str, Any]) -> str:
    """Return a guide as Markdown; that of the options with the table of all options of the program's commands."""
    text = _COMMENT.sub("", _read(topic))
    if topic == "options":
        text = f"{text}\n{option_tables(commands)}"
    return text


def _read(name: str) -> str:
    from importlib.resources import files

    return (files("llsvm") / "guide" / f"{name}.md").read_text(encoding="utf-8")


def option_tables(commands: Mapping[str, Any]) -> str:
    """Return Markdown tables of the options of ``train``, group by group, and of those that other commands have.

    commands: click's commands by name, as ``llsvm.cli.app`` has them."""
    train = _options(commands["train"])
    lines = ["## llsvm train\n"]
    for group in GROUPS:
        if group_options := [option for option in train if (option.rich_help_panel or PLAIN) == group]:
            lines += [f"### {group}\n", *_table(group_options)]
    of_train = {_said(option) for option in train}
    for name, command in commands.items():
        options = [] if name == "train" else _options(command)
        same = [f"`{_flags(option)}`" for option in options if _said(option) in of_train]
        more = [option for option in options if _said(option) not in of_train]
        if options:
            lines.append(f"## llsvm {name}\n")
        if same:
            lines.append(f"As for train: {', '.join(same)}.\n")
        if more:
            lines += _table(more)
    return "\n".join(lines).rstrip() + "\n"


def _options(command: Any) -> list[Any]:
    return [param for param in command.params if param.param_type_name == "option" and not param.hidden]


def _said(option: Any) -> tuple[str, str]:
    return _flags(option), _default(option)


def _flags(option: Any) -> str:
    return ", ".join((*option.opts, *option.secondary_opts))


def _table(options: list[Any]) -> list[str]:
    lines = ["| option | value | default | meaning |", "|---|---|---|---|"]
    for option in options:
        value = "" if option.is_flag else (option.metavar or option.type.name).replace("|", ", ")
        cells = (f"`{_flags(option)}`", value, _default(option), option.help or "")
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return [*lines, ""]


def _default(option: Any) -> str:
    """Return the default as --help shows it."""
    if option.required:
        return "required"
    if isinstance(option.show_default, str):
        return option.show_default
    if option.is_flag:
        names = option.opts if option.default else option.secondary_opts
        return names[0] if names else "off"
    return "" if option.default is None else str(option.default)


def _rendered(text: str) -> str:
    """Return the text as a terminal shows it; a link to another guide becomes the command that opens it."""
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
