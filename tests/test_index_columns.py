"""What pandas keeps as the index of a frame is no feature, by whichever way it comes; what ``convert`` writes
trains to the same model as what it read."""

import itertools
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from cells import pairwise

import llsvm
from llsvm.convert import convert
from llsvm.data import open_source

pd = pytest.importorskip("pandas")

ROOM = {"memory_limit": "8GB", "threads": 1}


def frame(index):
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    made = pd.DataFrame({"x": x, "town": np.where(rng.random(200) < 0.5, "Oslo", "Lima"), "y": x > 0})
    made.index = index
    return made


NAMED = pd.Index(np.arange(200) * 7 + 1000, name="customer")
SEVERAL = pd.MultiIndex.from_arrays([np.arange(200) // 2, np.arange(200) % 2], names=["a", "b"])
UNNAMED = pd.Index(np.arange(200)[::-1])
DOORS = {
    "frame": lambda rows, folder: rows,
    "parquet": lambda rows, folder: (rows.to_parquet(folder / "rows.parquet"), str(folder / "rows.parquet"))[
        1
    ],
    "arrow": lambda rows, folder: (
        feather.write_feather(pa.Table.from_pandas(rows), str(folder / "rows.arrow"), "uncompressed"),
        str(folder / "rows.arrow"),
    )[1],
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("index", "names"), [(NAMED, ["customer"]), (SEVERAL, ["a", "b"]), (UNNAMED, None)])
def test_an_index_is_left_out_with_a_note(tmp_path, door, index, names):
    data = DOORS[door](frame(index), tmp_path)
    with pytest.warns(UserWarning, match="is an index, as pandas writes it: left out") as told:
        model = llsvm.train(data, label="y", **ROOM)
    assert model.feature_names == ("x", "town=Lima", "town=Oslo") or model.feature_names == (
        "x",
        "town=Oslo",
        "town=Lima",
    )
    for name in names or ["__index_level_0__"]:
        assert any(f"column {name} is an index" in str(each.message) for each in told)
    assert llsvm.evaluate(model, data)["accuracy"] > 0.9
    assert len(llsvm.predict(model, data)) == 200


@pytest.mark.parametrize("door", DOORS)
def test_an_index_that_is_asked_for_is_a_feature(tmp_path, door):
    data = DOORS[door](frame(NAMED), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = llsvm.train(data, label="y", features=["x", "customer"], **ROOM)
    assert model.feature_names == ("x", "customer")
    assert llsvm.evaluate(model, data)["accuracy"] > 0.9


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_index_with_the_name_of_a_column_does_not_take_its_place():
    rows = frame(pd.Index(np.arange(200), name="x"))
    model = llsvm.train(rows, label="y", **ROOM)
    assert model.feature_names[0] == "x"
    expected = llsvm.predict(model, rows.reset_index(drop=True))
    np.testing.assert_array_equal(llsvm.predict(model, rows), expected)


def written_twice(name):
    """The index of a frame, written as CSV and read again, is a column, which its readers name."""
    return frame(pd.RangeIndex(200)).reset_index(names=name)


@pytest.mark.parametrize(
    ("door", "type_", "name"),
    pairwise(
        [*DOORS, "csv", "jsonl", "in pieces", "an iterator", "polars", "arrow table"],
        ["numbers", "texts", "categories", "categories of numbers"],
        ["Unnamed: 0", ""],
    ),
)
def test_an_index_that_readers_of_csv_have_named(tmp_path, door, name, type_):
    """Of text, too, as of files of which all columns are read as text, or as categories; and nothing is said of it
    afterwards."""
    rows, data = written_twice(name), tmp_path / f"rows.{door}"
    rows = rows.astype(str) if type_ in ("texts", "categories") else rows
    if type_.startswith("categories"):
        rows = rows.astype({name: "category", "town": "category"})
    if door in DOORS:
        data = DOORS[door](rows, tmp_path)
    elif door == "csv":
        rows.to_csv(data, index=False)
    elif door == "jsonl":
        rows.to_json(data, orient="records", lines=True)
    elif door == "polars":
        data = pytest.importorskip("polars").from_pandas(rows.rename(columns={name: "i"})).rename({"i": name})
    elif door == "arrow table":
        data = pa.Table.from_pandas(rows)
    else:
        data = [rows[:90], rows[90:]]
    with pytest.warns(UserWarning, match="is an index, as pandas writes it: left out"):
        model = llsvm.train(iter(data) if door == "an iterator" else data, label="y", **ROOM)
    assert model.n_features_in_ == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(llsvm.predict(model, data)) == 200
        assert llsvm.evaluate(model, data)["accuracy"] > 0.9


@pytest.mark.parametrize("door", [*DOORS, "jsonl"])
def test_text_that_does_not_number_the_rows_is_a_feature(tmp_path, door):
    rows, data = written_twice("Unnamed: 0"), tmp_path / "rows.jsonl"
    rows["Unnamed: 0"] = [str(k // 2) for k in range(200)]
    if door == "jsonl":
        rows.to_json(data, orient="records", lines=True)
    else:
        data = DOORS[door](rows, tmp_path)
    assert llsvm.train(data, label="y", **ROOM).n_features_in_ == 4


def test_text_in_a_first_column_with_an_empty_name_is_a_feature():
    rows = frame(pd.RangeIndex(200))[["town", "x", "y"]].rename(columns={"town": ""})
    assert llsvm.train(rows, label="y", **ROOM).n_features_in_ == 3


def test_a_frame_without_an_index_of_its_own_has_no_note():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = llsvm.train(frame(pd.RangeIndex(200)), label="y", **ROOM)
    assert model.n_features_in_ == 3


@pytest.mark.parametrize(
    ("cells", "is_index"),
    [
        ([str(i) for i in range(40)], True),
        ([str(i) for i in range(40)][::-1], True),
        ([str(i // 2) for i in range(40)], False),
        (["Oslo", "Lima"] * 20, False),
        (["0.5", "1.5"] * 20, False),
        ([f"2024-01-{i % 20 + 1:02}" for i in range(40)], True),
        ([f"2024-01-{i % 20 + 1:02} 12:30:00" for i in range(40)], True),
    ],
)
def test_a_first_column_of_csv_without_a_name(tmp_path, cells, is_index):
    path = tmp_path / "rows.csv"
    path.write_text(",x,y\n" + "".join(f"{cell},{i % 7},{i % 2}\n" for i, cell in enumerate(cells)))
    source = open_source(str(path), options={"label": "y"})
    notes = " ".join(source.info().notes)
    assert ("0" in [column.name for column in source.info().encoder.columns]) != is_index
    assert ("column 0 is an index" in notes) == is_index


@pytest.mark.parametrize("with_index", [False, True])
def test_a_frame_whose_columns_have_no_names(tmp_path, with_index):
    """pandas numbers them, and writes the numbers as a header."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(60, 3)))
    rows[3] = 1 * (rows[0] > 0)
    rows.to_csv(tmp_path / "rows.csv", index=with_index)
    rows.to_csv(tmp_path / "bare.csv", index=False, header=False)
    with pytest.warns(UserWarning, match="the first line, 0, 1, 2 and so on, has the columns' names"):
        model = llsvm.train(str(tmp_path / "rows.csv"), label="3", **ROOM)
    bare = llsvm.train(str(tmp_path / "bare.csv"), label="3", **ROOM)
    assert (model.n_rows, model.feature_names) == (60, ("0", "1", "2")) == (bare.n_rows, bare.feature_names)
    np.testing.assert_array_equal(model.coef_, bare.coef_)
    for each in (model, bare):
        for name in ("rows.csv", "bare.csv"):
            assert llsvm.evaluate(each, str(tmp_path / name))["rows"] == 60
    with_row = llsvm.train(str(tmp_path / "rows.csv"), label="3", header="no", missing="zero", **ROOM)
    assert with_row.n_rows == 61


@pytest.mark.parametrize("index", [NAMED, UNNAMED])
def test_an_index_beside_labels_apart_is_left_out_without_a_note(index):
    """Folds of cross-validation are such frames, each with an index of its own."""
    rows = frame(index)
    X, y = rows[["x", "town"]], rows["y"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = llsvm.LLSVMClassifier(memory_limit="8GB").fit(X, y)
        assert fitted.score(X.reset_index(drop=True), y) > 0.9
        assert llsvm.train(X, y, **ROOM).n_features_in_ == 3


def test_text_beside_labels_apart():
    rows = frame(pd.RangeIndex(200))
    X, y = rows[["x", "town"]], rows["y"]
    model = llsvm.train(X, y, **ROOM)
    assert model.n_features_in_ == 3
    assert llsvm.evaluate(model, X, y)["accuracy"] > 0.9
    fitted = llsvm.LLSVMClassifier(memory_limit="8GB").fit(X.astype({"town": "category"}), y)
    assert fitted.score(X, y) > 0.9


def gaps():
    rng = np.random.default_rng(1)
    x = np.round(rng.normal(size=150), 3)
    town = np.where(rng.random(150) < 0.5, "Oslo", "Lima").astype(object)
    town[::9] = None
    return pa.table(
        {
            "x": pa.array(x, mask=np.arange(150) % 11 == 3),
            "k": rng.integers(0, 9, 150),
            "town": pa.array(town),
            "member": rng.random(150) < 0.5,
            "y": np.where(x + (town == "Oslo") > 0.5, "no", "yes"),
        }
    )


def jsonl(table, path):
    table.to_pandas().to_json(path, orient="records", lines=True)


READ = {
    "csv": lambda table, path: pacsv.write_csv(table, str(path), pacsv.WriteOptions(quoting_style="needed")),
    "csv with an index": lambda table, path: table.to_pandas().to_csv(path),
    "jsonl": jsonl,
    "parquet": lambda table, path: pq.write_table(table, str(path)),
    "parquet with an index": lambda table, path: (
        table.to_pandas().set_index(pd.Index(np.arange(150) * 3, name="customer")).to_parquet(path)
    ),
    "arrow": lambda table, path: feather.write_feather(table, str(path), "uncompressed"),
}
WRITTEN = {"parquet": {}, "arrow": {}, "svmlight": {"zero_based": "no"}, "hdf5": {}}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("read", "written"), [*itertools.product(READ, WRITTEN)])
def test_what_is_converted_trains_to_the_same_model(tmp_path, read, written):
    first = tmp_path / f"rows.{read.split()[0]}"
    READ[read](gaps(), first)
    # as other formats hold columns: numbers, which are not scaled by default
    options = {"missing": "zero", "scale": "none", "bias": 1.0, "tol": 1e-9, **ROOM}
    expected = llsvm.train(first, label="y", **options)
    second = tmp_path / f"converted.{written}"
    source = open_source(str(first), options={"label": "y", "missing": "zero"}, need_label=True)
    convert(source, second, to=written)
    label = {"label": "y"} if written in ("parquet", "arrow") else {}
    model = llsvm.train(second, **label, format=written, **options, **WRITTEN[written])
    np.testing.assert_allclose(np.sort(model.coef_), np.sort(expected.coef_), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-6, atol=1e-9)
    if written in ("parquet", "arrow"):
        assert model.feature_names == expected.feature_names
        with pytest.raises(llsvm.DataError, match=r"column (x|town): the value is missing in row"):
            llsvm.train(second, label="y", format=written, **ROOM)


def test_labels_in_a_named_index():
    rows = frame(NAMED).set_index("y")
    model = llsvm.train(rows, label="y", **ROOM)
    assert llsvm.evaluate(model, rows)["accuracy"] > 0.9


def test_objects_beside_labels_apart():
    """Python's bools and numbers, in a column of objects."""
    rows = frame(pd.RangeIndex(200))
    X = pd.DataFrame({"x": rows["x"].astype(object), "member": (rows["x"] > 1).astype(object)})
    model = llsvm.train(X, rows["y"], **ROOM)
    assert model.feature_names == ("x", "member")
    assert llsvm.evaluate(model, X, rows["y"])["accuracy"] > 0.9
