"""Reads damaged files, one after the other: ``python fuzz_worker.py FOLDER FIRST COUNT KIND...``

Each mutant of each kind is refused with a DataError or read as rows that hold together; anything else is printed
as a line ``KIND NUMBER: what happened``. The last line that was printed names the file a dead process was reading.
"""

import random
import signal
import sys
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import scipy.sparse as sp
from format_files import OPTIONS, WRITERS, rows, table

import llsvm
from llsvm.data import open_source
from llsvm.errors import DataError

N_ROWS = 40
LONGEST_SECONDS = 30
TRAINED = 16  # every so many mutants that can be read are trained on
NUMBERS = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**62, 2**40, -1)


def words(X, y):
    """Numbers, categories, dictionaries and lists."""
    n = len(X)
    town = [("Rome", "Zürich", "?", "a longer name of a town")[i % 4] for i in range(n)]
    return (
        table(X, y)
        .append_column("town", pa.array(town))
        .append_column("code", pa.array([f"c{i % 3}" for i in range(n)]).dictionary_encode())
        .append_column("list", pa.array([[1.0, 2.0, float(i)] for i in range(n)]))
    )


def _stream(path, X, y):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, words(X, y).schema) as out:
        out.write_table(words(X, y), max_chunksize=16)


def _text(path, X, y):
    lines = [
        ",".join([*map(str, row), ("Rome", '"Zürich, CH"')[i % 2], str(y[i])]) for i, row in enumerate(X)
    ]
    path.write_text("\n".join([",".join([*(f"x{j}" for j in range(X.shape[1])), "town", "label"]), *lines]))


def _hdf5_csr(path, X, y):
    S = sp.csr_matrix(X)
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["shape"] = S.shape
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(S, name)
        file["y"] = y


def _hdf5_plain(path, X, y):
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = X, y


def _h5ad(path, X, y):
    """As AnnData, but with text of fixed length: from zeros in a global heap, where text of variable length lies,
    HDF5 itself never returns."""
    WRITERS["h5ad"](path, X, y)
    with h5py.File(path, "r+") as file:
        names = file["var/gene"][()].astype("S")
        del file["var/gene"]
        file["var/gene"] = names
        for place, name in (("X", "encoding-type"), ("var", "_index")):
            file[place].attrs[name] = np.bytes_(file[place].attrs[name])


KINDS = {
    "bytes.h5ad": _h5ad,
    "words.feather": lambda p, X, y: feather.write_feather(
        words(X, y), p, compression="uncompressed", chunksize=16
    ),
    "lz4.feather": lambda p, X, y: feather.write_feather(words(X, y), p, compression="lz4"),
    "words.arrows": _stream,
    "words.parquet": lambda p, X, y: pq.write_table(words(X, y), p, row_group_size=16),
    "zstd.parquet": lambda p, X, y: pq.write_table(
        words(X, y), p, compression="zstd", use_dictionary=False, write_page_checksum=True
    ),
    "words.csv": _text,
    "csr.h5": _hdf5_csr,
    "plain.h5": _hdf5_plain,
    "fortran.npy": lambda p, X, y: np.save(p, np.asfortranarray(np.c_[X, y].astype(np.float32))),
} | {
    kind: WRITERS[kind]
    for kind in ("svm", "svm.gz", "svm.zst", "sparse.parquet", "h5", "npy", "npz", "scipy.npz")
}
OPTIONS = OPTIONS | {"bytes.h5ad": {"label": "label"}, "fortran.npy": {"label": "last"}}


def mutant(whole, number, kind):
    """The file with a few bits or bytes changed, cut off, left out, put in, or overwritten by a number."""
    r, b = random.Random(f"{kind} {number}"), bytearray(whole)
    at = r.randrange(len(b))
    how = r.choice(["bits", "bits", "bits", "bytes", "cut", "out", "in", "number", "number", "copy"])
    if how == "bits":
        for _ in range(r.choice([1, 1, 1, 2, 4, 16])):
            b[r.randrange(len(b))] ^= 1 << r.randrange(8)
    elif how == "bytes":
        for _ in range(r.choice([1, 1, 2, 8])):
            b[r.randrange(len(b))] = r.choice([0, 255, 127, 128, r.randrange(256), *b"0: \n-.e"])
    elif how == "cut":
        del b[at:]
    elif how == "out":
        del b[at : at + r.choice([1, 1, 2, 8, 100])]
    elif how == "in":
        b[at:at] = bytes(r.randrange(256) for _ in range(r.choice([1, 1, 4, 32])))
    elif how == "number":
        size = r.choice([4, 8])
        b[at : at + size] = (r.choice(NUMBERS) % 2 ** (8 * size)).to_bytes(size, "little")
    else:
        other, size = r.randrange(len(b)), r.randrange(1, 200)
        b[at : at + size] = b[other : other + size]
    return bytes(b)


def check(block):
    """Rows that a kernel can work on."""
    X, n = block.X, len(block.y)
    if isinstance(X, np.ndarray):
        assert X.shape[0] == n, "rows and labels differ in number"
        assert np.isfinite(X).all(), "values are not finite"
        return
    assert len(X.indptr) == n + 1, "rows and labels differ in number"
    assert (np.diff(X.indptr) >= 0).all(), "indptr does not ascend"
    assert 0 <= X.indptr[0] <= X.indptr[-1] <= min(len(X.indices), len(X.data)), "indptr is out of bounds"
    assert (X.indices >= 0).all(), "an index is negative"
    assert np.isfinite(X.data).all(), "values are not finite"


def read(path, options, train):
    source = open_source(path, options=options)
    source.info()
    for block in source.blocks(1 << 20):
        check(block)
    if train:
        llsvm.train(path, memory_limit="900MB", max_passes=2, max_seconds=2, threads=1, **options)


def main(folder, first, count, kinds):
    X, y = rows(N_ROWS)
    for kind in kinds:
        KINDS[kind](path := folder / f"whole.{kind}", X, y)
        options = OPTIONS.get(kind, {"label": "label"} if kind.startswith(("words", "lz4", "zstd")) else {})
        read(path, options, False)
        whole, path = path.read_bytes(), folder / f"rows.{kind}"
        for number in range(first, first + count):
            path.write_bytes(mutant(whole, number, kind))
            print(kind, number, flush=True)  # noqa: T201
            signal.alarm(LONGEST_SECONDS)
            try:
                read(path, options, number % TRAINED == 0)
            except DataError as error:
                if "\n" in str(error) or str(path) not in str(error):
                    print(f"{kind} {number}: the message: {error}")  # noqa: T201
            except Exception as error:
                print(f"{kind} {number}: {type(error).__name__}: {error}")  # noqa: T201
            signal.alarm(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:] or list(KINDS))
