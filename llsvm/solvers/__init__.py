"""Solvers: a folder per method. A new one is a folder here, a line in SOLVERS, and one in settings/methods.py."""

from __future__ import annotations

from importlib import import_module
from typing import cast

import numpy as np
from numpy.typing import NDArray

from llsvm.settings.settings import Settings
from llsvm.solvers.base import Solver

# key of llsvm.settings.methods.METHODS -> "module:class"; a class takes (settings, class_weight, threads)
SOLVERS = {
    "llsvm": "llsvm.solvers.llsvm.solver:LLSVM",
    "sequential-dual": "llsvm.solvers.sequential_dual.solver:SequentialDual",
    "softmax": "llsvm.solvers.softmax.solver:Softmax",
    "smsvm": "llsvm.solvers.smsvm.solver:SmSVM",
    "smo": "llsvm.solvers.smo.solver:SMO",
    "nesvm": "llsvm.solvers.nesvm.solver:NESVM",
    "kernel": "llsvm.solvers.nesvm.kernel_solver:KernelNESVM",
}


def make_solver(settings: Settings, class_weight: NDArray[np.float64], threads: int) -> Solver:
    """The solver that the settings ask for. class_weight: (n_classes,) factors of C."""
    module, name = SOLVERS[settings.method.name].split(":")
    return cast(Solver, getattr(import_module(module), name)(settings, class_weight, threads))
