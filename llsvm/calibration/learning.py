"""Learning from scores of held-out rows: probabilities by a method, and a threshold by a rule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from llsvm.calibration.held_scores import HeldScores
from llsvm.calibration.probabilities import isotonic, library_bytes, platt, temperature
from llsvm.calibration.threshold import ThresholdRule, choose, rule_of
from llsvm.dataset import DatasetInfo
from llsvm.errors import DataError, UsageError
from llsvm.features.labels import quoted
from llsvm.memory.budget import MemoryBudget
from llsvm.models.decisions import METHODS, THRESHOLD, Calibration, Method
from llsvm.models.model import Model
from llsvm.models.tables import given_names
from llsvm.objective.problems import class_signs
from llsvm.scoring.ranking import SORT_BYTES
from llsvm.settings.kinds import require_choice
from llsvm.settings.objective import CLASSIFICATION, KINDS
from llsvm.settings.settings import Settings

LINE = "scores to learn probabilities from"  # lines of the budget
SORTING = "sorting held-out rows"
LIBRARY = "the library of isotonic regression"


@dataclass(frozen=True, slots=True)
class LearningRequest:
    """Method of probabilities and rule of a threshold to learn; None: not asked for."""

    method: Method | None = None
    rule: ThresholdRule | None = None

    def __bool__(self) -> bool:
        return self.method is not None or self.rule is not None

    def require(self, dataset: DatasetInfo, budget: MemoryBudget) -> None:
        """Reserve memory for what is to be loaded. Raises BudgetError, and DataError for what such data cannot
        give."""
        if self.rule is not None and dataset.n_classes != 2:
            raise DataError(
                f"{dataset.name}: --threshold is for two classes, and there are {dataset.n_classes}: leave it out, "
                "or pass --positive with the label of one of them"
            )
        for line, nbytes in self.library.items():
            budget.reserve(line, nbytes)

    @property
    def library(self) -> dict[str, int]:
        """Return the line of the budget for what is still to be loaded."""
        nbytes = library_bytes() if self.method == "isotonic" else 0
        return {LIBRARY: nbytes} if nbytes else {}


NOTHING = LearningRequest()


def learning_request(probabilities: Any, threshold: str | None, settings: Settings) -> LearningRequest:
    """Return what is to be learned. Raises UsageError for what cannot be."""
    for name, asked in (("--probabilities", probabilities), ("--threshold", threshold)):
        if asked is not None and KINDS[settings.loss] != CLASSIFICATION:
            raise UsageError(
                f"{name} is for classes, and --loss {settings.loss} predicts numbers: leave it out"
            )
    if probabilities is not None:
        require_choice("--probabilities", probabilities, METHODS)
    if probabilities == "temperature" and settings.multiclass == "ovo":
        raise UsageError(
            "--probabilities temperature needs a score for each class, and --multiclass ovo has one for each "
            "pair: take platt or isotonic, or --multiclass ovr"
        )
    return LearningRequest(probabilities, None if threshold is None else rule_of(threshold))


@dataclass(frozen=True, slots=True)
class Learned:
    """Calibration and threshold that were learned. threshold: see ``llsvm.calibration.threshold.choose``, with
    n_rows."""

    calibration: Calibration | None = None
    threshold: dict[str, Any] | None = None

    def give(self, model: Model) -> Model:
        """Return the model with that."""
        extra: dict[str, Any] = {}
        if self.calibration is not None:
            extra |= self.calibration.as_extra()
        if self.threshold is not None:
            extra[THRESHOLD] = self.threshold
        if not extra:
            return model
        needed = [name for name, value in extra.items() if not isinstance(value, np.ndarray)]
        more: dict[str, Any] = {"extra": {**model.extra, **extra}, "requires": (*model.requires, *needed)}
        return replace(model, feature_names=given_names(model), **more)


def learn(
    held: HeldScores,
    asked: LearningRequest,
    dataset: DatasetInfo,
    one_vs_one: bool,
    budget: MemoryBudget,
    remedy: str,
) -> Learned:
    """Return what is asked for. remedy: for a class without held-out rows. Raises DataError, BudgetError."""
    signs = class_signs(dataset.n_classes, one_vs_one)
    n_rows = _count(held, signs, dataset, remedy)
    threshold = calibration = None
    sorts = asked.rule is not None or asked.method == "isotonic"
    max_rows = held.sort_rows() if sorts else 0
    sorting = budget.reserve(SORTING, SORT_BYTES * max_rows)
    if asked.rule is not None:
        pieces = partial(held.of_problem, 0, signs[0])
        threshold = choose(pieces, asked.rule, max_rows, dataset.name) | {"n_rows": n_rows}
    if asked.method == "platt":
        slopes, offsets = platt(held.pieces, signs)
        calibration = Calibration("platt", n_rows, tuple(slopes.tolist()), tuple(offsets.tolist()))
    elif asked.method == "temperature":
        calibration = Calibration("temperature", n_rows, (temperature(held.pieces),))
    elif asked.method == "isotonic":
        knots = [isotonic(partial(held.of_problem, c, y), max_rows) for c, y in enumerate(signs)]
        ends = np.cumsum([len(each) for each in knots])
        calibration = Calibration("isotonic", n_rows, knots=np.concatenate(knots), ends=tuple(ends.tolist()))
    sorting.release()
    return Learned(calibration, threshold)


def _count(held: HeldScores, signs: Any, dataset: DatasetInfo, remedy: str) -> int:
    """Return how many held-out rows have a weight. Raises DataError where a problem has none on one of its
    sides."""
    counts = np.zeros(dataset.n_classes, np.int64)
    for true, _, _ in held.pieces():
        counts += np.bincount(true, minlength=len(counts))
    if not counts.all():
        c = int(np.argmin(counts))
        raise DataError(
            f"{dataset.name}: no held-out row with a weight is of class {quoted(dataset.classes[c])}, so that "
            f"nothing tells its probabilities: {remedy}"
        )
    return int(counts.sum())
