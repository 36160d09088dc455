"""MemoryBudget keeps account of bytes under one limit on the peak resident set of the whole process."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from llsvm.errors import BudgetError
from llsvm.memory.process import MIN_WORK_BYTES, RUNTIME_BYTES, process_bytes, resident_bytes
from llsvm.process.trace import trace

RUNTIME = "interpreter and libraries"
LIBRARY = "the file format's library, names, categories, vocabularies"
LABELS = "labels"
STATISTICS = "scaling of columns"
READING = "reading"
COMPILING = "compiling"  # more than the other solvers' kernels take
WORKING = "reading and working on rows"  # at least


# Opening data must fit the limit before there is a budget: the libraries of the formats read headers, footers and
# schemas as a whole, and a file may have any number of columns.
_opening_limit_bytes: int | None = None


def refused(what: str, limit_bytes: int, needed_bytes: int, lines: Mapping[str, int]) -> BudgetError:
    """Trace that something does not fit the limit, and return the error that says so. lines: bytes by name."""
    trace("memory.refused", name=what, needed_bytes=needed_bytes, limit_bytes=limit_bytes, lines=dict(lines))
    return BudgetError(what, limit_bytes, needed_bytes, lines)


class MemoryBudget:
    """Bytes that are reserved for large arrays; their sum never exceeds the limit.

    The first line is the runtime (interpreter, libraries, and whatever the caller's process held before),
    so the limit bounds the peak resident set of the whole process.
    """

    def __init__(
        self, limit_bytes: int, runtime_bytes: int | None = None, more: Mapping[str, int] | None = None
    ) -> None:
        """Reserve what the process holds already, ``runtime_bytes``, and the lines ``more``. None: measure what the
        process holds, and count RUNTIME_BYTES at least. Raises BudgetError where these leave no room to work."""
        self.limit_bytes = limit_bytes
        self._lines: dict[str, int] = {}
        self.floor_bytes = 0
        """Bytes of the limit that every run needs; 0 for a budget of the rows alone."""
        if runtime_bytes is None:
            runtime_bytes = process_bytes()
            needs = {RUNTIME: runtime_bytes, **(more or {})}
            self.floor_bytes = sum(needs.values()) + MIN_WORK_BYTES
            self.require({**needs, WORKING: MIN_WORK_BYTES})
        self.reserve(RUNTIME, runtime_bytes)
        for what, nbytes in (more or {}).items():
            self.reserve(what, nbytes)

    @property
    def lines(self) -> Mapping[str, int]:
        """Return a read-only view of the reserved bytes, by name."""
        return MappingProxyType(self._lines)

    @property
    def reserved_bytes(self) -> int:
        return sum(self._lines.values())

    @property
    def available_bytes(self) -> int:
        return self.limit_bytes - self.reserved_bytes

    def reserve(self, what: str, nbytes: int) -> Reservation:
        """Reserve ``nbytes`` for ``what``, beside what its line has already. A context manager releases them at its
        end. Raises BudgetError."""
        self.require({what: nbytes})
        self._lines[what] = self._lines.get(what, 0) + nbytes
        trace("memory.reserved", name=what, bytes=nbytes, left_bytes=self.available_bytes)
        return Reservation(self, what, nbytes)

    def require(self, needs: Mapping[str, int]) -> None:
        """Raise BudgetError unless all of ``needs`` fit together; reserve nothing."""
        total = self.reserved_bytes + sum(needs.values())
        if total > self.limit_bytes:
            lines = dict(self._lines)
            for what, nbytes in needs.items():
                lines[what] = lines.get(what, 0) + nbytes
            what = next(iter(needs)) if len(needs) == 1 else "this data and solver"
            raise refused(what, self.limit_bytes, total, lines)

    def require_of_any_limit(self, needs: Mapping[str, int]) -> None:
        """Call ``require`` for what every run needs, whatever the limit is, and let ``floor_bytes`` count it."""
        self.floor_bytes = max(self.floor_bytes, self.reserved_bytes + sum(needs.values()))
        self.require(needs)

    def resize(self, what: str, nbytes: int) -> None:
        """Reserve or release bytes so that the line ``what`` has ``nbytes``; 0 removes it. Raises BudgetError."""
        more = nbytes - self._lines.get(what, 0)
        if more > 0:
            self.reserve(what, more)
        elif more < 0:
            self.release(what, -more)

    def release(self, what: str, nbytes: int | None = None) -> None:
        """Release ``nbytes`` of the line ``what``, or all of it.

        Raises ValueError for more bytes than were reserved: the caller has lost count then.
        """
        signed = self._lines.get(what, 0)
        left = 0 if nbytes is None else signed - nbytes
        if what not in self._lines or not 0 <= left <= signed:
            raise ValueError(f"{what}: {nbytes} bytes released, but {signed} were signed for")
        if left:
            self._lines[what] = left
        else:
            del self._lines[what]
        trace("memory.released", name=what, bytes=signed - left, left_bytes=self.available_bytes)

    def mark(self) -> Mapping[str, int]:
        """Return a copy of the lines as they are now, for ``return_to``."""
        return dict(self._lines)

    def return_to(self, mark: Mapping[str, int], but: Collection[str] = ()) -> None:
        """Release what was reserved since ``mark``. but: lines to leave as they are. Raises ValueError where a line
        has shrunk since: bytes that were released have to be reserved again."""
        for what in set(self._lines) | set(mark):
            if what not in but and self._lines.get(what, 0) != mark.get(what, 0):
                self.release(what, self._lines.get(what, 0) - mark.get(what, 0))

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Release at the end of the context what was reserved within it, also after an error."""
        mark = self.mark()
        try:
            yield
        finally:
            self.return_to(mark)


class Reservation:
    """Bytes that were reserved under one name."""

    def __init__(self, budget: MemoryBudget, what: str, nbytes: int) -> None:
        self._budget, self._what, self._nbytes = budget, what, nbytes

    def release(self) -> None:
        """Release the bytes, unless that has been done."""
        nbytes, self._nbytes = self._nbytes, 0
        if nbytes:
            self._budget.release(self._what, nbytes)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.release()


@contextmanager
def opening_under(limit_bytes: int) -> Iterator[None]:
    """Let ``has_room`` and ``require_room`` keep to the limit within this context."""
    global _opening_limit_bytes
    before, _opening_limit_bytes = _opening_limit_bytes, limit_bytes
    try:
        yield
    finally:
        _opening_limit_bytes = before


def has_room(nbytes: int) -> bool:
    """Return whether the limit, if there is one, leaves ``nbytes``."""
    limit = _opening_limit_bytes
    return limit is None or min(RUNTIME_BYTES, resident_bytes()) + nbytes <= max(limit, RUNTIME_BYTES)


def require_room(path: str, nbytes: int, more: int = 0) -> None:
    """Raise BudgetError where reading what describes a file's columns takes more than the limit leaves, if there is
    one. MemoryBudget refuses a limit below what every run needs: it knows the smallest that works.

    nbytes: what reading that takes. more: what reading the rows takes beside it; the error names a limit with room
    for both."""
    limit = _opening_limit_bytes
    if limit is not None and not has_room(nbytes):
        lines = {RUNTIME: RUNTIME_BYTES, LIBRARY: nbytes + more}
        raise BudgetError(f"the columns of {path}", limit, sum(lines.values()), lines, at_least=True)
