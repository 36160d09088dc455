"""Counted work: exact beside slow twins, the same from run to run, and in what runs answer."""

import json
import threading
from dataclasses import fields

import numpy as np
import pytest
from oracle import write_svmlight
from typer.testing import CliRunner

import llsvm.solvers.llsvm.sweeps as sweeps
from llsvm.cli import app
from llsvm.data import open_source
from llsvm.memory.budget import MemoryBudget
from llsvm.process.work import Work, count_factorization, count_updates, work_so_far
from llsvm.settings.settings import Settings
from llsvm.solvers.optim import row_operator
from llsvm.training.training import Training

ROWS, COLUMNS, VALUES = (
    600,
    40,
    5,
)  # of a row: rows are alike, so that some of them are as many values as counted
SMALL_BYTES = 3_400_000  # the rows of ``large`` do not all stay in memory


def sparse_rows(n_rows):
    rng = np.random.default_rng(0)
    X = np.zeros((n_rows, COLUMNS))
    for row in X:
        row[rng.choice(COLUMNS, VALUES, replace=False)] = rng.uniform(0.5, 1.5, VALUES)
    return X, np.where(X @ rng.normal(size=COLUMNS) + 0.5 * rng.normal(size=n_rows) > 0, 1, -1)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return write_svmlight(tmp_path_factory.mktemp("work") / "small.svm", *sparse_rows(ROWS))


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return write_svmlight(tmp_path_factory.mktemp("work") / "large.svm", *sparse_rows(20_000))


def trained(path, budget_bytes=200_000_000, **options):
    """The run's summary, and the bytes that the stream has counted."""
    budget = MemoryBudget(budget_bytes, runtime_bytes=0)
    with Training(open_source(path, threads=1), Settings(threads=1, **options), budget=budget) as run:
        for _ in run:
            pass
        assert run.stream.in_one_block == (budget_bytes > SMALL_BYTES)
        return run.summary()


class Twin:
    """Counts what a kernel is given, row by row, and lets it do its work."""

    def __init__(self, monkeypatch, module, name, order=None, times=lambda arguments: 1):
        """order: which argument has the rows that are visited; None: all of them are."""
        self.rows = self.values = 0
        kernel = getattr(module, name)

        def counted(indptr, *arguments):
            chosen = range(len(indptr) - 1) if order is None else arguments[order - 1]
            self.rows += times(arguments) * len(chosen)
            self.values += times(arguments) * sum(int(indptr[i + 1] - indptr[i]) for i in chosen)
            return kernel(indptr, *arguments)

        monkeypatch.setattr(module, name, counted)


def twins_of_llsvm(monkeypatch):
    return Twin(monkeypatch, sweeps, "sweep", order=7), Twin(monkeypatch, sweeps, "dots_at", order=3)


def test_coordinate_descent_is_counted_exactly(small, monkeypatch):
    updates, products = twins_of_llsvm(monkeypatch)
    work = trained(small, solver="llsvm", paper=True)["work"]
    assert updates.rows >= ROWS
    assert (work["updated_rows"], work["updated_sparse_values"]) == (updates.rows, updates.values)
    assert (work["multiplied_rows"], work["multiplied_sparse_values"]) == (products.rows, products.values)
    assert work["updated_dense_values"] == work["multiplied_dense_values"] == work["store_bytes"] == 0


def test_a_pass_of_nesvm_is_three_products_of_all_rows(small):
    """But for the first, which sums up the Gram matrix."""
    answer = trained(small, solver="nesvm", max_passes=4)
    assert answer["passes"] == 4
    assert answer["work"]["multiplied_rows"] == 3 * 3 * ROWS
    assert answer["work"]["multiplied_sparse_values"] == 3 * 3 * ROWS * VALUES
    assert answer["work"]["updated_rows"] == 0


def test_newtons_passes_are_counted_exactly(small, monkeypatch):
    margins = Twin(monkeypatch, row_operator, "dots_at", order=3)
    sums = Twin(monkeypatch, row_operator, "add_at", order=3)
    work = trained(small, solver="smsvm")["work"]
    assert work["multiplied_rows"] == margins.rows + sums.rows
    assert work["multiplied_sparse_values"] == margins.values + sums.values
    assert work["factorizations"] > 0
    assert work["factor_terms"] <= work["factorizations"] * (COLUMNS + 2) ** 3 // 3
    assert work["sparse_matrix_terms"] > 0


def test_rows_on_disk_are_counted_as_those_in_memory_and_their_bytes_too(large, monkeypatch):
    updates, _ = twins_of_llsvm(monkeypatch)
    answer = trained(large, SMALL_BYTES, solver="llsvm", tol=0.05)
    work = answer["work"]
    assert answer["read_from"] == "cache"
    assert (work["updated_rows"], work["updated_sparse_values"]) == (updates.rows, updates.values)
    assert work["source_bytes"] == large.stat().st_size
    assert work["store_bytes"] == answer["bytes_read"] - work["source_bytes"] > 0
    assert work["written_bytes"] > 0


@pytest.mark.parametrize(
    "options", [{"solver": "llsvm"}, {"solver": "smsvm"}, {"multiclass": "crammer-singer"}]
)
def test_work_is_the_same_at_each_run(small, options):
    first, second = (trained(small, **options)["work"] for _ in range(2))
    assert first == second
    assert sum(first.values()) > 0


def test_the_json_and_the_log_of_a_model_have_the_work(small, tmp_path):
    model = tmp_path / "model"
    words = ["train", str(small), "--model", str(model), "--threads", "1", "--json", "--quiet"]
    work = json.loads(CliRunner().invoke(app, words).stdout)["work"]
    assert list(work) == sorted(each.name for each in fields(Work))
    assert all(isinstance(count, int) and count >= 0 for count in work.values())
    assert work["updated_rows"] > 0
    assert json.loads((tmp_path / "model.log.json").read_text())["log"]["work"] == work


def test_work_is_priced_by_its_kinds():
    assert Work().seconds == 0.0
    assert Work(updated_rows=10, updated_dense_values=100).seconds == pytest.approx(1e-9 * (1000 + 45))
    assert all(each.metadata["unit"] and each.metadata["ns"] > 0 for each in fields(Work))


def test_threads_lose_no_counts():
    before = work_so_far()

    def count():
        for _ in range(2000):
            count_updates(1, 3, dense=False)
            count_factorization(3)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = work_so_far().since(before)
    assert (done.updated_rows, done.updated_sparse_values, done.factorizations) == (8000, 24_000, 8000)
    assert done.factor_terms == 8000 * 9
