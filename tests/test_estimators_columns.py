"""What scikit-learn knows of the columns of data frames, where some are text, categories or dates."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from cells import pairwise
from sklearn.impute import SimpleImputer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import llsvm
from llsvm import LLSVMClassifierCV
from llsvm.errors import DataError, UsageError
from llsvm.estimators.classifier import LLSVMClassifier
from llsvm.estimators.outlier_detector import LLSVMOutlierDetector
from llsvm.estimators.regressor import LLSVMRegressor

N = 60
ROWS = pd.DataFrame(
    {
        "age": np.arange(N) % 17 * 1.5,
        "town": ["Rome", "Oslo", "Bonn"] * (N // 3),
        "day": pd.date_range("2024-01-01", periods=N),
        "review": ["good film", "bad film", "dull", "good"] * (N // 4),
    }
)
Y = np.where(ROWS.town == "Rome", 1, 0)
FRAMES = {"pandas": lambda frame: frame, "polars": pl.from_pandas, "arrow": pa.Table.from_pandas}
CASES = {  # parameters, columns, features
    "categories": (
        {"missing": "mean"},
        ["age", "town", "day"],
        ["age", "day", "town=Rome", "town=Oslo", "town=Bonn"],
    ),
    "text": ({"text": ["review"], "max_features": 2}, ["age", "review"], None),
    "crosses": ({"cross": ["town:age"]}, ["age", "town"], None),
    "hashed": ({"hash_bits": 4}, ["age", "town"], ["age", *map(str, range(2, 18))]),
    "dates": ({}, ["age", "day"], ["age", "day"]),
}


@pytest.mark.parametrize(
    ("case", "library", "kind"),
    pairwise(CASES, FRAMES, [LLSVMClassifier, LLSVMRegressor, LLSVMOutlierDetector]),
)
def test_the_columns_are_those_of_the_frame(case, library, kind):
    options, names, features = CASES[case]
    frame = FRAMES[library](ROWS[names])
    fitted = kind(scale="standard", max_iter=20, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted.fit(frame) if kind is LLSVMOutlierDetector else fitted.fit(frame, Y)
        answers = np.asarray(fitted.predict(frame))
    assert fitted.n_features_in_ == len(names)
    assert fitted.feature_names_in_.tolist() == names
    found = fitted.get_feature_names_out().tolist()
    assert len(found) == len(set(found)) == fitted.model_.n_features_in_
    assert features is None or found == features
    # arrays of the features themselves
    width = len(found)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for encoded in (np.zeros((3, width)), sp.csr_array((3, width))):
            assert len(fitted.predict(encoded)) == 3
    if width != len(names):
        with pytest.raises(
            ValueError, match=rf"X has {len(names)} features, but .*is expecting {width} features"
        ):
            fitted.predict(np.zeros((3, len(names))))
    assert len(answers) == N


def test_each_fit_begins_anew():
    fitted = LLSVMClassifier(missing="mean").fit(ROWS[["age", "town"]], Y)
    assert fitted.n_features_in_ == 2
    fitted.set_params(missing="refuse").fit(ROWS[["age"]].to_numpy(), Y)
    assert (fitted.n_features_in_, hasattr(fitted, "feature_names_in_")) == (1, False)
    fitted.set_params(text=True).fit(ROWS.review.tolist(), Y)
    assert not hasattr(fitted, "feature_names_in_")
    fitted.fit(ROWS[["review"]], Y)
    assert (fitted.n_features_in_, fitted.feature_names_in_.tolist()) == (1, ["review"])


def test_files_have_the_columns_of_their_table(tmp_path):
    ROWS.assign(label=Y).to_csv(tmp_path / "rows.csv", index=False)
    fitted = LLSVMClassifier(text=["review"]).fit_file(tmp_path / "rows.csv", label="label")
    assert fitted.feature_names_in_.tolist() == ["age", "town", "day", "review"]
    assert fitted.n_features_in_ == 4
    assert fitted.score(ROWS, Y) > 0.9
    assert len(fitted.get_feature_names_out()) == fitted.coef_.shape[1]


def test_within_what_scikit_learn_makes():
    made = make_pipeline(FunctionTransformer(), LLSVMClassifier(scale="standard", missing="mean"))
    assert cross_val_score(made, ROWS[["age", "town"]], Y, error_score="raise").mean() > 0.9
    made.fit(ROWS[["age", "town"]], Y)
    assert made[-1].feature_names_in_.tolist() == ["age", "town"]


@pytest.mark.parametrize("form", FRAMES)
@pytest.mark.parametrize(
    "column",
    [
        pd.Series([None, *range(N - 1)], dtype=float),
        pd.Series(["1,5", "2,5", "3,25"] * (N // 3)),
        pd.Series([["a", "b"]] * N),
        pd.Series([*["1.5", "2", "3.25"] * (N // 3 - 1), "4", "5", "unknown"]),
    ],
)
def test_the_remedy_for_a_column_that_cannot_be_a_feature_works(column, form):
    frame = ROWS[["age", "town"]].assign(odd=column)
    with pytest.raises(DataError, match=r"leave (it|the column) out \(drop odd\)") as error:
        LLSVMClassifier().fit(FRAMES[form](frame), Y)
    assert "exclude" not in str(error.value)
    LLSVMClassifier().fit(FRAMES[form](frame.drop(columns="odd")), Y)


@pytest.mark.parametrize("text", [False, ["review"]])
def test_queries_are_refused_with_what_to_make_of_them(text):
    fitted = LLSVMClassifier(text=text).fit(ROWS, Y)
    wanted = fitted.predict(ROWS)
    for query, rows in (
        (pl.from_pandas(ROWS).lazy(), lambda query: query.collect()),
        (pytest.importorskip("duckdb").from_arrow(pa.Table.from_pandas(ROWS)), lambda query: query.df()),
    ):
        for call in (
            lambda X: LLSVMClassifier(text=text).fit(X, Y),
            fitted.predict,
            fitted.decision_function,
        ):
            with pytest.raises(
                UsageError, match=r"X is a .*, and estimators take rows that are in memory: give "
            ):
                call(query)
        np.testing.assert_array_equal(fitted.predict(rows(query)), wanted)


GAPS = np.where(np.random.default_rng(0).random((N, 3)) < 0.2, np.nan, np.arange(3 * N).reshape(N, 3) % 7)
ARRAYS = {
    "float64": np.copy,
    "float32": np.float32,
    "by columns": np.asfortranarray,
    "lists": np.ndarray.tolist,
    "sparse": sp.csr_array,
    "columns of sparse": sp.csc_matrix,
}


@pytest.mark.parametrize(
    ("kind", "scale", "missing", "form"),
    pairwise(
        [LLSVMClassifier, LLSVMRegressor, LLSVMOutlierDetector],
        ["none", "standard"],
        ["zero", "mean"],
        ARRAYS,
    ),
)
def test_missing_values_of_arrays_are_replaced_as_an_imputer_does(kind, scale, missing, form):
    X, y = ARRAYS[form](GAPS), () if kind is LLSVMOutlierDetector else (Y,)
    options = {"scale": scale, "tol": 1e-6, "max_iter": 2000}
    imputer = SimpleImputer(strategy="mean" if missing == "mean" else "constant", fill_value=0.0)
    filled = imputer.fit_transform(GAPS)
    wanted = kind(**options).fit(sp.csr_array(filled) if "sparse" in form else filled, *y)
    fitted = kind(missing=missing, **options).fit(X, *y)
    np.testing.assert_allclose(fitted.coef_, wanted.coef_, rtol=1e-3, atol=1e-3)
    assert len(fitted.predict(X)) == N
    scores = fitted.model_.decision_function
    np.testing.assert_allclose(scores(X), scores(filled), rtol=1e-5, atol=1e-5)
    left = X.toarray() if sp.issparse(X) else np.array(X)
    np.testing.assert_array_equal(left, GAPS)


@pytest.mark.parametrize("missing", ["zero", "mean"])
def test_missing_values_of_batches_are_replaced_by_what_all_of_them_tell(missing):
    wanted = LLSVMClassifier(missing=missing, tol=1e-8).fit(GAPS, Y)
    fitted = LLSVMClassifier(missing=missing, tol=1e-8)
    for part in np.array_split(np.arange(N), 3):
        fitted.partial_fit(GAPS[part], Y[part], classes=[0, 1])
    np.testing.assert_allclose(fitted.coef_, wanted.coef_, atol=1e-3)
    batches = [(GAPS[:20], Y[:20]), (GAPS[20:], Y[20:])]
    given = {"missing": missing, "bias": 1.0, "tol": 1e-8}
    np.testing.assert_allclose(llsvm.train(batches, **given).coef_, wanted.coef_, atol=1e-3)
    found = LLSVMClassifierCV(missing=missing, cv=2).fit(GAPS, Y).predict(GAPS)
    assert set(found) <= {0, 1}


@pytest.mark.parametrize("missing", ["mean", "zero"])
def test_missing_values_in_arrays_are_filled_as_those_of_the_frame(missing):
    """Where the model was fitted on the frame, and knows its columns by name."""
    frame = pd.DataFrame(GAPS + 3.0, columns=["a", "b", "c"]).assign(town=np.where(Y, "u", "v"))
    for names in (["a", "b", "c"], ["town", "a", "b", "c"]):
        fitted = LLSVMClassifier(missing=missing).fit(frame[names], Y)
        rows = np.column_stack(
            [
                frame[name.partition("=")[0]] == name[-1] if "=" in name else frame[name]
                for name in fitted.get_feature_names_out()
            ]
        ).astype(float)
        assert np.isnan(rows).any()
        np.testing.assert_allclose(fitted.decision_function(rows), fitted.decision_function(frame[names]))
        np.testing.assert_allclose(
            fitted.decision_function(sp.csr_matrix(rows)), fitted.decision_function(frame[names])
        )


def test_missing_values_are_refused_unless_they_are_asked_for():
    assert get_tags(LLSVMClassifier(missing="zero")).input_tags.allow_nan
    assert not get_tags(LLSVMClassifier()).input_tags.allow_nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        LLSVMClassifier().fit(GAPS, Y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        LLSVMClassifier().fit(np.zeros((N, 3)), Y).predict(GAPS)
    with pytest.raises(ValueError, match="Input X contains infinity"):
        LLSVMClassifier(missing="mean").fit(np.where(np.isnan(GAPS), np.inf, GAPS), Y)
    with pytest.raises(DataError, match=r"NaN: X\[\d+, \d\]; pass missing zero or missing mean, replace it"):
        llsvm.train(GAPS, Y)


@parametrize_with_checks([LLSVMClassifier(missing="mean"), LLSVMRegressor(missing="zero")])
def test_scikit_learns_checks_where_missing_values_are_replaced(estimator, check):
    check(estimator)
