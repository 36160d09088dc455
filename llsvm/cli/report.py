"""``llsvm report``: a page about a model, to be read in a browser."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from llsvm.cli.evaluate import AS_JUDGED, READ_BY
from llsvm.cli.options import Quiet, check_output, settings_of, takes, was_typed
from llsvm.cli.output import echo
from llsvm.cli.predict import ModelFile
from llsvm.errors import UsageError
from llsvm.files.writing import STDOUT, is_special
from llsvm.settings.option import MOST_USED
from llsvm.settings.settings import OPTIONS


@takes(*READ_BY, "threads", **AS_JUDGED)
def report(
    context: typer.Context,
    model: ModelFile,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Data with labels, as for evaluate, whose figures the page has too; repeatable.",
            show_default="none",
            rich_help_panel=MOST_USED,
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Where to write the page; - is standard output.",
            rich_help_panel=MOST_USED,
        ),
    ] = "report.html",
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Another model, shown beside it: last night's, say.",
            show_default="none",
            rich_help_panel=MOST_USED,
        ),
    ] = None,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Write a page about MODEL: one HTML file, with its certificate, its training, its weights and its figures."""
    from llsvm.kernels.start import start_quickly
    from llsvm.report import reported

    settings = settings_of(options, context)
    if data is None:
        for name in READ_BY:
            if name in options and name != "memory_limit" and was_typed(context, name):
                raise UsageError(
                    f"{OPTIONS[name].flag} says how data are read: pass --data too, or leave it out"
                )
    check_output(output, [model, *(data or []), *([compare] if compare else [])], text=True)
    start_quickly()
    reported(model, data, None, settings, output, compare)
    if output != STDOUT and not is_special(output) and not quiet:
        echo(f"page written to {output}")
