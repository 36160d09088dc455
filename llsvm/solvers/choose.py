"""``solver="auto"``: which method is likely to take the least processor time, and why. Every choice reaches the
same certified optimum.

What only one solver can do, it does. Else coordinate descent (llsvm) begins: on most data it is the fastest, and
rows in memory it finishes by a Newton's method of its own. Where that has no room, and the smoothed Newton method
(smsvm) is cheap, coordinate descent is on trial. Newton's cost is known beforehand, so many times that of a pass,
nearly whatever C is; coordinate descent's is not: it grows with C and with how many rows stay between the margins.
So its updates are counted, and once they, with those that rows out of memory still ask for, come to as much as
Newton would take, smsvm starts, which is told the dual bound reached. No clock is looked at, so that runs repeat.

The prices are processor time in ns on the machine of tools/bench/README.md; only their ratios matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from llsvm.dataset import DatasetInfo
from llsvm.memory.plan import MemoryLeft
from llsvm.objective.losses import LogisticLoss, Loss, loss_of, new_loss
from llsvm.objective.problems import Problems
from llsvm.settings.objective import REGRESSION
from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.layout import kernel_layout
from llsvm.solvers.llsvm.tuning import DEFAULT as LLSVM
from llsvm.solvers.report import updates_a_row
from llsvm.solvers.smsvm.tuning import DEFAULT as SMSVM
from llsvm.solvers.smsvm.tuning import SmSVMTuning


@dataclass(frozen=True, slots=True)
class AutoTuning:
    """What a change of solver is decided by. Prices are measured (the head of this file says in which unit)."""

    newton_passes: float = 12
    """What smsvm's passes, and the work between them, come to: 8 to 15 on most data."""
    newton_start: float = 2e8
    """ns: loading more code."""
    logistic_update: float = 150
    """ns: that an update of the logistic loss takes more, for Newton's method on its own dual variable ..."""
    logistic_pass: float = 250
    """... and a pass of smsvm, for each row, for its exponentials and logarithms."""
    newton_calls: float = 7.5e5
    """ns: what a pass takes for each problem beside the work on rows."""
    rounds_to_come: float = 5
    """Of coordinate descent over rows that are not in memory: each visits those that are still free or violating as
    often as all so far have."""
    smsvm: SmSVMTuning = SMSVM
    """Of the solver that is changed to."""


DEFAULT = AutoTuning()
HINGE = new_loss("hinge")


@dataclass(frozen=True, slots=True)
class Choice:
    """solver: a key of SOLVERS. why: a sentence. newton: where not None, the solver is on trial, and this is what
    smsvm would cost instead, in its updates per row."""

    solver: str
    why: str
    newton: float | None = None


def choose(settings: Settings, threads: int, memory: MemoryLeft, tuning: AutoTuning = DEFAULT) -> Choice:
    """memory: what is left once the data have been read."""
    if settings.only_solver is not None:
        only = Choice(*settings.only_solver)
        return _nesvm_instead(settings, threads, memory) or only if only.solver == "smo" else only
    from llsvm.solvers.llsvm.layout import layout as coordinate_descent
    from llsvm.solvers.smsvm.layout import layout as newtons_method

    dataset = memory.dataset
    columns, problems = dataset.n_features, Problems(dataset.n_classes, settings.multiclass == "ovo")
    loss = loss_of(settings)
    if loss.kind == REGRESSION and not math.isfinite(loss.smoothness) and columns >= dataset.n_rows:
        # weights meet all targets: what the smoothed sides of the loss have of α is then a small difference
        return Choice(
            "llsvm", f"Newton's method smooths the {settings.loss} loss, and needs more rows than features"
        )
    of_classes = np.ones(dataset.n_classes)
    own = coordinate_descent(settings, of_classes, threads, memory, problems, LLSVM)
    if own.at_hand and not own.needs.missing_bytes:
        return Choice("llsvm", "all rows are in memory, with room for a Newton's method of its own")
    newtons = newtons_method(len(problems), threads, False, loss, memory, tuning.smsvm, pairs=problems.pairs)
    if newtons.by_products:
        return Choice("llsvm", f"the memory limit has no room for Newton's method on {columns:,} features")
    if not memory.has_room(newtons.needs):
        return Choice("llsvm", "the memory limit has no room for Newton's method")
    newton = newton_updates(dataset, len(problems), tuning, loss, problems.width)
    return Choice("llsvm", f"Newton's method would cost as much as {updates_a_row(newton)}", newton)


def _nesvm_instead(settings: Settings, threads: int, memory: MemoryLeft) -> Choice | None:
    """Of smo: with the squared hinge most rows stay free, and small working sets take many passes."""
    if settings.loss != "squared_hinge" or kernel_layout(settings, memory, threads).in_memory:
        return None
    rows = memory.dataset.n_rows
    return Choice(
        "nesvm", f"the kernel matrix of {rows:,} rows is on disk, where smo is slow with squared hinge"
    )


def newton_updates(
    dataset: DatasetInfo,
    problems: int = 1,
    tuning: AutoTuning = DEFAULT,
    loss: Loss = HINGE,
    of_row: int | None = None,
) -> float:
    """So many updates of each row by coordinate descent cost as much as smsvm in all. loss: of a row. of_row: so
    many of the problems are those of a row; None: all."""
    n, rows, r = dataset.n_features, max(dataset.n_rows, 1), _values_of_row(dataset)
    if dataset.is_dense:
        a_pass = 100 + r + 0.05 * r * r
    else:
        a_pass = 100 + r + 0.4 * r * r
    if isinstance(loss, LogisticLoss):
        a_pass += tuning.logistic_pass
    step, of_row = n**3 / 15 / rows, of_row or problems
    work = tuning.newton_passes * (of_row * a_pass + problems * step)
    work += problems * tuning.newton_passes * tuning.newton_calls / rows
    return (work + tuning.newton_start / rows) / update_price(dataset, loss, tuning)


def update_price(dataset: DatasetInfo, loss: Loss = HINGE, tuning: AutoTuning = DEFAULT) -> float:
    """ns of processor time: of an update of a row by coordinate descent. loss: of the row."""
    price = 100 + (0.45 if dataset.is_dense else 2) * _values_of_row(dataset)
    return price + tuning.logistic_update if isinstance(loss, LogisticLoss) else price


def _values_of_row(dataset: DatasetInfo) -> float:
    return float(dataset.n_features) if dataset.is_dense else dataset.nnz / max(dataset.n_rows, 1)


def enough(
    newton: float, n_rows: int, updates: int, passes: int, active: int, tuning: AutoTuning = DEFAULT
) -> str:
    """Why the trial of llsvm should end here, or "".

    newton: see Choice. updates: what sweeps came to so far, in updates of rows. active: rows that were free or
    violated their optimality conditions in the last full pass; 0 until that is known of a pass that was measured,
    and where all rows are in memory.
    """
    spent = updates / n_rows + passes
    to_come = tuning.rounds_to_come * spent * active / n_rows
    if spent + to_come < newton:
        return ""
    more = f", and {active / n_rows:.0%} of the rows still moved" if to_come else ""
    return (
        f"coordinate descent had not converged after {updates_a_row(spent)}{more}; smsvm's passes cost about as "
        f"much as {newton:.0f}"
    )
