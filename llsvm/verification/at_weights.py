"""The dual objective of the dual point that a model's own weights make: α_i is C_i times minus the slope of the
loss of row i there, of softmax C_i (1_y − p_i), p_i the probabilities: within their bounds whatever the weights.

MarginDual: of margins, with any penalty. Of s α, 0 ≤ s ≤ 1, or s ≥ 0 where α has no upper bound, the best is taken:

    D(s α) = s T − s² Q − Σ_j max(0, s |v_j| − l1)² / (2 l2),  v = Σ α_i y_i x_i,  T − Q = Σ C_i b(α_i / C_i),

Q of the squares in b; without l2 s |v_j| ≤ l1 for all j. (The entropy of logistic regression is concave: b(s a) is
at least s b(a).) Where an intercept is free, Σ α_i y_i must be 0: of the rows with α_i y_i > 0 and those below 0,
those with the larger sum are scaled down to the other's.

SoftmaxDual: D(p) = Σ C_i H(p_i) − ½ ‖Σ C_i x_i (p_i − 1_y)ᵀ‖², on the way from 1_y to p: the entropy H is concave.
Where intercepts are free, Σ C_i p_im must be n_m, the weight of class m: p is mixed with one distribution q for all
rows until it is, (1 − s) p + s q.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.settings.objective import SOFTMAX
from llsvm.settings.settings import Settings
from llsvm.verification.dual import FoundDual
from llsvm.verification.machines import LinearMachine, LinearSums, Scored
from llsvm.verification.problems import Problems, conjugate_of
from llsvm.verification.reading import Rows

Array = NDArray[np.float64]

_HALVINGS = 200
_FAR = 700.0  # between scores: beyond, exponentials of the difference are no floats


def dual_at_weights(
    settings: Settings, problems: Problems, machine: LinearMachine, smoothing: Array
) -> FoundDual:
    """Return the sums of the dual point at the weights. smoothing: see ``Conjugate.at``, of each problem."""
    if settings.multiclass == SOFTMAX:
        return SoftmaxDual(settings, problems, machine)
    return MarginDual(settings, problems, machine, smoothing)


class _Sides:
    """Sums over the rows with α y > 0, and over those below 0, of each of ``count`` problems: (2, count).

    alpha: Σ α. linear: of D, what is linear in s; squares: what is in s². off: how far rounding may have moved w,
    alpha_rise: how much larger Σ α may be, linear_rise: how much larger what is linear in s.
    """

    def __init__(self, count: int) -> None:
        self.alpha, self.linear, self.squares = (np.zeros((2, count)) for _ in range(3))
        self.off, self.alpha_rise, self.linear_rise = (np.zeros((2, count)) for _ in range(3))


class MarginDual(FoundDual):
    """Dual of losses of margins, at the weights: see the file's head."""

    def __init__(
        self, settings: Settings, problems: Problems, machine: LinearMachine, smoothing: Array
    ) -> None:
        super().__init__(problems.count)
        self._problems, self._smoothing, self._is_free = problems, smoothing, settings.intercept
        self._conjugate, self._constant = conjugate_of(settings), settings.constant
        p = problems.count
        self._w, self._sides = LinearSums(machine, 2 * p), _Sides(p)
        self._sum_off = np.zeros(p)  # by which rounding may have changed Σ α of both sides

    def add(self, block: Block, scored: Scored) -> None:
        problems, conjugate, sums = self._problems, self._conjugate, self._sides
        scores = scored.values
        signs, cost = problems.signs[:, block.class_ids].T, problems.full_cost(block)
        target = block.y[:, None] if block.has_targets else np.ones((1, 1))
        a = conjugate.at(signs * scores, target, self._smoothing)
        squares = 0.5 * conjugate.ridge * a * a
        linear = conjugate.value(a, target) + squares
        alpha = cost * a * signs
        above = alpha > 0
        sides = np.concatenate([np.where(above, alpha, 0.0), np.where(above, 0.0, alpha)], axis=1)
        self._w.add(block, sides)
        ends = [
            conjugate.at(signs * scores + d, target, self._smoothing) for d in (-scored.lost, scored.lost)
        ]
        moved = np.where(signs != 0, np.abs(ends[1] - ends[0]), 0.0)
        highest = np.maximum(*(conjugate.value(e, target) + 0.5 * conjugate.ridge * e * e for e in ends))
        off = moved * scored.norms[:, None] + np.abs(a) * scored.off[:, None]
        self._sum_off += (cost * moved).sum(axis=0)
        for number, sign in enumerate((signs, -signs)):
            max_gradient = np.maximum(*(e * sign for e in ends))
            sums.alpha_rise[number] += (
                cost * (np.maximum(max_gradient, 0.0) - np.maximum(a * sign, 0.0))
            ).sum(axis=0)
        for number, side in enumerate((above, ~above)):
            side_cost = np.where(side, cost, 0.0)
            sums.alpha[number] += np.where(side, alpha, 0.0).sum(axis=0)
            sums.linear[number] += (side_cost * linear).sum(axis=0)
            sums.squares[number] += (side_cost * squares).sum(axis=0)
            sums.off[number] += (side_cost * off).sum(axis=0)
            sums.linear_rise[number] += (side_cost * np.where(signs != 0, highest - linear, 0.0)).sum(axis=0)

    def finish(self, rows: Rows) -> None:
        p, sums = self._problems.count, self._sides
        self.values, self.sizes, self.rounding = np.zeros(p), np.zeros(p), np.zeros(p)
        for c in range(p):
            above, below = sums.alpha[0, c], -sums.alpha[1, c]
            shares = np.ones(2)
            if self._is_free:
                smaller = min(above, below)
                shares = np.array([smaller / side if side > 0 else 0.0 for side in (above, below)])
            v = shares @ self._w.w[[c, p + c]]
            if not self._is_free:
                v = np.append(v, self._constant * (above - below))
            linear, squares = float(shares @ sums.linear[:, c]), float(shares**2 @ sums.squares[:, c])
            self.values[c], self.sizes[c] = self._best(linear, squares, np.abs(v))
            if self._is_free:  # of targets far from 0, the two sides' sums leave little of each other
                self.sizes[c] += float(shares @ np.abs(sums.linear[:, c])) - abs(linear)
            off = float(shares @ sums.off[:, c]) + self._constant * self._sum_off[c]
            if self._is_free and min(above, below) > 0:
                off += (
                    self._sum_off[c]
                    / min(above, below)
                    * float(np.abs(self._w.w[[c, p + c]]).sum(axis=1).max())
                )
            more = float(shares @ sums.linear_rise[:, c])
            growth = self._growth(above, below, sums.alpha_rise[:, c]) if self._is_free else 1.0
            if np.isfinite(growth):
                highest, _ = self._best(growth * (linear + more), squares, np.maximum(np.abs(v) - off, 0.0))
                self.rounding[c] = max(highest - self.values[c], 0.0)
            else:
                self.rounding[c] = np.inf

    def _growth(self, above: float, below: float, rise: Array) -> float:
        """Return how many times the sum may be to which both sides are scaled, but for rounding: what is linear
        in s goes with it. Infinite where it is rounding that decides whether a side has any."""
        smaller, larger = min(above, below), min(above + float(rise[0]), below + float(rise[1]))
        if smaller > 0:
            return max(larger / smaller, 1.0)
        return np.inf if larger > 0 else 1.0

    def _best(self, linear: float, squares: float, size: Array) -> tuple[float, float]:
        """Return D of the best s α, and the size of its terms. size: (d,) |v|."""
        l1, l2 = self._problems.l1, self._problems.l2
        longest = 1.0 if np.isfinite(self._conjugate.upper) or squares == 0 else linear / (2.0 * squares)
        if linear <= 0:
            return 0.0, 0.0
        if l2 == 0:
            longest = min(longest, l1 / max(float(size.max(initial=0.0)), 1e-300))
        low, high = 0.0, longest
        for _ in range(_HALVINGS):
            s = 0.5 * (low + high)
            beyond = np.maximum(s * size - l1, 0.0) if l2 else np.zeros(1)
            slope = linear - 2.0 * s * squares - (float(size @ beyond) / l2 if l2 else 0.0)
            low, high = (s, high) if slope > 0 else (low, s)
            if high - low <= 1e-15 * high:
                break
        beyond = np.maximum(high * size - l1, 0.0) if l2 else np.zeros(1)
        less = high * high * squares + (float(beyond @ beyond) / (2.0 * l2) if l2 else 0.0)
        return high * linear - less, high * linear + less


class SoftmaxDual(FoundDual):
    """Dual of the softmax loss, at the weights: see the file's head."""

    def __init__(self, settings: Settings, problems: Problems, machine: LinearMachine) -> None:
        super().__init__(problems.count)
        self._problems, self._is_free, self._constant = problems, settings.intercept, settings.constant
        k = problems.width
        self._gradient, self._of_classes = LinearSums(machine, k), LinearSums(machine, k)
        self._excess, self._weight = np.zeros(k), np.zeros(k)  # Σ C (p − 1_y), n
        self._entropy = 0.0  # Σ C H(p)
        # what rounding may have changed, at most: each class's gradient, excess and Σ C x of its rows; the entropy
        self._off, self._excess_off, self._class_off = np.zeros(k), np.zeros(k), np.zeros(k)
        self._entropy_off = 0.0

    def add(self, block: Block, scored: Scored) -> None:
        scores = scored.values
        cost, classes = self._problems.full_cost(block)[:, 0], block.class_ids.astype(np.intp)
        rows, largest = np.arange(block.n_rows), scores.argmax(axis=1)
        centered = scores - scores[rows, largest][:, None]
        p = np.exp(centered)
        p[rows, largest] = 0.0
        others = p.sum(
            axis=1
        )  # of the sum less 1: its logarithm keeps its digits where the row is nearly sure
        p[rows, largest] = 1.0
        p /= 1.0 + others[:, None]
        entropy = np.log1p(others) - np.einsum("ij,ij->i", p, centered)
        self._entropy += float(cost @ entropy)
        moved = np.minimum(2.0 * scored.lost.max(axis=1), _FAR)  # of a score less another
        growth = np.expm1(moved)  # of what is not the largest p: by such a share it may be larger
        more = growth * entropy + (1.0 + growth) * moved * others / (1.0 + others)
        self._entropy_off += float(cost @ np.minimum(more, np.log(p.shape[1])))
        p[rows, classes] = 0.0
        p[rows, classes] = -p.sum(axis=1)  # p_y − 1, exact where p_y is nearly 1
        growth = np.minimum(growth[:, None] * np.abs(p), 1.0)
        self._excess_off += cost @ growth
        self._off += cost @ (growth * scored.norms[:, None] + np.abs(p) * scored.off[:, None])
        p *= cost[:, None]
        self._gradient.add(block, p)
        self._excess += p.sum(axis=0)
        if self._is_free:
            members = np.zeros_like(p)
            members[rows, classes] = cost
            self._of_classes.add(block, members)
            self._weight += members.sum(axis=0)
            self._class_off += scored.off @ members

    def finish(self, rows: Rows) -> None:
        entropy, gradient = self._entropy, self._gradient.w
        off, entropy_off = self._off, self._entropy_off
        if self._is_free:
            entropy, gradient, off, entropy_off = self._balanced()
        norms = _norms(gradient)
        square = float(norms @ norms)
        min_norms = np.maximum(norms - off, 0.0)
        least_square = float(min_norms @ min_norms)
        if not self._is_free:
            square += self._constant**2 * float(self._excess @ self._excess)
            min_norms = np.maximum(np.abs(self._excess) - self._excess_off, 0.0)
            least_square += self._constant**2 * float(min_norms @ min_norms)
        (value, size), (highest, _) = (
            _best_share(*each) for each in ((entropy, square), (entropy + entropy_off, least_square))
        )
        self.values, self.sizes = np.array([value]), np.array([size])
        self.rounding = np.array([max(highest - value, 0.0)])

    def _balanced(self) -> tuple[float, Array, Array, float]:
        """Return for the mixture with q: its entropy at least, Σ C x (p − 1_y)ᵀ, and by how much rounding may
        have changed each class's of that, and the entropy."""
        gradient, of_classes, total = self._gradient.w, self._of_classes.w, float(self._weight.sum())
        given = np.maximum(self._weight + self._excess, 1e-300)  # Σ C p of each class
        s = max(0.0, float((self._excess / given).max()))
        s_off = float((self._excess_off / given).max())
        share = np.maximum(0.0, s * given - self._excess)  # s q Σ C
        q = share / share.sum() if share.sum() > 0 else np.full(len(share), 1.0 / len(share))
        share_off = (s_off * given + (1.0 + s) * self._excess_off) / total  # of s q
        logs = -np.log(np.maximum(q, 1e-300))
        all_rows = of_classes.sum(axis=0)
        moved = (1.0 - s) * gradient + s * (np.outer(q, all_rows) - of_classes)
        off = self._off + s_off * (_norms(gradient) + _norms(of_classes))
        off += share_off * float(np.linalg.norm(all_rows))
        off += s * (self._class_off + q * self._class_off.sum())
        entropy = (1.0 - s) * self._entropy + s * total * float(q @ logs)
        entropy_off = self._entropy_off + total * float(s_off * np.log(len(q)) + share_off @ (1.0 + logs))
        return entropy, moved, off, entropy_off


def _norms(w: Array) -> Array:
    """Return (k,) norms of the rows of w."""
    return np.sqrt(np.einsum("ij,ij->i", w, w))


def _best_share(entropy: float, square: float) -> tuple[float, float]:
    """Return the best D on the way from 1_y to p, and the size of its terms. square: of the gradient's norm."""
    t = min(1.0, entropy / square) if square > 0 else 1.0
    return t * entropy - 0.5 * t * t * square, t * entropy + 0.5 * t * t * square
