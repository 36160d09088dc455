"""``llsvm convert``: data into another format."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from llsvm.cli.options import READING, Quiet, check_output, settings_of, takes
from llsvm.cli.output import echo
from llsvm.errors import counted
from llsvm.files.writing import is_special
from llsvm.settings.option import MOST_USED

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
    from llsvm.cli.display import say, say_notes
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
    say_notes(source, quiet, about=(READ_AS_NUMBERS, *ABOUT_FILES) if is_copied else ())
    if not is_copied and (note := note_of_numbering(source.info())):
        say(note, quiet)
    if not quiet:
        echo(f"{counted(n_rows, 'row')} written to {output}", err=output == "-" or is_special(output))
