"""Solvers: one file per method. A new one is a file here and a line in SOLVERS."""

from __future__ import annotations

from importlib import import_module
from typing import cast

import numpy as np
from numpy.typing import NDArray

from llsvm.settings import Settings
from llsvm.solvers.base import Solver

# name -> "module:class"; a class takes (settings, class_weight, threads)
SOLVERS = {
    "llsvm": "llsvm.solvers.llsvm:LLSVM",
    "nesvm": "llsvm.solvers.nesvm:NESVM",
    "nesvm-kernel": "llsvm.solvers.nesvm_kernel:KernelNESVM",
}


def make_solver(settings: Settings, class_weight: NDArray[np.float64], threads: int) -> Solver:
    """The solver that ``settings.solver`` names. class_weight: (n_classes,) factors of C."""
    exact_kernel = settings.kernel is not None and settings.feature_map is None
    module, name = SOLVERS["nesvm-kernel" if exact_kernel else settings.solver].split(":")
    return cast(Solver, getattr(import_module(module), name)(settings, class_weight, threads))
