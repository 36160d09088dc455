"""Rows of documents made ahead: each thread makes those of a batch, while the batches before it are worked on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa

from llsvm.block import CSR
from llsvm.features.text.analyzer import Documents
from llsvm.features.text.vectorizer import Vectorizer
from llsvm.process.threads import Threads

if TYPE_CHECKING:
    from llsvm.features.text.columns import DocumentColumns


class _Batch(Protocol):
    @property
    def rows(self) -> pa.RecordBatch: ...


Batch = TypeVar("Batch", bound=_Batch)


class RowsAhead:
    """Of a batch.

    documents: of each column. vectorizers: that are at it. rows: of each column, a function of its documents, which
    returns when they are made."""

    def __init__(
        self, documents: Sequence[Documents], vectorizers: Sequence[Vectorizer], threads: Threads
    ) -> None:
        self.documents, self.vectorizers = documents, vectorizers
        self._making = [
            threads.submit(partial(vectorizer.rows_of, each, 0, each.number))
            for each, vectorizer in zip(documents, vectorizers, strict=True)
        ]
        self.rows = [_result_of(made) for made in self._making]

    def give_up(self) -> None:
        """Return when no thread is at it any more."""
        for made in self._making:
            if not made.cancel():
                made.exception()


def _result_of(made: Future[CSR]) -> Callable[[Documents], CSR]:
    return lambda _: made.result()


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
