"""NESVM with kernels and approximate feature maps against LIBSVM and scikit-learn, and within a memory limit."""

import lzma

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits, load_svmlight_file
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.svm import SVC

from llsvm.block import CSR
from llsvm.data import open_source
from llsvm.errors import DataError, DiskError, UsageError
from llsvm.features.feature_map import FeatureMap, KernelFunction
from llsvm.memory.budget import MemoryBudget
from llsvm.models.model import Model
from llsvm.objective.losses import new_loss
from llsvm.scoring.measure import measure
from llsvm.settings.settings import Settings
from llsvm.solvers.base import ROUNDED
from llsvm.solvers.kernel_machine.problem import KernelObjective
from llsvm.training.training import Training

KERNELS = {
    "rbf": lambda X, Z: rbf_kernel(X, Z, gamma=0.3),
    "poly": lambda X, Z: polynomial_kernel(X, Z, gamma=0.3, degree=2, coef0=1.0),
    "linear": linear_kernel,
}
PARAMETERS = {"gamma": 0.3, "degree": 2, "coef0": 1.0}


def train(X, y=None, limit=None, **options):
    """The finished Training, its model and its last report; ``limit``: an artificial ledger in bytes."""
    budget = None if limit is None else MemoryBudget(limit, runtime_bytes=0)
    options = {
        "solver": "nesvm",
        "kernel": "rbf",
        "intercept": True,
        "max_passes": 2000,
        "threads": 2,
    } | options
    source = open_source(X) if y is None else open_source(X, y)
    with Training(source, Settings(**options), budget=budget) as training:
        reports = list(training)
        return training, training.model, reports[-1]


def moons(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    return X, (np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.5 * rng.normal(size=n) > 1).astype(int)


def primal(beta, b, K, y, C):
    f = K @ beta
    return 0.5 * beta @ f + C * np.maximum(0, 1 - (2.0 * y - 1) * (f + b)).sum()


def libsvm(K, y, C):
    """Optimum and model of LIBSVM on a kernel matrix."""
    svm = SVC(C=C, kernel="precomputed", tol=1e-6).fit(K, y)
    beta = np.zeros(len(K))
    beta[svm.support_] = svm.dual_coef_[0]
    return primal(beta, svm.intercept_[0], K, y, C), svm


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_equals_libsvm(kernel, sparse):
    X, y = moons(100 if kernel == "linear" else 300)
    if sparse:
        X[np.abs(X) < 0.7] = 0.0
    X = X.astype(np.float32).astype(float)
    optimum, oracle = libsvm(KERNELS[kernel](X, X), y, 1.0)
    _, model, report = train(csr_matrix(X) if sparse else X, y, kernel=kernel, **PARAMETERS)
    certificate = model.certificate
    assert report.converged
    assert certificate.total_dual <= optimum * (1 + 1e-5)
    assert certificate.total_primal == pytest.approx(optimum, rel=1e-3)
    Z, _ = moons(1000, seed=1)
    theirs = oracle.predict(KERNELS[kernel](Z, X))
    assert np.mean(model.predict(csr_matrix(Z) if sparse else Z) == theirs) >= 0.99


def test_precomputed_equals_function():
    X, y = moons()
    K = KERNELS["rbf"](X, X)
    _, direct, _ = train(X, y, **PARAMETERS)
    _, given, report = train(K, y, kernel="precomputed")
    assert report.converged
    assert given.certificate.total_primal == pytest.approx(direct.certificate.total_primal, rel=1e-3)
    Z, _ = moons(200, seed=1)
    scores = given.decision_function(KERNELS["rbf"](Z, X))
    np.testing.assert_allclose(scores, direct.decision_function(Z), atol=0.1)
    np.testing.assert_allclose(given.decision_function(csr_matrix(KERNELS["rbf"](Z, X))), scores)
    with pytest.raises(DataError, match="300 columns"):
        train(K[:, :200], y, kernel="precomputed")


@pytest.mark.parametrize("intercept", [False, True])
def test_least_squares_equals_linear_system(intercept):
    X, y = moons(150)
    K, s, C = KERNELS["rbf"](X, X), 2.0 * y - 1, 0.5
    A = np.block([[K + np.eye(150) / (2 * C), np.ones((150, 1))], [np.ones((1, 150)), np.zeros((1, 1))]])
    if not intercept:
        A = A[:-1, :-1]
    solution = np.linalg.solve(A, np.r_[s, np.zeros(len(A) - 150)])
    beta, b = solution[:150], solution[150:].sum()
    f = K @ beta
    optimum = 0.5 * beta @ f + C * ((1 - s * (f + b)) ** 2).sum()
    _, model, report = train(X, y, loss="least-squares", C=C, tol=1e-6, intercept=intercept, **PARAMETERS)
    assert report.converged
    assert model.certificate.total_primal == pytest.approx(optimum, rel=1e-5)
    assert model.certificate.total_dual <= optimum * (1 + 1e-6)


def test_certificate_is_of_the_model_handed_back():
    X, y = moons()
    X = X.astype(np.float32).astype(float)
    for options in ({"intercept": True}, {"intercept": False}, {"intercept": False, "bias": 1.5}):
        training, model, _ = train(X, y, **options, **PARAMETERS)
        K = KERNELS["rbf"](X, X)
        beta = training._last.coef[0, :-1]
        extra = options.get("bias", 0.0) ** 2
        loss = np.maximum(0, 1 - (2.0 * y - 1) * model.decision_function(X)).sum()
        found = 0.5 * (beta @ K @ beta + extra * beta.sum() ** 2) + loss
        assert found == pytest.approx(model.certificate.total_primal, rel=1e-5)


def test_matrix_four_times_the_limit_is_spilled():
    X, y = moons(3000)
    limit = 8 * 3000**2 // 4
    training, model, report = train(X, y, limit, C=0.5, **PARAMETERS)
    assert report.converged
    assert "spill" in report.note
    assert training.stream.budget.reserved_bytes <= limit
    assert training.summary()["peak_disk_bytes"] >= 8 * 3000**2
    _, in_memory, _ = train(X, y, C=0.5, **PARAMETERS)
    assert model.certificate.total_primal == pytest.approx(in_memory.certificate.total_primal, rel=1e-6)


def test_matrix_larger_than_the_disk_is_refused():
    X, y = moons(2000)
    with pytest.raises(DiskError, match=r"32000000 bytes.*feature_map nystroem or rff"):
        train(X, y, 4_000_000, disk_limit=10_000_000)


def test_one_vs_one_equals_libsvm_on_digits():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    order = np.random.default_rng(0).permutation(len(X))
    rows, test = order[:1257], order[1257:]  # 70 %
    oracle = SVC(C=1, gamma=1 / 64, tol=1e-5).fit(X[rows], y[rows])
    _, model, report = train(X[rows], y[rows], multiclass="ovo")
    assert report.converged
    assert np.mean(model.predict(X[test]) == oracle.predict(X[test])) >= 0.995


def test_default_gamma_on_a1a(data_dir, tmp_path):
    for name in ("a1a", "a1a.t"):
        (tmp_path / name).write_bytes(lzma.decompress((data_dir / "adult" / f"{name}.xz").read_bytes()))
    X, y = load_svmlight_file(str(tmp_path / "a1a"), n_features=123)
    T, _ = load_svmlight_file(str(tmp_path / "a1a.t"), n_features=123)
    X, T = X.toarray(), T[:8000].toarray()
    _, model, report = train(str(tmp_path / "a1a"))
    assert report.converged
    d = model.n_features_in_  # the file has no row with its last features: p is what the file has
    optimum, _ = libsvm(rbf_kernel(X, gamma=1 / d), (y > 0).astype(int), 1.0)
    assert model.certificate.total_primal == pytest.approx(optimum, rel=1e-3)
    oracle = SVC(C=1, gamma=1 / d, tol=1e-6).fit(X, y)
    assert np.mean(model.predict(T[:, :d]) == oracle.predict(T)) >= 0.995


def test_model_file_keeps_support_vectors(tmp_path):
    X, y = moons()
    for rows, options in (
        (csr_matrix(X), {}),
        (X, {}),
        (X, {"feature_map": "nystroem", "components": 40}),
        (X, {"feature_map": "rff", "components": 40}),
    ):
        _, model, _ = train(rows, y, **options, **PARAMETERS)
        model.save(tmp_path / "m")
        again = Model.load(tmp_path / "m")
        np.testing.assert_array_equal(again.decision_function(rows), model.decision_function(rows))
        assert "feature_map" in again.requires
        assert again.n_features_in_ == 5


def test_file_scores_as_arrays_do(tmp_path):
    X, y = moons(400)
    path = tmp_path / "rows.svm"
    with path.open("w") as file:
        for row, label in zip(X, y, strict=True):
            file.write(f"{label} " + " ".join(f"{j + 1}:{v:.9g}" for j, v in enumerate(row)) + "\n")
    for options in ({}, {"feature_map": "nystroem", "components": 60}, {"feature_map": "rff"}):
        _, model, _ = train(str(path), **options, **PARAMETERS)
        accuracy = np.mean(model.predict(X) == y)
        assert accuracy > 0.8  # of the larger class: 0.55
        assert measure(model, open_source(str(path)))["accuracy"] == pytest.approx(accuracy, abs=0.003)


# -- feature maps ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nystroem", "rff"])
def test_maps_approximate_the_kernel(kind):
    X, y = moons(400)
    options = {"feature_map": kind, "components": 400 if kind == "nystroem" else 20_000}
    _, model, _ = train(X, y, max_passes=3, **options, **PARAMETERS)
    mapped = model.feature_map(X)
    K = KERNELS["rbf"](X, X)
    assert np.abs(mapped @ mapped.T - K).max() < (1e-5 if kind == "nystroem" else 0.05)


@pytest.mark.parametrize("solver", ["llsvm", "nesvm"])
def test_every_solver_takes_a_map(solver):
    X, y = moons(600)
    K = KERNELS["rbf"](X, X)
    beta = SVC(C=1.0, kernel="precomputed").fit(K, y)
    options = {
        "solver": solver,
        "feature_map": "nystroem",
        "components": 200,
        "intercept": False,
        "bias": 1.0,
    }
    _, model, report = train(X, y, **options, **PARAMETERS)
    assert report.converged
    Z, z = moons(2000, seed=1)
    theirs = beta.score(KERNELS["rbf"](Z, X), z)
    assert np.mean(model.predict(Z) == z) >= theirs - 0.02


def test_functions_agree_between_layouts():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(7, 4)), rng.normal(size=(3, 4))
    X[X < 0], Z[0] = 0.0, 0.0
    sparse = [CSR(*_csr(A)) for A in (X, Z)]
    for name, oracle in KERNELS.items():
        function = KernelFunction(name, **PARAMETERS)
        for A in (X, sparse[0]):
            for B in (Z, sparse[1]):
                np.testing.assert_allclose(function.between(A, B, 4), oracle(X, Z), atol=1e-12)
    shifted = CSR(sparse[0].indptr, sparse[0].indices + 1, sparse[0].data)
    one = FeatureMap("kernel", KernelFunction("rbf", **PARAMETERS), 4, sparse[1])
    np.testing.assert_allclose(one(shifted, 1), KERNELS["rbf"](X, Z), atol=1e-12)


def _csr(A):
    S = csr_matrix(A)
    return S.indptr.astype(np.int64), S.indices.astype(np.int32), S.data


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"solver": "llsvm", "intercept": False}, "feature_map"),
        ({"penalty": "l1"}, "penalty l1 does not go with kernel rbf"),
        ({"step": "paper"}, "step paper does not go with kernel rbf"),
        ({"kernel": "poly", "feature_map": "rff"}, "rff is for kernel rbf"),
        ({"kernel": "cosine"}, "rbf, poly"),
        ({"gamma": -1.0}, "gamma"),
    ],
)
def test_refusals(options, words):
    with pytest.raises(UsageError, match=words):
        Settings(**({"solver": "nesvm", "kernel": "rbf", "intercept": True} | options))


def test_intercept_is_the_middle_of_the_best_ones():
    rng = np.random.default_rng(0)
    for _ in range(50):
        signs = rng.permutation([1.0, -1.0, *rng.choice([-1.0, 1.0], 5)])
        cost, f = rng.integers(1, 3, 7).astype(float), rng.normal(size=7).round(1)
        b = KernelObjective(new_loss("hinge"), True, signs, cost, np.zeros((2, 7))).intercept(f)
        grid = np.arange(-80, 81) / 20  # of half the distance between breakpoints
        losses = [cost @ np.maximum(0, 1 - signs * (f + at)) for at in grid]
        best = grid[np.isclose(losses, min(losses))]
        assert b == pytest.approx((best[0] + best[-1]) / 2)


def test_a_machine_without_support_vectors_is_a_model(tmp_path):
    """Rows of one class weigh nothing, and nothing but the intercept is left."""
    X, y = np.random.default_rng(0).standard_normal((20, 3)), np.arange(20) % 2
    for kernel, rows in (("rbf", X), ("precomputed", X @ X.T)):
        _, model, _ = train(rows, y, kernel=kernel, class_weight={0: 0.0, 1: 1.0})
        assert model.converged
        model.save(tmp_path / "m")
        assert (Model.load(tmp_path / "m").predict(rows) == 1).all()


@pytest.mark.parametrize("loss", ["hinge", "least-squares"])
def test_distances_of_large_rows_count_their_rounding(loss):
    """|x|² + |z|² − 2 x·z is off by what rounding does to |x|²: here K is the unit matrix, up to that."""
    rng, C = np.random.default_rng(0), 1e4
    X, y = 1e5 * rng.standard_normal((40, 4)), np.arange(40) % 2
    options = {"intercept": False, "gamma": 5.0, "C": C, "loss": loss, "tol": 1e-9, "max_passes": 30}
    certificate = train(X, y, **options)[1].certificate
    optimum = 40 * (C / (1 + 2 * C) if loss == "least-squares" else 0.5)
    assert certificate.dual[0] <= optimum <= certificate.primal[0]


def test_converged_is_what_the_certificate_says():
    """A gap of 1e-12 is reached and said; rounding hides one of 1e-14, and that is said too."""
    rng = np.random.default_rng(0)
    X, y, weight = rng.standard_normal((20, 3)), np.arange(20) % 2, rng.random(20)
    for tol, reached in ((1e-12, True), (1e-14, False)):
        settings = Settings(solver="nesvm", kernel="rbf", gamma=5.0, tol=tol, C=0.1, loss="least-squares")
        with Training(open_source(X, y, weight), settings) as training:
            list(training)
        assert (training.model.certificate.relative_gap <= tol) == reached
        assert training.model.converged == reached
        assert (training.advice[0] == "rounding") != reached


@pytest.mark.parametrize("loss", ["squared_hinge", "least-squares"])
def test_a_gap_that_rounding_keeps_open_ends_the_run(loss, monkeypatch):
    """However small the estimated gap becomes, each certificate finds what rounding may have changed."""
    monkeypatch.setattr("llsvm.solvers.kernel_machine.problem._ROUNDING", 1e-5)
    X, y = np.random.default_rng(0).standard_normal((60, 3)), np.arange(60) % 2
    report = train(X, y, loss=loss, gamma=0.5, tol=1e-6, max_passes=1000)[2]
    assert report.cause == ROUNDED
    assert report.passes < 150
    assert not report.converged
