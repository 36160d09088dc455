"""What characters are, and what they fold to, as tables for kernels. Python's own knowledge of Unicode, looked up
once for each process that meets text."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from llsvm.kernels.fold import IN_CONTEXT
from llsvm.kernels.text import WHITE, WORD

_KNOWN = 0x34000  # beyond it no code point is a letter, a digit or white space, nor folds to anything
_PAGE = 256
_PAGES = 0x110000 // _PAGE
_IN_CONTEXT = "Σ"  # its small letter depends on whether a word ends with it
_LONGER = ("İ", "I")  # the one letter whose small one is two characters, and one like it whose is not


def in_small_letters(document: bytes) -> bytes:
    """The document with each letter in its small one whose small one depends on what stands beside it, and all
    others as they are. What is not UTF-8 stays."""
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


@dataclass(frozen=True, slots=True)
class Folding:
    """What characters fold to; see ``llsvm.kernels.fold.fold``.

    lower: into small letters. at: (pages,) int32. folds: (any,) int32.
    """

    lower: bool
    at: NDArray[np.int32]
    folds: NDArray[np.int32]


@cache
def flags() -> NDArray[np.uint8]:
    """(any,) of each code point, WORD and WHITE of ``llsvm.kernels.text``, IN_CONTEXT of ``llsvm.kernels.fold``;
    none of those beyond the end."""
    characters = np.arange(_KNOWN, dtype=np.uint32).view("U1")
    word = np.char.isalnum(characters) | (characters == "_")
    white = np.char.isspace(characters)
    flags = word * WORD | white * WHITE
    flags[ord(_IN_CONTEXT)] |= IN_CONTEXT
    return flags


@cache
def folding(lower: bool, accents: str) -> Folding:
    """The tables of such a folding. accents: "", "unicode" or "ascii"."""
    at = np.full(_PAGES, -1, np.int32)
    folds: list[int] = []
    first = 128 if lower or not accents else 0  # kernels know the small ASCII letters
    for start in range(0, _KNOWN, _PAGE):
        found: list[tuple[int, str]] = []
        for code in range(max(start, first), start + _PAGE):
            if not 0xD800 <= code < 0xE000 and (new := _folded(chr(code), lower, accents)) != chr(code):
                found.append((code - start, new))
        if found:
            page = len(folds)
            at[start // _PAGE] = page
            folds += [-1] * _PAGE
            for place, new in found:
                folds[page + place] = len(folds)
                folds += [len(new), *map(ord, new)]
    if accents == "ascii":
        at[at < 0] = _page_of_nothing(folds)
    return Folding(lower, at, np.array(folds, np.int32))


def _page_of_nothing(folds: list[int]) -> int:
    page = len(folds)
    folds += [page + _PAGE] * _PAGE + [0]
    return page


def _folded(text: str, lower: bool, accents: str) -> str:
    """As scikit-learn's vectorizers: first small letters, then accents."""
    text = text.lower() if lower else text
    if not accents or text.isascii():
        return text
    text = unicodedata.normalize("NFKD", text)
    if accents == "ascii":
        return text.encode("ascii", "ignore").decode()
    return "".join(c for c in text if not unicodedata.combining(c))
