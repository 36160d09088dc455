"""Pruning: small weights become zero when training is over, and a pass over all rows measures what that costs.

As in DiSMEC (Babbar & Schölkopf 2017), where weights |w| < 0.01 of many classes' n-grams are dropped: nothing is
trained anew. Any weights bound the objective from above, so with the dual that training ended with the certificate
is that of the pruned weights. Weights are compared as training has them, of scaled columns, whose sizes can be
compared; the constant term is never dropped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.dataset import DatasetInfo
from llsvm.memory.plan import Needs
from llsvm.objective.certificate import Certificate
from llsvm.objective.losses import joint_loss, loss_of
from llsvm.objective.measured import JointObjective, SeparateObjectives, work_bytes
from llsvm.objective.one_class import negligible
from llsvm.objective.penalty import Penalty
from llsvm.objective.problems import Problems, RowCosts
from llsvm.settings.objective import DIRECT, ONE_CLASS, SOFTMAX
from llsvm.settings.settings import Settings
from llsvm.solvers.base import Report
from llsvm.stream.stream import Stream
from llsvm.training.class_weights import class_weights

PRUNING = "measuring pruned weights"
_ROW_WORK_BYTES = 16  # costs, and what is made of them


def pass_bytes(settings: Settings, dataset: DatasetInfo) -> dict[str, int]:
    """Return bytes by name of what the pass takes beyond what every solver has taken before it."""
    if settings.prune is None:
        return {}
    return {PRUNING: work_bytes(dataset.n_columns + 1, max(2, dataset.n_classes))}


def reserve_pass(stream: Stream, settings: Settings) -> None:
    """Reserve ``pass_bytes`` before a solver is given the rest, so that the pass cannot run out of memory. Raises
    BudgetError."""
    for name, nbytes in pass_bytes(settings, stream.dataset).items():
        stream.budget.reserve(name, nbytes)


def prune(stream: Stream, settings: Settings, report: Report) -> Report:
    """Return the report of the pruned weights. Nothing may refer to the solver.

    stream: that a solver has ended with. settings: of the training, resolved, with a threshold. report: the last
    one with a certificate, whose weights (k, d + 1) stay as they are: until this returns, they are the result."""
    assert settings.prune is not None
    assert report.coef is not None
    assert report.certificate is not None
    before, threshold = report.certificate, settings.prune
    stream.reset()
    stream.prepare(Needs({"weights": 2 * report.coef.nbytes}, _ROW_WORK_BYTES))
    coef = np.array(report.coef)
    n_weights, dropped = _drop(coef, threshold)
    certificate = _certificate(stream, settings, coef, before)
    primal = certificate.total_primal
    cost = primal - before.total_primal
    figures: dict[str, Any] = {
        "threshold": threshold,
        "weights": n_weights,
        "dropped": dropped,
        "primal_before": before.total_primal,
        "primal": primal,
        "relative_cost": cost / abs(before.total_primal) if before.total_primal else 0.0,
        "relative_gap_before": before.relative_gap,
    }
    return replace(
        report,
        kind="pass",
        passes=certificate.passes,
        coef=coef,
        certificate=certificate,
        survivors=0,
        note=pruned_in_words(figures),
        resumable=False,
        pruned=figures,
    )


def pruned_in_words(figures: dict[str, Any]) -> str:
    """Return a sentence that says what pruning has done. figures: ``Report.pruned``."""
    f = figures
    words = (
        f"pruned: {f['dropped']:,} of {f['weights']:,} weights were below {f['threshold']:g}; objective "
        f"{f['primal_before']:.8g} before, {f['primal']:.8g} after ({f['relative_cost']:+.3%})"
    )
    return "; ".join(filter(None, [words, all_gone(f)]))


def all_gone(figures: dict[str, Any] | None) -> str:
    """Return a warning if pruning has set every weight to zero, else "". figures: as above; None: no pruning."""
    if figures is None or not figures["weights"] == figures["dropped"] > 0:
        return ""
    return f"every weight was below --prune {figures['threshold']:g} and is gone: pass a smaller --prune"


def _drop(coef: NDArray[np.float64], threshold: float) -> tuple[int, int]:
    """Set small weights to zero, in place; return the number of nonzero weights, and of those set to zero."""
    n_weights = dropped = 0
    for w in coef:
        size = np.abs(w[:-1])
        nonzero = int(np.count_nonzero(size))
        w[:-1][size < threshold] = 0.0
        n_weights, dropped = n_weights + nonzero, dropped + nonzero - int(np.count_nonzero(w[:-1]))
    return n_weights, dropped


def _certificate(
    stream: Stream, settings: Settings, coef: NDArray[np.float64], before: Certificate
) -> Certificate:
    dataset, bias = stream.dataset, settings.constant
    penalty = Penalty.of(settings, dataset.weight_sum)
    weights = class_weights(settings.class_weight, dataset)
    costs = RowCosts.of_classes(penalty.C, weights, one_vs_rest=settings.multiclass == "ovr")
    joint = settings.multiclass in (*DIRECT, SOFTMAX)
    total = settings.nu * dataset.weight_sum if settings.loss == ONE_CLASS else 0.0
    pairs = settings.multiclass == "ovo"
    objective: JointObjective | SeparateObjectives
    if joint:
        loss: Any = joint_loss(settings.multiclass, len(dataset.classes))
        objective = JointObjective(settings.multiclass, costs, penalty, bias)
    else:
        loss = loss_of(settings)
        problems = Problems(dataset.n_classes, pairs)
        objective = SeparateObjectives(loss, costs, penalty, problems, bias, total)
    for block in stream.all():
        objective.add(block, coef)
    bound = stream.rounding_bound(loss, costs.largest, bias, pairs, penalty.l1, penalty.l2, penalty.intercept)
    if total:
        bound = replace(bound, total=total, negligible=negligible(total, dataset.squared_norm))
    certificate = bound.certificate(coef, objective.primal(coef), before.dual, before.passes + 1)
    # what rounding may hide has been subtracted from the dual already
    return replace(certificate, dual=before.dual)
