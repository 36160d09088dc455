"""Paper: the slides' algorithm to the letter (Alrajeh, Takeda, Niranjan, ICMV 2014), and one pass to measure it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.base import Report
from llsvm.solvers.llsvm.duals import BlockState
from llsvm.solvers.llsvm.run import Run
from llsvm.solvers.state import Value
from llsvm.solvers.stopping import StoppingRule

# Epochs over the survivors, at most: at large C α may take practically forever to settle. Lower measures weights
# that have not settled, higher takes longer to say so.
MAX_EPOCHS = 1000


class Paper:
    """Update each row once as it is read, keep those with 0 < α < U, re-read and update these until α settles.

    Nothing that was dropped is seen again, so between the first pass and the last survivors are all there is: a run
    can go on from the end of the epochs.
    """

    def __init__(self, run: Run) -> None:
        self.passes = 0
        self._run = run
        self._epochs = 0
        self._is_stable = False
        self._n_survivors = 0  # of the last epoch

    def reports(self) -> Iterator[Report]:
        if self.passes == 0:
            yield from self._train()
        run, best = self._run, self._run.best
        primal, close_squares = self._measure()
        best.offer(primal, close_squares, run.sweeps.w)
        certificate, n_survivors = best.certificate(run.sweeps.dual, 2, run.bound), self._n_survivors
        converged = StoppingRule(run.settings.tol).judge(certificate).converged
        is_stable = self._is_stable or not n_survivors
        note = "α has settled" if is_stable else f"α had not settled after {self._epochs} epochs"
        yield Report("pass", 2, best.coef, certificate, run.total_dual, n_survivors, converged, note)

    def _train(self) -> Iterator[Report]:
        """The first pass and the epochs; the last report can be gone on from."""
        run, survivors = self._run, self._run.stream.survivors
        survivors.require_all()
        for block in run.stream.all():
            part = run.duals.of(block)
            self._update_once(part)
            survivors.add(block, _survivor_slack(part), 0.0)
        survivors.swap_generation()
        self.passes, kind = 1, "pass"
        while True:
            self._n_survivors = len(survivors)
            done = self._is_stable or not self._n_survivors or self._epochs >= MAX_EPOCHS
            dual = run.total_dual
            yield Report(kind, 1, dual=dual, survivors=self._n_survivors, resumable=bool(done))
            if done:
                return
            self._is_stable = self._epoch()
            self._epochs += 1
            kind = "epoch"

    def _epoch(self) -> bool:
        """Update every survivor once and keep those still inside the bounds; has α settled?"""
        run, survivors = self._run, self._run.stream.survivors
        run.stream.progress.begin("survivors", len(survivors))
        resident = run.duals.of(survivors.resident)
        changes = [self._update_once(resident)]
        survivors.retain(resident.free())
        for block in run.stream.active():
            part = run.duals.of(block)
            changes.append(self._update_once(part))
            survivors.add(block, _survivor_slack(part), 0.0)
        survivors.swap_generation()
        changed, total = np.sum(changes, axis=0)
        return bool(changed <= run.settings.tol * total)

    def _update_once(self, part: BlockState) -> tuple[float, float]:
        """Update every row of the part once; returns Σ|Δα| and Σα over it."""
        before, sweeps = part.alpha.copy(), self._run.sweeps
        for c in range(len(sweeps.w)):
            with part.held(c):
                sweeps.visit(part, c, sweeps.shuffled(c, part.members(c)))
        self._run.duals.store(part)
        return float(np.abs(part.alpha - before).sum()), float(part.alpha.sum())

    def _measure(self) -> NDArray[np.float64]:
        """The primal at ``w`` and what BestPrimal wants beside it, (2, k), in a full pass."""
        sweeps = self._run.sweeps
        measured = np.zeros((2, len(sweeps.w)))
        measured[0] = 0.5 * np.einsum("ij,ij->i", sweeps.w, sweeps.w)
        for block in self._run.stream.all():
            part = self._run.duals.of(block)
            sweeps.measure(part, sweeps.w)
            for c in range(len(sweeps.w)):
                measured[:, c] += sweeps.losses(part, c)[:2]
        return measured

    # -- what a SolverState holds of it -----------------------------------------------------------------

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        return {}

    @property
    def numbers(self) -> dict[str, Value]:
        return {"epochs": self._epochs, "settled": self._is_stable, "survivors": self._n_survivors}

    def restore(self, passes: int, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Any]) -> None:
        """Go on from what these were."""
        self.passes = passes
        self._epochs, self._is_stable = numbers["epochs"], numbers["settled"]
        self._n_survivors = numbers["survivors"]


def _survivor_slack(part: BlockState) -> NDArray[np.float32]:
    """(n,) 0 for the rows that survive, ∞ for the others."""
    return np.where(part.free(), 0.0, np.inf).astype(np.float32)
