"""Options that several commands share, and the checks that belong to them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from llsvm.errors import UsageError
from llsvm.files.remote import is_remote
from llsvm.files.writing import STDOUT, require_writable
from llsvm.settings.settings import AUTO

if TYPE_CHECKING:
    from llsvm.data.source import BlockSource
    from llsvm.settings.settings import Settings

MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        "--memory",
        metavar="SIZE",
        help="Limit on the peak memory of the whole process: 2GB, 512MiB, or 25% of what is available.",
        show_default="50%",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Answer with a JSON object.")]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="Print nothing but errors, and what was asked for (--json, a table of results)."
    ),
]
ZeroBased = Annotated[
    str,
    typer.Option(
        metavar="auto|yes|no", help="Do the column indices start at 0? auto: as in the file trained on."
    ),
]


def check_output(path: str, inputs: Sequence[str], text: bool = False) -> None:
    """Raise UsageError unless ``path`` can be written and is none of the files that are read.

    text: what is written is text, which may go to standard output ("-")."""
    if text and path == STDOUT:
        return
    require_writable(path)
    for each in inputs:
        same = os.path.exists(path) and os.path.exists(each) and os.path.samefile(path, each)
        if same or (each == path and is_remote(path)):
            raise UsageError(f"{path}: would overwrite the input {each}; choose another name")


def check_model_output(path: str, inputs: Sequence[str]) -> None:
    """As ``check_output``, for a model and the log beside it."""
    from llsvm.models.model_file import require_writable

    check_output(path, inputs)
    require_writable(path)


# How the data is read; each option is a field of Settings.
DataFormat = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="svmlight|csv|parquet|arrow|hdf5|numpy",
        help="Of the data.",
        show_default="by name and first bytes",
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="The label: a column's name, its position from 0, or last; an array in HDF5 and npz.",
        show_default="label, target, class or y",
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,C*",
        help="The feature columns: names, positions, patterns; the array in HDF5 and npz.",
        show_default="all others",
    ),
]
Exclude = Annotated[
    str | None, typer.Option(metavar="A,B,C*", help="Columns that are no features.", show_default="none")
]
Weight = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of sample weights.", show_default="none")
]
Categorical = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,C*", help="Columns of categories, whatever their values look like.", show_default="none"
    ),
]
Header = Annotated[
    str, typer.Option(metavar="auto|yes|no", help="Has CSV a line of names? If not, they are 0, 1, ...")
]
Missing = Annotated[str, typer.Option(metavar="refuse|zero|mean", help="What to do with missing values.")]
HashBits = Annotated[
    int | None,
    typer.Option(
        metavar="INT", help="Hash categories into 2^INT columns.", show_default="a column for each category"
    ),
]
Scale = Annotated[
    str,
    typer.Option(
        metavar="auto|none|maxabs|minmax|standard|unit-row",
        help="Scaling of the columns, learned and kept in the model. auto: standard for tables (CSV, Parquet, "
        "Arrow), none for svmlight, arrays and kernels.",
    ),
]
Bias = Annotated[
    str,
    typer.Option(
        metavar="auto|FLOAT",
        help="Value of a constant feature, penalised too; 0 for none. auto: 1 for tables, 0 for svmlight, arrays "
        "and kernels.",
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(metavar="LABEL", help="This label (as 1) against all others (as -1).", show_default="none"),
]


def bias_value(text: str) -> float | str:
    """What ``--bias`` says, as Settings has it. Raises UsageError."""
    if text == AUTO:
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"--bias must be auto or a number, not {text!r}") from None


def names(text: str | None) -> tuple[str, ...]:
    """``A,B`` as ("A", "B")."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def open_data(data: Sequence[str], settings: Settings) -> BlockSource:
    """The source that the arguments DATA... name, read as the settings say. Raises UsageError, DataError."""
    from llsvm.data import open_with_settings
    from llsvm.memory.process import default_threads

    return open_with_settings(settings, list(data), threads=settings.threads or default_threads())
