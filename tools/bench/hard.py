"""The table of hard problems: raw columns, few rows, large C, little memory; each cell certified, or why not.

python -m tools.bench hard                                        all of it: hours
python -m tools.bench hard --quick                                small data, a few rows of the large: ten minutes
python -m tools.bench hard --data wine,kdd-raw --C 1,100 --loss hinge --multiclass ovr --limit small
python -m tools.bench hard --counted --against COMMIT                 work in counts, of quick cells (counted.py)

A cell is llsvm with its defaults on a file, compiled beforehand, in a process of its own. Beside it stand the
seconds of the quickest of LIBLINEAR's (LIBSVM's) runs that came within 0.1 % of the best primal that anybody
reached; ten seconds are always allowed. results.json is written after each cell: what is there already is not run
again, so a run that was stopped goes on where it was (--again runs them anew).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.bench import counted, hard_data
from tools.bench.cells import BIG_BYTES, Machine, Problem, commit
from tools.bench.datasets import Dataset, Missing
from tools.bench.ladders import Ladder
from tools.bench.results import foot, keep, kept_cells, numbers, shared_options, words
from tools.bench.row_losses import Objective
from tools.bench.verdicts import COLUMNS, Aim, markdown, number, summary, verdict


def main(arguments: list[str], config: dict[str, Any]) -> int:
    options = _options(arguments, config["hard"])
    options.work.mkdir(parents=True, exist_ok=True)
    cache = os.environ.get("NUMBA_CACHE_DIR") or str(options.work / "numba")
    threads = options.threads or (1 if options.counted else None)
    machine = Machine(options.work.resolve(), Path(cache), threads)
    cells = kept_cells(options.out)
    wanted: list[tuple[str, Problem, str]] = []
    for name in options.data:
        try:
            dataset = hard_data.make(name, options.work, options.rows)
        except Missing as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        for problem in problems(dataset, options):
            for limit in options.limit:
                wanted.append((f"{problem.key}|{limit}", problem, limit))
    if options.counted:
        return counted.run(machine, wanted, options)
    for number_, (key, problem, limit) in enumerate(wanted, 1):
        new = key not in cells or options.again
        if new:
            cells[key] = _cell(machine, problem, limit, options)
            keep(options.out, cells)
        if peers_run(problem, cells[key], options):
            ladder = Ladder(problem, options.work / "ladders", options.peer_timeout)
            ladder.climb(_certified_primal(problem, cells), options.aim.within)
        elif not new:
            continue
        line = judged({key: cells[key]}, {key: problem}, options, cells)
        said = f"{line[0]['word']} {line[0]['detail']}" if line else "no such cell: the data are tiny"
        print(f"{number_}/{len(wanted)} {key}: {said}", file=sys.stderr, flush=True)
    mine = {key: problem for key, problem, _ in wanted}
    rows = judged({key: cells[key] for key in mine}, mine, options, cells)
    if options.profile:
        _profile(machine, rows, mine, cells, options)
        keep(options.out, cells)
    print(_write(rows, options))
    return 0


def problems(dataset: Dataset, options: argparse.Namespace) -> Iterator[Problem]:
    """The cells of a data set, but for their limits."""
    several = len(dataset.facts["classes"]) > 2
    for C in options.C:
        for loss in options.loss:
            for form in options.multiclass:
                if form == "rbf":
                    if dataset.name in options.kernel_data:
                        joint = Objective(C, loss, "ovo")
                        yield Problem(dataset, joint, kernel=True)
                        yield Problem(dataset, joint, kernel=True, intercept=True)
                elif several or (form == "ovr" and dataset.name not in options.kernel_only):
                    yield Problem(dataset, Objective(C, loss, form))


def _cell(machine: Machine, problem: Problem, limit: str, options: argparse.Namespace) -> dict[str, Any]:
    n_bytes = BIG_BYTES if limit == "big" else machine.small_limit(problem)
    if n_bytes is None:
        return {"tiny": True}
    told = machine.train(problem, n_bytes, options.timeout)
    return told | {"commit": commit(), "load": os.getloadavg()[0]}


def judged(
    cells: dict[str, Any],
    problem_of: dict[str, Problem],
    options: argparse.Namespace,
    all_cells: dict[str, Any],
) -> list[dict[str, Any]]:
    """Rows of the table. all_cells: where other primals of the same problem may be found."""
    rows = []
    for key, cell in cells.items():
        if cell.get("tiny"):
            continue
        problem = problem_of[key]
        peers = _with_peers(problem)
        ladder = Ladder(peers, options.work / "ladders", options.peer_timeout)
        goal = min([ladder.best, *_primals(peers, all_cells)])
        best = min([goal if peers == problem else float("inf"), *_primals(problem, all_cells)])
        near = ladder.nearest((1 + options.aim.within) * goal, options.aim.clock)
        clock = None if near is None else getattr(near, options.aim.clock)
        known = cell | {"peered": bool(ladder.rungs)}
        word, detail = verdict(known, best, clock, options.aim)
        rows.append(_row(key, cell, problem, best, word, detail) | _peer(ladder, near, clock))
    return rows


def peers_run(problem: Problem, cell: dict[str, Any], options: argparse.Namespace) -> bool:
    """Are peers to solve this cell's problem as well? What they have measured already is not measured again."""
    if options.peers == "none" or cell.get("tiny") or _with_peers(problem) != problem:
        return False
    return options.peers == "all" or bool(cell[options.aim.clock] > options.aim.least_seconds)


def _certified_primal(problem: Problem, cells: dict[str, Any]) -> float:
    """The lowest of its cells'; infinite where none is certified, or not yet."""
    mine = [cells.get(f"{problem.key}|{limit}", {}) for limit in ("big", "small")]
    return min([cell["primal"] for cell in mine if cell.get("exit_code") == 0], default=float("inf"))


def _with_peers(problem: Problem) -> Problem:
    """The problem itself; of a kernel machine without intercept, which LIBSVM does not have, the one with it."""
    return replace(problem, intercept=True) if problem.kernel else problem


def _primals(problem: Problem, cells: dict[str, Any]) -> list[float]:
    """Of its cells, the referee's."""
    found = [cells.get(f"{problem.key}|{limit}", {}).get("primal") for limit in ("big", "small")]
    return [primal for primal in found if primal is not None]


def _row(
    key: str, cell: dict[str, Any], problem: Problem, best: float, word: str, detail: str
) -> dict[str, Any]:
    primal = cell.get("primal")
    return {
        "key": key,
        "word": word,
        "detail": detail,
        "profile": cell.get("profile", ""),
        "data": problem.dataset.name,
        "C": f"{problem.objective.C:g}",
        "loss": problem.objective.loss,
        "classes": problem.form,
        "limit": f"{cell['limit_bytes'] / 1e6:,.0f} MB",
        "solver": cell.get("solver", "-"),
        "passes": cell.get("passes", "-"),
        "wall s": number(cell["wall_seconds"], ".2f"),
        "CPU s": number(cell["cpu_seconds"], ".2f"),
        "gap": number(cell.get("gap"), ".1e"),
        "primal": number(primal, ".7g"),
        "above best": "-" if primal is None else f"{primal / best - 1:.3%}",
        "verdict": word + (f": {detail}" if detail and word != "refused" else ""),
    }


def _peer(ladder: Ladder, near: Any, clock: float | None) -> dict[str, str]:
    if near is not None:
        return {"peer s": number(clock, ".2f"), "peer": f"{near.program} -e {near.setting:g}"}
    if not ladder.rungs:
        return {"peer s": "-", "peer": "none"}
    tried = max(rung.wall_seconds for rung in ladder.rungs)
    return {"peer s": "-", "peer": f"not near in {tried:.0f} s"}


def _profile(
    machine: Machine,
    rows: list[dict[str, Any]],
    problem_of: dict[str, Problem],
    cells: dict[str, Any],
    options: argparse.Namespace,
) -> None:
    for row in rows:
        if row["word"] in ("slower", "NOT certified") and not row["profile"]:
            cell = cells[row["key"]]
            found = machine.profile(problem_of[row["key"]], cell["limit_bytes"], options.timeout)
            cell["profile"] = row["profile"] = found


def _write(rows: list[dict[str, Any]], options: argparse.Namespace) -> str:
    text = f"{markdown(COLUMNS, rows)}\n\n{summary(rows)}\n\n{foot(options.aim.tol)}\n"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "table.md").write_text(text)
    return text


def _options(arguments: list[str], config: dict[str, Any]) -> argparse.Namespace:
    quick = "--quick" in arguments
    chosen = config | (config["quick"] if quick else {})
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench hard",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shared_options(parser, "hard", chosen)
    add = parser.add_argument
    add("--data", type=words, default=chosen["data"], help=",".join(config["data"]))
    add("--C", type=numbers, default=chosen["C"])
    add("--loss", type=words, default=chosen["loss"])
    add("--multiclass", type=words, default=chosen["multiclass"], help=",".join(config["multiclass"]))
    add("--limit", type=words, default=chosen["limit"], help="big (4 GB), small (rows do not fit)")
    add("--threads", type=int, default=None, help="of llsvm; default: all")
    add("--clock", choices=("wall", "cpu"), default="wall", help="cpu: on a machine that has more to do")
    peers = "slow: beside cells that took longer than is always allowed; those measured before count anyway"
    add("--peers", choices=("all", "slow", "none"), default="all", help=peers)
    add("--profile", action="store_true", help="run what is slow or not certified once more, profiled")
    add("--counted", action="store_true", help="work in counts, of cells that took up to five seconds")
    add("--against", metavar="COMMIT", help="with --counted: and of this commit's llsvm")
    options = parser.parse_args(arguments)
    if options.against is not None and not options.counted:
        parser.error("--against compares counted work: add --counted")
    options.counted_seconds = config["counted_seconds"]
    options.kernel_data, options.kernel_only = config["kernel_data"], config["kernel_only"]
    options.aim = Aim(config["within"], config["least_seconds"], 1e-3, f"{options.clock}_seconds")
    options.work = options.work.resolve()
    return options
