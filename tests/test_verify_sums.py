"""``verify`` with a state: what dual variables come to, whatever they are, held against loops over rows."""

from functools import cache
from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp
from kept_duals import (
    by_hand,
    found_in,
    joint_by_hand,
    random_shares,
    with_shares,
)
from oracle import rows, small_pages

import llsvm
from llsvm.data import open_source
from llsvm.verification import dual as dual_module
from llsvm.verification import machines, products, sums

X, Y = rows(n=60, d=4, noise=0.6)
X4, Y4 = rows(n=60, d=4, classes=4, noise=0.6)
SPARSE, SPARSE_Y = rows(n=60, d=5, density=0.5, noise=0.6)
NUMBERS = (
    (X @ np.arange(4.0) * 2.0 + np.random.default_rng(0).normal(size=60)).astype(np.float32).astype(float)
)
WEIGHTS = np.random.default_rng(7).uniform(0.2, 3.0, 60).astype(np.float32)
WEIGHTS[::10] = 0.0
GRAM = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)).astype(np.float32).astype(float)
BANDS = np.where(
    np.arange(60)[:, None] // 12 == np.arange(60) // 12, GRAM, 0.0
)  # whose rows end where they do
ROUGH = {"tol": 0.3, "threads": 1, "C": 2.5}
LINEAR, SMO = {**ROUGH, "solver": "llsvm"}, {**ROUGH, "solver": "smo", "gamma": 0.3}

CASES = {
    "hinge": (X, Y, {**LINEAR, "bias": 0.7}),
    "squared hinge": (sp.csr_matrix(SPARSE), SPARSE_Y, {**LINEAR, "loss": "squared_hinge"}),
    "least squares": (X, Y, {**LINEAR, "loss": "least-squares"}),
    "logistic": (X, Y, {**LINEAR, "loss": "logistic", "bias": 1.3}),
    "epsilon": (X, NUMBERS, {**LINEAR, "loss": "epsilon_insensitive", "epsilon": 0.4}),
    "squared epsilon": (X, NUMBERS, {**LINEAR, "loss": "squared_epsilon_insensitive", "epsilon": 0.4}),
    "quantile": (X, NUMBERS, {**LINEAR, "loss": "quantile", "quantile": 0.3, "bias": 0.7}),
    "huber": (X, NUMBERS, {**LINEAR, "loss": "huber", "delta": 10.1}),
    "against the rest": (X4, Y4, {**LINEAR, "class_weight": {1: 3.0}, "bias": 1.0}),
    "pairs": (X4, Y4, {**LINEAR, "multiclass": "ovo"}),
    "kernel": (X, Y, {**SMO, "kernel": "rbf", "bias": 0.7}),
    "kernel, pairs": (X4, Y4, {**SMO, "kernel": "rbf", "multiclass": "ovo"}),
    "kernel, sparse": (sp.csr_matrix(SPARSE), SPARSE_Y, {**SMO, "kernel": "poly", "degree": 2, "coef0": 0.5}),
    "kernel, linear": (X, Y, {**SMO, "kernel": "linear"}),
    "matrix": (GRAM, Y, {**SMO, "kernel": "precomputed", "bias": 0.7}),
    "matrix, sparse": (sp.csr_matrix(BANDS), Y, {**SMO, "kernel": "precomputed"}),
    "matrix, against the rest": (GRAM, Y4, {**SMO, "kernel": "precomputed"}),
}
JOINT = {
    "crammer-singer": (X4, Y4, {**ROUGH, "multiclass": "crammer-singer", "bias": 0.7}),
    "weston-watkins": (X4, Y4, {**ROUGH, "multiclass": "weston-watkins"}),
}
ONE_CLASS = (X + 3.0, None, {"loss": "one_class", "nu": 0.4, "threads": 1})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """By name: the model and the folder of its state; trained once."""

    @cache
    def of(name):
        features, labels, options = ({**CASES, **JOINT, "one class": ONE_CLASS})[name]
        state = tmp_path_factory.mktemp("state")
        return llsvm.train(features, labels, sample_weight=WEIGHTS, state=state, **options), state

    return of


@pytest.fixture(params=[False, True], ids=["whole", "in pieces"])
def in_pieces(request, monkeypatch):
    """Rows come in many blocks, and these are cut."""
    if request.param:
        small_pages(monkeypatch)
        for module in (products, sums, dual_module):
            monkeypatch.setattr(module, "PIECE_VALUES", 17)
        monkeypatch.setattr(machines, "PIECE_VALUES", 400)


def dense(X):
    return X.toarray() if sp.issparse(X) else X


def inner_products(features, options):
    """(n, n), the constant feature's with them."""
    Z, kernel, bias = dense(features), options.get("kernel", "linear"), options.get("bias", 0.0)
    if kernel == "precomputed":
        return Z + bias**2
    dots = Z @ Z.T
    if kernel == "poly":
        return (options["gamma"] * dots + options["coef0"]) ** options["degree"] + bias**2
    if kernel == "rbf":
        squares = ((Z[:, None] - Z) ** 2).sum(axis=2)
        return np.exp(-options["gamma"] * squares) + bias**2
    return dots + bias**2


def costs(labels, options):
    factors = options.get("class_weight", {})
    return options["C"] * WEIGHTS.astype(float) * np.array([factors.get(each, 1.0) for each in labels])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_any_dual_variables_come_to_what_the_definition_says(name, dtype, trained, tmp_path, in_pieces):
    features, labels, options = CASES[name]
    model, state = trained(name)
    loss, rng, kept = options.get("loss", "hinge"), np.random.default_rng(3), {}

    def change(shares):
        kept["shares"] = random_shares(loss, shares.shape, rng).astype(dtype)
        return kept["shares"]

    with_shares(state, tmp_path / "S", change)
    dual = found_in(model, features, labels, WEIGHTS, tmp_path / "S").dual
    assert (dual.infeasible, dual.first, dual.proves) == (0, "", True)
    values, sizes = by_hand(
        inner_products(features, options),
        labels,
        costs(labels, options),
        costs(labels, {**options, "class_weight": {}}),
        kept["shares"],
        loss,
        options.get("multiclass", "ovr"),
        options.get("epsilon", 0.1),
    )
    assert dual.sizes == pytest.approx(sizes, rel=1e-12)
    assert np.abs(dual.values - values).max() <= 1e-12 * sizes.max()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", JOINT)
def test_so_they_do_of_all_classes_at_once(name, dtype, trained, tmp_path, in_pieces):
    features, labels, options = JOINT[name]
    model, state = trained(name)
    shares = np.random.default_rng(3).random((60, 4))
    shares[np.arange(60), labels] = 0.0
    if name == "crammer-singer":
        shares *= np.random.default_rng(4).random((60, 1)) / shares.sum(axis=1, keepdims=True)
    shares = shares.astype(dtype)
    with_shares(state, tmp_path / "S", lambda before: shares)
    dual = found_in(model, features, labels, WEIGHTS, tmp_path / "S").dual
    value, size = joint_by_hand(inner_products(features, options), labels, costs(labels, options), shares)
    assert dual.proves
    assert dual.values.shape == dual.sizes.shape == (1,)
    assert dual.sizes[0] == pytest.approx(size, rel=1e-12)
    assert abs(dual.values[0] - value) <= 1e-12 * size


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.8])
def test_so_they_do_of_one_class(factor, trained, tmp_path, in_pieces):
    """Brought to their sum along the segment to 0 or to C."""
    features, _, options = ONE_CLASS
    model, state = trained("one class")
    shares = np.random.default_rng(3).uniform(0.0, 1.0, (60, 1)) * factor / 1.8
    with_shares(state, tmp_path / "S", lambda before: shares)
    dual = found_in(model, features, None, WEIGHTS, tmp_path / "S").dual
    cost = WEIGHTS.astype(float)
    alpha, total = cost * shares[:, 0], options["nu"] * cost.sum()
    if alpha.sum() >= total:
        alpha *= total / alpha.sum()
    else:
        theta = (total - alpha.sum()) / (cost.sum() - alpha.sum())
        alpha += theta * (cost - alpha)
    v = alpha @ features
    assert dual.values[0] == pytest.approx(-0.5 * v @ v, rel=1e-12)
    assert dual.sizes[0] == pytest.approx(0.5 * v @ v, rel=1e-12)


def test_where_all_may_be_outliers_each_is_at_its_bound(tmp_path):
    model = llsvm.train(ONE_CLASS[0], loss="one_class", nu=1.0, threads=1, state=tmp_path)
    dual = found_in(model, ONE_CLASS[0], None, None, with_shares(tmp_path, tmp_path / "S", np.ones_like)).dual
    v = ONE_CLASS[0].sum(axis=0)
    assert dual.values[0] == pytest.approx(-0.5 * v @ v, rel=1e-12)


def test_costs_above_the_largest_count_as_that(trained, tmp_path):
    features, labels, options = JOINT["crammer-singer"]
    model, state = trained("crammer-singer")
    shares = np.full((60, 4), 0.1)
    shares[np.arange(60), labels] = 0.0
    with_shares(state, tmp_path / "S", lambda before: shares, **{"largest cost": 2.0})
    dual = found_in(model, features, labels, WEIGHTS, tmp_path / "S").dual
    cost = np.minimum(costs(labels, options), 2.0)
    value, size = joint_by_hand(inner_products(features, options), labels, cost, shares)
    assert abs(dual.values[0] - value) <= 1e-12 * size


def outside(name, trained, target, edits):
    """What is found where some dual variables, (row, place), were set to others."""
    features, labels, _ = (CASES | JOINT)[name]
    model, state = trained(name)

    def change(shares):
        shares[...] = 0.0
        for at, value in edits.items():
            shares[at] = value
        return shares

    return found_in(model, features, labels, WEIGHTS, with_shares(state, target, change)).dual


@pytest.mark.parametrize("name", [name for name in CASES if "kernel" in name or "matrix" in name])
def test_so_does_the_primal_of_kernels(name, trained, in_pieces):
    """Whose support vectors, or the rows with the matrix of these, come in pieces too."""
    features, labels, _ = CASES[name]
    model, state = trained(name)
    found = llsvm.verify(model, features, labels, WEIGHTS, state=state)
    assert found["differences"] == []


def test_so_does_that_of_one_class(trained, in_pieces):
    """½ ‖w‖² + Σ C_i max(0, ρ − w·x_i) − ν Σ C_i ρ, of which the last may be as large as the others."""
    features, _, options = ONE_CLASS
    model, state = trained("one class")
    found = found_in(model, features, None, WEIGHTS, state)
    cost, rho = WEIGHTS.astype(float), -model.intercept_[0]
    w = model.coef_[0]
    losses = cost @ np.maximum(0.0, rho - features @ w)
    given = options["nu"] * cost.sum() * rho
    assert found.primal[0] == pytest.approx(0.5 * w @ w + losses - given, rel=1e-9)
    assert found.size[0] == pytest.approx(0.5 * w @ w + losses + abs(given), rel=1e-9)


@pytest.mark.parametrize(("cost", "factor"), [(1e-9, 1.0), (1e-3, 1.0), (1e-3, 0.0)])
def test_of_one_class_rows_may_cost_little_or_nothing(cost, factor, trained, tmp_path):
    features, _, options = ONE_CLASS
    model, state = trained("one class")
    with_shares(state, tmp_path / "S", lambda before: np.full((60, 1), factor))
    dual = found_in(model, features, None, np.full(60, cost), tmp_path / "S").dual
    v = options["nu"] * cost * features.sum(axis=0)
    assert dual.values[0] == pytest.approx(-0.5 * v @ v, rel=1e-12)


SINGLE = {  # of a case: what lies outside its bounds, what inside
    "hinge": ([-1e-12, 1.0 + 1e-12, np.nan, np.inf], [0.0, 1.0, np.nextafter(1.0, 2.0)]),
    "logistic": ([-1e-12, 1.0 + 1e-12], [0.0, 1.0]),
    "squared hinge": ([-1e-12, np.inf, np.nan], [0.0, 1e6]),
    "least squares": ([np.inf, -np.inf, np.nan], [-1e6, 1e6]),
    "epsilon": ([-1.0 - 1e-12, 1.0 + 1e-12], [-1.0, 1.0]),
    "squared epsilon": ([np.inf, -np.inf, np.nan], [-1e6, 1e6]),
    "quantile": ([-0.7 - 1e-12, 0.3 + 1e-12], [-0.7, 0.3]),
    "huber": ([-10.1 - 1e-11, 10.1 + 1e-11], [-10.1, 10.1]),
    "kernel": ([-1e-12, 1.0 + 1e-12], [0.0, 1.0]),
}


@pytest.mark.parametrize("name", SINGLE)
def test_outside_its_bounds_none_passes(name, trained, tmp_path, in_pieces):
    for number, value in enumerate(SINGLE[name][0]):
        dual = outside(name, trained, tmp_path / f"S{number}", {(17, 0): value, (33, 0): value})
        assert (dual.infeasible, dual.proves) == (2, False)
        assert dual.first == f"that of row 18 is {value:.12g} C"
    for number, value in enumerate(SINGLE[name][1]):
        assert outside(name, trained, tmp_path / f"T{number}", {(17, 0): value}).proves


def others_of(row):
    """Two classes that a row is not of, and its own."""
    return [(row, m) for m in range(4) if m != Y4[row]][:2], (row, int(Y4[row]))


@pytest.mark.parametrize("name", JOINT)
def test_nor_does_any_of_all_classes_at_once(name, trained, tmp_path, in_pieces):
    (one, two), own = others_of(17)
    sums_count = name == "crammer-singer"
    for number, (edits, infeasible) in enumerate(
        [
            ({one: -1e-12}, True),
            ({one: 1.0 + 1e-12}, True),
            ({one: 1.0}, False),
            ({one: 0.5, two: 0.5 + 1e-12}, sums_count),
            ({one: 0.5, two: 0.5}, False),
            ({own: 1e-12}, True),
            ({own: -1e-12}, True),
            ({one: np.nan}, True),
        ]
    ):
        dual = outside(name, trained, tmp_path / str(number), edits)
        assert (dual.infeasible, dual.proves) == (int(infeasible), not infeasible)


@pytest.mark.parametrize("name", ["hinge", "crammer-singer"])
def test_rows_that_cost_nothing_may_have_any(name, trained, tmp_path):
    for number, value in enumerate([1.5, np.nan]):
        dual = outside(name, trained, tmp_path / str(number), {(10, 0): value})
        assert WEIGHTS[10] == 0
        assert dual.proves
        assert (dual.values[0], dual.sizes[0]) == (0.0, 0.0)


@pytest.fixture(scope="module")
def balanced(tmp_path_factory):
    """A kernel machine of four classes with a free intercept, and its state: of each problem Σ α y is 0."""
    state = tmp_path_factory.mktemp("balanced")
    options = {"kernel": "rbf", "intercept": True, "solver": "nesvm", "tol": 0.05, "threads": 1}
    return llsvm.train(X4, Y4, sample_weight=WEIGHTS, state=state, **options), state


@pytest.mark.parametrize("problem", range(4))
@pytest.mark.parametrize("times", [0.5, 2.0, -0.5, -2.0])
def test_a_free_intercept_takes_dual_variables_that_sum_to_0(problem, times, balanced, tmp_path, in_pieces):
    model, state = balanced

    def change(shares):
        alpha = WEIGHTS.astype(float)[:, None] * shares
        signs = np.where(problem == Y4, 1.0, -1.0)
        free = int(np.argmin(np.abs(alpha[:, problem] - 0.5 * WEIGHTS) + (WEIGHTS == 0)))
        now, mass = signs @ alpha[:, problem], alpha[:, problem].sum()
        alpha[free, problem] += signs[free] * (times * 1e-10 * mass - now)
        assert (signs @ alpha[:, problem]) / mass == pytest.approx(times * 1e-10, rel=1e-3)
        shares[free, problem] = alpha[free, problem] / WEIGHTS[free].astype(float)
        return shares

    found = found_in(model, X4, Y4, WEIGHTS, with_shares(state, tmp_path / "S", change))
    assert found.dual.unbalanced.tolist() == [c == problem and abs(times) > 1 for c in range(4)]
    assert found.dual.proves == (abs(times) < 1)


def test_a_dual_that_proves_nothing_is_not_shown(balanced, tmp_path):
    model, state = balanced

    def one_more(shares):
        shares[np.flatnonzero(WEIGHTS)[0], 2] = 0.5
        return shares

    outside_ = with_shares(
        state, tmp_path / "S", lambda shares: np.where(shares == shares.max(), 1.1, shares)
    )
    for folder in (outside_, with_shares(state, tmp_path / "T", one_more)):
        found = llsvm.verify(model, X4, Y4, WEIGHTS, state=folder)
        assert not found["holds"]
        assert found["dual"] is None
        assert [each["dual"] for each in found["problems"]] == [None] * 4
        assert found["relative_gap"] == pytest.approx(found["claimed_gap"], rel=1e-6)


def test_a_dual_of_nothing_is_0_and_balanced(balanced, tmp_path):
    model, state = balanced
    found = found_in(model, X4, Y4, WEIGHTS, with_shares(state, tmp_path / "S", np.zeros_like))
    assert found.dual.proves
    assert found.dual.values.tolist() == [0.0] * 4


@pytest.mark.parametrize("as_matrix", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("width", [1, 7, 40])
@pytest.mark.parametrize("most", [3, 17, 38])
def test_pieces_are_no_larger_than_they_may_be(as_matrix, width, most, monkeypatch):
    """Of values, and of results for them; of single rows that are, each is a piece."""
    monkeypatch.setattr(products, "PIECE_VALUES", most)
    features = as_matrix(np.where(np.abs(X) > 0.5, X, 0.0) if as_matrix is sp.csr_matrix else X)
    source = open_source(features, Y)
    block = next(iter(source.blocks(1 << 20)))
    assert block.n_rows == 60
    pieces = list(islice(products.pieces(block, width), 61))
    assert np.concatenate([piece.rows for piece in pieces]).tolist() == list(range(60))
    for number, piece in enumerate(pieces):
        of_row = np.diff(features.indptr) if sp.issparse(features) else np.full(60, 4)
        values = of_row[piece.rows].sum()
        assert piece.n_rows == 1 or max(values, width * piece.n_rows) <= most
        if number + 1 < len(pieces):  # one more row would not fit
            more = of_row[pieces[number + 1].rows[0]]
            assert max(values + more, width * (piece.n_rows + 1)) > most


@pytest.mark.parametrize("name", ["pairs", "kernel, pairs"])
def test_pairs_are_more_than_the_dual_variables_of_a_row(name, trained):
    model, state = trained(name)
    found = llsvm.verify(model, X4, Y4, WEIGHTS, state=state)
    assert (found["differences"], len(found["problems"])) == ([], 6)
    assert found["dual"] is not None
