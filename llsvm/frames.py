"""Data frames (pandas, Polars, tables of pyarrow): the names of their columns, and their rows as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llsvm.errors import DataError, UsageError
from llsvm.tables.options import listed

if TYPE_CHECKING:
    from llsvm.block import Matrix

_CHUNK_BYTES = 1 << 20


def column_names(X: Any) -> tuple[str, ...] | None:
    """The names of a data frame's columns. None for arrays, and where names are numbers (pandas' own numbering).

    Raises UsageError where some are text and others are not.
    """
    # every library of frames calls them so; pyarrow's ``columns`` are the values
    names = getattr(X, "column_names", None)
    names = getattr(X, "columns", None) if names is None else names
    if names is None or callable(names):
        return None
    found = tuple(names)
    texts = [isinstance(name, str) for name in found]
    if any(texts) and not all(texts):
        other = found[texts.index(False)]
        raise UsageError(f"X has columns named by text and others not ({other!r}); rename them all to text")
    return tuple(map(str, found)) if any(texts) else None


def columns(X: Any, names: Sequence[str]) -> Any:
    """The data frame with the columns ``names``, in that order. Raises DataError where one is missing."""
    there = column_names(X) or ()
    if there == tuple(names):
        return X
    known = set(there)
    if missing := [name for name in names if name not in known]:
        raise DataError(
            f"X: {len(missing)} of the model's columns are missing: {listed(missing)}; it has {listed(there)}"
        )
    if twice := [name for name in names if there.count(name) > 1]:
        raise DataError(f"X: two columns are named {twice[0]!r}; rename one of them")
    return X.select(list(names)) if hasattr(X, "select") else X[list(names)]  # pandas has no select


def encoded(X: Any, table: Mapping[str, Any]) -> Iterator[Matrix]:
    """The rows of a data frame as a model reads those of files: ``table`` is what it knows of its columns.

    Raises DataError where a column is missing, or holds what the model cannot take.
    """
    import pyarrow as pa

    from llsvm.tables.encoder import MissingValues, TableEncoder
    from llsvm.tables.plan import check_columns

    encoder = TableEncoder.from_dict(table)
    encoder.label = None
    frame = columns(X, [column.name for column in encoder.columns])
    try:
        arrow = pa.table(frame)
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"X cannot be read as a table: {' '.join(str(error).split())}") from error
    check_columns("X", arrow.schema, encoder, need_label=False)
    row = 0
    step = max(1, _CHUNK_BYTES // (8 * sum(column.width for column in encoder.columns)))
    for batch in arrow.to_batches(max_chunksize=step):
        try:
            yield encoder.encode(batch).X
        except MissingValues as error:
            raise DataError(
                f"X: column {error.name}: the value is missing in row {row + error.row}; fill it in, or train with "
                "missing='zero' or missing='mean'"
            ) from error
        except ValueError as error:
            at, reason = error.args if len(error.args) == 2 else (0, str(error))
            raise DataError(f"X: row {row + at}: {reason}") from error
        row += batch.num_rows
