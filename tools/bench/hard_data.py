"""Data sets on which linear machines have a hard time: raw columns, few rows, nearly separable, ill-conditioned.

Made once as svmlight files in a work folder, without a test file. What is generated is generated from a seed, and
every number is a float32's, so that whoever reads the text reads the same. ``housing-target``, ``diabetes`` and
``elevation`` are of numbers, not of classes.
"""

from __future__ import annotations

import csv
import lzma
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tools.bench import datasets
from tools.bench.datasets import Dataset, Missing, array_rows, covtype_arrays, kdd_rows, mnist_arrays

_Rows = Iterable[str]


def make(name: str, work: Path, most_rows: int | None = None) -> Dataset:
    """The data set ``name``; most_rows: of larger ones, rows at even distances, about so many. Raises Missing."""
    work.mkdir(parents=True, exist_ok=True)
    if name not in MAKERS:
        raise Missing(f"no data set is called {name!r}; there are {', '.join(MAKERS)}")
    path = work / f"{name}.svm"
    if not path.exists():
        folder = datasets.data_folder()
        try:
            with datasets.replacing(path) as (part, _):
                datasets.write(part, MAKERS[name](folder))
        except FileNotFoundError as error:
            raise Missing(f"{error.filename}: not there; set LLSVM_DATA") from error
    facts = datasets.facts_of(path)
    if most_rows is None or facts["rows"] <= most_rows:
        return Dataset(name, path, path, 1.0, facts)
    fewer = work / f"{name}-{most_rows}.svm"
    if not fewer.exists():
        with datasets.replacing(fewer) as (part, _), open(path) as lines:
            step = -(-facts["rows"] // most_rows)
            datasets.write(part, (line.rstrip("\n") for i, line in enumerate(lines) if i % step == 0))
    return Dataset(fewer.stem, fewer, fewer, 1.0, datasets.facts_of(fewer))


def _arrays(X: Any, y: Any, digits: int = 9) -> Iterator[str]:
    return array_rows(np.asarray(X, np.float32), np.asarray(y), digits)


def _shipped(name: str) -> Callable[[Path], _Rows]:
    """One that scikit-learn ships, raw."""

    def make(_: Path) -> _Rows:
        from sklearn import datasets as shipped

        X, y = getattr(shipped, f"load_{name}")(return_X_y=True)
        return _arrays(X, y)

    return make


def _packed(name: str) -> Callable[[Path], _Rows]:
    """A compressed svmlight file."""

    def make(folder: Path) -> _Rows:
        path = folder / name
        with datasets.OPEN[path.suffix](path, "rt") as lines:
            return [line.strip() for line in lines]

    return make


def housing(folder: Path) -> tuple[Any, Any]:
    """California housing, raw: eight numbers, five places as indicators, a missing number as 0; and the prices."""
    with lzma.open(folder / "housing" / "housing.csv.xz", "rt", newline="") as file:
        table = list(csv.reader(file))[1:]
    numbers = np.array([[float(cell or 0) for cell in row[:8]] for row in table])
    places = sorted({row[9] for row in table})
    indicators = np.array([[row[9] == place for place in places] for row in table], float)
    return np.hstack([numbers, indicators]), np.array([float(row[8]) for row in table])


def _housing_class(folder: Path) -> _Rows:
    X, price = housing(folder)
    return _arrays(X, np.where(price > np.median(price), 1, -1))


def _housing_target(folder: Path) -> _Rows:
    """Columns standardised, prices in units of 100,000."""
    X, price = housing(folder)
    spread = X.std(axis=0)
    return _arrays((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1), price / 1e5)


def _elevation(folder: Path) -> _Rows:
    """Covertype's first column, in 100 m about its mean, from the others."""
    X, _ = covtype_arrays(folder)
    metres, _ = covtype_arrays(folder, scaled=False)
    return array_rows(X[:, 1:], np.float32((metres[:, 0] - metres[:, 0].mean()) / 100))


def _diabetes(_: Path) -> _Rows:
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return _arrays(X / X.std(axis=0), y / 100)


def _three_against_eight(folder: Path) -> _Rows:
    X, digit = mnist_arrays(folder)
    kept = (digit == 3) | (digit == 8)
    return array_rows(X[kept], digit[kept])


def _separable(_: Path) -> _Rows:
    """5,000 x 30 with a margin of a thousandth of the weights' length."""
    rng = np.random.default_rng(0)
    X, w = rng.standard_normal((5000, 30)), rng.standard_normal(30)
    y = np.sign(X @ w)
    return _arrays(X + 1e-3 * y[:, None] * w, y.astype(int))


def _ill_conditioned(_: Path) -> _Rows:
    """2,000 x 50, singular values of X falling by 10^4, so that XᵀX has the condition 10^8; every direction of the
    weights matters to the labels, the weakest most."""
    rng = np.random.default_rng(1)
    turned = np.linalg.qr(rng.standard_normal((50, 50)))[0]
    X = (rng.standard_normal((2000, 50)) * np.logspace(0, -4, 50)) @ turned
    scores = X @ (turned.T @ np.logspace(0, 4, 50)) + 0.5 * rng.standard_normal(2000)
    return _arrays(X, np.sign(scores).astype(int))


def _duplicates(_: Path) -> _Rows:
    """500 rows of 20 columns, each there 40 times; every tenth copy has the other label."""
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((500, 20)), np.sign(rng.standard_normal(500)).astype(int)
    copies = np.tile(np.arange(500), 40)
    other = np.repeat(np.arange(40) % 10 == 9, 500)
    return _arrays(X[copies], np.where(other, -y[copies], y[copies]))


def _wide(_: Path) -> _Rows:
    """200 x 20,000, every cell a whole number from 0 to 8, labels by chance."""
    rng = np.random.default_rng(3)
    return _arrays(rng.integers(0, 9, (200, 20_000)), np.where(rng.random(200) < 0.5, 1, -1))


MAKERS: dict[str, Callable[[Path], _Rows]] = {
    "wine": _shipped("wine"),
    "breast-cancer": _shipped("breast_cancer"),
    "digits": _shipped("digits"),
    "iris": _shipped("iris"),
    "separable": _separable,
    "ill-conditioned": _ill_conditioned,
    "duplicates": _duplicates,
    "wide": _wide,
    "housing-raw": _housing_class,
    "a9a": _packed("adult/a9a.xz"),
    "ijcnn1": _packed("ijcnn1/ijcnn1.trn.bz2"),
    "mnist38": _three_against_eight,
    "covtype": lambda folder: array_rows(*covtype_arrays(folder)),
    "covtype-raw": lambda folder: array_rows(*covtype_arrays(folder, scaled=False), digits=9),
    "covtype-classes": lambda folder: array_rows(*covtype_arrays(folder, classes=7)),
    "kdd": lambda folder: kdd_rows(folder),
    "kdd-raw": lambda folder: kdd_rows(folder, scaled=False),
    "20news": _packed("20news/20news_multi.train.svm.xz"),
    "sector": _packed("sector/sector.scale.bz2"),
    "a1a": _packed("adult/a1a.xz"),
    "mnist": lambda folder: array_rows(*mnist_arrays(folder)),
    "housing-target": _housing_target,
    "diabetes": _diabetes,
    "elevation": _elevation,
}
