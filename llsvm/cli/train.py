"""``llsvm train``: a model from data, with progress on standard error and the outcome on standard output."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llsvm.cli.options import (
    Json,
    Quiet,
    Trace,
    check_model_output,
    check_output,
    open_data,
    settings_of,
    takes,
)
from llsvm.cli.output import echo
from llsvm.errors import EXIT_CONVERGED, EXIT_NOT_CONVERGED, UsageError
from llsvm.process.signals import last_words
from llsvm.settings.option import MOST_USED, OUTPUT, RESOURCES
from llsvm.settings.settings import Settings

if TYPE_CHECKING:
    from llsvm.data.source import BlockSource

EVERY = "5m"  # between two states


@takes()
def train(
    context: typer.Context,
    data: Annotated[
        list[str], typer.Argument(metavar="DATA", help="Files, folders, patterns, addresses, or -.")
    ],
    model: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="Where to write the model. PATH.log.json beside it has the run's times and memory, which differ "
            "from run to run; predictions do not need it.",
            rich_help_panel=MOST_USED,
        ),
    ],
    state: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="A folder for the state of the run: the same command goes on from it, however it was stopped; "
            "with another -C, or with files more, changed or gone, it begins at what the run before came to.",
            show_default="none",
            rich_help_panel=RESOURCES,
        ),
    ] = None,
    checkpoint_every: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="With --state: at the end of a pass it is written where so much time is over, 300 or 5m; 0: after "
            "every pass.",
            rich_help_panel=RESOURCES,
        ),
    ] = EVERY,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="With --state: begin anew, whatever is there.", rich_help_panel=RESOURCES
        ),
    ] = False,
    keep_cache: Annotated[
        bool,
        typer.Option(
            "--keep-cache",
            help="With --state: keep binary copies of svmlight files, so that the next run need not parse them.",
            rich_help_panel=RESOURCES,
        ),
    ] = False,
    save_run: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write what is typed here as a file for llsvm run, and train.",
            show_default="none",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Labelled data, as for evaluate, on which the model is evaluated at the end; rows count by the "
            "column of --weight, where they have it.",
            show_default="none",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    trace: Trace = None,
    json: Json = False,
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Train a model on data larger than memory."""
    settings = settings_of(options, context)
    check_model_output(model, [*data, *([test] if test else [])])
    test_weight = None
    if test is not None:
        from llsvm.train import check_test

        test_weight = check_test(test, settings)
    if state is None and (fresh or keep_cache or checkpoint_every != EVERY):
        unused = "--fresh" if fresh else "--keep-cache" if keep_cache else "--checkpoint-every"
        raise UsageError(f"{unused} has no meaning here: pass --state with a folder, or leave it out")
    source = open_data(data, settings)
    if save_run is not None:
        from llsvm.cli.save_run import save_run as save

        check_output(save_run, [*data, model])
        save(context, save_run)
    summary = run_training(source, settings, model, quiet, state=(state, checkpoint_every, fresh, keep_cache))
    if not json and not (quiet and summary["converged"]):
        echo(outcome(summary, settings))
        echo(f"model written to {model}")
    if test is not None:
        from llsvm.models.model import Model
        from llsvm.train import evaluated_on

        summary["test"] = evaluated_on(Model.load(model, with_log=False), test, settings, test_weight)
    if json:
        from llsvm.models.model_file import json_bytes

        typer.echo(json_bytes(summary).decode(), nl=False)
    elif test is not None:
        from llsvm.cli.evaluate import print_evaluation

        echo(f"on {test}:")
        print_evaluation(summary["test"])
    if summary["converged"]:
        return EXIT_CONVERGED
    echo(
        f"llsvm: not converged to the tolerance: {summary['advice']}; the model is written, and its gap says how "
        "far it may be off",
        err=True,
    )
    return EXIT_NOT_CONVERGED


def run_training(
    source: BlockSource,
    settings: Settings,
    model_path: str,
    quiet: bool,
    keep_so_far: bool = True,
    state: tuple[str | None, str, bool, bool] = (None, EVERY, False, False),
) -> dict[str, Any]:
    """Train, show progress, save the model, and return the summary (``Training.summary()``).

    keep_so_far: save it too when a signal ends the run, if a pass has been certified.
    state: as ``llsvm.state.checkpoints.checkpoints_in`` takes it."""
    from llsvm.cli.display import say, showing
    from llsvm.kernels.start import start_quickly
    from llsvm.state.checkpoints import checkpoints_in
    from llsvm.training.training import Training

    start_quickly()
    saved = False

    def what_became_of_it() -> str:
        if saved:
            return f", and the model is written to {model_path}"
        return training.save_so_far(model_path) if keep_so_far else ""

    with (
        checkpoints_in(*state) as checkpoints,
        Training(source, settings, output=model_path, checkpoints=checkpoints) as training,
    ):
        say(training.defaults, quiet)
        with last_words(training.keep_state), last_words(what_became_of_it):
            with showing(training.progress, settings, quiet) as show:
                for report in training:
                    show(report)
            training.finish(model_path)
            saved = True
            return dict(training.summary())


def outcome(summary: dict[str, Any], settings: Settings) -> str:
    """Return a summary in plain words."""
    from llsvm.memory.sizes import format_size
    from llsvm.solvers.base import in_passes

    state = "converged" if summary["converged"] else "not converged"
    proof = "how far from the optimum was not measured"
    if summary["relative_gap"] is not None:
        places = max(3, math.ceil(-math.log10(settings.tol)) - 1)
        proof = (
            f"objective {summary['primal']:.8g}; no weights whatever reach less than {summary['dual']:.8g}: "
            f"within {summary['relative_gap']:.{places}%} of the optimum (asked for {settings.tol:.{places}%})"
        )
    why = f" (solver {summary['solver']}: {summary['why']})" if summary.get("why") else ""
    spilled = f", {format_size(summary['bytes_spilled'])} spilled" if summary.get("bytes_spilled") else ""
    if summary.get("kept_cache_bytes"):
        spilled += f", {format_size(summary['kept_cache_bytes'])} of copies kept"
    sparse = "" if settings.penalty == "l2" else f"{summary['nonzero_weights']:,} weights are not zero\n"
    if summary["pruned"] is not None:
        from llsvm.training.pruning import pruned_in_words

        before = summary["pruned"]["relative_gap_before"]
        sparse = f"{pruned_in_words(summary['pruned'])}\n"
        proof += (
            f"; this is of the pruned weights, whether it converged was judged before pruning: within "
            f"{before:.{places}%}"
        )
    return (
        f"{state} after {in_passes(summary['passes'])} and {summary['seconds']:.1f} s{why}\n{sparse}"
        f"{proof}\n{_left_out_in_words(summary['leave_one_out'])}"
        f"{summary['rows']:,} rows, {summary['features']:,} features{_labels_in_words(summary)}; "
        f"{format_size(summary['bytes_read'])} read{spilled}, peak memory {format_size(summary['peak_rss_bytes'])}"
    )


def _left_out_in_words(bound: dict[str, Any] | None) -> str:
    """Return what is known of models that were trained without one row each; "" where nothing is."""
    if bound is None:
        return ""
    return (
        f"leaving each row out: at most {bound['error']:.2%} would be wrong, with a recall of at least "
        f"{bound['recall']:.2%} and a precision of at least {bound['precision']:.2%} of the second class\n"
    )


def _labels_in_words(summary: dict[str, Any]) -> str:
    target = summary["target"]
    if target is not None:
        return f", targets from {target['smallest']:g} to {target['largest']:g}"
    return f", {len(summary['classes'])} classes" if summary["classes"] else ""
