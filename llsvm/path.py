"""Regularization path: models for a falling sequence of λ₁, each started at the weights of the one before.

The data are read once; each point is trained to its own certificate on the same stream.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.data.source import BlockSource
from llsvm.errors import BudgetError, UsageError
from llsvm.files.writing import replacing
from llsvm.memory.process import default_threads
from llsvm.models.model import Model
from llsvm.models.tables import has_names, names_of
from llsvm.objective.penalty import Penalty
from llsvm.settings.settings import Settings
from llsvm.solvers.smsvm.solver import SmSVM
from llsvm.training.class_weights import class_weights
from llsvm.training.training import Training

MIN_RATIO = 1e-3  # the smallest λ₁ of the path, as a share of the largest
MAX_LINES, NAMED = 50, 8  # weights drawn, and of these so many named


@dataclass(slots=True)
class PathPoint:
    """Point of a regularization path.

    lambda1: of (1/N) Σ loss + (λ₂/2)‖w‖² + λ₁‖w‖₁. model: trained at it. passes: over the data, for this point
    alone. figures: of the model on the validation data by name, empty without such: accuracy, log_loss and
    brier_score (where the loss gives probabilities), or of a regression r2, mean_absolute_error,
    mean_squared_error, before them of a quantile pinball_loss; the first is what it is judged by."""

    lambda1: float
    model: Model
    passes: int
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def nonzero_weights(self) -> int:
        return int(np.count_nonzero(self.model.coef_))

    def as_dict(self) -> dict[str, Any]:
        certificate = self.model.certificate
        return {
            "lambda1": self.lambda1,
            "nonzero_weights": self.nonzero_weights,
            "passes": self.passes,
            "relative_gap": None if certificate is None else certificate.relative_gap,
            "converged": self.model.converged,
            **self.figures,
        }

    @property
    def main_figure(self) -> tuple[str, float] | None:
        """Return the name of the first figure, and the figure."""
        return next(iter(self.figures.items()), None)


def path(
    source: BlockSource,
    settings: Settings,
    lambdas: NDArray[np.float64] | int = 20,
    output: str | os.PathLike[str] | None = None,
) -> Iterator[PathPoint]:
    """Yield a point for each λ₁, the largest first.

    lambdas: (m,) λ₁ in any order, or how many, spread evenly on a log scale from the smallest with which all
    weights are zero. settings: with penalty "l1" ("elasticnet" with lambda2, where lambda1 is what varies); once
    max_seconds are over, of the whole path, the point that is being trained is the last, with the model that it has
    reached by then.
    Raises UsageError, DataError, BudgetError.
    """
    require_lambda1(settings.penalty, settings.lambda2)
    if settings.prune is not None:
        raise UsageError("--prune is for one training: the weights of a path are zero where λ₁ has them so")
    settings = replace(settings, solver="smsvm", lambda1=1.0)  # any λ₁ will do until the data are known
    with Training(source, settings, output) as training:
        try:
            solver = _start_solver(training, settings)
        except BudgetError as error:
            raise training.with_smallest(error) from error
        if isinstance(lambdas, int):
            lambdas = solver.largest_lambda1() * np.geomspace(1.0, MIN_RATIO, lambdas)
        for lambda1 in np.sort(np.asarray(lambdas, float))[::-1]:
            training.ask(replace(settings, lambda1=float(lambda1)))
            before = solver.passes
            if not _train_point(training, solver):  # nor would those after it be
                passes = solver.passes - before
                del solver  # and all it holds
                training.keep_double()
                solver = _start_solver(training, settings)
                before = -passes
                _train_point(training, solver)
            yield PathPoint(float(lambda1), training.model, solver.passes - before)
            if training.progress.out_of_time:
                return


def require_lambda1(penalty: str, lambda2: float | None) -> None:
    """Raise UsageError for a penalty without a λ₁ to vary, or one whose λ₂ is missing."""
    if penalty == "l2":
        raise UsageError("a path over λ₁ needs --penalty l1 or elasticnet")
    if penalty == "elasticnet" and lambda2 is None:
        raise UsageError("a path with --penalty elasticnet needs --lambda2")


def _start_solver(training: Training, settings: Settings) -> SmSVM:
    """Read the data, and return a solver at w = 0."""
    weights = class_weights(settings.class_weight, training.read())
    solver = SmSVM(settings, weights, settings.threads or default_threads())
    solver.prepare(training.stream)
    return solver


def _train_point(training: Training, solver: SmSVM) -> bool:
    """Train at the λ₁ of ``training.settings``; return False where it must begin again with 64-bit floats."""
    reports = solver.optimise(Penalty.of(training.settings, training.stream.dataset.weight_sum))
    for report in reports:
        if training.must_begin_again(report):
            return False
        training.note(report)
    return True


def plot(points: Sequence[PathPoint], file: str) -> None:
    """Draw weights against λ₁, and under them the number of nonzero weights and the figure on the validation data.

    Needs matplotlib (the extra "plots"). Raises UsageError without it.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator, PercentFormatter
    except ImportError as error:
        raise UsageError("--plot needs matplotlib: pip install llsvm[plots]") from error
    lambdas = [point.lambda1 for point in points]
    figure = Figure(figsize=(8, 7), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    weights = np.array([point.model.coef_.ravel() for point in points])
    largest = np.argsort(-np.abs(weights).max(axis=0), kind="stable")[:MAX_LINES]
    largest = largest[weights[:, largest].any(axis=0)]
    above.axhline(0, color="0.8", linewidth=0.8)
    for rank, j in enumerate(largest):
        style = {"label": _name(points[0].model, j), "linewidth": 1.6, "zorder": 3}
        above.plot(lambdas, weights[:, j], **(style if rank < NAMED else {"color": "0.6", "linewidth": 0.7}))
    if len(largest):
        above.legend(title="largest weights", fontsize="small", loc="upper left", ncols=2)
    above.set_ylabel("weights" if weights.shape[1] <= MAX_LINES else f"the {len(largest)} largest weights")
    below.plot(lambdas, [point.nonzero_weights for point in points], "k.-")
    below.set(xscale="log", xlabel="λ₁ (sparser to the left)", ylabel="weights that are not zero")
    below.yaxis.set_major_locator(MaxNLocator(integer=True))
    below.invert_xaxis()
    if points[0].main_figure is not None:
        name, _ = points[0].main_figure
        right = below.twinx()
        right.plot(lambdas, [point.figures[name] for point in points], "C0.--")
        right.set_ylabel(f"validation {name}", color="C0")
        right.tick_params(axis="y", colors="C0")
        right.yaxis.set_major_formatter(PercentFormatter(1.0))
    kind = os.path.splitext(file)[1].lstrip(".").lower()
    with replacing(file) as stream:
        figure.savefig(stream, format=kind, dpi=150)


def _name(model: Model, j: int) -> str:
    """Return the name of the weight at position j of all the problems' weights."""
    problem, column = divmod(int(j), model.coef_.shape[1])
    name = names_of(model, [column])[0]
    name = name if has_names(model) else f"feature {name}"
    return name if len(model.coef_) == 1 else f"{model.classes_[problem]}: {name}"
