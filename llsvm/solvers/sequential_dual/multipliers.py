"""The augmented Lagrangian method (optim/augmented_lagrangian.py) on the dual of the direct multi-class problems.

With the dual variables p of the rows at hand (duals.py), the weights W₀ that other rows add, σ > 0 and p^j as they
are, Yan & Li's (2020) proximal points of binary SVMs become

    p(W) = argmax over S of ⟨p, ∂D/∂p⟩ − ‖p − p^j‖² / 2σ at the scores X W,
    ∇ψ(W) = W − W₀ − Xᵀ v(p(W)),      ∇²ψ(W) = I + σ Σ_i P_i ⊗ x_i x_iᵀ           (newton_system.py)

and the rows' part of the gap is Σ_i (C_i loss_i(W) − ⟨e_i, p_i⟩ + ⟨v_i, X_i W⟩).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.process.threads import Threads
from llsvm.solvers.optim.augmented_lagrangian import AugmentedLagrangian
from llsvm.solvers.optim.blas import one_blas_thread
from llsvm.solvers.row_products import piece_bytes
from llsvm.solvers.sequential_dual.duals import JointDual
from llsvm.solvers.sequential_dual.proximal_point import JointRows, RowsAtHand
from llsvm.solvers.sequential_dual.shares import BlockShares, squared_norm
from llsvm.solvers.state import Value
from llsvm.stream.progress import Progress

Array = NDArray[np.float64]
WEIGHTS = 16  # arrays as large as the weights that a step needs, and one for each thread
PIECES = 6  # pieces of rows, for each thread
MAX_FALLS = 6  # of the gap to end at, to a tenth
_WEIGHTS = "newton weights"


def row_bytes(n_classes: int) -> int:
    """That a row at hand takes here: scores, their change, the face."""
    return 17 * n_classes + 16


def line_bytes(shape: tuple[int, int], threads: int, matrix_numbers: int) -> int:
    """That the rest takes; shape: of the weights."""
    return 8 * ((WEIGHTS + threads) * shape[0] * shape[1] + matrix_numbers) + PIECES * threads * piece_bytes(
        shape[0]
    )


class JointMultipliers:
    """W: (d + 1, k) the weights as they are; None before the first ``solve``. sigma: σ; 0 before it. steps: of
    Newton's method, so far. gained: D did, by the last ``solve``. tail: what rows are given, see JointRows."""

    def __init__(
        self, dual: JointDual, bias: float, threads: Threads, matrix_numbers: int, grid: float
    ) -> None:
        """matrix_numbers: see newton_system.py. grid: shares are multiples of 1/grid."""
        self.W: Array | None = None
        self.sigma = 0.0
        self.steps = 0
        self.gained = True
        self.matrix_numbers, self.tail = matrix_numbers, (dual, bias, threads, grid)

    def solve(
        self,
        part: BlockShares,
        w: Array,
        enough: float,
        max_steps: int,
        progress: Progress,
        floor: float = 0.0,
    ) -> float:
        """Proximal points until the gap is at most ``enough`` · D, or ``floor``, or this took ``max_steps`` steps.
        Changes the shares of the part, and the weights w that belong to all shares, if D is larger then; returns
        what it gains."""
        with one_blas_thread():
            at_hand = RowsAtHand(part, self.matrix_numbers, w, *self.tail, progress)
            return self.solve_rows(at_hand, w, enough, max_steps, progress, floor)

    def solve_rows(
        self,
        at_hand: JointRows,
        w: Array,
        enough: float,
        max_steps: int,
        progress: Progress,
        floor: float = 0.0,
    ) -> float:
        """The same, of rows wherever they are. BLAS is to have one thread."""
        if not self.sigma:
            self.sigma = at_hand.first_sigma
        W = w.copy() if self.W is None else self.W
        at_hand.set_weights(W)
        until = enough, floor
        if self.W is not None:  # which did not do: costs may be larger than these (needed_costs.py)
            until = self._less_than(until, at_hand, W)

        def is_enough(gap: float, dual: float, v: Array) -> bool:
            return gap <= max(until[0] * dual, until[1])

        newton = AugmentedLagrangian(at_hand, W, self.sigma, progress)
        newton.solve(is_enough, max_steps)
        self.sigma, self.steps = newton.sigma, self.steps + newton.steps
        self.W, gain = W, at_hand.finish(w)
        self.gained = gain > 0.0
        return gain

    def goes_on(self) -> bool:
        """False once after a ``solve`` without gain: loops come first."""
        gained, self.gained = self.gained, True
        return gained

    # -- what a SolverState holds of it -----------------------------------------------------------------

    @property
    def arrays(self) -> dict[str, Array]:
        return {} if self.W is None else {_WEIGHTS: self.W}

    @property
    def numbers(self) -> dict[str, Value]:
        return {"sigma": self.sigma, "newton steps": self.steps, "gained": self.gained}

    def restore(self, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> bool:
        """Go on from what these were; False if it was given up."""
        if "sigma" not in numbers:
            return False
        self.W = np.array(arrays[_WEIGHTS]) if _WEIGHTS in arrays else None
        self.sigma, self.steps, self.gained = numbers["sigma"], numbers["newton steps"], numbers["gained"]
        return True

    def _less_than(self, enough: tuple[float, float], at_hand: JointRows, W: Array) -> tuple[float, float]:
        """Of these gaps the largest tenth, tenth of a tenth, ... that the weights do not have yet, beside the dual
        variables as they are."""
        point, v = at_hand.point(0.0), at_hand.weights()
        gap, dual = point.gap + 0.5 * squared_norm(W - v), point.dual - 0.5 * squared_norm(v)
        falls = 0
        while falls < MAX_FALLS and gap <= max(enough[0] * dual, enough[1]):
            falls, enough = falls + 1, (0.1 * enough[0], 0.1 * enough[1])
        return enough
