"""Columns that have names are found by their names, in files and in data frames, and never silently by place."""

import io
import json

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_matrix
from source_suite import SourceSuite
from typer.testing import CliRunner

import llsvm
from llsvm import LLSVMClassifier
from llsvm.cli import app
from llsvm.data import open_source
from llsvm.data.derived import ColumnsByName
from llsvm.errors import DataError, LLSVMWarning, ModelError, UsageError
from llsvm.models.liblinear import write_liblinear
from llsvm.scoring.measure import measure
from llsvm.scoring.predictions import predict_file
from llsvm.scoring.sources import open_for

LIMIT = "2GB"
CITIES = {"paris": 2.0, "rome": -2.0, "oslo": 1.0, "bonn": -1.0}


class Frame:
    """As pandas' data frames are, as far as anyone may know: columns, iloc, an array of values, a shape."""

    def __init__(self, values, columns):
        self.values, self.columns = np.asarray(values), list(columns)

    @property
    def shape(self):
        return self.values.shape

    def __len__(self):
        return len(self.values)

    @property
    def iloc(self):
        return self

    def __getitem__(self, places):
        if isinstance(places, slice):
            return Frame(self.values[places], self.columns)
        rows, columns = places
        return Frame(self.values[rows][:, columns], [self.columns[j] for j in columns])

    def __array__(self, dtype=None, copy=None):
        return self.values.astype(dtype or self.values.dtype)


def table(values, names):
    return pa.table({name: values[:, j] for j, name in enumerate(names)})


@pytest.fixture(scope="module")
def numbers():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3)).astype(np.float32)
    return X, np.where(X @ [3.0, -1.0, 0.2] > 0, 1, -1)


@pytest.fixture(scope="module")
def num_csv(numbers, tmp_path_factory):
    X, y = numbers
    path = tmp_path_factory.mktemp("names") / "num.csv"
    rows = [f"{a!r},{b!r},{c!r},{label}" for (a, b, c), label in zip(X.tolist(), y.tolist(), strict=True)]
    path.write_text("a,b,c,label\n" + "\n".join(rows) + "\n")
    return str(path)


def write_people(path, order, n, seed, names=("city", "age", "label")):
    rng = np.random.default_rng(seed)
    cities = [*order, *rng.choice(list(CITIES), n)]
    with open(path, "w") as out:
        out.write(",".join(names) + "\n")
        for city in cities:
            age = rng.standard_normal()
            cells = {"city": city, "age": f"{age:.4f}", "label": 1 if CITIES[city] + 0.3 * age > 0 else -1}
            out.write(",".join(str(cells.get(name, rng.integers(1000))) for name in names) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Two files in which the categories appear in other orders, and the columns stand in other places."""
    folder = tmp_path_factory.mktemp("people")
    train = write_people(folder / "train.csv", CITIES, 400, 1)
    names = ("id", "label", "age", "city")
    return train, write_people(folder / "test.csv", reversed(CITIES), 200, 2, names)


def write_h5ad(path, X, y, names):
    with h5py.File(path, "w") as file:
        file["X"] = X
        var = file.create_group("var")
        var.attrs["_index"] = "_index"
        var["_index"] = [name.encode() for name in names]
        file.create_group("obs")["y"] = y
    return str(path)


def make_sparse(path):
    """X as CSR."""
    with h5py.File(path, "r+") as file:
        dense = file["X"][()]
        del file["X"]
        group, X = file.create_group("X"), csr_matrix(dense)
        group.attrs["shape"] = dense.shape
        group["indptr"], group["indices"], group["data"] = X.indptr, X.indices, X.data


# -- data frames ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [Frame, table])
def test_a_model_finds_the_columns_of_a_frame_by_name(frame, numbers, num_csv):
    X, y = numbers
    models = [
        llsvm.train(num_csv, memory_limit=LIMIT),
        llsvm.train(frame(X, "abc"), y, memory_limit=LIMIT),
    ]
    swapped = np.c_[np.arange(len(X)), X[:, ::-1]].astype(np.float32)
    for model in models:
        expected = model.decision_function(X)
        if frame is table or "table" not in model.extra:  # a table of Arrow's protocol is asked for then
            np.testing.assert_allclose(
                model.decision_function(frame(swapped, ("id", "c", "b", "a"))), expected, rtol=1e-5
            )
        with pytest.raises(DataError, match="1 of the model's columns is missing: c"):
            model.predict(frame(X, ("a", "b", "other")))
        assert (model.predict(X) == y).mean() > 0.95  # arrays go by position


def test_a_model_takes_frames_with_text_as_it_takes_files(people):
    train, test = people
    model = llsvm.train(train, memory_limit=LIMIT)
    from pyarrow import csv

    frame = csv.read_csv(test)
    np.testing.assert_array_equal(model.predict(frame), frame["label"].to_numpy())
    gap = frame.set_column(2, "age", pa.array([None] * len(frame), pa.float64()))
    with pytest.raises(DataError, match="column age: the value is missing in row 1"):
        model.predict(gap)
    with pytest.raises(DataError, match="row 1: column age: 'bonn' is not a number; write a plain number"):
        model.predict(frame.set_column(2, "age", frame["city"]))


def test_frames_with_numbered_columns_go_by_position(numbers):
    X, y = numbers
    model = llsvm.train(Frame(X, range(3)), y, memory_limit=LIMIT)
    assert model.feature_names is None
    np.testing.assert_array_equal(model.predict(Frame(X, "abc")), model.predict(X))
    with pytest.raises(UsageError, match="named by text and others not"):
        llsvm.train(Frame(X, ("a", 1, "c")), y)


@pytest.mark.parametrize("names", [(10, 20, 30), (("u", "s"), ("u", "t"), ("v", "s")), (0, 1, 3)])
def test_names_that_are_no_text_are_names_too(names, numbers):
    """Of years, say, or of several levels."""
    X, y = numbers
    model = llsvm.train(Frame(X, names), y, memory_limit=LIMIT)
    assert model.feature_names == tuple(map(str, names))
    np.testing.assert_array_equal(model.predict(Frame(X[:, ::-1], names[::-1])), model.predict(X))
    with pytest.raises(DataError, match="1 of the model's columns is missing"):
        model.predict(Frame(X, (*names[:2], 99)))
    machine = LLSVMClassifier(memory_limit=LIMIT).fit(Frame(X, names), y)
    with pytest.raises(DataError, match="fitted on"):
        machine.predict(Frame(X[:, ::-1], names[::-1]))


def test_numbered_columns_out_of_order_are_refused(numbers, tmp_path):
    X, y = numbers
    path = tmp_path / "headless.csv"
    np.savetxt(path, np.c_[X, y], delimiter=",")
    swapped = Frame(X[:, ::-1], (2, 1, 0))
    for model in (
        llsvm.train(Frame(X, range(3)), y, memory_limit=LIMIT),
        llsvm.train(str(path), label="last", memory_limit=LIMIT),
        LLSVMClassifier(memory_limit=LIMIT).fit(Frame(X, range(3)), y),
        LLSVMClassifier(memory_limit=LIMIT).fit_file(str(path), label="last"),
    ):
        assert (model.predict(Frame(X, range(3))) == y).mean() > 0.95
        with pytest.raises(DataError, match="numbered 2, 1, 0"):
            model.predict(swapped)


def test_models_of_frames_find_the_columns_of_files_by_name(numbers, tmp_path):
    X, y = numbers
    model = llsvm.train(Frame(X, "abc"), y, memory_limit=LIMIT)
    path = tmp_path / "other.parquet"
    pq.write_table(table(X[:, ::-1], "cba").append_column("label", pa.array(y)), path)
    assert measure(model, open_for(model, str(path), True), memory_limit=LIMIT)["accuracy"] > 0.95
    h5ad = write_h5ad(tmp_path / "other.h5ad", X[:, ::-1], y, "cba")
    assert measure(model, open_for(model, h5ad, True), memory_limit=LIMIT)["accuracy"] > 0.95
    pq.write_table(table(X, "abd"), path)
    with pytest.raises(DataError, match="1 of the model's columns is missing: c"):
        open_for(model, str(path))
    loaded_path = tmp_path / "m.llsvm"
    model.save(loaded_path)
    assert llsvm.load(loaded_path).feature_names == ("a", "b", "c")


@pytest.mark.parametrize("frame", [Frame, table])
def test_the_estimator_refuses_frames_of_other_columns(frame, numbers):
    X, y = numbers
    machine = LLSVMClassifier(memory_limit=LIMIT).fit(frame(X, "abc"), y)
    assert machine.model_.feature_names == ("a", "b", "c")
    assert machine.score(frame(X, "abc"), y) > 0.95
    with pytest.raises(ValueError, match=r"fitted on|order"):
        machine.predict(frame(X[:, ::-1], "cba"))


def test_the_estimator_keeps_the_names_of_files(num_csv, numbers, people):
    X, y = numbers
    machine = LLSVMClassifier(memory_limit=LIMIT).fit_file(num_csv)
    assert machine.feature_names_in_.tolist() == ["a", "b", "c"]
    assert (machine.predict(table(X[:, ::-1], "cba")) == y).mean() > 0.95
    with pytest.raises(DataError, match="columns is missing: c"):
        machine.predict(table(X, "abd"))
    train, test = people
    machine.fit_file(train)
    from pyarrow import csv

    assert machine.score(csv.read_csv(test), csv.read_csv(test)["label"].to_numpy()) == 1.0


# -- matrices in files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True])
def test_columns_of_h5ad_are_found_by_name(sparse, numbers, tmp_path):
    X, y = numbers
    a = write_h5ad(tmp_path / "a.h5ad", X, y, "abc")
    b = write_h5ad(tmp_path / "b.h5ad", np.c_[X[:, 1], X[:, 0] * 0 + 7, X[:, 2], X[:, 0]], y, "bxca")
    if sparse:
        make_sparse(b)
    model = llsvm.train(a, memory_limit=LIMIT)
    expected = measure(model, open_for(model, a, True), memory_limit=LIMIT)
    assert measure(model, open_for(model, b, True), memory_limit=LIMIT)["confusion"] == expected["confusion"]
    lacking = write_h5ad(tmp_path / "c.h5ad", X, y, "abd")
    with pytest.raises(DataError, match=r"c.h5ad: 1 of the 3 columns asked for by name are missing: c"):
        open_for(model, lacking)


class TestColumnsByName(SourceSuite):
    """A reader's promises, behind other columns: dense, here, and as CSR below."""

    sparse = False

    def make_source(self, tmp_path):
        X = np.arange(24.0).reshape(6, 4) % 5
        path = write_h5ad(tmp_path / "suite.h5ad", X, np.arange(6) % 2, "abcd")
        if self.sparse:
            make_sparse(path)
        return ColumnsByName(open_source(path), ("d", "a", "c"))

    def test_columns(self, source):
        expected = (np.arange(24.0).reshape(6, 4) % 5)[:, [3, 0, 2]]
        for block in source.blocks(99):
            X = block.X
            if not block.is_dense:
                X = csr_matrix((X.data, X.indices, X.indptr), shape=(block.n_rows, 3)).toarray()
            np.testing.assert_array_equal(X, expected[block.rows])


class TestSparseColumnsByName(TestColumnsByName):
    sparse = True


def test_several_files_of_matrices_are_compared_by_name(numbers, tmp_path):
    X, y = numbers
    a = write_h5ad(tmp_path / "a.h5ad", X[:200], y[:200], "abc")
    b = write_h5ad(tmp_path / "b.h5ad", X[200:, ::-1], y[200:], "cba")
    source = open_source([a, b])
    assert source.info().feature_names == ("a", "b", "c")
    for max_bytes in (1, 1000, 1 << 20):
        rows = np.concatenate([block.X for block in source.blocks(max_bytes)])
        np.testing.assert_array_equal(rows, X)
    more = write_h5ad(tmp_path / "c.h5ad", np.c_[X, X[:, 0]], y, "abcd")
    with pytest.raises(DataError, match=r"c.h5ad: has the column 'd', which .*a.h5ad has not"):
        open_source([a, more])
    with pytest.raises(DataError, match="columns asked for by name are missing: d"):
        open_source([more, a])
    unnamed = str(tmp_path / "d.h5")
    with h5py.File(unnamed, "w") as file:
        file["X"], file["y"] = X, y
    with pytest.raises(DataError, match=r"d.h5: its columns have no names, but those of .*a.h5ad have"):
        open_source([a, unnamed])


@pytest.mark.parametrize("missing", ["zero", "mean"])
def test_what_is_missing_in_a_matrix_is_filled_when_predicting_too(missing, numbers, tmp_path):
    X, y = numbers
    gaps = X.copy() + 5.0
    gaps[::7, 2] = np.nan
    path = str(tmp_path / "gaps.npy")
    np.save(path, np.c_[gaps, y])
    model = llsvm.train(path, label="last", missing=missing, scale="standard", memory_limit=LIMIT)
    assert measure(model, open_for(model, path, True), memory_limit=LIMIT)["accuracy"] > 0.9
    model.save(tmp_path / "m.llsvm")
    model = llsvm.load(tmp_path / "m.llsvm")
    filled = np.where(np.isnan(gaps), 0 if missing == "zero" else np.nanmean(gaps, axis=0), gaps)
    found = [score for _, score in _scores(model, path)]
    np.testing.assert_allclose(np.concatenate(found)[:, 0], model.decision_function(filled), atol=1e-4)
    refusing = llsvm.train(filled.astype(np.float32), y, memory_limit=LIMIT)
    with pytest.raises(DataError, match="train with missing zero or missing mean, or fill it in"):
        measure(refusing, open_for(refusing, path, True, options={"label": "last"}), memory_limit=LIMIT)


def _scores(model, path):
    from llsvm.scoring.predictions import score_blocks

    return list(score_blocks(model, open_for(model, path, True), 1 << 20))


@pytest.mark.parametrize("feature_map", ["rff", "nystroem"])
def test_feature_maps_keep_names_categories_and_what_is_left_out(feature_map, people, tmp_path):
    _, test = people
    model = llsvm.train(
        test, feature_map=feature_map, components=60, exclude=("id",), memory_limit=LIMIT, C=10.0
    )
    path = tmp_path / "m.llsvm"
    model.save(path)
    model = llsvm.load(path)
    assert model.feature_names[0] == "age"
    assert "city=paris" in model.feature_names
    for file in people:
        assert measure(model, open_for(model, file, True), memory_limit=LIMIT)["accuracy"] > 0.97


def test_feature_maps_do_not_learn_means():
    with pytest.raises(UsageError, match="pass missing zero"):
        llsvm.settings.settings.Settings(feature_map="rff", missing="mean")


@pytest.mark.parametrize("kind", ["last.npy", "first.npy", "beside.npy", "x.npz", "x.h5", "x.svm"])
def test_models_without_names_score_every_format(kind, numbers, tmp_path, monkeypatch):
    """Columns by position, that of svmlight's index 1 first; labels where they are, and needed."""
    X, y = numbers
    monkeypatch.chdir(tmp_path)
    np.save("last.npy", np.c_[X, y])
    np.save("first.npy", np.c_[y, X])
    np.save("beside.npy", X)
    np.save("y.npy", y)
    rows, marks = ("rows", "marks") if kind == "x.npz" else ("X", "y")
    np.savez("x.npz", **{rows: X, marks: y})
    with h5py.File("x.h5", "w") as file:
        file[rows], file[marks] = X, y
    lines = [" ".join(f"{j}:{v!r}" for j, v in enumerate(row, 1)) for row in X.tolist()]
    (tmp_path / "x.svm").write_text(
        "".join(f"{label} {line}\n" for label, line in zip(y, lines, strict=True))
    )
    reading = {
        "last.npy": {"label": "last"},
        "first.npy": {"label": "0"},
        "beside.npy": {"label": "y.npy"},
        "x.npz": {"features": ("rows",), "label": "marks"},
    }
    model = llsvm.train(kind, memory_limit=LIMIT, **reading.get(kind, {}))
    expected = model.predict(X)
    (tmp_path / "y.npy").rename("y_of_training.npy")
    np.save("unlabelled.npy", X[:100])
    for other in ("x.svm", "x.h5", "x.npz", "unlabelled.npy"):
        out = io.StringIO()
        predict_file(model, open_for(model, other), out, memory_limit=LIMIT)
        lines = out.getvalue().split()
        np.testing.assert_array_equal(np.array(lines, float), expected[: len(lines)], other)
    for other, label in (("x.svm", None), ("x.h5", marks), ("last.npy", "last")):
        source = open_for(model, other, need_label=True, options={"label": label})
        assert measure(model, source, memory_limit=LIMIT)["accuracy"] == (expected == y).mean()
    if kind == "beside.npy":  # its labels are those of other rows
        with pytest.raises(DataError, match="where are the labels"):
            open_for(model, "unlabelled.npy", need_label=True)


def test_a_feature_named_as_labels_are_is_no_label(numbers, tmp_path):
    X, y = numbers
    model = llsvm.train(Frame(X, ("x", "y", "z")), y, memory_limit=LIMIT)
    path = tmp_path / "rows.parquet"
    pq.write_table(table(X, "xyz").append_column("class", pa.array(y)), path)
    source = open_for(model, str(path), need_label=True)
    assert measure(model, source, memory_limit=LIMIT)["accuracy"] > 0.95
    pq.write_table(table(X, "xyz"), path)
    with pytest.raises(DataError, match="which column has the labels"):
        open_for(model, str(path), need_label=True)


# -- path and export --------------------------------------------------------------------------------------


def test_the_validation_of_a_path_reads_as_the_model_does(people):
    train, test = people
    words = ["path", train, "--validation", test, "--points", "2", "--json", "-q", "--memory", LIMIT]
    points = json.loads(CliRunner().invoke(app, words).stdout)["points"]
    assert points[-1]["accuracy"] == 1.0


def test_export_refuses_by_name_what_the_format_cannot_say(numbers, people, tmp_path):
    X, y = numbers
    gaps = X.copy()
    gaps[0, 0] = np.nan
    path = str(tmp_path / "gaps.npy")
    np.save(path, np.c_[gaps, y])
    models = {
        "unit-row": llsvm.train(X, y, scale="unit-row", memory_limit=LIMIT),
        "missing mean": llsvm.train(path, label="last", missing="mean", memory_limit=LIMIT),
        r"categories of text \(column city\)": llsvm.train(people[0], memory_limit=LIMIT),
    }
    for what, model in models.items():
        with pytest.raises(ModelError, match=what):
            write_liblinear(model, tmp_path / "m.txt")
    assert not (tmp_path / "m.txt").exists()
    write_liblinear(llsvm.train(X, y, scale="standard", memory_limit=LIMIT), tmp_path / "m.txt")


def table_of_days(path, days):
    """A feature x that tells the label, and a day of each row, as ``days`` writes it."""
    n = 60
    x = np.random.default_rng(3).standard_normal(n)
    day = np.datetime64("2024-01-01") + np.arange(n)
    columns = {"x": x, "day": days(day), "label": np.where(x > 0, "yes", "no")}
    pq.write_table(pa.table(columns), path)
    return path


def test_dates_and_numbers_are_not_taken_for_each_other(tmp_path):
    """The same day is 19723 as a date and 20240101 as a number: scores would be far off, without a word."""
    dates = table_of_days(tmp_path / "dates.parquet", lambda day: day)
    times = table_of_days(tmp_path / "times.parquet", lambda day: day.astype("datetime64[ms]"))
    numbers = table_of_days(
        tmp_path / "numbers.parquet",
        lambda day: np.array([int(str(each).replace("-", "")) for each in day.astype("datetime64[D]")]),
    )
    empty = table_of_days(tmp_path / "empty.parquet", lambda day: pa.nulls(len(day)))
    options = {"label": "label", "missing": "mean", "max_passes": 5, "memory_limit": "2GB"}
    model = llsvm.train(dates, output=tmp_path / "m", **options)
    scored = [measure(model, open_for(model, path, True))["accuracy"] for path in (dates, times)]
    assert scored[0] == scored[1] > 0.9
    assert measure(model, open_for(model, empty, True))["rows"] == 60
    loaded = llsvm.load(tmp_path / "m")
    with pytest.raises(
        DataError, match=r"numbers.parquet: column day has type int64, .* trained on dates or times"
    ):
        open_for(loaded, numbers, True)
    with pytest.raises(DataError, match="trained on numbers that are no dates"):
        open_for(llsvm.train(numbers, **options), dates, True)
    with pytest.raises(
        DataError, match=r"numbers.parquet: column day has type int64, but holds dates or times in"
    ):
        llsvm.train([dates, numbers], **options)
    for column in loaded.extra["table"]["columns"]:  # as earlier versions wrote it
        del column["sort"]
    loaded.save(tmp_path / "old")
    old = llsvm.load(tmp_path / "old")
    assert measure(old, open_for(old, dates, True))["accuracy"] == scored[0]


def test_columns_that_a_model_does_not_know_are_counted(tmp_path):
    X, y = np.arange(12.0).reshape(4, 3) % 5, np.array([0, 1, 1, 0])
    model = llsvm.train(write_h5ad(tmp_path / "a.h5ad", X[:, :2], y, "ab"))
    other = write_h5ad(tmp_path / "b.h5ad", X[:, [1, 2, 0]], y, "bxa")
    with pytest.warns(LLSVMWarning, match="does not know the column x: 4 values in 4 rows"):
        found = llsvm.predict(model, other)
    np.testing.assert_array_equal(found, model.predict(X[:, :2]))
