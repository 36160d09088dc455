"""Candidates that are trained: what they are trained on, their weights, and passes counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from llsvm.data.source import BlockSource
from llsvm.objective.problems import Fold
from llsvm.settings.settings import Settings
from llsvm.solvers.base import Report
from llsvm.stream.stream import Stream
from llsvm.training.class_weights import class_weights
from llsvm.training.training import Training
from llsvm.tuning.batches import CandidateStarts, Start
from llsvm.tuning.scores import Board, Key

Show = Callable[[Report], None]
WEIGHTS = "weights of candidates"  # line of the budget


class Float64Restart(Exception):
    """Rounding values to 32-bit floats hides an optimum: all is to be done again with 64-bit floats."""


@dataclass(frozen=True, slots=True)
class Trained:
    """Candidates that are scored together: each of ``keys`` with each of ``folds``, which are numbers.

    coef: (n_keys, n_folds, k, d + 1) their best certified weights. primals, gaps: (n_keys, n_folds). start: of each
    key, trained on all rows; None where that is not known."""

    keys: Sequence[Key]
    folds: Sequence[int]
    coef: NDArray[np.float64]
    primals: NDArray[np.float64]
    gaps: NDArray[np.float64]
    start: Start | None = None


@dataclass(slots=True)
class PassCounts:
    """Counts of passes of the candidates of a few objectives, which share passes.

    solver: its name. objectives: their numbers. concurrent: candidates of the same passes; batches, passes: so
    many, over the training data. alone: candidates that were trained alone in the end."""

    solver: str
    objectives: Sequence[int]
    concurrent: int = 1
    batches: int = 0
    passes: int = 0
    alone: int = 0

    def add_passes(self, passes: int) -> None:
        self.passes += passes

    def batch_ended(self) -> None:
        self.batches += 1

    def trained_alone(self, passes: int) -> None:
        """Count a candidate that was trained alone, in so many passes."""
        self.alone += 1
        self.passes += passes

    def trained_at_once(self, candidates: int) -> None:
        """Count candidates that share passes."""
        self.concurrent = max(self.concurrent, candidates)


@dataclass(slots=True)
class TrainingWork:
    """Data and settings that candidates are trained with. objectives: settings that have all but C, in the order of
    their numbers. again: opens the training data anew, None where they can be read once only. folds: all of them;
    None is all rows. show: is told of each pass."""

    training: Training
    objectives: Sequence[Settings]
    again: Callable[[], BlockSource] | None
    show: Show
    threads: int
    board: Board
    starts: CandidateStarts
    folds: list[Fold | None] = field(default_factory=list)

    @property
    def stream(self) -> Stream:
        return self.training.stream

    def class_weight(self, objective: int) -> NDArray[np.float64]:
        """Return (n_classes,) factors of C."""
        return class_weights(self.objectives[objective].class_weight, self.stream.dataset)

    def take(self, report: Report) -> None:
        """Take a report of a solver. Raises Float64Restart."""
        self.show(report)
        self.training.progress.pass_ended(report.passes, report.survivors, None)
        if report.certificate is not None and self.training.must_begin_again(report):
            raise Float64Restart


class CandidateWeights:
    """The weights of all candidates, until one is chosen and its held-out rows are scored once more; in memory, or
    in a file beside the spill.

    keys: of all candidates, which have so many folds each; k: problems of a candidate."""

    def __init__(self, stream: Stream, keys: Sequence[Key], n_folds: int, k: int, width: int) -> None:
        """Reserve room for the weights. width: d + 1. Raises DiskError."""
        self._number = {key: number for number, key in enumerate(keys)}
        self._n_folds, self._k = n_folds, k
        n_rows = len(keys) * n_folds * k
        self._values = stream.reserved_state(n_rows, width, "weights of all candidates", "weights")

    def set(self, key: Key, fold: int, coef: NDArray[np.float64]) -> None:
        """Store the weights of a candidate, (k, d + 1)."""
        self._values.set(self._rows(key, fold), coef)

    def get(self, key: Key, fold: int) -> NDArray[np.float64]:
        """Return the weights of a candidate, (k, d + 1)."""
        return self._values.get(self._rows(key, fold)).reshape(self._k, -1)

    def close(self) -> None:
        """Let memory and disk go; again does nothing."""
        self._values.close()

    def _rows(self, key: Key, fold: int) -> NDArray[np.int64]:
        return np.arange(self._k) + self._k * (self._number[key] * self._n_folds + fold)
