"""KernelMatrix: K(x_i, x_j) of all rows, computed in tiles from the stream, in memory or spilled and streamed.

A product K A is one reading of it. Values are float64, computed as predictions compute them: rounded to float32
they are another kernel, with another optimum where C times their error is not small. A precomputed kernel is the
data itself, read through the stream like any other, a few dense rows at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, FLOAT64_BYTES, Block, Matrix
from llsvm.errors import DataError, DiskError
from llsvm.features.feature_map import KernelFunction
from llsvm.memory.sizes import format_size
from llsvm.process.threads import Threads, prefetched
from llsvm.process.work import count_matrix, count_products
from llsvm.solvers.kernel_machine.layout import FEWEST_PIECE_BYTES, KernelLayout
from llsvm.solvers.optim.line_search import BEYOND_ROUNDING
from llsvm.spill.store import PageStore, Scratch
from llsvm.stream.progress import OutOfTime
from llsvm.stream.stream import Stream

Pages = Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]


class KernelMatrix:
    """(n, n). ``kernel_layout`` says what it will hold, ``build`` computes it, ``times`` multiplies."""

    def __init__(
        self, stream: Stream, function: KernelFunction, constant: float, layout: KernelLayout
    ) -> None:
        """constant: added to every value (the square of a penalised constant feature). layout: how it is held.

        Raises DataError for a precomputed kernel that is not square.
        """
        dataset = stream.dataset
        self.n = dataset.n_rows
        self.function = function
        self._stream = stream
        self._constant = constant
        self._layout = layout
        self.complete = True  # ``build`` had the time
        self._memory: NDArray[np.float64] | None = None
        self._store: PageStore | None = None
        if self.precomputed and dataset.n_features != self.n:
            raise DataError(
                f"{dataset.name}: a precomputed kernel of {self.n} rows needs {self.n} columns, "
                f"not {dataset.n_features}"
            )

    @property
    def precomputed(self) -> bool:
        return self.function.name == "precomputed"

    @property
    def nbytes(self) -> int:
        return FLOAT64_BYTES * self.n * self.n

    @property
    def in_memory(self) -> bool:
        """Return whether the whole matrix is in memory; if not, ``gather`` gets parts of it."""
        return self._layout.in_memory

    @property
    def place(self) -> str:
        if self._memory is not None:
            return "memory"
        return self._stream.place if self.precomputed else "spill"

    def build(self, threads: Threads) -> None:
        """Compute all of it; ``complete`` is False then where time was over before. Raises DiskError where it fits
        neither in memory nor on disk; DataError for a matrix that was given and is no kernel's."""
        if self.precomputed:
            if self._layout.in_memory:
                (self._memory,) = self.gather([np.arange(self.n)])
            return
        if self._layout.in_memory:
            self._memory = np.empty((self.n, self.n))
        else:
            self._check_disk()
            self._store = self._stream.make_store("kernel")
        for first in range(0, self.n, self._layout.tile_rows):
            last = min(first + self._layout.tile_rows, self.n)
            tile = np.empty((last - first, self.n)) if self._memory is None else self._memory[first:last]
            try:
                self._fill(tile, first, last, threads)
            except OutOfTime:
                self.complete = False
                return
            if self._store is not None:
                self._spill(tile, first)
        if self._store is not None:
            self._store.finish()

    def release(self) -> None:
        """Give up what is in memory: there are no products after this."""
        self._memory = None

    def times(self, A: NDArray[np.float64]) -> NDArray[np.float64]:
        """K A for A (n, k): (n, k) float64, in one reading."""
        count_products(A.size, self.n * A.size, True)
        out = np.empty(A.shape)
        for rows, values in self._pages():
            out[rows] = values @ A
        return out

    def block(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """K of some rows and the same columns, C order, where it is in memory. rows: ascending; of all, a view."""
        assert self._memory is not None
        if len(rows) == self.n:
            return self._memory
        return self._memory[np.ix_(rows, rows)]

    def gather(self, sets: Sequence[NDArray[np.intp]]) -> list[NDArray[np.float64]]:
        """``block`` of each, in one reading. Raises DataError as ``build``."""
        blocks = [np.empty((len(rows), len(rows))) for rows in sets]
        for at, values in self._pages():
            for rows, block in zip(sets, blocks, strict=True):
                place = np.searchsorted(rows, at)
                mine = (place < len(rows)) & (rows[np.minimum(place, len(rows) - 1)] == at)
                block[place[mine]] = values[mine][:, rows]
        if self.precomputed:
            for block in blocks:
                self._check(block)
        return blocks

    def sizes(self, block: Block) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``KernelFunction.sizes`` of the rows of a block, whatever the kernel."""
        if self.precomputed:
            diagonal = [values[np.arange(len(rows)), rows] for rows, values in self._dense(block)]
            return np.sqrt(np.abs(np.concatenate(diagonal))), np.zeros(block.n_rows)
        norms, squares = self.function.sizes(block.X)
        return np.hypot(norms, self._constant**0.5), squares

    def _pages(self) -> Pages:
        """Rows' numbers and values, the next page of a spill read while one is worked on."""
        if self._memory is not None:
            yield np.arange(self.n), self._memory
            return
        if self._store is None:
            for block in self._stream.all():
                yield from self._dense(block)
            return
        store, scratch = self._store, cycle((Scratch(), Scratch()))
        with closing(prefetched(map(store.read, range(len(store.pages)), scratch), in_thread=True)) as blocks:
            for page, block in zip(store.pages, blocks, strict=True):
                self._stream.count_bytes(page.nbytes)
                yield block.rows, np.asarray(block.X)

    def _dense(self, block: Block) -> Pages:
        """Rows of a precomputed kernel, a few at a time."""
        first, step = self._stream.dataset.first_column, self._rows_of_piece(self.n)
        for start in range(0, block.n_rows, step):
            piece = block.slice(start, min(start + step, block.n_rows))
            X = piece.X
            if isinstance(X, CSR):
                values = np.full((piece.n_rows, self.n), self._constant)
                row = np.repeat(np.arange(piece.n_rows), np.diff(X.indptr))
                begin, end = int(X.indptr[0]), int(X.indptr[-1])
                values[row, X.indices[begin:end] - first] += X.data[begin:end]
            else:
                values = X[:, first:].astype(np.float64) + self._constant
            yield piece.rows, values

    def _rows_of_piece(self, width: int) -> int:
        """Return how many rows of ``width`` values are processed together."""
        return max(1, self._layout.piece_bytes // (FLOAT64_BYTES * width))

    def _fill(self, tile: NDArray[np.float64], first: int, last: int, threads: Threads) -> None:
        """tile[i, j] = k(x_{first + i}, x_j) for all j. The tile's own rows are read first, then all rows."""
        dataset, inside = self._stream.dataset, np.zeros(self.n, bool)
        inside[first:last] = True
        Z = chosen_rows(self._stream, inside)
        step = self._rows_of_piece((last - first) * threads.number)

        def work(block: Block, start: int, stop: int) -> None:
            self._stream.progress.check()
            rows = block.slice(start, stop)
            values = self.function.between(rows.X, Z, dataset.n_features, dataset.first_column)
            values += self._constant
            tile[:, rows.rows] = values.T

        for block in self._stream.all():
            count_matrix((last - first) * block.nnz, block.is_dense)
            threads.over_pieces(block.n_rows, step, partial(work, block))
        if not np.isfinite([tile.min(), tile.max()]).all():
            raise DataError(
                f"{dataset.name}: values of the {self.function.name} kernel are beyond 64-bit floats; pass a "
                "smaller --gamma or --degree, or --scale unit-row"
            )

    def _spill(self, tile: NDArray[np.float64], first: int) -> None:
        assert self._store is not None
        step = self._rows_of_piece(self.n)
        for start in range(0, len(tile), step):
            rows = np.arange(first + start, first + min(start + step, len(tile)), dtype=np.int64)
            values = tile[start : start + step]
            self._store.append(Block(values, np.zeros(len(rows), np.int32), rows))

    def _check_disk(self) -> None:
        room, where = self._stream.disk_room()
        if self.nbytes > room:
            raise DiskError(
                f"the kernel matrix of {self.n} rows takes {format_size(self.nbytes)} ({self.nbytes} bytes), and "
                f"{where} has room for {format_size(room)}; pass --feature-map nystroem or rff, which streams "
                "through an approximation and needs no kernel matrix, or --spill-dir or --disk-limit for more room"
            )

    def _check(self, K: NDArray[np.float64]) -> None:
        """Raise DataError where K is not symmetric, or where K_ij² > K_ii K_jj, as for no semi-definite matrix."""
        diagonal = K.diagonal()
        size = np.sqrt(np.abs(diagonal))
        if np.any(diagonal < -BEYOND_ROUNDING * float(np.abs(diagonal).max(initial=0.0))):
            raise not_definite()
        step = self._rows_of_piece(len(K))
        for start in range(0, len(K), step):
            rows = slice(start, start + step)
            bound = np.outer(size[rows], size)
            if np.any(np.abs(K[rows] - K[:, rows].T) > BEYOND_ROUNDING * bound):
                raise not_symmetric()
            if np.any(np.abs(K[rows]) > (1.0 + BEYOND_ROUNDING) * bound):
                raise not_definite()


def chosen_rows(stream: Stream, is_chosen: NDArray[np.bool_]) -> Matrix:
    """The features of some rows, in the order of all, copied once, piece by piece; of CSR in two passes.
    is_chosen: (n_rows,)."""
    dataset = stream.dataset
    place, base = np.cumsum(is_chosen) - 1, dataset.first_column
    n = int(place[-1]) + 1
    if dataset.is_dense:
        out = np.empty((n, dataset.n_features), dataset.dtype)
        for piece in _pieces(stream, is_chosen):
            out[place[piece.rows]] = np.asarray(piece.X)[:, base:]
        return out
    indptr = np.zeros(n + 1, np.int64)
    for block in stream.all():
        mine = is_chosen[block.rows]
        indptr[1 + place[block.rows[mine]]] = np.diff(_csr(block).indptr)[mine]
    np.cumsum(indptr, out=indptr)
    indices, data = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], dataset.dtype)
    for piece in _pieces(stream, is_chosen):
        X, start = _csr(piece), indptr[place[piece.rows]]
        at = np.repeat(start - X.indptr[:-1], np.diff(X.indptr)) + np.arange(X.indptr[-1])
        indices[at], data[at] = X.indices - np.int32(base), X.data
    return CSR(indptr, indices, data)


def _pieces(stream: Stream, is_chosen: NDArray[np.bool_]) -> Iterator[Block]:
    """Copies of the chosen rows of a pass, a few at a time."""
    step = max(1, int(FEWEST_PIECE_BYTES / max(stream.dataset.bytes_per_row, 1.0)))
    for block in stream.all():
        mine = np.flatnonzero(is_chosen[block.rows])
        for start in range(0, len(mine), step):
            yield block.take(mine[start : start + step])


def _csr(block: Block) -> CSR:
    assert isinstance(block.X, CSR)
    return block.X


def not_definite() -> DataError:
    """Return the error of a kernel matrix that is not positive semi-definite."""
    return DataError(
        "the kernel matrix is not positive semi-definite (a vector v with vᵀKv < 0 was met), so there is no "
        "optimum to certify; pass another --kernel, or a matrix that is"
    )


def not_symmetric() -> DataError:
    """Return the error of a kernel matrix that is not symmetric."""
    return DataError(
        "the kernel matrix is not symmetric (vectors u and v with uᵀKv ≠ vᵀKu were met), so there is no optimum to "
        "certify; pass a matrix that is"
    )
