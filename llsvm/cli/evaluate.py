"""``llsvm evaluate``, ``llsvm verify`` and ``llsvm report``: how often a model is right, whether its certificate
holds when it is worked out again without any solver, and a page about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from llsvm.cli.options import Json, Quiet, check_output, settings_of, takes, was_typed
from llsvm.cli.output import echo, echo_json, echo_notes, print_table
from llsvm.cli.predict import ZERO_BASED, Data, ModelFile, open_model_and_data
from llsvm.errors import EXIT_CONVERGED, EXIT_REFUTED, UsageError
from llsvm.files.writing import STDOUT, is_special
from llsvm.settings.objective import CLASSIFICATION
from llsvm.settings.option import MOST_USED, OUTPUT
from llsvm.settings.settings import OPTIONS

if TYPE_CHECKING:
    from llsvm.scoring.figures import Evaluation


_CONFUSIONS = 10  # shown


# How labelled data are read, and what of that is declared otherwise than for train.
READ_BY = ("memory_limit", "label", "weight", "where", "missing_label", "format", "zero_based")
AS_JUDGED: dict[str, Mapping[str, Any]] = {
    "zero_based": ZERO_BASED,
    "weight": {
        "help": "Column of weights, by which all figures count the rows.",
        "shown_default": "none, whatever the model was trained with",
    },
    "missing_label": {
        "help": "What to do with rows of tables whose label is missing, if the model does not know."
    },
}


@takes(*READ_BY, **AS_JUDGED)
def evaluate(
    context: typer.Context,
    model: ModelFile,
    data: Data,
    json: Json = False,
    quiet: Quiet = False,
    thresholds: Annotated[
        int,
        typer.Option(
            metavar="INT",
            help="Of two classes: what thresholds of the score come to, for so many steps of recall.",
            show_default="none",
            rich_help_panel=OUTPUT,
        ),
    ] = 0,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="All figures of each group of rows, too: of those that have the same value in this column.",
            show_default="none",
            rich_help_panel=MOST_USED,
        ),
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="Draw the confusion matrix, and how reliable probabilities are: .png, .svg or .pdf (needs "
            "matplotlib).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    **options: Any,
) -> None:
    """Compare predictions with the labels in DATA."""
    from llsvm.predict import grouping
    from llsvm.scoring.measure import measure

    settings = settings_of(options, context)
    check_thresholds(thresholds, context)
    if plot is not None:
        from llsvm.cli.plots import draw_evaluation, require_matplotlib

        require_matplotlib()
        check_output(plot, [model, *data])
    loaded, source = open_model_and_data(model, data, settings, need_label=True, keep=grouping(by))
    if plot is not None and loaded.label_kind != CLASSIFICATION:
        raise UsageError("--plot draws the confusion of classes, and this model has none: leave --plot out")
    asked: dict[str, Any] = {"as_json": json, "thresholds": thresholds, "by": by}
    answer = measure(loaded, source, memory_limit=settings.memory_limit, **asked)
    echo_notes(source, quiet)
    if plot is not None:
        draw_evaluation(cast("Evaluation", answer), plot)
    if json:
        echo_json(answer)
    else:
        print_evaluation(answer)


def check_thresholds(thresholds: int, context: typer.Context) -> None:
    """Raise UsageError for a number of thresholds that is none."""
    if was_typed(context, "thresholds") and thresholds < 1:
        raise UsageError(f"--thresholds must be 1 or more, not {thresholds}")


def print_evaluation(answer: Mapping[str, Any]) -> None:
    """Print an evaluation as tables on standard output."""
    if "r2" in answer:
        echo(f"R² {answer['r2']:.4f} over {_rows(answer)}")
        for name in ("mean_absolute_error", "mean_squared_error", "root_mean_squared_error"):
            echo(f"{name.replace('_', ' ')} {answer[name]:.6g}")
        if "coverage" in answer:
            echo(f"pinball loss {answer['pinball_loss']:.6g}")
            echo(f"coverage {answer['coverage']:.4%} (rows whose number is at most the predicted one)")
    elif "outliers" in answer:
        echo(f"{answer['outliers']:,} of {_rows(answer)} are outliers ({answer['outlier_share']:.4%})")
        if "labelled" in answer:
            echo(f"of the {answer['labelled']['rows']:,} rows with a label 1 or -1:")
            _print_classes(answer["labelled"])
    else:
        _print_classes(answer)
    if "groups" in answer:
        _print_groups(answer)


def _rows(answer: Mapping[str, Any]) -> str:
    weight = f" (figures by their weights, {answer['weight']:.6g} in all)" if "weight" in answer else ""
    return f"{answer['rows']:,} rows{weight}"


def _print_classes(answer: Mapping[str, Any]) -> None:
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
        from llsvm.calibration.calibrators import describe

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


_OF_GROUPS = {
    "accuracy": "accuracy",
    "macro_f1": "macro F1",
    "balanced_accuracy": "balanced",
    "matthews_corrcoef": "MCC",
    "roc_auc": "ROC AUC",
    "average_precision": "avg. prec.",
    "log_loss": "log loss",
    "brier_score": "Brier",
    "r2": "R²",
    "mean_absolute_error": "mean absolute error",
    "mean_squared_error": "mean squared error",
    "root_mean_squared_error": "root mean squared error",
    "pinball_loss": "pinball loss",
    "coverage": "coverage",
    "outliers": "outliers",
    "outlier_share": "share of outliers",
}
_OF_ONE_CLASS = ("precision", "recall", "f1")


def _print_groups(answer: Mapping[str, Any]) -> None:
    """Print a row per group with the figures that any of them has; for two classes also the second's own."""
    groups = [_flat(each) for each in answer["groups"]]
    there = {name for each in groups for name in each}
    shown = {"rows": "rows", "weight": "weight", **_OF_GROUPS}
    if "classes" in answer and len(answer["classes"]) == 2:
        label = answer["classes"][1]["label"]
        shown |= {name: f"{name} of {label}" for name in _OF_ONE_CLASS}
        del shown["macro_f1"]  # the line would be too long
    names = [name for name in shown if name in there]
    rows = [
        [
            "(missing)" if each["group"] is None else each["group"],
            *(_digits(each.get(name)) for name in names),
        ]
        for each in groups
    ]
    print_table((answer["by"], *(shown[name] for name in names)), rows)


def _digits(value: Any) -> Any:
    """Return a float with four digits, since many figures share a line; --json has all digits."""
    return f"{value:.4g}" if isinstance(value, float) else value


def _flat(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group's figures without the tables among them, and those of the second class."""
    of_second = {name: group["classes"][1][name] for name in _OF_ONE_CLASS} if "classes" in group else {}
    return {**group, **of_second}


TrainingData = Annotated[
    list[str], typer.Argument(metavar="DATA", help="What it was trained on, as for train.")
]

State = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="The state that it was trained with (train --state): the dual is worked out again too.",
        show_default="none",
    ),
]

_PROBLEMS_SHOWN = 10  # problems


@takes("memory_limit", "threads", "label", "format", "spill_dir")
def verify(
    context: typer.Context,
    model: ModelFile,
    data: TrainingData,
    state: State = None,
    json: Json = False,
    **options: Any,
) -> int:
    """Work out again what a model's certificate says, over the DATA it was trained on: exit code 7 if it does not
    hold."""
    from llsvm.kernels.start import start_quickly
    from llsvm.verify import verify_with

    given = settings_of(options, context)
    start_quickly()
    answer = verify_with(model, data, None, None, given, state)
    if json:
        echo_json(answer)
    else:
        print_verified(answer)
    return EXIT_CONVERGED if answer["holds"] else EXIT_REFUTED


def print_verified(answer: dict[str, Any]) -> None:
    """Print each figure beside what the model says, as a table; then what differs."""
    rows: list[list[Any]] = []
    if answer["primal"] is not None:
        rows.append(["primal", _exact(answer["primal"]), _exact(answer["claimed_primal"])])
        for each in answer["problems"][:_PROBLEMS_SHOWN] if len(answer["problems"]) > 1 else []:
            rows.append([f"  {each['name']}", _exact(each["primal"]), _exact(each["claimed_primal"])])
        dual = None if answer["dual"] is None else _exact(answer["dual"])
        rows.append(["dual", dual, _exact(answer["claimed_dual"])])
        rows.append(["relative gap", answer["relative_gap"], answer["claimed_gap"]])
        print_table((f"over {answer['rows']:,} rows", "found", "the model says"), rows)
    for each in answer["differences"]:
        echo(f"differs: {each}")
    outcome = "holds" if answer["holds"] else "does not hold"
    echo(": ".join(filter(None, [outcome, answer["not_checked"]])))


def _exact(value: float) -> str:
    return f"{value:.12g}"


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
    from llsvm.report import report_with

    settings = settings_of(options, context)
    if data is None:
        for name in READ_BY:
            if name in options and name != "memory_limit" and was_typed(context, name):
                raise UsageError(
                    f"{OPTIONS[name].flag} says how data are read: pass --data too, or leave it out"
                )
    check_output(output, [model, *(data or []), *([compare] if compare else [])], text=True)
    start_quickly()
    report_with(model, data, None, settings, output, compare)
    if output != STDOUT and not is_special(output) and not quiet:
        echo(f"page written to {output}")
