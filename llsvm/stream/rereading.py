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
    """``end`` it before survivors change, and before rows are read in other ways."""

    def __init__(self, stream: Stream, make: Callable[[Block], T]) -> None:
        """make: what is worked on in place of a block; by the thread that reads pages, where there is one."""
        self._stream, self._make = stream, make
        self._reading: Generator[T, None, None] | None = None
        self._reads_all = False

    def all(self) -> Iterator[T]:
        """Every row once. Raises OutOfTime where a pass is not to be gone on with."""
        cached = self._stream.cached
        n_bytes = 0 if cached is None else cached.store.nbytes
        for part in self._pass(True, "pass", self._stream.dataset.n_rows, n_bytes):
            self._stream.progress.check_measuring()
            yield part

    def active(self) -> Iterator[T]:
        """Every survivor that is not in memory once."""
        store = self._stream.survivors.spilled
        if store is not None:
            yield from self._pass(False, "survivors", store.n_rows, store.nbytes)

    def end(self) -> None:
        """Return when no thread reads any more."""
        if self._reading is not None:
            self._reading.close()
        self._reading = None

    def _pass(self, of_all: bool, phase: str, n_rows: int, n_bytes: int) -> Iterator[T]:
        if self._reading is None or self._reads_all != of_all:
            self.end()
            self._reading, self._reads_all = prepared(self._blocks(of_all), lambda: self._make), of_all
        progress, reading = self._stream.progress, self._reading
        progress.begin(phase, n_rows, n_bytes)
        try:
            while progress.rows_done < n_rows:
                part = next(reading)
                yield part
                progress.count(len(part), n_bytes * (progress.rows_done + len(part)) // n_rows)
        finally:
            if progress.rows_done < n_rows:  # nobody wants the rest
                self.end()

    def _blocks(self, of_all: bool) -> Callable[[Ahead], Iterator[Block]]:
        stream = self._stream
        read = stream.again if of_all else stream.active
        return lambda ahead: read(ahead, endless=True)
