"""Time limits and interrupts in the midst of long work. The clock is a count of the looks at it: no test waits."""

import signal
import sys
import threading
import time
from concurrent import futures

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from oracle import small_pages, write_svmlight

from llsvm.data import open_source
from llsvm.memory.budget import MemoryBudget
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.solvers.base import in_passes
from llsvm.solvers.optim.lapack import Cholesky, eigenvectors, factor_with_ridge
from llsvm.stream.progress import OutOfTime, Progress
from llsvm.training.training import Training


class Looks(Progress):
    """Time is over at the given look at the clock."""

    def __init__(self, last: float) -> None:
        super().__init__()
        self.last, self.made, self.lock = last, 0, threading.Lock()

    @property
    def out_of_time(self) -> bool:
        with self.lock:
            self.made += 1
            return self.made >= self.last


def wide(n=60, d=3000):
    rng = np.random.default_rng(0)
    return rng.integers(0, 9, (n, d)).astype(float), rng.integers(0, 2, n)


def ill_conditioned(n=400, d=60, classes=2):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * np.logspace(0, -6, d)
    scores = X @ rng.standard_normal((d, classes)) + 0.3 * rng.standard_normal((n, classes))
    return X, np.argmax(scores, axis=1)


def sparse(classes=2):
    rng = np.random.default_rng(1)
    X = sp.random(500, 800, 0.05, "csr", random_state=0)
    X.data = rng.random(X.nnz) * 8
    return X, np.argmax(X @ rng.standard_normal((800, classes)) + rng.standard_normal((500, classes)), axis=1)


CASES = {
    "llsvm, wide": (wide, {"solver": "llsvm", "C": 1e4}),
    "llsvm, ill-conditioned": (ill_conditioned, {"solver": "llsvm", "C": 1e4}),
    "llsvm, sparse": (sparse, {"solver": "llsvm", "C": 1e4, "loss": "squared_hinge"}),
    "llsvm, logistic": (sparse, {"solver": "llsvm", "C": 1e4, "loss": "logistic"}),
    "one against one": (lambda: ill_conditioned(classes=5), {"multiclass": "ovo", "C": 1e4}),
    "smsvm": (ill_conditioned, {"solver": "smsvm", "C": 1e4}),
    "smsvm, products": (wide, {"solver": "smsvm", "C": 1e4}),
    "smsvm, l1": (lambda: wide(30, 200), {"solver": "smsvm", "C": 1.0, "penalty": "l1"}),
    "smsvm, l1, multipliers": (
        lambda: ill_conditioned(300, 40),
        {"solver": "smsvm", "C": 1e4, "penalty": "elasticnet"},
    ),
    "crammer-singer": (lambda: ill_conditioned(classes=4), {"multiclass": "crammer-singer", "C": 1e4}),
    "weston-watkins, sparse": (lambda: sparse(4), {"multiclass": "weston-watkins", "C": 1e4}),
    "softmax": (lambda: ill_conditioned(classes=3), {"multiclass": "softmax", "loss": "logistic", "C": 1e4}),
    "softmax, products": (lambda: sparse(4), {"multiclass": "softmax", "loss": "logistic", "C": 1e4}),
    "nesvm": (ill_conditioned, {"solver": "nesvm", "C": 1e2}),
    "smo": (ill_conditioned, {"kernel": "rbf", "C": 1e4}),
    "nesvm, kernel": (ill_conditioned, {"kernel": "rbf", "solver": "nesvm", "C": 1e4}),
}


def run_to(source, last, ledger=10**8, **settings):
    """The last report, ended at that look at the clock; how many looks there were; and the model."""
    settings = Settings(**{"threads": 2, "scale": "none", **settings})
    budget = MemoryBudget(ledger, runtime_bytes=0)
    with Training(open_source(*source), settings, budget=budget) as training:
        training.stream.progress = looks = Looks(last)
        *_, report = training
        return report, looks.made, training.model


def primal(model, X, y, C=1.0, loss="hinge", penalty="l2", multiclass="ovr", constant=1.0, **_):
    """The objective at the model's weights, for all its problems together."""
    W, b = model.coef_, model.intercept_
    share = {"l2": 0.0, "elasticnet": 0.5, "l1": 1.0}[penalty]
    norm = share * (np.abs(W).sum() + np.abs(b).sum() / constant)
    norm += (1.0 - share) * 0.5 * (np.sum(W * W) + np.sum(b * b) / constant**2)
    scores, k = X @ W.T + b, len(np.unique(y))
    row = np.arange(len(y))
    if multiclass == "ovo" and k > 2:
        pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
        sides = [np.where(y == i, 1.0, np.where(y == j, -1.0, 0.0)) for i, j in pairs]
        m = [side[side != 0] * scores[side != 0, p] for p, side in enumerate(sides)]
        return norm + C * sum(np.maximum(0, 1 - each).sum() for each in m)
    if multiclass in ("ovr", "ovo"):
        sign = np.where(y[:, None] == (np.arange(k) if k > 2 else [1]), 1.0, -1.0)
        m = sign * scores
        losses = {
            "hinge": lambda: np.maximum(0, 1 - m),
            "squared_hinge": lambda: np.maximum(0, 1 - m) ** 2,
            "logistic": lambda: np.logaddexp(0, -m),
        }
        return norm + C * losses[loss]().sum()
    if multiclass == "softmax":
        return norm + C * (np.logaddexp.reduce(scores, axis=1) - scores[row, y]).sum()
    violation = 1.0 + scores - scores[row, y][:, None]
    violation[row, y] = 0.0
    violation = np.maximum(violation, 0.0)
    return norm + C * (violation.max(axis=1) if multiclass == "crammer-singer" else violation).sum()


@pytest.mark.parametrize("case", CASES)
def test_time_may_be_over_at_any_look_at_the_clock(case):
    """Work ends with that look; and what comes out is certified, truly."""
    make, settings = CASES[case]
    X, y = make()
    best, looks, _ = run_to((X, y), np.inf, max_passes=12, **settings)
    assert looks > 10
    for last in sorted({1, 3, 8, looks // 3, 2 * looks // 3, looks - 5}):
        report, made, model = run_to((X, y), last, max_passes=12, **settings)
        assert made - last <= 60  # one for each problem or piece of rows that is only measured
        assert report.certificate.total_dual <= best.certificate.total_primal * (1 + 1e-9)
        assert report.certificate.total_primal >= best.certificate.total_dual * (1 - 1e-9)
        if "kernel" not in settings:
            here = primal(model, X, y, **settings)
            assert here == pytest.approx(report.certificate.total_primal, rel=1e-6)


OUT_OF_CORE = [
    {"solver": "llsvm", "C": 1e4},
    {"solver": "smsvm", "C": 1e4},
    {"multiclass": "crammer-singer", "C": 1e4},
]


@pytest.mark.parametrize("settings", OUT_OF_CORE)
def test_time_may_be_over_out_of_core(settings, tmp_path, monkeypatch):
    small_pages(monkeypatch, 2000, 8000)
    X, y = ill_conditioned(800, 12, 3)
    path = str(write_svmlight(tmp_path / "some.svm", X, y))
    settings = {**settings, "spill_dir": str(tmp_path), "cache": "always", "ledger": 250_000}
    best, looks, _ = run_to((path,), np.inf, max_passes=8, **settings)
    for last in sorted({1, 8, looks // 3, 2 * looks // 3}):
        report, made, model = run_to((path,), last, max_passes=8, **settings)
        assert made - last <= 400
        assert report.certificate.total_dual <= best.certificate.total_primal * (1 + 1e-9)
        here = primal(model, X, y, **settings)
        assert here == pytest.approx(report.certificate.total_primal, rel=1e-5)
    assert [each.name for each in tmp_path.iterdir()] == ["some.svm"]


class Late(Progress):
    """The pass after so many is given up at the second look at whether it is to be gone on with."""

    def __init__(self, last):
        super().__init__()
        self.last, self.looks = last, 0

    def check_measuring(self):
        if self.patience < np.inf and self.passes == self.last:
            self.looks += 1
            if self.looks == 2:
                self.stop_at = -np.inf
                raise OutOfTime


@pytest.mark.parametrize("settings", [*OUT_OF_CORE[:2], {"multiclass": "ovo", "C": 1e4}])
def test_a_pass_that_takes_too_long_is_given_up(settings, tmp_path, monkeypatch):
    """What was certified last is the result, and nothing is left behind."""
    small_pages(monkeypatch, 2000, 8000)
    X, y = ill_conditioned(800, 12, 3)
    path = str(write_svmlight(tmp_path / "some.svm", X, y))
    chosen = Settings(threads=1, scale="none", spill_dir=str(tmp_path), max_passes=8, **settings)
    for last in (1, 2):
        budget = MemoryBudget(250_000, runtime_bytes=0)
        with Training(open_source(path), chosen, budget=budget) as training:
            training.stream.progress = late = Late(last)
            before = [report.certificate for report in training if report.certificate is not None]
            model = training.model
        assert late.looks == 2
        assert model.certificate == before[-1]
        assert model.certificate.passes == last
        assert late.patience == np.inf  # of what follows, such as pruning
        here = primal(model, X, y, **settings)
        assert here == pytest.approx(model.certificate.total_primal, rel=1e-5)
    assert [each.name for each in tmp_path.iterdir()] == ["some.svm"]


def test_measuring_may_take_some_seconds_once_something_is_certified():
    progress = Progress(stop_at=time.monotonic() - 10)
    assert progress.out_of_time
    progress.check_measuring()
    progress.patience = 5.0
    progress.check_measuring()  # which has only begun
    progress.patience = 0.0
    with pytest.raises(OutOfTime):
        progress.check_measuring()


def test_nothing_begins_again_with_64_bit_floats_once_time_is_over(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5)) + 3.0
    y = (X[:, 0] + rng.standard_normal(400) > 3.0).astype(int)
    X[:20, 1], y[:20] = X[:20, 1] + 100.0, 2
    path = str(write_svmlight(tmp_path / "rows.svm", X, y))
    settings = Settings(C=500.0, threads=1, multiclass="ovo", max_passes=3)
    for last, begins in ((np.inf, 2), (1, 1)):
        with Training(open_source(path), settings, budget=MemoryBudget(10**8, runtime_bytes=0)) as training:
            training.stream.progress = Looks(last)
            reports = list(training)
        assert [report.kind for report in reports].count("read") == begins
        assert reports[-1].cause == ""


def test_a_kernel_matrix_that_takes_too_long_is_given_up():
    X, y = ill_conditioned()
    report, _, model = run_to((X, y), 1, kernel="rbf", C=10.0)
    assert report.certificate.relative_gap == 1.0
    assert report.certificate.total_primal == pytest.approx(10.0 * len(y))
    assert len(model.predict(X)) == len(y)


# -- decompositions -----------------------------------------------------------------------------------------


def positive(n, rng):
    A = rng.standard_normal((n, n))
    return A @ A.T + np.eye(n)


@pytest.mark.parametrize("n", [1, 7, 300])
def test_decompositions_are_scipys(n):
    rng = np.random.default_rng(n)
    H, right = positive(n, rng), rng.standard_normal((n, 2))
    factors, factor = scipy.linalg.cho_factor(H.T), Cholesky(np.tril(H))
    for columns in (right, right[:, 0]):  # by routines of their own, which round otherwise
        assert np.array_equal(factor.solve(columns), scipy.linalg.cho_solve(factors, columns))
    values, vectors = eigenvectors(H)
    for found, scipys in zip((values, vectors), scipy.linalg.eigh(H, driver="evd"), strict=True):
        assert np.array_equal(found, scipys)


@pytest.mark.parametrize("n", [3, 300])
def test_what_rounding_has_made_indefinite_is_factored_with_a_ridge(n):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((n, 2))
    H = A @ A.T - 1e-13 * np.eye(n)
    with pytest.raises(np.linalg.LinAlgError):
        Cholesky(H.copy())
    x = A @ np.array([1.0, -2.0])
    found = factor_with_ridge(np.tril(H)).solve(H @ x)
    assert np.linalg.norm(H @ found - H @ x) <= 1e-6 * np.linalg.norm(H @ x)


def test_a_matrix_that_is_not_finite_has_no_factor():
    assert factor_with_ridge(np.full((3, 3), np.nan)) is None


def test_a_decomposition_leaves_the_interpreter_to_other_threads():
    H, ticks, done = positive(800, np.random.default_rng(0)), [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(1e-4)

    thread = threading.Thread(target=tick)
    thread.start()
    for _ in range(10):
        Cholesky(H.copy())
    done.set()
    thread.join()
    assert len(ticks) > 20  # with SciPy's, about one in each


# -- interrupts ---------------------------------------------------------------------------------------------


def codes_of(thread):
    """The code of each function that a thread is in."""
    frame = sys._current_frames()[thread]
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


@pytest.mark.parametrize("to_main", [True, False])
def test_an_interrupt_ends_the_work_of_all_threads(to_main):
    """Whichever thread the system gives the signal to."""
    progress, done, started = Progress(), [], threading.Event()

    def work(item):
        started.set()
        while not progress.out_of_time:
            time.sleep(0.001)
        done.append(item)

    def interrupt():
        started.wait(10)
        main = threading.main_thread().ident
        while not {threading.Condition.wait.__code__, futures.wait.__code__} <= set(codes_of(main)):
            time.sleep(0.001)
        signal.pthread_kill(main if to_main else threading.get_ident(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    with Threads(2, progress.stop) as threads:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            threads.map(work, range(50))
    thread.join()
    assert len(done) <= 2  # those that were at work; the others never begin


def test_who_waits_for_a_matrix_hears_that_time_is_over():
    progress = Progress()
    progress.check()
    progress.stop()
    with pytest.raises(OutOfTime):
        progress.check()


def test_passes_in_words():
    assert [in_passes(1), in_passes(2), in_passes(1, "full pass")] == ["1 pass", "2 passes", "1 full pass"]
