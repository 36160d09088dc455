"""LLSVM: dual coordinate descent over blocks, with survivors (Alrajeh, Takeda, Niranjan, ICMV 2014).

Primal:  P(w) = ½‖w‖² + Σ_i C_i φ(m_i, t_i), φ a loss of llsvm.objective.losses, m_i = y_i w·x_i and t_i = 1 for
classes, m_i = w·x_i and t_i the target for regression; the constant feature ``bias`` is part of x.
Dual: D(α) = Σ C_i b(α_i / C_i, t_i) − ½‖w(α)‖² over lower C_i ≤ α_i ≤ upper C_i, see kernels.py.
More than two classes make one problem per class (against the rest) or per pair, all in the same passes, as are
those of a grid of C's or of folds (llsvm.objective.problems); a problem whose own gap is small enough is left alone
from then on.

Exact mode runs rounds (rounds.py). A round is a full pass and epochs over its survivors. In the full pass each
block is (1) measured at w₀, the weights that the pass began with: Σ of the losses gives P(w₀) at the end of the
pass; (2) trained: a sweep over the rows that are free or violate their optimality conditions at w₀;
(3) selected from: such rows, and rows of so little slack that the last pass's drift of the margins would use it up,
survive, in memory or spilled.
Between passes, sweeps over survivors go on along their last moves (extrapolation.py).
Where those over rows in memory have cost what Newton's steps would, these take over (second_order.py); over
survivors that are spilled, or leave no room for its matrix, brought together in the room of blocks
(working_sets.py). P(w₀) − D(α) is a rigorous gap whatever α became meanwhile, and w₀ are the weights handed back:
those that the epochs ended with. Stop when gap ≤ tol · P, or where the passes that are left cannot bring it there
(llsvm/solvers/stopping.py).

One round, from top to bottom: what does it, what that reads -> what it changes. ``part`` is a block's BlockState.

    Rounds._full_pass, for each block
      1  Sweeps.measure         run.start                        -> part.margin
      2  Sweeps.sweep           part.margin, sweeps.negligible   -> sweeps.w, .dual, .visits, .calls;
                                                                    part.alpha, .margin, .active
      3  survivors.add          part.slack(), Rounds._slack      -> survivors, in memory or spilled
    and at its end
         Run.drift              run.start, sweeps.w              -> Rounds._slack, for the next pass
         BestPrimal.offer       run.start, the sums of losses    -> run.best
    Rounds.reports
      4  StoppingRule.judge     run.best, sweeps.dual            -> sweeps.open, .negligible
         Epochs.begin           _swept_gap, measured gaps        -> _swept_share; _swept_gap is 0 again
    Epochs.in_block once, or Epochs.over_survivors up to max_spill_epochs times
      5  _over_part, rows in    _swept_share, sets.done          -> as 2; _swept_gap, _n_free, run.start
         memory; if it pays
         SecondOrder.solve      _n_free, sweeps.work             -> sweeps.w, .dual; part.alpha, .margin; run.start
      6  _over_spill            sets.done, n_active of the pass  -> as 2; _swept_gap, _n_free, run.start;
                                                                    survivors, if the spill is written anew
      7  if they pay,
         WorkingSets.solve      _n_free, sweeps.work             -> as SecondOrder.solve; sets.done, .rows_share

Who holds what: Sweeps the weights and D of all problems (extrapolation.py moves them, too, and threshold.py those
of its one problem); BlockState α, margins and who is active, of the rows of a block, where ``part.held(c)`` leaves
problem c to one thread; AllDuals α of all rows, which ``store`` takes back from a block; Run the weights that are
measured next (``start``); Epochs _swept_gap, _swept_share and _n_free; WorkingSets ``done``, the problems that
epochs leave alone until the next pass.

Paper mode (paper.py) is the slides' algorithm: update each row once as it is read, keep those with 0 < α < U,
re-read and update these until α settles; nothing that was dropped is seen again. One more full pass measures its
gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.objective.best import BestPrimal
from llsvm.objective.losses import loss_of
from llsvm.objective.one_class import negligible
from llsvm.objective.problems import Problems, RowCosts, are_of_positive_rows
from llsvm.settings.objective import ONE_CLASS
from llsvm.settings.settings import Settings
from llsvm.solvers.base import Report
from llsvm.solvers.llsvm.duals import AllDuals, AllShares
from llsvm.solvers.llsvm.layout import Layout, layout
from llsvm.solvers.llsvm.paper import Paper
from llsvm.solvers.llsvm.rounds import Beginning, Rounds
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.llsvm.start import InTurn, has_scales, start_at_shares, start_at_sums, sums_of
from llsvm.solvers.llsvm.sweeps import Sweeps
from llsvm.solvers.llsvm.threshold import BIAS, OneClassThreshold
from llsvm.solvers.llsvm.tuning import DEFAULT, LLSVMTuning
from llsvm.solvers.state import RowShares, Shares, ShareSums, SolverState, Value, data_of, objective_of
from llsvm.stream.stream import Stream


class LLSVM:
    """Solver by dual coordinate descent, see the file's head."""

    def __init__(
        self,
        settings: Settings,
        class_weight: NDArray[np.float64],
        threads: int = 1,
        problems: Problems | None = None,
        tuning: LLSVMTuning | None = None,
        allowance: float = math.inf,
    ) -> None:
        """class_weight: (n_classes,) factors of C. problems: to solve; None: those that ``settings.multiclass``
        makes of the classes. tuning: None: the usual. allowance: epochs end early once a round has taken so many
        updates of rows."""
        self.settings = settings
        self.class_weight = class_weight
        self.threads = threads
        self.tuning = tuning or DEFAULT
        self.problems = problems or Problems(len(class_weight), settings.multiclass == "ovo")
        self._row_weight = class_weight  # of rows, in all problems that they take part in
        if are_of_positive_rows(class_weight, self.problems.of_rest):
            RowCosts.of_classes(settings.C, class_weight)  # raises where they are too large or small
            self.problems = self.problems.with_class_weights(class_weight)
            self._row_weight = np.ones_like(class_weight)
        self._allowance = allowance
        self._run: Run | None = None  # while ``solve`` is at it, and after
        self._mode: Rounds | Paper | None = None
        self._restored: SolverState | None = None
        self._start: tuple[Shares, ShareSums | None] | None = None
        self._runs = 0  # that have begun at sums which were made of rows last in the first of them
        self._parents: Sequence[int] | None = None

    def layout(self, memory: MemoryLeft) -> Layout:
        """Return what it does with the memory there is."""
        return layout(self.settings, self._row_weight, self.threads, memory, self.problems, self.tuning)

    def needs(self, memory: MemoryLeft) -> Needs:
        return self.layout(memory).needs

    def solve(self, stream: Stream) -> Iterator[Report]:
        """Train over the rows of the stream; yield a Report after each full pass and after each run of epochs.

        It begins at the state that ``restore`` was given, else where ``begin_at`` or ``in_turn`` say, else at 0.
        The memory is planned before anything is allocated; the state's arrays are copied once all others exist."""
        state, self._restored = self._restored, None
        if state is not None:
            state.require(state.solver, data_of(stream.dataset))
        plan = self.layout(stream.memory_left)
        stream.prepare(plan.needs)
        with closing(self._new_sweeps(stream, plan)) as sweeps:
            run = self._run = self._new_run(stream, plan, sweeps)
            if self.settings.paper:
                self._mode = Paper(run)
            else:
                beginning = self._beginning(run, plan.in_memory) if state is None else Beginning()
                self._mode = Rounds(run, self._allowance, beginning)
            if state is not None:
                self._go_on_from(state, run, self._mode)
                del state
            yield from self._mode.reports()

    def _new_sweeps(self, stream: Stream, plan: Layout) -> Sweeps:
        settings, dataset = self.settings, stream.dataset
        bias = settings.constant
        if settings.loss == ONE_CLASS:  # see threshold.py
            bias = math.sqrt(dataset.squared_norm) * BIAS or 1.0
        return Sweeps(
            self.problems,
            dataset.n_columns,
            loss_of(settings),
            bias,
            self.threads,
            plan.round_to_float32,
            settings.seed,
            plan.tuning,
            stream.progress,
        )

    def _new_run(self, stream: Stream, plan: Layout, sweeps: Sweeps) -> Run:
        costs, dataset = RowCosts.of_classes(self.settings.C, self._row_weight), stream.dataset
        stored = None if plan.in_memory else stream.row_state(self.problems.width, plan.state_dtype)
        free = self.settings.loss == ONE_CLASS
        bound = stream.rounding_bound(
            sweeps.loss, costs.by_class, self.settings.constant, self.problems.pairs, free_bias=free
        )
        threshold = None
        if self.settings.loss == ONE_CLASS:
            total = self.settings.nu * dataset.weight_sum
            threshold = OneClassThreshold(sweeps, total, dataset.weight_sum)
            bound = replace(bound, total=total, negligible=negligible(total, dataset.squared_norm))
        return Run(
            self.settings,
            plan.tuning,
            stream,
            sweeps,
            AllDuals(self.problems, costs, sweeps.loss, stored),
            replace(bound, variants=self.problems.variants),
            start=(stream.open_workspace().map_array if plan.start_on_disk else np.zeros)(
                sweeps.w.shape, np.float32 if plan.few_copies else np.float64
            ),
            best=BestPrimal(
                len(sweeps.w), stream.open_workspace().map_array if plan.few_copies else np.zeros
            ),
            in_small_data=plan.in_memory and dataset.n_rows + dataset.nnz <= plan.tuning.small_values,
            threshold=threshold,
            second_order_bytes=plan.second_order_bytes,
        )

    # -- while it goes on, and after --------------------------------------------------------------------

    @property
    def run(self) -> Run:
        """Objects of this training; there are none before ``solve`` has begun."""
        assert self._run is not None, "solve() comes first"
        return self._run

    @property
    def dual(self) -> NDArray[np.float64]:
        """(k,) D(α) of each problem."""
        return self.run.dual

    @property
    def updates(self) -> int:
        """Rows visited by sweeps so far, all problems together."""
        return int(self.run.sweeps.visits.sum())

    @property
    def work(self) -> int:
        """Work of all sweeps so far, in updates of rows."""
        return int(self.run.sweeps.work.sum())

    # -- stopping and going on --------------------------------------------------------------------------

    def begin_at(self, shares: Shares, sums: ShareSums | None = None) -> bool:
        """Let ``solve`` begin at these dual variables; see llsvm.solvers.base."""
        if self.settings.paper or self.settings.loss == ONE_CLASS:
            return False
        self._start = shares, sums
        return True

    def _beginning(self, run: Run, in_memory: bool) -> Beginning:
        """Begin at dual variables found elsewhere, if there are any. in_memory: all rows are."""
        beginning = Beginning()
        if self._start is not None:
            shares, sums = self._start
            self._start = None
            if sums is not None and start_at_sums(shares, sums, run):
                sums_rows = not has_scales(sums, run)
                self._runs = 0 if sums_rows else sums.runs + 1
                crawled = sums.crawled and run.stream.in_one_block
                beginning = Beginning(has_weights=True, sums_rows=sums_rows, crawled=crawled)
            else:
                start_at_shares(shares, run)
                beginning = Beginning(passes=1, has_weights=True)
        if self._parents is not None and in_memory:
            for block in run.stream.all():  # which is one
                InTurn(run, self._parents).solve(run.duals.of(block))
            beginning = Beginning(passes=1, has_weights=True, are_close=True)
        return beginning

    def in_turn(self, parents: Sequence[int]) -> None:
        """Let ``solve``, where all rows are at hand, begin with each variant of the problems where another has
        ended: see start.py."""
        self._parents = parents

    def shares(self, start: int, stop: int) -> NDArray[np.floating]:
        """(stop − start, width) α_i / C_i of the rows from ``start`` to ``stop``, once ``solve`` is at its end."""
        return self.run.duals.shares(start, stop)

    def close(self) -> None:
        """Let go of the dual variables, once ``solve`` is at its end."""
        self.run.duals.close()

    def state(self) -> SolverState:
        """Return the state at the end of a round, or of paper mode's epochs, which holds no survivors, as none is
        needed any more. It holds α: as α_i / C_i where that is stored, else with the rows in memory."""
        run, mode = self.run, self._mode
        assert mode is not None
        return SolverState(
            "llsvm",
            mode.passes,
            {**self._of(), **data_of(run.stream.dataset)},
            {**run.sweeps.arrays, **mode.arrays, **(run.threshold.arrays if run.threshold else {})},
            run.duals.rows,
            {
                **run.sweeps.numbers,
                **mode.numbers,
                "stream generator": run.stream.random_state,
                "runs": self._runs,
            },
        )

    def dual_point(self) -> RowShares | None:
        mode, known = self._mode, self.run.threshold is None
        sums = sums_of(self.run, self._runs, mode.crawled) if known and isinstance(mode, Rounds) else None
        return RowShares(AllShares(self.run.duals, self.run.stream.dataset.n_rows), sums)

    def restore(self, state: SolverState) -> None:
        """Let ``solve`` go on from this state, and compare it with the data; see llsvm.solvers.base.

        Of a state of solver smsvm only the best weights and their primal are taken: α begins anew."""
        if state.solver == "smsvm":
            state.require("smsvm", objective_of(self.settings, self.class_weight))
        else:
            state.require("llsvm", self._of())
        self._restored = state

    def _of(self) -> dict[str, Value]:
        variants: list[Value] = [list[Value](each) for each in self.problems.described]
        return {**objective_of(self.settings, self.class_weight), "problems": variants}

    def _go_on_from(self, state: SolverState, run: Run, mode: Rounds | Paper) -> None:
        if state.solver == "smsvm":
            assert isinstance(mode, Rounds)
            state.require_shapes({"best_coef": run.sweeps.w.shape})
            mode.know(state.passes, state.arrays)
            run.stream.restore_random_state(state.numbers["stream generator"])
            return
        state.require_shapes(
            {
                "w": run.sweeps.w.shape,
                run.duals.name: (run.stream.dataset.n_rows, self.problems.width),
            }
        )
        if run.duals.stored is not None:
            state.require_share_type(run.duals.stored.dtype)
        run.sweeps.restore(state.arrays, state.numbers)
        self._runs = state.numbers["runs"]
        if run.threshold is not None:
            run.threshold.restore(state.arrays)
        run.duals.restore(state.rows[run.duals.name])
        mode.restore(state.passes, state.arrays, state.numbers)
        run.stream.restore_random_state(state.numbers["stream generator"])
