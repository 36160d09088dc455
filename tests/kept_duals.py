"""States whose dual variables were changed, what ``verify`` finds of them, and the same worked out by loops."""

import shutil
from itertools import combinations
from math import log

import numpy as np

from llsvm.settings.settings import Settings
from llsvm.state.container import RESULT, SHARES, Container, ContainerWriter
from llsvm.verification.claim import measure_objectives
from llsvm.verification.dual import KeptDual
from llsvm.verification.rows import rows_of, settings_of


def with_shares(state, target, change, **about):
    """A state whose dual variables were changed, in a file that has no damage. about: what else it says."""
    shutil.copytree(state, target, dirs_exist_ok=True)
    with Container.open(state / RESULT) as result:
        writer = ContainerWriter(target / RESULT)
        for name, part in result.parts.items():
            array = result.array(name)
            dtype = np.dtype(part.dtype)
            if name == SHARES:
                array = change(array)
                dtype = array.dtype
            writer.add(name, dtype, array.shape, [array])
        writer.end({**result.about, **about})
        writer.close()
    return target


def found_in(model, features, labels, weight, state, **given):
    """What is measured of the model and the dual point that the state has."""
    settings = settings_of(model, Settings(threads=1, **given))
    with KeptDual(state) as kept, rows_of(model, settings, features, labels, weight, kept) as stream:
        return measure_objectives(model, settings, stream, saved_dual=kept)


BOUNDS = {  # loss -> lower and upper bound of a, ridge
    "hinge": (0.0, 1.0, 0.0),
    "squared_hinge": (0.0, np.inf, 0.5),
    "least-squares": (-np.inf, np.inf, 0.5),
    "logistic": (0.0, 1.0, None),
    "epsilon_insensitive": (-1.0, 1.0, 0.0),
    "squared_epsilon_insensitive": (-np.inf, np.inf, 0.5),
    "quantile": (-0.7, 0.3, 0.0),
    "huber": (-10.1, 10.1, 1.0),
}


def random_shares(loss, shape, rng):
    """Within the bounds of the loss, some at them; of a loss without bounds up to 3."""
    lower, upper, _ = BOUNDS[loss]
    shares = rng.uniform(max(lower, -3.0), min(upper, 3.0), shape)
    kind = rng.random(shape)
    shares[kind < 0.15] = lower if np.isfinite(lower) else 0.0
    shares[kind > 0.85] = upper if np.isfinite(upper) else 0.0
    return shares


def of_row(loss, a, target, epsilon):
    """b(a, t)."""
    if loss == "logistic":
        return sum(-p * log(p) for p in (a, 1.0 - a) if p > 0)
    epsilon, ridge = epsilon if "epsilon" in loss else 0.0, BOUNDS[loss][2]
    return target * a - epsilon * abs(a) - 0.5 * ridge * a * a


def problems_of(labels, classes, multiclass):
    """Of each problem the sign of each class, 0 where it takes no part, and its dual variable's place in a row."""
    if classes == 0:
        return [({0: 1.0}, {0: 0})]
    if classes == 2:
        return [({0: -1.0, 1: 1.0}, {0: 0, 1: 0})]
    if multiclass == "ovo":
        return [({i: 1.0, j: -1.0}, {i: j - 1, j: i}) for i, j in combinations(range(classes), 2)]
    return [
        ({m: 1.0 if m == c else -1.0 for m in range(classes)}, dict.fromkeys(range(classes), c))
        for c in range(classes)
    ]


def by_hand(K, labels, cost, rest, shares, loss, multiclass="ovr", epsilon=0.1):
    """(values, sizes) of the dual of each problem. K: (n, n) x_i · x_j, the constant feature's with it. cost: (n,)
    C c_i; rest: of rows of all other classes, where these are two or more. shares: (n, width)."""
    n, numbers = (
        len(shares),
        loss in ("epsilon_insensitive", "squared_epsilon_insensitive", "quantile", "huber"),
    )
    values, sizes = [], []
    for sign_of, place_of in problems_of(labels, 0 if numbers else len(np.unique(labels)), multiclass):
        v, linear, size = np.zeros(n), 0.0, 0.0
        for i in range(n):
            own, target = (0, labels[i]) if numbers else (labels[i], 1.0)
            if own not in sign_of:
                continue
            a = float(shares[i, place_of[own]])
            for bound in BOUNDS[loss][:2]:  # it was rounded as the others were
                if a == shares.dtype.type(bound):
                    a = bound
            b = of_row(loss, a, target, epsilon)
            c = rest[i] if len(sign_of) > 2 and sign_of[own] < 0 else cost[i]
            linear, size = linear + c * b, size + c * abs(b)
            v[i] = c * a * sign_of[own]
        square = v @ K @ v
        values.append(linear - 0.5 * square)
        sizes.append(size + 0.5 * square)
    return np.array(values), np.array(sizes)


def joint_by_hand(K, labels, cost, shares):
    """The same of all classes at once, a number each."""
    n, k = shares.shape
    v, total = np.zeros((k, n)), 0.0
    for i in range(n):
        for m in range(k):
            a = cost[i] * float(shares[i, m])
            total += a
            v[m, i] -= a
            v[labels[i], i] += a
    square = sum(each @ K @ each for each in v)
    return total - 0.5 * square, total + 0.5 * square
