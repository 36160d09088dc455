"""Slow twins of the coordinate descent kernels; run once more without the compiler."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from cells import pairwise

from llsvm.kernels.pages import (
    ESCAPE,
    gather,
    pack_indices,
    pack_rows,
    pack_values,
    scatter,
    unpack_indices,
    unpack_rows,
    unpack_values,
)
from llsvm.objective.losses import LogisticLoss, new_loss
from llsvm.settings.objective import REGRESSION
from llsvm.solvers.llsvm.kernels import best_share, merge, sweep, sweep_logistic
from llsvm.spill.packing import PageChecksum

LOSSES = [
    new_loss("hinge"),
    new_loss("squared_hinge"),
    new_loss("least-squares"),
    new_loss("epsilon_insensitive", epsilon=0.3),
    new_loss("squared_epsilon_insensitive", epsilon=0.3),
    new_loss("quantile", quantile=0.2),
    new_loss("huber", delta=0.7),
]


@pytest.fixture(params=LOSSES, ids=lambda loss: loss.name)
def loss(request):
    return request.param


def slow_sweep(X, y, cost, alpha, margin, order, w, bias, loss, single):
    """One sweep in NumPy: (moving rows, gain in D, gap as met). A step is the largest of D on a fine grid."""
    wide = np.hstack([X.astype(float), np.full((len(X), 1), bias)])
    moving, gain, gap = [], 0.0, 0.0
    for i in order:
        C = cost[i]
        if C <= 0:
            continue
        sign, target = (1.0, y[i]) if loss.kind == REGRESSION else (y[i], 1.0)
        margin[i] = m = sign * (wide[i] @ w)
        a = alpha[i] / C
        gap += C * (loss.value(np.array([m]), target)[0] + a * m - loss.dual_value(np.array([a]), target)[0])
        at, q = np.array([m]), wide[i] @ wide[i]
        if q > 0:  # D in this a is the loss's dual less a quadratic: the proximal point of step 1 / (C q)
            best = loss.prox(np.array([a]), at, 1 / (C * q), target)[0]
        else:
            best = -loss.derivative(at, target)[0]
        if single:
            bounds = [b for b in (loss.lower, loss.upper) if np.float32(b) == np.float32(best)]
            best = bounds[0] if bounds else float(np.float32(best))
        new = C * best
        after = w + (new - alpha[i]) * sign * wide[i]
        gain += C * loss.dual_value(np.array([best]), target)[0] - 0.5 * after @ after
        gain -= C * loss.dual_value(np.array([a]), target)[0] - 0.5 * w @ w
        if abs(new - alpha[i]) > 1e-12 * C or loss.free(np.array([best]))[0]:
            moving.append(i)
        w[:] = after
        alpha[i] = new
    return moving, gain, gap


def problem(seed, dtype, loss):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 7)).astype(dtype)
    X[rng.random(X.shape) < 0.5] = 0
    X[3] = 0
    cost = rng.choice([0.0, 0.1, 1.0, 50.0], 40)
    alpha = cost * rng.choice([max(loss.lower, -2.0), 0.0, 0.1, min(loss.upper, 2.0)], 40)
    y = rng.normal(size=40) if loss.kind == REGRESSION else rng.choice([-1.0, 1.0], 40)
    sign = np.ones(40) if loss.kind == REGRESSION else y
    return X, y, sign, cost, alpha, rng.permutation(40)


def numbers(loss):
    """As the kernels take a loss, with what stands before them: whether y are targets."""
    return loss.kind == REGRESSION, loss.lower, loss.upper, loss.ridge, loss.epsilon


@pytest.mark.parametrize(
    ("seed", "dtype", "bias", "single", "layout"),
    pairwise(
        range(3), [np.float32, np.float64], [0.0, 1.5], [False, True], ["csr", "dense", "csr with an offset"]
    ),
)
def test_sweep(seed, dtype, bias, loss, single, layout):
    X, y, sign, cost, alpha, order = problem(seed, dtype, loss)
    w = (alpha * sign) @ np.hstack([X.astype(float), np.full((40, 1), bias)])
    margin, totals = np.zeros(40), np.zeros(2)
    slow = alpha.copy(), np.zeros(40), w.copy()
    moving, gain, gap = slow_sweep(X, y, cost, slow[0], slow[1], order, slow[2], bias, loss, single)
    tail = (y, cost, alpha, margin, order, w, bias, *numbers(loss), single, totals)
    if layout == "dense":
        n = sweep(None, None, X, *tail)
    else:
        csr = sp.csr_matrix(X)
        before = 5 if layout == "csr with an offset" else 0
        indices = np.concatenate([np.zeros(before, np.int32), csr.indices])
        data = np.concatenate([np.full(before, np.nan, dtype), csr.data])
        n = sweep(csr.indptr.astype(np.int64) + before, indices, data, *tail)
    # a value that single precision rounds up or down must not decide
    tolerance = {"rtol": 1e-5, "atol": 2e-6} if single else {"rtol": 1e-9, "atol": 1e-10}
    np.testing.assert_allclose(alpha, slow[0], **tolerance)
    np.testing.assert_allclose(w, slow[2], **tolerance)
    np.testing.assert_allclose(margin, slow[1], **tolerance)
    np.testing.assert_allclose(totals, [gain, gap], rtol=1e-5 if single else 1e-8)
    dual = alpha[cost > 0] / cost[cost > 0]
    assert ((loss.lower * (1 + 1e-15) <= dual) & (dual <= loss.upper * (1 + 1e-15))).all()
    assert sorted(order[:n]) == sorted(moving)
    assert sorted(order) == list(range(40))


def slow_logistic_sweep(X, sign, cost, alpha, margin, order, w, bias, enough):
    """As ``slow_sweep``; a row that adds no more than ``enough`` C_i to the gap is left alone."""
    wide, loss = np.hstack([X.astype(float), np.full((len(X), 1), bias)]), LogisticLoss()
    moving, gain, gap = [], 0.0, 0.0
    for i in order:
        C = cost[i]
        if C <= 0:
            continue
        margin[i] = m = sign[i] * (wide[i] @ w)
        a, at, q = np.array([alpha[i] / C]), np.array([m]), wide[i] @ wide[i]
        mine = (loss.value(at) + a * m - loss.dual_value(a))[0]
        gap += C * mine
        if mine <= enough:
            continue
        moving.append(i)
        best = loss.prox(a, at, 1 / (C * q)) if q > 0 else np.array([0.5])
        after = w + (C * best[0] - alpha[i]) * sign[i] * wide[i]
        gain += C * (loss.dual_value(best) - loss.dual_value(a))[0] - 0.5 * after @ after + 0.5 * w @ w
        w[:] = after
        alpha[i] = C * best[0]
    return moving, gain, gap


@pytest.mark.parametrize(
    ("seed", "bias", "single", "enough", "dense"),
    pairwise(range(4), [0.0, 1.5], [False, True], [0.0, 0.05], [False, True]),
)
def test_logistic_sweep(seed, bias, single, enough, dense):
    X, sign, _, cost, alpha, order = problem(seed, np.float32, LOSSES[0])
    alpha[7:] *= np.random.default_rng(seed).uniform(0.001, 0.999, 33)
    w = (alpha * sign) @ np.hstack([X.astype(float), np.full((40, 1), bias)])
    margin, totals = np.zeros(40), np.zeros(2)
    slow = alpha.copy(), np.zeros(40), w.copy()
    moving, gain, gap = slow_logistic_sweep(X, sign, cost, slow[0], slow[1], order, slow[2], bias, enough)
    tail = (sign, cost, alpha, margin, order, w, bias, enough, single, totals)
    if dense:
        n = sweep_logistic(None, None, X, *tail)
    else:
        csr = sp.csr_matrix(X)
        n = sweep_logistic(csr.indptr.astype(np.int64), csr.indices, csr.data, *tail)
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if single else {"rtol": 1e-8, "atol": 1e-8}
    np.testing.assert_allclose(alpha, slow[0], **tolerance)
    np.testing.assert_allclose(w, slow[2], **tolerance)
    np.testing.assert_allclose(margin, slow[1], **tolerance)
    np.testing.assert_allclose(totals, [gain, gap], rtol=1e-4 if single else 1e-7)
    assert ((alpha >= 0) & (alpha <= cost)).all()
    assert sorted(order[:n]) == sorted(moving)


@pytest.mark.parametrize("Q", [0.0, 1e-8, 1.0, 1e4, 1e12])
def test_logistic_steps_are_found_however_long_the_row_is(Q):
    for a in (0.0, 1e-300, 1e-12, 0.3, 0.5, 1 - 1e-12, 1.0):
        for m in (-800.0, -30.0, -1.0, 0.0, 1e-9, 5.0, 800.0):
            share = best_share(m, a, Q)
            assert 0.0 <= share <= 1.0
            if 1e-12 < share < 1 - 1e-12:
                terms = np.log(share / (1 - share)), Q * (share - a), m
                assert abs(sum(terms)) <= 1e-9 * (1 + Q * 1e-6) * (1 + sum(map(abs, terms)))


def test_fewer_columns_than_weights(loss):
    """Columns that a dense block lacks are zero; the bias stays the last weight."""
    X, y, sign, cost, alpha, order = problem(0, np.float32, loss)
    wider = np.hstack([X, np.zeros((40, 2), np.float32)])
    w = (alpha * sign) @ np.hstack([wider.astype(float), np.ones((40, 1))])
    states = [(alpha.copy(), np.zeros(40), order.copy(), w.copy()) for _ in range(2)]
    for matrix, (a, m, o, v) in zip([X, wider], states, strict=True):
        sweep(None, None, matrix, y, cost, a, m, o, v, 1.0, *numbers(loss), False, np.zeros(2))
    for ours, theirs in zip(*states, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_merge(threads):
    rng, n = np.random.default_rng(threads), 3000
    w = rng.normal(size=n)
    steps = rng.normal(size=(threads, n)) * (rng.random((threads, n)) < 0.4)
    copies, expected = w + steps, w + steps.sum(axis=0)
    pairs = sum(float(steps[t] @ steps[u]) for t in range(threads) for u in range(t))
    lost = merge(w, copies, 0, 1500) + merge(w, copies, 1500, n)
    assert lost == pytest.approx(pairs, abs=1e-12)
    np.testing.assert_allclose(w, expected, rtol=1e-12, atol=1e-14)


def slow_pack(indptr, indices):
    packed = []
    for i in range(len(indptr) - 1):
        before = 0
        for column in map(int, indices[indptr[i] : indptr[i + 1]]):
            step = column - before
            packed += [step] if 0 <= step < ESCAPE else [ESCAPE, column % 65536, column // 65536]
            before = column
    return packed


@pytest.mark.parametrize("columns", [10, 65_535, 65_537, 300_000, 2**31 - 1])
@pytest.mark.parametrize("ascending", [True, False])
def test_pack_and_unpack_indices(columns, ascending):
    rng = np.random.default_rng(columns)
    lengths = rng.integers(0, 6, 50)
    indptr = 7 + np.concatenate([[0], np.cumsum(lengths)])  # the rows are a view of more
    indices = rng.integers(0, columns, indptr[-1]).astype(np.int32)
    indices[-1] = columns - 1
    if ascending:
        for i in range(50):
            indices[indptr[i] : indptr[i + 1]].sort()
    expected = slow_pack(indptr, indices)
    out = np.zeros(3 * len(indices) + 3, np.uint16)
    n = pack_indices(indptr, indices, out)
    assert out[:n].tolist() == expected
    back = np.zeros(lengths.sum(), np.int32)
    unpack_indices(indptr - 7, out[:n], back)
    assert np.array_equal(back, indices[7:])
    assert pack_indices(indptr, indices, np.zeros(n // 2, np.uint16)) == -1


@pytest.mark.parametrize(("dtype", "bits"), [(np.float32, np.uint32), (np.float64, np.uint64)])
@pytest.mark.parametrize("different", [1, 7, 300])
def test_pack_and_unpack_values(different, dtype, bits):
    rng = np.random.default_rng(different)
    known = rng.standard_normal(different).astype(dtype)
    values = known[rng.integers(0, different, 2000)]
    first = list(dict.fromkeys(values.tolist()))
    codes, table = np.zeros(2000, np.uint16), np.zeros(len(first), bits)
    with np.errstate(over="ignore"):  # without the compiler
        n = pack_values(values.view(bits), codes, table, np.zeros(1024, np.int32))
        short = pack_values(values.view(bits), codes.copy(), table[1:].copy(), np.zeros(1024, np.int32))
    assert n == len(first)
    assert short == -1
    assert table.view(dtype).tolist() == first
    assert codes.tolist() == [first.index(v) for v in values.tolist()]
    out = np.zeros(2000, dtype)
    unpack_values(codes, table.view(dtype), out)
    assert np.array_equal(out, values)


@pytest.mark.parametrize(("dtype", "bits"), [(np.float32, np.uint32), (np.float64, np.uint64)])
@pytest.mark.parametrize("odd_share", [0.0, 0.07, 1.0])
def test_pack_and_unpack_rows(odd_share, dtype, bits):
    rng = np.random.default_rng(3)
    lengths = np.r_[rng.integers(0, 40, 60), 0, 1]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    values = np.repeat(rng.integers(1, 9, 62).astype(dtype), lengths)
    other = rng.random(len(values)) < odd_share
    values[other] += rng.integers(0, 3, other.sum())
    usual, n_odd, places = [], [], []
    for begin, end in itertools.pairwise(indptr):
        row = values[begin:end].tolist()
        usual.append(row[-1] if row else None)
        found = [(place, value) for place, value in enumerate(row[:-1]) if value != row[-1]]
        n_odd.append(len(found))
        places += found
    out = [np.zeros(62, np.uint16), np.zeros(62, np.uint16), np.zeros(2 * len(values), np.uint16)]
    table = np.zeros(20, bits)
    with np.errstate(over="ignore"):  # without the compiler
        n, n_codes = pack_rows(indptr, values.view(bits), *out, table, np.zeros(64, np.int32))
        few = pack_rows(indptr, values.view(bits), *out, table[:1].copy(), np.zeros(64, np.int32))
        small = [*out[:2], np.zeros(7, np.uint16)]
        full = pack_rows(indptr, values.view(bits), *small, table, np.zeros(64, np.int32))
        n, n_codes = pack_rows(indptr, values.view(bits), *out, table, np.zeros(64, np.int32))
    known = table[:n_codes].view(dtype)
    assert (few[0], full[0]) == (-1, -1)
    assert sorted(known.tolist()) == sorted(set(values.tolist()))
    assert [known[code] for code, value in zip(out[0], usual, strict=True) if value is not None] == [
        value for value in usual if value is not None
    ]
    assert out[1].tolist() == n_odd
    pairs = out[2][:n].reshape(-1, 2)
    assert [(int(place), float(known[code])) for place, code in pairs] == places
    back = np.zeros(len(values), dtype)
    unpack_rows(indptr, out[0], out[1], out[2][:n], known, back)
    assert np.array_equal(back, values)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scatter(dtype):
    X = sp.random(30, 20, 0.3, "csr", dtype=dtype, random_state=1)
    out = np.full((29, 25), 7, dtype)
    scatter(X.indptr[1:].astype(np.int64), X.indices.astype(np.int32), X.data, out)
    assert np.array_equal(out[:, :20], X.toarray()[1:])
    assert not out[:, 20:].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gather(dtype):
    X = sp.random(60, 30, 0.3, "csr", dtype=dtype, random_state=1)
    indptr, indices = X.indptr.astype(np.int64), X.indices.astype(np.int32)
    chosen = np.random.default_rng(0).permutation(60)[:25]
    out_indptr, out_indices = np.full(26, 4), np.zeros(4 + X.nnz, np.int32)
    out_data = np.zeros(4 + X.nnz, dtype)
    gather(indptr, indices, X.data, chosen, out_indptr, out_indices, out_data)
    expected = X[chosen]
    assert np.array_equal(out_indptr, 4 + expected.indptr)
    assert np.array_equal(out_indices[4 : out_indptr[-1]], expected.indices)
    assert np.array_equal(out_data[4 : out_indptr[-1]], expected.data)
    ascending = np.sort(chosen)  # in place, rows only move to the front
    expected = X[ascending]
    gather(indptr, indices, X.data, ascending, indptr[:26], indices, X.data)
    assert np.array_equal(indptr[:26], expected.indptr)
    assert np.array_equal(indices[: indptr[25]], expected.indices)
    assert np.array_equal(X.data[: indptr[25]], expected.data)


def slow_fletcher(data):
    words = [int.from_bytes(data[k : k + 8], "little") for k in range(0, len(data), 8)]
    total = sums = 0
    for word in words:
        total = (total + word) % 2**64
        sums = (sums + total) % 2**64
    return sums * 2**64 + total


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 64, 1003])
def test_checksum(n):
    """As the slow twin, however the bytes are cut; any byte changed, and any two words swapped, are seen."""
    rng = np.random.default_rng(n)
    data = rng.integers(0, 256, n, np.uint8)
    for cuts in ([], [0, 0], [1, 2, 3], rng.integers(0, n + 1, 20)):
        checksum = PageChecksum()
        with np.errstate(over="ignore"):  # without the compiler
            for piece in np.split(data, sorted(min(cut, n) for cut in cuts)):
                checksum.add(piece)
        assert checksum.value == slow_fletcher(data.tobytes())
    for k in range(n):
        changed = data.copy()
        changed[k] ^= 1 << rng.integers(8)
        assert slow_fletcher(changed.tobytes()) != checksum.value
    for k in range(0, n - 16, 8):
        swapped = np.r_[data[:k], data[k + 8 : k + 16], data[k : k + 8], data[k + 16 :]]
        assert slow_fletcher(swapped.tobytes()) != checksum.value


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="this is that run")
def test_without_the_compiler():
    """What Python makes of the same text: indices out of range and the like would be errors there."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        __file__,
        "-k",
        "sweep or step or dots or merge or pack or gather or scatter",
    ]
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
