"""Writes the rows of an svmlight file over and over, with a little noise on the values: real data of any size.

Values other than 0 and 1 (indicators stay what they are) get normal noise of standard deviation ``--noise`` and are
rounded to four decimals and cut off at ±1, so scale the file to [-1, 1] first.

    python -m tools.bench.replicate covtype.svm covtype10m.svm --rows 10000000
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from tools.bench.generate import as_text, write_chunks

CHUNK_ROWS = 50_000


def replicate(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    rows: int,
    noise: float = 0.005,
    seed: int = 0,
    threads: int = 2,
) -> int:
    """Write ``rows`` noisy rows of ``source`` (classes -1, +1; held in memory) to ``path``; returns the bytes."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(os.fspath(source), dtype=np.float32, zero_based=False)
    indptr, indices = X.indptr.astype(np.int64), X.indices.astype(np.int32)
    sign = np.where(y > 0, 1, -1)

    def chunk(number: int) -> bytes:
        rng = np.random.default_rng([seed, number])
        first = number * CHUNK_ROWS
        take = np.arange(first, min(first + CHUNK_ROWS, rows)) % len(sign)
        lengths = indptr[take + 1] - indptr[take]
        starts = np.zeros(len(take) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        at = np.arange(starts[-1]) + np.repeat(indptr[take] - starts[:-1], lengths)
        values = X.data[at]
        moved = values + noise * rng.standard_normal(len(values), np.float32)
        values = np.where((values == 0) | (values == 1), values, np.clip(moved, -1, 1))
        data = np.rint(values * 10_000).astype(np.int32)
        return as_text(starts, indices[at], data, sign[take])

    return write_chunks(path, chunk, -(-rows // CHUNK_ROWS), threads)


def main() -> None:
    import argparse

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("path", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--noise", type=float, default=0.005)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    size = replicate(args.source, args.path, args.rows, args.noise, args.seed)
    print(f"{args.path}: {args.rows:,} rows, {size / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
