"""Scaling: against scikit-learn's scalers, and undone in the model."""

import threading
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from format_files import rows, write
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler, normalize

from llsvm.block import CSR
from llsvm.data import open_source
from llsvm.estimators.classifier import LLSVMClassifier
from llsvm.features.scaling import ColumnStatistics
from llsvm.memory.budget import MemoryBudget
from llsvm.models.liblinear import read_liblinear, write_liblinear
from llsvm.scoring.measure import measure
from llsvm.scoring.sources import open_for
from llsvm.settings.settings import Settings, said_of_defaults
from llsvm.stream.first_reading import FirstReading
from llsvm.stream.progress import Progress
from llsvm.stream.stream import Stream
from llsvm.train import load, train
from llsvm.training.training import Training

SKLEARN = {"maxabs": MaxAbsScaler, "minmax": MinMaxScaler, "standard": StandardScaler}
X, Y = rows(400, 6)
SIZES = np.array([1, 100, 1e4, 1e-3, 5, 30], np.float32)
RAW = X * SIZES + np.array([0, 0, 2e4, 0, -7, 1], np.float32)


def csr(M):
    S = sp.csr_matrix(M)
    return CSR(S.indptr.astype(np.int64), S.indices, S.data.copy())


def learned(kind, blocks, n, d, dense):
    statistics = ColumnStatistics()
    for block in blocks:
        statistics.add(block)
    return statistics.scaling(kind, n, d, dense)


MATRICES = arrays(
    np.float32,
    st.tuples(st.integers(1, 20), st.integers(1, 5)),
    elements=st.floats(-1000, 1000, width=32).map(lambda v: 0 if abs(v) < 1 else v),
)


@settings(deadline=None, max_examples=50)
@given(MATRICES, st.sampled_from(sorted(SKLEARN)), st.integers(1, 19))
def test_dense_as_scikit_learn_has_it(M, kind, cut):
    scaling = learned(kind, [M[:cut], M[cut:]], *M.shape, dense=True)
    scaled = M.copy()
    scaling.apply(scaled)
    expected = SKLEARN[kind]().fit_transform(M.astype(float))
    np.testing.assert_allclose(scaled, expected, rtol=1e-4, atol=1e-4)


@settings(deadline=None, max_examples=50)
@given(
    arrays(np.float32, (6, 4), elements=st.sampled_from([0.0, 1.0, 3.0])),
    arrays(np.float64, 6, elements=st.sampled_from([3e-10, 0.1, 1e8])),
    st.integers(1, 5),
    st.booleans(),
)
def test_zeros_of_tiny_weight_beside_large_ones_count(M, weight, cut, dense):
    """64-bit sums of weights keep the largest alone: means and deviations are those of exact fractions all the
    same, also where rows that weigh next to nothing are all that differs."""
    statistics = ColumnStatistics()
    for part in (slice(None, cut), slice(cut, None)):
        statistics.add(M[part] if dense else csr(M[part]), weight[part])
    scaling = statistics.scaling("standard", *M.shape, dense)
    scaled = M.astype(np.float64)
    scaling.apply(scaled)
    exact = [Fraction(w) for w in weight.tolist()]
    for j, column in enumerate(M.T.tolist()):
        mean = sum(w * Fraction(x) for w, x in zip(exact, column, strict=True)) / sum(exact)
        square = sum(w * (Fraction(x) - mean) ** 2 for w, x in zip(exact, column, strict=True)) / sum(exact)
        assert scaling.fill[j] == pytest.approx(float(mean), rel=1e-6, abs=1e-12)
        deviation = float(square) ** 0.5
        assert scaling.scale[j] == pytest.approx(1 / deviation if deviation else 1.0, rel=1e-6)
        if dense and deviation:
            expected = [float(Fraction(x) - mean) / deviation for x in column]
            ratio = abs(float(mean)) / deviation
            tolerated = 1e-15 * ratio if ratio < 2.0**20 else 1e-30  # columns beyond are shifted exactly
            assert scaled[:, j].tolist() == pytest.approx(expected, rel=1e-6, abs=tolerated)


@settings(deadline=None, max_examples=50)
@given(MATRICES, st.sampled_from(sorted(SKLEARN)), st.integers(1, 19))
def test_sparse_learns_the_same_and_fills_nothing(M, kind, cut):
    n, d = M.shape
    dense = learned(kind, [M], n, d, dense=True)
    sparse = learned(kind, [csr(M[:cut]), csr(M[cut:])], n, d, dense=False)
    np.testing.assert_allclose(sparse.scale, dense.scale, rtol=1e-9)
    full = (M != 0).all(axis=0)
    np.testing.assert_allclose(sparse.shift, np.where(full, dense.shift, 0), rtol=1e-9, atol=1e-12)
    rows_ = csr(M)
    sparse.apply(rows_)
    assert len(rows_.data) == np.count_nonzero(M)


def test_unit_rows():
    for M in (X.copy(), csr(X)):
        learned("unit-row", [M], *X.shape, dense=True).apply(M)
        out = (
            M
            if isinstance(M, np.ndarray)
            else sp.csr_matrix((M.data, M.indices, M.indptr), X.shape).toarray()
        )
        np.testing.assert_allclose(out, normalize(X), rtol=1e-5, atol=1e-7)


def test_missing_values_become_the_mean():
    M = np.array([[1, 5], [np.nan, 5], [3, np.nan], [0, 2]], np.float32)
    scaling = learned("none", [M], 4, 2, dense=True)
    scaling.apply(M)
    np.testing.assert_allclose(M, [[1, 5], [4 / 3, 5], [3, 4], [0, 2]])


@pytest.mark.parametrize("kind", sorted(SKLEARN))
@pytest.mark.parametrize("limit", [None, 6_500_000])
@pytest.mark.parametrize("cache", ["auto", "never"])
def test_the_optimum_is_that_of_scaled_data_and_the_model_takes_raw_data(tmp_path, kind, limit, cache):
    raw, y = np.tile(RAW, (150, 1)), np.tile(Y, 150)
    expected = SKLEARN[kind]().fit_transform(raw.astype(float))
    theirs = train(expected, y, tol=1e-5, bias=1.0, max_passes=500, C=0.1)
    chosen = Settings(
        scale=kind, tol=1e-5, bias=1.0, max_passes=500, C=0.1, cache=cache, spill_dir=str(tmp_path)
    )
    budget = None if limit is None else MemoryBudget(limit, 0)
    source = open_source(write(tmp_path, "npz", raw, y))
    with Training(source, chosen, budget=budget) as training:
        for _ in training:
            pass
        ours = training.model
        place = training.stream.place
    assert place == ("memory" if limit is None else "cache" if cache == "auto" else "source")
    assert ours.certificate.total_primal == pytest.approx(theirs.certificate.total_primal, rel=2e-5)
    np.testing.assert_allclose(
        ours.decision_function(raw.astype(float)), theirs.decision_function(expected), atol=2e-2
    )


def test_the_certificate_is_of_the_scaled_space():
    model = train(RAW, Y, scale="standard", tol=1e-6, bias=1.0, max_passes=2000)
    scaled = StandardScaler().fit_transform(RAW.astype(float))
    w, b = model.coef_[0] * RAW.astype(float).std(axis=0), 0.0
    b = model.intercept_[0] + model.coef_[0] @ RAW.astype(float).mean(axis=0)
    hinge = np.maximum(0, 1 - np.where(Y > 0, 1, -1) * (scaled @ w + b)).sum()
    assert (w @ w + b * b) / 2 + hinge == pytest.approx(model.certificate.total_primal, rel=1e-5)


def test_arrays_of_the_caller_are_left_alone():
    mine = RAW.copy()
    train(mine, Y, scale="standard", bias=1.0)
    np.testing.assert_array_equal(mine, RAW)


def test_unit_rows_are_made_at_prediction_too(tmp_path):
    path = write(tmp_path, "svm", RAW, Y)
    model = train(path, scale="unit-row", tol=1e-5, max_passes=2000)
    theirs = train(normalize(RAW.astype(float)), Y, tol=1e-5, max_passes=2000)
    assert model.certificate.total_primal == pytest.approx(theirs.certificate.total_primal, rel=1e-4)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    np.testing.assert_allclose(loaded.decision_function(RAW), model.decision_function(RAW))
    answer = measure(loaded, open_for(loaded, path))
    assert answer["correct"] == np.sum(loaded.predict(RAW) == Y)
    assert answer["correct"] == np.sum(theirs.predict(normalize(RAW.astype(float))) == Y)


def test_unscaled_columns_are_noticed(tmp_path):
    path = write(tmp_path, "csv", RAW, Y)
    for scale, noticed in (("none", True), ("minmax", False), ("auto", False)):
        with Training(open_source(path), Settings(scale=scale)) as training:
            report = next(iter(training))
        assert ("--scale" in report.note) == noticed


def table_with_labels(tmp_path, kind="csv", text=False):
    table = {f"c{j}": RAW[:, j] for j in range(RAW.shape[1])} | {"label": Y}
    if text:
        table["town"] = np.where(np.arange(len(Y)) % 3 == 0, "Rome", "Oslo")
    path = tmp_path / f"t.{kind}"
    columns = pa.table(table)
    {"csv": pa.csv.write_csv, "parquet": pa.parquet.write_table, "arrow": pa.feather.write_feather}[kind](
        columns, path
    )
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_tables_are_scaled_and_have_a_bias_unless_asked_otherwise(tmp_path, kind):
    path = table_with_labels(tmp_path, kind)
    model = train(path)
    assert (model.settings["scale"], model.settings["bias"]) == ("standard", 1.0)
    assert model.converged
    assert model.intercept_[0] != 0
    asked = train(path, scale="standard", bias=1.0)
    np.testing.assert_array_equal(model.coef_, asked.coef_)
    one = Settings(scale="maxabs", max_passes=2)
    with Training(open_source(path), one) as training:
        assert (training.settings.scale, training.settings.bias) == ("maxabs", 1.0)
        assert training.defaults == "table: bias 1 (--bias 0 for none)"


def test_text_columns_beside_scaled_ones_have_their_bias_too(tmp_path):
    path = table_with_labels(tmp_path, text=True)
    with Training(open_source(path), Settings()) as training:
        first = next(iter(training))
    assert training.defaults == (
        "table: columns scaled to mean 0 and variance 1, bias 1 (--scale none --bias 0 for the columns as they are)"
    )
    assert "--scale" not in first.note
    assert "--bias" not in first.note


@pytest.mark.parametrize("kind", ["svm", "npz", "h5"])
def test_svmlight_and_arrays_stay_as_they_are(tmp_path, kind):
    model = train(write(tmp_path, kind, X, Y), max_passes=2)
    assert (model.settings["scale"], model.settings["bias"]) == ("none", 0.0)
    arrays_ = train(X, Y, max_passes=2)
    assert (arrays_.settings["scale"], arrays_.settings["bias"]) == ("none", 0.0)


def test_lists_in_a_table_are_arrays(tmp_path):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), X.shape[1])
    pa.parquet.write_table(pa.table({"v": lists, "y": Y}), tmp_path / "v.parquet")
    with Training(open_source(tmp_path / "v.parquet"), Settings()) as training:
        assert (training.settings.scale, training.settings.bias, training.defaults) == ("none", 0.0, "")


@pytest.mark.parametrize(
    ("options", "resolved"),
    [
        ({"solver": "nesvm", "intercept": True}, ("standard", 0.0)),
        ({"solver": "nesvm", "kernel": "rbf"}, ("none", 0.0)),
        ({"feature_map": "rff"}, ("none", 0.0)),
        ({"scale": "none"}, ("none", 1.0)),
        ({"bias": 0.0}, ("standard", 0.0)),
        ({"bias": 2.5, "scale": "unit-row"}, ("unit-row", 2.5)),
    ],
)
def test_what_auto_means_for_a_table(options, resolved):
    chosen = Settings(**options).resolved(is_table=True)
    assert (chosen.scale, chosen.bias) == resolved
    assert chosen.resolved(is_table=False) == chosen


def test_a_scaled_table_is_evaluated_predicted_and_exported_as_it_is(tmp_path):
    path = table_with_labels(tmp_path)
    model = train(path, output=tmp_path / "m")
    loaded = load(tmp_path / "m")
    answer = measure(loaded, open_for(loaded, path))
    assert answer["correct"] == np.sum(loaded.predict(RAW.astype(float)) == Y)
    write_liblinear(loaded, tmp_path / "text")
    again = read_liblinear(tmp_path / "text")
    np.testing.assert_allclose(
        again.decision_function(RAW.astype(float)), model.decision_function(RAW.astype(float)), rtol=1e-12
    )


def test_the_estimator_scales_files_of_tables_and_not_arrays(tmp_path):
    path = table_with_labels(tmp_path)
    ours = LLSVMClassifier().fit_file(path)
    assert ours.model_.settings["scale"] == "standard"
    assert ours.certificate_.total_primal == pytest.approx(train(path).certificate.total_primal, rel=2e-3)
    assert LLSVMClassifier().fit_file(path, scale="none").model_.settings["scale"] == "none"
    assert LLSVMClassifier(max_iter=2, tol=1.0).fit(RAW, Y).model_.settings["scale"] == "none"


def test_statistics_grow_with_the_columns():
    statistics = ColumnStatistics()
    for d in (1, 3, 2, 40):
        statistics.add(csr(np.full((2, d), 2.0, np.float32)))
    scaling = statistics.scaling("maxabs", 8, 40, False)
    np.testing.assert_array_equal(scaling.scale, 0.5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"solver": "nesvm", "intercept": True},
            "mean 0 and variance 1 (--scale none for the columns as they are)",
        ),
        ({"scale": "none", "bias": 0}, ""),
        (
            {"solver": "nesvm", "kernel": "rbf"},
            "table: columns as they are (a kernel or a feature map takes no",
        ),
    ],
)
def test_what_is_said_of_a_tables_defaults(options, words):
    said = said_of_defaults(Settings(**options), is_table=True)
    assert words in said
    assert bool(said) == bool(words)
    assert said_of_defaults(Settings(**options), is_table=False) == ""


def test_indicators_of_categories_are_neither_learned_nor_scaled(tmp_path):
    text = np.array([f"t{i % 50}" for i in range(len(Y))])
    pa.csv.write_csv(pa.table({"a": RAW[:, 2], "t": text, "y": Y}), tmp_path / "t.csv")
    source = open_source(tmp_path / "t.csv", options={"hash_bits": 18})
    with Training(source, Settings(hash_bits=18, max_passes=3)) as training:
        for _ in training:
            pass
        assert len(training.stream.scaling.scale) == 1
        signed = sum(
            nbytes
            for name, nbytes in training.stream.budget.lines.items()
            if "scal" in name or "stat" in name
        )
        model = training.model
    assert 0 < signed < 1000
    scaled = training.stream.scaling
    assert scaled.scale[0] == pytest.approx(1 / RAW[:, 2].astype(float).std(), rel=1e-5)
    assert model.coef_.shape == (1, 1 + 2**18)


@pytest.mark.parametrize("dense", [False, True])
def test_columns_beyond_the_scaled_ones_stay(dense):
    M = np.c_[RAW[:, :2], np.eye(len(RAW), 3, dtype=np.float32)]
    rows_ = M.copy() if dense else csr(M)
    statistics = ColumnStatistics(2)
    statistics.add(rows_)
    scaling = statistics.scaling("maxabs", *M.shape, dense)
    scaling.apply(rows_)
    out = rows_ if dense else sp.csr_matrix((rows_.data, rows_.indices, rows_.indptr), M.shape).toarray()
    np.testing.assert_array_equal(out[:, 2:], M[:, 2:])
    np.testing.assert_allclose(np.abs(out[:, :2]).max(axis=0), 1, rtol=1e-6)
    coef = np.ones((1, 5))
    intercept = scaling.raw_weights(coef, np.zeros(1))
    np.testing.assert_allclose(coef @ M[7] + intercept, out[7].sum(), rtol=1e-5)


def test_what_rounding_loses_is_summed_over_rows_whatever_their_weights():
    lost = []
    for weight in (None, np.full(len(RAW), 1e-6), np.full(len(RAW), 1e6)):
        statistics = ColumnStatistics()
        statistics.add(RAW, weight)
        scaling = statistics.scaling("standard", *RAW.shape, True)
        lost.append(statistics.lost_by_scaling(scaling, 0.0, len(RAW)))
    assert lost[1:] == pytest.approx([lost[0]] * 2)


class _Failing(ColumnStatistics):
    """Fails at the second block; says which threads have added."""

    def __init__(self):
        super().__init__()
        self.threads = []

    def add(self, X, weight=None):
        self.threads.append(threading.current_thread())
        if len(self.threads) == 2:
            raise MemoryError("of the second block")
        super().add(X, weight)


def test_statistics_are_taken_beside_the_reading_which_waits_for_them(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"{i % 2} 1:{i} 2:0.5\n" for i in range(4000)))
    statistics = _Failing()
    reading = FirstReading(open_source(str(path)), Progress(), statistics)
    with pytest.raises(MemoryError, match="second block"):
        reading.run(20_000, 20_000, lambda: 1 << 30, True, None, False)
    assert len(statistics.threads) == 2  # no third block was asked for
    assert threading.current_thread() not in statistics.threads
    assert not any(thread.is_alive() for thread in statistics.threads)


@pytest.mark.parametrize(
    ("columns", "options", "squared_norm"),
    [
        ({"age": None}, {}, 1.0),
        ({"review": None}, {"text": ("review",)}, 1.0),  # documents have the length 1
        ({"review": None, "age": None, "price": None}, {"text": ("review",)}, 3.0),
        ({"review": None, "town": None, "age": None}, {"text": ("review",)}, 3.0),
        ({"review": None}, {"text": ("review",), "term_weight": "count"}, 5.0),
    ],
)
def test_rows_are_as_long_as_what_scaling_leaves_and_what_it_leaves_alone(
    tmp_path, monkeypatch, columns, options, squared_norm
):
    rng, n = np.random.default_rng(0), 500
    words = [f"word{i}" for i in range(300)]
    made = {
        "age": rng.integers(1, 90, n) + 0.5,
        "price": 1e6 * rng.exponential(size=n) + 1.0,
        "town": rng.choice(["Rome", "Oslo"], n),
        "review": [" ".join(rng.choice(words, 5, replace=False)) for _ in range(n)],
    }
    table = {name: made[name] for name in columns} | {"label": rng.integers(0, 2, n)}
    path = tmp_path / "rows.parquet"
    pa.parquet.write_table(pa.table(table), path)
    found, read = [], Stream.read
    monkeypatch.setattr(Stream, "read", lambda stream: found.append(read(stream)) or found[-1])
    train(path, label="label", hash_bits=16, memory_limit="2GB", max_passes=2, **options)
    assert found[0].squared_norm == pytest.approx(squared_norm, rel=1e-2)
