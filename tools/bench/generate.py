"""Makes large svmlight files with a planted separator and label noise, some hundred MB a second.

``text``: sparse rows like tf-idf vectors of documents: column popularity follows Zipf's law, rows have unit
length. ``dense``: rows like image features: every column filled, correlated, rows
of unit length too.

    python -m tools.bench.generate text text.svm --rows 1800000
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

CHUNK_ROWS = {"text": 20_000, "dense": 2_000}
TEXT_COLUMNS, TEXT_VALUES_PER_ROW = 200_000, 100  # drawn; some 80 of them differ
DENSE_COLUMNS = 1200
NOISE = 0.05  # share of labels flipped


def text_rows(n: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any], NDArray[Any]]:
    """n sparse rows (indptr, indices ascending, data in 1/10000) and labels ±1."""
    rng = np.random.default_rng([seed, 1])
    columns, per_row = TEXT_COLUMNS, TEXT_VALUES_PER_ROW
    weights = np.random.default_rng(0).normal(size=columns)  # the planted separator: the same for every seed
    # Zipf with exponent 1 by inversion: column = exp(u log d), popular columns first
    drawn = np.exp(rng.random((n, per_row)) * np.log(columns)).astype(np.int32)
    drawn.sort(axis=1)
    fresh = np.ones(drawn.shape, bool)
    fresh[:, 1:] = drawn[:, 1:] != drawn[:, :-1]
    values = rng.exponential(size=drawn.shape) + np.log1p(drawn) / 4  # rarer terms weigh more, as idf has it
    values[~fresh] = 0
    values /= np.sqrt(np.einsum("ij,ij->i", values, values))[:, None]
    scaled = np.maximum(np.rint(values * 10_000), 1).astype(np.int32)
    score = np.einsum("ij,ij->i", values, weights[drawn])
    y = np.where((score > 0) ^ (rng.random(n) < NOISE), 1, -1)
    lengths = fresh.sum(axis=1)
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    return indptr, drawn[fresh], scaled[fresh], y


def dense_rows(n: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any], NDArray[Any]]:
    """n filled rows like ``text_rows``: correlated features (a few factors and noise), rows of unit length."""
    rng = np.random.default_rng([seed, 2])
    d = DENSE_COLUMNS
    plan = np.random.default_rng(0)
    factors = plan.normal(size=(40, d)).astype(np.float32)
    weights = plan.normal(size=d).astype(np.float32)
    raw = 0.1 * (rng.normal(size=(n, 40)).astype(np.float32) @ factors) + rng.standard_normal(
        (n, d), np.float32
    )
    score = raw @ weights
    raw /= np.sqrt(np.einsum("ij,ij->i", raw, raw))[:, None]
    scaled = np.rint(raw * 10_000).astype(np.int32)
    scaled[scaled == 0] = 1  # filled: every cell is written
    y = np.where((score > 0) ^ (rng.random(n) < NOISE), 1, -1)
    indptr = np.arange(n + 1, dtype=np.int64) * d
    return indptr, np.tile(np.arange(d, dtype=np.int32), n), scaled.reshape(-1), y


@njit(cache=True, nogil=True)
def _format(indptr, indices, data, y, out):  # type: ignore[no-untyped-def]
    """Rows as svmlight text, one-based, values as [-]0.dddd; returns the bytes written."""
    at = 0
    digits = np.empty(12, np.uint8)
    for i in range(len(y)):
        out[at] = 43 if y[i] > 0 else 45  # + or -
        out[at + 1] = 49  # 1
        at += 2
        for k in range(indptr[i], indptr[i + 1]):
            out[at] = 32
            at += 1
            n = 0
            j = indices[k] + 1
            while j > 0:
                digits[n] = 48 + j % 10
                j //= 10
                n += 1
            for m in range(n - 1, -1, -1):
                out[at] = digits[m]
                at += 1
            out[at] = 58  # :
            v = data[k]
            if v < 0:
                v = -v
                out[at + 1] = 45  # -
                at += 1
            if v >= 10_000:
                out[at + 1] = 49
                at += 2
                continue
            out[at + 1] = 48
            out[at + 2] = 46
            out[at + 3] = 48 + v // 1000
            out[at + 4] = 48 + v // 100 % 10
            out[at + 5] = 48 + v // 10 % 10
            out[at + 6] = 48 + v % 10
            at += 7
            while out[at - 1] == 48:
                at -= 1
        out[at] = 10
        at += 1
    return at


def generate(kind: str, path: str | os.PathLike[str], rows: int, seed: int = 0, threads: int = 2) -> int:
    """Write ``rows`` rows of a kind ("text" or "dense") to ``path``; returns the bytes written."""
    make = {"text": text_rows, "dense": dense_rows}[kind]
    step = CHUNK_ROWS[kind]

    def chunk(number: int) -> bytes:
        n = min(step, rows - number * step)
        indptr, indices, data, y = make(n, seed * 1_000_003 + number)
        return as_text(indptr, indices, data, y)

    return write_chunks(path, chunk, -(-rows // step), threads)


def as_text(
    indptr: NDArray[np.int64], indices: NDArray[np.int32], data: NDArray[np.int32], y: NDArray[np.int64]
) -> bytes:
    """CSR rows as svmlight text; data: the values times 10,000, y: -1 or +1."""
    out = np.empty(17 * len(indices) + 8 * len(y), np.uint8)
    return out[: _format(indptr, indices, data, y, out)].tobytes()


def write_chunks(
    path: str | os.PathLike[str], chunk: Callable[[int], bytes], count: int, threads: int
) -> int:
    """Write ``chunk(0)`` to ``chunk(count - 1)``, made in threads, to ``path``; returns the bytes."""
    written = 0
    with open(path, "wb") as file, ThreadPoolExecutor(threads) as pool:
        for first in range(0, count, 2 * threads):  # a few at a time: bounded memory
            for text in pool.map(chunk, range(first, min(first + 2 * threads, count))):
                written += file.write(text)
    return written


def main() -> None:
    import argparse

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("text", "dense"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--rows", type=int, default=None, help="default: about 2 GB")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rows = args.rows or {"text": 2_200_000, "dense": 160_000}[args.kind]
    size = generate(args.kind, args.path, rows, args.seed)
    print(f"{args.path}: {rows:,} rows, {size / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
