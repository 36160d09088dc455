"""Fingerprints: checksums of what was read of a file, the same however it is read, and other for other contents."""

import io
import os
import sys

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from format_files import OPTIONS, WRITERS, rows, table, write
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.cli.inspect import describe_model
from llsvm.data import open_source
from llsvm.errors import DataError
from llsvm.files import fingerprint
from llsvm.files.fingerprint import Checksum, FileFingerprint, Reading, files_summary

KINDS = sorted(WRITERS)
X, Y = rows(1500)
PLENTY = 1 << 24
LIMIT = "2GB"
GOLDEN, WORD = 0x9E3779B97F4A7C15, 2**64


def slow_checksum(data):
    total = 0
    for i in range(0, len(data), 8):
        word = int.from_bytes(data[i : i + 8], "little")
        mixed = word ^ (i // 8 + 1) * GOLDEN % WORD
        total += (mixed % 2**32) * (mixed >> 32) + word
    return total % WORD


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 64, 1003])
def test_checksum(n):
    """As the slow twin, however the bytes are cut; any byte changed, and any two words swapped, are seen."""
    rng = np.random.default_rng(n)
    data = rng.integers(0, 256, n, np.uint8)
    for cuts in ([], [0, 0], [1, 2, 3], rng.integers(0, n + 1, 20)):
        checksum = Checksum()
        with np.errstate(over="ignore"):  # without the compiler
            for piece in np.split(data, sorted(min(cut, n) for cut in cuts)):
                checksum.add(piece)
                assert checksum.value == checksum.value  # looking changes nothing
        assert checksum.value == slow_checksum(data.tobytes())
        assert checksum.n_bytes == n
    for k in range(n):
        changed = data.copy()
        changed[k] ^= 1 << rng.integers(8)
        assert slow_checksum(changed.tobytes()) != checksum.value
    for k in range(0, n - 16, 8):
        swapped = np.r_[data[:k], data[k + 8 : k + 16], data[k : k + 8], data[k + 16 :]]
        assert slow_checksum(swapped.tobytes()) != checksum.value


def test_changes_that_sums_do_not_see():
    """Signs of two labels, and of any two values of a column."""
    y = np.where(np.arange(400) % 3, 1.0, -1.0)
    seen = {slow_checksum(y.tobytes())}
    for i, j in ((0, 2), (0, 64), (3, 7), (10, 266)):
        flipped = y.copy()
        flipped[[i, j]] *= -1
        seen.add(slow_checksum(flipped.tobytes()))
    assert len(seen) == 5


def prints(path, kind="svm", max_bytes=PLENTY, **options):
    source = open_source(path, options=OPTIONS.get(kind, {}), **options)
    assert source.info().fingerprints is None
    for i, _ in enumerate(source.blocks(max_bytes)):
        if i == 0:
            assert (
                max_bytes == PLENTY or source.info().fingerprints is None
            )  # a part is not known as the whole
    return source.info().fingerprints


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_however_a_file_is_read(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(fingerprint, "CHUNK_BYTES", 10_000)
    path = write(tmp_path, kind, X, Y)
    (found,) = prints(path, kind)
    assert found.path == str(path)
    assert found.n_bytes == path.stat().st_size
    assert sum(len(checksums) for _, checksums in found.parts) >= 8
    for max_bytes in (3000, 20_000):
        assert prints(path, kind, max_bytes) == (found,)
    assert prints(path, kind, threads=2) == (found,)
    again = tmp_path / "again"
    again.mkdir()
    (other,) = prints(write(again, kind, X, Y), kind)
    assert (other.digest == found.digest) == (other.n_bytes == found.n_bytes and other.parts == found.parts)
    changed = X.copy()
    changed[-1, -1] += 1
    (other,) = prints(write(again, kind, changed, Y), kind)
    assert other.digest != found.digest
    assert other.parts != found.parts


@pytest.mark.parametrize("kind", ["svm", "csv", "jsonl", "vw", "svm.gz"])
def test_of_text_they_are_of_the_stored_bytes(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(fingerprint, "CHUNK_BYTES", 10_000)
    path = write(tmp_path, kind, X, Y)
    stored = path.read_bytes()
    sums = [slow_checksum(stored[i : i + 10_000]) for i in range(0, len(stored), 10_000)]
    (found,) = prints(path, kind)
    assert found.parts == (("bytes", b"".join(each.to_bytes(8, "little") for each in sums)),)


@pytest.mark.parametrize("kind", ["svm", "csv", "jsonl", "vw", "svm.gz", "csv.gz", "jsonl.gz"])
def test_of_standard_input_they_are_of_what_came(tmp_path, monkeypatch, kind):
    path = write(tmp_path, kind, X, Y)
    (of_file,) = prints(path, kind)
    with path.open("rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        (found,) = prints("-", kind, max_bytes=5000, format=kind.split(".")[0].replace("svm", "svmlight"))
    assert found.path == "-"
    assert found.digest == of_file.digest


def test_every_file_has_its_own(tmp_path):
    paths = [write(tmp_path, kind, X, Y) for kind in ("svm", "svm.gz")]
    tables = [write(tmp_path, kind, X, Y) for kind in ("csv", "csv.gz")]
    for files in (paths, tables):
        found = prints(files)
        assert [each.path for each in found] == list(map(str, files))
        assert found == sum((prints(file) for file in files), ())


def test_labels_in_a_file_of_their_own(tmp_path):
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", Y)
    source = open_source(tmp_path / "X.npy", options={"label": str(tmp_path / "y.npy")})
    list(source.blocks(PLENTY))
    assert [os.path.basename(each.path) for each in source.info().fingerprints] == ["X.npy", "y.npy"]


def test_arrays_have_none():
    source = open_source(X, Y)
    list(source.blocks(PLENTY))
    assert source.info().fingerprints is None


def test_only_columns_that_are_read_count(tmp_path):
    """Of formats stored by columns."""
    for kind, put in (("parquet", pq.write_table), ("arrow", write_arrow)):
        path, other = tmp_path / f"a.{kind}", tmp_path / f"b.{kind}"
        put(table(X, Y), path)
        changed = X.copy()
        changed[:, 3] += 1
        put(table(changed, Y), other)
        found = []
        for each in (path, other):
            source = open_source(each, options={"exclude": ("x3",)})
            list(source.blocks(PLENTY))
            found.append(source.info().fingerprints[0].parts)
        assert found[0] == found[1]


def write_arrow(rows, path):
    with ipc.new_file(path, rows.schema) as out:
        out.write_table(rows, max_chunksize=500)


def test_dictionaries_count(tmp_path):
    found = []
    for words in (["red", "blue"], ["red", "gold"]):
        colour = pa.DictionaryArray.from_arrays(pa.array(np.arange(1500) % 2, pa.int32()), pa.array(words))
        path = tmp_path / f"{words[1]}.arrow"
        write_arrow(table(X, Y).append_column("colour", colour), path)
        found.append(prints(path)[0].parts)
    assert found[0] != found[1]


# -- a second reading -------------------------------------------------------------------------------------


def as_parquet(path, X, y):
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(table(X, y), path, row_group_size=500, **plain)


def as_hdf5(path, X, y):
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = X, y


STORED_PLAIN = {
    "svm": (WRITERS["svm"], b"1:3.12", b"1:4.12", "bytes 10,000 to 20,000"),
    "csv": (WRITERS["csv"], b"3.12", b"4.12", "bytes 10,000 to 20,000"),
    "parquet": (as_parquet, None, None, "row group 1"),
    "arrow": (lambda path, X, y: write_arrow(table(X, y), path), None, None, "record batch 1"),
    "h5": (as_hdf5, None, None, "X, bytes 10,000 to 20,000"),
    "npy": (WRITERS["npy"], None, None, "the array, bytes 10,000 to 20,000"),
}


@pytest.mark.parametrize("max_bytes", [3000, PLENTY])
@pytest.mark.parametrize("kind", sorted(STORED_PLAIN))
def test_other_contents_of_the_same_size_and_time_are_noticed(tmp_path, monkeypatch, kind, max_bytes):
    monkeypatch.setattr(fingerprint, "CHUNK_BYTES", 10_000)
    put, before, after, place = STORED_PLAIN[kind]
    path = tmp_path / f"rows.{kind}"
    put(path, marked(kind), Y)
    source = open_source(path, options=OPTIONS.get(kind, {}))
    for _ in range(2):  # as it is, it may be read any number of times
        assert sum(block.n_rows for block in source.blocks(max_bytes)) == len(Y)
    status = path.stat()
    stored = path.read_bytes()
    before = np.float32(3.123).tobytes() if before is None else before
    after = np.float32(4.123).tobytes() if after is None else after
    assert stored.count(before) == 1
    with path.open("r+b") as file:
        file.write(stored.replace(before, after))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    with pytest.raises(DataError, match=rf"{path}: the file changed while it was in use \({place} is not"):
        list(source.blocks(max_bytes))


def marked(kind):
    """Rows with one 3.123, in the second chunk of the file, or of the array."""
    values = X.clip(-3, 3)
    values[500 if kind in ("parquet", "arrow") else {"svm": 110, "csv": 350}.get(kind, 400), 0] = 3.123
    return values


def test_a_file_that_gains_or_loses_chunks():
    first = Reading("f")
    first.add(bytes(100))
    first.add_chunk(7, "row group")
    known = first.finish(100)
    again = Reading("f", known)
    again.add_chunk(7, "row group")
    with pytest.raises(DataError, match=r"f: the file changed .*it ends before bytes 0 to"):
        again.finish(100)
    again = Reading("f", known)
    again.add_chunk(7, "row group")
    with pytest.raises(DataError, match="row group 1 is not what it was at first"):
        again.add_chunk(7, "row group")
    again = Reading("f", known)
    with pytest.raises(DataError, match="other, bytes 0 to 4,194,304 is not what it was at first"):
        again.add(bytes(1 << 22), "other")


# -- the model's memory of it -----------------------------------------------------------------------------


def test_a_model_says_what_it_was_trained_on(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    models = []
    for folder in (here, there):
        folder.mkdir()
        path = write(folder, "svm", X, Y)
        llsvm.train(path, output=folder / "m.llsvm", memory_limit=LIMIT, max_passes=3)
        models.append((folder / "m.llsvm").read_bytes())
    assert models[0] == models[1]  # wherever the data were
    model = llsvm.load(here / "m.llsvm")
    assert model.extra["trained_on"] == files_summary(prints(here / "rows.svm"))
    assert model.extra["trained_on"]["files"][0]["name"] == "rows.svm"
    assert describe_model(model)["extra"]["trained_on"]["n_bytes"] == (here / "rows.svm").stat().st_size
    shown = CliRunner().invoke(app, ["inspect", str(here / "m.llsvm")]).stdout
    assert f"fingerprint {model.extra['trained_on']['digest']}" in " ".join(shown.split())
    assert "trained_on" not in llsvm.train(X, Y, memory_limit=LIMIT, max_passes=3).extra


def test_a_summary_stays_small():
    many = [
        FileFingerprint(f"/data/part-{i}.svm", 10**9, (("bytes", bytes(8 * 250)),)) for i in range(10_000)
    ]
    told = files_summary(many)
    assert told["n_files"] == 10_000
    assert told["n_bytes"] == 10**13
    assert len(told["files"]) == 100
    assert len(str(told)) < 12_000
    assert told["digest"] != files_summary(many[:-1])["digest"]
    assert files_summary(None) is None
