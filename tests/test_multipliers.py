"""Second order where coordinate descent crawls: the kernels' slow twins, Newton's step in three ways, the method of
multipliers on all kinds of small problems, and whole runs that sweeps alone do not end."""

import itertools
import lzma
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from cells import pairwise
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import liblinear, objective, rows, run, small_pages, with_bias

from llsvm.block import CSR
from llsvm.memory.plan import WORK_ON_ROWS
from llsvm.objective.losses import new_loss
from llsvm.solvers.llsvm.duals import row_gaps
from llsvm.solvers.llsvm.multipliers import Subproblem, solve_subproblem
from llsvm.solvers.llsvm.second_order import SECOND_ORDER, SecondOrder
from llsvm.solvers.optim.conjugate_gradients import Way
from llsvm.solvers.optim.kernels import DUAL, GAP, MOVED, N_TOTALS, SLOPE, logistic_point, proximal
from llsvm.solvers.optim.newton_system import NewtonPrices, NewtonSystem
from llsvm.solvers.optim.row_operator import RowOperator
from llsvm.stream.progress import Progress

LOSSES = ["hinge", "squared_hinge", "least-squares", "epsilon_insensitive", "squared_epsilon_insensitive"]
LOSSES += ["quantile", "huber"]
MANY = 1 << 30  # bytes


def csr(X):
    made = sp.csr_matrix(X)
    return CSR(made.indptr.astype(np.int64), made.indices.astype(np.int32), made.data)


def some_rows(n=30, d=7, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    X[rng.random(X.shape) < 0.4] = 0
    X[2] = 0
    return X, rng


# -- kernels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("inverse", [0.0, 0.3, 1e6])
def test_proximal_points_are_those_of_the_loss(name, inverse):
    loss, rng, n = new_loss(name), np.random.default_rng(1), 200
    if loss.ridge == 0 and inverse == 0:
        pytest.skip("no proximal point without a proximal term, for a loss with a kink")
    cost = rng.choice([0.01, 1.0, 100.0], n)
    before = cost * np.clip(rng.normal(size=n), loss.lower, loss.upper)
    residual, change, step = rng.normal(size=n), rng.normal(size=n), 0.7
    alpha, curvature, totals = np.empty(n), np.empty(n), np.zeros(N_TOTALS)
    tail = (loss.lower, loss.upper, loss.ridge, loss.epsilon, alpha, curvature, totals)
    proximal(residual, change, step, before, cost, inverse, *tail)
    margin = 1.0 - (residual - step * change)
    steps = 1 / np.maximum(inverse * cost, 1e-12)
    share = loss.prox(before / cost, margin, steps)
    np.testing.assert_allclose(alpha / cost, share, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(curvature / cost, loss.prox_slope(share, steps), rtol=1e-5, atol=1e-7)
    dual = loss.dual_value(alpha / cost)
    assert totals[SLOPE] == pytest.approx(alpha @ change)
    assert totals[MOVED] == pytest.approx(((alpha - before) ** 2).sum())
    assert totals[DUAL] + alpha.sum() == pytest.approx(cost @ dual)
    assert totals[GAP] == pytest.approx(cost @ loss.value(margin) + alpha @ margin - cost @ dual, abs=1e-7)


def test_a_point_of_the_logistic_loss():
    loss, rng, n = new_loss("logistic"), np.random.default_rng(1), 300
    cost = rng.choice([0.01, 1.0, 100.0], n)
    residual, change, step = 20 * rng.normal(size=n), rng.normal(size=n), 0.7
    alpha, curvature, totals = np.empty(n), np.empty(n), np.zeros(N_TOTALS)
    logistic_point(residual, change, step, cost, alpha, curvature, totals)
    margin = -(residual - step * change)
    np.testing.assert_allclose(alpha, -cost * loss.derivative(margin))
    share = alpha / cost
    np.testing.assert_allclose(curvature, cost * share * (1 - share), atol=1e-12)
    assert totals[SLOPE] == pytest.approx(alpha @ change)
    assert totals[DUAL] == pytest.approx(cost @ loss.dual_value(share))
    assert totals[GAP] == 0


@pytest.mark.parametrize("bias", [0.0, 1.5])
@pytest.mark.parametrize("layout", ["dense", "pieces", "sparse"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_RowOperator(bias, layout, dtype):
    X, rng = some_rows(dtype=dtype)
    n, d = X.shape
    rows = RowOperator(
        csr(X) if layout == "sparse" else X, d, bias, 400 if layout == "pieces" else MANY, Progress()
    )
    wide = np.hstack([X.astype(float), np.full((n, 1), bias)])
    at = rng.permutation(n)[:20]
    for some in (at, np.arange(n), at[:0]):
        factor, w, part = rng.normal(size=len(some)), rng.normal(size=d + 1), wide[some]
        np.testing.assert_allclose(rows.dots(some, w), part @ w)
        out = np.ones(d + 1)
        rows.add(some, factor, out)
        np.testing.assert_allclose(out, 1 + factor @ part, atol=1e-6)
        out = np.ones(d + 1)
        rows.add_squares(some, factor, out)
        np.testing.assert_allclose(out, 1 + factor @ part**2, atol=1e-6)
        H = np.eye(d + 1)
        rows.outer(some, factor, H)
        np.testing.assert_allclose(np.tril(H), np.tril(np.eye(d + 1) + (part.T * factor) @ part), atol=1e-6)
        K = np.empty((len(some), len(some)))
        rows.inner(some, K)
        np.testing.assert_allclose(np.tril(K), np.tril(part @ part.T))


def test_rows_that_are_wider_than_pieces_are_multiplied_many_at_a_time():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(150, 90)).astype(np.float32)
    progress = _CountedChecks()
    rows = RowOperator(X, 92, 1.5, 8 * 64 * 7, progress)  # a piece has 64 rows of seven columns
    wide = np.hstack([X.astype(float), np.zeros((150, 2)), np.full((150, 1), 1.5)])
    some = rng.permutation(150)
    K = np.empty((150, 150))
    rows.inner(some, K)
    np.testing.assert_allclose(np.tril(K), np.tril(wide[some] @ wide[some].T), atol=1e-5)
    assert progress.checks < 150  # one at a time there would be thousands
    place, kept = np.full(93, -1, np.int32), np.array([0, 7, 88, 91, 92])
    place[kept] = np.arange(5)
    factor, H = rng.normal(size=150), np.zeros((5, 5))
    rows.outer(some, factor, H, place)
    part = wide[np.ix_(some, kept)]
    np.testing.assert_allclose(np.tril(H), np.tril((part.T * factor) @ part), atol=1e-5)


class _CountedChecks(Progress):
    checks = 0

    def check(self) -> None:
        self.checks += 1


def test_fewer_columns_than_weights():
    X, rng = some_rows()
    rows, some = RowOperator(X, 9, 1.0, MANY, Progress()), np.arange(5)
    w = rng.normal(size=10)
    np.testing.assert_allclose(rows.dots(some, w), X[:5] @ w[:7] + w[-1])
    out = np.zeros(10)
    rows.add(some, np.ones(5), out)
    np.testing.assert_allclose(out, [*X[:5].sum(axis=0), 0, 0, 5], atol=1e-6)
    H = np.zeros((10, 10))
    rows.outer(some, np.ones(5), H)
    wide = np.hstack([X[:5], np.zeros((5, 2)), np.ones((5, 1))])
    np.testing.assert_allclose(np.tril(H), np.tril(wide.T @ wide), atol=1e-5)


# -- Newton's step ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [np.asarray, csr])
@pytest.mark.parametrize("way", list(Way))
def test_newton_steps_in_three_ways(layout, way):
    X, rng = some_rows(n=12, d=9)
    rows, J, h = (
        RowOperator(layout(X), 9, 1.0, MANY, Progress()),
        np.array([7, 1, 2, 5]),
        np.array([0.1, 5.0, 1.0, 100.0]),
    )
    system = NewtonSystem(rows, J, h, NewtonPrices(layout is not csr, 10, 5.0, MANY), [way])
    wide, g = np.hstack([X, np.ones((12, 1))])[J].astype(float), rng.normal(size=10)
    right = -np.linalg.solve(np.eye(10) + (wide.T * h) @ wide, g)
    until = 1e-12 if way is Way.PRODUCTS else 1e-6
    np.testing.assert_allclose(system.solve(g, until), right, rtol=1e-6, atol=1e-9)


def test_a_matrix_that_rounding_made_indefinite():
    X = np.repeat(np.full((1, 3), 1e5), 6, axis=0)
    rows, h = RowOperator(X, 3, 0.0, MANY, Progress()), np.full(6, 1e18)
    prices = NewtonPrices(True, 4, 3.0, MANY)
    step = NewtonSystem(rows, np.arange(6), h, prices).solve(np.array([1.0, 2.0, 3.0, 0.0]))
    assert np.isfinite(step).all()


def test_a_step_goes_down_where_few_rows_are_nearly_parallel():
    X = np.full((4, 2), 1e3)
    X[:, 0] = 1.2, -0.3, 0.7, 0.1
    rows, J, h = RowOperator(X, 2, 0.0, MANY, Progress()), np.array([0, 1]), np.full(2, 6e10)
    for seed in range(10):
        g = np.append(X.T @ np.random.default_rng(seed).normal(size=4) * 3e4, 0.0)
        step = NewtonSystem(rows, J, h, NewtonPrices(True, 3, 2.0, MANY)).solve(g)
        assert step @ g < 0


def test_a_step_over_many_columns_of_nearly_parallel_rows():
    """Of such rows' products rounding leaves too little, so that the matrix of columns is decomposed."""
    rng = np.random.default_rng(0)
    X, h = 4e3 + 0.2 * rng.normal(size=(14, 157)), np.full(14, 3e9)
    rows, J = RowOperator(X, 157, 0.0, MANY, Progress()), np.arange(14)
    prices = NewtonPrices(True, 158, 157.0, MANY)
    assert prices.best(14) is Way.ROWS
    for _ in range(5):
        g = np.append(X.T @ rng.normal(size=14), 0.0)
        g[:157] += rng.normal(size=157)
        step = NewtonSystem(rows, J, h, prices).solve(g)
        left = g + step
        left[:157] += X.T @ (h * (X @ step[:157]))
        assert np.linalg.norm(left) <= 0.1 * np.linalg.norm(g)


def test_a_matrix_is_decomposed_where_that_is_no_dearer_than_products():
    """Pixels: conjugate gradients that end early would lead to steps that are worth less."""
    assert NewtonPrices(False, 752, 150.0, MANY).best(550) is Way.COLUMNS


def test_the_cheapest_way_for_which_there_is_room():
    few, many = 10, 100_000
    assert NewtonPrices(True, 50, 50.0, MANY).best(many) is Way.COLUMNS
    assert NewtonPrices(True, 2000, 2000.0, MANY).best(few) is Way.ROWS
    assert NewtonPrices(False, 1_000_000, 50.0, MANY).best(many) is Way.PRODUCTS
    assert NewtonPrices(True, 50, 50.0, 1000).best(many) is Way.PRODUCTS


# -- the method ---------------------------------------------------------------------------------------------


def solved(X, y, cost, loss, gap, w=None, alpha=None, bias=1.0):
    n, d = X.shape
    layout, target = csr(X) if sp.issparse(X) else X, 0.0 if loss.name == "logistic" else 1.0
    problem = Subproblem(
        RowOperator(layout, d, bias, MANY, Progress()), np.arange(n), y, target, cost, loss, np.zeros(d + 1)
    )
    prices = NewtonPrices(not sp.issparse(X), d + 1, float(d), MANY)
    alpha = np.zeros(n) if alpha is None else alpha
    begin = alpha, np.zeros(d + 1), 1.0
    found = solve_subproblem(problem, prices, *begin, lambda dual, v: gap * abs(dual))
    np.testing.assert_allclose(found.v, problem.weights(found.alpha))
    np.testing.assert_allclose(found.margins, problem.margins(found.w), atol=1e-6)
    assert (found.alpha >= loss.lower * cost).all()
    assert (found.alpha <= loss.upper * cost).all()
    primal = 0.5 * found.w @ found.w + cost @ loss.value(problem.margins(found.w))
    return found, primal


@st.composite
def hard(draw):
    """Rows, signs and costs of a small problem that coordinate descent takes long for."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n, d = draw(st.integers(2, 40)), draw(st.integers(1, 12))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(0, draw(st.integers(0, 3)), d)
    y = np.where(
        X @ rng.normal(size=d) + draw(st.sampled_from([0.0, 1.0])) * rng.normal(size=n) > 0, 1.0, -1.0
    )
    if draw(st.booleans()):
        X[:, 0] = 3.0
    if draw(st.booleans()):
        X[n // 2 :] = X[: n - n // 2]
    if draw(st.booleans()):
        X[0] = 0.0
    C = 10.0 ** draw(st.integers(-4, 6))
    return X.astype(np.float32), y, C * rng.choice([1.0, 0.1, 3.0], n)


@settings(max_examples=50, deadline=None)
@given(hard(), st.sampled_from([*LOSSES, "logistic"]), st.booleans())
def test_any_small_problem(problem, name, sparse):
    X, y, cost = problem
    found, primal = solved(sp.csr_matrix(X) if sparse else X, y, cost, new_loss(name), 1e-4)
    assert primal - found.dual <= 2e-4 * abs(found.dual) + 1e-9
    assert primal >= found.dual - 1e-9 * abs(primal)
    assert found.steps <= 150


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_few_steps_from_a_good_point(loss):
    X, rng = some_rows(n=300, d=20)
    y, cost = np.sign(rng.normal(size=300)), np.full(300, 10.0)
    first, _ = solved(X, y, cost, new_loss(loss), 1e-6)
    again, _ = solved(X, y, cost, new_loss(loss), 1e-4, alpha=first.alpha)
    assert again.steps <= first.steps


def test_part_of_the_rows_while_the_others_rest():
    """What the others add to the weights stays as it is."""
    X, rng = some_rows(n=60, d=5)
    y, cost, loss = np.sign(rng.normal(size=60)), np.ones(60), new_loss("hinge")
    others = np.clip(rng.random(60), 0, 1)
    wide = np.hstack([X, np.ones((60, 1))]).astype(float) * y[:, None]
    rest = others[30:] @ wide[30:]
    at = np.arange(30)
    problem = Subproblem(RowOperator(X, 5, 1.0, MANY, Progress()), at, y[:30], 1.0, cost[:30], loss, rest)
    prices = NewtonPrices(True, 6, 5.0, MANY)
    begin = others[:30] @ wide[:30] + rest
    given = problem, prices, others[:30], begin, 0.1, lambda dual, v: 1e-9
    found = solve_subproblem(*given)
    np.testing.assert_allclose(found.v, rest + found.alpha @ wide[:30])
    assert row_gaps(loss, found.alpha, problem.margins(found.v), cost[:30], 1.0).sum() <= 1e-6
    assert found.dual >= problem.dual(others[:30], begin)


# -- whole runs ---------------------------------------------------------------------------------------------


def table(name):
    from sklearn import datasets

    return getattr(datasets, f"load_{name}")(return_X_y=True)


@pytest.mark.parametrize(
    ("name", "C", "multiclass", "loss"),
    [
        (*first, second, third)
        for first, second, third in pairwise(
            [("wine", 1.0), ("wine", 1e4), ("iris", 1e4), ("digits", 1e4)],
            ["ovr", "ovo"],
            ["hinge", "squared_hinge", "logistic"],
        )
    ],
)
def test_raw_columns(name, C, multiclass, loss):
    """Sweeps alone take up to 70 s of processor for these, or do not end."""
    X, y = table(name)
    training = run(X, y, solver="llsvm", C=C, loss=loss, multiclass=multiclass, bias=1.0)
    last = training.reports[-1]
    assert last.converged
    assert last.passes <= 40
    assert last.extra["updates_per_row"] <= 40_000


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
def test_against_liblinear(threads, layout):
    X, y = table("breast_cancer")
    X = X.astype(np.float32).astype(float)
    C, tol = 1e-2, 1e-6
    training = run(
        layout(X), y, solver="llsvm", C=C, loss="squared_hinge", tol=tol, threads=threads, bias=1.0
    )
    theirs, _ = liblinear(X, y, C, "squared_hinge", None, 1.0)
    w = training.coef[0]
    ours = objective(
        w[training.stream.dataset.first_column :], with_bias(X, 1.0), 2.0 * y - 1, np.full(len(y), C), True
    )
    assert training.reports[-1].converged
    assert ours <= theirs * (1 + 2 * tol)
    assert training.reports[-1].certificate.total_primal == pytest.approx(ours, rel=1e-9)


def test_runs_repeat():
    X, y = table("wine")
    runs = [run(X, y, solver="llsvm", C=1e4, bias=1.0, threads=2).coef for _ in range(2)]
    assert np.array_equal(*runs)


def test_easy_problems_are_left_to_sweeps(monkeypatch):
    monkeypatch.setattr(SecondOrder, "solve", lambda *arguments, **_: arguments[2] and pytest.fail("begun"))
    X, rng = some_rows(n=2000, d=20)
    y = np.sign(X[:, 0] + rng.normal(size=2000))
    assert run(X, y, solver="llsvm").reports[-1].converged


def test_rows_that_do_not_fit_in_memory(data_dir, tmp_path):
    """Sweeps alone have not converged after 200 passes."""
    path = tmp_path / "a9a.svm"
    with lzma.open(data_dir / "adult" / "a9a.xz") as packed:
        path.write_bytes(packed.read())
    training = run(str(path), solver="llsvm", C=100.0, ledger=3_000_000)
    assert not training.stream.in_one_block
    assert training.reports[-1].converged
    assert training.reports[-1].passes <= 12


@pytest.mark.parametrize("ledger", [None, 800_000])
def test_the_dual_never_falls(ledger, monkeypatch):
    small_pages(monkeypatch)
    X, y = rows(n=3000, d=30)
    X *= np.logspace(0, 3, 30)
    training = run(X, y, solver="llsvm", C=100.0, ledger=ledger)
    assert training.stream.in_one_block == (ledger is None)
    dual = [report.dual for report in training.reports if report.certificate is not None]
    assert all(after >= before * (1 - 1e-12) for before, after in itertools.pairwise(dual))
    assert training.reports[-1].converged


LOOKING_AT_LIBRARIES = 400_000  # bytes: what finding BLAS takes, whatever the data


@pytest.mark.parametrize(
    ("layout", "threads", "ledger"), pairwise([np.asarray, sp.csr_matrix], [1, 2], [None, 4_000_000])
)
def test_no_more_memory_than_was_signed_for(layout, threads, ledger, monkeypatch):
    worthwhile, solve, peaks, begun = SecondOrder.is_worthwhile, SecondOrder.solve, [], []
    monkeypatch.setattr(
        SecondOrder, "is_worthwhile", lambda *arguments, **_: worthwhile(*arguments[:6], is_forced=True)
    )

    def measured(*arguments, **options):
        tracemalloc.start()
        solve(*arguments, **options)
        begun.extend(arguments[2])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    X, y = rows(n=20_000, d=40, classes=3)
    options = {"multiclass": "ovr", "threads": threads, "max_passes": 2}
    run(layout(X), y, solver="llsvm", ledger=ledger, **options)  # imports and compiles
    monkeypatch.setattr(SecondOrder, "solve", measured)
    training = run(layout(X), y, solver="llsvm", ledger=ledger, **options)
    assert training.stream.in_one_block == (ledger is None)
    lines = training.stream.plan.lines
    assert begun
    assert max(peaks) - LOOKING_AT_LIBRARIES <= lines[WORK_ON_ROWS] + lines.get(SECOND_ORDER, 0)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "huber", "quantile", "squared_epsilon_insensitive"])
def test_regression_on_raw_columns(loss):
    X, y = table("diabetes")
    training = run(X * np.logspace(0, 4, 10), y, solver="llsvm", loss=loss, C=1e4, bias=1.0)
    assert training.reports[-1].converged
    assert training.reports[-1].passes <= 40


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [655.3, 6.8e4, 5.26e7])
def test_few_rows_that_contradict_each_other_end_certified(loss, C):
    """Sweeps would take C ‖x‖² visits, and stall long before these cost as much as loading more code does."""
    X, y = np.full((10, 1), 41.583), np.repeat([0, 1], [4, 6])
    training = run(X, y, C=C, loss=loss, solver="llsvm")
    assert training.reports[-1].converged


@pytest.mark.parametrize(
    ("n", "length", "C", "loss"),
    [
        (10, 56569.64933999207, 3308234.6826329296, "squared_hinge"),
        (6, 27386.1210748624, 7623784.240486163, "hinge"),
    ],
)
def test_steps_that_are_only_rounding_end(n, length, C, loss):
    """ψ falls no more along Newton's step, where rounding has made that."""
    for seed in range(6):
        y = np.random.default_rng(seed).integers(0, 2, n)
        y[:2] = 0, 1
        training = run(np.full((n, 1), length), y, C=C, loss=loss, solver="llsvm")
        certificate = training.reports[-1].certificate
        assert certificate.total_dual <= certificate.total_primal * (1 + 1e-9)


def test_a_quantile_of_rows_that_are_nearly_parallel():
    """Weights that differ by 10^12, and a constant column in the thousands beside targets of millionths."""
    rng = np.random.default_rng(1)
    X = np.stack([rng.normal(size=200), np.full(200, 1e3)], axis=1)
    y, weight = 1e-6 * rng.standard_t(2, 200), 10.0 ** rng.uniform(-6, 6, 200)
    training = run(X, y, weight, loss="quantile", quantile=0.999, C=9.0, solver="llsvm")
    assert training.reports[-1].converged


@pytest.mark.parametrize("loss", ["squared_hinge", "squared_epsilon_insensitive", "huber", "least-squares"])
def test_smooth_losses_of_long_rows_at_a_large_cost(loss):
    """α_i(w) = L C_i times a residual would be rounding alone: 1 − m is some 10^-20 here, and m is 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 166)) * 10.0 ** rng.uniform(-6, 6, 166)
    training = run(X, rng.integers(0, 2, 24).astype(float), loss=loss, C=1e7, solver="llsvm")
    assert training.reports[-1].converged
    assert training.reports[-1].passes <= 20
