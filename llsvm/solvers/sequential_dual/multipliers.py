"""The augmented Lagrangian method (optim/augmented_lagrangian.py) on the dual of the direct multi-class problems.

With the dual variables p of the rows at hand (duals.py), the weights W₀ that other rows add, σ > 0 and p^j as they
are, Yan & Li's (2020) proximal points of binary SVMs become

    p(W) = argmax over S of ⟨p, ∂D/∂p⟩ − ‖p − p^j‖² / 2σ at the scores X W,
    ∇ψ(W) = W − W₀ − Xᵀ v(p(W)),      ∇²ψ(W) = I + σ Σ_i P_i ⊗ x_i x_iᵀ           (newton_system.py)

and the rows' part of the gap is Σ_i (C_i loss_i(W) − ⟨e_i, p_i⟩ + ⟨v_i, X_i W⟩).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import FLOAT64_BYTES
from llsvm.solvers.optim.augmented_lagrangian import AugmentedLagrangian
from llsvm.solvers.optim.conjugate_gradients import Way
from llsvm.solvers.optim.newton_system import MATRICES, MOST_ORDER, NewtonPrices
from llsvm.solvers.row_products import pieces_bytes, weights_bytes
from llsvm.solvers.sequential_dual.problem import JointProblem
from llsvm.solvers.sequential_dual.proximal_point import ROW_DIMENSIONS, JointRows
from llsvm.solvers.sequential_dual.shares import LISTED_BYTES, BlockShares
from llsvm.solvers.state import Value

Array = NDArray[np.float64]
# Steps of Newton's method between two measurements, at most: with many more, rounding of columns of all scales
# leads it astray before the weights and D are summed anew. It begins when loops have cost as much as so many steps
# would: at the price of 25 steps, not of 45, up to a third of the work is saved at a large C.
STAGE_STEPS = 25
_WEIGHTS = "newton weights"


def row_bytes(n_classes: int) -> int:
    """Return what a row at hand takes here: scores, their change, the face and lists of its dimensions."""
    return (2 * FLOAT64_BYTES + 1) * n_classes + ROW_DIMENSIONS * LISTED_BYTES


def list_bytes(n_rows: int, n_classes: int) -> int:
    """Return what lists of all dimensions of these rows take, with their factors, or of the most that a step lists
    of few rows."""
    return (LISTED_BYTES + FLOAT64_BYTES * n_classes) * min(n_rows * (n_classes - 1), MOST_ORDER)


def line_bytes(shape: tuple[int, int], threads: int, matrix_bytes: int) -> int:
    """Return what the rest takes; shape: of the weights."""
    d, k = shape
    of_pair = FLOAT64_BYTES * d * d  # each thread makes the part of a pair of classes
    pairs = min(threads, k) * of_pair if of_pair * k * k <= matrix_bytes else 0
    return weights_bytes(shape, threads) + pairs + matrix_bytes + pieces_bytes(d, threads)


def newton_prices(is_dense: bool, shape: tuple[int, int], values: float, room_bytes: int) -> NewtonPrices:
    """Return the prices of work on rows with so many values each; shape: (d + 1, k) of the weights. room_bytes: for
    the matrices of a step."""
    return NewtonPrices(is_dense, shape[0] * shape[1], values, room_bytes, shape[0])


@dataclass(frozen=True, slots=True)
class NewtonRoom:
    """Memory for Newton's method.

    matrix_bytes: for the matrices of a step. of_all_rows: all rows have room, not only some of them. values: of
    these, that may be copied."""

    matrix_bytes: int
    of_all_rows: bool
    values: int = 0


class JointMultipliers:
    """Newton's method over all rows.

    room: that there is. W: (d + 1, k) the weights as they are; None before the first ``solve``. sigma: σ; 0 before
    it."""

    def __init__(self, room: NewtonRoom, prices: NewtonPrices, in_memory: bool) -> None:
        """in_memory: all rows are; else a system is solved by its columns."""
        self.room, self._prices, self._in_memory = room, prices, in_memory
        self.W: Array | None = None
        self.sigma = 0.0

    def price(self, n_rows: int, n_active: int, reading: float = 0.0) -> float:
        """Return the seconds of work that it would take; infinite where its matrices have no room. n_active: rows
        on a face, or that may be. reading: of all rows, where they are read for each step."""
        if not self.room.of_all_rows:
            return math.inf
        prices, n_classes = self._prices, self._prices.columns // self._prices.width
        ways = MATRICES if self._in_memory else (Way.COLUMNS,)
        system = min(prices.system(way, n_active) for way in ways)
        return STAGE_STEPS * (reading + prices.products(2 * n_classes * n_rows) + system)

    def solve(
        self,
        problem: JointProblem,
        parts: Callable[[], Iterable[BlockShares]],
        store: Callable[[BlockShares], None],
        w: Array,
        accuracy: float,
    ) -> float:
        """Make proximal points until the gap is at most ``accuracy`` · D, or ``STAGE_STEPS`` steps. Changes the
        shares of the rows, and the weights w that belong to them, if D is larger then; returns the D of these.

        parts, store: see ``JointRows``."""
        self.W = w.copy() if self.W is None else self.W
        rows = JointRows(problem, parts, store, self.W, self._prices if self._in_memory else None)
        newton = AugmentedLagrangian(rows, self.W, self.sigma or rows.first_sigma, problem.progress)
        newton.solve(lambda gap, dual, _: gap <= accuracy * dual, STAGE_STEPS)
        self.sigma = newton.sigma
        return rows.finish(w)

    # -- what a SolverState holds of it -----------------------------------------------------------------

    @property
    def arrays(self) -> dict[str, Array]:
        return {} if self.W is None else {_WEIGHTS: self.W}

    @property
    def numbers(self) -> dict[str, Value]:
        return {"sigma": self.sigma}

    def restore(self, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
        """Go on from what these were; begin where there was no room for Newton's method."""
        if "sigma" not in numbers:
            return
        self.W = np.array(arrays[_WEIGHTS]) if _WEIGHTS in arrays else None
        self.sigma = numbers["sigma"]
