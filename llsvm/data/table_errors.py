"""What is wrong with a file of a table that pyarrow could not read, in a sentence."""

from __future__ import annotations

import os
import re
from typing import NoReturn, Protocol

from llsvm.data.arrow_sizes import wide_columns
from llsvm.data.source import ColumnsBatch
from llsvm.errors import DataError
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
    """Which columns are so, and that they have what follows."""
    with open_seekable(path) as file:
        names = wide_columns(file)
    if len(names) == 1:
        return f"column {names[0]} has"
    return f"columns {listed(names)} have" if names else "a column has"


def _is_absurd(error: MemoryError) -> bool:
    """Whether more memory was asked for than the machine has: a length in the file is wrong."""
    asked = re.search(r"size (\d+)", str(error))
    return asked is not None and int(asked[1]) > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def missing_value(path: str, name: str, row: int, count: str, predicting: bool) -> DataError:
    """For a value that is missing where that is refused. row: from 0. count: of all in that column, in words."""
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
    """Does pyarrow say that nothing follows the header?"""
    return "Could not skip initial" in str(error) or "Empty CSV file" in str(error)
