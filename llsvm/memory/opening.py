"""What opening data takes, held against the memory limit before there is a ledger: headers, footers and schemas are
read whole by the formats' libraries, and a stranger's file may have any number of columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llsvm.errors import BudgetError
from llsvm.memory.budget import LIBRARY, RUNTIME
from llsvm.memory.process import RUNTIME_BYTES, resident_bytes

_limit_bytes: int | None = None


@contextmanager
def opening_under(limit_bytes: int) -> Iterator[None]:
    """Within, ``require_room`` keeps to the limit."""
    global _limit_bytes
    before, _limit_bytes = _limit_bytes, limit_bytes
    try:
        yield
    finally:
        _limit_bytes = before


def has_room(nbytes: int) -> bool:
    """Does the limit leave so much, if there is one?"""
    limit = _limit_bytes
    return limit is None or min(RUNTIME_BYTES, resident_bytes()) + nbytes <= max(limit, RUNTIME_BYTES)


def require_room(path: str, nbytes: int, more: int = 0) -> None:
    """Raise BudgetError where reading what describes a file's columns takes more than the limit leaves, if there is
    one. A limit below what every run needs is left to the ledger, which knows the smallest that works.

    nbytes: that it takes. more: that reading the rows takes beside it, for which the limit that is named has
    room."""
    limit = _limit_bytes
    if limit is not None and not has_room(nbytes):
        lines = {RUNTIME: RUNTIME_BYTES, LIBRARY: nbytes + more}
        raise BudgetError(f"the columns of {path}", limit, sum(lines.values()), lines, at_least=True)
