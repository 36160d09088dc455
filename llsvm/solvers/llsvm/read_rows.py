"""Rows that are read for each product, block by block, as linear algebra sees them (see chosen_rows.py)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.problems import Positions
from llsvm.solvers.llsvm.chosen_rows import ChosenRows, chosen_rows
from llsvm.stream.every_row import EveryRow
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]


class ReadRows:
    """A ChosenRows whose positions are those of ``EveryRow``; they are given in ascending order."""

    def __init__(
        self, every: EveryRow, n_columns: int, bias: float, piece_bytes: int, progress: Progress
    ) -> None:
        """n_columns: d. bias, piece_bytes: see ``chosen_rows``."""
        self._every = every
        self._given = n_columns, bias, piece_bytes, progress
        self._columns = n_columns + 1
        self.progress = progress

    def dots(self, rows: Positions, w: Vector) -> Vector:
        out = np.empty(len(rows))
        for some, part, own in self._parts(rows):
            out[some] = part.dots(own, w)
        return out

    def add(self, rows: Positions, factor: Vector, out: Vector) -> None:
        for some, part, own in self._parts(rows):
            part.add(own, factor[some], out)

    def add_squares(self, rows: Positions, factor: Vector, out: Vector) -> None:
        for some, part, own in self._parts(rows):
            part.add_squares(own, factor[some], out)

    def squares(self, rows: Positions) -> Vector:
        out = np.empty(len(rows))
        for some, part, own in self._parts(rows):
            out[some] = part.squares(own)
        return out

    def outer(self, rows: Positions, factor: Vector, out: Vector) -> None:
        for some, part, own in self._parts(rows):
            self.progress.check()
            part.outer(own, factor[some], out)

    def inner(self, rows: Positions, out: Vector) -> None:
        """A reading for each of the rows."""
        for j in range(len(rows)):
            self.progress.check()
            x = np.zeros(self._columns)
            self.add(rows[j : j + 1], np.ones(1), x)
            out[j:, j] = self.dots(rows[j:], x)

    def _parts(self, rows: Positions) -> Iterator[tuple[slice, ChosenRows, Positions]]:
        """The blocks that have some of the rows: which of ``rows``, the block's, and their positions in it."""
        first = self._every.first
        ends = np.searchsorted(rows, first)
        for number, (start, stop) in enumerate(pairwise(ends.tolist())):
            if start < stop:
                part = chosen_rows(self._every.block(number).X, *self._given)
                yield slice(start, stop), part, rows[start:stop] - first[number]
