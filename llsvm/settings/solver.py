"""Options: which method, how long, what one method alone looks at; memory, disk and processors."""

from __future__ import annotations

from dataclasses import dataclass

from llsvm.settings.option import OF_LLSVM, OF_NESVM, POSITIVE, RESOURCES, SOLVER, Rule, option

SOLVERS = ("llsvm", "smsvm", "nesvm", "smo", "auto")


@dataclass(frozen=True)
class SolverOptions:
    solver: str = option(
        "auto",
        SOLVER,
        "Method; all reach the same certified optimum. auto: the cheaper one, by shape and a short trial.",
        choices=SOLVERS,
    )
    tol: float = option(
        1e-3,
        SOLVER,
        "Stop at this relative gap: 0.001 is within 0.1% of the optimum.",
        rule=POSITIVE,
        metavar="FLOAT",
    )
    max_passes: int | None = option(
        200,
        SOLVER,
        "Full passes over the data at most (2 at least: one trains, one measures); 0 for no limit.",
        rule=Rule("0 (no limit) or a positive number", lambda passes: passes >= 0),
        metavar="INT",
    )
    max_seconds: float | None = option(
        None,
        SOLVER,
        "Once this time is over there is no other step: a last pass measures what there is.",
        rule=POSITIVE,
        metavar="FLOAT",
        shown_default="none",
    )
    prune: float | None = option(
        None,
        SOLVER,
        "Afterwards, weights whose absolute value is below this become zero, 0.01 say: of columns as they were "
        "scaled; a last pass measures the objective and the gap of what is left.",
        rule=POSITIVE,
        metavar="FLOAT",
        shown_default="none",
    )
    seed: int = option(
        0,
        SOLVER,
        "Of every random choice.",
        rule=Rule("0 or a positive number", lambda seed: seed >= 0),
        metavar="INT",
    )
    paper: bool = option(
        False,
        OF_LLSVM,
        "The slides' algorithm as it is, or to the gap.",
        flags=("--paper/--exact",),
        methods=("llsvm",),
    )
    step: str = option(
        "auto",
        OF_NESVM,
        "Searched in each pass, or the paper's Lipschitz constant.",
        choices=("auto", "paper"),
        methods=("nesvm",),
    )
    mu: float | None = option(
        None,
        OF_NESVM,
        "The first smoothing parameter.",
        rule=POSITIVE,
        metavar="FLOAT",
        shown_default="5",
        methods=("nesvm", "kernel"),
    )
    mu_end: float = option(
        0.01,
        OF_NESVM,
        "With --stop change: smoothing at which it may stop.",
        rule=POSITIVE,
        metavar="FLOAT",
    )
    homotopy: bool = option(
        True,
        OF_NESVM,
        "Let the smoothing parameter fall.",
        flags=("--homotopy/--no-homotopy",),
        methods=("nesvm", "kernel"),
    )
    stop: str = option(
        "gap",
        OF_NESVM,
        "Stop by the gap, or when the objective changes by less than --tol.",
        choices=("gap", "change"),
        methods=("nesvm",),
    )


@dataclass(frozen=True)
class ResourceOptions:
    memory_limit: str | int | None = option(
        None,
        RESOURCES,
        "Limit on the peak memory of the whole process: 2GB, 512MiB, or 25% of what is available.",
        metavar="SIZE",
        flags=("--memory-limit", "--memory"),
        shown_default="half of what is free",
    )
    threads: int | None = option(
        None,
        RESOURCES,
        "Processors to use.",
        rule=POSITIVE,
        metavar="INT",
        shown_default="all",
    )
    disk_limit: str | int | None = option(
        None, RESOURCES, "Limit on temporary files: 10GB.", metavar="SIZE", shown_default="none"
    )
    spill_dir: str | None = option(
        None,
        RESOURCES,
        "For temporary files.",
        metavar="DIR",
        shown_default="$TMPDIR, else by the model",
        accepts="str | os.PathLike[str] | None",
    )
    spill_format: str = option("arrow", RESOURCES, "Format of temporary files.", choices=("arrow", "hdf5"))
    cache: str = option(
        "auto", RESOURCES, "Binary copy of the data for later passes.", choices=("auto", "always", "never")
    )
    survivors: float = option(
        1.0,
        RESOURCES,
        "Share of the rows kept between full passes, at most.",
        rule=Rule("a share of the rows, 0 < share <= 1", lambda share: 0 < share <= 1),
        metavar="FLOAT",
    )
