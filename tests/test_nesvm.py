"""NESVM against linear programs, linear systems, LIBLINEAR and LIBSVM; its kernel against a slow twin; eq. 43."""

import lzma
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer, load_iris, load_svmlight_file
from sklearn.svm import SVC, LinearSVC

from llsvm.block import CSR
from llsvm.data import open_source, open_with_settings
from llsvm.errors import UsageError
from llsvm.memory.budget import MemoryBudget
from llsvm.objective.problems import RowCosts
from llsvm.process.threads import Threads
from llsvm.settings.methods import METHODS
from llsvm.settings.settings import Settings
from llsvm.solvers.base import SETTLED
from llsvm.solvers.nesvm import kernels as kernel
from llsvm.solvers.nesvm.nesterov import GradientPass, Metric, PaperSteps
from llsvm.solvers.nesvm.problem import BestDual
from llsvm.training.training import Training


def train(X, y, limit=None, **options):
    """Model and last report; ``limit``: an artificial ledger in bytes."""
    budget = None if limit is None else MemoryBudget(limit, runtime_bytes=0)
    options = {"solver": "nesvm", "max_passes": 5000, "threads": 2} | options
    source = X if isinstance(X, str) else open_source(X, y)
    with Training(source, Settings(**options), budget=budget) as training:
        reports = list(training)
        return training.model, reports[-1]


def cancer(n=None):
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X[:n], y[:n]


def primal(w, b, X, y, C, loss="hinge", penalty="l2"):
    z = 1 - (2.0 * y - 1) * (X @ w + b)
    losses = z**2 if loss == "least-squares" else np.maximum(z, 0)
    return (np.abs(w).sum() if penalty == "l1" else 0.5 * w @ w) + C * losses.sum()


def assert_certified(model, report, optimum, tol):
    """The optimum lies in [dual, primal], and the gap is what was asked for."""
    assert report.converged
    certificate = model.certificate
    assert certificate.total_dual <= optimum * (1 + 1e-6)
    assert certificate.total_primal >= optimum * (1 - 1e-6)
    assert certificate.relative_gap <= tol


# -- the kernel --------------------------------------------------------------------------------------------


def slow_pass(X, ids, cost, signs, W, V, bias, mu, loss, split):
    """``gradient`` row by row, as eqs. 6, 10 and 54 are written."""
    k, width = W.shape
    grad, sums = np.zeros((k, 2 if split else 1, width)), np.zeros((k, kernel.N_SUMS))
    for i, c in enumerate(cost):
        x = np.append(X[i], bias).astype(float)
        size = np.abs(x).max() or 1.0
        for j in range(k):
            s = signs[j, ids[i]]
            if s == 0 or c == 0:
                continue
            z, zv = 1 - s * (W[j] @ x), 1 - s * (V[j] @ x)
            if loss != kernel.HINGE:
                if loss == kernel.SQUARED_HINGE:
                    z, zv = max(z, 0), max(zv, 0)
                alpha, values = 2 * c * z, (c * z * z, c * z * z, c * zv * zv, c * zv * zv)
                sums[j, kernel.ALPHA_SQUARES] += alpha**2 / (4 * c)
                sums[j, kernel.ALPHA_SQUARES_MINUS] += alpha**2 / (4 * c) if s < 0 else 0
            else:
                u, uv = np.median([z / (mu[j] * size), 0, 1]), np.median([zv / (mu[j] * size), 0, 1])
                alpha = c * u
                values = (
                    c * (u * z - mu[j] / 2 * size * u * u),
                    c * max(z, 0),
                    c * (uv * zv - mu[j] / 2 * size * uv * uv),
                    c * max(zv, 0),
                )
            sums[j, kernel.ALPHA_PLUS if s > 0 else kernel.ALPHA_MINUS] += alpha
            sums[j, [kernel.SMOOTHED, kernel.LOSS, kernel.V_SMOOTHED, kernel.V_LOSS]] += values
            grad[j, int(split and s < 0)] += alpha * s * x
    return grad, sums


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 12),
    st.integers(1, 6),
    st.sampled_from([kernel.HINGE, kernel.SQUARED_HINGE, kernel.LEAST_SQUARES]),
    st.booleans(),
    st.booleans(),
)
def test_kernels_agree_with_slow_twin(seed, n, d, loss, split, single):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.integers(0, 2, (n, d))
    X = X.astype(np.float32 if single else np.float64)
    ids = rng.integers(0, 3, n).astype(np.int32)
    cost = rng.uniform(0, 2, n) * rng.integers(0, 2, n)
    signs = np.array([[1.0, -1, 0], [1, -1, -1], [0, 1, -1]])
    W, V, mu = rng.normal(size=(3, d + 1)), rng.normal(size=(3, d + 1)), rng.uniform(0.1, 2, 3)
    bias = float(rng.choice([0.0, 1.5]))
    expected = slow_pass(X, ids, cost, signs, W, V, bias, mu, loss, split)
    S = csr_matrix(X)
    matrix = CSR(S.indptr.astype(np.int64), S.indices.astype(np.int32), S.data)
    for head in (tuple(matrix), (None, None, X)):
        grad, sums = np.zeros_like(expected[0]), np.zeros_like(expected[1])
        kernel.gradient(*head, ids, cost, signs, np.arange(3), W, V, bias, mu, loss, split, grad, sums)
        np.testing.assert_allclose(grad, expected[0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(sums, expected[1], rtol=1e-9, atol=1e-9)
        sizes = np.empty(n)
        kernel.sizes(*head, bias, sizes)
        full = np.c_[X, np.full(n, bias)].astype(float)
        largest = np.abs(full).max(axis=1)
        np.testing.assert_array_equal(sizes, np.where(largest > 0, largest, 1.0))


def test_kernels_know_each_loss_of_the_method_by_a_number():
    assert set(kernel.LOSS_NUMBERS) == set(METHODS["nesvm"].objectives) == set(METHODS["kernel"].objectives)
    assert len(set(kernel.LOSS_NUMBERS.values())) == len(kernel.LOSS_NUMBERS)


def test_gradient_is_the_derivative_of_the_smoothed_loss():
    rng = np.random.default_rng(0)
    X, ids, cost = rng.normal(size=(20, 3)), rng.integers(0, 2, 20).astype(np.int32), np.full(20, 0.7)
    signs, mu = np.array([[-1.0, 1.0]]), np.array([0.8])

    def value(w):
        grad, sums = np.zeros((1, 1, 4)), np.zeros((1, kernel.N_SUMS))
        W = w[None]
        tail = (np.arange(1), W, W, 1.0, mu, kernel.HINGE, False, grad, sums)
        kernel.gradient(None, None, X, ids, cost, signs, *tail)
        return sums[0, kernel.SMOOTHED], -grad[0, 0]

    w, step = rng.normal(size=4), 1e-6
    for j, slope in enumerate(value(w)[1]):
        e = step * np.eye(4)[j]
        assert (value(w + e)[0] - value(w - e)[0]) / (2 * step) == pytest.approx(slope, abs=1e-6)


# -- models against oracles --------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [0.0, 2.0])
@pytest.mark.parametrize("C", [0.01, 0.1])
def test_c_svm_equals_liblinear(C, bias):
    X, y = cancer()
    oracle = LinearSVC(C=C, loss="hinge", dual=True, tol=1e-8, max_iter=10**6, fit_intercept=False)
    full = np.c_[X, np.full(len(X), bias)]
    w = oracle.fit(full, y).coef_[0]
    model, report = train(X, y, C=C, bias=bias, tol=1e-3)
    optimum = primal(w, 0.0, full, y, C)
    assert_certified(model, report, optimum, 1e-3)
    found = primal(np.append(model.coef_[0], model.intercept_[0] / bias if bias else 0.0), 0.0, full, y, C)
    assert found == pytest.approx(model.certificate.total_primal, rel=1e-9)


@pytest.mark.parametrize("C", [0.01, 0.1])
def test_unpenalised_bias_equals_libsvm(C):
    X, y = cancer()
    oracle = SVC(kernel="linear", C=C, tol=1e-8).fit(X, y)
    optimum = primal(oracle.coef_[0], oracle.intercept_[0], X, y, C)
    model, report = train(X, y, C=C, intercept=True, tol=1e-3)
    assert_certified(model, report, optimum, 1e-3)
    assert primal(model.coef_[0], model.intercept_[0], X, y, C) == pytest.approx(optimum, rel=1e-3)
    assert np.mean(model.predict(X) == oracle.predict(X)) >= 0.99


@pytest.mark.parametrize("intercept", [False, True])
def test_lp_svm_equals_linear_program(intercept):
    X, y = cancer(120)
    X, C = X[:, :8], 0.1
    s = 2.0 * y[:, None] - 1
    n, d = X.shape
    free = np.c_[-s, s] if intercept else np.zeros((n, 0))
    A = np.c_[-s * X, s * X, free, -np.eye(n)]
    cost = np.r_[np.ones(2 * d), np.zeros(free.shape[1]), np.full(n, C)]
    optimum = linprog(cost, A_ub=A, b_ub=-np.ones(n)).fun
    model, report = train(X, y, C=C, penalty="l1", intercept=intercept, tol=1e-3)
    assert_certified(model, report, optimum, 1e-3)
    found = primal(model.coef_[0], model.intercept_[0], X, y, C, penalty="l1")
    assert found == pytest.approx(optimum, rel=1e-3)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("step", ["auto", "paper"])
def test_ls_svm_equals_linear_system(intercept, step):
    X, y = cancer()
    s, C, ridge = 2.0 * y - 1, 0.01, np.eye(31)
    full = np.c_[X, np.ones(len(X)) if intercept else np.zeros(len(X))]
    if intercept:
        ridge[-1, -1] = 0.0
    w = np.linalg.solve(ridge + 2 * C * full.T @ full, 2 * C * full.T @ s)
    model, report = train(
        X, y, C=C, loss="least-squares", intercept=intercept, step=step, tol=1e-8, max_passes=20_000
    )
    assert_certified(model, report, primal(w[:-1], w[-1], X, y, C, "least-squares"), 1e-8)
    # the objective is strongly convex: ½‖w − w*‖² ≤ F(w) − F(w*) ≤ tol F(w)
    allowed = np.sqrt(2 * 1e-8 * model.certificate.total_primal)
    assert np.linalg.norm(model.coef_[0] - w[:-1]) <= allowed
    assert model.intercept_[0] == pytest.approx(w[-1], abs=allowed)


def test_one_problem_per_class():
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model, report = train(X, y, C=0.1, bias=1.0)
    assert report.converged
    assert len(model.certificate.primal) == 3
    for c in range(3):
        alone, _ = train(X, (y == c).astype(int), C=0.1, bias=1.0)
        assert model.certificate.primal[c] == pytest.approx(alone.certificate.total_primal, rel=2e-3)
        assert model.certificate.dual[c] <= alone.certificate.total_primal


def test_weights_count():
    X, y = cancer(100)
    doubled, _ = train(np.r_[X, X[y == 1]], np.r_[y, y[y == 1]], C=0.1)
    weighted, _ = train(X, y, C=0.1, class_weight={1: 2.0})
    assert weighted.certificate.total_primal == pytest.approx(doubled.certificate.total_primal, rel=1e-3)


# -- the method --------------------------------------------------------------------------------------------


def test_paper_step_keeps_its_rate():
    """F_μ(y^k) − F_μ(w*) ≤ 4 L d(w*)/((k + 1)(k + 2)), eq. 43, with d(w) = ½‖w‖² and L of eq. 48."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 5))
    s = np.sign(X @ rng.normal(size=5) + rng.normal(size=60))
    mu, C = 5.0, 1.0
    size = np.abs(X).max(axis=1)

    def smoothed(w):
        z = 1 - s * (X @ w)
        u = np.clip(z / (mu * size), 0, 1)
        return 0.5 * w @ w + C * (u @ z - mu / 2 * size @ u**2), w - C * X.T @ (s * u)

    best = minimize(smoothed, np.zeros(5), jac=True, method="BFGS", options={"gtol": 1e-12})
    L = 1 + C * len(X) / mu * ((X**2).sum(axis=1) / size).max()
    steps, excess, bounds = PaperSteps.begin(5, L), [], []
    for k in range(300):
        steps = steps.advance(smoothed(steps.w)[1], True)
        excess.append(smoothed(steps.y)[0] - best.fun)
        bounds.append(4 * L * 0.5 * (best.x @ best.x) / ((k + 1) * (k + 2)))
    assert np.all(np.array(excess) <= np.array(bounds))
    assert excess[-1] < 0.01 * excess[0]


def test_solver_with_paper_step_follows_algorithm_1():
    """The solver's own passes with the paper's step are the iterations above: same objective after k passes."""
    X, y = cancer(80)
    s, mu, size = 2.0 * y - 1, 5.0, np.abs(X).max(axis=1)
    L = 1 + len(X) / mu * ((X**2).sum(axis=1) / size).max()
    steps, best = PaperSteps.begin(30, L), np.inf
    for _ in range(40):
        z = 1 - s * (X @ steps.w)
        u = np.clip(z / (mu * size), 0, 1)
        best = min(best, primal(steps.w, 0, X, y, 1.0), primal(steps.y, 0, X, y, 1.0))
        steps = steps.advance(steps.w - X.T @ (s * u), True)
    model, report = train(X, y, step="paper", homotopy=False, max_passes=41)
    assert report.extra["L"] == pytest.approx(L)
    assert model.certificate.total_primal == pytest.approx(best, rel=1e-6)


ADULT = ["a1a", *(pytest.param(f"a{i}a", marks=pytest.mark.slow) for i in (4, 9))]


@pytest.mark.parametrize("name", ADULT)
def test_default_step_needs_ten_times_fewer_passes(name, data_dir, tmp_path):
    path = tmp_path / f"{name}.svm"
    path.write_bytes(lzma.decompress((data_dir / "adult" / f"{name}.xz").read_bytes()))
    _, fast = _train_file(path, "auto", 400)
    assert fast.converged
    _, slow = _train_file(path, "paper", 10 * fast.passes)
    assert not slow.converged


@pytest.mark.slow
def test_covertype_from_disk_within_a_thousandth_of_liblinear(data_dir, tmp_path):
    with lzma.open(data_dir / "covtype" / "covtype.data.xz", "rt") as file:
        table = np.loadtxt(islice(file, 0, None, 20), delimiter=",", dtype=np.float32)
    X, y = table[:, :-1], table[:, -1] == 2
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1)
    path = tmp_path / "rows.npy"
    np.save(path, np.c_[X, y].astype(np.float32))
    oracle = LinearSVC(C=1, loss="hinge", tol=1e-6, max_iter=10**6, fit_intercept=False).fit(X, y)
    optimum = primal(oracle.coef_[0], 0, X.astype(float), y, 1.0)
    chosen = Settings(solver="nesvm", label="last", max_passes=400)
    budget = MemoryBudget(5_000_000, runtime_bytes=0)
    with Training(open_with_settings(chosen, str(path)), chosen, budget=budget) as training:
        *_, fast = training
        assert not training.stream.in_one_block
        assert_certified(training.model, fast, optimum, 1e-3)
        assert fast.certificate.total_primal <= optimum * 1.001


def _train_file(path, step, passes, **options):
    chosen = Settings(solver="nesvm", step=step, max_passes=passes, **options)
    with Training(open_source(path), chosen) as training:
        reports = list(training)
        return training.model, reports[-1]


@pytest.mark.parametrize("name", ADULT)
def test_adult_within_a_thousandth_of_liblinear(name, data_dir, tmp_path):
    path = tmp_path / name
    path.write_bytes(lzma.decompress((data_dir / "adult" / f"{name}.xz").read_bytes()))
    X, y = load_svmlight_file(str(path), n_features=123)
    X = X.toarray()
    oracle = LinearSVC(C=1, loss="hinge", tol=1e-6, max_iter=10**6, fit_intercept=False).fit(X, y)
    optimum = primal(oracle.coef_[0], 0, X, y > 0, 1.0)
    model, report = _train_file(path, "auto", 400)
    assert_certified(model, report, optimum * (1 + 1e-5), 1e-3)
    assert model.certificate.total_primal <= optimum * 1.001


@pytest.mark.parametrize("loss", ["hinge", "least-squares"])
def test_blocks_from_disk_change_nothing(loss, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 12)).astype(np.float32)
    y = (X @ rng.normal(size=12) + rng.normal(size=20_000) > 0).astype(int)
    path = tmp_path / "rows.svm"
    with path.open("w") as file:
        for row, label in zip(X, y, strict=True):
            file.write(f"{label} " + " ".join(f"{j + 1}:{v:.6g}" for j, v in enumerate(row)) + "\n")
    options = {"solver": "nesvm", "loss": loss, "C": 0.01, "threads": 2, "tol": 1e-4}
    primals = []
    for limit in (None, 2_400_000):
        budget = None if limit is None else MemoryBudget(limit, runtime_bytes=0)
        with Training(open_source(str(path)), Settings(**options, max_passes=500), budget=budget) as training:
            *_, last = training
            assert last.converged
            assert training.stream.in_one_block == (limit is None)
            primals.append(training.model.certificate.total_primal)
    assert primals[0] == pytest.approx(primals[1], rel=1e-4)


@pytest.mark.parametrize("step", ["auto", "paper"])
def test_stops_by_the_change_of_the_objective(step):
    """|ΔF_μ| < tol ends each stage; the last is the first with μ ≤ mu_end. Settled is not converged."""
    X, y = cancer()
    options = {"C": 0.1, "step": step, "stop": "change", "tol": 1e-3}
    _, last = train(X, y, mu=1.0, mu_end=0.3, **options)
    assert last.cause == SETTLED
    assert not last.converged
    assert last.certificate.relative_gap > 1e-3
    assert last.extra["mu"] == pytest.approx(0.3 if step == "auto" else 0.25)  # 1/2, 1/3, 1/4
    _, fixed = train(X, y, mu=0.3, homotopy=False, **options)
    assert fixed.cause == SETTLED
    assert not fixed.converged
    assert fixed.extra["mu"] == 0.3


def test_repeats_exactly():
    X, y = cancer(200)
    first, second = train(X, y, C=0.1)[0], train(X, y, C=0.1)[0]
    np.testing.assert_array_equal(first.coef_, second.coef_)


# -- parts -------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_best_dual_is_attained_by_a_mixture(seed):
    """Its value is that of the v it says, never falls, is no less than that of any point met, and no more than any
    mixture of all of them can reach."""
    rng = np.random.default_rng(seed)
    best = BestDual.zero(4)
    points, before = [(0.0, np.zeros(4))], 0.0
    for _ in range(8):
        s, v = float(rng.uniform(0, 3)), rng.normal(size=4)
        points.append((s, v))
        best = best.mixed_with(s, v)
        assert best.value >= max(before, s - 0.5 * v @ v) - 1e-9
        before = best.value
    S, V = np.array([s for s, _ in points]), np.array([v for _, v in points])
    # Frank-Wolfe over all points bounds what any mixture can reach
    share = np.full(len(S), 1 / len(S))
    for k in range(5000):
        slope = S - V @ (V.T @ share)
        share += 2 / (k + 3) * (np.eye(len(S))[np.argmax(slope)] - share)
    slope = S - V @ (V.T @ share)
    upper = share @ S - 0.5 * (share @ V) @ (share @ V) + float(slope.max() - slope @ share)
    assert best.value <= upper + 1e-9
    theta = np.linalg.lstsq(np.c_[V, np.ones(len(V))].T, np.append(best.v, 1.0))[0]
    np.testing.assert_allclose(theta @ V, best.v, atol=1e-9)  # a mixture of the points


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "least-squares", "penalty": "l1"}, "least-squares"),
        ({"intercept": True, "bias": 1.0}, "choose one"),
        ({"solver": "llsvm", "intercept": True}, "nesvm"),
        ({"step": "long"}, "auto, paper"),
        ({"mu": -1.0}, "mu"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(UsageError, match=words):
        Settings(**({"solver": "nesvm"} | options))


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_the_metric_solves_what_it_measures(kind):
    """G = Σ c_i x_i x_iᵀ / ‖x_i‖∞ of the rows with their constant feature; the first τ has ½ gᵀ(τG)⁻¹g = F."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5)).astype(np.float32)
    chosen = Settings(solver="nesvm", C=0.5)
    with Training(open_source(csr_matrix(X) if kind == "sparse" else X, X[:, 0] > 0), chosen) as training:
        next(report for report in training if report.kind == "pass")
        stream = training.stream
        costs = RowCosts(np.full(2, 0.5))
        rows = GradientPass(stream, Threads(1), costs, 1.0, False, kernel.HINGE, np.ones((1, 2)))
        metric = Metric.gram(rows, 6, hinge=True)
    full = np.c_[X.astype(float), np.ones(300)]
    G = 0.5 * (full / np.abs(full).max(axis=1)[:, None]).T @ full
    g, ones = rng.normal(size=6), np.eye(6)
    np.testing.assert_allclose(metric.solve(0.5, 2.0, g), np.linalg.solve(0.5 * ones + 2.0 * G, g))
    assert metric.square(0.5, 2.0, g) == pytest.approx(g @ (0.5 * ones + 2.0 * G) @ g)
    tau = metric.first_curvature(g, 3.0)
    assert 0.5 * g @ np.linalg.solve(tau * G, g) == pytest.approx(3.0)
    plain = Metric.identity()
    np.testing.assert_allclose(plain.solve(0.5, 2.0, g), g / 2.5)
    assert plain.square(0.5, 2.0, g) == pytest.approx(2.5 * g @ g)
    assert plain.first_curvature(g, 3.0) == pytest.approx(0.5 * g @ g / 3.0)
