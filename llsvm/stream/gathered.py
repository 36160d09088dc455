"""Gathered brings survivors together in one buffer, in the memory that a pass uses for blocks of rows and for what
else is not needed between two passes."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType

from llsvm.block import Block
from llsvm.memory.plan import BLOCKS, SURVIVORS
from llsvm.memory.process import trim_freed_memory
from llsvm.row_buffer import RowBuffer, row_bytes
from llsvm.spill.store import Scratch
from llsvm.stream.stream import Stream

GATHERED = "survivors brought together"  # name in the memory budget


class Gathered:
    """Buffer for all survivors, a context manager. While it is open no blocks are read, and their memory is
    reserved for this buffer instead.

    room_bytes: the size of that memory. rows: a buffer for survivors."""

    def __init__(self, stream: Stream, line: str, more_bytes: int) -> None:
        """more_bytes: bytes of the budget's ``line`` that their holder needs no longer."""
        plan = stream.plan
        self._stream = stream
        self._reservations = {BLOCKS: plan.two_blocks_bytes, line: more_bytes}
        self._drop = False
        # memory is taken as rows come: as many as may
        self.rows = stream.new_buffer(self.room_bytes + plan.survivor_bytes)

    @property
    def room_bytes(self) -> int:
        return sum(self._reservations.values())

    def __enter__(self) -> Gathered:
        self._stream.drop_blocks()
        trim_freed_memory()
        for line, nbytes in self._reservations.items():
            self._take(line, nbytes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        trim_freed_memory()
        budget = self._stream.budget
        budget.release(GATHERED)
        for line, nbytes in self._reservations.items():
            budget.reserve(line, nbytes)

    def _take(self, line: str, nbytes: int) -> None:
        self._stream.budget.release(line, nbytes)
        self._stream.budget.reserve(GATHERED, nbytes)

    @property
    def survivor_bytes(self) -> int:
        """Return the bytes of all survivors in one buffer."""
        survivors, rows = self._stream.survivors, self.rows
        resident, spilled = survivors.resident, survivors.spilled
        pages = [] if spilled is None else spilled.pages
        n_rows = resident.n_rows + sum(page.n_rows for page in pages)
        nnz = resident.nnz + sum(page.nnz for page in pages)
        return row_bytes(n_rows, nnz, rows.dtype.itemsize, rows.width, rows.weighted, rows.targets)

    def begin(self, drop: bool) -> RowBuffer:
        """Return the buffer, empty. drop: ``survivors`` forgets those in memory before it yields the spilled ones,
        so that the buffer gets their memory."""
        self._drop = drop
        self.rows.clear()
        return self.rows

    def survivors(self) -> Iterator[Block]:
        """Yield the survivors in memory, then the spilled ones, page by page: each is valid until the next."""
        stream, survivors = self._stream, self._stream.survivors
        yield survivors.resident
        if self._drop:
            self.drop_resident()
        spilled, scratch = survivors.spilled, Scratch()
        for number, page in enumerate(spilled.pages if spilled is not None else ()):
            assert spilled is not None
            stream.count_bytes(page.nbytes)
            yield spilled.read(number, scratch)

    def drop_resident(self) -> None:
        """Forget the survivors in memory, and add their memory to that of the buffer."""
        survivors, plan = self._stream.survivors, self._stream.plan
        survivors.drop(self._stream.new_buffer(plan.survivor_bytes))
        trim_freed_memory()
        self._drop = False
        signed = plan.lines.get(SURVIVORS, 0)
        self._take(SURVIVORS, signed)
        self._reservations[SURVIVORS] = signed
