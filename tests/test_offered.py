"""Everything that is offered, loss by penalty by method by form of multi-class, with and without an intercept that
is not penalised, is trained, held against an optimum from outside, and verified; all that is not offered is refused
with a sentence.

What is offered is what ``METHODS`` and the options' choices declare: who adds a loss, a penalty or a form there
has to say here, in ``OF_ROWS``, ``OF_PENALTIES`` or ``JOINT``, what it means, in CVXPY.
"""

from collections.abc import Callable
from functools import cache
from itertools import combinations, product
from typing import NamedTuple

import cvxpy as cp
import numpy as np
import pytest
from oracle import rows

import llsvm
from llsvm.errors import UsageError
from llsvm.settings.data import KERNEL_NAMES
from llsvm.settings.methods import METHODS
from llsvm.settings.objective import (
    CLASSIFICATION,
    KINDS,
    LOSSES,
    MULTICLASS,
    ONE_CLASS,
    PENALTIES,
    UNLABELLED,
)
from llsvm.settings.settings import OPTIONS, Settings
from llsvm.settings.solver import SOLVERS

N, D, CLASSES = 60, 4, 3
C, L1_RATIO, EPSILON, QUANTILE, DELTA, NU, GAMMA = 0.3, 0.4, 0.2, 0.8, 0.7, 0.3, 0.5
TOL = 1e-3
OWN = {  # what a loss is asked with
    "epsilon_insensitive": {"epsilon": EPSILON},
    "squared_epsilon_insensitive": {"epsilon": EPSILON},
    "quantile": {"quantile": QUANTILE},
    "huber": {"delta": DELTA},
    ONE_CLASS: {"nu": NU},
}

# Σ over rows, of z = 1 - y w.x for classes and z = t - w.x for numbers
OF_ROWS: dict[str, Callable] = {
    "hinge": lambda z: cp.sum(cp.pos(z)),
    "squared_hinge": lambda z: cp.sum_squares(cp.pos(z)),
    "least-squares": cp.sum_squares,
    "logistic": lambda z: cp.sum(cp.logistic(z - 1)),
    "epsilon_insensitive": lambda z: cp.sum(cp.pos(cp.abs(z) - EPSILON)),
    "squared_epsilon_insensitive": lambda z: cp.sum_squares(cp.pos(cp.abs(z) - EPSILON)),
    "quantile": lambda z: cp.sum(cp.maximum(QUANTILE * z, (QUANTILE - 1) * z)),
    "huber": lambda z: 0.5 * cp.sum(cp.huber(z, DELTA)),  # CVXPY's is twice ours
}
OF_PENALTIES: dict[str, Callable] = {
    "l2": lambda w: 0.5 * cp.sum_squares(w),
    "l1": lambda w: cp.norm1(w),
    "elasticnet": lambda w: (1 - L1_RATIO) / 2 * cp.sum_squares(w) + L1_RATIO * cp.norm1(w),
}


def excess(scores, own):
    """1 + s_c - s_own of the other classes."""
    return [1 + scores[c] - scores[own] for c in range(CLASSES) if c != own]


# of a row's scores and its own class
JOINT: dict[tuple[str, str], Callable] = {
    ("crammer-singer", "hinge"): lambda s, own: cp.pos(cp.max(cp.hstack(excess(s, own)))),
    ("weston-watkins", "hinge"): lambda s, own: cp.sum(cp.pos(cp.hstack(excess(s, own)))),
    ("softmax", "logistic"): lambda s, own: cp.log_sum_exp(s) - s[own],
}
IN_PROBLEMS = ("ovr", "ovo")


def one_class(X):
    """Its variables, w and rho, and its objective, which has no C."""
    w, rho = cp.Variable(X.shape[1]), cp.Variable()
    return w, rho, 0.5 * cp.sum_squares(w) - NU * len(X) * rho + cp.sum(cp.pos(rho - X @ w))


class Offer(NamedTuple):
    loss: str
    penalty: str
    method: str
    multiclass: str
    intercept: bool

    def __str__(self):
        named = (self.loss, self.penalty, self.method, self.multiclass)
        return "-".join(named + ("intercept",) * self.intercept)

    @property
    def options(self):
        method = METHODS[self.method]
        kernel = {"kernel": "rbf", "gamma": GAMMA} if method.kernels else {}
        share = {"l1_ratio": L1_RATIO} if self.penalty == "elasticnet" else {}
        solver = {"solver": method.solver} if method.solver else {}
        named = {"loss": self.loss, "penalty": self.penalty, "multiclass": self.multiclass}
        named["intercept"] = self.intercept
        cost = {} if self.loss == ONE_CLASS else {"C": C}
        return {**named, **solver, **kernel, **share, **cost, **OWN.get(self.loss, {})}


def forms(loss):
    """Of multi-class, that there are for the labels of a loss."""
    return MULTICLASS if KINDS[loss] == CLASSIFICATION else ("ovr",)


def intercepts(loss, method):
    """Which of --intercept there are."""
    takes = method.name in OPTIONS["intercept"].methods and loss != ONE_CLASS
    return (False, True) if takes else (False,)


OFFERED = [
    Offer(loss, penalty, method.name, form, intercept)
    for method in METHODS.values()
    for loss, penalties in method.objectives.items()
    for penalty in penalties
    for form in method.multiclass
    if form in forms(loss)
    for intercept in intercepts(loss, method)
]


@cache
def data(kind):
    """X, and classes 0, 1, 2 or numbers; rows on one side of 0 where there are none."""
    X, y = rows(N, D, seed=4, classes=CLASSES, noise=0.3)
    if kind == UNLABELLED:
        return (X + 2).astype(np.float32).astype(float), None
    if kind == CLASSIFICATION:
        return X, y
    rng = np.random.default_rng(5)
    return X, (X @ rng.normal(size=D) + rng.standard_t(3, size=N)).astype(np.float32).astype(float)


@cache
def features(kernel, kind=CLASSIFICATION):
    """Rows whose dot products are the kernel's: linear machines on these are kernel machines."""
    X, _ = data(kind)
    if not kernel:
        return X
    squares = ((X[:, None] - X[None, :]) ** 2).sum(axis=2)
    return np.linalg.cholesky(np.exp(-GAMMA * squares) + 1e-10 * np.eye(N))


@cache
def objectives(loss, penalty, multiclass, kernel, intercept):
    """A list of problems in CVXPY, each with its variables: their sum is the objective; and their optima's sum."""
    X, y = features(kernel, KINDS[loss]), data(KINDS[loss])[1]
    made = [one_class(X)] if loss == ONE_CLASS else []
    if multiclass not in IN_PROBLEMS:
        w, b = cp.Variable((CLASSES, X.shape[1])), cp.Variable(CLASSES)
        cost = sum(JOINT[multiclass, loss](w @ x + intercept * b, own) for x, own in zip(X, y, strict=True))
        made.append((w, b, OF_PENALTIES[penalty](cp.vec(w, order="C")) + C * cost))
    for mine, sign, target in binary(y, KINDS[loss], multiclass):
        w, b = cp.Variable(X.shape[1]), cp.Variable()
        z = target - cp.multiply(sign, X[mine] @ w + intercept * b)
        made.append((w, b, OF_PENALTIES[penalty](w) + C * OF_ROWS[loss](z)))
    problems = [(w, b, cp.Problem(cp.Minimize(value))) for w, b, value in made]
    return problems, sum(problem.solve(solver=cp.CLARABEL) for _, _, problem in problems)


def binary(y, kind, multiclass):
    """Which rows, their signs, what is to be met."""
    if kind == UNLABELLED:
        return []
    if kind != CLASSIFICATION:
        return [(np.ones(N, bool), np.ones(N), y)]
    if multiclass == "ovr":
        return [(np.ones(N, bool), np.where(y == c, 1.0, -1.0), 1.0) for c in range(CLASSES)]
    if multiclass == "ovo":
        pairs = [((y == i) | (y == j), i) for i, j in combinations(range(CLASSES), 2)]
        return [(mine, np.where(y[mine] == i, 1.0, -1.0), 1.0) for mine, i in pairs]
    return []


def weights(model, kernel):
    """(problems, d) in the space of ``features``."""
    if not kernel:
        return model.coef_
    X, _ = data(CLASSIFICATION)
    scores = model.feature_map(X) @ model.coef_.T
    return np.linalg.solve(features(kernel), scores).T


@pytest.mark.parametrize("offer", OFFERED, ids=str)
def test_what_is_offered_reaches_the_optimum(offer):
    kernel = bool(METHODS[offer.method].kernels)
    problems, best = objectives(offer.loss, offer.penalty, offer.multiclass, kernel, offer.intercept)
    X, y = data(KINDS[offer.loss])
    model = llsvm.train(X, y, tol=TOL, max_passes=3000, threads=1, **offer.options)
    assert model.converged
    w, primal = weights(model, kernel), 0.0
    joint, b = offer.multiclass not in IN_PROBLEMS, model.intercept_
    parts, levels = ([w], [b]) if joint else (list(w), list(b))
    if offer.loss == ONE_CLASS:
        levels = [-b[0]]
    for part, level, (of_part, of_level, problem) in zip(parts, levels, problems, strict=True):
        of_part.value, of_level.value = part, level
        primal += problem.objective.value
    certificate = model.certificate
    assert certificate.relative_gap <= TOL
    assert primal == pytest.approx(sum(certificate.primal), rel=1e-5)
    assert best - 1e-6 * abs(best) <= primal <= best + 1.01 * TOL * abs(best)
    assert sum(certificate.dual) <= best + 1e-6 * abs(best)
    assert best < 0 or offer.loss != ONE_CLASS
    assert llsvm.verify(model, X, y)["differences"] == []


NAMES = ("loss", "penalty", "solver", "multiclass", "intercept", "kernel")
# each offer by its solver's name, and by "auto"
ACCEPTED = {
    (offer.loss, offer.penalty, solver, offer.multiclass, offer.intercept, kernel)
    for offer in OFFERED
    for solver in ("auto", METHODS[offer.method].solver)
    for kernel in METHODS[offer.method].kernels or (None,)
    if solver
}
EVERYTHING = product(LOSSES, PENALTIES, SOLVERS, MULTICLASS, (False, True), (None, *KERNEL_NAMES))
REFUSED = [each for each in EVERYTHING if each not in ACCEPTED]


def test_what_is_not_offered_is_refused_with_a_sentence():
    """And what is offered is not."""
    for each in ACCEPTED:
        Settings(**dict(zip(NAMES, each, strict=True)))
    assert len(REFUSED) > 100
    for each in REFUSED:
        asked = dict(zip(NAMES, each, strict=True))
        with pytest.raises(UsageError) as refusal:
            Settings(**asked)
        sentence = str(refusal.value)
        words = [word for word in each if isinstance(word, str)] + ["--intercept"] * asked["intercept"]
        assert any(word in sentence for word in words), (asked, sentence)
        assert any(word in sentence for word in ("leave", "pass", "goes with", "needs")), (asked, sentence)


def test_every_choice_is_somewhere_on_offer_or_refused():
    """The two tables together are all there is; and whoever is offered anything knows all of its words."""
    for offer in OFFERED:
        assert offer.loss in LOSSES
        assert offer.penalty in OF_PENALTIES
        assert offer.loss in (*OF_ROWS, ONE_CLASS) or offer.multiclass not in IN_PROBLEMS
        assert offer.multiclass in IN_PROBLEMS or (offer.multiclass, offer.loss) in JOINT
    assert {offer.penalty for offer in OFFERED} == set(PENALTIES)
    assert {offer.multiclass for offer in OFFERED} == set(MULTICLASS)
