"""Lengths of the texts in HDF5's data sets, known before any of them is read: of text of variable length, a data
set holds for each the number of its bytes and where they are."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.files.inputs import open_binary
from llsvm.memory.budget import require_room

_REFERENCE = np.dtype([("length", "<u4"), ("place", "V12")])  # of a text: its bytes, and where they are
_TOGETHER = 1 << 14  # that are looked at
_MAX_CHUNK_BYTES = 16 << 20  # unpacked; larger ones are not looked into
_TEXT_BYTES = 150  # of a text, however short: as bytes, as str, in an array
_UNEVEN = 4  # times the mean: the longest, where it is not to be seen
_COPIES = 5  # of a text while it is read: HDF5's, as bytes, as str, in arrays; measured


def require_texts(path: str, array: Any) -> None:
    """Raise BudgetError where the limit leaves no room for all texts of a data set, read at a time."""
    if array.dtype.kind not in "SO":
        require_room(path, 2 * array.size * array.dtype.itemsize)
        return
    require_room(path, _COPIES * text_bytes(path, array)[0] + _TEXT_BYTES * array.size)


def text_bytes(path: str, array: Any) -> tuple[int, int]:
    """(bytes of all texts of a data set, of the longest). Where they cannot be known, all are what the file has
    beside its data sets, and none is much longer than the others."""
    if array.dtype.kind == "S":
        return array.size * array.dtype.itemsize, array.dtype.itemsize
    total = longest = 0
    try:
        for lengths in _lengths(path, array):
            total += int(lengths.sum(dtype=np.int64))
            longest = max(longest, int(lengths.max(initial=0)))
    except (OSError, ValueError, RuntimeError, TypeError, zlib.error):
        total = int(array.file.id.get_filesize()) - _in_data_sets(array.file)
        longest = min(total, _UNEVEN * total // max(array.size, 1))
    return total, longest


def _lengths(path: str, array: Any) -> Iterator[NDArray[np.uint32]]:
    """Raises ValueError where they are not to be seen."""
    if array.chunks is None:
        place = array.id.get_offset()
        if place is None:
            raise ValueError("within its own head")
        with open_binary(path) as file:
            file.seek(place)
            for at in range(0, array.size, _TOGETHER):
                n = min(_TOGETHER, array.size - at)
                yield np.frombuffer(file.read(n * _REFERENCE.itemsize), _REFERENCE)["length"]
        return
    n_bytes = int(np.prod(array.chunks)) * _REFERENCE.itemsize
    packed = array.compression == "gzip"
    others = array.id.get_create_plist().get_nfilters() - packed - array.shuffle
    if n_bytes > _MAX_CHUNK_BYTES or others:
        raise ValueError("stored in another way")
    for i in range(array.id.get_num_chunks()):
        info = array.id.get_chunk_info(i)
        if info.size > _MAX_CHUNK_BYTES:
            raise ValueError(info.size)
        mask, data = array.id.read_direct_chunk(info.chunk_offset)
        if mask:
            raise ValueError("stored in several ways")
        if packed:
            data = zlib.decompressobj().decompress(data, n_bytes)
        if array.shuffle:
            data = np.frombuffer(data, np.uint8).reshape(_REFERENCE.itemsize, -1).T.tobytes()
        yield np.frombuffer(data, _REFERENCE)["length"]


def _in_data_sets(file: Any) -> int:
    """Bytes of all data sets of a file; texts of variable length are elsewhere."""
    import h5py

    sizes = [0]

    def visit(name: str, member: Any) -> None:
        if isinstance(member, h5py.Dataset):
            sizes.append(int(member.id.get_storage_size()))

    file.visititems(visit)
    return sum(sizes)
