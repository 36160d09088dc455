"""Writes made-up svmlight rows as text, as fast as a disk takes them."""

from __future__ import annotations

import numpy as np

from llsvm.kernels.options import JIT, njit

MAX_ROW_BYTES = 20_000  # a row has about 110 values of 13 bytes; the chance of so many is nil


@njit(**JIT)
def write_rows(seed, n_features, text):  # type: ignore[no-untyped-def]
    """Write whole rows, as many as there is room for; returns (bytes written, rows written).

    seed: int, of the random numbers.
    n_features: int, the largest column number.
    text: (any,) uint8, filled from the front.
    Column numbers grow by random steps in proportion to themselves, so that low columns are common and high
    ones rare, as words are. The label is the sign of a fixed linear function of the values, with noise.
    """
    np.random.seed(seed)
    at = rows = 0
    while at + MAX_ROW_BYTES <= len(text):
        start = at
        at += 2  # the label is known at the end of the row
        score = 0.25 * np.random.normal()
        column = 1 + int(4 * np.random.random())
        while column <= n_features and at < start + MAX_ROW_BYTES - 16:
            value = 1 + int(999 * np.random.random())
            score += value * 1e-3 * np.sin(1.7 * column)
            text[at] = 32
            size = 1
            power = 10
            while power <= column:
                power *= 10
                size += 1
            rest = column
            for p in range(at + size, at, -1):
                text[p] = 48 + rest % 10
                rest //= 10
            at += size + 1
            text[at] = 58
            text[at + 1] = 48
            text[at + 2] = 46
            text[at + 3] = 48 + value // 100
            text[at + 4] = 48 + value // 10 % 10
            text[at + 5] = 48 + value % 10
            at += 6
            column += 1 + int(column * 0.2 * np.random.random())
        text[start] = 43 if score > 0 else 45
        text[start + 1] = 49
        text[at] = 10
        at += 1
        rows += 1
    return at, rows
