"""Problems: a binary problem is which rows, which sign and which C; many of them are solved in the same passes.

The classes make the first of them. One against the rest: every row takes part in each of the k problems. One
against one: a row takes part in the k − 1 pairs that its class is in, so it has k − 1 dual variables, whatever the
number of pairs: that of the pair with class m is number m where m comes before its own class, else m − 1.

Variants multiply them: another factor of C, other class weights, a fold of the rows left out. A row has as many
dual variables more for each, in the same order. So ovr, ovo, the folds of a cross-validation and a grid of C's and
class weights are one thing.

``RowCosts`` are the factors C_i of rows: C · class weight · sample weight, the one place where that is multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.errors import UsageError

Positions = NDArray[np.intp]
TRAINED, HELD, UNUSED = 0, 1, 2  # roles of rows, see Fold
_LEAST, _MOST = 1e-60, 1e60  # of C_i, without the weight of the row


@dataclass(frozen=True, slots=True)
class Fold:
    """One of so many parts of all rows, about even, by a hash of the rows' numbers: the same for whoever reads
    them, in whatever order, and however blocks are cut.

    number: 0 ≤ number < folds. seed: another one makes other folds, 0 ≤ seed < 2^63.
    bounds: (2, n_classes) uint64, of a stratified one: of each class the rows whose hash is at least the first, and
    at most the second; None: those whose hash has the remainder ``number``.
    of_rows: (n_rows,) int8, of one by a column: the part that each row of the data is in. forward: parts follow
    each other in time; those from the one after ``number`` on are left out, and it alone is scored.
    roles: (n_rows,) int8, of one that the caller has made: TRAINED, HELD (out, and scored) or UNUSED.
    """

    number: int
    folds: int
    seed: int = 0
    bounds: NDArray[np.uint64] | None = field(default=None, compare=False)
    of_rows: NDArray[np.int8] | None = field(default=None, compare=False)
    forward: bool = False
    roles: NDArray[np.int8] | None = field(default=None, compare=False)

    def contains(
        self, rows: NDArray[np.int64], class_ids: NDArray[np.int32] | None = None
    ) -> NDArray[np.bool_]:
        """Return which of the rows are in the fold; rows: (n,) numbers in the data set. class_ids: (n,), where
        it is stratified."""
        if self.roles is not None:
            return self.roles[rows] != TRAINED
        if self.of_rows is not None:
            part = self.of_rows[rows]
            return part > self.number if self.forward else part == self.number
        hashed = row_hash(rows, self.seed)
        if self.bounds is None:
            return hashed % np.uint64(self.folds) == self.number
        assert class_ids is not None
        first, last = self.bounds
        return (first[class_ids] <= hashed) & (hashed <= last[class_ids])

    def holds(self, rows: NDArray[np.int64], class_ids: NDArray[np.int32] | None = None) -> NDArray[np.bool_]:
        """Return which of the rows are scored by what is trained without the fold; arguments as in ``contains``."""
        if self.roles is not None:
            return self.roles[rows] == HELD
        if self.of_rows is not None and self.forward:
            return self.of_rows[rows] == self.number + 1
        return self.contains(rows, class_ids)


@dataclass(frozen=True, slots=True)
class Variant:
    """Variant of the training: what is the same for all problems of the classes. cost: a factor of C, > 0.
    leaves_out: a fold, or None. class_weight: another factor, of each class; of three or more, each against the
    rest, that of its rows where it is positive; None: 1 for all. to_begin_at: others begin where it ends, and
    nobody asks for its certificate: it may end early."""

    cost: float = 1.0
    leaves_out: Fold | None = None
    class_weight: tuple[float, ...] | None = None
    to_begin_at: bool = field(default=False, compare=False)

    def weighted(self, values: NDArray[Any], y: NDArray[np.int32], power: int = 1) -> NDArray[Any]:
        """Return (n,) values of rows of the classes ``y`` times their class weights to that power, as they are
        where these are 1. A weight of 0 is as good as 1e-20 where it is a divisor."""
        if self.class_weight is None:
            return values
        weight = np.array(self.class_weight)
        if power < 0:
            weight = np.maximum(weight, 1e-20)
        return (values * (weight**power)[y]).astype(values.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A binary problem.

    signs: (n_classes,) float64, the y of each class: +1, −1, or 0 where it takes no part. cost: a factor of C.
    leaves_out: a fold of the rows that takes no part, or None.
    """

    signs: NDArray[np.float64]
    cost: float = 1.0
    leaves_out: Fold | None = None

    def members(self, y: NDArray[np.int32], rows: NDArray[np.int64]) -> Positions:
        """Positions of the rows that take part; y: (n,) class ids, rows: (n,) numbers in the data set."""
        part = self.signs[y] != 0
        if self.leaves_out is not None:
            part &= ~self.leaves_out.contains(rows, y)
        return np.flatnonzero(part)


class Problems:
    """All binary problems of a run, in the order of the variants, within each in that of the classes or pairs.

    n_classes, pairs: one against one (two classes are one problem, whatever is asked). variants: see the file's
    head. width: dual variables of a row. Nothing here grows with problems times classes.
    """

    def __init__(
        self, n_classes: int, one_vs_one: bool = False, variants: Sequence[Variant] = (Variant(),)
    ) -> None:
        self.n_classes = n_classes
        self.pairs = one_vs_one and n_classes > 2
        self.variants = tuple(variants)
        self.of_classes = count_problems(n_classes, one_vs_one)
        """Problems that the classes make: of each variant."""
        self.width_of_classes = n_classes - 1 if self.pairs else self.of_classes
        self.width = self.width_of_classes * len(self.variants)

    @classmethod
    def grid(
        cls, n_classes: int, one_vs_one: bool, costs: Sequence[float], folds: int = 0, seed: int = 0
    ) -> Problems:
        """Return variants for each factor of C with each of so many folds left out in turn; with none left out
        where folds is 0."""
        out: list[Fold | None] = [Fold(number, folds, seed) for number in range(folds)]
        out = out or [None]
        return cls(n_classes, one_vs_one, [Variant(cost, fold) for cost in costs for fold in out])

    def batches(self, nbytes: int, problem_bytes: int) -> Iterator[Problems]:
        """Yield the same problems, in order, as few at a time as ``nbytes`` asks for, but at least those of one
        variant. problem_bytes: that each takes: its weights, and its part of what is held for each row."""
        batch_size = max(1, nbytes // (problem_bytes * self.of_classes))
        for start in range(0, len(self.variants), batch_size):
            yield Problems(self.n_classes, self.pairs, self.variants[start : start + batch_size])

    def __len__(self) -> int:
        return self.of_classes * len(self.variants)

    def __getitem__(self, c: int) -> Problem:
        variant = self.variants[self.variant(c)]
        return Problem(self.signs(c), variant.cost, variant.leaves_out)

    def variant(self, c: int) -> int:
        """Return which of the variants problem ``c`` belongs to."""
        return c // self.of_classes

    def pair(self, c: int) -> tuple[int, int]:
        """Return the classes i < j of problem ``c``, which is one of pairs; i is positive."""
        k, c = self.n_classes, c % self.of_classes
        # pairs before those that begin with class i: i (2k − i − 1) / 2
        i = int((2 * k - 1 - math.sqrt((2 * k - 1) ** 2 - 8 * c)) / 2)
        while (i + 1) * (2 * k - i - 2) // 2 <= c:  # rounding
            i += 1
        while i * (2 * k - i - 1) // 2 > c:
            i -= 1
        return i, c - i * (2 * k - i - 1) // 2 + i + 1

    def sides(self, c: int) -> tuple[int, int | None]:
        """Return the class whose rows have y = +1 in problem ``c``, and that of those with −1; None for all
        others."""
        if self.pairs:
            return self.pair(c)
        return (1 if self.of_classes == 1 else c % self.of_classes), None

    def signs(self, c: int) -> NDArray[np.float64]:
        """Return (n_classes,) the y of each class in problem ``c``, as a row of ``class_signs``."""
        if self.n_classes == 2:
            return np.array([-1.0, 1.0])
        if self.pairs:
            signs = np.zeros(self.n_classes)
            signs[list(self.pair(c))] = 1.0, -1.0
            return signs
        signs = np.full(self.n_classes, -1.0)
        signs[c % self.of_classes] = 1.0
        return signs

    @property
    def of_rest(self) -> bool:
        """Return whether there are three or more classes, each against the rest: then class weights are those of
        positive rows."""
        return not self.pairs and self.n_classes > 2

    @property
    def has_own_weights(self) -> bool:
        """Return whether rows count differently in the problems of a variant."""
        return self.of_rest and any(variant.class_weight is not None for variant in self.variants)

    def weighted(self, c: int, values: NDArray[Any], y: NDArray[np.int32], power: int = 1) -> NDArray[Any]:
        """Return ``Variant.weighted`` by the class weights in problem ``c``."""
        variant = self.variants[self.variant(c)]
        if variant.class_weight is None or not self.of_rest:
            return variant.weighted(values, y, power)
        positive = c % self.of_classes
        weight = max(variant.class_weight[positive], 1e-20 if power < 0 else 0.0)
        out = values.copy()
        out[y == positive] *= weight**power
        return out

    def with_class_weights(self, weights: NDArray[np.float64]) -> Problems:
        """Return the same with other class weights, (n_classes,), of all variants that have none."""
        class_weight = tuple(weights.tolist())
        variants = [
            variant if variant.class_weight is not None else replace(variant, class_weight=class_weight)
            for variant in self.variants
        ]
        return Problems(self.n_classes, self.pairs, variants)

    @property
    def described(self) -> list[list[float]]:
        """Return the variants as plain values: factor of C; number, folds and seed of the fold that is left out;
        class weights."""
        out = []
        for variant in self.variants:
            fold = variant.leaves_out
            of_fold = [] if fold is None else [fold.number, fold.folds, fold.seed]
            out.append([variant.cost, *of_fold, *(variant.class_weight or ())])
        return out


def row_hash(rows: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """Return (n,) as good as random, and always the same: the output function of SplitMix64 (Steele, Lea, Flood
    2014), of the number that its sequence, begun at the hash of ``seed``, has at place ``rows``."""
    golden = 0x9E3779B97F4A7C15
    start = _mix(np.array([(seed + 1) * golden % 2**64], np.uint64))
    return _mix((rows.astype(np.uint64) + np.uint64(1)) * np.uint64(golden) + start)


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def count_problems(n_classes: int, one_vs_one: bool = False) -> int:
    """Binary problems that so many classes make: one for two, else one per class or (one-vs-one) per pair."""
    if n_classes == 2:
        return 1
    return n_classes * (n_classes - 1) // 2 if one_vs_one else n_classes


def signs_bytes(n_classes: int, one_vs_one: bool = False) -> int:
    """Return the bytes that ``class_signs`` takes while it works."""
    return (8 * n_classes + 32) * count_problems(n_classes, one_vs_one)


def class_signs(n_classes: int, one_vs_one: bool = False) -> NDArray[np.float64]:
    """Return (problems, classes) the y of each class in each binary problem: +1, -1, or 0 where it takes no part.

    Two classes are one problem, class 1 positive. More: each against the rest, or each pair i < j, i positive.
    It takes ``signs_bytes``, for which the budget is to be asked before.
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


@dataclass(frozen=True, slots=True)
class RowCosts:
    """The factor C_i of each row's loss.

    by_class: (n_classes,) float64, C times the class's weight; of a row of sample weight 1.
    leaves_out: a fold of the rows that count nothing, or None.
    positive: (n_classes,) another factor, of the rows of a class in the problem where it stands against the rest;
        None: 1 for all.
    """

    by_class: NDArray[np.float64]
    leaves_out: Fold | None = None
    positive: NDArray[np.float64] | None = None

    @classmethod
    def of_classes(
        cls,
        C: float,
        class_weight: NDArray[np.float64],
        leaves_out: Fold | None = None,
        one_vs_rest: bool = False,
    ) -> RowCosts:
        """C: of the settings, > 0. class_weight: (n_classes,) float64 factors of it. one_vs_rest: each class stands
        against the rest: of three or more the weights are those of the positive rows alone, as LIBLINEAR has it.
        Raises UsageError for costs whose squares, times those of sample weights, would be no 64-bit floats."""
        by_class = C * class_weight
        bad = (by_class > 0) & ((by_class < _LEAST) | (by_class > _MOST))
        if bad.any():
            raise UsageError(
                f"-C times the weight of a class is {by_class[bad][0]:g}; pass one from {_LEAST:g} to {_MOST:g}"
            )
        if are_of_positive_rows(class_weight, one_vs_rest):
            return cls(np.full(len(by_class), C), leaves_out, class_weight)
        return cls(by_class, leaves_out)

    @property
    def largest(self) -> NDArray[np.float64]:
        """Return (n_classes,) the largest C_i of a row of sample weight 1, in all problems."""
        return self.by_class if self.positive is None else self.by_class * np.maximum(self.positive, 1.0)

    def in_problem(
        self, cost: NDArray[np.float64], positive: int, in_class: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Return (n,) C_i in the problem where class ``positive`` is the positive one. cost: of the rows, see
        ``of``. in_class: which of them are of it."""
        return cost if self.positive is None else np.where(in_class, cost * self.positive[positive], cost)

    def of(self, block: Block) -> NDArray[np.float64]:
        """Return (n,) float64 C_i of the block's rows, which come from a Stream."""
        cost = self.by_class[block.class_ids]
        if block.weight is not None:
            cost = cost * block.weight
        if self.leaves_out is not None:
            cost[self.leaves_out.contains(block.rows, block.class_ids)] = 0.0
        return cost


def are_of_positive_rows(class_weight: NDArray[np.float64], one_vs_rest: bool) -> bool:
    """Return whether class weights, (n_classes,), differ from problem to problem."""
    return one_vs_rest and len(class_weight) > 2 and bool((class_weight != 1.0).any())
