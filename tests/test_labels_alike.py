"""Labels that are one number but written in other ways, and whole numbers that no float tells apart."""

import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import llsvm
from llsvm import LLSVMClassifier
from llsvm.errors import DataError


def table(n=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.4 * rng.normal(size=n) > 0).astype(int)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["01", "1"]),
        np.array(["1.0", "1"]),
        np.array(["007", "7"]),
        np.array([2**53, 2**53 + 1]),
        np.array(["9007199254740992", "9007199254740993"]),
    ],
)
def test_class_weights_of_labels_that_are_one_number_as_floats(labels):
    X, y = table()
    weighted = LLSVMClassifier(tol=1e-6, class_weight={labels[0]: 5, labels[1]: 1}, random_state=0)
    expected = LLSVMClassifier(tol=1e-6, random_state=0).fit(
        X, labels[y], sample_weight=np.where(y, 1.0, 5.0)
    )
    np.testing.assert_allclose(weighted.fit(X, labels[y]).coef_, expected.coef_, atol=1e-3)


def test_a_class_weight_that_two_labels_could_be_meant_by_is_refused():
    X, y = table()
    with pytest.raises(llsvm.UsageError, match=r"class weight for 1\.0, but the classes are"):
        LLSVMClassifier(class_weight={1.0: 2}).fit(X, np.array(["01", "1"])[y])


def test_a_positive_label_beyond_all_digits_of_floats():
    X, y = table()
    model = llsvm.train(X, np.array([2**53, 2**53 + 1])[y], positive=2**53 + 1)
    usual = llsvm.train(X, y, positive=1)
    np.testing.assert_allclose(model.decision_function(X), usual.decision_function(X), atol=1e-3)


def test_documents_in_an_array_are_whole():
    """Also where they have a NUL: pyarrow takes what is before it, of NumPy's arrays of text."""
    documents, y = ["good\0bad film", "good\0fine film"] * 5, [0, 1] * 5
    names = [
        list(LLSVMClassifier(text=True).fit(given, y).get_feature_names_out())
        for given in (documents, np.array(documents), np.array(documents, object))
    ]
    assert names[0] == names[1] == names[2]
    assert len(names[0]) == 4


def test_a_list_of_rows_is_no_list_of_documents():
    X, y = table()
    for rows in (list(X), [pd.Series(row) for row in X]):
        np.testing.assert_array_equal(
            LLSVMClassifier(random_state=0).fit(rows, y).coef_,
            LLSVMClassifier(random_state=0).fit(X, y).coef_,
        )


@pytest.mark.parametrize("kind", ["date", "time"])
def test_dates_are_no_weights_in_any_format(tmp_path, kind):
    X, y = table(60)
    day = [datetime.date(2024, 1, 1 + i % 9) for i in range(60)]
    clock = [datetime.time(12, i % 9) for i in range(60)]
    frame = pl.DataFrame({"a": X[:, 0], "y": y, "w": day if kind == "date" else clock})
    frame.write_csv(tmp_path / "rows.csv")
    frame.write_parquet(tmp_path / "rows.parquet")
    frame.with_columns(pl.col("w").cast(pl.String)).write_ndjson(tmp_path / "rows.jsonl")
    for data in (*map(str, tmp_path.glob("rows.*")), frame, frame.to_arrow()):
        with pytest.raises(DataError, match="cannot be weights"):
            llsvm.train(data, label="y", features=["a"], weight="w")


LARGE = np.array([2**60 + 1, 2**60 + 2])


def test_labels_beyond_all_digits_of_floats_come_in_calls_as_in_one():
    X, y = table()
    calls = LLSVMClassifier(random_state=0, n_jobs=1)
    for part in (slice(0, 100), slice(100, 300)):
        calls.partial_fit(X[part], LARGE[y[part]], classes=LARGE)
    np.testing.assert_array_equal(calls.classes_, LARGE)
    assert calls.score(X, LARGE[y]) > 0.8
    spans = np.array([200, 300], "m8[D]")  # whose nanoseconds are as large
    calls = LLSVMClassifier(random_state=0, n_jobs=1).partial_fit(X, spans[y], classes=spans)
    assert calls.score(X, spans[y]) > 0.8


@pytest.mark.parametrize("suffix", ["npz", "h5"])
def test_labels_beyond_all_digits_of_floats_in_files_of_arrays(tmp_path, suffix):
    X, y = table()
    path = tmp_path / f"rows.{suffix}"
    for labels in (LARGE, np.array([3, 2**60])):
        if suffix == "npz":
            np.savez(path, X=X, y=labels[y])
        else:
            with pytest.importorskip("h5py").File(path, "w") as file:
                file["X"], file["y"] = X, labels[y]
        model = llsvm.train(path, seed=0)
        np.testing.assert_array_equal(model.classes_, labels)
        model.save(tmp_path / "m.llsvm")
        for each in (model, tmp_path / "m.llsvm"):
            assert (np.asarray(llsvm.predict(each, path)) == labels[y]).mean() > 0.8
            assert llsvm.evaluate(each, path)["accuracy"] > 0.8


def test_whole_numbers_as_floats_and_beyond_their_digits_are_told_apart(tmp_path):
    """One file of floats, and one of integers; a float that may be either of two is refused."""
    X, y = table()
    np.savez(tmp_path / "1.npz", X=X, y=np.array([3.0, 4.0])[y])
    np.savez(tmp_path / "2.npz", X=X, y=LARGE[y])
    both = [tmp_path / "1.npz", tmp_path / "2.npz"]
    for paths in (both, both[::-1]):
        np.testing.assert_array_equal(llsvm.train(paths).classes_, [3, 4, *LARGE])
    np.savez(tmp_path / "1.npz", X=X, y=np.array([3.0, 2.0**60])[y])
    for paths in (both, both[::-1]):
        with pytest.raises(DataError, match=r"labels from 2\^53 on cannot be told"):
            llsvm.train(paths)


WHEN = {
    "dates": [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)],
    "times of days": [datetime.datetime(2024, 1, 1, 5), datetime.datetime(2024, 1, 2, 5, 0, 0, 250)],
    "zones": [pd.Timestamp("2024-01-01T05", tz="UTC"), pd.Timestamp("2024-01-02T05:00:00.5", tz="UTC")],
    "spans": [datetime.timedelta(days=1), datetime.timedelta(days=200, seconds=5)],
    "clocks": [datetime.time(1), datetime.time(2, 30)],
}


def names_of_a_moment(moment):
    yield moment
    if isinstance(moment, datetime.timedelta):
        yield from (pd.Timedelta(moment), np.timedelta64(moment), np.timedelta64(moment).astype("m8[s]"))
    elif isinstance(moment, datetime.date) and getattr(moment, "tzinfo", None) is None:
        yield from (pd.Timestamp(moment), np.datetime64(pd.Timestamp(moment)))
        if not isinstance(moment, datetime.datetime):
            yield from (np.datetime64(moment), datetime.datetime(*moment.timetuple()[:3]))


@pytest.mark.parametrize("kind", WHEN)
def test_class_weights_of_dates_times_and_spans_by_whatever_holds_them(tmp_path, kind):
    X, y = table()
    moments = WHEN[kind]
    labels = np.array(moments, object)[y]
    expected = llsvm.train(X, y, class_weight={0: 5}, tol=1e-6, seed=0).coef_
    for key in names_of_a_moment(moments[0]):
        model = llsvm.train(X, labels, class_weight={key: 5}, tol=1e-6, seed=0)
        np.testing.assert_allclose(model.coef_, expected, atol=1e-4, err_msg=repr(key))
    if kind in ("zones", "clocks"):
        return  # which scikit-learn does not take
    given = labels.astype("m8[us]" if kind == "spans" else "M8[us]")
    expected = LLSVMClassifier(class_weight={0: 5}, tol=1e-6, random_state=0).fit(X, y).coef_
    for key in names_of_a_moment(moments[0]):
        fitted = LLSVMClassifier(class_weight={key: 5}, tol=1e-6, random_state=0).fit(X, given)
        np.testing.assert_allclose(fitted.coef_, expected, atol=1e-4, err_msg=repr(key))
    with pytest.raises(llsvm.UsageError, match="class weight for '1999-01-01', but the classes are"):
        LLSVMClassifier(class_weight={datetime.date(1999, 1, 1): 5}).fit(X, given)


LOOK_ALIKE = "the labels {} and {} differ in case or space alone, and are two classes"


def warned(run):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run()
    return [str(each.message) for each in said if "differ in case" in str(each.message)]


@pytest.mark.parametrize(
    "labels", [["Yes", "no", "yes"], ["yes ", "no", "yes"], ["New York", "no", "new  york"]]
)
def test_labels_that_differ_in_case_or_space_alone_are_noted(tmp_path, labels):
    X, y = table(60)
    y = np.array(labels)[np.arange(60) % 3]
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    expected = LOOK_ALIKE.format(repr(min(labels[0], labels[2])), repr(max(labels[0], labels[2])))
    room = {"memory_limit": "2GB", "threads": 1}
    ways = {
        "arrays": lambda: llsvm.train(X, y, **room),
        "estimator": lambda: LLSVMClassifier(memory_limit="2GB", n_jobs=1).fit(X, y),
        "frame": lambda: llsvm.train(frame, label="y", **room),
        "positive": lambda: llsvm.train(frame, label="y", positive=labels[2], **room),
        "Polars": lambda: llsvm.train(pl.from_pandas(frame), label="y", **room),
        "Parquet": lambda: llsvm.train(tmp_path / "rows.parquet", label="y", **room),
        "npz": lambda: llsvm.train(tmp_path / "rows.npz", **room),
        "tune": lambda: llsvm.tune(X, y, C=[0.1, 1.0], folds=2, **room),
    }
    if labels[0] == "yes ":  # tables know no space around
        ways = {name: ways[name] for name in ("arrays", "estimator", "npz", "tune")}
    else:
        ways["CSV"] = lambda: llsvm.train(tmp_path / "rows.csv", **room)
    for name, way in ways.items():
        (note,) = warned(way)
        assert note.startswith(expected), name
    assert warned(lambda: llsvm.train(X, np.where(y == "no", "no", "yes"), **room)) == []
