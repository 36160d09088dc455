"""The kernels of losses that no four numbers describe (PLQLoss in llsvm/objective/losses.py): the logistic loss.

A new loss of this kind gets a line in ``kernels_of``; all of solver llsvm takes it then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from llsvm.objective.losses import LogisticLoss, Loss


class Kernels(NamedTuple):
    """sweep: coordinate descent over rows, as ``sweep_logistic`` (logistic_kernels.py). point: α and the curvature
    of rows at given weights, for Newton's method, as ``logistic_point`` (llsvm/kernels/proximal.py)."""

    sweep: Callable[..., int]
    point: Callable[..., None]


def kernels_of(loss: Loss) -> Kernels:
    """Return the kernels of a loss that is no PLQLoss; TypeError where there are none."""
    if isinstance(loss, LogisticLoss):
        from llsvm.kernels.proximal import logistic_point
        from llsvm.solvers.llsvm.logistic_kernels import sweep_logistic

        return Kernels(sweep_logistic, logistic_point)
    raise TypeError(f"there is no kernel for loss {loss.name}: see the guide internals, To add a loss")
