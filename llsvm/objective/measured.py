"""The objective of given weights, measured in one pass over rows, whatever the solver that found them.

Weights are (k, d + 1) float64, the last those of the constant feature: a row for each problem of the classes
(problems.py), or all those of the one joint problem, which has a single objective. Two classes of a joint problem
are one row of weights w, the difference of the classes'; they are then −w/2 and w/2, whose penalty is the least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.kernels.products import matrix_scores
from llsvm.objective.losses import Loss, softmax
from llsvm.objective.penalty import Penalty
from llsvm.objective.problems import Problems, RowCosts

Array = NDArray[np.float64]
PIECE_BYTES = 1 << 16  # of the scores of a piece of rows, and of its values where they are dense


class SeparateObjectives:
    """(l2/2) ‖w‖² + l1 ‖w‖₁ + Σ C_i φ of each problem. Add every block once; then ``primal`` is (k,).

    total: ν C of the one-class SVM, whose −ρ is the last weight, else 0."""

    def __init__(
        self,
        loss: Loss,
        costs: RowCosts,
        penalty: Penalty,
        problems: Problems,
        bias: float,
        total: float = 0.0,
    ) -> None:
        self._loss, self._costs, self._penalty, self._problems = loss, costs, penalty, problems
        self._bias, self._total = bias, total
        self._losses = np.zeros(len(problems))

    def add(self, block: Block, coef: Array) -> None:
        cost = self._costs.of(block)
        for c, w in enumerate(coef):
            signs = self._problems.signs(c)
            weights, constant = _column(w, self._bias)
            for rows in _pieces(block, 1):
                part = block.slice(rows.start, rows.stop)
                score = matrix_scores(part.X, weights, constant)[:, 0]
                if part.has_targets:
                    each = self._loss.value(score, part.y)
                    self._losses[c] += float(cost[rows] @ each)
                else:
                    sign = signs[part.class_ids]
                    of_problem = self._costs.in_problem(cost[rows], int(np.argmax(signs)), sign > 0)
                    in_problem = of_problem * (sign != 0)
                    self._losses[c] += float(in_problem @ self._loss.value(sign * score))

    def primal(self, coef: Array) -> Array:
        if self._total:
            penalties = [0.5 * float(w[:-1] @ w[:-1]) + self._total * float(w[-1]) for w in coef]
        else:
            penalties = [self._penalty.value(w) for w in coef]
        return self._losses + penalties


class JointObjective:
    """½ Σ ‖w_m‖² + Σ C_i loss(s_i, y_i), s_im = w_m · x_i; ``primal`` is (1,).

    name: of the loss, as ``--multiclass`` has it: see solvers/sequential_dual/problem.py."""

    def __init__(self, name: str, costs: RowCosts, penalty: Penalty, bias: float) -> None:
        self._loss, self._costs, self._penalty, self._bias = JOINT_LOSSES[name], costs, penalty, bias
        self._sum = 0.0

    def add(self, block: Block, coef: Array) -> None:
        cost, k = self._costs.of(block), max(2, len(coef))
        for rows in _pieces(block, k):
            part = block.slice(rows.start, rows.stop)
            scores = np.empty((part.n_rows, k))
            for c, w in enumerate(coef):
                scores[:, c] = matrix_scores(part.X, *_column(w, self._bias))[:, 0]
            if len(coef) == 1:
                scores[:, 0] *= 0.5
                scores[:, 1] = scores[:, 0]
                scores[:, 0] *= -1.0
            self._sum += float(cost[rows] @ self._loss(scores, part.class_ids))

    def primal(self, coef: Array) -> Array:
        share = 0.5 if len(coef) == 1 else 1.0  # 2 ‖w/2‖² of ‖w‖²
        return np.array([self._sum + share * sum(self._penalty.value(w) for w in coef)])


def work_bytes(width: int, k: int) -> int:
    """Return the bytes that measuring takes at most, beside the weights and C_i, for weights (k, width)."""
    return 2 * 8 * width + 6 * max(PIECE_BYTES, 8 * k) + 2 * max(PIECE_BYTES, 8 * width)


def _pieces(block: Block, k: int) -> Iterator[slice]:
    """Yield pieces of rows with k scores each."""
    each = max(k, 0 if isinstance(block.X, CSR) else block.X.shape[1])
    step = max(1, PIECE_BYTES // (8 * each))
    for start in range(0, block.n_rows, step):
        yield slice(start, min(start + step, block.n_rows))


def _column(w: Array, bias: float) -> tuple[Array, Array]:
    """Return weights as ``matrix_scores`` takes them; copied where w does not lie in one piece."""
    return np.ascontiguousarray(w[:-1]).reshape(-1, 1), np.array([bias * w[-1]])


def _crammer_singer(scores: Array, y: NDArray[np.int32]) -> Array:
    of_class = np.arange(len(y)), y
    behind = scores + 1.0 - scores[of_class][:, None]
    behind[of_class] = 0.0
    return np.asarray(behind.max(axis=1))


def _weston_watkins(scores: Array, y: NDArray[np.int32]) -> Array:
    of_class = np.arange(len(y)), y
    behind = np.maximum(0.0, scores + 1.0 - scores[of_class][:, None])
    behind[of_class] = 0.0
    return np.asarray(behind.sum(axis=1))


def _softmax(scores: Array, y: NDArray[np.int32]) -> Array:
    _, behind, logs = softmax(scores)
    return np.asarray(logs - behind[np.arange(len(y)), y])


JOINT_LOSSES: dict[str, Callable[[Array, NDArray[np.int32]], Array]] = {
    "crammer-singer": _crammer_singer,
    "weston-watkins": _weston_watkins,
    "softmax": _softmax,
}
