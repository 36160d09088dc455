"""``llsvm train``: a model from data, with progress on standard error and the outcome on standard output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from llsvm.cli.echo import echo
from llsvm.cli.nesvm import (
    Coef0,
    Components,
    Degree,
    FeatureMap,
    Gamma,
    Homotopy,
    Intercept,
    Kernel,
    Mu,
    MuEnd,
    Step,
    Stop,
)
from llsvm.cli.options import (
    Bias,
    Categorical,
    DataFormat,
    Exclude,
    Features,
    HashBits,
    Header,
    Json,
    Label,
    MemoryLimit,
    Missing,
    Positive,
    Quiet,
    Scale,
    Weight,
    bias_value,
    check_model_output,
    names,
    open_data,
)
from llsvm.errors import EXIT_CONVERGED, EXIT_NOT_CONVERGED, UsageError
from llsvm.process.signals import last_words
from llsvm.settings.settings import AUTO, Settings

if TYPE_CHECKING:
    from llsvm.data.source import BlockSource

_DEFAULT = Settings()


def train(
    data: Annotated[
        list[str], typer.Argument(metavar="DATA", help="Files, folders, patterns, addresses, or -.")
    ],
    model: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="Where to write the model. PATH.log.json beside it has the run's times and memory, which differ "
            "from run to run; predictions do not need it.",
        ),
    ],
    memory_limit: MemoryLimit = None,
    C: Annotated[
        float, typer.Option("-C", metavar="FLOAT", help="Penalty on the loss; larger fits closer.")
    ] = _DEFAULT.C,
    loss: Annotated[
        str,
        typer.Option(
            metavar="hinge|squared_hinge|least-squares", help="Loss; least-squares is nesvm's alone."
        ),
    ] = _DEFAULT.loss,
    multiclass: Annotated[
        str,
        typer.Option(
            metavar="ovr|ovo|crammer-singer|weston-watkins",
            help="More than two classes: each against the rest, each pair (which vote), or one joint problem.",
        ),
    ] = _DEFAULT.multiclass,
    solver: Annotated[
        str,
        typer.Option(
            metavar="auto|llsvm|smsvm|nesvm",
            help="Method; all reach the same certified optimum. auto: the cheaper one, by shape and a short trial.",
        ),
    ] = _DEFAULT.solver,
    penalty: Annotated[
        str,
        typer.Option(metavar="l2|l1|elasticnet", help="Penalty on the weights; l1 makes most of them zero."),
    ] = _DEFAULT.penalty,
    l1_ratio: Annotated[
        float, typer.Option(metavar="FLOAT", help="Share of l1 in elasticnet, between 0 and 1.")
    ] = _DEFAULT.l1_ratio,
    lambda1: Annotated[
        float | None,
        typer.Option(
            metavar="FLOAT", help="Instead of -C: factor of ‖w‖₁ beside the mean loss.", show_default="none"
        ),
    ] = None,
    lambda2: Annotated[
        float | None,
        typer.Option(
            metavar="FLOAT", help="Instead of -C: factor of ½‖w‖² beside the mean loss.", show_default="none"
        ),
    ] = None,
    tol: Annotated[
        float,
        typer.Option(metavar="FLOAT", help="Stop at this relative gap: 0.001 is within 0.1% of the optimum."),
    ] = _DEFAULT.tol,
    max_passes: Annotated[
        int,
        typer.Option(metavar="INT", help="Full passes over the data at most (2 at least); 0 for no limit."),
    ] = _DEFAULT.max_passes or 0,
    max_seconds: Annotated[
        float | None,
        typer.Option(
            metavar="FLOAT", help="Stop after the pass in which this time is over.", show_default="none"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="INT", help="Of every random choice.")] = _DEFAULT.seed,
    paper: Annotated[
        bool, typer.Option("--paper/--exact", help="The slides' algorithm as it is, or to the gap.")
    ] = _DEFAULT.paper,
    class_weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="balanced|LABEL=FACTOR", help="Multiplies C for a class; repeatable.", show_default="none"
        ),
    ] = None,
    bias: Bias = AUTO,
    threads: Annotated[
        int | None, typer.Option(metavar="INT", help="Processors to use.", show_default="all")
    ] = None,
    spill_dir: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="For temporary files.", show_default="$TMPDIR, else by the model"),
    ] = None,
    spill_format: Annotated[
        str, typer.Option(metavar="arrow|hdf5", help="Format of temporary files.")
    ] = _DEFAULT.spill_format,
    disk_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Limit on temporary files: 10GB.", show_default="none")
    ] = None,
    cache: Annotated[
        str, typer.Option(metavar="auto|always|never", help="Binary copy of the data for later passes.")
    ] = _DEFAULT.cache,
    zero_based: Annotated[
        str, typer.Option(metavar="auto|yes|no", help="Do svmlight column indices start at 0?")
    ] = _DEFAULT.zero_based,
    survivors: Annotated[
        float, typer.Option(metavar="FLOAT", help="Share of the rows kept between full passes, at most.")
    ] = _DEFAULT.survivors,
    scale: Scale = AUTO,
    intercept: Intercept = False,
    step: Step = _DEFAULT.step,
    mu: Mu = None,
    mu_end: MuEnd = _DEFAULT.mu_end,
    homotopy: Homotopy = _DEFAULT.homotopy,
    stop: Stop = _DEFAULT.stop,
    kernel: Kernel = None,
    gamma: Gamma = None,
    degree: Degree = _DEFAULT.degree,
    coef0: Coef0 = _DEFAULT.coef0,
    feature_map: FeatureMap = None,
    components: Components = _DEFAULT.components,
    format: DataFormat = None,
    label: Label = None,
    positive: Positive = None,
    features: Features = None,
    exclude: Exclude = None,
    weight: Weight = None,
    categorical: Categorical = None,
    header: Header = _DEFAULT.header,
    missing: Missing = _DEFAULT.missing,
    hash_bits: HashBits = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Train a model on data larger than memory."""
    settings = Settings(
        C=C,
        loss=loss,
        multiclass=multiclass,
        solver=solver,
        penalty=penalty,
        l1_ratio=l1_ratio,
        lambda1=lambda1,
        lambda2=lambda2,
        paper=paper,
        tol=tol,
        max_passes=max_passes or None,
        max_seconds=max_seconds,
        class_weight=parse_class_weight(class_weight or []),
        bias=bias_value(bias),
        seed=seed,
        threads=threads,
        memory_limit=memory_limit,
        disk_limit=disk_limit,
        spill_dir=spill_dir,
        spill_format=spill_format,
        cache=cache,
        zero_based=zero_based,
        survivors=survivors,
        scale=scale,
        intercept=intercept,
        step=step,
        mu=mu,
        mu_end=mu_end,
        homotopy=homotopy,
        stop=stop,
        kernel=kernel,
        gamma=gamma,
        degree=degree,
        coef0=coef0,
        feature_map=feature_map,
        components=components,
        format=format,
        label=label,
        positive=positive,
        features=names(features),
        exclude=names(exclude),
        weight=weight,
        categorical=names(categorical),
        header=header,
        missing=missing,
        hash_bits=hash_bits,
    )
    check_model_output(model, data)
    summary = run_training(open_data(data, settings), settings, model, quiet)
    if json:
        from llsvm.models.model_file import json_bytes

        typer.echo(json_bytes(summary).decode(), nl=False)
    elif not (quiet and summary["converged"]):
        echo(outcome(summary, settings))
        echo(f"model written to {model}")
    if summary["converged"]:
        return EXIT_CONVERGED
    echo(
        f"llsvm: not converged to the tolerance: {summary['advice']}; the model is written, and its gap says how "
        "far it may be off",
        err=True,
    )
    return EXIT_NOT_CONVERGED


def run_training(
    source: BlockSource, settings: Settings, model_path: str, quiet: bool, keep_so_far: bool = True
) -> dict[str, Any]:
    """Train, show progress, save the model, and return the summary (``Training.summary()``).

    keep_so_far: save it too when a signal ends the run, if a pass has been certified."""
    from llsvm.cli.display import say, showing
    from llsvm.kernels.start import start_quickly
    from llsvm.training.training import Training

    start_quickly()
    saved = False

    def what_became_of_it() -> str:
        if saved:
            return f", and the model is written to {model_path}"
        return training.save_so_far(model_path) if keep_so_far else ""

    with Training(source, settings, output=model_path) as training:
        say(training.defaults, quiet)
        with last_words(what_became_of_it):
            with showing(training.progress, settings, quiet) as show:
                for report in training:
                    show(report)
            training.model.save(model_path)
            saved = True
            return dict(training.summary())


def outcome(summary: dict[str, Any], settings: Settings) -> str:
    """A summary in plain words."""
    from llsvm.memory.sizes import format_size

    state = "converged" if summary["converged"] else "not converged"
    passes = f"{summary['passes']} pass" + ("" if summary["passes"] == 1 else "es")
    proof = "how far from the optimum was not measured"
    if summary["relative_gap"] is not None:
        proof = (
            f"objective {summary['primal']:.8g}; no weights whatever reach less than {summary['dual']:.8g}: "
            f"within {summary['relative_gap']:.3%} of the optimum (asked for {settings.tol:.3%})"
        )
    why = f" (solver {summary['solver']}: {summary['why']})" if summary.get("why") else ""
    spilled = f", {format_size(summary['bytes_spilled'])} spilled" if summary.get("bytes_spilled") else ""
    sparse = "" if settings.penalty == "l2" else f"{summary['nonzero_weights']:,} weights are not zero\n"
    return (
        f"{state} after {passes} and {summary['seconds']:.1f} s{why}\n{sparse}"
        f"{proof}\n"
        f"{summary['rows']:,} rows, {summary['features']:,} features, {len(summary['classes'])} classes; "
        f"{format_size(summary['bytes_read'])} read{spilled}, peak memory {format_size(summary['peak_rss_bytes'])}"
    )


def parse_class_weight(words: list[str]) -> str | dict[str, float] | None:
    """What ``--class-weight`` says: None, "balanced", or the factor of each label (as text)."""
    if not words:
        return None
    if words == ["balanced"]:
        return "balanced"
    factors: dict[str, float] = {}
    for word in words:
        label, equals, factor = word.rpartition("=")
        try:
            factors[label] = float(factor)
        except ValueError:
            equals = ""
        if not equals:
            raise UsageError(f"--class-weight {word}: write balanced (alone), or LABEL=FACTOR such as 1=2.5")
    return factors
