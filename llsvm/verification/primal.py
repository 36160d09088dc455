"""The primal objective of a model's weights, over all rows, and what the data show of themselves on the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.models.model import Model
from llsvm.settings.objective import ONE_CLASS
from llsvm.settings.settings import Settings
from llsvm.verification.at_weights import dual_at_weights
from llsvm.verification.dual import FoundDual, KeptDual, dual_sums
from llsvm.verification.machines import LinearMachine, machine_of
from llsvm.verification.problems import Problems
from llsvm.verification.products import pieces
from llsvm.verification.reading import Rows

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measured:
    """problems: names. primal: (p,) of each. size: (p,) of the terms that it is the sum of. rounding: (p,) by how
    much the rounding of scores and kernels may have changed the primal. dual: of dual variables
    that were kept, with their sums made; None where there are none."""

    problems: list[str]
    primal: Array
    size: Array
    rounding: Array
    dual: FoundDual | None = None


def measured(
    model: Model,
    settings: Settings,
    rows: Rows,
    mapped_dtype: type[np.floating] = np.float32,
    kept: KeptDual | None = None,
) -> Measured:
    """Measure in one pass over the ``rows``, which have been read, and are of the classes and columns of the model.
    mapped_dtype: see ``machine_of``. kept: a dual point of these rows, or None."""
    dataset = rows.dataset
    problems = Problems.of(settings, dataset)
    machine = machine_of(model, settings, dataset, rows.scaling, mapped_dtype)
    width = max(machine.width, problems.width)
    dual: FoundDual | None = None
    if kept is not None and kept.has_rows:
        dual = dual_sums(settings, problems, machine, kept, dataset.n_rows)
    elif kept is not None and kept.smoothing is not None and isinstance(machine, LinearMachine):
        dual = dual_at_weights(settings, problems, machine, kept.smoothing)
    losses, rounding, weight = np.zeros(problems.count), np.zeros(problems.count), 0.0
    for block in rows.all():
        for piece in pieces(block, width):
            if piece.weight is not None and not piece.weight.all():
                # rows of weight 0 may have any values, products of which may be no numbers
                piece = piece.take(piece.weight > 0)
                if not piece.n_rows:
                    continue
            scored = machine.scores(piece)
            own_losses, largest = problems.losses(piece, scored.values, scored.lost)
            losses += own_losses
            rounding += largest - own_losses
            if dual is not None:
                dual.add(piece, scored)
            weight += float(problems.cost(piece).sum())
    if dual is not None:
        dual.finish(rows)
    norms = machine.norms()
    if problems.are_joint:
        norms = tuple(each.sum(keepdims=True) for each in norms)
    penalties, lost = problems.penalty(*norms[:2]), problems.penalty(*norms[2:])
    rounding += lost
    # −ν n ρ, n the sum of the weights of rows; −ρ is the constant of rows as they were trained on
    threshold = np.zeros(problems.count)
    if settings.loss == ONE_CLASS:
        assert isinstance(machine, LinearMachine), "kernel machines have no such loss"
        threshold += settings.nu * weight * machine.constant
        rounding += settings.nu * weight * machine.lost
    primal = penalties + losses + threshold
    names = ["all classes"] if problems.are_joint else model.problem_names
    return Measured(names, primal, penalties + losses + np.abs(threshold), rounding, dual)
