"""SmSVM's Table 3 (Hajewski, Oliveira & Stewart 2018): accuracy and training time, the paper's figures beside ours.

The paper does not print its λ, its splits or its synthetic centroids' scale. Ours: 70 % of the rows train, 30 %
test, drawn anew each time; columns scaled to [0, 1] on the training rows; a constant feature 1; hinge loss with
C = 1, for l1-l2 with half of the penalty L1; LinearSVC with the same C and constant feature; SGD with
scikit-learn's default α, five epochs at most. Synthetic: two centroids with standard normal components scaled to
length 3 (tall) or 30 (wide), unit variance about them. Rows are given as arrays, and every method is run once
before the clock starts, so that nothing is compiled on it. The clock is the processor time of all threads.
"""

from __future__ import annotations

import lzma
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Fit = Callable[[Array, Array], Callable[[Array], Array]]

# per method: accuracy %, seconds, as printed in the paper
NAMES = ("SmSVM-l2", "SmSVM-l1-l2", "LinearSVC", "SGD")
PAPER = {
    "Australian": ((85.9, 0.058), (86.1, 0.002), (85.2, 0.007), (85.9, 0.008)),
    "Colon Cancer": ((66.3, 32.851), (84.0, 0.918), (66.9, 0.008), (84.0, 0.023)),
    "CoverType": ((69.8, 148.7), (69.5, 1.1), (76.3, 182.9), (68.3, 30.7)),
    "Synthetic tall": ((84.3, 0.16), (76.0, 0.01), (100.0, 0.03), (61.1, 0.16)),
    "Synthetic wide": ((100.0, 23.41), (93.6, 0.21), (100.0, 0.01), (51.2, 0.02)),
}


def data_dir() -> Path:
    return Path(os.environ.get("LLSVM_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


def australian(seed: int) -> tuple[Array, Array]:
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(data_dir() / "australian" / "australian"))
    return X.toarray(), y


def colon(seed: int) -> tuple[Array, Array]:
    from scipy.io import loadmat

    file = loadmat(data_dir() / "colon" / "colon.mat")
    return file["X"].astype(float), file["Y"].ravel().astype(float)


def covertype(seed: int) -> tuple[Array, Array]:
    """Class 2 against the rest."""
    with lzma.open(data_dir() / "covtype" / "covtype.data.xz", "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    return table[:, :-1], np.where(table[:, -1] == 2, 1.0, -1.0)


def synthetic(n: int, d: int, length: float, seed: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    centroids = rng.standard_normal((2, d))
    centroids *= length / np.linalg.norm(centroids, axis=1, keepdims=True)
    y = rng.integers(0, 2, n)
    return centroids[y] + rng.standard_normal((n, d)), y.astype(float)


DATA: dict[str, Callable[[int], tuple[Array, Array]]] = {
    "Australian": australian,
    "Colon Cancer": colon,
    "CoverType": covertype,
    "Synthetic tall": lambda seed: synthetic(10_000, 50, 3.0, seed),
    "Synthetic wide": lambda seed: synthetic(50, 2_500, 30.0, seed),
}


def smsvm(penalty: str) -> Fit:
    def fit(X: Array, y: Array) -> Callable[[Array], Array]:
        from llsvm.train import train

        return train(X, y, solver="smsvm", penalty=penalty, bias=1.0).predict

    return fit


def linear_svc(X: Array, y: Array) -> Callable[[Array], Array]:
    from sklearn.svm import LinearSVC

    return LinearSVC(loss="hinge", C=1.0, random_state=0).fit(X, y).predict


def sgd(X: Array, y: Array) -> Callable[[Array], Array]:
    from sklearn.linear_model import SGDClassifier

    return SGDClassifier(loss="hinge", max_iter=5, random_state=0).fit(X, y).predict


FITS: tuple[Fit, ...] = (smsvm("l2"), smsvm("elasticnet"), linear_svc, sgd)
METHODS = dict(zip(NAMES, FITS, strict=True))


def splits(name: str, repetitions: int, most_rows: int | None) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Training rows, labels, test rows, labels; scaled."""
    loaded = None if name.startswith("Synthetic") else DATA[name](0)
    for seed in range(repetitions):
        X, y = DATA[name](seed) if loaded is None else loaded
        order = np.random.default_rng(seed).permutation(len(y))[:most_rows]
        cut = int(0.7 * len(order))
        train, test = order[:cut], order[cut:]
        low, high = X[train].min(axis=0), X[train].max(axis=0)
        width = np.where(high > low, high - low, 1.0)
        yield (X[train] - low) / width, y[train], (X[test] - low) / width, y[test]


def main(quick: bool) -> None:
    warnings.filterwarnings("ignore")
    X, y = synthetic(100, 5, 3.0, 0)
    for fit in METHODS.values():
        fit(X, y)
    print("| data | method | accuracy % (sd) | CPU seconds | paper: accuracy % | seconds |")
    print("|---|---|---|---|---|---|")
    for name in DATA:
        repetitions = (2 if name == "CoverType" else 5) if quick else (3 if name == "CoverType" else 20)
        results: dict[str, list[tuple[float, float]]] = {method: [] for method in METHODS}
        for X, y, X_test, y_test in splits(name, repetitions, 20_000 if quick else None):
            for method, fit in METHODS.items():
                began = time.process_time()
                predict = fit(X, y)
                seconds = time.process_time() - began
                results[method].append((100.0 * float(np.mean(predict(X_test) == y_test)), seconds))
        for method, runs in results.items():
            accuracy, seconds = np.mean(runs, axis=0)
            paper = PAPER[name][NAMES.index(method)]
            spread = np.std([run[0] for run in runs])
            ours = f"{accuracy:.1f} ({spread:.1f}) | {seconds:.3f}"
            print(f"| {name} | {method} | {ours} | {paper[0]} | {paper[1]} |", flush=True)


if __name__ == "__main__":
    main(quick=True)
