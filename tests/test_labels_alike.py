"""Labels that are one number but written in other ways, and whole numbers that no float tells apart."""

import datetime

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
