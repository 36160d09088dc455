"""The spill folder: accounted for, gone after every kind of exit, and never somebody else's."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import llsvm
from llsvm.errors import DiskError, UsageError
from llsvm.files.writing import signed_name
from llsvm.spill import workspace as workspace_module
from llsvm.spill.workspace import LOCK_NAME, RESERVE_BYTES, Workspace, choose_parent, is_memory_backed

ROOT = Path(llsvm.__file__).parents[1]


def folders(parent: Path) -> list[str]:
    return sorted(path.name for path in parent.glob("llsvm-*"))


def start(script: str, *args: object) -> subprocess.Popen[str]:
    """A Python process that runs ``script``, once it has said that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, args)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


SLEEPER = """
import signal, sys, time
from llsvm.spill.workspace import Workspace

def stop(number, frame):
    raise SystemExit(143)

signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, signal.default_int_handler)
with Workspace(sys.argv[1]) as workspace:
    workspace.create("pages").write(b"x" * 1000)
    print("ready", flush=True)
    time.sleep(60)
"""


def test_folder_is_private_and_vanishes(tmp_path):
    with Workspace(tmp_path) as workspace:
        file = workspace.create("pages")
        file.write(b"abc")
        assert workspace.path("pages").read_bytes() == b"abc"
        assert workspace.folder.stat().st_mode & 0o777 == 0o700
    assert file.closed
    assert folders(tmp_path) == []


def test_folder_vanishes_after_an_exception(tmp_path):
    def work() -> None:
        with Workspace(tmp_path) as workspace:
            workspace.create("pages")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert folders(tmp_path) == []


def test_folder_vanishes_with_the_object(tmp_path):
    workspace = Workspace(tmp_path)
    workspace.create("pages")
    assert len(folders(tmp_path)) == 1
    del workspace
    assert folders(tmp_path) == []


def test_disk_is_free_at_once_even_if_a_file_is_still_held_open(tmp_path):
    with Workspace(tmp_path) as workspace:
        workspace.create("pages").write(b"x" * 10_000)
        held = os.open(workspace.path("pages"), os.O_RDONLY)
    assert os.fstat(held).st_size == 0
    os.close(held)


def test_closing_twice_is_closing_once(tmp_path):
    workspace = Workspace(tmp_path)
    workspace.close()
    workspace.close()
    assert folders(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_folder_vanishes_after_a_signal(tmp_path, number):
    process = start(SLEEPER, tmp_path)
    assert len(folders(tmp_path)) == 1
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode != 0
    assert folders(tmp_path) == []


def test_the_next_workspace_clears_what_a_killed_process_left_and_nothing_else(tmp_path):
    killed, alive = start(SLEEPER, tmp_path), start(SLEEPER, tmp_path)
    try:
        killed.kill()
        killed.communicate(timeout=20)
        assert len(folders(tmp_path)) == 2
        with Workspace(tmp_path) as workspace:
            assert len(folders(tmp_path)) == 2
            (other,) = set(folders(tmp_path)) - {workspace.folder.name}
            assert (tmp_path / other / "pages").stat().st_size == 1000
    finally:
        alive.terminate()
        alive.communicate(timeout=20)
    assert folders(tmp_path) == []


def test_a_folder_that_is_just_being_made_stays(tmp_path):
    (tmp_path / "llsvm-newborn").mkdir()
    (tmp_path / "llsvm-unlocked").mkdir()
    (tmp_path / "llsvm-unlocked" / LOCK_NAME).touch()
    Workspace(tmp_path).close()
    assert folders(tmp_path) == ["llsvm-newborn", "llsvm-unlocked"]


def test_a_users_folder_of_a_like_name_stays(tmp_path):
    mine = tmp_path / "llsvm-experiments"
    mine.mkdir()
    (mine / "results").write_text("dear")
    (mine / LOCK_NAME).write_text("mine")
    (tmp_path / "llsvm-link").symlink_to(mine)
    (tmp_path / "llsvm-file").touch()
    Workspace(tmp_path).close()
    assert (mine / "results").read_text() == "dear"
    assert folders(tmp_path) == ["llsvm-experiments", "llsvm-file", "llsvm-link"]


def test_an_interrupted_clearing_is_finished_by_the_next(tmp_path):
    process = start(SLEEPER, tmp_path)
    process.kill()
    process.communicate(timeout=20)
    (left,) = folders(tmp_path)
    (tmp_path / left / "pages").unlink()  # the lock goes last, so the folder is still known for what it is
    Workspace(tmp_path).close()
    assert folders(tmp_path) == []


def test_workspaces_made_and_cleared_at_once_leave_each_other_alone(tmp_path):
    script = """
import sys
from llsvm.spill.workspace import Workspace
print("ready", flush=True)
for _ in range(200):
    with Workspace(sys.argv[1]) as workspace:
        workspace.create("pages").write(b"abc")
        assert workspace.path("pages").read_bytes() == b"abc"
"""
    processes = [start(script, tmp_path) for _ in range(3)]
    for process in processes:
        process.communicate(timeout=60)
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert folders(tmp_path) == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_leaves_the_folder(tmp_path):
    with Workspace(tmp_path) as workspace:
        file = workspace.create("pages")
        pid = os.fork()
        if pid == 0:
            workspace.close()
            os._exit(0)
        os.waitpid(pid, 0)
        assert not file.closed
        assert workspace.path("pages").exists()
        Workspace(tmp_path).close()  # still locked
        assert workspace.path("pages").exists()


def test_claims_are_summed_up(tmp_path):
    with Workspace(tmp_path, disk_limit_bytes=1000) as workspace:
        workspace.claim(600)
        workspace.claim(400)
        workspace.release(700)
        workspace.claim(100)
        assert (workspace.used_bytes, workspace.peak_bytes) == (400, 1000)


def test_disk_limit_is_refused_with_the_numbers_and_the_remedy(tmp_path):
    with Workspace(tmp_path, disk_limit_bytes=5000) as workspace:
        workspace.claim(4000)
        with pytest.raises(
            DiskError, match=r"holds 4\.0 kB and 2\.0 kB more .* limit is 5\.0 kB.*disk_limit"
        ):
            workspace.claim(2000)
        assert workspace.used_bytes == 4000


def test_a_retired_file_is_written_over_and_goes_when_its_disk_is_needed(tmp_path):
    with Workspace(tmp_path, disk_limit_bytes=1000) as workspace:
        file, claimed = workspace.reuse("first")
        assert claimed == 0
        workspace.claim(600)
        file.write(b"old")
        workspace.retire(file, 600)
        again, claimed = workspace.reuse("second")
        assert file.closed
        assert (again.name, claimed, workspace.used_bytes) == (workspace.path("second"), 600, 600)
        assert workspace.path("second").read_bytes() == b"old"
        assert not workspace.path("first").exists()
        workspace.retire(again, 600)
        workspace.claim(900)
        assert again.closed
        assert not workspace.path("second").exists()
        assert workspace.used_bytes == 900
        assert workspace.reuse("third")[1] == 0


def test_files_of_the_same_name_as_retired_ones_stay_as_they_are(tmp_path):
    """As of trainings that follow each other in one folder, each with a "spill-1" and a "spill-2"."""
    with Workspace(tmp_path) as workspace:
        for name in ("spill-1", "spill-2"):
            workspace.retire(workspace.create(name), 0)
        read = workspace.reuse("spill-1")[0]
        read.write(b"read")
        written = workspace.reuse("spill-2")[0]
        written.write(b"written")
        assert workspace.path("spill-1").read_bytes() == b"read"
        assert workspace.path("spill-2").read_bytes() == b"written"
        read.seek(0)
        assert read.read() == b"read"


def test_a_retired_file_that_somebody_removed_is_an_error(tmp_path):
    with Workspace(tmp_path) as workspace:
        workspace.retire(workspace.create("first"), 0)
        workspace.path("spare-1").unlink()
        with pytest.raises(DiskError, match="second: cannot make a spill file: No such file"):
            workspace.reuse("second")


def test_a_file_that_somebody_removed_is_not_kept_for_others(tmp_path):
    with Workspace(tmp_path, disk_limit_bytes=1000) as workspace:
        file = workspace.create("first")
        workspace.claim(600)
        workspace.path("first").unlink()
        workspace.retire(file, 600)
        assert file.closed
        assert workspace.used_bytes == 0
        assert workspace.reuse("second")[1] == 0


def test_free_space_is_kept(tmp_path, monkeypatch):
    with Workspace(tmp_path) as workspace:
        monkeypatch.setattr(Workspace, "free_bytes", lambda self: RESERVE_BYTES + 500)
        workspace.claim(500)
        with pytest.raises(DiskError, match=r"disk full.*501 B.*spill_dir") as caught:
            workspace.claim(501)
        assert str(workspace.folder) in str(caught.value)


def test_parent_that_cannot_be_written_to(tmp_path):
    with pytest.raises(DiskError, match="spill_dir"):
        Workspace(tmp_path / "missing")
    with Workspace(tmp_path) as workspace, pytest.raises(DiskError, match="missing/pages"):
        workspace.create("missing/pages")


class TestChooseParent:
    def test_order(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TMPDIR", str(tmp_path / "tmpdir"))
        monkeypatch.chdir(tmp_path)
        output = tmp_path / "models" / "a.model"
        assert choose_parent(tmp_path / "a", output) == tmp_path / "a"
        assert choose_parent(None, output) == tmp_path / "tmpdir"
        monkeypatch.delenv("TMPDIR")
        assert choose_parent(None, output) == tmp_path / "models"
        assert choose_parent(None, "b.model") == tmp_path
        assert choose_parent(None, None) == tmp_path
        assert all((tmp_path / name).is_dir() for name in ("a", "tmpdir", "models"))

    def test_nothing_to_write_to(self, tmp_path, monkeypatch):
        (tmp_path / "file").touch()
        with pytest.raises(DiskError, match=r"file/x.*spill_dir"):
            choose_parent(tmp_path / "file" / "x", None)
        with pytest.raises(DiskError, match="spill_dir"):
            choose_parent(tmp_path / "file", None)
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        with pytest.raises(DiskError, match=r"cannot write.*\$TMPDIR"):
            choose_parent(None, None)


@pytest.mark.parametrize("given", ["--spill-dir", "$TMPDIR"])
def test_a_mistyped_folder_is_not_made(tmp_path, monkeypatch, given):
    folder = tmp_path / "discs" / "fast" / "spill"
    if given == "$TMPDIR":
        monkeypatch.setenv("TMPDIR", str(folder))
    for spill_dir in (folder, str(folder)) if given == "--spill-dir" else (None,):
        with pytest.raises(UsageError, match=r"spill: the folder .*fast does not exist .*; create it first"):
            choose_parent(spill_dir, None)
    with pytest.raises(UsageError, match="does not exist"):
        llsvm.train(np.eye(4), [0, 1] * 2, spill_dir=folder if given == "--spill-dir" else None)
    assert os.listdir(tmp_path) == []
    monkeypatch.chdir(tmp_path)
    assert choose_parent("spill", None).is_dir()


def test_memory_backed_by_the_deepest_mount(tmp_path):
    disk, memory = tmp_path / "disk", tmp_path / "in memory"
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"/dev/a / ext4 rw 0 0\ntmpfs {str(memory).replace(' ', chr(92) + '040')} tmpfs rw 0 0\n"
        f"tmpfs {disk} tmpfs rw 0 0\n/dev/b {disk} ext4 rw 0 0\n"
    )
    assert is_memory_backed(memory / "deep" / "er", mounts)
    assert not is_memory_backed(disk, mounts)  # the later mount covers the earlier
    assert not is_memory_backed(tmp_path, mounts)
    assert not is_memory_backed(tmp_path, tmp_path / "missing")


def test_clearing_is_quick_among_many_files(tmp_path):
    for i in range(2000):
        (tmp_path / f"other-{i}").touch()
    began = time.monotonic()
    Workspace(tmp_path).close()
    assert time.monotonic() - began < 1


def test_a_pipe_for_a_lock_holds_nobody_up(tmp_path):
    (tmp_path / "llsvm-theirs").mkdir()
    os.mkfifo(tmp_path / "llsvm-theirs" / LOCK_NAME)
    os.mkfifo(tmp_path / "llsvm-pipe")
    began = time.monotonic()
    Workspace(tmp_path).close()
    assert time.monotonic() - began < 1
    assert folders(tmp_path) == ["llsvm-pipe", "llsvm-theirs"]


def abandoned(folder: Path) -> Path:
    folder.mkdir()
    (folder / LOCK_NAME).write_bytes(workspace_module._SEAL)
    (folder / "pages").write_text("x")
    return folder


def test_what_was_being_made_or_removed_when_its_process_was_killed_goes(tmp_path):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    mine = signed_name("llsvm-")
    bare, locked, used = (re.sub(r"[0-9]+$", f"{child}", signed_name("llsvm-")) for _ in range(3))
    other = re.sub("-[0-9a-f]{8}-", "-ffffffff-", bare)  # of another host
    for name in (mine, bare, locked, used, other, "llsvm-theirs"):
        (tmp_path / name).mkdir()
    (tmp_path / locked / LOCK_NAME).touch()
    (tmp_path / used / "letter").touch()
    workspace_module.remove_abandoned(tmp_path)
    assert folders(tmp_path) == sorted([mine, used, other, "llsvm-theirs"])


def test_a_folder_swapped_for_a_link_does_not_lead_the_deletion_elsewhere(tmp_path, monkeypatch):
    spill, victim = tmp_path / "spill", abandoned(tmp_path / "victim")
    spill.mkdir()
    mine = abandoned(spill / "llsvm-left")
    flock = fcntl.flock

    def swapped(lock, how):  # between looking and removing
        flock(lock, how)
        mine.rename(spill / "elsewhere")
        mine.symlink_to(victim)

    monkeypatch.setattr(workspace_module.fcntl, "flock", swapped)
    workspace_module.remove_abandoned(spill)
    assert sorted(os.listdir(victim)) == [LOCK_NAME, "pages"]
    assert mine.is_symlink()


def test_our_own_folder_swapped_for_a_link(tmp_path):
    victim = abandoned(tmp_path / "victim")
    workspace = Workspace(tmp_path)
    workspace.folder.rename(tmp_path / "moved")
    workspace.folder.symlink_to(victim)
    workspace.create("pages")
    workspace.close()
    assert sorted(os.listdir(victim)) == [LOCK_NAME, "pages"]


@pytest.mark.parametrize("what", ["link to a lock", "somebody else's"])
def test_what_is_not_ours_stays(tmp_path, monkeypatch, what):
    folder = abandoned(tmp_path / "llsvm-left")
    if what == "link to a lock":
        (folder / LOCK_NAME).rename(tmp_path / "seal")
        (folder / LOCK_NAME).symlink_to(tmp_path / "seal")
    else:
        monkeypatch.setattr(workspace_module.os, "geteuid", lambda: 4321)
    workspace_module.remove_abandoned(tmp_path)
    assert (folder / "pages").exists()
    if what != "link to a lock":
        monkeypatch.undo()
        workspace_module.remove_abandoned(tmp_path)
        assert not folder.exists()
