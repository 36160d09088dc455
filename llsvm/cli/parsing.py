"""Parsing beyond typer: help in groups, and one sentence for words that make no sense, which names the nearest
ones, with exit code 2.

Completion of words, when somebody presses Tab in a shell, is typer's, which is loaded for that alone.

The groups are typer's help panels, but drawn plainly: rich, which draws the others, takes longer to load than the
whole program takes to answer ``--help``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from llsvm.cli.answers import say
from llsvm.errors import EXIT_USAGE
from llsvm.settings.option import ESTIMATOR_NAMES, GROUPS, HELP, PLAIN, RENAMED

_SUGGESTED = 3
ParseError: type[Exception] = typer.BadParameter.__bases__[
    0
]  # click's UsageError, wherever typer keeps click
_SHOWS_HELP = "NoArgsIsHelpError"  # no words at all: click's error that is the help


class Refusal(typer.BadParameter):
    """Error for what the parser refuses, in a sentence."""

    exit_code = EXIT_USAGE

    def show(self, file: Any = None) -> None:
        say(f"error: {self.message}")


class Command(TyperCommand):
    """A command whose help has its options in groups, in the order of GROUPS."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        options: list[Any] = [each for each in self.get_params(ctx) if each.param_type_name == "option"]
        names = {name for each in options for name in (*each.opts, *each.secondary_opts)}
        valued = {name for each in options if not each.is_flag for name in each.opts}
        for name, value in pairwise(args):
            if name in valued and value in names:  # which the parser would take for the value
                raise Refusal(
                    f"{name} needs a value, and {value} is an option ({ctx.command_path} --help lists all options)"
                )
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], **{group: [] for group in GROUPS}}
        for each in self.get_params(ctx):
            group = getattr(each, "rich_help_panel", None) or (HELP if each.name == "help" else PLAIN)
            if line := each.get_help_record(ctx):
                groups["Arguments" if each.param_type_name == "argument" else group].append(line)
        for name, lines in groups.items():
            if lines:
                with formatter.section(name):
                    formatter.write_dl(lines)


class Group(TyperGroup):
    """The program's commands, whose parsers' errors are sentences."""

    def make_context(self, *args: Any, **more: Any) -> Any:
        try:
            return super().make_context(*args, **more)
        except ParseError as error:
            raise refusal(error) from error

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in self.commands and not name.startswith("-"):
            there = nearest(name, self.commands) or f"; there are {', '.join(self.commands)}"
            raise Refusal(f"llsvm has no command {name}{there}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ParseError as error:
            raise refusal(error) from error


def refusal(error: Any) -> Exception:
    """Return the sentence for what click refuses."""
    if isinstance(error, Refusal) or type(error).__name__ == _SHOWS_HELP:
        return error
    command = "llsvm" if error.ctx is None else error.ctx.command_path
    if type(error).__name__ == "NoSuchOption":
        known = [] if error.ctx is None else [name for each in error.ctx.command.params for name in each.opts]
        return Refusal(_unknown_option(command, error.option_name, known))
    return Refusal(f"{error.format_message().rstrip('.')} ({command} --help lists all options)")


def _unknown_option(command: str, name: str, known: Sequence[str]) -> str:
    if new := RENAMED.get(name.lstrip("-").replace("-", "_")):
        return f"{name} is now called --{new.replace('_', '-')}"
    for here, there in ESTIMATOR_NAMES.items():
        flag = f"--{here.replace('_', '-')}"
        if name == f"--{there.replace('_', '-')}" and flag in known:
            return f"{name} is the estimator's name, here it is called {flag}"
    return f"{command} has no option {name}{nearest(name, known)} ({command} --help lists all)"


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean ...?"`` with the nearest of the known words, or ""."""
    matches = get_close_matches(word, list(known), _SUGGESTED)
    return f"; did you mean {' or '.join(matches)}?" if matches else ""


# -- completion ----------------------------------------------------------------------------------------------------

COMPLETION_VARIABLE = "_LLSVM_COMPLETE"  # set by a shell that asks
# zsh reads its functions when they are first called, here by the first Tab; typer's file then defines another one,
# and leaves that Tab without an answer.
_ZSH_FILE = os.path.join("~", ".zfunc", "_llsvm")
_ZSH_FIRST_TAB = """
# zsh reads this file at the first Tab, which is to be answered, too
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _llsvm_completion "$@"; fi
"""


def answer_completion() -> None:
    """Let the program answer a shell."""
    from typer.completion import completion_init

    completion_init()


def install_completion(context: typer.Context, option: typer.CallbackParam, value: bool) -> None:
    """Handle the option ``--install-completion``."""
    if value:
        from typer.completion import install_callback

        try:
            install_callback(context, option, value)
        finally:
            _mend_zsh()


def _mend_zsh() -> None:
    path = os.path.expanduser(_ZSH_FILE)
    if not os.path.exists(path):
        return
    with open(path, "r+", encoding="utf-8") as file:
        if _ZSH_FIRST_TAB not in file.read():
            file.write(_ZSH_FIRST_TAB)


def show_completion(context: typer.Context, option: typer.CallbackParam, value: bool) -> None:
    """Handle the option ``--show-completion``."""
    if value:
        from typer.completion import show_callback

        show_callback(context, option, value)
