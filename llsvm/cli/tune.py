"""``llsvm tune`` and ``llsvm path``: many models in one command.

``tune`` chooses the C, loss, penalty and class weights that predict held-out rows best; ``path`` trains a model for
each of many λ₁."""

from __future__ import annotations

from dataclasses import replace
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
    settings_of,
    takes,
)
from llsvm.cli.output import cell_text, display, echo, echo_json, echo_note, echo_notes, print_table
from llsvm.errors import EXIT_CONVERGED, EXIT_NOT_CONVERGED, UsageError
from llsvm.process.signals import last_words
from llsvm.settings.objective import LOSSES, PENALTIES
from llsvm.settings.option import MOST_USED, OUTPUT


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
    from llsvm.kernels.start import start_quickly
    from llsvm.training.training import Training
    from llsvm.tune import open_question, tuning_settings
    from llsvm.tuning.search import Tuning

    objectives = tuning_settings(objectives_of_lists(options, context), group, time)
    settings = objectives[0]
    check_model_output(model, [*data, *([validation] if validation else [])])
    if plot is not None:
        from llsvm.cli.plots import check_picture, draw_search

        check_picture(plot)
        check_output(plot, [model, *data])
    asks: dict[str, Any] = {"C": costs, "folds": folds, "validation": validation, "holdout": holdout}
    asks |= {"score": score, "rule": rule, "probabilities": probabilities, "threshold": threshold}
    asks |= {"group": group, "time": time, "race": race}
    source, question = open_question(objectives, partial(open_data, data), **asks)
    start_quickly()
    with Training(source, settings, output=model, tunes=True) as training:
        echo_note(training.defaults, quiet)
        tuning = Tuning(training, question)
        with last_words(lambda: tuning.save_so_far(model)):
            with display(training.progress, settings, quiet) as show:
                tuning.run(show)
            tuning.model.save(model)
        answer, converged = tuning.as_dict(), tuning.converged
    echo_notes(source, quiet)
    if plot is not None:
        draw_search(answer, plot)
    if json:
        echo_json(answer)
    else:
        _print_search(answer, model, training.settings, quiet)
    if converged:
        return EXIT_CONVERGED
    advice = answer["advice"] or "candidates of large C may; see the gaps in the table"
    echo(f"llsvm: not converged to the tolerance: {advice}; the model is written", err=True)
    return EXIT_NOT_CONVERGED


def _print_search(answer: dict[str, Any], model: str, settings: Any, quiet: bool) -> None:
    """Print the table, and what the model is."""
    from llsvm.calibration.calibrators import describe
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


@takes(
    *("penalty", "lambda2", "tol", "memory_limit", "bias", "intercept", "scale", "threads", "spill_dir"),
    "max_seconds",
    *("loss", "epsilon", "quantile", "delta", "target_scale"),
    *READING,
    penalty={"default": "l1", "choices": ("l1", "elasticnet"), "help": "Penalty on the weights."},
    lambda2={"help": "Factor of ½‖w‖², with elasticnet."},
    tol={"help": "Relative gap of each model."},
    max_seconds={
        "help": "Once this time is over, for all models together, there is no other step: a last pass measures "
        "what there is."
    },
)
def path(
    context: typer.Context,
    data: Annotated[list[str], typer.Argument(metavar="DATA", help="Training data.")],
    lambda1: Annotated[
        list[float] | None,
        typer.Option(
            metavar="FLOAT",
            help="Factor of ‖w‖₁; repeatable.",
            show_default="spread by itself",
            rich_help_panel=MOST_USED,
        ),
    ] = None,
    points: Annotated[
        int,
        typer.Option(metavar="INT", help="How many λ₁, if none are given.", rich_help_panel=MOST_USED),
    ] = 20,
    validation: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Data to measure each model on: its accuracy, with --loss logistic log loss and Brier score too; "
            "of a regression R², mean absolute and squared error.",
            rich_help_panel=MOST_USED,
        ),
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Draw the path: path.png, path.svg, path.pdf.", rich_help_panel=OUTPUT
        ),
    ] = None,
    trace: Trace = None,
    json: Json = False,
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Train sparse models along a sequence of λ₁, each begun at the one before."""
    import numpy as np

    from llsvm.path import path as train_path
    from llsvm.path import plot as draw
    from llsvm.path import require_lambda1
    from llsvm.scoring import FIGURES
    from llsvm.scoring.measure import measure
    from llsvm.scoring.sources import open_validation
    from llsvm.settings.settings import said_of_defaults
    from llsvm.solvers.base import in_passes
    from llsvm.train import check_test

    require_lambda1(options["penalty"], options["lambda2"])
    settings = settings_of(options, context, solver="smsvm", lambda1=1.0)
    if points < 1:
        raise UsageError(f"--points must be at least 1, not {points}")
    for each in lambda1 or []:
        replace(settings, lambda1=each)  # refused before anything is read
    if plot is not None:
        from llsvm.cli.plots import check_picture

        check_output(plot, [*data, *([validation] if validation else [])])
        check_picture(plot)
    rows = []
    if validation is not None:
        check_test(validation, settings)
    training_data = open_data(data, settings)
    echo_note(said_of_defaults(settings, training_data.info().is_table), quiet)
    for point in train_path(training_data, settings, np.array(lambda1) if lambda1 else points, plot):
        if validation is not None:
            # as the model reads its data: the same columns, categories and numbering
            source = open_validation(point.model, validation, settings)
            answer = measure(point.model, source, memory_limit=settings.memory_limit)
            point = replace(point, figures={name: answer[name] for name in FIGURES if name in answer})
        rows.append(point)
        if not quiet:
            words = [f"λ₁ {point.lambda1:.4g}", f"{point.nonzero_weights} weights not zero"]
            words.append(in_passes(point.passes) + ("" if point.model.converged else ", not converged"))
            words += [f"{name.replace('_', ' ')} {value:.4g}" for name, value in point.figures.items()]
            echo(", ".join(words), err=True)
    echo_notes(training_data, quiet)
    left_out = (len(lambda1) if lambda1 else points) - len(rows)
    if left_out:
        n = f"{len(rows)} of {len(rows) + left_out} points are trained"
        over = f"llsvm: --max-seconds {settings.max_seconds:g} were over"
        echo(f"{over}: {n}; give it more time, or fewer points", err=True)
    _print_points([point.as_dict() for point in rows], left_out, json)
    if plot is not None:
        draw(rows, plot)
    done = not left_out and all(point.model.converged for point in rows)
    return EXIT_CONVERGED if done else EXIT_NOT_CONVERGED


def _print_points(rows: list[dict[str, Any]], left_out: int, json: bool) -> None:
    if json:
        echo_json({"points": rows, "left_out": left_out})
        return
    print_table(list(rows[0]), [[cell_text(value) for value in row.values()] for row in rows])
