"""A file that somebody writes to while it is read, or between two readings, is refused: in every format."""

import os
import shutil

import numpy as np
import pytest
import scipy.sparse as sp
from cells import in_turn
from format_files import OPTIONS, WRITERS, rows, write

from llsvm.convert import convert
from llsvm.data import open_source
from llsvm.errors import DataError

KINDS = sorted(WRITERS)
X, Y = rows(1500)
SMALL = 4096
LONG_AGO = 10**18  # ns


def opened(tmp_path, kind):
    path = write(tmp_path, kind, X, Y)
    os.utime(path, ns=(LONG_AGO, LONG_AGO))
    return path, open_source(path, options=OPTIONS.get(kind, {}))


def overwrite(path):
    """The same bytes once more: nothing but the time tells."""
    with path.open("r+b") as file:
        whole = file.read()
        file.seek(0)
        file.write(whole)


def replace(path):
    """Another file of that name, with the same size and time."""
    other = path.with_name("other")
    shutil.copy2(path, other)
    os.replace(other, path)


def append(path):
    with path.open("ab") as file:
        file.write(b"1 1:1\n")


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def read(source, change, path):
    for i, _ in enumerate(source.blocks(SMALL)):
        if i == 0:
            change(path)


CHANGES = [overwrite, replace, append, truncate]


@pytest.mark.parametrize(("kind", "change"), in_turn(KINDS, CHANGES, 2))
def test_changed_during_a_reading(tmp_path, kind, change):
    path, source = opened(tmp_path, kind)
    with pytest.raises(DataError, match="changed while it was in use"):
        read(source, change, path)


@pytest.mark.parametrize(("kind", "change"), in_turn(KINDS, [overwrite, append, truncate], 1))
def test_changed_between_readings(tmp_path, kind, change):
    path, source = opened(tmp_path, kind)
    assert sum(block.n_rows for block in source.blocks(1 << 20)) == len(Y)
    change(path)
    with pytest.raises(DataError, match="changed while it was in use"):
        next(iter(source.blocks(SMALL)))


@pytest.mark.parametrize("kind", KINDS)
def test_left_in_the_middle_nothing_is_said(tmp_path, kind):
    path, source = opened(tmp_path, kind)
    blocks = source.blocks(SMALL)
    next(blocks)
    overwrite(path)
    blocks.close()


def test_labels_in_a_file_of_their_own(tmp_path):
    np.save(tmp_path / "y.npy", Y)
    sp.save_npz(tmp_path / "rows.npz", sp.csr_matrix(X))
    os.utime(tmp_path / "y.npy", ns=(LONG_AGO, LONG_AGO))
    source = open_source(tmp_path / "rows.npz", options={"label": str(tmp_path / "y.npy")})
    with pytest.raises(DataError, match=r"y\.npy: the file changed while it was in use"):
        read(source, overwrite, tmp_path / "y.npy")


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_that_is_converted(tmp_path, change, monkeypatch):
    path, source = opened(tmp_path, "parquet")
    batches = type(source.source)._batches

    def meddled(self, *args):
        for batch in batches(self, *args):
            yield batch
            change(path)

    monkeypatch.setattr(type(source.source), "_batches", meddled)
    with pytest.raises(DataError, match="changed while it was in use"):
        convert(source, str(tmp_path / "out.arrow"))
    assert not (tmp_path / "out.arrow").exists()
