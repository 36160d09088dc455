"""Products of rows with weights, and kernels, in float64 NumPy; a bounded piece of the rows at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block, Matrix

Array = NDArray[np.float64]

UNIT = 2.0**-53  # an operation in 64 bits is off by at most this share of its result

PIECE_VALUES = 1 << 18  # of rows, at a time
WORK_BYTES = 48 * PIECE_VALUES  # that a piece takes, as float64, with its products


def pieces(block: Block, width: int) -> Iterator[Block]:
    """Yield the block in parts of at most PIECE_VALUES values, and that many numbers of results, ``width`` for a
    row; a single row may be more."""
    max_rows = max(1, PIECE_VALUES // max(width, 1))
    X, start = block.X, 0
    if not isinstance(X, CSR):
        max_rows = max(1, min(max_rows, PIECE_VALUES // max(X.shape[1], 1)))
    while start < block.n_rows:
        stop = min(start + max_rows, block.n_rows)
        if isinstance(X, CSR):
            room = int(np.searchsorted(X.indptr, X.indptr[start] + PIECE_VALUES, "right")) - 1
            stop = min(stop, max(room, start + 1))
        yield block.slice(start, stop)
        start = stop


def values_of(X: CSR) -> tuple[NDArray[np.intp], NDArray[np.int32], Array]:
    """Return the row (from 0), the column and the value, as float64, of each stored value."""
    begin, end = int(X.indptr[0]), int(X.indptr[-1])
    rows = np.repeat(np.arange(len(X.indptr) - 1), np.diff(X.indptr))
    return rows, X.indices[begin:end], X.data[begin:end].astype(np.float64)


def scores(X: Matrix, weights: Array) -> Array:
    """Return (n, k) x_i · w_j. weights: (k, d)."""
    if not isinstance(X, CSR):
        return X.astype(np.float64) @ weights.T
    rows, columns, values = values_of(X)
    n = len(X.indptr) - 1
    return np.stack([np.bincount(rows, values * w[columns], n) for w in weights], axis=1)


def add_rows(X: Matrix, coefficients: Array, w: Array) -> None:
    """Add rows: w, (k, d), += Σ_i coefficients_i x_iᵀ. coefficients: (n, k)."""
    if not isinstance(X, CSR):
        w[:, : X.shape[1]] += coefficients.T @ X.astype(np.float64)
        return
    rows, columns, values = values_of(X)
    for each, coefficient in zip(w, coefficients.T, strict=True):
        np.add.at(each, columns, values * coefficient[rows])


def lost_in_sum(n: int) -> float:
    """Return the share of Σ |terms| that a sum of n products may lose, in any order, with a few operations
    before and after."""
    return (n + 4) * UNIT


def norms(X: Matrix) -> Array:
    """Return (n,) ‖x_i‖."""
    if not isinstance(X, CSR):
        wide = X.astype(np.float64)
        return np.sqrt(np.einsum("ij,ij->i", wide, wide))
    rows, _, values = values_of(X)
    return np.sqrt(np.bincount(rows, values * values, len(X.indptr) - 1))


def longest(X: Matrix) -> int:
    """Return the largest number of values that a row has."""
    return int(np.diff(X.indptr).max(initial=0)) if isinstance(X, CSR) else X.shape[1]


def kernel(name: str, gamma: float, degree: int, coef0: float, X: Array, Z: Array) -> Array:
    """Return (n, m) k(x_i, z_j). X, Z: (n, d) and (m, d)."""
    if name == "linear":
        return X @ Z.T
    if name == "poly":
        return (gamma * (X @ Z.T) + coef0) ** degree
    squares, _ = _distances(X, Z)
    return np.exp(-gamma * np.maximum(squares, 0.0))


def _distances(X: Array, Z: Array) -> tuple[Array, Array]:
    """Return (n, m) ‖x_i − z_j‖², and by how much rounding may have changed each: less where a landmark is the
    origin."""
    share = lost_in_sum(X.shape[1])
    X, Z = X - Z[:1], Z - Z[:1]
    both = (X * X).sum(axis=1)[:, None] + (Z * Z).sum(axis=1)
    return both - 2.0 * (X @ Z.T), 2.0 * share * both


def kernel_lost(name: str, gamma: float, degree: int, coef0: float, X: Array, Z: Array, K: Array) -> Array:
    """Return (n, m) by how much rounding may have changed K, the ``kernel`` of X and Z: what is large is
    subtracted from what is large where columns lie far from 0."""
    share = lost_in_sum(X.shape[1])
    if name == "rbf":
        squares, lost = _distances(X, Z)
        upper, lower = (np.exp(-gamma * np.maximum(squares + off, 0.0)) for off in (-lost, lost))
        return np.maximum(upper - K, K - lower) + share * upper
    lost = share * np.outer(norms(X), norms(Z))
    if name == "linear":
        return lost
    size = np.abs(gamma * (X @ Z.T) + coef0)
    lost = abs(gamma) * lost + 4.0 * UNIT * (size + abs(coef0))
    return (size + lost) ** degree - size**degree + degree * UNIT * np.abs(K)


def dense(X: Matrix, base: int, width: int) -> Array:
    """Return (n, width) as float64. base: the number of the first column."""
    if not isinstance(X, CSR):
        return X[:, base:].astype(np.float64)
    rows, columns, values = values_of(X)
    out = np.zeros((len(X.indptr) - 1, width))
    out[rows, columns - base] = values
    return out
