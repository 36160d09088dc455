"""What a cell of the table of hard problems comes to, and the table in Markdown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

WORDS = ("met", "slower", "refused", "NOT certified", "CONTRADICTED", "CRASHED")
COLUMNS = (
    "data",
    "C",
    "loss",
    "classes",
    "limit",
    "solver",
    "passes",
    "wall s",
    "CPU s",
    "gap",
    "primal",
    "above best",
    "peer s",
    "peer",
    "verdict",
)
_FIGURES = ("C", "passes", "wall s", "CPU s", "gap", "primal", "above best", "above the oracle", "peer s")
_REFUSED = (2, 3, 4)  # exit codes of options, data, memory
_SLACK = 1e-4  # between llsvm's arithmetic in float32 values and the referee's


@dataclass(frozen=True)
class Aim:
    """within: of the best primal known, where a peer's clock stops. least_seconds: a cell may take so long whatever
    the peer takes. tol: the gap that was asked for. clock: "wall_seconds" or "cpu_seconds"."""

    within: float
    least_seconds: float
    tol: float
    clock: str = "wall_seconds"


def verdict(cell: dict[str, Any], best: float, peer_seconds: float | None, aim: Aim) -> tuple[str, str]:
    """A word of WORDS, and what there is to say about it.

    cell: of ``cells.Machine.train``. best: the lowest primal known of this problem. peer_seconds: None where no
    peer came within aim.within of it in its time, or there is none.
    """
    if cell["exit_code"] in _REFUSED:
        return "refused", cell["sentence"]
    if cell.get("primal") is None:
        if cell["timed_out"]:
            return "NOT certified", f"killed after {cell['wall_seconds']:.0f} s"
        return "CRASHED", f"exit code {cell['exit_code']}: {cell['sentence']}"
    contradiction = _contradiction(cell, best)
    if contradiction:
        return "CONTRADICTED", contradiction
    if cell["exit_code"] != 0 or cell["gap"] > aim.tol:
        return "NOT certified", f"gap {cell['gap']:.2g} after {cell['passes']} passes: {cell['sentence']}"
    allowed, seconds = max(aim.least_seconds, peer_seconds or 0.0), cell[aim.clock]
    if cell["peered"] and peer_seconds is None:  # in all the time it was given it did not come near
        return "met", ""
    if seconds <= allowed:
        return "met", ""
    return "slower", f"{seconds / allowed:.1f} times the {allowed:.1f} s"


def _contradiction(cell: dict[str, Any], best: float) -> str:
    """Does the referee's arithmetic, or anybody's primal, disprove the certificate?"""
    primal, dual, said = cell["primal"], cell["dual"], cell["said_primal"]
    slack = _SLACK * abs(said)
    if dual > best + slack:
        return f"a dual of {dual:.9g} is above a known primal, {best:.9g}"
    if primal > said + slack:
        return f"the primal is {primal:.9g}, not {said:.9g}"
    return ""


def markdown(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> str:
    """A table; columns of figures stand to the right."""
    figures = ["---:" if name in _FIGURES else "---" for name in columns]
    lines = ["| " + " | ".join(columns) + " |", "|" + "|".join(figures) + "|"]
    lines += ["| " + " | ".join(str(row[name]) for name in columns) + " |" for row in rows]
    return "\n".join(lines)


def summary(rows: list[dict[str, Any]]) -> str:
    """How many of each verdict, and every cell that is not met or refused, by name."""
    counted = Counter(row["word"] for row in rows)
    lines = [f"{len(rows)} cells: " + ", ".join(f"{counted[word]} {word}" for word in WORDS if counted[word])]
    for word in WORDS[1:]:
        mine = [row for row in rows if row["word"] == word]
        if word == "refused":
            sentences = Counter(row["detail"] for row in mine)
            lines += [f"- refused, {count} cells: {sentence}" for sentence, count in sentences.items()]
        else:
            lines += [f"- {word}: {row['key']}: {row['detail']}{_profile(row)}" for row in mine]
    return "\n".join(lines)


def _profile(row: dict[str, Any]) -> str:
    return f" (profile: {row['profile']})" if row.get("profile") else ""


def number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
