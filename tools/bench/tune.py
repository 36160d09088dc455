"""`llsvm tune` beside 35 runs of `llsvm train`, LIBLINEAR's cross-validation, and scikit-learn's grid search:
seven C's and five folds, from the file to the table; what they choose, and how far the objectives and the scores
are from each other.

python -m tools.bench tune                                         the data sets that are there, all parts
python -m tools.bench tune --data covtype,text,dense --parts tune,train,liblinear --again    the times alone
python -m tools.bench tune --data covtype --rows 100000 --reference-folds 1

Data: a9a, mnist38, 20news, kdd, covtype (2 GB of memory); text, 1 GB of it generated, at 500 MB; dense, generated,
650 MB of text, at 2 GB. Times are of one run each, a process each, one thread, wall and processor seconds. The 35
runs of `train` are five times those of the seven C's on the rows without the first fold. The reference (part
``reference``) is in tune_reference.py. results.json has what was measured, a part of a data set each, which is not
measured again but with --again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tools.bench import hard_data, measure
from tools.bench.datasets import Dataset, Missing, facts_of
from tools.bench.datasets import make as make_generated
from tools.bench.results import foot, keep, kept_cells, words
from tools.bench.tune_reference import COSTS, FOLDS, folds_of, reference

PARTS = ("tune", "train", "liblinear", "reference")
COLUMNS = (
    *("data", "rows", "tune", "35 runs of train", "LIBLINEAR -v 5, 7 C", "train / tune", "LIBLINEAR / tune"),
    *("peak", "passes, of train", "certified", "largest gap", "objective above reference", "reference near"),
    *("score apart", "C", "C on the reference's folds, of reference"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """memory_limit: of ours. rows: of a generated one."""

    memory_limit: str = "2GB"
    rows: int | None = None


CASES = {
    **dict.fromkeys(("a9a", "mnist38", "20news", "kdd", "covtype"), Case()),
    "text": Case("500MB", 1_020_000),
    "dense": Case("2GB", 60_000),
}


def main(arguments: list[str], config: dict[str, Any]) -> int:
    options = _options(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    cells = kept_cells(options.out)
    for name in options.data:
        try:
            data = _made(name, options, config)
        except Missing as missing:
            print(f"{name}: {missing}")
            continue
        cell = cells.setdefault(data.train.stem, {"data": name, "rows": facts_of(data.train)["rows"]})
        limit = options.memory_limit or CASES[name].memory_limit
        for part in options.parts:
            if part in cell and not options.again:
                continue
            cell[part] = _PARTS[part](data.train, limit, options, cell)
            print(f"{name}: {part}: {json.dumps({k: v for k, v in cell[part].items() if k != 'table'})}")
            keep(options.out, cells)
    table = _markdown([cell for cell in cells.values() if "tune" in cell])
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "table.md").write_text(table + "\n\n" + foot(1e-3) + "\n")
    print(table)
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench tune",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--data", type=words, default=list(CASES), help=f"of {','.join(CASES)}")
    add("--parts", type=words, default=list(PARTS), help=f"of {','.join(PARTS)}")
    add("--rows", type=int, default=None, help="of larger data, about so many rows only")
    add("--work", type=Path, default=Path("build/bench/work"))
    add("--out", type=Path, default=Path("build/bench/tune"))
    add("--memory-limit", default=None, help="of ours, instead of the data set's")
    add("--peer-timeout", type=float, default=600.0, help="seconds for a run of LIBLINEAR")
    add("--reference-folds", type=int, default=FOLDS, help="folds that the reference is fitted on")
    add("--reference-seconds", type=float, default=60.0, help="for one C and fold, about")
    add("--again", action="store_true", help="measure what is in results.json already")
    options = parser.parse_args(arguments)
    for given, known in ((options.data, CASES), (options.parts, PARTS)):
        if unknown := [name for name in given if name not in known]:
            parser.error(f"there is no {unknown[0]}; there are {', '.join(known)}")
    return options


def _made(name: str, options: argparse.Namespace, config: dict[str, Any]) -> Dataset:
    """Raises Missing."""
    if (rows := CASES[name].rows) is None:
        return hard_data.make(name, options.work, options.rows)
    return make_generated(name, config["data"][name], options.work, min(rows, options.rows or rows))


# -- the parts -----------------------------------------------------------------------------------------------


def _tune(path: Path, limit: str, options: argparse.Namespace, cell: dict[str, Any]) -> dict[str, Any]:
    found, times = _llsvm("tune", path, limit, options)
    names = (
        "best_C",
        "best_score",
        "search_passes",
        "passes",
        "at_once",
        "batches",
        "peak_rss_bytes",
        "table",
    )
    return {**times, **{name: found[name] for name in names}}


def _train(path: Path, limit: str, options: argparse.Namespace, cell: dict[str, Any]) -> dict[str, Any]:
    """Of all 35."""
    _, numbers = folds_of(path, options.work)
    part = options.work / "without-a-fold.svm"
    with open(path, "rb") as lines, open(part, "wb") as out:
        some = (line for line in lines if line.strip())
        out.writelines(line for line, fold in zip(some, numbers, strict=True) if fold)
    runs = [_llsvm("train", part, limit, options, "-C", str(C)) for C in COSTS]
    part.unlink()
    each = {name: FOLDS * sum(times[name] for _, times in runs) for name in ("wall", "cpu")}
    return {**each, "passes": max(found["passes"] for found, _ in runs)}


def _llsvm(
    command: str, path: Path, limit: str, options: argparse.Namespace, *more: str
) -> tuple[dict[str, Any], dict[str, float]]:
    """What it said, and its seconds."""
    model = str(options.work / "tuned.llsvm")
    tail = ["--json", "-q", "--threads", "1", "--memory-limit", limit, *more]
    done = measure.run(
        [sys.executable, "-m", "llsvm", command, str(path), "--model", model, *tail], timeout=7200
    )
    if done.exit_code not in (0, 5):
        raise RuntimeError(f"llsvm {command} {path}: {done.stderr[-500:]}")
    return json.loads(done.stdout), {"wall": done.wall_seconds, "cpu": done.cpu_seconds}


def _liblinear(path: Path, limit: str, options: argparse.Namespace, cell: dict[str, Any]) -> dict[str, Any]:
    """Its own cross-validation at each C; unfinished: of so many it was ended after --peer-timeout seconds."""
    wall, cpu, unfinished = 0.0, 0.0, 0
    for C in COSTS:
        command = ["liblinear-train", "-s", "3", "-v", str(FOLDS), "-c", str(C), str(path)]
        done = measure.run(command, timeout=options.peer_timeout)
        wall, cpu, unfinished = wall + done.wall_seconds, cpu + done.cpu_seconds, unfinished + done.timed_out
    return {"wall": wall, "cpu": cpu, "unfinished": unfinished}


def _reference(path: Path, limit: str, options: argparse.Namespace, cell: dict[str, Any]) -> dict[str, Any]:
    classes, numbers = folds_of(path, options.work)
    return reference(path, classes, numbers, cell["tune"], options.reference_folds, options.reference_seconds)


_PARTS: dict[str, Callable[[Path, str, argparse.Namespace, dict[str, Any]], dict[str, Any]]] = {
    "tune": _tune,
    "train": _train,
    "liblinear": _liblinear,
    "reference": _reference,
}


# -- the table -----------------------------------------------------------------------------------------------


def _markdown(cells: list[dict[str, Any]]) -> str:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for cell in cells:
        ours, table = cell["tune"], cell["tune"]["table"]
        train, peer, ref = (cell.get(part) for part in ("train", "liblinear", "reference"))
        more = ">" if peer and peer["unfinished"] else ""
        gaps = np.array([row["gaps"] for row in table])
        values = [
            *(cell["data"], f"{cell['rows']:,}", _seconds(ours)),
            *(_seconds(each) if each else "" for each in (train, peer)),
            *(f"{mark}{_ratio(each, ours)}" if each else "" for each, mark in ((train, ""), (peer, more))),
            f"{ours['peak_rss_bytes'] / 1e6:.0f} MB",
            f"{ours['search_passes']}" + (f", {train['passes']}" if train else ""),
            f"{int((gaps <= 1e-3).sum())} of {gaps.size}",
            f"{gaps.max():.1e}",
            *([f"{ref['above']:+.1e}", f"{ref['near']} of {ref['fits']}"] if ref else ["", ""]),
            f"{100 * ref['apart']:.2f} points ({ref['compared']} C)" if ref else "",
            *(f"{ours['best_C']:g}", _choice(ref) if ref else ""),
        ]
        lines.append("| " + " | ".join(map(str, values)) + " |")
    return "\n".join(lines)


def _seconds(times: dict[str, Any]) -> str:
    return f"{times['wall']:.1f} s ({times['cpu']:.1f} s CPU)"


def _ratio(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    return f"{theirs['wall'] / ours['wall']:.1f} ({theirs['cpu'] / ours['cpu']:.1f} CPU)"


def _choice(found: dict[str, Any]) -> str:
    apart = "" if found["within_one_error"] else " (more than an error apart)"
    return f"{found['our_C']:g}, {found['their_C']:g}{apart}"
