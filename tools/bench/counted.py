"""Counted work of the cells of the table of hard problems that are quick, here and at another commit.

python -m tools.bench hard --counted                       some seven minutes of processor time
python -m tools.bench hard --counted --against COMMIT      twice that, and a minute or two of compiling

A cell is llsvm with one thread (or --threads), and its work is what ``--json`` counts at the prices of
llsvm/process/work.py: the same on a busy machine. Which cells are quick is known from earlier runs, of this table
or the whole one; a cell of which nothing is known is run, and left out from then on if it took longer. Where the
commit does not count its work, the processor time of both is compared instead, as it was in turn on this machine.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields
from typing import Any

from llsvm.process.work import Work
from tools.bench.cells import BIG_BYTES, Machine, Problem
from tools.bench.results import keep, kept_cells
from tools.bench.verdicts import markdown, number
from tools.checkout import checkout_of

COLUMNS = ("cell", "passes", "gap", "work s", "CPU s", "before", "ratio", "most of the work")
WORSE, WORSE_SECONDS = 1.3, 0.3  # a cell is worse by such a factor, if that is so much
_PATIENCE = 12  # times the seconds of a quick cell, by the wall: compiled and busy as the machine may be
_PARTS = 3  # kinds of work that are shown, the dearest first


def run(machine: Machine, wanted: Sequence[tuple[str, Problem, str]], options: argparse.Namespace) -> int:
    """Run the quick ones of these cells and print what they come to; 1 where one is no longer certified."""
    out, most, rows = options.out / "counted", options.counted_seconds, list[dict[str, Any]]()
    cells = kept_cells(out)
    known = {**kept_cells(options.out), **cells}
    quick = [each for each in wanted if known.get(each[0], {}).get("cpu_seconds", 0.0) <= most]
    with nullcontext() if options.against is None else checkout_of(options.against) as checkout:
        other = None if checkout is None else machine.of_checkout(checkout)
        for place, (key, problem, limit) in enumerate(quick, 1):
            n_bytes = BIG_BYTES if limit == "big" else machine.small_limit(problem)
            if n_bytes is None:
                continue
            cells[key] = cell = machine.train(problem, n_bytes, _PATIENCE * most)
            keep(out, cells)
            if cell["cpu_seconds"] > most:
                print(f"{place}/{len(quick)} {key}: left out, {cell['cpu_seconds']:.1f} s", flush=True)
                continue
            before = None if other is None else other.train(problem, n_bytes, _PATIENCE * most)
            rows.append(row(key, cell, before))
            print(f"{place}/{len(quick)}", *(rows[-1][name] for name in COLUMNS), flush=True)
    text = f"{markdown(COLUMNS, rows)}\n\n{summary(rows)}\n"
    out.mkdir(parents=True, exist_ok=True)
    (out / "table.md").write_text(text)
    print(f"\n{text}")
    return int(any(each["lost"] for each in rows))


def row(key: str, cell: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a row of the table. seconds, before_seconds: are compared. lost: certified only before."""
    work, kind = Work.of(cell.get("work") or {}), "work"
    seconds, seconds_before = work.seconds, None
    if before is not None and before.get("work"):
        seconds_before = Work.of(before["work"]).seconds
    elif before is not None:
        kind, seconds, seconds_before = "CPU", cell["cpu_seconds"], before["cpu_seconds"]
    ratio = seconds / seconds_before if seconds_before else None
    return {
        "cell": key.replace("|", " "),  # which ends a column
        "passes": cell.get("passes", "-"),
        "gap": number(cell.get("gap"), ".1e"),
        "work s": number(work.seconds, ".3f"),
        "CPU s": number(cell["cpu_seconds"], ".2f"),
        "before": "-" if seconds_before is None else f"{seconds_before:.3f} ({kind})",
        "ratio": number(ratio, ".2f"),
        "most of the work": _parts(work),
        "seconds": seconds,
        "before_seconds": seconds_before,
        "lost": before is not None and before["exit_code"] == 0 and cell["exit_code"] != 0,
    }


def _parts(work: Work) -> str:
    """Return the dearest kinds of work in words, with their counts and shares of the price."""
    priced = {each.name: 1e-9 * each.metadata["ns"] * getattr(work, each.name) for each in fields(work)}
    dearest = sorted((name for name in priced if priced[name]), key=lambda name: -priced[name])[:_PARTS]
    counts = work.as_dict()
    return ", ".join(f"{name} {counts[name]:,} ({priced[name] / work.seconds:.0%})" for name in dearest)


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return sums and mean ratio in words, and the names of cells that are worse or no longer certified."""
    total = sum(each["seconds"] for each in rows)
    compared = [each for each in rows if each["before_seconds"]]
    if not compared:
        return f"{len(rows)} cells, {total:.1f} s"
    before = sum(each["before_seconds"] for each in compared)
    now = sum(each["seconds"] for each in compared)
    ratios = [math.log(max(each["seconds"], 1e-9) / each["before_seconds"]) for each in compared]
    mean = math.exp(sum(ratios) / len(ratios))
    lines = [f"{len(compared)} cells compared: {before:.1f} s -> {now:.1f} s, {mean:.2f} times in the mean"]
    for each in sorted(compared, key=lambda each: each["before_seconds"] - each["seconds"]):
        more = each["seconds"] - each["before_seconds"]
        if each["seconds"] > WORSE * each["before_seconds"] and more > WORSE_SECONDS:
            lines.append(f"- worse: {each['cell']}: {each['ratio']} times, {more:.2f} s more")
    return "\n".join([*lines, *(f"- certified no more: {each['cell']}" for each in rows if each["lost"])])
