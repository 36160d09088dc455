"""RowState: the same numbers in memory and on disk, and on disk no memory to speak of."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import llsvm
from llsvm.errors import DiskError, SpillError
from llsvm.spill.row_state import RowState
from llsvm.spill.workspace import Workspace

ROOT = Path(llsvm.__file__).parents[1]
N_ROWS = 50_000  # of 8 bytes and more: several windows of the file


@pytest.fixture
def workspace(tmp_path):
    with Workspace(tmp_path) as workspace:
        yield workspace


@pytest.fixture(params=["memory", "disk"])
def place(request, workspace):
    return None if request.param == "memory" else workspace


def some_rows(rng: np.random.Generator, kind: str) -> np.ndarray:
    first = int(rng.integers(0, N_ROWS - 300))
    if kind == "range":
        return np.arange(first, first + int(rng.integers(0, 300)))
    if kind == "sorted":
        return np.flatnonzero(rng.random(N_ROWS) < rng.random() ** 4)
    if kind == "runs":
        starts = rng.integers(0, N_ROWS - 50, 4)
        return np.concatenate([np.arange(start, start + 50) for start in starts])
    return rng.integers(0, N_ROWS, 300)


KINDS = st.sampled_from(["range", "sorted", "runs", "scattered"])


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes=st.lists(KINDS, max_size=4), read=KINDS, seed=st.integers(0, 2**32))
def test_behaves_like_an_array(place, width, dtype, writes, read, seed):
    rng = np.random.default_rng(seed)
    twin = np.zeros((N_ROWS, width), dtype)
    state = RowState(N_ROWS, width, dtype, place)
    for kind in writes:
        rows = some_rows(rng, kind)
        values = rng.standard_normal((len(rows), width)).astype(dtype)
        twin[rows] = values
        state.set(rows, values[:, 0] if width == 1 else values)
    rows = some_rows(rng, read)
    found = state.get(rows)
    assert found.dtype == twin.dtype
    assert np.array_equal(found, twin[rows][:, 0] if width == 1 else twin[rows])
    state.close()
    state.close()


def test_of_a_row_that_comes_twice_the_last_counts(place):
    state = RowState(10, 1, np.float64, place)
    state.set(np.array([7, 2, 7, 2]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert state.get(np.array([2, 7])).tolist() == [4.0, 3.0]


def test_what_is_handed_out_is_a_copy(place):
    state = RowState(10, 2, np.float64, place)
    for rows in (np.arange(4), np.array([1, 5, 3])):
        state.get(rows)[:] = 1
    assert not state.get(np.arange(10)).any()


def test_values_are_converted_and_may_have_any_stride(place):
    state = RowState(10, 2, np.float32, place)
    state.set(np.arange(5), np.ones((2, 5)).T)
    assert state.get(np.arange(6)).tolist() == [[1, 1]] * 5 + [[0, 0]]


@pytest.mark.parametrize("rows", [[-1], [10], [3, 11, 5], [-2, -1]])
def test_rows_that_are_not_there(place, rows):
    state = RowState(10, 1, np.float64, place)
    with pytest.raises(IndexError, match="there are 10"):
        state.get(np.array(rows))
    with pytest.raises(IndexError, match="there are 10"):
        state.set(np.array(rows), np.zeros(len(rows)))


def test_no_rows_at_all(place):
    state = RowState(0, 2, np.float64, place)
    assert state.get(np.zeros(0, np.int64)).shape == (0, 2)
    state.close()


def test_disk_is_claimed_and_released(workspace):
    state = RowState(1000, 3, np.float64, workspace)
    assert not state.in_memory
    assert state.nbytes == workspace.used_bytes == workspace.path("rowstate").stat().st_size == 24_000
    state.close()
    assert workspace.used_bytes == 0
    assert not workspace.path("rowstate").exists()


def test_disk_limit(tmp_path):
    with Workspace(tmp_path, disk_limit_bytes=1000) as workspace:
        with pytest.raises(DiskError, match="disk_limit"):
            RowState(1000, 1, np.float64, workspace)
        assert not workspace.path("rowstate").exists()


def test_disk_that_promises_nothing_gets_a_file_of_holes(workspace, monkeypatch):
    def refuse(*args: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    state = RowState(1000, 1, np.float64, workspace)
    assert not state.get(np.arange(1000)).any()


def test_full_disk(workspace, monkeypatch):
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(DiskError, match=r"No space left.*spill_dir"):
        RowState(1000, 1, np.float64, workspace)


def test_truncation_is_noticed(workspace):
    state = RowState(N_ROWS, 1, np.float64, workspace)
    os.truncate(workspace.path("rowstate"), 8 * 5000)
    assert state.get(np.arange(4000)).shape == (4000,)
    with pytest.raises(SpillError, match=r"rows from 2048 on.*truncated"):
        state.get(np.arange(4000, 6000))


@pytest.mark.parametrize("width", [1, 3, 3000])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("damage", ["a bit", "zeros"])
def test_bytes_that_changed_are_noticed(workspace, width, dtype, damage):
    n = N_ROWS // width
    state, rng = RowState(n, width, dtype, workspace), np.random.default_rng(0)
    state.set(np.arange(n), rng.random((n, width)))
    path, place = workspace.path("rowstate"), state.nbytes * 2 // 3
    with path.open("r+b") as file:
        file.seek(place)
        old = file.read(600)
        file.seek(place)
        file.write(bytes(600) if damage == "zeros" else bytes([old[0] ^ 4]))
    row = place // (state.nbytes // n)
    assert len(state.get(np.arange(row // 2))) == row // 2
    for rows in (np.arange(n), np.arange(row, row + 1), np.array([row, 0]), np.arange(row // 2 + 1, n)):
        with pytest.raises(SpillError, match=r"values of rows \d+ to \d+: their checksum does not match"):
            state.get(rows)
    if width == 3000:  # a chunk is a row
        return
    with pytest.raises(SpillError, match="checksum"):  # what stays of the chunk would be taken for good
        state.set(np.array([row]), np.zeros((1, width)))


def test_threads_that_read_what_another_writes_find_no_damage(workspace):
    state, rows = RowState(N_ROWS, 1, np.float64, workspace), np.arange(1000, 9000)
    done = threading.Event()

    def read():
        while not done.is_set():
            state.get(rows)

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for i in range(300):
            state.set(rows[: 5000 + i], np.full(5000 + i, float(i)))
        done.set()
        for reader in readers:
            reader.result()


MEMORY = """
import sys
import numpy as np
from llsvm.memory.process import peak_resident_bytes
from llsvm.spill.packing import chunk_checksums
from llsvm.spill.row_state import RowState
from llsvm.spill.workspace import Workspace

n, step = 3_000_000, 20_000
rng = np.random.default_rng(0)
chunk_checksums(np.zeros(8, np.uint8), 8)  # the interpreter, NumPy and the compiled kernel are there before
before = peak_resident_bytes()
with Workspace(sys.argv[1]) as workspace:
    state = RowState(n, 1, np.float64, workspace)
    for round in range(2):
        for first in rng.permutation(np.arange(0, n, step)):
            rows = np.arange(first, first + step)
            state.set(rows, state.get(rows) + 1)
            some = rows[rng.random(step) < 0.1]
            state.set(some, state.get(some) + 1)
        if round == 0:
            start = peak_resident_bytes()
    grown = peak_resident_bytes() - start
    total = peak_resident_bytes() - before
    assert state.get(rows).min() == 2
assert grown < 1_000_000, grown
assert total < 5_000_000, total  # the state alone would be 24 MB
"""


def test_resident_set_stays_flat_on_disk(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
