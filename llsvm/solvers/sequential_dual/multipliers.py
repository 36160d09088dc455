"""The augmented Lagrangian method (optim/augmented_lagrangian.py) on the dual of the direct multi-class problems.

With the dual variables p of the rows at hand (duals.py), the weights W₀ that other rows add, σ > 0 and p^j as they
are, Yan & Li's (2020) proximal points of binary SVMs become

    p(W) = argmax over S of ⟨p, ∂D/∂p⟩ − ‖p − p^j‖² / 2σ at the scores X W,
    ∇ψ(W) = W − W₀ − Xᵀ v(p(W)),      ∇²ψ(W) = I + σ Σ_i P_i ⊗ x_i x_iᵀ           (newton_system.py)

and the rows' part of the gap is Σ_i (C_i loss_i(W) − ⟨e_i, p_i⟩ + ⟨v_i, X_i W⟩).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.optim.augmented_lagrangian import AugmentedLagrangian
from llsvm.solvers.row_products import piece_bytes
from llsvm.solvers.sequential_dual.proximal_point import JointRows
from llsvm.solvers.state import Value
from llsvm.stream.progress import Progress

Array = NDArray[np.float64]
WEIGHTS = 16  # arrays as large as the weights that a step needs, and one for each thread
PIECES = 6  # pieces of rows, for each thread
MAX_STEPS = 25  # of Newton's method, between two measurements
LESS = 0.1  # the gap at which Newton's method ends falls to this share where the last one was not enough
_WEIGHTS = "newton weights"


def row_bytes(n_classes: int) -> int:
    """Return what a row at hand takes here: scores, their change, the face."""
    return 17 * n_classes + 16


def line_bytes(shape: tuple[int, int], threads: int, matrix_numbers: int) -> int:
    """Return what the rest takes; shape: of the weights."""
    weights, pieces = (WEIGHTS + threads) * shape[0] * shape[1], PIECES * threads
    return 8 * (weights + matrix_numbers) + pieces * piece_bytes(shape[0])


@dataclass(frozen=True, slots=True)
class NewtonRoom:
    """Memory for Newton's method.

    columns: of the rows that are solved for, the constant feature included, at most. matrix_numbers: so many
    float64 have room for the matrices of a step. of_all_rows: all rows have room, not only some of them. values: of
    these, that may be copied."""

    columns: int
    matrix_numbers: int
    of_all_rows: bool
    values: int = 0


class JointMultipliers:
    """Newton's method over all rows.

    room: that there is. W: (d + 1, k) the weights as they are; None before the first ``solve``. sigma: σ; 0 before
    it. gained: D did, by the last ``solve``."""

    def __init__(self, room: NewtonRoom) -> None:
        self.room = room
        self.W: Array | None = None
        self.sigma = 0.0
        self.gained = True
        self._share = 1.0  # of the gap that is asked for

    def solve(self, rows: JointRows, w: Array, tol: float, progress: Progress) -> float:
        """Proximal points until the gap is at most ``tol`` · D, or this took ``MAX_STEPS`` steps. Changes the
        shares of the rows, and the weights w that belong to them, if D is larger then; returns the D of these.

        Where passes go on at a gap that was small enough, the next is to be smaller: costs may be larger than
        these (needed_costs.py), and rounding counts against certificates."""
        self.sigma = self.sigma or rows.first_sigma
        self.W = w.copy() if self.W is None else self.W
        rows.set_weights(self.W)
        enough = self._share * tol
        newton = AugmentedLagrangian(rows, self.W, self.sigma, progress)
        if newton.solve(lambda gap, dual, _: gap <= enough * dual, MAX_STEPS):
            self._share *= LESS
        self.sigma, self.gained = newton.sigma, rows.finish(w) > 0.0
        return rows.D

    def goes_on(self) -> bool:
        """Return False once after a ``solve`` without gain: loops come first."""
        gained, self.gained = self.gained, True
        return gained

    # -- what a SolverState holds of it -----------------------------------------------------------------

    @property
    def arrays(self) -> dict[str, Array]:
        return {} if self.W is None else {_WEIGHTS: self.W}

    @property
    def numbers(self) -> dict[str, Value]:
        return {"sigma": self.sigma, "newton share": self._share, "gained": self.gained}

    def restore(self, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
        """Go on from what these were; begin where there was no room for Newton's method."""
        if "sigma" not in numbers:
            return
        self.W = np.array(arrays[_WEIGHTS]) if _WEIGHTS in arrays else None
        self.sigma, self._share, self.gained = numbers["sigma"], numbers["newton share"], numbers["gained"]
