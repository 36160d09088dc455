"""Solvers: one file per method. A new one is a file here and a line in SOLVERS."""

from __future__ import annotations

from importlib import import_module
from typing import cast

import numpy as np
from numpy.typing import NDArray

from llsvm.settings.settings import DIRECT, Settings
from llsvm.solvers.base import Solver

# name -> "module:class"; a class takes (settings, class_weight, threads)
SOLVERS = {
    "llsvm": "llsvm.solvers.llsvm.solver:LLSVM",
    "sequential-dual": "llsvm.solvers.sequential_dual.solver:SequentialDual",
    "smsvm": "llsvm.solvers.smsvm.solver:SmSVM",
    "nesvm": "llsvm.solvers.nesvm.solver:NESVM",
    "nesvm-kernel": "llsvm.solvers.nesvm.kernel_solver:KernelNESVM",
}


def make_solver(settings: Settings, class_weight: NDArray[np.float64], threads: int) -> Solver:
    """The solver that the settings ask for (direct multi-class has its own). class_weight: (n_classes,) of C."""
    name = settings.solver
    if settings.multiclass in DIRECT:
        name = "sequential-dual"
    elif settings.kernel is not None and settings.feature_map is None:
        name = "nesvm-kernel"
    module, name = SOLVERS[name].split(":")
    return cast(Solver, getattr(import_module(module), name)(settings, class_weight, threads))
