"""Results as JSON and as Markdown: medians over the rounds."""

from __future__ import annotations

import json
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from tools.bench.runner import median

COLUMNS = (
    "contestant",
    "wall s",
    "cold s",
    "CPU s",
    "peak MB",
    "read MB",
    "passes",
    "primal",
    "above best",
    "gap",
    "accuracy",
    "stopped at",
)
_PACKAGES = (
    "llsvm",
    "numpy",
    "numba",
    "pyarrow",
    "scikit-learn",
    "liblinear-tools",
    "vowpalwabbit",
    "snapml",
)


def write(results: dict[str, Any], out: Path) -> str:
    """``results.json`` and ``table.md`` in the folder ``out``; returns the Markdown."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(results, indent=1))
    text = markdown(results)
    (out / "table.md").write_text(text)
    return text


def markdown(results: dict[str, Any]) -> str:
    """All data sets' tables, and below what they were measured on."""
    tables = [table(each) for each in results["datasets"]]
    missing = [f"Skipped data set {name}: {reason}." for name, reason in results["missing"].items()]
    machine = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    foot = (
        f"Medians of {results['rounds']} rounds, in turn, each run in its own process; files in the page cache. "
        f"{machine['processor']}, {machine['cpus']} cores, {machine['memory_bytes'] / 1e9:.0f} GB, "
        f"{machine['system']}, Python {machine['python']}, {versions}. {results['date']}. `{results['command']}`"
    )
    return "\n\n".join([*tables, *missing, foot]) + "\n"


def table(result: dict[str, Any]) -> str:
    """One data set's Markdown table, with a heading, and the reasons of those who are missing."""
    facts = result["facts"]
    head = (
        f"### {result['name']}\n\n{facts['rows']:,} rows, {facts['columns']:,} columns, "
        f"{facts['values']:,} values, {len(facts['classes'])} classes, {facts['bytes'] / 1e6:,.0f} MB of text; "
        f"hinge, C = {result['C']:g}, no bias; llsvm's limit {result['memory_bytes'] / 1e6:,.0f} MB"
    )
    if result["cgroup_bytes"]:
        head += f"; each timed run in a memory cgroup of {result['cgroup_bytes'] / 1e6:,.0f} MB"
    lines = [
        head,
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---" + "|---:" * (len(COLUMNS) - 2) + "|---|",
    ]
    for name, contestant in result["contestants"].items():
        lines.append("| " + " | ".join(_row(name, contestant, result)) + " |")
    text = "\n".join(lines)
    reasons = [f"{name}: {reason}." for name, reason in result["skipped"].items()]
    return text + ("\n\nSkipped: " + " ".join(reasons) if reasons else "")


def _row(name: str, contestant: dict[str, Any], result: dict[str, Any]) -> list[str]:
    runs = contestant["runs"] or [contestant["tried"]]
    good = [run for run in runs if not run["failure"]]
    if not good:
        return [name, *["-"] * (len(COLUMNS) - 2), runs[0]["failure"]]
    said, cold = good[-1]["said"], contestant["cold"]
    primal = median(runs, "primal")
    assert primal is not None
    read = median(runs, "read_bytes")
    return [
        name,
        _number(median(runs, "wall_seconds"), ".2f"),
        "-" if cold is None or cold["failure"] else _number(cold["wall_seconds"], ".2f"),
        _number(median(runs, "cpu_seconds"), ".2f"),
        _number(_scaled(median(runs, "peak_rss_bytes")), ",.0f"),
        _number(_scaled(read), ",.0f"),
        _number(said.get("passes"), "d"),
        _number(primal, ".8g"),
        f"{primal / result['best_primal'] - 1:.3%}",
        _number(said.get("relative_gap"), ".1e"),
        _number(median(runs, "accuracy"), ".4f"),
        _stopped(contestant, result["stop"], said)
        + (f"; {len(runs) - len(good)} failed" if good != runs else ""),
    ]


def _stopped(contestant: dict[str, Any], stop: str, said: dict[str, Any]) -> str:
    text = f"{contestant['setting_is']} {contestant['setting']:g}"
    if stop == "default":
        text += " (default)"
    elif not contestant["came_within"]:
        text += " (not within 0.1 % at any setting)"
    return text + (f"; {said['note']}" if said.get("note") else "")


def _scaled(n_bytes: float | None) -> float | None:
    return None if n_bytes is None else n_bytes / 1e6


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def machine(peers: Path) -> dict[str, Any]:
    """What the results were measured on."""
    import os

    return {
        "processor": _processor(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": list(os.getloadavg()),
        "versions": _versions(peers),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(": ", 1)[1] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def _versions(peers: Path) -> dict[str, str]:
    folders = [str(folder) for folder in peers.iterdir()] if peers.is_dir() else []
    found = {each.metadata["Name"]: each.version for each in metadata.distributions(path=folders)}
    for name in _PACKAGES:
        try:
            found.setdefault(name, metadata.version(name))
        except metadata.PackageNotFoundError:
            continue
    found.update(_debian("liblinear-tools"))
    return dict(sorted(found.items()))


def _debian(package: str) -> dict[str, str]:
    import shutil
    import subprocess

    if not shutil.which("dpkg-query"):
        return {}
    asked = ["dpkg-query", "-W", "-f", "${Version}", package]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    return {package: answer.stdout} if answer.returncode == 0 and answer.stdout else {}
