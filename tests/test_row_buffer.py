"""The buffer of rows, and the small steps in which rows are copied."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from oracle import dense

from llsvm.block import CSR, Block
from llsvm.row_buffer import RowBuffer, densify, row_bytes, sparsify, steps, take


def block(n=50, d=9, density=0.4, seed=0, layout="csr", weighted=False, first=0):
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, density, "csr", dtype=np.float32, random_state=seed)
    X.sort_indices()
    matrix = CSR(X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data)
    weight = rng.random(n) if weighted else None
    y = rng.integers(0, 3, n).astype(np.int32)
    rows = np.arange(first, first + n, dtype=np.int64)
    return Block(matrix if layout == "csr" else X.toarray(), y, rows, weight)


def assert_same_rows(ours, theirs, d=9):
    a, b = np.zeros((ours.n_rows, d)), np.zeros((theirs.n_rows, d))
    for out, one in ((a, ours), (b, theirs)):
        X = dense(one.take(np.arange(one.n_rows)).X)
        out[:, : X.shape[1]] = X
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(ours.y, theirs.y)
    np.testing.assert_array_equal(ours.rows, theirs.rows)


@pytest.mark.parametrize("kept", ["csr", "dense"])
@pytest.mark.parametrize("given_as", ["csr", "dense"])
@pytest.mark.parametrize("weighted", [False, True])
def test_append_and_keep(kept, given_as, weighted):
    buffer = RowBuffer(100_000, np.dtype(np.float32), 9 if kept == "dense" else None, weighted)
    parts = [block(seed=s, layout=given_as, weighted=weighted, first=50 * s) for s in range(3)]
    for part in parts:
        assert buffer.fits(part.n_rows, part.nnz)
        buffer.append(part)
    for i, part in enumerate(parts):
        assert_same_rows(buffer.block().slice(50 * i, 50 * i + 50), part)
    mask = np.random.default_rng(0).random(150) < 0.5
    expected = buffer.block().take(mask)
    buffer.keep(mask)
    assert_same_rows(buffer.block(), expected)
    if weighted:
        np.testing.assert_array_equal(buffer.block().weight, expected.weight)
    assert buffer.used_bytes == row_bytes(mask.sum(), buffer.nnz, 4, buffer.width, weighted)
    buffer.clear()
    assert (buffer.n_rows, buffer.block().n_rows) == (0, 0)


@given(st.integers(1, 3000), st.integers(0, 4), st.sampled_from(["csr", "dense"]))
def test_steps_cover_all_rows_and_are_small(nbytes, seed, layout):
    one = block(seed=seed, layout=layout)
    ranges = list(steps(one.X, nbytes))
    assert [i for start, stop in ranges for i in range(start, stop)] == list(range(50))
    for start, stop in ranges:
        part = one.slice(start, stop)
        assert (
            stop == start + 1
            or row_bytes(part.n_rows, part.nnz, 4, 9 if layout == "dense" else None, False) <= nbytes
        )


@given(st.integers(1, 3000), st.integers(0, 4), st.sampled_from(["csr", "dense"]), st.data())
def test_take_hands_out_the_chosen_rows_in_small_parts(nbytes, seed, layout, data):
    one = block(seed=seed, layout=layout)
    chosen = np.array(data.draw(st.lists(st.integers(0, 49), max_size=60)), np.intp)
    parts = list(take(one, chosen, nbytes))
    np.testing.assert_array_equal(np.concatenate([p.rows for p in parts] or [[]]), one.rows[chosen])
    largest = max((one.slice(i, i + 1).nbytes for i in range(50)), default=0)
    for part in parts:
        assert part.nbytes <= nbytes + largest + 8


def test_a_long_row_among_short_ones_is_a_step_of_its_own():
    lengths = np.array([1] * 1000 + [5000] + [1] * 1000)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    X = CSR(
        indptr,
        np.concatenate([np.arange(n, dtype=np.int32) for n in lengths]),
        np.ones(indptr[-1], np.float32),
    )
    assert max((indptr[b] - indptr[a]) * 8 + (b - a) * 20 for a, b in steps(X, 4000) if b > a + 1) <= 4000


@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
def test_densify_and_sparsify(density):
    X = sp.random(40, 6, density, "csr", dtype=np.float32, random_state=1)
    X.sort_indices()
    out = np.full((40, 6), np.nan, np.float32)
    densify(CSR(X.indptr.astype(np.int64), X.indices, X.data), out)
    np.testing.assert_array_equal(out, X.toarray())
    again = sparsify(out)
    for ours, theirs in zip(again, (X.indptr, X.indices, X.data), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("weighted", [False, True])
def test_dense_rows_are_widened_in_place(weighted):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 30)).astype(np.float32)
    weight = np.arange(3000, dtype=np.float32) if weighted else None
    block = Block(X, np.arange(3000, dtype=np.int32), np.arange(3000), weight)
    buffer = RowBuffer(600_000 + 12_000 * weighted, np.dtype(np.float32), 30, weighted)
    buffer.append(block)
    assert buffer.could_widen(44, 0)
    assert not buffer.could_widen(44, 200)
    assert not buffer.could_widen(46, 0)
    buffer.widen(44)
    buffer.append(block.slice(0, 5))
    wide = buffer.block()
    assert (buffer.width, buffer.nnz) == (44, 3005 * 44)
    np.testing.assert_array_equal(wide.X[:3000, :30], X)
    np.testing.assert_array_equal(wide.X[3000:, :30], X[:5])
    assert not wide.X[:, 30:].any()
    assert wide.y.tolist() == [*range(3000), *range(5)]


@given(st.data())
def test_rows_taken_are_those_that_scipy_takes(data):
    """Empty rows, repeated rows, in any order, of a slice whose indptr does not begin at 0."""
    lengths = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=9))
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    indices = np.concatenate([np.arange(length) for length in lengths]).astype(np.int32)
    X = CSR(indptr, indices, np.arange(1, len(indices) + 1, dtype=np.float32))
    start = data.draw(st.integers(0, len(lengths)))
    stop = data.draw(st.integers(start, len(lengths)))
    n = stop - start
    some = st.lists(st.integers(0, n - 1), max_size=12) if n else st.just([])
    masks = st.lists(st.booleans(), min_size=n, max_size=n)
    index = data.draw(
        some.map(lambda rows: np.array(rows, np.int64)) | masks.map(lambda m: np.array(m, bool))
    )
    numbers = np.arange(len(lengths), dtype=np.int64)
    taken = Block(X, numbers.astype(np.int32), numbers).slice(start, stop).take(index)
    expected = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(len(lengths), 3))[start:stop][index]
    assert taken.X.indptr[0] == 0
    np.testing.assert_array_equal(taken.X.indptr, expected.indptr)
    np.testing.assert_array_equal(taken.X.indices, expected.indices)
    np.testing.assert_array_equal(taken.X.data, expected.data)
    np.testing.assert_array_equal(taken.rows, numbers[start:stop][index])
