"""Folders of many files: each costs the same however many there are, and few are open at a time."""

import subprocess
import sys
import threading

import numpy as np
import pyarrow.parquet as pq
import pytest
from format_files import write

import llsvm
from llsvm.convert import convert
from llsvm.data import open_source
from llsvm.data.source import FILE_BYTES
from llsvm.files.expansion import expand
from llsvm.state.runs import known_rows

KINDS = {
    "svm": {},
    "svm.gz": {},
    "vw": {},
    "csv": {"label": "label"},
    "jsonl": {"label": "label"},
    "parquet": {"label": "label"},
    "feather": {"label": "label"},
    "h5": {},
    "npz": {},
}


def folder_of(folder, kind, n):
    """n files of two rows each."""
    folder.mkdir()
    for i in range(n):
        X = np.array([[1 + i % 7, 2 + i % 3], [1 + i % 5, 3.0]], np.float32)
        own = folder / f"{i:05d}"
        own.mkdir()
        write(own, kind, X, np.array([0.0, 1.0])).rename(folder / f"{i:05d}.{kind}")
        for left in own.iterdir():
            left.unlink()
        own.rmdir()
    return folder


class Calls:
    """Counts the calls of Python functions and of built-in ones, in all threads. Within ``with``."""

    def __enter__(self):
        self.number = 0
        threading.setprofile(self._count)
        sys.setprofile(self._count)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)
        threading.setprofile(None)

    def _count(self, frame, event, argument):
        self.number += event in ("call", "c_call")


def calls_of(work):
    with Calls() as calls:
        work()
    return calls.number


@pytest.mark.parametrize("kind", KINDS)
def test_reading_a_file_takes_as_many_calls_whatever_their_number(tmp_path, kind):
    def read(n):
        source = open_source(expand([str(folders[n])]).files, options=KINDS[kind])
        for _ in range(2):  # of the second time the fingerprints are known
            rows = 0
            for block in source.blocks(1 << 16):
                rows += block.n_rows
                assert source.info().reader_bytes >= n * FILE_BYTES  # as whoever signs for it asks
                assert source.bytes_read > 0
            assert rows == source.info().n_rows == 2 * n
        assert len(source.info().fingerprints) == n
        assert source.info().file_rows == (2,) * n

    folders = {n: folder_of(tmp_path / str(n), kind, n) for n in (2, 15, 30, 60)}
    read(2)  # what is loaded and compiled
    few, more, most = (calls_of(lambda n=n: read(n)) for n in (15, 30, 60))
    assert most - more < 2.1 * (more - few)


@pytest.mark.parametrize("kept", [False, True])
def test_training_takes_as_many_calls_a_file_whatever_their_number(tmp_path, kept):
    def train(n):
        own = {"state": tmp_path / f"kept{n}", "keep_cache": True} if kept else {}
        for passes in (1, 2):
            model = llsvm.train(str(folders[n]), max_passes=passes, tol=0.9, threads=1, **own)
            assert model.extra["trained_on"]["n_files"] == n

    folders = {n: folder_of(tmp_path / str(n), "svm", n) for n in (2, 50, 100, 200)}
    train(2)
    few, more, most = (calls_of(lambda n=n: train(n)) for n in (50, 100, 200))
    assert most - more < 2.1 * (more - few)


class Looked(dict):
    """Whose every look is a call."""

    def __getitem__(self, key):
        return super().__getitem__(key)


@pytest.mark.parametrize("kind", ["svm", "npz"])
def test_a_parquet_file_has_few_row_groups_however_many_files_it_is_made_of(tmp_path, kind):
    many, one = tmp_path / "many.parquet", tmp_path / "one.parquet"
    folder = folder_of(tmp_path / kind, kind, 40)
    convert(open_source(expand([str(folder)]).files, options=KINDS[kind]), many)
    assert pq.ParquetFile(many).num_row_groups == 1
    convert(open_source(str(many), options={"label": "label"}), one)
    made = pq.read_table(many)
    assert made.equals(pq.read_table(one))
    X = np.array([[1 + i // 2 % (5 if i % 2 else 7), 3.0 if i % 2 else 2 + i // 2 % 3] for i in range(80)])
    values = (
        made.column("values").to_pylist() if kind == "svm" else list(zip(*made.columns[-2:], strict=True))
    )
    assert np.array_equal(np.array([[float(str(v)) for v in row] for row in values]), X)


def test_files_of_an_earlier_run_are_found_in_as_many_calls_a_file():
    def find(n):
        before = [Looked(path=str(i), digest=f"d{i}", rows=1, n_bytes=5) for i in range(n)]
        now = [{**each, "path": f"new{each['path']}"} for each in reversed(before)]
        assert known_rows(before, now).common == n

    few, more, most = (calls_of(lambda n=n: find(n)) for n in (100, 200, 400))
    assert most - more < 2.1 * (more - few)


SCRIPT = """
import os, resource, sys
import llsvm
from llsvm.__main__ import main
from llsvm.stream.first_reading import FirstReading

resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
learn, most = FirstReading._learn, 0

def learning(self, raw, columns):
    global most
    most = max(most, len(os.listdir("/proc/self/task")))
    return learn(self, raw, columns)

FirstReading._learn = learning
for kind, folder, label in zip(*[iter(sys.argv[1:])] * 3):
    most = 0
    try:
        llsvm.train(folder, label=label or None, max_passes=2, tol=0.9, threads=4)
    except Exception as error:
        raise SystemExit(f"{kind}: {error!r}")
    assert 0 < most < 24, (kind, most)
"""


def test_few_files_are_open_and_few_threads_run_at_a_time(tmp_path):
    """Of 100 files, where 80 may be open."""
    words = [
        word
        for kind, options in KINDS.items()
        for word in (kind, str(folder_of(tmp_path / kind, kind, 100)), options.get("label", ""))
    ]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_beginnings_of_files_are_not_kept(tmp_path):
    """The first megabyte of each is looked at for its columns."""
    import gc
    import tracemalloc

    for i in range(20):
        rows = "".join(f"{j},{i},{j % 2}\n" for j in range(40_000))
        (tmp_path / f"{i}.csv").write_text("a,b,label\n" + rows)
    source = open_source(expand([str(tmp_path)]).files, options={"label": "label"})
    tracemalloc.start()
    try:
        for _ in source.blocks(1 << 16):
            pass
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2_000_000


@pytest.mark.slow
def test_twenty_thousand_files(tmp_path):
    for i in range(20_000):
        (tmp_path / f"{i:05d}.svm").write_text(f"{i % 2} 1:{i % 7} 2:{i % 3}\n")
    model = llsvm.train(str(tmp_path), max_passes=2, tol=0.9)
    assert model.extra["trained_on"]["n_files"] == 20_000


@pytest.mark.parametrize("kind", ["svm", "csv", "vw", "npz"])
def test_a_file_that_is_named_twice_is_said(tmp_path, kind):
    folder = folder_of(tmp_path / "rows", kind, 2)
    files = sorted(folder.iterdir())
    (tmp_path / f"again.{kind}").symlink_to(files[0])

    def notes(*data, **options):
        source = open_source(list(data), options=KINDS[kind], **options)
        return [note for note in source.info().notes if "named more than once" in note]

    assert notes(*files) == []
    for again in (files[0], tmp_path / f"again.{kind}", folder):
        (note,) = notes(*files, again)
        assert note.endswith("and its rows count each time")
    with pytest.warns(UserWarning, match="named more than once"):
        llsvm.train([*files, files[0]], threads=1, **KINDS[kind])
    assert len(notes(*files, files[0], need_label=False)) == 1
