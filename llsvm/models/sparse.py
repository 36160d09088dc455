"""Weights most of which are zero, as an L1 penalty leaves them: held, written and scored with without the zeros.

By column (feature): how many problems have a weight there, which, and these weights. That pays where there are
several problems; a single one's weights take no more room than the list of columns would.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix
from llsvm.row_buffer import sparsify

NAME = "sparse_weights"  # in a model file's ``extra`` and ``requires``
COUNTS = "coef_counts"
PARTS = (COUNTS, "coef_problems", "coef_values")
_PIECE_WEIGHTS = 1 << 20
_MIN_WEIGHTS = 1 << 16  # fewer are written as they are
_MAX_SHARE = 0.5  # of the bytes that all weights take


class SparseWeights(NamedTuple):
    """Weights without zeros, by column.

    indptr: (d + 1,) int32, where each column's weights begin. problems: (nnz,) int32, ascending within a column.
    values: (nnz,) float64. k: how many problems there are."""

    indptr: NDArray[np.int32]
    problems: NDArray[np.int32]
    values: NDArray[np.float64]
    k: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.k, len(self.indptr) - 1

    @property
    def size(self) -> int:
        """Return the number of weights."""
        return len(self.values)

    @property
    def nbytes(self) -> int:
        return int(self.indptr.nbytes + self.problems.nbytes + self.values.nbytes)

    def between(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return (k, stop - start) float64: the weights of those columns."""
        stored = slice(int(self.indptr[start]), int(self.indptr[stop]))
        columns = np.repeat(np.arange(stop - start), np.diff(self.indptr[start : stop + 1]))
        dense = np.zeros((stop - start, self.k))
        dense[columns, self.problems[stored]] = self.values[stored]
        return dense.T


Weights = NDArray[np.float64] | SparseWeights


def between(weights: Weights, start: int, stop: int) -> NDArray[np.float64]:
    """Return (k, stop - start) weights of those columns."""
    return weights.between(start, stop) if isinstance(weights, SparseWeights) else weights[:, start:stop]


def of_problem(weights: Weights, problem: int) -> NDArray[np.float64]:
    """Return (d,) weights of one problem."""
    if not isinstance(weights, SparseWeights):
        return weights[problem]
    out = np.zeros(weights.shape[1])
    stored = np.flatnonzero(weights.problems == problem).astype(np.int32)
    out[np.searchsorted(weights.indptr, stored, "right") - 1] = weights.values[stored]
    return out


def of_columns(weights: Weights, problem: int, columns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return (m,) weights of one problem, for columns by number."""
    if not isinstance(weights, SparseWeights):
        return weights[problem, columns]
    out = np.zeros(len(columns))
    for i, j in enumerate(columns.tolist()):
        start, stop = int(weights.indptr[j]), int(weights.indptr[j + 1])
        at = start + int(np.searchsorted(weights.problems[start:stop], problem))
        if at < stop and weights.problems[at] == problem:
            out[i] = weights.values[at]
    return out


def n_nonzero(weights: Weights) -> int:
    return int(np.count_nonzero(weights.values if isinstance(weights, SparseWeights) else weights))


@dataclass(frozen=True, slots=True)
class InPieces:
    """Array that is made piece by piece, each time it is asked for."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    pieces: Callable[[], Iterator[NDArray[Any]]]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def _without_zeros(weights: NDArray[np.float64]) -> dict[str, Any] | None:
    """Return the weights as ``as_arrays`` has them, where that saves enough: beside the weights they would take
    up to half as much memory."""
    k, d = weights.shape
    nnz = int(np.count_nonzero(weights)) if weights.size >= _MIN_WEIGHTS else weights.size
    if 12 * nnz + 4 * (d + 1) >= _MAX_SHARE * weights.nbytes or nnz >= 2**31:
        return None
    step = max(1, _PIECE_WEIGHTS // k)
    by_columns = [weights[:, start : start + step].T for start in range(0, d, step)]

    def problems() -> Iterator[NDArray[np.int32]]:
        # a third less time than np.nonzero
        filled = (np.not_equal(piece, 0, order="C") for piece in by_columns)
        return ((np.flatnonzero(piece) % k).astype(np.int32) for piece in filled)

    def values() -> Iterator[NDArray[np.float64]]:
        return (piece[piece != 0] for piece in by_columns)

    counts = np.concatenate([np.count_nonzero(piece, axis=1) for piece in by_columns]).astype(np.uint32)
    parts = InPieces((nnz,), np.dtype(np.int32), problems), InPieces((nnz,), np.dtype(np.float64), values)
    return dict(zip(PARTS, (counts, *parts), strict=True))


def _indptr(counts: NDArray[np.integer]) -> NDArray[np.int32]:
    indptr = np.zeros(len(counts) + 1, np.int32)
    done = 0
    for start in range(0, len(counts), _PIECE_WEIGHTS):
        ends = done + np.cumsum(counts[start : start + _PIECE_WEIGHTS], dtype=np.int64)
        indptr[start + 1 : start + 1 + len(ends)] = ends
        done = int(ends[-1])
    return indptr


def as_arrays(weights: Weights) -> dict[str, NDArray[Any] | InPieces]:
    """Return the weights as a model file has them: without the zeros, where that saves enough."""
    if not isinstance(weights, SparseWeights):
        return _without_zeros(weights) or {"coef": weights.T}
    parts = np.diff(weights.indptr).astype(np.uint32), weights.problems, weights.values
    return dict(zip(PARTS, parts, strict=True))


def from_arrays(arrays: Mapping[str, NDArray[Any]], k: int) -> Weights:
    """Return the weights in a model file. k: how many problems it has. Raises ValueError, KeyError."""
    if "coef" in arrays:
        return arrays["coef"].T
    counts, problems, values = (arrays[name] for name in PARTS)
    if counts.sum(dtype=np.float64) != len(values) or len(problems) != len(values):
        raise ValueError(f"its {len(values):,} weights are not those of its columns")
    weights = SparseWeights(_indptr(counts), problems, values, k)
    falls = (np.flatnonzero(problems[1:] <= problems[:-1]) + 1).astype(np.int32)
    begin = bool((weights.indptr[np.searchsorted(weights.indptr, falls)] == falls).all())
    if len(values) and (problems.min() < 0 or problems.max() >= k or not begin):
        raise ValueError("its weights are of problems that there are not, or not in order")
    return weights


def check_shapes(there: Mapping[str, tuple[tuple[int, ...], str]], n_weights: int) -> None:
    """Raise ValueError where a model file's arrays cannot be its weights. there: of each array its shape and its
    dtype, such as "f8". n_weights: as the header has it."""
    k = math.prod(there["intercept"][0])
    if "coef" in there:
        shape, kind = there["coef"]
        fits = len(shape) == 2 and math.prod(shape) == n_weights and shape[1] == k
    else:
        (counts, counted), (problems, which), (shape, kind) = (there[name] for name in PARTS)
        fits = problems == shape == (n_weights,) and len(counts) == 1 and (counted, which) == ("u4", "i4")
    if not fits:
        raise ValueError(f"its weights have the shape {shape}, and its header says {n_weights:,} of them")
    if kind != "f8" or there["intercept"][1] != "f8":
        raise ValueError("its weights are no 64-bit floats")


def linear_scorer(
    weights: Weights, intercept: NDArray[np.float64]
) -> Callable[[Matrix, int], NDArray[np.float64]]:
    """Return a function of rows (n) and their first column's number that gives their scores, (n, k) float64."""
    from llsvm.kernels.products import matrix_scores, sparse_scores

    if isinstance(weights, SparseWeights):
        parts = weights.indptr, weights.problems, weights.values
        return lambda X, base: sparse_scores(
            X if isinstance(X, CSR) else sparsify(X), *parts, intercept, base if isinstance(X, CSR) else 0
        )
    by_column = np.ascontiguousarray(weights.T)
    return lambda X, base: matrix_scores(X, by_column, intercept, base)


class Coef:
    """A model's ``coef_``: (k, d) float64, made when it is asked for where the model holds SparseWeights."""

    def __get__(self, model: Any, owner: Any) -> NDArray[np.float64]:
        if model is None:
            raise AttributeError("coef_")  # it has no default
        weights: Weights = model.weights
        if isinstance(weights, SparseWeights):
            return weights.between(0, weights.shape[1])
        return weights

    def __set__(self, model: Any, value: Weights) -> None:
        model.weights = value if isinstance(value, SparseWeights) else np.asarray(value, np.float64)
