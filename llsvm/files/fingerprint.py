"""The fingerprint of a file, checksums of what was read, by which it is noticed that its contents have changed.

A fingerprint is taken while a file is read, by chunks, and costs about a hundredth of that. It is for noticing
what changed by accident: a change goes unnoticed with a chance of about 2^-32, and whoever wants to can make one
that is not noticed. What the checksums are of depends on who does the reading:

    svmlight, CSV,   the file's bytes as they are stored (compressed ones if so; of standard input those that
    JSON Lines, VW   came), every ``CHUNK_BYTES`` from the beginning
    Parquet          the stored bytes of the columns that are read, a checksum per row group; of addresses such as
                     s3://... nothing, since all would have to be fetched twice
    Arrow            the buffers of the columns that are read, a checksum per record batch
    HDF5, NumPy      the arrays that are read, row by row in their stored type, every ``CHUNK_BYTES`` of each

So it does not depend on the sizes of blocks, on threads, nor on what becomes of the values.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from llsvm.errors import DataError

CHUNK_BYTES = 1 << 22
BYTES, ROW_GROUPS, RECORD_BATCHES = (
    "bytes",
    "row group",
    "record batch",
)  # parts of files; others are arrays' names
_CHECKSUM = struct.Struct("<Q")
TRAINED_ON = "trained_on"  # the name in Model.extra of what ``files_summary`` says
_MAX_LISTED = 100  # files in a summary


@dataclass(frozen=True, slots=True)
class FileFingerprint:
    """Fingerprint of one file, as it was read once, from its beginning to its end.

    path: as it was given. n_bytes: of the file as it is stored.
    parts: (what, checksums), in order of name: checksums are 8 bytes for each chunk, see the file's head.
    """

    path: str
    n_bytes: int
    parts: tuple[tuple[str, bytes], ...]

    @property
    def digest(self) -> str:
        """Return 32 hexadecimal digits for all of it but the path."""
        whole = hashlib.blake2b(_CHECKSUM.pack(self.n_bytes), digest_size=16)
        for what, checksums in self.parts:
            whole.update(f"{what}\0{len(checksums)}\0".encode() + checksums)
        return whole.hexdigest()


class Reading:
    """Fingerprint of one reading of a file, as it grows.

    path: of the file.
    known: of the first reading: as soon as a chunk differs from its chunk there, DataError is raised. None: this is
        the first.
    """

    def __init__(self, path: str, known: FileFingerprint | None = None) -> None:
        self._path = path
        self._known = None if known is None else dict(known.parts)
        self._parts: dict[str, bytearray] = {}
        self._open: dict[str, Checksum] = {}  # of chunks that are not complete

    def add(self, data: Any, part: str = BYTES) -> None:
        """Take in the next bytes of ``part``: any contiguous buffer. Raises DataError."""
        view = np.frombuffer(data, np.uint8)
        while len(view):
            checksum = self._open.get(part)
            if checksum is None:
                checksum = self._open[part] = Checksum()
            room = CHUNK_BYTES - checksum.n_bytes
            checksum.add(view[:room])
            if len(view) >= room:
                self.add_chunk(checksum.value, part)
            view = view[room:]

    def add_chunk(self, value: int, part: str) -> None:
        """Take in the checksum of the next chunk of ``part``. Raises DataError."""
        done = self._parts.setdefault(part, bytearray())
        self._open.pop(part, None)
        done += _CHECKSUM.pack(value)
        if self._known is not None and self._known.get(part, b"")[len(done) - 8 : len(done)] != done[-8:]:
            raise changed(self._path, f"{_place(part, len(done) // 8 - 1)} is not what it was at first")

    def finish(self, n_bytes: int) -> FileFingerprint:
        """Complete the fingerprint at the end of the file. n_bytes: of the file as it is stored. Raises
        DataError."""
        for part, checksum in list(self._open.items()):
            if checksum.n_bytes:
                self.add_chunk(checksum.value, part)
        parts = {part: bytes(done) for part, done in sorted(self._parts.items())}
        for part, known in (self._known or {}).items():
            if len(parts.get(part, b"")) != len(known):
                raise changed(self._path, f"it ends before {_place(part, len(parts.get(part, b'')) // 8)}")
        return FileFingerprint(self._path, n_bytes, tuple(parts.items()))


class Checksum:
    """Checksum of a stream of bytes: add bytes, then look at ``value``. n_bytes: added so far."""

    def __init__(self) -> None:
        self.n_bytes = 0
        self._state = np.zeros(4, np.uint64)  # see the kernel

    def add(self, data: Any) -> None:
        """Go on with ``data``: any contiguous buffer."""
        from llsvm.kernels.checksum import checksum

        view = np.frombuffer(data, np.uint8)
        view.setflags(write=False)  # some are: the kernel is compiled for these, once
        checksum(view, self._state)
        self.n_bytes += len(view)

    @property
    def value(self) -> int:
        """Return 64 bits. What is added later does not count."""
        ended = Checksum()
        ended._state[:] = self._state
        ended.add(bytes(-self.n_bytes % 8))  # a word that is not complete counts as if zeros followed
        return int(ended._state[0])


def of_all(fingerprints: Sequence[FileFingerprint | None]) -> tuple[FileFingerprint, ...] | None:
    """Return the fingerprints, once there is one of each file."""
    return None if None in fingerprints else tuple(filter(None, fingerprints))


def files_summary(fingerprints: Sequence[FileFingerprint] | None) -> dict[str, Any] | None:
    """Return what a model stores about the files that it was trained on: plain values, small for any number of
    files, and the same wherever the files are. None for None.

    n_files, n_bytes: of all; digest: one for all contents, in order; files: name without folders, bytes and digest
    of each, the first hundred.
    """
    if fingerprints is None:
        return None
    digests = [fingerprint.digest for fingerprint in fingerprints]
    whole = digests[0] if len(digests) == 1 else hashlib.blake2b("".join(digests).encode(), digest_size=16)
    return {
        "n_files": len(digests),
        "n_bytes": sum(fingerprint.n_bytes for fingerprint in fingerprints),
        "digest": whole if isinstance(whole, str) else whole.hexdigest(),
        "files": [
            {"name": os.path.basename(fingerprint.path), "n_bytes": fingerprint.n_bytes, "digest": digest}
            for fingerprint, digest in zip(fingerprints[:_MAX_LISTED], digests, strict=False)
        ],
    }


def _place(part: str, number: int) -> str:
    """Return the name of chunk ``number`` of a part."""
    if part in (ROW_GROUPS, RECORD_BATCHES):
        return f"{part} {number}"
    where = "" if part == BYTES else f"{part}, "
    return f"{where}bytes {number * CHUNK_BYTES:,} to {(number + 1) * CHUNK_BYTES:,}"


def changed(path: str, how: str) -> DataError:
    return DataError(
        f"{path}: the file changed while it was in use ({how}); start again when nothing writes to it"
    )
