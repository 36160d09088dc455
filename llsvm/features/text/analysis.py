"""Analyzer: documents to their distinct n-grams, by compiled code, a thread for each part of them.

What characters are, and what they fold to, comes to the kernels as tables. These hold Python's own knowledge of
Unicode, looked up once in each process that reads text.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llsvm.errors import BudgetError
from llsvm.features.arrow_types import decoded
from llsvm.features.text.options import TextOptions
from llsvm.files.decoding import UTF_8, is_utf8
from llsvm.kernels import text as kernels
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.sizes import format_size

PIECE_BYTES = 1 << 17  # of text that a thread analyzes at a time
MAX_DOCUMENT_BYTES = 4_000_000
_ANALYSIS_SHARE = 4  # analyzing a long document may take this part (1/4) of the memory there is
_KNOWN = 0x34000  # beyond it no code point is a letter, a digit or white space, nor folds to anything
_PAGE = 256
_PAGES = 0x110000 // _PAGE
_IN_CONTEXT = "Σ"  # its small letter depends on whether a word ends with it
_LONGER = ("İ", "I")  # the one letter whose small one is two characters, and one like it whose is not
_GROWTH = 1.2  # of text that is folded, at first
# of workspace, by byte of text: folded, as it is analysed, where units start and their keys; and of each length
_TEXT_BYTES, _WORD_BYTES, _CHARACTER_BYTES = 3, 10, 10
_GRAM_BYTES = 48  # as it is found, counted and encoded
_LIKELY_WORD = 4  # bytes, with what is between them
_SPARE = 1.25  # arrays are larger than was needed


@dataclass(frozen=True, slots=True)
class Folding:
    """Tables of what characters fold to, for ``llsvm.kernels.text.fold``.

    lower: into small letters. at: (pages,) int32. folds: (any,) int32.
    """

    lower: bool
    at: NDArray[np.int32]
    folds: NDArray[np.int32]


@cache
def _character_flags() -> NDArray[np.uint8]:
    """Return (any,) WORD, WHITE and IN_CONTEXT of ``llsvm.kernels.text`` for each code point; those beyond the end
    have none."""
    characters = np.arange(_KNOWN, dtype=np.uint32).view("U1")
    word = np.char.isalnum(characters) | (characters == "_")
    white = np.char.isspace(characters)
    flags = word * kernels.WORD | white * kernels.WHITE
    flags[ord(_IN_CONTEXT)] |= kernels.IN_CONTEXT
    return flags


@cache
def _folding(lower: bool, accents: str) -> Folding:
    """Return the tables of a folding. accents: "", "unicode" or "ascii"."""
    at = np.full(_PAGES, -1, np.int32)
    folds: list[int] = []
    first = 128 if lower or not accents else 0  # kernels know the small ASCII letters
    for start in range(0, _KNOWN, _PAGE):
        changes: list[tuple[int, str]] = []
        for code in range(max(start, first), start + _PAGE):
            if not 0xD800 <= code < 0xE000 and (new := _folded(chr(code), lower, accents)) != chr(code):
                changes.append((code - start, new))
        if changes:
            page = len(folds)
            at[start // _PAGE] = page
            folds += [-1] * _PAGE
            for place, new in changes:
                folds[page + place] = len(folds)
                folds += [len(new), *map(ord, new)]
    if accents == "ascii":
        page = len(folds)  # whose characters are all dropped
        at[at < 0] = page
        folds += [page + _PAGE] * _PAGE + [0]
    return Folding(lower, at, np.array(folds, np.int32))


def _folded(text: str, lower: bool, accents: str) -> str:
    """Return text as scikit-learn's vectorizers fold it: first small letters, then accents."""
    text = text.lower() if lower else text
    if not accents or text.isascii():
        return text
    text = unicodedata.normalize("NFKD", text)
    if accents == "ascii":
        return text.encode("ascii", "ignore").decode()
    return "".join(c for c in text if not unicodedata.combining(c))


def _in_small_letters(document: bytes) -> bytes:
    """Return the document with those letters small whose small letter depends on the characters beside it.

    All others stay as they are, and so does a document that is not UTF-8."""
    if _IN_CONTEXT.encode() not in document:
        return document
    try:
        text = document.decode()
    except UnicodeDecodeError:
        return document
    small, parts, at = text.replace(*_LONGER).lower(), [], 0
    for part in text.split(_IN_CONTEXT):
        at += len(part)
        parts += [part, small[at : at + 1]]
        at += 1
    return "".join(parts).encode()


def workspace_bytes(options: TextOptions, n_bytes: int) -> int:
    """Return the most bytes that an Analyzer and the rows made of it hold for ``n_bytes`` of text at a time.

    Words are those that people write: eight bytes with what is between them, or in the worst case two."""
    sizes = options.n_sizes
    if options.analyzer == "word":
        each = _TEXT_BYTES + _WORD_BYTES + sizes * _GRAM_BYTES / 3
    else:
        each = _TEXT_BYTES + _CHARACTER_BYTES + sizes * _GRAM_BYTES
    return int(_SPARE * each * n_bytes)


def likely_grams(options: TextOptions, n_bytes: int) -> int:
    """Return about how many n-grams are in ``n_bytes`` of text that people write."""
    return options.n_sizes * n_bytes // (_LIKELY_WORD if options.analyzer == "word" else 1)


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents of a string column. text: (any,) uint8; offsets: (n + 1,) int32 or int64."""

    text: NDArray[np.uint8]
    offsets: NDArray[np.integer]

    @property
    def number(self) -> int:
        return len(self.offsets) - 1

    def pieces(self, max_bytes: int) -> list[tuple[int, int]]:
        """Return (start, stop) of pieces of the documents, in order, with ``max_bytes`` of text or one document."""
        edges = [0]
        while edges[-1] < self.number:
            edges.append(self.end_of(edges[-1], self.number, max_bytes))
        return list(pairwise(edges))

    def end_of(self, first: int, stop: int, max_bytes: int) -> int:
        """Return where a piece ends that begins with document ``first``: at most ``stop``."""
        end = np.searchsorted(self.offsets, self.offsets[first] + max_bytes, "right") - 1
        return min(max(int(end), first + 1), stop)

    @classmethod
    def of(cls, column: pa.Array, encoding: str = UTF_8) -> Documents:
        """Return the documents of a column; nulls are empty ones. column: text or bytes of any type of Arrow.
        encoding: of bytes. Raises NotUTF8 for bytes that the encoding does not have."""
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


@dataclass(frozen=True, slots=True)
class DocumentLength:
    """Limit on the length of a document: there must be memory to analyze it.

    max_bytes: of a document. lines, limit_bytes: of the budget, without the document, for the refusal of those that
    more memory would allow. bytes_per_mib: of memory that must be left, for a document of 1 MiB."""

    max_bytes: int = MAX_DOCUMENT_BYTES
    lines: tuple[tuple[str, int], ...] = ()
    limit_bytes: int = 0
    bytes_per_mib: int = 0

    @classmethod
    def under(cls, budget: MemoryBudget, options: TextOptions, n_threads: int) -> DocumentLength:
        """Return what the memory that is left in a budget allows."""
        per_mib = _ANALYSIS_SHARE * n_threads * workspace_bytes(options, 1 << 20)
        max_bytes = min(max((budget.available_bytes << 20) // per_mib, PIECE_BYTES), MAX_DOCUMENT_BYTES)
        return cls(max_bytes, tuple(budget.mark().items()), budget.limit_bytes, per_mib)

    def require(self, name: str, lengths: NDArray[np.integer]) -> None:
        """Raise BudgetError, or ValueError(row, reason), for documents of column ``name`` that are too long."""
        longest = int(lengths.max(initial=0))
        if longest > MAX_DOCUMENT_BYTES:
            raise ValueError(
                int(np.argmax(lengths == longest)),
                f"column {name}: a text of {format_size(longest)}, and one may have "
                f"{format_size(MAX_DOCUMENT_BYTES)}; part it among several rows",
            )
        if longest > self.max_bytes:
            what = f"a text of {format_size(longest)} in column {name}"
            lines = {**dict(self.lines), "analysis of a text": -(-longest * self.bytes_per_mib >> 20)}
            raise BudgetError(what, self.limit_bytes, sum(lines.values()), lines, at_least=True)


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
    """N-grams of documents, as ``llsvm.kernels.text.distinct`` leaves them.

    grams: (n, 3) uint64: key; place in ``text``; count << 32 | length. first: (documents + 1,) int64, of each
    document. text: (any,) uint8, in which n-grams are slices.
    """

    grams: NDArray[np.uint64]
    first: NDArray[np.int64]
    text: NDArray[np.uint8]


class Analyzer:
    """Maker of the n-grams of documents, for one thread: the next call overwrites the arrays that it returns."""

    def __init__(self, options: TextOptions) -> None:
        self.options = options
        self._arrays: dict[str, NDArray[Any]] = {}
        self._folding = _folding(options.lowercase, options.strip_accents)
        self._stops = _keys(options.stop_words)

    def array(self, name: str, length: int, dtype: type, width: int | None = None) -> NDArray[Any]:
        """Return an array (length,) or (length, width) of any values; the last one of that name is overwritten.

        Arrays are used again and again: fresh memory costs as much as the work that is done in it."""
        cells = length * (width or 1)
        array = self._arrays.get(name)
        if array is None or len(array) < cells:
            array = self._arrays[name] = np.empty(cells + cells // 4, dtype)
        return array[:cells] if width is None else array[:cells].reshape(length, width)

    def grams(self, documents: Documents, first: int, stop: int) -> Grams:
        """Return the distinct n-grams of documents ``first`` to ``stop``. Raises NotUTF8."""
        array, (shortest, longest) = self.array, self.options.ngrams
        first_gram = array("first", stop - first + 1, np.int64)
        if self.options.analyzer == "word":
            text, starts, keys, first_word = self._words(documents, first, stop, written=True)
            grams = array("grams", int(first_word[-1]) * (longest - shortest + 1), np.uint64, 3)
            kernels.word_grams(starts, keys, first_word, shortest, longest, grams, first_gram)
        else:
            text, grams = self._character_grams(documents, first, stop, first_gram)
        max_grams = int(np.diff(first_gram).max(initial=0))
        seen = array("seen", max(16, 1 << (2 * max_grams).bit_length()), np.int64)
        kernels.distinct(grams, first_gram, seen)
        return Grams(grams[: first_gram[-1]], first_gram, text)

    def keys(
        self, documents: Documents, first: int, stop: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the keys of all n-grams of documents ``first`` to ``stop``, each as often as it occurs.

        They are (n,) uint64; where each document's begin is (documents + 1,) int64. Raises NotUTF8."""
        array, (shortest, longest) = self.array, self.options.ngrams
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
        """Return (out, starts, keys, first_word) of ``llsvm.kernels.text.words``; the first two are empty unless
        ``written``."""
        folded, ends = self._fold(documents, first, stop)
        array, n_bytes, n = self.array, int(ends[-1]), stop - first
        text = array("text", n_bytes + n + kernels.PADDING_BYTES if written else 0, np.uint8)
        starts = array("starts", n_bytes // 2 + 1 if written else 0, np.int64)
        first_word, keys = array("units", n + 1, np.int64), array("keys", n_bytes // 2 + 1, np.uint64)
        kernels.words(folded, ends, _character_flags(), self._stops, text, starts, keys, first_word)
        return text, starts, keys, first_word

    def _character_grams(
        self, documents: Documents, first: int, stop: int, first_gram: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
        """Return (text, grams) of ``llsvm.kernels.text.character_grams``."""
        folded, ends = self._fold(documents, first, stop)
        array, n_bytes, n = self.array, int(ends[-1]), stop - first
        shortest, longest = self.options.ngrams
        within = self.options.analyzer == "char_wb"
        text = array("text", n_bytes + 2 * n + kernels.PADDING_BYTES, np.uint8)
        starts, first_character = (
            array("starts", n_bytes + 2 * n + 1, np.int64),
            array("units", n + 1, np.int64),
        )
        kernels.characters(folded, ends, _character_flags(), within, text, starts, first_character)
        units = int(first_character[-1])
        units += units // 2 if within else 0  # two words share the space between them
        grams = array("grams", units * (longest - shortest + 1), np.uint64, 3)
        kernels.character_grams(text, starts, first_character, shortest, longest, within, grams, first_gram)
        return text, grams

    def _fold(
        self, documents: Documents, first: int, stop: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return (text, ends) of ``llsvm.kernels.text.fold``."""
        text, offsets = documents.text, documents.offsets
        ends = self.array("ends", stop - first + 1, np.int64)
        room = int(offsets[stop]) - int(offsets[first])
        room = int(room * _GROWTH) + kernels.MOST_BYTES + 16
        lower, tables = self._folding.lower, (_character_flags(), self._folding.at, self._folding.folds)
        in_context = lower
        begin, end = first, stop  # in ``text`` as it is now
        while True:
            out = self.array("folded", room, np.uint8)
            why, done, at = kernels.fold(text, offsets, begin, end, lower, in_context, *tables, out, ends)
            if why == kernels.DONE:
                return out, ends
            if why == kernels.NOT_UTF8:
                raise NotUTF8(first + done, at - int(offsets[begin + done]))
            if why == kernels.NO_ROOM:
                room *= 2
            else:
                text, offsets = self._in_context(text, offsets, begin, end)
                begin, end, in_context = 0, stop - first, False

    def _in_context(
        self, text: NDArray[np.uint8], offsets: NDArray[np.integer], first: int, stop: int
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the documents with those letters small that depend on their context, which kernels leave alone."""
        parts = [_in_small_letters(text[offsets[i] : offsets[i + 1]].tobytes()) for i in range(first, stop)]
        joined = np.frombuffer(b"".join(parts), np.uint8)
        return joined, np.cumsum([0, *map(len, parts)], dtype=np.int64)


def _keys(words: tuple[str, ...]) -> NDArray[np.uint64]:
    """Return the keys of words, ascending."""
    return np.unique(np.fromiter(map(_key, words), np.uint64, len(words)))


def _key(word: str) -> int:
    text = word.encode()
    return int(kernels.hash_of(np.frombuffer(text + bytes(kernels.PADDING_BYTES), np.uint8), 0, len(text)))
