"""Problems: the binary problems that several classes make, and what of a row belongs to which of them.

One against the rest: every row takes part in each of the k problems. One against one: a row takes part in the
k − 1 pairs that its class is in, so it has k − 1 dual variables, whatever the number of pairs: that of the pair
with class m is number m where m comes before its own class, else m − 1.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.intp]


class Problems:
    """The problems of ``n_classes`` classes; one only where there are two.

    pairs: one against one. width: dual variables of a row. Nothing here grows with problems times classes.
    """

    def __init__(self, n_classes: int, one_vs_one: bool = False) -> None:
        self.n_classes = n_classes
        self.pairs = one_vs_one and n_classes > 2
        self._n = count_problems(n_classes, one_vs_one)
        self.width = n_classes - 1 if self.pairs else self._n

    def __len__(self) -> int:
        return self._n

    def pair(self, c: int) -> tuple[int, int]:
        """The classes i < j of problem ``c``, which is one of pairs; i is positive."""
        k = self.n_classes
        # pairs before those that begin with class i: i (2k − i − 1) / 2
        i = int((2 * k - 1 - math.sqrt((2 * k - 1) ** 2 - 8 * c)) / 2)
        while (i + 1) * (2 * k - i - 2) // 2 <= c:  # rounding
            i += 1
        while i * (2 * k - i - 1) // 2 > c:
            i -= 1
        return i, c - i * (2 * k - i - 1) // 2 + i + 1

    def signs(self, c: int) -> NDArray[np.float64]:
        """(n_classes,) the y of each class in problem ``c``, as a row of ``class_signs``."""
        if self.n_classes == 2:
            return np.array([-1.0, 1.0])
        if self.pairs:
            signs = np.zeros(self.n_classes)
            signs[list(self.pair(c))] = 1.0, -1.0
            return signs
        signs = np.full(self.n_classes, -1.0)
        signs[c] = 1.0
        return signs


def count_problems(n_classes: int, one_vs_one: bool = False) -> int:
    """Binary problems that so many classes make: one for two, else one per class or (one-vs-one) per pair."""
    if n_classes == 2:
        return 1
    return n_classes * (n_classes - 1) // 2 if one_vs_one else n_classes


def signs_bytes(n_classes: int, one_vs_one: bool = False) -> int:
    """What ``class_signs`` takes while it works."""
    return (8 * n_classes + 32) * count_problems(n_classes, one_vs_one)


def class_signs(n_classes: int, one_vs_one: bool = False) -> NDArray[np.float64]:
    """(problems, classes) the y of each class in each binary problem: +1, -1, or 0 where it takes no part.

    Two classes are one problem, class 1 positive. More: each against the rest, or each pair i < j, i positive.
    It takes ``signs_bytes``, for which the ledger is to be asked before.
    """
    if n_classes == 2:
        return np.array([[-1.0, 1.0]])
    if not one_vs_one:
        signs = np.full((n_classes, n_classes), -1.0)
        np.fill_diagonal(signs, 1.0)
        return signs
    i, j = np.triu_indices(n_classes, 1)
    signs = np.zeros((len(i), n_classes))
    signs[np.arange(len(i)), i], signs[np.arange(len(i)), j] = 1.0, -1.0
    return signs
