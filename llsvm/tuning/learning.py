"""After the choice of C: what is learned from the scores of held-out rows by its candidates, in a pass more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from llsvm.calibration.held_scores import HeldScores
from llsvm.calibration.learning import Learned, Wanted, learn
from llsvm.data.source import BlockSource
from llsvm.models.model import Model
from llsvm.objective.problems import Fold
from llsvm.settings.settings import Settings
from llsvm.stream.stream import Stream
from llsvm.tuning.held_out import score_file, score_folds


def learned_from_folds(
    stream: Stream,
    settings: Settings,
    asked: Wanted,
    folds: Sequence[Fold],
    at_once: int,
    weights: Callable[[int], NDArray[np.float64]],
    remedy: str,
) -> tuple[Learned, int]:
    """What is learned, and the passes that it took. at_once: candidates that there is room for. weights: (k, d + 1)
    of the fold of that number. remedy: for a class of which nothing is held out."""
    dataset, ovo = stream.dataset, settings.multiclass == "ovo"
    passes = 0
    with HeldScores(stream, dataset.n_rows, len(weights(0))) as held:
        for start in range(0, len(folds), at_once):
            numbers = range(start, min(start + at_once, len(folds)))
            coef = np.stack([weights(f) for f in numbers])[None]
            score_folds(stream, [folds[f] for f in numbers], coef, settings.constant, held)
            passes += 1
        return learn(held, asked, dataset, ovo, stream.budget, remedy), passes


def learned_from_file(
    stream: Stream, settings: Settings, asked: Wanted, source: BlockSource, n_rows: int, model: Model
) -> Learned:
    """As ``learned_from_folds``. source: of n_rows rows that the model was not trained on."""
    dataset = stream.dataset
    with HeldScores(stream, n_rows, model.n_problems) as held:
        score_file(source, [model], dataset, held, settings.memory_limit)
        ovo, remedy = settings.multiclass == "ovo", "give other --validation data"
        return learn(held, asked, dataset, ovo, stream.budget, remedy)
