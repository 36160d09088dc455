"""KernelMatrix: K(x_i, x_j) of all rows, computed in tiles from the stream, in memory or spilled and streamed.

A product K A is one reading of it. Values are float64, computed as predictions compute them: rounded to float32
they are another kernel, with another optimum where C times their error is not small. A precomputed kernel is the
data itself, read through the stream like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block, concat
from llsvm.errors import DataError, DiskError
from llsvm.features.feature_map import KernelFunction
from llsvm.memory.sizes import format_size
from llsvm.process.threads import Pool, Threads
from llsvm.process.work import count_matrix, count_products
from llsvm.solvers.kernel_machine.layout import MatrixLayout
from llsvm.solvers.kernel_machine.objective import not_definite, not_symmetric
from llsvm.solvers.optim.rounding import BEYOND_ROUNDING
from llsvm.spill.store import PageStore, Scratch
from llsvm.stream.progress import OutOfTime
from llsvm.stream.stream import Stream

_CHECKED_ROWS = 256  # of such a matrix at a time


class KernelMatrix:
    """(n, n). ``matrix_layout`` says what it will hold, ``build`` computes it, ``times`` multiplies."""

    def __init__(
        self, stream: Stream, function: KernelFunction, constant: float, layout: MatrixLayout
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
        return 8 * self.n * self.n

    @property
    def in_memory(self) -> bool:
        """Is all of it? Else ``gather`` gets parts."""
        return self._layout.in_memory

    @property
    def place(self) -> str:
        if self._memory is not None:
            return "memory"
        return self._stream.place if self.precomputed else "spill"

    def build(self, threads: Threads) -> None:
        """Compute all of it; ``complete`` is False then where time was over before. Raises DiskError where it fits
        neither in memory nor on disk; DataError for a matrix that was given and is no kernel's."""
        if self._layout.in_memory:
            self._memory = np.empty((self.n, self.n))
        if self.precomputed:
            if self._memory is not None:
                self._copy(self._memory)
            return
        if not self._layout.in_memory:
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
        if self.precomputed:
            return self._times_data(A, out)
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
        found = [np.empty((len(rows), len(rows))) for rows in sets]
        wanted = np.zeros(self.n, bool)
        for rows in sets:
            wanted[rows] = True
        for at, values in self._data_rows(wanted) if self.precomputed else self._pages():
            for rows, block in zip(sets, found, strict=True):
                place = np.searchsorted(rows, at)
                mine = (place < len(rows)) & (rows[np.minimum(place, len(rows) - 1)] == at)
                block[place[mine]] = values[mine][:, rows]
        if self.precomputed:
            for block in found:
                _check_kernel(block)
        return found

    def _copy(self, out: NDArray[np.float64]) -> None:
        """A precomputed kernel."""
        for at, values in self._data_rows(np.ones(self.n, bool)):
            out[at] = values
        _check_kernel(out)

    def _data_rows(
        self, wanted: NDArray[np.bool_]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Rows' numbers and values of a precomputed kernel, a few at a time."""
        first = self._stream.dataset.first_column
        step = max(1, self._layout.piece_bytes // (8 * self.n))
        for block in self._stream.all():
            mine = np.flatnonzero(wanted[block.rows])
            for start in range(0, len(mine), step):
                piece = block.take(mine[start : start + step])
                X = piece.X
                if isinstance(X, CSR):
                    values = np.zeros((piece.n_rows, self.n))
                    row = np.repeat(np.arange(piece.n_rows), np.diff(X.indptr))
                    begin, end = int(X.indptr[0]), int(X.indptr[-1])
                    values[row, X.indices[begin:end] - first] = X.data[begin:end]
                else:
                    values = X[:, first:].astype(np.float64)
                values += self._constant
                yield piece.rows, values

    def _times_data(self, A: NDArray[np.float64], out: NDArray[np.float64]) -> NDArray[np.float64]:
        first = self._stream.dataset.first_column
        shifted = np.ascontiguousarray(A)
        for block in self._stream.all():
            X = block.X
            if isinstance(X, CSR):
                from llsvm.kernels.products import dense_dots

                values = np.zeros((block.n_rows, A.shape[1]))
                dense_dots(*X, first, shifted, values)
                out[block.rows] = values
                continue
            step = max(1, self._layout.piece_bytes // (8 * self.n))
            for start in range(0, block.n_rows, step):
                piece = X[start : start + step, first:].astype(np.float64, copy=False)
                out[block.rows[start : start + len(piece)]] = piece @ A
        out += self._constant * A.sum(axis=0)
        return out

    def sizes(self, block: Block) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``KernelFunction.sizes`` of the rows of a block, whatever the kernel."""
        if self.precomputed:
            return np.sqrt(np.abs(self._diagonal(block))), np.zeros(block.n_rows)
        norms, squares = self.function.sizes(block.X)
        return np.hypot(norms, self._constant**0.5), squares

    def _diagonal(self, block: Block) -> NDArray[np.float64]:
        """k(x_i, x_i) of the rows of a block, (n,), where it is precomputed."""
        X, first = block.X, self._stream.dataset.first_column
        if not isinstance(X, CSR):
            return X[np.arange(block.n_rows), first + block.rows].astype(np.float64) + self._constant
        out = np.full(block.n_rows, self._constant)
        row = np.repeat(np.arange(block.n_rows), np.diff(X.indptr))
        begin, end = int(X.indptr[0]), int(X.indptr[-1])
        own = X.indices[begin:end] == first + block.rows[row]
        out[row[own]] += X.data[begin:end][own]
        return out

    def _pages(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Rows' numbers and values, the next page read while one is worked on."""
        if self._memory is not None:
            yield np.arange(self.n), self._memory
            return
        assert self._store is not None
        store, scratch = self._store, (Scratch(), Scratch())
        with Pool(1, "llsvm-read") as reader:
            ahead = reader.submit(store.read, 0, scratch[0])
            for number in range(len(store.pages)):
                block = ahead.result()
                if number + 1 < len(store.pages):
                    ahead = reader.submit(store.read, number + 1, scratch[(number + 1) % 2])
                self._stream.count_bytes(store.pages[number].nbytes)
                yield block.rows, np.asarray(block.X)

    def _fill(self, tile: NDArray[np.float64], first: int, last: int, threads: Threads) -> None:
        """tile[i, j] = k(x_{first + i}, x_j) for all j: one pass for the tile's rows, one for the others."""
        dataset = self._stream.dataset
        parts = []
        for block in self._stream.all():
            inside = (block.rows >= first) & (block.rows < last)
            if inside.any():
                parts.append(block.take(inside))
        mine = concat(parts)
        mine = mine.take(np.argsort(mine.rows))
        Z = mine.X
        if isinstance(Z, CSR):
            Z = CSR(Z.indptr, Z.indices - np.int32(dataset.first_column), Z.data)
        else:
            Z = Z[:, dataset.first_column :]
        step = max(1, self._layout.piece_bytes // (8 * (last - first) * threads.number))

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
        step = max(1, self._layout.piece_bytes // (8 * self.n))
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


def _check_kernel(K: NDArray[np.float64]) -> None:
    """Raise DataError where K is not symmetric, or where K_ij² > K_ii K_jj, as for no semi-definite matrix."""
    diagonal = K.diagonal()
    size = np.sqrt(np.abs(diagonal))
    if np.any(diagonal < -BEYOND_ROUNDING * float(np.abs(diagonal).max(initial=0.0))):
        raise not_definite()
    for start in range(0, len(K), _CHECKED_ROWS):
        for other in range(0, start + 1, _CHECKED_ROWS):
            rows, columns = slice(start, start + _CHECKED_ROWS), slice(other, other + _CHECKED_ROWS)
            one, two = K[rows, columns], K[columns, rows].T
            most = np.outer(size[rows], size[columns])
            if np.any(np.abs(one - two) > BEYOND_ROUNDING * most):
                raise not_symmetric()
            if np.any(np.abs(one) > (1.0 + BEYOND_ROUNDING) * most):
                raise not_definite()
