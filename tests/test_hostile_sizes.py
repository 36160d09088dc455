"""Files with one thing that is large compared with the memory limit: a line, a token, a dictionary, a header. What
reads them, refuses them or works out a limit for them stays within the limit."""

import io
import json
import struct
import tracemalloc

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from peaks import run_for_peak
from typer.testing import CliRunner

from llsvm import survey
from llsvm.cli import app
from llsvm.data import open_source
from llsvm.data.source import column_name
from llsvm.data.svmlight_labels import refuse_line
from llsvm.data.text_chunks import Chunk, cut_lines, parse_ahead
from llsvm.errors import BudgetError, DataError, LongRowError, UsageError
from llsvm.features.text.options import MAX_STOP_CHARACTERS, text_options
from llsvm.memory.budget import opening_under
from llsvm.settings.settings import Settings

MB = 1_000_000
LABEL = {"label": "label"}


def held_by(work):
    """(what ``work`` raises or returns, bytes that Python took for it at a time)."""
    tracemalloc.start()
    try:
        try:
            result = work()
        except Exception as error:
            result = error
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_bad_token_at_the_end_of_a_long_line_is_named_without_a_list_of_all():
    line = b"1 " + b" ".join(b"%d:1" % i for i in range(1, 30_000)) + b" x"
    error, held = held_by(lambda: refuse_line("rows.svm", 1, line, 1, False))
    assert "rows.svm:1: 'x' has no colon" in str(error)
    assert held < 4 * len(line)


# -- what describes columns ---------------------------------------------------------------------------------------


def wide_csv(path):
    path.write_text(
        ",".join(f"c{i}" for i in range(10_000)) + ",label\n" + "1," * 10_000 + "0\n" + "0," * 10_000 + "1\n"
    )


def many_keys(path):
    keys = ",".join(f'"k{i}":1' for i in range(20_000))
    path.write_text("".join(f'{{{keys},"label":{i}}}\n' for i in (0, 1)))


def long_name(path):
    pq.write_table(pa.table({"a" + "x" * 8 * MB: [1.0, 2.0], "label": [0, 1]}), path)


def metadata(path):
    table = pa.table({"a": [1.0, 2.0], "label": [0, 1]}).replace_schema_metadata({"k": "v" * 40 * MB})
    feather.write_feather(table, path, compression="uncompressed")


def metadata_of_a_stream(path):
    table = pa.table({"a": [1.0, 2.0], "label": [0, 1]}).replace_schema_metadata({"k": "v" * 40 * MB})
    with pa.OSFile(str(path), "wb") as file, ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


DESCRIBED = {
    "wide.csv": wide_csv,
    "keys.jsonl": many_keys,
    "name.parquet": long_name,
    "metadata.arrow": metadata,
    "metadata.arrows": metadata_of_a_stream,
}


@pytest.mark.parametrize("name", DESCRIBED)
def test_columns_that_do_not_fit_are_refused_before_they_are_read(tmp_path, name):
    path = tmp_path / name
    DESCRIBED[name](path)
    with (
        opening_under(300 * MB),
        pytest.raises(BudgetError, match=r"the columns of .*memory_limit") as caught,
    ):
        open_source(str(path), options=LABEL)
    assert caught.value.at_least
    with opening_under(caught.value.smallest_bytes):
        assert open_source(str(path), options=LABEL).info().n_features >= 1
    assert open_source(str(path), options=LABEL).info().n_features >= 1


@pytest.mark.parametrize("command", ["train", "inspect"])
def test_commands_open_data_under_their_limit(tmp_path, command):
    wide_csv(tmp_path / "wide.csv")
    more = ["--model", str(tmp_path / "m")] if command == "train" else []
    arguments = [command, str(tmp_path / "wide.csv"), "--label", "label", "--memory-limit", "300MB", *more]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 4
    assert "memory limit too small for the columns of" in done.output
    assert "pass --memory-limit 554MB or " in done.output


def test_the_head_of_an_array_is_not_read_where_it_is_too_long(tmp_path):
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2)" + b" " * 20 * MB + b"}\n"
    path = tmp_path / "X.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", len(head)) + head + bytes(32))
    error, held = held_by(lambda: open_source(str(path), options={"label": "last"}))
    assert isinstance(error, DataError)
    assert "its head cannot be read (it has 20,000," in str(error)
    assert held < 2 * MB
    short = io.BytesIO()
    np.lib.format.write_array(short, np.array([[1.0, 0.0], [2.0, 1.0]]), version=(2, 0))
    path.write_bytes(short.getvalue())
    assert open_source(str(path), options={"label": "last"}).info().n_rows == 2


# -- pages --------------------------------------------------------------------------------------------------------


def test_dictionaries_of_parquet_are_counted_as_often_as_they_are_held(tmp_path):
    texts = pa.array([f"{'c' * 200}{i}" for i in range(20_000)])
    labels = np.arange(20_000) % 2
    found = {}
    for name, column in (("text", texts), ("categories", texts.dictionary_encode())):
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"t": column, "label": labels}), path, dictionary_pagesize_limit=1 << 30)
        found[name] = open_source(str(path), options=LABEL).info().reader_bytes
    page = 20_000 * 208
    assert found["categories"] - found["text"] > 2.5 * page
    assert found["categories"] > 5 * page


def test_a_long_page_of_any_text_is_found_wherever_it_is(tmp_path):
    texts = [f"a text of some words, number {i % 7}" for i in range(3000)]
    texts[2000] = "long " * 2_000_000
    path = tmp_path / "rows.parquet"
    pq.write_table(
        pa.table({"t": texts, "label": np.arange(3000) % 2}),
        path,
        use_dictionary=False,
        data_page_size=4096,
        write_batch_size=16,
    )
    assert open_source(str(path), options=LABEL).info().reader_bytes > 2 * len(texts[2000])


def test_pages_of_the_files_that_follow_are_counted_too(tmp_path):
    for name, n in (("a", 10), ("b", 2_000_000)):
        texts = ["short"] * 9 + ["long " * n]
        pq.write_table(pa.table({"t": texts, "label": np.arange(10) % 2}), tmp_path / f"{name}.parquet")
    source = open_source([str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")], options=LABEL)
    before = source.info().reader_bytes
    blocks = source.blocks(1 << 16)
    next(blocks)
    with opening_under(270 * MB), pytest.raises(BudgetError, match=r"b\.parquet"):
        list(blocks)
    list(source.blocks(1 << 16))
    assert source.info().reader_bytes > before + 10 * MB


# -- lines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_of_vw_longer_than_a_chunk_ask_for_the_memory_that_they_take(tmp_path, threads):
    path = tmp_path / "rows.vw"
    path.write_text("1 |a f:1\n" * 10 + "-1 |a " + "f " * 500_000 + "\n" + "1 |a g:1\n" * 10)
    source = open_source(str(path), threads=threads)
    with pytest.raises(LongRowError, match=r"rows\.vw:11: a line of 1,000,007 bytes.*memory_limit") as caught:
        list(source.blocks(64_000))
    assert caught.value.row_bytes == 8 * 1_000_007
    assert sum(block.n_rows for block in source.blocks(caught.value.row_bytes)) == 21


def test_few_long_chunks_are_parsed_at_a_time():
    """As many bytes as of usual ones."""
    begun, done = 0, 0

    def chunks():
        nonlocal begun
        for i in range(30):
            begun += 1
            yield Chunk(bytes(1000 if i < 15 else 10), i + 1)

    most = {}
    for chunk, result in parse_ahead(chunks(), lambda chunk: chunk.number, 4, 100):
        assert result() == chunk.number
        size = len(chunk.text)
        most[size] = max(most.get(size, 0), begun - done)
        done += 1
    assert done == 30
    assert most[1000] <= 2  # one that is parsed, and one that waits for it
    assert 4 <= most[10] <= 6


def test_lines_as_long_as_is_allowed_are_no_error():
    text = io.BytesIO(b"short\n" * 3 + b"x" * 5000 + b"\n" + b"short")
    assert b"".join(chunk.text for chunk in cut_lines(text.read, "a", 100, 10, 5001)) == text.getvalue()
    text.seek(0)
    with pytest.raises(LongRowError, match="a:4: a line of 5,001 bytes") as caught:
        list(cut_lines(text.read, "a", 100, 10, 5000, 7))
    assert caught.value.row_bytes == 7 * 5001


def long_matrix_row(path, sparse):
    """The third of four rows has three million values."""
    n = 3_000_000
    if sparse:
        row = sp.csr_matrix(
            (np.ones(n + 6, np.float32), np.r_[0, 1, 2, 3, :n, 0, 1], [0, 2, 4, n + 4, n + 6])
        )
        arrays = {"indptr": row.indptr, "indices": row.indices, "data": row.data, "shape": row.shape}
    else:
        arrays = {"X": np.ones((4, n), np.float32)}
    if path.suffix == ".npz":
        np.savez_compressed(path, y=np.arange(4) % 2, **arrays)
        return
    with h5py.File(path, "w") as file:
        file["y"] = np.arange(4) % 2
        where = file.create_group("X") if sparse else file
        for name, values in arrays.items():
            where.create_dataset(name, data=values)


def long_categories(path, n):
    rows = ({"t": f"{i:03d}" + "x" * MB if i % 2 else "b", "label": i // 2 % 2} for i in range(2 * n))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_names_of_long_categories_are_not_made_each_time_that_they_are_asked_for(tmp_path):
    path = tmp_path / "rows.jsonl"
    long_categories(path, 20)
    source = open_source(str(path), options=LABEL)
    list(source.blocks(1 << 16))
    info, held = held_by(source.info)
    assert held < MB
    assert info.n_features == 21
    assert column_name(info, 1).startswith("column t=001xxx")


def test_categories_are_held_against_the_limit_while_rows_are_counted(tmp_path):
    path = tmp_path / "rows.jsonl"
    long_categories(path, 50)
    counted = survey.CountedSource(open_source(str(path), options=LABEL))
    error, held = held_by(lambda: survey._count(counted, 350 * MB))
    assert isinstance(error, BudgetError)
    assert counted.counts.n_rows < 100
    assert held < 60 * MB


TEXT = h5py.string_dtype()


def categories(file):
    del file["y"]
    file["obs/y/codes"] = np.arange(4, dtype=np.int8) % 2
    file.create_dataset("obs/y/categories", data=["a" * 20 * MB, "b" * 20 * MB], dtype=TEXT)


def categories_of_one_length(file):
    del file["y"]
    file["obs/y/codes"] = np.arange(4, dtype=np.int8) % 2
    words = np.array([b"a", b"b"], f"S{20 * MB}")
    file.create_dataset("obs/y/categories", data=words, chunks=(1,), compression=1)


def names_of_columns(file):
    file.create_dataset(
        "var/_index", data=["a" * 20 * MB, "b" * 20 * MB], dtype=TEXT, chunks=(2,), compression=1
    )


@pytest.mark.parametrize("texts", [categories, categories_of_one_length, names_of_columns])
def test_texts_of_hdf5_that_do_not_fit_are_refused_before_they_are_read(tmp_path, texts):
    path = tmp_path / "X.h5"
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = np.arange(8.0).reshape(4, 2), np.arange(4) % 2
        texts(file)
    options = {"label": "y"}
    with opening_under(280 * MB):
        error, held = held_by(lambda: open_source(str(path), options=options))
    assert isinstance(error, BudgetError)
    assert "the columns of" in str(error)
    assert held < 2 * MB
    with opening_under(error.smallest_bytes):
        assert sum(block.n_rows for block in open_source(str(path), options=options).blocks(1 << 20)) == 4


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"chunks": (50,)},
        {"chunks": (50,), "compression": "gzip"},
        {"chunks": (50,), "compression": "gzip", "shuffle": True},
        {"chunks": (50,), "compression": "lzf"},  # not looked into
    ],
)
def test_few_rows_with_long_labels_are_read_at_a_time(tmp_path, stored):
    path = tmp_path / "X.h5"
    with h5py.File(path, "w") as file:
        file["X"] = np.arange(480.0).reshape(240, 2)
        file.create_dataset("y", data=["ab"[i % 2] * 100_000 for i in range(240)], dtype=TEXT, **stored)
    source = open_source(str(path))
    blocks = list(source.blocks(1_000_000))
    assert max(block.n_rows for block in blocks) <= 2
    assert sum(block.n_rows for block in blocks) == 240
    assert blocks[-1].y[-1] == "b" * 100_000


@pytest.mark.parametrize("suffix", ["npz", "h5"])
@pytest.mark.parametrize("sparse", [False, True])
def test_long_rows_of_matrices_ask_for_the_memory_that_they_take(tmp_path, suffix, sparse):
    path = tmp_path / f"X.{suffix}"
    long_matrix_row(path, sparse)
    source = open_source(str(path))
    with pytest.raises(LongRowError, match=rf"row {2 * sparse + 1} takes .* memory_limit") as caught:
        list(source.blocks(64_000))
    assert caught.value.row_bytes >= (8 if sparse else 4) * 3_000_000
    assert sum(block.n_rows for block in source.blocks(caught.value.row_bytes)) == 4


@pytest.mark.parametrize("sparse", [False, True])
def test_commands_refuse_long_rows_of_matrices_before_they_are_read(tmp_path, sparse):
    path, model = tmp_path / "X.npz", tmp_path / "m"
    long_matrix_row(path, sparse)
    (tmp_path / "small.svm").write_text("0 1:1\n1 2:1\n")
    assert (
        CliRunner().invoke(app, ["train", str(tmp_path / "small.svm"), "--model", str(model)]).exit_code == 0
    )
    for arguments in (
        ["train", str(path), "--model", str(tmp_path / "long")],
        ["inspect", str(path)],
        ["convert", str(path), str(tmp_path / "X.svm")],
        *([["predict", str(model), str(path)], ["evaluate", str(model), str(path)]] if sparse else []),
    ):
        done = CliRunner().invoke(app, [*arguments, "--memory-limit", "300MB"])
        assert done.exit_code == 4, (arguments, done.output)
        assert "pass --memory-limit " in done.output


# -- other files --------------------------------------------------------------------------------------------------


def test_lists_of_stop_words_are_bounded(tmp_path):
    path = tmp_path / "stop.txt"
    path.write_text("".join(f"stopword{i}\n" for i in range(1_000_000)))
    settings = Settings(text=["t"], stop_words=str(path))
    error, held = held_by(lambda: text_options(settings, None))
    assert isinstance(error, UsageError)
    assert "more than 1,000,000 characters" in str(error)
    assert held < 8 * MAX_STOP_CHARACTERS
    path.write_text("the of\nand")
    assert text_options(settings, None).stop_words == ("the", "of", "and")


# -- the process --------------------------------------------------------------------------------------------------


def comment(path):
    rows = b"".join(b"%d 1:%d 2:%d\n" % (i % 2, i % 7, i % 3) for i in range(500))
    with open(path, "wb") as file:
        file.write(rows + b"#")
        for _ in range(300):
            file.write(b"c" * MB)
        file.write(b"\n" + rows)


def long_row(path):
    rows = b"1 1:1\n0 2:1\n" * 250
    with open(path, "wb") as file:
        file.write(rows + b"1")
        for start in range(1, 30_000_000, 100_000):
            file.write(b"".join(b" %d:1" % i for i in range(start, start + 100_000)))
        file.write(b"\n" + rows)


def dictionary(path):
    texts = pa.array([f"{'c' * 200}{i}" for i in range(500_000)]).dictionary_encode()
    pq.write_table(pa.table({"t": texts, "label": np.arange(500_000) % 2}), path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "suffix", "limit", "status"),
    [
        (comment, "svm", 300, 0),
        (long_row, "svm", 320, 4),
        (long_row, "svm", 1000, 4),
        (dictionary, "parquet", 320, 4),
        (dictionary, "parquet", 500, 4),
    ],
)
def test_the_peak_stays_under_the_limit(made_once, tmp_path, make, suffix, limit, status):
    path = made_once(make, f"rows.{suffix}")
    label = ["--label", "label"] if suffix == "parquet" else []
    code, peak, said = run_for_peak(
        *("train", path, *label, "--model", tmp_path / "m", "-q", "--max-passes", "4"),
        *("--memory-limit", f"{limit}MB"),
    )
    assert code == status, said
    assert peak < limit * MB
    assert not status or "pass --memory-limit" in said
