"""Page stores: files of pages, each a Block, written once by a PageWriter, then read in any order by any thread.

A page is some named arrays (see ``packing``). A backend says how they lie in its file (``_write``) and how to find
them again (``_arrays``); all else is here: checksums, the disk they take, the buffer they are read into.

Pages are written from the packed arrays; the only one held in memory is that in each reader's scratch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.process.trace import trace
from llsvm.process.work import count_bytes
from llsvm.row_buffer import RowBuffer
from llsvm.spill.packing import (
    Arrays,
    Layout,
    Packer,
    PageChecksum,
    Shape,
    csr_dtype,
    layout_of,
    room_bytes,
    unpack,
    unpack_into,
)
from llsvm.spill.workspace import Workspace, damaged, read_at


class Segment(NamedTuple):
    """Place of ``nbytes`` bytes at ``offset`` of the file, read to ``position`` of the buffer (a multiple of 8)."""

    offset: int
    nbytes: int
    position: int


@dataclass(frozen=True, slots=True)
class PageInfo:
    """One page, as the store remembers it.

    layout: its arrays; lengths: of each. checksum: of its segments' bytes. room_bytes: for unpacking.
    """

    shape: Shape
    layout: Layout
    lengths: tuple[int, ...]
    segments: tuple[Segment, ...]
    checksum: int
    room_bytes: int

    @property
    def n_rows(self) -> int:
        return self.shape.n_rows

    @property
    def nnz(self) -> int:
        """Return the number of values (n_rows * width if dense)."""
        return self.shape.nnz

    @property
    def width(self) -> int | None:
        """Return the number of columns of a dense page; None for a sparse one."""
        return self.shape.width

    @property
    def is_dense(self) -> bool:
        return self.width is not None

    @property
    def nbytes(self) -> int:
        """Return the bytes of the page on disk."""
        return sum(segment.nbytes for segment in self.segments)

    @property
    def buffer_bytes(self) -> int:
        """Return the bytes of a buffer that all segments are read to, a multiple of 8."""
        return aligned(max((s.position + s.nbytes for s in self.segments), default=0))

    @property
    def scratch_bytes(self) -> int:
        """Return the bytes that ``PageStore.read`` fills: the buffer, then what is unpacked from it."""
        return self.buffer_bytes + self.room_bytes


class Scratch:
    """Buffer to read one page after the other into: it grows to the largest, then nothing is allocated."""

    def __init__(self, nbytes: int = 0) -> None:
        self._bytes = np.empty(nbytes, np.uint8)

    @property
    def nbytes(self) -> int:
        return self._bytes.nbytes

    def view(self, nbytes: int) -> NDArray[np.uint8]:
        """Return the first ``nbytes`` bytes; what earlier views hold is lost."""
        if nbytes > self.nbytes:
            self._bytes = np.empty(0, np.uint8)  # let go of the small one first
            self._bytes = np.empty(nbytes, np.uint8)
        return self._bytes[:nbytes]


class PageSink(ABC):
    """Taker of pages, which remembers what they are like.

    pages: those taken. n_rows: in them. nbytes: on disk. scratch_bytes, buffer_bytes: of the page that needs most,
    see PageInfo. finished: no more are taken.
    """

    def __init__(self) -> None:
        self.pages: list[PageInfo] = []
        self.n_rows = self.nbytes = self.scratch_bytes = self.buffer_bytes = 0
        self.finished = False

    @abstractmethod
    def append(self, block: Block) -> None:
        """Take ``block`` as the next page; its arrays are free for other use afterwards."""

    @abstractmethod
    def finish(self) -> None:
        """End the store: no more pages are to come."""

    @abstractmethod
    def delete(self) -> None:
        """Remove all that was kept of them; again does nothing."""

    def _take(self, page: PageInfo) -> None:
        self.pages.append(page)
        self.n_rows += page.n_rows
        self.scratch_bytes = max(self.scratch_bytes, page.scratch_bytes)
        self.buffer_bytes = max(self.buffer_bytes, page.buffer_bytes)


class PageStore(PageSink):
    """Pages in one file of a workspace. Written by one thread, then finished, then read by any number."""

    OVERWRITES = False
    """Whether the file may begin with other content, as long as it gets its true length in the end."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        super().__init__()
        self._gone = False
        self._layouts: dict[Layout, Layout] = {}
        self._packer = Packer()
        self._workspace = workspace
        self._path = workspace.path(name)
        # what is claimed from the workspace: more than nbytes while a retired file is written over
        self._file, self._claimed_bytes = (
            workspace.reuse(name) if self.OVERWRITES else (workspace.create(name), 0)
        )

    def append(self, block: Block) -> None:
        """Write ``block`` as the next page; its arrays are free for other use afterwards.

        X: CSR or dense, float32 or float64. y: (n,) int32 or float64. rows: (n,) int64. weight: (n,) float64
        or None. Raises DiskError (limit reached, disk full), after which the store can only be deleted;
        TypeError for other dtypes.
        """
        self._check_open(finished=False)
        shape, arrays = self._packer.pack(block)
        layout = layout_of(arrays)
        layout = self._layouts.setdefault(layout, layout)  # one object for all pages alike
        segments, checksum = self._write(layout, arrays)
        lengths = tuple(array.size for array in arrays.values())
        count_bytes(written=sum(segment.nbytes for segment in segments))
        self._take(PageInfo(shape, layout, lengths, segments, checksum, room_bytes(shape, arrays)))

    def finish(self) -> None:
        """Complete the file: no more pages are taken, and reading may begin. Raises DiskError."""
        self._check_open(finished=False)
        self._complete()
        self._packer = Packer()  # that holds nothing
        if self._claimed_bytes > self.nbytes:
            self._file.truncate(self.nbytes)
            self._workspace.release(self._claimed_bytes - self.nbytes)
            self._claimed_bytes = self.nbytes
        self.finished = True
        trace(
            "store.written", name=self._path.name, bytes=self.nbytes, pages=len(self.pages), rows=self.n_rows
        )

    def read(self, i: int, scratch: Scratch | None = None) -> Block:
        """Return page ``i`` as it was appended (``indptr`` starts at 0), its bytes checked.

        With ``scratch``, the arrays are views of it, valid until the next read into it; without, they are the
        caller's own. Threads may read at the same time, each with its own scratch.
        Raises SpillError if the file is truncated or its bytes have changed.
        """
        page = self.pages[i]
        if scratch is None:
            buffer = Scratch().view(page.scratch_bytes)
        else:
            buffer = scratch.view(self.scratch_bytes)
        return unpack(page.shape, self._load(i, buffer), buffer[page.buffer_bytes : page.scratch_bytes])

    def is_like(self, buffer: RowBuffer) -> bool:
        """Return whether ``fill`` may be used for this buffer: its rows and those of all pages are CSR of one
        dtype."""
        dtype = buffer.dtype.name  # not the dtype itself, which None is equal to where it is float64
        return buffer.width is None and all(csr_dtype(layout) == dtype for layout in self._layouts)

    def fill(self, i: int, into: Block, scratch: Scratch) -> None:
        """Read page ``i`` into ``RowBuffer.extend``'s rows. Errors and threads: as ``read``."""
        page = self.pages[i]
        unpack_into(into, page.shape, self._load(i, scratch.view(self.buffer_bytes)))

    def _load(self, i: int, buffer: NDArray[np.uint8]) -> Arrays:
        """Return the packed arrays of page ``i``, as views of the buffer that its bytes are read to and checked
        in."""
        self._check_open(finished=True)
        page = self.pages[i]
        checksum = PageChecksum()
        count_bytes(read=page.nbytes)
        for segment in page.segments:
            part = buffer[segment.position : segment.position + segment.nbytes]
            read_at(self._file, part, segment.offset, f"page {i} of {len(self.pages)}")
            checksum.add(part)
        if checksum.value != page.checksum:
            raise damaged(
                self._file,
                f"page {i} of {len(self.pages)}",
                f"checksum {page.checksum:032x} expected, {checksum.value:032x} found",
            )
        return self._arrays(page, buffer)

    def delete(self) -> None:
        """Remove the file and release its disk; again does nothing."""
        if not self._gone:
            self._file.close()
            self._path.unlink(missing_ok=True)
            self._workspace.release(self._claimed_bytes)
        self._leave()

    def retire(self) -> None:
        """Retire the store: as ``delete``, but the next store of the workspace may write over the file."""
        if self.OVERWRITES and not self._gone:
            self._workspace.retire(self._file, self._claimed_bytes)
            self._leave()
        else:
            self.delete()

    def _leave(self) -> None:
        self._gone = True
        self.nbytes = self._claimed_bytes = 0

    def _claim(self, nbytes: int) -> None:
        more = self.nbytes + nbytes - self._claimed_bytes
        if more > 0:
            self._workspace.claim(more)
            self._claimed_bytes += more
        self.nbytes += nbytes

    def _check_open(self, finished: bool) -> None:
        if self._gone:
            raise ValueError(f"{self._path}: this store is deleted")
        if self.finished != finished:
            state = "finished, it takes no more pages" if self.finished else "still written: finish() it"
            raise ValueError(f"{self._path}: this store is {state}")

    @abstractmethod
    def _write(self, layout: Layout, arrays: Arrays) -> tuple[tuple[Segment, ...], int]:
        """Claim disk, write a page and return where its bytes lie, and their checksum in that order."""

    @abstractmethod
    def _arrays(self, page: PageInfo, buffer: NDArray[np.uint8]) -> Arrays:
        """Return the page's arrays, flat, by the names that ``_write`` got them with, as views of ``buffer``."""

    @abstractmethod
    def _complete(self) -> None:
        """Write what belongs after the last page."""


def aligned(nbytes: int) -> int:
    """Return ``nbytes`` rounded up to a multiple of 8, where an array of any of our types may begin."""
    return -(-nbytes // 8) * 8
