"""Scaling: against scikit-learn's scalers, and undone in the model."""

import numpy as np
import pytest
import scipy.sparse as sp
from format_files import rows, write
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler, normalize

from llsvm.block import CSR
from llsvm.data import open_source
from llsvm.memory import MemoryBudget
from llsvm.predict import evaluate, open_for
from llsvm.scaling import ColumnStatistics
from llsvm.settings import Settings
from llsvm.train import Training, load, train

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


@settings(deadline=None, max_examples=60)
@given(MATRICES, st.sampled_from(sorted(SKLEARN)), st.integers(1, 19))
def test_dense_as_scikit_learn_has_it(M, kind, cut):
    scaling = learned(kind, [M[:cut], M[cut:]], *M.shape, dense=True)
    scaled = M.copy()
    scaling.apply(scaled)
    expected = SKLEARN[kind]().fit_transform(M.astype(float))
    np.testing.assert_allclose(scaled, expected, rtol=1e-4, atol=1e-4)


@settings(deadline=None, max_examples=60)
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
    answer = evaluate(loaded, open_for(loaded, path))
    assert answer["correct"] == np.sum(loaded.predict(RAW) == Y)
    assert answer["correct"] == np.sum(theirs.predict(normalize(RAW.astype(float))) == Y)


def test_unscaled_columns_are_noticed(tmp_path):
    path = write(tmp_path, "csv", RAW, Y)
    for scale, noticed in (("none", True), ("minmax", False)):
        with Training(open_source(path), Settings(scale=scale)) as training:
            report = next(iter(training))
        assert ("--scale" in report.note) == noticed


def test_statistics_grow_with_the_columns():
    statistics = ColumnStatistics()
    for d in (1, 3, 2, 40):
        statistics.add(csr(np.full((2, d), 2.0, np.float32)))
    scaling = statistics.scaling("maxabs", 8, 40, False)
    np.testing.assert_array_equal(scaling.scale, 0.5)
