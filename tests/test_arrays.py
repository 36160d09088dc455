"""Arrays as a source: what is accepted, what stays a view, what is refused, and that nothing is altered."""

import decimal
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from source_suite import PLENTY, SourceSuite, joined

import llsvm
from llsvm import LLSVMClassifier, LLSVMClassifierCV
from llsvm.block import CSR, concat
from llsvm.data import open_source
from llsvm.data.arrays import ArraySource
from llsvm.errors import DataError, UsageError

RNG = np.random.default_rng(0)
DENSE = np.round(RNG.standard_normal((60, 7)) * (RNG.random((60, 7)) < 0.5), 2)
Y = RNG.integers(0, 3, 60)


def dense_of(source, max_bytes=PLENTY):
    """All of X as a dense float64 array."""
    whole = concat(list(source.blocks(max_bytes)))
    if not isinstance(whole.X, CSR):
        return whole.X.astype(np.float64)
    X = sp.csr_matrix((whole.n_rows, source.info().n_features))
    X.indptr, X.indices, X.data = whole.X.indptr, whole.X.indices, whole.X.data.astype(np.float64)
    return X.toarray()


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def csr_with(index_dtype, dtype=np.float32):
    X = sp.csr_matrix(DENSE.astype(dtype))
    X.indptr, X.indices = X.indptr.astype(index_dtype), X.indices.astype(index_dtype)
    return X


def csr_unsorted():
    """Rows with descending indices, each value but the first cut in two: duplicates."""
    X = sp.csr_matrix(DENSE.astype(np.float32))
    rows = [slice(X.indptr[i], X.indptr[i + 1]) for i in range(60)]
    indices = [np.repeat(X.indices[row], 2)[::-1] for row in rows]
    data = [np.repeat(X.data[row] / 2, 2)[::-1] for row in rows]
    made = sp.csr_matrix((60, 7), dtype=np.float32)
    made.indptr, made.indices, made.data = X.indptr * 2, np.concatenate(indices), np.concatenate(data)
    return made


class TestDense(SourceSuite):
    def make_source(self, tmp_path):
        return ArraySource(DENSE, Y, RNG.random(60))


class TestDenseConverted(SourceSuite):
    def make_source(self, tmp_path):
        return ArraySource(np.asfortranarray(DENSE.astype(np.float32)), Y.astype(np.float32))


class TestSparse(SourceSuite):
    def make_source(self, tmp_path):
        return ArraySource(csr_with(np.int32), Y.astype(str))


class TestSparseConverted(SourceSuite):
    def make_source(self, tmp_path):
        return ArraySource(csr_with(np.int64, np.int16), Y, np.ones(60))


class TestSparseUnsorted(SourceSuite):
    def make_source(self, tmp_path):
        return ArraySource(csr_unsorted(), Y)


@pytest.mark.parametrize(
    ("X", "dtype"),
    [
        (DENSE.astype(np.float32), np.float32),
        (DENSE, np.float64),
        (DENSE.astype(np.float16), np.float32),
        (DENSE.astype(np.longdouble), np.float64),
        (DENSE.astype(">f4"), np.float32),
        ((DENSE * 100).astype(np.int8), np.float32),
        ((DENSE * 100).astype(np.int64), np.float64),
        (DENSE > 0, np.float32),
        (DENSE.tolist(), np.float64),
        (np.asfortranarray(DENSE), np.float64),
        (np.repeat(DENSE, 2, axis=1)[:, ::2], np.float64),
        (DENSE[::-1], np.float64),
        (read_only(DENSE), np.float64),
        (csr_with(np.int32), np.float32),
        (csr_with(np.int64), np.float32),
        (csr_with(np.int32, np.float64), np.float64),
        (csr_with(np.int32, np.bool_), np.float32),
        (csr_with(np.int32, np.int32), np.float64),
        (csr_unsorted(), np.float32),
        (sp.csr_matrix(DENSE)[5:40], np.float64),
        *[
            (kind(DENSE), np.float64)
            for kind in (sp.csr_array, sp.csc_matrix, sp.coo_array, sp.lil_matrix, sp.dok_array)
        ],
    ],
)
@pytest.mark.parametrize("max_bytes", [200, PLENTY])
def test_accepts(X, dtype, max_bytes):
    expected = X.toarray() if sp.issparse(X) else np.asarray(X)
    source = ArraySource(X, Y[: len(expected)])
    assert all((b.X.data if isinstance(b.X, CSR) else b.X).dtype == dtype for b in source.blocks(max_bytes))
    np.testing.assert_array_equal(dense_of(source, max_bytes), expected.astype(np.float64))
    info = source.info()
    assert (info.n_rows, info.n_features, info.in_memory, info.index_base) == (*expected.shape, True, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_are_views(dtype):
    X = DENSE.astype(dtype)
    assert all(np.shares_memory(block.X, X) for block in ArraySource(X, Y).blocks(500))
    sparse = csr_with(np.int32, dtype)
    for block in ArraySource(sparse, Y).blocks(500):
        assert block.X.data is sparse.data
        assert block.X.indices is sparse.indices


@pytest.mark.parametrize(
    "X", [csr_unsorted(), csr_with(np.int64), sp.csc_matrix(DENSE), np.asfortranarray(DENSE)]
)
def test_the_callers_matrix_is_not_altered(X):
    parts = (X.indptr, X.indices, X.data) if sp.issparse(X) else (X,)
    before = [(part, part.copy()) for part in parts]
    flags = dict(vars(X)) if sp.issparse(X) else {}
    list(ArraySource(X, Y).blocks(300))
    for part, copy in before:
        np.testing.assert_array_equal(part, copy)
    assert not sp.issparse(X) or vars(X).keys() == flags.keys()


@pytest.mark.parametrize("step", [1, 2, 3, 100])
@pytest.mark.parametrize("place", range(4))
def test_one_fall_anywhere_is_seen(step, place, monkeypatch):
    monkeypatch.setattr("llsvm.data.arrays.STEP", step)
    indices = np.arange(5)
    indices[[place, place + 1]] = indices[[place + 1, place]]
    X = sp.csr_matrix((np.arange(1.0, 9), np.r_[indices, 0, 2, 4], [0, 5, 5, 8]), shape=(3, 5))
    expected = X.toarray()
    source = ArraySource(X, Y[:3])
    np.testing.assert_array_equal(dense_of(source), expected)
    assert (np.diff(next(source.blocks(1)).X.indices) > 0).all()


@pytest.mark.parametrize(
    "y", [Y, Y.astype(float), Y > 0, Y.astype(str), Y.tolist(), Y.astype(str).astype(object)]
)
def test_labels_come_out_as_they_are(y):
    labels = joined(ArraySource(DENSE, y), 300)[-3]
    assert labels.tolist() == np.asarray(y).tolist()
    assert labels.dtype.kind in "ifbU"


def test_weights_that_are_decimals():
    given = [decimal.Decimal(k) / 4 for k in range(60)]
    source = ArraySource(DENSE, Y, np.array(given, object))
    assert np.concatenate([block.weight for block in source.blocks(1 << 20)]).tolist() == list(
        map(float, given)
    )


def test_weights():
    weight = RNG.random(60)
    np.testing.assert_array_equal(joined(ArraySource(DENSE, Y, weight), 300)[-1], weight)
    assert next(ArraySource(DENSE, Y).blocks(300)).weight is None


def with_cell(value, dtype=np.float64):
    X = DENSE.astype(dtype)
    X[41, 3] = value
    return X


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sp.csr_matrix, sp.csc_matrix])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("max_bytes", [200, PLENTY])
def test_refuses_what_is_not_finite(kind, value, max_bytes):
    source = ArraySource(kind(with_cell(value)), Y)
    said = "NaN" if np.isnan(value) else r"infinity or a value too large \(inf\)"
    for _ in range(2):
        with pytest.raises(DataError, match=rf"Input X contains {said}: X\[41, 3\]"):
            list(source.blocks(max_bytes))


def test_refuses_what_float64_cannot_hold():
    if np.finfo(np.longdouble).max == np.finfo(np.float64).max:
        pytest.skip("long double is float64 here")
    with pytest.raises(DataError, match=r"X\[41, 3\]"):
        list(ArraySource(with_cell(np.longdouble("1e400"), np.longdouble), Y).blocks(PLENTY))


def damaged(indptr=(0, 1, 2), indices=(0, 1)):
    X = sp.csr_matrix((2, 2))
    X.indptr, X.indices, X.data = np.array(indptr), np.array(indices), np.ones(2)
    return X


@pytest.mark.parametrize(
    ("X", "y", "weight", "said"),
    [
        (DENSE[0], Y, None, "Expected 2D array, got 1D array instead.*Reshape your data"),
        (DENSE[None], Y, None, "Expected 2D array, got 3D"),
        (DENSE[:0], Y[:0], None, r"Found array with 0 sample\(s\) \(shape=\(0, 7\)\) while a minimum of 1"),
        (DENSE[:, :0], Y, None, r"0 feature\(s\) \(shape=\(60, 0\)\) while a minimum of 1 is required"),
        (sp.csr_matrix((0, 7)), Y[:0], None, r"0 sample\(s\)"),
        (sp.coo_array(DENSE[0]), Y, None, "Expected 2D array, got 1D"),
        (DENSE * 1j, Y, None, "Complex data not supported"),
        (sp.csr_matrix(DENSE * 1j), Y, None, "Complex data not supported"),
        (DENSE.astype(object), Y, None, "X has dtype object; it must hold numbers"),
        (DENSE.astype(str), Y, None, "it must hold numbers"),
        ([[1, 2], [3]], [0, 1], None, "cannot be made into an array"),
        (damaged(indices=(0, 2)), [0, 1], None, "damaged.*column index is not below 2"),
        (damaged(indices=(-1, 1)), [0, 1], None, "damaged.*column index is negative"),
        (damaged(indptr=(0, 2, 1)), [0, 1], None, "damaged.*does not ascend"),
        (damaged(indptr=(0, 1, 3)), [0, 1], None, "damaged.*does not fit"),
        (DENSE, Y[:59], None, "X and y have inconsistent lengths: 60 rows and 59 values"),
        (DENSE, Y[:, None], None, r"y should be a 1d array, got an array of shape \(60, 1\) .*np.ravel\(y\)"),
        (DENSE, np.where(Y == 1, np.nan, 0.0), None, r"Input y contains NaN: y\[\d+\]"),
        (DENSE, np.where(Y == 1, np.inf, 0.0), None, "Input y contains infinity"),
        (DENSE, Y * 1j, None, "Unknown label type: y has dtype complex"),
        (DENSE, [None] * 60, None, r"y\[0\]: it is missing; leave the row out"),
        (DENSE, Y, np.ones(59), "X and sample_weight have inconsistent lengths"),
        (DENSE, Y, np.full(60, np.nan), "Input sample_weight contains NaN"),
        (DENSE, Y, -np.ones(60), r"sample_weight\[0\] is -1.0; weights must not be negative"),
        (DENSE, Y, ["a"] * 60, "sample_weight has dtype"),
        (DENSE, Y, np.array(["a"] * 60, object), "sample_weight must hold numbers"),
    ],
)
def test_refuses(X, y, weight, said):
    with pytest.raises(DataError, match=said):
        ArraySource(X, y, weight)


@pytest.mark.parametrize(
    "X", [damaged(indices=(0, 99)), damaged(indices=(-1, 1)), damaged((0, 2, 1)), damaged((0, 1, 3))]
)
def test_models_refuse_damaged_matrices_as_training_does(X):
    """Weights beyond the last one would be read."""
    model = llsvm.train(np.eye(2), [0, 1])
    for predict in (model.predict, model.decision_function, LLSVMClassifier().fit(np.eye(2), [0, 1]).predict):
        with pytest.raises(DataError, match="damaged sparse matrix"):
            predict(X)


def test_open_source_takes_arrays():
    np.testing.assert_array_equal(dense_of(open_source(DENSE, Y)), DENSE)
    with pytest.raises(UsageError, match="y is missing"):
        open_source(DENSE)
    with pytest.raises(UsageError, match="is for files"):
        open_source(DENSE, Y, format="svmlight")


def test_importing_the_readers_table_loads_no_reader():
    code = "import sys, llsvm.data; sys.exit(bool({'numba', 'scipy', 'pyarrow', 'h5py'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_dense_arrays_do_without_scipy():
    code = (
        "import sys, numpy as np; from llsvm.data import open_source\n"
        "list(open_source(np.ones((2, 2)), [0, 1]).blocks(100)); sys.exit('scipy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("of", ["X", "y", "sample_weight"])
def test_masked_values_are_refused(of):
    given = {"X": np.arange(8.0).reshape(4, 2), "y": np.array([0, 1, 0, 1]), "sample_weight": np.ones(4)}

    def trained():
        return llsvm.train(given["X"], given["y"], sample_weight=given["sample_weight"])

    plain = trained()
    given[of] = np.ma.array(given[of])
    np.testing.assert_array_equal(trained().coef_, plain.coef_)  # nothing is masked yet
    given[of][1] = np.ma.masked
    with pytest.raises(DataError, match=f"{of} is a masked array, and [12] of its values are masked"):
        trained()
    for estimator in (LLSVMClassifier(), LLSVMClassifierCV(cv=2)):
        with pytest.raises(DataError, match=f"{of} is a masked array"):
            estimator.fit(**given)
    with pytest.raises(DataError, match=f"{of} is a masked array"):
        LLSVMClassifier().partial_fit(**given, classes=[0, 1])
    if of == "X":
        for take in (plain.predict, LLSVMClassifier().fit(given["X"].data, given["y"]).predict):
            with pytest.raises(DataError, match="X is a masked array"):
                take(given["X"])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("scale", ["maxabs", "standard", "unit-row"])
@pytest.mark.parametrize(
    "options",
    [
        {"solver": "llsvm"},
        {"loss": "squared_hinge", "solver": "smsvm"},
        {"multiclass": "weston-watkins"},
        {"multiclass": "softmax", "loss": "logistic"},
        {"kernel": "rbf", "solver": "smo"},
    ],
)
def test_the_last_columns_of_a_sparse_matrix_may_have_no_values(options, scale):
    """Mostly filled rows are kept dense: as wide as the matrix, not as its values."""
    if "kernel" in options and scale != "unit-row":
        return
    X = sp.csr_matrix(np.c_[np.random.default_rng(0).normal(size=(30, 4)), np.zeros(30)])
    y = np.arange(30) % (3 if "multiclass" in options else 2)
    model = llsvm.train(X, y, scale=scale, max_passes=5, threads=1, **options)
    assert model.n_features_in_ == 5
    assert llsvm.verify(model, X, y)["holds"]
