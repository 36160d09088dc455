"""Bad input of each format is refused with file, place and remedy."""

import gzip
import pickle
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from format_files import OPTIONS, rows, table, write

import llsvm
from llsvm.data import arrow, open_source
from llsvm.errors import DataError
from llsvm.memory.budget import opening_under

X, Y = rows(2000)
PLENTY = 1 << 20


def refusal(path, **options):
    """What is said against a file, by the reader or in a pass; it names the file."""
    with pytest.raises(DataError) as error:
        for _ in open_source(path, options=options).blocks(PLENTY):
            pass
    text = str(error.value)
    assert str(path) in text
    return text


def csv(tmp_path, *lines):
    path = tmp_path / "bad.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


OTHER_KINDS = {
    "ZIP": b"PK\x03\x04\x14\x00",
    "Excel": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    "7z": b"7z\xbc\xaf\x27\x1c\x00\x04",
    "SQLite": b"SQLite format 3\x00",
    "Avro": b"Obj\x01\x04\x14avro.codec",
    "MATLAB": b"MATLAB 5.0 MAT-file, Platform",
    "pickle": pickle.dumps({"X": [1, 2]}),
    "PDF": b"%PDF-1.7\n",
    "image": b"\x89PNG\r\n\x1a\n",
    "web page": b"<!DOCTYPE html>\n<html>",
    "Parquet": b"PAR1\x15\x04\x15",
    "HDF5": b"\x89HDF\r\n\x1a\n",
    "NumPy": b"\x93NUMPY\x01\x00",
}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("what", OTHER_KINDS)
@pytest.mark.parametrize("kind", ["csv", "svm", "jsonl", "vw", "csv.gz"])
def test_what_is_no_text_is_called_by_its_name(tmp_path, kind, what, named):
    path = tmp_path / f"rows.{kind}"
    content = OTHER_KINDS[what] + bytes(range(256)) * 10
    path.write_bytes(gzip.compress(content) if kind.endswith("gz") else content)
    if kind == "svm" and not named and what in ("ZIP", "Parquet", "HDF5", "NumPy"):
        pytest.skip("the first bytes tell the format")
    options = {"format": {"svm": "svmlight"}.get(kind, kind.removesuffix(".gz"))} if named else {}
    with pytest.raises(DataError, match=f"rows.{kind}: this is an? .*{what}"):
        open_source(path, **options)


@pytest.mark.parametrize("name", ["a.csv.zip", "a.zip", "book.xlsx", "a.npz"])
def test_zip_archives_without_arrays(tmp_path, name):
    with zipfile.ZipFile(tmp_path / name, "w") as archive:
        archive.writestr("xl/workbook.xml" if name == "book.xlsx" else "a.csv", "x,y\n1,0\n")
    said = refusal(tmp_path / name)
    with pytest.raises(DataError) as of_text:  # with --text, too
        open_source(tmp_path / name, options={"text": ["x"]})
    assert str(of_text.value) == said
    assert "this is a ZIP archive without arrays of NumPy, or an Excel workbook" in said
    assert "workbook.xml" in said or "a.csv" in said


def test_carriage_returns_alone(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_bytes(b"1 1:1\r-1 2:1\r1 1:2\r")
    assert "lines end with carriage returns alone" in refusal(path)


@pytest.mark.parametrize(
    "kind",
    [
        "parquet",
        "feather",
        "h5",
        "npy",
        "npz",
        "scipy.npz",
        "svm.gz",
        "svm.bz2",
        "svm.xz",
        "svm.zst",
        "svm.lz4",
        "csv.gz",
    ],
)
@pytest.mark.parametrize("share", [0.2, 0.6, 0.99])
def test_a_file_cut_off(tmp_path, kind, share):
    path = write(tmp_path, kind, X, Y)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    assert "cut off" in refusal(path, **OPTIONS.get(kind, {}))


PLACES = {  # what is said of a file that is damaged in its middle
    "parquet": "row groups 0 to 1, rows 1 to 2,000",
    "arrows": "record batch 2",
    "h5": "X: rows or values",
    "npz": "X: rows or values",
    "svm.gz": "near byte",
}


@pytest.mark.parametrize("kind", PLACES)
def test_damage_has_a_place_and_a_remedy(tmp_path, kind):
    path = write(tmp_path, kind, X, Y)
    if kind == "parquet":
        pq.write_table(table(X, Y), path, row_group_size=1000, write_page_checksum=True)
    whole = bytearray(path.read_bytes())
    if kind == "arrows":
        del whole[len(whole) // 10 :]
    elif kind == "h5":
        with h5py.File(path) as file:
            middle = file["X"].id.get_chunk_info(30).byte_offset + 20
        whole[middle : middle + 40] = bytes(40)
    else:
        middle = len(whole) * 3 // 4
        whole[middle : middle + 40] = bytes(40)
    path.write_bytes(whole)
    text = refusal(path)
    assert PLACES[kind] in text
    assert "fetch or write" in text
    assert "\n" not in text


NAMES = {"parquet": "parquet", "feather": "arrow"}


@pytest.mark.parametrize("kind", NAMES)
def test_a_file_without_its_end_says_where_it_ends(tmp_path, kind):
    path = write(tmp_path, kind, X, Y)
    path.write_bytes(path.read_bytes()[:12_345])
    assert f"ends at byte 12,345 without the footer that {NAMES[kind]} files end with" in refusal(path)


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("n_bytes", [20, 100, 12_345])
def test_a_file_without_its_end_is_no_matter_of_memory(tmp_path, kind, n_bytes):
    path = write(tmp_path, kind, X, Y)
    path.write_bytes(path.read_bytes()[: n_bytes - 10] + b"\x7f" * 10)
    with opening_under(10**9):
        assert "cut off" in refusal(path)


def test_a_file_of_another_format(tmp_path):
    path = tmp_path / "rows.parquet"
    path.write_bytes(gzip.compress(write(tmp_path, "vector.parquet", X, Y).read_bytes()))
    assert "not a parquet file, by its first bytes b'\\x1f\\x8b" in refusal(path)
    assert "unpack it" in refusal(path)


def test_npy_says_after_which_row_it_ends(tmp_path):
    path = write(tmp_path, "npy", X, Y)
    path.write_bytes(path.read_bytes()[: 128 + 1234 * 32 + 5])
    assert "of shape (2000, 8) ends after 1,234 rows" in refusal(path, label="last")


@pytest.mark.parametrize("encoding", ["latin1", "utf-16"])
@pytest.mark.parametrize("far", [False, True])
def test_text_that_is_not_utf8(tmp_path, encoding, far):
    path = tmp_path / "rows.csv"
    body = "1,Rome,0\n" * (200_000 if far else 2)
    path.write_bytes(f"a,town,label\n{body}1,Zürich,1\n".encode(encoding))
    text = refusal(path)
    assert "UTF-8" in text
    assert "encoding" in text
    if encoding == "latin1" and not far:
        assert f"{path}:4: byte 0xfc" in text


@pytest.mark.parametrize("kind", ["parquet", "feather", "h5", "npz", "svm.gz", "csv", "jsonl", "vw"])
def test_an_empty_file(tmp_path, kind):
    path = tmp_path / f"empty.{kind}"
    path.write_bytes(b"")
    refusal(path)


@pytest.mark.parametrize("kind", ["parquet", "feather", "h5", "npz", "svm.gz", "csv", "jsonl", "vw"])
def test_no_such_file(tmp_path, kind):
    assert "No such file" in refusal(tmp_path / f"none.{kind}")


def test_csv_with_a_short_row_in_the_middle(tmp_path):
    path = csv(tmp_path, "a,b,label", *["1,2,0"] * 500, "1,1", *["3,4,1"] * 500)
    text = refusal(path)
    assert f"{path}:502: 2 values, where 3 are expected" in text


def test_csv_with_text_in_a_numeric_column(tmp_path):
    n = 200_000  # beyond the first megabyte
    path = csv(tmp_path, "a,b,label", *["1,2,0"] * n, "1,oops,1")
    text = refusal(path)
    assert f"{path}:{n + 2}: column b: 'oops' is not a number" in text
    assert "(categorical b)" in text


def test_csv_with_a_quote_that_is_never_closed(tmp_path):
    path = csv(tmp_path, "a,b,label", "1,2,0", '"1,2,0', *["1,2,0"] * 500_000)
    refusal(path)


def test_csv_with_a_column_twice(tmp_path):
    path = csv(tmp_path, "a,b,a,label", "x,2,3,1")
    assert "two columns are named 'a'" in refusal(path, label="label", header="yes")


@pytest.mark.parametrize("option", ["label", "weight"])
def test_a_column_that_does_not_exist(tmp_path, option):
    path = csv(tmp_path, "a,b,label", "1,2,0")
    text = refusal(path, **{option: "colour"})
    assert f"'colour' ({option})" in text
    assert "a, b, label" in text


def test_no_label_named(tmp_path):
    path = csv(tmp_path, "a,b,c", "1,2,0")
    assert "pass label" in refusal(path)


@pytest.mark.parametrize("option", ["features", "exclude"])
def test_a_pattern_without_columns(tmp_path, option):
    path = csv(tmp_path, "a,b,label", "1,2,0")
    assert "'z*'" in refusal(path, **{option: ("z*",)})


def test_missing_values_are_counted(tmp_path):
    path = csv(tmp_path, "a,b,label", "1,2,0", "1,,0", "1,3,1", "1,,1")
    text = refusal(path)
    assert "column b: the value is missing in row 2 (2 missing in that column)" in text
    assert "missing zero" in text


def test_a_missing_category_is_missing(tmp_path):
    path = csv(tmp_path, "a,b,label", "1,x,0", "1,,0", "1,y,1")
    assert "column b: the value is missing in row 2 (1 missing" in refusal(path)


def test_a_missing_label(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0], "label": pa.array([1, None])}), path)
    assert "row 2: column label: the label is missing" in refusal(path)


@pytest.mark.parametrize("value", [float("inf"), 1e300])
def test_values_too_large(tmp_path, value):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": [1.0, value], "label": [0, 1]}), path)
    assert "row 2: column a" in refusal(path)


@pytest.mark.parametrize("weight", [-1.0, float("nan")])
def test_bad_weights(tmp_path, weight):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0], "label": [0, 1], "w": [1.0, weight]}), path)
    assert "row 2: column w" in refusal(path, weight="w")


def test_sparse_lists_of_different_lengths(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(
        pa.table({"indices": [[0, 1], [2]], "values": [[1.0, 2.0], [3.0, 4.0]], "label": [0, 1]}), path
    )
    assert "row 2: 1 indices, but 2 values" in refusal(path)


def test_vectors_of_different_lengths(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"v": [[1.0, 2.0], [3.0]], "label": [0, 1]}), path)
    assert "row 2: column v: a list of length 1, where the first row's has 2" in refusal(path)


def test_an_empty_vector_in_the_first_row(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"v": pa.array([[], []], pa.list_(pa.float64())), "label": [0, 1]}), path)
    said = refusal(path)
    assert "row 1: column v: no list, or an empty one, in the first row" in said
    assert "exclude v" in said


def test_an_index_that_is_no_whole_number(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(
        pa.table({"x": [{"indices": i, "values": [3.0]} for i in ([0.0], [2.5])], "label": [0, 1]}), path
    )
    assert "row 2: index 2.5 with value 3; both must be finite, the index a whole number" in refusal(path)


def test_a_type_that_is_no_feature(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": pa.array([b"x", b"y"]), "label": [0, 1]}), path)
    assert "exclude a" in refusal(path)


def test_too_many_categories(tmp_path, monkeypatch):
    monkeypatch.setattr("llsvm.features.categories.MAX_CATEGORIES", 10)
    path = csv(tmp_path, "id,label", *[f"n{i},{i % 2}" for i in range(20)])
    text = refusal(path)
    assert "column id" in text
    assert "hash_bits" in text


def test_hdf5_with_mismatched_lengths(tmp_path):
    path = tmp_path / "rows.h5"
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = X, Y[:-1]
    assert "2000 rows in X, but labels of shape (1999,)" in refusal(path)


@pytest.mark.parametrize("short", ["data", "indices", "indptr"])
def test_hdf5_csr_with_mismatched_lengths(tmp_path, short):
    path = tmp_path / "rows.h5"
    S = sp.csr_matrix(X)
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["shape"] = S.shape
        for name in ("data", "indices", "indptr"):
            values = getattr(S, name)
            group[name] = values[:-1] if name == short else values
        file["y"] = Y
    refusal(path)


@pytest.mark.parametrize("break_", ["pointers", "column"])
def test_hdf5_csr_that_makes_no_sense(tmp_path, break_):
    path = tmp_path / "rows.h5"
    S = sp.csr_matrix(X)
    if break_ == "pointers":
        S.indptr[1000] = S.indptr[-1] + 5
        place = "row 1000: its row pointers"
    else:
        S.indices[S.indptr[1000]] = 99
        place = "row 1001: column index 99"
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["shape"] = (2000, 7)
        for name in ("data", "indices", "indptr"):
            group[name] = getattr(S, name)
        file["y"] = Y
    assert place in refusal(path)


@pytest.mark.parametrize("kind", ["h5", "npz"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_matrices_with_values_that_are_not_finite(tmp_path, kind, value):
    bad = X.copy()
    bad[1234, 5] = value
    assert "row 1235: the value in column 5" in refusal(write(tmp_path, kind, bad, Y))


@pytest.mark.parametrize("kind", ["h5", "npz"])
def test_a_wrong_name_of_an_array(tmp_path, kind):
    path = write(tmp_path, kind, X, Y)
    assert "'colour' (label)" in refusal(path, label="colour")
    assert "'colour' (features)" in refusal(path, features=("colour",))


def test_labels_that_floats_cannot_tell_apart(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0], "label": [1, 2**53 + 1]}), path)
    assert "row 2: column label: the label 9007199254740993 is too large" in refusal(path)


def test_sparse_npz_that_is_not_csr(tmp_path):
    np.save(tmp_path / "y.npy", Y)
    for kind in ("csc", "coo"):
        path = tmp_path / f"{kind}.npz"
        sp.save_npz(path, getattr(sp, f"{kind}_matrix")(X))
        assert f"stored as {kind}; save X.tocsr()" in refusal(path, label=str(tmp_path / "y.npy"))


def test_hdf5_features_with_three_dimensions(tmp_path):
    path = tmp_path / "rows.h5"
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = X[:, :, None], Y
    assert "X has shape (2000, 7, 1)" in refusal(path)


@pytest.mark.parametrize("format", ["parquet", "arrow", "hdf5", "numpy"])
def test_standard_input_is_for_text(format):
    with pytest.raises(DataError, match="standard input is for svmlight, VW, fastText, CSV and JSON Lines"):
        open_source("-", format=format)


def test_feather_of_the_first_version(tmp_path):
    path = tmp_path / "old.feather"
    path.write_bytes(b"FEA1" + bytes(100) + b"FEA1")
    assert "Feather version 1" in refusal(path)


def test_npz_of_objects(tmp_path):
    path = tmp_path / "rows.npz"
    np.savez(path, X=X, y=np.array(["a", 1, None] * 2, dtype=object))
    assert "objects" in refusal(path)


def test_one_of_several_files_is_cut_off(tmp_path):
    good, bad = tmp_path / "a.svm.gz", tmp_path / "b.svm.gz"
    whole = gzip.compress(b"1 1:1\n-1 2:1\n" * 1000)
    good.write_bytes(whole)
    bad.write_bytes(whole[:-20])
    with pytest.raises(DataError, match=r"b\.svm\.gz: gzip data that is cut off"):
        list(open_source([good, bad]).blocks(PLENTY))


def test_several_files_with_other_columns(tmp_path):
    first, second = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(table(X, Y), first)
    pq.write_table(table(X, Y).drop_columns(["x3"]), second)
    with pytest.raises(DataError, match=r"b\.parquet.*x3"):
        list(open_source([first, second]).blocks(PLENTY))


def test_a_label_that_never_occurs(tmp_path):
    path = write(tmp_path, "csv", X, Y)
    with pytest.raises(DataError, match=r"no row has the label 'spam' \(positive\); there are 0, 1"):
        list(open_source(path, positive="spam").blocks(PLENTY))


def test_an_arrow_file_that_another_program_begins_to_write_anew(tmp_path, monkeypatch):
    path = tmp_path / "rows.feather"
    feather.write_feather(pa.table({"x": [1.0, 2.0], "y": [0, 1]}), path)

    def sizes_and_gone(*args):
        sizes = sizes_of(*args)
        path.write_bytes(b"")
        return sizes

    sizes_of = arrow.sizes_of
    monkeypatch.setattr(arrow, "sizes_of", sizes_and_gone)
    with pytest.raises(DataError, match=r"rows\.feather: .*cut off or damaged"):
        llsvm.train(path, label="y")
