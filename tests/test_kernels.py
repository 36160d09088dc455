"""Slow twins of the coordinate descent kernels; run once more without the compiler."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from llsvm.kernels.dcd import dots_csr, dots_dense, sweep_csr, sweep_dense


def slow_sweep(X, sign, cost, alpha, margin, order, w, bias, squared, single):
    """One sweep in NumPy: (moving rows, gain in D, gap as met)."""
    wide = np.hstack([X.astype(float), np.full((len(X), 1), bias)])
    moving, gain, gap = [], 0.0, 0.0
    for i in order:
        C = cost[i]
        if C <= 0:
            continue
        ridge, upper = (0.5 / C, np.inf) if squared else (0.0, C)
        margin[i] = m = sign[i] * (wide[i] @ w)
        loss = max(0.0, 1 - m)
        gap += C * (loss**2 if squared else loss) + alpha[i] * (m - 1) + 0.5 * ridge * alpha[i] ** 2
        q = wide[i] @ wide[i] + ridge
        new = min(max(alpha[i] - (m - 1 + ridge * alpha[i]) / q, 0.0), upper) if q > 0 else upper
        if single:
            new = C * float(np.float32(new / C))

        after = w + (new - alpha[i]) * sign[i] * wide[i]
        gain += new - 0.5 * after @ after - 0.5 * ridge * new**2
        gain -= alpha[i] - 0.5 * w @ w - 0.5 * ridge * alpha[i] ** 2
        if new != alpha[i] or 0 < new < upper:
            moving.append(i)
        w[:] = after
        alpha[i] = new
    return moving, gain, gap


def problem(seed, dtype):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 7)).astype(dtype)
    X[rng.random(X.shape) < 0.5] = 0
    X[3] = 0
    cost = rng.choice([0.0, 0.1, 1.0, 50.0], 40)
    alpha = np.where(cost > 0, cost * rng.choice([0.0, 0.3, 1.0], 40), 0.0)
    sign = rng.choice([-1.0, 1.0], 40)
    return X, sign, cost, alpha, rng.permutation(40)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bias", [0.0, 1.5])
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("layout", ["csr", "dense", "csr with an offset"])
def test_sweep(seed, dtype, bias, squared, single, layout):
    X, sign, cost, alpha, order = problem(seed, dtype)
    w = (alpha * sign) @ np.hstack([X.astype(float), np.full((40, 1), bias)])
    margin, totals = np.zeros(40), np.zeros(2)
    slow = alpha.copy(), np.zeros(40), w.copy()
    moving, gain, gap = slow_sweep(X, sign, cost, slow[0], slow[1], order, slow[2], bias, squared, single)
    tail = (sign, cost, alpha, margin, order, w, bias, squared, single, totals)
    if layout == "dense":
        n = sweep_dense(X, *tail)
    else:
        csr = sp.csr_matrix(X)
        before = 5 if layout == "csr with an offset" else 0
        indices = np.concatenate([np.zeros(before, np.int32), csr.indices])
        data = np.concatenate([np.full(before, np.nan, dtype), csr.data])
        n = sweep_csr(csr.indptr.astype(np.int64) + before, indices, data, *tail)
    # a value that single precision rounds up or down must not decide
    tolerance = {"rtol": 1e-6, "atol": 1e-6} if single else {"rtol": 1e-9, "atol": 1e-10}
    np.testing.assert_allclose(alpha, slow[0], **tolerance)
    np.testing.assert_allclose(w, slow[2], **tolerance)
    np.testing.assert_allclose(margin, slow[1], **tolerance)
    np.testing.assert_allclose(totals, [gain, gap], rtol=1e-5 if single else 1e-8)
    assert sorted(order[:n]) == sorted(moving)
    assert sorted(order) == list(range(40))


@pytest.mark.parametrize("squared", [False, True])
def test_fewer_columns_than_weights(squared):
    """Columns that a dense block lacks are zero; the bias stays the last weight."""
    X, sign, cost, alpha, order = problem(0, np.float32)
    wider = np.hstack([X, np.zeros((40, 2), np.float32)])
    w = (alpha * sign) @ np.hstack([wider.astype(float), np.ones((40, 1))])
    states = [(alpha.copy(), np.zeros(40), order.copy(), w.copy()) for _ in range(2)]
    for matrix, (a, m, o, v) in zip([X, wider], states, strict=True):
        sweep_dense(matrix, sign, cost, a, m, o, v, 1.0, squared, False, np.zeros(2))
    for ours, theirs in zip(*states, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    outs = [np.empty(40), np.empty(40)]
    for matrix, out in zip([X, wider], outs, strict=True):
        dots_dense(matrix, states[0][3], 1.0, out)
    np.testing.assert_allclose(outs[0], outs[1], rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_dots(dtype, bias):
    X, *_ = problem(1, dtype)
    w = np.random.default_rng(0).normal(size=8)
    expected = X.astype(float) @ w[:-1] + bias * w[-1]
    csr, out = sp.csr_matrix(X), np.empty(40)
    dots_csr(csr.indptr.astype(np.int64), csr.indices, csr.data, w, bias, out)
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-13)
    dots_dense(X, w, bias, out)
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-13)


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
        "sweep or dots",
    ]
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
