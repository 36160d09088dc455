"""Makes the benchmark's svmlight files, training and test, in a work folder: from the real data, or generated.

The real data are looked for under ``$LLSVM_DATA``, then ``../shared/data`` beside the repository. A file that is
there already is not made again.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tools.bench.generate import generate
from tools.bench.objective import survey

OPEN: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".bz2": bz2.open, ".gz": gzip.open}
HOLD_OUT = 10  # every tenth row, where a data set has no test file


class Missing(Exception):
    """A data set that cannot be had here; the message says why."""


@dataclass(frozen=True)
class Dataset:
    """train, test: svmlight files, columns from 1. C: of the objective. facts: ``objective.survey`` of train."""

    name: str
    train: Path
    test: Path
    C: float
    facts: dict[str, Any]

    @property
    def binary(self) -> bool:
        return len(self.facts["classes"]) == 2

    def in_vw_format(self) -> Path:
        """``train`` for Vowpal Wabbit, made when it is first asked for (outside every clock)."""
        path = self.train.with_suffix(".vw")
        if not path.exists():
            positive = self.facts["classes"][1]
            with replacing(path) as (part, _), open(self.train, "rb") as lines, open(part, "wb") as out:
                for line in lines:
                    label, _, rest = line.strip().partition(b" ")
                    if label:
                        out.write((b"1 | " if float(label) == positive else b"-1 | ") + rest + b"\n")
        return path


def data_folder() -> Path:
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(os.environ.get("LLSVM_DATA", beside))


def make(name: str, config: dict[str, Any], work: Path, rows: int | None = None) -> Dataset:
    """The data set ``name``. rows: of a generated one, instead of the config's. Raises Missing."""
    work.mkdir(parents=True, exist_ok=True)
    if name in ("text", "dense"):
        n = rows or config["rows"]
        train, test = work / f"{name}-{n}.svm", work / f"{name}-test-{config['test_rows']}.svm"
        _generated(name, train, n, seed=0)
        _generated(name, test, config["test_rows"], seed=1)
    elif name in _MAKERS:
        train, test = work / f"{name}.svm", work / f"{name}.test.svm"
        if not (train.exists() and test.exists()):
            folder = data_folder()
            if not folder.is_dir():
                raise Missing(f"no data in {folder}: set LLSVM_DATA")
            try:
                with replacing(train, test) as (part, test_part):
                    _MAKERS[name](folder, part, test_part)
            except FileNotFoundError as error:
                raise Missing(f"{error.filename}: not there") from error
    else:
        raise Missing(f"no data set is called {name!r}; there are {', '.join([*_MAKERS, 'text', 'dense'])}")
    return Dataset(name, train, test, config["C"], facts_of(train))


def _generated(kind: str, path: Path, rows: int, seed: int) -> None:
    if not path.exists():
        with replacing(path) as (part, _):
            generate(kind, part, rows, seed)


def facts_of(path: Path) -> dict[str, Any]:
    """``survey``, kept beside the file."""
    known = path.with_suffix(".facts.json")
    if not known.exists() or known.stat().st_mtime < path.stat().st_mtime:
        known.write_text(json.dumps(survey(path)))
    return dict(json.loads(known.read_text()))


class replacing:
    """Names to write to, which become ``paths`` when all went well: half a file is never taken for a whole one."""

    def __init__(self, *paths: Path) -> None:
        self.paths = paths
        self.parts = [path.with_name(path.name + ".part") for path in paths]

    def __enter__(self) -> list[Path]:
        return [*self.parts, *self.parts[:1]][:2]

    def __exit__(self, kind: object, *_: object) -> None:
        for part, path in zip(self.parts, self.paths, strict=True):
            if kind is None:
                part.rename(path)
            else:
                part.unlink(missing_ok=True)


# -- the real ones ---------------------------------------------------------------------------------------------


def _unpacked(*names: str) -> Callable[[Path, Path, Path], None]:
    """Files that are svmlight already."""

    def make(folder: Path, train: Path, test: Path) -> None:
        for name, path in zip(names, (train, test), strict=True):
            unpack(folder / name, path)

    return make


def unpack(packed: Path, path: Path) -> None:
    with OPEN[packed.suffix](packed, "rb") as file, open(path, "wb") as out:
        shutil.copyfileobj(file, out, 1 << 20)


def _covtype(folder: Path, train: Path, test: Path) -> None:
    X, y = covtype_arrays(folder)
    held = np.arange(len(y)) % HOLD_OUT == HOLD_OUT - 1
    write(train, array_rows(X[~held], y[~held]))
    write(test, array_rows(X[held], y[held]))


def covtype_arrays(folder: Path, *, scaled: bool = True, classes: int = 2) -> tuple[Any, Any]:
    """Covertype as float32: class 2 against the rest, or all 7 classes; columns scaled to [0, 1] or as they are."""
    with lzma.open(folder / "covtype" / "covtype.data.xz", "rt") as text:
        table = np.loadtxt(text, delimiter=",", dtype=np.float32)
    X, y = table[:, :-1], table[:, -1].astype(int)
    if classes == 2:
        y = np.where(y == 2, 1, -1)
    low, high = X.min(axis=0), X.max(axis=0)
    return ((X - low) / np.where(high > low, high - low, 1) if scaled else X), y


def _mnist(folder: Path, train: Path, test: Path) -> None:
    for prefix, path in (("train", train), ("t10k", test)):
        write(path, array_rows(*mnist_arrays(folder, prefix)))


def mnist_arrays(folder: Path, prefix: str = "train") -> tuple[Any, Any]:
    """Pixels / 255 as float32, and the digits. prefix: "train" or "t10k"."""
    with lzma.open(folder / "mnist" / f"{prefix}-images-idx3-ubyte.xz") as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
    with lzma.open(folder / "mnist" / f"{prefix}-labels-idx1-ubyte.xz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return pixels / np.float32(255), labels


def _kdd(folder: Path, train: Path, test: Path) -> None:
    write(train, kdd_rows(folder))
    write(test, kdd_rows(folder, test=True))


def kdd_rows(folder: Path, *, test: bool = False, scaled: bool = True) -> Iterator[str]:
    """KDD Cup 99's 10 % file, or its test file in the same columns: words one-hot, numbers scaled to [0, 1] by the
    former, or as they are (in float32)."""
    path = folder / "kddcup99" / "kddcup.data_10_percent.gz"
    words: dict[int, set[str]] = {}
    low, high = np.full(41, np.inf), np.full(41, -np.inf)
    for cells in _csv(path):
        for j, cell in enumerate(cells[:-1]):
            if j in words or not cell[0].isdigit():
                words.setdefault(j, set()).add(cell)
            else:
                value = float(cell)
                low[j], high[j] = min(low[j], value), max(high[j], value)
    starts, column_of, at = [0] * 41, {}, 1
    for j in range(41):
        starts[j] = at
        for word in sorted(words.get(j, ())):
            column_of[j, word] = at
            at += 1
        at += j not in words
    span = np.where(high > low, high - low, 1)
    for cells in _csv(folder / "kddcup99" / "corrected.gz" if test else path):
        out = ["1" if cells[-1] == "normal." else "-1"]
        for j, cell in enumerate(cells[:-1]):
            if j not in words:
                value = (float(cell) - low[j]) / span[j] if scaled else np.float32(cell)
                if value != 0:
                    out.append(f"{starts[j]}:{value:.6g}" if scaled else f"{starts[j]}:{value:.9g}")
            elif (j, cell) in column_of:
                out.append(f"{column_of[j, cell]}:1")
        yield " ".join(out)


def _csv(path: Path) -> Iterator[list[str]]:
    with gzip.open(path, "rt") as lines:
        for line in lines:
            yield line.strip().split(",")


def array_rows(X: Any, y: Any, digits: int = 6) -> Iterator[str]:
    """Rows of a dense array as svmlight, zeros left out. digits: 9 keep every float32 as it is."""
    for row, label in zip(X, y, strict=True):
        (columns,) = np.nonzero(row)
        pairs = zip((columns + 1).tolist(), row[columns].tolist(), strict=True)
        yield f"{label} " + " ".join([f"{column}:{value:.{digits}g}" for column, value in pairs])


def write(path: Path, rows: Iterable[str]) -> None:
    with open(path, "w") as out:
        out.writelines(row + "\n" for row in rows)


_MAKERS: dict[str, Callable[[Path, Path, Path], None]] = {
    "a9a": _unpacked("adult/a9a.xz", "adult/a9a.t.xz"),
    "covtype": _covtype,
    "kdd": _kdd,
    "mnist": _mnist,
    "20news": _unpacked("20news/20news_multi.train.svm.xz", "20news/20news_multi.test.svm.xz"),
    "sector": _unpacked("sector/sector.scale.bz2", "sector/sector.t.scale.bz2"),
}
NAMES = (*_MAKERS, "text", "dense")
