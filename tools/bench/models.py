"""Reads every contestant's model file into one form, with the harness's own code."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Linear:
    """coef: (k, columns) float64, column j being the column numbered j in the svmlight file (column 0 is empty
    where files count from 1). k = 1 for two classes: positive means ``classes[1]``. intercept: (k,), penalised.
    classes: ascending, as numbers; none of a regression, whose k = 1."""

    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    classes: NDArray[np.float64]


def read_llsvm(path: str | os.PathLike[str], classes: NDArray[Any]) -> Linear:
    """llsvm's model: a zip of ``.npy`` arrays and a JSON header."""
    header, arrays = llsvm_arrays(path)
    by_column = arrays["coef"]
    coef = np.vstack([np.zeros((header["index_base"], by_column.shape[1])), by_column]).T
    return Linear(coef, arrays["intercept"], arrays["classes"].astype(float))


def llsvm_arrays(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """A model's header, and its arrays by name; "coef", (columns, k), also where the file has it without its
    zeros: of each column how many weights, of which problems, and their values."""
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("header.json"))
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        arrays = {name: np.load(io.BytesIO(archive.read(f"{name}.npy"))) for name in names}
    if "coef" not in arrays:
        counts, problems, values = (arrays.pop(f"coef_{part}") for part in ("counts", "problems", "values"))
        arrays["coef"] = np.zeros((len(counts), len(arrays["intercept"])))
        arrays["coef"][np.repeat(np.arange(len(counts)), counts), problems] = values
    return header, arrays


def read_liblinear(path: str | os.PathLike[str], classes: NDArray[Any]) -> Linear:
    """LIBLINEAR's text model of a one-against-the-rest classifier, or of a regression."""
    lines = Path(path).read_text().split("\n")
    at = lines.index("w")
    head = {line.split()[0]: line.split()[1:] for line in lines[:at]}
    labels = np.array(head.get("label", []), float)  # a regression has none
    bias, d = float(head["bias"][0]), int(head["nr_feature"][0])
    table = np.array(" ".join(lines[at + 1 :]).split(), float).reshape(d + (bias >= 0), -1)
    if len(labels) == 0:
        pass
    elif table.shape[1] == 1:  # positive for the first label
        table = table if labels[0] > labels[1] else -table
    else:
        table = table[:, np.argsort(labels)]
    intercept = table[d] if bias >= 0 else np.zeros(table.shape[1])
    return Linear(_from_column_one(table[:d].T), intercept, np.sort(labels))


def read_arrays(path: str | os.PathLike[str], classes: NDArray[Any]) -> Linear:
    """What ``tools.bench.workers`` saves of a Python peer: coef (k, d) for columns from 1, intercept, classes."""
    with np.load(path) as saved:
        coef, intercept = np.atleast_2d(saved["coef"]).astype(float), np.atleast_1d(saved["intercept"])
        known = np.asarray(saved["classes"], float)
    return Linear(_from_column_one(coef), np.broadcast_to(intercept.astype(float), (len(coef),)), known)


def read_vw(path: str | os.PathLike[str], classes: NDArray[Any]) -> Linear:
    """Vowpal Wabbit's readable model of a binary problem whose features are named by their numbers."""
    lines = Path(path).read_text().splitlines()
    bits = next(int(line.split(":")[1]) for line in lines if line.startswith("bits:"))
    coef = np.zeros((1, 1 << bits))
    scale = (
        1.0  # the L2 term shrinks all weights at once, by this factor, which the listed ones do not contain
    )
    for line in lines:
        index, colon, values = line.partition(":")
        if colon and index.isdigit():
            coef[0, int(index)] = float(values.split()[0])
        elif line.startswith("l2_state "):
            scale = float(line.split()[1])
    return Linear(scale * coef, np.zeros(1), np.asarray(classes, float))


READERS: dict[str, Callable[[str | os.PathLike[str], NDArray[Any]], Linear]] = {
    "llsvm": read_llsvm,
    "liblinear": read_liblinear,
    "arrays": read_arrays,
    "vw": read_vw,
}


def _from_column_one(coef: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.hstack([np.zeros((len(coef), 1)), coef])
