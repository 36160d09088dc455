"""Documents given to the classifier: lists, arrays, columns of data frames; equal to files of the same."""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer
from sklearn.model_selection import cross_val_score
from typer.testing import CliRunner

import llsvm
from llsvm import LLSVMClassifier, LLSVMClassifierCV, LLSVMOutlierDetector, LLSVMRegressor
from llsvm.cli import app
from llsvm.errors import DataError, UsageError

RNG = np.random.default_rng(3)
STARS = RNG.integers(0, 3, 90)
TOLD = [["great", "lovely"], ["awful", "boring"], ["so so", "café"]]
DOCUMENTS = [
    " ".join([*RNG.choice(["a film", "plot", "music", "naïve"], RNG.integers(1, 6)), RNG.choice(TOLD[star])])
    for star in STARS
]
NAMES = np.array(["up", "down", "middling"])[STARS]


def series(documents):
    return pytest.importorskip("pandas").Series(documents, index=np.arange(len(documents))[::-1])


@pytest.mark.parametrize(
    "given",
    [
        *(list, tuple, np.array, lambda d: np.array(d, object), lambda d: np.array(d, object).reshape(-1, 1)),
        *(pa.array, pa.chunked_array, lambda d: pa.table({"text": d}), series),
    ],
    ids=["list", "tuple", "str", "object", "column", "arrow", "chunks", "table", "series"],
)
def test_documents_are_what_scikit_learn_makes_of_them(given):
    X = given([DOCUMENTS]) if given is pa.chunked_array else given(DOCUMENTS)
    classifier = LLSVMClassifier(text=True, ngrams="1-2", min_df=2, random_state=0, tol=1e-5).fit(X, NAMES)
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), min_df=2)
    rows = vectorizer.fit_transform(DOCUMENTS)
    expected = LLSVMClassifier(random_state=0, tol=1e-5).fit(rows, NAMES)
    np.testing.assert_allclose(classifier.decision_function(X), expected.decision_function(rows), atol=2e-3)
    np.testing.assert_array_equal(classifier.predict(X), expected.predict(rows))
    assert classifier.score(X, NAMES) > 0.95
    assert classifier.coef_.shape == (3, len(vectorizer.vocabulary_)) == expected.coef_.shape
    np.testing.assert_array_equal(classifier.classes_, np.unique(NAMES))


def test_it_is_cloned_pickled_and_validated():
    classifier = LLSVMClassifier(text=True, term_weight="sublinear", loss="logistic", random_state=0)
    fitted = clone(classifier).fit(DOCUMENTS, STARS)
    assert fitted.classes_.dtype == STARS.dtype
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(DOCUMENTS[:7]), fitted.predict_proba(DOCUMENTS[:7]))
    assert cross_val_score(classifier, DOCUMENTS, STARS, cv=3).mean() > 0.8


def test_columns_of_a_frame_are_those_of_a_file(tmp_path):
    columns = {
        "n": RNG.standard_normal(90),
        "review": DOCUMENTS,
        "shop": RNG.choice(["Rome", "Köln"], 90),
        "label": NAMES,
    }
    frame = pa.table(columns)
    pq.write_table(frame, tmp_path / "reviews.parquet")
    wanted = {"text": ["review"], "random_state": 0}
    file = LLSVMClassifier(**wanted).fit_file(tmp_path / "reviews.parquet", label="label", scale="none")
    fitted = LLSVMClassifier(**wanted).fit(frame.drop_columns(["label"]), NAMES)
    np.testing.assert_allclose(fitted.coef_, file.coef_, atol=1e-6)
    others = frame.select(["shop", "label", "review", "n"])
    np.testing.assert_array_equal(fitted.predict(others), file.predict(others))
    assert fitted.score(frame, NAMES) > 0.95
    # a column named as labels are is a feature here, and weights count
    assert LLSVMClassifier(text="review").fit(frame, STARS).coef_.shape[1] == fitted.coef_.shape[1] + 3
    weighted = LLSVMClassifier(**wanted, tol=1e-6).fit(frame, STARS, sample_weight=np.full(90, 2.0))
    twice = LLSVMClassifier(**wanted, tol=1e-6).fit(pa.concat_tables([frame, frame]), np.r_[STARS, STARS])
    np.testing.assert_allclose(weighted.coef_, twice.coef_, atol=1e-3)
    model = llsvm.train(frame.drop_columns(["label"]), NAMES, text=["review"], bias=1.0)
    np.testing.assert_array_equal(model.predict(others), fitted.predict(others))


def test_what_is_missing_is_empty():
    documents = ["good", None, "bad", float("nan"), ""] * 4
    fitted = LLSVMClassifier(text=True, random_state=0).fit(np.array(documents, object), [1, 0, 0, 0, 0] * 4)
    np.testing.assert_array_equal(fitted.predict([None, "", "good"]), [0, 0, 1])


@pytest.mark.parametrize(
    ("options", "X", "said"),
    [
        ({"text": True}, ["a", 3], r"X\[1\] is 3 \(int\)"),
        ({"text": True}, [1, 2], r"X\[0\] is 1 \(int\)"),
        ({"text": True}, "ab", "X is one document"),
        ({"text": True}, {"a", "b"}, "X is a set: give documents in order, as a list"),
        ({"text": True}, {"a": 1, "b": 2}.keys(), "X is a dict_keys: give documents in order, as a list"),
        ({"text": True}, np.array([["a", "b"]] * 2, object), r"the shape \(2, 2\)"),
        ({"text": True}, pa.table({"a": ["x", "y"], "b": ["u", "v"]}), r"has 2 columns: .* text=\['a'\]"),
        ({"text": True}, pa.table({"a": [1, 2], "b": ["u", "v"]}), r"has 2 columns: .* text=\['b'\]"),
        (
            {"text": True},
            pa.table({"a": [1, 2], "b": [1, 2]}),
            "has 2 columns: leave it out: none is of text",
        ),
        *(
            ({}, X, "X is text, a document for each row: pass text=True")
            for X in (["a b", "c"], (None, "c"), np.array(["a", "b"]), series(["a", "b"]))
        ),
        ({"text": True}, [], "0 sample"),
        ({"text": ["c"]}, pa.table({"a": ["x", "y"], "b": ["u", "v"]}), "no column 'c'"),
        ({"text": ["a"]}, np.eye(2), "whose columns have names"),
        ({"ngrams": "1-2"}, np.eye(2), "ngrams has no meaning here: pass text"),
    ],
)
def test_what_is_no_text_is_refused(options, X, said):
    with pytest.raises((DataError, UsageError), match=said):
        LLSVMClassifier(**options).fit(X, [0, 1][: len(X)])


def test_files_need_their_columns_named(tmp_path):
    with pytest.raises(UsageError, match=r"text=True is for documents in memory.*text=\['review'\]"):
        LLSVMClassifier(text=True).fit_file(tmp_path / "none.csv")
    with pytest.raises(DataError, match=r"inconsistent|numbers of samples"):
        LLSVMClassifier(text=True).fit(["a", "b"], [0, 1, 1])


def test_a_regression_takes_documents_as_the_classifier_does():
    stars = STARS + 0.5 * np.array(["lovely" in each for each in DOCUMENTS])
    vectorizer = TfidfVectorizer(ngram_range=(1, 2))
    rows = vectorizer.fit_transform(DOCUMENTS)
    fitted = LLSVMRegressor(text=True, ngrams="1-2", random_state=0, tol=1e-6).fit(DOCUMENTS, stars)
    expected = LLSVMRegressor(random_state=0, tol=1e-6).fit(rows, stars)
    np.testing.assert_allclose(fitted.predict(DOCUMENTS), expected.predict(rows), atol=5e-3)
    assert fitted.score(np.array(DOCUMENTS, object), stars) > 0.9
    frame = pa.table({"review": DOCUMENTS, "n": np.ones(90)})
    by_name = clone(fitted).set_params(text=["review"]).fit(frame, stars, sample_weight=np.ones(90))
    assert by_name.predict(frame.select(["n", "review"])).shape == (90,)
    with pytest.raises(DataError, match="one document"):
        fitted.predict("a film")
    with pytest.raises(DataError, match="X is a generator: give documents in order, as a list"):
        fitted.predict(each for each in DOCUMENTS)


def test_outliers_among_documents_are_told(tmp_path):
    fitted = LLSVMOutlierDetector(text=True, nu=0.2, random_state=0, tol=1e-5).fit(DOCUMENTS)
    rows = TfidfVectorizer().fit_transform(DOCUMENTS)
    expected = LLSVMOutlierDetector(nu=0.2, random_state=0, tol=1e-5).fit(rows)
    np.testing.assert_allclose(
        fitted.decision_function(DOCUMENTS), expected.decision_function(rows), atol=5e-3
    )
    assert set(fitted.predict(DOCUMENTS)) == {-1, 1}
    assert LLSVMOutlierDetector(text=True).fit(DOCUMENTS, sample_weight=np.ones(90)).coef_.shape[0] == 1
    pq.write_table(pa.table({"review": DOCUMENTS, "n": np.ones(90)}), tmp_path / "rows.parquet")
    file = LLSVMOutlierDetector(text=["review"]).fit_file(tmp_path / "rows.parquet", exclude=["n"])
    assert file.offset_ == -file.intercept_[0]


@pytest.mark.parametrize("estimator", [LLSVMClassifier, LLSVMRegressor, LLSVMOutlierDetector])
def test_estimators_declare_that_they_take_text(estimator):
    tags = [estimator(text=text).__sklearn_tags__().input_tags for text in ((), True, ["review"])]
    assert [(tag.string, tag.one_d_array, tag.sparse) for tag in tags] == [
        (False, False, True),
        (True, True, False),
        (True, False, False),
    ]


@pytest.mark.parametrize("given", [{"scale": "standard"}, {"missing": "mean"}, {"categorical": ["code"]}])
def test_estimators_take_what_train_takes_of_a_frame(given):
    age, code = 1e4 * RNG.standard_normal(90) + 3e4, ["a", "b", "c"] * 30
    labels = np.where(age > 3e4, "old", "young")
    if "missing" in given:
        age[4::9] = np.nan
    if "categorical" in given:
        code = [*map(str, range(88)), "x", "y"]  # refused as numbers among which some text is
    frame = pa.table({"age": age, "code": code, "review": DOCUMENTS})
    options = {"scale": "maxabs", "text": ["review"], "max_features": 4, **given}
    model = llsvm.train(frame.append_column("label", pa.array(labels)), bias=1.0, tol=1e-6, **options)
    for estimator in (LLSVMClassifier, LLSVMRegressor, LLSVMOutlierDetector):
        fitted = estimator(**options, random_state=0, tol=1e-6).fit(frame, STARS)
        assert fitted.predict(frame).shape == (90,)
    fitted = LLSVMClassifier(**options, random_state=0, tol=1e-6).fit(frame, labels)
    np.testing.assert_allclose(fitted.coef_, model.coef_, atol=1e-2 * np.abs(model.coef_).max())
    assert fitted.get_feature_names_out().tolist() == list(model.feature_names)
    plain = clone(fitted).set_params(scale="none", missing="refuse", categorical=())
    if "scale" in set(given):
        numbers = np.c_[(age - age.mean()) / age.std()]
        scaled = frame.set_column(0, "age", pa.array(numbers[:, 0]))
        np.testing.assert_allclose(
            plain.fit(scaled, labels).coef_[0, 0] / age.std(), fitted.coef_[0, 0], rtol=1e-2
        )
    else:
        with pytest.raises(DataError, match=r"column (age|code)"):
            plain.fit(frame, labels)


def test_a_regression_scales_its_targets():
    X = RNG.standard_normal((60, 3))
    y = 1e4 * X[:, 0] + 1e5
    ours = LLSVMRegressor(target_scale="standard", random_state=0, loss="huber").fit(X, y)
    theirs = llsvm.train(X, y, target_scale="standard", loss="huber", bias=1.0)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-2)
    assert ours.score(X, y) > 0.9 > LLSVMRegressor(random_state=0, loss="huber").fit(X, y).score(X, y)
    with pytest.raises(UsageError, match="partial_fit cannot learn target_scale standard"):
        ours.partial_fit(X, y)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"stop_words": "english"}, {"stop_words": "english"}),
        ({"stop_words": ["film", "a", "plot"]}, {"stop_words": ["film", "a", "plot"]}),
        ({"stop_words": ENGLISH_STOP_WORDS}, {"stop_words": "english"}),
        ({"ngrams": (1, 2)}, {"ngram_range": (1, 2)}),
        ({"ngrams": [2, 3]}, {"ngram_range": (2, 3)}),
        ({"ngrams": 2}, {"ngram_range": (2, 2)}),
        ({"ngrams": (np.int64(1), np.int64(2))}, {"ngram_range": (1, 2)}),
    ],
)
def test_stop_words_and_ngrams_are_said_as_in_scikit_learn(ours, theirs, tmp_path):
    documents = ["the film and " + each for each in DOCUMENTS]
    wanted = set(TfidfVectorizer(**theirs).fit(documents).get_feature_names_out())
    fitted = clone(LLSVMClassifier(text=True, random_state=0, **ours)).fit(documents, NAMES)
    assert {name.removeprefix("text:") for name in fitted.get_feature_names_out()} == wanted
    model = llsvm.train(pa.table({"text": documents, "label": NAMES}), text=["text"], **ours)
    assert {name.removeprefix("text:") for name in model.feature_names} == wanted
    fitted.model_.save(tmp_path / "m")
    again = llsvm.Model.load(tmp_path / "m")
    assert list(again.feature_names) == fitted.get_feature_names_out().tolist()
    np.testing.assert_array_equal(again.predict(pa.table({"text": documents})), fitted.predict(documents))


def test_english_stop_words_on_the_shell(tmp_path):
    pq.write_table(
        pa.table({"review": ["the " + each for each in DOCUMENTS], "label": NAMES}), tmp_path / "r.parquet"
    )
    words = [
        "train",
        tmp_path / "r.parquet",
        "--text",
        "review",
        "--stop-words",
        "english",
        "--model",
        tmp_path / "m",
    ]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.stderr
    names = llsvm.Model.load(tmp_path / "m").feature_names
    assert "review:film" in names
    assert "review:the" not in names


def test_names_of_what_weights_are_for():
    with pytest.raises(NotFittedError):
        LLSVMClassifier().get_feature_names_out()
    X = RNG.standard_normal((90, 2))
    fitted = LLSVMClassifier().fit(X, STARS)
    assert fitted.get_feature_names_out().tolist() == ["x0", "x1"]
    assert fitted.get_feature_names_out(["a", "b"]).tolist() == ["a", "b"]
    assert fitted.model_.feature_names is None
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["n", "m"])
    assert LLSVMClassifier().fit(frame, STARS).get_feature_names_out().tolist() == ["n", "m"]
    mixed = frame.assign(review=DOCUMENTS, shop=["x", "y", "z"] * 30)
    fitted = LLSVMClassifier(text=["review"], cross=["shop:n"], max_features=1).fit(mixed, STARS)
    names = fitted.get_feature_names_out().tolist()
    assert len(names) == fitted.coef_.shape[1]
    assert names[:2] == ["n", "m"]
    assert {"shop=x", "shop=x & n"} <= set(names)


@pytest.mark.parametrize("search", [LLSVMClassifier, LLSVMClassifierCV])
def test_the_name_of_one_column_of_text_is_said_alike_of_frames_and_files(search, tmp_path):
    frame = pa.table({"review": DOCUMENTS, "label": NAMES})
    pq.write_table(frame, tmp_path / "reviews.parquet")
    file = search(text="review", random_state=0).fit_file(tmp_path / "reviews.parquet", label="label")
    fitted = search(text="review", random_state=0).fit(frame.drop_columns(["label"]), NAMES)
    np.testing.assert_allclose(file.coef_, fitted.coef_, atol=1e-6)


def test_masked_documents_are_refused():
    masked = np.ma.array(DOCUMENTS, mask=[True] + [False] * 89)
    fitted = LLSVMClassifier(text=True).fit(DOCUMENTS, STARS)
    for asked in (
        lambda: LLSVMClassifier(text=True).fit(masked, STARS),
        lambda: fitted.predict(masked),
        lambda: llsvm.predict(fitted, masked),
    ):
        with pytest.raises(DataError, match="X is a masked array, and 1 of its values"):
            asked()
