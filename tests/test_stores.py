"""Both page stores pass one suite; what is left are their file formats and the promises about memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
from store_suite import StoreSuite, make_block

import llsvm
from llsvm.errors import UsageError
from llsvm.spill.workspace import Workspace
from llsvm.spill.writer import open_store

ROOT = Path(llsvm.__file__).parents[1]


def run(script: str, *args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


class TestArrowStore(StoreSuite):
    spill_format = "arrow"

    def test_any_arrow_reader_opens_the_file(self, workspace):
        sparse = [make_block(20, seed=i) for i in range(3)]
        dense = make_block(7, width=3, consecutive=False, weight=True)
        store = self.store(workspace, *sparse, dense)
        with pa.OSFile(str(workspace.path("pages"))) as file:
            first, second = pa.ipc.open_stream(file).read_all(), pa.ipc.open_stream(file).read_all()
            assert file.tell() == store.nbytes
        first.validate(full=True)
        second.validate(full=True)
        assert first.num_rows == len(sparse)
        assert first.schema.names == ["lengths", "index", "value", "y"]
        values = np.concatenate([block.X.data for block in sparse])
        assert np.array_equal(first["value"].combine_chunks().flatten().to_numpy(), values)
        assert np.array_equal(np.array(second["X"].to_pylist()[0], np.float32), dense.X.reshape(-1))
        assert second["rows"].to_pylist() == [dense.rows.tolist()]
        assert second.schema.names == ["X", "y", "rows", "weight"]


class TestHDF5Store(StoreSuite):
    spill_format = "hdf5"

    def test_any_hdf5_reader_opens_the_file(self, workspace):
        sparse, dense = make_block(20), make_block(7, width=3, consecutive=False, weight=True)
        self.store(workspace, sparse, dense)
        with h5py.File(workspace.path("pages"), "r", locking=False) as file:
            first, second = file["page0"], file["page1"]
            assert np.array_equal(first["lengths"], np.diff(sparse.X.indptr))
            assert np.array_equal(first["index"], sparse.X.indices)
            assert np.array_equal(first["value"], sparse.X.data)
            assert np.array_equal(first["y"], sparse.y)
            assert np.array_equal(second["X"], dense.X)
            assert np.array_equal(second["rows"], dense.rows)
            assert np.array_equal(second["weight"], dense.weight)


def test_unknown_format(tmp_path):
    with Workspace(tmp_path) as workspace, pytest.raises(UsageError, match="arrow or hdf5, not 'csv'"):
        open_store(workspace, "pages", "csv")


def test_importing_the_spill_loads_neither_library():
    done = run("import llsvm.spill, sys; assert not {'pyarrow', 'h5py', 'numba'} & set(sys.modules)")
    assert done.returncode == 0, done.stderr


FULL_DISK = """
import resource, sys
sys.dont_write_bytecode = True  # Python does not notice that the limit cuts these files
sys.path.insert(0, sys.argv[3])
from store_suite import make_block
from llsvm.errors import DiskError
from llsvm.spill.writer import open_store
from llsvm.spill.workspace import Workspace

resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))  # the kernel refuses to write further
try:
    with Workspace(sys.argv[1]) as workspace:
        store = open_store(workspace, "pages", sys.argv[2])
        for seed in range(100):
            store.append(make_block(10, seed=seed))
except DiskError as error:
    assert "File too large" in str(error) and "ulimit -f" in str(error), error
else:
    raise AssertionError("no error")
"""


@pytest.mark.parametrize("spill_format", ["arrow", "hdf5"])
def test_writing_that_the_system_refuses_leaves_nothing_behind(tmp_path, spill_format):
    done = run(FULL_DISK, tmp_path, spill_format, Path(__file__).parent)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


MEMORY = """
import sys
import h5py, numpy as np, pyarrow
from llsvm.block import CSR, Block
from llsvm.memory.process import peak_resident_bytes
from llsvm.spill.store import Scratch
from llsvm.spill.writer import open_store
from llsvm.spill.workspace import Workspace

rng = np.random.default_rng(0)
n, k, pages = 5000, 100, int(sys.argv[3])
X = CSR(np.arange(n + 1) * k, np.zeros(n * k, np.int32), np.ones(n * k, np.float32))
block = Block(X, np.zeros(n, np.int32), np.arange(n))
with Workspace(sys.argv[1]) as workspace:
    compiled = open_store(workspace, "compiled", sys.argv[2])
    compiled.append(block)
    compiled.finish()
    compiled.read(0)
    store = open_store(workspace, "pages", sys.argv[2])
    store.append(block)
    start = peak_resident_bytes()
    for _ in range(pages - 1):
        store.append(block)
    store.finish()
    scratch = Scratch()
    for i in rng.permutation(pages):
        store.read(i, scratch)
    grown = peak_resident_bytes() - start
assert grown - scratch.nbytes < 6_000_000, f"{grown / 1e6:.1f} MB more than after the first page"
"""


@pytest.mark.parametrize("spill_format", ["arrow", "hdf5"])
@pytest.mark.parametrize("pages", [60, pytest.param(500, marks=pytest.mark.slow)])
def test_resident_set_stays_flat_over_many_pages(tmp_path, spill_format, pages):
    done = run(MEMORY, tmp_path, spill_format, pages)
    assert done.returncode == 0, done.stderr
