"""``llsvm predict`` and ``llsvm evaluate``: what a model says of data, and how often it is right."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TextIO, cast

import typer

from llsvm.cli.declared import settings_of, takes, was_typed
from llsvm.cli.echo import echo
from llsvm.cli.options import Json, check_output
from llsvm.errors import UsageError
from llsvm.process.terminal import printable
from llsvm.settings.objective import CLASSIFICATION, UNLABELLED
from llsvm.settings.option import MOST_USED, OUTPUT

if TYPE_CHECKING:
    from llsvm.data.source import BlockSource
    from llsvm.models.model import Model
    from llsvm.scoring.figures import Evaluation
    from llsvm.scoring.scores import Columns
    from llsvm.settings.settings import Settings

ModelFile = Annotated[str, typer.Argument(metavar="MODEL", help="A model that llsvm train wrote.")]
Data = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA", help="As for train; rows of svmlight begin with a label, if only a dummy 0."
    ),
]

_CONFUSIONS = 10  # shown

# How data is read for scoring: as the model's training data was, but for these.
_ZERO_BASED = {"help": "Do svmlight column indices start at 0? auto: as in the file trained on."}
_scoring = takes(
    "memory_limit",
    "label",
    "format",
    "zero_based",
    zero_based=_ZERO_BASED,
)

_judging = takes(
    *("memory_limit", "label", "weight", "where", "missing_label", "format", "zero_based"),
    zero_based=_ZERO_BASED,
    weight={
        "help": "Column of weights, by which all figures count the rows.",
        "shown_default": "none, whatever the model was trained with",
    },
    missing_label={
        "help": "What to do with rows of tables whose label is missing, if the model does not know."
    },
)


@_scoring
def predict(
    context: typer.Context,
    model: ModelFile,
    data: Data,
    output: Annotated[
        str,
        typer.Option(
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
        str,
        typer.Option(
            metavar="A,B,C*",
            help="In a table: columns of DATA that come first, as they are: names, positions, patterns.",
            show_default="none",
            rich_help_panel=OUTPUT,
        ),
    ] = "",
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Instead of labels: what each feature adds to the score of the row's label (with --scores: to all "
            "scores), weight times value, a line each.",
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
    **chosen: Any,
) -> None:
    """Predict the label, or the number, of every row of DATA."""
    from llsvm.cli.display import say_notes
    from llsvm.scoring.prediction_tables import is_table_name

    settings = settings_of(chosen, context)
    kept = tuple(name.strip() for name in keep.split(",") if name.strip())
    table = not explain and is_table_name(output)
    _check_explain(explain, top, json, probabilities)
    _check_table(table, kept, scores and probabilities)
    if output != "-":
        check_output(output, [model, *data])
    loaded, source = _opened(model, data, settings, need_label=False, keep=kept)
    if probabilities:
        loaded.require_probabilities()  # before anything is opened for writing
    if explain:
        _explain(loaded, source, output, top, scores, json, settings)
    elif table:
        from llsvm.scoring.prediction_tables import Shown, write_table

        write_table(
            loaded, source, output, more=Shown(scores, probabilities), memory_limit=settings.memory_limit
        )
    else:
        from llsvm.scoring.scores import predict_file

        more: Columns = "scores" if scores else "probabilities" if probabilities else "none"
        with _writing(output) as out:
            predict_file(loaded, source, out, more=more, memory_limit=settings.memory_limit)
    say_notes(source)


def _explain(
    model: Model,
    source: BlockSource,
    output: str,
    top: int | None,
    all_scores: bool,
    json: bool,
    settings: Settings,
) -> None:
    from llsvm.scoring.explain import DEFAULT_TOP, explained, require_linear, write_json, write_table

    require_linear(model)
    rows = explained(
        model, source, top=top or DEFAULT_TOP, all_scores=all_scores, memory_limit=settings.memory_limit
    )
    with _writing(output) as out:
        if json:
            write_json(rows, out)
        else:
            write_table(rows, out, "," if output.lower().endswith(".csv") else "\t")


def _check_table(table: bool, kept: tuple[str, ...], both: bool) -> None:
    """Raise UsageError for what goes with a table of predictions alone. both: scores and probabilities are asked
    for."""
    remedy = "name an --output that ends in .csv, .tsv or .parquet"
    if kept and not table:
        raise UsageError(f"--keep goes with a table of predictions: {remedy}")
    if both and not table:
        raise UsageError(
            "--scores and --probabilities both ask for columns after the label: choose one, or " + remedy
        )


def _check_explain(explain: bool, top: int | None, json: bool, probabilities: bool) -> None:
    """Raise UsageError for what goes with --explain alone, or not with it."""
    for flag, given in (("--top", top is not None), ("--json", json)):
        if given and not explain:
            raise UsageError(f"{flag} goes with --explain: pass that, or leave {flag} out")
    if explain and probabilities:
        raise UsageError("--explain tells what scores are made of, not probabilities: leave one of them out")
    if top is not None and top < 1:
        raise UsageError(f"--top must be 1 or more, not {top}")


@_judging
def evaluate(
    context: typer.Context,
    model: ModelFile,
    data: Data,
    json: Json = False,
    thresholds: Annotated[
        int,
        typer.Option(
            metavar="INT",
            help="Of two classes: what thresholds of the score come to, for so many steps of recall.",
            show_default="none",
            rich_help_panel=OUTPUT,
        ),
    ] = 0,
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Draw the confusion matrix, and how reliable probabilities are: .png, .svg or .pdf (needs "
            "matplotlib).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    **chosen: Any,
) -> None:
    """Compare predictions with the labels in DATA."""
    from llsvm.cli.display import say_notes
    from llsvm.models.model_file import json_bytes
    from llsvm.scoring.measure import measure

    settings = settings_of(chosen, context)
    if was_typed(context, "thresholds") and thresholds < 1:
        raise UsageError(f"--thresholds must be 1 or more, not {thresholds}")
    if plot is not None:
        from llsvm.cli.plots import draw_evaluation, require_matplotlib

        require_matplotlib()
        check_output(plot, [model, *data])
    loaded, source = _opened(model, data, settings, need_label=True)
    if plot is not None and loaded.label_kind != CLASSIFICATION:
        raise UsageError("--plot draws the confusion of classes, and this model has none: leave --plot out")
    answer = measure(loaded, source, memory_limit=settings.memory_limit, as_json=json, thresholds=thresholds)
    say_notes(source)
    if plot is not None:
        draw_evaluation(cast("Evaluation", answer), plot)
    if json:
        typer.echo(json_bytes(answer).decode(), nl=False)
    else:
        print_evaluation(answer)


def _opened(
    model: str, data: list[str], settings: Settings, need_label: bool, keep: tuple[str, ...] = ()
) -> tuple[Model, BlockSource]:
    """Model and data, whose labels are needed where the model was trained on some; the model's size is held against
    the limit before it is loaded. keep: columns that come with the rows."""
    from llsvm.kernels.start import start_quickly
    from llsvm.models.model import Model
    from llsvm.predict import open_for_settings
    from llsvm.scoring.room import require_room

    require_room(model, settings.memory_limit)
    loaded = Model.load(model)
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


def print_evaluation(answer: Mapping[str, Any]) -> None:
    """An evaluation as tables on standard output."""
    if "r2" in answer:
        echo(f"R² {answer['r2']:.4f} over {_rows(answer)}")
        for name in ("mean_absolute_error", "mean_squared_error", "root_mean_squared_error"):
            echo(f"{name.replace('_', ' ')} {answer[name]:.6g}")
    elif "outliers" in answer:
        echo(f"{answer['outliers']:,} of {_rows(answer)} are outliers ({answer['outlier_share']:.4%})")
        if "labelled" in answer:
            echo(f"of the {answer['labelled']['rows']:,} rows with a label 1 or -1:")
            _print_classes(answer["labelled"])
    else:
        _print_classes(answer)


def _rows(answer: Mapping[str, Any]) -> str:
    weight = f" (figures by their weights, {answer['weight']:.6g} in all)" if "weight" in answer else ""
    return f"{answer['rows']:,} rows{weight}"


def _print_classes(answer: Mapping[str, Any]) -> None:
    from llsvm.cli.tables import print_table
    from llsvm.scoring.figures import most_confused

    echo(f"accuracy {answer['accuracy']:.4%}: {answer['correct']:,} of {_rows(answer)}")
    ranked = ""
    if "roc_auc" in answer:
        ranked = f", ROC AUC {answer['roc_auc']:.6g}, average precision {answer['average_precision']:.6g}"
    echo(
        f"balanced accuracy {answer['balanced_accuracy']:.4%}, Matthews' correlation "
        f"{answer['matthews_corrcoef']:.6g}{ranked}"
    )
    if "log_loss" in answer:
        echo(f"log loss {answer['log_loss']:.6g}, Brier score {answer['brier_score']:.6g}")
    if "threshold" in answer:
        from llsvm.calibration.threshold import describe

        echo(f"{answer['classes'][1]['label']} where the score is above {describe(answer['threshold'])}")
    names = ("label", "precision", "recall", "f1", "support", "predicted")
    print_table(names, [[each[name] for name in names] for each in map(dict, answer["classes"])])
    if "thresholds" in answer:
        names = tuple(answer["thresholds"][0])
        shown = [list(each.values()) for each in answer["thresholds"]]
        print_table((f"{answer['classes'][1]['label']} from the score", *names[1:]), shown)
    labels = answer["confusion"]["labels"]
    if len(labels) <= 10:
        counts = zip(labels, answer["confusion"]["counts"], strict=True)
        print_table(("true \\ predicted", *labels), [[label, *row] for label, row in counts])
    elif confusions := most_confused(answer["confusion"], _CONFUSIONS):
        print_table(("most confused: true", "predicted as", "rows"), [each[:3] for each in confusions])
    if answer["unknown_rows"]:
        seen = ", ".join(f"{label} ({count:,})" for label, count in answer["unknown_labels"].items())
        echo(f"{answer['unknown_rows']:,} rows have labels that the model does not know: {seen}")
