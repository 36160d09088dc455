"""The method of multipliers with an L1 norm, where smoothing crawls: the optimum of a generic convex solver, for
every loss; and whole runs that smoothing alone does not end."""

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from cells import pairwise
from oracle import rows, run, small_pages, write_svmlight
from scipy.optimize import linprog
from sklearn.datasets import load_breast_cancer, load_digits
from test_auto import dataset, left

from llsvm.block import CSR
from llsvm.objective.losses import new_loss
from llsvm.objective.penalty import Penalty
from llsvm.objective.problems import RowCosts
from llsvm.process.trace import traced_by
from llsvm.settings.objective import REGRESSION
from llsvm.solvers.smsvm import multipliers as at_hand_module
from llsvm.solvers.smsvm.layout import layout
from llsvm.solvers.smsvm.multipliers import AtHand, L1Multipliers, Rest
from llsvm.solvers.smsvm.sums import Labels
from llsvm.solvers.smsvm.tuning import DEFAULT
from llsvm.stream.progress import Progress

LOSSES = ["hinge", "squared_hinge", "least-squares", "epsilon_insensitive", "squared_epsilon_insensitive"]
LOSSES += ["quantile", "huber"]


BIAS = 1.0


def at_hand(loss, X, y, cost, layout):
    """AtHand of rows as arrays; layout: dense, sparse or wide."""
    made = sp.csr_matrix(X)
    held = np.ascontiguousarray(X)
    if layout != "dense":
        held = CSR(made.indptr.astype(np.int64), made.indices.astype(np.int32), made.data)
    labels = Labels.of(y, loss, RowCosts(np.ones(2)), cost, 1)
    n = X.shape[1] + 1
    return AtHand(held, labels, BIAS, n, X.size + len(X), DEFAULT, Progress())


def steps_of(X, y, **options):
    """The training, and how many steps the method of multipliers took in it."""
    lines = []
    with traced_by(lines.append):
        training = run(X, y, solver="smsvm", **options)
    events = [json.loads(line) for line in lines]
    return training, sum(event["steps"] for event in events if event["event"] == "newton.multipliers")


def optimum(loss, penalty, Z, target, cost):
    """Of Σ C_i φ(Z_i w, t_i) + penalty, by a generic convex solver."""
    cp = pytest.importorskip("cvxpy")
    w = cp.Variable(Z.shape[1])
    z = target - Z @ w
    each = {
        "hinge": lambda: cp.pos(z),
        "squared_hinge": lambda: cp.square(cp.pos(z)),
        "least-squares": lambda: cp.square(z),
        "epsilon_insensitive": lambda: cp.pos(cp.abs(z) - loss.epsilon),
        "squared_epsilon_insensitive": lambda: cp.square(cp.pos(cp.abs(z) - loss.epsilon)),
        "quantile": lambda: cp.maximum(loss.upper * z, loss.lower * z),
        "huber": lambda: cp.huber(z, loss.upper) / 2,
        "logistic": lambda: cp.logistic(z - 1),
    }[loss.name]()
    some = w[:-1] if penalty.intercept else w
    terms = cost @ each + penalty.l2 / 2 * cp.sum_squares(some) + penalty.l1 * cp.norm1(some)
    return cp.Problem(cp.Minimize(terms)).solve(solver="CLARABEL")


@pytest.mark.parametrize(
    ("name", "layout", "intercept", "l2"),
    [
        *pairwise(LOSSES, ["dense", "sparse", "wide"], [False, True], [0.0, 0.5]),
        *(("logistic", "wide", intercept, l2) for intercept, l2 in ((False, 0.5), (True, 0.0))),
    ],
)
def test_it_reaches_the_optimum_of_a_generic_convex_solver(name, l2, layout, intercept):
    loss, penalty = new_loss(name, quantile=0.3), Penalty(1.0, 1.0 - l2, l2, intercept)
    n, d = (25, 40) if layout == "wide" else (90, 6)
    X, y = rows(n, d, seed=len(name))
    rng = np.random.default_rng(1)
    if loss.kind == REGRESSION:
        y = (X @ rng.normal(size=d) + rng.standard_t(2, n)).astype(np.float32).astype(float)
    cost = rng.choice([0.0, 2.0, 30.0], n)
    hand = at_hand(loss, X, y, cost, layout)
    found = L1Multipliers(hand, Rest.nothing(d + 1), loss, penalty, np.zeros(d + 1), layout == "wide")
    found.solve(1.0, 1e-6)
    Z = np.hstack([X, np.full((n, 1), BIAS)])
    theirs = optimum(loss, penalty, hand.labels.sign[:, None] * Z, hand.labels.target, cost)
    margin = hand.labels.sign * (Z @ found.w)
    ours = float(cost @ loss.value(margin, hand.labels.target)) + penalty.value(found.w)
    assert found.primal == pytest.approx(ours, rel=1e-9)
    assert found.primal - found.dual <= 1e-6 * found.primal
    assert ours == pytest.approx(theirs, rel=1e-5)
    assert found.dual <= theirs * (1 + 1e-6)
    assert found.steps <= 60


def test_rows_that_are_not_at_hand_keep_their_dual_variables():
    loss, penalty = new_loss("hinge"), Penalty(1.0, 0.5, 0.5)
    X, y = rows(120, 5, seed=3)
    cost = np.full(120, 2.0)
    rng = np.random.default_rng(0)
    here, there = np.arange(80), np.arange(80, 120)
    alpha, at = cost[there] * rng.random(40), rng.normal(size=6)
    others = at_hand(loss, X[there], y[there], cost[there], "dense")
    v = others.weights(alpha)
    rest = Rest(v, float(alpha.sum()), float(alpha.sum() - v @ at), at)
    hand = at_hand(loss, X[here], y[here], cost[here], "dense")
    found = L1Multipliers(hand, rest, loss, penalty, np.zeros(6), False)
    found.solve(1.0, 1e-7)
    Z, sign = np.hstack([X, np.full((120, 1), BIAS)]), np.where(y == 1, 1.0, -1.0)
    margin = sign * (Z @ found.w)
    losses = float(cost[here] @ np.maximum(0, 1 - margin[here])) + float(alpha @ (1 - margin[there]))
    assert found.primal == pytest.approx(losses + penalty.value(found.w), rel=1e-9)
    assert found.primal - found.dual <= 1e-7 * found.primal


def test_an_l1_hinge_of_raw_columns_is_linear_programmings():
    """Margins are sums of products of a million: their last digits decided what α was, and the dual was lost."""
    X, y = load_breast_cancer(return_X_y=True)
    training, steps = steps_of(X, y, penalty="l1", C=1e4)
    last = training.reports[-1]
    assert last.converged
    assert 0 < steps <= 150
    n = len(X)
    scale = np.abs(X).max(axis=0)
    Z = np.where(y == 1, 1.0, -1.0)[:, None] * X / scale
    A = -np.hstack([Z, -Z, np.eye(n)])
    costs = np.r_[1 / scale, 1 / scale, np.full(n, 1e4)]
    theirs = linprog(costs, A_ub=A, b_ub=-np.ones(n), method="highs").fun
    assert last.certificate.total_primal == pytest.approx(theirs, rel=1.2e-3)
    assert last.certificate.total_dual <= theirs * (1 + 1e-5)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("penalty", ["l1", "elasticnet"])
def test_separable_classes_are_certified_at_a_large_C(penalty, loss):
    X, y = load_digits(return_X_y=True)
    training, steps = steps_of(X, (y == 0).astype(int), penalty=penalty, loss=loss, C=1e4)
    assert training.reports[-1].converged
    assert training.reports[-1].certificate.total_primal < 5.0
    assert 0 < steps <= 150


def test_it_goes_on_with_the_rows_that_have_room(tmp_path, monkeypatch):
    small_pages(monkeypatch)
    X, y = load_digits(return_X_y=True)
    options = {"solver": "smsvm", "penalty": "l1", "C": 1e4, "spill_dir": str(tmp_path)}
    all_rows = run(X, (y == 0).astype(int), **options)
    few = run(X.astype(np.float32), (y == 0).astype(int), ledger=700_000, **options)
    assert few.reports[-1].converged
    assert max(report.survivors for report in few.reports) < len(X) / 2
    primal = [t.reports[-1].certificate.total_primal for t in (all_rows, few)]
    assert primal[0] == pytest.approx(primal[1], rel=1e-3)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_wide_rows_go_to_the_method_of_multipliers_at_once(loss, C):
    """Steps on the smoothed hinge cost more than the whole solution does, and led nowhere."""
    rng = np.random.default_rng(0)
    n, d = 200, 1500
    words = (d * rng.random((n, 40)) ** 4).astype(int)
    X = sp.csr_matrix((np.ones(words.size), (np.repeat(np.arange(n), 40), words.ravel())), (n, d))
    y = (X[:, :300] @ rng.normal(size=300) + rng.normal(size=n) > 0).astype(int)
    training, steps = steps_of(X, y, penalty="l1", loss=loss, C=C)
    last = training.reports[-1]
    assert last.converged
    assert last.passes == 2
    assert 0 < steps <= 90


def words(n, d, classes=2, seed=0):
    """Rows of d word counts, of which some tell the class."""
    rng = np.random.default_rng(seed)
    drawn = (d * rng.random((n, 40)) ** 4).astype(int)
    X = sp.csr_matrix((np.ones(drawn.size), (np.repeat(np.arange(n), 40), drawn.ravel())), (n, d))
    scores = X[:, : d // 5] @ rng.normal(size=(d // 5, classes)) + rng.normal(size=(n, classes))
    return X, scores.argmax(axis=1)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_dense_rows_of_many_columns_go_to_the_method_of_multipliers_at_once(loss):
    """Each smoothed step had a Hessian over all columns: minutes, and a gap of a half."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 600))
    y = (X[:, :60] @ rng.normal(size=60) + 4 * rng.normal(size=900) > 0).astype(int)
    training, steps = steps_of(X, y, penalty="l1", loss=loss)
    last = training.reports[-1]
    assert last.converged
    assert last.passes == 2
    assert 0 < steps <= 90


def test_a_large_C_on_wide_rows_takes_few_steps():
    """Every proximal point was found to the last digit, however far it was from the optimum."""
    X, y = words(600, 4000, seed=1)
    training, steps = steps_of(X, y, penalty="l1", C=10.0)
    assert training.reports[-1].converged
    assert 0 < steps <= 150


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_problems_that_are_solved_at_once_are_solved_alike(loss):
    X, y = words(300, 1500, classes=4)
    one, two = (run(X, y, solver="smsvm", penalty="l1", loss=loss, threads=n) for n in (1, 2))
    assert two.reports[-1].converged
    assert two.stream.plan.lines["problems at once"] > 0
    again = run(X, y, solver="smsvm", penalty="l1", loss=loss, threads=2)
    np.testing.assert_array_equal(two.coef, again.coef)
    primal = [t.reports[-1].certificate.total_primal for t in (one, two)]
    assert primal[0] == pytest.approx(primal[1], rel=1e-3)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize(("ledger", "all_copied"), [(1_800_000, False), (1_950_000, True)])
def test_steps_on_wide_rows_take_no_more_than_the_ledger_has_for_them(
    ledger, all_copied, loss, tmp_path, monkeypatch
):
    """Weights that are not zero are more than a Hessian has room for: steps copy columns, or make do with products
    where these have no room either."""
    model, gather = AtHand.model, at_hand_module.gather_columns
    squares, copied, complete = [], [], []

    def noted_model(rows, h, active, ridge):
        squares.append(8 * len(active) ** 2)
        return model(rows, h, active, ridge)

    def noted_copy(*of_rows):
        ends, indices, data, diagonal = gather(*of_rows)
        copied.append(indices.nbytes + data.nbytes)
        complete.append(len(indices) == ends[-1])
        return ends, indices, data, diagonal

    monkeypatch.setattr(AtHand, "model", noted_model)
    monkeypatch.setattr(at_hand_module, "gather_columns", noted_copy)
    X, y = words(800, 5000, seed=1)
    options = {"solver": "smsvm", "penalty": "l1", "loss": loss, "C": 10.0, "tol": 1e-2}
    plenty = run(X, y, **options)
    squares.clear()
    complete.clear()
    copied.clear()
    small = run(
        write_svmlight(tmp_path / "rows.svm", X, y), ledger=ledger, spill_dir=str(tmp_path), **options
    )
    lines = small.stream.plan.lines
    assert 3 * max(squares, default=0) <= lines["Hessian"]  # itself, a part of it, and its factor
    assert max(copied) <= lines["columns of rows at hand"]
    assert all(complete) == all_copied
    assert small.reports[-1].converged
    assert 3 * 8 * np.count_nonzero(small.coef) ** 2 > lines["Hessian"]
    primal = [t.reports[-1].certificate.total_primal for t in (small, plenty)]
    assert primal[0] == pytest.approx(primal[1], rel=1e-2)


def test_what_l1_does_with_the_memory_there_is():
    """The more there is, the more: a few columns at a time, all of them by column, several problems at once."""
    data, loss = dataset(20_000, 60_000, 80, 20), new_loss("squared_hinge")
    plans = [
        layout(20, 2, True, loss, left(data, nbytes, in_memory=True))
        for nbytes in (150_000_000, 250_000_000, 4_000_000_000)
    ]
    assert [plan.few_columns for plan in plans] == [True, False, False]
    assert [plan.by_columns for plan in plans] == [False, True, True]
    assert plans[-1].workers == 2
    assert plans[0].workers == 1
    enough = plans[0].enough_bytes
    assert f"limited to {plans[0].most_active} of them at a time (--memory-limit {enough // 10**6 + 1}MB" in (
        plans[0].in_words(60_000)
    )
    for nbytes, by_columns in ((enough, True), (int(0.98 * enough), False)):
        assert layout(20, 2, True, loss, left(data, nbytes, in_memory=True)).by_columns == by_columns
    assert "2 problems at a time" in plans[-1].in_words(60_000)
    tall = layout(1, 2, True, loss, left(dataset(20_000, 1_000, 80), 10**9, in_memory=True))
    assert tall.by_columns
    assert not tall.wide
    few = layout(1, 2, True, loss, left(dataset(20_000, 100, 80), 10**9, in_memory=True))
    assert not few.by_columns


def test_many_wide_problems_are_solved_by_columns_in_the_room_that_their_newton_steps_would_take():
    """Weights of classes by the hundred are most of what is held: the copy of the rows by column is little beside
    them, and each problem is solved for itself."""
    data, loss = dataset(6_000, 55_000, 160, 105), new_loss("squared_hinge")
    weights = 8 * 105 * 55_001
    memory = left(data, 20 * weights, in_memory=True)
    plan = layout(105, 2, True, loss, memory)
    assert plan.by_columns
    rows = data.n_rows * (data.bytes_per_row + plan.needs.row_work_bytes)
    assert plan.needs.nbytes + rows <= memory.available_bytes
    intercept = layout(105, 2, True, loss, left(data, 20 * weights, in_memory=True), intercept=True)
    assert intercept.needs.lines["weights"] > plan.needs.lines["weights"]
    # what is enough for 32-bit values is enough for the same rows with 64-bit ones
    doubled = replace(data, dtype=np.dtype(np.float64))
    enough = [
        d for d in range(600, 1600) if layout(105, 2, True, loss, left(data, d * 10**6, True)).by_columns
    ]
    assert enough[0] < 20 * weights / 1e6
    assert layout(105, 2, True, loss, left(doubled, enough[0] * 10**6, True)).by_columns
    one = dataset(6_000, 55_000, 160, 2)
    lines = [layout(1, 2, l1, loss, left(one, 10**9, in_memory=True)).needs.lines for l1 in (True, False)]
    assert lines[0]["weights"] <= lines[1]["weights"]
