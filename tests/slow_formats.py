"""Large files of each format train to tolerance under --memory-limit 500MB: the peak resident set, measured in a
process of its own."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

pytestmark = pytest.mark.slow
N_COLUMNS = 50
SIZE_BYTES = int(os.environ.get("LLSVM_SLOW_BYTES", 2_000_000_000))
CHUNK = 20_000


def chunks(n_rows):
    """(X, y) float32 of rows with a little noise, a chunk at a time."""
    w = np.random.default_rng(0).normal(size=N_COLUMNS).astype(np.float32)
    for start in range(0, n_rows, CHUNK):
        rng = np.random.default_rng(start + 1)
        X = rng.normal(size=(min(CHUNK, n_rows - start), N_COLUMNS)).astype(np.float32)
        yield X, (X @ w + rng.normal(size=len(X)) > 0).astype(np.int8)


def batch(X, y):
    return pa.record_batch({f"x{j}": pa.array(X[:, j]) for j in range(N_COLUMNS)} | {"label": pa.array(y)})


def write_parquet(path, n_rows, group):
    import pyarrow.parquet as pq

    schema = batch(*next(chunks(1))).schema
    with pq.ParquetWriter(path, schema) as out:
        held = []
        for X, y in chunks(n_rows):
            held.append(batch(X, y))
            if len(held) * CHUNK >= group:
                out.write_table(pa.Table.from_batches(held), row_group_size=group)
                held = []
        if held:
            out.write_table(pa.Table.from_batches(held), row_group_size=group)


def write_csv(path, n_rows):
    import pyarrow.csv as pacsv

    with pacsv.CSVWriter(path, batch(*next(chunks(1))).schema) as out:
        for X, y in chunks(n_rows):
            out.write_batch(batch(X, y))


def write_hdf5(path, n_rows):
    import h5py

    with h5py.File(path, "w") as file:
        data = file.create_dataset("X", (n_rows, N_COLUMNS), "f4", chunks=(2000, N_COLUMNS))
        labels = file.create_dataset("y", (n_rows,), "i1")
        at = 0
        for X, y in chunks(n_rows):
            data[at : at + len(X)], labels[at : at + len(X)] = X, y
            at += len(X)


def write_arrow(path, n_rows):
    with pa.ipc.new_file(path, batch(*next(chunks(1))).schema) as out:
        for X, y in chunks(n_rows):
            out.write_batch(batch(X, y))


def write_npz(path, n_rows):
    import zipfile

    with zipfile.ZipFile(path, "w") as archive:
        for name, shape, dtype, place in (("X", (n_rows, N_COLUMNS), "<f4", 0), ("y", (n_rows,), "|i1", 1)):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as out:
                header = {"descr": dtype, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(out, header)
                for part in chunks(n_rows):
                    out.write(part[place].tobytes())


ROW_BYTES = {"csv": 11.5 * N_COLUMNS}
WRITERS = {
    "parquet": lambda path, n: write_parquet(path, n, 100_000),
    "one-group.parquet": lambda path, n: write_parquet(path, n, 1 << 40),
    "csv": write_csv,
    "h5": write_hdf5,
    "feather": write_arrow,
    "npz": write_npz,
}


def assert_planned(path, summary):
    """What inspect foretells comes true: of the memory exactly, of passes and disk within a factor of two."""
    code = "from llsvm.cli import main; main()"
    words = ["inspect", str(path), "--memory", "500MB", "--json", "--scale", "standard"]
    run = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    plan = json.loads(run.stdout)["plan"]
    assert plan["enough"]
    assert plan["place"] == summary["read_from"]
    assert plan["passes"] / 2 <= summary["passes"] <= 2 * plan["passes"]
    assert (
        plan["cache_bytes"] / 2
        <= summary["peak_disk_bytes"]
        <= 2 * (plan["cache_bytes"] + plan["spill_bytes"])
    )


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", WRITERS)
def test_trains_within_its_limit(tmp_path, kind):
    path = tmp_path / f"big.{kind}"
    WRITERS[kind](path, int(SIZE_BYTES / ROW_BYTES.get(kind, 4 * N_COLUMNS)))
    assert path.stat().st_size > 0.85 * SIZE_BYTES
    words = [
        "train",
        path,
        "--model",
        tmp_path / "m",
        "--memory",
        "500MB",
        "--quiet",
        "--json",
    ]
    words += ["--spill-dir", tmp_path, "--scale", "standard"]
    code = "from llsvm.cli import main; main()"
    run = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    summary = json.loads(run.stdout)
    assert_planned(path, summary)
    line = f"{kind}: {path.stat().st_size / 1e6:.0f} MB, peak {summary['peak_rss_bytes'] / 1e6:.0f} MB, "
    line += f"{summary['seconds']:.0f} s, gap {summary['relative_gap']:.4f}"
    sys.__stderr__.write(line + "\n")
    path.unlink()
    assert summary["peak_rss_bytes"] <= 500_000_000
    assert summary["relative_gap"] <= 1e-3
    assert summary["read_from"] in ("cache", "memory")
