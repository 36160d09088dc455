"""Threads: work divided over a pool of threads. What comes out depends on how many there are, never on timing."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise
from types import TracebackType
from typing import TypeVar, cast

import numpy as np

_END = object()
_LOOK_SECONDS = 0.5
T = TypeVar("T")
R = TypeVar("R")


class Threads:
    """Pool of threads, for kernels that hold no lock of Python's. Use as a context manager, or ``close``.

    Every method returns when all of its work is done, with the results in the order of the work, whichever was
    done first; then it raises what the first of them to fail has raised. Sums that are added up in that order
    repeat bit for bit for the same number of threads.
    """

    def __init__(self, number: int, stop: Callable[[], None] | None = None) -> None:
        """number: of threads, at least 1. stop: called where an interrupt (Ctrl-C in Python) ends the wait for
        them, so that what they are at comes to an end."""
        self.number = number
        self._stop = stop
        self._pool = ThreadPoolExecutor(number, "llsvm-work")

    def __enter__(self) -> Threads:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Return when no thread is at work any more; there will be none from here on."""
        self._pool.shutdown()

    def submit(self, work: Callable[[], R]) -> Future[R]:
        """Begin ``work`` and return its future, without waiting."""
        return self._pool.submit(work)

    def map(self, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Return ``work`` of each item."""
        return self._map(work, list(items), 0)

    def map_with_caller(self, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Map as ``map`` does, but where no thread has more than one of them the first item is for the thread
        that calls, which would only wait for the others: short work is soon done then."""
        return self._map(work, items, 1 if len(items) <= self.number else 0)

    def _map(self, work: Callable[[T], R], items: Sequence[T], n_own: int) -> list[R]:
        """Work on all items. n_own: the first so many are for the thread that calls."""
        jobs: list[Future[R]] = []
        try:
            for item in items[n_own:]:
                jobs.append(self._pool.submit(work, item))
            done = [work(item) for item in items[:n_own]]
            _wait(jobs)
        except BaseException:  # an interrupt may come at any time, also while work is still being handed out
            if self._stop is not None:
                self._stop()
            for job in jobs:
                job.cancel()
            _wait(jobs)
            raise
        return done + [job.result() for job in jobs]

    def over_rows(self, n_rows: int, work: Callable[[int, int, int], R]) -> list[R]:
        """Return ``work(t, start, stop)`` for each thread t of ``number``: the rows divided evenly, in order; a
        range may be empty."""
        ranges = row_ranges(n_rows, self.number)
        return self.map(lambda t: work(t, *ranges[t]), range(self.number))

    def over_pieces(self, n_rows: int, step: int, work: Callable[[int, int], R]) -> list[R]:
        """Return ``work(start, stop)`` for pieces of ``step`` rows, the last maybe of fewer; each is done by the
        next thread that is free."""
        return self.map(lambda start: work(start, min(start + step, n_rows)), range(0, n_rows, step))


class Pool(ThreadPoolExecutor):
    """Threads of a generator, as a context manager, whose end returns when no thread is at work any more.

    It does not wait where the garbage collector closes a generator that an error has left behind: that may be under
    any lock, also the one that Python holds while a thread starts and that a thread needs to end.
    """

    def __init__(self, number: int, name: str, drop: bool = False) -> None:
        """drop: the end cancels what has not begun."""
        super().__init__(number, name)
        self._drop = drop

    def __exit__(self, *_: object) -> None:
        self.shutdown(wait=threading.get_ident() != _collector, cancel_futures=self._drop)


_collector: int | None = None  # the thread that collects garbage now


def _note_collection(phase: str, _: object) -> None:
    global _collector
    _collector = threading.get_ident() if phase == "start" else None


gc.callbacks.append(_note_collection)


def _wait(jobs: Sequence[Future[R]]) -> None:
    """Return when all are done. The system may give a signal to any thread, and then nothing wakes the one that
    waits, in which Python answers it: so it looks up now and then."""
    while wait(jobs, timeout=_LOOK_SECONDS).not_done:
        pass


def prefetched(items: Iterator[T], in_thread: bool) -> Generator[T, None, None]:
    """Yield the items; in_thread: the next is made by a thread of its own while one is worked on, so that two
    are held. Close it, also where not all of them were wanted: the thread is at its end then. What the making of
    an item raises is raised where it is asked for."""
    if not in_thread:
        yield from items
        return
    with Pool(1, "llsvm-ahead") as thread:
        following = thread.submit(next, items, _END)
        while (item := following.result()) is not _END:
            following = thread.submit(next, items, _END)
            yield cast(T, item)
            del item


def row_ranges(n_rows: int, parts: int) -> list[tuple[int, int]]:
    """Return (start, stop) of so many parts of the rows, as even as can be, in order."""
    bounds = np.linspace(0, n_rows, parts + 1).astype(int).tolist()
    return list(pairwise(bounds))
