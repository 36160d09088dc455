"""Advice: why a run has most likely not converged, and what to do about it, the likeliest first.

One sentence, made here alone, for the command line and for Python's warning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from llsvm.features.scaling import UNSCALED_ABOVE
from llsvm.settings.settings import Settings
from llsvm.solvers.base import NO_ROOM, ROUNDED, SETTLED, STALLED, in_passes
from llsvm.solvers.stopping import WINDOW

# Passes that a run must have made to be called slow, and that tell how fast its gap falls. With fewer, runs that
# --max-passes ended early would be told to change their options; with more, slow runs are told to make more passes.
FEWEST_PASSES = 3
# So many times the passes that were made are foreseen, at most. With more, advice names numbers of passes that rest
# on little; with fewer, it names none.
FORESEEN = 20
# Relative gap up to which a run that did not get on is taken to be at the end of what 64-bit sums can tell. With a
# larger one, advice blames rounding for slow runs; with a smaller one, it asks for passes that would not help.
ROUNDING_GAP = 1e-6
NOTHING = (  # of the one-class SVM's answer
    "0 is amidst the rows, so that no half-space away from it holds them, and the best weights are 0, which tell "
    "nothing: do not centre the columns (--scale maxabs, or none), or pass --feature-map rff or nystroem"
)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended, for ``advise``.

    gaps: relative, after each full pass. cause: what the solver says, see Report. solver: that was at work last,
    asked_for: as the settings have it. largest_value: absolute, of the rows before any scaling. sparse: rows are
    sparse. in_memory: all rows stay in memory. out_of_time: --max-seconds are over. seconds: that the run took.
    rounding: what rounding may hide of the objective at the optimum, as a share, by the last certificate.
    as_float32: values were rounded to 32-bit floats, and the data cannot be read again.
    enough_bytes: the memory limit with which all rows stay in memory, and second order over them, where the run has
    come too slowly without; else 0.
    float64_bytes: the limit under which values would be kept as 64-bit floats, where it is that that was missing.
    """

    gaps: Sequence[float]
    cause: str
    solver: str
    largest_value: float
    sparse: bool
    in_memory: bool
    out_of_time: bool
    seconds: float
    rounding: float = 0.0
    enough_bytes: int = 0
    as_float32: bool = False
    float64_bytes: int = 0


def advise(settings: Settings, end: Ending) -> tuple[str, str]:
    """The likely cause, in a word ("settled", "passes", "rounding", "scale", "solver", "memory", "stalled"),
    and in a sentence that ends in the remedy."""
    if settings.paper:
        return SETTLED, (
            "the slides' algorithm ends where its dual variables have settled, wherever that is (without --paper "
            "it goes on)"
        )
    if end.cause == SETTLED:
        return SETTLED, (
            "--stop change ends where the objective has settled, wherever that is (--stop gap ends at the "
            "tolerance)"
        )
    if end.float64_bytes:
        return "rounding", (
            f"values are kept as 32-bit floats, which alone may hide {end.rounding:.2g} of the objective, and the "
            f"memory limit has no room for 64-bit ones: pass --memory-limit {math.ceil(end.float64_bytes / 1e6)}MB "
            f"or more{_larger_tol(2.0 * end.rounding)}"
        )
    is_hidden = end.rounding > settings.tol
    to_come = 0 if is_hidden or end.cause else passes_to_come(end.gaps, settings.tol)
    if to_come and to_come <= max(len(end.gaps), WINDOW):  # as many again, or few: the rate tells of no more
        return "passes", _more_passes(settings, end, to_come)
    or_tol = _larger_tol(2.0 * end.rounding if is_hidden else end.gaps[-1] if end.gaps else math.inf)
    if is_hidden and end.as_float32:
        return "rounding", (
            f"values are kept as 32-bit floats, which alone may hide {end.rounding:.2g} of the objective: give a "
            "file, or batches that can be read again, whose values llsvm then keeps as 64-bit floats, or pass a "
            f"smaller -C{or_tol}"
        )
    if is_hidden:
        return "rounding", (
            f"rounding in 64-bit sums alone may hide {end.rounding:.2g} of the objective, with C = "
            f"{settings.C:g} times weights and values as large as {end.largest_value:.3g}: pass a smaller -C, "
            f"or bring the columns to like ranges and weights to like sizes{or_tol}"
        )
    if end.cause == ROUNDED or (not to_come and end.gaps and end.gaps[-1] <= ROUNDING_GAP):
        return "rounding", (
            f"what is missing to a gap of {settings.tol:g} is about what rounding in sums over all rows amounts "
            f"to: pass a smaller -C, or bring the columns to like ranges{or_tol}"
        )
    if end.cause == NO_ROOM and end.solver == "llsvm":
        return "memory", (
            "the memory limit has room for few copies of the weights, of which those that a pass measures are "
            "32-bit floats, and their gap hardly fell any more: pass a larger --memory-limit, or ask for less "
            "(--tol)"
        )
    if end.cause == NO_ROOM:
        return "memory", (
            "the memory limit has no room for all rows and their copy by column, and without them an L1 penalty on "
            "so many columns brings in but a few of them in a pass (its gap hardly fell any more): pass a larger "
            "--memory-limit, or a smaller -C"
        )
    # fewer passes than these tell nothing of the method; where the time was over, the passes themselves were slow
    if end.cause != STALLED and len(end.gaps) < (WINDOW if end.out_of_time else FEWEST_PASSES):
        return "passes", _more_passes(settings, end, to_come)
    if settings.scale == "none" and end.largest_value > UNSCALED_ABOVE and settings.kernel != "precomputed":
        if settings.takes_rows_as_they_are:
            return "scale", (
                f"values are as large as {end.largest_value:.3g}, and then few methods get on: pass --scale "
                "unit-row, or bring the columns to like ranges before (a kernel or a feature map takes no other)"
            )
        return "scale", (
            f"the columns are not scaled (values are as large as {end.largest_value:.3g}), and then few methods "
            f"get on: pass --scale {'maxabs' if end.sparse else 'standard'}"
        )
    slow = "its gap hardly fell any more" if end.cause == STALLED else "its gap fell slowly"
    if end.enough_bytes:
        return "memory", (
            "the memory limit has no room for all rows and second order over them, which takes far fewer passes "
            f"({slow}): pass --memory-limit {math.ceil(end.enough_bytes / 1e6)}MB, or a smaller -C"
        )
    if settings.solver in ("llsvm", "nesvm") and settings.only_solver is None:
        return (
            "solver",
            f"solver {settings.solver} is slow on this data ({slow}): pass --solver auto or smsvm",
        )
    if end.solver == "llsvm" and not end.in_memory:
        return "memory", (
            f"the memory limit leaves few rows at hand between full passes ({slow}): pass a larger --memory-limit"
        )
    if end.cause == STALLED:
        return "stalled", f"{slow}, so that more passes would not help: pass a larger --tol, or a smaller -C"
    return "passes", f"{_more_passes(settings, end, to_come)}, or pass a smaller -C"


def _larger_tol(gap: float) -> str:
    """A tolerance of one digit above ``gap``; "" where that is a gap that weights of 0 may have."""
    if not 0 < gap < 1:
        return ""
    gap *= 1.05  # the next run may end a little above this one
    unit = 10.0 ** math.floor(math.log10(gap))
    tol = math.ceil(gap / unit) * unit
    return f", or ask for less (--tol {tol:.1g})" if tol < 1 else ""


def passes_to_come(gaps: Sequence[float], tol: float) -> int:
    """Return how many more passes would do if the gap went on falling as in the last ones; 0 where that is not
    known."""
    known = [gap for gap in gaps if gap < 1]
    last = known[-max(FEWEST_PASSES, min(len(known) // 2, WINDOW)) :]
    if len(last) < FEWEST_PASSES or not 0 < last[-1] < last[0]:
        return 0
    rate = math.log(last[0] / last[-1]) / (len(last) - 1)
    return max(1, math.ceil(math.log(max(last[-1] / tol, 1.0)) / rate))


def _more_passes(settings: Settings, end: Ending, to_come: int) -> str:
    """The number that it names is above what was asked for. Of far more passes than there were nothing is known."""
    passes = to_come if to_come <= FORESEEN * len(end.gaps) else 0
    if end.out_of_time:
        option, what = "--max-seconds", "the time was over"
        of_pass, allowed = end.seconds / max(len(end.gaps), 1), max(end.seconds, settings.max_seconds or 0.0)
        limit = allowed + passes * of_pass
    else:
        option, what = "--max-passes", "the passes were over"
        # half as many again, since a gap falls ever more slowly
        limit = max(len(end.gaps), settings.max_passes or 0) + math.ceil(1.5 * passes)
    allow = f"{option} {math.ceil(limit)}" if passes else option
    about = f": about {in_passes(passes, 'more pass')} would do" if passes else ""
    return f"{what} before the gap had fallen far enough{about} ({allow}, or a larger --tol)"
