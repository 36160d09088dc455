"""The sequential dual method for direct multi-class SVMs (Keerthi et al., KDD 2008), out of core.

Primal:  P(W) = ½ Σ_m ‖w_m‖² + Σ_i C_i loss_i(W), the constant feature ``bias`` part of x, with
    Crammer-Singer  loss_i = max_m (w_m·x_i + e_im) − w_{y_i}·x_i              (eq. 1)
    Weston-Watkins  loss_i = Σ_{m≠y_i} max(0, 1 + w_m·x_i − w_{y_i}·x_i)       (eq. 14)
Dual:    D(a), in the shares of shares.py; −D is the paper's f of (4) and (16).
One problem, whatever the number of classes. Stop when P − D ≤ tol · P, both over all rows.

A visit of a row solves its sub-problem (10) or (21) exactly (Algorithms 2.1 and 3.1). The paper alternates a
loop over all rows with shrunk loops, over the rows that have a share inside its bounds and only their classes
that have one, for at most five loops' worth of effort, to an accuracy that cools by tens. So it is here (loops.py),
but for ten loops' worth, with a share of the full loop's gap as the accuracy, and with blocks. A full pass takes
each block in turn and
(1) measures it at W₀, the weights that the pass began with, which sums up to P(W₀); (2) trains it together with
the survivors in memory (selective block minimisation, Chang & Roth 2011); (3) selects from it: its rows of least
slack survive. Then come epochs over the survivors. P(W₀) − D(a) is a rigorous gap whatever a became meanwhile,
and W₀ are the weights handed back.

Where the rows are long (C_i ‖x_i‖² far above 1) shares creep to their bounds in hundreds of tiny steps, the
same way each time. So after a shrunk loop they move on along the way that they came (extrapolation.py), as long
as that pays. Where all rows are in memory, W is measured, trained, measured, and handed back as it was measured.
Once loops have cost what Newton's method would, that takes over (multipliers.py), if it has room: it
needs some dozens of steps, however long the rows are; out of core all rows are read for each of them (rounds.py).
Where its matrices have no room, and loops crawl, it takes the few worst rows after them (worst_rows.py). Weights
whose margins are all a little short are handed back longer, by the factor of the least objective (scale.py), and by
what rounding may hide where costs dwarf that (best_weights.py). Costs larger than any dual variable becomes are
taken for smaller ones (needed_costs.py).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.solvers.run_solver import RunSolver
from llsvm.solvers.sequential_dual.duals import joint_dual
from llsvm.solvers.sequential_dual.layout import Layout, layout
from llsvm.solvers.sequential_dual.loops import Loops
from llsvm.solvers.sequential_dual.problem import JointProblem
from llsvm.solvers.sequential_dual.run import JointRun
from llsvm.solvers.state import Shares, ShareSums, SolverState
from llsvm.stream.stream import Stream


class SequentialDual(RunSolver):
    """Sequential dual method for direct multi-class SVMs, see the file's head. ``solve`` yields a Report after each
    full pass and each run of epochs."""

    name = "sequential-dual"

    def __init__(self, settings: Settings, class_weight: NDArray[np.float64], threads: int = 1) -> None:
        """Take the arguments of RunSolver."""
        super().__init__(settings, class_weight, threads)
        self._class_weight = class_weight
        self._begins_at: tuple[Shares, ShareSums | None] | None = None

    def layout(self, memory: MemoryLeft) -> Layout:
        """Return the layout that the solver would use with the memory left."""
        return layout(self.settings, self._class_weight, self.threads, memory)

    def needs(self, memory: MemoryLeft) -> Needs:
        return self.layout(memory).needs

    def begin_at(self, shares: Shares, sums: ShareSums | None = None) -> bool:
        """Let ``solve`` begin at these dual variables, as ``Solver.begin_at`` does."""
        self._begins_at = shares, sums
        return True

    def _begin(self, stream: Stream, saved: SolverState | None, threads: Threads) -> JointRun:
        settings, dataset = self.settings, stream.dataset
        plan, shape = self.layout(stream.memory_left), (dataset.n_columns + 1, len(dataset.classes))
        stream.prepare(plan.needs)
        dual = joint_dual(settings.multiclass)
        problem = JointProblem(dual, shape, settings.constant, plan.grid, threads, stream.progress)
        loops = Loops(problem, plan.extrapolates, settings.tol, settings.seed)
        run = JointRun(settings, self.costs, plan, stream, loops)
        if saved is not None:
            run.restore(saved)
        elif self._begins_at is not None:
            run.begin_at(*self._begins_at)
            self._begins_at = None
        return run
