"""Variants of a problem side by side: the optimum of each, in memory and out of core, certified."""

import json
import sys
import time
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from oracle import liblinear, small_pages, write_svmlight
from test_tune import fold_numbers, tuned

import llsvm
from llsvm.data import open_source
from llsvm.dataset import DatasetInfo
from llsvm.memory.budget import MemoryBudget
from llsvm.objective.problems import Fold, Problems, Variant
from llsvm.settings.settings import Settings
from llsvm.solvers.llsvm import lanes as lanes_module
from llsvm.solvers.llsvm.side_by_side import SideBySide, lanes_of, suits
from llsvm.training.training import Training
from llsvm.tuning import candidates
from tools.bench import measure
from tools.bench.generate import generate

COSTS = (0.1, 1.0, 10.0)
ROOM = 250_000  # bytes for blocks of rows


def wide(n=800, d=3500, seed=0, integers=True):
    """Sparse rows of many columns, two classes. integers: their values are 32-bit floats."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.01 + 0.3 * (np.arange(d) < 20))
    X = np.round(4 * X) if integers else 0.3 * X
    y = (X[:, :40] @ rng.normal(size=40) + rng.normal(size=n) > 0) ^ (rng.random(n) < 0.15)
    return X, y.astype(int)


def sparse(X):
    from scipy.sparse import csr_matrix

    return csr_matrix(X)


def variants(costs=COSTS, folds=3, weights=None):
    return [
        Variant(C, fold, weights) for C in costs for fold in [None, *(Fold(f, folds) for f in range(folds))]
    ]


@contextmanager
def opened(X, y, on_disk, weight=None):
    """The rows as they are, or in a file, from which they can go to the cache."""
    with TemporaryDirectory() as folder:
        path = f"{folder}/rows.svm"
        if on_disk:
            write_svmlight(path, sparse(X), y)
        yield (lambda: open_source(path)) if on_disk else (lambda: open_source(sparse(X), y, weight))


def solved(X, y, problems, room=None, look=None, weight=None, **options):
    """The solver's reports, the shares that it ends with, and where the rows are. room: bytes beside what the
    solver holds; None for plenty."""
    settings = Settings(**{"threads": 1, "tol": 1e-4, **options})
    ledger = 100_000_000
    with opened(X, y, room is not None, weight) as source:
        if room is not None:
            with Training(source(), settings) as training:
                training.read()
                solver = SideBySide(settings, np.ones(2), settings.threads, problems)
                ledger = solver.needs(training.stream.memory_left).nbytes + room
        with Training(source(), settings, budget=MemoryBudget(ledger, 0)) as training:
            training.read()
            solver, reports = SideBySide(settings, np.ones(2), settings.threads, problems), []
            for report in solver.solve(training.stream):
                reports.append(report)
                if look is not None:
                    look(training)
            shares = solver.shares(0, len(y)).copy()
            place = training.stream.place
    return reports, shares, place


def rows_of(variant, n):
    """Which rows take part."""
    return np.ones(n, bool) if variant.leaves_out is None else ~variant.leaves_out.contains(np.arange(n))


@pytest.mark.parametrize(("room", "bias"), [(None, 0.0), (ROOM, 1.0)])
def test_each_variant_has_its_optimum(monkeypatch, room, bias):
    small_pages(monkeypatch, 2000, 8000)
    X, y = wide()
    problems = Problems(2, False, variants())
    reports, shares, place = solved(X, y, problems, room, bias=bias)
    assert place == ("memory" if room is None else "cache")
    last = reports[-1]
    assert last.converged
    assert last.certificate.relative_gap <= 1e-4
    for c, variant in enumerate(problems.variants):
        some = rows_of(variant, len(y))
        optimum, _ = liblinear(X[some], y[some], variant.cost, bias=bias)
        primal, dual = last.certificate.primal[c], last.certificate.dual[c]
        assert dual <= optimum * (1 + 1e-5)
        assert optimum * (1 - 1e-5) <= primal <= optimum * (1 + 1.1e-4)
        w, sign = (
            last.coef[c][-X.shape[1] - 1 :],
            np.where(y > 0, 1.0, -1.0),
        )  # a file's columns begin at 0 or 1
        margins = sign * (X @ w[:-1] + bias * w[-1])
        at_w = 0.5 * w @ w + variant.cost * np.maximum(1 - margins[some], 0).sum()
        assert at_w == pytest.approx(primal, rel=1e-9)
        alpha = variant.cost * shares[:, c].astype(float)
        assert (shares[~some, c] == 0).all()
        v = np.append(X.T @ (alpha * sign), bias * (alpha @ sign))
        assert alpha.sum() - 0.5 * v @ v == pytest.approx(dual, rel=1e-6)


def test_what_others_begin_at_is_asked_for_no_certificate():
    """The run ends with the others, and says what it has reached."""
    X, y = wide(n=4000)
    folds = [Fold(number, 3) for number in range(3)]
    hard, easy = Variant(1000.0, None, to_begin_at=True), [Variant(0.1, fold) for fold in folds]
    reports, _, _ = solved(X, y, Problems(2, False, [hard, *easy]), tol=1e-3)
    last = reports[-1]
    assert last.converged
    first, *others = last.certificate.gaps
    assert first > 1e-3 >= max(others)
    alone = solved(X, y, Problems(2, False, [hard]), tol=1e-3)[0][-1]
    assert alone.converged  # there is nobody else to end with
    assert alone.certificate.relative_gap <= 1e-3


def test_class_weights_and_sample_weights_are_costs():
    X, y = wide()
    factors, weight = (2.0, 0.5), np.random.default_rng(3).integers(0, 3, len(y)).astype(np.float32)
    problems = Problems(2, False, variants((1.0,), 2, factors))
    last = solved(X, y, problems, weight=weight)[0][-1]
    for c, variant in enumerate(problems.variants):
        some = rows_of(variant, len(y)) & (weight > 0)
        optimum, _ = liblinear(X[some], y[some], weight=(np.array(factors)[y] * weight)[some])
        assert last.certificate.primal[c] == pytest.approx(optimum, rel=1.1e-4)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_again_bit_for_bit(monkeypatch, threads):
    small_pages(monkeypatch, 2000, 8000)
    X, y = wide()
    problems = Problems(2, False, variants())
    runs = [solved(X, y, problems, ROOM, threads=threads) for _ in range(2)]
    np.testing.assert_array_equal(*(reports[-1].coef for reports, _, _ in runs))
    np.testing.assert_array_equal(*(shares for _, shares, _ in runs))


def test_threads_change_nothing():
    """Each has lanes of its own."""
    X, y = wide()
    one, two = (solved(X, y, Problems(2, False, variants()), threads=t)[0][-1].coef for t in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_every_pass_certifies_something_true():
    """Whatever lanes are still on their way."""
    X, y = wide(integers=False)
    problems = Problems(2, False, variants((0.1, 100.0), 2))
    reports, _, _ = solved(X, y, problems)
    optima = [liblinear(X[s], y[s], v.cost)[0] for v in problems.variants for s in [rows_of(v, len(y))]]
    passes = [report for report in reports if report.certificate is not None]
    assert len(passes) > 2
    for report in passes:
        for optimum, primal, dual in zip(
            optima, report.certificate.primal, report.certificate.dual, strict=True
        ):
            assert dual <= optimum * (1 + 1e-6)
            assert primal >= optimum * (1 - 1e-6)
    assert [report.passes for report in passes] == list(range(1, len(passes) + 1))


def test_moves_and_averages_save_sweeps(monkeypatch):
    """At a large C, beside sweeps alone."""
    X, y = wide(n=4000)
    problems = Problems(2, False, variants((1000.0,), 3))

    def visits():
        return solved(X, y, problems, tol=1e-3)[0][-1].extra["updates_per_row"]

    with_both = visits()
    monkeypatch.setattr(lanes_module.LaneMoves, "choose", lambda self, *_: self.factors.fill(0.0))
    assert with_both < 0.8 * visits()


def test_time_that_is_over_ends_it_with_what_there_is():
    X, y = wide()

    def over(training):
        training.stream.progress.stop_at = time.monotonic()

    reports, _, _ = solved(X, y, Problems(2, False, variants((1000.0,))), look=over, tol=1e-9)
    assert len(reports) == 2
    last = reports[-1]
    assert not last.converged
    assert np.isfinite(last.certificate.primal).all()


def test_what_does_not_get_on_is_given_up():
    """As tune trains such candidates alone then."""
    X, y = wide()
    reports, _, _ = solved(X, y, Problems(2, False, variants((1.0,), 2)), tol=1e-17)
    assert not reports[-1].converged
    assert reports[-1].certificate.relative_gap < 1e-6


@pytest.mark.parametrize(
    ("n", "of_cost", "sizes"),
    [(6, 6, [6]), (12, 6, [6, 6]), (4, 1, [4]), (10, 1, [8, 2]), (12, 3, [6, 6]), (22, 11, [8, 8, 6])],
)
def test_variants_of_a_cost_are_together(n, of_cost, sizes):
    assert [len(part) for part in lanes_of(n, of_cost)] == sizes


def test_who_is_for_it():
    X, y = wide(60)
    narrow, classes = X[:, :500], np.arange(60) % 3
    with Training(open_source(sparse(X), y), Settings()) as training:
        info: DatasetInfo = training.read()
    assert suits(Settings(), info)
    for settings in (Settings(loss="squared_hinge"), Settings(loss="logistic"), Settings(paper=True)):
        assert not suits(settings, info)
    for data, labels in ((sparse(narrow), y), (sparse(X), classes), (X, y)):
        with Training(open_source(data, labels), Settings()) as training:
            assert not suits(Settings(), training.read())


# -- in tune -------------------------------------------------------------------------------------------------


def test_tune_is_side_by_side_where_that_suits(monkeypatch):
    X, y = wide()
    made = []

    class Noted(SideBySide):
        def __init__(self, *given):
            made.append(len(given[3]))
            super().__init__(*given)

    monkeypatch.setattr(candidates, "SideBySide", Noted)
    found, model = tuned(sparse(X), y, costs=COSTS, tol=1e-4)
    assert max(made) == 18
    numbers = fold_numbers(sparse(X), y)
    for row in found["table"]:
        assert row["converged"]
        for fold in range(5):
            some = numbers != fold
            optimum, w = liblinear(X[some], y[some], row["C"])
            assert row["primals"][fold] == pytest.approx(optimum, rel=1.2e-4)
            accuracy = np.mean((X[~some] @ w > 0) == (y[~some] > 0))
            assert row["scores"][fold] == pytest.approx(accuracy, abs=0.035)  # a row or two of 60
    optimum, _ = liblinear(X, y, found["best_C"])
    assert model.certificate.total_primal == pytest.approx(optimum, rel=1.2e-4)


def test_values_that_rounding_changes_begin_again_as_they_are(monkeypatch, tmp_path):
    """At a large C, before much work is done."""
    X, y = wide(integers=False)
    write_svmlight(tmp_path / "rows.svm", sparse(X), y)
    kinds, before = [], Training.keep_double
    monkeypatch.setattr(Training, "keep_double", lambda self: (kinds.append(64), before(self)))
    given = {"C": (1.0, 1e3), "threads": 1, "memory_limit": "2GB"}
    found = llsvm.tune(tmp_path / "rows.svm", **given)
    assert kinds == [64]
    assert all(row["converged"] for row in found.table)


def test_batches_that_a_small_limit_forces_give_the_same_table(monkeypatch):
    small_pages(monkeypatch, 2000, 8000)
    X, y = wide()
    large, _ = tuned(sparse(X), y, costs=COSTS, tol=1e-4)
    small, _ = tuned(sparse(X), y, 3_000_000, costs=COSTS, tol=1e-4)
    assert small["batches"] > large["batches"] == 1
    for one, two in zip(large["table"], small["table"], strict=True):
        np.testing.assert_allclose(two["primals"], one["primals"], rtol=2e-4)
        assert two["mean"] == pytest.approx(one["mean"], abs=0.01)


@pytest.mark.slow
def test_the_limit_holds_in_a_cgroup(tmp_path):
    data = tmp_path / "rows.svm"
    generate("text", data, 150_000)
    words = ["tune", str(data), "--model", str(tmp_path / "m"), "--C", "0.1,1,100", "--json", "-q"]
    words += ["--folds", "3", "--tol", "0.01"]
    for limit in (360, 600):  # MB
        command = [sys.executable, "-m", "llsvm", *words, "--memory-limit", f"{limit}MB"]
        try:
            with measure.memory_cgroup(limit * 1_000_000) as group:
                done = measure.run(command, cgroup=group)
        except OSError as error:
            pytest.skip(f"no memory cgroup to be had here: {error}")
        assert done.exit_code == 0, done.stderr
        assert done.peak_rss_bytes <= limit * 1_000_000
        assert all(row["converged"] for row in json.loads(done.stdout)["table"])
