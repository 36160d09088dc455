"""A refusal of ``predict``, ``evaluate``, ``report``, ``verify`` and ``inspect`` names one limit: it is accepted by
the very next run, also in a container of exactly that size, and is kept."""

import contextlib
import os
import re
import subprocess
import sys
import zipfile
from itertools import cycle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pytest
from oracle import rows, write_svmlight
from typer.testing import CliRunner

from llsvm import Model, evaluate, predict, train
from llsvm.cli import app
from llsvm.errors import BudgetError, ModelError
from llsvm.memory.process import MIN_WORK_BYTES, RUNTIME_BYTES
from llsvm.models import model_file
from llsvm.models.liblinear import read_liblinear
from llsvm.models.model import model_bytes
from llsvm.models.sparse import NAME, PARTS

MB = 1_000_000
CGROUP = Path("/sys/fs/cgroup/memory")
N = 600
COLOURS = np.array(["red", "green", "blue", "a rather long colour name, with commas"])


def llsvm(*words, before=None):
    """In a process of its own: exit status, errors, peak resident set in bytes."""
    code = (
        "import sys, atexit\nfrom llsvm.memory.process import peak_resident_bytes\n"
        "atexit.register(lambda: print('PEAK', peak_resident_bytes(), file=sys.stderr))\n"
        "from llsvm.__main__ import main\nmain()"
    )
    command = [sys.executable, "-c", code, *map(str, words)]
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=before
    )
    errors, _, peak = done.stderr.rpartition("PEAK ")
    return done.returncode, errors or done.stderr, int(peak)


def accepted_at_once(*words, too_little=255):
    """The limit that a refusal names, in MB, which was then enough, and kept."""
    status, errors, _ = llsvm(*words, "--memory-limit", f"{too_little}MB")
    assert status == 4, errors
    assert "at least" not in errors
    limit = int(re.search(r"pass --memory-limit (\d+)MB or more", errors)[1])
    status, errors, peak = llsvm(*words, "--memory-limit", f"{limit}MB")
    assert status in (0, 7), errors
    assert peak <= limit * MB
    return limit


def table(classes=2, n=N):
    """Columns by name; the label depends on the numbers."""
    X, y = rows(n=n, d=6, classes=classes, noise=0.3)
    rng = np.random.default_rng(3)
    columns = {f"x{j}": X[:, j].astype(np.float32) for j in range(X.shape[1])}
    columns["colour"] = COLOURS[rng.integers(0, len(COLOURS), n)]
    columns["label"] = y.astype(int)
    return columns


def texts(n=N):
    rng = np.random.default_rng(4)
    words = np.array([f"word{i}" for i in range(3000)])
    some = [" ".join(words[np.minimum(rng.zipf(1.3, 20) - 1, 2999)]) for _ in range(n)]
    return {"text": np.array(some), "label": (np.array(["word1 " in t + " " for t in some])).astype(int)}


def write_csv(folder, columns):
    path = folder / "rows.csv"
    cells = [[f'"{v}"' if isinstance(v, str) else str(v) for v in column] for column in columns.values()]
    lines = [",".join(columns), *map(",".join, zip(*cells, strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_jsonl(folder, columns):
    import json

    path = folder / "rows.jsonl"
    names, values = list(columns), [column.tolist() for column in columns.values()]
    path.write_text(
        "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in zip(*values, strict=True))
    )
    return path


def write_parquet(folder, columns):
    import pyarrow.parquet as pq

    path = folder / "rows.parquet"
    pq.write_table(pa.table(dict(columns)), path, row_group_size=200)
    return path


def write_arrow(folder, columns):
    path = folder / "rows.arrow"
    made = pa.table(dict(columns))
    with pa.OSFile(str(path), "w") as file, pa.ipc.new_file(file, made.schema) as writer:
        writer.write_table(made, max_chunksize=200)
    return path


def write_hdf5(folder, columns):
    import h5py

    path = folder / "rows.h5"
    with h5py.File(path, "w") as file:
        file["X"] = np.column_stack([v for name, v in columns.items() if name[0] == "x"])
        file["y"] = columns["label"]
    return path


def write_npz(folder, columns):
    path = folder / "rows.npz"
    X = np.column_stack([v for name, v in columns.items() if name[0] == "x"])
    np.savez(path, X=X, y=columns["label"])
    return path


def write_vw(folder, columns):
    path = folder / "rows.vw"
    numbers = [name for name in columns if name[0] == "x"]
    lines = (
        f"{columns['label'][i]} | " + " ".join(f"{name}:{columns[name][i]}" for name in numbers)
        for i in range(len(columns["label"]))
    )
    path.write_text("\n".join(lines) + "\n")
    return path


def write_svm(folder, columns):
    X = np.column_stack([v for name, v in columns.items() if name[0] == "x"])
    return write_svmlight(folder / "rows.svm", X, columns["label"])


def write_long_rows(folder, columns):
    """Among short rows two of more than a megabyte of text."""
    path = write_svm(folder, columns)
    for d in (90_000, 160_000):
        with open(path, "a") as file:
            file.write("1 " + " ".join(f"{j}:0.1234567" for j in range(1, d)) + "\n")
    return path


WRITERS = {
    "svmlight": write_svm,
    "long rows": write_long_rows,
    "csv": write_csv,
    "jsonl": write_jsonl,
    "parquet": write_parquet,
    "arrow": write_arrow,
    "hdf5": write_hdf5,
    "npz": write_npz,
    "vw": write_vw,
}
TEXT = ("--text", "text", "--label", "label")
MODELS = {
    "linear": ((), table),
    "many classes": (("--multiclass", "ovr", "-C", "0.1"), lambda: table(classes=40)),
    "pairs": (("--multiclass", "ovo"), lambda: table(classes=8)),
    "softmax": (("--multiclass", "softmax", "--loss", "logistic"), lambda: table(classes=5)),
    "logistic": (("--loss", "logistic"), table),
    "kernel": (("--kernel", "rbf", "--exclude", "colour"), table),
    "map": (("--feature-map", "nystroem", "--components", "50", "--exclude", "colour"), table),
    "sparse": (("--penalty", "l1", "--lambda1", "0.01"), table),
    "text": (TEXT, texts),
    "hashed text": ((*TEXT, "--hash-bits", "18"), texts),
}
COMMANDS = {
    "predict": lambda m, d, o: ("predict", m, d, "-o", o / "out"),
    "scores": lambda m, d, o: ("predict", m, d, "--scores", "-o", o / "out.csv"),
    "parquet": lambda m, d, o: ("predict", m, d, "--scores", "-o", o / "out.parquet"),
    "explain": lambda m, d, o: ("predict", m, d, "--explain", "-o", o / "out"),
    "probabilities": lambda m, d, o: ("predict", m, d, "--probabilities", "-o", o / "out"),
    "evaluate": lambda m, d, o: ("evaluate", m, d, "--json"),
    "by": lambda m, d, o: ("evaluate", m, d, "--by", "colour"),
    "thresholds": lambda m, d, o: ("evaluate", m, d, "--thresholds", 20),
    "report": lambda m, d, o: ("report", m, "--data", d, "-o", o / "out.html"),
    "two models": lambda m, d, o: ("report", m, "--data", d, "--compare", m, "-o", o / "out.html"),
    "verify": lambda m, d, o: ("verify", m, d),
}
NUMERIC = [kind for kind in MODELS if "text" not in kind]
TABLES = ("csv", "jsonl", "parquet", "arrow")
CASES = [
    *(("linear", form, each) for form, each in zip(WRITERS, cycle(("report", "evaluate", "verify")))),
    *(("linear", form, "predict") for form in ("long rows", "jsonl", "arrow", "hdf5")),
    *(("linear", "csv", each) for each in ("scores", "by")),
    *(("linear", "parquet", each) for each in ("parquet", "explain")),
    *(("linear", "svmlight", each) for each in ("thresholds", "two models")),
    *((kind, "csv", each) for kind, each in zip(NUMERIC, cycle(("evaluate", "predict", "verify")))),
    *((kind, "csv", "probabilities") for kind in ("softmax", "logistic")),
    *(("text", *each) for each in (("csv", "predict"), ("parquet", "evaluate"))),
    *(("hashed text", *each) for each in (("csv", "evaluate"), ("parquet", "predict"))),
]
QUICK = [("linear", "csv", "scores"), ("linear", "csv", "verify"), ("linear", "long rows", "evaluate")]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(model, data) of a kind of model and a format."""
    made = {}

    def get(kind, form):
        if (kind, form) not in made:
            folder = tmp_path_factory.mktemp("trained")
            options, columns = MODELS[kind]
            data = WRITERS[form](folder, columns())
            named = ("--label", "label") if form in TABLES and "--label" not in options else ()
            words = ("train", data, "--model", folder / "m", "--max-passes", 30, "--spill-dir", folder, "-q")
            done = CliRunner().invoke(app, [*map(str, words), *named, *options])
            assert done.exit_code in (0, 5), done.output
            made[kind, form] = folder / "m", data
        return made[kind, form]

    return get


@pytest.mark.parametrize(
    "case",
    [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in dict.fromkeys(CASES)],
)
def test_the_limit_that_is_named_is_accepted_at_once_and_kept(trained, tmp_path, case):
    kind, form, command = case
    accepted_at_once(*COMMANDS[command](*trained(kind, form), tmp_path))


def test_a_container_of_the_limit_that_is_named_accepts_it(trained, tmp_path):
    """Which the kernel rounds down to whole pages: 1,000,000 bytes are 244.14 of them."""
    words = ["train", trained("linear", "svmlight")[1], "--model", tmp_path / "m", "-q"]
    limit = accepted_at_once(*words)
    assert limit == (RUNTIME_BYTES + MIN_WORK_BYTES) / MB  # to the byte
    group = CGROUP / f"llsvm-named-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit * MB))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"no memory cgroup (version 1) to be had here: {error}")
    try:
        join = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))  # noqa: E731
        status, errors, _ = llsvm(*words, "--memory-limit", f"{limit}MB", before=join)
        assert status == 0, errors
        assert "oom_kill 0" in (group / "memory.oom_control").read_text()
    finally:
        group.rmdir()


def test_tune_counts_the_weights_of_candidates(tmp_path):
    """Of candidates that follow each other, those of a fold are held beside the solver."""
    data = tmp_path / "rows.svm"
    data.write_text("".join(f"{i % 2} {1 + i}:1 {40_000 + i}:{i % 7}\n" for i in range(1, 301)))
    costs = ",".join(f"{i / 1000}" for i in range(1, 11))
    words = ["tune", data, "--penalty", "l1", "--loss", "squared_hinge", "-C", costs, "--folds", 2]
    accepted_at_once(*words, "--model", tmp_path / "m", "-q")


def test_tune_of_many_costs_holds_their_weights_once(tmp_path):
    """While held-out rows are scored, too: 30 C's on 200,001 columns are 48 MB."""
    data = tmp_path / "rows.svm"
    data.write_text("".join(f"{i % 2} {1 + i}:1 {200_000 + i % 2}:{i % 7}\n" for i in range(1, 81)))
    costs = ",".join(f"{i / 1000}" for i in range(1, 31))
    words = ["tune", data, "--penalty", "l1", "--loss", "squared_hinge", "-C", costs, "--folds", 2]
    accepted_at_once(*words, "--model", tmp_path / "m", "-q")


def test_where_there_is_no_room_for_64_bit_values_it_goes_on_without(tmp_path):
    """The limit that is named carries the whole run, and its end names the one that has room."""
    X = np.random.default_rng(0).normal(size=(40, 50_000)) + 100.0
    np.savez(tmp_path / "X.npz", X=X, y=X[:, :5].sum(axis=1) > 500)
    options = ["--loss", "least-squares", "--penalty", "l1", "--cache", "never", "-C", 1.97, "--tol", 1e-4]
    words = ["train", tmp_path / "X.npz", "--model", tmp_path / "m", *options, "--max-passes", 3]
    named = re.compile(r"pass --memory-limit (\d+)MB or more")
    status, errors, _ = llsvm(*words, "--memory-limit", "255MB")
    assert status == 4
    smallest = int(named.search(errors)[1])
    status, errors, peak = llsvm(*words, "--memory-limit", f"{smallest}MB")
    assert status == 5, errors
    assert "no room for 64-bit ones" in errors
    assert peak <= smallest * MB
    enough = int(named.search(errors)[1])
    assert enough > smallest
    for limit, kept in ((enough - 1, 32), (enough, 64)):
        status, errors, peak = llsvm(*words, "--memory-limit", f"{limit}MB")
        assert status == 5, errors
        assert f"values are kept as {kept}-bit floats" in errors
        assert peak <= limit * MB


# -- inspect ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csv", "hdf5"])
def test_inspect_of_data_under_a_limit_that_no_run_can_keep(tmp_path, form):
    assert accepted_at_once("inspect", WRITERS[form](tmp_path, table()), too_little=60) >= 274


def test_a_model_that_does_not_fit_what_is_available_names_a_limit(tmp_path, monkeypatch):
    path = tmp_path / "m"
    X, y = rows(n=50, d=3)
    train(X, y).save(path)
    monkeypatch.setattr(model_file, "available_bytes", lambda: 60 * MB)
    with pytest.raises(
        BudgetError, match=r"limit is 60 MB and at least [\d,]+ MB are needed .*memory_limit"
    ) as caught:
        Model.load(path)
    assert "-" not in str(caught.value).replace("--", "")
    monkeypatch.setattr(model_file, "available_bytes", lambda: 2 * caught.value.smallest_bytes)
    assert Model.load(path).weights.nbytes > 0


def test_inspect_of_a_model_of_liblinear(tmp_path):
    path = tmp_path / "m"
    head = "solver_type L2R_L2LOSS_SVC\nnr_class 2\nlabel 1 -1\nnr_feature 6000000\nbias -1\nw\n"
    path.write_text(head + "0.5 \n" * 6_000_000)
    assert accepted_at_once("inspect", path, too_little=300) < 264 + 48 + 5


@pytest.mark.parametrize("announced", [10**7, 10**15])
def test_weights_that_a_file_of_liblinear_has_not_take_no_memory(tmp_path, announced):
    path = tmp_path / "m"
    path.write_text(f"solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature {announced}\nbias -1\nw\n0.5\n")
    with pytest.raises(ModelError, match=f"{announced:,} weights are announced, and the file has"):
        read_liblinear(path)


@pytest.mark.parametrize("text", ["nr_class 2" + " " * (1 << 22), "w\n0." + "5" * (2 << 20)])
def test_lines_without_end_in_a_file_of_liblinear(tmp_path, text):
    path = tmp_path / "m"
    path.write_text(
        f"solver_type L2R_LR\nnr_class 2\nlabel 1 -1\nnr_feature 1000000\nbias -1\n{text}" + " 1" * 10**6
    )
    with pytest.raises(ModelError, match=r"a line of 4,194,304 bytes|a weight of [\d,]+ characters"):
        read_liblinear(path)


def test_inspect_of_a_model_that_unpacks_to_much_more(tmp_path):
    """Counts of weights, nearly all of them 0, of as many columns as there may be."""
    small, d = tmp_path / "small", 2**24
    X, y = rows(n=50, d=3)
    train(X, y, output=small)
    header, arrays, _ = model_file.read(small)
    for name in ("format", "format_version", "arrays"):
        del header[name]
    header |= {"n_features": d, "n_weights": 1, "requires": [*header["requires"], NAME]}
    header["extra"][NAME] = True
    counts = np.zeros(d, np.uint32)
    counts[5] = 1
    parts = dict(zip(PARTS, (counts, np.zeros(1, np.int32), np.ones(1)), strict=True))
    kept = {name: arrays[name] for name in ("intercept", "classes")}
    model_file.write(tmp_path / "m", header, parts | kept, {})
    assert os.path.getsize(tmp_path / "m") < MB
    assert accepted_at_once("inspect", tmp_path / "m", too_little=300) < 264 + 8 * d / MB + 5


def test_a_header_of_many_small_objects(tmp_path):
    """They take much more than their text does."""
    with zipfile.ZipFile(tmp_path / "m", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", b'{"history": [' + b"{}," * 1_000_000 + b"{}]}")
    assert model_bytes(tmp_path / "m").others > sys.getsizeof({}) * 10**6


@pytest.mark.slow
def test_inspect_of_wide_parquet(tmp_path):
    import pyarrow.parquet as pq

    rng, n = np.random.default_rng(0), 8_000
    columns = {f"c{i}": rng.standard_normal(n).astype("f4") for i in range(600)}
    path = tmp_path / "wide.parquet"
    pq.write_table(
        pa.table(columns | {"label": np.arange(n) % 2}), path, row_group_size=n, compression="none"
    )
    accepted_at_once("inspect", path, too_little=300)


# -- others -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_report_of_two_models_has_room_for_both(tmp_path):
    X, y = rows(n=50, d=3, classes=3)
    model = train(X, y)
    rng = np.random.default_rng(0)
    large = Model(rng.normal(size=(3, 2_000_000)), model.intercept_, model.classes_)
    large.save(tmp_path / "m")
    limit = accepted_at_once("report", tmp_path / "m", "--compare", tmp_path / "m", "-o", tmp_path / "o.html")
    assert limit >= 264 + 2 * 48


@pytest.mark.slow
@pytest.mark.parametrize("command", ["path", "convert"])
def test_path_and_convert(tmp_path, command):
    data = write_csv(tmp_path, table())
    options = ("--label", "label") if command == "path" else (tmp_path / "rows.svm", "--label", "label")
    accepted_at_once(command, data, *options)


def test_groups_that_have_room_once_their_limit_is_named(steady_process):
    X, y = rows(n=300, d=3)
    frame = pa.table({f"x{j}": X[:, j] for j in range(3)} | {"g": np.arange(300) % 5, "label": y})
    model = train(frame, label="label", exclude=["g"])
    with pytest.raises(BudgetError) as caught:
        evaluate(model, frame, by="g", memory_limit=265 * MB)
    limit = caught.value.smallest_bytes
    assert len(evaluate(model, frame, by="g", memory_limit=limit)["groups"]) == 5


def test_groups_are_counted_before_a_limit_is_named(tmp_path, steady_process):
    X, y = rows(n=2000, d=3)
    columns = {f"x{j}": X[:, j] for j in range(3)} | {"g": np.arange(2000) % 700, "label": y}
    path = tmp_path / "rows.arrow"
    feather.write_feather(pa.table(columns), path, compression="uncompressed")
    model = train(path, label="label", exclude=["g"])
    for too_little in (RUNTIME_BYTES + MB, RUNTIME_BYTES + 26 * MB):
        with pytest.raises(BudgetError) as caught:
            evaluate(model, path, by="g", memory_limit=too_little)
        assert not caught.value.at_least
        assert len(evaluate(model, path, by="g", memory_limit=caught.value.smallest_bytes)["groups"]) == 700


def test_all_predictions_are_counted_before_a_limit_is_named(tmp_path, steady_process):
    X, y = rows(n=20_000, d=2)
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    model = train(str(path), max_passes=5)
    with pytest.raises(BudgetError) as caught:
        predict(model, str(path), memory_limit=266_200_000)
    assert caught.value.lines["predictions"] >= 8 * 20_000
    assert len(predict(model, str(path), memory_limit=caught.value.smallest_bytes)) == 20_000


def test_what_can_be_read_once_only_is_no_promise(tmp_path, trained):
    model, data = trained("linear", "svmlight")
    with open(data, "rb") as rows_:
        command = [sys.executable, "-m", "llsvm", "evaluate", model, "-", "--memory-limit", "255MB"]
        done = subprocess.run(command, stdin=rows_, capture_output=True, text=True)
    assert done.returncode == 4, done.stderr
    assert "at least" in done.stderr
