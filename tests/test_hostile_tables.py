"""Tables with few bytes that stand for many: lists of equal values, long texts behind codes. What reads them,
refuses them or works out a limit for them stays within the limit."""

import io
import json

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from peaks import run_for_peak
from typer.testing import CliRunner

from llsvm.cli import app
from llsvm.data import open_source, parquet
from llsvm.data.mapped import MapOptions, MappedSource
from llsvm.data.parquet_pages import longest_text
from llsvm.data.table_rows import pieces
from llsvm.errors import BudgetError, DataError, LongRowError
from llsvm.features.columns import categories
from llsvm.memory.budget import MemoryBudget, opening_under
from llsvm.tuning.held_out import count_rows

MB = 1_000_000
LABEL = {"label": "label"}


def lists_of(lengths):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = pa.ListArray.from_arrays(offsets, np.zeros(offsets[-1], np.int32))
    values = pa.ListArray.from_arrays(offsets, np.ones(offsets[-1], np.float32))
    return pa.table({"i": indices, "v": values, "label": np.arange(len(lengths)) % 2})


def long_list(path, n=25_000_000):
    pq.write_table(lists_of([2] * 20 + [n] + [2] * 19), path)


def texts_of(lengths, n, as_dictionary):
    texts = [f"{i}" + "x" * length for i, length in enumerate(lengths)]
    column = pa.DictionaryArray.from_arrays((np.arange(n) % len(texts)).astype(np.int32), texts)
    return pa.table(
        {"t": column if as_dictionary else column.dictionary_decode(), "label": np.arange(n) // 3 % 2}
    )


def long_texts(path):
    table = texts_of([20_000] * 30, 300_000, True)
    pq.write_table(table, path, store_schema=False)


def shared_prefixes(path, lengths=(200_000,) * 4000, **more):
    texts = pa.array(
        [None if length is None else "x" * length + str(i % 7) for i, length in enumerate(lengths)]
    )
    table = pa.table({"t": texts, "label": np.arange(len(texts)) % 2})
    pq.write_table(table, path, use_dictionary=False, column_encoding={"t": "DELTA_BYTE_ARRAY"}, **more)


def a_long_text(path):
    texts = ["a", "b"] * 200 + ["long " * 20_000_000]
    table = pa.table({"t": texts, "label": np.arange(401) % 2})
    pq.write_table(table, path, use_dictionary=False)


def a_long_text_behind_a_dictionary(path):
    """The dictionary is full before it comes, so that it is written as it is."""
    texts = [f"word {i} of some text" for i in range(4000)]
    texts[3000] = "x" * 200_000_000
    table = pa.table({"t": texts, "label": np.arange(4000) % 2})
    pq.write_table(table, path, dictionary_pagesize_limit=20_000, data_page_size=1000)


def long_texts_of_arrow(path):
    table = texts_of([20_000] * 30, 300_000, True)
    with ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def long_categories(path, n=30):
    with open(path, "w") as file:
        for i in range(2 * n):
            row = {f"c{j}": "x" * 3_900_000 if j == i // 2 and i % 2 else "b" for j in range(n)}
            file.write(json.dumps({**row, "label": i % 2}) + "\n")


def more_long_categories(path):
    long_categories(path, 80)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "name", "command", "limit"),
    [
        (long_list, "rows.parquet", "train", 320),
        (long_list, "rows.parquet", "inspect", 450),
        (long_texts, "rows.parquet", "train", 320),
        (long_texts, "rows.parquet", "convert", 320),
        (long_texts_of_arrow, "rows.arrow", "convert", 320),
        (a_long_text, "rows.parquet", "train", 560),
        (a_long_text_behind_a_dictionary, "rows.parquet", "train", 850),
        (shared_prefixes, "rows.parquet", "train", 320),
        (shared_prefixes, "rows.parquet", "inspect", 320),
        (shared_prefixes, "rows.parquet", "convert", 320),
        (long_categories, "rows.jsonl", "train", 340),
        (more_long_categories, "rows.jsonl", "inspect", 450),
    ],
)
def test_the_peak_stays_under_the_limit(made_once, tmp_path, make, name, command, limit):
    path = made_once(make, name)
    more = {"train": ["--model", tmp_path / "m", "-q", "--max-passes", "3"], "inspect": []}
    more["convert"] = [tmp_path / "out.svm"]
    code, peak, said = run_for_peak(
        command, path, *more[command], "--label", "label", "--memory-limit", f"{limit}MB"
    )
    assert code in (0, 4, 5), said
    assert code != 4 or "pass --memory-limit" in said
    assert peak <= limit * MB


def test_values_of_a_list_are_counted_though_they_are_stored_in_few_bytes(tmp_path):
    found = {}
    for n in (2, 3_000_000):
        long_list(tmp_path / "rows.parquet", n)
        assert (tmp_path / "rows.parquet").stat().st_size < 10_000
        found[n] = open_source(str(tmp_path / "rows.parquet"), options=LABEL).info().reader_bytes
    assert found[3_000_000] - found[2] > 24 * 3_000_000


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_long_lists_ask_for_the_memory_that_they_take(tmp_path, form):
    path = tmp_path / f"rows.{form}"
    if form == "parquet":
        long_list(path, 3_000_000)
    else:
        table = lists_of([2] * 20 + [3_000_000] + [2] * 19)
        with ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    source = open_source(str(path), options=LABEL)
    with pytest.raises(LongRowError, match=r"row 21: its lists take .* memory_limit") as caught:
        list(source.blocks(64_000))
    assert caught.value.row_bytes >= 12 * 3_000_000
    assert sum(block.n_rows for block in source.blocks(caught.value.row_bytes)) == 40


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_texts_without_their_prefixes_are_as_long_as_they_are_read(tmp_path, version, compression):
    path = tmp_path / "rows.parquet"
    lengths = [
        None if i % 11 == 3 else int(n) for i, n in enumerate(np.random.default_rng(0).geometric(0.01, 5000))
    ]
    more = {"data_page_version": version, "compression": compression, "data_page_size": 4096}
    shared_prefixes(path, lengths, write_batch_size=64, **more)
    longest = pc.max(pc.binary_length(pq.read_table(path)["t"])).as_py()
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    with open(path, "rb") as file:
        assert longest_text(file, column, True) == longest
    data = bytearray(path.read_bytes())
    data[4:400] = bytes(396)  # no header, no lengths
    assert longest_text(io.BytesIO(data), column, True) == column.total_uncompressed_size


def test_few_rows_of_long_texts_without_their_prefixes_are_read_at_a_time(tmp_path):
    path = tmp_path / "rows.parquet"
    shared_prefixes(path, [5] * 1000 + [100_000] * 1000)
    source = open_source(str(path), options=LABEL)
    batches = [batch.num_rows for batch in source.source._batches(0, ["t", "label"], 1 << 16, 1 << 20)]
    assert sum(batches) == 2000
    assert max(batches) <= 41
    assert sum(block.n_rows for block in source.blocks(1 << 20)) == 2000


@pytest.mark.parametrize("as_dictionary", [False, True])
def test_long_texts_behind_codes_are_read_as_codes(tmp_path, as_dictionary):
    """As categories they are not decoded; to be handed on they are, few at a time."""
    path = tmp_path / "rows.parquet"
    table = texts_of([100_000, 0, 50_000], 3000, True)
    pq.write_table(table, path, store_schema=as_dictionary)
    source = open_source(str(path), options=LABEL)
    allocated = []
    before = pa.total_allocated_bytes()
    rows = 0
    for block in source.blocks(1 << 20):
        allocated.append(pa.total_allocated_bytes() - before)
        rows += block.n_rows
    assert rows == 3000
    assert max(allocated) < 8 * MB
    assert source.info().n_features == 3


def test_few_rows_of_long_texts_in_small_row_groups_are_read_at_a_time(tmp_path):
    """In one row group alone they take no room."""
    path = tmp_path / "rows.parquet"
    table = texts_of([30_000] * 3, 3000, True)
    pq.write_table(table, path, store_schema=False, row_group_size=100)
    source = open_source(str(path), options=LABEL)
    for rows in (10, 1 << 16):  # few do not take much room
        batches = source.source._batches(0, ["t", "label"], rows, 1 << 20)
        assert max(batch.num_rows for batch in batches) <= (4 << 20) // 30_000


def test_a_dictionary_that_does_not_fit_is_not_looked_into(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_longest_text", lambda *of: pytest.fail("it is read"))
    path = tmp_path / "rows.parquet"
    pq.write_table(texts_of([20 * MB, 0], 400, True), path, store_schema=False)
    with opening_under(300 * MB), pytest.raises(BudgetError, match="the columns of"):
        list(open_source(str(path), options=LABEL).blocks(1 << 20))


def test_pieces_hold_few_bytes_or_one_row():
    texts = texts_of([1000, 0], 100, True)
    batch = pa.RecordBatch.from_arrays(
        [texts["t"].combine_chunks(), texts["label"].combine_chunks()], names=["t", "label"]
    )
    assert [each.num_rows for each in pieces(batch, ["t"], 2000, "a", 0)] == [100]
    cut = list(pieces(batch, [], 2100, "a", 0))
    assert sum(each.num_rows for each in cut) == 100
    assert max(each.num_rows for each in cut) <= 5
    assert pa.Table.from_batches(cut).column("t").to_pylist() == texts["t"].to_pylist()
    assert {each.num_rows for each in pieces(batch, [], 10, "a", 0)} <= {1, 2}


def test_categories_of_codes_are_those_of_texts():
    words = [" b", "a", "never", None, "b", "", "a"]
    codes = pa.array([4, None, 1, 0, 3, 5, 6, 4], pa.int8())
    column = pa.DictionaryArray.from_arrays(codes, pa.array(words))
    for empty_is_missing in (False, True):
        of_codes = categories(column, empty_is_missing)
        of_texts = categories(column.dictionary_decode(), empty_is_missing)
        assert of_codes[0].tolist() == of_texts[0].tolist()
        assert of_codes[1] == of_texts[1] == ["b", "a", ""]
    nothing = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int32()), pa.array(["a"]))
    assert categories(nothing, True)[0].tolist() == [-1, -1]


def test_a_word_of_an_archive_that_is_too_long_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "X.npz"
    word = np.array(b"csr", "S2000000")
    np.savez_compressed(path, X=np.arange(8.0).reshape(4, 2), y=np.arange(4) % 2, format=word)
    with pytest.raises(DataError, match=r"format: an array of type .*S2000000 where a word is needed"):
        open_source(str(path))


def test_feature_maps_take_rows_longer_than_their_blocks(tmp_path):
    path = tmp_path / "X.h5"
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = np.ones((4, 2_500_000), np.float32), np.arange(4) % 2
    asked = []
    source = open_source(str(path))
    for kind in ("rff", "nystroem"):
        mapped = MappedSource(source, MapOptions(kind, "rbf", 3, gamma=1e-7), asked.append)
        assert max(asked) >= 5 * 4 * 2_500_000
        with pytest.raises(LongRowError) as caught:
            list(mapped.blocks(1 << 20))
        blocks = list(mapped.blocks(caught.value.row_bytes))
        assert sum(block.n_rows for block in blocks) == 4
        assert blocks[0].X.shape[1] == 3


def test_validation_files_of_long_rows_are_counted(tmp_path):
    path = tmp_path / "X.npz"
    np.savez(path, X=np.ones((4, 2_500_000), np.float32), y=np.arange(4) % 2)
    source = open_source(str(path))
    assert sum(count_rows(source, MemoryBudget(3000 * MB, 0))) == 4
    with pytest.raises(BudgetError, match="reading"):
        list(count_rows(source, MemoryBudget(300 * MB, 290 * MB)))


def test_inspect_refuses_documents_that_it_has_no_room_to_count(tmp_path):
    path = tmp_path / "rows.ft"
    path.write_text("__label__a some words\n__label__b other words\n" * 50)
    done = CliRunner().invoke(app, ["inspect", str(path), "--memory-limit", "350MB"])
    assert done.exit_code == 4, done.output
    assert "pass --memory-limit " in done.output


def test_few_rows_of_long_lists_are_read_at_a_time(tmp_path):
    path = tmp_path / "rows.parquet"
    rows = pa.FixedSizeListArray.from_arrays(np.zeros(40 * 100_000, np.float32), 100_000)
    pq.write_table(pa.table({"v": rows, "label": np.arange(40) % 2}), path)
    source = open_source(str(path), options=LABEL)
    assert next(source.source._batches(0, ["v"], 1, 1 << 30)).num_rows == 1
    assert next(source.source._batches(0, ["v"], 100, 1 << 20)).num_rows == 1
    assert next(source.source._batches(0, ["v"], 100, 2 << 20)).num_rows <= 3


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
@pytest.mark.parametrize(
    "told", [b"[" * 100_000, b'{"index_columns": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"]
)
def test_what_pandas_says_of_an_index_may_be_nested_as_deeply_as_it_likes(tmp_path, name, told):
    table = pa.table({"a": np.arange(20.0), "label": np.arange(20) % 2}).replace_schema_metadata(
        {b"pandas": told}
    )
    if name == "t.parquet":
        pq.write_table(table, tmp_path / name)
    else:
        with ipc.new_file(tmp_path / name, table.schema) as file:
            file.write_table(table)
    assert open_source(tmp_path / name, options=LABEL).info().n_features == 1


@pytest.mark.parametrize("line", [1, 20])
def test_whole_numbers_of_thousands_of_digits_are_told_from_bugs(tmp_path, line):
    rows = ['{"a": 1, "label": 0}\n', '{"a": 2, "label": 1}\n'] * 40
    rows[line - 1] = '{"a": ' + "1" * 5_000 + ', "label": 0}\n'
    (tmp_path / "t.jsonl").write_text("".join(rows))
    with pytest.raises(DataError, match=rf"t\.jsonl:{line}: a whole number of thousands of digits"):
        for _ in open_source(tmp_path / "t.jsonl", options=LABEL).blocks(1 << 20):
            pass
