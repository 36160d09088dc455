"""``verify`` with a state: the dual point that a model's weights make, whatever they are, held against loops."""

import itertools
from dataclasses import replace
from functools import cache
from math import exp, log

import numpy as np
import pytest
import scipy.sparse as sp
from cells import in_turn, pairwise
from kept_duals import found_in, of_row, problems_of, with_shares
from oracle import rows, small_pages
from test_verify_losses import EPSILON, OPTIONS, slope_by_hand

import llsvm
from llsvm.state.container import AT_WEIGHTS
from llsvm.verification import products

X, Y = rows(n=60, d=4, noise=0.6)
X3, Y3 = rows(n=60, d=4, classes=3, noise=0.6)
SPARSE, SPARSE_Y = rows(n=60, d=5, density=0.5, noise=0.6)
NUMBERS = (
    (X @ np.arange(4.0) * 2.0 + np.random.default_rng(0).normal(size=60)).astype(np.float32).astype(float)
)
WEIGHTS = np.random.default_rng(7).uniform(0.2, 3.0, 60).astype(np.float32)
WEIGHTS[::10] = 0.0
NEWTON = {"solver": "smsvm", "tol": 0.3, "threads": 1, "C": 2.5}
CASES = {
    "l1": (X, Y, {"penalty": "l1", "bias": 0.7}),
    "l1, intercept": (X, Y, {"penalty": "l1", "intercept": True}),
    "l1, squares": (sp.csr_matrix(SPARSE), SPARSE_Y, {"penalty": "l1", "loss": "squared_hinge"}),
    "l1, squares, intercept": (X, Y, {"penalty": "l1", "loss": "squared_hinge", "intercept": True}),
    "l1, logistic": (X, Y, {"penalty": "l1", "loss": "logistic", "intercept": True}),
    "elastic net": (X3, Y3, {"penalty": "elasticnet", "bias": 1.0, "class_weight": {1: 3.0}}),
    "elastic net, squares": (X3, Y3, {"penalty": "elasticnet", "loss": "squared_hinge", "l1_ratio": 0.3}),
    "elastic net, epsilon": (X, NUMBERS, {"penalty": "elasticnet", "loss": "epsilon_insensitive"}),
    "l1, quantile": (X, NUMBERS, {"penalty": "l1", "loss": "quantile", "bias": 0.7}),
    "l1, huber": (X, NUMBERS, {"penalty": "l1", "loss": "huber"}),
    "elastic net, huber": (X, NUMBERS, {"penalty": "elasticnet", "loss": "huber"}),
    "l1, squared epsilon": (X, NUMBERS, {"penalty": "l1", "loss": "squared_epsilon_insensitive"}),
    "intercept": (X, Y, {"intercept": True}),
    "intercept, least squares": (X, Y, {"intercept": True, "loss": "least-squares"}),
}
SOFTMAX = {
    "softmax": {"bias": 0.7},
    "softmax, intercept": {"intercept": True},
}
BENT = [0.4, 0.7, 0.1]  # smoothings


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """By name: the model and the folder of its state; trained once."""

    @cache
    def of(name):
        state = tmp_path_factory.mktemp("state")
        if name in SOFTMAX:
            options = {"multiclass": "softmax", "loss": "logistic", "tol": 0.3, "threads": 1, "C": 2.5}
            options |= SOFTMAX[name]
            return llsvm.train(X3, Y3, sample_weight=WEIGHTS, state=state, **options), state
        features, labels, options = CASES[name]
        options = {**NEWTON, **OPTIONS.get(options.get("loss"), {}), **options}
        return llsvm.train(features, labels, sample_weight=WEIGHTS, state=state, **options), state

    return of


@pytest.fixture(params=[False, True], ids=["whole", "in pieces"])
def in_pieces(request, monkeypatch):
    if request.param:
        small_pages(monkeypatch)
        monkeypatch.setattr(products, "PIECE_VALUES", 17)


def weights_like(model, kind):
    """Other weights: near to the trained ones, at random, large, or so large that no row is near the margin."""
    coef, intercept, rng = model.coef_, model.intercept_, np.random.default_rng(5)
    if kind == "random":
        coef, intercept = rng.normal(size=coef.shape), rng.normal(size=intercept.shape)
    factor = {"trained": 1.0, "random": 1.0, "small": 0.01, "large": 20.0, "against": -20.0}[kind]
    return replace(model, coef_=factor * coef, intercept_=factor * intercept)


def best(linear, squares, sizes, l1, l2, bounded):
    """The best D(s α), and the size of its terms: quadratic between the s at which an |s v_j| passes l1."""
    if linear <= 0:
        return 0.0, 0.0
    end = 1.0 if bounded or squares == 0 else linear / (2.0 * squares)
    if l2 == 0 and max(sizes) > 0:
        end = min(end, l1 / max(sizes))

    def less(s):
        over = [max(0.0, s * size - l1) for size in sizes]
        return s * s * squares + (sum(each * each for each in over) / (2.0 * l2) if l2 else 0.0)

    knots, candidates = (
        sorted({0.0, end, *(l1 / size for size in sizes if size > 0 and l1 / size < end)}),
        [end],
    )
    if l2:
        for low, high in itertools.pairwise(knots):
            used = [size for size in sizes if 0.5 * (low + high) * size > l1]
            curvature = 2.0 * squares + sum(size * size for size in used) / l2
            if curvature > 0:
                top = (linear + sum(size * l1 for size in used) / l2) / curvature
                candidates.append(min(max(top, low), high))
    elif squares > 0:
        candidates.append(min(end, linear / (2.0 * squares)))
    s = max(candidates, key=lambda each: each * linear - less(each))
    return s * linear - less(s), s * linear + less(s)


def margins_by_hand(features, labels, model, options, smoothings, C=2.5):
    """(values, sizes) of each problem."""
    Z = features.toarray() if sp.issparse(features) else features
    numbers = labels is NUMBERS
    loss, bias = options.get("loss", "hinge"), options.get("bias", 0.0)
    l1, free = (
        {"l1": 1.0, "elasticnet": options.get("l1_ratio", 0.5)}.get(options.get("penalty"), 0.0),
        "intercept" in options,
    )
    factors, values, sizes = options.get("class_weight", {}), [], []
    problems = problems_of(labels, 0 if numbers else len(np.unique(labels)), options.get("multiclass", "ovr"))
    for number, (sign_of, _) in enumerate(problems):
        smoothing = smoothings[number]
        scores = Z @ model.coef_[number] + model.intercept_[number]
        terms = []  # α y, linear, squares, row
        for i in range(len(Z)):
            own, target = (0, labels[i]) if numbers else (labels[i], 1.0)
            if own not in sign_of:
                continue
            cost = C * float(WEIGHTS[i])
            if len(sign_of) == 2 or sign_of[own] > 0:  # one against the rest: of positive rows alone
                cost *= factors.get(own, 1.0)
            a = slope_by_hand(loss, sign_of[own] * scores[i], target, smoothing)
            squares = {"squared_hinge": 0.25, "least-squares": 0.25, "squared_epsilon_insensitive": 0.25}.get(
                loss, 0.0
            )
            squares = (0.5 if loss == "huber" else squares) * a * a
            b = of_row(loss, a, target, EPSILON)
            terms.append((cost * a * sign_of[own], cost * (b + squares), cost * squares, i))
        above, below = sum(max(0.0, t[0]) for t in terms), sum(max(0.0, -t[0]) for t in terms)
        up = down = 1.0
        if free:
            up = min(above, below) / above if above else 0.0
            down = min(above, below) / below if below else 0.0
        linear = squares = total = 0.0
        v = np.zeros(Z.shape[1])
        for alpha, b, square, i in terms:
            share = up if alpha > 0 else down
            linear, squares = linear + share * b, squares + share * share * square
            v, total = v + share * alpha * Z[i], total + share * alpha
        lengths = np.abs(v).tolist() + ([] if free else [abs(bias * total)])
        bounded = loss not in ("squared_hinge", "least-squares", "squared_epsilon_insensitive")
        value, size = best(linear, squares, lengths, l1, 1.0 - l1, bounded)
        values.append(value)
        sizes.append(size)
    return np.array(values), np.array(sizes)


@pytest.mark.parametrize(
    ("name", "kind"), in_turn(CASES, ["trained", "random", "small", "large", "against"], 2)
)
def test_of_any_weights_it_is_the_best_on_its_ray(name, kind, trained, tmp_path, in_pieces):
    features, labels, options = CASES[name]
    model, state = trained(name)
    model = weights_like(model, kind)
    smoothings = BENT[: len(model.coef_)]
    with_shares(state, tmp_path / "S", lambda shares: shares, **{AT_WEIGHTS: smoothings})
    dual = found_in(model, features, labels, WEIGHTS, tmp_path / "S").dual
    values, sizes = margins_by_hand(features, labels, model, options, smoothings)
    assert dual.proves
    assert np.abs(dual.values - values).max() <= 1e-9 * max(sizes.max(), 1e-9)
    assert dual.sizes == pytest.approx(sizes, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "kind", "C"),
    pairwise(
        [name for name in CASES if "squared" in name or "squares" in name or "huber" in name],
        ["trained", "large"],
        [1e-2, 1e-4, 1e-8],
    ),
)
def test_where_nothing_bounds_it_the_best_may_be_farther(name, kind, C, trained, tmp_path):
    """Than the slopes themselves: these are small, and with a small C nothing else is in the way. Of huber they are
    bounded."""
    features, labels, options = CASES[name]
    model, state = trained(name)
    model = replace(weights_like(model, kind), settings=model.settings | {"C": C})
    smoothings = [0.0] * len(model.coef_)
    with_shares(state, tmp_path / "S", lambda shares: shares, **{AT_WEIGHTS: smoothings})
    dual = found_in(model, features, labels, WEIGHTS, tmp_path / "S").dual
    values, sizes = margins_by_hand(features, labels, model, options, smoothings, C)
    assert np.abs(dual.values - values).max() <= 1e-9 * sizes.max()
    assert dual.sizes == pytest.approx(sizes, rel=1e-6)


def softmax_by_hand(model, options, C=2.5, weight=WEIGHTS):
    free, bias = "intercept" in options, options.get("bias", 0.0)
    halves = model.coef_, model.intercept_
    scores = X3 @ halves[0].T + halves[1]
    n, k = scores.shape
    cost = C * weight.astype(float)
    p, entropy = np.zeros((n, k)), 0.0
    for i in range(n):
        up = [exp(each - max(scores[i])) for each in scores[i]]
        p[i] = [each / sum(up) for each in up]
        entropy += cost[i] * sum(-each * log(each) for each in p[i] if each > 0)
    Z = X3 if free else np.c_[X3, np.full(n, bias)]
    own = np.eye(k)[Y3]
    if free:
        n_of, now = cost @ own, cost @ p
        s = min(max(max(1.0 - n_of[m] / now[m] for m in range(k) if now[m] > 0), 0.0), 1.0)
        if s > 1e-15:
            q = (n_of - (1.0 - s) * now) / s
            q = np.maximum(q, 0.0) / cost.sum()
            entropy = (1.0 - s) * entropy + s * cost.sum() * sum(
                -each * log(each) for each in q if each > 1e-14
            )
            p = (1.0 - s) * p + s * q
    gradient = ((p - own) * cost[:, None]).T @ Z
    norm = (gradient**2).sum()
    t = min(1.0, entropy / norm) if norm > 0 else 1.0
    return t * entropy - 0.5 * t * t * norm, t * entropy + 0.5 * t * t * norm


@pytest.mark.parametrize("kind", ["trained", "random", "small", "large", "against"])
@pytest.mark.parametrize("name", SOFTMAX)
def test_so_it_is_of_softmax(name, kind, trained, tmp_path, in_pieces):
    model, state = trained(name)
    model = weights_like(model, kind)
    dual = found_in(model, X3, Y3, WEIGHTS, state).dual
    value, size = softmax_by_hand(model, SOFTMAX[name])
    assert dual.sizes[0] == pytest.approx(size, rel=1e-9)
    assert abs(dual.values[0] - value) <= 1e-10 * size


@pytest.mark.parametrize("C", [2.5, 1e-3])
@pytest.mark.parametrize("name", SOFTMAX)
def test_so_it_is_where_most_rows_are_given_one_class(name, C, trained):
    """Which takes most of the way back to the weights of the classes."""
    model, state = trained(name)
    model = replace(
        model,
        coef_=5.0 * model.coef_,
        intercept_=model.intercept_ + np.array([30.0, 0.0, 0.0]),
        settings=model.settings | {"C": C},
    )
    dual = found_in(model, X3, Y3, WEIGHTS, state).dual
    value, size = softmax_by_hand(model, SOFTMAX[name], C)
    assert dual.sizes[0] == pytest.approx(size, rel=1e-9)
    assert abs(dual.values[0] - value) <= 1e-10 * size


@pytest.mark.parametrize("options", SOFTMAX.values())
def test_of_rows_that_are_certain_nothing_is_left(options, tmp_path):
    apart = np.array([[4.0, 0.0], [0.0, 4.0], [-4.0, -4.0]] * 5)
    labels = np.arange(15) % 3
    model = llsvm.train(
        apart, labels, multiclass="softmax", loss="logistic", threads=1, tol=0.3, state=tmp_path, **options
    )
    model = replace(model, coef_=1e4 * apart[:3], intercept_=np.zeros(3))
    dual = found_in(model, apart, labels, None, tmp_path).dual
    assert (dual.values[0], dual.sizes[0]) == (0.0, 0.0)


@pytest.mark.parametrize("options", SOFTMAX.values())
def test_where_rows_balance_each_other_it_is_their_entropy(options, tmp_path):
    """Each row is there once of each class, and weights are 0."""
    twice, labels = np.repeat(np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 4.0]]), 2, axis=0), np.arange(6) % 2
    model = llsvm.train(
        twice, labels, multiclass="softmax", loss="logistic", threads=1, tol=0.3, state=tmp_path, **options
    )
    model = replace(model, coef_=np.zeros((1, 2)), intercept_=np.zeros(1))
    dual = found_in(model, twice, labels, None, tmp_path).dual
    assert dual.values[0] == pytest.approx(6.0 * log(2.0), rel=1e-14)
    assert dual.sizes[0] == pytest.approx(6.0 * log(2.0), rel=1e-14)


@pytest.mark.parametrize("no_rows", [False, True])
def test_a_class_that_no_row_is_given(no_rows, trained, tmp_path):
    """Its probability is less than any number; also where its rows count nothing."""
    model, state = trained("softmax, intercept")
    away = model.intercept_ - np.array([0.0, 0.0, 2000.0])
    model = replace(model, coef_=5.0 * model.coef_, intercept_=away)
    weight = np.where(Y3 == 2, 0.0, WEIGHTS).astype(np.float32) if no_rows else WEIGHTS
    dual = found_in(model, X3, Y3, weight, state).dual
    value, size = softmax_by_hand(model, SOFTMAX["softmax, intercept"], weight=weight)
    assert dual.sizes[0] == pytest.approx(size, rel=1e-9)
    assert abs(dual.values[0] - value) <= 1e-10 * size


@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("constant", [{}, {"intercept": True}])
def test_nor_is_it_where_every_row_is_beyond_the_margin(penalty, loss, constant, tmp_path):
    apart, labels = np.array([[4.0, 0.0], [-4.0, 1.0]] * 5), np.arange(10) % 2
    model = llsvm.train(
        apart,
        labels,
        solver="smsvm",
        penalty=penalty,
        loss=loss,
        threads=1,
        tol=0.3,
        state=tmp_path,
        **constant,
    )
    model = replace(model, coef_=np.array([[-1e9, 0.0]]), intercept_=np.zeros(1))
    with_shares(tmp_path, tmp_path / "S", lambda shares: shares, **{AT_WEIGHTS: [0.0]})
    dual = found_in(model, apart, labels, None, tmp_path / "S").dual
    assert (dual.values[0], dual.sizes[0]) == (0.0, 0.0)
