"""The method of multipliers with semismooth Newton steps and an L1 norm, over rows at hand (Yan & Li 2020; Li,
Sun & Toh 2018): where SmSVM's smoothing crawls, since classes are nearly separable, C is large or columns are raw.

Primal:  P(w) = Σ_i C_i φ(m_i, t_i) + (l2/2) ‖w‖² + l1 ‖w‖₁ over these rows, the dual variables of all others fixed:
their part is linear (``Rest``). Proximal points (Rockafellar 1976) of its dual, from α^k on, are found in the
primal: with σ > 0,

    α_i(w) = argmax over a of  a (t_i − m_i(w)) − epsilon |a| − ½ ridge a²/C_i − (a − α_i^k)²/(2σ)
    ψ(w) = (l2/2) ‖w‖² + l1 ‖w‖₁ + Σ of these maxima

ψ is piecewise quadratic but for its L1 norm, as SmSVM's model is, whose minimiser (newton.py) is the step, with a
line search. Once that has led to the proximal point, α^k = α(w), and σ grows. The smoothing has α = C ψ'_a(1 − m),
so that with a large C the last digits of a margin decide; here α is a variable of its own, and σ moderate: the dual
is known to as many digits as the primal. Margins are kept, and moved by what each step adds to them, never summed
anew: what rounding they have is then the same in every step.

With many columns rows are at hand by column too (columns.py), and steps are on working sets of columns: weights
that are not zero, and the worst of the others. Where neither that copy nor a Hessian over the set has room, a step
copies its columns of the rows that bend, or makes do with products (columns.py). The logistic loss, and smooth
losses without bounds on α, need no proximal points by column: with σ = ∞ the steps are Newton's on the primal
(newGLMNET: Yuan, Ho & Lin 2012).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.kernels.proximal import DUAL, GAP, MOVED, N_TOTALS, SLOPE, logistic_point, proximal
from llsvm.objective.losses import Loss, PLQLoss
from llsvm.objective.penalty import Penalty
from llsvm.solvers.optim.augmented_lagrangian import KAPPA, MOST_STANDING, MOST_STEPS, growth_after
from llsvm.solvers.optim.line_search import step_length
from llsvm.solvers.smsvm.at_hand import AtHand, Rest
from llsvm.solvers.smsvm.columns import active_columns
from llsvm.solvers.smsvm.newton import minimise
from llsvm.solvers.smsvm.tuning import SmSVMTuning
from llsvm.stream.progress import OutOfTime

Vector = NDArray[np.float64]

ROW_BYTES = 96  # that it takes for each row, of one problem at a time
LOGISTIC_BYTES = 8  # ... and beyond, with the logistic loss


class Multipliers:
    """Solves the problem of rows at hand; see the file's head.

    w: (d + 1,) weights, zeros among them exact; primal: theirs; dual: the largest that was met, of all rows."""

    def __init__(
        self, rows: AtHand, rest: Rest, loss: Loss, penalty: Penalty, w: Vector, tuning: SmSVMTuning
    ) -> None:
        """w: (d + 1,) weights to begin with, which are copied."""
        self._rows, self._rest, self._loss, self._penalty = rows, rest, loss, penalty
        self._tuning = tuning
        n = len(rows.sign)
        self._alpha, self._curvature, self._totals = np.empty(n), np.empty(n), np.zeros(N_TOTALS)
        self._least_curvature = tuning.proximal
        self._direct = loss.bends_everywhere and rows.columns is not None  # σ = ∞
        self.w = w.copy()
        self.primal, self.dual = np.inf, -np.inf

    def solve(self, unit: float, gap: float) -> Iterator[None]:
        """A step each, to P − D ≤ gap · P, or where nothing is left to gain, or time is over.
        unit: what margins are measured in."""
        rows, rest, penalty, loss, w = self._rows, self._rest, self._penalty, self._loss, self.w
        l1, l2 = penalty.l1_of(len(w)), penalty.l2_of(len(w))
        residual = rows.target - rows.margins(w)
        before = np.zeros(len(residual))
        inverse, in_point, standing = 0.0, 0, 0
        squares = rows.squares()
        if self._direct:
            squares *= loss.smoothness * float(rows.cost.max(initial=0.0))
        for _ in range(MOST_STEPS):
            if inverse == 0.0 and not self._direct:
                inverse = self._first_inverse(residual, unit)
            self._point(residual, residual, 0.0, before, inverse)
            v = rows.weights(self._alpha) + rest.v
            self._measure(residual, w, v)
            if self.primal - self.dual <= gap * abs(self.primal):
                return
            g = l2 * w - v
            violation = np.where(w != 0, np.abs(g + l1 * np.sign(w)), np.maximum(np.abs(g) - l1, 0.0))
            if in_point and not self._direct and self._is_solved(violation, residual, before, inverse, gap):
                before = self._alpha.copy()
                inverse /= growth_after(in_point)
                in_point = 0
                continue
            yield
            try:
                p = self._newton(g, w, squares if self._direct else squares / inverse)
            except OutOfTime:
                return
            change = rows.change(p)
            t = self._line_search(residual, change, before, inverse, w, p)
            in_point += 1
            self._trust(t)
            if t == 0.0:  # rounding is all that is left of the step
                standing += 1
                if standing > MOST_STANDING:
                    return
                before = self._alpha.copy()
                inverse /= growth_after(in_point)
                in_point = 0
                continue
            w += t * p
            if t == 1.0:
                w[self._zeros] = 0.0
            residual -= t * change

    def _first_inverse(self, residual: Vector, unit: float) -> float:
        """1/σ, so that α moves by a tenth of what it comes to if all rows share the objective: D ≤ Σ α_i t_i."""
        losses = float(np.sum(self._rows.cost * self._loss.value(-residual, 0.0)))
        primal = losses + self._penalty.value(self.w) + self._rest.loss
        return max(len(residual) * unit * unit / max(0.1 * primal, 1e-300), 1e-300)

    def _trust(self, t: float) -> None:
        """After a step of which the line search took so much. Where few rows are inside their bounds the Hessian is
        singular without L2, and its least curvature all that keeps steps short."""
        tuning = self._tuning
        if t < 1.0:
            self._least_curvature = min(self._least_curvature * tuning.safeguard, 1.0)
        else:
            self._least_curvature = max(self._least_curvature / tuning.safeguard, tuning.proximal)

    def _is_solved(
        self, violation: Vector, residual: Vector, before: Vector, inverse: float, gap: float
    ) -> bool:
        """Is the proximal point near enough (criterion B of Rockafellar 1976)? With L2 the gradient tells; without,
        the gap of ψ, unless the conditions hold well enough for the whole problem's."""
        l1, l2 = self._penalty.l1, self._penalty.l2
        near_enough = KAPPA * self._totals[MOVED] * inverse
        if self._penalty.intercept:
            if violation[-1] > 0.1 * gap * float(np.abs(self._alpha).sum()):
                return False
            violation = violation[:-1]
        if l2 == 0:
            largest = float(violation.max(initial=0.0))
            if largest <= 0.2 * gap * l1:
                return True
            return 2 * self._point_gap(largest, residual, before, inverse) <= near_enough
        return float(violation @ violation) / l2 <= near_enough

    def _point_gap(self, largest: float, residual: Vector, before: Vector, inverse: float) -> float:
        """Of ψ, without L2: between its value and that of its dual at s α, s so small that s |v_j| ≤ l1.
        largest: by how much |v_j| is above l1."""
        alpha, totals, l1 = self._alpha, self._totals, self._penalty.l1
        s = l1 / (l1 + largest)
        move = s * alpha - before
        value = float(alpha @ residual) + self._penalty.value(self.w) + float(totals[DUAL])
        dual = s * (float(alpha @ self._rows.target) + float(totals[DUAL]))  # at least, as s² ≤ s
        return value - dual + 0.5 * inverse * (float(move @ move) - float(totals[MOVED]))

    def _measure(self, residual: Vector, w: Vector, v: Vector) -> None:
        """Primal and dual at w."""
        rows, rest, penalty, alpha = self._rows, self._rest, self._penalty, self._alpha
        losses = self._totals[GAP] + float(alpha @ residual) + self._totals[DUAL]
        self.primal = float(losses + penalty.value(w) + rest.loss - rest.v @ (w - rest.at))
        if penalty.intercept:
            balanced = self._balanced()
            if balanced is None:
                return
            alpha = balanced
            v = rows.weights(alpha) + rest.v
            v[-1] = 0.0
        total, squares = self._worth(alpha)
        total += rest.total
        loss = self._loss
        longest = 1.0 if math.isfinite(loss.upper) else math.inf
        self.dual = max(self.dual, penalty.dual(total, v, squares, longest))

    def _worth(self, alpha: Vector) -> tuple[float, float]:
        """Σ C_i b(α_i/C_i) but for its squares, and these."""
        rows, loss = self._rows, self._loss
        if not isinstance(loss, PLQLoss):
            return float(rows.cost @ loss.dual_value(alpha / rows.cost, rows.target)), 0.0
        squares = 0.5 * loss.ridge * float(np.sum(alpha * alpha / rows.cost)) if loss.ridge else 0.0
        total = float(alpha @ rows.target)
        if loss.epsilon:
            total -= loss.epsilon * float(np.abs(alpha).sum())
        return total, squares

    def _balanced(self) -> Vector | None:
        """(n,) α with Σ α_i y_i = 0: those of the side that has too much are made smaller.
        None where that is not enough."""
        signed = self._alpha * self._rows.sign
        plus = float(signed[signed > 0].sum())
        minus = float(signed[signed < 0].sum())
        rest = float(self._rest.v[-1])
        over = plus + minus + rest
        side, other = (plus, minus + rest) if over > 0 else (minus, plus + rest)
        if over == 0.0:
            return self._alpha
        if abs(over) > abs(side):
            return None
        # not 1 − over / side, of which nothing is left where one side is much larger
        return np.where(signed * over > 0, self._alpha * (-other / side), self._alpha)

    def _newton(self, g: Vector, w: Vector, largest: Vector) -> Vector:
        """The step to the minimiser of the model where ψ's gradient without L1 is g. largest: (d + 1,) the
        Hessian's diagonal, were all rows inside their bounds."""
        tuning, n, columns = self._tuning, len(w), self._rows.columns
        l1, l2 = self._penalty.l1_of(n), self._penalty.l2_of(n)
        if columns is None and n <= min(tuning.few_columns, tuning.max_active):
            active = np.arange(n)
        else:
            most = tuning.new_columns + tuning.columns_growth * int(np.count_nonzero(w))
            active = active_columns(w, g, min(n, most), self._penalty)
        ridge, l1 = l2[active], l1[active]
        least = self._least_curvature * np.where(largest[active] > 0, largest[active], 1.0)
        ridge += np.where(ridge == 0, least, 0.0)
        now = w[active]
        if columns is not None or len(active) > tuning.max_active:
            given = self._curvature, active, ridge
            by_columns = self._rows.model_by_columns(*given, self._direct)
            few = by_columns or self._rows.model_by_products(*given)
            new = few.minimise(g[active], now, l1, tuning.until)
        else:
            model = self._rows.model(self._curvature, active, ridge)
            roughly = len(active) > tuning.few_columns
            new, _ = minimise(model, g[active], now, l1, roughly, tuning, self._rows.progress)
        p = np.zeros(n)
        p[active] = new - now
        self._zeros = active[(new == 0) & (l1 > 0)]
        return p

    def _point(self, residual: Vector, change: Vector, step: float, before: Vector, inverse: float) -> None:
        """Set α, curvatures and totals to those at w + step p."""
        loss, cost, into = self._loss, self._rows.cost, (self._alpha, self._curvature, self._totals)
        if isinstance(loss, PLQLoss):
            numbers = (float(loss.lower), float(loss.upper), loss.ridge, float(loss.epsilon))
            proximal(residual, change, step, before, cost, inverse, *numbers, *into)
            return
        logistic_point(residual - self._rows.target, change, step, cost, *into)
        self._totals[DUAL] -= self._alpha @ self._rows.target

    def _line_search(
        self, residual: Vector, change: Vector, before: Vector, inverse: float, w: Vector, p: Vector
    ) -> float:
        """The step along p, as ψ' tells."""
        l1, l2 = self._penalty.l1_of(len(w)), self._penalty.l2_of(len(w))
        at_w, square, rest = float((l2 * w) @ p), float((l2 * p) @ p), float(self._rest.v @ p)
        zeros = np.zeros(len(w), bool)
        zeros[self._zeros] = True
        if self._rows.columns is not None:  # few weights move
            some = np.flatnonzero(p)
            w, p, l1, zeros = w[some], p[some], l1[some], zeros[some]

        def derivative(t: float) -> float:
            self._point(residual, change, t, before, inverse)
            there = w + t * p
            if t == 1.0:
                there[zeros] = 0.0
            kinks = np.where(there == 0, np.abs(p) if t == 0 else -np.abs(p), np.sign(there) * p)
            return at_w + t * square + float(l1 @ kinks) - float(self._totals[SLOPE]) - rest

        return step_length(derivative, derivative(0.0))
