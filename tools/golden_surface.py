"""The public surface, as JSON, for ``tools.golden --surface`` to compare: of Python, names, parameters and
defaults; of the command line, commands, options and defaults; exit codes; guides' headings.

It is a program of its own, since the package that it looks at is that of another checkout.
"""

from __future__ import annotations

import inspect
import json
from importlib.resources import files
from typing import Any

import typer.main

import llsvm
from llsvm.cli import app


def of_python() -> dict[str, Any]:
    """By name, the signatures of what ``llsvm`` has, and of the public members of its classes."""
    found = dict[str, Any]()
    for name in llsvm.__all__:
        each = getattr(llsvm, name)
        if inspect.isclass(each):
            found[name] = {
                "": _signature(each),
                **{
                    member: _signature(value)
                    for member, value in inspect.getmembers(each)
                    if member[0] != "_"
                },
            }
        else:
            found[name] = _signature(each)
    return found


def _signature(value: Any) -> str:
    if isinstance(value, property):
        return "property"
    if not callable(value):
        return repr(value) if isinstance(value, str | int | float | bool | tuple) else type(value).__name__
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return "callable"
    return ", ".join(str(each.replace(annotation=inspect.Parameter.empty)) for each in parameters)


def of_command_line() -> dict[str, Any]:
    """By command, of each option or argument: its spellings, kind of value, default, and whether it is repeated."""
    root = typer.main.get_command(app)
    return {
        name: {
            each.name: [
                *each.opts,
                *each.secondary_opts,
                each.make_metavar(context),
                str(each.default),
                each.multiple,
            ]
            for each in command.params
        }
        for name, command in root.commands.items()
        if (context := command.make_context(name, [], resilient_parsing=True))
    }


def of_guides() -> dict[str, list[str]]:
    """By guide, its headings; of that of exit codes, its lines."""
    found = {}
    for each in sorted(files("llsvm").joinpath("guide").iterdir(), key=str):
        lines = each.read_text(encoding="utf-8").splitlines()
        whole = each.name == "exit-codes.md"
        found[each.name] = [line for line in lines if whole or line.startswith("#")]
    return found


if __name__ == "__main__":
    print(
        json.dumps(
            {"python": of_python(), "command line": of_command_line(), "guides": of_guides()}, indent=1
        )
    )
