"""The same rows written in every format, for the tests of readers."""

import bz2
import gzip
import json
import lzma

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

N_ROWS, N_COLUMNS = 300, 7


def rows(n=N_ROWS, d=N_COLUMNS, seed=0):
    """X (n, d) float32 with a third of zeros, y (n,) of 0 and 1, not separable."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32).round(3)
    X[rng.random((n, d)) < 0.3] = 0
    X[0] = np.arange(1, d + 1)  # no column is empty
    y = (X @ rng.normal(size=d) + rng.normal(size=n) > 0).astype(float)
    return X, y


def table(X, y):
    names = [f"x{j}" for j in range(X.shape[1])]
    return pa.table({name: pa.array(X[:, j]) for j, name in enumerate(names)} | {"label": pa.array(y)})


def sparse_table(X, y):
    at = [np.flatnonzero(row) for row in X]
    return pa.table(
        {
            "indices": pa.array([a.tolist() for a in at], pa.list_(pa.int32())),
            "values": pa.array(
                [row[a].tolist() for row, a in zip(X, at, strict=True)], pa.list_(pa.float32())
            ),
            "label": pa.array(y),
        }
    )


def write(folder, kind, X, y):
    """The rows in a file of that kind; returns its path."""
    path = folder / f"rows.{kind}"
    WRITERS[kind](path, X, y)
    return path


def _svm(path, X, y, opener=open):
    plain = path.with_name("plain.svm")
    dump_svmlight_file(X.astype(float), y, str(plain), zero_based=False)
    with opener(path, "wb") as out:
        out.write(plain.read_bytes())


def _pyarrow_compressed(path, X, y, kind):
    _svm(path, X, y)
    text = path.read_bytes()
    with pa.CompressedOutputStream(pa.OSFile(str(path), "wb"), kind) as out:
        out.write(text)


def _csv(path, X, y, opener=open, delimiter=","):
    with opener(path, "wb") as out:
        pacsv.write_csv(table(X, y), out, pacsv.WriteOptions(delimiter=delimiter))


def _jsonl(path, X, y, opener=open):
    with opener(path, "wb") as out:
        for row in table(X, y).to_pylist():
            out.write(json.dumps(row).encode() + b"\n")


def _vw(path, X, y):
    """Every value is written, zeros too, so that columns appear in their order."""
    rows = zip(X.tolist(), y.tolist(), strict=True)
    lines = (f"{label} |" + "".join(f" x{j}:{v}" for j, v in enumerate(x)) for x, label in rows)
    path.write_text("\n".join(lines) + "\n")


def _headless(path, X, y):
    pacsv.write_csv(table(X, y), path, pacsv.WriteOptions(include_header=False))


def _hdf5(path, X, y):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, chunks=(min(32, len(X)), X.shape[1]), compression="gzip")
        file["y"] = y


def _h5ad(path, X, y):
    S = sp.csr_matrix(X)
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"] = "csr_matrix"
        group.attrs["shape"] = S.shape
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(S, name)
        file["obs/label"] = y
        file.create_group("var").attrs["_index"] = "gene"
        file["var/gene"] = [f"x{j}" for j in range(X.shape[1])]


def _ipc_file(path, X, y):
    with ipc.new_file(path, table(X, y).schema) as out:
        out.write_table(table(X, y), max_chunksize=64)


def _ipc_stream(path, X, y):
    with ipc.new_stream(path, table(X, y).schema) as out:
        out.write_table(table(X, y), max_chunksize=64)


def _scipy_npz(path, X, y):
    S = sp.csr_matrix(X)
    np.savez_compressed(
        path, data=S.data, indices=S.indices, indptr=S.indptr, shape=S.shape, format=b"csr", y=y
    )


def _vectors(path, X, y):
    flat = pa.array(X.reshape(-1))
    pq.write_table(
        pa.table({"v": pa.FixedSizeListArray.from_arrays(flat, X.shape[1]), "label": pa.array(y)}), path
    )


WRITERS = {
    "svm": _svm,
    "svm.gz": lambda path, X, y: _svm(path, X, y, gzip.open),
    "svm.bz2": lambda path, X, y: _svm(path, X, y, bz2.open),
    "svm.xz": lambda path, X, y: _svm(path, X, y, lzma.open),
    "svm.zst": lambda path, X, y: _pyarrow_compressed(path, X, y, "zstd"),
    "svm.lz4": lambda path, X, y: _pyarrow_compressed(path, X, y, "lz4"),
    "vw": _vw,
    "csv": _csv,
    "csv.gz": lambda path, X, y: _csv(path, X, y, gzip.open),
    "jsonl": _jsonl,
    "jsonl.gz": lambda path, X, y: _jsonl(path, X, y, gzip.open),
    "headless.csv": _headless,
    "tsv": lambda path, X, y: _csv(path, X, y, delimiter="\t"),
    "parquet": lambda path, X, y: pq.write_table(table(X, y), path, row_group_size=100),
    "sparse.parquet": lambda path, X, y: pq.write_table(sparse_table(X, y), path),
    "vector.parquet": _vectors,
    "feather": _ipc_file,
    "arrows": _ipc_stream,
    "h5": _hdf5,
    "h5ad": _h5ad,
    "npy": lambda path, X, y: np.save(path, np.c_[X, y].astype(np.float32)),
    "npz": lambda path, X, y: np.savez(path, X=X, y=y),
    "scipy.npz": _scipy_npz,
}
OPTIONS = {"headless.csv": {"label": "last"}, "npy": {"label": "last"}, "h5ad": {"label": "label"}}
