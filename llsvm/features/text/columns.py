"""DocumentColumns: the text columns of a table, side by side: their vocabularies, and their rows.

A column's n-grams are numbered from where those of the column before it end. A vocabulary is learned in a reading
of its own, before any row can be made (``llsvm.training.texts``); hashed columns need none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llsvm.block import CSR
from llsvm.errors import ModelError
from llsvm.features.csr_rows import beside, moved
from llsvm.features.text.analyzer import Documents, NotUTF8, workspace_bytes
from llsvm.features.text.options import TextOptions
from llsvm.features.text.vectorizer import PIECE_BYTES, Vectorizer
from llsvm.features.text.vocabulary import Vocabulary
from llsvm.files.recoded import UTF_8
from llsvm.process.threads import Threads

NAME = "text"  # of what a model keeps of them
_CHARACTER_GROWTH = 5  # an n-gram begins with each character, and is eight bytes
_LIBRARY_BYTES = 6_000_000  # compiled kernels and tables of characters; measured


class DocumentColumns:
    """See the file's head.

    names: of the columns, in the table's order. options: of each of them; ``hash_bits`` None where vocabularies are
    exact. threads: that analyse.
    vocabularies: of each column, of a model; None where there are none, or none yet.
    """

    def __init__(
        self,
        names: Sequence[str],
        options: TextOptions,
        threads: int = 1,
        vocabularies: Sequence[Vocabulary] | None = None,
    ) -> None:
        self.names = tuple(names)
        self.options = options
        self.n_threads = threads
        self.vocabularies = vocabularies
        self.encoding = UTF_8  # of columns of bytes
        self.note = ""
        """Why there are no vocabularies, where their user might think so."""
        self._vectorizers: list[Vectorizer] | None = None  # made when first needed

    @property
    def known(self) -> bool:
        """Can rows be made?"""
        return self.options.hash_bits is not None or self.vocabularies is not None

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
        """Of the vocabularies."""
        return sum(vocabulary.nbytes for vocabulary in self.vocabularies or ())

    @property
    def work_bytes(self) -> int:
        """Held while rows are made, beside blocks."""
        return _LIBRARY_BYTES + self.n_threads * workspace_bytes(self.options, PIECE_BYTES)

    @property
    def growth(self) -> int:
        """Bytes of rows for each byte of text, about."""
        sizes = self.options.ngrams[1] - self.options.ngrams[0] + 1
        return sizes if self.options.analyzer == "word" else _CHARACTER_GROWTH * sizes

    def documents(self, columns: Mapping[str, pa.Array]) -> list[Documents]:
        """Of each column, of a batch. Raises ValueError(row, reason) for bytes that the encoding does not have."""
        found = []
        for name in self.names:
            try:
                found.append(Documents.of(columns[name], self.encoding))
            except NotUTF8 as error:
                raise not_utf8(name, error, self.encoding) from error
        return found

    def rows(self, columns: Mapping[str, pa.Array]) -> CSR:
        """N-grams of a batch's documents, numbered from 0. Raises ValueError(row, reason) for text that is not
        UTF-8."""
        assert self.known, "vocabularies are learned before rows are made"
        if self._vectorizers is None:
            self._vectorizers = self._made()
        parts, offset = [], 0
        for name, documents, vectorizer in zip(
            self.names, self.documents(columns), self._vectorizers, strict=True
        ):
            try:
                parts.append(moved(vectorizer.rows(documents), offset))
            except NotUTF8 as error:
                raise not_utf8(name, error) from error
            offset += vectorizer.n_columns
        return beside(parts)

    def _made(self) -> list[Vectorizer]:
        pool = Threads(self.n_threads)
        known: Sequence[Vocabulary | None] = self.vocabularies or [None] * len(self.names)
        return [Vectorizer(self.options, vocabulary, pool) for vocabulary in known]

    def names_of(self, columns: Sequence[int]) -> list[str]:
        """``review:good movie`` of each n-gram; ``review#17`` where they are hashed. columns: ascending."""
        edges = np.cumsum([0, *self.widths])
        found: dict[int, str] = {}
        for number, name in enumerate(self.names):
            own = [j for j in columns if edges[number] <= j < edges[number + 1]]
            places = [int(j - edges[number]) for j in own]
            if self.vocabularies is None:
                found |= {j: f"{name}#{place}" for j, place in zip(own, places, strict=True)}
            else:
                words = self.vocabularies[number].words_of(places)
                found |= {j: f"{name}:{word}" for j, word in zip(own, words, strict=True)}
        return [found[j] for j in columns]

    # -- in a model ---------------------------------------------------------------------------------------

    def as_extra(self) -> dict[str, Any]:
        """What a model keeps: plain values, and arrays."""
        arrays: dict[str, Any] = {}
        counts = []
        for number, vocabulary in enumerate(self.vocabularies or ()):
            arrays |= {f"{NAME}_{number}_{part}": array for part, array in vocabulary.arrays().items()}
            counts.append(vocabulary.n_documents)
        values = {
            "columns": list(self.names),
            "widths": self.widths,
            "documents": counts,
            "options": self.options.as_dict(),
        }
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
            if made.widths != values["widths"]:
                raise ValueError(f"its text columns have {made.widths} n-grams, not {values['widths']}")
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise ModelError(f"its vocabulary is damaged: {error}; fetch or train it again") from error
        return made


def _arrays(extra: Mapping[str, Any], number: int) -> dict[str, NDArray[Any]]:
    start = f"{NAME}_{number}_"
    return {name.removeprefix(start): value for name, value in extra.items() if name.startswith(start)}


def not_utf8(name: str, error: NotUTF8, encoding: str = UTF_8) -> ValueError:
    """Of a column: ValueError(row, reason)."""
    return ValueError(
        error.document,
        f"column {name}: byte {error.byte + 1} of the text is not {encoding}; write it as UTF-8, or pass its "
        "encoding (--encoding latin-1)",
    )
