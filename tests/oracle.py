"""Answers from outside, and training runs to compare with them: what the solver's tests share."""

import numpy as np
import scipy.sparse as sp
from sklearn.svm import LinearSVC

from llsvm.block import CSR
from llsvm.data import open_source
from llsvm.memory import plan as plan_module
from llsvm.memory.budget import MemoryBudget
from llsvm.settings.objective import KINDS
from llsvm.settings.settings import Settings
from llsvm.solvers.smsvm.solver import SmSVM
from llsvm.solvers.smsvm.tuning import SmSVMTuning
from llsvm.training.training import Training
from llsvm.verification import reading as verified_module


def objective(coef, X, sign, cost, squared=False):
    """½‖w‖² + Σ C_i max(0, 1 − y_i w·x_i)^p, the constant feature being a column of X."""
    loss = np.maximum(0.0, 1.0 - sign * (X @ coef))
    return float(0.5 * coef @ coef + cost @ (loss**2 if squared else loss))


def with_bias(X, bias):
    if sp.issparse(X):
        return sp.hstack([X, sp.csr_matrix(np.full((X.shape[0], 1), bias))], "csr") if bias else X
    return np.hstack([X, np.full((len(X), 1), bias)]) if bias else X


def liblinear(X, y, C=1.0, loss="hinge", weight=None, bias=0.0):
    """LIBLINEAR's optimum of a problem of two classes, solved tightly: (objective, weights)."""
    X = with_bias(X, bias)
    svm = LinearSVC(C=C, loss=loss, tol=1e-9, max_iter=2_000_000, fit_intercept=False, random_state=0)
    svm.fit(X, y, sample_weight=weight)
    cost = C * np.ones(X.shape[0]) if weight is None else C * np.asarray(weight, float)
    sign = np.where(y == np.unique(y)[1], 1.0, -1.0)
    return objective(svm.coef_[0], X, sign, cost, loss == "squared_hinge"), svm.coef_[0]


def rows(n=400, d=8, seed=0, classes=2, density=1.0, noise=0.2):
    """Rows of two or more overlapping classes, float32 values held by a float64 array; labels 0, 1, ..."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    centres = rng.normal(size=(classes, d))
    X = (centres[y] + rng.normal(scale=1 + noise, size=(n, d))).astype(np.float32).astype(float)
    X[rng.random((n, d)) > density] = 0.0
    flip = rng.random(n) < noise / 4
    return X, np.where(flip, (y + 1) % classes, y)


def write_svmlight(path, X, y):
    """The rows as one-based svmlight text; every digit is kept."""
    X = sp.csr_matrix(X)
    columns, values, ends = (X.indices + 1).tolist(), X.data.astype(float).tolist(), X.indptr.tolist()
    pairs = [f" {j}:{v!r}" for j, v in zip(columns, values, strict=True)]
    with open(path, "w") as file:
        file.writelines(f"{y[i]}{''.join(pairs[ends[i] : ends[i + 1]])}\n" for i in range(X.shape[0]))
    return path


def sweeps_alone(monkeypatch):
    """As where memory has no room for coordinate descent's own second order beside all rows."""
    missing = "llsvm.solvers.llsvm.layout.missing_bytes"
    monkeypatch.setattr(missing, lambda memory, *_: memory.limit_bytes < 10**12)
    monkeypatch.setattr(
        "llsvm.solvers.llsvm.second_order.SecondOrder.is_worthwhile", lambda *arguments, **_: False
    )


def small_pages(monkeypatch, page_bytes=600, block_bytes=2000):
    """Let a few hundred rows be many pages and blocks."""
    monkeypatch.setattr(plan_module, "PAGE_BYTES", (page_bytes, page_bytes))
    monkeypatch.setattr(plan_module, "PAGE_INFO_BYTES", 0)  # so many pages would need more than the rows
    monkeypatch.setattr(plan_module, "SMALLEST_BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(verified_module, "BLOCK_BYTES", (page_bytes, page_bytes))


def with_smsvm_tuning(monkeypatch, **constants):
    """Let trainings make their SmSVM with other constants."""
    tuning = SmSVMTuning(**constants)
    monkeypatch.setattr(
        "llsvm.training.training.make_solver", lambda *arguments: SmSVM(*arguments, tuning=tuning)
    )


def run(data, y=None, weight=None, ledger=None, **options):
    """Train; returns the Training, closed, with all its reports in ``reports``.

    ledger: bytes for the data and all that belongs to it, the process itself not counted; None for plenty.
    """
    zero_based = options.get("zero_based", "auto")
    kind = KINDS[options.get("loss", "hinge")]
    source = open_source(data, y, weight, zero_based=zero_based, label_kind=kind)
    budget = MemoryBudget(ledger or 100_000_000, runtime_bytes=0)
    with Training(source, Settings(**{"threads": 1, **options}), budget=budget) as training:
        training.reports = list(training)
        training.coef = training.reports[-1].coef
    return training


def dense(X):
    """A block's X as a float64 array."""
    if not isinstance(X, CSR):
        return np.asarray(X, np.float64)
    n = len(X.indptr) - 1
    d = int(X.indices.max(initial=-1)) + 1
    out = np.zeros((n, d))
    for i in range(n):
        part = slice(X.indptr[i], X.indptr[i + 1])
        out[i, X.indices[part]] = X.data[part]
    return out
