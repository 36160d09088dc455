"""Slow twins of solvers/smsvm/kernels.py and of the sums over rows, in plain NumPy on dense rows."""

import numpy as np


def psi(z, a):
    return 0.5 * (z + np.sqrt(z * z + a * a))


def slope(z, a):
    return 0.5 * (1 + z / np.sqrt(z * z + a * a))


def primal_dual_curvature(before, after, previous, a):
    """½ (1 − q z/r)/r, q the linearised dual variable of the step from ``before`` to ``after``; ψ'' if previous
    is 0."""
    if previous == 0:
        return 0.5 * a * a / (after**2 + a**2) ** 1.5
    r = np.sqrt(before**2 + previous**2)
    q = np.clip(before / r + (1 - (before / r) ** 2) * (after - before) / r, -1, 1)
    r = np.sqrt(after**2 + a**2)
    return 0.5 * (1 - q * after / r) / r


def sums(X, sign, cost, w, change, a, previous, steps):
    """All that a pass sums; X (n, d + 1) with the constant feature last."""
    z = {t: 1 - sign * (X @ (w + t * change)) for t in (0.0, 1.0, *steps)}
    alpha = cost * slope(z[1.0], a)
    h = cost * primal_dual_curvature(z[0.0], z[1.0], previous, a)
    hinge = np.maximum(0, z[1.0])
    return {
        "losses": np.array([cost @ psi(z[t], a) for t in steps]),
        "totals": np.array([cost @ hinge, alpha.sum(), cost @ hinge - alpha @ z[1.0]]),
        "v": X.T @ (alpha * sign),
        "hessian": X.T @ (h[:, None] * X),
        "curvature": h,
    }
