"""``verify`` signs for what it holds before it reads a row."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from oracle import rows, small_pages, write_svmlight

import llsvm
from llsvm import BudgetError, DataError
from llsvm.block import ROW_BYTES
from llsvm.memory.budget import MemoryBudget
from llsvm.settings.settings import Settings
from llsvm.verification import rows as rows_module
from llsvm.verification.dual import KeptDual
from llsvm.verification.products import WORK_BYTES
from llsvm.verification.rows import rows_of, settings_of

X, Y = rows(n=60, d=4, noise=0.6)
X4, Y4 = rows(n=60, d=4, classes=4, noise=0.6)
GRAM = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
MODEL, WORK, ROWS = "model and weights", "sums over rows", "rows with dual variables"
CASES = {
    "linear": (X, Y, {"solver": "llsvm", "scale": "standard"}),
    "three classes": (X4, Y4, {"solver": "llsvm"}),
    "features": (X, Y, {"solver": "llsvm", "feature_map": "rff", "components": 10}),
    "gaps": (None, None, {"solver": "llsvm", "missing": "mean", "label": "last"}),
    "kernel": (X, Y, {"kernel": "rbf", "solver": "smo"}),
    "kernel, pairs": (X4, Y4, {"kernel": "rbf", "solver": "smo", "multiclass": "ovo"}),
    "matrix": (GRAM, Y, {"kernel": "precomputed", "solver": "smo"}),
    "at the weights": (X, Y, {"solver": "smsvm", "penalty": "l1"}),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    found = {}
    gaps = tmp_path_factory.mktemp("data") / "gaps.npy"
    np.save(gaps, np.c_[np.where(X > 2.0, np.nan, X), Y])
    for name, (features, labels, options) in CASES.items():
        state = tmp_path_factory.mktemp("state")
        data = str(gaps) if features is None else features
        model = llsvm.train(data, labels, threads=1, tol=0.1, state=state, **options)
        found[name] = model, state, data, labels
    return found


@pytest.mark.parametrize("with_state", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_what_is_held_is_in_the_ledger(name, with_state, trained):
    model, state, features, labels = trained[name]
    settings, map_ = settings_of(model, Settings(threads=1)), model.feature_map
    with KeptDual(state) as kept:
        of_rows = 0
        if with_state and name.startswith(("kernel", "matrix")):
            of_rows = 8 * 60 * (6 if name == "kernel, pairs" else 1)
        with rows_of(model, settings, features, labels, None, kept if with_state else None) as stream:
            lines, dataset = dict(stream.budget.lines), stream.dataset
        if of_rows and name != "matrix":
            of_rows += kept.rows_used() * (dataset.bytes_per_row + ROW_BYTES)
    filled = 8 * 4 if name == "gaps" else 0  # a number of each column, where values are missing
    assert lines[MODEL] == (12 if with_state else 4) * model.weights.nbytes + filled
    assert lines[WORK] == WORK_BYTES + (0 if map_ is None else map_.work_bytes)
    assert lines.get(ROWS, 0) == of_rows


def test_a_model_that_does_not_fit_is_refused(trained, monkeypatch):
    monkeypatch.setattr(rows_module, "MemoryBudget", lambda limit: MemoryBudget(20, 0))
    with pytest.raises(BudgetError, match=MODEL):
        llsvm.verify(trained["linear"][0], X, Y)


def test_the_limit_is_that_which_is_given_or_the_usual(trained, monkeypatch):
    limits = []
    monkeypatch.setattr(rows_module, "default_limit_bytes", lambda: 3 << 30)
    monkeypatch.setattr(
        rows_module, "MemoryBudget", lambda limit: limits.append(limit) or MemoryBudget(limit)
    )
    for limit in (None, "2GB"):
        llsvm.verify(trained["linear"][0], X, Y, memory_limit=limit)
    assert limits == [3 << 30, 2_000_000_000]


def test_nothing_is_written_where_rows_do_not_fit(tmp_path, monkeypatch):
    data = write_svmlight(tmp_path / "a.svm", *rows(n=600, d=4, noise=0.6))
    model = llsvm.train(str(data), threads=1)
    small_pages(monkeypatch)
    monkeypatch.setattr(rows_module, "MemoryBudget", lambda limit: MemoryBudget(WORK_BYTES + 26_000, 0))
    settings = settings_of(model, Settings(threads=1, spill_dir=str(tmp_path)))
    before = set(tmp_path.iterdir())
    with rows_of(model, settings, str(data), None, None) as stream:
        assert sum(block.n_rows for block in stream.all()) == 600
        assert not stream.in_memory
        assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("options", [{"scale": "standard"}, {"lambda2": 0.01, "class_weight": "balanced"}])
def test_what_can_be_read_once_only_is_kept_in_a_file_that_vanishes(options, tmp_path):
    data = write_svmlight(tmp_path / "a.svm", *rows(n=600, d=4, classes=3, noise=0.6))
    llsvm.train(str(data), threads=1, output=tmp_path / "m", **options)
    before = set(tmp_path.iterdir())
    command = [sys.executable, "-m", "llsvm", "verify", tmp_path / "m", "-", "--spill-dir", tmp_path]
    done = subprocess.run(command, input=data.read_bytes(), capture_output=True, check=True)
    assert b"holds: " in done.stdout
    assert set(tmp_path.iterdir()) == before


def test_text_of_standard_input_has_the_n_grams_of_the_model(tmp_path):
    lines = [
        "said,stars",
        *(f"{'good fine' if i % 3 else 'bad grey'} day {i % 7},{i % 3 > 0}" for i in range(60)),
    ]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    options = {"text": ("said",), "label": "stars", "format": "csv"}
    llsvm.train(str(tmp_path / "a.csv"), threads=1, output=tmp_path / "m", **options)
    command = [sys.executable, "-m", "llsvm", "verify", tmp_path / "m", "-"]
    given = (tmp_path / "a.csv").read_bytes()
    assert b"holds: " in subprocess.run(command, input=given, capture_output=True, check=True).stdout


def test_other_text_columns_than_those_of_the_model_are_refused(tmp_path):
    lines = ["a,b,stars", *(f"good day {i % 5},bad day {i % 7},{i % 3 > 0}" for i in range(60))]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    model = llsvm.train(str(tmp_path / "a.csv"), threads=1, label="stars", text=("a",), exclude=("b",))
    other = replace(model, settings=model.settings | {"text": ("b",), "exclude": ("a",)})
    with pytest.raises(DataError, match="the data have the text columns b, and the model a"):
        llsvm.verify(other, str(tmp_path / "a.csv"))
