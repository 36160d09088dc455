"""The paper's Lipschitz constants, of the gradient of the losses for μ = 1, which ``--step paper`` goes by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llsvm.block import parts_of
from llsvm.process.work import count_products
from llsvm.solvers.nesvm import kernels as kernel
from llsvm.solvers.nesvm.gradient_pass import GradientPass

POWER_PASSES = 20
_SAFETY = 1.05  # of the largest eigenvalue, which power iteration finds from below


def steepest(gradient: GradientPass, width: int) -> float:
    """max c_i ‖x_i‖²/‖x_i‖∞, c_i the largest of any problem (eqs. 48 and 52, of one row). A pass.

    gradient: over the rows.
    width: of weights.
    """
    gradient = gradient.of_any_problem()
    largest, zero = np.zeros(1), np.zeros(width)
    for block in gradient.stream.all():
        count_products(block.n_rows, block.nnz, block.is_dense)
        kernel.steepest(*parts_of(block.X), gradient.costs.of(block), zero, gradient.bias, largest)
    return gradient.stream.largest(float(largest[0]))


def largest_eigenvalue(gradient: GradientPass, width: int, seed: int) -> float:
    """λ_max of Σ 2 c x xᵀ (eq. 56, corrected), by power iteration: each step is a pass of least squares, which is
    2 c (1 − q·x) x at q and at 0. ``POWER_PASSES`` and one more passes.

    gradient: over the rows.
    width: of weights.
    seed: of what the iteration begins with.
    """
    ones = np.ones((1, gradient.signs.shape[1]))
    squares = replace(gradient.of_any_problem(), signs=ones, split=False, loss=kernel.LEAST_SQUARES)
    zero, mu = np.zeros((1, width)), np.ones(1)
    start = squares.run(zero, zero, mu)[1][0, 0]
    q, value = np.random.default_rng(seed).standard_normal(width), 0.0
    for _ in range(POWER_PASSES):
        q /= np.linalg.norm(q)
        q = start - squares.run(q[None], zero, mu)[1][0, 0]
        value = float(np.linalg.norm(q))
    return _SAFETY * value
