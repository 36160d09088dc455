"""What Arrow's and Parquet's readers hold is read from what describes the data, before any of it is read."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from llsvm.data import open_source
from llsvm.data.arrow import ArrowSource
from llsvm.errors import BudgetError

ROWS = 200_000


def table(n=ROWS):
    rng = np.random.default_rng(0)
    return pa.table({"a": rng.normal(size=n), "b": np.zeros(n), "label": np.arange(n) % 2})


def write(path, tables, make=pa.ipc.new_file, **options):
    with make(str(path), tables[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for each in tables:
            writer.write_table(each, max_chunksize=each.num_rows)
    return path


@pytest.mark.parametrize("kind", ["arrow", "arrows"])
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_the_largest_record_batch_counts_wherever_it_is(tmp_path, kind, compression):
    make = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
    small = table().slice(0, 100)
    path = write(tmp_path / f"t.{kind}", [small, small, table(), small], make, compression=compression)
    least = 2 * ROWS * 3 * 8
    held = open_source(path).info().reader_bytes - open_source(path).info().library_bytes
    assert least <= held <= 1.5 * least + (5 << 20)


def test_the_largest_of_several_files_counts(tmp_path):
    paths = [write(tmp_path / "a.arrow", [table().slice(0, 9)]), write(tmp_path / "b.arrow", [table()])]
    assert open_source(paths).info().reader_bytes > 2 * ROWS * 3 * 8


def test_dictionaries_count(tmp_path):
    words = pa.array([f"{i:0100}" for i in range(50_000)])
    column = pa.DictionaryArray.from_arrays(np.arange(50_000, dtype=np.int32), words)
    path = write(tmp_path / "t.arrow", [pa.table({"a": column, "label": np.arange(50_000) % 2})])
    info = open_source(path).info()
    assert info.reader_bytes - info.library_bytes > 5_000_000 + 2 * 50_000 * 12


def test_no_batch_is_read_before_it_is_signed_for(tmp_path, monkeypatch):
    from oracle import run

    path = write(tmp_path / "t.arrow", [table()], compression="lz4")

    def batch(*_):
        raise AssertionError("read before it was signed for")

    monkeypatch.setattr(ArrowSource, "_batch", batch)
    with pytest.raises(BudgetError):
        run(path, ledger=8_000_000)


def test_what_is_held_is_looked_up_once(tmp_path, monkeypatch):
    import llsvm.data.arrow as arrow
    import llsvm.data.parquet as parquet

    path = write(tmp_path / "t.arrow", [table().slice(0, 9)])
    pq.write_table(table().slice(0, 9), tmp_path / "t.parquet")
    calls = []
    real = arrow.sizes_of, parquet._require_column_metadata
    monkeypatch.setattr(arrow, "sizes_of", lambda *a: calls.append("arrow") or real[0](*a))
    monkeypatch.setattr(
        parquet, "_require_column_metadata", lambda *a: calls.append("parquet") or real[1](*a)
    )
    for source in (open_source(path), open_source(tmp_path / "t.parquet")):
        for _ in range(3):
            source.info()
    assert calls == ["arrow", "parquet"]


def test_pages_of_parquet_larger_than_usual_count(tmp_path):
    n, path = 4_000, tmp_path / "t.parquet"
    words = pa.array([f"{i % 7:05000}" for i in range(n)])
    options = {"use_dictionary": False, "data_page_size": 1 << 30, "write_batch_size": n}
    pq.write_table(pa.table({"a": words, "label": np.arange(n) % 2}), path, **options)
    info = open_source(path, options={"categorical": ["a"]}).info()
    assert info.reader_bytes - info.library_bytes > 2.5 * 5_000 * n


def test_columns_of_parquet_with_dots_in_their_names_count(tmp_path):
    held, digests = [], []
    for name in ("a_b", "a.b"):
        for i in (1, 2):
            path = tmp_path / f"{name}{i}.parquet"
            pq.write_table(pa.table({name: np.full(ROWS, i / 3), "label": np.arange(ROWS) % 2}), path)
            source = open_source(path)
            held.append(source.info().reader_bytes)
            assert sum(block.n_rows for block in source.blocks(1 << 20)) == ROWS
            digests.append(source.info().fingerprints[0].parts)
    assert len(set(held)) == 1
    assert digests[0] == digests[2] != digests[3] == digests[1]


@pytest.mark.parametrize("cut", [1, 7, 100, 2_000])
def test_damaged_descriptions_are_left_to_the_reader(tmp_path, cut):
    for kind, make in (("arrow", pa.ipc.new_file), ("arrows", pa.ipc.new_stream)):
        path = write(tmp_path / f"t.{kind}", [table().slice(0, 1000)], make)
        data = bytearray(path.read_bytes())
        with pa.BufferReader(bytes(data[:-cut])) as file:
            arrow_sizes(file, kind == "arrow")
        for at in range(0, len(data), 997):
            data[at] ^= 0xFF
        with pa.BufferReader(bytes(data)) as file:
            arrow_sizes(file, kind == "arrow")


def arrow_sizes(file, has_footer):
    from llsvm.data.arrow_memory import sizes_of

    assert all(size >= 0 for size in sizes_of(file, has_footer))


@pytest.mark.parametrize("name", ["y", "weights"])
def test_chunks_of_labels_and_weights_in_hdf5_count(tmp_path, name):
    h5py = pytest.importorskip("h5py")
    path, held = tmp_path / "t.h5", []
    for chunk in (1000, ROWS):
        with h5py.File(path, "w") as file:
            file["X"] = np.ones((ROWS, 2), np.float32)
            file["y"] = np.arange(ROWS) % 2
            file["weights"] = np.ones(ROWS)
            del file[name]
            file.create_dataset(name, data=np.arange(ROWS) % 2.0, chunks=(chunk,), compression="gzip")
        held.append(open_source(path, options={"weight": "weights"}).info().reader_bytes)
    assert held[1] - held[0] >= 2 * 8 * (ROWS - 1000)
