"""Folder of a state. One run at a time uses it; it holds

lock          locked by the run that uses the folder, with who that is
state         the newest state that is complete and synced (see ``container``)
result        of a run that has come to its end: the model, what it was made with, the dual variables of its dual
state.next    a newer state that is complete, and becomes ``state`` when it is due, or when a signal comes
rows-*        with --keep-cache: copies of parsed files (see ``row_cache``)
*.part        what is being written

Arrays of a state are read when they are asked for, rows in pieces.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from io import FileIO
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DiskError, UsageError
from llsvm.files.remote import is_remote
from llsvm.files.writing import naming
from llsvm.memory.sizes import format_size
from llsvm.models.model import Model
from llsvm.models.model_file import log_path
from llsvm.process.signals import cancel_cleanup, register_cleanup
from llsvm.solvers.state import AtWeights, DualPoint, RowValues, ShareSums, SolverState
from llsvm.spill.workspace import RESERVE_BYTES, free_bytes
from llsvm.state.container import (
    AT_WEIGHTS,
    LARGEST_COST,
    PIECE_BYTES,
    RESULT,
    SCALES,
    SHARES,
    SUMS,
    Container,
    ContainerWriter,
)

LOCK, STATE, NEXT, PART = "lock", "state", "state.next", ".part"
MODEL = "model" + PART  # which becomes a part of the result
ROWS_OF_FILE = "rows-"  # the names of copies of files: this, and a digest
_OURS = (LOCK, STATE, RESULT, NEXT, STATE + PART, RESULT + PART, MODEL, MODEL + ".log.json")
_TEMPORARY = ".llsvm-"  # as llsvm.files.writing calls what it writes
_SEAL = "llsvm state, locked while in use"
_MAX_WHO_BYTES = 500
_ARRAYS, ROWS = "arrays/", "rows/"  # what the names of a state's parts begin with
_MODEL = "model"  # part of a result


class StateFolder:
    """Folder that is made if need be, and locked until ``close``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Make and lock the folder. Raises UsageError where it is no folder for a state, cannot be made, or another
        run uses it."""
        if is_remote(path):
            raise UsageError(f"{os.fspath(path)}: a state is kept in a folder here: name one with --state")
        self.path = Path(os.path.abspath(path))
        self._make()
        self._lock = self._locked()
        self._key = register_cleanup(self._clear)
        self._clear()

    def __enter__(self) -> StateFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove what is not complete, and unlock the folder; again does nothing."""
        if not self._lock.closed:
            self._clear()
            cancel_cleanup(self._key)
            self._lock.close()

    def file(self, name: str) -> Path:
        return self.path / name

    def bytes_of(self, *names: str) -> int:
        """Return the size of these files, 0 for those that do not exist."""
        total = 0
        for name in names:
            with suppress(OSError):
                total += os.stat(self.file(name)).st_size
        return total

    def copies(self) -> list[str]:
        """Return the names of the complete copies of files."""
        return [name for name in os.listdir(self.path) if name.startswith(ROWS_OF_FILE) and PART not in name]

    @property
    def held_bytes(self) -> int:
        """Return the size of all complete files."""
        return self.bytes_of(STATE, NEXT, RESULT, *self.copies())

    def free_bytes(self) -> int:
        """Return the bytes that the file system still has for this user."""
        return free_bytes(self.path)

    def require_free(self, nbytes: int, reason: str = "") -> None:
        """Raise DiskError where the file system has no room for so many bytes more. reason: begins the sentence."""
        if nbytes + RESERVE_BYTES > (free := self.free_bytes()):
            raise DiskError(
                f"{self.path}: {reason}{format_size(free)} are free there ({format_size(RESERVE_BYTES)} are left "
                "to others)"
            )

    def sync(self, name: str, becomes: str) -> None:
        """Sync the file ``name`` to the disk, then rename it over another, which is the old or the new one,
        whatever happens. Raises DiskError."""
        with naming(self.file(becomes)):
            file = os.open(self.file(name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(file)
            finally:
                os.close(file)
            os.rename(self.file(name), self.file(becomes))
            with suppress(OSError):  # some network file systems cannot sync a folder
                folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)

    def _make(self) -> None:
        with naming(self.path):
            if not self.path.parent.is_dir():
                raise UsageError(
                    f"{self.path}: the folder {self.path.parent} does not exist; create it first"
                )
            if self.path.exists() and not self.path.is_dir():
                raise UsageError(f"{self.path}: is no folder; name another with --state")
            self.path.mkdir(exist_ok=True)
            strange = [
                name for name in os.listdir(self.path) if name not in _OURS and not _is_temporary(name)
            ]
            if strange and not self.file(LOCK).exists():
                raise UsageError(
                    f"{self.path}: is a folder of other things ({strange[0]}): name one with --state that is new, "
                    "or empty"
                )

    def _locked(self) -> FileIO:
        """Return the lock, with this process as its owner. Raises UsageError where another run has it."""
        path = self.file(LOCK)
        with naming(path):
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            lock = FileIO(os.open(path, flags, 0o666), "r+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                who = lock.read(_MAX_WHO_BYTES).decode(errors="replace").partition("\n")[2].strip()
                lock.close()
                raise UsageError(
                    f"{self.path}: this state is in use by {who or 'another run'}; wait for it, or name another "
                    "folder with --state"
                ) from error
            # a file system that knows no locks
        who = f"process {os.getpid()} on {socket.gethostname()}, since {now_in_words()}"
        with naming(path):
            lock.truncate(0)
            lock.write(f"{_SEAL}\n{who}\n".encode())
        return lock

    def _clear(self) -> None:
        """Remove files that no run will complete."""
        with suppress(OSError):
            for name in os.listdir(self.path):
                if _is_temporary(name):
                    with suppress(OSError):
                        os.unlink(self.file(name))


def _is_temporary(name: str) -> bool:
    ours = name in _OURS or name.startswith(ROWS_OF_FILE)
    return name == NEXT or (ours and PART in name) or name.startswith(_TEMPORARY)


def now_in_words() -> str:
    """Return the time as people read it."""
    return datetime.now().isoformat(sep=" ", timespec="seconds")


def rows_bytes(values: RowValues) -> int:
    """Return the bytes of rows of values."""
    return values.n_rows * values.width * values.dtype.itemsize


def state_bytes(state: SolverState) -> int:
    """Return the bytes of a state's arrays and rows."""
    rows = sum(rows_bytes(values) for values in state.rows.values())
    return rows + sum(array.nbytes for array in state.arrays.values())


def write_state(state: SolverState, writer: ContainerWriter) -> dict[str, Any]:
    """Write a state's arrays and rows, in pieces; return the rest of it, as JSON has it."""
    for name, array in state.arrays.items():
        n = max(1, PIECE_BYTES // max(1, array.itemsize))
        pieces = np.nditer(array, ["external_loop", "buffered", "zerosize_ok"], order="C", buffersize=n)
        writer.add(_ARRAYS + name, array.dtype, array.shape, cast(Iterable[NDArray[Any]], pieces))
    for name, values in state.rows.items():
        write_rows(writer, ROWS + name, values)
    return {
        "solver": state.solver,
        "passes": int(state.passes),
        "of": dict(state.of),
        "numbers": dict(state.numbers),
    }


def write_rows(writer: ContainerWriter, name: str, values: RowValues) -> None:
    """Write rows as a part, in pieces."""
    writer.add(name, values.dtype, (values.n_rows, values.width), _pieces_of_rows(values))


def read_state(container: Container, about: Mapping[str, Any]) -> SolverState:
    """Return a state, valid until the container is closed. about: what ``write_state`` returned."""
    rows = [name.removeprefix(ROWS) for name in container.parts if name.startswith(ROWS)]
    return SolverState(
        about["solver"],
        about["passes"],
        about["of"],
        _SavedArrays(container),
        {name: SavedRows(container, ROWS + name) for name in rows},
        about["numbers"],
    )


class _SavedArrays(Mapping[str, NDArray[Any]]):
    """Arrays of a state, read at each access, so that none is held longer than it is used."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._names = [n.removeprefix(_ARRAYS) for n in container.parts if n.startswith(_ARRAYS)]

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._container.array(_ARRAYS + name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class SavedRows:
    """Rows of values in a container; they are ``RowValues`` (llsvm.solvers.state)."""

    def __init__(self, container: Container, name: str) -> None:
        self.n_rows, self.width = container.parts[name].shape
        self.dtype = np.dtype(container.parts[name].dtype)
        self._container, self._name = container, name

    def get(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        values = self._container.rows(self._name, rows)
        return values[:, 0] if self.width == 1 else values


def _pieces_of_rows(values: RowValues) -> Iterator[NDArray[Any]]:
    step = max(1, PIECE_BYTES // max(1, values.width * values.dtype.itemsize))
    for start in range(0, values.n_rows, step):
        yield values.get(np.arange(start, min(start + step, values.n_rows)))


class ResultWriter:
    """Writer of a folder's next result: first the dual variables, while the solver has them, then the model. It is
    the result once ``end`` returns. All methods raise DiskError, UsageError."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._about: dict[str, Any] = {LARGEST_COST: None, SUMS: None, AT_WEIGHTS: None}
        self._writer = ContainerWriter(folder.file(RESULT + PART))

    def add_dual(self, point: DualPoint) -> None:
        """Write the dual point that the model's certificate is of."""
        if isinstance(point, AtWeights):
            self._about[AT_WEIGHTS] = list(point.smoothing)
            return
        write_rows(self._writer, SHARES, point.values)
        if math.isfinite(point.largest_cost):
            self._about[LARGEST_COST] = point.largest_cost
        if (sums := point.sums) is not None:
            write_rows(self._writer, SUMS, sums.weights)
            if sums.scales is not None:
                write_rows(self._writer, SCALES, sums.scales)
            self._about[SUMS] = {
                "parts": sums.parts,
                "linear": sums.linear.tolist(),
                "by_class": sums.by_class.tolist(),
                "dtype": sums.dtype.str,
                "runs": sums.runs,
                "crawled": sums.crawled,
            }

    def end(self, model: Model, record: dict[str, Any], cause: str) -> None:
        """Complete the result with the model. record: of the run. cause: why it has not converged, as in reports,
        or ""."""
        file = self._folder.file(MODEL)
        try:
            model.save(file)
            nbytes = os.stat(file).st_size
            self._writer.add(_MODEL, np.dtype(np.uint8), (nbytes,), _pieces_of_file(file))
        finally:
            _remove(file)
        self._writer.end({"record": record, "cause": cause, **self._about})
        self.close()
        self._folder.sync(RESULT + PART, RESULT)

    def close(self) -> None:
        self._writer.close()


def read_sums(result: Container) -> ShareSums | None:
    """Return the sums that were kept with the shares; their weights are read at each access."""
    if (about := result.about[SUMS]) is None:
        return None
    return ShareSums(
        SavedRows(result, SUMS),
        about["parts"],
        np.array(about["linear"]),
        np.array(about["by_class"]),
        np.dtype(about["dtype"]),
        about["runs"],
        SavedRows(result, SCALES) if SCALES in result.parts else None,
        about.get("crawled", False),
    )


def read_model(folder: StateFolder, result: Container) -> Model:
    """Return the model of a result. Raises DiskError, UsageError where it cannot be unpacked, ModelError where it
    is no model."""
    file = folder.file(MODEL)
    try:
        with naming(file), open(file, "wb") as unpacked:
            for piece in result.pieces(_MODEL):
                unpacked.write(piece)
        return Model.load(file, with_log=False)
    finally:
        _remove(file)


def _pieces_of_file(file: Path) -> Iterator[NDArray[np.uint8]]:
    with open(file, "rb") as model:
        while piece := model.read(PIECE_BYTES):
            yield np.frombuffer(piece, np.uint8)


def _remove(file: Path) -> None:
    for path in (file, log_path(file)):
        with suppress(OSError):
            os.unlink(path)
