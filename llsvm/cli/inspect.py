"""``llsvm inspect``: what is in a model or in a data file."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llsvm.cli.options import Json, settings_of, takes, was_typed
from llsvm.errors import DataError, UsageError
from llsvm.settings.objective import KINDS
from llsvm.settings.option import MOST_USED, OUTPUT
from llsvm.settings.settings import OPTIONS

if TYPE_CHECKING:
    from llsvm.models.model import Model
    from llsvm.settings.settings import Settings

_TOP = 10
_OF_MODELS = {"top": "--top", "csv": "--csv", "all_settings": "--all-settings"}


@takes(missing={"default": "zero"})
def inspect(
    context: typer.Context,
    file: Annotated[
        list[str], typer.Argument(metavar="FILE", help="A model (LIBLINEAR's too), or data as for train.")
    ],
    json: Json = False,
    top: Annotated[
        int | None,
        typer.Option(
            metavar="INT",
            help="Of a model: so many features of each class, the strongest by weight times spread.",
            show_default=f"{_TOP} in all",
            rich_help_panel=MOST_USED,
        ),
    ] = None,
    csv: Annotated[
        bool,
        typer.Option("--csv", help="Of a model: these features alone, as CSV.", rich_help_panel=OUTPUT),
    ] = False,
    all_settings: Annotated[
        bool,
        typer.Option(
            "--all-settings",
            help="Of a model: all settings, not those alone that differ from the defaults.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    **options: Any,
) -> None:
    """Show what is in a model or in data, and what training with these options would do with the memory."""
    settings = settings_of(options, context)
    if top is not None and top < 1:
        raise UsageError(f"--top must be 1 or more, not {top}")
    if csv and json:
        raise UsageError("--csv and --json are two forms of one answer: leave one of them out")
    start = _first_bytes(file[0]) if len(file) == 1 and settings.format is None else b""
    answer: dict[str, Any]
    if start.startswith(b"solver_type") or (start.startswith(b"PK") and not file[0].endswith(".npz")):
        from llsvm.cli.inspect_model import describe_model, print_model, write_weights

        _refuse(context, [name for name in options if name != "memory_limit"], f"{file[0]} is a model")
        model = _loaded(file[0], start, settings.memory_limit)
        if csv:
            write_weights(model, top or _TOP)
            return
        answer = describe_model(model, top or _TOP)
        if not json:
            print_model(answer, of_each_class=top is not None, all_settings=all_settings)
    else:
        from llsvm.cli.inspect_data import print_data

        _refuse(context, list(_OF_MODELS), f"{file[0]} is no model")
        answer = _surveyed(file, settings)
        if not json:
            print_data(answer)
    if json:
        from llsvm.models.model_file import json_bytes

        typer.echo(json_bytes(answer).decode(), nl=False)


def _refuse(context: typer.Context, names: list[str], why: str) -> None:
    """Raise UsageError where one of these parameters was typed."""
    for name in names:
        if was_typed(context, name):
            raise UsageError(f"{why}: leave {_OF_MODELS.get(name) or OPTIONS[name].flag} out")


def _surveyed(file: list[str], settings: Settings) -> dict[str, Any]:
    from llsvm.data import open_source, table_options
    from llsvm.data.table_columns import refusals
    from llsvm.memory.process import default_threads
    from llsvm.survey import survey

    options = table_options(settings)
    if settings.missing == "mean":  # means are learned in training
        options["missing"] = "zero"
    source = open_source(
        file,
        format=settings.format,
        zero_based=settings.zero_based,
        threads=settings.threads or default_threads(),
        options=options,
        positive=settings.positive,
        need_label=False,
        label_kind=KINDS[settings.loss],
        target_scale=settings.target_scale,
    )
    try:
        return {"kind": "data", "refused": [], **survey(source, settings)}
    except DataError as error:
        if (answer := refusals(source, settings.missing)) is None:
            raise
        return {"kind": "data", **answer, "untrainable": str(error)}


def _first_bytes(file: str) -> bytes:
    """Return the file's first bytes; none where it cannot be read, which its reader then explains."""
    import os

    from llsvm.files.inputs import open_binary
    from llsvm.files.remote import is_remote

    if not is_remote(file) and not os.path.isfile(
        file
    ):  # reading from a pipe would take its first bytes away
        return b""
    with open_binary(file) as stream:
        return stream.read(16)


def _loaded(file: str, start: bytes, memory_limit: str | int | None) -> Model:
    from llsvm.scoring.room import require_room, require_room_for

    if start.startswith(b"PK"):
        from llsvm.models.model import Model

        require_room(file, memory_limit)
        return Model.load(file)
    from llsvm.models.liblinear import read_liblinear

    return read_liblinear(file, partial(require_room_for, memory_limit=memory_limit))
