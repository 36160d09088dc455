"""The data sets of the runs in ``tools.golden``, generated from seeds: the same on every machine."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def rows(n: int, d: int, classes: int, seed: int, noise: float = 1.0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Overlapping classes: X (n, d) float32 of three decimals, y (n,) of 0, 1, ..."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    X = rng.standard_normal((classes, d))[y] + noise * rng.standard_normal((n, d))
    return X.round(3).astype(np.float32), y


def svmlight(X: NDArray[Any], y: NDArray[Any]) -> str:
    lines = []
    for label, row in zip(y.tolist(), X.astype(float).round(3).tolist(), strict=True):
        lines.append(f"{label} " + " ".join(f"{j}:{value:g}" for j, value in enumerate(row, 1) if value))
    return "\n".join(lines) + "\n"


def sparse(n: int, d: int, seed: int) -> str:
    """n rows of two classes with 20 of d columns each."""
    rng = np.random.default_rng(seed)
    weights, lines = rng.standard_normal(d), []
    for _ in range(n):
        columns = np.unique(rng.integers(0, d, 20))
        values = rng.random(len(columns)).round(3) + 0.001
        label = 1 if values @ weights[columns] + 0.7 * rng.standard_normal() > 0 else -1
        lines.append(f"{label} " + " ".join(f"{j + 1}:{v:.3f}" for j, v in zip(columns, values, strict=True)))
    return "\n".join(lines) + "\n"


def _write_tables(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = rows(2000, 6, 2, seed=2, noise=2.0)
    rng = np.random.default_rng(3)
    names = [f"x{j}" for j in range(X.shape[1])]
    numbers = [[f"{value:g}" for value in row] for row in X.astype(float).round(3).tolist()]
    lines = [",".join([*row, str(label)]) for row, label in zip(numbers, y, strict=True)]
    (folder / "numbers.csv").write_text(",".join([*names, "label"]) + "\n" + "\n".join(lines) + "\n")
    city, missing = rng.integers(0, 40, len(y)), rng.random(len(y)) < 0.05
    importance = rng.random(len(y)).round(2) + 0.5
    columns: dict[str, list[Any]] = {
        "city": [f"city {c}" for c in city],
        **{name: [float(row[j]) for row in numbers] for j, name in enumerate(names)},
        "importance": importance.round(2).tolist(),
        "label": [("no", "yes")[label] for label in y],
    }
    columns["x1"] = [None if gone else value for gone, value in zip(missing, columns["x1"], strict=True)]
    pq.write_table(pa.table(columns), folder / "mixed.parquet")
    lines = [
        ",".join("" if v is None else str(v) for v in row) for row in zip(*columns.values(), strict=True)
    ]
    (folder / "mixed.csv").write_text(",".join(columns) + "\n" + "\n".join(lines) + "\n")


def _write_arrays(folder: Path) -> None:
    import h5py

    X, y = rows(2000, 25, 2, seed=4, noise=2.5)
    np.save(folder / "rows.npy", np.column_stack([X, y]).astype(np.float32))
    with h5py.File(folder / "rows.h5", "w") as file:
        file["X"], file["y"] = X, y
    X, y = rows(60_000, 40, 3, seed=5, noise=4.0)
    np.save(folder / "large.npy", np.column_stack([X, y]).astype(np.float32))


def _write_documents(folder: Path) -> None:
    rng = np.random.default_rng(11)
    words = ["".join(rng.choice(list("abcdefghijklmnop"), length)) for length in rng.integers(2, 9, 2000)]
    shares = 1 / np.arange(1, len(words) + 1)
    lines = []
    for i in range(1500):
        told = ["poor", "fine"][i % 2] if rng.random() < 0.6 else "so"
        lines.append(f"{i % 2},{told} {' '.join(rng.choice(words, 30, p=shares / shares.sum()))}")
    (folder / "reviews.csv").write_text("label,review\n" + "\n".join(lines) + "\n")


def write_data(folder: Path) -> None:
    """All the files that runs train on, the same on every machine."""
    text = sparse(3000, 1500, seed=1)
    (folder / "sparse.svm").write_text(text)
    (folder / "sparse.svm.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    (folder / "wide.svm").write_text(sparse(600, 30_000, seed=10))
    lines = text.splitlines(keepends=True)
    for number in range(3):
        (folder / f"part{number + 1}.svm").write_text("".join(lines[1000 * number : 1000 * (number + 1)]))
    (folder / "dense.svm").write_text(svmlight(*rows(2000, 20, 4, seed=6, noise=2.0)))
    (folder / "few.svm").write_text(svmlight(*rows(400, 10, 3, seed=7, noise=1.5)))
    (folder / "some.svm").write_text(svmlight(*rows(1500, 30, 2, seed=8, noise=3.0)))
    (folder / "large.svm").write_text(svmlight(*rows(50_000, 30, 2, seed=9, noise=4.0)))
    _write_tables(folder)
    _write_arrays(folder)
    _write_documents(folder)
