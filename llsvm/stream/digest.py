"""RowsDigest: what tells a data set from others of the same shape, taken as its rows go by.

Of files it takes the fingerprints, where their readers have them; of the first rows values, labels and sample
weights, of the others labels and weights of some. It does not depend on how rows are cut into blocks, so not on the
memory limit; and it costs less than a hundredth of reading the rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block
from llsvm.files.fingerprint import FileFingerprint

FIRST_ROWS = 10_000  # all of which count
EVERY = 16  # of the rows after them
_GOLDEN, _SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(44)  # 20 bits of a row's number, mixed


class RowsDigest:
    """Digest of the rows of one reading."""

    def __init__(self) -> None:
        self._by_class: NDArray[np.float64] = np.zeros(
            0
        )  # sums of mixed row numbers, whole numbers below 2^53, by class id
        self._values = [0, 0, 0]  # checksums of the first rows' values, columns and lengths
        self._weights = self._targets = 0
        self._n_rows = 0

    def add(self, block: Block, y: NDArray[Any]) -> None:
        """Take in the next rows, as the source has them. y: (n,) int32, ids of their labels in any order of labels;
        or float64 targets."""
        first = min(max(FIRST_ROWS - self._n_rows, 0), block.n_rows)
        if first:
            self._add_values(block.slice(0, first))
            self._add_labels(block, y, slice(0, first))
        if first < block.n_rows:
            self._add_labels(block, y, slice(first + -(self._n_rows + first) % EVERY, None, EVERY))
        self._n_rows += block.n_rows

    def _add_labels(self, block: Block, y: NDArray[Any], rows: slice) -> None:
        if y.dtype.kind == "f":
            self._targets = _checksum(y[rows], self._targets)
        else:
            mixed = (block.rows[rows].astype(np.uint64) * _GOLDEN) >> _SHIFT
            sums = np.bincount(y[rows], mixed, len(self._by_class)).astype(np.float64)
            sums[: len(self._by_class)] += self._by_class
            self._by_class = sums
        if block.weight is not None:
            self._weights = _checksum(block.weight[rows], self._weights)

    def _add_values(self, block: Block) -> None:
        X = block.X
        parts: list[NDArray[Any]] = [X] if not isinstance(X, CSR) else []
        if isinstance(X, CSR):
            stored = slice(X.indptr[0], X.indptr[-1])
            parts = [X.data[stored], X.indices[stored], np.diff(X.indptr)]
        for number, part in enumerate(parts):  # each by itself: else it would matter where rows are cut
            self._values[number] = _checksum(part, self._values[number])

    def of(self, rank: NDArray[np.int32], fingerprints: Sequence[FileFingerprint] | None) -> str:
        """Return the digest, 32 hexadecimal digits.

        rank: (n_classes,) the position of each id's label among the labels in ascending order. fingerprints: of the
        files, None where there are none."""
        by_class = np.zeros(len(rank))
        by_class[rank[: len(self._by_class)]] = self._by_class  # ids that no row that counts has are the last
        whole = hashlib.blake2b(by_class.tobytes(), digest_size=16)
        whole.update(f"{self._n_rows} {self._values} {self._weights}".encode())
        if self._targets:
            whole.update(f" {self._targets}".encode())
        for each in fingerprints or ():
            whole.update(each.digest.encode())
        return whole.hexdigest()


def _checksum(part: NDArray[Any], before: int) -> int:
    return crc32(np.ascontiguousarray(part).data, before) if part.size else before
