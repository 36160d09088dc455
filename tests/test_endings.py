"""Runs that end: small hard data in a moment, stalls that are seen, time limits that hold, advice that helps."""

from importlib import import_module

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import rows, run, small_pages, write_svmlight
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import ConvergenceWarning

import llsvm
from llsvm.data import open_source
from llsvm.memory.budget import MemoryBudget
from llsvm.settings.settings import Settings
from llsvm.solvers.advice import Ending, advise, passes_to_come
from llsvm.solvers.base import NO_ROOM, ROUNDED, SETTLED, STALLED
from llsvm.solvers.llsvm.second_order import SecondOrder
from llsvm.solvers.smsvm.descent import Descent
from llsvm.solvers.stopping import WINDOW
from llsvm.training.training import Training


def raw(n, d, scale, classes=2):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * scale
    if classes > 2:
        return X, rng.integers(0, classes, n)
    return X, (X[:, 0] / scale + rng.standard_normal(n) > 0).astype(int)


def bunch(load):
    data = load()
    return data.data, data.target


HARD = {
    "wine": (lambda: bunch(load_wine), 1.0),
    "breast cancer": (lambda: bunch(load_breast_cancer), 1.0),
    "300 x 2": (lambda: raw(300, 2, 100), 1.0),
    "500 x 20": (lambda: raw(500, 20, 100), 1.0),
    "40 classes": (lambda: raw(300, 50, 10, 40), 10.0),
    "large C": (lambda: raw(800, 20, 1), 1000.0),
}


@pytest.mark.parametrize("name", HARD)
def test_small_hard_data_converges_in_a_moment_whatever_its_scale(name):
    """By counts: so much coordinate descent and so many passes are a fraction of a second."""
    make, C = HARD[name]
    X, y = make()
    training = run(X, y, C=C)
    assert training.reports[-1].converged
    assert training.solver == "llsvm"
    assert "all rows are in memory" in training.why
    last = [r for r in training.reports if r.kind == "pass"][-1]
    assert last.passes <= 20
    updates = max(r.extra.get("updates_per_row", 0.0) for r in training.reports)
    assert updates * len(y) * X.shape[1] <= 1e8
    again = run(X, y, C=C)
    assert np.array_equal(again.coef, training.coef)


@pytest.mark.parametrize("scale", [1, 10])
@pytest.mark.parametrize("solver", ["llsvm", "auto"])
def test_wide_dense_rows_converge_whatever_their_scale(scale, solver):
    """Long rows: a dual variable rounded to float32 would leave the primal a percent above the optimum."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 9, (60, 20_000)) * scale / 10
    y = rng.integers(0, 2, 60)
    training = run(X, y, solver=solver)
    assert training.reports[-1].converged
    assert training.reports[-1].passes <= 12
    assert training.solver == "llsvm"


@pytest.mark.parametrize("ledger", [100_000_000, 350_000])
def test_one_against_the_rest_is_not_stopped_by_rounding(ledger, tmp_path, monkeypatch):
    """Separable rows under a C that only rounding notices, at hand and in blocks with their duals stored."""
    small_pages(monkeypatch, 2000, 8000)
    rng = np.random.default_rng(0)
    X = sp.random(1000, 4000, 0.005, "csr", random_state=0)
    X.data = rng.random(X.nnz) + 0.1
    y = (X @ rng.standard_normal(4000) > 0).astype(int)
    training = run(X, y, ledger=ledger, C=1e6, solver="llsvm", spill_dir=str(tmp_path))
    assert training.stream.in_one_block == (ledger > 350_000)
    assert training.reports[-1].converged
    assert training.reports[-1].passes <= 40


@pytest.mark.parametrize("multiclass", ["crammer-singer", "weston-watkins"])
@pytest.mark.parametrize("C", [10.0, 100.0])
def test_joint_methods_are_not_stopped_by_rounding(multiclass, C):
    rng = np.random.default_rng(1)
    X = (rng.random((400, 180)) < 0.25).astype(float)
    y = np.argmax(X @ rng.standard_normal((180, 3)) + rng.standard_normal((400, 3)), axis=1)
    training = run(sp.csr_matrix(X), y, multiclass=multiclass, C=C)
    assert training.reports[-1].converged
    assert training.reports[-1].passes <= 40


def test_a_run_that_stalls_ends_and_says_what_to_do(recwarn, monkeypatch):
    monkeypatch.setattr(SecondOrder, "is_worthwhile", lambda *_, **__: False)  # else it would converge,
    monkeypatch.setattr(SecondOrder, "extrapolation", lambda *_: None)  # and by this in 139 passes
    X, y = raw(500, 20, 100)
    training = run(X, y, solver="llsvm")
    last = training.reports[-1]
    assert not last.converged
    assert last.cause == STALLED
    assert last.passes < 60
    summary = training.summary()
    assert summary["cause"] == "scale"
    assert "--scale standard" in summary["advice"]
    with pytest.warns(ConvergenceWarning, match="not scaled .*scale standard"):
        llsvm.train(X, y, solver="llsvm", memory_limit="2GB")
    assert run(*rows(n=300, d=4)).summary()["advice"] == ""


def test_newtons_method_ends_too_where_nothing_moves_any_more(monkeypatch):
    monkeypatch.setattr(Descent, "newton_step", lambda self, *_: self.step_to(self.w, np.inf))
    training = run(*rows(n=100, d=4), solver="smsvm")
    last = training.reports[-1]
    assert (last.converged, last.cause) == (False, STALLED)
    assert last.passes == WINDOW + 1
    assert training.summary()["cause"] == "stalled"


@pytest.mark.parametrize(
    ("multiclass", "kernel", "order"),
    [
        ("ovr", "llsvm.solvers.llsvm.sweeps.sweep", 7),
        ("crammer-singer", "llsvm.solvers.sequential_dual.loops.sweep", 8),
    ],
)
def test_the_time_limit_holds_between_passes(multiclass, kernel, order, monkeypatch):
    """Epochs that would visit every row hundreds of times end with the loop in which the time is over."""
    X, y = raw(3000, 20, 100, 3)
    kernel_module, name = kernel.rsplit(".", 1)
    sweep, visits = getattr(import_module(kernel_module), name), []

    def counted(*arguments):
        visits.append(len(arguments[order]))
        if between_passes and len(visits) == 5:
            training.progress.stop_at = 0.0  # over
            visits.clear()
        return sweep(*arguments)

    monkeypatch.setattr(kernel, counted)
    settings = Settings(solver="llsvm" if multiclass == "ovr" else "auto", multiclass=multiclass, threads=1)
    between_passes = False
    with Training(open_source(X, y), settings, budget=MemoryBudget(10**8, runtime_bytes=0)) as training:
        reports = iter(training)
        while next(reports).kind != "pass":
            pass
        visits.clear()
        between_passes = True
        kinds = [report.kind for report in reports]
    assert training.progress.out_of_time
    assert kinds[-1] == "pass"  # which measures what the epochs have come to
    assert sum(visits) <= 3 * len(y)


def test_a_time_limit_is_told_to_the_solver():
    X, y = raw(200, 5, 1)
    assert run(X, y, max_seconds=100.0).progress.stop_at < np.inf
    assert run(X, y).progress.stop_at == np.inf


def test_many_classes_of_few_columns_converge_under_a_small_limit(tmp_path):
    """26 classes of 16 raw columns on disk: each Hessian is two kilobytes."""
    rng = np.random.default_rng(1)
    centres, y = rng.uniform(4, 11, (26, 16)), rng.integers(0, 26, 1500)
    X = np.clip(centres[y] + rng.standard_normal((1500, 16)) * 1.8, 0, 15).round()
    path = write_svmlight(tmp_path / "letter.svm", X, y)
    training = run(str(path), ledger=8_000_000)
    assert training.reports[-1].converged
    assert training.reports[-1].passes <= 40


def ending(**changes):
    values = {
        "gaps": [0.9, 0.85, 0.84, 0.84],
        "cause": "",
        "solver": "llsvm",
        "largest_value": 1.0,
        "sparse": False,
        "in_memory": True,
        "out_of_time": False,
        "seconds": 10.0,
    }
    return Ending(**{**values, **changes})


@pytest.mark.parametrize(
    ("options", "end", "cause", "remedy"),
    [
        ({}, {"gaps": [0.5, 0.1, 0.02, 0.004]}, "passes", "--max-passes"),
        (
            {"max_seconds": 10},
            {"gaps": [0.5, 0.1, 0.02, 0.004], "out_of_time": True},
            "passes",
            "--max-seconds",
        ),
        (
            {"max_seconds": 10, "C": 1e4},
            {"largest_value": 4e3, "out_of_time": True},
            "passes",
            "--max-seconds",
        ),
        ({}, {"largest_value": 4e3, "gaps": [0.9, 0.85]}, "passes", "--max-passes"),
        ({}, {"largest_value": 4e3, "gaps": [0.9, 0.85], "cause": STALLED}, "scale", "--scale standard"),
        ({}, {"largest_value": 4000.0}, "scale", "--scale standard"),
        ({}, {"largest_value": 4000.0, "sparse": True}, "scale", "--scale maxabs"),
        ({"kernel": "rbf", "solver": "nesvm"}, {"largest_value": 4e3}, "scale", "--scale unit-row"),
        ({"feature_map": "rff"}, {"largest_value": 4e3}, "scale", "--scale unit-row"),
        ({"kernel": "precomputed", "solver": "nesvm"}, {"largest_value": 4e3}, "passes", "--max-passes"),
        ({"solver": "llsvm"}, {"cause": STALLED}, "solver", "--solver auto"),
        ({"solver": "nesvm"}, {}, "solver", "--solver auto"),
        ({"solver": "llsvm"}, {"gaps": [0.5, 0.1]}, "passes", "--max-passes, or a larger --tol"),
        ({"C": 1e4}, {"gaps": [0.5]}, "passes", "--max-passes, or a larger --tol"),
        ({"C": 1e4}, {"cause": STALLED}, "stalled", "smaller -C"),
        ({"tol": 1e-14}, {"gaps": [0.1, 1e-9, 1e-9, 1e-9]}, "rounding", "--tol"),
        ({}, {"cause": ROUNDED}, "rounding", "smaller -C"),
        ({}, {"cause": ROUNDED, "gaps": [0.5, 0.01, 0.004, 0.004]}, "rounding", "(--tol 0.005)"),
        ({"tol": 1e-9}, {"cause": ROUNDED, "gaps": [0.1, 1e-3, 1e-5, 9.8e-8]}, "rounding", "(--tol 2e-07)"),
        ({}, {"rounding": 0.014, "as_float32": True}, "rounding", "32-bit floats"),
        ({"max_passes": 20}, {"gaps": [0.5, 0.1, 0.02, 0.004]}, "passes", "--max-passes 22"),
        (
            {"max_seconds": 60.0},
            {"gaps": [0.5, 0.1, 0.02, 0.004], "out_of_time": True},
            "passes",
            "--max-seconds 63",
        ),
        ({"C": 1e5}, {"rounding": 0.014, "gaps": [0.5, 0.1, 0.02, 0.014]}, "rounding", "smaller -C"),
        ({"C": 1e5}, {"rounding": 0.014, "cause": STALLED, "largest_value": 3e5}, "rounding", "(--tol 0.03)"),
        ({}, {"rounding": 3.0}, "rounding", "weights to like sizes"),
        ({}, {"rounding": 0.0005, "cause": STALLED, "largest_value": 3e5}, "scale", "--scale"),
        ({}, {"cause": STALLED, "in_memory": False}, "memory", "--memory-limit"),
        ({"C": 1e4}, {"cause": STALLED, "enough_bytes": 332_100_000}, "memory", "--memory-limit 333MB"),
        ({"C": 1e4}, {"enough_bytes": 332_100_000, "largest_value": 4000.0}, "scale", "--scale"),
        ({"C": 1e4}, {"cause": NO_ROOM, "in_memory": False, "solver": "smsvm"}, "memory", "--memory-limit"),
        (
            {"C": 1e4},
            {"cause": NO_ROOM, "in_memory": False, "solver": "llsvm"},
            "memory",
            "copies of the weights",
        ),
        ({"scale": "standard"}, {"largest_value": 4000.0}, "passes", "--max-passes"),
        ({"paper": True}, {}, "settled", "without --paper"),
        ({"solver": "nesvm", "stop": "change"}, {"cause": SETTLED}, "settled", "--stop gap"),
        ({"scale": "standard"}, {"largest_value": 4000.0, "cause": STALLED}, "stalled", "larger --tol"),
    ],
)
def test_the_likely_cause_comes_first(options, end, cause, remedy):
    named, sentence = advise(Settings(**{"scale": "none", **options}), ending(**end))
    assert named == cause
    assert remedy in sentence


def test_how_many_passes_would_do():
    assert passes_to_come([0.8, 0.4, 0.2, 0.1], 0.1 / 2**5) == 5
    assert passes_to_come([1.0, 1.0, 0.5], 1e-3) == 0
    assert passes_to_come([0.5, 0.5, 0.5, 0.5], 1e-3) == 0


@pytest.mark.parametrize("solver", ["auto", "llsvm"])
def test_a_gap_that_rounding_hides_ends_the_run(solver):
    """Of values that are 32-bit floats as they stand; each pass would find the same."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(30, 150)).astype(np.float32), rng.normal(size=30) * 1e-4
    training = run(X, y, loss="quantile", C=1e6, solver=solver)
    certificate = training.model.certificate
    assert certificate.rounding_gap > 1e-3 > certificate.relative_gap - certificate.rounding_gap
    assert certificate.passes < 30
    assert training.reports[-1].cause == ROUNDED
    cause, sentence = training.advice
    assert cause == "rounding"
    assert "smaller -C" in sentence
