"""What the package promises about memory, files and interruption, tried on processes of their own."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from cells import in_turn
from oracle import rows, run, write_svmlight

from llsvm import Model
from llsvm.errors import BudgetError, DiskError, SpillError
from llsvm.spill import workspace
from llsvm.spill.store import PageStore
from llsvm.stream.stream import Stream

MB = 1_000_000
LIMIT = 280 * MB
CLI = [sys.executable, "-c", "from llsvm.__main__ import main; main()"]
CGROUP = Path("/sys/fs/cgroup/memory")


def train_command(data, folder, *options):
    model = folder / "model.llsvm"
    spill = folder / "spill"
    return [*CLI, "train", str(data), "--model", str(model), "--spill-dir", str(spill), "--json", *options]


def llsvm(data, folder, *options, env=None, before=None):
    """Train in a process of its own; returns exit status, the JSON that it printed or None, and its errors."""
    done = subprocess.run(
        train_command(data, folder, *options),
        capture_output=True,
        text=True,
        env={**os.environ, **(env or {})},
        preexec_fn=before,
        check=False,
    )
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else None, done.stderr


def left_behind(folder):
    spill = folder / "spill"
    return sorted(path.name for path in spill.iterdir()) if spill.exists() else []


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Makes svmlight files larger than LIMIT, (kind) -> path: some thousand rows over and over."""
    folder = tmp_path_factory.mktemp("large")
    made = {}

    def make(kind):
        if kind not in made:
            rng = np.random.default_rng(0)
            n, d, filled = {"sparse": (20_000, 100_000, 60), "dense": (10_000, 120, 120)}[kind]
            w = rng.normal(size=d)
            lines = []
            for _ in range(n):
                columns = np.arange(d) if filled == d else np.unique(rng.integers(0, d, filled))
                values = rng.normal(size=len(columns)).astype(np.float32)
                label = 1 if w[columns] @ values + rng.normal() * 3 > 0 else -1
                pairs = (f"{j + 1}:{v:.6g}" for j, v in zip(columns, values, strict=True))
                lines.append(f"{label} {' '.join(pairs)}\n")
            chunk = "".join(lines)
            made[kind] = folder / f"{kind}.svm"
            with open(made[kind], "w") as file:
                while file.tell() < 1.02 * LIMIT:
                    file.write(chunk)
        return made[kind]

    yield make
    for path in made.values():
        path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_the_peak_stays_under_the_limit_also_of_a_run_that_compiles(large, tmp_path, kind):
    env = {"NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    options = ["--memory", f"{LIMIT}", "--max-passes", "3", "--tol", "0.05"]
    status, answer, errors = llsvm(large(kind), tmp_path, *options, env=env)
    assert status in (0, 5), errors
    assert answer["peak_rss_bytes"] <= LIMIT
    assert answer["bytes_read"] > LIMIT
    assert left_behind(tmp_path) == []


@pytest.mark.slow
def test_the_peak_stays_under_the_limit_where_a_state_is_kept_and_gone_on_from(large, tmp_path):
    limit = LIMIT + 4 * MB  # for the state, while it is being written
    options = [
        "--memory",
        f"{limit}",
        "--tol",
        "1e-9",
        "--state",
        str(tmp_path / "S"),
        "--checkpoint-every",
        "0",
    ]
    for most in ("2", "3"):
        status, answer, errors = llsvm(large("sparse"), tmp_path, *options, "--max-passes", most)
        assert status == 5, errors
        assert answer["peak_rss_bytes"] <= limit
        assert ("going on from the state after 1 pass" in errors) == (most == "3")
    assert answer["passes"] == 3
    assert (tmp_path / "S" / "state").stat().st_size > answer["rows"] * 4


@pytest.mark.slow
@pytest.mark.parametrize(("spill_format", "cache"), [("arrow", "never"), ("hdf5", "always")])
def test_the_peak_stays_under_the_limit_whatever_the_files(large, tmp_path, cache, spill_format):
    options = ["--memory", f"{LIMIT}", "--max-passes", "2", "--tol", "0.05", "--cache", cache]
    status, answer, errors = llsvm(large("sparse"), tmp_path, *options, "--spill-format", spill_format)
    assert status in (0, 5), errors
    assert answer["peak_rss_bytes"] <= LIMIT


@pytest.mark.slow
def test_compiling_a_joint_method_stays_under_the_limit(tmp_path):
    """Where blocks of rows have what the limit leaves. Of fewer rows the next test says so of each method."""
    X, y = rows(n=4000, d=30, classes=3, noise=2.0)
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    chunk = path.read_bytes()
    with open(path, "wb") as file:
        for _ in range(40):
            file.write(chunk)
    options = ["--multiclass", "crammer-singer", "--max-passes", "2", "--memory", "300MB"]
    env = {"NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    status, answer, errors = llsvm(path, tmp_path, *options, env=env)
    assert status in (0, 5), errors
    assert answer["peak_rss_bytes"] <= 300 * MB


@pytest.mark.slow
@pytest.mark.parametrize("method", ["crammer-singer", "weston-watkins"])
def test_the_run_that_compiles_gives_the_same_model_as_those_after_it(tmp_path, method):
    """And so does one that finds a part compiled."""
    X, y = rows(n=1500, d=300, classes=20, density=0.3, seed=3, noise=0.5)
    data = write_svmlight(tmp_path / "rows.svm", X, y)
    env = {"NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    options = (
        "--multiclass",
        method,
        "-C",
        "1e4",
        "--threads",
        "1",
        "--max-passes",
        "12",
        "--memory",
        "300MB",
    )

    def trained():
        status, answer, errors = llsvm(data, tmp_path, *options, env=env)
        assert status in (0, 5), errors
        assert answer["peak_rss_bytes"] <= 300 * MB
        return (tmp_path / "model.llsvm").read_bytes()

    compiling, after = trained(), trained()
    for path in (tmp_path / "kernels").rglob("kernels.sweep*"):
        path.unlink()
    assert compiling == after == trained()


def keeps_the_limit_that_it_names(path, folder, options, too_little):
    """options: the last is --memory, whose value is to come."""
    status, _, errors = llsvm(path, folder, *options, too_little)
    assert status == 4, errors
    limit = smallest_of(errors)
    status, answer, errors = llsvm(path, folder, *options, f"{limit}MB")
    assert status in (0, 5), errors
    assert answer["peak_rss_bytes"] <= int(limit) * MB


@pytest.mark.slow
def test_a_model_of_many_weights_is_made_within_the_limit(tmp_path):
    rng = np.random.default_rng(0)
    rows = (np.unique(rng.integers(1, 100_000, 30)) for _ in range(1000))
    lines = (f"{i % 20} {' '.join(f'{j}:1' for j in row)}\n" for i, row in enumerate(rows))
    path = tmp_path / "rows.svm"
    path.write_text("".join(lines))
    options = ["--multiclass", "ovo", "--max-passes", "3", "--tol", "0.05", "--memory"]
    keeps_the_limit_that_it_names(path, tmp_path, options, "300MB")


@pytest.mark.slow
def test_newton_on_millions_of_columns_keeps_the_limit_that_it_names(tmp_path):
    rng = np.random.default_rng(0)
    rows = (np.unique(rng.integers(1, 3_000_000, 40)) for _ in range(5000))
    lines = (f"{i % 2} {' '.join(f'{j}:1' for j in row)}\n" for i, row in enumerate(rows))
    path = tmp_path / "rows.svm"
    path.write_text("".join(lines))
    options = ["--solver", "smsvm", "--max-passes", "3", "--tol", "0.05", "--memory"]
    keeps_the_limit_that_it_names(path, tmp_path, options, "400MB")


@pytest.mark.slow
def test_a_memory_cgroup_of_the_limit_is_enough(large, tmp_path):
    group = CGROUP / f"llsvm-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(LIMIT))
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"no memory cgroup (version 1) to be had here: {error}")
    try:
        join = lambda: (group / "cgroup.procs").write_text(str(os.getpid()))  # noqa: E731
        options = ["--max-passes", "3", "--tol", "0.05"]
        status, answer, errors = llsvm(large("dense"), tmp_path, *options, before=join)
        assert status in (0, 5), errors
        assert answer["memory_limit_bytes"] <= LIMIT  # nothing was asked for: it found the container's limit
        assert answer["peak_rss_bytes"] <= LIMIT
        assert "oom_kill 0" in (group / "memory.oom_control").read_text()
    finally:
        time.sleep(0.2)
        group.rmdir()


# -- interruption -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def middling(tmp_path_factory):
    """A file that takes seconds under the smallest limit."""
    folder = tmp_path_factory.mktemp("middling")
    X, y = rows(n=20_000, d=30, noise=2.0)
    chunk = write_svmlight(folder / "chunk.svm", X, y).read_bytes()
    path = folder / "rows.svm"
    with open(path, "wb") as file:
        for _ in range(10):
            file.write(chunk)
    return path


def started(data, folder, *options):
    """A training process that has begun to fill its spill folder."""
    options = ("--memory", "279MB", "--tol", "1e-9", "--max-passes", "0", *options)
    process = subprocess.Popen(
        train_command(data, folder, *options), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not any((folder / "spill").glob("llsvm-*/cache*")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status", "delay"),
    [
        (*first, second)
        for first, second in in_turn([(signal.SIGINT, 130), (signal.SIGTERM, 143)], [0.0, 1.5], 1)
    ],
)
def test_a_signal_ends_the_run_and_leaves_nothing(middling, tmp_path, number, status, delay):
    process = started(middling, tmp_path)
    time.sleep(delay)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (status, -number), errors
    assert "Traceback" not in errors
    assert left_behind(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--memory", "279MB"), ("--memory", "1GB")])
def test_the_next_run_clears_what_a_killed_one_left(middling, tmp_path, options):
    process = started(middling, tmp_path)
    process.kill()
    process.communicate()
    assert left_behind(tmp_path) != []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["spill"]  # no half a model
    status, _, errors = llsvm(middling, tmp_path, "--tol", "0.5", *options)
    assert status == 0, errors
    assert left_behind(tmp_path) == []


# -- the limit's refusals -----------------------------------------------------------------------------------


def smallest_of(errors):
    return re.search(r"pass --memory-limit (\d+)MB or more", errors).group(1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "limit"), in_turn(["few features", "many classes", "many features"], ["50MB", "260MB"], 1)
)
def test_a_limit_too_small_is_refused_with_one_that_works(tmp_path, kind, limit):
    X, y = rows(n=3000, d=20, classes=25 if kind == "many classes" else 2)
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    if kind == "many features":
        path.write_text(path.read_text() + "1 3000000:1\n")
    refusals = 0
    while True:
        status, answer, errors = llsvm(path, tmp_path, "--memory", limit, "--max-passes", "2", "--tol", "0.5")
        if status in (0, 5):
            break
        assert status == 4, errors
        refusals += 1
        limit = smallest_of(errors) + "MB"
        assert "interpreter and libraries" in errors
    # before the file has been read nobody knows how much its weights take
    assert refusals <= (2 if kind == "many features" else 1)
    assert answer["peak_rss_bytes"] <= int(limit.removesuffix("MB")) * MB


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--multiclass", "ovo"),
        ("--multiclass", "crammer-singer"),
        ("--multiclass", "softmax", "--loss", "logistic"),
        ("--solver", "smsvm"),
        ("--solver", "smsvm", "--penalty", "l1"),
        ("--kernel", "rbf"),
    ],
)
def test_newtons_method_stays_under_the_smallest_limit_and_where_rows_just_fit(tmp_path, options):
    """Its matrices, vectors and rows, and the libraries that it loads when the run has long been under way."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 300)) * np.logspace(0, -5, 300)
    y = np.argmax(X @ rng.standard_normal((300, 3)) + 0.1 * rng.standard_normal((1500, 3)), axis=1)
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    hard = ("-C", "1e4", "--scale", "none", "--max-seconds", "5", *options)
    status, _, errors = llsvm(path, tmp_path, "--memory", "50MB", *hard)
    assert status == 4, errors
    smallest = int(smallest_of(errors))
    for limit in (smallest, smallest + 10, smallest + 40):
        status, answer, errors = llsvm(path, tmp_path, "--memory", f"{limit}MB", *hard)
        assert status in (0, 5), errors
        assert answer["peak_rss_bytes"] <= limit * MB


def test_a_huge_feature_index_is_refused_by_the_ledger(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1 2147483646:1\n-1 2:1\n")
    with pytest.raises(BudgetError, match=r"weights [\d,]+\.\d MB") as caught:
        run(path, ledger=1_000_000_000)
    assert caught.value.smallest_bytes > 2**31 * 8
    assert caught.value.lines["weights"] >= 2**31 * 8


# -- damage -------------------------------------------------------------------------------------------------

FILE_LEDGER = 3 * MB


@pytest.fixture
def sizable(tmp_path):
    X, y = rows(n=20_000, d=20, noise=2.0)
    return write_svmlight(tmp_path / "rows.svm", X, y)


def out_of_core(path, tol=0.01, **options):
    return run(path, ledger=FILE_LEDGER, spill_dir=str(path.parent), tol=tol, **options)


@pytest.mark.parametrize("spill_format", ["arrow", "hdf5"])
@pytest.mark.parametrize("damage", ["flipped", "truncated"])
def test_damage_to_the_cache_is_noticed(sizable, monkeypatch, spill_format, damage):
    finish = PageStore.finish

    def damaging(store):
        finish(store)
        with open(store._path, "r+b") as file:
            middle = os.path.getsize(store._path) // 2
            if damage == "truncated":
                file.truncate(middle)
                return
            file.seek(middle)
            byte = file.read(1)[0]
            file.seek(middle)
            file.write(bytes([byte ^ 1]))

    monkeypatch.setattr(PageStore, "finish", damaging)
    with pytest.raises(SpillError, match=r"cache: page \d+ of \d+: .*(checksum|truncated)"):
        out_of_core(sizable, spill_format=spill_format)
    assert os.listdir(sizable.parent) == ["rows.svm"]


def disk_full_after(monkeypatch, nbytes):
    real, written = os.pwritev, [0]

    def pwritev(file, pieces, offset):
        written[0] += sum(map(len, pieces))
        if written[0] > nbytes:
            raise OSError(28, "No space left on device")
        return real(file, pieces, offset)

    monkeypatch.setattr(workspace.os, "pwritev", pwritev)
    monkeypatch.setattr(workspace.os, "pwrite", lambda file, data, offset: pwritev(file, [data], offset))


def test_a_full_disk_is_an_error_where_a_cache_was_asked_for(sizable, monkeypatch):
    disk_full_after(monkeypatch, 100_000)
    with pytest.raises(DiskError, match="No space left on device; free some space there, or pass spill_dir"):
        out_of_core(sizable, cache="always")
    assert os.listdir(sizable.parent) == ["rows.svm"]


def test_without_room_for_a_cache_the_source_is_read_again(sizable):
    # Room for the dual variables, but not for the rows.
    training = out_of_core(sizable, solver="llsvm", disk_limit=200_000)
    assert training.stream.place == "source"
    note = training.summary()["note"]
    assert "no binary cache: disk limit too small" in note
    assert "survivors beyond memory are not spilled, which takes more passes: disk limit too small" in note
    assert training.reports[-1].converged
    with pytest.raises(DiskError, match="disk limit too small"):
        out_of_core(sizable, disk_limit=200_000, cache="always")
    assert os.listdir(sizable.parent) == ["rows.svm"]


def test_reading_the_source_again_with_few_survivors_converges(sizable):
    training = out_of_core(sizable, disk_limit=200_000, survivors=0.01, max_passes=40)
    assert training.stream.place == "source"
    assert training.reports[-1].converged


def test_paper_mode_needs_room_for_its_survivors(sizable):
    with pytest.raises(DiskError, match="disk limit too small"):
        out_of_core(sizable, disk_limit=200_000, paper=True)
    assert os.listdir(sizable.parent) == ["rows.svm"]


def test_an_error_in_the_reading_thread_surfaces(sizable, monkeypatch):
    def broken(self, i, scratch=None):
        raise RuntimeError("the reader fell over")

    monkeypatch.setattr(PageStore, "read", broken)
    with pytest.raises(RuntimeError, match="the reader fell over"):
        out_of_core(sizable)
    assert os.listdir(sizable.parent) == ["rows.svm"]


def test_leaving_in_the_middle_of_a_pass_removes_the_files(sizable, monkeypatch):
    all_blocks = Stream.all

    def interrupted(self, *ahead):
        for number, block in enumerate(all_blocks(self, *ahead)):
            if number == 2:
                raise KeyboardInterrupt
            yield block

    monkeypatch.setattr(Stream, "all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        out_of_core(sizable)
    assert os.listdir(sizable.parent) == ["rows.svm"]


# -- the same again -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["279MB", "1GB"])
def test_the_same_seed_limit_and_file_give_the_same_bytes(middling, tmp_path, memory):
    models = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        status, _, errors = llsvm(middling, folder, "--memory", memory, "--seed", "7", "--tol", "0.01")
        assert status == 0, errors
        models.append((folder / "model.llsvm").read_bytes())
    assert models[0] == models[1]
    assert Model.load(tmp_path / "a" / "model.llsvm").settings["seed"] == 7


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """20,000 sparse rows of 20,000 columns, the first of which are in most rows."""
    rng = np.random.default_rng(0)
    n, d = 20_000, 20_000
    w, path = rng.normal(size=d), tmp_path_factory.mktemp("wide") / "rows.svm"
    with open(path, "w") as file:
        for _ in range(n):
            columns = np.unique(np.minimum((d ** rng.random(60)).astype(int), d - 1))
            values = rng.random(len(columns)) + 0.1
            values /= np.linalg.norm(values)
            label = 1 if values @ w[columns] + 0.3 * rng.normal() > 0 else -1
            pairs = (f"{j + 1}:{v:.4f}" for j, v in zip(columns, values, strict=True))
            file.write(f"{label} {' '.join(pairs)}\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "options"),
    [
        (280, ("--lambda1", "3.1e-5", "--loss", "squared_hinge", "--max-seconds", "6")),
        (310, ("--lambda1", "3.1e-5", "--loss", "squared_hinge")),  # below, steps without a Hessian crawl
        (340, ("--lambda1", "3.1e-5", "--loss", "squared_hinge")),
        (300, ("--lambda1", "3.1e-5", "--loss", "hinge", "--max-seconds", "6")),
        (300, ("-C", "1e4", "--loss", "squared_hinge", "--max-seconds", "6")),
        (320, ("-C", "1e4", "--loss", "hinge", "--max-seconds", "6")),
    ],
)
def test_sparse_training_on_wide_rows_stays_under_the_limit(wide, tmp_path, limit, options):
    """With less memory it took more: up to 1.9 GB, in Hessians of the weights that are not zero."""
    status, answer, errors = llsvm(wide, tmp_path, "--memory", f"{limit}MB", "--penalty", "l1", *options)
    assert status in (0, 5), errors
    assert answer["peak_rss_bytes"] <= limit * MB
    assert answer["relative_gap"] < 1.0
    if "--max-seconds" not in options:
        assert status == 0
        assert answer["relative_gap"] <= 1e-3
