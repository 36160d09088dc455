"""Isotonic maps: probabilities that rise with the score, those that fit held-out rows best in least squares
(Zadrozny & Elkan 2002), by SciPy's pool-adjacent-violators algorithm.

Rows come sorted, from the highest score down, a part of them at a time. Each part is pooled, and the pools of all
parts once more: pooling neighbours first changes nothing in the end (Robertson, Wright & Dykstra 1988, chapter 1).
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from llsvm.calibration.ordered import Pieces, descending, group_ends
from llsvm.calibration.platt import targets
from llsvm.process.loading import loading_blas

_LIBRARY = "scipy.optimize"
_LIBRARY_BYTES = 32_000_000  # of it, once it is loaded; measured
Numbers = NDArray[np.float64]


def library_bytes() -> int:
    """What is to be signed for before ``isotonic``."""
    return 0 if _LIBRARY in sys.modules else _LIBRARY_BYTES


def isotonic(pieces: Pieces, max_rows: int) -> Numbers:
    """Knots (m, 2) of scores and probabilities, ascending, of one problem.

    pieces: scores, and (n, 2) weights of rows where they are positive, and where not; at least one has a weight.
    No probability is 0 or 1: that of a pool goes from 1/(N₋ + 2) to (N₊ + 1)/(N₊ + 2), as Platt's targets do, since
    a single row of the other class would else have an infinite loss."""
    parts = [_pooled(*_together(*part)) for part in descending(pieces, max_rows)]
    whole = _pooled(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    ranges, sides = (each[::-1] for each in whole)
    high, low = (float(each) for each in targets(*sides.sum(axis=0)))
    probability = low + (high - low) * sides[:, 0] / sides.sum(axis=1)
    knots = np.column_stack([ranges[:, ::-1].reshape(-1), np.repeat(probability, 2)])
    return knots[np.append(True, np.diff(knots[:, 0]) > 0)]


def _together(scores: Numbers, sides: Numbers) -> tuple[Numbers, Numbers]:
    """Rows of equal scores as one: its range, twice the score, and the sums of weights."""
    ends = group_ends(scores)
    starts = np.append(0, ends[:-1] + 1)
    return np.column_stack([scores[ends], scores[ends]]), np.add.reduceat(sides, starts, axis=0)


def _pooled(ranges: Numbers, sides: Numbers) -> tuple[Numbers, Numbers]:
    """(m, 2) highest and lowest score of each pool, descending, and (m, 2) its weights."""
    with loading_blas():
        from scipy.optimize import isotonic_regression  # loads slowly

    weights = sides.sum(axis=1)
    starts = isotonic_regression(sides[:, 0] / weights, weights=weights, increasing=False).blocks[:-1]
    ends = np.append(starts[1:], len(ranges)) - 1
    return np.column_stack([ranges[starts, 0], ranges[ends, 1]]), np.add.reduceat(sides, starts, axis=0)
