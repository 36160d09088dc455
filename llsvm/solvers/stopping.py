"""StoppingRule: the one place that decides whether a run has converged, has stalled, or is out of passes. What
"converged" means for one certificate is ``Certificate.proves``.

A solver makes one rule for a run and hands it the certificate of each pass:

    rule = StoppingRule(settings.tol, settings.max_passes)
    verdict = rule.judge(certificate)
    report = Report("pass", passes, coef, certificate, converged=verdict.converged, cause=verdict.cause)
    yield report
    if verdict.ends:
        return

A gap falls ever more slowly: passes that would not suffice if it fell as fast as of late will not suffice at all.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.certificate import Certificate, relative_gap
from llsvm.process.trace import trace
from llsvm.solvers.base import ROUNDED, STALLED
from llsvm.solvers.optim.line_search import ROUNDING

# Passes over which progress is measured: a single pass gains now little, now much. A shorter window ends runs that
# would converge, a longer one makes hopeless runs longer. Advice measures how fast a gap falls over no more passes
# than these.
WINDOW = 20
# Share of the tolerance that counts as nothing. Where no more than this is missing beside the rounding of values,
# further passes could not prove the tolerance, and a run without this rule would use up all its passes. Joint
# losses sum w and D anew where these may be off by more. With less, runs go on that rounding has ended; with more,
# runs end early.
EXACT = 0.1


class Verdict(NamedTuple):
    """Verdict on the run after a certificate.

    converged: every problem is within the tolerance.
    open: numbers of the problems that are not.
    cause: why further passes would not help, one of those in base.py; "" if they would.
    is_last: the run is out of passes.
    """

    converged: bool
    open: list[int]
    cause: str = ""
    is_last: bool = False

    @property
    def ends(self) -> bool:
        """Whether no pass follows."""
        return self.converged or bool(self.cause) or self.is_last


def is_within(tol: float, primal: float, dual: float) -> bool:
    """Return whether one problem with these objectives is within ``tol`` of its optimum."""
    return relative_gap(primal, dual) <= tol


def is_certified(tol: float, primal: float, dual: float, rounding: float) -> bool:
    """Return whether one problem is certified to be within ``tol`` of its optimum. Raises CertificateError.

    rounding: by how much more the primal may be."""
    return Certificate((primal,), (dual,), 0, (rounding,)).proves(tol)


class StoppingRule:
    """The rule of one run, and the gaps of its last passes."""

    def __init__(
        self,
        tol: float,
        max_passes: int | None = None,
        *,
        least_passes: int = 1,
        stall_cause: str = STALLED,
        falls_steadily: bool = True,
        required: NDArray[np.bool_] | None = None,
    ) -> None:
        """Make the rule of a run that begins.

        tol: relative gap at which a problem is solved.
        max_passes: at which the run ends; None or 0 for no such limit.
        least_passes: that are made even if ``max_passes`` is smaller.
        stall_cause: what a verdict names as the cause of a stall.
        falls_steadily: gaps fall at most as fast as they fell in the last passes. False for methods whose gap may
            fall all at once: these stall only when nothing moves any more.
        required: (p,) which problems must be solved; None for all of them.
        """
        self._tol = tol
        self._max_passes = max(max_passes, least_passes) if max_passes else math.inf
        self._stall_cause, self._falls_steadily, self._required = stall_cause, falls_steadily, required
        self._gaps: deque[NDArray[np.float64]] = deque(maxlen=WINDOW + 1)
        self._sizes = np.zeros(0)  # (p,) of the objectives at the last certificate

    def judge(self, certificate: Certificate, *, at_new_weights: bool = True) -> Verdict:
        """Take in the certificate of a pass.

        at_new_weights: False for a pass that has not measured other weights, such as one of a product with the
            Hessian. Such passes count, but they are no lack of progress.
        """
        required = self._required
        unsolved = [c for c in certificate.open(self._tol) if required is None or required[c]]
        primal, dual = np.array(certificate.primal), np.array(certificate.dual)
        gap = primal + np.array(certificate.rounding or (0.0,)) - dual
        self._sizes = np.abs(primal)
        cause = ""
        if at_new_weights:
            self._gaps.append(gap)
            cause = self._stall_cause if self._has_stalled(unsolved, certificate.passes) else ""
        # rounding is known of the problem that it changes most, so only of one that is alone
        measured = certificate.relative_gap - certificate.rounding_gap
        if unsolved and len(primal) == 1 and measured <= EXACT * self._tol:
            cause = ROUNDED
        return Verdict(not unsolved, unsolved, cause, self.is_last(certificate.passes))

    def is_last(self, passes: int) -> bool:
        """Return whether a run that has made so many passes makes no more."""
        return passes >= self._max_passes

    def _has_stalled(self, unsolved: list[int], passes: int) -> bool:
        """Return whether none of these problems gets to the tolerance by the last pass, at its rate of late."""
        if len(self._gaps) <= WINDOW or not unsolved:
            return False
        gap, sizes = self._gaps[-1][unsolved], self._sizes[unsolved]
        fell, missing = self._gaps[0][unsolved] - gap, gap - self._tol * sizes
        hopeless = fell <= ROUNDING * sizes
        if self._falls_steadily and math.isfinite(self._max_passes):
            hopeless |= max(self._max_passes - passes, 0) / WINDOW * fell < missing
        stalled = bool(hopeless.all())
        if stalled:
            trace("passes.stalled", passes=passes, missing=missing, fell=fell, window=WINDOW)
        return stalled

    def forget(self) -> None:
        """Forget the gaps so far: the solver goes on in another way."""
        self._gaps.clear()

    @property
    def last_share(self) -> float:
        """The share of its gap that the last pass left, the largest of the problems; 1 before the second pass."""
        if len(self._gaps) < 2:
            return 1.0
        before, after = self._gaps[-2], self._gaps[-1]
        return float(np.max(np.divide(after, before, out=np.ones_like(after), where=before > 0)))

    @property
    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """For a SolverState: the gaps of the last passes, (w, p)."""
        return {"last_gaps": np.array(self._gaps) if self._gaps else np.zeros((0, 0))}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what ``arrays`` were. Raises ValueError for an array of another shape."""
        gaps = np.array(arrays["last_gaps"])
        if gaps.ndim != 2:
            raise ValueError(f"gaps of shape {gaps.shape}")
        self._gaps.clear()
        self._gaps.extend(gaps)
