"""The table of all options, made of the commands' own declarations: ``llsvm guide options``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llsvm.settings.option import GROUPS, PLAIN


def option_tables(commands: Mapping[str, Any]) -> str:
    """Markdown: a table of the options of ``train``, group by group, and of those that other commands have besides.

    commands: click's commands by name, as ``llsvm.cli.app`` has them."""
    train = _options(commands["train"])
    lines = ["## llsvm train\n"]
    for group in GROUPS:
        if chosen := [option for option in train if (option.rich_help_panel or PLAIN) == group]:
            lines += [f"### {group}\n", *_table(chosen)]
    told = {_said(option) for option in train}
    for name, command in commands.items():
        options = [] if name == "train" else _options(command)
        same = [f"`{_flags(option)}`" for option in options if _said(option) in told]
        more = [option for option in options if _said(option) not in told]
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
    """As --help shows it."""
    if option.required:
        return "required"
    if isinstance(option.show_default, str):
        return option.show_default
    if option.is_flag:
        names = option.opts if option.default else option.secondary_opts
        return names[0] if names else "off"
    return "" if option.default is None else str(option.default)
