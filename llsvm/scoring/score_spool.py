"""Spool of the scores of rows of two classes with their weights, until all rows have been seen: in a temporary file
where they are many."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import chain
from typing import IO

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DiskError
from llsvm.files.writing import NO_ROOM
from llsvm.scoring.ranking import SORT_BYTES, Piece, RankingFigure, rank

HELD_BYTES = 2 << 20  # at most, before they go to the file, and of the file when it is read
_ARRAY_BYTES = 128  # of an array beside its values
_SMALLEST_SORT = 1 << 14  # rows
_ROW = np.dtype([("score", "<f8"), ("signed", "<f4")])
_HEAD = np.dtype(
    [("before", "<i8"), ("rows", "<i8")]
)  # of a chunk: where the one before it is, -1 of the first


class SpoolFile:
    """The file of several ScoreSpools. It has no name, so that nothing is left, whatever ends the process; the
    chunks of each spool are a chain in it, so that what is held in memory does not grow with it."""

    def __init__(self, held_bytes: int = HELD_BYTES) -> None:
        self.held_rows = max(1, held_bytes // _ROW.itemsize)
        self._max_bytes, self._held_bytes = held_bytes, 0
        self._spools: list[ScoreSpool] = []
        self._file: IO[bytes] | None = None
        self._end = 0

    def register(self, spool: ScoreSpool) -> None:
        """Write this spool, too, when memory is full."""
        self._spools.append(spool)

    def hold(self, nbytes: int) -> None:
        """Count that one spool holds so much more; all write what they hold if it is too much. Raises DiskError."""
        self._held_bytes += nbytes
        if self._held_bytes >= self._max_bytes:
            for spool in self._spools:
                spool.write()
            self._held_bytes = 0

    def write(self, rows: NDArray[np.void], before: int) -> int:
        """Write a new chunk and return its place. before: that of the same rows' last one, or -1. Raises
        DiskError."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="llsvm-")  # noqa: SIM115 (closed by close)
            place = self._file.seek(self._end)
            self._file.write(np.array((before, len(rows)), _HEAD).tobytes())
            self._file.write(rows.tobytes())
            self._file.flush()
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            raise DiskError(
                f"{tempfile.gettempdir()}: {error.strerror}: the scores of the rows, {_ROW.itemsize} bytes each, "
                "are kept there to be ranked; free some space, or name another folder in $TMPDIR"
            ) from error
        self._end = place + _HEAD.itemsize + rows.nbytes
        return place

    def chunks(self, last: int) -> Iterator[NDArray[np.void]]:
        """Yield the chunks of a chain, backwards from the one at ``last``; none from -1."""
        while last >= 0:
            assert self._file is not None
            self._file.seek(last)
            last, n_rows = np.frombuffer(self._file.read(_HEAD.itemsize), _HEAD)[0].item()
            yield np.frombuffer(self._file.read(n_rows * _ROW.itemsize), _ROW)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class ScoreSpool:
    """Scores of the rows of one ranking."""

    def __init__(self, store: SpoolFile) -> None:
        self._store = store
        self._held: list[NDArray[np.void]] = []
        self._last = -1  # chunk in the file
        store.register(self)

    def add(self, scores: NDArray[np.float64], signed: NDArray[np.float32]) -> None:
        """Add rows. scores, signed: (n,), see ``llsvm.scoring.ranking.Piece``. Raises DiskError."""
        step = self._store.held_rows
        for start in range(0, len(scores), step):
            part = slice(start, start + step)
            rows = np.empty(len(scores[part]), _ROW)
            rows["score"], rows["signed"] = scores[part], signed[part]
            self._held.append(rows)
            self._store.hold(rows.nbytes + _ARRAY_BYTES)

    def write(self) -> None:
        """Write what is held to the file. Raises DiskError."""
        if self._held:
            self._last = self._store.write(np.concatenate(self._held), self._last)
            self._held = []

    def rank(self, room_bytes: int, *figures: RankingFigure) -> None:
        """Add all rows to ``figures``, ranked. room_bytes: that sorting may take."""
        rank(self._pieces, max(_SMALLEST_SORT, room_bytes // SORT_BYTES), *figures)

    def _pieces(self) -> Iterator[Piece]:
        for rows in chain(self._store.chunks(self._last), self._held):
            yield rows["score"].copy(), rows["signed"].copy()
