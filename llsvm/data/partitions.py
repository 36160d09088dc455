"""Columns that folders named ``key=value`` give, as Hive and Spark write them."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from urllib.parse import unquote

import pyarrow as pa

from llsvm.data.source import READ_AS_NUMBERS
from llsvm.data.table_rows import columns_of_expressions
from llsvm.features.table_options import TableOptions

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def partition_values(
    found: Sequence[Mapping[str, str]],
    wanted: Collection[str] | None,
    options: TableOptions,
    text: Collection[str] = (),
) -> list[dict[str, pa.Scalar]]:
    """The columns ``wanted`` of what ``folders_of`` found of each file; None for those that differ among files, or
    are named by an option: one that has a single value so far counts where it is asked for. Of columns in ``text``
    the values are text as written (``01``), else numbers where all are whole."""
    keys = [key for key in found[0] if all(key in each for each in found)] if found else []
    if wanted is None:
        named = _named(options)
        keys = [key for key in keys if key in named or len({each[key] for each in found}) > 1]
    else:
        keys = [key for key in keys if key in wanted]
    columns = {}
    for key in keys:
        values = [None if each[key] == _NULL_PARTITION else each[key] for each in found]
        whole = all(value is None or re.fullmatch(r"-?\d{1,18}", value) for value in values)
        type_ = pa.int64() if whole and any(values) and key not in text else pa.string()
        columns[key] = [pa.scalar(value, pa.string()).cast(type_) for value in values]
    return [{key: columns[key][i] for key in keys} for i in range(len(found))]


def codes_read_as_numbers(
    paths: Sequence[str], folders: Sequence[Mapping[str, str]], names: Iterable[str]
) -> list[str]:
    """A sentence for each column ``names`` that folders give and that is read as numbers, where there are codes
    with zeros in front."""
    given = [(name, path, found[name]) for name in names for path, found in zip(paths, folders, strict=True)]
    codes = {name: (path, value) for name, path, value in reversed(given) if re.fullmatch(r"0\d+", value)}
    return [
        f"{path}: column {name}: values such as {code!r} {READ_AS_NUMBERS}; pass --categorical {name} if they are "
        "codes"
        for name, (path, code) in codes.items()
    ]


def partly_given(paths: Sequence[str], folders: Sequence[Mapping[str, str]]) -> list[str]:
    """A sentence for each column that folders give of some files, but not of all: it is none."""
    found = dict(zip(paths, folders, strict=True))
    some: dict[str, str] = {}  # the first file of each
    for path, given in found.items():
        some = dict.fromkeys(given, path) | some
    return [
        f"{lacking}: no folder of it gives {key}, as those of {first} do: {key} is no column"
        for key, first in some.items()
        if (lacking := next((path for path, given in found.items() if key not in given), None)) is not None
    ]


def folders_of(path: str) -> dict[str, str]:
    """What folders named ``key=value`` say of a file."""
    pairs = (part.partition("=") for part in os.path.dirname(path).split("/"))
    return {unquote(key): unquote(value) for key, equals, value in pairs if equals and key}


def with_given(schema: pa.Schema, partition: Mapping[str, pa.Scalar]) -> pa.Schema:
    """The schema with the columns that folders give, which count where the file has such, too, as for Spark."""
    own = [field for field in schema if field.name not in partition]
    given = [pa.field(name, value.type) for name, value in partition.items()]
    return pa.schema([*own, *given], schema.metadata)


def with_partition(
    batch: pa.RecordBatch, partition: Mapping[str, pa.Scalar], names: Collection[str]
) -> pa.RecordBatch:
    """The batch with those columns ``names`` that the folders of its file give."""
    for name, value in partition.items():
        if name in names:
            batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
    return batch


def _named(options: TableOptions) -> set[str]:
    """What options call columns, names and patterns alike."""
    pairs = (name for pair in options.cross for name in pair.split(":"))
    lists = (options.features, options.exclude, options.categorical, options.text, options.keep.names, pairs)
    single = (options.label, options.weight, *columns_of_expressions(options, None))
    return {name for each in lists for name in each} | {name for name in single if name is not None}
