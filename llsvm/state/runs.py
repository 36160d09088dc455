"""Records of the runs that a state's folder knows: the state to go on from, and results to begin at.

A record says what another run must have in common with it. A run that does not go on from the state begins at the
dual variables of an earlier one, as far as its rows are there still. They are kept as shares α_i / C_i, which are
feasible whatever C is.

Rows are known by the content of their files: a file that was renamed is the same, and so are, of one that has
grown, the rows that it had. Rows of files that were changed or removed are gone, with their dual variables.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import CertificateError, DataError, LLSVMError, UsageError
from llsvm.files.decoding import compression_of
from llsvm.files.fingerprint import BYTES, CHUNK_BYTES, FileFingerprint, Reading
from llsvm.files.inputs import HEAD_BYTES
from llsvm.files.remote import is_remote
from llsvm.models.model import Model
from llsvm.settings.settings import OPTIONS, Settings
from llsvm.solvers.base import Report, Solver, in_passes
from llsvm.solvers.state import Shares, ShareSums, SolverState
from llsvm.state.container import LARGEST_COST, RESULT, SHARES, Container, require_ours, unreadable
from llsvm.state.folder import ROWS, STATE, StateFolder, read_model, read_state, read_sums

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
    same = [by_content[file["digest"], file["rows"]] for file in now]
    matches = [numbers.popleft() if numbers else None for numbers in same]
    used = set(matches)
    by_path = _numbers(before, lambda file: file["path"])
    for number, file in enumerate(now):
        if matches[number] is None:
            matches[number] = _grown(before, file, by_path[file["path"]], used)
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
    numbers: dict[Any, deque[int]] = defaultdict(deque)
    for number, file in enumerate(files):
        numbers[key(file)].append(number)
    return numbers


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
        raise unreadable(path, error) from error
    parts = {what: checksums.hex() for what, checksums in reading.finish(n_bytes).parts}
    return not left and ends and parts == was["parts"]


_SHARES_OF_STATE = ROWS + "share"


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """Run that the folder knows.

    part: the part of the container that has its shares by row; None where there are none that can be used
    without the run. sums: of them."""

    record: Record
    container: Container
    part: str | None
    sums: ShareSums | None = None

    @classmethod
    def ended(cls, result: Container) -> EarlierRun:
        """Return the run of a result."""
        by_row = SHARES in result.parts and result.about[LARGEST_COST] is None
        record = Record(**result.about["record"])
        return cls(record, result, SHARES, read_sums(result)) if by_row else cls(record, result, None)

    @classmethod
    def stopped(cls, state: Container) -> EarlierRun:
        """Return the run of a state."""
        by_row = _SHARES_OF_STATE in state.parts and LARGEST_COST not in state.about["solver"]["numbers"]
        return cls(Record(**state.about["record"]), state, _SHARES_OF_STATE if by_row else None)

    def shares(self, known: KnownRows) -> Shares:
        """Return the shares of rows by their number now; 0 of those that are new: the first pass moves them as
        their margin asks."""
        assert self.part is not None
        name = self.part
        stored = self.container.parts[name]

        def of(rows: NDArray[np.int64]) -> NDArray[np.floating]:
            before = known.numbers(rows)
            shares = np.zeros((len(rows), *stored.shape[1:]), stored.dtype)
            shares[before >= 0] = self.container.rows(name, before[before >= 0])
            return shares

        return of


@dataclass(frozen=True, slots=True)
class Beginning:
    """Point that a run begins at.

    shares: dual variables; None: it begins anew. sums: of them, where they are known. note: for people."""

    shares: Shares | None
    sums: ShareSums | None
    note: str


def beginning(earlier: Sequence[EarlierRun], now: Record) -> Beginning | None:
    """Return where a run with other settings, or over other rows, begins; None where the earlier runs have nothing
    in common with it. earlier: the newest first. now: the run that is to begin."""
    settings, data, files = now.settings, now.data, now.files
    refusal = ""  # why the newest run with rows in common is of no use
    for run in earlier:
        record = run.record
        if record.differing(settings, MAY_DIFFER):
            continue
        known = KnownRows.all(data["rows"]) if record.data == data else None
        if known is None and record.files is not None and files is not None:
            known = known_rows(record.files, files)
            if known is None:
                refusal = refusal or (
                    "of data in this format it is not known which rows were there, and are the same"
                )
                continue
        if known is None or not known.common:
            continue
        if run.part is None:
            refusal = refusal or "the run before has left no dual variables by row"
        elif record.data["classes"] != data["classes"]:
            refusal = refusal or "the data have other labels than those before"
        else:
            sums = run.sums if record.columns == now.columns and not known.gone else None
            return Beginning(run.shares(known), sums, _note(record, settings, known))
    return Beginning(None, None, f"begun anew: {refusal}") if refusal else None


def _note(record: Record, settings: Mapping[str, Any], known: KnownRows) -> str:
    changes = record.changes(settings, record.differing(settings))
    note = f"beginning at the dual variables of the run of {record.written}"
    note += f", with {changes}" if changes else ""
    if known.new or known.gone:
        note += f": {known.common:,} rows keep theirs, {known.new:,} are new"
        note += f", {known.gone:,} of those before are gone"
    return note


class EarlierRuns:
    """Runs that a folder knows. saved: the record of the state to go on from; None: there is none."""

    def __init__(self, folder: StateFolder, fresh: bool = False) -> None:
        """Open what is in the folder.

        folder: locked. fresh: begin anew, whatever is there.
        Raises DataError where what is there is damaged, or no state.
        """
        self._folder = folder
        self.saved: Record | None = None
        self._container: Container | None = None
        self._result: Container | None = None
        self._state: SolverState | None = None
        self._runs: list[EarlierRun] = []  # the newest first
        self._restored = False  # a solver goes on from the state
        if fresh:
            require_ours(folder.file(STATE))
            require_ours(folder.file(RESULT))
            return
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self._result = Container.open(self._folder.file(RESULT))
        self._container = Container.open(self._folder.file(STATE))
        if self._container is not None:
            about = self._container.about
            self.saved = Record(**about["record"])
            self._state = read_state(self._container, about["solver"])
            self._runs.append(EarlierRun.stopped(self._container))
        if self._result is not None:
            self._runs.append(EarlierRun.ended(self._result))
            if self._runs[-1].record.written >= self._runs[0].record.written:
                self._runs.reverse()

    def close(self) -> None:
        """Close the files."""
        for file in (self._container, self._result):
            if file is not None:
                file.close()

    def give_up(self) -> None:
        """Blame no error on the state any more."""
        self._restored = False

    def limit_bytes(self, settings: Settings) -> int | None:
        """Return the memory limit of the run of the state, where the settings leave it open; else None."""
        saved = self.saved
        if saved is None or settings.memory_limit is not None or saved.settings["memory_limit"] is not None:
            return None
        return saved.limit_bytes

    def require_settings(self, settings: dict[str, Any]) -> None:
        """Raise UsageError where there were runs, and none with settings that this one could begin with."""
        if self._runs and all(run.record.differing(settings, MAY_DIFFER) for run in self._runs):
            first = self._runs[0]
            first.record.require_settings(settings, str(first.container.path))

    def continues(self, settings: dict[str, Any], data: dict[str, Any] | None) -> bool:
        """Return whether this run continues the run of the state. data: None where they have not been read."""
        saved = self.saved
        if saved is None or saved.differing(settings, MAY_CHANGE):
            return False
        return data is None or saved.data == data

    def beginning(self, now: Record) -> Beginning | None:
        """Return where a run begins that does not go on; None: anew, there was none. Raises UsageError where the
        rows are others than those of all runs before."""
        start = beginning(self._runs, now)
        if start is None and self._runs:
            first = self._runs[0]
            first.record.require_data(now.data, now.files, str(first.container.path))
        return start

    def result_of(self, settings: dict[str, Any], data: dict[str, Any]) -> tuple[Model, Record, str] | None:
        """Return the model, the record, and why it had not converged, of a run with these settings, over these
        rows, that has ended; None where there was none."""
        if self._result is None:
            return None
        record = Record(**self._result.about["record"])
        if _decisive(record.settings) != _decisive(settings) or record.data != data:
            return None
        return read_model(self._folder, self._result), record, self._result.about["cause"]

    def restore(self, solver: Solver) -> None:
        """Let the solver go on from the state, if there is one. Raises UsageError where it cannot."""
        state, self._state = self._state, None
        if state is not None:
            self._restored = True
            with self._refused(), self.blame_state():
                solver.restore(state)

    def resumed(self, reports: Iterator[Report]) -> Iterator[Report]:
        """Yield the reports of a solver that was restored, which may say only now that it cannot go on."""
        with self.blame_state():  # what reports are for fails outside of it
            with self._refused():
                first = next(reports, None)
                if first is None and self.saved is not None:
                    raise UsageError(
                        f"it is after {in_passes(self.saved.passes)}, and there is nothing left to do: pass a "
                        "larger --max-passes, or begin anew"
                    )
            if first is not None:
                yield first
                yield from reports

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Add the remedy to the refusal of a state that the solver cannot go on from."""
        try:
            yield
        except UsageError as error:
            if self.saved is None:
                raise
            raise UsageError(f"{self._folder.file(STATE)}: {error}: pass --fresh for that") from error

    @contextmanager
    def blame_state(self) -> Iterator[None]:
        """Raise DataError where a solver that was restored from the state fails on a number or an array, or
        certifies what cannot be: a state may come from anywhere, and its numbers be of any size."""
        try:
            yield
        except (
            ArithmeticError,
            AttributeError,
            CertificateError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            certified = isinstance(error, CertificateError)
            if not self._restored or (isinstance(error, LLSVMError) and not certified):
                raise
            raise DataError(
                f"{self._folder.file(STATE)}: no run can go on from what it holds "
                f"({error if certified else repr(error)}): pass --fresh to begin anew"
            ) from error


def _decisive(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that the result depends on."""
    return {name: value for name, value in settings.items() if name != "spill_dir"}
