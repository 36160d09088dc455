"""Sample weights count in all that is learned: a row of weight 2 is that row twice, one of weight 0 is no row."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import llsvm
from llsvm import LLSVMClassifier, LLSVMRegressor
from llsvm.errors import DataError

N = 160
EXACT = {"tol": 1e-8, "max_passes": 100_000, "threads": 1, "memory_limit": "2GB"}
WORDS = ["good", "bad", "fine", "poor", "long", "short", "slow", "quick", "plain", "odd"]
TABLE = {"missing": "mean", "class_weight": "balanced", "text": ("review",), "term_weight": "tfidf"}


def weighted_table(seed=0):
    """Numbers with zeros and gaps, categories, texts, labels, weights; what rows of weight 0 have no other has."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        rng.normal(size=(N, 3)).round(3) * [1.0, 100.0, 1.0] + [0, 500.0, 0], columns=["a", "b", "c"]
    )
    frame["c"] = np.where(rng.random(N) < 0.5, 0.0, frame["c"])
    frame["town"] = rng.choice(["oslo", "rome", "lima"], N)
    frame["review"] = [" ".join(rng.choice(WORDS, 4)) for _ in range(N)]
    frame["y"] = (frame["a"] + 0.01 * frame["b"] + rng.normal(size=N) > 5.3).astype(int)
    frame["target"] = 30 + 10 * frame["a"] + rng.normal(size=N).round(3)
    frame.loc[rng.random(N) < 0.2, "b"] = np.nan
    frame["w"] = rng.integers(0, 4, N) * 1.0
    none = frame.index[frame["w"] == 0][:8]
    frame.loc[none, ["a", "b", "c", "town", "review", "target"]] = [
        1e4,
        -1e5,
        -1e4,
        "nowhere",
        "unheard of",
        1e7,
    ]
    return frame


FRAME = weighted_table()


def repeated(frame):
    return frame.loc[frame.index.repeat(frame["w"].astype(int))].reset_index(drop=True)


def by_door(door, frame, path):
    """The same rows as a file or a frame."""
    if door == "csv":
        frame.to_csv(path / "t.csv", index=False)
        return path / "t.csv"
    if door == "jsonl":
        frame.to_json(path / "t.jsonl", orient="records", lines=True)
        return path / "t.jsonl"
    if door == "parquet":
        frame.to_parquet(path / "t.parquet", index=False)
        return path / "t.parquet"
    return pl.from_pandas(frame) if door == "polars" else frame


def same(ours, theirs):
    """Both score rows alike, and know as many features."""
    probe = FRAME[FRAME["w"] > 0]
    scores = [model.decision_function(probe) for model in (ours, theirs)]
    np.testing.assert_allclose(*scores, rtol=1e-5, atol=1e-5)
    assert ours.coef_.shape == theirs.coef_.shape
    if (spread := ours.extra.get("spread")) is not None:
        np.testing.assert_allclose(np.sort(spread), np.sort(theirs.extra["spread"]), rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("door", ["csv", "jsonl", "parquet", "polars", "pandas"])
def test_tables(tmp_path, door):
    (tmp_path / "twice").mkdir()
    options = {"label": "y", "exclude": ("target",), **TABLE, **EXACT}
    ours = llsvm.train(by_door(door, FRAME, tmp_path), weight="w", **options)
    theirs = llsvm.train(by_door(door, repeated(FRAME).drop(columns="w"), tmp_path / "twice"), **options)
    same(ours, theirs)
    assert ours.n_rows == np.count_nonzero(FRAME["w"])
    ours.save(tmp_path / "model")
    probe = FRAME[FRAME["w"] > 0]
    read = llsvm.load(tmp_path / "model")
    np.testing.assert_array_equal(read.decision_function(probe), ours.decision_function(probe))


@pytest.mark.parametrize(
    "options",
    [{"hash_bits": 12, "text": ("review",), "term_weight": "tfidf"}, {"cross": ("a:b", "town:b", "town:a")}],
)
def test_hashed_texts_and_crosses(tmp_path, options):
    options = {"label": "y", "missing": "mean", **EXACT, **options}
    names = ["a", "b", "town", "review", "y"] if "text" in options else ["a", "b", "town", "y"]
    ours = llsvm.train(FRAME[[*names, "w"]], weight="w", **options)
    theirs = llsvm.train(repeated(FRAME)[names], **options)
    same(ours, theirs)
    if "text" in options:
        assert llsvm.verify(ours, FRAME[[*names, "w"]])["holds"]


def test_frames_with_labels_and_weights_apart():
    X, options = FRAME[["a", "c", "town", "review"]], {**TABLE, **EXACT, "missing": "refuse"}
    twice = repeated(FRAME)
    ours = llsvm.train(X, FRAME["y"], sample_weight=FRAME["w"], **options)
    same(ours, llsvm.train(twice[X.columns], twice["y"], **options))


def test_documents_of_min_df_are_those_with_a_weight():
    frame = pd.DataFrame(
        {"review": ["one two", "two", "three two", "three one", "rare"], "y": [0, 1, 0, 1, 1]}
    )
    frame["w"] = [1.0, 2.0, 5.0, 0.0, 9.0]
    model = llsvm.train(frame, label="y", weight="w", text=("review",), min_df=2, threads=1)
    assert model.coef_.shape == (1, 1)  # "two"


def test_a_table_whose_rows_all_have_weight_0_is_refused():
    with pytest.raises(DataError, match=r"no row whose weight \(column w\) is above 0"):
        llsvm.train(FRAME[["a", "y"]].assign(w=0), label="y", weight="w", threads=1)


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("scale", ["standard", "minmax", "maxabs"])
def test_arrays(layout, scale):
    X = FRAME[["a", "c"]].to_numpy()
    given = (lambda part: part) if layout == "dense" else sp.csr_matrix
    weight, times = FRAME["w"].to_numpy(), FRAME["w"].astype(int)
    options = {**EXACT, "scale": scale, "class_weight": "balanced", "bias": 1.0}
    ours = llsvm.train(given(X), FRAME["y"], sample_weight=weight, **options)
    theirs = llsvm.train(given(np.repeat(X, times, 0)), np.repeat(FRAME["y"], times), **options)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-4)


@pytest.mark.parametrize("options", [{"penalty": "l1", "lambda1": 0.01}, {"lambda2": 0.1}])
def test_means_over_rows(options):
    X, times = FRAME[["a", "c"]].to_numpy(), FRAME["w"].astype(int)
    options = {**EXACT, **options, "tol": 1e-6, "solver": "smsvm"}
    ours = llsvm.train(X, FRAME["y"], sample_weight=FRAME["w"], **options)
    theirs = llsvm.train(np.repeat(X, times, 0), np.repeat(FRAME["y"], times), **options)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-2, atol=1e-3)
    assert llsvm.verify(ours, X, FRAME["y"], sample_weight=FRAME["w"])["holds"]


def test_targets():
    X, times = FRAME[["a", "c"]].to_numpy(), FRAME["w"].astype(int)
    options = {
        **EXACT,
        "loss": "epsilon_insensitive",
        "epsilon": 0.1,
        "target_scale": "standard",
        "bias": 1.0,
    }
    ours = llsvm.train(X, FRAME["target"], sample_weight=FRAME["w"], **options)
    theirs = llsvm.train(np.repeat(X, times, 0), np.repeat(FRAME["target"], times), **options)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-4)


def test_estimators():
    X, y, weight = FRAME[["a", "c"]], FRAME["y"], FRAME["w"]
    times = weight.astype(int)
    more, labels = X.loc[X.index.repeat(times)], np.repeat(y, times)
    made = LLSVMClassifier(class_weight="balanced", tol=1e-8)
    ours = made.fit(X, y, weight).coef_
    np.testing.assert_allclose(ours, made.fit(more, labels).coef_, rtol=1e-4)
    made = LLSVMRegressor(tol=1e-8)
    ours = made.fit(X, FRAME["target"], weight).coef_
    np.testing.assert_allclose(ours, made.fit(more, np.repeat(FRAME["target"], times)).coef_, rtol=1e-3)


def test_feature_maps_take_no_landmark_of_weight_0():
    X, some = FRAME[["a", "c"]].to_numpy(), (FRAME["w"] > 0).to_numpy()
    options = {"feature_map": "nystroem", "components": 20, "seed": 3, "threads": 1, "memory_limit": "2GB"}
    ours = llsvm.train(X, FRAME["y"], sample_weight=FRAME["w"], **options)
    theirs = llsvm.train(X[some], FRAME["y"][some], sample_weight=FRAME["w"][some], **options)
    np.testing.assert_array_equal(ours.feature_map.landmarks, theirs.feature_map.landmarks)


def test_labels_of_rows_of_weight_0_are_not_unknown():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0] * 5, "y": list("abcb") * 5, "w": [1, 1, 0, 1] * 5})
    model = llsvm.train(frame, label="y", weight="w", memory_limit="2GB")
    assert model.labels == ["a", "b"]
    assert llsvm.evaluate(model, frame, weight="w")["unknown_rows"] == 0
    assert llsvm.evaluate(model, frame)["unknown_labels"] == {"c": 5}


def test_classes_whose_rows_all_have_weight_0_are_none_to_tell_apart(tmp_path):
    """For each way in; and of a regression one row with a weight is one row."""
    X = np.arange(20.0).reshape(10, 2)
    y, weight = np.repeat([0, 1], 5), np.repeat([1.0, 0.0], 5)
    np.savez(tmp_path / "rows.npz", X=X, y=y, weight=weight)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y, "w": weight})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    room = {"memory_limit": "2GB"}
    ways = {
        "arrays": lambda: llsvm.train(X, y, sample_weight=weight, **room),
        "sparse": lambda: llsvm.train(sp.csr_matrix(X), y, sample_weight=weight, **room),
        "frame": lambda: llsvm.train(frame, label="y", weight="w", **room),
        "polars": lambda: llsvm.train(pl.from_pandas(frame), label="y", weight="w", **room),
        "csv": lambda: llsvm.train(tmp_path / "rows.csv", label="y", weight="w", **room),
        "parquet": lambda: llsvm.train(tmp_path / "rows.parquet", label="y", weight="w", **room),
        "npz": lambda: llsvm.train(tmp_path / "rows.npz", weight="weight", **room),
        "estimator": lambda: LLSVMClassifier(memory_limit="2GB").fit(X, y, weight),
        "documents": lambda: LLSVMClassifier(text=True).fit(["good film"] * 10, y, weight),
    }
    for way in ways.values():
        with pytest.raises(DataError, match="one class"):
            way()
    one = np.eye(10)[3]
    with pytest.raises(DataError, match=r"one row only \(n_samples = 1\)"):
        llsvm.train(X, X[:, 0], sample_weight=one, loss="squared_epsilon_insensitive", **room)
    with pytest.raises(DataError, match="all 5 rows have the same target, 0"):
        llsvm.train(X, y, sample_weight=weight, loss="squared_epsilon_insensitive", **room)
    calls = LLSVMClassifier(memory_limit="2GB").partial_fit(X, y, classes=[0, 1], sample_weight=weight)
    assert calls.classes_.tolist() == [0, 1]
