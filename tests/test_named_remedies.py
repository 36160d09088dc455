"""Refusals that say what to do instead, by the words that their user knows."""

from collections import UserDict
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.exceptions import ConvergenceWarning

import llsvm
from llsvm import LLSVMClassifier, LLSVMRegressor, LLSVMRegressorCV
from llsvm.errors import BudgetError, DataError, ModelError, UsageError

LIMIT = "2GB"
DOCUMENTS = ["a good film", "a bad film", "great movie", "awful movie"] * 20
Y = [1, 0, 1, 0] * 20


@pytest.mark.parametrize("given", ["a good film", ["rows.csv"], ["a good film", "late.parquet"]])
@pytest.mark.parametrize(
    "asked", [llsvm.predict, llsvm.evaluate, lambda model, data: list(llsvm.explain(model, data))]
)
def test_names_of_files_that_are_not_there_are_no_documents(asked, given, tmp_path):
    estimator = LLSVMClassifier(text=True, memory_limit=LIMIT).fit(DOCUMENTS, Y)
    instead = "an array" if isinstance(given, list) else "a list"  # not what was given
    with pytest.raises(
        UsageError, match=rf"no file is called so.* give documents as {instead}, or .* with the column text"
    ):
        asked(estimator, given)
    path = str(tmp_path / "rows.csv")
    pd.DataFrame({"text": DOCUMENTS, "label": Y}).to_csv(path, index=False)
    assert llsvm.predict(estimator, [path]).tolist() == Y
    assert llsvm.predict(estimator, str(tmp_path / "*.csv")).tolist() == Y


LINKS = [
    "see http://a.b/c?d=1",
    "[good](https://x.y) *",
    "https://t.co/film",
    "a://b",
    "movie://",
    "s3://a film",
]


def test_documents_may_hold_links():
    documents = DOCUMENTS[:10] + LINKS
    estimator = LLSVMClassifier(text=True, memory_limit=LIMIT).fit(DOCUMENTS, Y)
    wanted = estimator.predict(documents)
    np.testing.assert_array_equal(llsvm.predict(estimator, documents), wanted)
    assert llsvm.evaluate(estimator, documents, wanted.tolist())["accuracy"] == 1.0
    assert [each["prediction"] for each in llsvm.explain(estimator, documents)] == wanted.tolist()


@pytest.mark.parametrize("name", ["-", ".", "/", "*"])
def test_a_document_that_a_file_is_called_is_refused_with_what_to_give(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.csv").touch()
    estimator = LLSVMClassifier(text=True, memory_limit=LIMIT).fit(DOCUMENTS, Y)
    with pytest.raises(UsageError, match=r"'a good film': no file is called so.* give documents as an array"):
        llsvm.predict(estimator, ["a good film", name])
    assert len(llsvm.predict(estimator, np.array(["a good film", name]))) == 2


def test_probabilities_of_a_loss_without_are_refused_with_what_has_them():
    estimator = LLSVMClassifier().fit(np.eye(2), [0, 1])
    for name in ("predict_proba", "predict_log_proba"):
        assert not hasattr(estimator, name)
        with pytest.raises(AttributeError, match=rf"{name} is of loss='logistic', and of LLSVMClassifierCV"):
            getattr(estimator, name)


@pytest.mark.filterwarnings("ignore:not converged")
def test_64_bit_values_that_are_not_enough_ask_for_no_more_memory():
    rng = np.random.default_rng(2)
    X = np.round(3 * rng.normal(size=(400, 6))).astype(np.int64).astype(np.uint64)  # some beyond 1.8e19
    y = rng.normal(size=400) > 0
    with pytest.warns(ConvergenceWarning) as caught:
        llsvm.train(X, y, memory_limit=LIMIT)
    assert "rounding in 64-bit sums alone may hide" in str(caught[-1].message)


@pytest.mark.parametrize(
    "given",
    [
        *(list, tuple, np.array, lambda d: np.array(d, object), lambda d: np.array(d, object).reshape(-1, 1)),
        *(pa.array, pd.Series, pl.Series, lambda d: pd.DataFrame({"text": d})),
    ],
    ids=["list", "tuple", "str", "object", "column", "arrow", "pandas", "polars", "frame"],
)
def test_a_model_of_documents_alone_takes_what_its_estimator_takes(given):
    estimator = LLSVMClassifier(text=True, memory_limit=LIMIT).fit(DOCUMENTS, Y)
    some = [*DOCUMENTS[:3], "what?", "a good [film]"]
    wanted, X = estimator.predict(some).tolist(), given(some)
    for model in (estimator, estimator.model_):
        assert list(llsvm.predict(model, X)) == model.predict(X).tolist() == wanted
        assert llsvm.evaluate(model, X, wanted)["accuracy"] == 1
        told = list(llsvm.explain(model, X))
        assert [each["prediction"] for each in told] == wanted
        assert "text:good" in {each["feature"] for each in told[0]["scores"][0]["contributions"]}
    with pytest.raises(UsageError, match="y is missing"):
        llsvm.evaluate(estimator, X)
    assert llsvm.verify(estimator.model_, given(DOCUMENTS), Y)["holds"]
    assert not llsvm.verify(estimator.model_, given(DOCUMENTS), Y[::-1])["holds"]


@pytest.mark.parametrize(
    "given", [set, iter, lambda d: dict(enumerate(d)).values()], ids=["set", "iterator", "view"]
)
@pytest.mark.parametrize(
    "asked", [llsvm.predict, llsvm.verify, lambda model, X: list(llsvm.explain(model, X))]
)
def test_documents_without_an_order_or_an_end_are_to_be_given_as_a_list(given, asked):
    model = LLSVMClassifier(text=True, memory_limit=LIMIT).fit(DOCUMENTS, Y).model_
    with pytest.raises(DataError, match=r"is text, .*: give documents in order, as a list"):
        asked(model, given(DOCUMENTS))


@pytest.mark.parametrize("estimator", [LLSVMRegressor, LLSVMRegressorCV])
@pytest.mark.parametrize("kind", [pd.to_timedelta, pd.to_datetime])
def test_targets_that_are_times_are_refused_where_a_score_is_asked_for(estimator, kind):
    X = np.random.default_rng(1).normal(size=(40, 2))
    fitted = estimator(memory_limit=LIMIT).fit(X, X[:, 0])
    assert fitted.score(X, X[:, 0]) > 0.8
    with pytest.raises(DataError, match=r"y: a label of type .*: it is not a number"):
        fitted.score(X, kind(np.arange(40)))


@pytest.mark.parametrize("given", [300, "300", "4000"])
def test_a_limit_without_a_unit(given):
    with pytest.raises(
        BudgetError, match=rf"the limit is {int(given):,} bytes \(a number without a unit means bytes\)"
    ):
        llsvm.train(np.eye(20), [0, 1] * 10, memory_limit=given)


@pytest.mark.parametrize(
    ("where", "hint"),
    [
        ("class == 'a'", "a column that is called class stands in back quotes: `class`"),
        ("x > 0 and lambda < 3", "`lambda`"),
        ("ts > 2024-01-10", 'dates and times stand in quotes: "2024-01-10"'),
        ("ts > 2024-01-10 12:30", 'in quotes: "2024-01-10 12:30"'),
        (
            "ts > 2024-11-10",
            'times cannot be compared with numbers: write a day such as "2024-06-01".* in quotes',
        ),
        ("ts == 3 and", "this is no expression; there are"),
        ("ts > '2024-01-10' and class == 'a'", "`class`"),
        ("x = 3", "== compares"),
    ],
)
def test_what_is_meant_by_words_that_are_no_expression(where, hint, tmp_path):
    n = 40
    table = {"ts": pd.date_range("2024-01-01", periods=n), "class": ["a", "b"] * (n // 2)}
    frame = pd.DataFrame({**table, "x": np.arange(n), "label": [0, 1] * (n // 2)})
    options = {"label": "label", "exclude": ["class"], "memory_limit": LIMIT}
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises((UsageError, DataError), match=hint):
        llsvm.train(str(tmp_path / "t.parquet"), where=where, **options)


def test_a_column_of_objects_of_several_types():
    frame = pd.DataFrame({"x": [1, "a", 2.5, None] * 10, "label": [0, 1] * 20})
    with pytest.raises(
        DataError, match=r"^X: column x has values of several types \(int, str, float\); leave it out"
    ):
        llsvm.train(frame, memory_limit=LIMIT)


def test_labels_of_another_kind_are_refused_by_their_file(tmp_path):
    path = str(tmp_path / "t.csv")
    pd.DataFrame({"x": np.arange(20.0), "label": ["a", "b"] * 10}).to_csv(path, index=False)
    model = llsvm.train(pd.DataFrame({"x": np.arange(20.0), "label": [0, 1] * 10}), memory_limit=LIMIT)
    with pytest.raises(ModelError, match=r"t.csv: the model's labels are numbers .*, the data's text"):
        llsvm.evaluate(model, path)


def test_predictions_for_no_rows_are_text_where_labels_are(tmp_path):
    data = pa.table({"x": np.arange(20.0), "label": ["a", "b"] * 10})
    model = llsvm.train(data, memory_limit=LIMIT)
    pq.write_table(data.slice(0, 0), tmp_path / "none.parquet")
    llsvm.write_predictions(model, str(tmp_path / "none.parquet"), tmp_path / "out.parquet", keep=["*"])
    assert pq.read_schema(tmp_path / "out.parquet").types == [pa.float64(), pa.string(), pa.string()]


@pytest.mark.parametrize("loss", ["hinge", "huber"])
def test_the_name_of_a_column_in_the_place_of_its_values(loss):
    frame = pd.DataFrame({"a": np.arange(20.0), "b": np.arange(20) % 3, "churn": np.arange(20) % 2 * 1.0})
    model = llsvm.train(frame, label="churn", loss=loss, memory_limit=LIMIT)
    for asked in (
        lambda: llsvm.train(frame, "churn", loss=loss, memory_limit=LIMIT),
        lambda: llsvm.tune(frame, "churn", loss=loss, memory_limit=LIMIT),
        lambda: llsvm.train(frame.to_numpy(), "churn", loss=loss, memory_limit=LIMIT),
        lambda: llsvm.evaluate(model, frame, "churn"),
    ):
        with pytest.raises(UsageError, match=r"y is 'churn'.* pass label='churn'"):
            asked()
    with pytest.raises(UsageError, match=r"sample_weight is 'b'.* pass weight='b'"):
        llsvm.train(frame, frame["churn"], sample_weight="b", loss=loss, memory_limit=LIMIT)


RECORDS = {
    "a list of dictionaries": list,
    "a dictionary": lambda records: {name: [each[name] for each in records] for name in records[0]},
    "an array of records": lambda records: pd.DataFrame(records).to_records(index=False),
}


@pytest.mark.parametrize("what", RECORDS)
def test_columns_without_a_frame_are_refused_with_the_frame_to_make_of_them(what):
    records = [{"x": float(x), "town": "Oslo" if x % 3 else "Lima", "y": int(x > 20)} for x in range(40)]
    frame = pd.DataFrame(records)
    model = llsvm.train(frame, label="y")
    records = RECORDS[what](records)
    estimator = LLSVMClassifier().fit(frame[["x", "town"]], frame["y"])
    for asked in (
        lambda: llsvm.train(records, label="y"),
        lambda: llsvm.train(records, frame["y"]),
        lambda: llsvm.tune(records, label="y"),
        lambda: LLSVMClassifier().fit(records, frame["y"]),
        lambda: LLSVMClassifier().partial_fit(records, frame["y"], classes=[0, 1]),
        lambda: estimator.predict(records),
    ):
        with pytest.raises(DataError, match=rf"X is {what}: give the data frame that pandas.DataFrame\(X\)"):
            asked()
    for asked in (lambda: llsvm.predict(model, records), lambda: llsvm.evaluate(model, records)):
        with pytest.raises(DataError, match=rf"X is {what}: give|pass .* or a data frame"):
            asked()


def test_a_dictionary_of_columns_is_neither_documents_nor_rows():
    documents = ["dull film", "lovely plot"] * 10
    columns, y = {"review": documents}, [0, 1] * 10
    model = llsvm.train(pd.DataFrame(columns).assign(y=y), label="y", text=["review"])
    estimator = LLSVMClassifier(text=True).fit(documents, y)
    numbers = {"x": np.arange(20.0)}
    for asked in (
        lambda: llsvm.predict(model, columns),
        lambda: llsvm.evaluate(model, columns, y),
        lambda: list(llsvm.explain(model, columns)),
        lambda: llsvm.predict(estimator, UserDict(columns)),
        lambda: estimator.predict(columns),
        lambda: estimator.decision_function(dict.fromkeys(documents, 1)),
        lambda: LLSVMClassifier(text=True).fit(dict.fromkeys(documents), [0, 1]),
        lambda: LLSVMClassifier(text=["review"]).fit(columns, y),
        lambda: llsvm.train(columns | {"y": y}, label="y", text=["review"]),
        lambda: llsvm.train(numbers | {"y": y}, label="y"),
        lambda: LLSVMClassifier().fit(numbers, y),
    ):
        with pytest.raises(DataError, match=r"dictionary: give the data frame that pandas.DataFrame\(X\)"):
            asked()


@pytest.mark.parametrize(
    ("y", "held"), [([1, "b"], "int, str"), (pd.period_range("2024-01", periods=2, freq="M"), "Period")]
)
def test_labels_that_are_no_labels_are_refused_by_what_they_are(y, held):
    labels = np.array([*y] * 5, object)
    for asked in (llsvm.train, LLSVMClassifier().fit):
        with pytest.raises(
            DataError, match=rf"y has dtype object and holds {held}; it must hold .*y.astype\(str\)"
        ):
            asked(np.eye(10), labels)
    llsvm.train(np.eye(10), labels.astype(str))


@pytest.mark.parametrize(
    "value", [pd.Period("2024-01", "M"), 1j, Fraction(1, 3)], ids=lambda value: type(value).__name__
)
def test_objects_that_no_table_holds_are_refused_by_their_type(value):
    frame = pd.DataFrame(
        {"x": np.arange(40.0), "odd": pd.Series([value] * 40, dtype=object), "y": [0, 1] * 20}
    )
    kind = type(value).__name__
    with pytest.raises(DataError, match=rf"column odd has values of the type {kind}, .*column.astype\(str\)"):
        llsvm.train(frame, label="y")
    llsvm.train(frame.assign(odd=frame["odd"].astype(str)), label="y", categorical=["odd"])
