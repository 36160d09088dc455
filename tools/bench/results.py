"""What the tables of hard problems and of losses share: options, and the file in which their cells are kept."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tools.bench import report
from tools.bench.cells import commit

_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def kept_cells(out: Path) -> dict[str, Any]:
    """Of runs before, by name."""
    path = out / "results.json"
    return dict(json.loads(path.read_text())["cells"]) if path.exists() else {}


def keep(out: Path, cells: dict[str, Any]) -> None:
    """Write them all; half a file is never left."""
    out.mkdir(parents=True, exist_ok=True)
    part = out / "results.part"
    part.write_text(json.dumps({"cells": cells}, indent=1))
    part.replace(out / "results.json")


def foot(tol: float) -> str:
    """What a table was measured on."""
    machine = report.machine(Path("build/bench/peers"))
    return f"{machine['processor']}, {machine['cpus']} cores, commit {commit()}; tolerance {tol:g}."


def shared_options(parser: argparse.ArgumentParser, name: str, config: dict[str, Any]) -> None:
    add = parser.add_argument
    add("--quick", action="store_true", help="a subset, some rows of larger data: minutes")
    add("--work", type=Path, default=Path("build/bench/work"), help="data, models, what peers took")
    add("--out", type=Path, default=Path("build/bench") / name, help="results.json and table.md")
    add("--rows", type=int, default=config.get("rows"), help="of larger data, about so many rows only")
    add("--timeout", type=float, default=config["timeout_seconds"], help="seconds for a cell")
    add("--peer-timeout", type=float, default=config["peer_seconds"], help="seconds for a run of a peer")
    add("--again", action="store_true", help="run what is in results.json already")


def words(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def numbers(text: str) -> list[float]:
    return [float(word) for word in words(text)]


def size(text: str) -> int:
    """400MB -> 400,000,000."""
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * factor)
    return int(text)
