"""Who else solves a problem, and one run of theirs, measured and judged: LIBLINEAR's program, the same code inside
scikit-learn without its limit of iterations (seconds of solving alone), LIBSVM inside scikit-learn for kernels.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tools.bench.cells import Problem
from tools.bench.contestants import environment, liblinear_said
from tools.bench.kernel_models import evaluate_kernel, read_rows_kernel
from tools.bench.measure import run
from tools.bench.models import READERS
from tools.bench.objective import evaluate

CAPPED = "stopped by its limit of iterations"
UNLIMITED = "scikit-learn's LIBLINEAR"
_TYPES = {  # liblinear-train -s, by loss and penalty
    ("hinge", "l2"): (3,),
    ("squared_hinge", "l2"): (1, 2),
    ("logistic", "l2"): (0, 7),
    ("squared_hinge", "l1"): (5,),
    ("logistic", "l1"): (6,),
    ("epsilon_insensitive", "l2"): (13,),
    ("squared_epsilon_insensitive", "l2"): (11, 12),
}
_UNLIMITED_LOSSES = ("hinge", "squared_hinge", "epsilon_insensitive", "squared_epsilon_insensitive")


@dataclass(frozen=True)
class PeerRun:
    """program; setting: its tolerance, None for its default; seconds; the referee's primal (None where there is no
    model); failure: why there is none, or why it ended early; nonzero: weights that are not 0."""

    program: str
    setting: float | None
    wall_seconds: float
    cpu_seconds: float
    primal: float | None
    failure: str = ""
    nonzero: int | None = None


def liblinear_programs(problem: Problem) -> list[str]:
    """The types of liblinear-train that minimise this objective; none where the program is not there."""
    o, several = problem.objective, len(problem.dataset.facts["classes"]) > 2
    if problem.kernel or not shutil.which("liblinear-train"):
        return []
    if several and problem.labels_are_classes and o.multiclass != "ovr":
        joint = (o.multiclass, o.loss, o.penalty) == ("crammer-singer", "hinge", "l2")
        return ["liblinear -s 4"] if joint else []
    return [f"liblinear -s {number}" for number in _TYPES.get((o.loss, o.penalty), ())]


def unlimited_programs(problem: Problem) -> list[str]:
    """What has no limit of iterations."""
    o, several = problem.objective, len(problem.dataset.facts["classes"]) > 2
    if o.penalty != "l2":
        return []
    if problem.kernel:
        return ["LIBSVM"] if o.loss == "hinge" and (o.multiclass == "ovo" or not several) else []
    if several and o.multiclass not in ("ovr", "ovo"):
        return [UNLIMITED] if (o.multiclass, o.loss) == ("crammer-singer", "hinge") else []
    return [UNLIMITED] if o.loss in _UNLIMITED_LOSSES else []


def run_peer(
    problem: Problem,
    program: str,
    setting: float | None,
    folder: Path,
    timeout: float,
    pattern: Path | None = None,
) -> PeerRun:
    """One run. folder: for its model, for as long as it takes. setting: None for LIBLINEAR's default. pattern:
    where to say which weights are not 0, as an array of truth values."""
    with tempfile.TemporaryDirectory(dir=folder) as private:
        return _run_peer(problem, program, setting, Path(private) / "model", timeout, pattern)


def _run_peer(
    problem: Problem,
    program: str,
    setting: float | None,
    model: Path,
    timeout: float,
    pattern: Path | None,
) -> PeerRun:
    own = program.startswith("liblinear")
    command = _liblinear(problem, program, setting) if own else _worker(problem, program, setting, model)
    command += [str(problem.dataset.train), str(model)] if own else []
    measured = run(command, env=environment(), timeout=timeout)
    wall, cpu = measured.wall_seconds, measured.cpu_seconds
    if measured.timed_out:
        return PeerRun(program, setting, wall, cpu, None, f"stopped after {wall:.0f} s")
    if measured.exit_code or not model.exists():
        lines = measured.stderr.strip().splitlines() or ["wrote no model"]
        return PeerRun(program, setting, wall, cpu, None, lines[-1][:200])
    failure = ""
    if own:
        failure = CAPPED if "note" in liblinear_said(measured.stdout, measured.stderr) else ""
    else:
        said: dict[str, Any] = json.loads(measured.stdout.strip().splitlines()[-1])
        wall, cpu = said["seconds"], said["cpu_seconds"]
    primal, nonzero = _judge(problem, program, model, pattern)
    return PeerRun(program, setting, round(wall, 4), round(cpu, 4), primal, failure, nonzero)


def _liblinear(problem: Problem, program: str, setting: float | None) -> list[str]:
    o = problem.objective
    command = [*program.replace("liblinear", "liblinear-train").split(), "-c", repr(o.C)]
    command += ["-p", repr(o.epsilon)] if "epsilon" in o.loss else []
    return command + ([] if setting is None else ["-e", repr(setting)])


def _worker(problem: Problem, program: str, setting: float | None, model: Path) -> list[str]:
    o = problem.objective
    task = {"train": str(problem.dataset.train), "model": str(model), "setting": setting, "C": o.C}
    task |= {"loss": o.loss, "epsilon": o.epsilon, "multiclass": o.multiclass, "gamma": problem.gamma}
    worker = "svc" if program == "LIBSVM" else "unlimited"
    return [sys.executable, "-m", "tools.bench.workers", worker, json.dumps(task)]


def _judge(problem: Problem, program: str, model: Path, pattern: Path | None) -> tuple[float, int]:
    train = problem.dataset.train
    if program == "LIBSVM":
        machine = read_rows_kernel(model, train, problem.gamma)
        nonzero = int(np.count_nonzero(machine.coef))
        return evaluate_kernel(machine, train, problem.objective).primal, nonzero
    reader = READERS["liblinear" if program.startswith("liblinear") else "arrays"]
    linear = reader(model, np.array(problem.dataset.facts["classes"]))
    if pattern is not None:
        np.savez(pattern, nonzero=linear.coef != 0)
    return evaluate(linear, train, problem.objective).primal, int(np.count_nonzero(linear.coef))
