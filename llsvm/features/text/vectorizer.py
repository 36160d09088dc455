"""Vectorizer: documents to rows, as scikit-learn's CountVectorizer, TfidfVectorizer and HashingVectorizer have
them, in so much memory and by so many threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR
from llsvm.features.text.analyzer import Analyzer, Documents, likely_grams
from llsvm.features.text.frequencies import ColumnWeights, Places
from llsvm.features.text.lookup import Lookup
from llsvm.features.text.options import TextOptions
from llsvm.features.text.vocabulary import Vocabulary
from llsvm.kernels import ngrams as kernels
from llsvm.process.threads import Threads

PIECE_BYTES = 1 << 17  # of text that a thread analyses at a time
_TF = {
    "auto": kernels.COUNTS,
    "tfidf": kernels.COUNTS,
    "tf": kernels.COUNTS,
    "sublinear": kernels.SUBLINEAR,
    "count": kernels.COUNTS,
    "binary": kernels.BINARY,
}


class Vectorizer:
    """Rows of documents. vocabulary: None: columns are numbered by hash.

    weights: that counts are multiplied by; None: what the options say of the vocabulary. places: of hashed columns,
    None: where their hash says."""

    def __init__(
        self,
        options: TextOptions,
        vocabulary: Vocabulary | None,
        threads: Threads,
        weights: ColumnWeights | None = None,
        places: Places | None = None,
    ) -> None:
        self.options = options
        self._idle: list[Analyzer] = []
        self._threads = threads
        self._lookup = Lookup(np.zeros(0, np.uint8), np.zeros(2, np.int32))
        self.n_columns = 1 << (options.hash_bits or 0)
        if vocabulary is not None:
            self._lookup, self.n_columns = Lookup.of(vocabulary), len(vocabulary)
            if options.idf and weights is None:
                weights = vocabulary.weights()
        self._weights = weights or ColumnWeights.none()
        self._places = np.zeros(0, np.int32)
        if places is not None:
            self._places, self._weights = places, self._weights.moved(places)
        self._column_bits = options.hash_bits or max(1, self.n_columns.bit_length())

    def rows(self, documents: Documents) -> CSR:
        """Of each document, float32, made by all threads. Raises NotUTF8."""
        own = shares(documents, self._threads.number)
        if len(own) <= 1:
            return self.rows_of(documents, 0, documents.number)
        parts = self._threads.map(lambda share: self.rows_of(documents, *share), own)
        ends = np.cumsum([0, *(part.indptr[-1] for part in parts)])
        return CSR(
            np.concatenate(
                [ends[:1], *(part.indptr[1:] + end for part, end in zip(parts, ends, strict=False))]
            ),
            np.concatenate([part.indices for part in parts]),
            np.concatenate([part.data for part in parts]),
        )

    def rows_of(self, documents: Documents, first: int, stop: int) -> CSR:
        """Of documents ``first`` to ``stop``, float32, made by the thread that calls. Raises NotUTF8."""
        try:
            analyzer = self._idle.pop()
        except IndexError:
            analyzer = Analyzer(self.options)
        array, at = analyzer.workspace.array, first
        indptr = np.zeros(stop - first + 1, np.int64)
        n_bytes = int(documents.offsets[stop] - documents.offsets[first])
        indices, data = _room(likely_grams(self.options, n_bytes))
        while at < stop:
            end = documents.end_of(at, stop, PIECE_BYTES)
            keys, of_document = analyzer.keys(documents, at, end)
            k = int(indptr[at - first])
            if k + len(keys) > len(indices):
                before, (indices, data) = (indices, data), _room(2 * (k + len(keys)))
                indices[:k], data[:k] = before[0][:k], before[1][:k]
            most = int(np.diff(of_document).max(initial=1))
            kernels.encode(
                *(keys, of_document, self._lookup.entries, self._lookup.buckets, self._column_bits),
                *(self.options.hash_bits is not None, self._places),
                *(self._weights.alone, self._weights.first, self._weights.shared),
                *(_TF[self.options.weight], self.options.unit_rows),
                *(array("found", 2, np.uint32, most), array("times", most, np.int32)),
                *(array("values", most, np.float64), *kernels.encode_workspaces()),
                *(indptr[at - first : end - first + 1], indices, data),
            )
            at = end
        self._idle.append(analyzer)
        n = int(indptr[-1])
        return CSR(indptr, indices[:n], data[:n])


def _room(n: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    return np.empty(n, np.int32), np.empty(n, np.float32)


def shares(documents: Documents, n_threads: int) -> list[tuple[int, int]]:
    """(start, stop) of documents, in order, so that each thread has about as much text to analyse."""
    offsets = documents.offsets
    cuts = np.searchsorted(offsets, np.linspace(offsets[0], offsets[-1], n_threads + 1)[1:-1]).tolist()
    return [(start, stop) for start, stop in pairwise([0, *cuts, documents.number]) if start < stop]


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
