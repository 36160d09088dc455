"""NESVM with kernels: Nesterov's method on ½ βᵀKβ + Σ c_i loss(y_i ((Kβ)_i + b)).

Zhou, Tao, Wu 2010, end of section II-C. Loss: hinge, smoothed with u_i = median((1 − m_i)/μ, 0, 1), or squares
(1 − m)². In the norm of the kernel's own space the gradient is β − α y: a pass over K makes one product, K (α y),
with which every point in sight (w^k, y^k, z^k are combinations) knows its Kβ: backtracking costs no pass. b, if
there is one, is not penalised and minimised over exactly for every f = Kβ, so that Σ α y is nearly 0.
One problem per class or pair, in the same passes.

What steers the steps is not proof: f of the points in sight is carried from pass to pass, with its rounding. The
certificate is measured afresh, with products of its own in a pass that is made anyway: of the β that is handed
back, as it is saved, and of a feasible α, the best mixture of recent ones, clipped to its bounds, with Σ α y = 0 by
scaling down the side with the larger sum (squares: by a shift of α y along c). D(α) = Σ α − ½ (α y)ᵀK(α y)
(squares: − Σ α²/(4c)). What 64-bit sums may have lost of both, given the sizes of K, α and β, counts as gap: with a
large C that is what bounds it. Stop when gap ≤ tol · primal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix, concat
from llsvm.errors import DataError
from llsvm.features.feature_map import FeatureMap, KernelFunction
from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.costs import RowCosts
from llsvm.objective.losses import loss_of
from llsvm.objective.problems import class_signs
from llsvm.settings.settings import Settings
from llsvm.solvers.nesvm.bundle import DualBundle
from llsvm.solvers.nesvm.kernel_matrix import KernelMatrix
from llsvm.solvers.nesvm.layout import KERNEL_BUNDLE, KernelLayout, kernel_layout
from llsvm.solvers.report import ROUNDED, Report
from llsvm.stream.stream import Stream

Vector = NDArray[np.float64]

MU, MU_FACTOR, MU_TARGET = 1.0, 0.5, 0.6
EASE, TIGHTEN = 0.95, 2.0
PRUNE_SHARE = 0.9  # of the gap allowed is for finding the solution, the rest for leaving out
PRUNE_BELOW = 0.01  # rows with α = 0 and |β| under this share of the largest
SMALLEST_SHARE = 1e-9  # of the largest |β|: a row below is no support vector
LESS = 0.5  # the certificate is measured when the gap seems to have fallen to this share of the last one,
MAX_PASSES_BETWEEN = 10  # or after so many passes
BIAS_STEPS = 100
INDEFINITE = 1e-3  # of the objective: vᵀKv below minus this is more than rounding
ASYMMETRIC = 1e-6  # of what it could be: βᵀKv and vᵀKβ differ by more than rounding
ROUNDING = 4.0 * np.finfo(np.float64).eps  # of what the terms of a sum come to, that summing them may lose


class KernelNESVM:
    """See the file's head. ``solve`` yields a Report after each pass over the kernel matrix."""

    def __init__(self, settings: Settings, class_weight: NDArray[np.float64], threads: int = 1) -> None:
        """class_weight: (n_classes,) factors of C."""
        self.settings = settings
        self.class_weight = class_weight
        self.threads = threads

    def layout(self, memory: MemoryLeft) -> KernelLayout:
        """What it would do with the memory there is."""
        return kernel_layout(self.settings, memory)

    def needs(self, memory: MemoryLeft) -> Needs:
        return self.layout(memory).needs

    def solve(self, stream: Stream) -> Iterator[Report]:
        dataset, settings = stream.dataset, self.settings
        n_classes, pairs = len(dataset.classes), settings.multiclass == "ovo"
        gamma = 1.0 / dataset.n_features if settings.gamma is None else settings.gamma
        self.function = KernelFunction(settings.kernel or "rbf", gamma, settings.degree, settings.coef0)
        self.bias = 0.0 if settings.intercept else settings.constant
        plan = self.layout(stream.memory_left)
        matrix = KernelMatrix(stream, self.function, self.bias**2, plan.matrix)
        stream.prepare(plan.needs)
        signs = class_signs(n_classes, pairs)
        matrix.build(self.threads)
        self.costs = RowCosts.of_classes(settings.C, self.class_weight)
        ids, cost, sizes = self._labels(stream, matrix)
        problems = [_Problem(settings, row[ids], cost, sizes) for row in signs]
        # of the sample weights alone: what else rounding does is counted here
        bound = stream.rounding_bound(loss_of(settings.loss), self.costs.by_class, 0.0, pairs)
        bound = replace(bound, noise=0.0)
        passes, most = 0, settings.max_passes
        while True:
            ended = bool(most and passes + 1 >= most)
            self._pass(matrix, problems, ended)
            passes += 1
            done = all(p.converged for p in problems)
            beta = np.zeros((len(problems), dataset.n_rows))
            for row, problem in zip(beta, problems, strict=True):
                row[problem.rows] = problem.best.beta
            intercept = np.array([p.best.b for p in problems]) + self.bias**2 * beta.sum(axis=1)
            coef = np.c_[beta, intercept]
            primal, dual = [p.best.primal for p in problems], [p.dual for p in problems]
            certificate = bound.certificate(coef, primal, dual, passes)
            converged = done and certificate.relative_gap <= settings.tol
            yield Report(
                "pass",
                passes,
                coef,
                certificate,
                certificate.total_dual,
                int(np.count_nonzero(beta.any(axis=0))),
                converged,
                cause=ROUNDED if done and not converged else "",
                note=f"kernel matrix in {matrix.place}; step searched: L = {max(p.L for p in problems):.4g}, "
                f"mu = {max(p.mu for p in problems):.3g}",
                extra={"L": max(p.L for p in problems), "mu": max(p.mu for p in problems)},
                expand=partial(self._expand, stream, beta),
            )
            if done or ended:
                return

    def _pass(self, matrix: KernelMatrix, problems: list[_Problem], last: bool) -> None:
        """One product with K for all that the problems want to know; last: of the run."""
        todo = [p for p in problems if not p.converged]
        wanted = [p.wanted(last) for p in todo]
        A = np.zeros((matrix.n, sum(map(len, wanted))))
        at = 0
        for problem, vectors in zip(todo, wanted, strict=True):
            for vector in vectors:
                A[problem.rows, at] = vector
                at += 1
        KA, at = matrix.times(A), 0
        for problem, vectors in zip(todo, wanted, strict=True):
            problem.take([KA[problem.rows, at + i] for i in range(len(vectors))])
            at += len(vectors)

    def _labels(self, stream: Stream, matrix: KernelMatrix) -> tuple[NDArray[np.int32], Vector, Vector]:
        """Class ids (n,), c_i (n,) and ``KernelMatrix.sizes`` (2, n) of all rows, in a pass."""
        ids = np.empty(stream.dataset.n_rows, np.int32)
        cost, sizes = np.empty(stream.dataset.n_rows), np.empty((2, stream.dataset.n_rows))
        for block in stream.all():
            ids[block.rows] = block.y
            cost[block.rows] = self.costs.of(block)
            sizes[:, block.rows] = matrix.sizes(block)
        return ids, cost, sizes

    def _expand(self, stream: Stream, beta: Vector) -> tuple[NDArray[np.bool_], FeatureMap]:
        """Which rows are support vectors, and the map that holds them; in a pass."""
        dataset = stream.dataset
        support = (beta != 0).any(axis=0)
        support[0] |= not support.any()  # the intercept alone: the map is of a row nevertheless
        base = dataset.first_column
        if self.function.name == "precomputed":
            columns = np.flatnonzero(support)
            return support, FeatureMap("kernel", self.function, dataset.n_features, columns, None, base)
        parts = [block.take(support[block.rows]) for block in stream.all()]
        rows = concat([part for part in parts if part.n_rows])
        rows = rows.take(np.argsort(rows.rows))
        X: Matrix = rows.X
        if isinstance(X, CSR):
            X = CSR(X.indptr, X.indices - np.int32(base), X.data)
        else:
            X = np.ascontiguousarray(X[:, base:])
        return support, FeatureMap("kernel", self.function, dataset.n_features, X, None, base)


class _Solution(NamedTuple):
    """β (n,) as it is saved, the intercept, and its objective, measured, with what rounding may have lost of it."""

    beta: Vector
    b: float
    primal: float


class _Problem:
    """One binary problem on the rows ``rows``. Points come in pairs: β and f = Kβ, both (n,).

    best, dual: certified, of the solution and of a feasible α. converged: their gap is within the tolerance.
    """

    def __init__(self, settings: Settings, signs: Vector, cost: Vector, sizes: Vector) -> None:
        """signs, cost (n,), sizes (2, n): of all rows: y of the problem (0: takes no part), c_i, and what tells how
        exactly the kernel is known, see ``KernelFunction.sizes``."""
        self.settings = settings
        self.squares = settings.loss == "least-squares"
        self.rows = np.flatnonzero((signs != 0) & (cost > 0))
        self.sign, self.cost = signs[self.rows], cost[self.rows]
        self.norms, self.squared_norms = sizes[:, self.rows]
        n = len(self.rows)
        self.mu = settings.mu or MU
        self.L = 1.0 + (2.0 if self.squares else 0.1 / self.mu)
        self.bundle = DualBundle(n, KERNEL_BUNDLE)
        nothing = np.zeros(n)
        self.best = self._measured(nothing, nothing)
        self.dual = 0.0  # of α = 0
        self.converged = False
        self.beta, self.primal = nothing, np.inf  # the best so far, as far as is known without measuring
        self._share = PRUNE_SHARE
        self._gap, self._since = np.inf, 0  # as last measured, and how many passes ago
        self._settled = False  # solved, as far as is known without measuring
        self._alpha = nothing
        self._offered: list[Vector] = []  # β to be measured, then α y
        self._w = self._y = (nothing, nothing)
        self._b_w = 0.0
        self._before: tuple[Vector, Vector] | None = None
        self._t = 1.0

    def wanted(self, last: bool) -> list[Vector]:
        """What K must be multiplied with, each (n,): α y at w; or, where that does not matter any more, and now and
        then, what is to be measured. last: there is no other pass."""
        gap = self.primal - self.bundle.best
        due = self._settled or last or gap <= LESS * self._gap or self._since >= MAX_PASSES_BETWEEN
        self._offered = []
        if due and np.isfinite(self.primal):
            self._offered.append(_without_traces(self.beta))
            if self._settled or last:
                self._offered.append(_without_traces(self._pruned()))
            self._offered.append(self._feasible(self.bundle.mixture() * self.sign) * self.sign)
        return self._offered if self._settled else [self._direction(), *self._offered]

    def take(self, images: list[Vector]) -> None:
        """Take in the products with K, each (n,), of what was wanted."""
        self._since += 1
        if self._offered:
            self._certify(images[-len(self._offered) :])
        if len(images) > len(self._offered) and not self.converged:
            self._measure(images[0])

    def _certify(self, images: list[Vector]) -> None:
        """Measure what was offered; of solutions that are good enough, the last has the fewest support vectors."""
        v, image = self._offered[-1], images[-1]
        allowed = self.settings.tol
        self.dual = max(self.dual, self._dual_objective(v, image))
        solutions = list(map(self._measured, self._offered[:-1], images))
        for solution, f in zip(solutions, images, strict=False):
            self._check_symmetry(solution.beta, f, v, image)
            enough = solution.primal - self.dual <= allowed * solution.primal
            if solution.primal < self.best.primal or enough:
                self.best = solution
        self._gap, self._since = self.best.primal - self.dual, 0
        self.converged = bool(self._gap <= allowed * self.best.primal)
        if self._settled and not self.converged:
            # what the steps went by was not so: they go on from what has been measured, to a smaller gap
            self._settled = False
            self._share *= LESS
            self.primal, self.bundle.best = solutions[0].primal, self.dual
            self._w = self._y = (self._offered[0], images[0])
            self._before, self._t = None, 1.0

    def _measured(self, beta: Vector, f: Vector) -> _Solution:
        """β with the best intercept, and at most so large an objective."""
        b = self._middle_b(f)
        lost = self._lost(beta)
        error = np.where(f == 0, 0.0, ROUNDING * (1.0 + abs(b))) + lost  # 1 ∓ b alone is as good as exact
        z = 1.0 - self.sign * (f + b)
        z = np.abs(z) + error if self.squares else np.maximum(z + error, 0.0)
        losses = float(self.cost @ (z * z if self.squares else z))
        norm = 0.5 * float(beta @ f) + float(lost @ np.abs(beta))
        return _Solution(beta, b, norm + losses)

    def _feasible(self, alpha: Vector) -> Vector:
        """A feasible α near by."""
        if not self.squares:
            alpha = np.clip(alpha, 0.0, self.cost)
        if not self.settings.intercept:
            return alpha
        if self.squares:
            return alpha - self.sign * self.cost * (float(alpha @ self.sign) / float(self.cost.sum()))
        positive = self.sign > 0
        plus, minus = float(alpha[positive].sum()), float(alpha[~positive].sum())
        smaller = min(plus, minus)
        if smaller <= 0:
            return np.zeros_like(alpha)
        return alpha * np.where(positive, smaller / plus, smaller / minus)

    def _dual_objective(self, v: Vector, image: Vector) -> float:
        """At least so much is D at α y = v."""
        alpha = v * self.sign
        total, sizes = float(alpha.sum()), float(np.abs(alpha).sum())
        if self.squares:
            squares = float((alpha * alpha / (4.0 * self.cost)).sum())
            total, sizes = total - squares, sizes + squares
        if self.settings.intercept:  # Σ α y is not 0 to the last bit
            sizes *= 1.0 + abs(self.best.b)
        rounding = ROUNDING * sizes + float(self._lost(v) @ np.abs(v))
        return total - 0.5 * float(v @ image) - rounding

    def _lost(self, v: Vector) -> Vector:
        """(n,) by how much rounding may have changed each value of K v."""
        v = np.abs(v)
        far = self.squared_norms * float(v.sum()) + float(self.squared_norms @ v)
        return ROUNDING * (self.norms * float(self.norms @ v) + far)

    def _check_symmetry(self, beta: Vector, f: Vector, v: Vector, image: Vector) -> None:
        size = float(self.norms @ np.abs(beta)) * float(self.norms @ np.abs(v))
        rounding = float(self._lost(v) @ np.abs(beta))
        if abs(float(beta @ image) - float(v @ f)) > ASYMMETRIC * size + rounding:
            raise DataError(
                "the kernel matrix is not symmetric (vectors u and v with uᵀKv ≠ vᵀKu were met), so there is no "
                "optimum to certify; pass a matrix that is"
            )

    def _direction(self) -> Vector:
        """α y at w, (n,)."""
        self._b_w = self._best_b(self._w[1], self._b_w)
        self._alpha = self._dual(1.0 - self.sign * (self._w[1] + self._b_w))
        return self._alpha * self.sign

    def _measure(self, image: Vector) -> None:
        """Take in K α y, (n,), and move on."""
        beta, f = self._w
        v = self._alpha * self.sign
        z = 1.0 - self.sign * (f + self._b_w)
        norm = float(beta @ f)
        losses = self._losses(z)
        self._offer(beta, f, self._b_w)
        self._offer(v, image, self._best_b(image, self._b_w))
        self._add_dual(v, image)
        slope, slope_f = beta - v, f - image
        stationarity = 0.5 * float(slope @ slope_f)
        smoothing = 0.0 if self.squares else float(self.cost @ np.maximum(z, 0.0) - self._alpha @ z)
        self._advance(0.5 * norm + losses, slope, slope_f)
        self._offer(*self._y, self._best_b(self._y[1], self._b_w))
        allowed = self.settings.tol * self.primal
        self._settled = bool(self.primal - self.bundle.best <= self._share * allowed)
        hinge = not self.squares and self.settings.homotopy
        # ½‖∇‖² bounds F_μ(w) − F_μ(w*), as the regulariser is strongly convex with constant 1 in this norm
        if hinge and smoothing > (MU_TARGET + 0.1) * allowed and stationarity < smoothing:
            aim = float(np.sqrt(MU_TARGET * allowed / smoothing))
            self.mu *= max(MU_FACTOR, min(0.9, aim))

    def _pruned(self) -> Vector:
        """The best β on the rows that have α ≠ 0 now, and on those where it is large nevertheless."""
        large = np.abs(self.beta) > PRUNE_BELOW * np.abs(self.beta).max(initial=0.0)
        return np.where((self._alpha != 0) | large, self.beta, 0.0)

    def _advance(self, F: float, slope: Vector, slope_f: Vector) -> None:
        """A step from w with the smallest L that keeps its promise, then momentum, unless it points uphill."""
        beta, f = self._w
        square = float(slope @ slope_f)
        if square < -INDEFINITE * abs(F) - float(self._lost(slope) @ np.abs(slope)):
            raise DataError(
                "the kernel matrix is not positive semi-definite (a vector v with vᵀKv < 0 was met), so there is "
                "no optimum to certify; pass another --kernel, or a matrix that is"
            )
        self.L = 1.0 + (self.L - 1.0) * EASE
        while True:
            y = (beta - slope / self.L, f - slope_f / self.L)
            b = self._best_b(y[1], self._b_w)
            value = 0.5 * float(y[0] @ y[1]) + self._losses(1.0 - self.sign * (y[1] + b))
            if value <= F - square / (2.0 * self.L) + 1e-12 * abs(F):
                break
            self.L = 1.0 + (self.L - 1.0) * TIGHTEN
        if self._before is None or slope @ (y[1] - self._y[1]) > 0:
            self._t = 1.0
        t = (1.0 + np.sqrt(1.0 + 4.0 * self._t**2)) / 2.0
        momentum = (self._t - 1.0) / t
        self._w = (y[0] + momentum * (y[0] - self._y[0]), y[1] + momentum * (y[1] - self._y[1]))
        self._before, self._y, self._t = self._y, y, t

    def _dual(self, z: Vector) -> Vector:
        if self.squares:
            return 2.0 * self.cost * z
        return self.cost * np.clip(z / self.mu, 0.0, 1.0)

    def _losses(self, z: Vector) -> float:
        """Σ c loss, smoothed."""
        if self.squares:
            return float(self.cost @ (z * z))
        u = np.clip(z / self.mu, 0.0, 1.0)
        return float(self.cost @ (u * z - 0.5 * self.mu * u * u))

    def _offer(self, beta: Vector, f: Vector, b: float) -> None:
        primal = self._primal(beta, f, b)
        if primal < self.primal:
            self.primal, self.beta = primal, beta.copy()

    def _primal(self, beta: Vector, f: Vector, b: float) -> float:
        z = 1.0 - self.sign * (f + b)
        exact = float(self.cost @ (z * z if self.squares else np.maximum(z, 0.0)))
        return 0.5 * float(beta @ f) + exact

    def _best_b(self, f: Vector, start: float) -> float:
        """The minimiser of the smoothed losses over b, to rounding: Newton's steps inside a bracket."""
        if not self.settings.intercept:
            return 0.0
        low, high = -2.0 - float(f.max()), 2.0 - float(f.min())
        b = min(max(start, low), high)
        scale = float(self.cost.sum())
        for _ in range(BIAS_STEPS):
            z = 1.0 - self.sign * (f + b)
            excess = float(self._dual(z) @ self.sign)  # falls as b grows
            if abs(excess) <= 1e-13 * scale:
                break
            low, high = (b, high) if excess > 0 else (low, b)
            if self.squares:
                bend = 2.0 * scale
            else:
                bend = float(self.cost[(z > 0) & (z < self.mu)].sum()) / self.mu
            b = b + excess / bend if bend > 0 else 0.5 * (low + high)
            if not low < b < high:
                b = 0.5 * (low + high)
        return b

    def _middle_b(self, f: Vector) -> float:
        """The minimiser of the losses themselves over b, in the middle where there are many (as LIBSVM's)."""
        if self.squares or not self.settings.intercept:
            return self._best_b(f, 0.0)
        ends = self.sign - f  # a row's loss ends here (y = 1) or begins: the slope grows by its cost
        order = np.argsort(ends)
        slope = np.cumsum(self.cost[order]) - self.cost[self.sign > 0].sum()
        first = min(int(np.searchsorted(slope, -1e-9 * self.cost.sum())), len(ends) - 1)
        last = min(first + 1, len(ends) - 1) if slope[first] <= 1e-9 * self.cost.sum() else first
        return 0.5 * float(ends[order[first]] + ends[order[last]])

    def _add_dual(self, v: Vector, image: Vector) -> None:
        """Offer α to the mixtures."""
        total = float(self._alpha.sum())
        if self.squares:
            total -= float((self._alpha**2 / (4.0 * self.cost)).sum())
        self.bundle.add(total, v, image)


def _without_traces(beta: Vector) -> Vector:
    """β without what is next to nothing: rows of it need not be saved."""
    return np.where(np.abs(beta) > SMALLEST_SHARE * np.abs(beta).max(initial=0.0), beta, 0.0)
