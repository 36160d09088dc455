"""Conversion: the rows of any source into a file of another format, block by block.

A table becomes a table with the same columns, unless it has columns of text that are to become n-grams. Everything
else is written as numbers:

    svmlight        label index:value ..., indices from 1
    parquet, arrow  dense: a column per feature, named as the features are (or x0, x1, ...), or beyond 1000 features
                    one fixed-size list ``features``; sparse: lists ``indices`` (from 0) and ``values``; ``label``
                    and, if there are any, ``weight``
    hdf5            X (n, d) float32, or a group X with data, indices, indptr as AnnData has it; y; weight

Values are written as 32-bit floats, or as 64-bit ones where those do not hold some of them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.data.source import BlockSource, SourceInfo, growing_blocks
from llsvm.data.svmlight_labels import is_label_word
from llsvm.errors import BudgetError, DataError, UsageError
from llsvm.files.file_objects import HDF5Output
from llsvm.files.remote import is_remote
from llsvm.files.writing import STDOUT, naming, replacing
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.sizes import memory_limit_bytes
from llsvm.models.record import label_text
from llsvm.objective.rounding import ValuesRounded, keep_double
from llsvm.row_buffer import sparsify, steps
from llsvm.scoring.room import DEFAULT_MEMORY, SMALLEST_BLOCK_BYTES, block_bytes
from llsvm.settings.option import require_choice
from llsvm.spill.workspace import choose_parent
from llsvm.stream.stream import Stream

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = {
    "svmlight": (".svm", ".svmlight", ".libsvm", ".txt"),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "hdf5": (".h5", ".hdf5", ".h5ad"),
}
_MAX_COLUMNS = 1000  # of a table, one for each feature
_TEXT_BYTES = 1 << 20  # of rows that become text together
_GROUP_BATCHES = 256  # of blocks smaller than the smallest, in a row group of Parquet
_COLUMN_BYTES = 4 << 10  # ... and of each column's values in it, or more: some 1.5 kB describe them
_PARQUET_BYTES = 24 << 20  # that its writer takes beside the rows, also where kernels have just been compiled
_HDF5_ROWS, _HDF5_BYTES = 1024, 1 << 20
Put = Callable[[Block], None]


def format_for(path: str, to: str | None) -> str:
    """Return the format to write: the one asked for, else by the suffix; standard output is svmlight text. Raises
    UsageError."""
    if to is None and path == STDOUT:
        return "svmlight"
    if to is not None:
        require_choice("--to", to, list(FORMATS))
    format_name = to or next((name for name, ends in FORMATS.items() if path.lower().endswith(ends)), None)
    if format_name not in FORMATS:
        raise UsageError(
            f"{path}: the ending of the name is none that convert writes; pass --to {', '.join(FORMATS)}"
        )
    return format_name


def convert(
    source: BlockSource,
    path: str | os.PathLike[str],
    to: str | None = None,
    memory_limit: str | int | None = None,
    exact: bool = False,
) -> int:
    """Write the rows of ``source`` to ``path`` (atomically) and return their number.

    memory_limit: of the process, as Settings has it. exact: raise BudgetError where a vocabulary cannot be held,
    else n-grams are hashed then. Raises DataError for input that cannot be read or labels that
    the format cannot hold, UsageError, DiskError, BudgetError.
    """
    path = os.fspath(path)
    name = format_for(path, to)
    _learn(source, path, memory_limit, exact)
    info = source.info()
    writer = {"the writer of Parquet": _PARQUET_BYTES} if name == "parquet" else None
    max_bytes = block_bytes(0, 2, memory_limit, info.reader_bytes, writer)
    if is_copy(info, name):
        assert info.record_batches is not None
        return _copy_table(info.record_batches(max_bytes), info.name, path, name)

    def grow(row_bytes: int) -> int:
        return block_bytes(0, 2, memory_limit, info.reader_bytes, writer, row_bytes)

    if path == STDOUT:  # which takes nothing back
        keep_double(info.rounding)
    for each in info.rounding:
        each.judge_rows(True)  # all that is too near to 0 is to be known
    try:
        if info.index_base is None and info.rereadable:
            _read_through(source, max_bytes, grow)
        return _written(source, path, name, max_bytes, grow)
    except ValuesRounded:
        if not info.rereadable:
            raise DataError(
                f"{info.name}: values are too near to 0 for 32-bit floats, which is known only now, and it can be "
                "read once only; convert a file"
            ) from None
    except DataError:
        if not info.rereadable or not any(each.overflowed and not each.double for each in info.rounding):
            raise
    keep_double(info.rounding)
    if source.info().index_base is None:
        _read_through(source, max_bytes, grow)
    return _written(source, path, name, max_bytes, grow)


def is_copy(info: SourceInfo, name: str) -> bool:
    """Return whether a table stays a table in a file of the format ``name``."""
    return name in ("parquet", "arrow") and info.record_batches is not None and not _has_made(info)


def _has_made(info: SourceInfo) -> bool:
    """Return whether there are columns of documents or crosses, of which features are made."""
    encoder = info.encoder
    return encoder is not None and (encoder.documents is not None or bool(encoder.crosses.crosses))


def note_of_numbering(info: SourceInfo) -> str:
    """Return the note that a file converted apart may number its columns otherwise, or "" where it does not.

    Exact vocabularies, categories and names of VW are numbered as the rows have them; hashed ones are not.
    """
    named: list[str] = []
    if info.encoder is not None:
        documents, categories = info.encoder.documents, info.encoder.categories
        named += categories.names if categories.hash_bits is None else ()
        named += documents.names if documents is not None and documents.options.hash_bits is None else ()
    if not named and info.format != "vw":
        return ""
    what = f"the values of {', '.join(named)}" if named else "features"
    remedy = "convert all data in one call" + (", or pass --hash-bits 18" if named else "")
    return (
        f"{info.name}: {what} become columns in the order in which these rows have them, and a file that is "
        f"converted apart has another order: {remedy}"
    )


def _written(source: BlockSource, path: str, name: str, max_bytes: int, grow: Callable[[int], int]) -> int:
    """Write the rows, and return their number. grow: for a row that is too long for such blocks, see
    ``growing_blocks``. Raises ValuesRounded where values are too near to 0 for 32-bit floats, and would be others.
    """
    n_rows = 0
    with _WRITERS[name](path, source) as put:
        try:
            for block in growing_blocks(source, max_bytes, grow):
                put(block)
                n_rows += block.n_rows
        except DataError as error:
            if path != STDOUT or n_rows == 0:
                raise
            raise DataError(f"{error}; {n_rows:,} rows before it were written to standard output") from error
        if any(each.flushed and not each.double for each in source.info().rounding):
            raise ValuesRounded
    return n_rows


def _learn(source: BlockSource, path: str, memory_limit: str | int | None, exact: bool) -> None:
    """Learn the vocabularies of text columns, and what is crossed, if there are such."""
    if not _has_made(source.info()):
        return
    from llsvm.data.crosses import learn_crosses
    from llsvm.training.texts import learn_texts

    parent = choose_parent(None, None if path == STDOUT or is_remote(path) else path)
    try:
        budget = MemoryBudget(memory_limit_bytes(memory_limit or DEFAULT_MEMORY))
    except BudgetError as error:  # it is not known what comes after
        raise error.as_least() from error
    with Stream(source, budget, parent) as stream:
        learn_crosses(source, budget)
        learn_texts(stream, exact, column_bytes=0, for_training=False)


def _read_through(source: BlockSource, max_bytes: int, grow: Callable[[int], int]) -> None:
    """Read all rows: whether indices start at 0 or at 1 is known at the end, and must be before the first row is
    written."""
    for _ in growing_blocks(source, max_bytes, grow):
        pass


def _copy_table(batches: Iterator[pa.RecordBatch], source: str, path: str, name: str) -> int:
    n_rows = 0
    with replacing(path) as stream, ExitStack() as stack:  # a writer is closed before its stream is
        writer = None
        for batch in batches:
            if writer is None:
                writer = _table_writer(stream, batch.schema, name)
                stack.callback(writer.close)
            writer.write_batch(batch)
            n_rows += batch.num_rows
        if writer is None:
            raise DataError(f"{source}: there is no row in it")
    return n_rows


def _table_writer(stream: BinaryIO, schema: pa.Schema, name: str) -> Any:
    import pyarrow as pa

    if name == "arrow":
        return pa.ipc.new_file(stream, schema)
    import pyarrow.parquet as pq

    return _RowGroups(pq.ParquetWriter(stream, schema))


class _RowGroups:
    """Writes Parquet, small batches together as one row group: what describes the groups is held to the end, and
    each of very many files may be a batch."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._min_bytes = max(SMALLEST_BLOCK_BYTES, _COLUMN_BYTES * len(writer.schema.names))
        self._held: list[pa.RecordBatch] = []
        self._nbytes = 0  # of these

    @property
    def schema(self) -> pa.Schema:
        return self._writer.schema

    def write_batch(self, batch: pa.RecordBatch) -> None:
        self._held.append(batch)
        self._nbytes += batch.nbytes
        if len(self._held) == _GROUP_BATCHES or self._nbytes >= self._min_bytes:
            self._write()

    def close(self) -> None:
        if self._held:
            self._write()
        self._writer.close()

    def _write(self) -> None:
        import pyarrow as pa

        held, self._held, self._nbytes = self._held, [], 0
        self._writer.write_table(pa.Table.from_batches(held))


@contextmanager
def _svmlight(path: str, source: BlockSource) -> Iterator[Put]:
    with replacing(path) as stream:

        def put(block: Block) -> None:
            if block.weight is not None:
                raise UsageError(f"{path}: svmlight has no place for weights; convert to another format")
            if block.y.dtype.kind in "OUS":
                _require_words(path, block.y)
            shift = 1 - (source.info().index_base or 0)
            for start, stop in steps(block.X, _TEXT_BYTES):
                stream.write(_text(block.slice(start, stop), shift))

        _require_base(source)
        yield put


def _require_words(path: str, y: NDArray[Any]) -> None:
    """Raise DataError for a label of text that would be read as something else."""
    for label in sorted({str(each) for each in y}):
        if not is_label_word(label.encode()) or set(label) & set(" \t\r\n#"):
            raise DataError(
                f"{path}: the label {label!r} is text, but would not be so in svmlight, whose labels are numbers, "
                "or words without spaces, commas, colons and #; rename it, pass --positive LABEL for one label "
                "against the rest, or convert to another format"
            )


def _require_base(source: BlockSource) -> None:
    """Raise UsageError unless the base of indices, which are written while rows are read, is known before."""
    if source.info().index_base is None:
        raise UsageError(
            f"{source.info().name}: do its indices start at 0 or at 1? What can be read only once does not tell "
            "in time: pass --zero-based yes or no, or convert a file"
        )


def _text(block: Block, shift: int) -> bytes:
    """Return the rows as svmlight text, each number in the fewest digits that read back as the same float."""
    import pyarrow as pa
    import pyarrow.compute as pc

    X = block.X if isinstance(block.X, CSR) else sparsify(block.X)
    first, last = int(X.indptr[0]), int(X.indptr[-1])
    columns = pa.array(X.indices[first:last] + np.int32(shift)).cast(pa.string())
    cells = pc.binary_join_element_wise(columns, pa.array(X.data[first:last]).cast(pa.string()), ":")
    offsets = pa.array((X.indptr - first).astype(np.int32))
    features = pc.binary_join(pa.ListArray.from_arrays(offsets, cells), " ")
    labels, which = np.unique(block.y, return_inverse=True)
    label = pa.array([label_text(each) for each in labels.tolist()]).take(pa.array(which))
    head = pc.if_else(pc.equal(features, ""), label, pc.binary_join_element_wise(label, "", " "))
    lines = pc.binary_join_element_wise(head, features, "\n", "")
    return bytes(lines.buffers()[2])  # the values of a string array lie one after the other


@contextmanager
def _arrow_file(path: str, source: BlockSource, name: str) -> Iterator[Put]:
    _require_base(source)
    writer: list[Any] = []
    with replacing(path) as stream:

        def put(block: Block) -> None:
            batch = _record_batch(block, source.info())
            if not writer:
                writer.append(_table_writer(stream, batch.schema, name))
            writer[0].write_batch(batch.cast(writer[0].schema) if name == "parquet" else batch)

        yield put
        if writer:
            writer[0].close()


def _record_batch(block: Block, info: SourceInfo) -> pa.RecordBatch:
    import pyarrow as pa

    arrays: dict[str, Any] = {"label": pa.array(block.y)}
    if block.weight is not None:
        arrays["weight"] = pa.array(block.weight)
    if isinstance(block.X, CSR):
        first, last = int(block.X.indptr[0]), int(block.X.indptr[-1])
        offsets = pa.array((block.X.indptr - first).astype(np.int32))
        indices = block.X.indices[first:last] - (info.index_base or 0)
        arrays["indices"] = pa.ListArray.from_arrays(offsets, pa.array(indices))
        arrays["values"] = pa.ListArray.from_arrays(offsets, pa.array(block.X.data[first:last]))
    elif block.X.shape[1] > _MAX_COLUMNS:
        flat = pa.array(block.X.reshape(-1))
        arrays["features"] = pa.FixedSizeListArray.from_arrays(flat, block.X.shape[1])
    else:
        names = info.feature_names or tuple(f"x{j}" for j in range(block.X.shape[1]))
        arrays |= {name: pa.array(np.ascontiguousarray(block.X[:, j])) for j, name in enumerate(names)}
    return pa.record_batch(arrays)


@contextmanager
def _hdf5_file(stream: BinaryIO, path: str) -> Iterator[tuple[Any, HDF5Output]]:
    import h5py

    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        raise UsageError(f"{path}: not a regular file; this format needs one")
    output = HDF5Output(stream.fileno())
    with h5py.File(output, "w", libver="latest") as file:
        yield file, output
    with naming(path):
        output.check()  # what was written last, too


@contextmanager
def _hdf5(path: str, source: BlockSource) -> Iterator[Put]:
    import h5py

    _require_base(source)
    info = source.info()
    with replacing(path) as stream, _hdf5_file(stream, path) as (file, output):
        columns = 0

        def extend(where: Any, key: str, values: Any) -> None:
            if key not in where:
                shape = (0, *values.shape[1:])
                row_bytes = max(values.dtype.itemsize * int(np.prod(values.shape[1:])), 1)
                rows = (
                    max(1, _HDF5_BYTES // row_bytes)
                    if values.ndim == 1
                    else min(_HDF5_ROWS, max(1, _HDF5_BYTES // row_bytes))
                )
                kind = h5py.string_dtype() if values.dtype.kind in "UO" else values.dtype
                where.create_dataset(
                    key, shape, kind, maxshape=(None, *shape[1:]), chunks=(rows, *values.shape[1:])
                )
            data = where[key]
            data.resize(len(data) + len(values), 0)
            data[len(data) - len(values) :] = values.astype(object) if values.dtype.kind == "U" else values

        def put(block: Block) -> None:
            nonlocal columns
            extend(file, "y", block.y)
            if block.weight is not None:
                extend(file, "weight", block.weight)
            if not isinstance(block.X, CSR):
                extend(file, "X", block.X)
                return
            group = file.require_group("X")
            first, last = int(block.X.indptr[0]), int(block.X.indptr[-1])
            indices = block.X.indices[first:last] - (info.index_base or 0)
            columns = max(columns, int(indices.max(initial=-1)) + 1)
            if "indptr" not in group:
                extend(group, "indptr", np.zeros(1, np.int64))
            end = len(group["data"]) if "data" in group else 0
            extend(group, "indices", indices)
            extend(group, "data", block.X.data[first:last])
            extend(group, "indptr", block.X.indptr[1:] - first + end)

        def put_checked(block: Block) -> None:
            put(block)
            with naming(path):
                output.check()

        yield put_checked
        if "X" in file and isinstance(file["X"], h5py.Group):
            width = max(columns, source.info().n_features or 0)
            file["X"].attrs["encoding-type"] = "csr_matrix"
            file["X"].attrs["shape"] = (len(file["X"]["indptr"]) - 1, width)


_WRITERS: dict[str, Callable[[str, BlockSource], AbstractContextManager[Put]]] = {
    "svmlight": _svmlight,
    "parquet": lambda path, source: _arrow_file(path, source, "parquet"),
    "arrow": lambda path, source: _arrow_file(path, source, "arrow"),
    "hdf5": _hdf5,
}
