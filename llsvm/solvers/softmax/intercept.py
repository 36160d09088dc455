"""A free intercept in multinomial logistic regression: W's last row is not penalised, so that the dual has a
constraint for each class m, Σ_i C_i p_im = n_m, n_m = Σ C_i over the rows of class m.

The p of a measured W do not meet it, but p' = (1 − s) p + s q does, q one distribution for all rows: with
r_m = Σ C_i p_im − n_m, the loss's gradient by that intercept,
    s = max_m r_m / (n_m + r_m),  q_m = (s (n_m + r_m) − r_m) / (s Σ C_i),
the least s with which no q_m is below 0. As r goes to 0 with Newton's steps, so does s. No pass is needed for it:
the gradient is linear in p, Σ C_i x_i (p'_i − 1_y)ᵀ = (1 − s) g + s ((Σ C_i x_i) qᵀ − Σ C_i x_i 1_yᵀ), and the
entropy is concave, H(p'_i) ≥ (1 − s) H(p_i) + s H(q).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DataError

Array = NDArray[np.float64]


def balanced(entropy: float, gradient: Array, class_sums: Array) -> tuple[float, Array]:
    """Return Σ C_i H(p'_i), or less, of the feasible p', and the gradient of the penalised weights there, (d, k).

    entropy: Σ C_i H(p_i). gradient: of the loss, (d + 1, k). class_sums: (d + 1, k) Σ C_i x_i 1_yᵀ.
    """
    n, r = class_sums[-1], gradient[-1]
    total = float(n.sum())
    s = float(min(1.0, max(0.0, (r / (n + r)).max())))
    if s == 0.0:
        return entropy, gradient[:-1]
    q = np.maximum(0.0, s * (n + r) - r)
    q /= q.sum()
    of_q = -float(q @ np.log(np.where(q > 0.0, q, 1.0)))
    moved = (1.0 - s) * gradient[:-1]
    moved -= s * class_sums[:-1]
    moved += np.outer(s * class_sums[:-1].sum(axis=1), q)
    return (1.0 - s) * entropy + s * total * of_q, moved


def require_weights(class_sums: Array, classes: Sequence[Any] | NDArray[Any]) -> None:
    """Raise DataError where a class has no weight: the lower its intercept, the better, without end."""
    for name, weight in zip(classes, class_sums[-1], strict=True):
        if not weight > 0.0:
            raise DataError(
                f"--intercept with --multiclass softmax: all rows of class {name} have a weight of 0, so that its "
                "intercept has no optimum: leave these rows out, or pass --bias 1 instead of --intercept"
            )
