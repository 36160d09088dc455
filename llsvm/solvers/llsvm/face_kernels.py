"""The kernel of conjugate gradients along faces whose rows come block by block (spilled_face.py)."""

# mypy: ignore-errors
# Numba infers the types here, and mypy cannot follow it.

from __future__ import annotations

import numpy as np

from llsvm.kernels.options import ANY_ORDER, njit

SIZE, CURVATURE, CROSS = range(3)  # of ``totals``
N_TOTALS = 3


@njit(**ANY_ORDER)
def conjugate_step(
    indptr, indices, data, X, bias, square, curvature, factor, inverse, at, residual, solution, direction,
    ratio, length, v, u, totals,
):  # fmt: skip
    """One step of conjugate gradients on the rows of a block that are on the face of a problem:

        z = r / diagonal,  p ← z + ratio p,  δ ← δ + length p,  r ← r − length (K p + ridge p)

    and, of z made of the new r, u += Σ y_i z_i x_i; [SIZE] += r·z, [CURVATURE] += z·(ridge z), [CROSS] += z·(ridge
    p), where ridge_i = curvature_i / factor + inverse and diagonal_i = ‖x_i‖² + ridge_i.

    indptr, indices, data: CSR rows; or X: (n, c) dense rows, else X has none. bias: the constant feature.
    square: (n,) float32 ‖x_i‖². curvature: (n,) float32, of −C_i b; factor: of C in the problem; inverse: 1/σ.
    at: (e,) int32 rows i where y_i is 1, −1 − i where it is −1. residual r, solution δ, direction p: (e,) float32.
    v, u: (d + 1,) float32, v = Σ p_j y_j x_j over the rows of all blocks. totals: (N_TOTALS,) float64.
    """
    last = v.shape[0] - 1
    dense = X.shape[0] > 0
    constant = 0.0
    for e in range(at.shape[0]):
        i, y = (at[e], 1.0) if at[e] >= 0 else (-1 - at[e], -1.0)
        beside = np.float64(curvature[i]) / factor + inverse
        diagonal = np.float64(square[i]) + beside
        dot = np.float64(v[last]) * bias
        if dense:
            for k in range(X.shape[1]):
                dot += np.float64(v[k]) * np.float64(X[i, k])
        else:
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                dot += np.float64(v[np.uint32(indices[k])]) * data[k]
        p = residual[e] / diagonal + ratio * direction[e]
        direction[e] = p
        solution[e] += length * p
        residual[e] -= length * (y * dot + beside * p)
        z = residual[e] / diagonal
        totals[SIZE] += residual[e] * z
        totals[CURVATURE] += beside * z * z
        totals[CROSS] += beside * z * p
        f = y * z
        if dense:
            for k in range(X.shape[1]):
                u[k] += f * np.float64(X[i, k])
        else:
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                u[np.uint32(indices[k])] += f * data[k]
        constant += f
    u[last] += constant * bias
