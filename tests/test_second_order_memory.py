"""Second order, problems that are solved at once, and preconditioners stay under the memory limit: processes of
their own, in a memory cgroup where one can be had."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import write_svmlight

from llsvm.data.arrays import ArraySource
from llsvm.memory.budget import MemoryBudget
from llsvm.settings.settings import Settings
from llsvm.training.training import Training

MB, PAGE = 1_000_000, 4096  # groups count whole pages
CGROUP = Path("/sys/fs/cgroup/memory")

# Says which second order ran
TOLD = """
import sys
from llsvm.solvers.llsvm import multipliers as binary
from llsvm.solvers.optim.newton_system import NewtonSystem
from llsvm.solvers.sequential_dual import solver as joint_run
from llsvm.solvers.sequential_dual.multipliers import JointMultipliers as Joint
from llsvm.solvers.sequential_dual.rounds import JointRounds
from llsvm.solvers.smsvm.hard_problems import HardProblems
from llsvm.solvers.softmax.solver import SoftmaxRun

def told(cls, name, what):
    method = getattr(cls, name)
    def wrapped(self, *arguments, **options):
        print("ran:", what(self), file=sys.stderr)
        return method(self, *arguments, **options)
    setattr(cls, name, wrapped)

told(NewtonSystem, "solve", lambda system: f"binary {system.way.name}")
told(SoftmaxRun, "_new_system", lambda run: f"softmax {run._passes.kind.name}")
told(Joint, "solve", lambda joint: "joint")
told(JointRounds, "newton_stage", lambda rounds: "joint by readings")
told(joint_run, "settle_worst_rows", lambda part: "worst rows")
told(HardProblems, "solve", lambda hard: "by columns")
from llsvm.cli import main
main()
"""


def dense():
    """1,600 rows of 600 raw columns, all filled."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1600, 600))
    y = np.sign(X @ rng.normal(size=600) + 20 * rng.normal(size=1600))
    return (X * np.logspace(0, 3, 600)).astype(np.float32), y.astype(int)


def classes_apart(n, d, k, filled):
    """Sparse rows, unscaled, of classes that contradict each other where rows are nearly the same."""
    rng = np.random.default_rng(0)
    X = sp.random(n, d, density=filled / d, random_state=0, format="csr", dtype=np.float32)
    X.data = np.rint(8 * X.data)
    return sp.vstack([X, X[: n // 15]]).tocsr(), rng.integers(0, k, n + n // 15)


def words_of_classes(n, d, k):
    """Rows of 40 words, ten of which their class has more often, one of them the last column."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, k, n)
    rows, columns = np.repeat(np.arange(n), 40), rng.integers(0, d, (n, 40))
    columns[:, :10] = (200 * y[:, None] + rng.integers(0, 200, (n, 10))) % d
    columns[0, 0] = d - 1
    return sp.csr_matrix((np.ones(40 * n, np.float32), (rows, columns.ravel())), (n, d)), y


def dense_classes():
    """6,000 rows of 400 columns, all filled, in 6 classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 400)).astype(np.float32)
    return X, np.argmax(X @ rng.normal(size=(400, 6)) + 5 * rng.normal(size=(6000, 6)), axis=1)


WIDE_L1 = ["--penalty", "l1", "--loss", "squared_hinge", "-C", "1", "--threads", "2"]
CASES = {
    "dense": (dense, ["-C", "1e4"], "binary COLUMNS"),
    "wide": (
        lambda: classes_apart(1500, 30_000, 5, 60),
        ["-C", "1e4", "--multiclass", "crammer-singer"],
        "worst rows",
    ),
    "joint": (
        lambda: classes_apart(3000, 60, 6, 12),
        ["-C", "1e4", "--multiclass", "weston-watkins"],
        "joint",
    ),
    "joint by readings": (
        lambda: classes_apart(150_000, 60, 6, 12),
        ["-C", "1e4", "--multiclass", "crammer-singer"],
        "joint by readings",
    ),
    "problems": (lambda: words_of_classes(1500, 60_000, 20), WIDE_L1, "by columns"),
    "preconditioner": (
        dense_classes,
        ["--multiclass", "softmax", "--loss", "logistic", "--threads", "2"],
        "softmax SHARED",
    ),
}
AT_ONCE = "2 problems at a time"


@contextlib.contextmanager
def cgroup(limit):
    """What joins a group of that limit, to be called by a process before it begins; None where there is none."""
    group = CGROUP / f"llsvm-second-order-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(limit + PAGE))
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()
        yield None
        return
    try:
        yield lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
        assert "oom_kill 0" in (group / "memory.oom_control").read_text()
    finally:
        time.sleep(0.2)
        group.rmdir()


def written(folder, X, y):
    path = folder / "rows.npz"
    if sp.issparse(X):
        path = write_svmlight(folder / "rows.svm", X, y)
    else:
        np.savez(path, X=X, y=y)
    return path


def called(folder, path, *options, before=None):
    """Exit status, what was printed as JSON, and errors."""
    command = [
        sys.executable,
        "-c",
        TOLD,
        "train",
        str(path),
        "--model",
        str(folder / "model"),
        "--json",
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=before, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else None, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "room"),
    [
        ("dense", 30),
        ("wide", 30),
        ("joint", 0),
        ("joint", 30),
        ("joint by readings", -15),
        ("problems", 0),
        ("problems", 40),
        ("preconditioner", 25),
    ],
)
def test_second_order_stays_under_the_limit(case, room, tmp_path):
    """room: MB beyond what it takes to have the rows in memory, for matrices; or that are missing for it."""
    make, options, ran = CASES[case]
    path = written(tmp_path, *make())
    shown = subprocess.run(
        [sys.executable, "-m", "llsvm", "inspect", str(path), *options, "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    limit = json.loads(shown.stdout)["in_memory_bytes"] + room * MB
    options = [*options, "--solver", "llsvm"] if case == "dense" else options
    with cgroup(limit) as join:
        status, answer, errors = called(
            tmp_path, path, *options, "--memory", str(limit), "--max-passes", "30", before=join
        )
    assert status in (0, 5), errors
    assert answer["peak_rss_bytes"] <= limit
    assert answer["read_from"] == ("memory" if room >= 0 else "cache")
    assert f"ran: {ran}" in errors
    assert (AT_ONCE in errors) == (case == "problems" and room > 0)


@pytest.mark.parametrize("limit", [6_250_000, 6_500_000, 6_750_000])
def test_rows_stay_in_memory_only_with_room_for_newtons_method(tmp_path, limit):
    """All rows would fit in memory here, but with no room for Newton's method over them: sweeps crawled for as long
    as anybody waited, where a smaller limit, and rows in blocks, took three passes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 20)) * np.geomspace(0.01, 1, 20)
    X[:, 1:] += X[:, :1] * 3
    y = np.where(X @ rng.normal(size=20) + 0.3 * rng.normal(size=len(X)) > 0, 1, -1)
    settings = Settings(solver="llsvm", threads=1, C=1e4, max_passes=20, spill_dir=str(tmp_path))
    with Training(ArraySource(X, y), settings, budget=MemoryBudget(limit, 0)) as run:
        *_, last = run
    assert last.converged
    assert last.passes <= 10
