"""The reference of `python -m tools.bench tune`: LinearSVC(loss="hinge"), LIBLINEAR's code, on tune's own folds, as
GridSearchCV would fit it; of classes against the rest, too.

A fit begins with 1,000 iterations at a tolerance of 1e-4, and is done again with ten times as many while its
objective is more than a share of NEAR above ours and a longer one is expected within the seconds that there are: at
large C it ends far from the optimum else. Scores are compared at the C's where all its fits are near.
"""

from __future__ import annotations

import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

COSTS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
FOLDS = 5
NEAR = 0.003
FIRST_ITERATIONS = 1000


def folds_of(path: Path, work: Path) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The classes, and (n_rows,) the fold of each row, as tune makes them under whatever limit: this process holds
    more than some of those that are measured."""
    from llsvm.data import open_source
    from llsvm.settings.settings import Settings
    from llsvm.training.training import Training
    from llsvm.tuning.folds import needs_of_folds, stratified

    settings = Settings(memory_limit="8GB", spill_dir=str(work))
    with Training(open_source(str(path)), settings) as training:
        dataset, stream = training.read(), training.stream
        stream.prepare(needs_of_folds(dataset))
        made = stratified(stream, FOLDS, 0)
        numbers = np.full(dataset.n_rows, -1)
        for block in stream.all():
            for number, fold in enumerate(made):
                numbers[block.rows[fold.contains(block.rows, block.class_ids)]] = number
        return dataset.classes, numbers


def reference(
    path: Path,
    classes: NDArray[Any],
    numbers: NDArray[np.int64],
    ours: dict[str, Any],
    n_folds: int,
    seconds: float,
) -> dict[str, Any]:
    """above: how far our objectives are above the reference's, at most, relative; near: of so many fits the
    reference's are at most NEAR above ours. Of the C's where all are, and the folds that it was fitted on: how
    many, compared; apart, the largest difference of mean scores; which C the reference chooses, and whether ours is
    within a standard error of that. ours: see ``llsvm tune --json``."""
    from sklearn.datasets import load_svmlight_file

    X, labels = load_svmlight_file(str(path))
    X, y = X.astype(np.float32).astype(np.float64), np.searchsorted(classes, labels)
    above, near, apart = -math.inf, 0, 0.0
    means, errors, own, compared = (list[float]() for _ in range(4))
    for C, row in zip(COSTS, ours["table"], strict=True):
        scores, there = list[float](), 0
        for fold in range(n_folds):
            some = numbers != fold
            svm, primal = _fitted(X[some], y[some], C, row["primals"][fold], seconds)
            above = max(above, row["primals"][fold] / primal - 1)
            there += primal <= (1 + NEAR) * row["primals"][fold]
            scores.append(float(svm.score(X[~some], y[~some])))
        near += there
        if there < n_folds:
            continue
        compared.append(C)
        own.append(float(np.mean(row["scores"][:n_folds])))
        apart = max(apart, abs(own[-1] - float(np.mean(scores))))
        means.append(float(np.mean(scores)))
        errors.append(float(np.std(scores, ddof=1) / math.sqrt(n_folds)) if n_folds > 1 else 0.0)
    best, at = int(np.argmax(means)), int(np.argmax(own))
    return {
        "above": above,
        "near": near,
        "fits": n_folds * len(COSTS),
        "compared": len(compared),
        "apart": apart,
        "our_C": compared[at],
        "their_C": compared[best],
        "within_one_error": bool(means[best] - means[at] <= errors[best]),
    }


def _fitted(X: Any, y: NDArray[Any], C: float, enough: float, seconds: float) -> tuple[Any, float]:
    """The model and its objective. enough: an objective near the optimum."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    iterations = FIRST_ITERATIONS
    while True:
        svm = LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-4, max_iter=iterations, random_state=0)
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            svm.fit(X, y)
        took = time.process_time() - began
        primal = 0.0
        for c, w in enumerate(svm.coef_):
            sign = np.where(y == (c if len(svm.coef_) > 1 else 1), 1.0, -1.0)
            primal += 0.5 * w @ w + C * np.maximum(1 - sign * (X @ w), 0).sum()
        if primal <= (1 + NEAR) * enough or svm.n_iter_ < iterations or 10 * took > seconds:
            return svm, float(primal)
        iterations *= 10
