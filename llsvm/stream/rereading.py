"""Rereading makes passes over the same rows, one after the other. Where pages are read, it reads the first block of
a pass while the caller works on the last block of the pass before: with few blocks, waiting for the first one would
take much of a pass."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Generic, Protocol, TypeVar

from llsvm.block import Block
from llsvm.stream.assembly import Ahead, prepared
from llsvm.stream.stream import Stream


class SizedRows(Protocol):
    """Rows in the form that a method works on."""

    def __len__(self) -> int: ...


T = TypeVar("T", bound=SizedRows)


class Rereading(Generic[T]):
    """Passes over the rows of a stream. Call ``end`` before rows are read in other ways."""

    def __init__(self, stream: Stream, make: Callable[[Block], T]) -> None:
        """make: returns what is worked on in place of a block. The thread that reads pages calls it, if there is
        one."""
        self._stream, self._make = stream, make
        self._reading: Generator[T, None, None] | None = None

    def all(self) -> Iterator[T]:
        """Yield every row once. Raises OutOfTime where a pass has to end."""
        cached, n_rows, progress = self._stream.cached, self._stream.dataset.n_rows, self._stream.progress
        n_bytes = 0 if cached is None else cached.store.nbytes
        if self._reading is None:
            self._reading = prepared(self._blocks, lambda: self._make)
        progress.begin("pass", n_rows, n_bytes)
        try:
            while progress.rows_done < n_rows:
                part = next(self._reading)
                progress.check_measuring()
                yield part
                progress.count(len(part), n_bytes * (progress.rows_done + len(part)) // n_rows)
        finally:
            if progress.rows_done < n_rows:  # nobody wants the rest
                self.end()

    def end(self) -> None:
        """Stop reading, and return when no thread reads any more."""
        if self._reading is not None:
            self._reading.close()
        self._reading = None

    def _blocks(self, ahead: Ahead) -> Iterator[Block]:
        return self._stream.again(ahead, endless=True)
