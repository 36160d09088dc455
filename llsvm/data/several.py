"""Several sources as one, row after row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from llsvm.block import Block
from llsvm.data.source import BlockSource, SourceInfo
from llsvm.errors import DataError


class SeveralSources:
    """The rows of all the sources, numbered through.

    sources: of one format; dense ones equally wide, and columns that have names the same, in the same order (see
        ColumnsByName). Raises DataError, while reading, for a dense one of another width.
    """

    def __init__(self, sources: Sequence[BlockSource]) -> None:
        self._sources = list(sources)

    @property
    def bytes_read(self) -> int:
        return sum(source.bytes_read for source in self._sources)

    def info(self) -> SourceInfo:
        infos = [source.info() for source in self._sources]
        bases = [info.index_base for info in infos]
        # columns are handed out as written, so an index 0 in any part makes all of them count from 0
        base = None if None in bases else min(b for b in bases if b is not None)
        ends = [
            None if info.n_features is None else info.n_features + (info.index_base or 0) for info in infos
        ]
        end = None if None in ends else max(e for e in ends if e is not None)
        sizes = [info.n_bytes for info in infos]
        rows = [info.n_rows for info in infos]
        prints = [info.fingerprints for info in infos]
        counts = [info.file_rows for info in infos]
        return replace(
            infos[0],
            name=f"{infos[0].name} ... ({len(infos)} files)",
            n_bytes=None if None in sizes else sum(s for s in sizes if s is not None),
            n_rows=None if None in rows else sum(r for r in rows if r is not None),
            n_features=None if end is None or base is None else end - base,
            in_memory=all(info.in_memory for info in infos),
            rereadable=all(info.rereadable for info in infos),
            index_base=base,
            reader_bytes=max(info.reader_bytes for info in infos),
            rounding=sum((info.rounding for info in infos), ()),
            parsing=sum((info.parsing for info in infos), ()),
            is_dense=all(info.is_dense for info in infos),
            is_table=all(info.is_table for info in infos),
            fingerprints=None if None in prints else sum((each for each in prints if each is not None), ()),
            file_rows=None if None in counts else sum((each for each in counts if each is not None), ()),
            labelled=all(info.labelled for info in infos),
            library_bytes=max(info.library_bytes for info in infos),
            describe=None,  # of the first one's columns, and rows, alone
            record_batches=None,
            columns=None,
            notes=tuple(dict.fromkeys(note for info in infos for note in info.notes)),
        )

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """See BlockSource."""
        first, width = 0, None
        for source in self._sources:
            n = 0
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
                yield Block(block.X, block.y, np.asarray(rows, np.int64), block.weight)
            first += n
