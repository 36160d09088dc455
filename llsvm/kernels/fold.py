"""Documents as they are analysed: in lower case, without accents, as asked; UTF-8, and refused where it is not.

What a character folds to comes in tables (``llsvm.features.text.unicode``). scikit-learn's vectorizers are the twin
in ``tests/test_text_analysis.py``.
"""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

import numpy as np

from llsvm.kernels.intrinsics import load_word, store_word, trailing_zeros
from llsvm.kernels.options import CALLED, JIT, njit

IN_CONTEXT = np.uint8(4)  # of a character: what it folds to depends on what stands beside it
MOST_BYTES = 4 * 18  # that a character may fold to: U+FDFA is 18 characters under NFKD
EACH_BYTE = 0x0101010101010101
HIGH_BITS = np.uint64(EACH_BYTE * 0x80)
LOW_BITS = np.uint64(EACH_BYTE * 0x7F)
FROM_A, BEYOND_Z = np.uint64(EACH_BYTE * (0x80 - ord("A"))), np.uint64(EACH_BYTE * (0x80 - ord("Z") - 1))
TWO, ZERO = np.uint64(2), np.uint64(0)

DONE, NO_ROOM, NOT_UTF8, NEEDS_CONTEXT = 0, 1, 2, 3  # why ``fold`` came back


@njit(**JIT, **CALLED)
def _character(text, p, stop):
    """The code point at ``p`` and its bytes; 0 bytes where it is not UTF-8."""
    c = np.int64(text[p])
    if c < 0x80:
        return c, 1
    if 0xC2 <= c < 0xE0:
        n, code, lowest_code = 2, c & 0x1F, 0x80
    elif 0xE0 <= c < 0xF0:
        n, code, lowest_code = 3, c & 0x0F, 0x800
    elif 0xF0 <= c < 0xF5:
        n, code, lowest_code = 4, c & 0x07, 0x10000
    else:
        return 0, 0
    if p + n > stop:
        return 0, 0
    for k in range(1, n):
        c = np.int64(text[p + k])
        if c & 0xC0 != 0x80:
            return 0, 0
        code = code << 6 | (c & 0x3F)
    if code < lowest_code or code > 0x10FFFF or 0xD800 <= code < 0xE000:
        return 0, 0
    return code, n


@njit(**JIT, **CALLED)
def _write(out, q, code):
    """Write a code point as UTF-8 at ``q``; returns the end."""
    if code < 0x80:
        out[q] = code
        return q + 1
    if code < 0x800:
        out[q] = 0xC0 | code >> 6
        out[q + 1] = 0x80 | code & 0x3F
        return q + 2
    if code < 0x10000:
        out[q] = 0xE0 | code >> 12
        out[q + 1] = 0x80 | code >> 6 & 0x3F
        out[q + 2] = 0x80 | code & 0x3F
        return q + 3
    out[q] = 0xF0 | code >> 18
    out[q + 1] = 0x80 | code >> 12 & 0x3F
    out[q + 2] = 0x80 | code >> 6 & 0x3F
    out[q + 3] = 0x80 | code & 0x3F
    return q + 4


@njit(**JIT)
def fold(text, offsets, first, stop, lower, in_context, flags, fold_at, folds, out, ends):
    """Write documents ``first`` to ``stop`` one behind the other, each character as what it folds to.

    text: (any,) uint8, all documents; document i is ``text[offsets[i]:offsets[i + 1]]``.
    offsets: int32 or int64.
    lower: bool, ASCII letters become small ones.
    in_context: bool, come back where a character folds by what stands beside it.
    flags: uint8 by code point, none for those beyond its end: IN_CONTEXT, that it is such a character.
    fold_at: (0x110000 >> 8,) int32, where in ``folds`` the page of 256 code points begins; -1: they stay.
    folds: (any,) int32: pages of places in ``folds`` itself, -1 where the character stays; at such a place, to how
        many characters it folds, and these.
    out: (any,) uint8, filled.
    ends: (stop - first + 1,) int64, filled: where each document ends in ``out``, the first being 0.
    Returns why it came back, how many documents are done, and of NOT_UTF8 where in ``text``.
    """
    room = out.shape[0] - MOST_BYTES - 8
    whole = np.int64(offsets[stop])  # where all end: 8 bytes before it can be looked at, whose they may be
    q = np.int64(0)  # no literal, for which a helper would be compiled once more
    ends[0] = 0
    for i in range(first, stop):
        p, end = np.int64(offsets[i]), np.int64(offsets[i + 1])
        while p < end:
            if q > room:
                return NO_ROOM, i - first, p
            if p + 8 <= whole:
                word = load_word(text, p)
                low = word & LOW_BITS
                if lower:
                    letters = (low + FROM_A) & ~(low + BEYOND_Z) & ~word & HIGH_BITS
                    word |= letters >> TWO  # 0x80 becomes 0x20, which makes letters small
                store_word(out, q, word)
                if p + 8 <= end and word & HIGH_BITS == ZERO:  # a step that is known before the bytes are
                    p += 8
                    q += 8
                    continue
                n = min(end - p, trailing_zeros(word & HIGH_BITS) >> 3)  # what is behind is written over
                if n > 0:
                    p += n
                    q += n
                    continue
            c = text[p]
            if c < 128:
                if lower and 65 <= c <= 90:
                    c |= np.uint8(32)
                out[q] = c
                p += 1
                q += 1
                continue
            code, n = _character(text, p, end)
            if n == 0:
                return NOT_UTF8, i - first, p
            if in_context and code < flags.shape[0] and flags[code] & IN_CONTEXT:
                return NEEDS_CONTEXT, i - first, p
            page = fold_at[code >> 8]
            at = -1 if page < 0 else np.int64(folds[page + (code & 0xFF)])
            if at < 0:
                for k in range(n):
                    out[q + k] = text[p + k]
                q += n
            else:
                for k in range(at + 1, at + 1 + folds[at]):
                    q = _write(out, q, np.int64(folds[k]))
            p += n
        ends[i - first + 1] = q
    return DONE, stop - first, 0
