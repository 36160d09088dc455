"""Docstrings of the estimators: what parameters and attributes mean."""

from __future__ import annotations

from inspect import signature
from typing import TypeVar

Class = TypeVar("Class", bound=type)

# Of parameters, by their names; an estimator's docstring has those that it takes.
_EXPLAINED = {
    ("solver",): """
    solver: "auto" (the only one that does what is asked for, else by shape and a trial; ``model_.extra`` says which
    and why), "llsvm", "smsvm", "nesvm" or "smo"; all reach the same certified optimum.""",
    ("penalty",): """
    penalty: "l2", "l1" (‖w‖₁) or "elasticnet" ((1 − l1_ratio)/2 ‖w‖² + l1_ratio ‖w‖₁): sparse weights.
    lambda1, lambda2: instead of C (and l1_ratio), the factors in (1/N) Σ c_i loss + (λ₂/2)‖w‖² + λ₁‖w‖₁.""",
    ("C",): """
    C: penalty, > 0.""",
    ("tol", "max_iter", "max_seconds"): """
    tol: relative duality gap at which to stop.
    max_iter: full passes over the data at most, None for no limit. max_seconds: once this time is
    over there is no other step, and a last pass measures what there is; None for no limit.""",
    ("prune",): """
    prune: afterwards, weights below this in absolute value become zero, 0.01 say; ``certificate_`` is of what is
    left, ``model_.extra["pruned"]`` says what it cost, and warnings are about the run before that; None: none.""",
    ("fit_intercept", "penalize_intercept"): """
    fit_intercept: append the constant feature ``intercept_scaling``, penalised like the others (as in LIBLINEAR),
    or not (as in LIBSVM and LogisticRegression) where ``penalize_intercept`` is False and the solver can.""",
    ("warm_start",): """
    warm_start: whether ``fit`` and ``fit_file`` begin at the dual variables that the last one has come to, where
    the rows are the same (of files: those that are still there), whatever C, tol and class_weight are now. Other
    arrays, or another loss, begin anew. Kept in ``spill_dir``; a copy of the estimator does not have them.""",
    ("verbose",): """
    verbose: 1: live lines on a terminal or in a notebook, elsewhere a line on standard error for each pass; 2: a
    line for each report; 0: nothing.""",
    ("text", "cross"): """
    text: X is text: True for a list, an array or a Series of documents; names of columns of a data frame, whose
    other columns are numbers (scaled where ``scale`` says so) or categories. analyzer, ngrams, strip_accents,
    stop_words, min_df, max_df, max_features, term_weight, vocabulary, hash_bits: what becomes of it, as in
    ``llsvm.train``.
    cross: pairs of columns of a data frame, ["country:age"], whose features count together too; text that is not in
    ``text`` is then categories.
    categorical: of such data frames, as in ``llsvm.train``. missing: "refuse" NaN, of any rows, or replace it by
    "zero", or by the "mean" of its column.""",
    ("scale",): """
    scale: of the columns, learned in ``fit`` and kept in the model: "none" (as "auto" is, but for tables in files),
    "maxabs", "minmax", "standard" or "unit-row". n-grams and categories are never scaled.""",
    ("target_scale",): """
    target_scale: "standard": labels have mean 0 and variance 1 in training; "none" as "auto", but for tables in
    files.""",
    ("random_state", "n_jobs", "memory_limit", "disk_limit", "spill_dir"): """
    random_state: of every random choice.
    n_jobs: threads; None or -1 for all processors that the process may use, -2 for all but one, and so on.
    memory_limit: of the whole process, such as "2GB" or "25%"; None for half of what is free beyond what the
    process holds already. disk_limit, spill_dir: for what does not fit into memory.""",
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
    """Append to the class's docstring what estimators have in common."""
    taken = set(signature(estimator).parameters)
    words = "".join(text for names, text in _EXPLAINED.items() if taken.issuperset(names))
    estimator.__doc__ = (estimator.__doc__ or "").rstrip() + words + _ATTRIBUTES
    return estimator
