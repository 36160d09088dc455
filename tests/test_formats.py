"""Every reader keeps the protocol, and the same rows give the same optimum in every format."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from format_files import OPTIONS, WRITERS, rows, write
from source_suite import PLENTY, SourceSuite, assert_same, joined

import llsvm
from llsvm.block import CSR, concat
from llsvm.data import format_of, open_source
from llsvm.errors import DataError
from llsvm.train import train

X, Y = rows()


def opened(path, kind, **more):
    return open_source(path, options=OPTIONS.get(kind, {}), **more)


def dense_of(source):
    """(X, y) of a source as NumPy arrays."""
    whole = concat(list(source.blocks(PLENTY)))
    if not isinstance(whole.X, CSR):
        return whole.X, whole.y
    base = source.info().index_base
    out = np.zeros((whole.n_rows, source.info().n_features), np.float32)
    rows_of = np.repeat(np.arange(whole.n_rows), np.diff(whole.X.indptr))
    used = slice(whole.X.indptr[0], whole.X.indptr[-1])
    out[rows_of, whole.X.indices[used] - base] = whole.X.data[used]
    return out, whole.y


@pytest.mark.parametrize("kind", WRITERS)
class TestEveryFormat(SourceSuite):
    max_bytes = (1, 1000)

    @pytest.fixture
    def source(self, tmp_path, kind):
        few = slice(0, 60)
        return opened(write(tmp_path, kind, X[few], Y[few]), kind)

    def test_gives_the_rows_that_were_written(self, source):
        found, y = dense_of(source)
        np.testing.assert_array_equal(found, X[:60])
        np.testing.assert_array_equal(y, Y[:60])

    def test_counts_the_bytes_that_it_reads(self, source):
        joined(source, 500)
        assert 0 < source.bytes_read <= source.info().n_bytes


@pytest.fixture(scope="module")
def reference():
    return train(X, Y, tol=1e-8, bias=1.0, max_passes=5000)


@pytest.mark.parametrize("kind", WRITERS)
def test_same_optimum(tmp_path, kind, reference):
    path = write(tmp_path, kind, X, Y)
    model = train(path, tol=1e-8, scale="none", bias=1.0, max_passes=5000, **OPTIONS.get(kind, {}))
    ours, theirs = model.certificate.total_primal, reference.certificate.total_primal
    assert abs(ours - theirs) <= 1e-6 * theirs
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-3)


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "jsonl.gz", "h5", "arrows", "npz", "svm.gz"])
def test_the_first_bytes_tell_what_the_name_does_not(tmp_path, kind):
    path = write(tmp_path, kind, X, Y)
    nameless = path.rename(tmp_path / "nameless")
    found, _ = dense_of(open_source(nameless))
    np.testing.assert_array_equal(found, X)
    assert format_of(nameless) == open_source(nameless).info().format


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("1 1:0.5 7:2\n", "svmlight"),
        ("1\t1:0.5\t7:2\n", "svmlight"),
        ("# rows, of a, b\n\n-1 3:1 # a, b\n", "svmlight"),
        ("1,0 2:2.5\n", "svmlight"),
        ("", "svmlight"),
        ("a\tb\n1\t2\n", "csv"),
        ("a;b\n1,5;2\n", "csv"),
        ("a|b\n1|2\n", "csv"),
        ("1 |f a b\n", "svmlight"),
        ("|f a b\n", "svmlight"),
        ("1 0.5 'tag|f a b\n", "svmlight"),
        ("#a,b\n1,2\n", "csv"),
        ('{"a": 1}\n', "jsonl"),
    ],
)
@pytest.mark.parametrize("name", ["rows.txt", "rows.dat", "rows"])
def test_the_first_line_tells_what_a_name_for_any_text_does_not(tmp_path, name, text, format):
    (tmp_path / name).write_text(text)
    assert format_of(tmp_path / name) == format


@pytest.mark.parametrize(
    "kind", ["svm", "svm.gz", "vw", "csv", "jsonl.gz", "parquet", "feather", "h5", "h5ad", "npz"]
)
@pytest.mark.parametrize("how", ["list", "folder", "pattern"])
def test_several_files_are_one(tmp_path, kind, how):
    folder = tmp_path / "parts"
    for i, part in enumerate((slice(0, 100), slice(100, 101), slice(101, 300))):
        (folder / str(i)).mkdir(parents=True)
        write(folder / str(i), kind, X[part], Y[part])
    for plain in folder.glob("*/plain.svm"):
        if kind != "svm":
            plain.unlink()
    if kind == "svm":
        for plain in folder.glob("*/plain.svm"):
            plain.unlink()
    data = {
        "list": [folder / str(i) / f"rows.{kind}" for i in range(3)],
        "folder": folder,
        "pattern": str(folder / "*" / "rows.*"),
    }[how]
    source = opened(data, kind)
    for max_bytes in (500, PLENTY):
        blocks = list(source.blocks(max_bytes))
        np.testing.assert_array_equal(np.concatenate([b.rows for b in blocks]), np.arange(300))
    found, y = dense_of(source)
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(y, Y)
    assert source.info().n_rows == 300


@pytest.mark.parametrize("kind", ["npy", "npz"])
@pytest.mark.parametrize("max_bytes", [1, 3000, PLENTY])
def test_matrices_stored_by_columns(tmp_path, kind, max_bytes):
    """As pandas hands its values out."""
    path = tmp_path / f"rows.{kind}"
    if kind == "npy":
        np.save(path, np.asfortranarray(np.c_[X, Y].astype(np.float32)))
    else:
        np.savez(path, a=np.arange(9), X=np.asfortranarray(X), y=Y[:, None])
    source = open_source(path, options={"label": "last"} if kind == "npy" else {})
    found = concat(list(source.blocks(max_bytes)))
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.y, Y)
    if kind == "npz":
        np.savez_compressed(path, X=np.asfortranarray(X), y=Y)
        with pytest.raises(DataError, match="compressed and stored by columns"):
            open_source(path)


def test_hdf5_labels_in_a_matrix_of_one_column(tmp_path):
    import h5py

    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["y"] = X, Y[:, None]
    found, y = dense_of(open_source(tmp_path / "rows.h5"))
    np.testing.assert_array_equal(found, X)
    np.testing.assert_array_equal(y, Y)


def test_names_of_partitions_are_decoded(tmp_path):
    """As pyarrow, Spark and Hive write them; a missing value is missing."""
    import pyarrow.parquet as pq

    places = ["a/b c", None, "ü=1", "a/b c"]
    table = pa.table({"x": [1.0, 2.0, 3.0, 4.0], "place": places, "label": [0, 1, 0, 1]})
    pq.write_to_dataset(table, tmp_path, partition_cols=["place"])
    with pytest.raises(DataError, match="column place: the value is missing in row 1; pass missing"):
        dense_of(open_source(tmp_path))
    source = open_source(tmp_path, options={"missing": "zero"})
    found, _ = dense_of(source)
    names = source.info().feature_names
    assert set(names) == {"x", "place=a/b c", "place=ü=1"}
    expected = {
        x: [float(f"place={place}" == name) for name in names[1:]]
        for x, place in zip([1, 2, 3, 4], places, strict=True)
    }
    assert {row[0]: row[1:].tolist() for row in found} == expected


def test_a_partition_of_one_value_counts_where_it_is_named(tmp_path):
    """As each January has it: the year is a column already, for whom asks for it."""
    table = pa.table({"x": range(40), "y": ["p", "q"] * 20, "year": [2024] * 40, "month": [1, 2] * 20})
    pq.write_to_dataset(table, tmp_path, partition_cols=["year", "month"])
    assert list(llsvm.train(tmp_path, label="y").feature_names) == ["x", "month"]
    for options, names in (
        ({"where": "year == 2024"}, ["x", "year", "month"]),
        ({"features": ["x", "year"]}, ["x", "year"]),
        ({"where": "year == 2024", "exclude": ["year"]}, ["x", "month"]),
        ({"categorical": ["year"]}, ["x", "month", "year=2024"]),
    ):
        model = llsvm.train(tmp_path, label="y", **options)
        assert list(model.feature_names) == names
        assert llsvm.evaluate(model, tmp_path, label="y", by="year")["groups"][0]["rows"] == 40
    with pytest.raises(DataError):
        llsvm.train(tmp_path, label="y", where="year == 2025")


@pytest.mark.parametrize("label", ["part", "text"])
def test_partitions_as_labels(tmp_path, label):
    import pyarrow.parquet as pq

    values = Y.astype(int) if label == "part" else np.where(Y > 0, "yes", "no")
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "k": values})
    pq.write_to_dataset(table, tmp_path, partition_cols=["k"])
    found, y = dense_of(open_source(tmp_path, options={"label": "k"}))
    assert found.shape == (300, 2)
    assert sorted(y.tolist()) == sorted(values.tolist())


def test_partitions_become_columns(tmp_path):
    import pyarrow.parquet as pq

    for year in (2020, 2021):
        for country in ("fr", "de"):
            folder = tmp_path / f"year={year}" / f"country={country}"
            folder.mkdir(parents=True)
            pq.write_table(pa.table({"x": [1.0, 2.0], "label": [0, 1]}), folder / "part.parquet")
    source = open_source(tmp_path)
    found, _ = dense_of(source)
    assert source.info().feature_names == ("x", "year", "country=de", "country=fr")
    np.testing.assert_array_equal(found[0], [1, 2020, 1, 0])
    np.testing.assert_array_equal(found[-1], [2, 2021, 0, 1])


@pytest.mark.parametrize("options", [{}, {"categorical": ("region",)}])
def test_partitions_that_are_categories_keep_their_spelling(tmp_path, options):
    """``01`` is a category of its own, whether or not a name stands beside it in the data at hand."""
    import pyarrow.parquet as pq

    from llsvm.scoring.sources import open_for
    from llsvm.train import train

    for region in ("01", "02", *([] if options else ["XX"])):
        folder = tmp_path / f"region={region}"
        folder.mkdir()
        x = [1.0, 2.0, 3.0]
        pq.write_table(
            pa.table({"x": x, "label": np.roll([0, 1, 1], int(region == "01"))}), folder / "p.parquet"
        )
    model = train(str(tmp_path), memory_limit="2GB", threads=1, **options)
    assert set(model.feature_names[1:]) == {f"region={folder.name[7:]}" for folder in tmp_path.iterdir()}
    one = tmp_path / "region=01"
    (block,) = open_for(model, str(one)).blocks(1 << 20)
    assert block.X.indices.reshape(3, 2)[:, 1].tolist() == [model.feature_names.index("region=01")] * 3


@pytest.mark.parametrize("kind", ["csv", "parquet", "svm", "h5", "npz"])
def test_addresses_are_read_through_file_systems(tmp_path, kind):
    path = write(tmp_path, kind, X, Y)
    found, _ = dense_of(open_source(f"file://{path}"))
    np.testing.assert_array_equal(found, X)


def test_one_huge_row_group_is_read_in_slices(tmp_path):
    import pyarrow.parquet as pq

    big, y = rows(5000, 20)
    path = tmp_path / "big.parquet"
    from format_files import table

    pq.write_table(table(big, y), path, row_group_size=10_000)
    blocks = list(open_source(path).blocks(10_000))
    assert max(block.nbytes for block in blocks) <= 10_000
    np.testing.assert_array_equal(np.concatenate([block.X for block in blocks]), big)


@pytest.mark.parametrize("kind", ["svm", "csv"])
def test_standard_input(tmp_path, kind):
    import subprocess
    import sys

    path = write(tmp_path, kind, X, Y)
    code = (
        "import sys; from llsvm.train import train\n"
        "m = train('-', format=sys.argv[1], tol=1e-6, cache='auto', scale='none', bias=1.0, max_passes=2000)\n"
        "print(repr(m.certificate.total_primal))"
    )
    for text in (path.read_bytes(),):
        run = subprocess.run(
            [sys.executable, "-c", code, "svmlight" if kind == "svm" else "csv"],
            input=text,
            capture_output=True,
            check=True,
        )
    expected = train(X, Y, tol=1e-6, bias=1.0, max_passes=2000).certificate.total_primal
    assert float(run.stdout) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", ["svm.gz", "csv", "csv.gz", "jsonl", "vw"])
def test_standard_input_may_follow_a_file(kind, tmp_path, monkeypatch):
    path, format = write(tmp_path, kind, X, Y), kind.split(".")[0].replace("svm", "svmlight")
    twice = joined(open_source([path, path], format=format))
    with open(path, "rb") as file:
        monkeypatch.setattr(sys, "stdin", file)
        source = open_source([path, "-"], format=format)
        assert_same(joined(source), twice)
        with pytest.raises(DataError, match="standard input can be read once only"):
            joined(source)


_ROWS = {
    "jsonl": '{"label": %d, "when": "2024-01-%02d"}\n',
    "csv": "%d,2024-01-%02d\n",
    "svm": "%de0 1:%d\n",
}


@pytest.mark.parametrize("kind", _ROWS)
def test_a_byte_order_mark_does_not_hide_that_the_first_megabyte_is_cut(kind, tmp_path):
    line, header = _ROWS[kind], "label,when\n" if kind == "csv" else ""
    text = header + "".join(line % (i % 2, i % 28 + 1) for i in range(1_400_000 // len(line)))
    options = {} if kind == "svm" else {"label": "label"}
    for blank in range(10):  # lines, so that the megabyte ends at different places of a row
        path, marked = tmp_path / f"{blank}.{kind}", tmp_path / f"marked{blank}.{kind}"
        path.write_text("\n" * blank + text)
        marked.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        assert_same(*(joined(open_source(each, options=options)) for each in (marked, path)))
