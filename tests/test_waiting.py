"""Standard files that another program has set not to block: no row is lost, nothing ends in a traceback."""

import gzip
import io
import json
import os
import select
import subprocess
import sys
from fcntl import F_SETPIPE_SZ, fcntl

import numpy as np
import pyarrow as pa
import pytest

from llsvm.files.file_objects import Waiting
from llsvm.files.inputs import Input, head_of
from llsvm.models.model import Model

N = 3000
ROWS = {
    "svmlight": b"1 1:1 2:3\n-1 1:-1 2:1\n" * (N // 2),
    "csv": b"a,b,label\n" + b"1,3,1\n-1,1,-1\n" * (N // 2),
    "jsonl": b'{"a": 1, "b": 3, "label": 1}\n{"a": -1, "b": 1, "label": -1}\n' * (N // 2),
    "vw": b"1 |f a:1 b:3\n-1 |f a:-1 b:1\n" * (N // 2),
}
# Runs llsvm with standard files that do not block. What it reads comes, and what it writes is taken, only while
# it waits: in so many bytes at a time, by whatever calls poll.
PROGRAM = """
import atexit, fcntl, os, select, sys
data, taken, step = open(sys.argv[1], "rb").read(), open(sys.argv[2], "wb"), int(sys.argv[3])
feed, out = os.pipe()[::-1], os.pipe()
for end in (*feed, *out):
    os.set_blocking(end, False)
fcntl.fcntl(out[1], fcntl.F_SETPIPE_SZ, 4096)
os.dup2(feed[1], 0), os.dup2(out[1], 1)
def supply():
    global data
    if data is None:
        return
    if not data:
        os.close(feed[0])
        data = None
        return
    data = data[os.write(feed[0], data[:step]):]
def take():
    try:
        while part := os.read(out[0], 1 << 16):
            taken.write(part)
    except BlockingIOError:
        taken.flush()
class Poll:
    def register(self, file, event):
        self.event = event
    def poll(self):
        supply() if self.event == select.POLLIN else take()
select.poll = Poll
atexit.register(take)
supply()
sys.argv[1:] = sys.argv[4:]
from llsvm.__main__ import main
main()
"""


@pytest.fixture
def run(tmp_path):
    def run(data, *words, step=1 << 15):
        (tmp_path / "in").write_bytes(data)
        command = [
            sys.executable,
            "-c",
            PROGRAM,
            tmp_path / "in",
            tmp_path / "out",
            str(step),
            *map(str, words),
        ]
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return (tmp_path / "out").read_text()

    return run


@pytest.fixture
def model(tmp_path):
    Model(np.array([[1.0, 0.0]]), [0.0], [-1, 1]).save(tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", ROWS)
def test_training_reads_all_rows_of_input_that_comes_late(form, packed, run, tmp_path):
    """Its format is told by its beginning where it can be."""
    data = gzip.compress(ROWS[form]) if packed else ROWS[form]
    named = ["--format", form] if form in ("vw", "csv", "jsonl") else []
    words = ["train", "-", *named, "--model", tmp_path / "n", "--json"]
    answer = run(data, *words, step=40 if packed else 1 << 13)
    assert json.loads(answer)["rows"] == N


def test_predictions_of_all_rows_go_to_output_that_takes_them_late(model, run):
    assert run(ROWS["svmlight"] * 10, "predict", model, "-").split() == ["1", "-1"] * (5 * N)


def packed(text, kind):
    if not kind:
        return text
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, kind) as stream:
        stream.write(text)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("kind", ["", "gzip", "bz2", "zstd", "lz4"])
def test_input_that_has_nothing_yet_is_not_at_its_end(kind, monkeypatch):
    """A byte at a time."""
    text = b"so much for that\n" * 9
    data = list(packed(text, kind))
    reader, writer = os.pipe()
    os.set_blocking(reader, False)

    class Late:
        def register(self, file, event):
            assert event == select.POLLIN

        def poll(self):
            os.write(writer, bytes([data.pop(0)])) if data else os.close(writer)

    monkeypatch.setattr(select, "poll", Late)
    with open(reader, "rb") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert head_of("-", 30) == text[:30]
        assert head_of("-") == text[:16]
        with Input("-") as stream:
            assert stream.read(4) == text[:4]
            assert stream.peek(20) == text[4:24]
            assert stream.readall() == text[4:]


def test_output_that_takes_little_gets_all(monkeypatch):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    fcntl(writer, F_SETPIPE_SZ, 4096)
    got = b""

    class Late:
        def register(self, file, event):
            assert event == select.POLLOUT

        def poll(self):
            nonlocal got
            got += os.read(reader, 1000)

    monkeypatch.setattr(select, "poll", Late)
    data = bytes(range(256)) * 100
    with io.BufferedWriter(Waiting(writer, "w")) as stream:
        stream.write(data)
    while part := os.read(reader, 1 << 16):
        got += part
    os.close(reader)
    assert got == data
