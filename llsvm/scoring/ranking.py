"""Rows ranked by their scores, from the highest down, and the figures that follow: areas under the ROC curve and
under that of precision and recall, points of these curves, and a table of thresholds.

Rows are sorted as many at a time as memory has room for: where such a piece ends follows from counts, made in
passes over all scores. Rows of equal scores come and count together, and all by their weights, as in scikit-learn.
A ScoreSpool keeps the scores until all rows have been seen, in a temporary file where they are many.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import chain
from typing import IO, Any, Protocol, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DiskError, UsageError
from llsvm.files.writing import NO_ROOM
from llsvm.scoring.metrics import Numbers, PrecisionRecall, ratio, share

# Scores (n,) float64, and signed weights (n,): that of a positive row, the negative of that of another; none is 0.
Piece = tuple[Numbers, NDArray[np.floating]]
Pieces = Callable[[], Iterator[Piece]]  # in any order, the same in each pass
SORT_BYTES = 48  # of a row while it is sorted
_BINS = 1 << 12
MAX_THRESHOLDS = 1000
_CURVE_STEPS = 200  # of recall, and of the share of other rows, between two points
_STEPS_PER_DOUBLING = 25  # of other rows over positive ones, on which the precision depends


# -- sorting -------------------------------------------------------------------------------------------------------


def descending(pieces: Pieces, max_rows: int) -> Iterator[Piece]:
    """Yield all rows, sorted, of which at most ``max_rows`` are held, but for those of one score."""
    for low, high in _ranges(pieces, 0, 1 << 64, max_rows):
        parts = []
        for scores, signed in pieces():
            keys = _keys(scores)
            inside = (keys >= np.uint64(low)) & (keys <= np.uint64(high - 1))
            parts.append((scores[inside], signed[inside]))
        all_scores, all_signed = (np.concatenate(each) for each in zip(*parts, strict=True))
        order = np.argsort(-all_scores, kind="stable")
        yield all_scores[order], all_signed[order]


def group_ends(scores: Numbers) -> NDArray[np.intp]:
    """Return the positions of the last of each group of equal scores, which are sorted."""
    return np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1)


def sides(signed: NDArray[np.floating]) -> Numbers:
    """Return (n, 2) weights of rows where they are positive, and where they are not."""
    return np.column_stack([np.maximum(signed, 0), np.maximum(-signed, 0)])


def _ranges(pieces: Pieces, low: int, high: int, max_rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of keys, from the highest down, that have at most ``max_rows`` rows, or one key alone."""
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


def _keys(scores: Numbers) -> NDArray[np.uint64]:
    """Return whole numbers in the order of the scores; 0.0 and −0.0 are the same."""
    bits = (scores + 0.0).view(np.uint64)
    sign = np.uint64(1 << 63)
    return np.where(bits & sign, ~bits, bits | sign)


# -- figures of a ranking ------------------------------------------------------------------------------------------


class RankingFigure(Protocol):
    """A figure that is worked out while the rows are ranked."""

    def add(self, scores: Numbers, true: Numbers, false: Numbers) -> None:
        """Add scores (m,), descending, each once, and the weights (m,) of positive rows, and of others, with at
        least that score."""
        ...


def rank(pieces: Pieces, max_rows: int, *figures: RankingFigure) -> None:
    """Add all rows to ``figures``, from the highest score down; see ``descending``."""
    positives = others = 0.0
    for scores, signed in descending(pieces, max_rows):
        ends = group_ends(scores)
        true = positives + np.cumsum(np.maximum(signed, 0), dtype=np.float64)[ends]
        false = others + np.cumsum(np.maximum(-signed, 0), dtype=np.float64)[ends]
        positives, others = float(true[-1]), float(false[-1])
        for figure in figures:
            figure.add(scores[ends], true, false)


class Areas:
    """Areas under the ROC curve and under that of precision against recall, NaN where they are not defined."""

    def __init__(self) -> None:
        self._positives = self._others = 0.0
        self._area = 0.0  # Σ over other rows of the positive ones above them, equals half
        self._precisions = 0.0  # Σ over positive rows of the precision where they are found

    def add(self, scores: Numbers, true: Numbers, false: Numbers) -> None:
        """Add ranked rows; see RankingFigure."""
        new = np.diff(true, prepend=self._positives)
        others = np.diff(false, prepend=self._others)
        self._area += float(np.sum(others * (true - 0.5 * new)))
        self._precisions += float(np.sum(new * ratio(true, true + false)))
        self._positives, self._others = float(true[-1]), float(false[-1])

    @property
    def roc_auc(self) -> float:
        return share(self._area, self._positives * self._others)

    @property
    def average_precision(self) -> float:
        return share(self._precisions, self._positives)


class Curve:
    """Weights of rows of either of two classes above each score, thinned to what can be seen.

    positives, others: the weight of the rows of the second class, and of the first, which both have some."""

    def __init__(self, positives: float, others: float) -> None:
        self._totals = positives, others
        self._points: list[Numbers] = []
        self._last = np.full((1, 3), -1)
        self._end = np.empty((0, 3))

    def add(self, scores: Numbers, true: Numbers, false: Numbers) -> None:
        """Add ranked rows; see RankingFigure."""
        positives, others = self._totals
        doublings = _STEPS_PER_DOUBLING * np.log2(1 + false / positives)
        steps = [_CURVE_STEPS * true / positives, _CURVE_STEPS * false / others, doublings]
        whole = np.stack(steps, axis=1).astype(np.int64)
        new: NDArray[np.bool_] = np.any(np.diff(whole, axis=0, prepend=self._last) > 0, axis=1)
        self._last = whole[-1:]
        points = np.stack([scores, true, false], axis=1)
        self._points.append(points[new])
        self._end = points[:0] if new[-1] else points[-1:]

    def answer(self) -> dict[str, Any]:
        """Return plain values, a list each from the highest score down: threshold (the score, which counts as above
        it), true_positives, false_positives; and of all rows positives and others. Rows count by their weights."""
        scores, true, false = np.concatenate([*self._points, self._end]).T
        return {
            "threshold": scores.tolist(),
            "true_positives": true.tolist(),
            "false_positives": false.tolist(),
            "positives": self._totals[0],
            "others": self._totals[1],
        }


class ThresholdFigures(TypedDict):
    """Figures of the rule that rows with this score or a higher one are of the second class. predicted_positive:
    the share of all rows that it takes for such, false_positive_rate: of those of the first class. Rows count by
    their weights."""

    threshold: float
    precision: float
    recall: float
    f1: float
    predicted_positive: float
    false_positive_rate: float


class Thresholds:
    """Table of the highest score for each of ``steps`` equal steps of recall, and that with the largest F1.

    positives, others: the weight of the rows of the second class, and of the first, which both have some."""

    def __init__(self, steps: int, positives: float, others: float) -> None:
        self._steps, self._positives, self._others = steps, positives, others
        self._level = 0
        self._points: list[Numbers] = []
        self._best, self._best_point = -1.0, np.empty((0, 3))

    def add(self, scores: Numbers, true: Numbers, false: Numbers) -> None:
        """Add ranked rows; see RankingFigure."""
        near = 1 + 1e-12  # sums of weights are rounded
        levels = np.floor(near * self._steps * true / self._positives).astype(np.int64)
        points = np.stack([scores, true, false], axis=1)
        self._points.append(points[np.diff(levels, prepend=self._level) > 0])
        self._level = int(levels[-1])
        f1 = PrecisionRecall(true, self._positives, true + false).f1
        best = int(np.argmax(f1))
        if f1[best] > self._best:
            self._best, self._best_point = float(f1[best]), points[best : best + 1]

    def answer(self) -> list[ThresholdFigures]:
        """Return the thresholds from the highest down."""
        points = np.unique(np.concatenate([*self._points, self._best_point]), axis=0)[::-1]
        score, true, false = points.T
        counts = PrecisionRecall(true, self._positives, true + false)
        columns = (
            score,
            counts.precision,
            counts.recall,
            counts.f1,
            counts.predicted / (self._positives + self._others),
            false / self._others,
        )
        rows = np.stack(columns, axis=1).tolist()
        return [
            cast(ThresholdFigures, dict(zip(ThresholdFigures.__annotations__, row, strict=True)))
            for row in rows
        ]


def check_thresholds(steps: int, n_classes: int) -> None:
    """Raise UsageError unless a model of that many classes can have a table of so many thresholds; 0: none."""
    if steps and n_classes != 2:
        raise UsageError("--thresholds is for models of two classes: leave it out")
    if not 0 <= steps <= MAX_THRESHOLDS:
        raise UsageError(f"--thresholds must be from 1 to {MAX_THRESHOLDS:,}, not {steps}")


# -- spools of scores ----------------------------------------------------------------------------------------------

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
