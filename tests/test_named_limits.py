"""A refusal of ``predict``, ``evaluate``, ``report``, ``verify`` and ``inspect`` names one limit: it is accepted by
the very next run, also in a container of exactly that size, and is kept."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from oracle import rows, write_svmlight

MB = 1_000_000
CGROUP = Path("/sys/fs/cgroup/memory")
N = 600
COLOURS = np.array(["red", "green", "blue", "a rather long colour name, with commas"])


def llsvm(*words, before=None):
    """In a process of its own: exit status, errors, peak resident set in bytes."""
    code = (
        "import sys, atexit\nfrom llsvm.memory.process import peak_resident_bytes\n"
        "atexit.register(lambda: print('PEAK', peak_resident_bytes(), file=sys.stderr))\n"
        "from llsvm.cli import main\nmain()"
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
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "rows.parquet"
    pq.write_table(pa.table(dict(columns)), path, row_group_size=200)
    return path


def write_arrow(folder, columns):
    import pyarrow as pa

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
TABLES = ("csv", "jsonl", "parquet", "arrow")
CASES = [
    *(("linear", form, each) for form in WRITERS for each in ("predict", "evaluate", "report", "verify")),
    *(
        ("linear", form, each)
        for form in ("csv", "parquet")
        for each in ("scores", "parquet", "explain", "by")
    ),
    *(("linear", "svmlight", each) for each in ("scores", "parquet", "explain", "thresholds", "two models")),
    *(
        (kind, "csv", each)
        for kind in MODELS
        if "text" not in kind
        for each in ("predict", "evaluate", "verify")
    ),
    *((kind, "csv", "probabilities") for kind in ("softmax", "logistic")),
    *(
        (kind, form, each)
        for kind in ("text", "hashed text")
        for form in ("csv", "parquet")
        for each in ("predict", "evaluate")
    ),
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
            status, errors, _ = llsvm(
                *("train", data, "--model", folder / "m", "--max-passes", 30, "--spill-dir", folder, "-q"),
                *(*named, *options),
            )
            assert status in (0, 5), errors
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
