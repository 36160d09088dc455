"""Conversion to svmlight text: numbers come back bit by bit, lines are as they should be."""

import gc
import itertools
import json
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from cells import pairwise
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from typer.testing import CliRunner

from llsvm.block import CSR, Block
from llsvm.cli import app
from llsvm.convert import _text, convert
from llsvm.data import open_source
from llsvm.errors import DataError, UsageError
from llsvm.row_buffer import sparsify

BITS = hnp.arrays(np.uint32, st.integers(0, 60)).map(lambda bits: bits.view(np.float32))


@settings(deadline=None)
@given(
    values=BITS, labels=st.lists(st.sampled_from([-1.0, 0.0, 2.0, 0.5, 1e10, -3.25]), min_size=1, max_size=9)
)
def test_floats_come_back_bit_by_bit(tmp_path_factory, values, labels):
    values = values[np.isfinite(values)]
    cuts = np.sort(np.random.default_rng(len(values)).integers(0, len(values) + 1, len(labels) - 1))
    indptr = np.array([0, *cuts, len(values)], np.int64)
    indices = np.concatenate([np.arange(n) * 7 for n in np.diff(indptr)]).astype(np.int32)
    y = np.array(labels)
    path = tmp_path_factory.mktemp("text") / "rows.svm"
    path.write_bytes(_text(Block(CSR(indptr, indices, values), y, np.arange(len(y))), 1))
    (block,) = open_source(path, zero_based="no").blocks(1 << 20)
    np.testing.assert_array_equal(block.X.data.view(np.uint32), values.view(np.uint32))
    np.testing.assert_array_equal(block.X.indices, indices + 1)
    np.testing.assert_array_equal(block.X.indptr, indptr)
    np.testing.assert_array_equal(block.y, y)


def test_means_are_refused(tmp_path):
    words = ["convert", str(tmp_path / "rows.csv"), str(tmp_path / "out.h5"), "--missing", "mean"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "means are learned in training" in done.output


@pytest.mark.parametrize("dense", [True, False])
def test_the_text_as_it_is(dense):
    X = np.array([[0, 0.1, 1], [0, 0, 0], [-2.5, 0, 1e-7]], np.float32)
    y = np.array([1.0, -1.0, 0.5])
    if not dense:
        X = CSR(
            np.array([5, 7, 7, 9]),
            np.array([9] * 5 + [1, 2, 0, 2], np.int32),
            np.r_[[8.0] * 5, X[X != 0]].astype("f4"),
        )
    assert _text(Block(X, y, np.arange(3)), 1) == b"1 2:0.1 3:1\n-1\n0.5 1:-2.5 3:1e-7\n"


KINDS = ("svm", "parquet", "arrow", "h5")
SOURCES = {
    "from_1.svm": "1 1:0.5 4:-2\n-1 2:3\n1\n-1 1:1 2:0.125 5:7\n",
    "from_0.svm": "1 0:0.5 4:-2\n-1 2:3\n1\n-1 1:1 2:0.125 5:7\n",
    "dense.csv": "a,b,y\n0.5,1,1\n-1,2,2\n3,0,1\n",
    "words.csv": "a,b,y\n0.5,1,yes\n-1,2,no\n3,0,yes\n",
}


def content(path):
    """Rows as dictionaries of column, from 0, to value; and labels."""
    source = open_source(path)
    blocks = list(source.blocks(1 << 20))
    base, rows, labels = source.info().index_base, [], []
    for block in blocks:
        X = block.X if isinstance(block.X, CSR) else sparsify(block.X)
        for a, b in itertools.pairwise(X.indptr.tolist()):
            cells = zip((X.indices[a:b] - base).tolist(), X.data[a:b].tolist(), strict=True)
            rows.append({column: value for column, value in cells if value})
        labels += block.y.tolist()
    return rows, labels


@pytest.mark.parametrize(("name", "first", "second"), pairwise(SOURCES, KINDS, KINDS))
def test_what_it_writes_it_reads(tmp_path, name, first, second):
    start = tmp_path / name
    start.write_text(SOURCES[name])
    once, twice = tmp_path / f"once.{first}", tmp_path / f"twice.{second}"
    convert(open_source(start), once)
    convert(open_source(once), twice)
    assert content(once) == content(twice) == content(start)


@pytest.mark.parametrize("label", ["two words", "a:b", "a,b", "a#b", "12x34\x01", "٣"])
def test_labels_that_svmlight_cannot_hold(tmp_path, label):
    X, y = np.eye(3, dtype=np.float32), np.array(["good", label, "good"])
    with pytest.raises(DataError, match=r"the label .* is text, but would not be so in svmlight.*rename it"):
        convert(open_source(X, y), tmp_path / "refused.svm")
    assert not (tmp_path / "refused.svm").exists()


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_an_error_in_a_later_row_closes_what_was_begun(tmp_path, monkeypatch, suffix):
    """Nothing else is told: a writer that is closed after its file has an error of its own."""
    path, output, told = tmp_path / "rows.csv", tmp_path / f"refused.{suffix}", []
    path.write_text('y,t\n0,one\n1,two\n1,"open')
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with pytest.raises(DataError, match="ends within quotes"):
        convert(open_source(path, options={"label": "y", "categorical": ("t",)}), output)
    gc.collect()
    assert told == []
    assert not output.exists()


def test_a_late_refusal_says_what_standard_output_has_had(tmp_path):
    path = tmp_path / "rows.csv"
    rows = [f"{i % 7}.5,{i % 2}\n" for i in range(300_000)]
    path.write_text("x,y\n" + "".join(rows) + "oops,1\n")
    words = [sys.executable, "-P", "-m", "llsvm", "convert", str(path), "-", "--label", "y"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    n_rows = done.stdout.count("\n")
    assert n_rows > 0
    assert f"; {n_rows:,} rows before it were written to standard output" in done.stderr.replace("\n", " ")


def test_a_pipe_must_say_how_its_indices_count(tmp_path, monkeypatch):
    start = tmp_path / "rows.svm"
    start.write_text(SOURCES["from_1.svm"])
    with start.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        with pytest.raises(UsageError, match="zero_based"):
            convert(open_source("-"), tmp_path / "out.svm")
    with start.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        convert(open_source("-", zero_based="no"), tmp_path / "out.svm")
    assert content(tmp_path / "out.svm") == content(start)


@pytest.mark.parametrize("output", ["-", "/dev/stdout"])
def test_standard_output_has_rows_alone(output, tmp_path):
    (tmp_path / "rows.csv").write_text("x,y\n1,0\n2,1\n")
    command = [
        sys.executable,
        "-m",
        "llsvm",
        "convert",
        "rows.csv",
        output,
        "--to",
        "svmlight",
        "--label",
        "y",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "0 1:1\n1 1:2\n"
    assert f"2 rows written to {output}" in done.stderr


def test_a_wide_table_that_is_read_in_small_blocks_has_few_row_groups(tmp_path):
    """What describes the columns of each group is held to the end of the file."""
    X = np.random.default_rng(0).normal(size=(1200, 1500)).round(4)
    names = [f"c{j}" for j in range(1500)]
    lines = (
        json.dumps(dict(zip(names, row, strict=True)) | {"y": i % 2}) for i, row in enumerate(X.tolist())
    )
    (tmp_path / "wide.jsonl").write_text("\n".join(lines))
    out = tmp_path / "wide.parquet"
    words = [tmp_path / "wide.jsonl", out, "--label", "y", "--memory-limit", "420MB"]
    subprocess.run([sys.executable, "-m", "llsvm", "convert", *map(str, words)], check=True)
    file = pq.ParquetFile(out)
    assert file.num_row_groups <= 4
    np.testing.assert_array_equal(file.read(names).to_pandas().to_numpy(), X)


def test_codes_that_lose_their_zeros_in_a_copy_are_told_of(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("plz,x,y\n01067,1,a\n80331,2,b\n04109,3,a\n")
    done = CliRunner().invoke(app, ["convert", str(path), str(tmp_path / "rows.parquet")])
    assert done.exit_code == 0
    assert (
        "values such as '01067' are read as numbers; pass --categorical plz if they are codes" in done.stderr
    )
    kept = CliRunner().invoke(
        app, ["convert", str(path), str(tmp_path / "kept.parquet"), "--categorical", "plz"]
    )
    assert "01067" not in kept.stderr
    assert pq.read_table(tmp_path / "kept.parquet")["plz"].to_pylist() == ["01067", "80331", "04109"]


TOWNS = "town,x,y\noslo,1,a\nlima,2,b\noslo,3,a\n"


@pytest.mark.parametrize("suffix", ["svm", "h5"])
def test_categories_that_are_numbered_by_their_order_are_told_of(tmp_path, suffix):
    """A second file with another order would be scored with the columns of other categories."""
    path = tmp_path / "rows.csv"
    path.write_text(TOWNS)
    words = ["convert", str(path), str(tmp_path / f"rows.{suffix}"), "--label", "y"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0
    assert "the values of town become columns in the order in which these rows have them" in done.stderr
    assert "convert all data in one call, or pass --hash-bits 18" in done.stderr
    assert "the order" not in CliRunner().invoke(app, [*words, "--hash-bits", "4"]).stderr
    assert "the order" not in CliRunner().invoke(app, [*words, "--features", "x"]).stderr


def test_a_table_that_stays_one_has_no_note_of_numbering(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(TOWNS)
    words = ["convert", str(path), str(tmp_path / "rows.parquet"), "--label", "y"]
    assert "the order" not in CliRunner().invoke(app, words).stderr
    assert "the values of town" in CliRunner().invoke(app, [*words, "--text", "town"]).stderr


def test_names_of_vw_that_are_numbered_by_their_order_are_told_of(tmp_path):
    (tmp_path / "rows.vw").write_text("1 |a x:1 y\n-1 |a y z\n")
    done = CliRunner().invoke(app, ["convert", str(tmp_path / "rows.vw"), str(tmp_path / "rows.svm")])
    assert "rows.vw: features become columns in the order" in done.stderr


def test_a_missing_value_is_offered_what_convert_takes(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,y\n1,2,1\n1,,0\n")
    words = ["convert", str(tmp_path / "t.csv"), str(tmp_path / "t.svm"), "--label", "y"]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 3
    assert "pass --missing zero, or leave the column out" in told.output
    assert CliRunner().invoke(app, [*words, "--missing", "zero"]).exit_code == 0
