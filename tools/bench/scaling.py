"""Reading alone (``read``), and how time and memory grow with rows and threads (``scale``)."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

from tools.bench import datasets
from tools.bench.contestants import CONTESTANTS, Setup, environment
from tools.bench.measure import run

# With this tolerance LIBLINEAR's primal solver reads the file, looks at the objective a few times, and stops.
_STOP_AT_ONCE = ["-s", "2", "-e", "1e9"]


def read(options: argparse.Namespace, config: dict[str, Any]) -> int:
    """MB/s of text: llsvm's reader (per number of threads), scikit-learn's, LIBLINEAR's."""
    threads = options.threads or [1, 2]
    answers = []
    for name in options.data:
        try:
            dataset = datasets.make(name, config["data"].get(name, {}), options.work.resolve(), options.rows)
        except datasets.Missing as error:
            print(f"{name} is skipped: {error}", file=sys.stderr)
            continue
        size = dataset.facts["bytes"]
        seconds: dict[str, list[float]] = {}
        for _ in range(options.rounds or config["run"]["rounds"]):
            for count in threads:
                task = {"train": str(dataset.train), "threads": count, "block_bytes": options.block}
                seconds.setdefault(f"llsvm, threads {count}", []).append(
                    _inside("read_llsvm", task, options.work)
                )
            task = {"train": str(dataset.train)}
            seconds.setdefault("scikit-learn", []).append(_inside("read_sklearn", task, options.work))
            if not CONTESTANTS["liblinear"].missing(options.work):
                seconds.setdefault("LIBLINEAR", []).append(_liblinear_reading(dataset.train))
        for reader, taken in seconds.items():
            median = statistics.median(taken)
            answers.append(
                {"data": name, "reader": reader, "seconds": median, "MB_per_second": size / median / 1e6}
            )
    print(_store(answers, options.out, "reading"))
    return 0


def _inside(worker: str, task: dict[str, Any], work: Path) -> float:
    """Seconds as the process itself measures them: without starting Python, imports and compiling."""
    command = [sys.executable, "-m", "tools.bench.workers", worker, json.dumps(task)]
    measured = run(command, env=environment(NUMBA_CACHE_DIR=str(work.resolve() / "numba")))
    if measured.exit_code:
        raise RuntimeError(f"{worker}: {measured.stderr}")
    return float(json.loads(measured.stdout.splitlines()[-1])["seconds"])


def _liblinear_reading(path: Path) -> float:
    """Wall time of a LIBLINEAR that stops at once: reading, and a few looks at the objective."""
    measured = run(["liblinear-train", *_STOP_AT_ONCE, "-q", str(path), os.devnull])
    return measured.wall_seconds


def scale(options: argparse.Namespace, config: dict[str, Any]) -> int:
    """llsvm on 1x, 4x, 16x rows at a fixed limit, with 1 and 2 threads: time per row, peak, passes."""
    from tools.bench.runner import Referee

    work = options.work.resolve()
    answers: list[dict[str, Any]] = []
    rows = options.rows or 100_000
    for factor in options.factors:
        dataset = datasets.make(options.kind, config["data"][options.kind], work, rows * factor)
        for threads in options.threads or [1, 2]:
            setup = Setup(work, work, options.memory_limit, work / "numba", threads)
            referee = Referee(dataset, setup, config["run"]["timeout_seconds"])
            llsvm, tol = CONTESTANTS["llsvm"], config["contestants"]["llsvm"]["default"]
            if not answers:
                referee.try_out(llsvm, tol)  # compiles
            runs = [referee.try_out(llsvm, tol) for _ in range(options.rounds or config["run"]["rounds"])]
            failed = next((run.failure for run in runs if run.failure), "")
            if failed:
                print(f"{rows * factor:,} rows, {threads} threads: {failed}", file=sys.stderr)
                continue
            wall = statistics.median(run.measured.wall_seconds for run in runs)
            answers.append(
                {
                    "rows": rows * factor,
                    "threads": threads,
                    "seconds": wall,
                    "microseconds_per_row": 1e6 * wall / (rows * factor),
                    "peak_MB": statistics.median(run.measured.peak_rss_bytes for run in runs) / 1e6,
                    "passes": runs[-1].said["passes"],
                    "relative_gap": runs[-1].said["relative_gap"],
                    "primals_repeat": len({run.primal for run in runs}) == 1 if len(runs) > 1 else "-",
                }
            )
    print(_store(answers, options.out, f"scaling-{options.kind}"))
    return 0


def _store(answers: list[dict[str, Any]], out: Path, name: str) -> str:
    """JSON and Markdown files; returns the Markdown."""
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.json").write_text(json.dumps(answers, indent=1))
    names = list(answers[0]) if answers else ["nothing"]
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    for answer in answers:
        cells = (f"{value:.4g}" if isinstance(value, float) else str(value) for value in answer.values())
        lines.append("| " + " | ".join(cells) + " |")
    text = "\n".join(lines) + "\n"
    (out / f"{name}.md").write_text(text)
    return text
