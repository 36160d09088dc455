"""Scores of rows of two classes with their weights, kept until all rows have been seen: in a temporary file where
they are many."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np
from numpy.typing import NDArray

from llsvm.calibration.ordered import SORT_BYTES, Piece
from llsvm.errors import DiskError
from llsvm.files.writing import NO_ROOM
from llsvm.scoring.ranking import Follower, Ranked, ranked

HELD_BYTES = 2 << 20  # at most, before they go to the file, and of the file when it is read
_SMALLEST_SORT = 1 << 14  # rows
_ROW = np.dtype([("score", "<f8"), ("signed", "<f4")])


class KeptScores:
    """A file that has no name: whatever ends the process, nothing is left."""

    def __init__(self, held_bytes: int = HELD_BYTES) -> None:
        self._rows = held_bytes // _ROW.itemsize
        self._held: list[NDArray[np.void]] = []
        self._n_held = 0
        self._file: IO[bytes] | None = None

    def add(self, scores: NDArray[np.float64], signed: NDArray[np.float32]) -> None:
        """scores, signed: (n,), see Ranked.add. Raises DiskError."""
        for start in range(0, len(scores), self._rows):
            part = slice(start, start + self._rows)
            rows = np.empty(len(scores[part]), _ROW)
            rows["score"], rows["signed"] = scores[part], signed[part]
            self._held.append(rows)
            self._n_held += len(rows)
            if self._n_held >= self._rows:
                self._write()

    def ranked(self, room_bytes: int, followers: Sequence[Follower] = ()) -> Ranked:
        """What the ranking of all rows comes to. room_bytes: that sorting may take."""
        return ranked(self._pieces, max(_SMALLEST_SORT, room_bytes // SORT_BYTES), followers)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _write(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="llsvm-")  # noqa: SIM115 (closed by close)
            for rows in self._held:
                self._file.write(rows.tobytes())
            self._file.flush()
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise DiskError(
                f"{tempfile.gettempdir()}: {error.strerror}: the scores of the rows, {_ROW.itemsize} bytes each, "
                "are kept there to be ranked; free some space, or name another folder in $TMPDIR"
            ) from error
        self._held, self._n_held = [], 0

    def _pieces(self) -> Iterator[Piece]:
        if self._file is not None:
            self._file.seek(0)
            while content := self._file.read(self._rows * _ROW.itemsize):
                rows = np.frombuffer(content, _ROW)
                yield rows["score"].copy(), rows["signed"].copy()
        for rows in self._held:
            yield rows["score"].copy(), rows["signed"].copy()
