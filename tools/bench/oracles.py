"""The optimum of an objective by somebody else's tight run, kept in a folder once it is known."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tools.bench.cells import Problem
from tools.bench.contestants import environment
from tools.bench.measure import run
from tools.bench.models import READERS
from tools.bench.objective import evaluate
from tools.bench.peers import liblinear_programs, run_peer, unlimited_programs

TIGHT_SETTINGS = (1e-6, 1e-4)  # of LIBLINEAR: the second where the first is out of time


def optimum(problem: Problem, folder: Path, timeout: float) -> dict[str, Any]:
    """primal: the lowest that an outside program reached, None where there is none in its time; by: which one;
    nonzero: weights of it that are not 0; tried: every program, and why it failed."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = pattern_of(problem, folder).with_suffix(".json")
    if kept.exists():
        return dict(json.loads(kept.read_text()))
    best: dict[str, Any] = {"primal": None, "by": "", "nonzero": None, "tried": []}
    pattern = pattern_of(problem, folder) if problem.objective.penalty == "l1" else None
    for program in [*liblinear_programs(problem), *unlimited_programs(problem)]:
        for setting in TIGHT_SETTINGS:
            found = run_peer(problem, program, setting, folder, timeout, pattern)
            _take(best, f"{program} -e {setting:g}", found.primal, found.nonzero, found.failure)
            if found.primal is not None:
                break
    for name in _others(problem):
        _take(best, name, *_tight(problem, name, folder, timeout))
    kept.write_text(json.dumps(best, indent=1))
    return best


def pattern_of(problem: Problem, folder: Path) -> Path:
    """Where LIBLINEAR's tight weights that are not 0 are kept, with penalty l1."""
    return folder / (re.sub(r"[^\w.=-]+", "_", problem.key) + ".npz")


def _take(best: dict[str, Any], by: str, primal: float | None, nonzero: int | None, failure: str) -> None:
    best["tried"].append([by, primal, failure])
    if primal is not None and (best["primal"] is None or primal < best["primal"]):
        best |= {"primal": primal, "by": by, "nonzero": nonzero}


def _others(problem: Problem) -> list[str]:
    """Names in ``tools.bench.tight`` of what solves it."""
    o = problem.objective
    if o.multiclass == "softmax" or (o.loss == "logistic" and o.penalty == "l2"):
        return ["smooth"]
    if o.loss == "least-squares" and o.penalty == "l2":
        return ["ridge"]
    small = problem.dataset.facts["values"] < 3_000_000 and len(problem.dataset.facts["classes"]) <= 2
    return ["clarabel"] if o.multiclass == "ovr" and (small or not problem.labels_are_classes) else []


def _tight(problem: Problem, name: str, folder: Path, timeout: float) -> tuple[float | None, int | None, str]:
    with tempfile.TemporaryDirectory(dir=folder) as private:
        return _run_tight(problem, name, Path(private) / "model", timeout)


def _run_tight(
    problem: Problem, name: str, model: Path, timeout: float
) -> tuple[float | None, int | None, str]:
    task = asdict(problem.objective) | {"train": str(problem.dataset.train), "model": str(model)}
    task["classes"] = problem.labels_are_classes
    command = [sys.executable, "-m", "tools.bench.tight", name, json.dumps(task)]
    measured = run(command, env=environment(), timeout=timeout)
    if not model.exists():
        lines = measured.stderr.strip().splitlines() or [f"stopped after {measured.wall_seconds:.0f} s"]
        return None, None, lines[-1][:200]
    linear = READERS["arrays"](model, np.array(problem.dataset.facts["classes"]))
    primal = evaluate(linear, problem.dataset.train, problem.objective).primal
    return primal, int(np.count_nonzero(linear.coef)), ""
