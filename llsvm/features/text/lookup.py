"""Lookup: from the key of an n-gram to its column, in few bytes for each. See ``llsvm.kernels.ngrams.encode``.

Keys are hashes, so their high bits spread them evenly over buckets. What is kept of a key beside its bucket is the
next KEY_BITS, which with the bucket's are all 64: nothing of it is lost.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.features.text.frequencies import weights_bytes
from llsvm.features.text.vocabulary import Vocabulary
from llsvm.files.growing import let_go
from llsvm.kernels.ngrams import ENTRY_BYTES, KEY_BITS

BUCKET_BITS = (
    64 - KEY_BITS,
    21,
)  # at least, so that no bit is lost; at most, where memory is dearer than a step
_KEY_BYTES = KEY_BITS // 8
_PIECE = 1 << 18  # n-grams that are looked at together


@dataclass(frozen=True, slots=True)
class Lookup:
    """entries: (ENTRY_BYTES * n,) uint8: of each n-gram, by key, the low KEY_BITS of its key's that its bucket
    does not have, and its column. buckets: (2^b + 1,) int32, where in them those begin whose b high bits are these.
    """

    entries: NDArray[np.uint8]
    buckets: NDArray[np.int32]

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> Lookup:
        """What is mapped of it is let go."""
        n, bits = len(vocabulary), _bucket_bits(len(vocabulary))
        entries, buckets = np.empty((n, ENTRY_BYTES), np.uint8), np.empty((1 << bits) + 1, np.int32)
        to_bucket, done = np.uint64(64 - bits), 0
        for start in range(0, n, _PIECE):
            own = slice(start, min(start + _PIECE, n))
            keys = vocabulary.keys[own]
            rest = (keys << np.uint64(bits)) >> np.uint64(64 - KEY_BITS)
            entries[own, :_KEY_BYTES] = rest.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :_KEY_BYTES]
            columns = vocabulary.columns[own].astype("<i4")
            entries[own, _KEY_BYTES:] = columns.view(np.uint8).reshape(-1, 4)
            last = int(keys[-1] >> to_bucket)  # those up to it begin here, if they have not begun before
            edges = np.arange(done, last + 1, dtype=np.uint64) << to_bucket
            buckets[done : last + 1] = start + np.searchsorted(keys, edges)
            done = last + 1
            let_go(vocabulary.keys, vocabulary.columns)
        buckets[done:] = n
        return cls(entries.reshape(-1), buckets)


def _bucket_bits(n: int) -> int:
    low, high = BUCKET_BITS
    return min(max(low, n.bit_length()), high)


def lookup_bytes(n: int, weighed: bool = False) -> int:
    """That so many n-grams take while rows are made of documents: their Lookup, and their weights. weighed: see
    Vocabulary."""
    return ENTRY_BYTES * n + (4 << _bucket_bits(n)) + (8 * n if weighed else weights_bytes(n))


def most_n_grams(nbytes: int) -> int:
    """That ``lookup_bytes`` is at most so many of."""
    return bisect_right(range(1 << 31), nbytes, key=lookup_bytes) - 1
