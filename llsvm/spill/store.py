"""PageStore: a file of pages, each a Block, appended once and then read in any order by any thread.

A backend says how the arrays of a page lie in its file (``_write``) and how to find them again (``_arrays``);
all else is here: what a page holds, its checksum, the disk it takes, the buffer it is read into.

Pages are written from the block's own arrays; the only one held in memory is that in each reader's scratch.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block, Matrix
from llsvm.errors import UsageError
from llsvm.spill.rawfile import damaged, read_at
from llsvm.spill.workspace import Workspace

Arrays = dict[str, NDArray[Any]]


class Layout(NamedTuple):
    """What pages of one kind have in common.

    width: columns of a dense page, None for a sparse one. value, y: dtypes' names.
    has_rows: row numbers are stored (they are not when consecutive). has_weight: weights are stored.
    """

    width: int | None
    value: str
    y: str
    has_rows: bool
    has_weight: bool


class Segment(NamedTuple):
    """``nbytes`` bytes at ``offset`` of the file, read to ``position`` of the buffer (a multiple of 8)."""

    offset: int
    nbytes: int
    position: int


@dataclass(frozen=True, slots=True)
class PageInfo:
    """One page, as the store remembers it.

    nnz: stored values (n_rows * width if dense). nbytes: on disk. checksum: CRC-32 of those bytes.
    first_row: the first row's number if rows are consecutive and not stored, else None.
    """

    n_rows: int
    nnz: int
    layout: Layout
    first_row: int | None
    segments: tuple[Segment, ...]
    checksum: int

    @property
    def is_dense(self) -> bool:
        return self.layout.width is not None

    @property
    def width(self) -> int | None:
        """Columns of a dense page; None for a sparse one."""
        return self.layout.width

    @property
    def nbytes(self) -> int:
        return sum(segment.nbytes for segment in self.segments)

    @property
    def buffer_bytes(self) -> int:
        """Bytes of a buffer that all segments are read to, a multiple of 8."""
        return aligned(max((s.position + s.nbytes for s in self.segments), default=0))

    @property
    def scratch_bytes(self) -> int:
        """Bytes that ``PageStore.read`` fills: the buffer, then the row numbers that are not stored."""
        return self.buffer_bytes + (0 if self.first_row is None else 8 * self.n_rows)


class Scratch:
    """A buffer to read one page after the other into: it grows to the largest, then nothing is allocated."""

    def __init__(self, nbytes: int = 0) -> None:
        self._bytes = np.empty(nbytes, np.uint8)

    @property
    def nbytes(self) -> int:
        return self._bytes.nbytes

    def view(self, nbytes: int) -> NDArray[np.uint8]:
        """The first ``nbytes`` bytes; what earlier views hold is lost."""
        if nbytes > self.nbytes:
            self._bytes = np.empty(0, np.uint8)  # let go of the small one first
            self._bytes = np.empty(nbytes, np.uint8)
        return self._bytes[:nbytes]


class PageStore(ABC):
    """Pages in one file of a workspace. Written by one thread, then finished, then read by any number."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        self.pages: list[PageInfo] = []
        self.n_rows = 0
        self.nbytes = 0  # on disk, as claimed from the workspace
        self.scratch_bytes = 0  # of the page that needs most
        self.finished = False
        self._layouts: dict[Layout, Layout] = {}
        self._workspace = workspace
        self._path = workspace.path(name)
        self._file = workspace.create(name)

    def append(self, block: Block) -> None:
        """Write ``block`` as the next page; its arrays are free for other use afterwards.

        X: CSR or dense, float32 or float64. y: (n,) int32 or float64. rows: (n,) int64. weight: (n,) float32
        or None. Raises DiskError (limit reached, disk full), after which the store can only be deleted;
        TypeError for other dtypes.
        """
        self._check_open(finished=False)
        arrays = _arrays_of(block)
        first_row = _first_row(block.rows)
        if first_row is not None:
            del arrays["rows"]
        layout = Layout(
            width=None if isinstance(block.X, CSR) else block.X.shape[1],
            value=block.X.data.dtype.name if isinstance(block.X, CSR) else block.X.dtype.name,
            y=block.y.dtype.name,
            has_rows=first_row is None,
            has_weight=block.weight is not None,
        )
        layout = self._layouts.setdefault(layout, layout)  # one object for all pages alike
        segments, checksum = self._write(layout, arrays, first_row)
        page = PageInfo(block.n_rows, block.nnz, layout, first_row, segments, checksum)
        self.pages.append(page)
        self.n_rows += page.n_rows
        self.scratch_bytes = max(self.scratch_bytes, page.scratch_bytes)

    def finish(self) -> None:
        """Complete the file: no more pages are taken, and reading may begin. Raises DiskError."""
        self._check_open(finished=False)
        self._complete()
        self.finished = True

    def read(self, i: int, scratch: Scratch | None = None) -> Block:
        """Page ``i`` as it was appended (``indptr`` starts at 0), its bytes checked.

        With ``scratch``, the arrays are views of it, valid until the next read into it; without, they are the
        caller's own. Threads may read at the same time, each with its own scratch.
        Raises SpillError if the file is truncated or its bytes have changed.
        """
        self._check_open(finished=True)
        page = self.pages[i]
        if scratch is None:
            buffer = Scratch().view(page.scratch_bytes)
        else:
            buffer = scratch.view(self.scratch_bytes)
        checksum = 0
        for segment in page.segments:
            part = buffer[segment.position : segment.position + segment.nbytes]
            read_at(self._file, part, segment.offset, f"page {i} of {len(self.pages)}")
            checksum = zlib.crc32(part.data, checksum)
        if checksum != page.checksum:
            raise damaged(
                self._file,
                f"page {i} of {len(self.pages)}",
                f"checksum {page.checksum:08x} expected, {checksum:08x} found",
            )
        arrays = self._arrays(page, buffer)
        if page.first_row is not None:
            arrays["rows"] = _count_from(page.first_row, buffer[page.buffer_bytes : page.scratch_bytes])
        return _block_of(arrays)

    def delete(self) -> None:
        """Remove the file and release its disk; again does nothing."""
        if not self._file.closed:
            self._file.close()
            self._path.unlink(missing_ok=True)
        self._workspace.release(self.nbytes)
        self.nbytes = 0

    def _claim(self, nbytes: int) -> None:
        self._workspace.claim(nbytes)
        self.nbytes += nbytes

    def _check_open(self, finished: bool) -> None:
        if self._file.closed:
            raise ValueError(f"{self._path}: this store is deleted")
        if self.finished != finished:
            state = "finished, it takes no more pages" if self.finished else "still written: finish() it"
            raise ValueError(f"{self._path}: this store is {state}")

    @abstractmethod
    def _write(
        self, layout: Layout, arrays: Arrays, first_row: int | None
    ) -> tuple[tuple[Segment, ...], int]:
        """Claim disk, write a page and return where its bytes lie, and their CRC-32 in that order."""

    @abstractmethod
    def _arrays(self, page: PageInfo, buffer: NDArray[np.uint8]) -> Arrays:
        """The page's arrays, by the names that ``_write`` got them with, as views of ``buffer``."""

    @abstractmethod
    def _complete(self) -> None:
        """Write what belongs after the last page."""


def open_store(workspace: Workspace, name: str, spill_format: str) -> PageStore:
    """A new, empty store in the file ``name`` of ``workspace``. ``spill_format``: "arrow" or "hdf5"."""
    if spill_format == "arrow":
        from llsvm.spill.arrow import ArrowStore

        return ArrowStore(workspace, name)
    if spill_format == "hdf5":
        from llsvm.spill.hdf5 import HDF5Store

        return HDF5Store(workspace, name)
    raise UsageError(f"spill format must be arrow or hdf5, not {spill_format!r}")


def aligned(nbytes: int) -> int:
    """``nbytes`` rounded up to a multiple of 8, where an array of any of our types may begin."""
    return -(-nbytes // 8) * 8


def _arrays_of(block: Block) -> Arrays:
    """The block's arrays, contiguous, row offsets counted from 0, in the order in which they are stored."""
    X = block.X
    if isinstance(X, CSR):
        start, stop = int(X.indptr[0]), int(X.indptr[-1])
        indptr = X.indptr if start == 0 else X.indptr - start
        arrays: Arrays = {"indptr": indptr, "index": X.indices[start:stop], "value": X.data[start:stop]}
    else:
        arrays = {"X": X}
    arrays |= {"y": block.y, "rows": block.rows}
    if block.weight is not None:
        arrays["weight"] = block.weight
    for name, array in arrays.items():
        if array.dtype.name not in _DTYPES[name]:
            known = " or ".join(_DTYPES[name])
            raise TypeError(f"cannot spill {name} of type {array.dtype}: must be {known}")
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


_DTYPES = {
    "indptr": ("int64",),
    "index": ("int32",),
    "value": ("float32", "float64"),
    "X": ("float32", "float64"),
    "y": ("int32", "float64"),
    "rows": ("int64",),
    "weight": ("float32",),
}


def _block_of(arrays: Arrays) -> Block:
    if "X" in arrays:
        X: Matrix = arrays["X"]
    else:
        X = CSR(arrays["indptr"], arrays["index"], arrays["value"])
    return Block(X, arrays["y"], arrays["rows"], arrays.get("weight"))


def is_consecutive(rows: NDArray[np.int64]) -> bool:
    """Whether ``rows`` counts up by one."""
    n = len(rows)
    return n == 0 or (int(rows[-1]) - int(rows[0]) == n - 1 and bool(np.all(rows[1:] - rows[:-1] == 1)))


def _first_row(rows: NDArray[np.int64]) -> int | None:
    if not is_consecutive(rows):
        return None
    return int(rows[0]) if len(rows) else 0


def _count_from(first: int, buffer: NDArray[np.uint8]) -> NDArray[np.int64]:
    """first, first + 1, ... written over ``buffer``, without a temporary array."""
    rows = buffer.view(np.int64)
    rows[:] = 1
    rows[:1] = first
    return np.cumsum(rows, out=rows)
