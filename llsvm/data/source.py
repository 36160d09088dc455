"""BlockSource: the protocol that every reader keeps. A new format is a file here and a line in FORMATS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, FLOAT64_BYTES, ROW_BYTES, TARGET_BYTES, WEIGHT_BYTES, Block, concat
from llsvm.errors import DataError, LongRowError
from llsvm.memory.budget import READING, MemoryBudget
from llsvm.memory.plan import PAGE_BYTES, READING_BLOCKS
from llsvm.objective.rounding import Rounding
from llsvm.settings.objective import CLASSIFICATION

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from llsvm.features.encoder import TableEncoder
    from llsvm.files.fingerprint import FileFingerprint

# held for each file of those that are read as one: its path, what is known of it, its fingerprint; measured
FILE_BYTES = 1000
READ_AS_NUMBERS = "are read as numbers"  # of a note on codes, whose zeros in front are lost
# a note on text, for its path and the place
CUT_OFF = "{}: {} does not end with an end of line: if the file was cut off there, its last value may be too"


class ColumnsBatch(NamedTuple):
    """Some columns, of some rows of a file. rows: the columns alone. path: of the file. first_row: from 0. places:
    (n,) where after it the rows were, of which some do not count; None where they follow each other."""

    rows: pa.RecordBatch
    path: str
    first_row: int
    places: NDArray[np.int64] | None = None

    def row(self, i: int) -> int:
        """Return the number in the file, from 0, of row i."""
        return self.first_row + (i if self.places is None else int(self.places[i]))

    def weights(self, encoder: TableEncoder) -> NDArray[np.float64] | None:
        """Return the sample weights (n,), see TableEncoder. Raises DataError."""
        try:
            return encoder.weights(self.rows)
        except ValueError as error:
            row, reason = error.args
            raise DataError(f"{self.path}: row {self.row(row) + 1}: {reason}") from error

    def words(self, i: int) -> str:
        """Return the place of row i in words."""
        return f"row {self.row(i) + 1:,} of {self.path}"


class ParsedFile(Protocol):
    """A text file whose rows may come from a copy: sparse ones, with labels that are numbers.

    path: of a file here. how: what of the reader's options decides what rows are. facts: what is known of it after
    a complete pass, plain values and its "fingerprint".
    """

    path: str
    rounding: Rounding
    bytes_read: int

    @property
    def how(self) -> str: ...

    @property
    def facts(self) -> dict[str, Any]: ...

    def know(self, facts: Mapping[str, Any]) -> None:
        """Take for true what ``facts`` were."""
        ...

    def parse(self, max_bytes: int) -> Iterator[Block]:
        """Yield blocks as ``BlockSource.blocks`` does, from the text."""
        ...


class Copies(Protocol):
    """Store of copies of files' rows, which it has or makes."""

    def blocks(self, file: ParsedFile, max_bytes: int) -> Iterator[Block]:
        """Yield the blocks of the file, as ``BlockSource.blocks`` does."""
        ...


@dataclass(slots=True)
class Parsing:
    """How a text file is read. copies: that its rows may come from; to be set before a reading."""

    copies: Copies | None = None


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """Facts that a source knows of itself, and what it can do. ``None``: not known before the whole source has been
    read once. A source that wraps another derives its own facts from the other's (``dataclasses.replace``), so that
    nothing is lost.

    name: for messages: a path, or "arrays".
    format: a name in FORMATS, or "arrays".
    n_bytes: bytes a full pass reads.
    n_rows, n_features: rows, and columns once ``index_base`` is subtracted.
    rereadable: False for a pipe, which can be read once only.
    in_memory: blocks are views of arrays that the caller holds; reading again costs nothing.
    index_base: what must be subtracted from the column indices that ``blocks`` hands out (0 or 1);
        decided once the source has been read to its end, None before.
    feature_names: of the columns, where they have names; known after a complete pass at the latest. Behind a
        feature map they are still those of the columns that it maps, which predictions will be given.
    first_indicator: columns from this one on are n-grams and 0/1 indicators of categories, which scaling leaves
        alone.
    reader_bytes: bytes that the format's library holds while it reads, beside the blocks.
    library_bytes: of these, what stays when nothing is being read.
    is_dense: blocks are dense arrays of ``n_features`` columns, and this is known from the start.
    is_table: columns with names, each a quantity of its own, in units of its own; known from the start.
    labelled: rows have labels; where they have none, ``y`` means nothing.
    label_kind: what they are to be taken for, a name of llsvm.settings.objective; of a regression ``y`` is finite
        float64. scale_targets: a Stream brings those to mean 0 and variance 1.
    class_names: of the labels -1 and 1, where these stand for others; known after a complete pass.
    fingerprints: of each file, as it was when it was first read from beginning to end; None before that, for
        arrays, and where a reader takes none (see llsvm.files.fingerprint). Later readings are held against them.
    file_rows: how many rows each of these files has; None where that is not known.
    notes: what its reader took for granted and its user may not know, a sentence each, as far as it was read.
    encoder: of a table: how its columns become features; else None.
    describe: of a table: what people are told of its columns, see TableSource; else None.
    record_batches: of a table: its rows as they are, in batches of at most so many bytes; else None.
    columns: of a table: those columns alone, in batches of about so many bytes; else None.
    rounding: what the readers of the files do to values that are no 32-bit floats, and have done; may be told to
        keep them as they are, before a reading.
    parsing: of each text file whose rows may come from a copy.
    """

    name: str
    format: str
    n_bytes: int | None = None
    n_rows: int | None = None
    n_features: int | None = None
    rereadable: bool = True
    in_memory: bool = False
    index_base: int | None = 0
    feature_names: tuple[str, ...] | None = None
    first_indicator: int | None = None
    reader_bytes: int = 0
    library_bytes: int = 0
    is_dense: bool = False
    is_table: bool = False
    labelled: bool = True
    label_kind: str = CLASSIFICATION
    scale_targets: bool = False
    class_names: tuple[Any, Any] | None = None
    fingerprints: tuple[FileFingerprint, ...] | None = None
    file_rows: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()
    encoder: TableEncoder | None = None
    describe: Callable[[], list[dict[str, Any]]] | None = None
    record_batches: Callable[[int], Iterator[pa.RecordBatch]] | None = None
    columns: Callable[[Sequence[str], int], Iterator[ColumnsBatch]] | None = None
    rounding: tuple[Rounding, ...] = field(default=(), compare=False)
    parsing: tuple[Parsing, ...] = field(default=(), compare=False)

    @property
    def weight_columns(self) -> tuple[str, ...]:
        """Return the column of sample weights of a table, if there is one."""
        weight = None if self.encoder is None else self.encoder.weight
        return () if weight is None else (weight,)


def column_name(info: SourceInfo, number: int) -> str:
    """Return a column of blocks as sentences have it: by its name, if it has one."""
    number -= info.index_base or 0
    if info.feature_names is not None:
        return f"column {info.feature_names[number]}"
    if info.encoder is not None:
        return f"column {info.encoder.names_of([number])[0]}"
    return f"column {number + (info.index_base or 0)}"


class BlockSource(Protocol):
    """A restartable sequence of blocks, in the source's own order, the same at every call."""

    @property
    def bytes_read(self) -> int:
        """Bytes read from disk so far, all readings together; grows while ``blocks`` runs."""
        ...

    def info(self) -> SourceInfo: ...

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield blocks of at most ``max_bytes`` each (``Block.nbytes``); a single row may be larger, but where it
        is much larger LongRowError says how much to ask for.

        A yielded block may be kept by the caller: its arrays are never written again.
        While it runs, the source holds at most about ``5 * max_bytes`` of its own.
        Raises DataError, naming file, line and remedy, for anything malformed.
        """
        ...


class DerivedSource:
    """The rows of another source, which a subclass changes on their way; see BlockSource. source: of the rows."""

    def __init__(self, source: BlockSource) -> None:
        self.source = source

    @property
    def bytes_read(self) -> int:
        """Return the bytes that the other source has read."""
        return self.source.bytes_read

    def info(self) -> SourceInfo:
        """Return what is known of the other source."""
        return self.source.info()

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows in order."""
        return self.source.blocks(max_bytes)


# Blocks of the sizes that are asked for: cut, filled with rows, or larger where a row is too long.

_ROW_BYTES = ROW_BYTES + TARGET_BYTES + WEIGHT_BYTES  # of any row: the same whatever labels are read as
# Each block of a table costs Python a time for each column: it has so many rows, or as many as so many bytes hold
_TABLE_ROWS, _TABLE_BYTES = 16, 500_000


def cut(block: Block, max_bytes: int) -> Iterator[Block]:
    """Yield the block in views of at most ``max_bytes``, or of one row."""
    if block.nbytes <= max_bytes or block.n_rows == 1:
        yield block
        return
    middle = block.n_rows // 2
    yield from cut(block.slice(0, middle), max_bytes)
    yield from cut(block.slice(middle, block.n_rows), max_bytes)


def filled(blocks: Iterable[Block], max_bytes: int) -> Iterator[Block]:
    """Yield the rows of sparse blocks, copied, in blocks of as many as ``max_bytes`` hold, or of one row: where
    these are cut follows from the rows alone."""
    held: list[Block] = []
    room = max_bytes
    for block in blocks:
        ends, start = np.cumsum(_row_sizes(block)), 0
        while start < block.n_rows:
            before = int(ends[start - 1]) if start else 0
            stop = int(np.searchsorted(ends, before + room, "right"))
            if stop == start and not held:
                stop += 1
            if stop > start:
                held.append(block.slice(start, stop))
                room -= int(ends[stop - 1]) - before
                start = stop
            if start < block.n_rows:
                yield from cut(concat(held), max_bytes)  # long labels may make it too large
                held, room = [], max_bytes
    if held:
        yield from cut(concat(held), max_bytes)


def _row_sizes(block: Block) -> NDArray[np.int64]:
    """Return the bytes of each row, (n,)."""
    X = block.X
    assert isinstance(X, CSR), "n-grams are sparse"
    return np.diff(X.indptr) * (X.indices.itemsize + X.data.itemsize) + _ROW_BYTES


def growing_blocks(source: BlockSource, max_bytes: int, grow: Callable[[int], int] | None) -> Iterator[Block]:
    """Yield the blocks of ``source``; where a row is too long for them it is read anew up to there, in larger ones.

    grow: asked for blocks of at least so many bytes where a row is too long for those at hand; it may refuse. None:
    such a row is refused.
    """
    done = 0  # rows handed out
    while True:
        try:
            for block in source.blocks(max_bytes):
                if not block.n_rows:
                    yield block
                    continue
                first = int(np.searchsorted(block.rows, done))
                if first < block.n_rows:
                    done = int(block.rows[-1]) + 1
                    yield block.slice(first, block.n_rows) if first else block
            return
        except LongRowError as error:
            if grow is None or not source.info().rereadable or error.row_bytes <= max_bytes:
                raise
            max_bytes = grow(error.row_bytes)


def room_in(budget: MemoryBudget) -> Callable[[int], int]:
    """Return a function for ``growing_blocks``, of a reading beside what the budget holds: it refuses with the
    budget's BudgetError."""

    def grow(row_bytes: int) -> int:
        budget.require({READING: READING_BLOCKS * row_bytes})
        return row_bytes

    return grow


def table_block_bytes(info: SourceInfo) -> int:
    """Return the bytes of the rows that a block of a table has to hold; 0 where the smallest pages hold them, and
    for what is no table."""
    nbytes = min(_TABLE_ROWS * FLOAT64_BYTES * (info.n_features or 0), _TABLE_BYTES)
    return nbytes if info.is_table and nbytes > PAGE_BYTES[0] else 0
