"""Container of states, results and copies of parsed rows: named parts, then a manifest that says what they are,
each with its checksum. Models have a file format of their own (llsvm/models/model_file.py).

    "llsvm state, version 11\\n"
    the bytes of the parts, one after the other
    the manifest: JSON, with what there is beside the parts, and of each part its name, type, shape, place, checksum
    where the manifest is, how long it is, its checksum, and ``_END``

Parts are written as they come, in pieces, so none is held twice in memory; and everything is read once and compared
with its checksum before anything is made of it. Raise the version when what a state holds changes, here or in a
solver: an older state is then refused with a sentence.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from hashlib import blake2b
from io import FileIO
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DataError
from llsvm.files.file_objects import read_into
from llsvm.files.json_checks import Test, check, is_text, is_whole, list_of
from llsvm.files.writing import naming

VERSION = 11
PIECE_BYTES = 1 << 20  # written and read at once
_FIRST_LINE = b"llsvm state, version %d\n" % VERSION
_HEAD = re.compile(rb"llsvm state, version (\d{1,9})\n")
_FOOT = struct.Struct("<QQ16s8s")
_END = b"complete"
_HEAD_BYTES = 64  # that hold the first line, whatever its number
RESULT = "result"  # the file of it in a state's folder
# Parts of a result: (n_rows, width) α_i / C_i, see llsvm.solvers.state.RowShares; their weights, see ShareSums
# there, the rest of which is an entry of the result by the same name; shift, scale and fill of the columns, where
# these are scaled.
SHARES, SUMS, SCALES = "shares", "sums", "scales"
# Entries of a result: smoothing, where the dual is of the model's weights, see llsvm.solvers.state.AtWeights; and
# RowShares.largest_cost.
AT_WEIGHTS, LARGEST_COST = "at weights", "largest cost"
# A state may come from anywhere.
_MANIFEST: dict[str, Test] = {"about": lambda value: type(value) is dict, "parts": list_of(lambda _: True)}
_PART: dict[str, Test] = {
    "name": is_text,
    "dtype": is_text,
    "shape": list_of(is_whole(0)),
    "offset": is_whole(0),
    "checksum": is_text,
}


@dataclass(frozen=True, slots=True)
class ArrayPart:
    """Array in a container.

    dtype, shape: of the array. offset, nbytes: its place in the file. checksum: of its bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    checksum: str

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * np.dtype(self.dtype).itemsize


class ContainerWriter:
    """Writer of a new file at ``path``, over whatever is there: ``add`` the parts, then ``end`` it.

    All methods raise DiskError where the disk is full or fails, UsageError where the path cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parts: list[ArrayPart] = []
        with naming(path):
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = FileIO(os.open(path, flags, 0o666), "r+")
        self._write(_FIRST_LINE)

    def add(
        self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], pieces: Iterable[NDArray[Any]]
    ) -> None:
        """Write a part whose rows are ``pieces``, in order."""
        offset, checksum = self._file.tell(), blake2b(digest_size=16)
        for piece in pieces:
            data = np.ascontiguousarray(piece, dtype).reshape(-1).view(np.uint8).data
            checksum.update(data)
            self._write(data)
        self._parts.append(ArrayPart(name, dtype.str, shape, offset, checksum.hexdigest()))

    def end(self, about: Mapping[str, Any]) -> None:
        """Complete the file, without syncing it. about: JSON values."""
        offset = self._file.tell()
        text = json.dumps({"about": about, "parts": [asdict(part) for part in self._parts]}).encode()
        self._write(text)
        self._write(_FOOT.pack(offset, len(text), blake2b(text, digest_size=16).digest(), _END))

    def close(self) -> None:
        self._file.close()

    def _write(self, data: Any) -> None:
        view, done = memoryview(data), 0
        with naming(self.path):
            while done < len(view):
                done += self._file.write(view[done:])


class Container:
    """File that ContainerWriter has made, every byte of it checked. Use it as a context manager, or ``close`` it.

    about: as it was given. parts: by name.
    """

    def __init__(self, path: Path, file: FileIO, about: dict[str, Any], parts: list[ArrayPart]) -> None:
        self.path = path
        self.about = about
        self.parts = {part.name: part for part in parts}
        self._file = file

    @classmethod
    def open(cls, path: Path, whole: bool = True) -> Container | None:
        """Open a file; return None where there is none. Raises DataError: it is no state, of another version,
        damaged. whole: every part is compared with its checksum now; else see ``checked``."""
        try:
            with ExitStack() as opened:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                file = opened.enter_context(FileIO(os.open(path, flags), "r"))
                container = cls(path, file, *_checked(path, file, whole))
                opened.pop_all()
                return container
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreadable(path, error) from error

    def __enter__(self) -> Container:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def array(self, name: str) -> NDArray[Any]:
        """Read a part, a new array at each call. Raises KeyError, DataError."""
        part = self.parts[name]
        values = np.empty(part.shape, part.dtype)
        self._read(part.offset, values.reshape(-1).view(np.uint8))
        return values

    def checked(self, name: str) -> NDArray[Any]:
        """Read a part as ``array`` does, and compare it with its checksum. Raises DataError."""
        values = self.array(name)
        if _checksum([values.reshape(-1).view(np.uint8).data]) != self.parts[name].checksum:
            raise _damaged(self.path, f"the checksum of {name} does not match")
        return values

    def rows(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Read rows of a part: (len(rows), ...). Runs of consecutive rows are one read each."""
        part = self.parts[name]
        values = np.empty((len(rows), *part.shape[1:]), part.dtype)
        row_bytes = prod(part.shape[1:]) * values.dtype.itemsize
        cuts = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
        for begin, end in pairwise(cuts):
            if begin < end:
                self._read(
                    part.offset + int(rows[begin]) * row_bytes, values[begin:end].reshape(-1).view(np.uint8)
                )
        return values

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a part, in order."""
        part = self.parts[name]
        yield from _pieces(self._file, part.offset, part.nbytes)

    def _read(self, offset: int, out: NDArray[np.uint8]) -> None:
        if read_into(self._file.fileno(), out.data, offset) < len(out):
            raise _damaged(self.path, "it ends too early")


def require_ours(path: Path) -> None:
    """Raise DataError where ``path`` is a file that has never been a state."""
    if path.exists() and not path.is_file():
        raise _foreign(path)
    with suppress(FileNotFoundError), open(path, "rb") as file:
        if _HEAD.match(file.read(_HEAD_BYTES)) is None:
            raise _foreign(path)


def _foreign(path: Path) -> DataError:
    return DataError(
        f"{path}: is no state of llsvm, or its beginning is damaged; it is left as it is: name another folder with "
        "--state, or move the file away"
    )


def _checked(path: Path, file: FileIO, whole: bool) -> tuple[dict[str, Any], list[ArrayPart]]:
    """Return what the manifest says. whole: read every part, and compare it with its checksum."""
    size = os.fstat(file.fileno()).st_size
    head = _HEAD.match(os.pread(file.fileno(), _HEAD_BYTES, 0))
    if head is None:
        raise _foreign(path)
    if int(head[1]) != VERSION:
        raise DataError(
            f"{path}: a state of version {int(head[1])}, and this llsvm goes on from version {VERSION}: use the "
            "llsvm that wrote it, or train anew with --fresh"
        )
    start, foot = head.end(), os.pread(file.fileno(), _FOOT.size, max(0, size - _FOOT.size))
    if size < start + _FOOT.size or foot[-len(_END) :] != _END:
        raise _damaged(path, "its end is missing")
    offset, length, checksum, _ = _FOOT.unpack(foot)
    if offset < start or offset + length + _FOOT.size != size:
        raise _damaged(path, "its end does not fit it")
    text = b"".join(_pieces(file, offset, length))
    if _checksum([text]) != checksum.hex():
        raise _damaged(path, "the checksum of its manifest does not match")
    try:
        manifest = json.loads(text)
        check(manifest, _MANIFEST, "manifest")
        for part in manifest["parts"]:
            check(part, _PART, "manifest")
        parts = [ArrayPart(**{**part, "shape": tuple(part["shape"])}) for part in manifest["parts"]]
        if any(np.dtype(part.dtype).hasobject for part in parts):
            raise ValueError("it has Python's objects")
    except (ValueError, TypeError, RecursionError) as error:
        raise _damaged(path, f"its manifest is none: {error}") from error
    for part in parts:
        if part.offset != start:
            raise _damaged(path, "its parts do not fit together")
        if whole and _checksum(_pieces(file, part.offset, part.nbytes)) != part.checksum:
            raise _damaged(path, f"the checksum of {part.name} does not match")
        start += part.nbytes
    if start != offset or head[0] != _FIRST_LINE:
        raise _damaged(path, "its parts do not fit together")
    return manifest["about"], parts


def _pieces(file: FileIO, offset: int, nbytes: int) -> Iterator[bytes]:
    while nbytes > 0:
        piece = os.pread(file.fileno(), min(nbytes, PIECE_BYTES), offset)
        if not piece:
            return  # which the checksum tells
        offset, nbytes = offset + len(piece), nbytes - len(piece)
        yield piece


def _checksum(pieces: Iterable[Any]) -> str:
    digest = blake2b(digest_size=16)
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def unreadable(path: str | os.PathLike[str], error: OSError) -> DataError:
    return DataError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}")


def _damaged(path: Path, how: str) -> DataError:
    return DataError(
        f"{path}: the state is damaged ({how}); nothing is changed: take it from a backup, or train anew "
        "with --fresh"
    )
