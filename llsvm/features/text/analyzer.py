"""Analyzer: documents to their distinct n-grams, by compiled code, a thread for each part of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llsvm.features.plain_types import decoded
from llsvm.features.text.options import TextOptions
from llsvm.features.text.unicode import flags, folding, in_small_letters
from llsvm.files.recoded import UTF_8, is_utf8
from llsvm.kernels import fold as folding_kernels
from llsvm.kernels import text as kernels

_GROWTH = 1.2  # of text that is folded, at first
# of workspace, by byte of text: folded, as it is analysed, where units start and their keys; and of each length
_TEXT_BYTES, _WORD_BYTES, _CHARACTER_BYTES = 3, 10, 10
_GRAM_BYTES = 48  # as it is found, counted and encoded
_LIKELY_WORD = 4  # bytes, with what is between them
_SPARE = 1.25  # arrays are larger than was needed


def workspace_bytes(options: TextOptions, n_bytes: int) -> int:
    """What an Analyzer holds, and the rows that are made of it, at most, for so much text at a time; of words such
    as people write: eight bytes with what is between them, or in the worst case two."""
    sizes = options.ngrams[1] - options.ngrams[0] + 1
    if options.analyzer == "word":
        each = _TEXT_BYTES + _WORD_BYTES + sizes * _GRAM_BYTES / 3
    else:
        each = _TEXT_BYTES + _CHARACTER_BYTES + sizes * _GRAM_BYTES
    return int(_SPARE * each * n_bytes)


def likely_grams(options: TextOptions, n_bytes: int) -> int:
    """In so much text as people write."""
    sizes = options.ngrams[1] - options.ngrams[0] + 1
    return sizes * n_bytes // _LIKELY_WORD if options.analyzer == "word" else sizes * n_bytes


@dataclass(frozen=True, slots=True)
class Documents:
    """Of a string column. text: (any,) uint8; offsets: (n + 1,) int32 or int64."""

    text: NDArray[np.uint8]
    offsets: NDArray[np.integer]

    @property
    def number(self) -> int:
        return len(self.offsets) - 1

    def pieces(self, max_bytes: int) -> list[tuple[int, int]]:
        """(start, stop) of documents, in order, of so much text together, or one."""
        edges = [0]
        while edges[-1] < self.number:
            edges.append(self.end_of(edges[-1], self.number, max_bytes))
        return list(pairwise(edges))

    def end_of(self, first: int, stop: int, max_bytes: int) -> int:
        """Of a piece that begins with document ``first``: at most ``stop``."""
        end = np.searchsorted(self.offsets, self.offsets[first] + max_bytes, "right") - 1
        return min(max(int(end), first + 1), stop)

    @classmethod
    def of(cls, column: pa.Array, encoding: str = UTF_8) -> Documents:
        """Nulls are empty documents. column: text or bytes of any kind of Arrow's. encoding: of bytes. Raises
        NotUTF8 for bytes that it does not have."""
        column = decoded(column)
        if pa.types.is_binary_view(column.type):
            column = column.cast(pa.large_binary())
        if column.type not in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
            column = column.cast(pa.large_string())
        if column.null_count:
            column = column.fill_null(
                "" if pa.types.is_string(column.type) or pa.types.is_large_string(column.type) else b""
            )
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            column = column if is_utf8(encoding) else _recoded(column, encoding)
        if not len(column):
            return cls(np.zeros(0, np.uint8), np.zeros(1, np.int64))
        wide = np.dtype(np.int64 if column.type in (pa.large_string(), pa.large_binary()) else np.int32)
        _, offsets, data = column.buffers()
        at: NDArray[np.integer] = np.frombuffer(offsets, wide, len(column) + 1, column.offset * wide.itemsize)
        text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
        return cls(text, at)


def _recoded(column: pa.Array, encoding: str) -> pa.Array:
    texts = []
    for document, value in enumerate(column.to_pylist()):
        try:
            texts.append(value.decode(encoding))
        except UnicodeDecodeError as error:
            raise NotUTF8(document, error.start) from error
    return pa.array(texts, pa.large_string())


class NotUTF8(Exception):
    """Text that is not UTF-8. document: its number. byte: the first bad one, its number in the document."""

    def __init__(self, document: int, byte: int) -> None:
        super().__init__(document, byte)
        self.document, self.byte = document, byte


@dataclass(frozen=True, slots=True)
class Grams:
    """Of some documents: what ``llsvm.kernels.text.distinct`` leaves.

    grams: (n, 3) uint64: key; place in ``text``; count << 32 | length. first: (documents + 1,) int64, of each
    document. text: (any,) uint8, in which n-grams are slices.
    """

    grams: NDArray[np.uint64]
    first: NDArray[np.int64]
    text: NDArray[np.uint8]


class ArrayPool:
    """Arrays that are used again and again: fresh memory costs as much as what is done in it."""

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[Any]] = {}

    def array(self, name: str, length: int, dtype: type, width: int | None = None) -> NDArray[Any]:
        """(length,) or (length, width), of any values; what was handed out before under that name is gone."""
        cells = length * (width or 1)
        kept = self._arrays.get(name)
        if kept is None or len(kept) < cells:
            kept = self._arrays[name] = np.empty(cells + cells // 4, dtype)
        return kept[:cells] if width is None else kept[:cells].reshape(length, width)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays.values())


class Analyzer:
    """See the file's head. For one thread: what it returns is gone when it is called again."""

    def __init__(self, options: TextOptions) -> None:
        self.options = options
        self.workspace = ArrayPool()
        self._folding = folding(options.lowercase, options.strip_accents)
        self._stops = _keys(options.stop_words)

    def grams(self, documents: Documents, first: int, stop: int) -> Grams:
        """Of documents ``first`` to ``stop``. Raises NotUTF8."""
        array, (shortest, longest) = self.workspace.array, self.options.ngrams
        first_gram = array("first", stop - first + 1, np.int64)
        if self.options.analyzer == "word":
            text, starts, keys, first_word = self._words(documents, first, stop, written=True)
            grams = array("grams", int(first_word[-1]) * (longest - shortest + 1), np.uint64, 3)
            kernels.word_grams(starts, keys, first_word, shortest, longest, grams, first_gram)
        else:
            text, grams = self._character_grams(documents, first, stop, first_gram)
        most = int(np.diff(first_gram).max(initial=0))
        seen = array("seen", max(16, 1 << (2 * most).bit_length()), np.int64)
        kernels.distinct(grams, first_gram, seen)
        return Grams(grams[: first_gram[-1]], first_gram, text)

    def keys(
        self, documents: Documents, first: int, stop: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The keys of all n-grams of documents ``first`` to ``stop``, as often as they are there, (n,) uint64, and
        where each document's begin, (documents + 1,) int64. Raises NotUTF8."""
        array, (shortest, longest) = self.workspace.array, self.options.ngrams
        first_gram = array("first", stop - first + 1, np.int64)
        if self.options.analyzer == "word":
            _, _, keys, first_word = self._words(documents, first, stop, written=False)
            out = array("gram keys", int(first_word[-1]) * (longest - shortest + 1), np.uint64)
            kernels.word_gram_keys(keys, first_word, shortest, longest, out, first_gram)
        else:
            _, grams = self._character_grams(documents, first, stop, first_gram)
            out = array("gram keys", int(first_gram[-1]), np.uint64)
            out[:] = grams[: len(out), 0]
        return out[: first_gram[-1]], first_gram

    def _words(self, documents: Documents, first: int, stop: int, written: bool) -> tuple[NDArray[Any], ...]:
        """(out, starts, keys, first_word) of ``llsvm.kernels.text.words``; the first two are empty unless they are
        to be ``written``."""
        folded, ends = self._fold(documents, first, stop)
        array, n_bytes, n = self.workspace.array, int(ends[-1]), stop - first
        text = array("text", n_bytes + n + kernels.PADDING_BYTES if written else 0, np.uint8)
        starts = array("starts", n_bytes // 2 + 1 if written else 0, np.int64)
        first_word, keys = array("units", n + 1, np.int64), array("keys", n_bytes // 2 + 1, np.uint64)
        kernels.words(folded, ends, flags(), self._stops, text, starts, keys, first_word)
        return text, starts, keys, first_word

    def _character_grams(
        self, documents: Documents, first: int, stop: int, first_gram: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
        """(text, grams) of ``llsvm.kernels.text.character_grams``."""
        folded, ends = self._fold(documents, first, stop)
        array, n_bytes, n = self.workspace.array, int(ends[-1]), stop - first
        shortest, longest = self.options.ngrams
        within = self.options.analyzer == "char_wb"
        text = array("text", n_bytes + 2 * n + kernels.PADDING_BYTES, np.uint8)
        starts, first_character = (
            array("starts", n_bytes + 2 * n + 1, np.int64),
            array("units", n + 1, np.int64),
        )
        kernels.characters(folded, ends, flags(), within, text, starts, first_character)
        units = int(first_character[-1])
        units += units // 2 if within else 0  # two words share the space between them
        grams = array("grams", units * (longest - shortest + 1), np.uint64, 3)
        kernels.character_grams(text, starts, first_character, shortest, longest, within, grams, first_gram)
        return text, grams

    def _fold(
        self, documents: Documents, first: int, stop: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """(text, ends) of ``llsvm.kernels.fold.fold``."""
        text, offsets = documents.text, documents.offsets
        ends = self.workspace.array("ends", stop - first + 1, np.int64)
        room = int(offsets[stop]) - int(offsets[first])
        room = int(room * _GROWTH) + folding_kernels.MOST_BYTES + 16
        lower, tables = self._folding.lower, (flags(), self._folding.at, self._folding.folds)
        in_context = lower
        begin, end = first, stop  # in ``text`` as it is now
        while True:
            out = self.workspace.array("folded", room, np.uint8)
            why, done, at = folding_kernels.fold(
                text, offsets, begin, end, lower, in_context, *tables, out, ends
            )
            if why == folding_kernels.DONE:
                return out, ends
            if why == folding_kernels.NOT_UTF8:
                raise NotUTF8(first + done, at - int(offsets[begin + done]))
            if why == folding_kernels.NO_ROOM:
                room *= 2
            else:
                text, offsets = self._in_context(text, offsets, begin, end)
                begin, end, in_context = 0, stop - first, False

    def _in_context(
        self, text: NDArray[np.uint8], offsets: NDArray[np.integer], first: int, stop: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The documents, with those letters small that the kernel leaves to us."""
        parts = [in_small_letters(text[offsets[i] : offsets[i + 1]].tobytes()) for i in range(first, stop)]
        joined = np.frombuffer(b"".join(parts), np.uint8)
        return joined, np.cumsum([0, *map(len, parts)], dtype=np.int64)


def _keys(words: tuple[str, ...]) -> NDArray[np.uint64]:
    """Of words, ascending."""
    return np.unique(np.fromiter(map(_key, words), np.uint64, len(words)))


def _key(word: str) -> int:
    text = word.encode()
    return int(kernels.hash_of(np.frombuffer(text + bytes(kernels.PADDING_BYTES), np.uint8), 0, len(text)))
