"""Binary copies of text files that were parsed, in a state's folder, for the next run with it.

A copy is known by its file: size, time of the last change, its first and last bytes, and how it was read. It is a
container (see ``container``) whose parts are some rows each: indptr, labels, values, columns. Each part is compared
with its checksum as it is read; where one does not match, the copy is removed, and the text parsed from there on.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from llsvm.block import CSR, Block
from llsvm.data.source import ParsedFile
from llsvm.errors import DataError, DiskError, LLSVMWarning, UsageError
from llsvm.files.fingerprint import FileFingerprint
from llsvm.files.inputs import size_and_mtime
from llsvm.objective.rounding import HOW, Rounding
from llsvm.row_buffer import steps
from llsvm.state.container import Container, ContainerWriter, unreadable
from llsvm.state.folder import PART, ROWS_OF_FILE, StateFolder

PIECE_BYTES = 1 << 20  # of the rows of a part; files with a longer row are not kept
_END_BYTES = 1 << 16  # of a file's beginning and end
_CHECK_BYTES = 1 << 23  # written between two checks of the free disk


class RowCache:
    """Copies of parsed files in a folder.

    copied, parsed: paths of files whose rows came from a copy, and from text, when they were read last.
    require: raises DiskError where the disk limit forbids so many bytes more; may be set.
    """

    def __init__(self, folder: StateFolder) -> None:
        self.copied: set[str] = set()
        self.parsed: set[str] = set()
        self.require: Callable[[int], None] = lambda nbytes: None
        self.folder = folder
        self._used: set[str] = set()
        self._full = False  # the disk

    @property
    def nbytes(self) -> int:
        """Return the size of the copies."""
        return self.folder.bytes_of(*self.folder.copies())

    def blocks(self, file: ParsedFile, max_bytes: int) -> Iterator[Block]:
        """Yield the rows of the file, from its copy, or from its text, which is then copied; see BlockSource."""
        name, done = _name_of(file), 0
        self._used.add(name)
        copy = self._open(name)
        if copy is not None:
            lost = copy.about["lost"]
            # the first copies do not say how values were rounded
            flushed, vanished = (bool(copy.about.get(name, lost > 0)) for name in HOW)
            file.rounding.count(lost, flushed=flushed, vanished=vanished)
            with copy:
                try:
                    for block in _stored(copy, file):
                        for start, stop in steps(block.X, max_bytes):
                            yield block.slice(start, stop)
                        done += block.n_rows
                except DataError as error:
                    file.rounding.uncount(lost)
                    self._throw_away(name, error)
                else:
                    facts = copy.about["facts"]
                    file.know(facts | {"fingerprint": _fingerprint(file.path, facts["fingerprint"])})
                    self._count(file.path, self.copied, self.parsed)
                    return
        self._count(file.path, self.parsed, self.copied)
        yield from _from(file.parse(max_bytes), done) if done else self._copied(file, name, max_bytes)

    def remove_unused(self) -> None:
        """Remove copies of files that this run has not read."""
        for name in self.folder.copies():
            if name not in self._used:
                with suppress(OSError):
                    os.unlink(self.folder.file(name))

    def _count(self, path: str, now: set[str], before: set[str]) -> None:
        before.discard(path)
        now.add(path)

    def _open(self, name: str) -> Container | None:
        try:
            return Container.open(self.folder.file(name), whole=False)
        except DataError as error:
            self._throw_away(name, error)
            return None

    def _throw_away(self, name: str, error: DataError) -> None:
        with suppress(OSError):
            os.unlink(self.folder.file(name))
        damage = str(error).partition("; ")[0]
        warnings.warn(
            f"{damage}: this copy of a file is removed, and the text parsed", LLSVMWarning, stacklevel=2
        )

    def _copied(self, file: ParsedFile, name: str, max_bytes: int) -> Iterator[Block]:
        """Yield the rows as they are parsed; after the last one there is a copy."""
        part, lost = self.folder.file(name + PART), file.rounding.squares
        copy = _Copy(part, self._require_room)

        def end() -> None:
            if copy.end(_plain(file.facts), file.rounding.squares - lost, file.rounding):
                os.rename(part, self.folder.file(name))

        try:
            for block in file.parse(max_bytes):
                self._unless_full(partial(copy.add, block))
                yield block
            self._unless_full(end)
        finally:
            copy.close()
            with suppress(OSError):
                os.unlink(part)

    def _unless_full(self, write: Callable[[], None]) -> None:
        """Write; errors of the disk become a warning, and stop all copying."""
        if self._full:
            return
        try:
            write()
        except (DiskError, UsageError, OSError) as error:
            self._full = True
            warnings.warn(
                f"no copies of parsed files are kept: {error} (training goes on)", LLSVMWarning, stacklevel=4
            )

    def _require_room(self, nbytes: int) -> None:
        self.require(nbytes)
        self.folder.require_free(nbytes)


class _Copy:
    """Copy that is being written. The file is made with the first rows."""

    def __init__(self, path: Path, require_room: Callable[[int], None]) -> None:
        self._path = path
        self._require_room = require_room
        self._writer: ContainerWriter | None = None
        self._shapes: list[tuple[int, int]] = []  # of each part: rows, values
        self._dtype = np.dtype(np.float32)
        self._unchecked = _CHECK_BYTES
        self._too_long = False  # some row

    def add(self, block: Block) -> None:
        """Write the next rows. Raises DiskError, UsageError."""
        X = block.X
        assert isinstance(X, CSR)
        self._writer = self._writer or ContainerWriter(self._path)
        self._dtype = X.data.dtype
        for start, stop in steps(X, PIECE_BYTES):
            begin, end = int(X.indptr[start]), int(X.indptr[stop])
            indptr = X.indptr[start : stop + 1] - begin
            arrays = indptr, block.y[start:stop], X.data[begin:end], X.indices[begin:end]
            nbytes = sum(array.nbytes for array in arrays)
            self._too_long |= nbytes > 2 * PIECE_BYTES
            if self._too_long:
                return
            if self._unchecked + nbytes > _CHECK_BYTES:
                self._require_room(_CHECK_BYTES)
                self._unchecked = 0
            self._unchecked += nbytes
            pieces = (np.ascontiguousarray(array).view(np.uint8) for array in arrays)
            self._writer.add(str(len(self._shapes)), np.dtype(np.uint8), (nbytes,), pieces)
            self._shapes.append((stop - start, end - begin))

    def end(self, facts: dict[str, Any], lost: float, rounding: Rounding) -> bool:
        """Complete it; return False where a row is too long to be kept. facts: of the file, plain values. lost: Σ
        e² over what was rounded of its values, as rounding says. Raises DiskError."""
        if self._writer is None or self._too_long:
            return False
        about = {"facts": facts, "lost": lost, "dtype": self._dtype.str, "shapes": self._shapes}
        self._writer.end(about | {name: getattr(rounding, name) for name in HOW})
        return True

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _stored(copy: Container, file: ParsedFile) -> Iterator[Block]:
    """Yield the rows of a copy, part by part. Raises DataError where one is damaged."""
    dtype, first = np.dtype(copy.about["dtype"]), 0
    for number, (n, nnz) in enumerate(copy.about["shapes"]):
        data = copy.checked(str(number))
        file.bytes_read += data.nbytes
        ends = np.cumsum([8 * (n + 1), 8 * n, dtype.itemsize * nnz])
        indptr, y, values, indices = np.split(data, ends)
        X = CSR(indptr.view(np.int64), indices.view(np.int32), values.view(dtype))
        yield Block(X, y.view(np.float64), np.arange(first, first + n, dtype=np.int64))
        first += n


def _from(blocks: Iterator[Block], first: int) -> Iterator[Block]:
    """Yield the rows from number ``first`` on."""
    done = 0
    for block in blocks:
        skip = min(max(first - done, 0), block.n_rows)
        done += block.n_rows
        if skip < block.n_rows:
            yield block.slice(skip, block.n_rows)


def _name_of(file: ParsedFile) -> str:
    """Return the name of the file's copy. Raises DataError where the file cannot be read."""
    n_bytes, changed = size_and_mtime(file.path)
    known = blake2b(f"{n_bytes} {changed} {file.how}\n".encode(), digest_size=16)
    try:
        with open(file.path, "rb") as text:
            known.update(text.read(_END_BYTES))
            text.seek(max(0, n_bytes - _END_BYTES))
            known.update(text.read(_END_BYTES))
    except OSError as error:
        raise unreadable(file.path, error) from error
    return ROWS_OF_FILE + known.hexdigest()


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts as JSON has them."""
    fingerprint: FileFingerprint = facts["fingerprint"]
    parts = [[what, checksums.hex()] for what, checksums in fingerprint.parts]
    return facts | {"fingerprint": {"n_bytes": fingerprint.n_bytes, "parts": parts}}


def _fingerprint(path: str, plain: dict[str, Any]) -> FileFingerprint:
    parts = tuple((what, bytes.fromhex(checksums)) for what, checksums in plain["parts"])
    return FileFingerprint(path, plain["n_bytes"], parts)
