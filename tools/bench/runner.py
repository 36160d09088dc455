"""One data set, all contestants: choose each one's setting, then run them in turn, round by round, and judge."""

from __future__ import annotations

import hashlib
import os
import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tools.bench.contestants import CONTESTANTS, Contestant, Setup
from tools.bench.datasets import Dataset
from tools.bench.measure import Measurement, memory_cgroup, run
from tools.bench.models import READERS
from tools.bench.objective import Evaluation, evaluate
from tools.bench.row_losses import Objective

Say = Callable[[str], None]


@dataclass
class Outcome:
    """One run of one contestant. failure: why there is no model, or ""."""

    measured: Measurement
    said: dict[str, Any] = field(default_factory=dict)
    primal: float | None = None
    accuracy: float | None = None
    failure: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            **self.measured.as_dict(),
            "said": self.said,
            "primal": self.primal,
            "accuracy": self.accuracy,
            "failure": self.failure,
        }


class Referee:
    """Runs contestants on a data set and judges their models; remembers the best primal it has seen."""

    def __init__(
        self, dataset: Dataset, setup: Setup, timeout: float, cgroup_bytes: int | None = None
    ) -> None:
        self.dataset, self.setup, self.timeout, self.cgroup_bytes = dataset, setup, timeout, cgroup_bytes
        self.best = float("inf")
        self._judged: dict[str, tuple[Evaluation, Evaluation]] = {}

    def try_out(self, contestant: Contestant, setting: float, fenced: bool = False) -> Outcome:
        """One run, measured and judged. fenced: inside the memory cgroup, if one was asked for."""
        job = contestant.job(self.dataset, setting, self.setup)
        job.model.unlink(missing_ok=True)
        with ExitStack() as stack:
            fence = None
            if fenced and self.cgroup_bytes is not None:
                fence = stack.enter_context(memory_cgroup(self.cgroup_bytes))
            measured = run(job.command, env=job.env, cgroup=fence, timeout=self.timeout)
        outcome = Outcome(measured, failure=_failure(measured, contestant, job.model))
        if outcome.failure:
            return outcome
        outcome.said = contestant.said(measured.stdout, measured.stderr, job)
        on_train, on_test = self._judge(job.model, job.reader)
        outcome.primal, outcome.accuracy = on_train.primal, on_test.accuracy
        self.best = min(self.best, on_train.primal)
        return outcome

    def _judge(self, path: Path, reader: str) -> tuple[Evaluation, Evaluation]:
        """Objective on the training file, accuracy on the test file; equal weights are judged once."""
        model = READERS[reader](path, np.array(self.dataset.facts["classes"]))
        parts = (model.coef, model.intercept, model.classes)
        key = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
        if key not in self._judged:
            objective = Objective(self.dataset.C)
            train, test = self.dataset.train, self.dataset.test
            self._judged[key] = evaluate(model, train, objective), evaluate(model, test, objective)
        return self._judged[key]

    def choose(
        self, contestant: Contestant, config: dict[str, Any], within: float, patience: float
    ) -> tuple[float, Outcome, bool]:
        """The first setting of the ladder that comes within ``within`` of the best primal known, its (untimed)
        run, and whether it did: the last one tried where none does. A step that took longer than ``patience``
        seconds is the last."""
        for setting in config["ladder"]:
            outcome = self.try_out(contestant, setting)
            near = outcome.primal is not None and outcome.primal <= self.best * (1 + within)
            if near or outcome.failure or outcome.measured.wall_seconds > patience:
                break
        return setting, outcome, near


def _failure(measured: Measurement, contestant: Contestant, model: Path) -> str:
    if measured.timed_out:
        return f"stopped after {measured.wall_seconds:.0f} s"
    if measured.exit_code == -9:
        return "killed: out of memory"
    if measured.exit_code not in contestant.accepted:
        last = (measured.stderr.strip().splitlines() or [""])[-1]
        return f"exit code {measured.exit_code}: {last[:200]}"
    return "" if model.exists() else "wrote no model"


def compete(
    dataset: Dataset,
    names: Sequence[str],
    setup: Setup,
    config: dict[str, Any],
    *,
    rounds: int,
    stop: str,
    cgroup_bytes: int | None = None,
    curve: bool = False,
    say: Say = print,
) -> dict[str, Any]:
    """Everything measured on one data set, as plain values.

    stop: "within" (see ``Referee.choose``) or "default".
    """
    common = config["run"]
    setup = replace(setup, numba_cache=setup.work / "numba")
    referee = Referee(dataset, setup, common["timeout_seconds"], cgroup_bytes)
    skipped = {name: CONTESTANTS[name].skip_reason(setup.peers, dataset) for name in names}
    running = [name for name in CONTESTANTS if name in names and not skipped[name]]
    if stop == "within":
        _reference(referee, common["reference_tol"], say)
    results: dict[str, dict[str, Any]] = {}
    for name in running:
        results[name] = _prepared(referee, CONTESTANTS[name], config, stop, say)
        if name == "liblinear" and (peak := results[name]["tried"]["peak_rss_bytes"]):
            limit = max(common["memory_least"], int(common["memory_share"] * peak))
            referee.setup = replace(referee.setup, memory_bytes=limit)
    for number in range(rounds):
        shift = number % max(len(running), 1)
        for name in running[shift:] + running[:shift]:  # nobody always runs after the same one
            outcome = referee.try_out(CONTESTANTS[name], results[name]["setting"], fenced=True)
            results[name]["runs"].append(outcome.as_dict())
            say(f"  round {number + 1}, {name}: {outcome.failure or _in_short(outcome)}")
    return {
        "name": dataset.name,
        "C": dataset.C,
        "facts": dataset.facts,
        "best_primal": referee.best,
        "memory_bytes": referee.setup.memory_bytes,
        "cgroup_bytes": cgroup_bytes,
        "stop": stop,
        "contestants": results,
        "skipped": {name: reason for name, reason in skipped.items() if reason},
        "curve": _curve(referee, config["curve"], running, say) if curve else {},
    }


def _reference(referee: Referee, tol: float, say: Say) -> None:
    """A best primal to begin with: llsvm, untimed, to a smaller gap, with half of the machine's memory."""
    setup = referee.setup
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    referee.setup = replace(setup, memory_bytes=memory)
    outcome = referee.try_out(CONTESTANTS["llsvm"], tol)
    referee.setup = setup
    say(f"  reference, gap {tol:g}: {outcome.failure or _in_short(outcome)}")


def _prepared(
    referee: Referee, contestant: Contestant, config: dict[str, Any], stop: str, say: Say
) -> dict[str, Any]:
    """A contestant's setting, chosen in untimed runs, and its cold run where it compiles."""
    own = config["contestants"][contestant.name]
    cold = None
    if contestant.compiles:
        warm = referee.setup
        with tempfile.TemporaryDirectory(dir=warm.work) as empty:
            referee.setup = replace(warm, numba_cache=Path(empty))
            cold = referee.try_out(contestant, own["default"])
        referee.setup = warm
        say(f"  {contestant.name}, cold: {cold.failure or _in_short(cold)}")
    if stop == "within":
        common = config["run"]
        setting, tried, near = referee.choose(contestant, own, common["within"], common["ladder_seconds"])
    else:
        setting, near = own["default"], None
        tried = referee.try_out(contestant, setting)
    say(f"  {contestant.name}, {contestant.setting_is} {setting:g}: {tried.failure or _in_short(tried)}")
    return {
        "setting": setting,
        "setting_is": contestant.setting_is,
        "came_within": near,
        "tried": tried.as_dict(),
        "cold": None if cold is None else cold.as_dict(),
        "runs": [],
    }


def _curve(
    referee: Referee, settings: dict[str, list[float]], running: list[str], say: Say
) -> dict[str, Any]:
    """Primal objectives of models from runs at finer and finer settings: what could be had in so many seconds."""
    curves: dict[str, Any] = {}
    for name, ladder in settings.items():
        if name not in running:
            continue
        points: list[dict[str, Any]] = []
        for setting in ladder:
            outcome = referee.try_out(CONTESTANTS[name], setting)
            if outcome.failure:
                break
            points.append(
                {
                    "setting": setting,
                    "seconds": outcome.measured.wall_seconds,
                    "primal": outcome.primal,
                    "passes": outcome.said.get("passes"),
                    "dual": outcome.said.get("dual"),
                }
            )
            say(f"  curve of {name}, {setting:g}: {_in_short(outcome)}")
        curves[name] = points
    return curves


def _in_short(outcome: Outcome) -> str:
    measured = outcome.measured
    return (
        f"{measured.wall_seconds:.2f} s, {measured.peak_rss_bytes / 1e6:,.0f} MB, primal {outcome.primal:.8g}, "
        f"accuracy {outcome.accuracy:.4f}"
    )


def median(runs: Sequence[dict[str, Any]], name: str) -> float | None:
    """Of a quantity over the runs that have it."""
    values = [run[name] for run in runs if run.get(name) is not None and not run["failure"]]
    return statistics.median(values) if values else None
