"""``llsvm tune``: the C, loss, penalty and class weights that predict held-out rows best, and the model of them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from llsvm.cli.options import (
    READING,
    Json,
    Quiet,
    Trace,
    check_model_output,
    check_output,
    objectives_of_lists,
    open_data,
    takes,
)
from llsvm.cli.output import echo, print_table
from llsvm.errors import EXIT_CONVERGED, EXIT_NOT_CONVERGED
from llsvm.process.signals import last_words
from llsvm.settings.objective import LOSSES, PENALTIES
from llsvm.settings.option import MOST_USED


@takes(
    *("memory_limit", "label", "scale", "class_weight", "multiclass", "tol", "max_passes", "threads"),
    *("target_scale", "bias", "loss", "epsilon", "quantile", "delta", "penalty", "l1_ratio", "seed"),
    *("disk_limit", "spill_dir", *READING),
    loss={
        "metavar": "LIST",
        "help": f"Losses to choose from: hinge,logistic; of {', '.join(LOSSES[:-1])}.",
    },
    penalty={"metavar": "LIST", "help": f"Penalties to choose from; of {', '.join(PENALTIES)}."},
    l1_ratio={"metavar": "LIST", "help": "Shares of l1 in elasticnet to choose from: 0.1,0.5."},
    class_weight={
        "metavar": "none|balanced|LABEL=FACTOR...",
        "help": "Multiplies C for a class: balanced, or a factor for each label; none,balanced tries both.",
    },
    tol={"help": "Relative gap of each candidate, and of the model."},
    seed={"help": "Of the folds, and of the order of rows in training."},
)
def tune(
    context: typer.Context,
    data: Annotated[
        list[str], typer.Argument(metavar="DATA", help="Files, folders, patterns, addresses, or -.")
    ],
    model: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="Where to write the model of the chosen C, trained on all rows.",
            rich_help_panel=MOST_USED,
        ),
    ],
    costs: Annotated[
        str,
        typer.Option(
            "--C",
            "-C",
            metavar="LIST",
            help="The C's to choose from: 0.1,1,10, or a range of seven on a log scale.",
            rich_help_panel=MOST_USED,
        ),
    ] = "0.001..1000",
    folds: Annotated[
        int | None,
        typer.Option(
            metavar="INT",
            help="Parts of the rows, each held out in turn; the same for the same --seed.",
            show_default="5",
            rich_help_panel=MOST_USED,
        ),
    ] = None,
    validation: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Other data to score candidates on.", rich_help_panel=MOST_USED),
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(
            metavar="FLOAT",
            help="Share of the rows to score candidates on, held out once.",
            rich_help_panel=MOST_USED,
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            metavar="accuracy|balanced_accuracy|roc_auc|average_precision|f1|log_loss|r2|mae|mse|pinball",
            help="What the best C is the best by.",
            show_default="accuracy; of a regression by its loss: mae, r2 or pinball",
            rich_help_panel=MOST_USED,
        ),
    ] = None,
    rule: Annotated[
        str,
        typer.Option(
            metavar="best|1se",
            help="The C of the best mean score, or the smallest within a standard error of it.",
            rich_help_panel=MOST_USED,
        ),
    ] = "best",
    race: Annotated[
        bool,
        typer.Option(
            "--race",
            help="Drop candidates after the folds that show that they cannot be the best.",
            rich_help_panel=MOST_USED,
        ),
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Keep rows of the same value in the same fold; the column is no feature.",
            rich_help_panel=MOST_USED,
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Train each fold on the rows before it in this column; which is no feature.",
            rich_help_panel=MOST_USED,
        ),
    ] = None,
    probabilities: Annotated[
        str | None,
        typer.Option(
            metavar="platt|isotonic|temperature",
            help="Learn from held-out rows what scores stand for, for predict --probabilities; weighted where rows "
            "are.",
            rich_help_panel=MOST_USED,
        ),
    ] = None,
    threshold: Annotated[
        str | None,
        typer.Option(
            metavar="precision=0.9|recall=0.9|f1|cost=FP:FN",
            help="Choose, on held-out rows, the score above which a row is of the second of two classes.",
            rich_help_panel=MOST_USED,
        ),
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Draw score against C, with its spread over the folds: .png, .svg or .pdf (needs matplotlib).",
        ),
    ] = None,
    trace: Trace = None,
    json: Json = False,
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Choose C, and the loss, penalty and class weights, on held-out rows, and train."""
    from llsvm.cli.display import say, say_notes, showing
    from llsvm.kernels.start import start_quickly
    from llsvm.training.training import Training
    from llsvm.tune import asked, naming_columns, tuning_settings
    from llsvm.tuning.run import Tuning

    objectives = tuning_settings(objectives_of_lists(options, context), group, time)
    settings = objectives[0]
    check_model_output(model, [*data, *([validation] if validation else [])])
    if plot is not None:
        from llsvm.cli.plots import check_picture, draw_search

        check_picture(plot)
        check_output(plot, [model, *data])
    with naming_columns(group, time):
        source = open_data(data, settings)
    again = partial(open_data, data)
    learn = probabilities, threshold, group, time, race
    question = asked(objectives, costs, folds, validation, holdout, score, rule, source, again, *learn)
    start_quickly()
    with Training(source, settings, output=model, tunes=True) as training:
        say(training.defaults, quiet)
        tuning = Tuning(training, question)
        with last_words(lambda: tuning.save_so_far(model)):
            with showing(training.progress, settings, quiet) as show:
                tuning.run(show)
            tuning.model.save(model)
        answer, converged = tuning.as_dict(), tuning.converged
    say_notes(source, quiet)
    if plot is not None:
        draw_search(answer, plot)
    if json:
        from llsvm.models.model_file import json_bytes

        typer.echo(json_bytes(answer).decode(), nl=False)
    else:
        _show(answer, model, training.settings, quiet)
    if converged:
        return EXIT_CONVERGED
    advice = answer["advice"] or "candidates of large C may; see the gaps in the table"
    echo(f"llsvm: not converged to the tolerance: {advice}; the model is written", err=True)
    return EXIT_NOT_CONVERGED


def _show(answer: dict[str, Any], model: str, settings: Any, quiet: bool) -> None:
    """Print the table, and what the model is."""
    from llsvm.calibration.threshold import describe
    from llsvm.cli.train import outcome
    from llsvm.tuning.grid import said_of, told_apart

    apart = told_apart(answer["table"])
    folds = max(len(row["scores"]) for row in answer["table"])
    rows = []
    for row in answer["table"]:
        mark = "chosen" if all(row[name] == value for name, value in answer["best"].items()) else ""
        if row["dropped"]:
            mark = f"dropped after {len(row['scores'])} of {folds} folds"
        values = [said_of("", row[name]).strip() for name in apart]
        rows.append([*values, row["C"], row["mean"], row["spread"], f"{row['relative_gap']:.2%}", mark])
    print_table(
        [*(name.replace("_", " ") for name in apart), "C", answer["score"], "spread", "gap", ""], rows
    )
    if quiet:
        return
    for line in _searches(answer):
        echo(line)
    best = ", ".join([*(said_of(name, answer["best"][name]) for name in apart), f"C = {answer['best_C']:g}"])
    echo(f"{best}, trained on all rows: {outcome(answer, settings)}")
    if answer["probabilities"] is not None:
        echo(f"probabilities by the scores of held-out rows: {answer['probabilities']}")
    if answer["threshold"] is not None:
        echo(f"threshold {describe(answer['threshold'])}")
    echo(f"model written to {model}")


def _searches(answer: dict[str, Any]) -> list[str]:
    """Return what tuning took: a line for all, and where there are several, for each loss and penalty."""
    from llsvm.solvers.base import in_passes

    passes = in_passes(answer["search_passes"])
    if len(answer["searches"]) == 1:
        return [f"{answer['candidates']} candidates, {_concurrency(answer['searches'][0])}, in {passes}"]
    lines = [f"{answer['candidates']} candidates, in {passes}:"]
    for part in answer["searches"]:
        name = part["loss"] if part["penalty"] == "l2" else f"{part['loss']} with {part['penalty']}"
        lines.append(
            f"  {name}: {part['candidates']} by solver {part['solver']}, {_concurrency(part)}, in "
            f"{in_passes(part['passes'])}"
        )
    return lines


def _concurrency(part: dict[str, Any]) -> str:
    if part["solver"] != "llsvm":
        return "one after the other"
    return f"{part['at_once']} at once" if part["batches"] > 1 else "all at once"
