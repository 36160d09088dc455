"""Check that opening data fits the memory limit, before there is a budget. The libraries of the formats read
headers, footers and schemas as a whole, and a file may have any number of columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llsvm.errors import BudgetError
from llsvm.memory.budget import LIBRARY, RUNTIME
from llsvm.memory.process import RUNTIME_BYTES, resident_bytes

_limit_bytes: int | None = None


@contextmanager
def opening_under(limit_bytes: int) -> Iterator[None]:
    """Let ``has_room`` and ``require_room`` keep to the limit within this context."""
    global _limit_bytes
    before, _limit_bytes = _limit_bytes, limit_bytes
    try:
        yield
    finally:
        _limit_bytes = before


def has_room(nbytes: int) -> bool:
    """Return whether the limit, if there is one, leaves ``nbytes``."""
    limit = _limit_bytes
    return limit is None or min(RUNTIME_BYTES, resident_bytes()) + nbytes <= max(limit, RUNTIME_BYTES)


def require_room(path: str, nbytes: int, more: int = 0) -> None:
    """Raise BudgetError where reading what describes a file's columns takes more than the limit leaves, if there is
    one. MemoryBudget refuses a limit below what every run needs: it knows the smallest that works.

    nbytes: what reading that takes. more: what reading the rows takes beside it; the error names a limit with room
    for both."""
    limit = _limit_bytes
    if limit is not None and not has_room(nbytes):
        lines = {RUNTIME: RUNTIME_BYTES, LIBRARY: nbytes + more}
        raise BudgetError(f"the columns of {path}", limit, sum(lines.values()), lines, at_least=True)
