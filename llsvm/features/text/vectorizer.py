"""Vectorizer: documents to sparse rows of n-grams, as scikit-learn's CountVectorizer, TfidfVectorizer and
HashingVectorizer make them, in so much memory and by so many threads.

DocumentColumns are the text columns of a table, side by side: a column's n-grams are numbered from where those of
the column before it end. A vocabulary is learned in a reading of its own, before any row can be made
(``llsvm.training.texts``); hashed columns need none.

Training numbers hashed columns anew: those that are there most often come first. Words follow Zipf's law, and
hashing scatters the frequent ones over all columns, each weight in a cache line of its own. Side by side their
weights stay in the processor's fast caches, and sweeps take two thirds of the time. The first rows tell which
columns are frequent; models have the features' own numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llsvm.block import CSR, Block, beside, concat, from_cells, moved
from llsvm.errors import BudgetError, DataError, ModelError
from llsvm.features.columns import text_column
from llsvm.features.text.analysis import (
    PIECE_BYTES,
    Analyzer,
    DocumentLength,
    Documents,
    NotUTF8,
    likely_grams,
    workspace_bytes,
)
from llsvm.features.text.counting import NameSampler
from llsvm.features.text.options import TextOptions
from llsvm.features.text.vocabulary import (
    ColumnFrequencies,
    ColumnNames,
    ColumnWeights,
    Lookup,
    Places,
    Vocabulary,
    frequent_first,
    lookup_bytes,
)
from llsvm.files.decoding import UTF_8, as_trained, as_utf8
from llsvm.kernels import ngrams as kernels
from llsvm.memory.budget import MemoryBudget
from llsvm.process.threads import Threads

_TF = {
    "auto": kernels.COUNTS,
    "tfidf": kernels.COUNTS,
    "tf": kernels.COUNTS,
    "sublinear": kernels.SUBLINEAR,
    "count": kernels.COUNTS,
    "binary": kernels.BINARY,
}
SAMPLE_VALUES = 1 << 18  # of the first rows, that show which columns are frequent; fewer are left as they are
NAME = "text"  # of what a model keeps of them
WHY_HASHED = "note"  # among that: why there are no vocabularies, where nobody has asked for that
_CHARACTER_GROWTH = 5  # an n-gram begins with each character, and is eight bytes
_MAX_ORDERED_BITS = 22  # of hashed columns: the places of more would take too much memory
_LIBRARY_BYTES = 6_000_000  # compiled kernels and tables of characters; measured
# What readers hold beside a batch, and for each thread: as much as that format's whose reader holds most
_READER_BYTES, _THREAD_BYTES = 25 << 20, 5 << 20


class Vectorizer:
    """Maker of the rows of documents. vocabulary: None: columns are numbered by hash.

    weights: that counts are multiplied by; None: what the options say of the vocabulary. places: of hashed columns;
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
        """Return the row of each document, float32, made by all threads. Raises NotUTF8."""
        pieces = shares(documents, self._threads.number)
        if len(pieces) <= 1:
            return self.rows_of(documents, 0, documents.number)
        parts = self._threads.map(lambda piece: self.rows_of(documents, *piece), pieces)
        ends = np.cumsum([0, *(part.indptr[-1] for part in parts)])
        return CSR(
            np.concatenate(
                [ends[:1], *(part.indptr[1:] + end for part, end in zip(parts, ends, strict=False))]
            ),
            np.concatenate([part.indices for part in parts]),
            np.concatenate([part.data for part in parts]),
        )

    def rows_of(self, documents: Documents, first: int, stop: int) -> CSR:
        """Return the rows of documents ``first`` to ``stop``, float32, made by this thread. Raises NotUTF8."""
        try:
            analyzer = self._idle.pop()
        except IndexError:
            analyzer = Analyzer(self.options)
        array, at = analyzer.array, first
        indptr = np.zeros(stop - first + 1, np.int64)
        n_bytes = int(documents.offsets[stop] - documents.offsets[first])
        indices, data = _empty_cells(likely_grams(self.options, n_bytes))
        while at < stop:
            end = documents.end_of(at, stop, PIECE_BYTES)
            keys, of_document = analyzer.keys(documents, at, end)
            k = int(indptr[at - first])
            if k + len(keys) > len(indices):
                before, (indices, data) = (indices, data), _empty_cells(2 * (k + len(keys)))
                indices[:k], data[:k] = before[0][:k], before[1][:k]
            max_grams = int(np.diff(of_document).max(initial=1))
            kernels.encode(
                *(keys, of_document, self._lookup.entries, self._lookup.buckets, self._column_bits),
                *(self.options.hash_bits is not None, self._places),
                *(self._weights.alone, self._weights.first, self._weights.shared),
                *(_TF[self.options.weight], self.options.unit_rows),
                *(array("found", 2, np.uint32, max_grams), array("times", max_grams, np.int32)),
                *(array("values", max_grams, np.float64), *kernels.encode_workspaces()),
                *(indptr[at - first : end - first + 1], indices, data),
            )
            at = end
        self._idle.append(analyzer)
        n = int(indptr[-1])
        return CSR(indptr, indices[:n], data[:n])


def _empty_cells(n: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    return np.empty(n, np.int32), np.empty(n, np.float32)


def shares(documents: Documents, n_threads: int) -> list[tuple[int, int]]:
    """Return (start, stop) of documents, in order, so that each thread has about as much text to analyze."""
    offsets = documents.offsets
    cuts = np.searchsorted(offsets, np.linspace(offsets[0], offsets[-1], n_threads + 1)[1:-1]).tolist()
    return [(start, stop) for start, stop in pairwise([0, *cuts, documents.number]) if start < stop]


class RowsAhead:
    """Rows of a batch, which threads make while the batches before it are worked on.

    documents: of each column. vectorizers: that make their rows. futures: of the rows of each column."""

    def __init__(
        self, documents: Sequence[Documents], vectorizers: Sequence[Vectorizer], threads: Threads
    ) -> None:
        self.documents, self.vectorizers = documents, vectorizers
        self.futures = [
            threads.submit(partial(vectorizer.rows_of, each, 0, each.number))
            for each, vectorizer in zip(documents, vectorizers, strict=True)
        ]

    def give_up(self) -> None:
        """Return when no thread works on these rows any more."""
        for future in self.futures:
            if not future.cancel():
                future.exception()


class DocumentColumns:
    """Text columns of a table: their vocabularies, and their rows.

    names: of the columns, in the table's order. options: of each of them; ``hash_bits`` None where vocabularies are
    exact. threads: that analyze.
    vocabularies: of each column, of a model; None where there are none, or none yet.
    ordered: hashed columns are numbered by ``places`` in blocks, once these are known.
    """

    def __init__(
        self,
        names: Sequence[str],
        options: TextOptions,
        threads: int = 1,
        vocabularies: Sequence[Vocabulary] | None = None,
        ordered: bool = False,
    ) -> None:
        self.names = tuple(names)
        self.options = options
        self._threads = Threads(threads)
        self.vocabularies = vocabularies
        self.encoding = UTF_8  # of columns of bytes
        self.frequencies: Sequence[ColumnFrequencies] | None = None
        """Document frequencies of hashed columns, where these are weighted by them."""
        self.column_names: Sequence[ColumnNames] | None = None
        """Names of hashed columns, once rows were made of all documents."""
        self._length = DocumentLength()  # that is allowed
        self._longest = 0  # of those so far, in bytes
        self.learning = True
        """Hashed columns get their names from a sample of the documents; those of a model have theirs."""
        self.ordered, self._for_training = ordered, True
        self.places: list[Places] | None = None
        """Places of each column, once they are learned."""
        self.note = ""
        """Reason why there are no vocabularies, where the user has not asked for that."""
        self._vectorizers: list[Vectorizer] | None = None  # made when first needed
        self._samplers: list[NameSampler] = []  # while they are at it

    @property
    def known(self) -> bool:
        """Whether rows can be made."""
        if self.options.hash_bits is None:
            return self.vocabularies is not None
        return self.frequencies is not None or not self.options.idf

    @property
    def n_threads(self) -> int:
        """Number of threads that analyze documents."""
        return self._threads.number

    @property
    def widths(self) -> list[int]:
        """Number of n-grams of each column; 0 while it is not known."""
        if self.options.hash_bits is not None:
            return [1 << self.options.hash_bits] * len(self.names)
        return [len(v) for v in self.vocabularies or ()] or [0] * len(self.names)

    @property
    def width(self) -> int:
        return sum(self.widths)

    @property
    def _ranges(self) -> list[tuple[int, int]]:
        """(first, stop) of each column's n-grams."""
        return list(pairwise(np.cumsum([0, *self.widths]).tolist()))

    @property
    def nbytes(self) -> int:
        """Bytes of compiled kernels, vocabularies, names, frequencies and places, all the time."""
        places = 4 * self.width if self.has_places else 0
        counts = sum(each.documents.nbytes for each in self.frequencies or ())
        vocabularies = sum(vocabulary.nbytes for vocabulary in self.vocabularies or ())
        return _LIBRARY_BYTES + places + counts + self._name_bytes + vocabularies

    @property
    def _name_bytes(self) -> int:
        """Bytes of the names of hashed columns, once they are known."""
        return sum(each.nbytes for each in self.column_names or ())

    @property
    def has_places(self) -> bool:
        """Whether columns are numbered anew in blocks, now or later."""
        bits = self.options.hash_bits
        return self.ordered and bits is not None and bits <= _MAX_ORDERED_BITS

    @property
    def lacks_places(self) -> bool:
        """Whether columns will be numbered anew, and their places are still to be learned."""
        return self.has_places and self.places is None

    def learn_places(self, columns: NDArray[np.int32]) -> None:
        """Learn all places from the columns of the first values, (m,), from 0; rows have them from now on."""
        self._vectorizers = None
        self.places = [
            frequent_first(columns[(columns >= first) & (columns < stop)] - first, stop - first)
            for first, stop in self._ranges
        ]

    def put(self, columns: NDArray[np.int32]) -> None:
        """Replace columns (m,), from 0, by their places; others, above these, stay."""
        for places, (first, stop) in zip(self.places or (), self._ranges, strict=False):
            there = np.flatnonzero((columns >= first) & (columns < stop))
            columns[there] = places[columns[there] - first] + first

    def by_feature(self, weights: NDArray[np.float64]) -> None:
        """Put (k, width) weights of blocks' columns where their features are, in place."""
        for places, (first, stop) in zip(self.places or (), self._ranges, strict=False):
            for row in weights[:, first:stop]:
                row[:] = row[places]

    @property
    def work_bytes(self) -> int:
        """Bytes that are held while rows are made, beside blocks."""
        lookup = sum(lookup_bytes(len(each), each.is_weighed) for each in self.vocabularies or ())
        if self.options.hash_bits is not None:
            if self.learning:  # names that are known are in the place of their sample
                lookup += len(self.names) * NameSampler.bytes_for(self.options) - self._name_bytes
            lookup += 8 * self.width if self.options.idf else 0
        piece = max(PIECE_BYTES, self._longest)
        return self.n_threads * workspace_bytes(self.options, piece) + lookup

    @property
    def reader_bytes(self) -> int:
        """Bytes that the reader of every format reserves at least, beside a batch, where columns are learned to
        train on them: so the memory there is for rows, and with it the model, is the same for all."""
        return (_READER_BYTES + _THREAD_BYTES * self.n_threads) * (self.learning and self._for_training)

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages for the user about these columns."""
        known = self.vocabularies if self.learning else ()
        empty = [name for name, each in zip(self.names, known or (), strict=False) if not len(each)]
        notes = [self.note] if self.note else []
        if empty:
            notes.append(
                f"text: no n-gram of column {', '.join(empty)} is kept: its documents are empty, or --min-df, "
                "--max-df or --stop-words leave out all"
            )
        return tuple(notes)

    def read_with(self, threads: int, encoding: str) -> None:
        """Set the number of threads that analyze documents, and the encoding of those that are bytes."""
        self._threads, self.encoding = Threads(threads), encoding

    def fit_into(self, budget: MemoryBudget, ordered: bool = False, for_training: bool = True) -> None:
        """Refuse documents whose analysis would take more than a share of the memory that is left.

        ordered: as in the constructor. for_training: as in ``reader_bytes``."""
        self.ordered, self._for_training = ordered, for_training
        self._length = DocumentLength.under(budget, self.options, self.n_threads)

    def number_as(self, extra: Mapping[str, Any]) -> None:
        """Number n-grams as a model does that keeps ``extra``, before anything is learned: by its vocabularies, or
        as it hashes them. Raises DataError where the model has other columns."""
        known = DocumentColumns.from_extra(extra)
        if known is None or known.names != self.names:
            there = "none" if known is None else ", ".join(known.names)
            raise DataError(f"the data have the text columns {', '.join(self.names)}, and the model {there}")
        self.options, self.learning = known.options, False
        self.vocabularies, self.frequencies = known.vocabularies, known.frequencies

    def know(
        self,
        vocabularies: Sequence[Vocabulary] | None,
        frequencies: Sequence[ColumnFrequencies] | None = None,
    ) -> None:
        """Take the learned vocabulary of each column; or, where it is hashed, its document frequencies."""
        self.vocabularies, self.frequencies = vocabularies, frequencies

    def hash_into(self, bits: int, note: str) -> None:
        """Hash n-grams from now on, without vocabularies. note: the reason."""
        unused = "; --min-df, --max-df and --max-features count nothing" if self.options.chooses else ""
        self.options, self.note = replace(self.options, hash_bits=bits), note + unused
        self.vocabularies = self._vectorizers = self.places = None

    def begin(self) -> int:
        """Prepare to make the rows of all documents; returns ``growth``."""
        unnamed = self.learning and self.column_names is None and self.options.hash_bits is not None
        self._samplers = [NameSampler(self.options) for _ in self.names] if unnamed else []
        return self.growth

    def rest(self) -> None:
        """Free what making rows takes, after all rows were made."""
        self._vectorizers = None
        if self._samplers:
            self.column_names, self._samplers = [each.finish() for each in self._samplers], []
        for vocabulary in self.vocabularies or ():
            vocabulary.rest()

    @property
    def growth(self) -> int:
        """Estimated bytes of rows for each byte of text."""
        return self.options.n_sizes * (1 if self.options.analyzer == "word" else _CHARACTER_GROWTH)

    def documents(self, columns: Mapping[str, pa.Array]) -> list[Documents]:
        """Return the documents of each column of a batch. Raises ValueError(row, reason) for bytes that the
        encoding does not have, and documents that are too long; BudgetError for those that more memory would allow.
        """
        documents = []
        for name in self.names:
            try:
                documents.append(Documents.of(text_column(columns[name], name), self.encoding))
            except NotUTF8 as error:
                raise not_utf8(name, error, self.encoding, not self.learning) from error
            lengths = np.diff(documents[-1].offsets)
            self._longest = max(self._longest, min(int(lengths.max(initial=0)), self._length.max_bytes))
            self._length.require(name, lengths)
        return documents

    def begin_rows(self, columns: Mapping[str, pa.Array]) -> RowsAhead | None:
        """Begin the rows of a batch by threads, if there are several; None where ``rows`` is to make them."""
        if self.n_threads == 1:
            return None
        try:
            documents = self.documents(columns)
        except (ValueError, BudgetError):
            return None  # which ``rows`` raises when it is the batch's turn
        return RowsAhead(documents, self._ready(), self._threads)

    def rows(self, columns: Mapping[str, pa.Array], prepared: RowsAhead | None = None) -> CSR:
        """Return the n-grams of a batch's documents, numbered from 0. prepared: of ``begin_rows``. Raises
        ValueError(row, reason) for text that is not UTF-8."""
        vectorizers, parts = self._ready(), []
        documents = self.documents(columns) if prepared is None else prepared.documents
        work: list[Callable[[], CSR]] = [
            partial(vectorizer.rows, each) for vectorizer, each in zip(vectorizers, documents, strict=True)
        ]
        # Other vectorizers are in use where columns have got their places since ``begin_rows``.
        if prepared is not None and prepared.vectorizers is vectorizers:
            work = [future.result for future in prepared.futures]
        for name, (first, _), rows in zip(self.names, self._ranges, work, strict=True):
            try:
                parts.append(moved(rows(), first))
            except NotUTF8 as error:
                raise not_utf8(name, error, predicting=not self.learning) from error
        for each, sampler in zip(documents, self._samplers, strict=False):
            sampler.add(each)
        return beside(parts)

    def _ready(self) -> list[Vectorizer]:
        """Return the vectorizer of each column."""
        assert self.known, "vocabularies are learned before rows are made"
        if self._vectorizers is None:
            weights = [each.weights() for each in self.frequencies or ()] if self.options.idf else []
            none = [None] * len(self.names)
            self._vectorizers = [
                Vectorizer(self.options, vocabulary, self._threads, column_weights, places)
                for vocabulary, column_weights, places in zip(
                    self.vocabularies or none, weights or none, self.places or none, strict=True
                )
            ]
        return self._vectorizers

    def names_of(self, columns: Sequence[int]) -> list[str]:
        """Return the names of columns: ``review:good movie`` of an n-gram, ``review:good movie (and 2 more)`` where
        several share a hashed column, and ``review#17`` where none is known. columns: ascending."""
        names: list[str] = []
        for number, (name, (first, stop)) in enumerate(zip(self.names, self._ranges, strict=True)):
            places = [int(j) - first for j in columns if first <= j < stop]
            if self.vocabularies is not None:
                names += [f"{name}:{word}" for word in self.vocabularies[number].words_of(places)]
            else:
                words = {} if self.column_names is None else self.column_names[number].of(places)
                names += [f"{name}:{words[j]}" if j in words else f"{name}#{j}" for j in places]
        return names

    def as_extra(self, used: NDArray[np.bool_]) -> dict[str, Any]:
        """Return what a model keeps: plain values, and arrays. used: (width,) columns whose weights are not all 0;
        the names of other hashed columns are left out."""
        arrays: dict[str, NDArray[Any]] = {}
        for number, (first, stop) in enumerate(self._ranges):
            part: dict[str, NDArray[Any]] = {}
            if self.column_names:
                part |= self.column_names[number].select(used[first:stop]).arrays()
            if self.frequencies:
                part["documents"] = self.frequencies[number].documents
            if self.vocabularies:
                part |= self.vocabularies[number].arrays()
            arrays |= {f"{NAME}_{number}_{name}": array for name, array in part.items()}
        values = {
            "columns": list(self.names),
            "widths": self.widths,
            "documents": [each.n_documents for each in self.vocabularies or self.frequencies or ()],
            "options": self.options.as_dict(),
        }
        if self.note:
            values[WHY_HASHED] = self.note
        return {NAME: values, **arrays}

    @classmethod
    def from_extra(cls, extra: Mapping[str, Any]) -> DocumentColumns | None:
        """Return the columns of a model that has some. Raises ModelError where its parts do not fit each other."""
        if NAME not in extra:
            return None
        values = extra[NAME]
        try:
            options = TextOptions.from_dict(values["options"])
            vocabularies: list[Vocabulary] | None = None
            if options.hash_bits is None:
                vocabularies = [
                    Vocabulary.from_arrays(_arrays(extra, number), values["documents"][number])
                    for number in range(len(values["columns"]))
                ]
            made = cls(values["columns"], options, 1, vocabularies)
            made.learning = False
            if options.hash_bits is not None:
                made._take_hashed([_arrays(extra, number) for number in range(len(made.names))], values)
            if made.widths != values["widths"]:
                raise ValueError(f"its text columns have {made.widths} n-grams, not {values['widths']}")
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ModelError(f"its vocabulary is damaged: {error}; fetch or train it again") from error
        return made

    def _take_hashed(self, arrays: Sequence[Mapping[str, NDArray[Any]]], values: Mapping[str, Any]) -> None:
        """Take what a model knows of hashed columns. Raises KeyError, IndexError, ValueError where it cannot be."""
        if self.options.idf:
            self.frequencies = [
                ColumnFrequencies(each["documents"], values["documents"][number])
                for number, each in enumerate(arrays)
            ]
            for each, width in zip(self.frequencies, self.widths, strict=True):
                if each.documents.dtype not in (np.uint32, np.float64) or each.documents.shape != (width,):
                    raise ValueError(f"frequencies of {each.documents.shape} columns, not {width}")
        if all("columns" in each for each in arrays):
            self.column_names = [
                ColumnNames.from_arrays(each, width) for each, width in zip(arrays, self.widths, strict=True)
            ]


def _arrays(extra: Mapping[str, Any], number: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of a column, by their names in its parts."""
    start = f"{NAME}_{number}_"
    return {name.removeprefix(start): value for name, value in extra.items() if name.startswith(start)}


def not_utf8(name: str, error: NotUTF8, encoding: str = UTF_8, predicting: bool = False) -> ValueError:
    """Return ValueError(row, reason) for text of column ``name``. predicting: the encoding is that of training."""
    remedy = as_trained(encoding) if predicting else as_utf8()
    reason = f"column {name}: byte {error.byte + 1} of the text is not {encoding}; {remedy}"
    return ValueError(error.document, reason)


class _Batch(Protocol):
    @property
    def rows(self) -> pa.RecordBatch: ...


Batch = TypeVar("Batch", bound=_Batch)


def with_documents(
    batches: Iterator[Batch], documents: DocumentColumns | None
) -> Iterator[tuple[Batch, RowsAhead | None]]:
    """Yield the batches in their order, each with its rows as ``DocumentColumns.rows`` takes them: as many are
    made ahead as there are threads, none where there are no documents."""
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
        for _, prepared in waiting:
            if prepared is not None:
                prepared.give_up()


def renumbered(blocks: Iterable[Block], documents: DocumentColumns, first: int) -> Iterator[Block]:
    """Yield blocks of rows whose n-grams begin at column ``first``, with these numbered by their places.

    If places are to be learned, the first blocks are held until they have SAMPLE_VALUES."""
    held: list[Block] = []
    for block in blocks:
        if not documents.lacks_places:
            yield block
            continue
        held.append(block)
        if sum(each.nnz for each in held) >= SAMPLE_VALUES:
            rows, held = concat(held), []
            X = rows.X
            assert isinstance(X, CSR), "n-grams are sparse"
            n_rows = int(np.searchsorted(X.indptr, X.indptr[0] + SAMPLE_VALUES))  # wherever blocks end
            sample = X.indices[X.indptr[0] : X.indptr[n_rows]]
            documents.learn_places(sample[sample >= first] - np.int32(first))
            yield _moved(rows, X, documents, first)
    yield from held


def _moved(rows: Block, X: CSR, documents: DocumentColumns, first: int) -> Block:
    """Return the rows with their n-grams, which begin at column ``first``, in their places."""
    columns = X.indices[X.indptr[0] : X.indptr[-1]].copy()
    text = columns >= first
    ngrams = columns[text] - np.int32(first)
    documents.put(ngrams)
    columns[text] = ngrams + np.int32(first)
    row = np.repeat(np.arange(rows.n_rows), np.diff(X.indptr))
    values = X.data[X.indptr[0] : X.indptr[-1]]
    return Block(from_cells(row, columns, values, rows.n_rows), rows.y, rows.rows, rows.weight)
