"""The method of multipliers with a semismooth Newton method inside, on the dual of rows at hand.

Proximal points on the dual (Rockafellar 1976), each found by Newton's method as Yan & Li (2020) do for binary
SVMs: with the dual variables p of the rows at hand (duals.py), the weights W₀ that other rows add, σ > 0 and
p^j as they are,

    p(W) = argmax over S of ⟨p, ∂D/∂p⟩ − ‖p − p^j‖² / 2σ at the scores X W,
    ψ(W) = ½‖W‖² − ⟨W, W₀⟩ + its value,         ∇ψ(W) = W − W₀ − Xᵀ v(p(W)),
    ∇²ψ(W) = I + σ Σ_i P_i ⊗ x_i x_iᵀ           (newton_system.py)

Newton's steps, with a line search on ψ, until ‖∇ψ‖² ≤ 0.1 ‖p(W) − p^j‖² / σ; then p^{j+1} = p(W), and σ grows.
Since p(W) is feasible, the gap of the rows is known at each step:

    Σ_i (C_i loss_i(W) − ⟨e_i, p_i⟩ + ⟨v_i, X_i W⟩) + ½‖∇ψ(W)‖²

Loops find most of the face in a few visits of each row, and may then need thousands to move along it, the more the
longer C_i ‖x_i‖² is; Newton's method needs some dozens of steps, whatever that is. So it comes last.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.process.threads import Threads
from llsvm.process.trace import trace
from llsvm.solvers.optim.blas import one_blas_thread
from llsvm.solvers.optim.line_search import step_length
from llsvm.solvers.row_products import piece_bytes
from llsvm.solvers.sequential_dual.duals import JointDual
from llsvm.solvers.sequential_dual.proximal_point import JointRows, Point, RowsAtHand
from llsvm.solvers.sequential_dual.shares import BlockShares, squared_norm
from llsvm.solvers.state import Value
from llsvm.stream.progress import OutOfTime, Progress

Array = NDArray[np.float64]
WEIGHTS = 16  # arrays as large as the weights that a step needs, and one for each thread
PIECES = 6  # pieces of rows, for each thread
GROWTH, FAST_GROWTH = 3.0, 10.0  # of σ, at a time; the latter where one step has led to a proximal point
MAX_GROWTH = 1e14  # in all
INNER = 0.1  # a proximal point is found to this share
MAX_INNER = 50
MAX_FAILURES, SHRINKS = 2, 27.0  # of steps that gain nothing; σ by so much then
MAX_FALLS = 6  # of the gap to end at, to a tenth
STANDS = 1e-15  # a step that changes no weight by more than this share of the largest is none
_WEIGHTS = "newton weights"


def row_bytes(n_classes: int) -> int:
    """That a row at hand takes here: scores, their change, the face."""
    return 17 * n_classes + 16


def line_bytes(shape: tuple[int, int], threads: int, matrix_numbers: int) -> int:
    """That the rest takes; shape: of the weights."""
    return 8 * ((WEIGHTS + threads) * shape[0] * shape[1] + matrix_numbers) + PIECES * threads * piece_bytes(
        shape[0]
    )


class Multipliers:
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
        before, last, failures, W_base = self.steps, self.steps + max_steps, 0, W.copy()
        until = enough, floor
        if self.W is not None:  # which did not do: costs may be larger than these (needed_costs.py)
            until = self._less_than(until, at_hand.point(0.0), W, at_hand.W0)
        inner, point = 0, at_hand.point(self.sigma)
        while not progress.out_of_time:
            if self._is_enough(point, W, at_hand.W0, until):
                at_hand.move_base(self.sigma)
                break
            g = W - at_hand.W0 - point.sum
            if inner and (squared_norm(g) <= INNER * point.moved / self.sigma or inner >= MAX_INNER):
                at_hand.move_base(self.sigma)
                if self.steps >= last:
                    break
                growth = GROWTH if inner > 1 else FAST_GROWTH
                self.sigma = min(growth * self.sigma, MAX_GROWTH * at_hand.first_sigma)
                W_base[...] = W
                inner, point = 0, at_hand.point(self.sigma)
                continue
            try:
                step = at_hand.newton_step(-g, self.sigma)
                self.steps += 1
                found = self._search(at_hand, W, g, step, point, progress)
            except OutOfTime:
                break
            if found is not None:
                inner, point = inner + 1, found
                continue
            failures += 1  # rounding has spoilt the step: back, for a shorter one
            W[...] = W_base
            if failures > MAX_FAILURES:
                break
            at_hand.set_weights(W)
            self.sigma /= SHRINKS
            inner, point = 0, at_hand.point(self.sigma)
        self.W, gain = W, at_hand.finish(w)
        self.gained = gain > 0.0
        trace("newton.joint", steps=self.steps - before, most_steps=max_steps, gain=gain, sigma=self.sigma)
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

    def _less_than(
        self, enough: tuple[float, float], point: Point, W: Array, W0: Array
    ) -> tuple[float, float]:
        """Of these gaps the largest tenth, tenth of a tenth, ... that the weights do not have yet. point: the dual
        variables as they are."""
        falls = 0
        while falls < MAX_FALLS and self._is_enough(point, W, W0, enough):
            falls, enough = falls + 1, (0.1 * enough[0], 0.1 * enough[1])
        return enough

    def _is_enough(self, point: Point, W: Array, W0: Array, enough: tuple[float, float]) -> bool:
        total = W0 + point.sum
        gap = point.loss - point.linear + point.coupling + 0.5 * squared_norm(W - total)
        return gap <= max(enough[0] * (point.linear - 0.5 * squared_norm(total)), enough[1])

    def _search(
        self, at_hand: JointRows, W: Array, g: Array, step: Array, point: Point, progress: Progress
    ) -> Point | None:
        """Move W along the step as far as ψ' tells and return the point there; None where rounding is all that is
        left of the step. Raises OutOfTime, with W as it was."""
        at_hand.set_change(step)
        along = float(np.einsum("ij,ij", step, W)) - float(np.einsum("ij,ij", step, at_hand.W0))
        first, square = float(np.einsum("ij,ij", g, step)), squared_norm(step)
        tried = point

        def derivative(length: float) -> float:
            nonlocal tried
            progress.check()
            tried = at_hand.point(self.sigma, length)
            return along + length * square - tried.slope

        length = step_length(derivative, first)
        if not length * float(np.abs(step).max()) > STANDS * float(np.abs(W).max()):
            at_hand.take(0.0)
            return None
        W += length * step
        at_hand.take(length)
        return tried
