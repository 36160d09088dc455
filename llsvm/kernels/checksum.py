"""Checksums of bytes: ``checksum`` of files, several times as fast as memory delivers them, and ``fletcher`` of
pages.

Twins in plain Python are in ``tests/test_fingerprints.py`` and ``tests/test_kernels.py``.
"""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

import numpy as np

from llsvm.kernels.intrinsics import load_word
from llsvm.kernels.options import JIT, njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, odd: its multiples differ in all bits
LOW_HALF, HALF, EIGHT, ONE, ZERO = (np.uint64(n) for n in (0xFFFFFFFF, 32, 8, 1, 0))


@njit(**JIT)
def checksum(data, state):
    """Go on with the checksum of a stream of bytes, taken as little-endian words of 64 bits.

    The sum over words i of low · high + word, with low and high the halves of word XOR (i + 1) · GOLDEN: the NH of
    Black, Halevi, Krawczyk, Krovetz and Rogaway, "UMAC: Fast and Secure Message Authentication" (1999), with
    keys that everybody knows. It vectorises, as no word waits for the one before.

    data: (n,) uint8, the next bytes.
    state: (4,) uint64, zeros in the beginning, changed in place:
        state[0]: the sum so far
        state[1]: number of words so far times GOLDEN
        state[2]: the bytes of a word that is not complete yet
        state[3]: how many these are, 0 to 7
    """
    total, key, rest, n_rest = state[0], state[1], state[2], state[3]
    n = data.shape[0]
    k = 0
    while k < n and n_rest > ZERO:
        rest |= np.uint64(data[k]) << (EIGHT * n_rest)
        n_rest += ONE
        k += 1
        if n_rest == EIGHT:
            key += GOLDEN
            mixed = rest ^ key
            total += (mixed & LOW_HALF) * (mixed >> HALF) + rest
            rest = n_rest = ZERO
    n_words = (n - k) // 8
    for i in range(n_words):
        word = load_word(data, k + 8 * i)
        mixed = word ^ (key + np.uint64(i + 1) * GOLDEN)
        total += (mixed & LOW_HALF) * (mixed >> HALF) + word
    key += np.uint64(n_words) * GOLDEN
    k += 8 * n_words
    while k < n:
        rest |= np.uint64(data[k]) << (EIGHT * n_rest)
        n_rest += ONE
        k += 1
    state[0], state[1], state[2], state[3] = total, key, rest, n_rest


@njit(**JIT)
def fletcher(data, state):
    """Go on with Fletcher's checksum of a stream of bytes, taken as little-endian words of 64 bits.

    data: (n,) uint8, the next bytes.
    state: (4,) uint64, zeros in the beginning, changed in place:
        state[0]: the sum of the words
        state[1]: the sum of these sums, as they grew
        state[2]: the bytes of a word that is not complete yet
        state[3]: how many these are, 0 to 7
    """
    total, sums, rest, n_rest = state[0], state[1], state[2], state[3]
    n = data.shape[0]
    k = 0
    while k < n and n_rest > 0:
        rest |= np.uint64(data[k]) << (np.uint64(8) * n_rest)
        n_rest += np.uint64(1)
        k += 1
        if n_rest == 8:
            total += rest
            sums += total
            rest = n_rest = np.uint64(0)
    for _ in range((n - k) // 8):  # eight bytes side by side become one load
        word = np.uint64(data[k]) | np.uint64(data[k + 1]) << np.uint64(8)
        word |= np.uint64(data[k + 2]) << np.uint64(16) | np.uint64(data[k + 3]) << np.uint64(24)
        word |= np.uint64(data[k + 4]) << np.uint64(32) | np.uint64(data[k + 5]) << np.uint64(40)
        word |= np.uint64(data[k + 6]) << np.uint64(48) | np.uint64(data[k + 7]) << np.uint64(56)
        total += word
        sums += total
        k += 8
    while k < n:
        rest |= np.uint64(data[k]) << (np.uint64(8) * n_rest)
        n_rest += np.uint64(1)
        k += 1
    state[0], state[1], state[2], state[3] = total, sums, rest, n_rest
