"""Sizes, the container's limit, the ledger."""

import pickle
import subprocess
import sys
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

import llsvm.memory.process
import llsvm.memory.sizes
from llsvm.errors import BudgetError, UsageError
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.process import (
    MIN_WORK_BYTES,
    RUNTIME_BYTES,
    container_limit_bytes,
    default_limit_bytes,
    peak_resident_bytes,
    resident_bytes,
)
from llsvm.memory.sizes import memory_limit_bytes, parse_size

X, Y = np.eye(4), np.arange(4) % 2


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("2GB", 2 * 10**9),
        ("512MiB", 512 * 2**20),
        ("1.5g", 1_500_000_000),
        (" 10 kb ", 10_000),
        (".5T", 5 * 10**11),
        ("123", 123),
        (77, 77),
        ("25%", 250),
        ("100%", 1000),
    ],
)
def test_sizes(text, nbytes):
    assert parse_size(text, available=1000) == nbytes


@pytest.mark.parametrize(
    "text", ["", "GB", "2XB", "-1GB", "0", "0%", "101%", "1GB%", "nan", "1e9", "0.1B", "-5", -5, True]
)
def test_what_is_no_size(text):
    with pytest.raises(UsageError, match=r"not a (size|share)"):
        parse_size(text, available=1000)


def tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


V1 = "9:memory:/jobs/one\n3:cpu,cpuacct:/\n"
V2 = "0::/jobs/one\n"


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        (V2, {"cgroup.controllers": "", "jobs/one/memory.max": "5000\n"}, 5000),
        (V2, {"cgroup.controllers": "", "jobs/one/memory.max": "max\n", "jobs/memory.max": "7000\n"}, 7000),
        (V2, {"cgroup.controllers": "", "jobs/one/memory.max": "9000\n", "jobs/memory.max": "7000\n"}, 7000),
        (V2, {"cgroup.controllers": "", "memory.max": "3000\n"}, 3000),  # a container sees its own as the top
        (V2, {"cgroup.controllers": ""}, None),
        (V2, {"unified/cgroup.controllers": "", "unified/jobs/one/memory.max": "4000\n"}, 4000),
        (V1, {"memory/jobs/one/memory.limit_in_bytes": "6000\n"}, 6000),
        (V1, {"memory/memory.limit_in_bytes": "6500\n"}, 6500),
        (V1, {"memory/jobs/one/memory.limit_in_bytes": "9223372036854771712\n"}, None),
        (V1 + V2, {"memory/jobs/memory.limit_in_bytes": "8000", "unified/cgroup.controllers": ""}, 8000),
        ("", {}, None),
    ],
)
def test_the_containers_limit(tmp_path, groups, files, limit):
    tree(tmp_path / "fs", files)
    (tmp_path / "cgroup").write_text(groups)
    assert container_limit_bytes(str(tmp_path / "fs"), str(tmp_path / "cgroup")) == limit


def test_no_control_groups_at_all(tmp_path):
    assert container_limit_bytes(str(tmp_path), str(tmp_path / "missing")) is None


def test_the_ledger():
    budget = MemoryBudget(1000, runtime_bytes=100)
    budget.reserve("weights", 300)
    budget.reserve("weights", 100)
    assert (budget.available_bytes, budget.reserved_bytes, budget.lines["weights"]) == (500, 500, 400)
    with pytest.raises(BudgetError) as caught:
        budget.reserve("blocks", 501)
    assert budget.available_bytes == 500
    error = caught.value
    assert (error.limit_bytes, error.smallest_bytes) == (1000, 1001)
    assert error.lines == {"interpreter and libraries": 100, "weights": 400, "blocks": 501}
    assert "pass memory_limit 1MB or more" in str(error)
    budget.release("weights", 150)
    assert budget.lines["weights"] == 250
    budget.release("weights")
    assert budget.available_bytes == 900


def test_a_refusal_survives_a_process_pool():
    error = BudgetError("blocks", 10, 20, {"blocks": 20})
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.smallest_bytes, again.lines) == (str(error), 20, {"blocks": 20})
    unknown = BudgetError("blocks", 10, 20, at_least=True)
    assert str(pickle.loads(pickle.dumps(unknown))) == str(unknown) != str(error)


def test_a_limit_below_the_process_itself_is_refused_with_room_to_work(steady_process):
    with pytest.raises(BudgetError) as caught:
        MemoryBudget(1)
    assert caught.value.smallest_bytes >= RUNTIME_BYTES + MIN_WORK_BYTES
    MemoryBudget(caught.value.smallest_bytes)


def test_the_process_is_counted():
    assert 0 < resident_bytes() <= peak_resident_bytes()
    assert MemoryBudget(10**12).reserved_bytes >= resident_bytes()


@pytest.mark.parametrize(
    ("before", "held", "counted"),
    [
        (-20, 110, 0),  # ours: before the kernels
        (-20, 260, 0),  # and after they were compiled
        (130, 250, 130),  # a caller's libraries, beside which ours are loaded
        (130, 340, 130),
        (-20, 1310, 1046),  # his array, that came later: beside the most that ours can be
    ],
)
def test_what_the_caller_holds_is_counted_beside_ours(monkeypatch, before, held, counted):
    mb, grain = 1_000_000, 32_000_000
    monkeypatch.setattr(llsvm.memory.process, "_CALLERS_BYTES", before * mb)
    monkeypatch.setattr(llsvm.memory.process, "resident_bytes", lambda: held * mb)
    assert 0 <= llsvm.memory.process.process_bytes() - RUNTIME_BYTES - counted * mb < grain


def test_libraries_of_the_caller_are_seen_before_ours_are_loaded():
    """100 MB that are there before: counted, though the kernels are still to come."""
    program = """
import numpy as np
{before}
import llsvm
y = np.arange(50) % 2
llsvm.train(np.random.default_rng(0).random((50, 3)) + y[:, None], y, memory_limit="2GB")
from llsvm.memory.process import process_bytes
print(process_bytes())
"""
    counted = [
        int(subprocess.run([sys.executable, "-c", program.format(before=before)], capture_output=True).stdout)
        for before in ("", "array = np.ones(100_000_000 // 8)")
    ]
    assert counted[0] == RUNTIME_BYTES
    assert 64_000_000 <= counted[1] - counted[0] <= 128_000_000


@pytest.mark.parametrize(
    ("held", "available", "limit"),
    [
        (60, 8000, RUNTIME_BYTES // 10**6 + (8000 - 60) // 2),
        (60, 300, 300),  # a small container: all of it
        (2000, 2001, None),  # nearly nothing is free: enough for small data
    ],
)
def test_the_limit_where_none_is_given(monkeypatch, held, available, limit):
    mb = 1_000_000
    monkeypatch.setattr(llsvm.memory.process, "_CALLERS_BYTES", 0)
    monkeypatch.setattr(llsvm.memory.process, "resident_bytes", lambda: held * mb)
    monkeypatch.setattr(llsvm.memory.process, "available_bytes", lambda: available * mb)
    if limit is None:
        assert MemoryBudget(default_limit_bytes()).available_bytes >= MIN_WORK_BYTES
    else:
        assert default_limit_bytes() == limit * mb


def test_more_than_was_signed_for_cannot_be_released():
    budget = MemoryBudget(1000, runtime_bytes=100)
    budget.reserve("weights", 300)
    for what, nbytes in [("weights", 301), ("weights", -1), ("rows", None), ("rows", 0)]:
        with pytest.raises(ValueError, match="bytes released, but"):
            budget.release(what, nbytes)
    with pytest.raises(TypeError):
        budget.lines["weights"] = 0
    assert budget.available_bytes == 600


def test_a_reservation_ends_with_its_block_or_scope_however_that_ends():
    budget = MemoryBudget(1000, runtime_bytes=100)
    with budget.reserve("weights", 300):
        assert budget.available_bytes == 600
        again = budget.reserve("weights", 200)
    assert budget.lines["weights"] == 200
    again.release()
    again.release()  # once is enough
    assert "weights" not in budget.lines
    with suppress(KeyError), budget.scope():
        budget.reserve("rows", 10)
        budget.reserve("weights", 20)
        raise KeyError
    assert budget.available_bytes == 900
    with pytest.raises(BudgetError), budget.reserve("rows", 901):
        pass
    assert budget.available_bytes == 900


def test_a_line_is_resized_and_all_returns_to_a_mark():
    budget = MemoryBudget(1000, runtime_bytes=100)
    budget.resize("reader", 50)
    budget.reserve("rows", 10)
    mark = budget.mark()
    budget.reserve("rows", 40)
    budget.reserve("weights", 300)
    budget.resize("reader", 20)
    with pytest.raises(ValueError, match="reader: -30 bytes released"):
        budget.return_to(mark)
    budget.return_to(mark, but=("reader",))
    assert dict(budget.lines) == {"interpreter and libraries": 100, "reader": 20, "rows": 10}
    with pytest.raises(BudgetError, match="reader"):
        budget.resize("reader", 1000)
    budget.resize("reader", 0)
    assert "reader" not in budget.lines


@pytest.mark.parametrize(
    ("container", "words"),
    [(None, "100.0 GB that this machine has"), (10**10, "10.0 GB that this container has")],
)
def test_a_limit_above_what_there_is_is_refused(monkeypatch, container, words):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=10**11, available=10**11))
    monkeypatch.setattr(llsvm.memory.sizes, "container_limit_bytes", lambda: container)
    assert memory_limit_bytes("9GB") == 9 * 10**9
    for use in (memory_limit_bytes, lambda limit: llsvm.train(X, Y, memory_limit=limit)):
        with pytest.raises(UsageError, match=f"limit of 1TB is more than the {words}: pass less"):
            use("1TB")


def test_a_container_rounds_its_limit_down_to_pages_which_is_the_same_limit(monkeypatch):
    """What needs 600 MB is accepted in a container of 600 MB."""
    monkeypatch.setattr(llsvm.memory.sizes, "container_limit_bytes", lambda: 599_998_464)
    assert memory_limit_bytes("600MB") == 600_000_000
    assert memory_limit_bytes(599_998_464) == 599_998_464
    with pytest.raises(UsageError, match="that this container has"):
        memory_limit_bytes(599_998_464 + 4096)


def test_lines_to_begin_with_are_part_of_the_smallest_limit(steady_process):
    with pytest.raises(BudgetError) as caught:
        MemoryBudget(1, more={"compiling": 20_000_000})
    assert caught.value.smallest_bytes >= RUNTIME_BYTES + MIN_WORK_BYTES + 20_000_000
    budget = MemoryBudget(caught.value.smallest_bytes, more={"compiling": 20_000_000})
    assert budget.lines["compiling"] == 20_000_000
