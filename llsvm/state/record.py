"""Record of the run that a state belongs to; what another run must have in common with it, and which of its rows
are rows of that run.

Rows are known by the content of their files: a file that was renamed is the same, and so are, of one that has
grown, the rows that it had. Rows of files that were changed or removed are gone, with their dual variables.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DataError, UsageError
from llsvm.files.fingerprint import BYTES, CHUNK_BYTES, FileFingerprint, Reading
from llsvm.files.inputs import HEAD_BYTES, compression_of
from llsvm.files.remote import is_remote
from llsvm.settings.settings import OPTIONS

# What may change from run to run: how exact, how long, with what means.
MAY_CHANGE = frozenset(
    {
        *("tol", "max_passes", "max_seconds"),
        *("memory_limit", "threads", "disk_limit", "spill_dir", "spill_format", "cache"),
    }
)
# What may change too where a run begins at the dual variables of another: they are as good a start in other bounds.
MAY_DIFFER = MAY_CHANGE | {"C", "lambda2", "class_weight", "solver", "seed", "survivors", "prune"}
_MAX_NAMED = 3  # files and options in a sentence
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Record:
    """Record of a run.

    settings: of the run, resolved, plain values. limit_bytes: of its memory. doubled: values are 64-bit floats
    where 32 bits would hide the optimum. data: of the rows, as ``llsvm.solvers.state.data_of`` has it. columns: as
    llsvm.training.persistence.columns_of has it: where it is the same, so are the known rows as numbers, but for
    the scales of columns. files: what was read, a fingerprint of each; None of arrays. history: of the passes until
    now. seconds: taken until now. written: when, as people read it. passes: full ones until now. version: of the
    package.
    """

    settings: dict[str, Any]
    limit_bytes: int
    doubled: bool
    data: dict[str, Any]
    columns: str
    files: list[dict[str, Any]] | None
    history: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    written: str = ""
    passes: int = 0
    version: str = ""

    def differing(self, settings: Mapping[str, Any], may: frozenset[str] = frozenset()) -> list[str]:
        """Return the names of the settings that are different in another run, but for those that may be."""
        return [name for name in OPTIONS if name not in may and self.settings.get(name) != settings.get(name)]

    def changes(self, settings: Mapping[str, Any], names: Sequence[str]) -> str:
        """Return in words how the settings of those names have changed, "" for none."""
        return _listed([_option(name, self.settings.get(name), settings.get(name)) for name in names])

    def require_settings(self, settings: Mapping[str, Any], where: str) -> None:
        """Raise UsageError where the settings are others, beyond what may differ. where: the file that has it."""
        if others := self.differing(settings, MAY_DIFFER):
            raise UsageError(
                f"{where}: the state of another training: {self.changes(settings, others)}; go on as it was begun, "
                "name another folder with --state, or pass --fresh to begin anew"
            )

    def require_data(self, data: Mapping[str, Any], files: list[dict[str, Any]] | None, where: str) -> None:
        """Raise UsageError where the rows are others than those of the state."""
        if self.data == data:
            return
        what = _listed(self._other_files(files)) or _listed(
            [
                f"{name} {_shown(self.data.get(name))}, now {_shown(value)}"
                for name, value in data.items()
                if self.data.get(name) != value and name != "data"
            ]
        )
        raise UsageError(
            f"{where}: the state of other data: {what or 'their content differs'}; go on with the same, name "
            "another folder with --state, or pass --fresh to begin anew"
        )

    def _other_files(self, now: list[dict[str, Any]] | None) -> list[str]:
        if self.files is None or now is None:
            return []
        old, new = ({file["digest"]: file for file in files} for files in (self.files, now))
        old_paths = {file["path"]: file for file in self.files}
        new_paths = {file["path"] for file in now}
        changes = [
            f"{file['path']} {_change(old_paths.get(file['path']), file)}"
            for digest, file in new.items()
            if digest not in old
        ]
        changes += [
            f"{file['path']} is missing"
            for digest, file in old.items()
            if digest not in new and file["path"] not in new_paths
        ]
        return changes or ["the files come in another order"] * ([*old] != [*new])


def described(
    files: Sequence[FileFingerprint] | None, file_rows: Sequence[int] | None
) -> list[dict[str, Any]] | None:
    """Return fingerprints as JSON has them: of each file path, bytes, rows (None: not known), digest, and checksums
    by chunk."""
    if files is None:
        return None
    counts = [None] * len(files) if file_rows is None else list(file_rows)
    return [
        {
            "path": file.path,
            "n_bytes": file.n_bytes,
            "rows": rows,
            "digest": file.digest,
            "parts": {what: checksums.hex() for what, checksums in file.parts},
        }
        for file, rows in zip(files, counts, strict=True)
    ]


def _change(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> str:
    """Return in words how a file has changed. before: None where it is new."""
    if before is None:
        return "is new"
    if before["n_bytes"] == now["n_bytes"]:
        return "has changed"
    change = "grown" if now["n_bytes"] > before["n_bytes"] else "shrunk"
    return f"has {change} from {before['n_bytes']:,} to {now['n_bytes']:,} bytes"


def _option(name: str, before: Any, now: Any) -> str:
    return f"{OPTIONS[name].flag} {_shown(before)}, now {_shown(now)}"


def _listed(words: Sequence[str]) -> str:
    more = len(words) - _MAX_NAMED
    return "; ".join([*words[:_MAX_NAMED], *([f"{more} more"] if more > 0 else [])])


def _shown(value: Any) -> str:
    if value is None or value == [] or value == "":
        return "not given"
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True, slots=True)
class KnownRows:
    """Rows of the data that an earlier run had too.

    first: (m,) row numbers now, ascending, at which ranges of rows begin; before: (m,) the number that the first
    of each had then, −1 where they are new. common, new, gone: how many rows."""

    first: Rows
    before: Rows
    common: int
    new: int
    gone: int

    @classmethod
    def all(cls, n_rows: int) -> KnownRows:
        """Return the same rows as then."""
        return cls(np.zeros(1, np.int64), np.zeros(1, np.int64), n_rows, 0, 0)

    def numbers(self, rows: Rows) -> Rows:
        """Return (n,) the numbers that rows had then, −1 where they are new. rows: (n,) their numbers now."""
        place = np.searchsorted(self.first, rows, "right") - 1
        before = self.before[place]
        return np.where(before < 0, -1, before + rows - self.first[place])


def known_rows(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> KnownRows | None:
    """Return which rows are known; None where the files do not say how many rows they have. before, now: of each
    file, in the order of the rows, what ``described`` says."""
    if any(file["rows"] is None for file in (*before, *now)):
        return None
    starts = np.cumsum([0, *(file["rows"] for file in before)]).tolist()
    total = starts[-1]
    by_content = _numbers(before, lambda file: (file["digest"], file["rows"]))
    matches = [_next(by_content.get((file["digest"], file["rows"]))) for file in now]
    used = set(matches)
    by_path = _numbers(before, lambda file: file["path"])
    for number, file in enumerate(now):
        if matches[number] is None:
            matches[number] = _grown(before, file, by_path.get(file["path"], deque()), used)
    first, numbers, row, common = [], [], 0, 0
    for file, match in zip(now, matches, strict=True):
        known = 0 if match is None else min(before[match]["rows"], file["rows"])
        if match is not None:
            first.append(row)
            numbers.append(starts[match])
        if known < file["rows"]:
            first.append(row + known)
            numbers.append(-1)
        row, common = row + file["rows"], common + known
    return KnownRows(
        np.array(first, np.int64), np.array(numbers, np.int64), common, row - common, total - common
    )


def _numbers(
    files: Sequence[Mapping[str, Any]], key: Callable[[Mapping[str, Any]], Any]
) -> dict[Any, deque[int]]:
    """Return the numbers of the files of each key, in order."""
    numbers: dict[Any, deque[int]] = {}
    for number, file in enumerate(files):
        numbers.setdefault(key(file), deque()).append(number)
    return numbers


def _next(numbers: deque[int] | None) -> int | None:
    """Remove and return the first number; None where there is none."""
    return numbers.popleft() if numbers else None


def _grown(
    before: Sequence[Mapping[str, Any]],
    file: Mapping[str, Any],
    same_path: Iterable[int],
    used: set[int | None],
) -> int | None:
    """Return the number of a file of that name which this one begins with, and mark it as used; or None."""
    for number in same_path:
        was = before[number]
        if number not in used and was["n_bytes"] < file["n_bytes"] and _begins_with(file["path"], was):
            used.add(number)
            return number
    return None


def _begins_with(path: str, was: Mapping[str, Any]) -> bool:
    """Return whether the file begins with the lines that it was before. Reads its beginning again, as bytes."""
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
