"""Rows in the order of their scores, from the highest down, as many at a time as memory has room for: where such a
piece ends follows from counts, made in readings of all scores. Rows of equal scores come together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

# (scores (n,) float64, (n,) or (n, m) what else is known of the rows)
Piece = tuple[NDArray[np.float64], NDArray[Any]]
Pieces = Callable[[], Iterator[Piece]]  # in any order, the same each time
SORT_BYTES = 48  # of a row while it is sorted
_BINS = 1 << 12


def descending(pieces: Pieces, max_rows: int) -> Iterator[Piece]:
    """All rows, sorted, of which at most ``max_rows`` are held, but for those of one score."""
    for low, high in _ranges(pieces, 0, 1 << 64, max_rows):
        parts = []
        for scores, others in pieces():
            keys = _keys(scores)
            some = (keys >= np.uint64(low)) & (keys <= np.uint64(high - 1))
            parts.append((scores[some], others[some]))
        whole, more = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(-whole, kind="stable")
        yield whole[order], more[order]


def group_ends(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Where equal scores, which are sorted, end: the positions of the last of each."""
    return np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1)


def _ranges(pieces: Pieces, low: int, high: int, max_rows: int) -> Iterator[tuple[int, int]]:
    """Ranges of keys, from the highest down, that have at most ``max_rows`` rows, or one key alone."""
    width = max(1, (high - low) // _BINS)
    counts = np.zeros(-(-(high - low) // width), np.int64)
    for scores, _ in pieces():
        keys = _keys(scores)
        keys = keys[(keys >= np.uint64(low)) & (keys <= np.uint64(high - 1))]
        np.add.at(counts, ((keys - np.uint64(low)) // np.uint64(width)).astype(np.int64), 1)
    end, held = len(counts), 0
    for at in range(len(counts) - 1, -1, -1):
        if held + counts[at] > max_rows:
            if held:
                yield low + (at + 1) * width, min(low + end * width, high)
            end, held = at + 1, 0
            if counts[at] > max_rows:
                if width > 1:
                    yield from _ranges(pieces, low + at * width, min(low + end * width, high), max_rows)
                else:
                    yield low + at, low + end
                end = at
                continue
        held += int(counts[at])
    if held:
        yield low, min(low + end * width, high)


def _keys(scores: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Whole numbers in the order of the scores; 0.0 and −0.0 are the same."""
    bits = (scores + 0.0).view(np.uint64)
    sign = np.uint64(1 << 63)
    return np.where(bits & sign, ~bits, bits | sign)
