"""The smallest memory limits that ``llsvm train`` names, in MB, as JSON, for ``tools.golden --limits`` to compare.

    python tools/golden_limits.py

Data of a dozen shapes are large where the shape is: many rows, many columns, many classes, a long row. It is a
program of its own, since the package that it asks is that of another checkout.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

LAST = "--label last"  # of NumPy's files
CELLS: dict[str, tuple[str, ...]] = {  # by file, the options of a run each; "|" begins those of all
    f"rows.npy|{LAST}": (
        *("", "--solver llsvm", "--solver smsvm", "--solver nesvm", "--intercept", "-C 1e4", "--penalty l1"),
        *("--loss logistic", "--loss one_class --nu 0.1", "--cache always", "--scale standard --bias 1"),
    ),
    f"numbers.npy|{LAST}": (
        *("--loss epsilon_insensitive", "--loss huber", "--loss quantile", "--loss huber --solver smsvm"),
    ),
    f"dense.npy|{LAST}": (
        *("", "--solver smsvm", "--solver nesvm", "--loss squared_hinge", "--penalty elasticnet"),
        *("--kernel rbf --solver smo", "--kernel rbf --solver nesvm", "--feature-map rff --kernel rbf"),
    ),
    f"classes.npy|{LAST}": (
        *("", "--multiclass ovo", "--multiclass crammer-singer", "--multiclass weston-watkins"),
        *("--loss logistic --multiclass softmax", "--solver smsvm"),
    ),
    "columns.svm|": (
        *("", "--solver llsvm", "--solver smsvm", "--penalty l1", "--loss logistic", "--intercept", "-C 1e4"),
    ),
    "topics.svm|": (
        *("", "--multiclass crammer-singer", "--multiclass weston-watkins", "--multiclass ovo"),
        *("--loss logistic --multiclass softmax", "--multiclass crammer-singer -C 1e4"),
    ),
    "long.svm|": ("", "--solver smsvm"),
    "table.csv|--label label": ("", "--hash-bits 18", "--cross city:x0 --hash-bits 20"),
    "table.parquet|--label label": ("", "--missing mean"),
    "reviews.csv|--label label --text review": ("", "--ngrams 1-3", "--vocabulary hashed"),
}
_NAMED = re.compile(r"--memory-limit (\d+)MB")
_REFUSED, _ENDINGS = 4, (0, 5)


def _svmlight(path: Path, n: int, d: int, classes: int, filled: int, longest: int = 0) -> None:
    """n rows with ``filled`` of d columns; the last row with ``longest``."""
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        for i in range(n):
            columns = np.unique(rng.integers(1, d, longest if longest and i == n - 1 else filled)).tolist()
            file.write(f"{i % classes} " + " ".join(f"{j}:{1 + j % 7}" for j in columns) + "\n")


def _array(path: Path, n: int, d: int, classes: int) -> None:
    """n rows of d columns, and classes, or numbers where there are none."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)).astype(np.float32)
    y = np.arange(n) % classes if classes else X[:, 0] + rng.standard_normal(n)
    X[:, 1] += y % 2
    np.save(path, np.column_stack([X, y]).astype(np.float32))


def write_data(folder: Path) -> None:
    """The files of CELLS."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    _array(folder / "rows.npy", 400_000, 8, 2)
    _array(folder / "numbers.npy", 100_000, 20, 0)
    _array(folder / "dense.npy", 3000, 2000, 2)
    _array(folder / "classes.npy", 20_000, 60, 30)
    _svmlight(folder / "columns.svm", 4000, 2_000_000, 2, 30)
    _svmlight(folder / "topics.svm", 4000, 60_000, 20, 30)
    _svmlight(folder / "long.svm", 40, 1_000_000, 2, 30, longest=300_000)
    rng = np.random.default_rng(0)
    n = 50_000
    table: dict[str, Any] = {f"x{j}": rng.standard_normal(n).round(3) for j in range(8)}
    table |= {"city": [f"city {c}" for c in rng.integers(0, 5000, n)], "label": np.arange(n) % 2}
    csv.write_csv(pa.table(table), folder / "table.csv")
    parquet.write_table(pa.table(table), folder / "table.parquet", row_group_size=10_000)
    words = np.array([f"w{i}" for i in range(30_000)])
    drawn = (len(words) ** rng.random((5000, 40))).astype(int) - 1
    texts = pa.table({"review": [" ".join(words[each]) for each in drawn], "label": np.arange(5000) % 2})
    csv.write_csv(texts, folder / "reviews.csv")


def smallest(words: list[str]) -> int | str:
    """The limit in MB that a training names, as soon as it does not say "at least" of it; else what went wrong."""
    limit = 1
    for _ in range(5):
        command = [sys.executable, "-m", "llsvm", "train", *words, "--memory-limit", f"{limit}MB"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        named = _NAMED.findall(done.stderr)
        if done.returncode != _REFUSED or not named:
            words = done.stderr.strip().splitlines()[-1:]
            return limit if done.returncode in _ENDINGS else " ".join([f"exit {done.returncode}:", *words])
        limit = int(named[-1])
        if "at least" not in done.stderr:
            break
    return limit


def main() -> None:
    found = {}
    with tempfile.TemporaryDirectory(prefix="golden-limits-") as place:
        write_data(Path(place))
        for file, runs in CELLS.items():
            name, _, common = file.partition("|")
            for options in runs:
                bounds = "-q --threads 1 --max-passes 1 --max-seconds 1"
                words = f"{place}/{name} --model {place}/model {bounds} {common} {options}".split()
                found[f"{name} {options}".strip()] = smallest(words)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
