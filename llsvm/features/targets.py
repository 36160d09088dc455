"""Labels that are no classes: numbers, the targets of a regression; or nothing that counts, where rows have none.

They go through a Stream as float64, and nothing must be put in order once all are known: see RowLabels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.dataset import TargetFacts
from llsvm.errors import DataError
from llsvm.features.labels import NOT_A_NUMBER, LabelEncoder, is_text
from llsvm.settings.objective import CLASSIFICATION, REGRESSION, UNLABELLED

_MIN_SQUARES = 1e-280  # Σ (t_i − mean)² below has lost some of its terms


class RowLabels(Protocol):
    """Numbers that a source's labels become, and what is learned of the labels in the first reading.

    kind: what they are, a name of llsvm.settings.objective. counts: (k,) rows by class, as ``encode`` numbers them.
    sums: (k,) of their weights.
    classes: (k,) labels, ascending, none where they are no classes. rank: (k,) what ``encode``'s numbers have
    become. finisher: makes of what ``encode`` has handed out what blocks are to have; None where they are the same.
    nbytes: that it holds. target: of targets. doubt: whether labels are what they are taken for, or "".
    """

    @property
    def kind(self) -> str: ...
    @property
    def counts(self) -> NDArray[np.int64]: ...
    @property
    def sums(self) -> NDArray[np.float64]: ...
    @property
    def classes(self) -> NDArray[Any]: ...
    @property
    def rank(self) -> NDArray[np.int32]: ...
    @property
    def finisher(self) -> Callable[[NDArray[Any]], NDArray[Any]] | None: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def target(self) -> TargetFacts | None: ...

    @property
    def doubt(self) -> str: ...

    def __len__(self) -> int: ...

    def encode(self, y: NDArray[Any], weight: NDArray[np.float64] | None = None) -> NDArray[Any]:
        """Return what blocks have, for now, for labels (n,) in the first reading. weight: (n,) by which they count,
        None where all are 1. Raises DataError."""
        ...

    def final(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return what blocks have for labels (n,) in later readings. Raises DataError."""
        ...

    def require_variety(self, where: str, column: str | None, note: str = "") -> None:
        """Raise DataError where there is nothing to tell apart, or hardly anything is alike. where: the name of the
        data. column: of a table that has the labels. note: on labels of it that are one label."""
        ...


class _NoClasses:
    """Base of targets and of rows without labels: all rows are alike."""

    def __init__(self) -> None:
        self._n = 0
        self._sum = 0.0  # of their weights

    doubt = ""

    def __len__(self) -> int:
        return 0

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.array([self._n])

    @property
    def sums(self) -> NDArray[np.float64]:
        return np.array([self._sum])

    @property
    def classes(self) -> NDArray[Any]:
        return np.empty(0)

    @property
    def rank(self) -> NDArray[np.int32]:
        return np.zeros(1, np.int32)

    @property
    def nbytes(self) -> int:
        return 0


class Targets(_NoClasses):
    """Numbers, and their mean and variance, by the updates of Chan, Golub and LeVeque (1979).

    scaled: blocks have them with mean 0 and variance 1."""

    kind = REGRESSION

    def __init__(self, scaled: bool = False) -> None:
        super().__init__()
        self._scaled = scaled
        self._first: float | None = None
        self._moved = self._squares = 0.0  # the mean less the first target; Σ (t_i − mean)²
        self._smallest, self._largest = math.inf, -math.inf
        self._n_counting = 0  # rows whose weight is above 0

    @property
    def target(self) -> TargetFacts:
        std, first = math.sqrt(self._squares / (self._sum or 1.0)), self._first or 0.0
        mean = first + self._moved
        back = mean - first
        rest = (first - (mean - back)) + (self._moved - back)
        return TargetFacts(mean, std, self._smallest, self._largest, self._scaled, rest)

    def encode(self, y: NDArray[Any], weight: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the numbers. y: (n,) finite. weight: (n,) by which they count, None where all are 1."""
        values = y.astype(np.float64, copy=False)
        self._n += len(values)
        counting = values if weight is None else values[weight > 0]
        if len(counting):
            weights = np.ones(len(counting)) if weight is None else weight[weight > 0]
            new = Targets()
            new._first = float(counting[0]) if self._first is None else self._first
            new._n_counting, new._sum = len(counting), float(weights.sum())
            new._smallest, new._largest = float(counting.min()), float(counting.max())
            with np.errstate(over="ignore", invalid="ignore"):  # see ``require_variety``
                beyond = counting - new._first
                new._moved = float(weights @ beyond) / new._sum
                new._squares = float((weights * np.square(beyond - new._moved)).sum())
            self.merge(new)
        return values

    def merge(self, other: Targets) -> None:
        """Take in the targets of rows that follow."""
        self._n += other._n
        if other._first is None:
            return
        self._first = other._first if self._first is None else self._first
        whole = self._sum + other._sum
        with np.errstate(over="ignore", invalid="ignore"):
            moved = np.float64(other._first - self._first) + other._moved - self._moved
            self._squares += other._squares + float(moved * moved * self._sum * other._sum / whole)
            self._moved += float(moved * other._sum / whole)
        self._sum, self._n_counting = whole, self._n_counting + other._n_counting
        self._smallest = min(self._smallest, other._smallest)
        self._largest = max(self._largest, other._largest)

    @property
    def finisher(self) -> Callable[[NDArray[Any]], NDArray[Any]] | None:
        return self.target.scale if self._scaled else None

    def final(self, y: NDArray[Any]) -> NDArray[np.float64]:
        y = y.astype(np.float64, copy=False)
        return self.target.scale(y) if self._scaled else y

    def require_variety(self, where: str, column: str | None, note: str = "") -> None:
        if self._n_counting == 1:
            raise DataError(
                f"{where}: one row only (n_samples = 1): there is nothing to learn from one target"
            )
        if self._smallest == self._largest:
            raise DataError(
                f"{where}: all {self._n_counting} rows have the same target, {self._smallest:.17g}: there is "
                "nothing to learn; is it the right column (--label)?"
            )
        if not _MIN_SQUARES < self._squares < math.inf:
            size, units = ("near to 0", "smaller") if self._squares <= _MIN_SQUARES else ("large", "larger")
            raise DataError(
                f"{where}: targets go from {self._smallest:.3g} to {self._largest:.3g}, and their squares are too "
                f"{size} for 64-bit floats; give them in {units} units"
            )


class NoLabels(_NoClasses):
    """Whatever the source hands out for labels counts nothing: blocks have zeros."""

    kind = UNLABELLED
    target = finisher = None

    def encode(self, y: NDArray[Any], weight: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        self._n += len(y)
        self._sum += len(y) if weight is None else float(weight.sum())
        return np.zeros(len(y))

    def merge(self, other: NoLabels) -> None:
        """Take in rows that follow."""
        self._n, self._sum = self._n + other._n, self._sum + other._sum

    def final(self, y: NDArray[Any]) -> NDArray[np.float64]:
        return np.zeros(len(y))

    def require_variety(self, where: str, column: str | None, note: str = "") -> None:
        """Accept all rows: without labels they need no variety."""


def labels_of(kind: str, scale_targets: bool = False) -> RowLabels:
    """Return an encoder for labels of that kind, a name of llsvm.settings.objective. scale_targets: see
    SourceInfo."""
    if kind == REGRESSION:
        return Targets(scale_targets)
    return LabelEncoder() if kind == CLASSIFICATION else NoLabels()


def as_targets(y: NDArray[Any]) -> NDArray[np.float64]:
    """Return the labels (n,) as the numbers that they are, or are written as. Raises ValueError(position, reason)
    for the first that is none, or NaN, or infinite."""
    if is_text(y):
        values = np.array([_number(label) for label in y.tolist()])
    else:
        values = y.astype(np.float64, copy=False)
    bad = ~np.isfinite(values)
    if bad.any():
        at = int(np.argmax(bad))
        if is_text(y) and not _is_number(y[at]):
            raise ValueError(at, f"the label {_shown(y[at])}: {NOT_A_NUMBER}")
        what = "NaN" if np.isnan(values[at]) else "infinite, or too large for a 64-bit float"
        raise ValueError(at, f"the label is {what}; give it a finite number, or leave the row out")
    return values


def _number(label: Any) -> float:
    try:
        return float(label)
    except ValueError:
        return math.nan


def _is_number(label: Any) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def _shown(label: Any) -> str:
    text = str(label)
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
