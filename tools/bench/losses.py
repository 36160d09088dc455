"""Every loss that is offered, on data of its kind: certified, and within its gap of somebody else's tight optimum,
in memory and under a limit at which the rows do not fit; beside LIBLINEAR at its default tolerance, in turn.

python -m tools.bench losses                                          all of it: an hour
python -m tools.bench losses --loss logistic --data a9a,text --limit 400MB --rounds 3
python -m tools.bench losses --quick                                  some rows of each: minutes

The losses, penalties and forms of multi-class are those that the program declares. What minimises an objective
tightly: see oracles.py. results.json is written after each cell, and what is there is not run again (--again does).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from llsvm.settings.methods import METHODS
from llsvm.settings.objective import CLASSIFICATION, KINDS, LOSSES, MULTICLASS, REGRESSION
from tools.bench import datasets, hard_data
from tools.bench.cells import BIG_BYTES, Machine, Problem, commit
from tools.bench.datasets import Dataset, Missing
from tools.bench.oracles import optimum, pattern_of
from tools.bench.peers import liblinear_programs, run_peer
from tools.bench.results import foot, keep, kept_cells, shared_options, size, words
from tools.bench.row_losses import KNOWN, Objective
from tools.bench.verdicts import markdown, number

COLUMNS = (
    "loss",
    "penalty",
    "data",
    "classes",
    "limit",
    "solver",
    "passes",
    "wall s",
    "CPU s",
    "gap",
    "primal",
    "above the oracle",
    "not zero",
    "oracle",
    "LIBLINEAR's default",
    "verdict",
)
_SLACK = 1e-4  # between llsvm's arithmetic in float32 values and the referee's, or an oracle's end


def main(arguments: list[str], config: dict[str, Any]) -> int:
    options = _options(arguments, config["losses"])
    options.work.mkdir(parents=True, exist_ok=True)
    machine = Machine(options.work, Path(os.environ.get("NUMBA_CACHE_DIR") or options.work / "numba"), None)
    cells = kept_cells(options.out)
    rows = []
    for problem in problems(options, config):
        for limit in options.limit:
            key = f"{problem.key}|{limit}"
            if key not in cells or options.again:
                cells[key] = _cell(machine, problem, limit, options)
                keep(options.out, cells)
            if cells[key].get("tiny"):
                continue
            rows.append(
                _row(problem, cells[key], optimum(problem, options.work / "oracles", options.peer_timeout))
            )
            print(f"{key}: {rows[-1]['verdict']}", file=sys.stderr, flush=True)
    rows += [unknown(loss) for loss in options.loss if loss not in KNOWN]
    bad = [f"- {row['loss']}, {row['data']}, {row['limit']}: {row['verdict']}" for row in rows if row["bad"]]
    text = "\n\n".join(
        [markdown(COLUMNS, rows), f"{len(rows)} cells, {len(bad)} not as they should be:", *bad]
    )
    text += f"\n\n{foot(options.tol)}\n"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "table.md").write_text(text)
    print(text)
    return 0


def offered(loss: str) -> list[tuple[str, str]]:
    """Penalties and forms of multi-class that some linear method has with a loss, for labels of its kind."""
    found = [
        (penalty, form)
        for method in METHODS.values()
        if not method.kernels
        for penalty in method.objectives.get(loss, ())
        for form in (method.multiclass if KINDS[loss] == CLASSIFICATION else ("ovr",))
    ]
    return sorted(set(found), key=lambda each: (each[0] != "l2", each[0], MULTICLASS.index(each[1])))


def unknown(loss: str) -> dict[str, Any]:
    """The row of a loss that the referee knows nothing of."""
    return dict.fromkeys(COLUMNS, "-") | {
        "loss": loss,
        "verdict": "row_losses.py does not have it",
        "bad": True,
    }


def problems(options: argparse.Namespace, config: dict[str, Any]) -> Iterator[Problem]:
    for loss in options.loss:
        if loss not in KNOWN:
            continue
        names = config["losses"][
            {CLASSIFICATION: "data", REGRESSION: "data_of_numbers"}.get(KINDS[loss], "data_unlabelled")
        ]
        for penalty, form in offered(loss):
            if penalty not in options.penalty or form not in options.multiclass:
                continue
            for name in options.data or names:
                wanted = name in names or (name == "text" and KINDS[loss] in (CLASSIFICATION, REGRESSION))
                if not wanted:
                    continue
                try:
                    dataset = _made(name, options, config)
                except Missing as error:
                    print(f"{name}: {error}", file=sys.stderr)
                    continue
                several = len(dataset.facts["classes"]) > 2
                if form == "ovr" or (several and KINDS[loss] == CLASSIFICATION):
                    if name in config["losses"]["joint_only"] and form == "ovr":
                        continue
                    yield Problem(dataset, Objective(options.C, loss, form, penalty))


def _made(name: str, options: argparse.Namespace, config: dict[str, Any]) -> Dataset:
    if name == "text":
        return datasets.make(name, config["data"][name], options.work, options.rows)
    return hard_data.make(name, options.work, options.rows)


def _cell(machine: Machine, problem: Problem, limit: str, options: argparse.Namespace) -> dict[str, Any]:
    """llsvm and LIBLINEAR's programs in turn, round by round; medians of their seconds, the last run's figures."""
    n_bytes = {"big": BIG_BYTES}.get(limit) or (
        machine.small_limit(problem) if limit == "small" else size(limit)
    )
    if n_bytes is None:
        return {"tiny": True}
    told: dict[str, Any] = {}
    clocks: dict[str, list[float]] = {"wall_seconds": [], "cpu_seconds": []}
    peers: dict[str, list[Any]] = {program: [] for program in liblinear_programs(problem)}
    for _ in range(options.rounds):
        told = machine.train(problem, n_bytes, options.timeout)
        for name, values in clocks.items():
            values.append(told[name])
        for program, runs in peers.items():
            runs.append(run_peer(problem, program, None, options.work, options.peer_timeout))
    told |= {name: statistics.median(values) for name, values in clocks.items()}
    defaults = {}
    for program, runs in peers.items():
        seconds = {name: statistics.median(getattr(each, name) for each in runs) for name in clocks}
        defaults[program] = asdict(runs[-1]) | seconds
    told |= {"differs": _differs(machine, problem, n_bytes, options) if limit == "big" else None}
    return told | {"defaults": defaults, "commit": commit(), "load": os.getloadavg()[0]}


def _differs(machine: Machine, problem: Problem, n_bytes: int, options: argparse.Namespace) -> int | None:
    """How many weights are 0 here or in LIBLINEAR's tight answer, but not in both: of a tight run of ours."""
    optimum(problem, options.work / "oracles", options.peer_timeout)
    pattern = pattern_of(problem, options.work / "oracles")
    if not pattern.exists():
        return None
    tight = ("--tol", f"{options.tol / 1000:g}", "--max-passes", "0")
    if machine.train(problem, n_bytes, options.timeout, tight).get("primal") is None:
        return None
    ours = machine.weights(problem) != 0
    theirs = np.load(pattern)["nonzero"]
    columns = max(ours.shape[1], theirs.shape[1])
    ours, theirs = (np.pad(each, ((0, 0), (0, columns - each.shape[1]))) for each in (ours, theirs))
    return int(np.count_nonzero(ours != theirs))


def verdict(cell: dict[str, Any], best: float | None) -> str:
    """ "" where the cell is as it should be; best: the oracle's primal."""
    if cell.get("primal") is None:
        return f"exit code {cell['exit_code']}: {cell['sentence']}"
    primal, said, dual = cell["primal"], cell["said_primal"], cell["dual"]
    slack = _SLACK * abs(said)
    if abs(primal - said) > slack:
        return f"CONTRADICTED: the primal is {primal:.9g}, not {said:.9g}"
    if best is not None and dual > best + slack:
        return f"CONTRADICTED: a dual of {dual:.9g} is above a known primal, {best:.9g}"
    # where an optimum below 0 is as good as 0, so is the gap
    within = cell["gap"] * abs(primal) if said > 0 or cell["gap"] > 0 else said - dual
    if best is not None and cell["gap"] <= 1e-3 and primal > best + within + slack:
        return f"CONTRADICTED: the primal {primal:.9g} is farther above {best:.9g} than its gap"
    return "" if cell["exit_code"] == 0 else f"NOT certified: gap {cell['gap']:.2g}: {cell['sentence']}"


def _row(problem: Problem, cell: dict[str, Any], oracle: dict[str, Any]) -> dict[str, Any]:
    o, primal, best = problem.objective, cell.get("primal"), oracle["primal"]
    lowest = min((each for each in (best, primal) if each is not None), default=None)
    found = verdict(cell, best)
    return {
        "loss": o.loss,
        "penalty": o.penalty,
        "data": problem.dataset.name,
        "classes": problem.form,
        "limit": f"{cell['limit_bytes'] / 1e6:,.0f} MB",
        "solver": cell.get("solver", "-"),
        "passes": cell.get("passes", "-"),
        "wall s": number(cell["wall_seconds"], ".2f"),
        "CPU s": number(cell["cpu_seconds"], ".2f"),
        "gap": number(cell.get("gap"), ".1e"),
        "primal": number(primal, ".7g"),
        "above the oracle": "-" if primal is None or best is None else f"{(primal - best) / abs(best):.3%}",
        "not zero": _pattern(cell, oracle) if o.penalty == "l1" else "-",
        "oracle": oracle["by"] or "none",
        "LIBLINEAR's default": "; ".join(_default(*each, lowest) for each in cell.get("defaults", {}).items())
        or "-",
        "verdict": found or ("as the oracle" if best is not None else "certified, no oracle"),
        "bad": bool(found),
    }


def _pattern(cell: dict[str, Any], oracle: dict[str, Any]) -> str:
    said = f"{number(cell.get('nonzero'), 'd')}, oracle {number(oracle['nonzero'], 'd')}"
    return said + ("" if cell.get("differs") is None else f"; {cell['differs']} differ when tight")


def _default(program: str, run: dict[str, Any], lowest: float | None) -> str:
    """Seconds, and how far above the lowest primal known it ends."""
    number_ = program.removeprefix("liblinear ")
    if run["primal"] is None or lowest is None:
        return f"{number_}: {run['failure']}"
    note = f", {run['failure']}" if run["failure"] else ""
    return f"{number_}: {run['wall_seconds']:.2f} s, {run['primal'] / lowest - 1:.2%} above{note}"


def _options(arguments: list[str], config: dict[str, Any]) -> argparse.Namespace:
    chosen = config | (config["quick"] if "--quick" in arguments else {})
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench losses",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shared_options(parser, "losses", chosen)
    here = [loss for loss in LOSSES if offered(loss)]
    everything = ",".join([*config["data"], *config["data_of_numbers"], "text"])
    parser.add_argument("--data", type=words, default=None, help=everything)
    parser.add_argument("--C", type=float, default=config["C"])
    parser.add_argument("--loss", type=words, default=here, help=",".join(here))
    parser.add_argument("--penalty", type=words, default=config["penalty"], help="l2,l1,elasticnet")
    parser.add_argument("--multiclass", type=words, default=config["multiclass"], help=",".join(MULTICLASS))
    parser.add_argument("--limit", type=words, default=chosen["limit"], help="big (4 GB), small, or a size")
    parser.add_argument("--rounds", type=int, default=chosen["rounds"])
    options = parser.parse_args(arguments)
    options.tol, options.work = 1e-3, options.work.resolve()
    return options
