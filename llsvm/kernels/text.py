"""Documents to n-grams: as they are analysed, and for each document the hashes of its n-grams.

``fold`` writes documents in lower case and without accents, as asked: UTF-8, and refused where it is not. ``words``
or ``characters`` writes what is analysed: words with a space behind each, or characters, where runs of white space
are one space. An n-gram is then a slice of what was written; ``word_grams`` and ``character_grams`` hash them, and
``distinct`` counts them for each document; ``word_gram_keys`` hashes alone. What is made of them is in
``llsvm.kernels.ngrams``. What a character is, and what it folds to, comes in tables
(``llsvm.features.text.analysis``).

N-grams are told apart by 64 bits of hash: that any two of 20 million have the same is a chance of 1 in 90,000. The
hashes are part of what a model means (columns numbered by them): they must not change.

scikit-learn's vectorizers are the twin in ``tests/test_text_analysis.py``.
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
HIGH_BITS, LOW_BITS = np.uint64(EACH_BYTE * 0x80), np.uint64(EACH_BYTE * 0x7F)
FROM_A, BEYOND_Z = np.uint64(EACH_BYTE * (0x80 - ord("A"))), np.uint64(EACH_BYTE * (0x80 - ord("Z") - 1))
EIGHT, TWO, ONE, ZERO = (np.uint64(n) for n in (8, 2, 1, 0))
DONE, NO_ROOM, NOT_UTF8, NEEDS_CONTEXT = 0, 1, 2, 3  # why ``fold`` came back
PADDING_BYTES = 8  # that may be looked at behind the folded text
WORD, WHITE = np.uint8(1), np.uint8(2)  # what a character is, as flags
SPACE = np.uint8(32)
SMALL_LETTER = np.uint64(EACH_BYTE * 0x20)
FROM_SMALL_A, BEYOND_SMALL_Z = (np.uint64(EACH_BYTE * (0x80 - ord(c))) for c in "a{")
FROM_0, BEYOND_9 = (np.uint64(EACH_BYTE * (0x80 - ord(c))) for c in "0:")
UNDERSCORES = np.uint64(EACH_BYTE * ord("_"))
ZERO8 = np.uint8(0)
ODD1, ODD2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
ODD3, ODD4 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
SEVEN, S29, S32, S33, S56, S63 = (np.uint64(n) for n in (7, 29, 32, 33, 56, 63))
GATHER = np.uint64(
    0x0102040810204080
)  # times a number whose bytes are 0 or 1: these are the bits of its high byte


@njit(**JIT, **CALLED)
def _code_point(text, p, stop):
    """Return the code point at ``p`` and its bytes; 0 bytes where it is not UTF-8."""
    c = np.int64(text[p])
    if c < 0x80:
        return c, 1
    if 0xC2 <= c < 0xE0:
        n, code, smallest = 2, c & 0x1F, 0x80
    elif 0xE0 <= c < 0xF0:
        n, code, smallest = 3, c & 0x0F, 0x800
    elif 0xF0 <= c < 0xF5:
        n, code, smallest = 4, c & 0x07, 0x10000
    else:
        return 0, 0
    if p + n > stop:
        return 0, 0
    for k in range(1, n):
        c = np.int64(text[p + k])
        if c & 0xC0 != 0x80:
            return 0, 0
        code = code << 6 | (c & 0x3F)
    if code < smallest or code > 0x10FFFF or 0xD800 <= code < 0xE000:
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
            code, n = _code_point(text, p, end)
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


@njit(**JIT, **CALLED)
def _mixed(h):
    """All bits of the result depend on all of ``h`` (Appleby's finaliser of MurmurHash3)."""
    h = (h ^ (h >> S33)) * ODD3
    h = (h ^ (h >> S33)) * ODD4
    return h ^ (h >> S33)


@njit(**JIT, **CALLED)
def _hashed(h, word):
    """``h``, and eight bytes more."""
    h = (h ^ (word * ODD2)) * ODD1
    return h ^ (h >> S29)


@njit(**JIT, **CALLED)
def _hash(data, start, stop):
    """Return the hash of a slice of bytes, behind which 8 more may be looked at; never 0, which is an empty
    place in tables."""
    h = np.uint64(stop - start) * ODD1
    p = start
    while p < stop:
        word = load_word(data, p)
        if stop - p < 8:
            shift = EIGHT * np.uint64(8 - (stop - p))
            word = (word << shift) >> shift
        h = _hashed(h, word)
        p += 8
    return max(_mixed(h), ONE)


@njit(**JIT)
def hash_of(data, start, stop):
    """Return the key of a slice of bytes, for other code than kernels."""
    return _hash(data, start, stop)


@njit(**JIT)
def combined(key, word_key):
    """Return the key of words and one more behind them from their two keys."""
    return max(_mixed(key * ODD1 + word_key), ONE)


@njit(**JIT, **CALLED)
def _character(folded, p):
    """Return the code point at ``p`` of valid UTF-8, beyond ASCII, and its bytes."""
    c = np.int64(folded[p])
    if c < 0xE0:
        n, code = 2, c & 0x1F
    elif c < 0xF0:
        n, code = 3, c & 0x0F
    else:
        n, code = 4, c & 0x07
    for k in range(1, n):
        code = code << 6 | (np.int64(folded[p + k]) & 0x3F)
    return code, n


@njit(**JIT, **CALLED)
def _is_there(keys, key):
    """Return whether a key is among these, which ascend."""
    low, high = 0, keys.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low < keys.shape[0] and keys[low] == key


@njit(**JIT, **CALLED)
def _word_bytes(word):
    """Return the high bit of each of eight bytes that is an ASCII letter, digit or underscore."""
    low = word & LOW_BITS
    letter = low | SMALL_LETTER
    letters = (letter + FROM_SMALL_A) & ~(letter + BEYOND_SMALL_Z)
    digits = (low + FROM_0) & ~(low + BEYOND_9)
    underscores = ~((low ^ UNDERSCORES) + LOW_BITS)
    return (letters | digits | underscores) & ~word & HIGH_BITS


@njit(**JIT)
def words(folded, ends, flags, stops, out, starts, keys, first_word):
    """Hash, and write, the words of documents: runs of two or more word characters, as scikit-learn's
    ``(?u)\\b\\w\\w+\\b``.

    64 bytes are looked at together: where word characters begin and end is a bit of one number.

    folded: (any,) uint8, valid UTF-8, documents one behind the other, and PADDING_BYTES more.
    ends: (documents + 1,) int64, of each.
    flags: uint8 by code point, none for those beyond its end: WORD.
    stops: (any,) uint64, ascending, the keys of words that are left out.
    out: (bytes + documents + PADDING_BYTES,) uint8, filled: a space behind each word; or (0,): nothing is written.
    starts, keys: (bytes // 2 + 1,) int64, uint64, filled: where words start in ``out``, one more for the end, and
        their hashes. starts: (0,) where nothing is written.
    first_word: (documents + 1,) int64, filled: of each document.
    """
    n_words, q = np.int64(0), np.int64(0)  # no literals, for which helpers would be compiled once more
    for i in range(ends.shape[0] - 1):
        first_word[i] = n_words
        p, end = ends[i], ends[i + 1]
        begin = end
        begun = ZERO  # 1: a run of them has, at ``begin``
        while p < end or begun != ZERO:
            n = min(end - p, 64)
            runs = ZERO
            for k in range(0, n, 8):
                word = load_word(folded, p + k)
                each = _word_bytes(word) | (word & HIGH_BITS)
                runs |= ((each >> SEVEN) * GATHER >> S56) << np.uint64(k)
            if n < 64:
                runs &= (ONE << np.uint64(n)) - ONE
            edges = runs ^ (runs << ONE | begun)
            while edges != ZERO:
                at = p + trailing_zeros(edges)
                edges &= edges - ONE
                begun ^= ONE
                if begun != ZERO:
                    begin = at
                    continue
                length = at - begin
                if length < 2:
                    continue
                h, high, k = np.uint64(length) * ODD1, ZERO, begin
                while k < at:
                    word = load_word(folded, k)
                    k += 8
                    if k > at:
                        shift = EIGHT * np.uint64(k - at)
                        word = (word << shift) >> shift
                    h = _hashed(h, word)
                    high |= word
                if high & HIGH_BITS != ZERO:
                    n_words, q = _beyond_ascii(folded, begin, at, flags, stops, out, starts, keys, n_words, q)
                    continue
                key = max(_mixed(h), ONE)
                if stops.shape[0] > 0 and _is_there(stops, key):
                    continue
                keys[n_words] = key
                if out.shape[0] > 0:
                    starts[n_words] = q
                    for k in range(0, length, 8):
                        store_word(out, q + k, load_word(folded, begin + k))
                    q += length
                    out[q] = SPACE
                    q += 1
                n_words += 1
            p += n
    first_word[ends.shape[0] - 1] = n_words
    if starts.shape[0] > 0:
        starts[n_words] = q


@njit(**JIT, **CALLED)
def _beyond_ascii(folded, p, end, flags, stops, out, starts, keys, n_words, q):
    """Find the words in a run of ASCII word characters and whatever is beyond ASCII; returns ``n_words`` and ``q``
    behind them. See ``words``."""
    while p < end:
        begin, number = p, 0
        while p < end:
            code, n = np.int64(folded[p]), 1
            if code >= 128:
                code, n = _character(folded, p)
                if code >= flags.shape[0] or not flags[code] & WORD:
                    break
            p, number = p + n, number + 1
        stop = p
        if p < end:
            p += _character(folded, p)[1]
        if number < 2:
            continue
        key = _hash(folded, begin, stop)
        if _is_there(stops, key):
            continue
        keys[n_words] = key
        if out.shape[0] > 0:
            starts[n_words] = q
            for k in range(begin, stop):
                out[q] = folded[k]
                q += 1
            out[q] = SPACE
            q += 1
        n_words += 1
    return n_words, q


@njit(**JIT)
def characters(folded, ends, flags, within_words, out, starts, first_character):
    """Write documents with runs of two or more white spaces as one space, or (within_words) words, whatever is not
    white space, with a space before and behind each; see ``words`` for what is not said here.

    out: (bytes + 2 * documents + PADDING_BYTES,) uint8, filled.
    starts: (characters of out + 1,) int64, filled: where each starts, one more for the end.
    first_character: (documents + 1,) int64, filled: of each document.
    """
    q = 0
    n_characters = 0
    for i in range(ends.shape[0] - 1):
        first_character[i] = n_characters
        p, end = ends[i], ends[i + 1]
        if within_words:
            starts[n_characters] = q
            n_characters += 1
            out[q] = SPACE
            q += 1
        spaces = 1 if within_words else 0
        while p < end:
            c = folded[p]
            if c < 128:
                n = 1
                white = flags[c] & WHITE
            else:
                code, n = _character(folded, p)
                white = flags[code] & WHITE if code < flags.shape[0] else ZERO8
            spaces = spaces + 1 if white else 0
            if spaces > 1:
                if not within_words:
                    q = starts[n_characters - 1]  # in the place of the one before
                    out[q] = SPACE
                    q += 1
            else:
                starts[n_characters] = q
                n_characters += 1
                if white and within_words:
                    out[q] = SPACE
                    q += 1
                else:
                    for k in range(n):
                        out[q + k] = folded[p + k]
                    q += n
            p += n
        if within_words and spaces == 0:
            starts[n_characters] = q
            n_characters += 1
            out[q] = SPACE
            q += 1
    first_character[ends.shape[0] - 1] = n_characters
    starts[n_characters] = q


@njit(**JIT)
def word_grams(starts, keys, first_word, shortest, longest, grams, first_gram):
    """Hash the n-grams of words.

    starts, keys, first_word: as ``words`` filled them. shortest, longest: int, words of an n-gram.
    grams: (words * (longest - shortest + 1), 3) uint64, filled: key, place in the text, length in bytes.
    first_gram: (documents + 1,) int64, filled: of each document.
    """
    n = 0
    for document in range(first_word.shape[0] - 1):
        first_gram[document] = n
        stop = first_word[document + 1]
        for i in range(first_word[document], stop):
            key = keys[i]
            for j in range(i, min(i + longest, stop)):
                if j > i:
                    key = combined(key, keys[j])
                if j - i + 1 >= shortest:
                    grams[n, 0], grams[n, 1], grams[n, 2] = key, starts[i], starts[j + 1] - 1 - starts[i]
                    n += 1
    first_gram[first_word.shape[0] - 1] = n


@njit(**JIT)
def word_gram_keys(keys, first_word, shortest, longest, out, first_gram):
    """Hash as ``word_grams`` does, the hashes alone, as often as they are there. out: (words * (longest -
    shortest + 1),) uint64, filled."""
    n = 0
    for document in range(first_word.shape[0] - 1):
        first_gram[document] = n
        stop = first_word[document + 1]
        for i in range(first_word[document], stop):
            key = keys[i]
            if shortest == 1:
                out[n] = key
                n += 1
            for j in range(i + 1, min(i + longest, stop)):
                key = combined(key, keys[j])
                if j - i + 1 >= shortest:
                    out[n] = key
                    n += 1
    first_gram[first_word.shape[0] - 1] = n


@njit(**JIT)
def character_grams(text, starts, first_character, shortest, longest, within_words, grams, first_gram):
    """Hash the n-grams of characters; within_words: as scikit-learn's ``char_wb``, none goes beyond a word and the
    spaces beside it, and words that are shorter than an n-gram count once.

    text, starts, first_character: as ``characters`` filled them. For the others see ``word_grams``; where words
    share the spaces between them there may be half as many n-grams more.
    """
    n = 0
    for document in range(first_character.shape[0] - 1):
        first_gram[document] = n
        first, stop = first_character[document], first_character[document + 1]
        if not within_words:
            for size in range(shortest, longest + 1):
                for i in range(first, stop - size + 1):
                    n = _slice(text, starts[i], starts[i + size], grams, n)
            continue
        i = first  # the space before a word
        while i < stop - 1:
            end = i + 1
            while text[starts[end]] != SPACE:
                end += 1
            end += 1  # behind the space behind it
            for size in range(shortest, longest + 1):
                n = _slice(text, starts[i], starts[min(i + size, end)], grams, n)
                for k in range(i + 1, end - size + 1):
                    n = _slice(text, starts[k], starts[k + size], grams, n)
                if i + size >= end:
                    break
            i = end - 1
    first_gram[first_character.shape[0] - 1] = n


@njit(**JIT, **CALLED)
def _slice(text, start, stop, grams, n):
    grams[n, 0], grams[n, 1], grams[n, 2] = _hash(text, start, stop), start, stop - start
    return n + 1


@njit(**JIT)
def distinct(grams, first_gram, seen):
    """Keep of each document's n-grams the first of each kind, in place, and add how often it is there to its
    length: ``grams[:, 2]`` becomes count << 32 | length. ``first_gram`` changes with it.

    seen: (2^k,) int64 workspace, at least twice the n-grams of any document.
    """
    seen[:] = 0
    n = 0
    start = 0
    for document in range(first_gram.shape[0] - 1):
        stop = first_gram[document + 1]
        places = 16
        while places < 2 * (stop - start):
            places *= 2
        mask = np.uint64(places - 1)
        first_gram[document] = n
        for i in range(start, stop):
            key = grams[i, 0]
            at = key & mask
            while seen[at] > first_gram[document] and grams[seen[at] - 1, 0] != key:
                at = (at + ONE) & mask
            if seen[at] > first_gram[document]:
                grams[seen[at] - 1, 2] += ONE << S32
            else:
                grams[n, 0], grams[n, 1], grams[n, 2] = key, grams[i, 1], grams[i, 2] | ONE << S32
                n += 1
                seen[at] = n
        start = stop
    first_gram[first_gram.shape[0] - 1] = n
