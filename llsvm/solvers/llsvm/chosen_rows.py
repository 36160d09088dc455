"""Rows of a block chosen by position, as linear algebra sees them: sparse by kernels, dense by the machine's matrix
products in float64, a piece at a time. The constant feature is the last column of both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix
from llsvm.objective.problems import Positions
from llsvm.solvers.llsvm.multiplier_kernels import add_at, dots_at, inner_at, outer_at
from llsvm.stream.progress import Progress

Vector = NDArray[np.float64]

_PRODUCTS = 5e7  # of two values, that a matrix takes between two looks at the clock


class ChosenRows(Protocol):
    """n rows of d + 1 columns. rows: (r,) positions of some. factor: (r,) float64, for each of them.

    progress: of the run; matrices raise OutOfTime."""

    progress: Progress

    def dots(self, rows: Positions, w: Vector) -> Vector:
        """(r,) x_i·w; w: (d + 1,)."""
        ...

    def add(self, rows: Positions, factor: Vector, out: Vector) -> None:
        """out (d + 1,) += Σ factor_i x_i."""
        ...

    def add_squares(self, rows: Positions, factor: Vector, out: Vector) -> None:
        """out (d + 1,) += Σ factor_i x_i², of each column."""
        ...

    def squares(self, rows: Positions) -> Vector:
        """(r,) ‖x_i‖²."""
        ...

    def outer(self, rows: Positions, factor: Vector, out: Vector) -> None:
        """Lower triangle of out (d + 1, d + 1) += Σ factor_i x_i x_iᵀ; factor ≥ 0."""
        ...

    def inner(self, rows: Positions, out: Vector) -> None:
        """Lower triangle of out (r, r) = x_i·x_j."""
        ...


def chosen_rows(X: Matrix, n_columns: int, bias: float, piece_bytes: int, progress: Progress) -> ChosenRows:
    """n_columns: d. bias: value of the constant feature. piece_bytes: of dense rows as float64, at a time."""
    if isinstance(X, CSR):
        return _Sparse(X, n_columns, bias, progress)
    return _Dense(X, bias, piece_bytes, progress)


class _Sparse:
    def __init__(self, X: CSR, n_columns: int, bias: float, progress: Progress) -> None:
        self.X = X
        self.bias = bias
        self._n_columns = n_columns
        self.progress = progress
        self._values = max(len(X.data) / max(len(X.indptr) - 1, 1), 1.0)  # of a row

    def dots(self, rows: Positions, w: Vector) -> Vector:
        out = np.empty(len(rows))
        dots_at(*self.X, rows, w, self.bias, out)
        return out

    def add(self, rows: Positions, factor: Vector, out: Vector) -> None:
        add_at(*self.X, rows, factor, self.bias, False, out)

    def add_squares(self, rows: Positions, factor: Vector, out: Vector) -> None:
        add_at(*self.X, rows, factor, self.bias, True, out)

    def squares(self, rows: Positions) -> Vector:
        starts, ends = self.X.indptr[rows], self.X.indptr[rows + 1]
        each = (self.X.data[start:end] for start, end in zip(starts, ends, strict=True))
        found = [float(np.einsum("i,i", values, values, dtype=np.float64)) for values in each]
        return np.array(found) + self.bias**2

    def outer(self, rows: Positions, factor: Vector, out: Vector) -> None:
        step = max(1, int(_PRODUCTS / self._values**2))
        for at in range(0, len(rows), step):
            self.progress.check()
            outer_at(*self.X, rows[at : at + step], factor[at : at + step], self.bias, out)

    def inner(self, rows: Positions, out: Vector) -> None:
        scratch = np.zeros(self._n_columns + 1)
        step = max(1, int(_PRODUCTS / (self._values * max(len(rows), 1))))
        for at in range(0, len(rows), step):
            self.progress.check()
            inner_at(*self.X, rows[: at + step], at, self.bias, scratch, out)


class _Dense:
    def __init__(self, X: NDArray[np.floating], bias: float, piece_bytes: int, progress: Progress) -> None:
        n, d = X.shape
        self.X = X
        self.bias = bias
        self.progress = progress
        self._step = max(1, piece_bytes // (8 * (d + 1)))
        self._wide: Vector | None = None
        if n <= self._step:  # all of them as one piece, made once
            self._wide = np.empty((n, d + 1))
            self._wide[:, :d], self._wide[:, d] = X, bias

    def dots(self, rows: Positions, w: Vector) -> Vector:
        out = np.empty(len(rows))
        at = self._columns(w)
        for piece, X in self._pieces(rows):
            np.matmul(X, at, out=out[piece])
        return out

    def add(self, rows: Positions, factor: Vector, out: Vector) -> None:
        total = np.zeros(self.X.shape[1] + 1)
        for piece, X in self._pieces(rows):
            total += factor[piece] @ X
        self._add_columns(total, out)

    def add_squares(self, rows: Positions, factor: Vector, out: Vector) -> None:
        total = np.zeros(self.X.shape[1] + 1)
        for piece, X in self._pieces(rows):
            total += np.einsum("i,ij,ij->j", factor[piece], X, X)
        self._add_columns(total, out)

    def squares(self, rows: Positions) -> Vector:
        out = np.empty(len(rows))
        for piece, X in self._pieces(rows):
            np.einsum("ij,ij->i", X, X, out=out[piece])
        return out

    def outer(self, rows: Positions, factor: Vector, out: Vector) -> None:
        d = self.X.shape[1]
        root = np.sqrt(factor)
        for piece, X in self._pieces(rows):
            self.progress.check()
            part = X * root[piece][:, None]
            product = part.T @ part
            out[:d, :d] += product[:d, :d]
            out[-1, :d] += product[-1, :d]
            out[-1, -1] += product[-1, -1]

    def inner(self, rows: Positions, out: Vector) -> None:
        pieces = [(piece, rows[piece]) for piece, _ in self._pieces(rows)]
        for piece, X in self._pieces(rows):
            for other, some in pieces:
                if other.start > piece.start:
                    break
                self.progress.check()
                out[piece, other] = X @ (X if other == piece else self._piece(some)).T

    def _columns(self, w: Vector) -> Vector:
        """The entries of w that the rows have columns for; they may be fewer than there are features."""
        d = self.X.shape[1]
        return w if len(w) == d + 1 else np.append(w[:d], w[-1])

    def _add_columns(self, total: Vector, out: Vector) -> None:
        out[: len(total) - 1] += total[:-1]
        out[-1] += total[-1]

    def _pieces(self, rows: Positions) -> Iterator[tuple[slice, Vector]]:
        """Some of the rows at a time, (p, d + 1) float64, and where among ``rows`` they are."""
        if self._wide is not None:
            everyone = len(rows) == len(self._wide) and bool((np.diff(rows) == 1).all())
            yield slice(0, len(rows)), self._wide if everyone else self._wide[rows]
            return
        for start in range(0, len(rows), self._step):
            piece = slice(start, min(start + self._step, len(rows)))
            yield piece, self._piece(rows[piece])

    def _piece(self, rows: Positions) -> Vector:
        d = self.X.shape[1]
        X = np.empty((len(rows), d + 1))
        X[:, :d], X[:, d] = self.X[rows], self.bias
        return X
