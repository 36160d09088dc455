"""Optima of objectives that LIBLINEAR's program does not have, or not tightly: scikit-learn's smooth solvers, and
CVXPY with Clarabel. Runs in a process of its own; not for people:

    python -m tools.bench.tight NAME '{"train": ..., "model": ..., "C": ..., "loss": ..., ...}'
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp


def smooth(task: dict[str, Any]) -> None:
    """Logistic, one against the rest or all classes at once: scikit-learn's Newton conjugate gradients."""
    from sklearn.linear_model import LogisticRegression

    X, y = _rows(task)
    options = {"C": task["C"], "tol": 1e-9, "max_iter": 10_000, "fit_intercept": False}
    classes = np.unique(y)
    if task["multiclass"] == "softmax" and len(classes) > 2:
        machines = [LogisticRegression(solver="lbfgs", **options).fit(X, y)]
    else:
        ones = classes[1:] if len(classes) == 2 else classes
        machines = [LogisticRegression(solver="newton-cg", **options).fit(X, y == c) for c in ones]
    _save(task, np.vstack([machine.coef_ for machine in machines]), classes)


def ridge(task: dict[str, Any]) -> None:
    """Least squares with labels ±1: ½‖w‖² + C Σ (1 − y w·x)²."""
    from sklearn.linear_model import Ridge

    X, y = _rows(task)
    classes = np.unique(y)
    ones = classes[1:] if len(classes) == 2 else classes
    solver = "cholesky" if X.shape[1] < 2000 else "sparse_cg"
    dense = X.toarray() if solver == "cholesky" and X.shape[0] * X.shape[1] < 1e8 else X
    machine = Ridge(alpha=0.5 / task["C"], fit_intercept=False, solver=solver, tol=1e-12, max_iter=100_000)
    signs = np.where(y[:, None] == ones, 1.0, -1.0)
    _save(task, np.atleast_2d(machine.fit(dense, signs).coef_), classes)


def clarabel(task: dict[str, Any]) -> None:
    """Any convex loss, problem by problem: an interior-point method."""
    import cvxpy as cp

    X, y = _rows(task)
    if task["loss"] == "one_class":
        w, rho = cp.Variable(X.shape[1]), cp.Variable()
        cost = cp.sum(cp.pos(rho - X @ w)) - task["nu"] * X.shape[0] * rho
        cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + task["C"] * cost)).solve(solver=cp.CLARABEL)
        return _save(task, w.value[None], np.zeros(0), -rho.value)
    classes = np.unique(y) if task["classes"] else np.zeros(0)
    found = []
    for one in (classes[1:] if len(classes) == 2 else classes) if task["classes"] else [None]:
        w = cp.Variable(X.shape[1])
        z = y - X @ w if one is None else 1 - cp.multiply(np.where(y == one, 1.0, -1.0), X @ w)
        penalty = 0.5 * cp.sum_squares(w) if task["penalty"] == "l2" else cp.norm1(w)
        cp.Problem(cp.Minimize(penalty + task["C"] * _cost(z, task))).solve(solver=cp.CLARABEL)
        found.append(w.value)
    _save(task, np.array(found), classes)


def _cost(z: Any, task: dict[str, Any]) -> Any:
    """Σ of the loss over z = 1 − margin, or label − prediction."""
    import cvxpy as cp

    of: dict[str, Callable[[], Any]] = {
        "hinge": lambda: cp.sum(cp.pos(z)),
        "squared_hinge": lambda: cp.sum_squares(cp.pos(z)),
        "least-squares": lambda: cp.sum_squares(z),
        "logistic": lambda: cp.sum(cp.logistic(z - 1)),
        "epsilon_insensitive": lambda: cp.sum(cp.pos(cp.abs(z) - task["epsilon"])),
        "squared_epsilon_insensitive": lambda: cp.sum_squares(cp.pos(cp.abs(z) - task["epsilon"])),
        "quantile": lambda: cp.sum(cp.maximum(task["quantile"] * z, (task["quantile"] - 1) * z)),
        "huber": lambda: 0.5 * cp.sum(cp.huber(z, task["delta"])),
    }
    return of[task["loss"]]()


def _rows(task: dict[str, Any]) -> tuple[sp.csr_matrix, Any]:
    from tools.bench.kernel_models import rows_of

    X, y = rows_of(task["train"])
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, y


def _save(task: dict[str, Any], coef: Any, classes: Any, intercept: Any = 0.0) -> None:
    with open(task["model"], "wb") as file:
        np.savez(file, coef=coef, intercept=intercept, classes=classes)


TIGHT = {worker.__name__: worker for worker in (smooth, ridge, clarabel)}

if __name__ == "__main__":
    TIGHT[sys.argv[1]](json.loads(sys.argv[2]))
