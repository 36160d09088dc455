"""Data that the caller holds, with their labels apart: options that name columns, odd containers, labels of all
kinds."""

import datetime as dt
import decimal
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import cross_val_score

import llsvm
from llsvm import LLSVMClassifier, LLSVMClassifierCV
from llsvm.errors import DataError, MissingColumnError, UsageError

pd = pytest.importorskip("pandas")

N = 90
ROOM = {"memory_limit": "2GB", "threads": 1}
EXACT = {"tol": 1e-9, "scale": "none", "bias": 0, **ROOM}
rng = np.random.default_rng(3)
X = rng.normal(size=(N, 4)) * (rng.random((N, 4)) < 0.7)
X[:, 0] = rng.integers(-3, 4, N)
K = (X[:, 0] + X[:, 1] + rng.normal(size=N) > 0).astype(int)


def frame(text):
    made = pd.DataFrame(X, columns=["a", "b", "c", "w"]).assign(w=np.arange(N) % 3)
    made.loc[::7, "c"] = np.nan
    return made.assign(t=np.where(K, "u", "v")) if text else made


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"features": ["a", "b"]},
        {"exclude": ["c", "w"]},
        {"exclude": ["c"], "weight": "w"},
        {"categorical": ["a"], "missing": "mean"},
        {"missing": "mean"},
        {"missing": "zero", "weight": "w"},
    ],
)
def test_options_that_name_columns_count_with_labels_apart(text, options):
    rows = frame(text)
    apart = llsvm.train(rows, K, **options, **EXACT)
    named = llsvm.train(rows.assign(y=K), label="y", **options, **EXACT)
    assert apart.feature_names == named.feature_names
    assert apart.n_rows == named.n_rows
    np.testing.assert_allclose(apart.coef_, named.coef_, atol=1e-6)
    assert llsvm.evaluate(apart, rows, K)["accuracy"] == llsvm.evaluate(named, rows, K)["accuracy"]
    assert llsvm.verify(apart, rows, K)["holds"]


@pytest.mark.parametrize("scores", [llsvm.train, lambda X, y, **more: llsvm.tune(X, y, C=[0.1, 1], **more)])
@pytest.mark.parametrize("option", ["features", "exclude", "categorical", "weight"])
def test_options_that_name_columns_are_refused_where_there_are_none(option, scores):
    value = "w" if option == "weight" else ["w"]
    for rows in (X, sp.csr_matrix(X)):
        with pytest.raises(UsageError, match=f"{option} names columns, and X has none"):
            scores(rows, K, **{option: value}, **ROOM)
    with pytest.raises(MissingColumnError, match=f"no column 'z' \\({option}\\)"):
        scores(frame(False), K, **{option: "z" if option == "weight" else ["z"]}, **ROOM)


def test_what_is_given_twice_is_refused():
    with pytest.raises(UsageError, match="label a and y are both given"):
        llsvm.train(frame(False), K, label="a", **ROOM)
    with pytest.raises(UsageError, match="weight w and sample_weight are both given"):
        llsvm.train(frame(False), K, sample_weight=np.ones(N), weight="w", **ROOM)


def test_a_model_of_a_file_is_verified_on_arrays_with_labels_apart(tmp_path):
    rows = frame(False).drop(columns="c").assign(y=K, z=1.0)
    rows.to_parquet(tmp_path / "rows.parquet")
    model = llsvm.train(tmp_path / "rows.parquet", label="y", exclude=["z"], weight="w", **EXACT)
    assert llsvm.verify(model, rows.drop(columns="y"), K)["holds"]
    model = llsvm.train(tmp_path / "rows.parquet", label="y", exclude=["z", "w"], **EXACT)
    assert llsvm.verify(model, rows[["a", "b"]].to_numpy(), K)["holds"]


def test_no_row_of_positive_weight_is_no_row():
    for rows in (X, frame(True).drop(columns="c")):
        with pytest.raises(DataError, match="rows have the weight 0"):
            llsvm.train(rows, K, sample_weight=np.zeros(N), **ROOM)


def test_estimators_heed_options_of_numeric_frames():
    rows = frame(False)
    model = LLSVMClassifier(missing="mean").fit(rows, K)
    assert model.score(rows, K) > 0.7
    model = LLSVMClassifier(missing="mean", categorical=["a"]).fit(rows, K)
    assert model.n_features_in_ == 4
    assert len(model.get_feature_names_out()) == 10


@pytest.mark.parametrize("kind", ["coo", "bsr", "dia", "csc", "lil", "dok"])
def test_sparse_matrices_of_any_format(kind):
    rows, model = sp.csr_matrix(X).asformat(kind), llsvm.train(X, K, **ROOM)
    expected = model.predict(X)
    np.testing.assert_array_equal(llsvm.predict(model, rows), expected)
    np.testing.assert_array_equal(model.predict(rows), expected)
    assert llsvm.evaluate(model, rows, K) == llsvm.evaluate(model, sp.csr_matrix(X), K)
    assert len(list(llsvm.explain(model, rows))) == N


def test_sparse_matrices_of_another_byte_order():
    other = sp.csr_matrix(X)
    other = sp.csr_matrix((other.data.astype(">f8"), other.indices, other.indptr), shape=other.shape)
    model = llsvm.train(other, K, **ROOM)
    np.testing.assert_array_equal(llsvm.predict(model, other), model.predict(X))


@pytest.mark.parametrize("kind", ["Int64", "Float64", "float[pyarrow]"])
def test_nullable_numbers(kind):
    whole = X.round()
    rows = pd.DataFrame(whole, columns=list("abcd")).astype(kind)
    model = llsvm.train(rows, K, **EXACT)
    np.testing.assert_allclose(model.coef_, llsvm.train(whole, K, **EXACT).coef_, atol=1e-6)
    assert llsvm.verify(model, rows, K)["holds"]
    rows.iloc[5, 2] = pd.NA
    with pytest.raises(DataError, match="column c: the value is missing in row 6"):
        llsvm.train(rows, K, **ROOM)
    assert llsvm.train(rows, K, missing="mean", **ROOM).n_features_in_ == 4


def test_columns_with_numbers_for_names():
    rows = pd.DataFrame({0: X[:, 0], 1: np.where(X[:, 1] > 0, "u", "v"), 2: K})
    named = rows.set_axis(["a", "b", "y"], axis=1)
    model = llsvm.train(rows, label=2, **ROOM)
    np.testing.assert_array_equal(model.coef_, llsvm.train(named, label="y", **ROOM).coef_)
    expected = llsvm.train(named[["a", "b"]], K, **ROOM).predict(named)
    estimator = LLSVMClassifier(fit_intercept=False).fit(rows[[0, 1]], K)
    np.testing.assert_array_equal(estimator.predict(rows[[0, 1]]), expected)
    np.testing.assert_array_equal(llsvm.predict(llsvm.train(rows[[0, 1]], K, **ROOM), rows), expected)
    assert llsvm.evaluate(model, rows)["accuracy"] > 0.7
    documents = pd.DataFrame(np.where(K, "good film", "bad film"))
    assert LLSVMClassifier(text=True).fit(documents, K).score(documents, K) == 1


def test_cells_that_are_no_numbers_are_refused_by_their_place():
    cells = np.column_stack([X[:, 0], np.where(K, "u", "v")]).astype(object)
    for rows in (cells, cells.tolist()):
        with pytest.raises(DataError, match=r"X: '[uv]' in row 1, column 1 is no number: .*data frame"):
            LLSVMClassifier().fit(rows, K)
    with pytest.raises(DataError, match=r"X: '[uv]' in row 1, column 1 is no number"):
        LLSVMClassifier().fit(X[:, :2], K).predict(cells)
    cells[:, 1] = pd.Timestamp("2024-01-01")
    with pytest.raises(TypeError, match=r"X: Timestamp.* in row 1, column 1 is no number"):
        LLSVMClassifier().fit(cells, K)


def test_functions_take_a_fitted_estimator():
    estimator = LLSVMClassifier().fit(X, K)
    assert llsvm.evaluate(estimator, X, K)["accuracy"] == estimator.score(X, K)
    np.testing.assert_array_equal(llsvm.predict(estimator, X), estimator.predict(X))


DAYS = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]
TIMES = [dt.datetime(2024, 1, 1, 5), dt.datetime(2024, 1, 1, 6)]
LABELS = {  # of scikit-learn's estimators: values, the type of predictions
    "nullable bools": (lambda y: y.astype(bool).astype("boolean"), "b"),
    "objects that are bools": (lambda y: y.astype(bool).astype(object), "b"),
    "categories of bools": (lambda y: y.astype(bool).astype("category"), "b"),
    "nullable integers": (lambda y: y.astype("Int64"), "i"),
    "objects that are integers": (lambda y: y.astype(object), "i"),
    "decimals": (lambda y: y.map(decimal.Decimal), "f"),
    "days": (lambda y: y.map(dict(enumerate(DAYS))).astype(object), "M"),
    "times as objects": (lambda y: pd.Series([TIMES[k] for k in y], dtype=object), "M"),
    "times": (lambda y: y.map(dict(enumerate(TIMES))).astype("datetime64[ns]"), "M"),
    "days of NumPy": (lambda y: np.array(DAYS, "datetime64[D]")[y], "M"),
    "a column of objects": (lambda y: pd.DataFrame({"y": y.astype(bool).astype(object)}), "b"),
    "text": (lambda y: y.map({0: "no", 1: "yes"}), "U"),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_estimators_predict_labels_of_the_type_they_were_given(kind):
    make, expected = LABELS[kind]
    y = make(pd.Series(K))
    estimator = LLSVMClassifier(random_state=0).fit(X, y)
    assert estimator.predict(X).dtype.kind == estimator.classes_.dtype.kind == expected
    share = LLSVMClassifier(random_state=0).fit(X, K).score(X, K)
    assert estimator.score(X, y) == share
    found = pd.Series(estimator.predict(X))
    assert (found.to_numpy() == np.ravel(y).astype(found.to_numpy().dtype)).mean() == share
    assert cross_val_score(LLSVMClassifier(), X, y, cv=3).min() > 0.5
    assert LLSVMClassifierCV(Cs=[0.1, 1], cv=3).fit(X, y).predict(X).dtype.kind == expected
    parts = LLSVMClassifier()
    for part in (slice(0, 50), slice(50, N)):
        parts.partial_fit(X[part], np.ravel(y)[part], classes=estimator.classes_)
    assert parts.predict(X).dtype.kind == expected
    if expected != "U":
        assert len(CalibratedClassifierCV(LLSVMClassifier(), cv=2).fit(X, estimator.predict(X)).classes_) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: [None, "a"] * 45, r"y\[0\]: it is missing"),
        (lambda: [float("nan"), "a"] * 45, r"y\[0\]: it is missing"),
        (lambda: pd.Series([pd.NA, "a"] * 45, dtype="string"), r"y\[0\]: it is missing"),
        (lambda: pd.Series([pd.NA, True] * 45, dtype="boolean"), r"y\[0\]: it is missing"),
        (lambda: pd.Series([pd.NaT, TIMES[0]] * 45), r"y\[0\]: it is missing"),
        (lambda: ["a", 1] * 45, "must hold numbers or text"),
    ],
)
def test_labels_that_are_missing_or_of_two_kinds_are_refused(make, message):
    for train in (lambda y: llsvm.train(X, y, **ROOM), lambda y: LLSVMClassifier().fit(X, y)):
        with pytest.raises(DataError, match=message):
            train(make())


def test_labels_that_scikit_learn_cannot_score_are_refused_with_the_remedy():
    hours = np.array([dt.time(5 + k) for k in K], object)
    with pytest.raises(DataError, match=r"y\[0\] is datetime.time.*give text"):
        LLSVMClassifier().fit(X, hours)
    assert llsvm.evaluate(llsvm.train(X, hours, **ROOM), X, hours)["unknown_rows"] == 0


@pytest.mark.parametrize("unit", ["h", "D", "ns"])
def test_spans_of_time_are_classes_in_their_order(unit):
    """As text 10 comes before 2, and scikit-learn's own estimators expect classes that ascend."""
    spans = np.array([1, 10, 2], f"m8[{unit}]")[np.digitize(X[:, 0], [-0.5, 0.5])]
    fitted = LLSVMClassifier().fit(X, spans)
    assert fitted.classes_.tolist() == np.unique(spans).tolist()
    assert fitted.classes_.dtype == spans.dtype
    in_calls = (
        LLSVMClassifier(tol=1e-6).partial_fit(X, spans, classes=[*np.unique(spans)]).partial_fit(X, spans)
    )
    assert in_calls.classes_.tolist() == fitted.classes_.tolist()
    assert in_calls.score(X, spans) > 0.7
    assert llsvm.evaluate(fitted, X, spans)["accuracy"] == pytest.approx(fitted.score(X, spans))
    two = np.where(K, spans.max(), np.unique(spans)[1])
    assert CalibratedClassifierCV(LLSVMClassifier(), cv=3).fit(X, two).score(X, two) > 0.7
    with pytest.raises(DataError, match=r"y\[1\]: it is missing"):
        LLSVMClassifier().fit(X, np.where(np.arange(len(X)) == 1, np.timedelta64("NaT"), spans))


def test_labels_of_functions_keep_their_types():
    spans = np.array([1, 2], "timedelta64[s]")[K]
    assert llsvm.evaluate(llsvm.train(X, spans, **ROOM), X, spans)["unknown_rows"] == 0
    assert llsvm.train(X, K.astype(object), **ROOM).classes_.dtype.kind == "i"
    large = (K + 2**60).astype(object)
    assert llsvm.train(X, large, **ROOM).classes_.tolist() == [2**60, 2**60 + 1]


@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        *((["b", "a"], "a"), (["a", "b"], "b"), ([3, 4], 4), ([4, 3], 3)),
        *(([True, False], "false"), ([True, False], False), ([False, True], np.True_)),
    ],
)
def test_classes_of_one_label_against_the_other_are_what_is_predicted(tmp_path, labels, positive):
    y = np.array(labels)[K]
    model = llsvm.train(X, y, positive=positive, output=tmp_path / "m", **ROOM)
    for each in (model, llsvm.load(tmp_path / "m")):
        assert each.classes_.tolist() == labels
        assert set(each.predict(X)) == set(labels)
        scores = each.decision_function(X)
        np.testing.assert_array_equal(each.classes_[(scores > 0).astype(int)], each.predict(X))
        assert llsvm.evaluate(each, X, y)["accuracy"] == np.mean(each.predict(X) == y)
        assert llsvm.verify(each, X, y)["holds"]


def test_categories_that_are_numbers_are_told_of():
    rows = pd.DataFrame({"zip": K + 94105, "x": X[:, 1]}).astype({"zip": "category"})
    with pytest.warns(UserWarning, match=r"column zip: its type is that of categories.*categorical zip"):
        model = llsvm.train(rows.assign(y=K), label="y", **ROOM)
    assert model.feature_names == ("zip", "x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = llsvm.train(rows.assign(y=K), label="y", categorical=["zip"], **ROOM)
    assert set(model.feature_names) == {"zip=94105", "zip=94106", "x"}
