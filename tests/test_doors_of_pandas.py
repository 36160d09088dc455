"""Types that only pandas and NumPy have: sparse columns, spans of time, Series as options."""

import datetime
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import llsvm
from llsvm.errors import DataError, ModelError

ROOM = {"memory_limit": "2GB", "threads": 1}


@pytest.mark.parametrize("fill", [0.0, 5.0])
@pytest.mark.filterwarnings("ignore:pandas.DataFrame with sparse columns:UserWarning")
def test_sparse_columns_are_their_values_whatever_they_leave_out(fill):
    rng = np.random.default_rng(0)
    dense = pd.DataFrame(
        {"a": np.where(rng.random(60) < 0.5, fill, rng.normal(size=60)), "b": rng.normal(size=60)}
    )
    y = dense["a"] + dense["b"] > fill / 2
    wanted = llsvm.LLSVMClassifier().fit(dense, y)
    for names in (["a", "b"], ["a"]):
        sparse = dense.astype(dict.fromkeys(names, pd.SparseDtype(float, fill)))
        found = llsvm.LLSVMClassifier().fit(sparse, y)
        np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-5)
        assert found.predict(sparse).tolist() == wanted.predict(dense).tolist()


@pytest.mark.parametrize("unit", ["D", "h", "s", "ms", "ns"])
def test_spans_of_time_are_labels_in_any_unit(unit, tmp_path):
    x = np.r_[np.arange(-40.0, -10.0), np.arange(10.0, 40.0)][:, None]
    y = np.repeat([1, 2], 30).astype("m8[D]").astype(f"m8[{unit}]")
    model = llsvm.train(x, y, **ROOM)
    assert model.classes_.tolist() == ["1 days 00:00:00", "2 days 00:00:00"]
    for other in (y, pd.Series(y), pd.Series(y).astype("m8[ns]")):
        assert llsvm.evaluate(model, x, other)["accuracy"] == 1.0
    column = pa.table({"x": x[:, 0], "y": pa.array(y.astype("m8[s]"))})
    assert llsvm.train(column, label="y", **ROOM).classes_.tolist() == model.classes_.tolist()
    path = tmp_path / "rows.parquet"
    pq.write_table(column, path)
    assert llsvm.evaluate(llsvm.train(path, label="y", **ROOM), path)["accuracy"] == 1.0
    estimator = llsvm.LLSVMClassifier().fit(x, y)
    assert estimator.predict(x).dtype == y.dtype
    assert estimator.predict(x).tolist() == y.tolist()


@pytest.mark.parametrize(
    "kind",
    ["m8[D]", "m8[h]", "m8[s]", "m8[ms]", "m8[ns]", "M8[D]", "M8[s]", "M8[us]", "M8[W]", "M8[h]", "M8[ns]"],
)
@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
def test_predictions_by_every_way_are_times_where_an_estimator_was_given_times(kind, fit, tmp_path):
    """Ten days come after two: classes are in the order of their values, not of their text."""
    x = np.r_[np.arange(-40.0, -10.0), np.arange(10.0, 40.0)][:, None]
    days = np.repeat([14, 77], 30).astype("m8[D]")
    y = (days if kind[0] == "m" else days + np.datetime64("2024-01-04")).astype(kind)
    estimator = llsvm.LLSVMClassifier()
    estimator = estimator.fit(x, y) if fit == "fit" else estimator.partial_fit(x, y, classes=np.unique(y))
    estimator.model_.save(tmp_path / "m")
    for model in (estimator, estimator.model_, tmp_path / "m"):
        for data in (x, pd.DataFrame(x), pl.DataFrame({"x": x[:, 0]})):
            found = llsvm.predict(model, data)
            unit = kind if isinstance(data, np.ndarray) else f"{kind[0]}8[ns]"
            expected = y.astype(unit)
            assert np.asarray(found).astype(unit).tolist() == expected.tolist()
            assert (found.dtype == y.dtype) or not isinstance(data, np.ndarray)
            assert np.asarray(found).dtype.kind == kind[0]
        figures = llsvm.evaluate(model, x, y)
        assert (figures["accuracy"], figures["unknown_rows"]) == (1.0, 0)
        first = next(llsvm.explain(model, x))["prediction"]
        assert first == figures["classes"][0]["label"]
        assert first == ("14 days 00:00:00" if kind[0] == "m" else "2024-01-18")
        llsvm.write_predictions(model, x, tmp_path / "p.parquet")
        column = pq.read_table(tmp_path / "p.parquet")["prediction"]
        assert pa.types.is_duration(column.type) if kind[0] == "m" else pa.types.is_temporal(column.type)
        llsvm.write_predictions(model, x, tmp_path / "p.csv")
        assert (tmp_path / "p.csv").read_text().split("\n")[1].startswith(first)


@pytest.mark.parametrize(
    "unit", [{"days": 1}, {"hours": 5}, {"hours": -30}, {"milliseconds": 1500}, {"microseconds": 7}]
)
@pytest.mark.parametrize("written", [str, pd.Timedelta.isoformat])
def test_spans_of_time_are_the_same_labels_in_csv(unit, written, tmp_path):
    spans = pd.Series([pd.Timedelta(**unit) * i for i in (2, 3)]).repeat(30).reset_index(drop=True)
    frame = pd.DataFrame({"x": np.repeat([-1.0, 1.0], 30), "y": spans})
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.assign(y=spans.map(written) if written is not str else spans).to_csv(
        tmp_path / "rows.csv", index=False
    )
    doors = [frame, pl.from_pandas(frame), tmp_path / "rows.parquet", tmp_path / "rows.csv"]
    for data in doors:
        model = llsvm.train(data, label="y", **ROOM)
        for other in doors:
            figures = llsvm.evaluate(model, other)
            assert (figures["accuracy"], figures["unknown_rows"]) == (1.0, 0)


@pytest.mark.parametrize("values", [[True, False], [1.0, 2.0]])
@pytest.mark.parametrize("label", [True, False])
def test_truth_values_and_floats_that_are_named_as_categorical_are_the_same_in_csv(values, label, tmp_path):
    frame = pd.DataFrame({"c": np.tile(values, 30), "y": np.tile([0, 1], 30)})
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    names = {"label": "c", "categorical": ["c"]} if label else {"label": "y", "categorical": ["c"]}
    doors = [frame, pl.from_pandas(frame), tmp_path / "rows.parquet", tmp_path / "rows.csv"]
    for data in doors:
        model = llsvm.train(data, **names, **ROOM)
        for other in doors:
            assert llsvm.evaluate(model, other)["accuracy"] == 1.0


def test_whole_numbers_with_and_without_a_fraction_are_one_category(tmp_path):
    for name, c in {"1.csv": [200, 404], "2.csv": [200.0, 404.0]}.items():
        pd.DataFrame({"c": c * 10, "y": [0, 1] * 10}).to_csv(tmp_path / name, index=False)
    assert llsvm.train(tmp_path, label="y", categorical=["c"], **ROOM).feature_names == ("c=200", "c=404")


TIMES = {
    "spans": np.arange(60).astype("m8[s]"),
    "moments": np.datetime64("2024-01-01") + np.arange(60),
    "times of day": [datetime.time(1, i) for i in range(60)],
}


@pytest.mark.parametrize("kind", TIMES)
@pytest.mark.parametrize("as_y", [list, pd.Series, lambda y: pd.Series(y).to_numpy()])
def test_times_are_no_targets_whichever_way_they_come(kind, as_y, tmp_path):
    x, y, says = (
        np.arange(60.0)[:, None],
        as_y(TIMES[kind]),
        "y: .*a label of type .*: it is not a number, and",
    )
    table = pa.table({"x": x[:, 0], "y": pa.array(pd.Series(TIMES[kind]))})
    pq.write_table(table, tmp_path / "t.parquet")
    known = llsvm.train(x, x[:, 0], loss="epsilon_insensitive", **ROOM)
    for refused in (
        lambda: llsvm.train(x, y, loss="epsilon_insensitive", **ROOM),
        lambda: llsvm.train(pd.DataFrame({"x": x[:, 0]}), y, loss="quantile", **ROOM),
        lambda: llsvm.LLSVMRegressor().fit(x, y),
        lambda: llsvm.LLSVMRegressor(loss="quantile").partial_fit(x, y),
        lambda: llsvm.evaluate(known, x, y),
        *(
            lambda data=data: llsvm.train(data, label="y", loss="huber", **ROOM)
            for data in (table, table.to_pandas(), str(tmp_path / "t.parquet"))
        ),
    ):
        with pytest.raises(llsvm.DataError, match=says):
            refused()


def test_class_weights_as_a_series():
    x = np.random.default_rng(0).normal(size=(60, 1))
    y = (x[:, 0] > 0.3).astype(int)
    weights = {0: 1.0, 1: 3.0}
    wanted = llsvm.train(x, y, class_weight=weights, **ROOM).coef_
    np.testing.assert_array_equal(llsvm.train(x, y, class_weight=pd.Series(weights), **ROOM).coef_, wanted)
    found = llsvm.LLSVMClassifier(class_weight=pd.Series(weights)).fit(x, y)
    same = llsvm.LLSVMClassifier(class_weight=weights).fit(x, y)
    np.testing.assert_allclose(found.coef_, same.coef_, rtol=1e-6)


def test_rows_of_a_large_frame_are_named_by_their_number():
    n, row = 200_000, 150_000
    columns = {name: np.arange(n) % 17.0 for name in "abcdefx"}  # of which a piece has fewer rows
    frame = pd.DataFrame({**columns, "town": ["u", "v"] * (n // 2)})
    y = np.arange(n) % 17 > 8
    model = llsvm.train(frame, y, **ROOM)
    frame.loc[row, "x"] = np.nan
    for score in (
        llsvm.predict,
        lambda model, X: llsvm.evaluate(model, X, y),
        lambda model, X: model.predict(X),
    ):
        with pytest.raises(llsvm.DataError, match=rf"column x: the value is missing in row {row + 1};"):
            score(model, frame)


@pytest.mark.parametrize("other", [2, None, ("u", "v")])
def test_names_of_which_some_are_text_are_refused_in_training_and_in_predictions(other):
    frame = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0) % 7, "y": np.arange(40) > 20})
    model = llsvm.train(frame, label="y", **ROOM)
    frame.columns = pd.Index(["a", other, "y"], dtype=object, tupleize_cols=False)
    for take in (lambda: llsvm.train(frame, label="y", **ROOM), lambda: llsvm.evaluate(model, frame)):
        with pytest.raises(llsvm.UsageError, match="columns named by text and others not"):
            take()


@pytest.mark.parametrize("number", [np.int64, np.float32, np.float64, np.uint8])
def test_truth_values_beside_numbers_are_0_and_1(number):
    """NumPy makes objects of such a frame."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"n": rng.integers(0, 9, 60).astype(number), "is_large": rng.random(60) < 0.5})
    y, weight = frame["n"] + 2 * frame["is_large"] > 5, rng.random(60)
    wanted = llsvm.train(frame.astype(float), y, sample_weight=weight, **ROOM)
    model = llsvm.train(frame, y, sample_weight=weight, **ROOM)
    assert model.feature_names == ("n", "is_large")
    assert model.certificate.primal == pytest.approx(wanted.certificate.primal, rel=1e-9)
    assert list(llsvm.predict(model, frame)) == list(llsvm.predict(wanted, frame.astype(float)))
    assert llsvm.evaluate(model, frame, y)["accuracy"] == llsvm.evaluate(wanted, frame, y)["accuracy"]
    with pytest.raises(llsvm.DataError, match="59"):
        llsvm.train(frame, y[:59], **ROOM)


def test_sets_may_be_left_out():
    frame = pd.DataFrame({"x": range(20), "s": [{1}] * 20, "y": ["a", "b"] * 10})
    assert llsvm.train(frame, label="y", exclude=["s"], memory_limit="2GB").feature_names == ("x",)


@pytest.mark.parametrize("rows", [[{1}], [{1}, [1]], [frozenset([1])], [[1], {1}]])
def test_sets_are_no_vectors(rows):
    """Arrow takes them for lists, in whatever order they have."""
    labels = ["a", "b"] * 10
    frame = pd.DataFrame({"x": range(20), "s": (rows * 20)[:20], "y": labels})
    for train in (
        lambda: llsvm.train(frame, label="y", memory_limit="2GB"),
        lambda: llsvm.train([frame, frame], label="y", memory_limit="2GB"),
        lambda: llsvm.LLSVMClassifier().fit(frame[["x", "s"]], labels),
    ):
        with pytest.raises(DataError, match=r"column s h"):
            train()


def test_intervals_in_files_are_refused_by_their_column(tmp_path):
    """Not every pandas can read the type that it has written, of categories that are intervals."""
    frame = pd.DataFrame({"x": np.arange(20.0), "y": np.arange(20) % 2})
    frame["bin"] = pd.cut(frame["x"], 4)
    frame.to_feather(tmp_path / "t.feather")
    with pytest.raises(DataError, match=r"column bin has .*(write that column as text|cannot be a feature)"):
        llsvm.train(tmp_path / "t.feather", label="y", memory_limit="2GB")
    frame["bin"] = pd.arrays.IntervalArray(frame["bin"])
    frame.to_feather(tmp_path / "t.feather")
    train = [sys.executable, "-P", "-m", "llsvm", "train", "t.feather", "--label", "y", "--model", "m"]
    done = subprocess.run(train, cwd=tmp_path, capture_output=True, text=True, check=False)  # without pandas
    assert done.returncode == 3
    assert "column bin has type struct<left: double, right: double>" in " ".join(done.stderr.split())
    with pytest.raises(DataError, match=r"column bin has type .*cannot be a feature"):
        llsvm.train(tmp_path / "t.feather", label="y", memory_limit="2GB")


@pytest.mark.parametrize(
    "names",
    [[("a", 1), ("b", 2.5)], [("a", None), ("b", pd.Timestamp("2024-01-05"))], [b"x", b"y"], [2020, 2021]],
    ids=["levels", "times", "bytes", "years"],
)
def test_columns_are_called_what_a_parquet_file_of_the_frame_calls_them(names, tmp_path):
    x = np.r_[np.arange(-40.0, -10.0), np.arange(10.0, 40.0)]
    frame = pd.DataFrame({"x": x, "town": np.where(x > 20, "Oslo", "Lima")})
    frame.columns = pd.MultiIndex.from_tuples(names) if isinstance(names[0], tuple) else pd.Index(names)
    y = np.where(x > 0, "yes", "no")
    estimator = llsvm.LLSVMClassifier().fit(frame, y)
    assert estimator.score(frame, y) == 1.0
    pq.write_table(pa.table(frame).append_column("label", pa.array(y)), tmp_path / "t.parquet")
    model = llsvm.train(tmp_path / "t.parquet", label="label", **ROOM)
    assert llsvm.predict(model, frame).tolist() == y.tolist()
    assert llsvm.predict(estimator.model_, tmp_path / "t.parquet").tolist() == y.tolist()


def test_a_model_of_arrays_takes_a_frame_whose_label_is_named():
    """As it takes the same rows from files: the column that is named as the label is none of the features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y = np.where(X[:, 0] > 0, "p", "q")
    model = llsvm.train(X, y)
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y)
    assert llsvm.evaluate(model, frame, label="y") == llsvm.evaluate(model, X, y)
    assert llsvm.predict(model, frame, label="y").tolist() == llsvm.predict(model, X).tolist()


def test_frames_without_rows_are_said_to_have_none():
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "label": ["p", "p", "q", "q"]})
    model = llsvm.train(frame)
    with pytest.raises(DataError, match="there is no row in it"):
        llsvm.evaluate(model, frame.iloc[:0])
    assert len(llsvm.predict(model, frame.iloc[:0])) == 0


def people_without_names():
    rng = np.random.default_rng(3)
    amount, town = (
        np.round(rng.normal(size=80), 3),
        np.array(["Lima", "Oslo", "Rome"])[rng.integers(0, 3, 80)],
    )
    return pd.DataFrame({0: amount, 1: town, 2: np.where(amount + (town == "Lima") > 0.5, "no", "yes")})


def test_a_frame_read_without_a_header_and_its_file_are_the_same_table(tmp_path):
    frame, path = people_without_names(), str(tmp_path / "rows.csv")
    frame.to_csv(path, index=False, header=False)
    of_file = llsvm.train(path, label="last", **ROOM)
    of_frame = llsvm.train(pd.read_csv(path, header=None), label="last", **ROOM)
    for model in (of_file, of_frame):
        for data in (path, frame):
            assert np.asarray(llsvm.predict(model, data)).tolist() == list(llsvm.predict(of_file, path))
            assert llsvm.evaluate(model, data) == llsvm.evaluate(of_file, path)
    numbered = str(tmp_path / "numbered.csv")
    frame.to_csv(numbered, index=False)
    assert list(llsvm.predict(of_frame, numbered)) == list(llsvm.predict(of_file, path))


def test_values_that_equal_the_positions_of_columns_are_no_header(tmp_path):
    x = np.round(np.random.default_rng(1).normal(size=(60, 2)), 3)
    frame, path = (
        pd.DataFrame({0: x[:, 0], 1: x[:, 1], 2: (x[:, 0] > 0).astype(int)}),
        str(tmp_path / "rows.csv"),
    )
    frame = pd.concat([frame[frame[2] == 1], frame[frame[2] == 0]])  # the first row has the name of a column
    model = llsvm.train(frame, label="2", **ROOM)
    for header in (False, True):
        frame.to_csv(path, index=False, header=header)
        assert list(llsvm.predict(model, path)) == np.asarray(llsvm.predict(model, frame)).tolist()
        assert llsvm.evaluate(model, path) == llsvm.evaluate(model, frame)


def test_a_header_without_the_columns_of_a_model_is_no_row(tmp_path):
    frame, path = people_without_names(), tmp_path / "rows.csv"
    frame.rename(columns={0: 7, 1: "town", 2: "y"}).to_csv(path, index=False)
    with pytest.raises(
        DataError, match=r"of the model's columns are missing: 0, 1; the table has 7, town, y"
    ):
        llsvm.predict(llsvm.train(frame, label="2", **ROOM), str(path))


@pytest.mark.parametrize("door", [pd.DataFrame.to_numpy, lambda frame: frame.add_prefix("column_")])
def test_columns_with_other_names_are_refused_by_those_of_the_model(door, tmp_path):
    frame, path = people_without_names(), str(tmp_path / "rows.csv")
    frame.to_csv(path, index=False, header=False)
    model = llsvm.train(path, label="last", **ROOM)
    with pytest.raises(
        ModelError, match=r"takes the columns 0, 1, with categories: give a data frame .*range"
    ):
        llsvm.predict(model, door(frame))


@pytest.mark.parametrize(
    "asked",
    [
        lambda model, X, path: llsvm.predict(model, X),
        lambda model, X, path: llsvm.evaluate(model, X, np.zeros(len(X))),
        lambda model, X, path: list(llsvm.explain(model, X)),
        lambda model, X, path: llsvm.write_predictions(model, X, path),
        lambda model, X, path: model.predict(X),
    ],
)
def test_text_among_the_numbers_of_an_array_is_refused_by_its_place(asked, tmp_path):
    rows = np.random.default_rng(0).normal(size=(70_000, 2))
    model = llsvm.train(rows, rows[:, 0] > 0, **ROOM)
    rows = rows.astype(object)
    rows[69_000, 1] = "many"
    with pytest.raises(DataError, match=r"X: 'many' in row 69001, column 1 is no number: make numbers of it"):
        asked(model, rows, str(tmp_path / "rows.csv"))
