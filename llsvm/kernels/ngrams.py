"""What is made of the n-grams of documents (``llsvm.kernels.text``): ``count`` counts the documents that have
them, and ``encode`` makes rows of them."""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

import numpy as np

from llsvm.kernels.intrinsics import fetch, load_word, trailing_zeros
from llsvm.kernels.options import CALLED, JIT, njit

COUNTS, BINARY, SUBLINEAR = 0, 1, 2  # what a value is made of

TWO, ONE, ZERO = (np.uint64(n) for n in (2, 1, 0))
AHEAD, HALF_AHEAD = (
    np.uint64(32),
    np.uint64(16),
)  # n-grams: places in tables are fetched so early
S32, S64 = np.uint64(32), np.uint64(64)
SORT_BY_DIGITS = 24  # columns of a row; fewer are put in their places one by one
COUNTED = 1024  # of the first columns, each is counted in its place, not sorted
FEW = 16  # times that an n-gram is there: fewer are looked up, not worked out
SIX, LOW_SIX, BEYOND = np.uint32(6), np.uint32(63), np.uint32(COUNTED)
LOW_HALF = np.uint64(0xFFFFFFFF)
KEY_BITS, ENTRY_BYTES = 48, 10  # of an n-gram that has a column: of its key, and with the column's four bytes
KEY_MASK, OTHER_BITS = np.uint64((1 << KEY_BITS) - 1), np.uint64(64 - KEY_BITS)


@njit(**JIT, **CALLED)
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
    limit = table.shape[0] // 4 * 3
    places = table.reshape(-1)
    shards, this_shard = np.uint64(n_shards), np.uint64(shard)
    for i in range(begin, stop):
        if i + 8 < stop:
            next_place = (grams[i + 8, 0] >> S32) * shards
            if next_place >> S32 == this_shard:
                fetch(places, np.int64((next_place & LOW_HALF) >> down << TWO))
        key = grams[i, 0]
        place = (key >> S32) * shards
        if place >> S32 != this_shard:
            continue
        at = (place & LOW_HALF) >> down
        while table[at, 0] != key and table[at, 0] != ZERO:
            at = (at + ONE) & mask
        if table[at, 0] == ZERO:
            length = np.int64(grams[i, 2] & LOW_HALF)
            used = state[1]
            if state[0] >= limit or used + length > strings.shape[0]:
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


@njit(**JIT, **CALLED)
def _sort(columns, n, bits, other, counts):
    """Sort the first ``n`` columns (uint32, below 2^bits) by their digits, the low ones first. other: as long, and
    counts: (256,) int32, workspaces. Returns where they are: True in ``other``."""
    if n < SORT_BY_DIGITS:
        for i in range(ONE, n):
            column, at = columns[i], i
            while at > ZERO and columns[at - ONE] > column:
                columns[at] = columns[at - ONE]
                at -= ONE
            columns[at] = column
        return False
    digits = (bits + 7) // 8
    width = np.uint32((bits + digits - 1) // digits)
    mask = np.uint32((1 << width) - 1)
    down = np.uint32(0)
    for _ in range(digits):
        for value in range(np.uint64(mask) + ONE):
            counts[value] = 0
        for i in range(n):
            counts[columns[i] >> down & mask] += 1
        place = np.int32(0)
        for value in range(np.uint64(mask) + ONE):
            count = counts[value]
            counts[value] = place
            place += count
        for i in range(n):
            column = columns[i]
            value = column >> down & mask
            place = counts[value]
            other[np.uint32(place)] = column
            counts[value] = place + 1
        columns, other = other, columns
        down += width
    return digits & 1 == 1


@njit(**JIT, **CALLED)
def _distinct(columns, n, bits, other, counts, seen, marks, out, times):
    """Write the distinct ones of the first ``n`` columns (uint32, below 2^bits), ascending, to ``out``, and how
    often each is there to ``times``; returns how many they are. The first columns, which are frequent ones, are
    counted each in its place, so that the processor need not guess which of them come again; the rest is sorted.

    n: uint64, as the answer. other, counts: workspaces, see ``_sort``; what is in ``columns`` is lost. seen:
    (COUNTED + 1,) int32, marks: (COUNTED / 64 + 1,) uint64, of zeros, as they are again afterwards. out, times:
    (any,) int32.
    """
    rest = ZERO
    for i in range(n):
        column = columns[i]
        at = min(column, BEYOND)
        seen[at] += 1
        marks[at >> SIX] |= ONE << np.uint64(at & LOW_SIX)
        columns[rest] = column
        rest += np.uint64(column >= BEYOND)
    m = ZERO
    for word in range(np.uint64(COUNTED // 64)):
        left = marks[word]
        marks[word] = ZERO
        while left != ZERO:
            at = np.uint32(word << np.uint64(6)) + np.uint32(trailing_zeros(left))
            left &= left - ONE
            out[m], times[m] = at, seen[at]
            seen[at] = 0
            m += ONE
    marks[COUNTED // 64], seen[COUNTED] = ZERO, 0
    if rest == ZERO:
        return m
    moved = _sort(columns, rest, bits, other, counts)
    row = other if moved else columns
    before = row[ZERO]
    times[m] = 0
    for i in range(rest):  # where the next is another the place moves on, which the processor need not guess
        column = row[i]
        is_new = np.uint64(column != before)
        m += is_new
        count = np.int32(0) if is_new == ONE else times[m]
        out[m], times[m] = column, count + np.int32(1)
        before = column
    return m + ONE


@njit(**JIT, **CALLED)
def _value(times, tf):
    """Return the value of an n-gram that occurs so many times in a document."""
    if tf == BINARY:
        return 1.0
    return 1.0 + np.log(times) if tf == SUBLINEAR else times


def encode_workspaces():
    """``counts``, ``seen``, ``marks`` and ``few`` of ``encode``."""
    return (
        np.zeros(256, np.int32),
        np.zeros(COUNTED + 1, np.int32),
        np.zeros(COUNTED // 64 + 1, np.uint64),
        np.empty(FEW),
    )


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
    columns,
    times,
    values,
    counts,
    seen,
    marks,
    few,
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
    columns: (2, most of a document) uint32, times: (most of a document,) int32, values: as many, float64:
        workspaces.
    counts, seen, marks: as in ``_distinct``, and few: (FEW,) float64, see ``encode_workspaces``. LLVM takes 2 MB
        for each array that a kernel makes.
    indptr: (documents + 1,) int64, filled from its second entry on; the first says where rows begin in these:
    indices: (any,) int32; data: (any,) float32; filled.
    """
    down = S64 - np.uint64(column_bits)
    bits = 0
    while (1 << bits) < buckets.shape[0] - 1:
        bits += 1
    to_bucket, in_bucket = np.uint64(64 - bits), np.uint64(bits)
    for often in range(1, FEW):
        few[often] = _value(np.float64(often), tf)
    k = np.uint64(indptr[0])
    last = np.uint64(max(keys.shape[0], 1) - 1)
    for document in range(first.shape[0] - 1):
        start, stop = np.uint64(first[document]), np.uint64(first[document + 1])
        n = stop - start
        if hashed and places.shape[0] > 0:
            for i in range(start, stop):
                fetch(places, np.int64(keys[min(i + AHEAD, last)] >> down))
                columns[0, i - start] = places[keys[i] >> down]
        elif hashed:
            for i in range(start, stop):
                columns[0, i - start] = keys[i] >> down
        else:
            n = ZERO
            for i in range(start, stop):
                fetch(buckets, np.int64(keys[min(i + AHEAD, last)] >> to_bucket))
                next_bucket = keys[min(i + HALF_AHEAD, last)] >> to_bucket
                fetch(entries, np.int64(buckets[next_bucket]) * ENTRY_BYTES)
                bucket, rest = keys[i] >> to_bucket, (keys[i] << in_bucket) >> OTHER_BITS
                at = np.int64(buckets[bucket]) * ENTRY_BYTES
                end = np.int64(buckets[bucket + ONE]) * ENTRY_BYTES
                while at < end and load_word(entries, at) & KEY_MASK < rest:
                    at += ENTRY_BYTES
                if at < end and load_word(entries, at) & KEY_MASK == rest:
                    columns[0, n] = load_word(entries, at + ENTRY_BYTES - 8) >> S32
                    n += ONE
        m = _distinct(columns[0], n, column_bits, columns[1], counts, seen, marks, indices[k:], times)
        length = 0.0
        for i in range(m):
            each = np.uint32(times[i])
            value = few[each] if each < FEW else _value(np.float64(each), tf)
            column = indices[k + i]
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
            values[i] = value
        length = np.sqrt(length) if unit and length > 0.0 else 1.0
        for i in range(m):
            data[k + i] = values[i] / length
        k += m
        indptr[document + 1] = k
