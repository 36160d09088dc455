"""``llsvm tune``: the C that predicts held-out rows best, and the model of it."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from llsvm.cli.declared import READING, settings_of, takes
from llsvm.cli.echo import echo
from llsvm.cli.options import Json, Quiet, check_model_output, check_output, open_data
from llsvm.errors import EXIT_CONVERGED, EXIT_NOT_CONVERGED
from llsvm.process.signals import last_words
from llsvm.settings.option import MOST_USED


@takes(
    *("memory_limit", "label", "scale", "class_weight", "multiclass", "tol", "max_passes", "threads"),
    *("target_scale", "bias", "loss", "epsilon", "quantile", "delta", "seed", "disk_limit", "spill_dir"),
    *READING,
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
            metavar="accuracy|balanced_accuracy|roc_auc|average_precision|f1|log_loss|r2|mae|mse",
            help="What the best C is the best by.",
            show_default="accuracy; of a regression r2",
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
    json: Json = False,
    quiet: Quiet = False,
    **chosen: Any,
) -> int:
    """Choose C on held-out rows, all candidates in the same passes, and train."""
    from llsvm.cli.display import say, say_notes, showing
    from llsvm.kernels.start import start_quickly
    from llsvm.training.training import Training
    from llsvm.tune import asked, tuning_settings
    from llsvm.tuning.run import Tuning

    settings = tuning_settings(settings_of(chosen, context), group, time)
    check_model_output(model, [*data, *([validation] if validation else [])])
    if plot is not None:
        from llsvm.cli.plots import check_picture, draw_search

        check_picture(plot)
        check_output(plot, [model, *data])
    source = open_data(data, settings)
    again = partial(open_data, data)
    learn = probabilities, threshold, group, time
    question = asked(settings, costs, folds, validation, holdout, score, rule, source, again, *learn)
    start_quickly()
    with Training(source, settings, output=model) as training:
        say(training.defaults, quiet)
        tuning = Tuning(training, question)
        with last_words(lambda: training.save_so_far(model)):
            with showing(training.progress, settings, quiet) as show:
                tuning.run(show)
            tuning.model.save(model)
        found, converged = tuning.as_dict(), tuning.converged
    say_notes(source, quiet)
    if plot is not None:
        draw_search(found, plot)
    if json:
        from llsvm.models.model_file import json_bytes

        typer.echo(json_bytes(found).decode(), nl=False)
    else:
        _show(found, model, settings, quiet)
    if converged:
        return EXIT_CONVERGED
    advice = found["advice"] or "candidates of large C may; see the gaps in the table"
    echo(f"llsvm: not converged to the tolerance: {advice}; the model is written", err=True)
    return EXIT_NOT_CONVERGED


def _show(found: dict[str, Any], model: str, settings: Any, quiet: bool) -> None:
    """The table, and what the model is."""
    from llsvm.calibration.threshold import describe
    from llsvm.cli.tables import print_table
    from llsvm.cli.train import outcome
    from llsvm.solvers.report import in_passes

    names = ["C", found["score"], "spread", "gap", ""]
    rows = []
    for row in found["table"]:
        mark = "chosen" if row["C"] == found["best_C"] else ""
        rows.append([row["C"], row["mean"], row["spread"], f"{row['relative_gap']:.2%}", mark])
    print_table(names, rows)
    if quiet:
        return
    at_once = f"{found['at_once']} at once" if found["batches"] > 1 else "all at once"
    echo(f"{found['candidates']} candidates, {at_once}, in {in_passes(found['search_passes'])}")
    echo(f"C = {found['best_C']:g}, trained on all rows: {outcome(found, settings)}")
    if found["probabilities"] is not None:
        echo(f"probabilities by the scores of held-out rows: {found['probabilities']}")
    if found["threshold"] is not None:
        echo(f"threshold {describe(found['threshold'])}")
    echo(f"model written to {model}")
