"""SMO against LIBSVM (scikit-learn), linear systems and slow twins; every machine at C to 10⁴ ends certified."""

import lzma
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from cells import in_turn
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from oracle import rows, small_pages, write_svmlight
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits, load_svmlight_file
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from state_suite import Case, check_refuses, check_resumes

import llsvm
from llsvm.data import open_source
from llsvm.errors import BudgetError, DataError, UsageError
from llsvm.memory.budget import MemoryBudget
from llsvm.objective.losses import new_loss
from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.problem import KernelObjective
from llsvm.solvers.kernel_machine.run import KernelRun
from llsvm.solvers.smo.kernels import INDEFINITE, add_rows, pair_steps, single_steps
from llsvm.solvers.smo.subproblem import WorkingSetProblem, newton
from llsvm.stream.progress import Progress
from llsvm.training.training import Training


def train(X, y, limit=None, weight=None, **options):
    """The finished Training and its last report; ``limit``: an artificial ledger in bytes."""
    budget = None if limit is None else MemoryBudget(limit, runtime_bytes=0)
    options = {"kernel": "rbf", "intercept": True, "solver": "smo"} | options
    with Training(open_source(X, y, weight), Settings(**options), budget=budget) as training:
        reports = list(training)
        return training, reports[-1]


def optimum_of(K, y, C, intercept=True, loss="hinge"):
    """By LIBSVM, or, of least squares, by a linear system."""
    s = 2.0 * y - 1
    if loss == "least-squares":
        n = len(s)
        A = np.block([[K + np.eye(n) / (2 * C), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
        if not intercept:
            A = A[:-1, :-1]
        beta = np.linalg.solve(A, np.append(s, 0.0)[: len(A)])[:n]
        b = np.linalg.solve(A, np.append(s, 0.0))[n] if intercept else 0.0
        f = K @ beta
        return 0.5 * beta @ f + C * ((1 - s * (f + b)) ** 2).sum()
    ridge = 0.0 if loss == "hinge" else 0.5 / C
    svm = SVC(C=C if loss == "hinge" else 1e10, kernel="precomputed", tol=1e-7, max_iter=3_000_000)
    svm.fit(K + ridge * np.eye(len(y)), y)
    beta = np.zeros(len(K))
    beta[svm.support_] = svm.dual_coef_[0]
    return float(s @ beta - 0.5 * (beta @ K @ beta + ridge * beta @ beta))  # of the dual


def a1a(data_dir, tmp_path):
    (tmp_path / "a1a").write_bytes(lzma.decompress((data_dir / "adult" / "a1a.xz").read_bytes()))
    X, y = load_svmlight_file(str(tmp_path / "a1a"))
    return X.toarray(), (y > 0).astype(int)


@pytest.mark.parametrize("C", [1e-2, 1.0, 1e2, 1e4])
@pytest.mark.parametrize("name", ["a1a", "digits"])
def test_certified_at_any_C_on_a1a_and_digits(name, C, data_dir, tmp_path):
    """NESVM's 200 passes do not do from C = 100 on; LIBSVM's objective is within what the certificate says."""
    if name == "a1a":
        X, y = a1a(data_dir, tmp_path)
    else:
        X, y = load_digits(return_X_y=True)
        X, y = X / 16, (y >= 5).astype(int)
    training, report = train(X, y, C=C)
    certificate = training.model.certificate
    assert report.converged
    assert report.passes <= 8
    K = rbf_kernel(X, gamma=1 / X.shape[1])
    svm = SVC(C=C, kernel="precomputed", tol=1e-3, cache_size=500).fit(K, y)
    beta, s = np.zeros(len(y)), 2.0 * y - 1
    beta[svm.support_] = svm.dual_coef_[0]
    f = K @ beta
    theirs = 0.5 * beta @ f + C * np.maximum(0, 1 - s * (f + svm.intercept_[0])).sum()
    assert certificate.total_dual <= theirs * (1 + 1e-7)
    assert certificate.total_primal <= theirs * (1 + 1e-3)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "least-squares"])
@pytest.mark.parametrize("C", [1.0, 1e3])
def test_losses_with_and_without_an_intercept(loss, intercept, C):
    X, y = rows(n=150, d=4, seed=3)
    training, report = train(X, y, loss=loss, C=C, gamma=0.3, tol=1e-6, intercept=intercept)
    assert report.converged
    certificate = training.model.certificate
    nesvm = {"solver": "nesvm", "tol": 1e-2, "max_passes": 400}
    if loss == "least-squares" or intercept:
        K = rbf_kernel(X.astype(np.float32).astype(float), gamma=0.3)
        optimum = optimum_of(K, y, C, intercept, loss)
        assert certificate.total_primal == pytest.approx(optimum, rel=1e-5)
    elif C == 1.0:
        other, _ = train(X, y, loss=loss, C=C, gamma=0.3, intercept=intercept, **nesvm)
        assert certificate.total_dual <= other.model.certificate.total_primal
        assert certificate.total_primal >= other.model.certificate.total_dual


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "least-squares"])
def test_classes_and_weights_are_as_with_nesvm(multiclass, loss):
    X, y = rows(n=120, d=4, classes=3, seed=2)
    weight = np.random.default_rng(0).integers(0, 3, 120).astype(float)
    options = {"multiclass": multiclass, "loss": loss, "gamma": 0.2, "class_weight": {"0": 2.0}, "tol": 1e-5}
    for intercept in (True, False):
        ours, report = train(X, y, weight=weight, intercept=intercept, threads=2, **options)
        assert report.converged
        by_nesvm = {**options, "solver": "nesvm", "max_passes": 500, "tol": 1e-2}
        theirs, other = train(X, y, weight=weight, intercept=intercept, **by_nesvm)
        assert other.converged
        one, two = ours.model.certificate, theirs.model.certificate
        assert len(one.primal) == 3
        assert np.all(np.array(one.dual) <= two.primal)
        assert np.all(np.array(two.dual) <= one.primal)


small = st.integers(4, 30).flatmap(
    lambda n: st.tuples(st.just(n), st.integers(0, 1000), st.sampled_from([0.01, 1.0, 1e3, 1e6]))
)


@given(small, st.sampled_from(["hinge", "squared_hinge", "least-squares"]), st.booleans(), st.booleans())
@hypothesis_settings(max_examples=40, deadline=None)
def test_small_ones_end_certified(case, loss, intercept, twice):
    n, seed, C = case
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, 2)), np.arange(n) % 2
    if twice:
        X, y = np.r_[X, X], np.r_[y, rng.integers(0, 2, n)]  # the same rows, maybe of the other class
    training, report = train(X, y, loss=loss, C=C, gamma=0.5, intercept=intercept)
    assert report.converged
    certificate = training.model.certificate
    assert certificate.total_dual <= certificate.total_primal * (1 + 1e-9)
    assert certificate.total_primal <= 2 * n * C + 1e-9  # of β = 0


@pytest.mark.parametrize("C", [1.0, 1e4])
def test_a_constant_kernel_is_an_intercept(C):
    y = np.array([0, 1, 1, 0, 1])
    training, report = train(np.ones((5, 5)), y, kernel="precomputed", C=C, intercept=True)
    assert report.converged
    assert training.model.certificate.total_primal == pytest.approx(2 * 2 * C, rel=1e-3)


def test_kernels_that_have_no_optimum_are_refused():
    X, y = rows(n=100, d=3, seed=0)
    for loss in ("hinge", "squared_hinge", "least-squares"):
        for intercept in (True, False):
            options = {"kernel": "precomputed", "loss": loss, "intercept": intercept, "C": 100.0}
            with pytest.raises(DataError, match="semi-definite"):
                train(np.tanh(2 * X @ X.T - 1), y, **options)
            K = rbf_kernel(X)
            K[:50] *= 0.5
            with pytest.raises(DataError, match="symmetric"):
                train(K, y, **options)


def test_a_matrix_that_was_given_is_as_good_as_its_function():
    X, y = rows(n=200, d=4, seed=1)
    K = rbf_kernel(X.astype(np.float32).astype(float), gamma=0.25)
    direct, _ = train(X, y, gamma=0.25, C=50.0)
    for given_matrix in (K, csr_matrix(K)):
        training, report = train(given_matrix, y, kernel="precomputed", C=50.0)
        assert report.converged
        first, second = training.model.certificate, direct.model.certificate
        assert first.total_primal == pytest.approx(second.total_primal, rel=1.1e-3)
        scores = training.model.decision_function(given_matrix)
        np.testing.assert_allclose(scores, direct.model.decision_function(X), atol=0.2)


@pytest.mark.parametrize(
    ("loss", "kernel"), in_turn(["hinge", "squared_hinge", "least-squares"], ["rbf", "precomputed"], 1)
)
def test_a_matrix_that_does_not_fit_has_the_same_optimum(loss, kernel):
    X, y = rows(n=900, d=5, seed=4)
    options = {"loss": loss, "C": 1.0}
    data, limit = X, 8 * 900**2 * (2 if loss == "squared_hinge" else 1) // 3
    if kernel == "precomputed":
        data, limit = rbf_kernel(X, gamma=0.1), 8 * 900**2
    else:
        options["gamma"] = 0.1
    training, report = train(data, y, limit, kernel=kernel, **options)
    assert report.converged
    assert ("spill" if kernel == "rbf" else training.stream.place) in report.note
    assert training.stream.budget.reserved_bytes <= limit
    assert "kernel matrix" not in training.stream.plan.lines
    whole, _ = train(data, y, kernel=kernel, **options)
    first, second = training.model.certificate, whole.model.certificate
    assert first.total_primal == pytest.approx(second.total_primal, rel=1.1e-3)
    assert max(first.total_dual, second.total_dual) <= min(first.total_primal, second.total_primal)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "least-squares"])
@pytest.mark.parametrize(("kernel", "C"), [("rbf", 1e3), ("poly", 1e2), ("linear", 1e2)])
def test_the_certificate_is_of_the_model_handed_back(loss, kernel, C):
    """Where values are large, by no less than rounding may have hidden."""
    X, y = rows(n=150, d=2, seed=5)
    X = (X + 3.0).astype(np.float32).astype(float)
    training, report = train(X, y, kernel=kernel, loss=loss, C=C, gamma=0.5)
    assert report.converged
    model, s = training.model, 2.0 * y - 1
    machine, beta, f = model.feature_map, model.coef_[0], model.decision_function(X)
    Z = np.asarray(machine.landmarks, float)
    z = 1 - s * f if loss == "least-squares" else np.maximum(0, 1 - s * f)
    objective = 0.5 * beta @ machine.function.between(Z, Z, 2) @ beta
    objective += C * (z.sum() if loss == "hinge" else (z**2).sum())
    assert objective <= model.certificate.total_primal * (1 + 1e-9)
    assert objective >= model.certificate.total_dual
    assert objective == pytest.approx(model.certificate.total_primal, rel=1e-4)


def test_without_a_kernel_it_is_refused():
    for options in ({}, {"kernel": "rbf", "feature_map": "rff"}):
        with pytest.raises(UsageError, match="smo is for kernel machines: pass kernel"):
            Settings(solver="smo", **options)


# -- state ---------------------------------------------------------------------------------------------------

CHOSEN = {
    "solver": "smo",
    "kernel": "rbf",
    "gamma": 0.2,
    "tol": 1e-6,
    "bias": 0.0,
    "C": 100.0,
    "max_passes": 25,
}


STATES = {
    "binary": Case({**CHOSEN, "intercept": True}, n=100),
    "two threads, ovr": Case(CHOSEN, threads=2, n=90, classes=3),
    "ovo, weighted": Case({**CHOSEN, "multiclass": "ovo"}, classes=3, n=100, weighted=True),
    "squared hinge": Case({**CHOSEN, "loss": "squared_hinge", "intercept": True}, n=100),
    "least squares": Case({**CHOSEN, "loss": "least-squares", "intercept": True}, n=100),
}


@pytest.mark.parametrize("case", STATES.values(), ids=STATES)
def test_goes_on_as_if_it_had_not_stopped(case, tmp_path, monkeypatch):
    """With a little work in each pass there are many of each kind."""
    monkeypatch.setattr("llsvm.solvers.smo.solver.PASS_ROUNDS", 2)
    with case.stream(tmp_path) as stream:
        assert len(list(case.solver().solve(stream))) > 1
    check_resumes(case, tmp_path)


@pytest.mark.parametrize("loss", ["hinge", "least-squares"])
def test_goes_on_with_a_matrix_on_disk(loss, tmp_path, monkeypatch):
    small_pages(monkeypatch)
    settings = {**CHOSEN, "loss": loss, "tol": 0.01, "C": 1.0, "max_passes": 6}
    case = Case(settings, 1_000_000, n=500, d=20, from_file="cache")
    assert 8 * case.n**2 > case.ledger
    check_resumes(case, tmp_path)


def test_states_of_something_else_are_refused(tmp_path):
    check_refuses(replace(STATES["binary"], settings=CHOSEN), tmp_path)


# -- slow twins ----------------------------------------------------------------------------------------------


def slow_steps(K, diagonal, lower, upper, beta, gradient, pairs, steps):
    """Fan, Chen, Lin 2005, and one row at a time, in NumPy."""
    for _ in range(steps):
        up, down = beta < upper, beta > lower
        if pairs:
            i = int(np.argmax(np.where(up, gradient, -np.inf)))
            ascent = gradient[i] - gradient
            curvature = np.maximum(diagonal[i] + diagonal - 2 * K[i], 1e-12 * (diagonal[i] + diagonal))
            j = int(np.argmax(np.where(down & (ascent > 0), ascent**2 / curvature, -1.0)))
            if not ascent[j] > 0 or not down[j]:
                return
            change = min(ascent[j] / curvature[j], upper[i] - beta[i], beta[j] - lower[j])
            moved = {i: change, j: -change}
        else:
            ascent = np.where(((gradient > 0) & up) | ((gradient < 0) & down), gradient, 0.0)
            i = int(np.argmax(ascent**2 / diagonal))
            if ascent[i] == 0:
                return
            moved = {i: np.clip(beta[i] + ascent[i] / diagonal[i], lower[i], upper[i]) - beta[i]}
        for t, change in moved.items():
            beta[t] += change
            gradient -= change * K[t]
            gradient[t] -= change * (diagonal[t] - K[t, t])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pairs", [True, False])
@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_steps(seed, pairs, ridge):
    rng = np.random.default_rng(seed)
    n = 30
    K = rbf_kernel(rng.normal(size=(n, 3)))
    sign, cost = rng.choice([-1.0, 1.0], n), rng.choice([0.1, 1.0, 50.0], n)
    lower, upper = np.minimum(0, sign * cost), np.maximum(0, sign * cost)
    diagonal = K.diagonal() + ridge
    slow, fast = (np.zeros(n), sign.copy()), (np.zeros(n), sign.copy())
    slow_steps(K, diagonal, lower, upper, *slow, pairs, 25)
    make = pair_steps if pairs else single_steps
    made = 0
    for _ in range(5):
        made += make(K, diagonal, lower, upper, *fast, *np.empty((3, n)), 5, 0.0)
    assert made == 25
    np.testing.assert_allclose(fast[0], slow[0], atol=1e-7)
    np.testing.assert_allclose(fast[1], slow[1], atol=1e-7)
    np.testing.assert_allclose(fast[1], sign - K @ fast[0] - ridge * fast[0], atol=1e-9)
    assert np.all((lower <= fast[0]) & (fast[0] <= upper))
    if pairs:
        assert abs(fast[0].sum()) < 1e-9


def test_steps_tell_a_kernel_that_is_none():
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    arrays = (K, np.ones(2), np.array([0.0, -1.0]), np.array([1.0, 0.0]), np.zeros(2), np.array([1.0, -1.0]))
    assert pair_steps(*arrays, *np.empty((3, 2)), 5, 0.0) == INDEFINITE
    K[0, 0] = -1.0
    arrays = (K, np.ones(2), np.zeros(2), np.ones(2), np.zeros(2), np.ones(2))
    assert single_steps(*arrays, *np.empty((3, 2)), 5, 0.0) == INDEFINITE


def test_sums_of_rows():
    rng = np.random.default_rng(0)
    K, out = rng.normal(size=(6, 4)), np.ones(4)
    add_rows(K, np.array([1, 4]), np.array([2.0, -3.0]), out)
    np.testing.assert_allclose(out, 1 + 2 * K[1] - 3 * K[4])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("intercept", [True, False])
def test_newtons_method_from_anywhere(seed, intercept):
    """From random feasible β, on a part of the rows whose β have a sum to keep."""
    rng = np.random.default_rng(seed)
    n = 60
    K = rbf_kernel(rng.normal(size=(n, 2)), gamma=1.0)
    sign, cost = rng.choice([-1.0, 1.0], n), np.full(n, 1e3)
    beta = sign * cost * rng.choice([0.0, 0.3, 1.0], n)
    objective = KernelObjective(new_loss("hinge"), intercept, sign, cost, np.zeros((2, n)))
    sub = WorkingSetProblem(K, objective, beta, K @ beta, 1e6, 1e-7)
    total, solved = beta.sum(), False
    for _ in range(60):
        before = sub.dual(sub.beta, sub.f)
        _, solved = newton(sub, n, 1, Progress())
        assert np.all((objective.lower <= sub.beta) & (sub.beta <= objective.upper))
        assert sub.dual(sub.beta, sub.f) >= before - 1e-6 * abs(before)
        if solved:
            break
    assert solved
    assert sub.is_solved(sub.beta, sub.f)
    if intercept:
        assert sub.beta.sum() == pytest.approx(total, abs=1e-6 * np.abs(sub.beta).sum())
    np.testing.assert_allclose(sub.f, K @ sub.beta, atol=1e-6 * np.abs(sub.beta).max())


@pytest.mark.parametrize("solver", ["smo", "nesvm"])
@pytest.mark.parametrize("layout_of", [np.asarray, csr_matrix])
def test_support_vectors_are_copied_once_in_memory_that_was_reserved(
    solver, layout_of, tmp_path, monkeypatch
):
    """They may be all rows, and larger than the kernel matrix, its blocks and tiles."""
    X, y = rows(150, 3000, noise=3.0)
    path = tmp_path / "rows.npz"
    if layout_of is np.asarray:
        np.savez(path, X=X, y=y)
    else:
        path = write_svmlight(tmp_path / "rows.svm", X, y)
    taken, expand = [], KernelRun._expand

    def noting(run, beta):
        tracemalloc.start()
        support, features = expand(run, beta)
        taken.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        held = features.landmarks
        taken.append(held.nbytes if isinstance(held, np.ndarray) else held.data.nbytes + held.indices.nbytes)
        assert support.all()
        return support, features

    monkeypatch.setattr(KernelRun, "_expand", noting)
    options = {"solver": solver, "gamma": 1.0, "spill_dir": str(tmp_path)}
    with pytest.raises(BudgetError) as refused:
        train(str(path), None, limit=200_000, **options)
    smallest = refused.value.smallest_bytes
    training, report = train(str(path), None, limit=smallest, **options)
    peak, nbytes = taken
    assert peak <= 1.2 * nbytes
    lines = training.stream.plan.lines
    given_up = ("kernel tile", "kernel pages", "blocks of the kernel matrix", "systems of rows")
    assert nbytes <= sum(lines.get(name, 0) for name in ("support vectors", *given_up))
    assert training.stream.place == "cache"
    assert report.converged


@pytest.mark.parametrize("solver", ["smo", "nesvm"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "least-squares"])
def test_an_intercept_of_two_classes_that_weigh_nothing_is_0(solver, loss):
    X = np.random.default_rng(0).normal(size=(24, 3))
    y = np.arange(24) % 4
    weight = np.where(y < 2, 1.0, 0.0)
    options = {"solver": solver, "loss": loss, "kernel": "rbf", "multiclass": "ovo", "intercept": True}
    model = llsvm.train(X, y, sample_weight=weight, threads=1, **options)
    assert model.converged
    assert model.intercept_[5] == 0.0  # of 2 against 3
    assert (model.predict(X) < 2).all()
