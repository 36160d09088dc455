"""Columns found by their names: the rows of a matrix with the columns in another order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block, Matrix
from llsvm.data.source import BlockSource, SourceInfo
from llsvm.errors import DataError
from llsvm.features.table_options import listed, own_names, unknown_columns


def places(where: str, names: Sequence[str], wanted: Sequence[str]) -> NDArray[np.int64]:
    """(len(wanted),) where the columns ``wanted`` stand among ``names``. Raises DataError where one is missing, or
    there twice."""
    at = {name: j for j, name in enumerate(names)}
    if len(at) != len(names) and (twice := [name for j, name in enumerate(names) if at[name] != j]):
        raise DataError(f"{where}: two columns are named {twice[0]!r}; rename one of them")
    at |= {name: at[own] for name, own in own_names(names, wanted).items()}
    if missing := [name for name in wanted if name not in at]:
        raise DataError(
            f"{where}: {len(missing)} of the {len(wanted)} columns asked for by name are missing: "
            f"{listed(missing)}; it has {listed(names)}"
        )
    return np.array([at[name] for name in wanted], np.int64)


class ColumnsByName:
    """The rows of a matrix whose columns have names, with some of them in another order.

    source: of the matrix.
    names: of the columns, in the order wanted; others are left out. left_out: names and patterns of those of which
        nothing is said.
    Raises DataError where one is missing, or there twice.
    """

    def __init__(self, source: BlockSource, names: Sequence[str], left_out: Sequence[str] = ("*",)) -> None:
        info = source.info()
        self._source, self._names, self._left_out = source, tuple(names), tuple(left_out)
        self._notes: list[str] = []
        self._take = places(info.name, info.feature_names or (), names)
        self._place = np.full(len(info.feature_names or ()), -1, np.int64)  # of a column, in the new order
        self._place[self._take] = np.arange(len(self._take))

    @property
    def bytes_read(self) -> int:
        return self._source.bytes_read

    def info(self) -> SourceInfo:
        info = self._source.info()
        notes = (*info.notes, *self._notes)
        return replace(info, n_features=len(self._names), feature_names=self._names, notes=notes)

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """See BlockSource."""
        n_rows = 0
        for block in self._source.blocks(max(max_bytes // 2, 1)):  # for a moment there are two of them
            n_rows += block.n_rows
            yield replace(block, X=self._arranged(block.X))

        info = self._source.info()
        names = info.feature_names or ()
        told = unknown_columns(
            dict.fromkeys(names, n_rows), [names[j] for j in self._take], self._left_out, n_rows
        )
        self._notes = [f"{info.name}: {sentence}" for sentence in told]

    def _arranged(self, X: Matrix) -> Matrix:
        if not isinstance(X, CSR):
            return np.ascontiguousarray(X[:, self._take])
        first, last = int(X.indptr[0]), int(X.indptr[-1])
        n = len(X.indptr) - 1
        column = self._place[X.indices[first:last]]
        row = np.repeat(np.arange(n), np.diff(X.indptr))
        kept = np.flatnonzero(column >= 0)
        kept = kept[np.lexsort((column[kept], row[kept]))]
        indptr = np.zeros(n + 1, np.int64)
        np.cumsum(np.bincount(row[kept], minlength=n), out=indptr[1:])
        return CSR(indptr, column[kept].astype(np.int32), X.data[first:last][kept])
