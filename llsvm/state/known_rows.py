"""KnownRows: which rows of the data are those of an earlier run, and what their dual variables were.

Rows are known by the content of their files: a file that was renamed is the same, and so are, of one that has
grown, the rows that it had. Rows of files that were changed or removed are gone, with their dual variables.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DataError
from llsvm.files.fingerprint import BYTES, CHUNK_BYTES, Reading
from llsvm.files.inputs import HEAD_BYTES, compression_of
from llsvm.files.remote import is_remote

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KnownRows:
    """first: (m,) row numbers now, ascending, at which ranges of rows begin; before: (m,) the number that the first
    of each had then, −1 where they are new. kept, new, gone: how many rows."""

    first: Rows
    before: Rows
    kept: int
    new: int
    gone: int

    @classmethod
    def all(cls, n_rows: int) -> KnownRows:
        """The same rows as then."""
        return cls(np.zeros(1, np.int64), np.zeros(1, np.int64), n_rows, 0, 0)

    def numbers(self, rows: Rows) -> Rows:
        """(n,) of rows by their number now: the number that they had then, −1 where they are new."""
        place = np.searchsorted(self.first, rows, "right") - 1
        before = self.before[place]
        return np.where(before < 0, -1, before + rows - self.first[place])


def known_rows(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> KnownRows | None:
    """before, now: of each file, in the order of the rows, what ``llsvm.state.record.described`` says. None where
    that does not say how many rows a file has."""
    if any(each["rows"] is None for each in (*before, *now)):
        return None
    starts = np.cumsum([0, *(each["rows"] for each in before)]).tolist()
    total = starts[-1]
    by_content = _numbers(before, lambda each: (each["digest"], each["rows"]))
    found = [_next(by_content.get((each["digest"], each["rows"]))) for each in now]
    used = set(found)
    by_path = _numbers(before, lambda each: each["path"])
    for number, each in enumerate(now):
        if found[number] is None:
            found[number] = _grown(before, each, by_path.get(each["path"], deque()), used)
    first, numbers, row, kept = [], [], 0, 0
    for each, one in zip(now, found, strict=True):
        known = 0 if one is None else min(before[one]["rows"], each["rows"])
        if one is not None:
            first.append(row)
            numbers.append(starts[one])
        if known < each["rows"]:
            first.append(row + known)
            numbers.append(-1)
        row, kept = row + each["rows"], kept + known
    return KnownRows(np.array(first, np.int64), np.array(numbers, np.int64), kept, row - kept, total - kept)


def _numbers(
    files: Sequence[Mapping[str, Any]], of: Callable[[Mapping[str, Any]], Any]
) -> dict[Any, deque[int]]:
    """The numbers of files that have the same ``of``, in order."""
    found: dict[Any, deque[int]] = {}
    for number, each in enumerate(files):
        found.setdefault(of(each), deque()).append(number)
    return found


def _next(numbers: deque[int] | None) -> int | None:
    """The first of them, which is then used; None where there is none."""
    return numbers.popleft() if numbers else None


def _grown(
    before: Sequence[Mapping[str, Any]],
    file: Mapping[str, Any],
    same_path: Iterable[int],
    used: set[int | None],
) -> int | None:
    """The number of a file of that name which this one begins with, and which is then used; or None."""
    for number in same_path:
        was = before[number]
        if number not in used and was["n_bytes"] < file["n_bytes"] and _begins_with(file["path"], was):
            used.add(number)
            return number
    return None


def _begins_with(path: str, was: Mapping[str, Any]) -> bool:
    """Is what the file was the first of its lines now? Its beginning is read again for that, as bytes."""
    n_bytes = was["n_bytes"]
    if set(was["parts"]) != {BYTES} or n_bytes == 0 or is_remote(path):
        return False
    reading, last = Reading(path), b""
    try:
        with open(path, "rb") as file:
            if compression_of(file.read(HEAD_BYTES)):
                return False
            file.seek(0)
            left = n_bytes
            while left and (piece := file.read(min(left, CHUNK_BYTES))):
                reading.add(piece)
                left, last = left - len(piece), piece[-1:]
            ends = last in b"\r\n" or file.read(1) in (b"\r", b"\n")
    except OSError as error:
        raise DataError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}") from error
    parts = {what: checksums.hex() for what, checksums in reading.finish(n_bytes).parts}
    return not left and ends and parts == was["parts"]
