"""Rounding of values to 32-bit floats: how much readers have rounded, and how far a certificate moves.

A file's number is seldom a float32. Solvers see x_i, the file has x_i + e_i, and all that is known of the e_i is
E = sqrt(Σ ‖e_i‖²), which readers sum up as they round (0 for indicators, small whole numbers and the like). By
Cauchy and Schwarz that bounds what a pass over x_i measures, for costs C_i and c = sqrt(Σ C_i²):

    hinge: the primal     Σ C_i |w·e_i| ≤ c ‖w‖ E                         (a loss of slope 1)
                          c may leave out rows whose margin is t > 0 or more beyond 1, for max C_i (‖w‖ E)² / 4t: of
                          their losses max(0, |w·e_i| − t) ≤ (w·e_i)² / 4t
    hinge: the dual       v = Σ α_i y_i x_i moves by at most δ = ‖α‖ E, ‖α‖ ≤ c, ‖α‖² ≤ max C_i · Σ α_i
    smooth: the primal    sqrt(2 L max C_i · Σ C_i φ_i) ‖w‖ E + ½ L max C_i (‖w‖ E)², L the largest curvature of φ,
                          since φ'² ≤ 2 L φ
    smooth: the dual      ‖α‖ ≤ sqrt(2 L max C_i) (sqrt(P) + sqrt(P − D)), as D is 1/(L C_i)-strongly concave in α_i
    others                the hinge's times the largest slope of φ, ‖α‖ ≤ c times that; of smooth ones too, if less

and D falls by at most (s δ + δ²/2) / l2, s = ‖soft(v, l1)‖ ≤ l2 (‖w‖ + 2 sqrt((P − D)/l2)) (P and D are strongly
convex and concave in w and v); without l2, α is scaled until it is feasible again. Where the intercept b is free,
Σ α_i y_i = 0 is off by what 64-bit sums lose, and D moves by |b| times that. The joint multi-class losses are
the hinge's but for the slope. 64-bit sums lose some 2^-52 of what their terms come to, as if each x_i were off by
that share of ‖x_i‖, and t_i by that of ε: it is counted with E, and matters where C is so large that costs dwarf
the objective.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.files.growing import in_pieces
from llsvm.objective.certificate import Certificate
from llsvm.objective.losses import JointLoss, Loss, PLQLoss
from llsvm.objective.problems import Variant
from llsvm.settings.objective import CLASSIFICATION

HALF_ULP = 2.0**-24  # rounding to float32 changes a number by at most this share of it
HALF_ULP64 = 2.0**-53  # and rounding to float64
MIN_FLOAT32 = 2.0**-149  # numbers nearer to 0 are rounded to a multiple of it
NORMAL_FLOAT32 = 2.0**-126  # rounding numbers nearer to 0 takes more than 2^-24 of them
_VARIED = 2.0**-12  # of its largest value, that a column must vary by to be seen to vary
SHARE = 0.5  # of the gap asked for may be rounding's: beyond, values are read again as float64
NOISE = 2.0**-52  # of what their terms come to, that 64-bit sums may lose
CLOSE = 2.0**-6  # t above: rows with smaller margins than 1 + t are close
NO_NOISE = 1e-10  # of the primal: less need not be told
OF_MARGIN = math.sqrt(2.0)  # a joint margin, (w_y − w_m)·x, moves by so many times what ‖W‖ ‖x‖ does
HOW = ("flushed", "vanished")  # values of unnumbered columns were rounded, see Rounding
_BEYOND = 2.0**53  # whole numbers of this size and more need not be 64-bit floats
FULL_DIGITS = 1e17  # numbers below are written in full by as many digits as floats have
_FLOATS = 1e73  # nor does anybody write larger ones in full
_PIECE = 1 << 16


class ValuesRounded(Exception):
    """A file's values are no 32-bit floats, and must not be rounded. Caught where training begins."""


class LostSpread:
    """Spread of what rounding to 32-bit floats has taken off a column's values, for columns that do not seem to
    vary.

    Where it is as large as the variation of the values, their mean and standard deviation are not known; of other
    columns it is no more than 2^-24 of the values. low, high: (d,) the smallest and the largest.
    """

    def __init__(self) -> None:
        self.low = np.empty(0)
        self.high = np.empty(0)
        self.constant = np.empty(0, bool)
        """(d,) all values of a batch were nearly the same, so far."""

    def note(self, lost: NDArray[np.float64], rounded: NDArray[Any], first: int) -> None:
        """Take in rows. lost, rounded: (n, m), of columns ``first`` and on."""
        stop = first + rounded.shape[1]
        if stop > len(self.low):
            more = stop - len(self.low)
            self.low, self.high = np.pad(self.low, (0, more)), np.pad(self.high, (0, more))
            self.constant = np.pad(self.constant, (0, more), constant_values=True)
            self.low[-more:], self.high[-more:] = np.inf, -np.inf
        at = first + np.flatnonzero(self.constant[first:stop])
        if not len(at) or not len(rounded):
            return
        if len(at) < rounded.shape[1]:
            lost, rounded = lost[:, at - first], rounded[:, at - first]
        low, high = np.fmin.reduce(rounded, axis=0), np.fmax.reduce(rounded, axis=0)
        range_ = high.astype(np.float64) - low
        largest = np.maximum(np.abs(low), np.abs(high))
        self.constant[at] = ~((range_ > _VARIED * largest) & (range_ > NORMAL_FLOAT32))
        self.low[at] = np.fmin(self.low[at], np.fmin.reduce(lost, axis=0))
        self.high[at] = np.fmax(self.high[at], np.fmax.reduce(lost, axis=0))

    def take_in(self, other: LostSpread) -> None:
        d = max(len(self.low), len(other.low))
        mine, theirs = self._padded(d), other._padded(d)
        self.low, self.high = np.minimum(mine[0], theirs[0]), np.maximum(mine[1], theirs[1])
        self.constant = mine[2] & theirs[2]

    def _padded(self, d: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        more = d - len(self.low)
        return (
            np.pad(self.low, (0, more), constant_values=np.inf),
            np.pad(self.high, (0, more), constant_values=-np.inf),
            np.pad(self.constant, (0, more), constant_values=True),
        )

    def doubt(self, largest: NDArray[np.float64], half_ulp: float) -> NDArray[np.float64]:
        """Return (d,) by how much columns may vary otherwise than they seem to. largest: (d,) their largest
        absolute values. half_ulp: of what they are kept as."""
        differs = np.maximum(self.high - self.low, 0.0) / 2.0  # none of columns without a value
        return np.where(self.constant, differs, half_ulp * largest)


@dataclass(slots=True)
class Rounding:
    """Rounding by a reader of values that are no 32-bit floats. ``SourceInfo.rounding`` has it.

    double: hand out float64, nothing is rounded. squares: Σ e² over all values rounded so far, all readings
    together. flushed: values too near to 0 for a 32-bit
    float have lost more than 2^-24 of themselves: among those of unnumbered columns, or, if unit_rows, among all.
    vanished: some of these have become 0.
    overflowed: values that are too large for a 32-bit float have become infinite.
    spread: of numbered columns, which dense rows have, see ``LostSpread``; unnumbered: others have been rounded.
    """

    double: bool = False
    squares: float = 0.0
    flushed: bool = False
    vanished: bool = False
    overflowed: bool = False
    unit_rows: bool = False
    unnumbered: bool = False
    spread: LostSpread = field(default_factory=LostSpread)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64 if self.double else np.float32)

    @property
    def kind(self) -> str:
        """Return what values are kept as, in words."""
        return "a 64-bit float" if self.double else "a 32-bit float"

    def values(self, wide: NDArray[Any], before: NDArray[np.float64] | None = None) -> NDArray[Any]:
        """``wide``, (n,) or all columns (n, d) of any type of numbers, as C-ordered values of ``dtype``; what
        cannot be becomes infinite. before: see ``note``."""
        with np.errstate(over="ignore"):
            rounded = np.ascontiguousarray(wide, self.dtype)
        self.note(wide, rounded, 0 if wide.ndim == 2 else None, before)
        return rounded

    def note(
        self,
        wide: NDArray[Any],
        rounded: NDArray[Any],
        first: int | None,
        before: NDArray[np.float64] | None = None,
    ) -> None:
        """Take in that ``wide`` has been stored as ``rounded``, of the same shape. first: the number of the first
        column; None where values are of any. before: what ``wide`` lacks of the values of the source; None:
        nothing."""
        if before is None and not is_long(wide.dtype) and np.can_cast(wide.dtype, rounded.dtype):
            return
        step = max(1, _PIECE // max(1, wide[:1].size))
        with np.errstate(invalid="ignore", over="ignore"):
            for at in range(0, len(wide), step):
                narrow = rounded[at : at + step]
                lost = lost_as_float(wide[at : at + step], narrow)
                if before is not None:
                    lost = lost + before[at : at + step]
                if first is not None:
                    self.spread.note(lost, narrow, first)
                if (first is None or self.unit_rows) and not self.vanished:
                    small = (np.abs(narrow) < NORMAL_FLOAT32) & (lost != 0)
                    self.flushed |= bool(small.any())
                    self.vanished = bool((narrow[small] == 0).any())
                lost = lost.ravel()
                squares = float(np.einsum("i,i", lost, lost))
                # what is missing or infinite is no number yet, or no more
                if not math.isfinite(squares):
                    self.overflowed |= bool(np.isinf(lost).any())
                    squares = float(np.square(lost[np.isfinite(lost)]).sum())
                self.unnumbered |= first is None and squares > 0
                self.squares += squares

    def keep_double(self) -> None:
        """Round nothing from now on."""
        if not self.double:  # what 32-bit floats have lost does not count any more
            self.squares, self.spread, self.unnumbered = 0.0, LostSpread(), False
            self.flushed = self.vanished = False
        self.double = True

    def judge_rows(self, unit_rows: bool) -> None:
        """Will rows be divided by their norms, so that ``flushed`` is to tell of all columns?"""
        self.unit_rows = unit_rows

    def handle_as(self, other: Rounding) -> None:
        """Round, and look for what another looks for."""
        self.double, self.unit_rows = other.double, other.unit_rows

    def count(
        self, squares: float, flushed: bool = False, vanished: bool = False, overflowed: bool = False
    ) -> None:
        """Take in what a parser says of values of unnumbered columns: see the class."""
        self.squares += squares
        self.unnumbered |= squares > 0
        self.flushed |= flushed
        self.vanished |= vanished
        self.overflowed |= overflowed

    def uncount(self, squares: float) -> None:
        """Take off so much of ``squares``, which will be counted again."""
        self.squares -= squares

    def take_in(self, other: Rounding) -> None:
        """Take in what another has noted of rows of the same columns."""
        self.squares += other.squares
        self.flushed |= other.flushed
        self.vanished |= other.vanished
        self.overflowed |= other.overflowed
        self.unnumbered |= other.unnumbered
        self.spread.take_in(other.spread)


def is_long(dtype: np.dtype[Any]) -> bool:
    """Return whether the type has whole numbers that no 64-bit float is."""
    return dtype.kind in "iu" and dtype.itemsize == 8


def beyond_floats(values: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return which values may be those of whole numbers that are no 64-bit floats."""
    return np.abs(values) >= _BEYOND


def lost_of_text(values: NDArray[np.floating], threshold: float = _BEYOND) -> NDArray[np.float64] | None:
    """Return what floats may lack, at most, of the numbers of text that they were read from: those of
    ``threshold`` and more, but of no more than 73 digits. Of others, floats were written. None: nothing."""
    if max(np.fmax.reduce(values, None, initial=0.0), -np.fmin.reduce(values, None, initial=0.0)) < threshold:
        return None
    wide = values.astype(np.float64)
    return np.where((np.abs(wide) >= threshold) & (np.abs(wide) < _FLOATS), HALF_ULP64 * wide, 0.0)


def lost_as_float(wide: NDArray[Any], rounded: NDArray[Any]) -> NDArray[np.float64]:
    """Return ``wide`` less ``rounded``, floats of the same shape; of whole numbers too, whatever their size."""
    narrow = rounded.astype(np.float64)
    if not is_long(wide.dtype):
        return np.asarray(wide - narrow, np.float64)
    bits = wide.dtype.type(11)  # the others are 53
    return (wide >> bits) * 2048.0 - narrow + (wide & wide.dtype.type(2047))


def doubt_of_columns(
    roundings: Sequence[Rounding], largest: NDArray[np.float64], half_ulp: float = HALF_ULP
) -> NDArray[np.float64]:
    """Return (d,) by how much rounding may have changed how columns vary. largest: (d,) their largest absolute
    values. half_ulp: of what values are kept as."""
    numbered = LostSpread()
    for each in roundings:
        numbered.take_in(each.spread)
    d = min(len(numbered.low), len(largest))
    doubt = np.zeros(len(largest))
    doubt[:d] = numbered.doubt(np.pad(largest[:d], (0, len(numbered.low) - d)), half_ulp)[:d]
    if any(each.unnumbered for each in roundings):
        flushed, vanished = (any(getattr(each, name) for each in roundings) for name in HOW)
        doubt[d:] = half_ulp * largest[d:] + MIN_FLOAT32 * np.where(largest[d:] > 0, flushed, vanished)
        if half_ulp == HALF_ULP64:  # of these only whole numbers lose anything
            doubt[d:][~beyond_floats(largest[d:])] = 0.0
    return doubt


def most_lost(rounded: NDArray[np.float32]) -> float:
    """Return the largest Σ e² where it was not measured how ``rounded``, (n,), was rounded."""
    pieces = (rounded[at : at + _PIECE] for at in range(0, len(rounded), _PIECE))
    return 1.01 * HALF_ULP**2 * sum(map(_squares, pieces)) + len(rounded) * MIN_FLOAT32**2


def _squares(piece: NDArray[np.float32]) -> float:
    """Return Σ x², as a 32-bit sum, which takes next to no time, where that is neither too large nor too small
    for it."""
    with np.errstate(over="ignore"):
        total = float(np.einsum("i,i", piece, piece))
    return total if 1e-20 < total < 1e30 else float(np.einsum("i,i", piece, piece, dtype=np.float64))


def keep_double(roundings: Iterable[Rounding]) -> None:
    """Let readers hand out float64 from now on."""
    for rounding in roundings:
        rounding.keep_double()


def lost_squares(roundings: Iterable[Rounding]) -> float:
    return sum(each.squares for each in roundings)


def squares_of(w: NDArray[np.float64]) -> tuple[float, float]:
    """Return Σ of the squares of weights (d + 1,), which may lie on disk, but for the last one's, and that."""
    return sum(float(np.einsum("i,i", piece, piece)) for piece in in_pieces(w[:-1])), float(w[-1:] @ w[-1:])


@dataclass(frozen=True, slots=True)
class RoundingBound:
    """Makes certificates that hold for the data before they were rounded; see the file's head.

    lost: E. noise: what 64-bit sums may lose, as E. cost_squares, largest_cost: (k,) Σ C_i² and max C_i of each
    class. pairs: the problems are pairs of classes; else every row takes part in each. loss: of a row, or of all
    its margins at once. l1, l2: of the penalty.
    free_bias: the last weight, of the constant feature, is not penalised.
    n_rows: where t − m, ε or so, is rounded before ε is taken from it.
    variants: of the problems, with factors of all costs, and of a class's (llsvm.objective.problems).
    total: ν C of the one-class SVM, whose −ρ is the last weight; 0 for all others. negligible: see Certificate.
    """

    lost: float
    cost_squares: NDArray[np.float64]
    largest_cost: NDArray[np.float64]
    loss: Loss | JointLoss
    pairs: bool = False
    l1: float = 0.0
    l2: float = 1.0
    free_bias: bool = False
    noise: float = 0.0
    n_rows: int = 0
    variants: tuple[Variant, ...] = (Variant(),)
    total: float = 0.0
    negligible: float = math.inf

    def certificate(
        self,
        coef: NDArray[np.float64],
        primal: Sequence[float] | NDArray[np.float64],
        dual: Sequence[float] | NDArray[np.float64],
        passes: int,
        close_squares: NDArray[np.float64] | None = None,
        beyond: float = CLOSE,
        squares: NDArray[np.float64] | None = None,
    ) -> Certificate:
        """Return the certificate. coef: (p, d + 1) weights, or all those of the one joint problem; primal, dual:
        (p,) as measured. close_squares: (p,) Σ C_i² over rows with a margin below 1 + beyond, where that has
        been measured with the primal, of the hinge loss or of a joint one: the margin is then the least of a
        row. squares: (len(coef), 2) ``squares_of`` the weights, where they are known."""
        of_features, of_constant = np.zeros(len(primal)), np.zeros(len(primal))
        for j, w in enumerate(coef):
            at = j if len(coef) == len(primal) else 0
            features, constant = squares_of(w) if squares is None else squares[j]
            of_features[at] += features
            of_constant[at] += constant
        of_all = of_features if self.total else of_features + of_constant  # ρ is no feature's weight
        norms = np.sqrt(np.stack([of_features, of_all, of_features if self.free_bias else of_all], axis=1))
        primals, duals = tuple(map(float, primal)), tuple(map(float, dual))
        on_threshold = self._on_threshold(coef, of_features)
        more, less, part, floor, counts = [], [], 0.0, 0.0, self.lost > 0
        close = repeat(math.inf) if close_squares is None else map(math.sqrt, close_squares)
        for p, d, norm, (total, largest), squares_close in zip(
            primals, duals, norms, self._costs(len(primal)).tolist(), close, strict=False
        ):
            costs = (total, largest, squares_close)
            up, down = self._moved(costs, beyond, p, d, *map(float, norm))
            more.append(up + on_threshold)
            less.append(d - down - on_threshold)
            size = p if p > 0 else -d
            counts |= up + down + 2.0 * on_threshold > NO_NOISE * size
            if p > 0 or size > self.negligible:
                part = max(part, (up + down + 2.0 * on_threshold) / size)
                doubt = sum(self._moved(costs, beyond, p, p, *map(float, norm))) + 2.0 * on_threshold
                floor = max(floor, doubt / size)
        if not counts:
            return Certificate(primals, duals, passes, negligible=self.negligible)
        return Certificate(primals, tuple(less), passes, tuple(more), part, floor, self.negligible)

    def floor(self, c: int, n: int, w: NDArray[np.float64], primal: float, close: float = math.inf) -> float:
        """Certificate.rounding_floor of problem ``c`` of ``n``, each with weights of its own, w: (d + 1,).
        close: sqrt(Σ C_i²) over its close rows, infinite where that is not known."""
        of_features = float(np.einsum("i,i", w[:-1], w[:-1]))
        of_all = float(np.einsum("i,i", w, w))
        norms = map(math.sqrt, (of_features, of_all, of_features if self.free_bias else of_all))
        total, largest = self._costs(n)[c].tolist()
        return sum(self._moved((total, largest, close), CLOSE, primal, primal, *norms)) / primal

    def margin_shift(self, coef: NDArray[np.float64]) -> float:
        """Return by how much a margin of a joint problem may move, at most; coef: (k, d + 1)."""
        of_features = float(np.einsum("ij,ij", coef[:, :-1], coef[:, :-1]))
        of_all = of_features + float(np.einsum("i,i", coef[:, -1], coef[:, -1]))
        return OF_MARGIN * (math.sqrt(of_features) * self.lost + math.sqrt(of_all) * self.noise)

    def _on_threshold(self, coef: NDArray[np.float64], of_features: NDArray[np.float64]) -> float:
        """Return what rounding may change of the one-class SVM's terms, which are larger than the objective that
        they sum up to."""
        if not self.total:
            return 0.0
        terms = 2.0 * self.total * abs(float(coef[0, -1])) + float(of_features[0])
        return terms * NOISE

    def _costs(self, n: int) -> NDArray[np.float64]:
        """Return (n, 2) sqrt(Σ C_i²) and max C_i of each of ``n`` problems, whoever is left out."""
        each, costs = n // len(self.variants), []
        for variant in self.variants:
            weight = np.array(variant.class_weight or 1.0)
            if not self.pairs and len(self.cost_squares) > 2:  # of positive rows; others have 1
                weight = np.maximum(weight, 1.0)
            squares, largest = self.cost_squares * weight**2, self.largest_cost * weight
            if self.pairs:
                i, j = np.triu_indices(len(squares), 1)
                squares, largest = squares[i] + squares[j], np.maximum(largest[i], largest[j])
            else:
                squares, largest = np.full(each, squares.sum()), np.full(each, largest.max())
            costs.append(variant.cost * np.stack([np.sqrt(squares), largest], axis=1)[:each])
        return np.concatenate(costs)

    def _moved(
        self,
        costs: tuple[float, float, float],
        beyond: float,
        primal: float,
        dual: float,
        norm: float,
        norm_of_all: float,
        penalised: float,
    ) -> tuple[float, float]:
        """Return by how much the primal of a problem may be larger, and the dual smaller.

        costs: sqrt(Σ C_i²), max C_i, and sqrt(Σ C_i²) of the close rows alone, infinite where that is not known;
        all others have a margin of 1 + beyond or more.
        norm, norm_of_all, penalised: of the features' weights, of all, and of those that the penalty is of."""
        total, largest, close = costs
        gap, ridge = max(primal - dual, 0.0), self.l2 if self.l2 > 0 else 1.0
        soft_norm = penalised + 2.0 * math.sqrt(gap / ridge)  # ‖soft(v, l1)‖ / l2 is no more, with this gap
        slope = self.loss.slope
        of_epsilon = 0.0
        if isinstance(self.loss, PLQLoss):
            of_epsilon = NOISE * self.loss.epsilon * math.sqrt(self.n_rows)
        if isinstance(self.loss, Loss) and math.isfinite(self.loss.smoothness):
            steep, bent = math.sqrt(2.0 * self.loss.smoothness), 0.5 * self.loss.smoothness
            shift = norm * self.lost + norm_of_all * self.noise + of_epsilon
            more = steep * shift * math.sqrt(largest * primal) + bent * largest * shift * shift
            alpha = steep * math.sqrt(largest) * (math.sqrt(max(primal, 0.0)) + math.sqrt(gap))
            if math.isfinite(slope):
                more, alpha = min(more, slope * total * shift), min(alpha, slope * total)
        else:
            spread, bounded = 1.0, 1.0
            if isinstance(self.loss, JointLoss):
                spread, bounded = self.loss.spread, self.loss.bounded
            shift = norm * self.lost + norm_of_all * self.noise + of_epsilon
            risen = total * shift
            if close < total and not isinstance(self.loss, JointLoss):
                risen = min(risen, close * shift + largest * shift * shift / (4.0 * beyond))
            elif close < total and OF_MARGIN * shift <= beyond:
                risen = close * shift  # the others cost nothing in any case
            more = slope * risen
            alpha = spread * bounded * total
            if isinstance(self.loss, JointLoss) and not self.loss.linear:
                pass  # the dual says nothing about Σ α
            elif isinstance(self.loss, JointLoss) or self.loss.kind == CLASSIFICATION:
                summed = max(dual, 0.0)  # at least Σ α, with this:
                summed += 0.5 * ridge * soft_norm * soft_norm if self.l2 > 0 else 0.0
                alpha = min(alpha, spread * min(summed, math.sqrt(bounded * largest * summed)))
            else:
                alpha *= slope
        moved = alpha * (self.lost + self.noise)
        if self.l2 > 0:
            less = soft_norm * moved + 0.5 * moved * moved / self.l2
        else:
            less = max(dual, 0.0) * moved / (self.l1 + moved)
        if self.free_bias and not self.total:  # Σ α_i y_i is 0 but for what sums lose
            less += norm_of_all * alpha * self.noise
        return more, less
