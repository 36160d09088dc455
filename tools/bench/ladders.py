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
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tools.bench.cells import Problem
from tools.bench.contestants import environment, liblinear_said
from tools.bench.kernel_models import evaluate_kernel, read_rows_kernel
from tools.bench.measure import run
from tools.bench.models import READERS
from tools.bench.objective import evaluate

LADDER = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)
_TYPES = {"hinge": (3,), "squared_hinge": (1, 2)}  # liblinear-train -s, one against the rest
_CAPPED = "1000 iterations"


@dataclass(frozen=True)
class Rung:
    """One run: program, its setting, seconds, the referee's primal (None where there is no model); failure: why."""

    program: str
    setting: float
    wall_seconds: float
    cpu_seconds: float
    primal: float | None
    failure: str = ""


class Ladder:
    """Of one problem. folder: where it is kept. timeout: seconds for a rung."""

    def __init__(self, problem: Problem, folder: Path, timeout: float) -> None:
        self.problem, self.timeout, self._folder = problem, timeout, folder
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / (re.sub(r"[^\w.=-]+", "_", problem.key) + ".json")
        kept = json.loads(self._path.read_text()) if self._path.exists() else []
        self.rungs = [Rung(**rung) for rung in kept]

    @property
    def best(self) -> float:
        """The lowest primal; infinite where there is none."""
        return min((rung.primal for rung in self.rungs if rung.primal is not None), default=float("inf"))

    def nearest(self, goal: float, clock: str) -> Rung | None:
        """The quickest run whose primal is at most ``goal``."""
        there = [rung for rung in self.rungs if rung.primal is not None and rung.primal <= goal]
        return min(there, key=lambda rung: asdict(rung)[clock], default=None)

    def climb(self, best: float, within: float) -> None:
        """Run what has not been run, each program until it is within ``within`` of the best primal known: ``best``,
        or one that is found on the way. A program that fails, or is out of time, goes no further."""
        for program, rungs in self._programs():
            if program == "scikit-learn's LIBLINEAR" and not self._goes_on(best, within):
                continue
            for setting in rungs:
                known = [each for each in self.rungs if (each.program, each.setting) == (program, setting)]
                rung = known[0] if known else self._run(program, setting)
                if not known:
                    self.rungs.append(rung)
                    self._path.write_text(json.dumps([asdict(each) for each in self.rungs], indent=1))
                goal = (1 + within) * min(best, self.best)
                if rung.failure or (
                    rung.primal is not None and rung.primal <= goal < np.inf and best < np.inf
                ):
                    break

    def _programs(self) -> Iterator[tuple[str, tuple[float, ...]]]:
        problem = self.problem
        form, loss = problem.objective.multiclass, problem.objective.loss
        several = len(problem.dataset.facts["classes"]) > 2
        if problem.kernel:
            if loss == "hinge" and (form == "ovo" or not several):
                yield "LIBSVM", LADDER
            return
        if several and form == "weston-watkins":
            return
        if loss not in _TYPES or (form == "crammer-singer" and loss != "hinge"):
            return
        if shutil.which("liblinear-train") and not (several and form == "ovo"):
            for number in (4,) if several and form == "crammer-singer" else _TYPES[loss]:
                yield f"liblinear -s {number}", LADDER
        yield "scikit-learn's LIBLINEAR", LADDER[2:]

    def _goes_on(self, best: float, within: float) -> bool:
        """Did the program itself stay away from the optimum, by its limit of iterations? Or was it not there?"""
        own = [rung for rung in self.rungs if rung.program.startswith("liblinear")]
        near = self.nearest((1 + within) * min(best, self.best), "wall_seconds")
        return not own or (any(rung.failure == _CAPPED for rung in own) and (near is None or best == np.inf))

    def _run(self, program: str, setting: float) -> Rung:
        problem, model = self.problem, self._folder / "rung.model"
        model.unlink(missing_ok=True)
        train = str(problem.dataset.train)
        if program.startswith("liblinear"):
            command = [
                *program.replace("liblinear", "liblinear-train").split(),
                "-c",
                repr(problem.objective.C),
            ]
            command += ["-e", repr(setting), train, str(model)]
        else:
            task = {"train": train, "model": str(model), "setting": setting, "gamma": problem.gamma}
            task |= {"C": problem.objective.C, "loss": problem.objective.loss, "dual": True}
            task["multiclass"] = problem.objective.multiclass
            worker = "svc" if program == "LIBSVM" else "unlimited"
            command = [sys.executable, "-m", "tools.bench.workers", worker, json.dumps(task)]
        measured = run(command, env=environment(), timeout=self.timeout)
        wall, cpu = measured.wall_seconds, measured.cpu_seconds
        if measured.timed_out:
            return Rung(program, setting, wall, cpu, None, f"stopped after {wall:.0f} s")
        if measured.exit_code or not model.exists():
            lines = measured.stderr.strip().splitlines() or ["wrote no model"]
            return Rung(program, setting, wall, cpu, None, lines[-1][:200])
        failure = ""
        if program.startswith("liblinear"):
            failure = _CAPPED if "note" in liblinear_said(measured.stdout, measured.stderr) else ""
        else:
            said: dict[str, Any] = json.loads(measured.stdout.strip().splitlines()[-1])
            wall, cpu = said["seconds"], said["cpu_seconds"]
        return Rung(program, setting, round(wall, 4), round(cpu, 4), self._judge(program, model), failure)

    def _judge(self, program: str, model: Path) -> float:
        problem = self.problem
        if program == "LIBSVM":
            machine = read_rows_kernel(model, problem.dataset.train, problem.gamma)
            return evaluate_kernel(machine, problem.dataset.train, problem.objective).primal
        reader = READERS["liblinear" if program.startswith("liblinear") else "arrays"]
        linear = reader(model, np.array(problem.dataset.facts["classes"]))
        return evaluate(linear, problem.dataset.train, problem.objective).primal
