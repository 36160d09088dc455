"""Parameters of estimators: what docstrings say of them, and what ``text`` means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from inspect import signature
from typing import Any, Literal, TypeVar

from llsvm.errors import UsageError
from llsvm.settings.option import ESTIMATOR_NAMES, TEXT, plain
from llsvm.settings.python import explanation
from llsvm.settings.settings import OPTIONS

Class = TypeVar("Class", bound=type)
Text = bool | str | Sequence[str]

OPTION_NAMES = {
    there: name for name, there in ESTIMATOR_NAMES.items()
}  # parameter -> option, where they differ
TEXT_OPTIONS = (
    *(name for name, each in OPTIONS.items() if each.group == TEXT and name != "encoding"),
    *("hash_bits", "cross", "categorical", "missing", "scale", "target_scale"),
)
_WORDS = {  # parameter -> its explanation, where it is no option, or another thing than that
    "penalty": '"l2", "l1" (‖w‖₁) or "elasticnet" ((1 − l1_ratio)/2 ‖w‖² + l1_ratio ‖w‖₁): sparse weights.',
    "warm_start": """Whether ``fit`` and ``fit_file`` begin at the dual variables that the last one has come to,
    where the rows are the same (of files: those that are still there), whatever C, tol and class_weight are now.
    Other arrays, or another loss, begin anew. Kept in ``spill_dir``; a copy of the estimator has none of them.""",
    "verbose": """1: live lines on a terminal or in a notebook, elsewhere a line on standard error for each pass; 2:
    a line for each report; 0: nothing.""",
    "fit_intercept": "Whether there is a constant term, the weight of a constant feature.",
    "intercept_scaling": "Value of the constant feature, which is penalised like the others, as in LIBLINEAR.",
    "penalize_intercept": """False: the constant term is not penalised, as in LIBSVM and LogisticRegression, where
    the solver can do that.""",
    "text": """X is text: True for a list, an array or a Series of documents; names of columns of a data frame,
    whose other columns are numbers (scaled where ``scale`` says so) or categories.""",
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
    explanations = "".join(
        f"\n    {name}: {_WORDS.get(name) or explanation(OPTION_NAMES.get(name, name), ESTIMATOR_NAMES)}"
        for name in signature(estimator).parameters
        if not re.search(rf"\b{name}(, \w+)*: ", given)
    )
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
