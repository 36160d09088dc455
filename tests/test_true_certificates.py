"""No certificate is false: any problem, at any scale, whatever the solver makes of it.

The referee is here alone: the primal of the weights handed back, in long double. What a certificate claims for the
primal is no less than that, and its dual is no larger than the least primal that any solver has found.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import run

from llsvm.settings.objective import CLASSIFICATION, KINDS, UNLABELLED

PRECISE = np.longdouble
JOINT = ("crammer-singer", "weston-watkins", "softmax")
OFF = 1e-9  # of the primal: what 64-bit sums of this few rows may lose


def loss_of(residual, options):
    """φ of t − m, by its definition."""
    z, name = residual, options["loss"]
    epsilon, delta = PRECISE(options.get("epsilon", 0)), PRECISE(options.get("delta", 1))
    beyond = np.maximum(np.abs(z) - epsilon, 0)
    share = PRECISE(options.get("quantile", 0.5))
    small = np.abs(z) <= delta
    return {
        "hinge": np.maximum(z, 0),
        "squared_hinge": np.maximum(z, 0) ** 2,
        "least-squares": z**2,
        "logistic": np.maximum(z - 1, 0) + np.log1p(np.exp(-np.abs(z - 1))),
        "epsilon_insensitive": beyond,
        "squared_epsilon_insensitive": beyond**2,
        "quantile": np.maximum(share * z, (share - 1) * z),
        "huber": np.where(small, z**2 / 2, delta * np.abs(z) - delta**2 / 2),
    }[name]


def joint_loss(scores, y, form):
    """(n,) losses of all classes at once."""
    n = np.arange(len(y))
    over = scores - scores[n, y][:, None]
    if form == "softmax":
        top = over.max(axis=1)
        return top + np.log(np.exp(over - top[:, None]).sum(axis=1))
    over += 1
    over[n, y] = 0
    return over.max(axis=1) if form == "crammer-singer" else np.maximum(over, 0).sum(axis=1)


def primals(model, X, y, weight, options):
    """(p,) objectives of the model's weights."""
    X = PRECISE(X.toarray() if sp.issparse(X) else X)
    W, b = PRECISE(model.coef_), PRECISE(model.intercept_)
    scores = X @ W.T + b
    if KINDS[options["loss"]] == UNLABELLED:  # ½‖w‖² + ν Σ c_i b + Σ c_i max(0, −(w·x_i + b)), b = −ρ
        share = PRECISE(options["nu"]) * weight.sum()
        return [(W**2).sum() / 2 + share * b[0] + weight @ np.maximum(-scores[:, 0], 0)]
    cost = PRECISE(options["C"]) * weight
    last = b / PRECISE(options["bias"]) if options["bias"] else 0 * b
    l1 = PRECISE({"l2": 0.0, "l1": 1.0}.get(options["penalty"], 0.5))
    norms = (1 - l1) / 2 * ((W**2).sum(axis=1) + last**2) + l1 * (np.abs(W).sum(axis=1) + np.abs(last))
    if options["multiclass"] in JOINT:
        if len(W) == 1:  # the difference of two classes' weights
            scores = np.concatenate([-scores, scores], axis=1) / 2
            norms = norms / 2
        return [norms.sum() + cost @ joint_loss(scores, y, options["multiclass"])]
    if KINDS[options["loss"]] != CLASSIFICATION:
        return [norms[0] + cost @ loss_of(y - scores[:, 0], options)]
    signs = [np.where(y == (1 if len(W) == 1 else k), 1, -1) for k in range(len(W))]
    return [norms[k] + cost @ loss_of(1 - s * scores[:, k], options) for k, s in enumerate(signs)]


@st.composite
def problems(draw):
    """Rows, labels, weights and options, scales far apart."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, d = draw(st.sampled_from([(30, 3), (6, 12), (12, 1), (3, 2)]))
    loss = draw(st.sampled_from(sorted(KINDS)))
    options = {"loss": loss, "penalty": "l2", "multiclass": "ovr"}
    if KINDS[loss] == UNLABELLED:
        options["nu"] = draw(st.sampled_from([1e-3, 0.3, 0.99, 1.0]))
    else:
        options |= {"C": 10.0 ** draw(st.integers(-6, 8)), "bias": draw(st.sampled_from([0.0, 1.0]))}
    X = rng.normal(size=(n, d)) * 10.0 ** (draw(st.sampled_from([0, 1, 4])) * rng.uniform(-1, 1, d))
    X += draw(st.sampled_from([0, 0, 1e3]))
    unit = 10.0 ** draw(st.sampled_from([0, 0, -18, -9, 6]))
    if KINDS[loss] in (CLASSIFICATION, UNLABELLED):
        y = rng.integers(0, draw(st.sampled_from([2, 3])), n)
        y[:2] = 0, 1
    else:
        y = unit * (rng.normal(size=n) + draw(st.sampled_from([0, 100])))
    if "epsilon" in loss:
        options["epsilon"] = unit * draw(st.sampled_from([0, 0.1, 1e3]))
    if loss == "quantile":
        options["quantile"] = draw(st.sampled_from([0.5, 0.999]))
    if loss == "huber":
        options["delta"] = unit * draw(st.sampled_from([1e-6, 1, 1e6]))
    if loss == "hinge":
        options["multiclass"] = draw(st.sampled_from(["ovr", "crammer-singer", "weston-watkins"]))
    if loss == "logistic":
        options["multiclass"] = draw(st.sampled_from(["ovr", "softmax"]))
    if options["multiclass"] == "ovr" and KINDS[loss] != UNLABELLED:
        options["penalty"] = draw(st.sampled_from(["l2", "l2", "l1", "elasticnet"]))
    weight = 10.0 ** (draw(st.sampled_from([0, 0, 6])) * rng.uniform(-1, 1, n))
    weight[2:] *= draw(st.sampled_from([1, 1, 0]))
    return (
        (sp.csr_matrix(X) if draw(st.booleans()) else X),
        y,
        weight,
        options,
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@settings(max_examples=40, deadline=None, derandomize=True)
@given(problems())
def test_no_certificate_is_false(problem):
    X, y, weight, options = problem
    direct = options["multiclass"] in JOINT
    ways = ["auto"] if direct or options["penalty"] != "l2" else ["auto", "llsvm", "smsvm"]
    if KINDS[options["loss"]] == UNLABELLED:
        ways = ["llsvm"]
    models = [run(X, y, weight, solver=way, max_passes=30, **options).model for way in ways]
    found = [primals(model, X, y, weight, options) for model in models]
    least = np.min(np.array(found), axis=0)
    for way, model, true in zip(ways, models, found, strict=True):
        claimed = model.certificate
        rounding = claimed.rounding or (0.0,) * len(true)
        for j, primal in enumerate(true):
            assert primal <= claimed.primal[j] + rounding[j] + OFF * abs(primal), way
            assert claimed.dual[j] <= least[j] + OFF * abs(least[j]), way
