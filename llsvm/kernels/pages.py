"""Copying sparse rows, packing them small (column numbers as 16-bit differences, values as codes).

A twin of each, in plain Python, is in ``tests/test_kernels.py``.
"""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

import numpy as np

from llsvm.kernels.options import JIT, njit

ESCAPE = 0xFFFF  # the next two numbers are the column number itself, low half first
ONE, TWO, THREE = np.uint64(1), np.uint64(2), np.uint64(3)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd: Knuth's multiplicative hashing


@njit(**JIT)
def gather(indptr, indices, data, rows, out_indptr, out_indices, out_data):
    """Copy some rows of a CSR matrix to where ``out_indptr[0]`` says.

    indptr: (n + 1,) int64, indices: (nnz,) int32, data: (nnz,) float32 or float64: the matrix.
    rows: (m,) int64, row numbers; ascending where the output is the input itself (rows then only move to the
        front).
    out_indptr: (m + 1,) int64, filled from its second entry on.
    out_indices: (any,) int32, written from ``out_indptr[0]`` on.
    out_data: (any,) as data, written from ``out_indptr[0]`` on.
    """
    at = np.uint64(out_indptr[0])
    for t in range(rows.shape[0]):
        i = rows[t]
        first, n = np.uint64(indptr[i]), np.uint64(indptr[i + 1] - indptr[i])
        for k in range(n):
            out_indices[at + k] = indices[first + k]
            out_data[at + k] = data[first + k]
        at += n
        out_indptr[t + 1] = at


@njit(**JIT)
def scatter(indptr, indices, data, out):
    """Write CSR rows into a dense array, zeros elsewhere. A column that comes twice has its last value.

    indptr: (n + 1,) int64, indices: (nnz,) int32, data: (nnz,) float32 or float64: the rows.
    out: (n, d) as data, filled; d is larger than every column number.
    """
    for i in range(indptr.shape[0] - 1):
        row = out[i]
        row[:] = 0
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            row[np.uint32(indices[k])] = data[k]


@njit(**JIT)
def pack_indices(indptr, indices, out):
    """Write each row's column numbers as differences, the first as it is; a difference that is negative or beyond
    65,534 is ESCAPE and the column number in two halves.

    indptr: (n + 1,) int64, offsets into indices.
    indices: (nnz,) int32, column numbers.
    out: (any,) uint16, filled from the front.
    Returns how many numbers were written, or -1 if there is no room for all.
    """
    n = np.uint64(0)
    room = out.shape[0] - 3
    for i in range(indptr.shape[0] - 1):
        before = np.int64(0)
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            if np.int64(n) > room:
                return -1
            column = np.int64(indices[k])
            step = column - before
            if 0 <= step < ESCAPE:
                out[n] = step
                n += ONE
            else:
                out[n] = ESCAPE
                out[n + ONE] = column & 0xFFFF
                out[n + TWO] = column >> 16
                n += THREE
            before = column
    return np.int64(n)


@njit(**JIT)
def unpack_indices(indptr, packed, out):
    """Invert ``pack_indices``.

    indptr: (n + 1,) int64, offsets into out, from 0.
    packed: (any,) uint16, what ``pack_indices`` wrote.
    out: (indptr[n],) int32, column numbers, filled.
    """
    n = np.uint64(0)
    for i in range(indptr.shape[0] - 1):
        column = np.int64(0)
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            step = np.int64(packed[n])
            if step != ESCAPE:
                column += step
                n += ONE
            else:
                column = np.int64(packed[n + ONE]) | np.int64(packed[n + TWO]) << 16
                n += THREE
            out[k] = column


@njit(**JIT)
def pack_values(bits, codes, table, slots):
    """Number the different values by first appearance: codes[k] = number of bits[k], table[number] = bits[k].

    bits: (n,) uint32 or uint64, float32 or float64 values as they are stored.
    codes: (n,) uint16, filled.
    table: (m,) as bits, filled; m is the most values that may be told apart.
    slots: (power of two above m,) int32, zeros; scratch.
    Returns how many different values there are, or -1 if the table is too small.
    """
    n = 0
    mask = np.uint64(slots.shape[0] - 1)
    shift = np.uint64(64)
    while mask >> (np.uint64(64) - shift):
        shift -= ONE
    for k in range(bits.shape[0]):
        b = bits[k]
        at = np.uint64(b) * GOLDEN >> shift  # the product's highest bits depend on all of b's
        while True:
            code = slots[at]
            if code == 0:
                if n == table.shape[0]:
                    return -1
                table[n] = b
                n += 1
                slots[at] = n
                codes[k] = n - 1
                break
            if table[np.uint32(code - 1)] == b:
                codes[k] = code - 1
                break
            at = (at + ONE) & mask
    return n


@njit(**JIT)
def unpack_values(codes, table, out):
    """out[k] = table[codes[k]].

    codes: (n,) uint8 or uint16, all within the table.
    table: (m,) float32 or float64, the different values.
    out: (n,) as table, filled.
    """
    for k in range(codes.shape[0]):
        out[k] = table[codes[k]]


@njit(**JIT)
def pack_rows(indptr, bits, usual, n_odd, odd, table, slots):
    """Number the different values as ``pack_values`` does, where most of a row are the same as its last, such as
    those of n-grams that are there once. Of the others, place and number are kept.

    indptr: (n + 1,) int64, offsets into bits.
    bits: (nnz,) uint32 or uint64, float32 or float64 values as they are stored.
    usual: (n,) uint16, filled: the number of each row's last value, 0 of a row without values.
    n_odd: (n,) uint16, filled: how many values of each row are others.
    odd: (any,) uint16, filled from the front: of each of these its place in the row, and its number.
    table, slots: see ``pack_values``.
    Returns how many numbers ``odd`` got, and how many different values there are; -1 for the first if ``odd`` or
    the table is too small, or a row too long.
    """
    n = 0
    k = np.uint64(0)
    mask = np.uint64(slots.shape[0] - 1)
    shift = np.uint64(64)
    while mask >> (np.uint64(64) - shift):
        shift -= ONE
    for i in range(indptr.shape[0] - 1):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        usual[i], n_odd[i] = 0, 0
        if first == last:
            continue
        if last - first > ESCAPE or k + TWO * (last - first) > np.uint64(odd.shape[0]):
            return -1, n
        begin, last_bits = k, bits[last - ONE]
        for j in range(first, last):
            b = bits[j]
            if b == last_bits and j + ONE < last:
                continue
            at = np.uint64(b) * GOLDEN >> shift
            code = slots[at]
            while code != 0 and table[np.uint32(code - 1)] != b:
                at = (at + ONE) & mask
                code = slots[at]
            if code == 0:
                if n == table.shape[0]:
                    return -1, n
                table[n] = b
                n += 1
                slots[at] = code = n
            if j + ONE == last:
                usual[i] = code - 1
            else:
                odd[k] = j - first
                odd[k + ONE] = code - 1
                k += TWO
        n_odd[i] = (k - begin) >> ONE
    return np.int64(k), n


@njit(**JIT)
def unpack_rows(indptr, usual, n_odd, odd, table, out):
    """Invert ``pack_rows``; table: (any,) float32 or float64, out: (nnz,) as table, filled."""
    k = np.uint64(0)
    for i in range(indptr.shape[0] - 1):
        first, value = np.uint64(indptr[i]), table[usual[i]]
        for j in range(first, np.uint64(indptr[i + 1])):
            out[j] = value
        for _ in range(n_odd[i]):
            out[first + odd[k]] = table[odd[k + ONE]]
            k += TWO
