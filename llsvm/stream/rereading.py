"""Rereading: passes over the same rows, one after the other. Where pages are read, the first block of a pass is
read while the last of the one before is worked on: who works on few blocks waits for much of a pass else."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Generic, Protocol, TypeVar

from llsvm.block import Block
from llsvm.stream.assembly import Ahead, prepared
from llsvm.stream.stream import Stream


class SizedRows(Protocol):
    """Some rows, as they are worked on."""

    def __len__(self) -> int: ...


T = TypeVar("T", bound=SizedRows)


class Rereading(Generic[T]):
    """``end`` it before rows are read in other ways."""

    def __init__(self, stream: Stream, make: Callable[[Block], T]) -> None:
        """make: what is worked on in place of a block; by the thread that reads pages, where there is one."""
        self._stream, self._make = stream, make
        self._reading: Generator[T, None, None] | None = None

    def all(self) -> Iterator[T]:
        """Every row once. Raises OutOfTime where a pass is not to be gone on with."""
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
        """Return when no thread reads any more."""
        if self._reading is not None:
            self._reading.close()
        self._reading = None

    def _blocks(self, ahead: Ahead) -> Iterator[Block]:
        return self._stream.again(ahead, endless=True)
