"""Sources made of other sources: with other labels, columns in another order, a note more, or several as one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block, Matrix
from llsvm.data.source import FILE_BYTES, BlockSource, DerivedSource, SourceInfo
from llsvm.errors import DataError
from llsvm.features.labels import BOOL_LABELS, is_text, look_alike, number_of, quoted
from llsvm.features.table_options import listed, own_names, unknown_columns
from llsvm.features.targets import as_targets
from llsvm.settings.objective import REGRESSION

POSITIVE, NEGATIVE = 1.0, -1.0
_SHOWN = 12


class OneAgainstRest(DerivedSource):
    """The rows of another source; y is 1 where its label is ``positive``, else -1.

    source: of the rows.
    positive: a label as text; 1, 1.0 and "1" are the same, and so are true, True and TRUE.
    must_occur: DataError at the end of a pass in which no row had the label.
    """

    def __init__(self, source: BlockSource, positive: str, must_occur: bool = True) -> None:
        super().__init__(source)
        self._positive = positive.strip()
        self._must_occur = must_occur
        self._names: tuple[Any, Any] | None = None
        number = number_of(self._positive)
        self._number = math.nan if number is None else float(number)
        self._whole = number if isinstance(number, int) else None  # of which a float may not have all digits

    def info(self) -> SourceInfo:
        info = self.source.info()  # its batches have the labels as they were
        return replace(info, record_batches=None, class_names=self._names)

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        others: set[str] = set()
        has_occurred, rest, several = not self._must_occur, None, False
        for block in self.source.blocks(max_bytes):
            same = self._same(block.y)
            if not has_occurred:
                has_occurred = bool(same.any())
                others |= {quoted(label) for label in np.unique(block.y)[:_SHOWN]}
            if not several and not same.all():
                other_labels = block.y[~same]
                rest = other_labels[0] if rest is None else rest
                several = bool(np.any(other_labels != rest))
            yield replace(block, y=np.where(same, POSITIVE, NEGATIVE))
        if not has_occurred:
            raise DataError(
                f"{self.info().name}: no row has the label {self._positive!r} (--positive); "
                f"there are {', '.join(sorted(others)[:_SHOWN])}"
            )
        self._names = self._named(None if several else rest)

    def _named(self, other: Any) -> tuple[Any, Any]:
        """Return the labels -1 and 1 as the source has them. other: the only one beside ``positive``, if there is
        one."""
        if other is None:
            return f"not {self._positive}", self._positive
        if isinstance(other, str):
            return str(other), self._positive
        if isinstance(other, bool | np.bool_):
            return bool(other), not other
        if self._whole is not None and isinstance(other, int | np.integer) and self._whole != self._number:
            return int(other), self._whole
        return float(other), self._number

    def _same(self, y: NDArray[Any]) -> NDArray[np.bool_]:
        word = self._positive.lower()
        if y.dtype.kind == "b" and word in BOOL_LABELS:
            return y == (word == "true")
        if y.dtype.kind in "iu" and self._whole is not None:
            return np.asarray(y == self._whole)
        if y.dtype.kind not in "OU":
            return y == self._number
        same: NDArray[np.bool_] = y == self._positive
        if word in BOOL_LABELS:  # however it is written, as in CSV
            spellings = {word, word.title(), word.upper()}
            same = same | np.fromiter((each in spellings for each in y), bool, len(y))
            if same.any():
                self._positive = str(y[np.argmax(same)])
        return same


class LabelsOfKind(DerivedSource):
    """The rows of another source, whose labels are taken for what they are in a regression, or left aside.

    source: of the rows. kind: REGRESSION or UNLABELLED, see llsvm.settings.objective. scale_targets: see
    SourceInfo. Raises DataError, while reading, for the first label of a regression that is no finite number.
    """

    def __init__(self, source: BlockSource, kind: str, scale_targets: bool = False) -> None:
        super().__init__(source)
        self._kind, self._scale_targets = kind, scale_targets
        encoder = source.info().encoder
        if encoder is not None:  # which knows the row, and the file that it is in
            encoder.label_kind = kind

    def info(self) -> SourceInfo:
        return replace(self.source.info(), label_kind=self._kind, scale_targets=self._scale_targets)

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows in order, with labels of that kind; see BlockSource."""
        for block in self.source.blocks(max_bytes):
            if self._kind != REGRESSION or not self.source.info().labelled:
                yield block
                continue
            try:
                y = as_targets(block.y)
            except ValueError as error:
                at, reason = error.args
                raise DataError(f"{self.info().name}: row {block.rows[at] + 1}: {reason}") from error
            yield replace(block, y=y)


_MOST_LABELS = 1000  # that are looked at


class Noted(DerivedSource):
    """The rows of another source. note: a sentence beside those that it has."""

    def __init__(self, source: BlockSource, note: str) -> None:
        super().__init__(source)
        self._note = note

    def info(self) -> SourceInfo:
        """Return what is known of the source, with the note first; see BlockSource."""
        info = self.source.info()
        return replace(info, notes=(self._note, *info.notes))


class LabelsNoted(Noted):
    """The rows of another source, and a note once two labels of the first reading differ in case or space alone."""

    def __init__(self, source: BlockSource) -> None:
        super().__init__(source, "")
        self._words: set[str] = set()
        self._complete = False  # a reading has come to its end

    def info(self) -> SourceInfo:
        """Return what is known of the source, with the note if there is one; see BlockSource."""
        return super().info() if self._note else self.source.info()

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows in order and look at their labels; see BlockSource."""
        for block in self.source.blocks(max_bytes):
            if not (self._complete or self._note) and len(self._words) < _MOST_LABELS and is_text(block.y):
                self._look(set(block.y.tolist()))
            yield block
        self._complete = True

    def _look(self, words: set[str]) -> None:
        if not words <= self._words:
            self._words |= words
            self._note = look_alike(self._words)


def places(where: str, names: Sequence[str], wanted: Sequence[str]) -> NDArray[np.int64]:
    """Return the places (len(wanted),) of the columns ``wanted`` among ``names``. Raises DataError where one is
    missing, or there twice."""
    at = {name: j for j, name in enumerate(names)}
    if len(at) != len(names) and (twice := [name for j, name in enumerate(names) if at[name] != j]):
        raise DataError(f"{where}: two columns are named {twice[0]!r}; rename one of them")
    at |= {name: at[stored] for name, stored in own_names(names, wanted).items()}
    if missing := [name for name in wanted if name not in at]:
        raise DataError(
            f"{where}: {len(missing)} of the {len(wanted)} columns asked for by name are missing: "
            f"{listed(missing)}; it has {listed(names)}"
        )
    return np.array([at[name] for name in wanted], np.int64)


class ColumnsByName(DerivedSource):
    """The rows of a matrix whose columns have names, with some of them in another order.

    source: of the matrix.
    names: of the columns, in the order wanted; others are left out. left_out: names and patterns of those of which
        nothing is said.
    Raises DataError where one is missing, or there twice.
    """

    def __init__(self, source: BlockSource, names: Sequence[str], left_out: Sequence[str] = ("*",)) -> None:
        super().__init__(source)
        info = source.info()
        self._names, self._left_out = tuple(names), tuple(left_out)
        self._notes: list[str] = []
        self._take = places(info.name, info.feature_names or (), names)
        self._place = np.full(len(info.feature_names or ()), -1, np.int64)  # of a column, in the new order
        self._place[self._take] = np.arange(len(self._take))

    def info(self) -> SourceInfo:
        info = self.source.info()
        notes = (*info.notes, *self._notes)
        return replace(info, n_features=len(self._names), feature_names=self._names, notes=notes)

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows in order, with the columns arranged by name; see BlockSource."""
        n_rows = 0
        for block in self.source.blocks(max(max_bytes // 2, 1)):  # for a moment there are two of them
            n_rows += block.n_rows
            yield replace(block, X=self._arranged(block.X))

        info = self.source.info()
        names = info.feature_names or ()
        sentences = unknown_columns(
            dict.fromkeys(names, n_rows), [names[j] for j in self._take], self._left_out, n_rows
        )
        self._notes = [f"{info.name}: {sentence}" for sentence in sentences]

    def _arranged(self, X: Matrix) -> Matrix:
        if not isinstance(X, CSR):
            return np.ascontiguousarray(X[:, self._take])
        first, last = int(X.indptr[0]), int(X.indptr[-1])
        n = len(X.indptr) - 1
        column = self._place[X.indices[first:last]]
        row = np.repeat(np.arange(n), np.diff(X.indptr))
        entries = np.flatnonzero(column >= 0)
        entries = entries[np.lexsort((column[entries], row[entries]))]
        indptr = np.zeros(n + 1, np.int64)
        np.cumsum(np.bincount(row[entries], minlength=n), out=indptr[1:])
        return CSR(indptr, column[entries].astype(np.int32), X.data[first:last][entries])


class SeveralSources:
    """The rows of all the sources, numbered through.

    What ``info`` says is put together before and after a pass; within one, only the bytes that readers hold change.
    So a block costs the same whether there are ten sources or a hundred thousand.

    sources: of one format; dense ones equally wide, and columns that have names the same, in the same order (see
        ColumnsByName). Raises DataError, while reading, for a dense one of another width.
    """

    def __init__(self, sources: Sequence[BlockSource]) -> None:
        self._sources = list(sources)
        self._info = _merged_info(self._sources)
        self.bytes_read = sum(source.bytes_read for source in self._sources)

    def info(self) -> SourceInfo:
        """Return what is known of all sources; see BlockSource."""
        return self._info

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows of all sources in order; see BlockSource."""
        first, width = 0, None
        try:
            for source in self._sources:
                n, counted = 0, source.bytes_read
                for block in source.blocks(max_bytes):
                    if block.is_dense:
                        columns = block.X.shape[1]  # type: ignore[union-attr]
                        width = width or columns
                        if columns != width:
                            raise DataError(
                                f"{source.info().name}: {columns} columns, but the files before it have {width}"
                            )
                    n += block.n_rows
                    rows = block.rows + first if first else block.rows
                    self.bytes_read += source.bytes_read - counted
                    counted = source.bytes_read
                    self._hold(source.info())
                    yield Block(block.X, block.y, np.asarray(rows, np.int64), block.weight)
                self.bytes_read += source.bytes_read - counted
                first += n
        finally:
            self._info = _merged_info(self._sources)

    def _hold(self, info: SourceInfo) -> None:
        """Count what a source holds while it is being read."""
        held = info.reader_bytes + FILE_BYTES * len(self._sources)
        if held > self._info.reader_bytes:
            self._info = replace(self._info, reader_bytes=held)


def _merged_info(sources: Sequence[BlockSource]) -> SourceInfo:
    """Return what is known of all sources. They are asked one by one, and what each says is dropped: there may be
    very many."""
    merged = sources[0].info()
    ends, notes = {_end(merged)}, dict.fromkeys(merged.notes)
    rounding = {id(each): each for each in merged.rounding}
    parsing = {id(each): each for each in merged.parsing}
    prints, counts = [merged.fingerprints], [merged.file_rows]
    for source in sources[1:]:
        info = source.info()
        ends.add(_end(info))
        notes.update(dict.fromkeys(info.notes))
        rounding.update((id(each), each) for each in info.rounding)
        parsing.update((id(each), each) for each in info.parsing)
        prints.append(info.fingerprints)
        counts.append(info.file_rows)
        merged = replace(
            merged,
            n_bytes=_all_known(sum, merged.n_bytes, info.n_bytes),
            n_rows=_all_known(sum, merged.n_rows, info.n_rows),
            in_memory=merged.in_memory and info.in_memory,
            rereadable=merged.rereadable and info.rereadable,
            # columns are handed out as written, so an index 0 in any part makes all of them count from 0
            index_base=_all_known(min, merged.index_base, info.index_base),
            reader_bytes=max(merged.reader_bytes, info.reader_bytes),
            library_bytes=max(merged.library_bytes, info.library_bytes),
            is_dense=merged.is_dense and info.is_dense,
            is_table=merged.is_table and info.is_table,
            labelled=merged.labelled and info.labelled,
        )
    end, held = _all_known(max, *ends), FILE_BYTES * len(sources)
    return replace(
        merged,
        name=f"{merged.name} ... ({len(sources)} files)",
        n_features=None if end is None or merged.index_base is None else end - merged.index_base,
        reader_bytes=merged.reader_bytes + held,
        library_bytes=merged.library_bytes + held,
        rounding=tuple(rounding.values()),
        parsing=tuple(parsing.values()),
        fingerprints=None if None in prints else tuple(chain.from_iterable(filter(None, prints))),
        file_rows=None if None in counts else tuple(chain.from_iterable(filter(None, counts))),
        describe=None,  # of the first one's columns, and rows, alone
        record_batches=None,
        columns=None,
        notes=tuple(notes),
    )


def _end(info: SourceInfo) -> int | None:
    """Return the number behind the last column's, as columns are handed out."""
    return None if info.n_features is None else info.n_features + (info.index_base or 0)


def _all_known(of: Callable[[list[int]], int], *numbers: int | None) -> int | None:
    """Return ``of`` the numbers; None where one of them is."""
    known = [number for number in numbers if number is not None]
    return of(known) if len(known) == len(numbers) else None
