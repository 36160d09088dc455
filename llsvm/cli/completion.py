"""Completion of words that shells ask for when somebody presses Tab. typer answers, and is loaded for that
alone."""

from __future__ import annotations

import os

import typer

VARIABLE = "_LLSVM_COMPLETE"  # set by a shell that asks
# zsh reads its functions when they are first called, here by the first Tab; typer's file then defines another one,
# and leaves that Tab without an answer.
_ZSH_FILE = os.path.join("~", ".zfunc", "_llsvm")
_ZSH_FIRST_TAB = """
# zsh reads this file at the first Tab, which is to be answered, too
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _llsvm_completion "$@"; fi
"""


def begin() -> None:
    """Let the program answer a shell."""
    from typer.completion import completion_init

    completion_init()


def install(context: typer.Context, option: typer.CallbackParam, value: bool) -> None:
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


def show(context: typer.Context, option: typer.CallbackParam, value: bool) -> None:
    """Handle the option ``--show-completion``."""
    if value:
        from typer.completion import show_callback

        show_callback(context, option, value)
