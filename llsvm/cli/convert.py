"""``llsvm convert``, ``llsvm export`` and ``llsvm import``: data in other formats, and models of other programs."""

from __future__ import annotations

import re
from typing import Annotated, Any, cast

import typer

from llsvm.cli.options import READING, Quiet, check_model_output, check_output, settings_of, takes
from llsvm.cli.output import echo, echo_note, echo_notes
from llsvm.errors import counted
from llsvm.files.writing import is_special
from llsvm.settings.option import EXPORTED, MOST_USED, require_choice

_OF_TRAINING = re.compile("--missing zero or (?:--missing )?mean")


@takes("memory_limit", *READING)
def convert(
    context: typer.Context,
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA... OUTPUT",
            help="Data as for train; last the output: a file, or - for svmlight text on standard output.",
        ),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="svmlight|parquet|arrow|hdf5",
            help="Of the output.",
            show_default="by its name",
            rich_help_panel=MOST_USED,
        ),
    ] = None,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Write DATA to OUTPUT in another format; a table stays a table where the output can be one."""
    from llsvm.convert import convert as converted
    from llsvm.convert import format_for, is_copy, note_of_numbering
    from llsvm.data import open_source, table_options
    from llsvm.data.source import READ_AS_NUMBERS
    from llsvm.errors import DataError, UsageError
    from llsvm.files.expansion import ABOUT_FILES
    from llsvm.memory.process import default_threads

    settings = settings_of(options, context)
    if settings.missing == "mean":
        raise UsageError("--missing mean: means are learned in training only; pass --missing zero")
    if len(data) < 2:
        raise UsageError("convert needs an input and an output: llsvm convert DATA OUTPUT")
    inputs, output = data[:-1], data[-1]
    to = format_for(output, to)
    check_output(output, inputs, text=to == "svmlight")
    source = open_source(
        inputs,
        format=settings.format,
        zero_based=settings.zero_based,
        threads=default_threads(),
        options=table_options(settings),
        positive=settings.positive,
        need_label=to not in ("parquet", "arrow"),
    )
    try:
        n_rows = converted(source, output, to, settings.memory_limit, settings.vocabulary == "exact")
    except DataError as error:  # may offer what training takes
        raise DataError(_OF_TRAINING.sub("--missing zero", str(error))) from error
    is_copied = is_copy(source.info(), to)
    echo_notes(source, quiet, about=(READ_AS_NUMBERS, *ABOUT_FILES) if is_copied else ())
    if not is_copied and (note := note_of_numbering(source.info())):
        echo_note(note, quiet)
    if not quiet:
        echo(f"{counted(n_rows, 'row')} written to {output}", err=output == "-" or is_special(output))


def export_model(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model that llsvm train wrote.")],
    path: Annotated[str, typer.Argument(metavar="PATH", help="Where to write it; - is standard output.")],
    to: Annotated[
        str,
        typer.Option(
            metavar="|".join(EXPORTED),
            help="The format; onnx needs that package (pip install 'llsvm\\[onnx]').",
        ),
    ] = "liblinear",
) -> None:
    """Write MODEL in the format of another program."""
    from llsvm.export import export
    from llsvm.models.model import Model

    require_choice("--to", to, EXPORTED)
    check_output(path, [model], text=to == "liblinear")
    loaded = Model.load(model, with_log=False)
    export(loaded, path, to=cast(Any, to))
    if loaded.index_base == 0 and to == "liblinear":
        echo_note(
            f"{model} was trained on svmlight whose columns count from 0, and LIBLINEAR's count from 1: add 1 to "
            "the indices of the files that its model is to score"
        )
    if to == "onnx" and (documents := loaded.extra.get("text")):
        echo_note(
            f"{path}: of {', '.join(documents['columns'])} it takes the words of each row, not documents: "
            "llsvm guide losses says how to part them"
        )


def import_model(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A LIBLINEAR text model, of any of its solvers.")
    ],
    model: Annotated[str, typer.Option(metavar="PATH", help="Where to write the model.")],
) -> None:
    """Make a model of one that LIBLINEAR trained."""
    from llsvm.models.liblinear import read_liblinear

    check_model_output(model, [path])
    read_liblinear(path).save(model)
