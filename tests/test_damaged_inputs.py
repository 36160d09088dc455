"""Damaged input is refused with a sentence: no crash of a library, no internal error, no hang, no silent zeros."""

import io
import json
import os
import re
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import llsvm
from llsvm.data import open_source
from llsvm.errors import DataError

HERE = Path(__file__).parent
PLENTY = 1 << 20
TEXT = {"label": "label"}


def run(*args):
    """A Python program with this package, in a process of its own: what it says and how it ends."""
    path = os.pathsep.join([str(Path(llsvm.__file__).parents[1]), str(HERE)])
    return subprocess.run(
        [sys.executable, "-W", "ignore", *map(str, args)],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"PYTHONPATH": path},
    )


READ = """
import sys
from llsvm.data import open_source
from llsvm.errors import DataError
try:
    source = open_source(sys.argv[1], options={"label": "label"})
    source.info()
    for block in source.blocks(1 << 20):
        pass
except DataError as error:
    print(error)
"""


def refusal(path):
    """What is said against a file, whose reading may kill the process."""
    done = run("-c", READ, path)
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    assert done.stdout.startswith(str(path)), done.stdout
    return done.stdout


def texts(n=1000):
    return pa.table(
        {"a": np.arange(float(n)), "c": [f"x{i % 3}" for i in range(n)], "label": [i % 2 for i in range(n)]}
    )


@pytest.mark.parametrize("stream", [False, True])
def test_an_altered_offset_of_a_text(tmp_path, stream):
    path = tmp_path / ("rows.arrows" if stream else "rows.arrow")
    table = texts()
    open_ipc = pa.ipc.new_stream if stream else pa.ipc.new_file
    with open_ipc(path, table.schema) as out:
        out.write_table(table)
    whole = bytearray(path.read_bytes())
    offsets = whole.find(struct.pack("<8i", *range(0, 16, 2)))
    struct.pack_into("<i", whole, offsets + 4 * 500, 2**30)
    path.write_bytes(whole)
    assert "record batch 0" in refusal(path)


def test_a_code_without_a_category(tmp_path):
    path = tmp_path / "rows.arrow"
    codes = pa.array([i % 3 for i in range(1000)], pa.int32())
    table = texts().set_column(1, "c", pa.DictionaryArray.from_arrays(codes, ["x", "y", "z"]))
    with pa.ipc.new_file(path, table.schema) as out:
        out.write_table(table)
    whole = bytearray(path.read_bytes())
    place = whole.find(struct.pack("<6i", 0, 1, 2, 0, 1, 2))
    struct.pack_into("<i", whole, place + 4 * 500, 2**30)
    path.write_bytes(whole)
    assert "record batch 0" in refusal(path)


def test_metadata_of_a_parquet_column_that_ends_pyarrow(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(texts(), path)
    whole = path.read_bytes()
    footer = len(whole) - 8 - struct.unpack("<i", whole[-8:-4])[0]
    place = whole.index(b"\x25\x02\x18\x01a", footer) + 1  # of the schema: values of column a may be missing
    path.write_bytes(whole[:place] + b"\0" + whole[place + 1 :])
    assert "histogram size mismatch" in refusal(path)


def test_parquet_text_that_is_not_utf8(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(texts(), path, compression="none")
    path.write_bytes(path.read_bytes().replace(b"x1", b"\xffx"))
    with pytest.raises(DataError, match=r"row group 0, rows 1 to 1,000.*UTF8"):
        list(open_source(path, options=TEXT).blocks(PLENTY))


def test_a_column_name_that_is_not_utf8(tmp_path):
    path = tmp_path / "rows.arrow"
    with pa.ipc.new_file(path, texts().rename_columns(["a", "town", "label"]).schema) as out:
        out.write_table(texts().rename_columns(["a", "town", "label"]))
    path.write_bytes(path.read_bytes().replace(b"town", b"to\xe4n"))
    with pytest.raises(DataError, match="not readable as arrow"):
        list(open_source(path, options=TEXT).blocks(PLENTY))


def sparse(path, indices, n_columns, indptr=None, n=200):
    """CSR with three values a row, whose indices are of any type."""
    arrays = {
        "indptr": np.arange(n + 1) * 3 if indptr is None else indptr,
        "indices": np.tile(indices, n),
        "data": np.ones(3 * n, np.float32),
        "shape": np.array([n, n_columns]),
        "y": np.arange(n) % 2,
    }
    if path.suffix == ".npz":
        np.savez(path, format=np.array(b"csr"), **arrays)
        return path
    with h5py.File(path, "w") as file:
        group, shape = file.create_group("X"), arrays.pop("shape")
        file["y"] = arrays.pop("y")
        if n_columns is not None:
            group.attrs["shape"] = shape
        for name, values in arrays.items():
            group[name] = values
    return path


@pytest.mark.parametrize("kind", ["npz", "h5"])
@pytest.mark.parametrize(
    ("indices", "n_columns"),
    [
        (np.array([1, 2**32 + 5, 2**32 + 9]), 2**40),
        (np.array([1, 2**31 + 7, 2**32 - 3]), 2**40),
        (np.array([1, 5, 2**31 + 1000]), 2**33),
        (np.array([1, 5, 2**64 - 3], np.uint64), 2**40),
        (np.array([1, 5, 2**32 + 5]), 10),
        (np.array([1.0, 5.5, 7.0]), 10),
    ],
)
def test_column_indices_that_do_not_fit(tmp_path, kind, indices, n_columns):
    path = sparse(tmp_path / f"rows.{kind}", indices, n_columns)
    with pytest.raises(DataError, match=r"columns|integers"):
        list(open_source(path).blocks(PLENTY))


def test_column_indices_that_do_not_fit_a_matrix_without_a_shape(tmp_path):
    path = sparse(tmp_path / "rows.h5", np.array([1, 5, 2**32 + 5]), None)
    with pytest.raises(DataError, match="row 1: column index 4294967301"):
        list(open_source(path).blocks(PLENTY))


@pytest.mark.parametrize("kind", ["npz", "h5"])
def test_row_pointers_that_become_negative(tmp_path, kind):
    indptr = (np.arange(201) * 3).astype(np.uint64)
    indptr[7] = 2**63
    path = sparse(tmp_path / f"rows.{kind}", np.array([1, 5, 7]), 10, indptr)
    with pytest.raises(DataError, match="row 7: its row pointers do not ascend"):
        list(open_source(path).blocks(PLENTY))


def test_a_contiguous_data_set_that_was_never_written(tmp_path):
    path = tmp_path / "rows.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("X", (50, 4), np.float32)
        file["y"] = np.arange(50) % 2
    with pytest.raises(DataError, match=r"X of shape \(50, 4\) has 0 bytes of 800"):
        open_source(path)


MANY = 10**12


@pytest.mark.parametrize("what", ["X", "y", "indptr", "categories", "var/_index"])
@pytest.mark.parametrize("written", [False, True])
def test_chunks_that_were_never_written(tmp_path, what, written):
    """Also where the first are there."""
    path, X, y = tmp_path / "rows.h5", np.arange(80.0).reshape(40, 2), np.arange(40) % 2
    with h5py.File(path, "w") as file:
        arrays = {"X": X, "y": y}
        if what == "indptr":
            group = {"indptr": np.arange(41), "indices": np.zeros(40, int), "data": np.ones(40)}
            arrays = {f"X/{name}": values for name, values in group.items()} | {"y": y}
        elif what == "categories":
            arrays = {"X": X, "obs/label/codes": y, "obs/label/categories": np.array([b"a", b"b"])}
        elif what == "var/_index":
            arrays |= {"var/_index": np.array([b"a", b"b"])}
        for name, values in arrays.items():
            if not name.endswith(what):
                file[name] = values
                continue
            shape = (MANY, *values.shape[1:])
            made = file.create_dataset(name, shape, values.dtype, chunks=(len(values), *values.shape[1:]))
            if written:
                made[: len(values)] = values
    options = {"label": "label"} if what == "categories" else {}
    with pytest.raises(DataError, match=rf"{what} of shape \(1000000000000,.* has {int(written)} chunks of "):
        open_source(path, options=options)


OTHER = {  # what is not in the file itself: what makes it, what is said of it
    "external": (
        lambda file, there: file.create_dataset("X", (40, 2), float, external=[(there, 0, 640)]),
        "X",
    ),
    "virtual": (lambda file, there: _virtual(file, there), "X"),
    "link": (lambda file, there: _linked(file, h5py.ExternalLink(there, "/indptr")), "X: indptr"),
    "soft link": (lambda file, there: _linked(file, h5py.SoftLink("/elsewhere")), "X: indptr"),
    "var": (lambda file, there: _names(file, h5py.ExternalLink(there, "/names")), "var: _index"),
    "reference": (lambda file, there: file.create_dataset("w", (40,), h5py.ref_dtype), "w"),
}


def _virtual(file, there):
    layout = h5py.VirtualLayout((40, 2), float, maxshape=(None, 2))
    layout[: h5py.h5s.UNLIMITED] = h5py.VirtualSource(there, "X", (40, 2), maxshape=(None, 2))[
        : h5py.h5s.UNLIMITED
    ]
    file.create_virtual_dataset("X", layout)


def _linked(file, link):
    file["X/indices"], file["X/data"], file["X/indptr"] = np.zeros(40, int), np.ones(40), link


def _names(file, link):
    file["X"], file["var/_index"] = np.ones((40, 2)), link


@pytest.mark.parametrize("pipe", [False, True])
@pytest.mark.parametrize("what", OTHER)
def test_other_files_are_not_read(tmp_path, what, pipe):
    """A pipe in their place would keep whoever opens it waiting for ever."""
    path, there = tmp_path / "rows.h5", tmp_path / "there"
    if pipe:
        os.mkfifo(there)
    else:
        with h5py.File(there, "w") as other:
            other["X"], other["indptr"], other["names"] = (
                np.ones((40, 2)),
                np.arange(41),
                np.array([b"a", b"b"]),
            )
    make, said = OTHER[what]
    with h5py.File(path, "w", libver="latest") as file:
        file["y"] = np.arange(40) % 2
        make(file, str(there))
        if "X" not in file:
            file["X"] = np.ones((40, 2))
    code = (
        "import sys; from llsvm.data import open_source; from llsvm.errors import DataError\n"
        "try: open_source(sys.argv[1], options={'weight': 'w'} if sys.argv[2] == 'reference' else {})\n"
        "except DataError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path, what], capture_output=True, text=True, timeout=60, check=True
    )
    assert re.search(rf"{said} (has its values in other files|is a link|has references)", done.stdout)


def test_a_record_batch_of_more_rows_than_it_holds(tmp_path):
    path = tmp_path / "rows.arrow"
    with pa.OSFile(str(path), "wb") as file:
        batch = pa.record_batch({"a": pa.nulls(1_234_567), "label": pa.nulls(1_234_567)})
        with pa.ipc.new_file(file, batch.schema) as out:
            out.write_batch(batch)
    lengths = (number.to_bytes(8, "little") for number in (1_234_567, MANY))
    path.write_bytes(path.read_bytes().replace(*lengths))
    with pytest.raises(DataError, match=r"record batch 0: .*: 1,000,000,000,000 rows in 0 bytes"):
        next(iter(open_source(path, options={"label": "label"}).blocks(PLENTY)))


def test_a_parquet_footer_of_more_rows_than_there_are(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": np.arange(40.0), "label": np.arange(40) % 2}), path)
    whole = path.read_bytes()
    size = int.from_bytes(whole[-8:-4], "little")
    body, footer = whole[: -8 - size], whole[-8 - size : -8]
    more = footer.replace(b"\x50", b"\x80\xc0\xca\xf3\x84\xa3\x02", 1)  # 40 and more, as Thrift has numbers
    path.write_bytes(body + more + len(more).to_bytes(4, "little") + b"PAR1")
    assert pq.read_metadata(path).num_rows > 10**9
    with pytest.raises(DataError, match=r": 40 rows, and [0-9,]+ by its footer"):
        list(open_source(path, options={"label": "label"}).blocks(PLENTY))


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_a_shape_larger_than_the_file(tmp_path, kind):
    path, array = tmp_path / f"rows.{kind}", io.BytesIO()
    head = {"shape": (1, 2 * 10**12), "fortran_order": False, "descr": "<f4"}
    np.lib.format.write_array_header_1_0(array, head)
    array.write(bytes(1000))
    path.write_bytes(array.getvalue())
    if kind == "npz":
        np.savez(path, y=np.zeros(1))
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("X.npy", array.getvalue())
    with pytest.raises(DataError, match=r"cut off: .* of shape \(1, 2000000000000\) ends after 0 rows"):
        list(open_source(path, options={"label": "last"} if kind == "npy" else {}).blocks(PLENTY))


@pytest.mark.parametrize("n", [200_000, 2_000_000])
def test_a_long_cell_of_a_csv_file(tmp_path, n):
    path = tmp_path / "rows.csv"
    path.write_text(f"a,note,label\n1,{'x' * n},0\n2,z,1\n")
    source = open_source(path, options={"exclude": ("note",)})
    assert sum(block.n_rows for block in source.blocks(PLENTY)) == 2


@pytest.mark.parametrize("format", ["svmlight", "vw", "csv", "jsonl", "parquet", "arrow", "hdf5", "numpy"])
def test_a_disk_that_fails_is_named(format):
    """This file of the system's answers every reading with EIO."""
    with pytest.raises(DataError, match=r"^/proc/self/mem: .*Input/output error; the disk may be"):
        list(open_source("/proc/self/mem", format=format).blocks(PLENTY))


FULL = """
import json, os, resource, sys
sys.dont_write_bytecode = True  # Python does not notice that the limit cuts these files
import h5py, numba, numpy as np, scipy.sparse as sp
from llsvm.block import Block
from llsvm.convert import convert
from llsvm.data import open_source
from llsvm.errors import DiskError
from llsvm.spill.workspace import Workspace
from llsvm.spill.writer import open_store

X = np.random.default_rng(0).random((5000, 60)).astype(np.float32)
y = (X[:, 0] > 0.5).astype(np.int32)
X[X < 0.5] = 0
what, folder = sys.argv[1:3]
source = open_source(X if what == "dense" else sp.csr_matrix(X), y)

def fill(limit):
    with Workspace(folder) as workspace:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # a disk that is full after so many bytes
        try:
            if what == "spill":
                store = open_store(workspace, "s", "hdf5")
                for i in range(0, 5000, 100):
                    store.append(Block(X[i : i + 100], y[i : i + 100], np.arange(i, i + 100)))
                store.finish()
            else:
                convert(source, folder + "/rows.h5")
            print("written")
        except DiskError as error:
            print(error)
            if what == "spill":
                store.delete()

for limit in map(int, sys.argv[3:]):  # each in a process of its own, which has the libraries
    child = os.fork()
    if child == 0:
        fill(limit)
        sys.exit()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps([limit, status, sorted(os.listdir(folder))]), flush=True)
"""


FULL_AFTER = [1000, 70_000, 300_000, 1_100_000]


@pytest.mark.parametrize("what", ["dense", "sparse", "spill"])
def test_hdf5_on_a_disk_that_fills(tmp_path, what):
    done = run("-c", FULL, what, tmp_path, *FULL_AFTER, 100_000_000)
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    assert done.stderr == ""
    said = done.stdout.splitlines()
    for limit in FULL_AFTER:
        assert "File too large" in said.pop(0)
        assert json.loads(said.pop(0)) == [limit, 0, []]
    left = [] if what == "spill" else ["rows.h5"]
    assert said.pop(0) == "written"
    assert json.loads(said.pop(0)) == [100_000_000, 0, left]
    assert said == []
    if what != "spill":
        assert sum(block.n_rows for block in open_source(tmp_path / "rows.h5").blocks(PLENTY)) == 5000


def assert_survives(folder, first, count):
    done = run(HERE / "fuzz_worker.py", folder, first, count)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (done.returncode, lines[-1:], done.stderr[-500:])
    assert [line for line in lines if ": " in line] == []


def test_damaged_files_of_all_formats(tmp_path):
    assert_survives(tmp_path, 0, 12)


@pytest.mark.slow
def test_many_damaged_files_of_all_formats(tmp_path):
    assert_survives(tmp_path, 10_000, 400)
