"""Rows of documents made ahead: each thread makes those of a batch, while the batches before it are worked on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Protocol, TypeVar

import pyarrow as pa

from llsvm.features.text.columns import DocumentColumns
from llsvm.features.text.vectorizer import RowsAhead


class _Batch(Protocol):
    @property
    def rows(self) -> pa.RecordBatch: ...


Batch = TypeVar("Batch", bound=_Batch)


def with_documents(
    batches: Iterator[Batch], documents: DocumentColumns | None
) -> Iterator[tuple[Batch, RowsAhead | None]]:
    """The batches in their order, each with the rows of its documents, as ``DocumentColumns.rows`` takes them: as
    many are made ahead as there are threads, none where there are no documents."""
    if documents is None:
        yield from ((batch, None) for batch in batches)
        return
    waiting: deque[tuple[Batch, RowsAhead | None]] = deque()
    try:
        for batch in batches:
            columns: Mapping[str, pa.Array] = dict(
                zip(batch.rows.schema.names, batch.rows.columns, strict=True)
            )
            waiting.append((batch, documents.begin_rows(columns)))
            if len(waiting) > documents.n_threads:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        for _, begun in waiting:
            if begun is not None:
                begun.give_up()
