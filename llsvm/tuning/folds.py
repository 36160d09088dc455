"""Which rows are held out: stratified folds by a hash of the rows' numbers.

Of each class the rows with the smallest hashes are the first fold's, those after it the second's, and so on. Where
one fold ends follows from a histogram of the hashes, counted in a pass, so that folds have the same share of each
class but for a histogram's bin, and are the same whatever the memory limit, and the order of the rows, made of the
blocks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.dataset import DatasetInfo
from llsvm.errors import DataError, counted
from llsvm.features.labels import quoted
from llsvm.memory.plan import Needs
from llsvm.objective.problems import Fold, row_hash
from llsvm.stream.stream import Stream

_CELLS = 1 << 18  # of all classes' histograms together
_MAX_BITS, _MIN_BITS = 16, 6  # of a hash, that tell its bin
_ROW_BYTES = 64  # of a row: its hash and its bin, on the way there
_COPIES = 3  # of the histograms: counted, summed up, and summed up with a zero in front


def needs_of_folds(dataset: DatasetInfo) -> Needs:
    """What finding folds holds."""
    return Needs({"histograms of rows": _COPIES * 8 * dataset.n_classes << _bits(dataset)}, _ROW_BYTES)


def stratified(stream: Stream, folds: int, seed: int) -> list[Fold]:
    """So many folds of about the same number of rows of each class. Raises DataError where a class has too few."""
    return _cut(
        stream, np.arange(1, folds) / folds, folds, seed, "ask for fewer --folds" if folds > 2 else ""
    )


def holdout(stream: Stream, share: float, seed: int) -> Fold:
    """One fold of such a share of the rows of each class. Raises DataError where a class has too few."""
    return _cut(stream, np.array([share]), max(2, round(1 / share)), seed, "ask for a larger --holdout")[0]


def _cut(stream: Stream, ends: NDArray[np.float64], folds: int, seed: int, remedy: str) -> list[Fold]:
    """ends: where a fold ends and the next begins, as shares of a class; the last reaches to the end.
    remedy: for a class that has too few rows; "" for none."""
    dataset = stream.dataset
    bits = _bits(dataset)
    totals = _histogram(stream, bits, seed).cumsum(axis=1)
    cuts = np.zeros((len(ends) + 2, dataset.n_classes), np.int64)  # bins that folds begin with
    cuts[-1] = 1 << bits
    for c, total in enumerate(totals):
        wanted = ends * total[-1]
        after = np.searchsorted(total, wanted)  # the bin in which so many rows are reached
        before = np.where(after > 0, total[after - 1], 0)
        cuts[1:-1, c] = after + (total[after] - wanted <= wanted - before)
    _require_all_classes(dataset, np.diff(_rows_before(totals, cuts), axis=0), remedy)
    starts = cuts.astype(np.uint64) << np.uint64(64 - bits)
    last = starts[1:] - np.uint64(1)  # which wraps around at the end
    bounds = np.stack([starts[:-1], last], axis=1)
    return [Fold(number, folds, seed, each) for number, each in enumerate(bounds)]


def _bits(dataset: DatasetInfo) -> int:
    """Of a hash: as many as bins of a row or so need, if there is room for them."""
    wanted = min(dataset.n_rows, _CELLS // dataset.n_classes)
    return int(np.clip(wanted.bit_length(), _MIN_BITS, _MAX_BITS))


def _histogram(stream: Stream, bits: int, seed: int) -> NDArray[np.int64]:
    """(n_classes, 2^bits) rows of each class whose hash begins with these bits."""
    n_classes, bins = stream.dataset.n_classes, 1 << bits
    counts = np.zeros(n_classes * bins, np.int64)
    for block in stream.all():
        hashed = row_hash(block.rows, seed) >> np.uint64(64 - bits)
        np.add.at(counts, block.class_ids * np.int64(bins) + hashed.astype(np.int64), 1)
    return counts.reshape(n_classes, bins)


def _rows_before(totals: NDArray[np.int64], cuts: NDArray[np.int64]) -> NDArray[np.int64]:
    """(m, n_classes) rows of each class in the bins before ``cuts``, (m, n_classes)."""
    padded = np.concatenate([np.zeros((len(totals), 1), np.int64), totals], axis=1)
    return padded[np.arange(len(totals)), cuts]


def _require_all_classes(dataset: DatasetInfo, held: NDArray[np.int64], remedy: str) -> None:
    """held: (folds, n_classes) rows of each."""
    empty = np.argwhere(held == 0)
    if not len(empty):
        return
    if dataset.has_targets:
        few = "1 row is" if dataset.n_rows == 1 else f"{dataset.n_rows:,} rows are"
        raise DataError(f"{dataset.name}: {few} too few: a fold would have none; {remedy or 'add rows'}")
    c = int(empty[0, 1])
    there = counted(int(dataset.counts[c]), "row")
    raise DataError(
        f"{dataset.name}: class {quoted(dataset.classes[c])} has {there} in all, so that a fold would have "
        f"none of it; {f'{remedy}, or ' if remedy else ''}leave such classes out"
    )
