"""What estimators are given: parameters and their explanations, rows, documents and labels."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence, Sized
from inspect import signature
from textwrap import fill
from typing import Any, Literal, TypeVar

import numpy as np
from sklearn.utils.validation import column_or_1d

from llsvm.data.batches import is_query
from llsvm.data.frame_tables import columns_of_text
from llsvm.errors import DataError, UsageError
from llsvm.features.array_labels import label_array, labels_of, refuse_dictionaries
from llsvm.features.frames import as_frame, column_names
from llsvm.settings.option import ESTIMATOR_NAMES, TEXT, plain
from llsvm.settings.python import explanation
from llsvm.settings.settings import OPTIONS

Class = TypeVar("Class", bound=type)
Text = bool | str | Sequence[str]

# parameter -> option, where they differ
OPTION_NAMES = {there: name for name, there in ESTIMATOR_NAMES.items()}
TEXT_OPTIONS = (
    *(name for name, each in OPTIONS.items() if each.group == TEXT and name != "encoding"),
    *("hash_bits", "cross", "categorical", "missing", "scale", "target_scale"),
)
COLUMN = "text"  # of documents that have no other name
_OBJECTS = "OT"  # kinds of NumPy's types: objects, and StringDType
_REMEDY = "give text (pandas: y.astype(str))"
_INDENTED: dict[str, Any] = {"initial_indent": "    ", "subsequent_indent": "    "}
_WORDS = {  # parameter -> its explanation, where it is no option, or another thing than that
    "solver": """"auto" (the only one that does what is asked for, else by shape and a trial; ``model_.extra`` says
    which and why), "llsvm", "smsvm", "nesvm" or "smo"; all reach the same certified optimum.""",
    "max_iter": "Full passes over the data at most; None for no limit.",
    "prune": """Afterwards, weights below this in absolute value become zero, 0.01 say; ``certificate_`` is of what
    is left, ``model_.extra["pruned"]`` says what it cost, and warnings are about the run before that. None:
    none.""",
    "penalty": '"l2", "l1" (‖w‖₁) or "elasticnet" ((1 − l1_ratio)/2 ‖w‖² + l1_ratio ‖w‖₁): sparse weights.',
    "warm_start": """Whether ``fit`` and ``fit_file`` begin at the dual variables that the last one has come to,
    where the rows are the same (of files: those that are still there), whatever C, tol and class_weight are now.
    Other arrays, or another loss, begin anew. Kept in ``spill_dir``; a copy of the estimator has none of them.""",
    "verbose": """1: live lines on a terminal or in a notebook, elsewhere a line on standard error for each pass; 2:
    a line for each report; 0: nothing.""",
    "fit_intercept": "Whether there is a constant term, the weight of a constant feature ``intercept_scaling``.",
    "intercept_scaling": "Value of the constant feature, which is penalised like the others, as in LIBLINEAR.",
    "penalize_intercept": """False: the constant term is not penalised, as in LIBSVM and LogisticRegression, where
    the solver can do that.""",
    "text": """X is text: True for a list, an array or a Series of documents; names of columns of a data frame,
    whose other columns are numbers (scaled where ``scale`` says so) or categories.""",
    "stop_words": 'Words that are left out: "english", a file with a word a line, or a collection of words.',
    "missing": 'What becomes of NaN, in rows of any kind: "refuse", "zero", or "mean" of its column.',
    "scale": """Of the columns, learned in ``fit`` and kept in the model: "none" (as "auto" is, but for tables in
    files), "maxabs", "minmax", "standard" or "unit-row". n-grams and categories are never scaled.""",
    "random_state": "Seed, or generator, of every random choice.",
    "n_jobs": "Threads; None or -1 for all processors that the process may use, -2 for all but one, and so on.",
}
_ATTRIBUTES = """

    Attributes after ``fit``: coef_ (k, n_features) float64, of a kernel dual_coef_ (k, n_support) instead, and
    intercept_ (k,); n_iter_ (full passes); certificate_ (``Certificate``); model_ (``Model``); n_features_in_ and,
    where columns have names, feature_names_in_: of a data frame, or of a table in a file, its columns, as
    scikit-learn has it, however many features text and categories become (``get_feature_names_out``). Predictions
    also take arrays of these features, coef_.shape[1] columns, where scikit-learn's check would ask for
    n_features_in_: such arrays have no text, so that they cannot be taken for the frame's own columns.
    """


def explained(estimator: Class) -> Class:
    """Append to an estimator's docstring what it does not explain itself of its parameters and attributes."""
    given = (estimator.__doc__ or "").rstrip()
    explanations = ""
    for name in signature(estimator).parameters:
        if not re.search(rf"\b{name}(, \w+)*: ", given):
            words = _WORDS.get(name) or explanation(OPTION_NAMES.get(name, name), ESTIMATOR_NAMES)
            explanations += "\n" + fill(f"{name}: {' '.join(words.split())}", 116, **_INDENTED)
    estimator.__doc__ = given + explanations + _ATTRIBUTES
    return estimator


def text_of(text: Text | None) -> Literal[True] | tuple[str, ...]:
    """Return the parameter ``text``: True, or names. Raises UsageError."""
    given = plain(text)
    if given is True:
        return True
    if isinstance(given, str):
        return (given,)
    if given is None or given is False:
        return ()
    if not isinstance(given, list | tuple | set) or not all(isinstance(each, str) for each in given):
        raise UsageError(f"text must be True, or names of columns, not {text!r}")
    return tuple(given)


def names_columns(text: Text | None, cross: Any) -> bool:
    """Return whether the parameters ``text`` and ``cross`` make features of columns. Raises UsageError."""
    return bool(text_of(text)) or bool(plain(cross))


def require_rows(X: Any) -> None:
    """Raise UsageError for rows that are not in memory, DataError for those that are dictionaries."""
    refuse_dictionaries(X)
    if is_query(X):
        raise UsageError(
            f"X is a {type(X).__name__}, and estimators take rows that are in memory: give the data frame that "
            "collect() of Polars or df() of DuckDB makes of it, or pass it to llsvm.train, which reads batches"
        )


def is_documents(X: Any) -> bool:
    """Return whether it is a list, an array or a Series of text."""
    if len(getattr(X, "shape", (0,))) != 1 or not isinstance(X, Collection) or isinstance(X, str | bytes):
        return False
    there = (each for each in X if each is not None and (isinstance(each, Sized) or each == each))
    return isinstance(next(there, None), str)


def with_columns(text: Text, X: Any) -> tuple[Any, tuple[str, ...]]:
    """Return X, documents as a data frame, and its columns that the parameter ``text`` means. Raises UsageError."""
    given = text_of(text)
    if given is not True:
        return X, given
    columns = _only_column(X)
    return as_frame(X, columns[0]), columns


def _only_column(X: Any) -> tuple[str, ...]:
    names = column_names(X, ("0",))
    if names is None:
        return (COLUMN,)
    if len(names) != 1:
        of_text = columns_of_text(X)
        remedy = f"name those of text, text=[{of_text[0]!r}]" if of_text else "leave it out: none is of text"
        raise UsageError(f"text=True is for documents alone, and X has {len(names)} columns: {remedy}")
    return names


def class_labels(y: Any) -> Any:
    """Return y, as an array whose labels scikit-learn knows.

    Nullable types, and objects that are bools, whole numbers or text, become arrays of that type, numbers floats,
    dates and times without a zone datetime64. Raises DataError for labels that are missing, and objects of other
    types."""
    if y is None or (isinstance(y, np.ndarray) and y.dtype.kind not in _OBJECTS):
        return y
    given = label_array(y)
    if given.ndim == 0:
        return y  # sparse, or no column: scikit-learn says what is wrong with it
    if given.dtype.kind not in _OBJECTS or len(given) == 0:
        return given
    given = column_or_1d(given, warn=True)
    labels = labels_of(given, len(given))
    if labels.dtype.kind != "U" or isinstance(given[0], str):
        return labels
    import pyarrow as pa

    type_ = pa.array(given, from_pandas=True).type
    if pa.types.is_date(type_) or (pa.types.is_timestamp(type_) and type_.tz is None):
        return given.astype("datetime64[D]" if pa.types.is_date(type_) else "datetime64[us]")
    raise DataError(
        f"y[0] is {given[0]!r} ({type(given[0]).__name__}), which scikit-learn does not take for a label; {_REMEDY}"
    )


def spans_as_numbers(y: Any) -> Any:
    """Return spans of time as whole numbers of nanoseconds, whose order is theirs, as that of text is not; other
    labels as they are. Raises DataError for those that are missing."""
    if not isinstance(y, np.ndarray) or y.dtype.kind != "m":
        return y
    if (gone := np.isnat(y)).any():
        raise DataError(f"y[{int(np.argmax(gone))}]: it is missing; leave the row out")
    return y.astype("m8[ns]").astype(np.int64)


def type_of_times(y: Any) -> np.dtype[Any] | None:
    """Return the type of labels that are dates, times or spans of time, else None."""
    return y.dtype if isinstance(y, np.ndarray) and y.dtype.kind in "Mm" else None
