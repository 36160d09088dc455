"""What is made of the n-grams of documents (``llsvm.kernels.text``): ``count`` counts the documents that have
them, and ``encode`` makes rows of them."""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

import numpy as np

from llsvm.kernels.intrinsics import fetch, load_word
from llsvm.kernels.options import JIT, njit

COUNTS, BINARY, SUBLINEAR = 0, 1, 2  # what a value is made of

TWO, ONE, ZERO = (np.uint64(n) for n in (2, 1, 0))
S32, S64 = np.uint64(32), np.uint64(64)
SORT_BY_DIGITS = 24  # columns of a row; fewer are put in their places one by one
LOW_HALF = np.uint64(0xFFFFFFFF)
KEY_BITS, ENTRY_BYTES = 48, 10  # of an n-gram that has a column: of its key, and with the column's four bytes
KEY_MASK, OTHER_BITS = np.uint64((1 << KEY_BITS) - 1), np.uint64(64 - KEY_BITS)


@njit(**JIT)
def _down(places):
    """By how many bits a key's 32 are shifted to be a place in a table of 2^k, k <= 32."""
    bits = 0
    while (1 << bits) < places:
        bits += 1
    return np.uint64(32 - bits)


@njit(**JIT)
def count(grams, begin, stop, text, shard, n_shards, table, strings, state):
    """Count documents and occurrences of n-grams in an open-addressing table; new ones are written down.

    A key's place is by its high bits, so that the table is all but sorted: what is sorted, or put into a larger
    one, is read and written in order.

    grams: as ``distinct`` left them; begin, stop: of these. text: in which they are slices.
    shard, n_shards: int, those n-grams are counted whose key's high bits say so.
    table: (2^k, 4) uint64: key (0: empty), documents << 32 | length, occurrences, place in ``strings``.
    strings: (any,) uint8, filled.
    state: (2,) int64: n-grams in the table, bytes of ``strings`` used.
    Returns where it stopped: before ``stop`` if the table is three quarters full or ``strings`` has no room.
    """
    mask = np.uint64(table.shape[0] - 1)
    down = _down(table.shape[0])
    most = table.shape[0] // 4 * 3
    places = table.reshape(-1)
    shards, own = np.uint64(n_shards), np.uint64(shard)
    for i in range(begin, stop):
        if i + 8 < stop:
            ahead = (grams[i + 8, 0] >> S32) * shards
            if ahead >> S32 == own:
                fetch(places, np.int64((ahead & LOW_HALF) >> down << TWO))
        key = grams[i, 0]
        place = (key >> S32) * shards
        if place >> S32 != own:
            continue
        at = (place & LOW_HALF) >> down
        while table[at, 0] != key and table[at, 0] != ZERO:
            at = (at + ONE) & mask
        if table[at, 0] == ZERO:
            length = np.int64(grams[i, 2] & LOW_HALF)
            used = state[1]
            if state[0] >= most or used + length > strings.shape[0]:
                return i
            table[at, 0], table[at, 1], table[at, 2], table[at, 3] = (
                key,
                np.uint64(length),
                ZERO,
                np.uint64(used),
            )
            start = np.int64(grams[i, 1])
            for k in range(length):
                strings[used + k] = text[start + k]
            state[0] += 1
            state[1] = used + length
        table[at, 1] += ONE << S32
        table[at, 2] += grams[i, 2] >> S32
    return stop


@njit(**JIT)
def grow(old, new, n_shards):
    """Put what is in a table of ``count`` into a larger, empty one."""
    mask = np.uint64(new.shape[0] - 1)
    down = _down(new.shape[0])
    shards = np.uint64(n_shards)
    for i in range(old.shape[0]):
        if old[i, 0] != ZERO:
            at = ((old[i, 0] >> S32) * shards & LOW_HALF) >> down
            while new[at, 0] != ZERO:
                at = (at + ONE) & mask
            new[at, 0], new[at, 1], new[at, 2], new[at, 3] = old[i, 0], old[i, 1], old[i, 2], old[i, 3]


@njit(**JIT)
def gather(strings, starts, lengths, out):
    """Put slices of ``strings`` one behind the other: (n,) int64 each, where they start and their bytes."""
    q = 0
    for i in range(starts.shape[0]):
        for k in range(lengths[i]):
            out[q + k] = strings[starts[i] + k]
        q += lengths[i]


@njit(**JIT)
def _sort(columns, n, bits, other, counts):
    """Sort the first ``n`` columns (uint32, below 2^bits) by their digits, the low ones first. other: as long, and
    counts: (4, 256) int64, workspaces. Returns where they are: True in ``other``."""
    if n < SORT_BY_DIGITS:
        for i in range(1, n):
            column, at = columns[i], i
            while at > 0 and columns[at - 1] > column:
                columns[at] = columns[at - 1]
                at -= 1
            columns[at] = column
        return False
    digits = (bits + 7) // 8
    width = np.uint32((bits + digits - 1) // digits)
    mask = np.uint32((1 << width) - 1)
    for digit in range(digits):
        for value in range(mask + 1):
            counts[digit, value] = 0
    for i in range(n):
        column = columns[i]
        for digit in range(digits):
            counts[digit, column & mask] += 1
            column >>= width
    down = np.uint32(0)
    for digit in range(digits):
        place = 0
        for value in range(mask + 1):
            count = counts[digit, value]
            counts[digit, value] = place
            place += count
        for i in range(n):
            value = columns[i] >> down & mask
            other[counts[digit, value]] = columns[i]
            counts[digit, value] += 1
        columns, other = other, columns
        down += width
    return digits & 1 == 1


@njit(**JIT)
def encode(
    keys,
    first,
    entries,
    buckets,
    column_bits,
    hashed,
    places,
    alone,
    shared_from,
    shared,
    tf,
    unit,
    found,
    values,
    indptr,
    indices,
    data,
):
    """Rows of documents: values by column, the columns ascending.

    keys, first: (grams,) uint64, the n-grams of documents, as often as they are there; (documents + 1,) int64.
    entries: (ENTRY_BYTES * n,) uint8, of the n-grams that have a column, ascending by key; others are left out:
        KEY_BITS of the key, those that its bucket does not have, and the column, both little-endian.
    buckets: (2^b + 1,) int32, where in ``entries`` those begin whose key's b high bits are these.
    column_bits: int, columns are below 2^column_bits.
    hashed: bool, columns are that many high bits of keys instead, and the two above are not looked at.
    places: (2^column_bits,) int32, where such columns are put, or (0,): they stay.
    alone, shared_from, shared: by which counts are multiplied, such as inverse document frequencies: (m,) float64
        of the first columns; (runs,) int32, ascending, and float64: of those from such a column on. All (0,): 1.
    tf: int, COUNTS, BINARY or SUBLINEAR (1 + log count). unit: bool, rows get the length 1.
    found: (2, most of a document) uint32, values: (most of a document,) float64, workspaces.
    indptr: (documents + 1,) int64; indices: (grams,) int32; data: (grams,) float32; filled.
    """
    down = S64 - np.uint64(column_bits)
    bits = 0
    while (1 << bits) < buckets.shape[0] - 1:
        bits += 1
    to_bucket, in_bucket = np.uint64(64 - bits), np.uint64(bits)
    counts = np.empty((4, 256), np.int64)
    k = 0
    indptr[0] = 0
    for document in range(first.shape[0] - 1):
        start, stop = first[document], first[document + 1]
        n = 0
        if hashed and places.shape[0] > 0:
            for i in range(start, stop):
                if i + 8 < stop:
                    fetch(places, np.int64(keys[i + 8] >> down))
                found[0, i - start] = places[keys[i] >> down]
            n = stop - start
        elif hashed:
            for i in range(start, stop):
                found[0, i - start] = keys[i] >> down
            n = stop - start
        else:
            for i in range(start, stop):
                if i + 8 < stop:
                    fetch(buckets, np.int64(keys[i + 8] >> to_bucket))
                if i + 4 < stop:
                    fetch(entries, np.int64(buckets[keys[i + 4] >> to_bucket]) * ENTRY_BYTES)
                bucket, rest = keys[i] >> to_bucket, (keys[i] << in_bucket) >> OTHER_BITS
                at = np.int64(buckets[bucket]) * ENTRY_BYTES
                end = np.int64(buckets[bucket + ONE]) * ENTRY_BYTES
                while at < end and load_word(entries, at) & KEY_MASK < rest:
                    at += ENTRY_BYTES
                if at < end and load_word(entries, at) & KEY_MASK == rest:
                    found[0, n] = load_word(entries, at + ENTRY_BYTES - 8) >> S32
                    n += 1
        moved = _sort(found[0], n, column_bits, found[1], counts)
        row = found[1] if moved else found[0]
        length, m, i = 0.0, 0, 0
        while i < n:
            column, begin = row[i], i
            i += 1
            while i < n and row[i] == column:
                i += 1
            value = np.float64(i - begin)
            if tf == BINARY:
                value = 1.0
            elif tf == SUBLINEAR:
                value = 1.0 + np.log(value)
            if column < alone.shape[0]:
                value *= alone[column]
            elif shared.shape[0] > 0:
                low, high = 0, shared.shape[0]
                while high - low > 1:
                    middle = (low + high) // 2
                    if shared_from[middle] <= column:
                        low = middle
                    else:
                        high = middle
                value *= shared[low]
            length += value * value
            indices[k + m] = column
            values[m] = value
            m += 1
        length = np.sqrt(length) if unit and length > 0.0 else 1.0
        for i in range(m):
            data[k + i] = values[i] / length
        k += m
        indptr[document + 1] = k
