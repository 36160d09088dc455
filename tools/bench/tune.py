"""`llsvm tune` beside 35 runs of `llsvm train`, LIBLINEAR's cross-validation, and scikit-learn's grid search:
seven C's and five folds, from the file to the table, in processor seconds; what they choose, and how far the
objectives and the scores are from each other.

python -m tools.bench tune --data a9a,mnist38,20news,kdd,covtype
python -m tools.bench tune --data covtype --rows 100000 --reference-folds 1

The 35 runs of `train` are five times those of the seven C's on the rows without the first fold. The reference, on
the same rows, is LinearSVC(loss="hinge") at a tolerance of 1e-4 and 1,000 iterations at most, as GridSearchCV would
fit it; of classes against the rest, too. results.json has what was measured, and is not measured again but with
--again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tools.bench import hard_data
from tools.bench.datasets import Missing
from tools.bench.results import foot, keep, kept_cells, words

COSTS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
FOLDS = 5
CLOSE = 0.01  # the reference has ended where its objective is at most this share above ours
DATA = ("a9a", "mnist38", "20news", "kdd", "covtype")
COLUMNS = (
    *(
        "data",
        "rows",
        "tune CPU s",
        "35 train CPU s",
        "LIBLINEAR -v 5 CPU s",
        "train / tune",
        "LIBLINEAR / tune",
    ),
    *(
        "passes",
        "passes of train",
        "certified",
        "primal over reference",
        "score apart (of C's)",
        "C",
        "C of reference",
    ),
)


def main(arguments: list[str], config: dict[str, Any]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench tune",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--data", type=words, default=list(DATA))
    add("--rows", type=int, default=None, help="of larger data, about so many rows only")
    add("--work", type=Path, default=Path("build/bench/work"))
    add("--out", type=Path, default=Path("build/bench/tune"))
    add("--memory-limit", default="2GB")
    add("--peer-timeout", type=float, default=600.0, help="seconds for a run of LIBLINEAR")
    add("--reference-folds", type=int, default=FOLDS, help="folds that the reference is fitted on")
    add("--again", action="store_true", help="measure what is in results.json already")
    options = parser.parse_args(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    cells = kept_cells(options.out)
    for name in options.data:
        try:
            data = hard_data.make(name, options.work, options.rows)
        except Missing as missing:
            print(f"{name}: {missing}")
            continue
        key = data.train.name
        if key not in cells or options.again:
            cells[key] = {"data": name, **_measured(data.train, options)}
            keep(options.out, cells)
    table = _markdown(list(cells.values()))
    (options.out / "table.md").write_text(table + "\n" + foot(1e-3) + "\n")
    print(table)
    return 0


def _measured(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "llsvm"]
    tail = ["--json", "-q", "--threads", "1", "--memory-limit", options.memory_limit]
    model = options.work / "tuned.llsvm"
    seconds, said = _run([*command, "tune", str(path), "--model", str(model), *tail])
    ours = json.loads(said)
    X, y, folds = _rows_and_folds(path)
    part = options.work / "without-a-fold.svm"
    _write_without(path, folds != 0, part)
    trained, passes = [], []
    for C in COSTS:
        of_train, said = _run([*command, "train", str(part), "-C", str(C), "--model", str(model), *tail])
        trained.append(of_train)
        passes.append(json.loads(said)["passes"])
    part.unlink()
    peer = [_liblinear(path, C, options.peer_timeout) for C in COSTS]
    found = {
        "rows": len(y),
        "tune_seconds": seconds,
        "train_seconds": FOLDS * sum(trained),
        "liblinear_seconds": sum(cpu for cpu, _ in peer),
        "liblinear_unfinished": sum(not done for _, done in peer),
        "passes": ours["search_passes"],
        "train_passes": max(passes),
        "certified": sum(gap <= 1e-3 for row in ours["table"] for gap in row["gaps"]),
        "best_C": ours["best_C"],
    }
    return {**found, **_reference(X, y, folds, ours, options.reference_folds)}


def _run(command: list[str], timeout: float | None = None) -> tuple[float, str]:
    """Processor seconds of a command, and what it said."""
    before = _children()
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=timeout, env=dict(os.environ)
    )
    if done.returncode not in (0, 5):
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-500:]}")
    return _children() - before, done.stdout


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _liblinear(path: Path, C: float, timeout: float) -> tuple[float, bool]:
    """Processor seconds of its own cross-validation, and whether it came to its end."""
    before = _children()
    try:
        _run(["liblinear-train", "-s", "3", "-v", str(FOLDS), "-c", str(C), str(path)], timeout)
    except subprocess.TimeoutExpired:
        return _children() - before, False
    return _children() - before, True


def _rows_and_folds(path: Path) -> tuple[Any, Any, Any]:
    """X, class numbers, and the fold of each row, as tune makes them."""
    from sklearn.datasets import load_svmlight_file

    from llsvm.data import open_source
    from llsvm.settings.settings import Settings
    from llsvm.training.training import Training
    from llsvm.tuning.folds import needs_of_folds, stratified

    with Training(open_source(str(path)), Settings(memory_limit="2GB")) as training:
        dataset, stream = training.read(), training.stream
        stream.prepare(needs_of_folds(dataset))
        made = stratified(stream, FOLDS, 0)
    X, labels = load_svmlight_file(str(path))
    y = np.searchsorted(dataset.classes, labels).astype(np.int32)
    numbers = np.full(len(y), -1)
    for number, fold in enumerate(made):
        numbers[fold.contains(np.arange(len(y)), y)] = number
    return X.astype(np.float32).astype(np.float64), y, numbers


def _write_without(path: Path, kept: Any, part: Path) -> None:
    with open(path, "rb") as lines, open(part, "wb") as out:
        for line, keeps in zip((line for line in lines if line.strip()), kept, strict=True):
            if keeps:
                out.write(line)


def _reference(X: Any, y: Any, folds: Any, ours: dict[str, Any], n_folds: int) -> dict[str, Any]:
    """How far our objectives are above the reference's, at most, relative; of the C's at which its own are close to
    the optimum (at large ones it ends at its most iterations far from it), the largest difference of mean scores,
    and which it chooses."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    above, apart, means, errors, compared = -math.inf, 0.0, list[float](), list[float](), list[float]()
    for C, row in zip(COSTS, ours["table"], strict=True):
        scores, ended = [], True
        for fold in range(n_folds):
            some = folds != fold
            svm = LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-4, max_iter=1000, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                svm.fit(X[some], y[some])
            primal = 0.0
            for c, w in enumerate(svm.coef_):
                sign = np.where(y[some] == (c if len(svm.coef_) > 1 else 1), 1.0, -1.0)
                primal += 0.5 * w @ w + C * np.maximum(1 - sign * (X[some] @ w), 0).sum()
            above = max(above, row["primals"][fold] / primal - 1)
            ended &= primal <= (1 + CLOSE) * row["primals"][fold]
            scores.append(float(svm.score(X[~some], y[~some])))
        if not ended:
            continue
        compared.append(C)
        apart = max(apart, abs(float(np.mean(row["scores"][:n_folds])) - float(np.mean(scores))))
        means.append(float(np.mean(scores)))
        errors.append(float(np.std(scores, ddof=1) / math.sqrt(n_folds)) if n_folds > 1 else 0.0)
    best = int(np.argmax(means))
    at = compared.index(ours["best_C"]) if ours["best_C"] in compared else best
    within = means[best] - means[at] <= errors[best]
    found = {"above": above, "apart": apart, "their_C": compared[best], "within_one_error": bool(within)}
    return {**found, "compared": len(compared)}


def _markdown(cells: list[dict[str, Any]]) -> str:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for cell in cells:
        ours, more = cell["tune_seconds"], ">" if cell["liblinear_unfinished"] else ""
        values = [
            *(cell["data"], f"{cell['rows']:,}", f"{ours:.1f}", f"{cell['train_seconds']:.1f}"),
            f"{more}{cell['liblinear_seconds']:.1f}",
            f"{cell['train_seconds'] / ours:.1f}",
            f"{more}{cell['liblinear_seconds'] / ours:.1f}",
            *(cell["passes"], cell["train_passes"], f"{cell['certified']} of {FOLDS * len(COSTS)}"),
            *(
                f"{cell['above']:+.1e}",
                f"{100 * cell['apart']:.2f} points ({cell['compared']})",
                f"{cell['best_C']:g}",
            ),
            f"{cell['their_C']:g}" + ("" if cell["within_one_error"] else " (more than an error apart)"),
        ]
        lines.append("| " + " | ".join(map(str, values)) + " |")
    return "\n".join(lines)
