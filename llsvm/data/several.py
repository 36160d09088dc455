"""Several sources as one, row after row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from llsvm.block import Block
from llsvm.data.source import FILE_BYTES, BlockSource, SourceInfo
from llsvm.errors import DataError


class SeveralSources:
    """The rows of all the sources, numbered through.

    What ``info`` says is put together before and after a pass; within one, only the bytes that readers hold change.
    So a block costs the same whether there are ten sources or a hundred thousand.

    sources: of one format; dense ones equally wide, and columns that have names the same, in the same order (see
        ColumnsByName). Raises DataError, while reading, for a dense one of another width.
    """

    def __init__(self, sources: Sequence[BlockSource]) -> None:
        self._sources = list(sources)
        self._info = _together(self._sources)
        self.bytes_read = sum(source.bytes_read for source in self._sources)

    def info(self) -> SourceInfo:
        """See BlockSource."""
        return self._info

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """See BlockSource."""
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
            self._info = _together(self._sources)

    def _hold(self, info: SourceInfo) -> None:
        """A source that is being read holds so much."""
        held = info.reader_bytes + FILE_BYTES * len(self._sources)
        if held > self._info.reader_bytes:
            self._info = replace(self._info, reader_bytes=held)


def _together(sources: Sequence[BlockSource]) -> SourceInfo:
    """What is known of all. They are asked one by one, and what each says is dropped: there may be very many."""
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
    """The number behind the last column's, as columns are handed out."""
    return None if info.n_features is None else info.n_features + (info.index_base or 0)


def _all_known(of: Callable[[list[int]], int], *numbers: int | None) -> int | None:
    """``of`` the numbers; None where one of them is."""
    known = [number for number in numbers if number is not None]
    return of(known) if len(known) == len(numbers) else None
