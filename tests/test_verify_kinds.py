"""Of every kind of model ``verify`` refuses a changed weight, dual variable, row, C, and claim."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from kept_duals import with_shares
from oracle import rows

import llsvm

X, Y = rows(n=80, d=5, noise=0.6)
X3, Y3 = rows(n=80, d=5, classes=3, noise=0.6)
NUMBERS = X @ np.arange(5.0) * 2.0 + np.random.default_rng(0).normal(size=80) * 3.0
GRAM = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
LINEAR, SMO, NEWTON = (
    {"solver": "llsvm"},
    {"solver": "smo", "kernel": "rbf", "gamma": 0.2},
    {"solver": "smsvm"},
)

BY_ROW = {  # what is trained, with a dual variable outside its bounds
    "hinge": (X, Y, {**LINEAR, "bias": 1.0}, 1.001),
    "squared hinge": (X, Y, {**LINEAR, "loss": "squared_hinge"}, -1e-6),
    "least squares": (X, Y, {**LINEAR, "loss": "least-squares"}, np.inf),
    "logistic": (X, Y, {**LINEAR, "loss": "logistic"}, 1.001),
    "against the rest": (X3, Y3, {**LINEAR, "bias": 1.0}, 1.001),
    "pairs": (X3, Y3, {**LINEAR, "multiclass": "ovo"}, -1e-6),
    "one pair": (X, Y, {**LINEAR, "multiclass": "ovo"}, -1e-6),
    "crammer-singer": (X3, Y3, {"multiclass": "crammer-singer", "bias": 1.0}, 1.001),
    "weston-watkins": (X3, Y3, {"multiclass": "weston-watkins", "bias": 1.0}, 1.001),
    "epsilon": (X, NUMBERS, {**LINEAR, "loss": "epsilon_insensitive"}, -1.001),
    "squared epsilon": (X, NUMBERS, {**LINEAR, "loss": "squared_epsilon_insensitive"}, np.nan),
    "quantile": (X, NUMBERS, {**LINEAR, "loss": "quantile", "quantile": 0.3}, 0.3003),
    "huber": (X, NUMBERS, {**LINEAR, "loss": "huber", "delta": 2.0}, 2.002),
    "outliers": (X + 3.0, None, {"loss": "one_class", "nu": 0.3}, 1.001),
    "feature map": (X, Y, {**LINEAR, "feature_map": "rff", "gamma": 0.1, "components": 20}, 1.001),
    "kernel": (X, Y, {**SMO, "bias": 0.7}, 1.001),
    "kernel, sparse": (sp.csr_matrix(X), Y, SMO, 1.001),
    "kernel, intercept": (X, Y, {**SMO, "intercept": True}, 1.001),
    "kernel, against the rest": (X3, Y3, SMO, 1.001),
    "kernel, pairs": (X3, Y3, {**SMO, "multiclass": "ovo"}, 1.001),
    "kernel, squared hinge": (X, Y, {**SMO, "loss": "squared_hinge"}, -1e-6),
    "kernel, nesvm": (X, Y, {**SMO, "solver": "nesvm"}, 1.001),
    "matrix": (GRAM, Y, {"solver": "smo", "kernel": "precomputed"}, 1.001),
}
AT_WEIGHTS = {
    "l1": (X, Y, {**NEWTON, "penalty": "l1", "bias": 0.7}),
    "l1, squared hinge": (X, Y, {**NEWTON, "penalty": "l1", "loss": "squared_hinge"}),
    "l1, logistic": (X, Y, {**NEWTON, "penalty": "l1", "loss": "logistic"}),
    "l1, against the rest": (X3, Y3, {**NEWTON, "penalty": "l1", "loss": "squared_hinge"}),
    "l1, huber": (X, NUMBERS, {**NEWTON, "penalty": "l1", "loss": "huber", "delta": 2.0}),
    "elastic net": (X, Y, {**NEWTON, "penalty": "elasticnet"}),
    "intercept": (X, Y, {**NEWTON, "intercept": True}),
    "softmax": (X3, Y3, {"multiclass": "softmax", "loss": "logistic", "bias": 1.0}),
}
KINDS = {name: case[:3] for name, case in (BY_ROW | AT_WEIGHTS).items()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """By name: a model and the folder of its state; trained once.

    Both are then taken off their optimum, dual variables nearer to 0, or to each other where their sum is given,
    and the claim is made theirs: there is a gap, and what is changed shows."""

    @cache
    def of(name):
        features, labels, options = KINDS[name]
        state, off = tmp_path_factory.mktemp("state"), tmp_path_factory.mktemp("off")
        model = llsvm.train(features, labels, tol=0.03, threads=1, state=state, **options)
        with_shares(state, off, lambda shares: 0.9 * shares + (0.1 * shares[::-1] if labels is None else 0.0))
        model = replace(model, coef_=1.05 * model.coef_, converged=False)
        found = llsvm.verify(model, features, labels, state=off)["problems"]
        primal, dual = (tuple(each[which] for each in found) for which in ("primal", "dual"))
        claim = replace(model.certificate, primal=primal, dual=dual)
        return replace(model, certificate=claim), off

    return of


def refused(name, model, state=None, labels=None):
    """What is said against the model, which is refused."""
    features = KINDS[name][0]
    found = llsvm.verify(model, features, KINDS[name][1] if labels is None else labels, state=state)
    assert not found["holds"]
    return found["differences"]


@pytest.mark.parametrize("name", KINDS)
def test_a_claim_that_is_true_is_accepted(name, trained):
    features, labels, _ = KINDS[name]
    model, state = trained(name)
    found = llsvm.verify(model, features, labels, state=state)
    assert (found["differences"], found["not_checked"]) == ([], "")
    assert found["dual"] is not None


@pytest.mark.parametrize("name", KINDS)
def test_a_weight_changed_by_a_ten_thousandth_is_refused(name, trained):
    model, state = trained(name)
    for problem in range(len(model.coef_)):
        coef = model.coef_.copy()
        coef[problem, np.argmax(np.abs(coef[problem]))] *= 1.0 + 1e-4
        for kept in (None, state):
            said = refused(name, replace(model, coef_=coef), kept)
            assert said[0].startswith("the primal")


@pytest.mark.parametrize("name", BY_ROW)
def test_a_dual_variable_outside_its_bounds_is_refused(name, trained, tmp_path):
    model, state = trained(name)
    place = (int(np.flatnonzero(Y3 != 0)[0]), 0)  # of the joint problems one of another class

    def change(shares):
        shares[place] = BY_ROW[name][3]
        return shares

    said = refused(name, model, with_shares(state, tmp_path / "S", change))
    assert said[0].startswith("1 rows have dual variables outside their bounds")
    assert f"(that of row {place[0] + 1} is " in said[0]


@pytest.mark.parametrize("name", KINDS)
def test_two_rows_that_changed_places_are_refused(name, trained):
    """By their labels, and where there are none, by the dual variables."""
    features, labels, _ = KINDS[name]
    model, state = trained(name)
    other = np.linalg.norm(X + 3.0, axis=1) if labels is None else labels
    i, j = int(np.argmin(other)), int(np.argmax(other))
    if labels is None:
        order = np.arange(len(X))
        order[[i, j]] = j, i
        assert llsvm.verify(model, features[order])["holds"]
        found = llsvm.verify(model, features[order], state=state)
        assert found["differences"][0].startswith("the dual is ")
        return
    swapped = labels.copy()
    swapped[[i, j]] = labels[[j, i]]
    for kept in (None, state):
        assert refused(name, model, kept, swapped)[0].startswith("the primal")


@pytest.mark.parametrize("name", KINDS)
def test_another_C_is_refused(name, trained):
    """Of outliers another share of them, which is theirs."""
    model, state = trained(name)
    option = "nu" if name == "outliers" else "C"
    other = replace(model, settings={**model.settings, option: 1.0001 * model.settings[option]})
    assert refused(name, other)[0].startswith("the primal")
    assert refused(name, other, state)[0].startswith("the state is of -")


@pytest.mark.parametrize("name", KINDS)
def test_a_claim_of_half_the_gap_is_refused(name, trained):
    model, state = trained(name)
    claim = model.certificate
    gaps = np.array(claim.primal) - np.array(claim.dual)
    worst = int(np.argmax(gaps))
    assert gaps[worst] > 1e-4 * abs(claim.primal[worst])
    better = list(claim.dual)
    better[worst] += 0.5 * gaps[worst]
    assert refused(name, replace(model, certificate=replace(claim, dual=tuple(better))), state)[0].startswith(
        "the dual"
    )
    better = list(claim.primal)
    better[worst] -= 0.5 * gaps[worst]
    half = replace(model, certificate=replace(claim, primal=tuple(better)))
    for kept in (None, state):
        assert refused(name, half, kept)[0].startswith("the primal")
