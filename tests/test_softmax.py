"""Multinomial logistic regression: its passes against their definitions, the solver against scikit-learn's."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from cells import pairwise
from oracle import rows, small_pages, write_svmlight
from scipy.special import logsumexp
from scipy.special import softmax as shares
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from state_suite import Case, check_refuses, check_resumes

import llsvm
from llsvm.data import open_source
from llsvm.errors import DataError, UsageError
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.plan import left_after_reading, smallest_for
from llsvm.objective.problems import RowCosts
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.solvers.softmax.passes import Curvature, Passes
from llsvm.solvers.softmax.solver import Softmax, balanced, layout
from llsvm.stream.stream import Stream

ASKED = {"multiclass": "softmax", "loss": "logistic"}
ORDER = "llsvm.solvers.softmax.solver.MOST_ORDER"
WHOLE = 2000  # orders of Hessians at most: for a Hessian of all weights
SHARED = 10  # ... for conjugate gradients, with a Hessian that classes share
PRODUCTS = 0  # ... with the diagonal


def primal(W, X, y, cost):
    s = X @ W
    return 0.5 * np.sum(W * W) + cost @ (logsumexp(s, axis=1) - s[np.arange(len(y)), y])


def optimum(X, y, C, weight=None):
    """scikit-learn's; the constant feature is a column of X."""
    made = LogisticRegression(C=C, solver="newton-cg", tol=1e-9, max_iter=10_000, fit_intercept=False)
    return made.fit(X, y, sample_weight=weight).coef_.T


def with_one(X):
    return np.hstack([X, np.ones((len(X), 1))])


def trained(tmp_path, X, y, weight=None, ledger=100_000_000, threads=2, class_weight=1.0, **settings):
    """The last report, and where the rows went. From a text file where the ledger is small."""
    options = Settings(**{"tol": 1e-6, "bias": 1.0, "scale": "none", **ASKED, **settings})
    k = len(np.unique(y))
    file = ledger < 10_000_000 and weight is None
    source = open_source(write_svmlight(tmp_path / "rows.svm", X, y)) if file else open_source(X, y, weight)
    with Stream(source, MemoryBudget(ledger, 0), tmp_path, cache="auto", has_bias=True) as stream:
        stream.read()
        solver = Softmax(options, np.ones(k) * class_weight, threads)
        *_, last = solver.solve(stream)
        return replace(last, coef=np.array(last.coef)), stream.in_one_block


@pytest.mark.parametrize("dense", [True, False])
def test_a_pass_sums_value_gradient_and_hessian(tmp_path, dense):
    X, y = rows(n=90, d=4, classes=3, density=0.6)
    weight = np.random.default_rng(0).integers(0, 3, 90).astype(float)
    rng, wide = np.random.default_rng(1), with_one(X)
    W, way = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    factors = np.array([0.5, 1.0, 2.0])
    cost = factors[y] * weight
    source = open_source(X if dense else sp.csr_matrix(X), y, weight)
    with (
        Stream(source, MemoryBudget(50_000_000, 0), tmp_path, cache="auto", has_bias=True) as stream,
        Threads(2) as threads,
    ):
        stream.read()
        stream.prepare(Softmax(Settings(**ASKED), np.ones(3)).needs(stream.memory_left))
        found, curvature = {}, {kind: kind.zeros(5, 3) for kind in Curvature}
        for kind in Curvature:
            passes = Passes(stream, RowCosts(factors), threads, 1.0, kind)
            found[kind] = passes.measure(W, curvature[kind])
        product = passes.product(W, way)
    p = shares(wide @ W, axis=1)
    own = np.eye(3)[y]
    for sums in found.values():
        assert sums.loss == pytest.approx(primal(W, wide, y, cost) - 0.5 * np.sum(W * W))
        assert sums.entropy == pytest.approx(cost @ -(p * np.log(p)).sum(axis=1))
        np.testing.assert_allclose(sums.gradient, wide.T @ (cost[:, None] * (p - own)), atol=1e-9)
    whole = np.zeros((15, 15))
    for x, q, c in zip(wide, p, cost, strict=True):
        whole += c * np.kron(np.diag(q) - np.outer(q, q), np.outer(x, x))
    np.testing.assert_allclose(curvature[Curvature.DIAGONAL].T.ravel(), np.diag(whole))
    np.testing.assert_allclose(np.tril(curvature[Curvature.WHOLE].reshape(15, 15)), np.tril(whole), atol=1e-9)
    shared = wide.T @ (0.5 * cost * (1.0 - (p * p).sum(axis=1)) * wide.T).T
    np.testing.assert_allclose(np.tril(curvature[Curvature.SHARED]), np.tril(shared), atol=1e-9)
    np.testing.assert_allclose(product.T.ravel(), whole @ way.T.ravel())


@pytest.mark.parametrize("order", [WHOLE, SHARED, PRODUCTS])
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("C", [0.01, 10.0])
def test_the_optimum_is_scikit_learns(tmp_path, monkeypatch, order, dense, C):
    monkeypatch.setattr(ORDER, order)
    X, y = rows(n=300, d=6, classes=4, density=1.0 if dense else 0.4)
    weight = np.random.default_rng(2).uniform(0.0, 2.0, 300).astype(np.float32).astype(float)
    last, _ = trained(tmp_path, X if dense else sp.csr_matrix(X), y, weight, C=C)
    assert last.converged
    W, cost = optimum(with_one(X), y, C, weight), C * weight
    best = primal(W, with_one(X), y, cost)
    assert primal(last.coef.T, with_one(X), y, cost) == pytest.approx(best, rel=2e-6)
    assert last.certificate.primal[0] == pytest.approx(best, rel=2e-6)
    assert last.certificate.dual[0] <= best * (1 + 1e-9)
    np.testing.assert_allclose(last.coef.T, W, atol=0.02 * np.abs(W).max())


@pytest.mark.parametrize("order", [WHOLE, SHARED, PRODUCTS])
@pytest.mark.parametrize("constant", [{"bias": 1.0}, {"bias": 0.0, "intercept": True}])
def test_out_of_core_it_is_the_same_optimum(tmp_path, monkeypatch, order, constant):
    monkeypatch.setattr(ORDER, order)
    X, y = rows(n=900, d=8, classes=3)
    at_hand, one = trained(tmp_path, X, y, C=0.1, tol=1e-5, **constant)
    small_pages(monkeypatch)
    solver = Softmax(Settings(**ASKED, **constant), np.ones(3), 1)
    ledger = solver.needs(_left(tmp_path, X, y)).nbytes + 38_000
    blocks, two = trained(tmp_path, X, y, C=0.1, tol=1e-5, ledger=ledger, threads=1, **constant)
    assert (one, two) == (True, False)
    assert at_hand.converged
    assert blocks.converged
    assert blocks.certificate.primal[0] == pytest.approx(at_hand.certificate.primal[0], rel=1e-5)
    if order != WHOLE:  # each product is a pass
        assert blocks.passes > at_hand.passes


def _left(folder, X, y):
    with Stream(
        open_source(X, y), MemoryBudget(50_000_000, 0), folder, cache="auto", has_bias=True
    ) as stream:
        stream.read()
        return left_after_reading(stream.dataset, 50_000_000, {})


def test_class_weights_are_factors_of_the_cost(tmp_path):
    X, y = rows(n=200, d=5, classes=3)
    factors = np.array([0.3, 1.0, 3.0])
    last, _ = trained(tmp_path, X, y, class_weight=factors)
    assert last.certificate.primal[0] == pytest.approx(
        primal(optimum(with_one(X), y, 1.0, factors[y]), with_one(X), y, factors[y]), rel=2e-6
    )


@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
def test_raw_columns_end_certified(C, load):
    X, y = load(return_X_y=True)
    model = llsvm.train(
        X, y, C=C, scale="none", bias=1.0, threads=1, memory_limit="2GB", max_passes=40, **ASKED
    )
    assert model.certificate.relative_gap <= 1e-3
    if C < 1e4:
        best = primal(optimum(with_one(X), y, C), with_one(X), y, np.full(len(y), C))
        assert best * (1 - 1e-6) <= model.certificate.primal[0] <= best * 1.001


def test_probabilities_are_the_softmax_of_the_scores():
    X, y = load_iris(return_X_y=True)
    model = llsvm.train(X, y, bias=1.0, scale="none", memory_limit="2GB", **ASKED)
    found = model.predict_proba(X)
    np.testing.assert_allclose(found, shares(model.decision_function(X), axis=1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = LogisticRegression(tol=1e-8, max_iter=10_000, fit_intercept=False).fit(with_one(X), y)
    np.testing.assert_allclose(found, known.predict_proba(with_one(X)), atol=0.03)
    assert (model.predict(X) == y).mean() > 0.95


def test_of_two_classes_the_difference_decides():
    X, y = rows(n=200, d=4, classes=2)
    model = llsvm.train(X, y, bias=1.0, scale="none", tol=1e-8, memory_limit="2GB", **ASKED)
    assert model.coef_.shape == (1, 4)
    # ½‖w₁‖² + ½‖w₀‖² of weights ± w/2 is ¼‖w‖²: half the penalty
    known = LogisticRegression(C=2.0, tol=1e-10, max_iter=10_000, fit_intercept=False).fit(with_one(X), y)
    np.testing.assert_allclose(model.predict_proba(X), known.predict_proba(with_one(X)), atol=1e-4)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"multiclass": "softmax"}, "multiclass softmax needs loss logistic$"),
        ({"multiclass": "crammer-singer", "loss": "logistic"}, "leave one of them out"),
        ({**ASKED, "penalty": "l1"}, "leave one of them out"),
        ({**ASKED, "solver": "llsvm"}, "softmax"),
        ({**ASKED, "intercept": True, "bias": 1.0}, "choose one"),
    ],
)
def test_what_does_not_go_together_is_refused(options, said):
    with pytest.raises(UsageError, match=said):
        Settings(**options)


def with_intercept(X, y, C, weight):
    """scikit-learn's optimum where the intercept is not penalised: its weights (d + 1, k), and the objective."""
    made = LogisticRegression(C=C, solver="newton-cg", tol=1e-9, max_iter=10_000).fit(
        X, y, sample_weight=weight
    )
    scores = X @ made.coef_.T + made.intercept_
    loss = C * weight @ (logsumexp(scores, axis=1) - scores[np.arange(len(y)), y])
    return np.vstack([made.coef_.T, made.intercept_]), 0.5 * np.sum(made.coef_**2) + loss


@pytest.mark.parametrize("order", [WHOLE, SHARED, PRODUCTS])
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("C", [1e-3, 10.0])
def test_a_free_intercept_is_scikit_learns(tmp_path, monkeypatch, order, dense, C):
    monkeypatch.setattr(ORDER, order)
    X, y = rows(n=300, d=6, classes=4, density=1.0 if dense else 0.4)
    weight = np.random.default_rng(2).uniform(0.0, 2.0, 300).astype(np.float32).astype(float)
    factors = np.array([0.3, 1.0, 3.0, 1.0])
    last, _ = trained(
        tmp_path,
        X if dense else sp.csr_matrix(X),
        y,
        weight,
        C=C,
        bias=0,
        intercept=True,
        class_weight=factors,
    )
    assert last.converged
    W, best = with_intercept(X, y, C, weight * factors[y])
    assert last.certificate.primal[0] == pytest.approx(best, rel=2e-6)
    assert best * (1 - 2e-6) <= last.certificate.dual[0] <= best * (1 + 1e-9)
    np.testing.assert_allclose(last.coef.T, W, atol=0.02 * np.abs(W).max())
    assert last.coef[:, -1].sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
def test_a_free_intercept_ends_certified_on_raw_columns_and_rare_classes(C, load):
    X, y = load(return_X_y=True)
    weight = np.where(y == 0, 0.01, 1.0).astype(np.float32)
    options = {"C": C, "scale": "none", "intercept": True, "memory_limit": "2GB", "max_passes": 60}
    model = llsvm.train(X, y, sample_weight=weight, threads=1, **options, **ASKED)
    assert model.certificate.relative_gap <= 1e-3
    if C < 1e4 and load is not load_digits:  # which takes scikit-learn minutes
        _, best = with_intercept(X, y, C, weight.astype(float))
        assert best * (1 - 1e-6) <= model.certificate.primal[0] <= best * 1.001


@pytest.mark.parametrize("seed", range(20))
def test_what_makes_p_feasible_gives_no_more_than_its_dual(seed):
    """Far from the optimum: each class in its share of the rows, the gradient that of p', the entropy not above."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, 4)), np.arange(40) % 3
    cost, X[:, -1] = rng.uniform(0.1, 2.0, 40), 1.0
    p, own = shares(rng.normal(scale=3.0, size=(40, 3)), axis=1), np.eye(3)[y]
    sums = X.T @ (cost[:, None] * own)
    entropy, gradient = balanced(cost @ entropies(p), X.T @ (cost[:, None] * (p - own)), sums)
    ratio = (sums[-1] / (cost @ p)).min()
    q = (sums[-1] - ratio * (cost @ p)) / (1 - ratio) / cost.sum()
    assert q.min() >= -1e-12
    feasible = ratio * p + (1 - ratio) * q
    np.testing.assert_allclose(cost @ feasible, sums[-1])
    np.testing.assert_allclose(gradient, (X.T @ (cost[:, None] * (feasible - own)))[:-1], atol=1e-9)
    assert entropy <= cost @ entropies(feasible)


def entropies(p):
    return -(p * np.log(np.maximum(p, 1e-300))).sum(axis=1)


def test_a_class_without_weight_has_no_free_intercept():
    X, y = rows(n=60, d=3, classes=3)
    with pytest.raises(DataError, match=r"class 1 have a weight of 0.* or pass bias 1"):
        llsvm.train(X, y, intercept=True, class_weight={1: 0.0}, memory_limit="2GB", **ASKED)


@pytest.mark.parametrize(
    ("intercept", "threads", "classes", "weighted", "order"),
    [
        (first, *second, third)
        for first, second, third in pairwise(
            [False, True], [(1, 4, False), (2, 3, True), (1, 2, False)], [WHOLE, SHARED, PRODUCTS]
        )
    ],
)
def test_it_goes_on_as_if_it_had_not_been_stopped(
    tmp_path, monkeypatch, order, threads, classes, weighted, intercept
):
    monkeypatch.setattr(ORDER, order)
    constant = {"intercept": True, "bias": 0.0} if intercept else {}
    settings = {"solver": "auto", **ASKED, "C": 10.0, **constant}
    case = Case(settings, threads=threads, classes=classes, weighted=weighted, in_one_block=True)
    check_resumes(case, tmp_path)


@pytest.mark.parametrize(("order", "place"), [(WHOLE, "cache"), (SHARED, "cache"), (PRODUCTS, "source")])
def test_it_goes_on_out_of_core(tmp_path, monkeypatch, order, place):
    monkeypatch.setattr(ORDER, order)
    small_pages(monkeypatch)
    settings = {"solver": "auto", **ASKED, "tol": 1e-3, "max_passes": 9}
    needed = Softmax(Settings(**ASKED), np.ones(3), 1)
    X, y = rows(n=900, d=8, classes=3)
    ledger = needed.needs(_left(tmp_path, X, y)).nbytes + 30_000
    case = Case(settings, ledger=ledger, n=900, classes=3, from_file=place, in_one_block=False)
    check_resumes(case, tmp_path)


def test_states_of_others_are_refused(tmp_path):
    check_refuses(Case({"solver": "auto", **ASKED, "max_passes": 3}, classes=4), tmp_path)


def test_the_hessian_takes_the_memory_that_is_left(tmp_path, monkeypatch):
    """The smallest limits are those without it."""
    X, y = rows(n=3000, d=40, classes=4)
    options = Settings(**ASKED)
    left = _left(tmp_path, X, y)
    solver, limits = Softmax(options, np.ones(4), 2), []
    for order, curvature in ((WHOLE, Curvature.WHOLE), (50, Curvature.SHARED), (0, Curvature.DIAGONAL)):
        monkeypatch.setattr(ORDER, order)
        assert layout(2, left).curvature == curvature
        limits.append([smallest_for(left.dataset, {}, solver.needs, 1, one).nbytes for one in (False, True)])
    assert limits[0] == limits[1] == limits[2]


def test_the_first_certificates_say_little_but_nothing_absurd(tmp_path):
    """Far from the optimum D is bounded from below by what a part of the way from 1_y to p reaches."""
    X, y = rows(n=300, d=6, classes=4)
    last, _ = trained(tmp_path, X * 16.0, y, C=1.0, max_passes=1)
    assert 0 < last.certificate.dual[0] < last.certificate.primal[0]


@pytest.mark.parametrize("in_memory", [True, False])
def test_columns_that_go_together_take_few_products(tmp_path, monkeypatch, in_memory):
    """With the Hessian that classes share as the preconditioner; by the diagonal alone, each step takes many more,
    and out of core each of them is a pass."""
    small_pages(monkeypatch, 4000, 12_000)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1500, 40)) @ (rng.normal(size=(40, 40)) * np.logspace(0, 2, 40))
    y = (X @ rng.normal(size=(40, 4)) / 300 + rng.normal(size=(1500, 4))).argmax(axis=1)
    ledger, made = 100_000_000, []
    monkeypatch.setattr(ORDER, 50)
    multiply = Passes.product
    monkeypatch.setattr(Passes, "product", lambda *given: made.append(1) or multiply(*given))
    if not in_memory:
        needs = Softmax(Settings(**ASKED), np.ones(4), 1).needs(_left(tmp_path, X, y))
        ledger = needs.nbytes + 100_000
    last, whole = trained(tmp_path, X, y, ledger=ledger, threads=1, tol=1e-3, max_passes=200)
    assert whole == in_memory
    assert last.converged
    few, made[:] = len(made), []
    monkeypatch.setattr(ORDER, PRODUCTS)
    trained(tmp_path, X, y, ledger=ledger, threads=1, tol=1e-3, max_passes=200)
    assert len(made) > 2 * few
