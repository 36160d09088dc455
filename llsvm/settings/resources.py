"""Options: memory, disk and processors."""

from __future__ import annotations

from dataclasses import dataclass

from llsvm.settings.option import POSITIVE, RESOURCES, Rule, option

SPILL_FORMATS = ("arrow", "hdf5")
CACHES = ("auto", "always", "never")


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
    spill_format: str = option("arrow", RESOURCES, "Format of temporary files.", choices=SPILL_FORMATS)
    cache: str = option("auto", RESOURCES, "Binary copy of the data for later passes.", choices=CACHES)
    survivors: float = option(
        1.0,
        RESOURCES,
        "Share of the rows kept between full passes, at most.",
        rule=Rule("a share of the rows, 0 < share <= 1", lambda share: 0 < share <= 1),
        metavar="FLOAT",
    )
