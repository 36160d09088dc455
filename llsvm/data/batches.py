"""Data that come in batches from the caller's own program: what can be read so, once or again and again.

Anything that speaks Arrow's C stream interface (data frames of pandas and Polars, tables and readers of pyarrow,
relations of DuckDB), a dataset of pyarrow, and iterables or callables that give batches: tables, or (X, y) and
perhaps sample weights, as arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from llsvm.errors import DataError, UsageError

# Batches from the first one; names: of the columns that are wanted, None for all.
Reading = Callable[[Sequence[str] | None], Iterator[Any]]


class Batches:
    """first: the first batch, a table of pyarrow or a tuple of arrays; None where there is a schema. schema: of the
    tables. rereadable: whether ``read`` can be called again. name: for messages."""

    def __init__(
        self, name: str, read: Reading, rereadable: bool, first: Any = None, schema: Any = None
    ) -> None:
        self.name = name
        self.rereadable = rereadable
        self.first = first
        self.schema = schema
        self._read = read
        self._begun = False

    def read(self, names: Sequence[str] | None = None) -> Iterator[Any]:
        """Tables of pyarrow (of the columns ``names`` at least), or tuples of arrays. Raises DataError."""
        if self._begun and not self.rereadable:
            raise DataError(
                f"{self.name}: it can be read once only; pass a callable that gives it anew each time"
            )
        self._begun = True
        return self._read(names)


def batches_of(data: Any) -> Batches | None:
    """How ``data`` are read in batches; None for arrays and for data frames, which are there as a whole.

    Raises DataError where there is no batch, or the first is neither a table nor a tuple of arrays."""
    import pyarrow as pa

    if isinstance(data, pa.RecordBatchReader):
        return Batches("a reader of record batches", lambda names: _tables(data), False, schema=data.schema)
    if type(data).__module__ == "pyarrow._dataset":
        return Batches("a dataset", lambda names: _scanned(data, names), True, schema=data.schema)
    if callable(data):
        first = next(_given(data()), None)
        return _beginning("a callable's batches", lambda names: _given(data()), True, first)
    if isinstance(data, Iterator):
        rest = _given(data)
        first = next(rest, None)
        return _beginning("an iterator's batches", lambda names: chain([first], rest), False, first)
    return None


def stream_of(data: Any) -> Batches | None:
    """A data frame, table or relation, read through Arrow's C stream interface; None for what does not speak it."""
    import pyarrow as pa

    if not hasattr(data, "__arrow_c_stream__"):
        return None
    with pa.RecordBatchReader.from_stream(data) as reader:
        schema = reader.schema

    def read(names: Sequence[str] | None) -> Iterator[Any]:
        if isinstance(data, pa.Table):
            yield data if names is None else data.select(list(names))
            return
        with pa.RecordBatchReader.from_stream(data) as reader:
            yield from _tables(reader)

    return Batches("X", read, True, schema=schema)


def _beginning(name: str, read: Reading, rereadable: bool, first: Any) -> Batches:
    if first is None:
        raise DataError(f"{name}: there is none; give at least one")
    return Batches(name, read, rereadable, first, None if isinstance(first, tuple) else first.schema)


def _scanned(dataset: Any, names: Sequence[str] | None) -> Iterator[Any]:
    """Few batches ahead: what is read and not yet used is held beside the memory limit's ledger."""
    scanner = dataset.scanner(
        columns=None if names is None else list(names),
        batch_size=1 << 13,
        batch_readahead=1,
        fragment_readahead=1,
        use_threads=False,
    )
    yield from _tables(scanner.to_reader())


def _tables(batches: Any) -> Iterator[Any]:
    import pyarrow as pa

    for batch in batches:
        yield pa.Table.from_batches([batch])


def _given(batches: Any) -> Iterator[Any]:
    """What a caller's iterable gives, or a table by itself, as tables of pyarrow or tuples of arrays."""
    import pyarrow as pa

    whole = stream_of(batches)
    for each in batches if whole is None else whole.read():
        if isinstance(each, tuple | list):
            if not 2 <= len(each) <= 3:
                raise UsageError(
                    f"a batch of {len(each)} parts: give (X, y) or (X, y, sample_weight), or a table of Arrow's"
                )
            yield tuple(each)
            continue
        try:
            yield pa.table(each) if not isinstance(each, pa.RecordBatch) else pa.Table.from_batches([each])
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise DataError(
                f"a batch of type {type(each).__name__} is no table: {' '.join(str(error).split())}; give (X, y), "
                "or a table of Arrow's, pandas' or Polars'"
            ) from error
