"""``llsvm predict``: what a model says of data."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TextIO, cast

import typer

from llsvm.cli.options import Quiet, check_output, names_in, settings_of, takes
from llsvm.cli.output import echo_notes
from llsvm.errors import UsageError
from llsvm.process import printable
from llsvm.settings.objective import UNLABELLED
from llsvm.settings.option import MOST_USED, OUTPUT

if TYPE_CHECKING:
    from llsvm.data.source import BlockSource
    from llsvm.features.table_options import KeptColumns
    from llsvm.models.model import Model
    from llsvm.scoring.predictions import Columns
    from llsvm.settings.settings import Settings

ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="A model that llsvm train wrote.")]
Data = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA", help="As for train; rows of svmlight begin with a label, if only a dummy 0."
    ),
]

# How data is read for scoring: as the model's training data was, but for these.
ZERO_BASED = {"help": "Do svmlight column indices start at 0? auto: as in the file trained on."}
_scoring = takes(
    "memory_limit",
    "label",
    "format",
    "zero_based",
    zero_based=ZERO_BASED,
)


@_scoring
def predict(
    context: typer.Context,
    model: ModelFile,
    data: Data,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Where to write, a line per row; - is standard output. A name in .csv, .tsv (.gz too) or "
            ".parquet: a table, with a header.",
            rich_help_panel=MOST_USED,
        ),
    ] = "-",
    scores: Annotated[
        bool,
        typer.Option(
            "--scores",
            help="After the label, tab separated, or in a table in columns: the score (two classes: positive means "
            "the larger label), or one score per class in ascending order; in a table the threshold, too.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities",
            help="After the label, or the scores: the probability of each class in ascending order (of loss "
            "logistic, or learned by tune --probabilities).",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,C*",
            help="In a table: columns of DATA that come first, as they are: names, positions, patterns.",
            show_default="none",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Instead of labels: what each feature adds to the score of the row's label (with --scores: to all "
            "scores), numbers from the mean of their column on, a line each.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    top: Annotated[
        int | None,
        typer.Option(
            "--top",
            metavar="INT",
            help="With --explain: so many features, the strongest; of the others their sum.",
            show_default="10",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="With --explain: a JSON object for each row.", rich_help_panel=OUTPUT),
    ] = False,
    quiet: Quiet = False,
    **options: Any,
) -> None:
    """Predict the label, or the number, of every row of DATA."""
    from llsvm.features.table_options import KeptColumns

    settings = settings_of(options, context)
    columns, table = checked_answer(context.params)
    if output != "-":
        check_output(output, [model, *data])
    loaded, source = open_model_and_data(model, data, settings, need_label=False, keep=KeptColumns(columns))
    if probabilities:
        loaded.require_probabilities()  # before anything is opened for writing
    if explain:
        _explain(loaded, source, output, top, scores, json, settings)
    elif table:
        from llsvm.scoring.predictions import Shown, write_table

        write_table(
            loaded, source, output, more=Shown(scores, probabilities), memory_limit=settings.memory_limit
        )
    else:
        from llsvm.scoring.predictions import predict_file

        more: Columns = "scores" if scores else "probabilities" if probabilities else "none"
        with _writing(output) as out:
            predict_file(loaded, source, out, more=more, memory_limit=settings.memory_limit)
    echo_notes(source, quiet)


def _explain(
    model: Model,
    source: BlockSource,
    output: str,
    top: int | None,
    all_scores: bool,
    json: bool,
    settings: Settings,
) -> None:
    from llsvm.scoring.explain import DEFAULT_TOP, explain_rows, require_linear, write_json, write_table

    require_linear(model)
    rows = explain_rows(
        model, source, top=top or DEFAULT_TOP, all_scores=all_scores, memory_limit=settings.memory_limit
    )
    with _writing(output) as out:
        if json:
            write_json(rows, out)
        else:
            write_table(rows, out, "," if output.lower().endswith(".csv") else "\t")


def checked_answer(given: Mapping[str, Any]) -> tuple[tuple[str, ...], bool]:
    """Return the columns that are handed on, and whether a table is written. given: the command's parameters.
    Raises UsageError for those on the answer that do not go together."""
    from llsvm.scoring.predictions import is_table_name, require_lines_name

    explain, json, output = given["explain"], given["json"], given["output"]
    columns = names_in(",".join(given["keep"] or ()))
    table = not explain and is_table_name(output)
    _check_explain(explain, given["top"], json, given["probabilities"], columns)
    _check_table(table, columns, given["scores"] and given["probabilities"])
    if not table:
        require_lines_name(output, json)
    return columns, table


def _check_table(table: bool, columns: tuple[str, ...], both: bool) -> None:
    """Raise UsageError for what goes with a table of predictions alone. both: scores and probabilities are asked
    for."""
    remedy = "name an --output that ends in .csv, .tsv or .parquet"
    if columns and not table:
        raise UsageError(f"--keep goes with a table of predictions: {remedy}")
    if both and not table:
        raise UsageError(
            "--scores and --probabilities both ask for columns after the label: choose one, or " + remedy
        )


def _check_explain(
    explain: bool, top: int | None, json: bool, probabilities: bool, columns: tuple[str, ...]
) -> None:
    """Raise UsageError for what goes with --explain alone, or not with it."""
    for flag, given in (("--top", top is not None), ("--json", json)):
        if given and not explain:
            raise UsageError(f"{flag} goes with --explain: pass that, or leave {flag} out")
    if explain and probabilities:
        raise UsageError("--explain tells what scores are made of, not probabilities: leave one of them out")
    if explain and columns:
        raise UsageError("--keep goes with a table of predictions, not with --explain: leave one of them out")
    if top is not None and top < 1:
        raise UsageError(f"--top must be 1 or more, not {top}")


def open_model_and_data(
    model: str, data: list[str], settings: Settings, need_label: bool, keep: KeptColumns
) -> tuple[Model, BlockSource]:
    """Return the model, whose size is held against the limit before it is loaded, and the data, whose labels are
    needed where the model was trained on labels."""
    from llsvm.kernels.start import start_quickly
    from llsvm.predict import open_for_settings
    from llsvm.scoring.room import load_model

    loaded = load_model(model, settings.memory_limit)
    start_quickly()
    needed = need_label and loaded.label_kind != UNLABELLED
    return loaded, open_for_settings(loaded, data, settings, needed, keep)


class _Terminal:
    """A terminal, with labels of strangers made harmless; files and pipes get them as they are."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(printable(text, keep="\n\t"))

    def flush(self) -> None:
        self._stream.flush()


@contextmanager
def _writing(output: str) -> Iterator[TextIO]:
    if output == "-":
        if sys.stdout is None:
            raise UsageError("standard output is closed; pass --output PATH")
        yield cast(TextIO, _Terminal(sys.stdout)) if sys.stdout.isatty() else sys.stdout
        return
    from llsvm.files.writing import replacing

    with replacing(output) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        yield text
        text.flush()
        text.detach()
