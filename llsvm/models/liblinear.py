"""LIBLINEAR's text model format, both ways.

    solver_type L2R_L1LOSS_SVC_DUAL
    nr_class 2
    label 1 -1
    nr_feature 3
    bias -1
    w
    0.25
    ...                 nr_feature lines, one more for the bias if bias >= 0, each with a weight per column

A binary model has one column, positive for ``label[0]`` (two for MCSVM_CS); others one column per label, in
the order of ``label``. Where all scores of a row are equal, LIBLINEAR takes the label that the file names
first, or for a binary model last: such rows (empty ones) may be labelled differently after an import.
Probabilities (``-b 1`` there) stand in the order of ``label`` there, and of the classes, ascending, here.

Regressions and one-class models have ``nr_class 2``, no line ``label``, and one column; after ``bias`` one-class
models have a line ``rho RHO``, which is taken off the score. (From LIBLINEAR 2.40 on, which brought one-class.)
"""

from __future__ import annotations

import os
import shlex
import stat
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import LLSVMWarning, ModelError
from llsvm.files.writing import replacing
from llsvm.models.model import Model
from llsvm.models.model_file import KNOWN_REQUIREMENTS, require_memory
from llsvm.models.record import label_text
from llsvm.models.tables import CENTER, first_centered_name, trained_classes
from llsvm.settings.objective import CLASSIFICATION, KINDS, REGRESSION, UNLABELLED

CRAMMER_SINGER, ONE_CLASS = "MCSVM_CS", "ONECLASS_SVM"
_SOLVERS = {  # LIBLINEAR's solvers, each the settings' loss, penalty and multiclass: -s 0 to 7, 11 to 13 and 21
    "L2R_LR": ("logistic", "l2", "ovr"),
    "L2R_L2LOSS_SVC_DUAL": ("squared_hinge", "l2", "ovr"),
    "L2R_L2LOSS_SVC": ("squared_hinge", "l2", "ovr"),
    "L2R_L1LOSS_SVC_DUAL": ("hinge", "l2", "ovr"),
    CRAMMER_SINGER: ("hinge", "l2", "crammer-singer"),
    "L1R_L2LOSS_SVC": ("squared_hinge", "l1", "ovr"),
    "L1R_LR": ("logistic", "l1", "ovr"),
    "L2R_LR_DUAL": ("logistic", "l2", "ovr"),
    "L2R_L2LOSS_SVR": ("squared_epsilon_insensitive", "l2", "ovr"),
    "L2R_L2LOSS_SVR_DUAL": ("squared_epsilon_insensitive", "l2", "ovr"),
    "L2R_L1LOSS_SVR_DUAL": ("epsilon_insensitive", "l2", "ovr"),
    ONE_CLASS: ("one_class", "l2", "ovr"),
}
_REGRESSION = "L2R_L1LOSS_SVR_DUAL"  # of losses that LIBLINEAR lacks: it predicts with all of a kind alike
_CLASSIFICATION = "L2R_L1LOSS_SVC_DUAL"
_CHUNK_ROWS = 10_000
_READ_BYTES = 1 << 20
_HEAD_LINE_BYTES = 1 << 22  # at most: the labels of half a million classes
_LARGEST_LABEL = 2**31 - 1


def write_liblinear(model: Model, path: str | os.PathLike[str]) -> None:
    """Write ``model`` for LIBLINEAR's ``predict``, atomically, with all digits (%.17g).

    Column 0 of the model becomes LIBLINEAR's feature 1. The intercept becomes the weight of a constant
    feature with the value that the model was trained with (1 if that is not known); a threshold is taken off it.
    What was learned of probabilities is left out, which warns (LLSVMWarning).
    Raises ModelError for what the format cannot say (see ``_refuse_unsayable``) and labels that are no integers;
    DiskError and UsageError as ``llsvm.files.writing.replacing``.
    """
    _refuse_unsayable(model)
    if model.calibration is not None:
        warnings.warn(
            f"{path}: LIBLINEAR's format has no place for the probabilities that this model has learned "
            f"({model.calibration.method}): it predicts the same labels there, and probabilities only here",
            LLSVMWarning,
            stacklevel=2,
        )
    solver = _solver_of(model)
    bias, weights = -1.0, model.coef_.T
    intercept = model.intercept_ - model.threshold  # above 0 there, above the threshold here
    if solver != ONE_CLASS and (intercept.any() or model.settings.get("bias", 0) > 0):
        bias = float(model.settings.get("bias", 0)) or 1.0
        weights = np.vstack([weights, intercept / bias])
    lines = [f"solver_type {solver}", f"nr_class {max(len(model.classes_), 2)}"]
    if model.label_kind == CLASSIFICATION:
        labels = _integer_labels(model)
        if len(labels) == 2:  # one column, positive for the first label; ours is positive for the last class
            labels = labels[::-1]
        lines.append(f"label {' '.join(map(str, labels))}")
    lines += [f"nr_feature {model.n_features_in_}", f"bias {bias:.17g}"]
    if solver == ONE_CLASS:
        lines.append(f"rho {0.0 - model.intercept_[0]:.17g}")
    head = "\n".join([*lines, "w", ""])
    line = "%.17g " * weights.shape[1]
    with replacing(path) as stream:
        stream.write(head.encode())
        for start in range(0, len(weights), _CHUNK_ROWS):
            rows = weights[start : start + _CHUNK_ROWS].tolist()
            stream.write("".join(line % tuple(row) + "\n" for row in rows).encode())


def read_liblinear(path: str | os.PathLike[str], require: Callable[[int], None] = require_memory) -> Model:
    """Return the model in LIBLINEAR's file ``path``, of any of its solvers.

    require: is told how many bytes the model takes, before it is read, and may refuse. Raises ModelError, naming
    path and reason.
    """
    try:
        with open(path, encoding="ascii") as lines:
            head = _read_head(lines)
            return _model(head, lines, require)
    except FileNotFoundError as error:
        raise ModelError(f"{path}: no such model file") from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError) as error:  # a ModelError is a ValueError too
        what = f"it has no line {error}" if isinstance(error, KeyError) else str(error)
        raise ModelError(f"{path}: not a LIBLINEAR model that llsvm can read: {what}") from error


def _solver_of(model: Model) -> str:
    """Return the solver that LIBLINEAR's file names: the first that has the model's loss, penalty and
    multi-class form, else one that predicts as the model does."""
    get = model.settings.get
    form = get("multiclass", "ovr") if len(model.classes_) > 2 else "ovr"
    if form == "softmax":  # its labels; LIBLINEAR would make other probabilities of its scores
        return CRAMMER_SINGER
    for asked in ((get("penalty"), form), ("l2", form), ("l2", "ovr")):
        for solver, (loss, *others) in _SOLVERS.items():
            if (loss, *others) == (get("loss"), *asked):
                return solver
    return _REGRESSION if model.is_regression else _CLASSIFICATION


def _refuse_unsayable(model: Model) -> None:
    """Raise ModelError where LIBLINEAR would predict something else with the same weights."""
    table = model.extra.get("table", {"columns": [], "fill": {}})
    texts = [column["name"] for column in table["columns"] if column["kind"] == "text"]
    because = ""
    if model.one_vs_one:
        because = "have no votes of pairs (one-vs-one); train with --multiclass ovr or crammer-singer"
    elif model.feature_map is not None:
        because = "are linear, this one has a kernel or a feature map; train without it"
    elif model.extra.get("unit_row"):
        because = (
            "do not scale rows, this one was trained with --scale unit-row; write the rows with unit length "
            "and train on them, or train with another scale, which becomes part of the weights"
        )
    elif table["fill"] or "fill" in model.extra:
        because = (
            "take a missing value for 0, this one was trained with --missing mean; train with --missing zero"
        )
    elif texts:
        because = (
            f"number their columns, this one has categories of text (column {texts[0]}); turn the table into "
            "numbers first (llsvm convert TABLE NEW.svm) and train on these, or leave such columns out (--exclude)"
        )
    elif CENTER in model.extra:
        because = (
            f"multiply values as they are, and those of {first_centered_name(model)} differ in their last digits "
            "only; take a number off that column, and train on that"
        )
    labels = _label_of_no_integer(model) if model.label_kind == CLASSIFICATION else ""
    if because:
        raise ModelError(f"LIBLINEAR's models {because}{f'. {labels}' * bool(labels)}")
    if labels:
        raise ModelError(labels)


def _label_of_no_integer(model: Model) -> str:
    """Return a sentence where a label is no integer, else ""."""
    classes = trained_classes(model)
    numeric = classes.dtype.kind in "iuf"
    odd = [label for label in classes if not numeric or label != int(label) or abs(label) > _LARGEST_LABEL]
    if not odd:
        return ""
    remedy = "write integers for the labels"
    if len(classes) == 2:
        positive = shlex.quote(label_text(classes[1]))
        remedy = f"train with --positive {positive}, which makes them 1 and -1, or {remedy}"
    return f"LIBLINEAR's labels are integers, and this model has the label {label_text(odd[0])!r}; {remedy}"


def _integer_labels(model: Model) -> list[int]:
    return [int(label) for label in trained_classes(model)]


def _read_head(lines: TextIO) -> dict[str, list[str]]:
    """Return the lines before the weights, by their first word (solver_type, label, ...)."""
    head: dict[str, list[str]] = {}
    for _ in range(20):
        line = lines.readline(_HEAD_LINE_BYTES)
        if len(line) == _HEAD_LINE_BYTES:
            raise ModelError(f"a line of {_HEAD_LINE_BYTES:,} bytes or more before the line 'w'")
        words = line.split()
        if words == ["w"]:
            return head
        if words:
            head[words[0]] = words[1:]
    raise ModelError("the line 'w' is missing")


def _model(head: dict[str, list[str]], lines: TextIO, require: Callable[[int], None]) -> Model:
    solver = " ".join(head["solver_type"])
    if solver not in _SOLVERS:
        raise ModelError(f"{solver} is no solver of LIBLINEAR that is known here")
    loss, penalty, multiclass = _SOLVERS[solver]
    kind = UNLABELLED if solver == ONE_CLASS else KINDS[loss]
    (n_classes,), (d,) = map(int, head["nr_class"]), map(int, head["nr_feature"])
    (bias,) = map(float, head["bias"])
    labels = _labels(head, n_classes) if kind == CLASSIFICATION else np.array([1.0, -1.0])
    columns = 1 if n_classes == 2 and solver != CRAMMER_SINGER else n_classes
    n_weights = (d + (bias >= 0)) * columns
    _require_fitting(lines, n_weights)
    require(8 * n_weights * (1 if columns == 1 else 2))  # those of several classes are put in order
    weights = _read_weights(lines, d + (bias >= 0), columns)
    if columns == 1:
        weights = weights if labels[0] > labels[1] else np.negative(weights, out=weights)
    elif n_classes == 2:
        weights = (weights[:, np.argmax(labels)] - weights[:, np.argmin(labels)])[:, None]
    else:
        weights = weights[:, np.argsort(labels)]
    intercept = weights[d] * bias if bias >= 0 else np.zeros(weights.shape[1])
    if solver == ONE_CLASS:
        intercept = intercept - float(head["rho"][0])
    settings: dict[str, Any] = {"loss": loss, "penalty": penalty, "bias": max(bias, 0.0)}
    if n_classes > 2:
        settings["multiclass"] = multiclass
    extra = {"imported": {"from": "liblinear", "solver_type": solver}, "double": True}
    if kind != CLASSIFICATION:
        extra["label_kind"] = kind
    return Model(
        weights[:d].T,
        intercept,
        np.empty(0) if kind == REGRESSION else np.sort(labels),
        settings=settings,
        index_base=1,
        extra=extra,
        requires=tuple(name for name in extra if name in KNOWN_REQUIREMENTS),
    )


def _labels(head: dict[str, list[str]], n_classes: int) -> NDArray[np.float64]:
    labels = np.array([int(word) for word in head["label"]], float)
    if not 2 <= n_classes == len(labels) == len(set(labels)):
        raise ModelError(f"{n_classes} classes with the labels {' '.join(head['label'])}")
    return labels


def _require_fitting(lines: TextIO, n_weights: int) -> None:
    """Raise ModelError where more weights are announced than the file has bytes for."""
    status = os.fstat(lines.fileno())
    if n_weights < 0 or (stat.S_ISREG(status.st_mode) and n_weights > status.st_size):
        raise ModelError(f"{n_weights:,} weights are announced, and the file has {status.st_size:,} bytes")


def _read_weights(lines: TextIO, n_rows: int, columns: int) -> NDArray[np.float64]:
    """Return the weights, (n_rows, columns) float64."""
    weights = np.empty(n_rows * columns)
    filled = 0
    for words in _words(lines):
        values = np.array(words, float)
        if not np.isfinite(values).all():
            raise ModelError("a weight is not a finite number")
        weights[filled : filled + len(values)] = values[: len(weights) - filled]
        filled += len(values)
    if filled != len(weights):
        raise ModelError(f"{filled} weights where {n_rows} rows of {columns} are announced")
    return weights.reshape(n_rows, columns)


def _words(lines: TextIO) -> Iterator[list[str]]:
    """Yield the words in pieces, each whole."""
    rest = ""
    while text := lines.read(_READ_BYTES):
        text = rest + text
        words = text.split()
        rest = "" if text[-1].isspace() else words.pop()
        if len(rest) >= _READ_BYTES:
            raise ModelError(f"a weight of {len(rest):,} characters")
        yield words
    yield rest.split()
