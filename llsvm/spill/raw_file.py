"""Reading and writing at a position of a file, whole or with an error that says what to do.

Plain reads into the caller's arrays, never a mapping: mapped pages count in the resident set.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import FileIO

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DiskError, SpillError
from llsvm.files.writing import room_for


def write_at(file: FileIO, data: NDArray[np.uint8], offset: int) -> None:
    """Write all bytes of ``data`` at ``offset``. Raises DiskError (disk full, quota, file size limit)."""
    done = 0
    try:
        while done < len(data):  # one call writes 2 GB at most, and less on a full disk
            done += os.pwrite(file.fileno(), data[done:].data, offset + done)
    except OSError as error:
        raise write_failed(file, error) from error


def write_pieces_at(file: FileIO, pieces: Sequence[NDArray[np.uint8]], offset: int) -> None:
    """Write all bytes of the pieces, one after the other, from ``offset`` on. Raises DiskError, as ``write_at``."""
    try:
        done = os.pwritev(file.fileno(), [piece.data for piece in pieces], offset)
    except OSError as error:
        raise write_failed(file, error) from error
    for piece in pieces:  # what one call has left: see ``write_at``
        if done < len(piece):
            write_at(file, piece[max(done, 0) :], offset + max(done, 0))
        done, offset = done - len(piece), offset + len(piece)


def write_failed(file: FileIO, error: OSError) -> DiskError:
    return DiskError(
        f"{os.fsdecode(file.name)}: cannot write to the spill file: {error.strerror or error}; "
        + room_for(error, " there, or pass --spill-dir with a folder on another disk")
    )


def read_at(file: FileIO, out: NDArray[np.uint8], offset: int, what: str) -> None:
    """Fill ``out`` from ``offset`` on. Raises SpillError, calling it ``what``, if the file has less."""
    done = 0
    try:
        while done < len(out):
            n_read = os.preadv(file.fileno(), [out[done:].data], offset + done)
            if not n_read:
                how = f"{len(out):,} bytes expected, {done:,} found (the file is truncated)"
                raise damaged(file, what, how)
            done += n_read
    except OSError as error:
        raise damaged(file, what, f"cannot be read: {error.strerror or error}") from error


def damaged(file: FileIO, what: str, how: str) -> SpillError:
    return SpillError(
        f"{os.fsdecode(file.name)}: {what}: {how}; the disk may be failing: "
        "run again with --spill-dir on another one"
    )
