"""Files that take another's place: unique temporary names, named errors, nothing followed, nothing left."""

import errno
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import numpy as np
import pytest

from llsvm.errors import DiskError, UsageError
from llsvm.files import writing as files
from llsvm.files.writing import replacing, require_writable
from llsvm.models.model import Model


def model(seed):
    return Model(np.full((1, 20_000), float(seed)), [0.0], [0, 1])


def test_writers_of_one_file_do_not_meet(tmp_path):
    """Nor would they on two hosts: the names come from neither process nor thread."""
    path, errors = tmp_path / "m", Counter()

    def save(seed):
        for _ in range(15):
            try:
                model(seed).save(path)
            except Exception as error:
                errors[repr(error)] += 1

    threads = [threading.Thread(target=save, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == {}
    assert len(set(Model.load(path).coef_.ravel().tolist())) == 1
    with replacing(tmp_path / "f") as first:
        first.write(b"A" * 10)
        with replacing(tmp_path / "f") as second:
            second.write(b"B")
        assert (tmp_path / "f").read_bytes() == b"B"
    assert (tmp_path / "f").read_bytes() == b"A" * 10
    assert sorted(os.listdir(tmp_path)) == ["f", "m", "m.log.json"]


def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    (tmp_path / "precious").write_text("dear")
    (tmp_path / ".llsvm-guessed.tmp").symlink_to("precious")
    monkeypatch.setattr(files, "temporary_name", lambda n_bytes=0: ".llsvm-guessed.tmp")
    with pytest.raises(DiskError, match=r"cannot be written: File exists"), replacing(tmp_path / "f"):
        pass
    assert (tmp_path / "precious").read_text() == "dear"


def test_old_temporary_files_of_killed_processes_go(tmp_path):
    hours_ago = time.time() - 2 * 3600
    names = [".llsvm-old.tmp", ".llsvm-new.tmp", ".llsvm-locked.tmp", ".llsvm-link.tmp", ".llsvm-mine"]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / ".llsvm-link.tmp").unlink()
    (tmp_path / ".llsvm-link.tmp").symlink_to(".llsvm-mine")
    os.mkfifo(tmp_path / ".llsvm-pipe.tmp")
    for path in tmp_path.iterdir():
        if "new" not in path.name:
            os.utime(path, (hours_ago, hours_ago), follow_symlinks=False)
    with open(tmp_path / ".llsvm-locked.tmp") as alive:
        files.fcntl.flock(alive, files.fcntl.LOCK_EX)
        with replacing(tmp_path / "f") as stream:
            stream.write(b"x")
    assert sorted(os.listdir(tmp_path)) == sorted({*names, ".llsvm-pipe.tmp", "f"} - {".llsvm-old.tmp"})


def test_what_a_killed_process_was_writing_goes_with_the_next_file(tmp_path):
    child = os.fork()
    if child == 0:
        with replacing(tmp_path / "f") as stream:
            stream.write(b"half")
            stream.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    left = os.listdir(tmp_path)
    assert len(left) == 1
    assert left[0].endswith(f"-{child}.tmp")
    stay = [files.temporary_name()]  # this process lives
    stay.append(re.sub("-[0-9a-f]{8}-", "-ffffffff-", left[0]))  # of another host, who knows?
    for name in stay:
        (tmp_path / name).touch()
    with replacing(tmp_path / "f") as stream:
        stream.write(b"whole")
    assert sorted(os.listdir(tmp_path)) == sorted([*stay, "f"])


def fails(number):
    def call(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    return call


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failing_disk_is_named(tmp_path, monkeypatch, call):
    (tmp_path / "f").write_text("old")
    monkeypatch.setattr(files.os, call, fails(errno.EIO))
    with pytest.raises(DiskError, match=r"f: cannot be written: Input/output error; the disk"):  # noqa: SIM117
        with replacing(tmp_path / "f") as stream:
            stream.write(b"new")
    monkeypatch.undo()
    assert (tmp_path / "f").read_text() == "old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_failing_read_in_the_block_is_not_taken_for_a_failing_write(tmp_path):
    with pytest.raises(OSError, match="of the input") as caught, replacing(tmp_path / "f"):
        raise OSError(errno.EIO, "of the input")
    assert not isinstance(caught.value, DiskError)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_device_is_named():
    with pytest.raises(DiskError, match="/dev/full: No space left"), replacing("/dev/full") as stream:
        stream.write(b"x" * 100_000)


@pytest.mark.parametrize("check", [require_writable, lambda path: replacing(path).__enter__()])
def test_names_that_cannot_be(tmp_path, check):
    (tmp_path / "file").touch()
    for path, words in (
        (tmp_path / ("x" * 256), "name too long"),
        (tmp_path / "file" / "m", "file"),
        (tmp_path / "missing" / "m", "missing"),
    ):
        with pytest.raises(UsageError, match=words):
            check(path)
    assert os.listdir(tmp_path) == ["file"]


def test_the_longest_name_can_be(tmp_path):
    path = tmp_path / ("x" * 255)
    require_writable(path)
    with replacing(path) as stream:
        stream.write(b"1")
    assert os.listdir(tmp_path) == [path.name]


def test_what_cannot_be_made_is_found_by_making_it(tmp_path, monkeypatch):
    """Permissions do not tell: a file system may be read-only, full, or over a quota."""
    for number, kind in ((errno.EROFS, UsageError), (errno.ENOSPC, DiskError), (errno.EDQUOT, DiskError)):
        real = os.open

        def opened(name, flags, *args, number=number, real=real, **kwargs):
            if flags & os.O_CREAT:
                fails(number)()
            return real(name, flags, *args, **kwargs)

        monkeypatch.setattr(files.os, "open", opened)
        with pytest.raises(kind, match=str(tmp_path)):
            require_writable(tmp_path / "m")
        monkeypatch.undo()


def test_somebody_elses_file_in_a_shared_folder(tmp_path, monkeypatch):
    (tmp_path / "m").touch()
    tmp_path.chmod(0o1777)
    monkeypatch.setattr(files.os, "geteuid", lambda: 4321)
    with pytest.raises(UsageError, match="another user's"):
        require_writable(tmp_path / "m")


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
def test_an_open_file_is_written_to_and_no_other_takes_its_place(name, tmp_path):
    """A shell's >> appends, and what comes before and after it stays."""
    (tmp_path / "link").symlink_to("/dev/stdout")
    write = (
        "import sys; from llsvm.files.writing import replacing, require_writable; require_writable(sys.argv[1])\n"
        "with replacing(sys.argv[1]) as stream: stream.write(b'new\\n')"
    )
    (tmp_path / "log").write_text("old\n")
    with open(tmp_path / "log", "ab") as log:
        for _ in range(2):
            subprocess.run([sys.executable, "-c", write, name], stdout=log, cwd=tmp_path, check=True)
    assert (tmp_path / "log").read_text() == "old\nnew\nnew\n"
    done = subprocess.run([sys.executable, "-c", write, name], capture_output=True, cwd=tmp_path, check=True)
    assert done.stdout == b"new\n"
    with pytest.raises(UsageError, match="/dev/fd/987: cannot be written: bad file descriptor"):
        require_writable("/dev/fd/987")
