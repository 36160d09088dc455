"""The referee of kernel machines: P = Σ over problems of ½ βᵀ K β + C Σ cost(K β + b), in float64, from the model's
support vectors and the data's text. Everything in memory: n x m kernel values for n rows and m support vectors.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tools.bench.models import llsvm_arrays
from tools.bench.objective import Evaluation, guesses, read_rows
from tools.bench.row_losses import Objective


@dataclass(frozen=True)
class KernelMachine:
    """RBF kernel exp(-gamma ‖x − z‖²). vectors: (m, columns) CSR, column 0 being the file's column 1. coef:
    (m, problems), β. intercept: (problems,), not penalised. classes: ascending."""

    vectors: sp.csr_matrix
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    classes: NDArray[np.float64]
    gamma: float


def read_llsvm_kernel(path: str | os.PathLike[str]) -> KernelMachine:
    """Of llsvm's model; see models.py."""
    header, arrays = llsvm_arrays(path)
    head = header["extra"]["feature_map"]
    if "extra/landmarks" in arrays:
        vectors = sp.csr_matrix(arrays["extra/landmarks"].astype(float))
    else:
        parts = [arrays[f"extra/landmarks_{part}"] for part in ("data", "indices", "indptr")]
        shape = (len(parts[2]) - 1, head["n_features"])
        vectors = sp.csr_matrix((parts[0].astype(float), parts[1], parts[2]), shape=shape)
    classes = arrays["classes"].astype(float)
    return KernelMachine(vectors, arrays["coef"], arrays["intercept"], classes, float(head["gamma"]))


def read_rows_kernel(path: str | os.PathLike[str], data: Path, gamma: float) -> KernelMachine:
    """What ``workers.svc`` saves: β of all rows of the training file."""
    with np.load(path) as saved:
        found: dict[str, Any] = {name: saved[name] for name in ("coef", "intercept", "classes")}
    X, _ = rows_of(data)
    return KernelMachine(X, found["coef"], found["intercept"], found["classes"].astype(float), gamma)


def evaluate_kernel(machine: KernelMachine, path: Path, objective: Objective) -> Evaluation:
    """Objective and accuracy over the svmlight file ``path``."""
    X, labels = rows_of(path)
    scores = _rbf(X, machine.vectors, machine.gamma) @ machine.coef + machine.intercept
    lengths = np.einsum(
        "ip,ip->", machine.coef, _rbf(machine.vectors, machine.vectors, machine.gamma) @ machine.coef
    )
    cost = objective.costs(scores, labels, machine.classes)
    right = np.count_nonzero(guesses(scores, machine.classes, objective.multiclass) == labels)
    return Evaluation(0.5 * float(lengths) + objective.C * cost, right / len(labels), len(labels))


def rows_of(path: Path) -> tuple[sp.csr_matrix, NDArray[np.float64]]:
    """A whole svmlight file, columns from 1; read with the referee's own reader."""
    parts = list(read_rows(path))
    columns = max(int(part.indices.max(initial=1)) for part in parts)
    X = sp.vstack(
        [
            sp.csr_matrix((part.data, part.indices - 1, part.indptr), shape=(len(part.labels), columns))
            for part in parts
        ],
        "csr",
    )
    return X, np.concatenate([part.labels for part in parts])


def _rbf(X: sp.csr_matrix, Z: sp.csr_matrix, gamma: float) -> NDArray[np.float64]:
    columns = max(X.shape[1], Z.shape[1])
    X, Z = (
        sp.csr_matrix((each.data, each.indices, each.indptr), (each.shape[0], columns)) for each in (X, Z)
    )
    dots = np.asarray((X @ Z.T).todense())
    squares = [np.asarray(each.multiply(each).sum(axis=1)).ravel() for each in (X, Z)]
    return np.exp(-gamma * np.maximum(squares[0][:, None] + squares[1][None, :] - 2.0 * dots, 0.0))
