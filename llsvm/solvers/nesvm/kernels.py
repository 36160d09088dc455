"""One pass of NESVM over some rows: margins, dual variables u, losses and Xᵀ(y α), for all problems at once.

Hinge, smoothed by the prox-function ‖x_i‖∞ u² (eqs. 5-6, 10), S_i = μ max(‖x_i‖∞, the constant feature):

    u_i = median((1 − m_i)/S_i, 0, 1),   loss_i = u_i (1 − m_i) − ½ S_i u_i²,   α_i = c_i u_i

Least squares (eqs. 54-55): loss_i = (1 − m_i)², α_i = 2 c_i (1 − m_i). Squared hinge: the same of max(0, 1 − m_i).
Here m_i = y_i w·x_i. The middle piece of eq. 10 reaches down to 1 − μ‖x_i‖∞, as eq. 6 has it.
"""

from __future__ import annotations

import math

from llsvm.kernels.options import ANY_ORDER, JIT, njit
from llsvm.solvers.optim.rows import add_row, dot, largest

# Columns of ``sums``: at the points W the smoothed loss, the loss itself, Σ α over rows with y = +1 and y = −1, and
# of squared losses Σ α²/(4c), and its part of the rows with y = −1; at the points V the smoothed loss and the loss
# itself.
SMOOTHED, LOSS, ALPHA_PLUS, ALPHA_MINUS, ALPHA_SQUARES, ALPHA_SQUARES_MINUS, V_SMOOTHED, V_LOSS = range(8)
N_SUMS = V_LOSS + 1

# The losses that these kernels know, each by a number.
HINGE, SQUARED_HINGE, LEAST_SQUARES = 0, 1, 2
LOSS_NUMBERS = {"hinge": HINGE, "squared_hinge": SQUARED_HINGE, "least-squares": LEAST_SQUARES}


# Whether y is negative is asked where it is needed: asked once, before the losses, it makes these loops a fifth
# slower (measured on 54 columns).
@njit(**ANY_ORDER)
def gradient(indptr, indices, data, ids, cost, signs, todo, W, V, bias, mu, loss, split, grad, sums):  # type: ignore[no-untyped-def]
    """Add what rows contribute to ``grad`` and ``sums``.

    indptr, indices, data: the rows, see llsvm/solvers/optim/rows.py.
    ids: (n,) int32 class ids.
    cost: (n,) float64 c_i; rows with 0 take no part.
    signs: (k, classes) float64, y of each class in each problem, times a factor > 0 of its rows' c_i there; 0 where
        it takes no part.
    todo: (any,) int64, the problems to work on.
    W, V: (k, d + 1) float64, the points of the gradient and of the value alone; the last entry is the weight of the
        constant feature.
    bias: float64, the constant feature.
    mu: (k,) float64, of the smoothed hinge; others do not look at it.
    loss: int, its number.
    split: bool, sum the rows with y = −1 apart.
    grad: (k, 1 or 2, d + 1) float64, added Σ α_i y_i x_i.
    sums: (k, N_SUMS) float64, added to.
    """
    last = W.shape[1] - 1
    for i in range(cost.shape[0]):
        if cost[i] <= 0.0:
            continue
        size = max(largest(indptr, indices, data, i), bias)
        if size <= 0.0:
            size = 1.0
        for q in range(todo.shape[0]):
            j = todo[q]
            s = signs[j, ids[i]]
            if s == 0.0:
                continue
            c = cost[i] * abs(s)
            s = math.copysign(1.0, s)
            z = 1.0 - s * dot(indptr, indices, data, i, W[j], bias)
            zv = 1.0 - s * dot(indptr, indices, data, i, V[j], bias)
            if loss == HINGE:
                width = mu[j] * size
                u = min(max(z / width, 0.0), 1.0)
                uv = min(max(zv / width, 0.0), 1.0)
                alpha = c * u
                sums[j, SMOOTHED] += c * (u * z - 0.5 * width * u * u)
                sums[j, LOSS] += c * max(z, 0.0)
                sums[j, V_SMOOTHED] += c * (uv * zv - 0.5 * width * uv * uv)
                sums[j, V_LOSS] += c * max(zv, 0.0)
            else:
                if loss == SQUARED_HINGE:
                    z = max(z, 0.0)
                    zv = max(zv, 0.0)
                alpha = 2.0 * c * z
                sums[j, SMOOTHED] += c * z * z
                sums[j, LOSS] += c * z * z
                sums[j, ALPHA_SQUARES] += c * z * z  # α²/(4c)
                if s < 0.0:
                    sums[j, ALPHA_SQUARES_MINUS] += c * z * z
                sums[j, V_SMOOTHED] += c * zv * zv
                sums[j, V_LOSS] += c * zv * zv
            if alpha != 0.0:
                minus = 1 if s < 0.0 else 0
                sums[j, ALPHA_PLUS + minus] += alpha
                g = grad[j, minus if split else 0]
                step = alpha * s
                g[last] += step * bias
                add_row(indptr, indices, data, i, step, g)


@njit(**JIT)
def sizes(indptr, indices, data, bias, out):  # type: ignore[no-untyped-def]
    """Set out (n,) float64 to ‖x_i‖∞ of the rows, the constant feature included, and 1 where that is 0.

    indptr, indices, data, bias: as in ``gradient``.
    """
    for i in range(out.shape[0]):
        size = max(largest(indptr, indices, data, i), bias)
        out[i] = size if size > 0.0 else 1.0
