"""``solver="auto"``: which method is likely to take the least processor time, and why. Every choice reaches the
same certified optimum.

What only one solver can do, it does. Else coordinate descent (llsvm) begins: on most data it is the fastest, and
rows in memory it finishes by a Newton's method of its own. Where that has no room, and the smoothed Newton method
(smsvm) is cheap, coordinate descent is on trial. Newton's cost is known beforehand, so many times that of a pass,
nearly whatever C is; coordinate descent's is not: it grows with C and with how many rows stay between the margins.
So its updates are counted, and once they, with those that rows out of memory still ask for, come to as much as
Newton would take, smsvm starts, which is told the dual bound reached. No clock is looked at, so that runs repeat.

The prices are processor time in ns on the machine of tools/bench/README.md; only their ratios matter. Those of an
update are the same as in llsvm/process/work.py. Those of Newton's method are higher: at the prices there a pass
would cost about half as much (a factorization a quarter, the matrix of dense rows half), and trials would end
sooner.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from llsvm.dataset import DatasetInfo
from llsvm.memory.plan import MemoryLeft
from llsvm.objective.losses import loss_of
from llsvm.objective.problems import Problems
from llsvm.settings.objective import REGRESSION
from llsvm.settings.settings import Settings
from llsvm.solvers.kernel_machine.layout import kernel_layout
from llsvm.solvers.llsvm.tuning import DEFAULT as LLSVM
from llsvm.solvers.optim.newton_system import NEWTON_STEPS
from llsvm.solvers.report import updates_a_row
from llsvm.solvers.smsvm.tuning import DEFAULT as SMSVM
from llsvm.solvers.smsvm.tuning import SmSVMTuning

# Nanoseconds that loading the code of smsvm takes, once. With fewer, small data change to it that coordinate
# descent would have solved; with more, they stay with coordinate descent for too long. (llsvm's own Newton's
# method, which loads less, counts 1e8.)
NEWTON_START = 2e8
# Rounds of coordinate descent that are still to come where rows are not in memory: each visits those that are free
# or violating as often as all so far have. With fewer, a trial on disk makes passes that Newton would not need;
# with more, it ends where coordinate descent was nearly done.
ROUNDS_TO_COME = 5


@dataclass(frozen=True, slots=True)
class Choice:
    """solver: a key of SOLVERS. why: a sentence. newton: where not None, the solver is on trial, and this is what
    smsvm would cost instead, in its updates per row."""

    solver: str
    why: str
    newton: float | None = None


def choose(settings: Settings, threads: int, memory: MemoryLeft, tuning: SmSVMTuning = SMSVM) -> Choice:
    """memory: what is left once the data have been read. tuning: of the solver that may be changed to."""
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
    descent = coordinate_descent(settings, of_classes, threads, memory, problems, LLSVM)
    if descent.in_memory and not descent.needs.missing_bytes:
        return Choice("llsvm", "all rows are in memory, with room for a Newton's method of its own")
    newtons = newtons_method(len(problems), threads, False, loss, memory, tuning, pairs=problems.pairs)
    if newtons.by_products:
        return Choice(
            "llsvm",
            f"Hessians of {columns:,} features are too large for Newton's method (smsvm) or the memory limit",
        )
    if not memory.has_room(newtons.needs):
        return Choice("llsvm", "the memory limit has no room for Newton's method")
    newton = newton_updates(dataset, len(problems), problems.width)
    return Choice("llsvm", f"Newton's method would cost as much as {updates_a_row(newton)}", newton)


def _nesvm_instead(settings: Settings, threads: int, memory: MemoryLeft) -> Choice | None:
    """Choose nesvm instead of smo, or return None: with the squared hinge most rows stay free, and small working
    sets take many passes."""
    if settings.loss != "squared_hinge" or kernel_layout(settings, memory, threads).in_memory:
        return None
    rows = memory.dataset.n_rows
    return Choice(
        "nesvm", f"the kernel matrix of {rows:,} rows is on disk, where smo is slow with squared hinge"
    )


def newton_updates(dataset: DatasetInfo, problems: int = 1, of_row: int | None = None) -> float:
    """Return how many updates of each row by coordinate descent cost as much as smsvm in all. of_row: the number of
    problems that a row takes part in; None: all."""
    n, rows, r = dataset.n_features, max(dataset.n_rows, 1), _values_of_row(dataset)
    # of a row: its products, and its part of a Hessian
    a_pass = 100 + r + (0.05 if dataset.is_dense else 0.4) * r * r
    update = 100 + (0.45 if dataset.is_dense else 2) * r
    work = NEWTON_STEPS * ((of_row or problems) * a_pass + problems * n**3 / 15 / rows)
    return (work + NEWTON_START / rows) / update


def _values_of_row(dataset: DatasetInfo) -> float:
    return float(dataset.n_features) if dataset.is_dense else dataset.nnz / max(dataset.n_rows, 1)


def why_trial_ends(newton: float, n_rows: int, updates: int, passes: int, active: int) -> str:
    """Return why the trial of llsvm should end here, or "".

    newton: see Choice. updates: what sweeps came to so far, in updates of rows. active: rows that were free or
    violated their optimality conditions in the last full pass; 0 until that is known of a pass that was measured,
    and where all rows are in memory.
    """
    spent = updates / n_rows + passes
    to_come = ROUNDS_TO_COME * spent * active / n_rows
    if spent + to_come < newton:
        return ""
    more = f", and {active / n_rows:.0%} of the rows still moved" if to_come else ""
    return (
        f"coordinate descent had not converged after {updates_a_row(spent)}{more}; smsvm's passes cost about as "
        f"much as {newton:.0f}"
    )
