"""What several commands share beside the declared options (llsvm.cli.declared), and its checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from llsvm.files.writing import STDOUT, refuse_overwriting, require_writable
from llsvm.settings.option import OUTPUT

if TYPE_CHECKING:
    from llsvm.data.source import BlockSource
    from llsvm.settings.settings import Settings

Json = Annotated[bool, typer.Option("--json", help="Answer with a JSON object.", rich_help_panel=OUTPUT)]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print nothing but errors, and what was asked for (--json, a table of results).",
        rich_help_panel=OUTPUT,
    ),
]

Trace = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Write what is decided on the way, and why, as lines of JSON: see llsvm guide trace.",
        show_default="none",
        rich_help_panel=OUTPUT,
    ),
]


def check_output(path: str, inputs: Sequence[str], text: bool = False) -> None:
    """Raise UsageError unless ``path`` can be written and is none of the files that are read.

    text: what is written is text, which may go to standard output ("-")."""
    if text and path == STDOUT:
        return
    require_writable(path)
    refuse_overwriting(path, inputs)


def check_model_output(path: str, inputs: Sequence[str]) -> None:
    """As ``check_output``, for a model and the log beside it."""
    from llsvm.models.model_file import require_writable

    check_output(path, inputs)
    require_writable(path)


def open_data(data: Sequence[str], settings: Settings) -> BlockSource:
    """The source that the arguments DATA... name, read as the settings say. Raises UsageError, DataError."""
    from llsvm.data import open_with_settings
    from llsvm.memory.process import default_threads

    return open_with_settings(settings, list(data), threads=settings.threads or default_threads())
