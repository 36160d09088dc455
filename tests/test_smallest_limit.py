"""The smallest limit that a refusal names works when it is then given, at the first time."""

import json
import subprocess
import sys

import h5py
import numpy as np
import pytest
from oracle import rows, run, write_svmlight

from llsvm.block import Block
from llsvm.data import open_source, table_options
from llsvm.errors import EXIT_LIMIT, EXIT_NOT_CONVERGED, BudgetError, DataError
from llsvm.memory.budget import LIBRARY, RUNTIME, WORKING, MemoryBudget
from llsvm.memory.process import MIN_WORK_BYTES, resident_bytes
from llsvm.settings.settings import Settings
from llsvm.spill.writer import CountingStore
from llsvm.train import check_test
from llsvm.training.training import Training
from llsvm.tune import tune

MB = 1_000_000


def wide(folder, d=400_000, n=60, classes=2):
    rng = np.random.default_rng(0)
    lines = []
    for i in range(n):
        columns = np.unique(rng.integers(1, d + 1, 30))
        lines.append(f"{i % classes} " + " ".join(f"{j}:1" for j in columns))
    path = folder / "wide.svm"
    path.write_text("\n".join(lines) + "\n")
    return path


CASES = {
    "linear": {},
    "scaled": {"scale": "maxabs"},
    "ovo": {"multiclass": "ovo"},
    "crammer-singer": {"multiclass": "crammer-singer"},
    "nesvm": {"solver": "nesvm"},
    "smsvm": {"solver": "smsvm"},
    "never cached": {"cache": "never"},
}


@pytest.mark.parametrize("ledger", [20_000, 400_000])
@pytest.mark.parametrize("case", CASES)
def test_of_very_many_columns(tmp_path, ledger, case):
    options = {"max_passes": 2, "spill_dir": str(tmp_path), **CASES[case]}
    if case == "smsvm":
        path = wide(tmp_path, d=4000)
    else:
        path = wide(tmp_path, d=20_000, classes=5 if "multiclass" in options else 2)
    with pytest.raises(BudgetError) as caught:
        run(path, ledger=ledger, **options)
    error = caught.value
    assert error.limit_bytes == ledger
    assert sum(error.lines.values()) <= error.smallest_bytes
    assert run(path, ledger=error.smallest_bytes, **options).reports[-1].certificate is not None


@pytest.fixture
def wide_rows(tmp_path):
    """A file; this process has trained on it, and holds the kernels."""
    path = wide(tmp_path, classes=5)
    with Training(open_source(path), Settings(max_passes=1)) as training:
        list(training)
    return path


def test_a_limit_below_the_process_names_what_the_data_need(wide_rows, steady_process):
    with (
        pytest.raises(BudgetError) as caught,
        Training(open_source(wide_rows), Settings(memory_limit="1MB")) as training,
    ):
        list(training)
    assert caught.value.limit_bytes == MB
    columns = max(int(cell.partition(":")[0]) for cell in wide_rows.read_text().split() if ":" in cell)
    assert caught.value.lines["weights"] >= 5 * 8 * columns
    limit = caught.value.smallest_bytes
    with Training(open_source(wide_rows), Settings(memory_limit=limit, max_passes=2)) as training:
        assert list(training)[-1].certificate is not None


def test_text_categories(tmp_path):
    path = tmp_path / "rows.csv"
    lines = [f"city-{i % 200}{'x' * 2000},{i % 7},{i % 2}" for i in range(800)]
    path.write_text("city,size,label\n" + "\n".join(lines) + "\n")

    def trained(ledger):
        source, settings = open_source(path, options={"label": "label"}), Settings(max_passes=2)
        with Training(source, settings, budget=MemoryBudget(ledger, 0)) as training:
            return list(training)[-1]

    with pytest.raises(BudgetError) as caught:
        trained(51 * MB)
    assert caught.value.lines[LIBRARY] >= 24 * MB + 200 * 2000
    if caught.value.at_least:  # the library holds more on some machines, so that reading was not begun
        begun = caught.value.smallest_bytes
        with pytest.raises(BudgetError) as caught:
            trained(begun)
    assert not caught.value.at_least
    assert trained(caught.value.smallest_bytes).certificate is not None


def test_what_no_limit_mends_is_said_at_once(tmp_path):
    """The labels do not fit the limit, and behind them is a cell that nothing can be made of."""
    path = tmp_path / "rows.csv"
    path.write_text("y,x\n" + "".join(f"{'a' * 2000}{i},1.5\n" for i in range(6000)) + "b,abc\n")
    settings = Settings(label="y", threads=1)
    source = open_source(str(path), options=table_options(settings))
    held = resident_bytes()  # by the tests so far: counting goes on while the process is within the limit
    with (
        Training(source, settings, budget=MemoryBudget(held + 60 * MB, held)) as run,
        pytest.raises(DataError, match=r"rows.csv:6002: column x: 'abc' is not a number"),
    ):
        list(run)


def test_what_can_be_read_once_only_is_refused_all_the_same(tmp_path, monkeypatch):
    X, y = rows(n=300)
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    with open(path, "rb") as file:
        monkeypatch.setattr("sys.stdin", file)
        with pytest.raises(BudgetError):
            run("-", ledger=30_000)


def test_data_to_evaluate_on_are_no_promise_of_what_training_takes(tmp_path):
    (tmp_path / "rows.csv").write_text("a,label\n1,0\n2,1\n")
    with pytest.raises(BudgetError, match="at least"):
        check_test(str(tmp_path / "rows.csv"), Settings(memory_limit="10MB"))


def test_what_cannot_be_known_yet_is_no_promise(tmp_path):
    """A pipe can be read once only: what its data need beyond the first refusal stays unknown, and that is said."""
    path = wide(tmp_path, d=9_000_000)
    with open(path, "rb") as rows_:
        command = [
            sys.executable,
            "-m",
            "llsvm",
            "train",
            "-",
            "--model",
            tmp_path / "m",
            "--memory",
            "300MB",
        ]
        command += ["--scale", "maxabs"]  # 260 bytes a column, signed for as columns appear
        done = subprocess.run(command, input=rows_.read(), capture_output=True)
    assert done.returncode == EXIT_LIMIT, done.stderr
    assert b"at least" in done.stderr
    assert b"or rather more" in done.stderr


COMMANDS = {
    "llsvm": ["--solver", "llsvm"],
    "crammer-singer": ["--multiclass", "crammer-singer"],
    "ovo, scaled": ["--multiclass", "ovo", "--scale", "maxabs"],
    "smsvm": ["--solver", "smsvm", "--penalty", "l1", "-C", "0.1"],
    "nesvm": ["--solver", "nesvm"],
    "kernel": ["--kernel", "rbf"],
}


def llsvm(*words):
    command = [sys.executable, "-m", "llsvm", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def test_where_the_least_that_any_run_needs_is_what_is_missing(tmp_path, steady_process):
    """No line of the solver's is named then: it makes use of what is left."""
    X, y = rows(n=400, d=20)
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    with (
        pytest.raises(BudgetError) as caught,
        Training(open_source(path), Settings(memory_limit="1MB")) as training,
    ):
        list(training)
    lines = dict(caught.value.lines)
    assert lines.pop(WORKING) == MIN_WORK_BYTES
    assert list(lines) == [RUNTIME]
    assert lines[RUNTIME] + MIN_WORK_BYTES == caught.value.smallest_bytes


@pytest.mark.slow
def test_inspect_counts_what_n_grams_take_while_they_are_counted(tmp_path):
    rng = np.random.default_rng(5)
    path = tmp_path / "rows.jsonl"
    with path.open("w") as file:
        for i in range(5000):
            words = " ".join(f"w{j}" for j in rng.integers(0, 30_000, 40))
            file.write(f'{{"y": {i % 2}, "t": "{words}"}}\n')
    options = ["--label", "y", "--text", "t"]
    told = llsvm("inspect", path, "--memory", "1GB", "--json", *options)
    limit = -(-json.loads(told.stdout)["smallest_memory_bytes"] // MB)
    training = [
        "train",
        path,
        "--model",
        tmp_path / "m",
        "--max-passes",
        2,
        "--spill-dir",
        tmp_path,
        *options,
    ]
    done = llsvm(*training, "--memory", f"{limit}MB")
    assert done.returncode in (0, EXIT_NOT_CONVERGED), done.stderr
    assert llsvm(*training, "--memory", f"{limit - 1}MB").returncode == EXIT_LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("case", COMMANDS)
def test_what_inspect_names_is_what_train_takes(tmp_path, case):
    """To the megabyte, in processes of their own: as much, and one less is refused, which names it too."""
    X, y = rows(n=4000, d=60, classes=4)
    path, options = write_svmlight(tmp_path / "rows.svm", X * 10, y), [*COMMANDS[case], "--threads", 1]
    if case != "kernel":
        path = wide(tmp_path, d=40_000 if case != "smsvm" else 4000, n=4000, classes=4)
    told = llsvm("inspect", path, "--memory", "1GB", "--json", *options)
    limit = -(-json.loads(told.stdout)["smallest_memory_bytes"] // MB)
    training = [
        "train",
        path,
        "--model",
        tmp_path / "m",
        "--max-passes",
        2,
        "--spill-dir",
        tmp_path,
        *options,
    ]
    done = llsvm(*training, "--memory", f"{limit}MB")
    assert done.returncode in (0, EXIT_NOT_CONVERGED), done.stderr
    refused = llsvm(*training, "--memory", f"{limit - 1}MB")
    assert refused.returncode == EXIT_LIMIT
    assert f"pass --memory-limit {limit}MB or more" in refused.stderr


def test_a_map_that_takes_more_while_it_is_fitted_than_afterwards(tmp_path, steady_process):
    path = tmp_path / "rows.svm"
    write_svmlight(path, *rows(n=600, d=3))
    options = {"feature_map": "nystroem", "components": 300, "max_passes": 2, "seed": 1}
    with Training(open_source(path), Settings(memory_limit="2GB", **options), dry=True) as told:
        told.plan()
        smallest = told.smallest_limit(1).nbytes
    with Training(open_source(path), Settings(memory_limit=smallest, **options)) as training:
        assert list(training)[-1].certificate is not None
    with pytest.raises(BudgetError, match="or rather more") as caught:
        Training(open_source(path), Settings(memory_limit=smallest - 1, **options))
    assert caught.value.at_least


@pytest.mark.parametrize("filled_columns", [20, 400])
def test_of_filled_rows_before_sparse_ones(tmp_path, filled_columns):
    """Filled rows are held as dense ones: wider ones after them then go to disk, and sparse ones become dense."""
    d, rng = 400, np.random.default_rng(0)
    path = tmp_path / "rows.svm"
    lines = []
    for i in range(3000):
        columns = range(filled_columns) if i < 300 else np.unique(rng.integers(0, d, 5)).tolist()
        lines.append(f"{i % 2} " + " ".join(f"{j + 1}:{1 + i % 3}" for j in columns))
    path.write_text("\n".join(lines) + "\n")
    options = {"max_passes": 2, "spill_dir": str(tmp_path), "solver": "llsvm"}
    with pytest.raises(BudgetError) as caught:
        run(path, ledger=20_000, **options)
    training = run(path, ledger=caught.value.smallest_bytes, **options)
    assert training.reports[-1].certificate is not None
    with Training(
        open_source(path), Settings(**options), budget=MemoryBudget(caught.value.smallest_bytes, 0)
    ) as first:
        list(first)
        whole = first.smallest_limit(1, in_one_block=True) if filled_columns == d else None
    if whole is not None:
        assert run(path, ledger=whole.nbytes, **options).stream.place == "memory"


def test_inspect_at_the_limit_that_it_names(tmp_path):
    """Where pages are cut anew for the plan, those that are only counted too."""
    rng = np.random.default_rng(0)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"] = rng.random((2_500, 1_500), np.float32), rng.random(2_500)
    command = [sys.executable, "-m", "llsvm", "inspect", str(tmp_path / "rows.h5"), "--json"]
    command += ["--solver", "smsvm", "--loss", "quantile", "--memory-limit"]
    told = subprocess.run([*command, "400MB"], capture_output=True, check=True)
    smallest = json.loads(told.stdout)["smallest_memory_bytes"]
    for limit in (smallest, smallest + 2 * MB):
        done = subprocess.run([*command, f"{limit}"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["plan"]["enough"]


def test_counted_pages_are_cut_as_kept_ones_are():
    counted = CountingStore()
    X = np.zeros((10, 4), np.float32)
    for n in (10, 7):
        counted.append(Block(X[:n], np.zeros(n), np.arange(n)))
    some = counted.cut(Block(X[:3], np.zeros(3), np.arange(3)).nbytes)
    assert [page.n_rows for page in some.pages] == [3, 3, 3, 1, 2, 2, 2, 1]
    assert some.n_rows == counted.n_rows == 17


def test_tune_names_a_limit_with_room_for_its_folds(tmp_path):
    """Histograms of the rows of many classes, by which folds are cut, may need more than each training."""
    rng = np.random.default_rng(0)
    path = tmp_path / "rows.h5"
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = rng.normal(size=(6000, 60)).astype(np.float32), np.arange(6000) % 30
    settings = {
        "penalty": "l1",
        "loss": "logistic",
        "max_passes": 1,
        "spill_dir": str(tmp_path),
        "threads": 1,
    }
    with pytest.raises(BudgetError) as caught:
        tune(str(path), C=[0.1, 1.0], folds=2, memory_limit="1MB", **settings)
    assert "histograms of rows" in str(caught.value)
