"""NESVM with the squared hinge, linear and with kernels, against LIBLINEAR and LIBSVM.

LIBSVM has no squared hinge, but its dual Σ α − ½ αᵀ(yyᵀK)α − Σ α²/(4c), α ≥ 0, is that of a machine with hard
margins on K + diag(1/(2c)).
"""

import numpy as np
import pytest
from oracle import liblinear, objective, rows, run, with_bias, write_svmlight
from scipy.sparse import csr_matrix
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.svm import SVC

from llsvm.errors import UsageError
from llsvm.objective.losses import new_loss
from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.problem import ProblemRows
from llsvm.solvers.nesvm.kernel_solver import KernelProblem

CHOSEN = {"solver": "nesvm", "loss": "squared_hinge", "tol": 1e-6, "max_passes": 2000}
KERNELS = {
    "rbf": lambda X: rbf_kernel(X, gamma=0.1),
    "poly": lambda X: polynomial_kernel(X, gamma=0.1, degree=2, coef0=1.0),
    "linear": linear_kernel,
    "precomputed": lambda X: X,
}


def assert_certified(training, optimum, tol=1e-6, problem=0):
    certificate = training.model.certificate
    assert training.reports[-1].converged
    assert certificate.dual[problem] <= optimum * (1 + 1e-7)
    assert certificate.primal[problem] >= optimum * (1 - 1e-7)
    assert certificate.relative_gap <= tol


def hard_margin(K, sign, cost):
    """The optimum with an intercept that is not penalised, by LIBSVM."""
    svm = SVC(C=1e12, kernel="precomputed", tol=1e-9).fit(K + np.diag(1 / (2 * cost)), sign)
    alpha = np.zeros(len(K))
    alpha[svm.support_] = np.abs(svm.dual_coef_[0])
    v = alpha * sign
    return alpha.sum() - 0.5 * v @ K @ v - (alpha**2 / (4 * cost)).sum()


# -- linear ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [0.0, 2.0])
@pytest.mark.parametrize("density", [1.0, 0.3])
@pytest.mark.parametrize("C", [0.01, 10.0])
def test_equals_liblinear(C, density, bias):
    X, y = rows(density=density)
    optimum, _ = liblinear(X, y, C, "squared_hinge", bias=bias)
    training = run(X if density == 1 else csr_matrix(X), y, C=C, bias=bias, **CHOSEN)
    assert_certified(training, optimum)
    w = training.coef[0] if bias else training.coef[0, :-1]
    found = objective(w, with_bias(X, bias), 2.0 * y - 1, np.full(len(y), C), True)
    assert found == pytest.approx(training.model.certificate.total_primal, rel=1e-9)


def test_class_and_sample_weights_equal_liblinear():
    X, y = rows()
    weight = np.random.default_rng(1).integers(0, 4, len(y)).astype(float)
    of_class = np.where(y == 1, 3.0, 0.5)
    optimum, _ = liblinear(X, y, 0.1, "squared_hinge", weight * of_class, bias=1.0)
    training = run(X, y, weight, C=0.1, bias=1.0, class_weight={0: 0.5, 1: 3.0}, **CHOSEN)
    assert_certified(training, optimum)


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_problems_of_several_classes_equal_liblinear(multiclass):
    X, y = rows(classes=3)
    training = run(X, y, C=0.1, bias=1.0, multiclass=multiclass, **CHOSEN)
    parts = [(X, y == c) for c in range(3)]
    if multiclass == "ovo":
        parts = [(X[(y == i) | (y == j)], (y == i)[(y == i) | (y == j)]) for i, j in ((0, 1), (0, 2), (1, 2))]
    for problem, (A, positive) in enumerate(parts):
        optimum, _ = liblinear(A, positive.astype(int), 0.1, "squared_hinge", bias=1.0)
        assert_certified(training, optimum, problem=problem)


@pytest.mark.parametrize("step", ["auto", "paper"])
def test_unpenalised_intercept_equals_libsvm(step):
    """Σ α y = 0 is restored by scaling the larger side; without it the dual would lie above the optimum."""
    X, y = rows(n=200)
    y[:60] = 0
    cost = np.where(y == 1, 0.05, 0.025)
    optimum = hard_margin(X @ X.T, 2.0 * y - 1, cost)
    options = {**CHOSEN, "step": step, "tol": 1e-5}
    training = run(X, y, C=0.05, intercept=True, class_weight={0: 0.5, 1: 1.0}, **options)
    assert_certified(training, optimum, 1e-5)


def test_blocks_from_disk_have_the_same_optimum(tmp_path):
    X, y = rows(n=20_000, d=12)
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    optimum, _ = liblinear(X, y, 0.01, "squared_hinge")
    training = run(str(path), ledger=2_400_000, C=0.01, **{**CHOSEN, "tol": 1e-4})
    assert not training.stream.in_one_block
    assert_certified(training, optimum, 1e-4)


def test_paper_step_has_the_constant_of_least_squares():
    """The second derivative is 2 at most: L = 1 + 2 C λ_max(XᵀX); power iteration finds it from below, and allows
    for that."""
    X, y = rows()
    training = run(X, y, C=0.1, **{**CHOSEN, "step": "paper", "max_passes": 5})
    exact = 1 + 2 * 0.1 * np.linalg.eigvalsh(X.T @ X).max()
    assert exact <= training.reports[-1].extra["L"] <= 1.051 * exact


@pytest.mark.parametrize("options", [{"penalty": "l1"}, {"penalty": "l1", "intercept": True}])
def test_l1_is_refused(options):
    with pytest.raises(UsageError, match="squared_hinge"):
        Settings(solver="nesvm", loss="squared_hinge", **options)


# -- kernels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_machines_equal_libsvm_and_liblinear(kernel, intercept):
    X, y = rows(n=150, d=4)
    K = KERNELS[kernel](X) if kernel != "precomputed" else rbf_kernel(X, gamma=0.1)
    C = 0.01 if kernel == "linear" else 1.0
    cost = C * np.where(y == 1, 2.0, 1.0)
    if intercept:
        optimum = hard_margin(K, 2.0 * y - 1, cost)
    else:
        values, vectors = np.linalg.eigh(K)
        features = vectors * np.sqrt(np.maximum(values, 0))  # of which K is the Gram matrix
        optimum, _ = liblinear(features, y, 1.0, "squared_hinge", cost)
    options = {"kernel": kernel, "C": C, "intercept": intercept, "class_weight": {0: 1.0, 1: 2.0}}
    if kernel in ("rbf", "poly"):
        options |= {"gamma": 0.1}
    if kernel == "poly":
        options |= {"degree": 2, "coef0": 1.0}
    training = run(K if kernel == "precomputed" else X, y, **{**CHOSEN, **options, "tol": 1e-5})
    assert_certified(training, optimum, 1e-5)


def test_kernel_machines_take_sample_weights_and_several_classes():
    X, y = rows(n=150, d=4, classes=3)
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    options = {**CHOSEN, "kernel": "rbf", "gamma": 0.1, "intercept": True, "tol": 1e-4}
    training = run(X, y, weight, **options)
    for c in range(3):
        part = weight > 0
        K = rbf_kernel(X[part], gamma=0.1)
        optimum = hard_margin(K, np.where(y == c, 1.0, -1.0)[part], weight[part])
        assert_certified(training, optimum, 1e-4, c)


def test_kernel_matrix_on_disk_has_the_same_optimum():
    X, y = rows(n=700, d=4)
    options = {**CHOSEN, "kernel": "rbf", "gamma": 0.1, "intercept": True, "tol": 1e-3}
    training = run(X, y, ledger=2_500_000, **options)
    assert "spill" in training.reports[-1].note
    optimum = hard_margin(rbf_kernel(X, gamma=0.1), 2.0 * y - 1, np.ones(len(y)))
    assert_certified(training, optimum, 1e-3)


def test_smoothed_losses_lie_below_theirs():
    margin, loss = np.linspace(-3, 3, 601), new_loss("hinge")
    problem = KernelProblem(
        Settings(solver="nesvm", kernel="rbf", mu=0.3),
        loss,
        ProblemRows(np.arange(1), np.ones(1), np.ones(1), np.ones((2, 1))),
        "problem 0",
        None,
    )
    value, exact = problem.smoothed.value(margin), loss.value(margin)
    assert (value <= exact + 1e-12).all()
    assert (exact - value).max() == pytest.approx(0.15)  # ½ μ
    slope = np.gradient(value, margin)
    np.testing.assert_allclose(problem.smoothed.derivative(margin)[1:-1], slope[1:-1], atol=0.02)
