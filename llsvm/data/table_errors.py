"""Errors of tables in sentences: files that pyarrow could not read, and all that training would refuse."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llsvm.data.arrow_memory import wide_columns
from llsvm.data.source import BlockSource, ColumnsBatch
from llsvm.errors import DataError
from llsvm.features.columns import kind_of, numbers
from llsvm.features.label_columns import labels
from llsvm.features.table_options import listed
from llsvm.files.inputs import disk_failed, open_seekable, unreadable


class TableFormat(Protocol):
    """format: its name. magic: what its files begin with. no_footer: what the library says of a file that lacks
    its end."""

    format: str
    magic: bytes
    no_footer: tuple[str, ...]


def refuse_damage(path: str, n_bytes: int, kind: TableFormat, place: str, error: Exception) -> NoReturn:
    """Raise the DataError for ``error``, what the library said. n_bytes: of the file. place: where in the file,
    such as "row group 3", or "". Errors that are not the file's pass."""
    if isinstance(error, DataError) or (isinstance(error, MemoryError) and not _is_absurd(error)):
        raise error
    if disk_failed(error):
        raise unreadable(path, error) from error
    reason = " ".join(str(error).split()).rstrip(".")
    if not place and any(sign in reason for sign in kind.no_footer):
        try:
            with open_seekable(path) as file:
                begins = file.read(len(kind.magic))
        except OSError as failed:
            raise unreadable(path, failed) from error
        if begins != kind.magic:
            raise DataError(
                f"{path}: not a {kind.format} file, by its first bytes {begins!r}; unpack it where it is "
                "compressed, or name its format with --format"
            ) from error
        raise DataError(
            f"{path}: the file ends at byte {n_bytes:,} without the footer that {kind.format} files end with: "
            "it is cut off or damaged, or was not written to its end; fetch or write it again"
        ) from error
    where = f"{path}: {place}" if place else path
    if "Invalid UTF8" in reason:
        raise DataError(
            f"{where}: text that is not UTF-8: {reason}; write it as UTF-8; documents may also be "
            "bytes (binary), in the encoding that llsvm train names (--encoding latin-1)"
        ) from error
    if "more than 64 bits" in reason:
        raise DataError(
            f"{where}: {_wide(path)} whole numbers of more than 64 bits (Int128 in Polars), which Arrow does "
            "not read; write the file with 64-bit numbers or text there (Polars: pl.col(NAME).cast(pl.Int64))"
        ) from error
    raise DataError(
        f"{where}: not readable as {kind.format}, cut off or damaged: {reason}; fetch or write it again"
    ) from error


def _wide(path: str) -> str:
    """Return the names of the columns that are too wide, as the beginning of a sentence ("column a has")."""
    with open_seekable(path) as file:
        names = wide_columns(file)
    if len(names) == 1:
        return f"column {names[0]} has"
    return f"columns {listed(names)} have" if names else "a column has"


def _is_absurd(error: MemoryError) -> bool:
    """Return whether more memory was asked for than the machine has: a length in the file is wrong."""
    asked = re.search(r"size (\d+)", str(error))
    return asked is not None and int(asked[1]) > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def missing_value(path: str, name: str, row: int, count: str, predicting: bool) -> DataError:
    """Return the error for a value that is missing where that is refused. row: from 0. count: of all in that
    column, in words."""
    remedy = f"pass --missing zero or --missing mean, or leave the column out (--exclude {name})"
    if predicting:
        remedy = "fill it in, or train with --missing zero or --missing mean"
    return DataError(f"{path}: column {name}: the value is missing in row {row + 1}{count}; {remedy}")


def refuse_cell(batch: ColumnsBatch, error: ValueError) -> NoReturn:
    """Raise the DataError for a ValueError(row, reason) of a batch, or for an error of pyarrow or NumPy."""
    if isinstance(error, DataError):
        raise error if batch.path in str(error) else DataError(f"{batch.path}: {error}")
    if len(error.args) != 2:
        raise DataError(f"{batch.path}: row {batch.first_row + 1} or after: {error}") from error
    raise DataError(f"{batch.path}: row {batch.row(error.args[0]) + 1}: {error.args[1]}") from error


def refuse_label_kind(path: str, first: str, name: str | None, is_text: bool) -> NoReturn:
    """Raise DataError for labels of another kind than those of the file ``first``."""
    kinds = ("text", "numbers") if is_text else ("numbers", "text")
    there = "before" if path == first else f"in {first}"  # batches have one name
    raise DataError(
        f"{path}: column {name}: the labels are {kinds[0]}, but {kinds[1]} {there}; write them as one type, or "
        f"keep all as text (--categorical {name})"
    )


def is_without_rows(error: Exception) -> bool:
    """Return whether pyarrow says that nothing follows the header."""
    return "Could not skip initial" in str(error) or "Empty CSV file" in str(error)


# What training would refuse of a table whose rows cannot be read as they are: per column how many values, where
# the first of them is, and the remedy.

_PIECE_BYTES = 1_000_000


@dataclass(slots=True)
class _Count:
    """Count of one kind of value in one column. place: of the first, in words."""

    rows: int = 0
    place: str = ""

    def add(self, batch: ColumnsBatch, refused: NDArray[np.bool_]) -> None:
        if refused.any() and not self.rows:
            self.place = f"{batch.path}: row {batch.row(int(np.argmax(refused))) + 1}"
        self.rows += int(np.count_nonzero(refused))


class _Column:
    """missing, infinite: of a column's rows so far."""

    def __init__(self, name: str, kind: str | None) -> None:
        self.name, self.kind = name, kind  # None: the label's
        self.missing, self.infinite = _Count(), _Count()

    def add(self, batch: ColumnsBatch, values: pa.Array) -> None:
        if self.kind is None:
            _, gone = labels(values)
        elif kind_of(values.type) == "number":
            array = numbers(values)
            gone = np.isnan(array)
            self.infinite.add(batch, np.isinf(array))
        else:  # text without a value is a category less
            return
        self.missing.add(batch, gone)

    def refusals(self, missing: str) -> list[str]:
        """Return a sentence for each reason to refuse the column. missing: as TableOptions has it."""
        exclude = f"leave the column out (--exclude {self.name})"
        cases = []
        if self.missing.rows and self.kind is None:
            cases.append(("the label is missing", self.missing, "fill it in, or pass --missing-label drop"))
        elif self.missing.rows and missing == "refuse":
            cases.append(("the value is missing", self.missing, f"pass --missing zero or mean, or {exclude}"))
        if self.infinite.rows:
            what = "the value is infinite, or too large for a 64-bit float"
            cases.append((what, self.infinite, f"write a finite number or none at all, or {exclude}"))
        return [
            f"column {self.name}: {what} in {_rows(count.rows)}, first in {count.place}: {remedy}"
            for what, count, remedy in cases
        ]


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def refusals(source: BlockSource, missing: str) -> dict[str, Any] | None:
    """Return what is refused of a table that can be read again: name, format, bytes, rows, columns (see
    TableSource.describe, and missing, the rows without a value) and refused, sentences; None where nothing is
    refused, or the source is no such table. missing: as TableOptions has it. Raises DataError where not even its
    columns can be read."""
    info = source.info()
    encoder = info.encoder
    if info.columns is None or info.describe is None or encoder is None:
        return None
    columns = [_Column(each.name, each.kind) for each in encoder.columns if each.kind in ("number", "text")]
    columns += [] if encoder.label is None else [_Column(encoder.label, None)]
    n_rows = 0
    for batch in info.columns([each.name for each in columns], _PIECE_BYTES):
        n_rows += batch.rows.num_rows
        for each in columns:
            each.add(batch, batch.rows.column(each.name))
    refused = [sentence for each in columns for sentence in each.refusals(missing)]
    if not refused:
        return None
    counts = {each.name: each.missing.rows for each in columns}
    described = [{**each, "missing": counts.get(each["name"])} for each in info.describe()]
    about = {"name": info.name, "format": info.format, "bytes": info.n_bytes, "rows": n_rows}
    return {**about, "columns": described, "refused": refused}
