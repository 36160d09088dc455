"""Margins of rows in the problems of pairs of classes."""

from __future__ import annotations

import numpy as np

from llsvm.kernels.options import ANY_ORDER, njit
from llsvm.kernels.rows import dot


@njit(**ANY_ORDER)
def pair_margins(indptr, indices, data, y, w, bias, out):  # type: ignore[no-untyped-def]
    """out[s, i] = ±w_c·x_i for the k − 1 problems c of row i's class y_i; s numbers the other class.

    indptr, indices, data: rows, see llsvm/kernels/rows.py. y: (n,) int32 class ids.
    w: (k (k − 1) / 2, d + 1) float64 or float32, a row for each pair i < j, i positive; the last column is the
    weight of the constant feature ``bias``. out: (k − 1, n) float64; s is the other class, less one if that comes
    after y_i.
    """
    k = out.shape[0] + 1
    for i in range(out.shape[1]):
        own = np.int64(y[i])
        for s in range(k - 1):
            other = s if s < own else s + 1
            low, high = min(own, other), max(own, other)
            pair = w[low * (2 * k - low - 1) // 2 + high - low - 1]
            margin = dot(indptr, indices, data, i, pair, bias)
            out[s, i] = margin if own == low else -margin
