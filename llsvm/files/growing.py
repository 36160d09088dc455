"""GrowingArray: an array of unknown length, in memory while it is small, else on disk and mapped when it is whole.

What is mapped is memory of the process only where it has been looked at, and ``let_go`` gives that back.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

_PIECE = 1 << 18  # values of a mapped array that are in memory together


class ScratchFiles(Protocol):
    """Files for what does not fit in memory. Raises DiskError where there is no room for them."""

    def new(self, nbytes: int) -> Path:
        """Return a path for a file of so many bytes, which its owner deletes."""
        ...

    def new_array(self) -> Path:
        """Return a path for a file that grows by what is claimed for it, and that its writer deletes."""
        ...

    def claim(self, nbytes: int) -> None:
        """Claim bytes that are about to be written to such a file."""
        ...

    def release(self, nbytes: int) -> None:
        """Release bytes that were claimed and are not needed any more."""
        ...


class GrowingArray:
    """Array that grows by rows, in memory and then on disk: see the file's head. dtype: of its values.
    memory_bytes: that it may take before it goes to disk."""

    def __init__(self, dtype: DTypeLike, files: ScratchFiles, memory_bytes: int) -> None:
        self.dtype = np.dtype(dtype)
        self.nbytes = 0
        self._files, self._memory_bytes = files, memory_bytes
        self._parts: list[NDArray[Any]] = []
        self._path: Path | None = None
        self._file: BinaryIO | None = None
        self._claimed = 0  # bytes of disk

    def append(self, values: NDArray[Any]) -> None:
        """Put values (n,) behind those that are there."""
        values = np.ascontiguousarray(values, self.dtype)
        self.nbytes += values.nbytes
        if self._file is None and self.nbytes <= self._memory_bytes:
            self._parts.append(values if values.base is None else values.copy())
            return
        if self._file is None:
            self._path = self._files.new_array()
            self._file = open(self._path, "wb")  # noqa: SIM115 (closed when it is whole, or dropped)
        for part in [*self._parts, values]:
            self._files.claim(part.nbytes)
            self._claimed += part.nbytes
            self._file.write(part.data)
        self._parts = []

    def finish(self) -> NDArray[Any]:
        """Return (n,) the whole array; the file has no name any more, and is gone with the array. What was
        claimed for it stays so, until ``discard``."""
        if self._file is None:
            parts, self._parts = self._parts, []
            return np.concatenate(parts) if parts else np.zeros(0, self.dtype)
        assert self._path is not None, "the file has one"
        self._file.close()
        mapped = np.memmap(self._path, self.dtype, "r+")
        self._path.unlink()
        return np.asarray(mapped)

    def discard(self) -> None:
        """Discard the array, and what ``finish`` has returned, which nobody holds."""
        self._parts = []
        if self._file is not None and self._path is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)
        if self._claimed:
            self._files.release(self._claimed)
            self._claimed = 0


def let_go(*arrays: NDArray[Any]) -> None:
    """Take out of memory what of a GrowingArray is mapped; it is read again where it is looked at. Other arrays
    stay as they are."""
    for array in arrays:
        if (mapped := _map_of(array)) is not None:
            mapped.madvise(mmap.MADV_DONTNEED)


def in_pieces(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield pieces of (n, ...) one behind the other, each let go after; what is not mapped is one."""
    step = _PIECE if is_mapped(array) else max(len(array), 1)
    for start in range(0, len(array), step):
        yield array[start : start + step]
        let_go(array)


def multiply(values: NDArray[Any], factor: float, out: NDArray[Any]) -> None:
    """Set out (n,) to so many times ``values`` (n,); of both, no more is in memory for it than a piece of what is
    mapped."""
    for start in range(0, len(out), _PIECE):
        piece = slice(start, start + _PIECE)
        np.multiply(values[piece], factor, out=out[piece], dtype=out.dtype)
        let_go(values, out)


def copied(array: NDArray[Any]) -> NDArray[Any]:
    """Return a copy in memory, (n, m), laid out as it is; ``multiply`` says what of it is in memory meanwhile."""
    if not is_mapped(array):
        return array.copy(order="K")
    copy = np.empty(array.shape, array.dtype)
    for row, target in zip(array, copy, strict=True):
        multiply(row, 1.0, target)
    return copy


def column(array: NDArray[Any], at: int) -> NDArray[Any]:
    """Return (n,) a copy of a column of (n, m), which may be mapped: a row that is looked at is let go."""
    copy = np.empty(len(array), array.dtype)
    for i, row in enumerate(array):
        copy[i] = row[at]
        let_go(row)
    return copy


def count_nonzero(array: NDArray[Any]) -> int:
    """Return how many values of (n, m) are not 0; of what is mapped, no more is in memory for it than a piece."""
    return sum(int(np.count_nonzero(piece)) for row in array for piece in in_pieces(row))


def is_mapped(array: NDArray[Any]) -> bool:
    """Return whether the array lies in a file."""
    return _map_of(array) is not None


def _map_of(array: NDArray[Any]) -> mmap.mmap | None:
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None
