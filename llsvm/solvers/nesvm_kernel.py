"""NESVM with kernels: Nesterov's method on ½ βᵀKβ + Σ c_i loss(y_i ((Kβ)_i + b)).

Zhou, Tao, Wu 2010, end of section II-C. Loss: hinge, smoothed with u_i = median((1 − m_i)/μ, 0, 1), or squares
(1 − m)². In the norm of the kernel's own space the gradient is β − α y: a pass over K makes one product, K (α y),
with which every point in sight (w^k, y^k, z^k are combinations) knows its Kβ: backtracking costs no pass. b, if
there is one, is not penalised and minimised over exactly for every f = Kβ, so that Σ α y = 0 and α is feasible.
One problem per class or pair, in the same passes.

Certificate: D(α) = Σ α − ½ (α y)ᵀK(α y) (squares: − Σ α²/(4c)), of the best mixture of recent α. The matrix is the
float32 one that is stored. Stop when gap ≤ tol · primal.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix, concat
from llsvm.errors import DataError
from llsvm.feature_map import FeatureMap, KernelFunction
from llsvm.kernel_matrix import KernelMatrix
from llsvm.labels import class_signs
from llsvm.optim.bundle import DualBundle
from llsvm.report import Certificate, Report
from llsvm.settings import Settings
from llsvm.stream import Stream

Vector = NDArray[np.float64]

BUNDLE = 8
VECTORS = 16  # of a row, per problem, temporary ones counted
MU, MU_FACTOR, MU_TARGET = 1.0, 0.5, 0.6
EASE, TIGHTEN = 0.95, 2.0
PRUNE_SHARE = 0.9  # of the gap allowed is for finding the solution, the rest for leaving out
PRUNE_BELOW = 0.01  # rows with α = 0 and |β| under this share of the largest
SMALLEST_SHARE = 1e-9  # of the largest |β|: a row below is no support vector
BIAS_STEPS = 100
INDEFINITE = 1e-3  # of the objective: vᵀKv below minus this is more than rounding


class KernelNESVM:
    """See the file's head. ``solve`` yields a Report after each pass over the kernel matrix."""

    def __init__(self, settings: Settings, class_weight: NDArray[np.float64], threads: int = 1) -> None:
        """class_weight: (n_classes,) factors of C."""
        self.settings = settings
        self.class_weight = class_weight
        self.threads = threads

    def solve(self, stream: Stream) -> Iterator[Report]:
        facts, settings = stream.facts, self.settings
        signs = class_signs(len(facts.classes), settings.multi_class == "ovo")
        gamma = 1.0 / facts.n_features if settings.gamma is None else settings.gamma
        self.function = KernelFunction(settings.kernel or "rbf", gamma, settings.degree, settings.coef0)
        self.bias = 0.0 if settings.intercept else settings.constant
        matrix = KernelMatrix(stream, self.function, self.bias**2)
        used = sum(int(facts.counts[row != 0].sum()) for row in signs)
        state_bytes = 8 * used * (VECTORS + 2 * (BUNDLE + 1)) + 8 * facts.n_rows * (3 * len(signs) + 3)
        needs = {"dual variables": state_bytes}
        needs |= matrix.needs(stream.budget.available_bytes - state_bytes)
        stream.prepare(needs, 16)
        matrix.build(self.threads)
        ids, cost = self._labels(stream)
        problems = [_Problem(settings, row[ids], cost) for row in signs]
        passes = 0
        while True:
            A = np.zeros((facts.n_rows, len(problems)))
            todo = [j for j, problem in enumerate(problems) if not problem.converged]
            for j in todo:
                A[problems[j].rows, j] = problems[j].direction()
            KA = matrix.times(np.ascontiguousarray(A[:, todo]))
            for column, j in enumerate(todo):
                problems[j].measure(KA[problems[j].rows, column])
            passes += 1
            converged = all(p.converged for p in problems)
            if converged:
                self._prune(matrix, problems)
                passes += 1
            most = settings.max_passes
            ended = converged or bool(most and passes >= most)
            beta = np.zeros((len(problems), facts.n_rows))
            for row, problem in zip(beta, problems, strict=True):
                row[problem.rows] = problem.beta
            intercept = np.array([p.b for p in problems]) + self.bias**2 * beta.sum(axis=1)
            yield Report(
                "pass",
                passes,
                np.c_[beta, intercept],
                Certificate(
                    tuple(p.primal for p in problems), tuple(p.bundle.best for p in problems), passes
                ),
                sum(p.bundle.best for p in problems),
                int(np.count_nonzero(beta.any(axis=0))),
                converged,
                note=f"kernel matrix in {matrix.place}; step searched: L = {max(p.L for p in problems):.4g}, "
                f"mu = {max(p.mu for p in problems):.3g}",
                extra={"L": max(p.L for p in problems), "mu": max(p.mu for p in problems)},
                expand=partial(self._expand, stream, beta),
            )
            if ended:
                return

    def _prune(self, matrix: KernelMatrix, problems: list[_Problem]) -> None:
        """Leave out rows that are no support vectors any more, where the gap allows it; a pass."""
        A = np.zeros((matrix.n, len(problems)))
        for column, problem in zip(A.T, problems, strict=True):
            column[problem.rows] = problem.pruned()
        KA = matrix.times(A)
        for column, image, problem in zip(A.T, KA.T, problems, strict=True):
            problem.take_pruned(column[problem.rows], image[problem.rows])

    def _labels(self, stream: Stream) -> tuple[NDArray[np.int32], Vector]:
        """Class ids and c_i of all rows, in a pass."""
        ids = np.empty(stream.facts.n_rows, np.int32)
        cost = np.empty(stream.facts.n_rows)
        for block in stream.all():
            ids[block.rows] = block.y
            weight = 1.0 if block.weight is None else block.weight
            cost[block.rows] = self.settings.C * self.class_weight[block.y] * weight
        return ids, cost

    def _expand(self, stream: Stream, beta: Vector) -> tuple[NDArray[np.bool_], FeatureMap]:
        """Which rows are support vectors, and the map that holds them; in a pass."""
        facts = stream.facts
        support = (np.abs(beta) > SMALLEST_SHARE * np.abs(beta).max(initial=0.0)).any(axis=0)
        base = facts.first_column
        if self.function.name == "precomputed":
            columns = np.flatnonzero(support)
            return support, FeatureMap("kernel", self.function, facts.n_features, columns, None, base)
        parts = [block.take(support[block.rows]) for block in stream.all()]
        rows = concat([part for part in parts if part.n_rows])
        rows = rows.take(np.argsort(rows.rows))
        X: Matrix = rows.X
        if isinstance(X, CSR):
            X = CSR(X.indptr, X.indices - np.int32(base), X.data)
        else:
            X = np.ascontiguousarray(X[:, base:])
        return support, FeatureMap("kernel", self.function, facts.n_features, X, None, base)


class _Problem:
    """One binary problem on the rows ``rows``. Points come in pairs: β and f = Kβ, both (n,)."""

    def __init__(self, settings: Settings, signs: Vector, cost: Vector) -> None:
        self.settings = settings
        self.squares = settings.loss == "least-squares"
        self.rows = np.flatnonzero((signs != 0) & (cost > 0))
        self.sign, self.cost = signs[self.rows], cost[self.rows]
        n = len(self.rows)
        self.mu = settings.mu or MU
        self.L = 1.0 + (2.0 if self.squares else 0.1 / self.mu)
        self.bundle = DualBundle(n, BUNDLE)
        self.beta, self.b, self.primal = np.zeros(n), 0.0, np.inf  # the best so far
        self.converged = False
        self._w = (np.zeros(n), np.zeros(n))
        self._y = (np.zeros(n), np.zeros(n))
        self._b_w = 0.0
        self._before: tuple[Vector, Vector] | None = None
        self._t = 1.0

    def direction(self) -> Vector:
        """α y at w, (n,): what K must be multiplied with."""
        self._b_w = self._best_b(self._w[1], self._b_w)
        self._alpha = self._dual(1.0 - self.sign * (self._w[1] + self._b_w))
        return self._alpha * self.sign

    def measure(self, image: Vector) -> None:
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
        self.converged = bool(self.primal - self.bundle.best <= PRUNE_SHARE * allowed)
        hinge = not self.squares and self.settings.homotopy
        # ½‖∇‖² bounds F_μ(w) − F_μ(w*), as the regulariser is strongly convex with constant 1 in this norm
        if hinge and smoothing > (MU_TARGET + 0.1) * allowed and stationarity < smoothing:
            aim = float(np.sqrt(MU_TARGET * allowed / smoothing))
            self.mu *= max(MU_FACTOR, min(0.9, aim))

    def pruned(self) -> Vector:
        """The best β on the rows that have α ≠ 0 now, and on those where it is large nevertheless."""
        large = np.abs(self.beta) > PRUNE_BELOW * np.abs(self.beta).max(initial=0.0)
        return np.where((self._alpha != 0) | large, self.beta, 0.0)

    def take_pruned(self, beta: Vector, image: Vector) -> None:
        """Settle for ``pruned``, of which ``image`` is the product with K, if its gap is small enough."""
        b = self._middle_b(image)
        primal = self._primal(beta, image, b)
        if primal - self.bundle.best <= self.settings.tol * primal:
            self.primal, self.beta, self.b = primal, beta, b

    def _advance(self, F: float, slope: Vector, slope_f: Vector) -> None:
        """A step from w with the smallest L that keeps its promise, then momentum, unless it points uphill."""
        beta, f = self._w
        square = float(slope @ slope_f)
        if square < -INDEFINITE * abs(F):
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
            self.primal, self.beta, self.b = primal, beta.copy(), b

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
            return self._best_b(f, self.b)
        ends = self.sign - f  # a row's loss ends here (y = 1) or begins: the slope grows by its cost
        order = np.argsort(ends)
        slope = np.cumsum(self.cost[order]) - self.cost[self.sign > 0].sum()
        first = min(int(np.searchsorted(slope, -1e-9 * self.cost.sum())), len(ends) - 1)
        last = min(first + 1, len(ends) - 1) if slope[first] <= 1e-9 * self.cost.sum() else first
        return 0.5 * float(ends[order[first]] + ends[order[last]])

    def _add_dual(self, v: Vector, image: Vector) -> None:
        """Offer α; what rounding left of Σ α y is scaled away by the side with the larger sum."""
        total = float(self._alpha.sum())
        if self.squares:
            total -= float((self._alpha**2 / (4.0 * self.cost)).sum())
        self.bundle.add(total, v, image)
