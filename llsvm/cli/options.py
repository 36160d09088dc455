"""Options that several commands share, and the checks that belong to them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from llsvm.errors import UsageError
from llsvm.files import require_writable

if TYPE_CHECKING:
    from llsvm.data.source import BlockSource

Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Limit on the peak memory of the whole process: 2GB, 512MiB, or 25% of what is available.",
        show_default="50%",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Answer with a JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
ZeroBased = Annotated[
    str,
    typer.Option(
        metavar="auto|yes|no", help="Do the column indices start at 0? auto: as in the file trained on."
    ),
]


def check_output(path: str, inputs: Sequence[str]) -> None:
    """Raise UsageError unless ``path`` can be written and is none of the files that are read."""
    require_writable(path)
    for each in inputs:
        if os.path.exists(path) and os.path.exists(each) and os.path.samefile(path, each):
            raise UsageError(f"{path}: would overwrite the input {each}; choose another name")


def open_data(data: Sequence[str], zero_based: str = "auto", threads: int | None = None) -> BlockSource:
    """The source that the arguments DATA... name. Raises UsageError, DataError."""
    from llsvm.data import open_source
    from llsvm.memory import default_threads

    if len(data) != 1:
        raise UsageError(f"{len(data)} data files given; one is what can be read so far: join them with cat")
    return open_source(data[0], zero_based=zero_based, threads=threads or default_threads())
