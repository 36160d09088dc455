"""Report: what a solver says after each pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.objective.certificate import Certificate
from llsvm.objective.leave_one_out import LeaveOneOut

STALLED = "stalled"  # the gap falls too slowly for the passes that are left, or not at all

SETTLED = "settled"  # what the paper's rule watches no longer changes, however large the gap may be

NO_ROOM = "memory"  # stalled, since the memory limit has no room for what would get on

ROUNDED = "rounding"  # what is missing to the tolerance is lost in rounding

UPDATES = "updates_per_row"  # in ``Report.extra``: so often each row has been updated so far, on average
# Of processor that this has taken, as told by counts, so that runs repeat; llsvm: beside the updates themselves
SECONDS = "priced_seconds"


def in_passes(number: int, what: str = "pass") -> str:
    """Return a number of passes in words, such as "1 pass" or "3 passes"."""
    return f"{number} {what}" + ("" if number == 1 else "es")


def updates_a_row(number: float) -> str:
    """Return a number of updates in words, such as "1 update a row" or "3 updates a row"."""
    whole = f"{number:.0f}"
    return f"{whole} update{'' if whole == '1' else 's'} a row"


@dataclass(slots=True)
class Report:
    """Report of a solver after a pass.

    kind: "read" (the first reading of the source), "pass" (a full pass over all rows), "epoch" (work on the
    survivors). passes: full passes so far, the first reading not counted. coef: (k, columns) float64, the best
    certified weights, the bias in the last column if there is one; None before there are any; they may lie in a
    file (llsvm.files.growing). dual: the dual objective now. survivors: of a pass, rows that
    are free or violate their optimality condition; of epochs, those that were kept. note: one
    sentence for people, or "".
    cause: where a solver ends here without having converged, and knows why: one of STALLED, NO_ROOM, SETTLED,
    ROUNDED.
    resumable: the solver's ``state()`` may be asked for now; true of at least one report between any two full
    passes.
    expand: where ``coef`` are weights of rows, (k, rows), then the intercept: makes a pass, and gives which rows
    count and the FeatureMap (llsvm.features.feature_map) that holds them.
    left_out: of a hinge and two classes, what leaving each row out would come to at most, at these dual variables;
    None where that is not known.
    pruned: what it came to that small weights became zero, plain values (llsvm/training/pruning.py); else None.
    """

    kind: str
    passes: int
    coef: NDArray[np.float64] | None = None
    certificate: Certificate | None = None
    dual: float = float("nan")
    survivors: int = 0
    converged: bool = False
    note: str = ""
    cause: str = ""
    resumable: bool = False
    extra: dict[str, float] = field(default_factory=dict)
    expand: Callable[[], tuple[NDArray[np.bool_], Any]] | None = None
    left_out: LeaveOneOut | None = None
    pruned: dict[str, Any] | None = None
