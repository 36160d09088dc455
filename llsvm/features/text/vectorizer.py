"""Vectorizer: documents to rows, as scikit-learn's CountVectorizer, TfidfVectorizer and HashingVectorizer have
them, in so much memory and by so many threads."""

from __future__ import annotations

import numpy as np

from llsvm.block import CSR
from llsvm.features.text.analyzer import Analyzer, Documents
from llsvm.features.text.column_order import Places
from llsvm.features.text.frequencies import ColumnWeights
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
        self._analyzers = [Analyzer(options) for _ in range(threads.number)]
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
        """Of each document, float32. Raises NotUTF8."""
        pieces = documents.pieces(piece_bytes(documents, self._threads.number))
        n_threads = max(1, min(self._threads.number, len(pieces)))

        def encode(t: int) -> list[CSR]:
            found = []
            for start, stop in pieces[t::n_threads]:
                part = self._encoded(documents, t, start, stop)
                alone = len(pieces) <= n_threads  # else the workspace is needed again
                found.append(
                    part if alone else CSR(part.indptr.copy(), part.indices.copy(), part.data.copy())
                )
            return found

        encoded = self._threads.map(encode, range(n_threads))
        parts = [encoded[i % n_threads][i // n_threads] for i in range(len(pieces))]
        before = np.cumsum([0, *(part.indptr[-1] for part in parts)])
        indices, data = np.empty(before[-1], np.int32), np.empty(before[-1], np.float32)

        def put(t: int) -> None:
            for i in range(t, len(parts), n_threads):
                place = slice(before[i], before[i + 1])
                indices[place], data[place] = parts[i].indices, parts[i].data

        self._threads.map(put, range(n_threads))
        indptr = [part.indptr[1:] + start for part, start in zip(parts, before, strict=False)]
        return CSR(np.concatenate([np.zeros(1, np.int64), *indptr]), indices, data)

    def _encoded(self, documents: Documents, t: int, first_document: int, stop: int) -> CSR:
        """By thread ``t``, in its workspace."""
        keys, first = self._analyzers[t].keys(documents, first_document, stop)
        array, n = self._analyzers[t].workspace.array, len(keys)
        most = int(np.diff(first).max(initial=1))
        found, values = array("found", 2, np.uint32, most), array("values", most, np.float64)
        indptr, indices, data = (
            array("indptr", len(first), np.int64),
            array("indices", n, np.int32),
            array("data", n, np.float32),
        )
        kernels.encode(
            *(keys, first, self._lookup.entries, self._lookup.buckets, self._column_bits),
            *(self.options.hash_bits is not None, self._places),
            *(self._weights.alone, self._weights.first, self._weights.shared),
            *(_TF[self.options.weight], self.options.unit_rows),
            *(found, values, indptr, indices, data),
        )
        return CSR(indptr, indices[: indptr[-1]], data[: indptr[-1]])


def piece_bytes(documents: Documents, n_threads: int) -> int:
    """Of text that a thread analyses at a time: so many pieces that all threads have as much to do."""
    n_bytes = int(documents.offsets[-1] - documents.offsets[0])
    number = n_threads * -(-n_bytes // (n_threads * PIECE_BYTES))
    longest = int(
        np.diff(documents.offsets).max(initial=0)
    )  # a piece ends before a document that is too much
    return min(PIECE_BYTES, n_bytes // max(number, 1) + longest // 2 + 1)
