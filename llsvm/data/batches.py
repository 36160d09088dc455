"""Data that come in batches from the caller's own program: what can be read so, once or again and again.

Anything that speaks Arrow's C stream interface (data frames of pandas and Polars, tables and readers of pyarrow,
relations of DuckDB), a lazy frame of Polars, a dataset of pyarrow, and iterables or callables that give batches:
tables, or (X, y) and perhaps sample weights, as arrays.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from llsvm.errors import DataError, UsageError
from llsvm.features.column import Sort
from llsvm.features.frames import (
    column_names,
    naming_bad_text,
    naming_unreadable,
    refuse_objects,
    selected,
    without_types_of_nothing,
)
from llsvm.features.spelling import short

# Batches from the first one; names: of the columns that are wanted, None for all.
Reading = Callable[[Sequence[str] | None], Iterator[Any]]

_SMALL_BYTES = (
    1 << 24
)  # of a result that is taken whole: its library then has nothing to do while llsvm trains
_SMALL_LIBRARY_BYTES = 64 << 20  # that Polars or DuckDB have taken for that
_VALUE_BYTES = 16  # of a cell of it, about: so many rows are looked at
_ROWS = 1 << 13  # of a batch of what makes batches as large as it is told
# What other libraries take while they make batches, of Parquet in row groups of 50 MB: in all, and for each thread
# of theirs; measured with 1 to 16.
_POLARS_BYTES, _POLARS_THREAD_BYTES = 384 << 20, 24 << 20
_DUCKDB_BYTES, _DUCKDB_THREAD_BYTES = 64 << 20, 192 << 20
_DUCKDB_LIMIT_BYTES, _DUCKDB_LIMIT_RATIO = 32 << 20, 1.35  # at most: beside and of DuckDB's own memory limit


class Batches:
    """first: the first batch, a table of pyarrow or a tuple of arrays; None where there is a schema. schema: of the
    tables. rereadable: whether ``read`` can be called again. name: for messages. library_bytes: that whoever makes
    the batches holds beside them."""

    def __init__(
        self,
        name: str,
        read: Reading,
        rereadable: bool,
        first: Any = None,
        schema: Any = None,
        library_bytes: int = 0,
    ) -> None:
        self.name = name
        self.library_bytes = library_bytes
        self.rereadable = rereadable
        self.first = first
        self.schema = schema
        self._read = read
        self._is_read = False

    def read(self, names: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield tables of pyarrow (of the columns ``names`` at least), or tuples of arrays. Raises DataError."""
        if self._is_read and not self.rereadable:
            raise DataError(
                f"{self.name}: it can be read once only; pass a callable that gives it anew each time"
            )
        self._is_read = True
        return self._read(names)


def in_batches(data: Any) -> bool:
    """Return whether the data are read in batches from the caller's program: no files, no arrays, and no data
    frame, which are there as a whole. Raises UsageError for an open file."""
    if isinstance(data, io.IOBase):  # whose lines are no rows
        raise UsageError(
            f"the data are an open file ({type(data).__name__}): give its path, or the data frame that pandas or "
            "Polars read from it, pandas.read_csv(FILE) say"
        )
    if callable(data) or isinstance(data, Iterator) or _is_dataset(data) or is_query(data):
        return True
    if hasattr(data, "__arrow_c_stream__"):
        return False
    if isinstance(data, list | tuple):
        return bool(data) and _is_batch(data[0])
    if isinstance(data, str | bytes | os.PathLike | Mapping | Sequence):
        return False
    is_array = hasattr(data, "shape") or hasattr(data, "__array__")  # those of Arrow have no shape
    return isinstance(data, Iterable) and not is_array


def is_query(data: Any) -> bool:
    """Return whether the rows of the data are not computed yet: a lazy frame of Polars, a relation of DuckDB, a
    reader of batches."""
    if hasattr(data, "__arrow_c_stream__"):
        return not hasattr(data, "__array__")  # which frames and tables can make
    return _is_lazy(data)


def batches_of(data: Any) -> Batches | None:
    """Return how ``data`` are read in batches; None for what Arrow's C stream interface gives, see ``stream_of``.

    Raises DataError where there is no batch, or the first is neither a table nor a tuple of arrays."""
    import pyarrow as pa

    if _is_dataset(data) and not hasattr(data, "schema"):  # a fragment or scanner of one
        data = (data.scanner() if hasattr(data, "scanner") else data).to_reader()
    if isinstance(data, pa.RecordBatchReader):
        first, rest = _beginning_of(_tables(data))
        read = chain([] if first is None else [first], rest)
        return Batches("a reader of record batches", lambda names: read, False, first, data.schema)
    if _is_dataset(data):
        return Batches("a dataset", lambda names: _scanned(data, names), True, schema=data.schema)
    if _is_lazy(data):
        empty = data.head(0).collect()
        with naming_unreadable(data):
            schema = pa.table(empty).schema
        rows = _small_rows(schema)
        whole = _if_small(_collected(data.head(rows + 1), None), rows)
        library = _POLARS_BYTES + sys.modules["polars"].thread_pool_size() * _POLARS_THREAD_BYTES
        held = Batches("a lazy frame", lambda names: _collected(data, names), True, None, schema, library)
        held = held if whole is None else _whole("a lazy frame", whole)

        def collected(names: Sequence[str] | None) -> Iterator[Any]:
            refuse_objects(empty, names)
            return held.read(names)

        return Batches(held.name, collected, True, None, held.schema, held.library_bytes)
    if callable(data):
        first, _ = _beginning_of(_given(data()))
        return _beginning("a callable's batches", lambda names: _given(data()), True, first)
    if isinstance(data, Iterator):
        first, rest = _beginning_of(_given(data))
        return _beginning("an iterator's batches", lambda names: chain([first], rest), False, first)
    if not hasattr(data, "__arrow_c_stream__"):
        first, _ = _beginning_of(_given(data))
        return _beginning("an iterable's batches", lambda names: _given(data), True, first)
    return None


def stream_of(data: Any) -> Batches | None:
    """Return a data frame, table or relation, read through Arrow's C stream interface; None for what does not speak
    it."""
    import pyarrow as pa

    if not hasattr(data, "__arrow_c_stream__"):
        return None
    column_names(data)  # refuses those that predictions would refuse
    with _stream(data.limit(0) if _is_relation(data) else data) as reader:  # whose query would begin to run
        schema = reader.schema

    def read(names: Sequence[str] | None) -> Iterator[Any]:
        if isinstance(data, pa.Table):
            yield data if names is None else data.select(list(names))
            return
        refuse_objects(data, names)
        with _stream(data) as reader:
            yield from _tables(reader)

    if _is_relation(data):
        rows = _small_rows(schema)
        with _stream(data.limit(rows + 1)) as reader:
            whole = _if_small(_tables(reader), rows)
        if whole is not None:
            return _whole("a relation", whole)
        return Batches("a relation", read, True, None, schema, _relation_bytes(data))
    return Batches("X", read, True, schema=schema)


def _whole(name: str, table: Any) -> Batches:
    library = _SMALL_LIBRARY_BYTES + table.nbytes
    return Batches(name, lambda names: iter([table]), True, None, table.schema, library)


def _small_rows(schema: Any) -> int:
    return _SMALL_BYTES // (_VALUE_BYTES * max(len(schema), 1))


def _if_small(tables: Iterable[Any], rows: int) -> Any:
    """Return the tables as one, or None where they have more rows, or more bytes than a small result."""
    import pyarrow as pa

    parts, held = [], 0
    for table in tables:
        parts.append(table)
        held += table.nbytes
        rows -= table.num_rows
        if rows < 0 or held > _SMALL_BYTES:
            return None
    return pa.concat_tables(parts) if parts else None


def _stream(data: Any) -> Any:
    """Return a reader of record batches; of DuckDB's, from version 2 on, not of 130 thousand rows each."""
    import pyarrow as pa

    if _is_relation(data) and hasattr(data, "to_arrow_reader"):
        return data.to_arrow_reader(_ROWS)
    with naming_unreadable(data):
        return pa.RecordBatchReader.from_stream(data)


def _relation_bytes(relation: Any) -> int:
    """Return the bytes that DuckDB holds while it reads, by the threads and the memory limit of the relation's
    connection."""
    settings = "current_setting('threads'), current_setting('memory_limit'), count(*)"  # a row, for none
    threads, limit, _ = relation.limit(0).aggregate(settings).fetchall()[0]
    taken = _DUCKDB_BYTES + int(threads) * _DUCKDB_THREAD_BYTES
    size = re.fullmatch(r"([\d.]+) *(bytes|KiB|MiB|GiB)", limit)
    if size is None:  # of terabytes, or none
        return taken
    limit_bytes = float(size[1]) * 1024 ** ["bytes", "KiB", "MiB", "GiB"].index(size[2])
    return int(min(taken, _DUCKDB_LIMIT_RATIO * limit_bytes + _DUCKDB_LIMIT_BYTES))


def _first_with_rows(batches: Iterator[Any]) -> Any:
    """Return the first batch with rows, which decides what columns mean; else the first one, or None."""
    first = None
    for each in batches:
        if isinstance(each, tuple) or each.num_rows:
            return each
        first = each if first is None else first
    return first


def _beginning_of(batches: Iterator[Any]) -> tuple[Any, Iterator[Any]]:
    """Return the first batch, and what follows. The first tables are put together to one, of as many rows as decide
    what columns mean in other data."""
    import pyarrow as pa

    from llsvm.data.table_columns import LOOKED_AT_BYTES, LOOKED_AT_ROWS

    first = _first_with_rows(batches)
    if first is None or isinstance(first, tuple) or first.nbytes >= LOOKED_AT_BYTES:
        return first, batches
    begin = _copied(first)
    for each in batches:
        if isinstance(each, tuple) or each.column_names != begin.column_names:
            return begin, chain([each], batches)
        try:
            begin = pa.concat_tables([_typed_by(begin, each), _copied(each)], promote_options="default")
        except (
            pa.ArrowInvalid,
            pa.ArrowTypeError,
        ):  # of another type, which is judged as that of any later one
            return begin, chain([each], batches)
        if begin.num_rows >= LOOKED_AT_ROWS or begin.nbytes >= LOOKED_AT_BYTES:
            break
    return begin, batches


def _typed_by(table: Any, later: Any) -> Any:
    """Return the table; a column without a value has the type that the ``later`` table has."""
    import pyarrow as pa

    for i, (mine, other) in enumerate(zip(table.schema, later.schema, strict=True)):
        if mine.type != other.type and table.column(i).null_count == table.num_rows:
            table = table.set_column(i, mine.name, pa.nulls(table.num_rows, other.type))
    return table


def _copied(table: Any) -> Any:
    """Return a table whose values its maker does not write over when the next one is made."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return pa.ipc.open_stream(sink.getvalue()).read_all()


def _beginning(name: str, read: Reading, rereadable: bool, first: Any) -> Batches:
    if first is None:
        raise DataError(f"{name}: there is none; give at least one")
    return Batches(name, read, rereadable, first, None if isinstance(first, tuple) else first.schema)


def _scanned(dataset: Any, names: Sequence[str] | None) -> Iterator[Any]:
    """Yield the batches of one row group of Parquet after the other, and few batches ahead: what is read and not
    yet used is held beside the memory limit's budget."""
    import pyarrow.dataset as ds

    options = {
        "columns": None if names is None else list(names),
        "batch_size": _ROWS,
        "batch_readahead": 0,
        "fragment_readahead": 0,
        "use_threads": False,
    }
    fragments: Iterable[Any] = ()
    if isinstance(dataset, ds.FileSystemDataset) and isinstance(dataset.format, ds.ParquetFileFormat):
        with suppress(ValueError):  # a filtered one does not say what it consists of
            fragments = dataset.get_fragments()
    if not fragments:
        yield from _tables(dataset.scanner(**options).to_reader())
    once = ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
    for fragment in fragments:
        _refuse_other_types(dataset.schema, names, fragment)
        for group in fragment.split_by_row_group(schema=dataset.schema):
            scanner = group.scanner(schema=dataset.schema, fragment_scan_options=once, **options)
            yield from _tables(scanner.to_reader())


def _refuse_other_types(schema: Any, names: Sequence[str] | None, fragment: Any) -> None:
    """Raise DataError for a file in which Arrow would make other values of a column that is wanted, as it casts it
    to the dataset's type: times with a zone where those of the dataset have none, or the other way round; text;
    numbers with decimals, or none but true and false in the dataset."""
    from llsvm.features.spelling import sort_of

    file_schema = fragment.physical_schema
    for field in schema:
        if field.name not in file_schema.names or (names is not None and field.name not in names):
            continue
        file_type = file_schema.field(field.name).type
        what = f"{fragment.path}: column {field.name} has type {file_type}, but {field.type} in the dataset"
        if {sort_of(field.type), sort_of(file_type)} == {Sort.DATE, Sort.ZONED}:
            raise DataError(f"{what}; write all times with a zone, or all without")
        if not _keeps_values(file_type, field.type):
            raise DataError(
                f"{what}: its values would be others; give the files themselves, or a dataset with a schema that "
                "has one type for all of them"
            )


def _keeps_values(source: Any, target: Any) -> bool:
    """Return whether values stay the same when Arrow casts them from one type to the other."""
    from pyarrow import types

    from llsvm.features.arrow_types import kind_of

    if types.is_null(source) or types.is_null(target):
        return True
    if kind_of(source) != kind_of(target):
        return False
    if types.is_boolean(target):
        return bool(types.is_boolean(source))
    return not (types.is_integer(target) and (types.is_floating(source) or types.is_decimal(source)))


def _is_dataset(data: Any) -> bool:
    return any(each.__module__ == "pyarrow._dataset" for each in type(data).__mro__)


def _is_lazy(data: Any) -> bool:
    polars = sys.modules.get("polars")  # who holds a lazy frame has imported it
    return polars is not None and isinstance(data, polars.LazyFrame)


def _is_relation(data: Any) -> bool:
    duckdb = sys.modules.get("duckdb")  # who holds a relation has imported it
    return duckdb is not None and isinstance(data, duckdb.DuckDBPyRelation)


def _is_batch(data: Any) -> bool:
    """Return whether it is a table, or (X, y), and no row of a matrix."""
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return len(getattr(data, "shape", ())) == 2
    return isinstance(data, tuple) and bool(data) and len(getattr(data[0], "shape", ())) == 2


def _collected(frame: Any, names: Sequence[str] | None) -> Iterator[Any]:
    """Yield the batches by the engine of Polars that streams, in the order of the rows."""
    import pyarrow as pa

    selection = frame if names is None else selected(frame, names)
    if not hasattr(frame, "collect_batches"):
        raise UsageError(
            "a lazy frame is collected in batches, which this version of Polars cannot: take one of 2026, or give "
            "the frame collected, or the file that it reads"
        )
    for part in selection.collect_batches(chunk_size=_ROWS, engine="streaming", lazy=True):
        yield pa.table(part)


def _tables(batches: Any) -> Iterator[Any]:
    import pyarrow as pa

    for batch in batches:
        yield pa.Table.from_batches([batch])


def _given(batches: Any) -> Iterator[Any]:
    """Yield what a caller's iterable gives, or a table by itself, as tables of pyarrow or tuples of arrays."""
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
        if isinstance(each, str | bytes):
            raise DataError(
                f"a batch is text, {short(str(each))}: give documents in order, as a list, or as a column of a "
                "data frame"
            )
        refuse_objects(each)
        try:
            with naming_bad_text(each):
                table = (
                    pa.table(each) if not isinstance(each, pa.RecordBatch) else pa.Table.from_batches([each])
                )
                table = without_types_of_nothing(table)
        except DataError:
            raise
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise DataError(
                f"a batch of type {type(each).__name__} is no table: {' '.join(str(error).split())}; give (X, y), "
                "or a table of Arrow's, pandas' or Polars'"
            ) from error
        yield table
