"""``llsvm path``: models for many λ₁ in one command, shown and drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from llsvm.cli.options import READING, Json, Quiet, Trace, check_output, open_data, settings_of, takes
from llsvm.cli.output import cell_text, echo, print_table
from llsvm.errors import EXIT_CONVERGED, EXIT_NOT_CONVERGED, UsageError
from llsvm.settings.option import MOST_USED, OUTPUT


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

    from llsvm.cli.display import say, say_notes
    from llsvm.memory.process import default_threads
    from llsvm.path import path as train_path
    from llsvm.path import plot as draw
    from llsvm.scoring import FIGURES
    from llsvm.scoring.measure import measure
    from llsvm.scoring.opening import open_for
    from llsvm.settings.settings import said_of_defaults
    from llsvm.solvers.base import in_passes
    from llsvm.train import check_test

    if options["penalty"] == "l2":
        raise UsageError("a path over λ₁ needs --penalty l1 or elasticnet")
    if options["penalty"] == "elasticnet" and options["lambda2"] is None:
        raise UsageError("a path with --penalty elasticnet needs --lambda2")
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
    say(said_of_defaults(settings, training_data.info().is_table), quiet)
    for point in train_path(training_data, settings, np.array(lambda1) if lambda1 else points, plot):
        if validation is not None:
            # as the model reads its data: the same columns, categories and numbering
            source = open_for(
                point.model,
                validation,
                True,
                format=settings.format,
                threads=settings.threads or default_threads(),
            )
            answer = measure(point.model, source, memory_limit=settings.memory_limit)
            point = replace(point, figures={name: answer[name] for name in FIGURES if name in answer})
        rows.append(point)
        if not quiet:
            words = [f"λ₁ {point.lambda1:.4g}", f"{point.nonzero_weights} weights not zero"]
            words.append(in_passes(point.passes) + ("" if point.model.converged else ", not converged"))
            words += [f"{name.replace('_', ' ')} {value:.4g}" for name, value in point.figures.items()]
            echo(", ".join(words), err=True)
    say_notes(training_data, quiet)
    left_out = (len(lambda1) if lambda1 else points) - len(rows)
    if left_out:
        n = f"{len(rows)} of {len(rows) + left_out} points are trained"
        over = f"llsvm: --max-seconds {settings.max_seconds:g} were over"
        echo(f"{over}: {n}; give it more time, or fewer points", err=True)
    _show([point.as_dict() for point in rows], left_out, json)
    if plot is not None:
        draw(rows, plot)
    done = not left_out and all(point.model.converged for point in rows)
    return EXIT_CONVERGED if done else EXIT_NOT_CONVERGED


def _show(rows: list[dict[str, Any]], left_out: int, json: bool) -> None:
    if json:
        from llsvm.models.model_file import json_bytes

        typer.echo(json_bytes({"points": rows, "left_out": left_out}).decode(), nl=False)
        return
    print_table(list(rows[0]), [[cell_text(value) for value in row.values()] for row in rows])
