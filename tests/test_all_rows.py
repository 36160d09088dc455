"""Second order over all rows that do not fit in memory: each product is a reading of the cache."""

from dataclasses import replace

import numpy as np
import pytest
from oracle import dense, rows, small_pages, write_svmlight
from out_of_core import WITHOUT, Out
from state_suite import Case, check_resumes

from llsvm.data import open_source
from llsvm.memory.budget import MemoryBudget
from llsvm.solvers.llsvm import tuning as tuning_module
from llsvm.solvers.llsvm.all_rows import AllRows
from llsvm.solvers.llsvm.chosen_rows import chosen_rows
from llsvm.solvers.llsvm.read_rows import ReadRows
from llsvm.solvers.llsvm.second_order_tuning import AllRowsTuning
from llsvm.stream.every_row import EveryRow
from llsvm.stream.gathered import GATHERED, Gathered
from llsvm.stream.progress import Progress
from llsvm.stream.stream import Stream

SOON = AllRowsTuning(patience=0.0)
SETS = replace(WITHOUT, passes=0.0)
PAGES = 4800, 8000
D, BIAS, PIECE_BYTES = 12, 0.5, 1 << 12


@pytest.fixture
def stream(request, tmp_path, monkeypatch):
    """Over 120 rows in the cache, with columns in other units."""
    small_pages(monkeypatch)
    X, y = rows(n=120, d=D, density=request.param)
    source = open_source(write_svmlight(tmp_path / "rows.svm", X, y))
    with Stream(source, MemoryBudget(12_000, 0), tmp_path, scale="maxabs", has_bias=True) as stream:
        stream.read()
        assert stream.place == "cache"
        yield stream


def whole(block, d):
    """(n, d) the block's values."""
    found = dense(block.X)
    return np.hstack([found, np.zeros((block.n_rows, d - found.shape[1]))])


@pytest.mark.parametrize("stream", [0.3, 1.0], indirect=True)
@pytest.mark.parametrize("share", [0.0, 0.6, 3.0])
def test_products_are_those_of_rows_in_memory(stream, share):
    every = EveryRow(stream, int(share * stream.dataset.n_rows * stream.dataset.held_bytes_per_row))
    assert every.n_held == {0.0: 0, 3.0: len(every)}.get(share, every.n_held)
    assert 0 <= every.n_held <= len(every)
    d = stream.dataset.n_columns
    X = np.vstack([whole(every.block(number), d) for number in range(len(every))])
    np.testing.assert_allclose(np.abs(X).max(axis=0)[-D:], 1.0, rtol=1e-6)  # scaled
    assert len(X) == every.first[-1] == 120
    progress = Progress()
    read = ReadRows(every, d, BIAS, PIECE_BYTES, progress)
    held = chosen_rows(X.astype(np.float32), d, BIAS, 1 << 20, progress)
    rng = np.random.default_rng(0)
    some, w = np.sort(rng.choice(120, 50, replace=False)), rng.normal(size=d + 1)
    factor = rng.random(50)
    np.testing.assert_allclose(read.dots(some, w), held.dots(some, w), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(read.squares(some), held.squares(some), rtol=1e-6)
    for name in ("add", "add_squares"):
        outs = np.ones(d + 1), np.ones(d + 1)
        for each, out in zip((read, held), outs, strict=True):
            getattr(each, name)(some, factor, out)
        np.testing.assert_allclose(*outs, rtol=1e-6, atol=1e-6)
    outer, inner = np.zeros((2, d + 1, d + 1)), np.zeros((2, 50, 50))
    for number, each in enumerate((read, held)):
        each.outer(some, factor, outer[number])
        each.inner(some, inner[number])
    np.testing.assert_allclose(np.tril(outer[0]), np.tril(outer[1]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.tril(inner[0]), np.tril(inner[1]), rtol=1e-5, atol=1e-6)


# -- whole runs -----------------------------------------------------------------------------------------------


class Watch:
    """Counts solutions, and looks at the ledger meanwhile."""

    def __init__(self, monkeypatch):
        self.solved, self.lines = 0, []
        each, enter = AllRows._solve, Gathered.__enter__

        def solve(all_rows, *args):
            self.solved += 1
            self.lines.append(dict(self.stream.budget.lines))
            each(all_rows, *args)

        def begin(gathered):
            self.stream = gathered._stream
            self.before = dict(self.stream.budget.lines)
            return enter(gathered)

        monkeypatch.setattr(AllRows, "_solve", solve)
        monkeypatch.setattr(Gathered, "__enter__", begin)


def tall(n=600, d=80, classes=2, seed=0):
    """Classes that overlap, columns in units of their own."""
    X, y = rows(n=n, d=d, seed=seed, classes=classes, density=0.4, noise=1.0)
    return (X * 10.0 ** np.linspace(-1, 1.5, d)).astype(np.float32), y


CASES = [("hinge", 2, "ovr", 225), ("squared_hinge", 3, "ovr", 245), ("hinge", 3, "ovo", 245)]
CASES += [("epsilon_insensitive", 1, "ovr", 237), ("quantile", 1, "ovr", 237)]


@pytest.mark.parametrize(("loss", "classes", "multiclass", "kb"), CASES)
def test_weights_and_dual_are_those_of_alpha(tmp_path, monkeypatch, loss, classes, multiclass, kb):
    small_pages(monkeypatch, *PAGES)
    watch = Watch(monkeypatch)
    X, y = tall(classes=max(classes, 2))
    y = (X @ np.ones(X.shape[1])).round(2) + y if classes == 1 else y
    options = {"loss": loss, "C": 100.0, "multiclass": multiclass, "max_passes": 7}
    out = Out(X, y, tmp_path, 1000 * kb, all_rows=SOON, sets=SETS, **options)
    assert watch.solved
    np.testing.assert_allclose(out.run.sweeps.w, out.weights, atol=1e-5 * np.abs(out.weights).max())
    np.testing.assert_allclose(out.run.sweeps.dual, out.dual, rtol=1e-6)
    # what is lent is signed for once, and given back
    assert all(sum(lines.values()) == sum(watch.before.values()) for lines in watch.lines)
    assert all(lines[GATHERED] > 0 for lines in watch.lines)
    assert dict(watch.stream.budget.lines) == watch.before


def test_columns_in_their_own_units_out_of_core(tmp_path, monkeypatch):
    """Sweeps over the spill are far from it after as many passes; runs repeat."""
    small_pages(monkeypatch, *PAGES)
    options = {"C": 1e4, "max_passes": 5}
    found = [Out(*tall(), tmp_path, 215_000, all_rows=SOON, sets=SETS, **options) for _ in range(2)]
    assert found[0].last.converged
    assert found[0].spilled
    np.testing.assert_array_equal(found[0].coef, found[1].coef)
    without = Out(*tall(), tmp_path, 215_000, **options)
    assert without.last.certificate.relative_gap > 10 * found[0].last.certificate.relative_gap


def test_no_room_for_a_matrix(tmp_path, monkeypatch):
    small_pages(monkeypatch, 2400, 8000)
    watch = Watch(monkeypatch)
    X, y = tall(n=300, d=99)
    Out(X, y, tmp_path, 70_000, all_rows=SOON, sets=SETS, C=100.0, max_passes=3)
    assert not watch.solved


def test_a_run_that_was_stopped_goes_on(tmp_path, monkeypatch):
    small_pages(monkeypatch, *PAGES)
    watch = Watch(monkeypatch)
    monkeypatch.setattr(
        tuning_module, "DEFAULT", replace(tuning_module.DEFAULT, all_rows=SOON, working_sets=SETS)
    )
    settings = {"solver": "llsvm", "C": 100.0, "tol": 1e-4, "max_passes": 3}
    case = Case(
        settings,
        215_000,
        n=600,
        d=80,
        density=0.4,
        from_file="cache",
        in_one_block=False,
        spills=True,
        factor=5.0,
    )
    check_resumes(case, tmp_path)
    assert watch.solved
