"""How long LIBLINEAR (LIBSVM for kernels) takes to come near the optimum: a ladder of its tolerances, from loose to
tight, each rung a run of its own with a time limit. What was measured is kept in a folder and not measured again.

LIBLINEAR's program stops at 1000 iterations. Where it does so too far from the optimum, the ladder goes on with the
same code inside scikit-learn, which has no such limit (there the seconds are those of solving alone: reading is a
present to it). Pairs of classes, which LIBLINEAR does not have, are solved there one by one. There is no peer for
Weston-Watkins, nor for the squared hinge with a kernel.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np

from tools.bench.cells import Problem
from tools.bench.peers import CAPPED, PeerRun, liblinear_programs, run_peer, unlimited_programs

LADDER = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
_UNLIMITED_FROM = 2  # rungs that are left out where LIBLINEAR's program was there before


class Ladder:
    """Of one problem. folder: where it is kept. timeout: seconds for a rung."""

    def __init__(self, problem: Problem, folder: Path, timeout: float) -> None:
        self.problem, self.timeout, self._folder = problem, timeout, folder
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / (re.sub(r"[^\w.=-]+", "_", problem.key) + ".json")
        kept = json.loads(self._path.read_text()) if self._path.exists() else []
        self.rungs = [PeerRun(**rung) for rung in kept]

    @property
    def best(self) -> float:
        """The lowest primal; infinite where there is none."""
        return min((rung.primal for rung in self.rungs if rung.primal is not None), default=float("inf"))

    def nearest(self, goal: float, clock: str) -> PeerRun | None:
        """The quickest run whose primal is at most ``goal``."""
        there = [rung for rung in self.rungs if rung.primal is not None and rung.primal <= goal]
        return min(there, key=lambda rung: float(asdict(rung)[clock]), default=None)

    def climb(self, best: float, within: float) -> None:
        """Run what has not been run, each program until it is within ``within`` of the best primal known: ``best``,
        or one that is found on the way; to the last rung where ``best`` is infinite. A program that fails, or is
        out of time, goes no further."""
        own = liblinear_programs(self.problem)
        for program in own:
            self._climb(program, LADDER, best, within)
        if not own or self._stopped_early(best, within):
            rungs = LADDER[_UNLIMITED_FROM:] if own else LADDER
            for program in unlimited_programs(self.problem):
                self._climb(program, rungs, best, within)

    def _climb(self, program: str, settings: tuple[float, ...], best: float, within: float) -> None:
        for setting in settings:
            known = [each for each in self.rungs if (each.program, each.setting) == (program, setting)]
            rung = known[0] if known else run_peer(self.problem, program, setting, self._folder, self.timeout)
            if not known:
                self.rungs.append(rung)
                self._path.write_text(json.dumps([asdict(each) for each in self.rungs], indent=1))
            goal = (1 + within) * min(best, self.best)
            if rung.failure or (rung.primal is not None and rung.primal <= goal and best < np.inf):
                return

    def _stopped_early(self, best: float, within: float) -> bool:
        """Did LIBLINEAR's program stay away from the optimum by its limit of iterations?"""
        near = self.nearest((1 + within) * min(best, self.best), "wall_seconds")
        return (near is None or best == np.inf) and any(rung.failure == CAPPED for rung in self.rungs)
