"""Multinomial logistic regression (softmax) by Newton's method, out of core.

Primal:  P(W) = ½ Σ_m ‖w_m‖² + Σ_i C_i (log Σ_m e^{w_m·x_i} − w_{y_i}·x_i), the constant feature ``bias`` part of x.
Dual:    D(p) = Σ_i C_i H(p_i) − ½ ‖Σ_i C_i x_i (1_{y_i} − p_i)ᵀ‖², each p_i in the simplex, H(p) = −Σ_m p_m log p_m
         (Yu, Huang & Lin 2011, eq. 7 and 64, in units of C_i).
One problem, whatever the number of classes. Stop when P − D ≤ tol · P, both over all rows.

A pass measures P at a trial W, with its gradient and its curvatures. The p_i there are feasible: with them, P − D
is ½ ‖∇P‖². If P has not risen, Newton's step from there gives the next trial, else the step is halved.
The step is that of the whole Hessian, summed in the pass itself, if weights are few; else of conjugate gradients
as accurate as pays (truncated Newton; Lin, Weng & Keerthi 2008), preconditioned with the Hessian's diagonal, or,
where columns are few, with one matrix for all classes, the Hessian of a class if all had the mean of their
curvatures: classes' gradients sum up to 0, and so steps do. It is summed in the pass that measures. A product with
the Hessian is a pass over the rows, and counts as one unless they are in memory.

With ``intercept`` the constant feature's weights are not penalised, so that the dual has a constraint for each
class m, Σ_i C_i p_im = n_m, n_m = Σ C_i over the rows of class m. The p of a measured W do not meet it, but
p' = (1 − s) p + s q does (``balanced``), q one distribution for all rows: with r_m = Σ C_i p_im − n_m, the loss's
gradient by that intercept,
    s = max_m r_m / (n_m + r_m),  q_m = (s (n_m + r_m) − r_m) / (s Σ C_i),
the least s with which no q_m is below 0. As r goes to 0 with Newton's steps, so does s. No pass is needed for it:
the gradient is linear in p, Σ C_i x_i (p'_i − 1_y)ᵀ = (1 − s) g + s ((Σ C_i x_i) qᵀ − Σ C_i x_i 1_yᵀ), and the
entropy is concave, H(p'_i) ≥ (1 − s) H(p_i) + s H(q).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import FLOAT64_BYTES
from llsvm.errors import DataError
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.certificate import Certificate
from llsvm.objective.losses import joint_loss
from llsvm.objective.rounding import RoundingBound
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.solvers.base import ROUNDED, Report, RunSolver
from llsvm.solvers.optim.conjugate_gradients import UNTIL, ConjugateGradients
from llsvm.solvers.optim.lapack import dot, factor_with_ridge, one_blas_thread
from llsvm.solvers.optim.line_search import ROUNDING
from llsvm.solvers.optim.newton_system import MOST_ORDER, MOST_PRODUCTS
from llsvm.solvers.optim.row_operator import COST_BYTES, coef_of, pieces_bytes, weights_bytes
from llsvm.solvers.softmax.passes import Curvature, Passes, SoftmaxSums
from llsvm.solvers.state import AtWeights, SolverState, Value, data_of, restored, saved_values
from llsvm.solvers.stopping import StoppingRule
from llsvm.stream.stream import Stream

Array = NDArray[np.float64]

WHOLE_ORDER = 1500
"""The most weights, of all classes, whose whole Hessian is summed and factorized. Higher, that costs more than
products do: with 2,410 weights 6 to 11 times as much; lower, steps that the pass itself could find take
products."""
INTERCEPT_ARRAYS = 4
"""Arrays as large as the weights that a free intercept takes: sums of classes and a feasible gradient. Too few, and
a run takes more memory than its limit; too many, and it does without a Hessian that has room."""


@dataclass(frozen=True, slots=True)
class Layout:
    """needs: for ``Stream.prepare``. curvature: what passes sum of the Hessian."""

    needs: Needs
    curvature: Curvature


def layout(threads: int, memory: MemoryLeft, intercept: bool = False) -> Layout:
    """Return what there is room for without sending rows that are in memory to disk.

    intercept: it is free."""
    k, width = len(memory.dataset.classes), memory.dataset.n_columns + 1
    lines = {
        "weights": weights_bytes((width, k), threads, INTERCEPT_ARRAYS * intercept),
        "rows at hand": pieces_bytes(width if memory.dataset.is_dense else 0, threads),
    }
    without = Needs(lines, COST_BYTES)
    has_room = memory.fits_in_one_block if memory.fits_in_one_block(without) else memory.has_room
    for kind, order, max_order, more in (
        # the part of a pair of classes, to which each thread adds
        (Curvature.WHOLE, k * width, min(WHOLE_ORDER, MOST_ORDER), min(threads, k)),
        (Curvature.SHARED, width, MOST_ORDER, 1 + threads),  # the factor, and what each thread sums
    ):
        needs = Needs({**lines, "Hessian": FLOAT64_BYTES * (order**2 + more * width**2)}, COST_BYTES)
        if order <= max_order and has_room(needs):
            return Layout(needs, kind)
    return Layout(without, Curvature.DIAGONAL)


def balanced(entropy: float, gradient: Array, class_sums: Array) -> tuple[float, Array]:
    """Return Σ C_i H(p'_i), or less, of the feasible p', and the gradient of the penalised weights there, (d, k).

    entropy: Σ C_i H(p_i). gradient: of the loss, (d + 1, k). class_sums: (d + 1, k) Σ C_i x_i 1_yᵀ.
    """
    n, r = class_sums[-1], gradient[-1]
    total = float(n.sum())
    s = float(min(1.0, max(0.0, (r / (n + r)).max())))
    if s == 0.0:
        return entropy, gradient[:-1]
    q = np.maximum(0.0, s * (n + r) - r)
    q /= q.sum()
    of_q = -float(q @ np.log(np.where(q > 0.0, q, 1.0)))
    moved = (1.0 - s) * gradient[:-1]
    moved -= s * class_sums[:-1]
    moved += np.outer(s * class_sums[:-1].sum(axis=1), q)
    return (1.0 - s) * entropy + s * total * of_q, moved


def require_weights(class_sums: Array, classes: Sequence[Any] | NDArray[Any]) -> None:
    """Raise DataError where a class has no weight: the lower its intercept, the better, without end."""
    for name, weight in zip(classes, class_sums[-1], strict=True):
        if not weight > 0.0:
            raise DataError(
                f"--intercept with --multiclass softmax: all rows of class {name} have a weight of 0, so that its "
                "intercept has no optimum: leave these rows out, or pass --bias 1 instead of --intercept"
            )


@dataclass(frozen=True, slots=True)
class _Progress:
    """Progress between two passes, all of which is in a state; arrays are (d + 1, k).

    W: the point. step: the next trial is W + length · step. gradient: of P at W. class_sums: Σ C_i x_i 1_yᵀ, where
    the intercept is free. primal, dual: the best; dual_here: that at W. length: of the trial. slope:
    ⟨gradient, step⟩. first_norm: of the gradient. accuracy: that of the last step's system. products: made for it.
    """

    W: Array
    step: Array
    gradient: Array
    class_sums: Array
    primal: float = math.inf
    dual: float = 0.0  # where p_i = 1_y
    dual_here: float = 0.0
    length: float = 1.0
    slope: float = -math.inf
    first_norm: float = 0.0
    accuracy: float = 0.0
    products: int = 0


class SoftmaxRun:
    """curvature: of the loss at the last trial, see Curvature. system: Newton's, while it takes products.
    identity: (d + 1, 1), the Hessian of the penalty: 0 for a free intercept."""

    def __init__(
        self, passes: Passes, settings: Settings, bound: RoundingBound, saved: SolverState | None
    ) -> None:
        self._passes, self._settings, self._bound = passes, settings, bound
        self._stream = passes.stream
        width, k = self._stream.dataset.n_columns + 1, len(self._stream.dataset.classes)
        W, step, gradient = np.zeros((3, width, k))
        self._now = _Progress(W, step, gradient, np.zeros((width * settings.intercept, k)))
        self._identity = np.ones((width, 1))
        self._identity[-1] = not settings.intercept
        self._curvature = passes.kind.zeros(width, k)
        self._rule = StoppingRule(settings.tol, settings.max_passes)
        self._made = 0  # passes
        self._system: ConjugateGradients | None = None
        if saved is not None:
            self._restore(saved)

    def reports(self) -> Iterator[Report]:
        with one_blas_thread():
            while not self._rule.is_last(self._made):
                products = self._system is not None
                cause = self._product() if products else self._trial()
                self._made += 1
                report = self._make_report(cause, products)
                yield report
                if report.converged or report.cause:
                    return

    def dual_point(self) -> AtWeights | None:
        """Return the dual point of the best certificate if it is that at the weights, as ``Solver.dual_point``
        does."""
        return AtWeights() if self._now.dual_here == self._now.dual else None

    def _certificate(self) -> Certificate:
        now = self._now
        return self._bound.certificate(coef_of(now.W), [now.primal], [now.dual], self._made)

    def _is_certified(self) -> bool:
        return self._rule.judge(self._certificate(), at_new_weights=False).converged

    def _make_report(self, cause: str, products: bool) -> Report:
        certificate = self._certificate()
        verdict = self._rule.judge(certificate, at_new_weights=not products)
        cause = cause or verdict.cause
        return Report(
            "pass",
            self._made,
            coef_of(self._now.W),
            certificate,
            self._now.dual,
            converged=verdict.converged,
            cause="" if verdict.converged else cause,
            resumable=not (verdict.converged or cause),
        )

    def _trial(self) -> str:
        """Measure W + length · step, and go there if P falls; returns why there is no more to be had, or ""."""
        now, is_first = self._now, self._made == 0
        W = now.W + now.length * now.step
        class_sums = now.class_sums if is_first and self._settings.intercept else None
        sums = self._passes.measure(W, self._curvature, class_sums)
        primal = 0.5 * dot(self._identity * W, W) + sums.loss
        dual = self._dual_of(sums)
        self._now = now = replace(now, dual=max(now.dual, dual))
        if primal <= now.primal + ROUNDING * abs(primal):
            self._now = replace(now, primal=primal, dual_here=dual, W=W)
            # where time is over there is no other step, and may be no Hessian for it
            if not (self._out_of_time or self._is_certified()):
                self._begin_step(sums)
        else:
            self._now = replace(now, length=0.5 * now.length)  # P is convex: halved often enough, it lowers P
        # what the trial promises is no more than rounding
        return ROUNDED if -self._now.length * self._now.slope <= ROUNDING * primal else ""

    @property
    def _out_of_time(self) -> bool:
        return self._stream.any(self._stream.progress.out_of_time)

    def _dual_of(self, sums: SoftmaxSums) -> float:
        entropy, gradient = sums.entropy, sums.gradient
        if self._settings.intercept:
            if self._made == 0:
                require_weights(self._now.class_sums, self._stream.dataset.classes)
            entropy, gradient = balanced(entropy, gradient, self._now.class_sums)
        return _dual(entropy, dot(gradient, gradient))

    def _begin_step(self, sums: SoftmaxSums) -> None:
        gradient = self._identity * self._now.W + sums.gradient
        norm = float(np.sqrt(dot(gradient, gradient)))
        first_norm = self._now.first_norm or norm
        self._now = replace(self._now, gradient=gradient, first_norm=first_norm)
        if self._passes.kind == Curvature.WHOLE:
            self._take_step(_solved(self._curvature, self._identity, -gradient))
            return
        # near the optimum, the root of the share of the first gradient that is left
        accuracy = min(UNTIL, (norm / max(first_norm, 1e-300)) ** 0.5)  # 0 where both norms are
        self._now, self._system = replace(self._now, accuracy=accuracy, products=0), self._new_system()
        if self._system.fell_to(accuracy):  # the gradient is 0
            self._take_step(self._system.solution)
        if not self._stream.any(not self._stream.in_one_block):  # then a product is no pass
            while self._system is not None:
                self._product()

    def _new_system(self) -> ConjugateGradients:
        """Newton's at W."""
        right, identity = -self._now.gradient, self._identity
        if self._passes.kind == Curvature.DIAGONAL:
            diagonal = identity + self._curvature
            np.maximum(diagonal, ROUNDING * diagonal.max(), out=diagonal)
            return ConjugateGradients(right, lambda r: r / diagonal)
        H = self._curvature.copy()
        H.flat[:: len(H) + 1] += np.maximum(identity[:, 0], ROUNDING * H.diagonal().max())
        factor = factor_with_ridge(H)
        return ConjugateGradients(right, lambda r: r.copy() if factor is None else factor.solve(r))

    def _product(self) -> str:
        """A step of conjugate gradients."""
        system = self._system
        assert system is not None
        product = self._passes.product(self._now.W, system.direction)
        product += self._identity * system.direction
        goes_on = system.advance(product) and not self._out_of_time
        self._now = now = replace(self._now, products=self._now.products + 1)
        if not goes_on or system.fell_to(now.accuracy) or now.products >= MOST_PRODUCTS:
            self._take_step(system.solution)
        return ""

    def _take_step(self, step: Array) -> None:
        # what is added to the weights of all classes alike changes no loss, and costs penalty
        centered = step - step.mean(axis=1, keepdims=True)
        slope = dot(self._now.gradient, step)
        self._now, self._system = replace(self._now, step=centered, slope=slope, length=1.0), None

    # -- stopping and going on --------------------------------------------------------------------------

    def state(self, objective: dict[str, Value]) -> SolverState:
        of = {**objective, **data_of(self._stream.dataset)}
        arrays, numbers = saved_values("now", self._now)
        arrays |= self._rule.arrays
        if self._system is not None:
            arrays |= {**self._system.arrays("system"), "curvature": self._curvature}
        numbers["stream generator"] = self._stream.random_state
        return SolverState("softmax", self._made, of, arrays, numbers=numbers)

    def _restore(self, saved: SolverState) -> None:
        self._now = restored("now", saved, self._now)
        self._rule.restore(saved.arrays)
        self._made = saved.passes
        self._stream.restore_random_state(saved.numbers["stream generator"])
        curvature = saved.arrays.get("curvature")
        if curvature is not None and curvature.shape == self._curvature.shape:
            self._curvature[...] = curvature
            self._system = self._new_system()
            self._system.restore("system", saved)
        elif curvature is not None:
            # of another memory limit: measure W again, for the curvature that has room now
            no_step = np.zeros_like(self._now.step)
            self._now = replace(self._now, step=no_step, length=1.0, slope=-math.inf)


def _solved(hessian: Array, identity: Array, right: Array) -> Array:
    """(I + H)⁻¹ right; hessian: (k, d + 1, k, d + 1), of whose classes (a, b) those with a ≥ b are there.
    Overwritten. Where identity has no intercept, adding as much to all classes' changes nothing: these are held to
    a sum of 0, by a penalty on it as large as their own curvature."""
    d, k = right.shape
    flat = hessian.reshape(k * d, k * d)
    if not identity[-1]:
        hessian[:, -1, :, -1] += float(np.einsum("aa->", hessian[:, -1, :, -1])) / k
    diagonal = np.einsum("ii->i", flat)  # a view
    diagonal += np.tile(identity[:, 0], k) + ROUNDING * diagonal.max()
    factor = factor_with_ridge(flat, ridge=100 * ROUNDING)  # far more than what was too little above
    if factor is None:
        return right
    s = factor.solve(right.T.ravel())
    return np.ascontiguousarray(s.reshape(k, d).T)


def _dual(entropy: float, norm: float) -> float:
    """D of p, or what it is at least on the way there from 1_y, with t p + (1 − t) 1_y: t H(p) − ½ t² ‖gradient‖²,
    as entropy is concave. norm: that of the loss's gradient, squared."""
    t = min(1.0, entropy / norm) if norm > 0.0 else 1.0
    return t * entropy - 0.5 * t * t * norm


class Softmax(RunSolver):
    """Softmax by Newton's method, see the file's head. ``solve`` yields a Report after each pass."""

    name = "softmax"

    def _layout(self, memory: MemoryLeft) -> Layout:
        return layout(self.threads, memory, self.settings.intercept)

    def needs(self, memory: MemoryLeft) -> Needs:
        return self._layout(memory).needs

    def _begin(self, stream: Stream, saved: SolverState | None, threads: Threads) -> SoftmaxRun:
        settings = self.settings
        plan = self._layout(stream.memory_left)
        stream.prepare(plan.needs)
        loss, cost = joint_loss("softmax", len(stream.dataset.classes)), self.costs.by_class
        bound = stream.rounding_bound(loss, cost, settings.constant, free_bias=settings.intercept)
        passes = Passes(stream, self.costs, threads, settings.constant, plan.curvature)
        return SoftmaxRun(passes, settings, bound, saved)
