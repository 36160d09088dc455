"""``llsvm convert``: data into another format."""

from __future__ import annotations

from typing import Annotated

import typer

from llsvm.cli.echo import echo
from llsvm.cli.options import (
    Categorical,
    DataFormat,
    Exclude,
    Features,
    HashBits,
    Header,
    Label,
    MemoryLimit,
    Missing,
    Positive,
    Weight,
    ZeroBased,
    check_output,
    names,
)


def convert(
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA... OUTPUT",
            help="Data as for train; last the output: a file, or - for svmlight text on standard output.",
        ),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="svmlight|parquet|arrow|hdf5", help="Of the output.", show_default="by its name"
        ),
    ] = None,
    memory_limit: MemoryLimit = None,
    format: DataFormat = None,
    label: Label = None,
    positive: Positive = None,
    features: Features = None,
    exclude: Exclude = None,
    weight: Weight = None,
    categorical: Categorical = None,
    header: Header = "auto",
    missing: Missing = "refuse",
    hash_bits: HashBits = None,
    zero_based: ZeroBased = "auto",
) -> None:
    """Write DATA to OUTPUT in another format; a table stays a table where the output can be one."""
    from llsvm.cli.display import say_notes
    from llsvm.convert import convert as converted
    from llsvm.convert import format_for
    from llsvm.data import open_source
    from llsvm.errors import UsageError
    from llsvm.memory.process import default_threads

    if missing == "mean":
        raise UsageError("--missing mean: means are learned in training only; pass --missing zero")
    if len(data) < 2:
        raise UsageError("convert needs an input and an output: llsvm convert DATA OUTPUT")
    inputs, output = data[:-1], data[-1]
    to = format_for(output, to)
    check_output(output, inputs, text=to == "svmlight")
    options = {
        "label": label,
        "features": names(features),
        "exclude": names(exclude),
        "weight": weight,
        "categorical": names(categorical),
        "header": header,
        "missing": missing,
        "hash_bits": hash_bits,
    }
    source = open_source(
        inputs,
        format=format,
        zero_based=zero_based,
        threads=default_threads(),
        options=options,
        positive=positive,
        need_label=to not in ("parquet", "arrow"),
    )
    n_rows = converted(source, output, to, memory_limit)
    if source.info().record_batches is None or to not in ("parquet", "arrow"):  # else it is copied as it is
        say_notes(source)
    echo(f"{n_rows:,} rows written to {output}", err=output == "-")
