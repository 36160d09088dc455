"""DocumentColumns: the text columns of a table, side by side: their vocabularies, and their rows.

A column's n-grams are numbered from where those of the column before it end. A vocabulary is learned in a reading
of its own, before any row can be made (``llsvm.training.texts``); hashed columns need none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llsvm.block import CSR
from llsvm.errors import BudgetError, DataError, ModelError
from llsvm.features.columns import text_column
from llsvm.features.csr_rows import beside, moved
from llsvm.features.text.analyzer import Documents, NotUTF8, workspace_bytes
from llsvm.features.text.column_names import ColumnNames, NameSampler
from llsvm.features.text.document_length import DocumentLength
from llsvm.features.text.frequencies import ColumnFrequencies, Places, frequent_first
from llsvm.features.text.lookup import lookup_bytes
from llsvm.features.text.options import TextOptions
from llsvm.features.text.vectorizer import PIECE_BYTES, RowsAhead, Vectorizer
from llsvm.features.text.vocabulary import Vocabulary
from llsvm.files.recoded import UTF_8, as_trained, as_utf8
from llsvm.memory.budget import MemoryBudget
from llsvm.process.threads import Threads

NAME = "text"  # of what a model keeps of them
WHY_HASHED = "note"  # among that: why there are no vocabularies, where nobody has asked for that
_CHARACTER_GROWTH = 5  # an n-gram begins with each character, and is eight bytes
_MAX_ORDERED_BITS = 22  # of hashed columns: the places of more would take too much memory
_LIBRARY_BYTES = 6_000_000  # compiled kernels and tables of characters; measured
# What readers hold beside a batch, and for each thread: as much as that format's whose reader holds most
_READER_BYTES, _THREAD_BYTES = 25 << 20, 5 << 20


class DocumentColumns:
    """See the file's head.

    names: of the columns, in the table's order. options: of each of them; ``hash_bits`` None where vocabularies are
    exact. threads: that analyse.
    vocabularies: of each column, of a model; None where there are none, or none yet.
    ordered: hashed columns are numbered by ``places`` in blocks, once these are known: see column_order.py.
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
        """Of hashed columns, where they are weighted by them."""
        self.column_names: Sequence[ColumnNames] | None = None
        """Of hashed columns, once rows were made of all documents."""
        self._length = DocumentLength()  # that is allowed
        self._longest = 0  # of those so far, in bytes
        self.learning = True
        """Names are sampled, of hashed columns; a model's are known."""
        self.ordered, self._for_training = ordered, True
        self.places: list[Places] | None = None
        """Of each column."""
        self.note = ""
        """Why there are no vocabularies, where their user might think so."""
        self._vectorizers: list[Vectorizer] | None = None  # made when first needed
        self._samplers: list[NameSampler] = []  # while they are at it

    @property
    def known(self) -> bool:
        """Can rows be made?"""
        if self.options.hash_bits is None:
            return self.vocabularies is not None
        return self.frequencies is not None or not self.options.idf

    @property
    def n_threads(self) -> int:
        """That analyse."""
        return self._threads.number

    @property
    def widths(self) -> list[int]:
        """Of each column; 0 while it is not known."""
        if self.options.hash_bits is not None:
            return [1 << self.options.hash_bits] * len(self.names)
        return [len(v) for v in self.vocabularies or ()] or [0] * len(self.names)

    @property
    def width(self) -> int:
        return sum(self.widths)

    @property
    def nbytes(self) -> int:
        """Of compiled kernels, vocabularies, names, frequencies and places, all the time."""
        places = 4 * self.width if self.has_places else 0
        counts = sum(each.documents.nbytes for each in self.frequencies or ())
        vocabularies = sum(vocabulary.nbytes for vocabulary in self.vocabularies or ())
        return _LIBRARY_BYTES + places + counts + self._name_bytes + vocabularies

    @property
    def _name_bytes(self) -> int:
        """Of the names of hashed columns, once they are known."""
        return sum(each.nbytes for each in self.column_names or ())

    @property
    def has_places(self) -> bool:
        """Are columns numbered anew in blocks, or will they be?"""
        return (
            self.ordered
            and self.options.hash_bits is not None
            and self.options.hash_bits <= _MAX_ORDERED_BITS
        )

    @property
    def lacks_places(self) -> bool:
        """... and are these not known yet?"""
        return self.has_places and self.places is None

    def learn_places(self, columns: NDArray[np.int32]) -> None:
        """Of all of them, by the columns of the first values, (m,), from 0; rows have them from now on."""
        self.places, self._vectorizers = [], None
        for first, stop in pairwise(np.cumsum([0, *self.widths])):
            own = columns[(columns >= first) & (columns < stop)] - first
            self.places.append(frequent_first(own, int(stop - first)))

    def put(self, columns: NDArray[np.int32]) -> None:
        """Let columns (m,), from 0, be those where they have been put; others, above these, stay."""
        edges = np.cumsum([0, *self.widths])
        for places, first, stop in zip(self.places or (), edges, edges[1:], strict=False):
            there = np.flatnonzero((columns >= first) & (columns < stop))
            columns[there] = places[columns[there] - first] + first

    def by_feature(self, weights: NDArray[np.float64]) -> None:
        """Put (k, width) weights of blocks' columns where their features are, in place."""
        edges = np.cumsum([0, *self.widths])
        for places, first, stop in zip(self.places or (), edges, edges[1:], strict=False):
            for row in weights[:, first:stop]:
                row[:] = row[places]

    @property
    def work_bytes(self) -> int:
        """Held while rows are made, beside blocks."""
        lookup = sum(lookup_bytes(len(each), each.is_weighed) for each in self.vocabularies or ())
        if self.options.hash_bits is not None:
            if self.learning:  # names that are known are in the place of their sample
                lookup += len(self.names) * NameSampler.bytes_for(self.options) - self._name_bytes
            lookup += 8 * self.width if self.options.idf else 0
        piece = max(PIECE_BYTES, self._longest)
        return self.n_threads * workspace_bytes(self.options, piece) + lookup

    @property
    def reader_bytes(self) -> int:
        """That every format's reader signs for at least, beside a batch, where something is learned to train on it:
        so the memory there is for rows, and with it the model, is the same for all."""
        return (_READER_BYTES + _THREAD_BYTES * self.n_threads) * (self.learning and self._for_training)

    @property
    def notes(self) -> tuple[str, ...]:
        """What their user should know of them."""
        known = self.vocabularies if self.learning else ()
        empty = [name for name, each in zip(self.names, known or (), strict=False) if not len(each)]
        found = [self.note] if self.note else []
        if empty:
            found.append(
                f"text: no n-gram of column {', '.join(empty)} is kept: its documents are empty, or --min-df, "
                "--max-df or --stop-words leave out all"
            )
        return tuple(found)

    def read_with(self, threads: int, encoding: str) -> None:
        """Documents are analysed by so many threads; those that are bytes are in this encoding."""
        self._threads, self.encoding = Threads(threads), encoding

    def fit_into(self, budget: MemoryBudget, ordered: bool = False, for_training: bool = True) -> None:
        """Refuse documents whose analysis would take more than a share of the memory that is left. ordered: see the
        class. for_training: see ``reader_bytes``."""
        self.ordered, self._for_training = ordered, for_training
        self._length = DocumentLength.under(budget, self.options, self.n_threads)

    def number_as(self, extra: Mapping[str, Any]) -> None:
        """Before anything is learned: take what a model that keeps ``extra`` has learned, vocabularies or how
        n-grams are hashed. Raises DataError where that is of other columns."""
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
        """Of each column, its vocabulary has been learned; or, where it is hashed, its frequencies."""
        self.vocabularies, self.frequencies = vocabularies, frequencies

    def hash_into(self, bits: int, note: str) -> None:
        """Go on without vocabularies, and with names that are to be learned. note: why."""
        unheard = "; --min-df, --max-df and --max-features count nothing" if self.options.chooses else ""
        self.options, self.note = replace(self.options, hash_bits=bits), note + unheard
        self.vocabularies = self._vectorizers = self.places = None

    def begin(self) -> int:
        """Rows are about to be made of all documents; returns ``growth``."""
        wanted = self.learning and self.column_names is None and self.options.hash_bits is not None
        self._samplers = [NameSampler(self.options) for _ in self.names] if wanted else []
        return self.growth

    def rest(self) -> None:
        """All rows have been made, for now: what that takes is let go."""
        self._vectorizers = None
        if self._samplers:
            self.column_names, self._samplers = [each.finish() for each in self._samplers], []
        for vocabulary in self.vocabularies or ():
            vocabulary.rest()

    @property
    def growth(self) -> int:
        """Bytes of rows for each byte of text, about."""
        sizes = self.options.ngrams[1] - self.options.ngrams[0] + 1
        return sizes if self.options.analyzer == "word" else _CHARACTER_GROWTH * sizes

    def documents(self, columns: Mapping[str, pa.Array]) -> list[Documents]:
        """Of each column, of a batch. Raises ValueError(row, reason) for bytes that the encoding does not have, and
        documents that are too long; BudgetError for those that are so under the memory limit alone."""
        found = []
        for name in self.names:
            try:
                found.append(Documents.of(text_column(columns[name], name), self.encoding))
            except NotUTF8 as error:
                raise not_utf8(name, error, self.encoding, not self.learning) from error
            lengths = np.diff(found[-1].offsets)
            self._longest = max(self._longest, min(int(lengths.max(initial=0)), self._length.most_bytes))
            self._length.require(name, lengths)
        return found

    def begin_rows(self, columns: Mapping[str, pa.Array]) -> RowsAhead | None:
        """Have threads make the rows of a batch, where there are several; None where ``rows`` is to make them."""
        if self.n_threads == 1:
            return None
        try:
            documents = self.documents(columns)
        except (ValueError, BudgetError):
            return None  # which ``rows`` raises when it is the batch's turn
        return RowsAhead(documents, self._ready(), self._threads)

    def rows(self, columns: Mapping[str, pa.Array], begun: RowsAhead | None = None) -> CSR:
        """N-grams of a batch's documents, numbered from 0. begun: of ``begin_rows``. Raises
        ValueError(row, reason) for text that is not UTF-8."""
        vectorizers, parts, offset = self._ready(), list[CSR](), 0
        found = begun.documents if begun is not None else self.documents(columns)
        made: list[Callable[[Documents], CSR]] = [vectorizer.rows for vectorizer in vectorizers]
        if begun is not None and begun.vectorizers is vectorizers:  # else columns got their places meanwhile
            made = begun.rows
        for name, documents, vectorizer, rows in zip(self.names, found, vectorizers, made, strict=True):
            try:
                parts.append(moved(rows(documents), offset))
            except NotUTF8 as error:
                raise not_utf8(name, error, predicting=not self.learning) from error
            offset += vectorizer.n_columns
        for documents, sampler in zip(found, self._samplers, strict=False):
            sampler.add(documents)
        return beside(parts)

    def _ready(self) -> list[Vectorizer]:
        assert self.known, "vocabularies are learned before rows are made"
        if self._vectorizers is None:
            self._vectorizers = self._made()
        return self._vectorizers

    def _made(self) -> list[Vectorizer]:
        known: Sequence[Vocabulary | None] = self.vocabularies or [None] * len(self.names)
        weights = [None if not self.options.idf else each.weights() for each in self.frequencies or ()]
        weights = weights or [None] * len(self.names)
        places: Sequence[Places | None] = self.places or [None] * len(self.names)
        return [
            Vectorizer(self.options, vocabulary, self._threads, each, own)
            for vocabulary, each, own in zip(known, weights, places, strict=True)
        ]

    def names_of(self, columns: Sequence[int]) -> list[str]:
        """``review:good movie`` of each n-gram; of those that share a hashed column ``review:good movie (and 2
        more)``, and ``review#17`` where none was met. columns: ascending."""
        edges = np.cumsum([0, *self.widths])
        found: dict[int, str] = {}
        for number, name in enumerate(self.names):
            own = [j for j in columns if edges[number] <= j < edges[number + 1]]
            places = [int(j - edges[number]) for j in own]
            if self.vocabularies is None:
                met = {} if self.column_names is None else self.column_names[number].of(places)
                words = [f":{met[place]}" if place in met else f"#{place}" for place in places]
                found |= {j: name + word for j, word in zip(own, words, strict=True)}
            else:
                words = self.vocabularies[number].words_of(places)
                found |= {j: f"{name}:{word}" for j, word in zip(own, words, strict=True)}
        return [found[j] for j in columns]

    # -- in a model ---------------------------------------------------------------------------------------

    def as_extra(self, used: NDArray[np.bool_]) -> dict[str, Any]:
        """What a model keeps: plain values, and arrays. used: (width,) columns whose weights are not all
        0; of hashed ones the others' names are left out."""
        parts: list[dict[str, Any]] = [{} for _ in self.names]
        edges = np.cumsum([0, *self.widths])
        for number, names in enumerate(self.column_names or ()):
            parts[number] |= names.chosen(used[edges[number] : edges[number + 1]]).arrays()
        for number, each in enumerate(self.frequencies or ()):
            parts[number]["documents"] = each.documents
        for number, vocabulary in enumerate(self.vocabularies or ()):
            parts[number] |= vocabulary.arrays()
        counts = [each.n_documents for each in self.vocabularies or self.frequencies or ()]
        arrays = {
            f"{NAME}_{number}_{part}": array
            for number, arrays in enumerate(parts)
            for part, array in arrays.items()
        }
        values = {
            "columns": list(self.names),
            "widths": self.widths,
            "documents": counts,
            "options": self.options.as_dict(),
        }
        if self.note:
            values[WHY_HASHED] = self.note
        return {NAME: values, **arrays}

    @classmethod
    def from_extra(cls, extra: Mapping[str, Any]) -> DocumentColumns | None:
        """Of a model that has such. Raises ModelError where its parts do not fit each other."""
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
        """What a model knows of hashed columns. Raises KeyError, IndexError, ValueError where it cannot be."""
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
    start = f"{NAME}_{number}_"
    return {name.removeprefix(start): value for name, value in extra.items() if name.startswith(start)}


def not_utf8(name: str, error: NotUTF8, encoding: str = UTF_8, predicting: bool = False) -> ValueError:
    """Of a column: ValueError(row, reason). predicting: see ``as_utf8``."""
    remedy = as_trained(encoding) if predicting else as_utf8()
    reason = f"column {name}: byte {error.byte + 1} of the text is not {encoding}; {remedy}"
    return ValueError(error.document, reason)
