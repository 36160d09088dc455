"""``predict`` and ``evaluate``: what a model says of data, and how often it is right; llsvm/scoring/ does it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol, SupportsIndex, runtime_checkable

from llsvm.data import FORMATS, NAMES_FILES, may_be_file, named_files, names_files
from llsvm.data.batches import in_batches
from llsvm.data.source import BlockSource
from llsvm.errors import LLSVMWarning, UsageError
from llsvm.features.frames import column_names, like_frame
from llsvm.features.spelling import short
from llsvm.features.table_options import NOTHING_KEPT, KeptColumns
from llsvm.files.inputs import base_suffix
from llsvm.files.writing import refuse_overwriting
from llsvm.memory.process import default_threads
from llsvm.models.model import Model
from llsvm.models.tables import only_text
from llsvm.scoring.explain import DEFAULT_TOP, explain_rows, require_linear
from llsvm.scoring.measure import measure
from llsvm.scoring.predictions import Shown, predict_rows, require_table_name, write_table
from llsvm.scoring.room import load_model
from llsvm.scoring.sources import held_rows, open_for
from llsvm.settings.objective import UNLABELLED
from llsvm.settings.python import make_callable, options_in, takes_options
from llsvm.settings.settings import Settings

__all__ = ["evaluate", "explain", "predict", "write_predictions"]


@takes_options
def predict(
    model: Model | str | os.PathLike[str],
    data: Any,
    *,
    probabilities: bool = False,
    memory_limit: str | int | None = None,
    threads: int | None = None,
    label: str | int | None = None,
    format: Literal["svmlight", "vw", "fasttext", "csv", "jsonl", "parquet", "arrow", "hdf5", "numpy"]
    | None = None,
    zero_based: Literal["auto", "yes", "no"] = "auto",
) -> Any:
    """Return the label, or number, that a model predicts for each row of data.

    model: a model, or the path of its file. data: a file, pattern, folder or address, or several, in any format
    that ``llsvm.train`` reads; or an (n, d) array, SciPy sparse matrix or data frame (pandas, Polars, a table of
    pyarrow), whose columns are found by name where the model was trained on columns with names; or what comes in
    batches, see ``llsvm.train``; or documents, (n,), of a model that was trained on nothing else. A column of
    labels is left aside. How data are read (categories, missing values, the numbering of svmlight) follows the
    model.

    Returns (n,) values of ``model.classes_`` (of loss one_class 1, and -1 for an outlier), or of a regression
    numbers, in the order of the rows: all that is held of a file at once, beside blocks of its rows. With
    ``probabilities`` (n, n_classes), of a model of the logistic loss, or one that has learned them in
    ``llsvm.tune``. Of a frame of pandas or Polars as its Series, or DataFrame with a column for each class, with
    the index of pandas; else an array. Raises ModelError where the data do not fit the model, or it gives no
    probabilities, DataError, BudgetError, UsageError.
    """
    given = Settings(**options_in(locals()))
    loaded = take_model(model, given)
    source = _opened(loaded, data, None, given, need_label=False)
    predictions = predict_rows(loaded, source, probabilities=probabilities, memory_limit=given.memory_limit)
    _tell_notes(source)
    return like_frame(data, predictions, loaded.labels if probabilities else ())


@takes_options
def write_predictions(
    model: Model | str | os.PathLike[str],
    data: Any,
    output: str | os.PathLike[str],
    *,
    keep: Sequence[str] = (),
    scores: bool = False,
    probabilities: bool = False,
    memory_limit: str | int | None = None,
    threads: int | None = None,
    label: str | int | None = None,
    format: Literal["svmlight", "vw", "fasttext", "csv", "jsonl", "parquet", "arrow", "hdf5", "numpy"]
    | None = None,
    zero_based: Literal["auto", "yes", "no"] = "auto",
) -> int:
    """Write a table of what a model predicts, a row for each of data, as they are read; all of it is never held.

    model, data: as for ``predict``. output: the file, whose name ends in .csv, .tsv (or .csv.gz, .tsv.gz) or
    .parquet; it takes the place of an old one when it is whole. keep: columns of the data that come first, as they
    are: names, positions or patterns. scores: columns of scores, one for two classes (positive means the second),
    else one per class, and of a model that has one the threshold. probabilities: a column per class.

    Returns the number of rows. Raises as ``predict``, and DiskError.
    """
    given = Settings(**options_in(locals()))
    require_table_name(output)
    refuse_overwriting(output, [*named_files(model), *named_files(data)])
    loaded = take_model(model, given)
    source = _opened(loaded, data, None, given, need_label=False, keep=KeptColumns(tuple(keep)))
    more = Shown(scores, probabilities)
    n_rows = write_table(loaded, source, output, more=more, memory_limit=given.memory_limit)
    _tell_notes(source)
    return n_rows


@takes_options
def evaluate(
    model: Model | str | os.PathLike[str],
    data: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    thresholds: int = 0,
    by: str | SupportsIndex | None = None,
    memory_limit: str | int | None = None,
    threads: int | None = None,
    label: str | int | None = None,
    weight: str | int | None = None,
    where: str | None = None,
    missing_label: Literal["refuse", "drop"] = "refuse",
    format: Literal["svmlight", "vw", "fasttext", "csv", "jsonl", "parquet", "arrow", "hdf5", "numpy"]
    | None = None,
    zero_based: Literal["auto", "yes", "no"] = "auto",
) -> dict[str, Any]:
    """Return how well a model predicts the labels that data have.

    model, data: as for ``predict``. y: (n,) labels, with arrays and data frames; a data frame may have them in a
    column instead: that named by ``label``, or as the model's training data had it, or named label, target, class
    or y. sample_weight: (n,) what the rows count for, with arrays and data frames; of files, and data frames that
    have their labels in them, the column ``weight``. Where neither is given all rows count the same, however the
    model was trained; but for Vowpal Wabbit's, which have their importance weights with them. thresholds: of two
    classes, how many steps of recall a table of thresholds has. by: a column of files and data frames, its name or
    position: the answer has the figures of each group of rows, which have the same value in it, too.

    Returns plain values, a dict: rows, weight (their sum, where there are some: all but rows, correct and
    unknown_rows is by them), correct, accuracy, macro_f1, balanced_accuracy, matthews_corrcoef, of two
    classes roc_auc, average_precision and thresholds, if asked for (a dict each: threshold, the score from which on
    rows are taken for the second class, precision, recall, f1, predicted_positive, false_positive_rate; that with
    the largest f1 is among them), classes (a dict each: label, precision, recall, f1, support, predicted),
    confusion (labels, and counts with a row per true and a column per predicted class), unknown_rows and
    unknown_labels (rows whose label the model has never seen; they count as wrong), threshold if one was chosen,
    and of a model that gives probabilities log_loss, brier_score and reliability: of the second of two classes,
    else of the most probable one, a dict for each tenth of [0, 1] in which rows have their probability:
    below (its end), rows, probability (their mean) and share (of those for which it came true). Of a regression:
    rows, r2, mean_absolute_error, mean_squared_error, root_mean_squared_error, and of a quantile pinball_loss and
    coverage (the share of rows that are at most what is predicted). Of loss one_class, which needs no
    labels: rows, outliers, outlier_share, and labelled, the figures of classes over the rows whose labels are 1 and
    -1, if there are any. With ``by``: by, the column's name, and groups, a dict each: group, the value as text
    (None: it is missing), and all figures of its rows. Raises as ``predict``, and ModelError where labels are text
    and the model's are numbers, or the other way round.
    """
    weight = None if weight is None else str(weight)
    given = Settings(**options_in(locals()))
    if by is not None and not isinstance(by, str | SupportsIndex):
        raise UsageError(
            f"by is of type {type(by).__name__}, and rows are grouped by one column: give its name"
        )
    column = None if by is None else str(by)
    loaded = take_model(model, given)
    source = _labelled(loaded, data, y, given, sample_weight, column)
    answer = measure(loaded, source, memory_limit=given.memory_limit, by=column, thresholds=thresholds)
    _tell_notes(source)
    if answer.get("unknown_rows") == answer["rows"]:
        unknown, known = (", ".join(list(each)[:3]) for each in (answer["unknown_labels"], loaded.labels))
        note = (
            f"no row has a label that the model knows: they are {unknown}, and it knows {known}; write them as the "
            "training data have them, or name another column (--label)"
        )
        warnings.warn(f"{source.info().name}: {note}", LLSVMWarning, stacklevel=3)
    return answer


def evaluate_with(
    model: Model,
    data: Any,
    y: Any,
    given: Settings,
    sample_weight: Any = None,
    by: str | None = None,
    **asked: Any,
) -> dict[str, Any]:
    """Return the answer of ``evaluate``. given: its options. asked: what the answer is to have, see ``measure``."""
    source = _labelled(model, data, y, given, sample_weight, by)
    return measure(model, source, memory_limit=given.memory_limit, by=by, **asked)


def _labelled(
    model: Model, data: Any, y: Any, given: Settings, sample_weight: Any, by: str | None
) -> BlockSource:
    """Return data with the labels that the model needs."""
    needed = model.label_kind != UNLABELLED
    return _opened(model, data, y, given, needed, grouping(by), sample_weight)


def _tell_notes(source: BlockSource) -> None:
    """Warn the caller's caller of the notes on the data, once they have been read."""
    for note in source.info().notes:
        warnings.warn(note, LLSVMWarning, stacklevel=4)


def grouping(by: str | None) -> KeptColumns:
    """Return the column that a source stores for groups of rows, if any. by: see ``evaluate``."""
    return NOTHING_KEPT if by is None else KeptColumns((by,), "by")


@takes_options
def explain(
    model: Model | str | os.PathLike[str],
    data: Any,
    *,
    top: int = DEFAULT_TOP,
    all_scores: bool = False,
    memory_limit: str | int | None = None,
    threads: int | None = None,
    label: str | int | None = None,
    format: Literal["svmlight", "vw", "fasttext", "csv", "jsonl", "parquet", "arrow", "hdf5", "numpy"]
    | None = None,
    zero_based: Literal["auto", "yes", "no"] = "auto",
) -> Iterator[dict[str, Any]]:
    """Explain scores row by row: what each feature of a row adds to its score, in the units of the data.

    A contribution is weight times what a number is above the mean of its column, where training has learned that
    (of scaled columns of tables and dense arrays), else weight times value.

    model, data: as for ``predict``. top: so many of each score, the largest in absolute value first. all_scores:
    of all classes (or pairs of classes), not of the predicted one alone.

    Yields for each row, in order, plain values, a dict: row (from 1), prediction, scores: a dict each, of (the
    class, or pair, that positive scores speak for), score, intercept (the score of a row of means), contributions
    (a dict each: feature, value, weight, contribution, and mean, 0 where none is known), other_features (how many
    more there are) and other_contributions (their sum).
    Contributions and intercept sum to the score. Raises as ``predict``, and ModelError for a model with a kernel or
    a feature map.
    """
    given = Settings(**options_in(locals()))
    if top < 1:
        raise UsageError(f"top must be 1 or more, not {top}")
    loaded = take_model(model, given)
    require_linear(loaded)
    source = _opened(loaded, data, None, given, need_label=False)
    return explain_rows(loaded, source, top=top, all_scores=all_scores, memory_limit=given.memory_limit)


@runtime_checkable
class Fitted(Protocol):
    """A fitted estimator; to import ``llsvm.estimators`` for its class would import scikit-learn."""

    model_: Model


def take_model(
    model: Model | Fitted | str | os.PathLike[str],
    given: Settings,
    with_log: bool = False,
    held_bytes: int = 0,
) -> Model:
    """Return the model, whose size is held against the limit before it is loaded, see ``load_model``. with_log: see
    ``Model.load``. held_bytes: of models that are in memory too."""
    if isinstance(model, Fitted):
        model = model.model_
    return model if isinstance(model, Model) else load_model(model, given.memory_limit, with_log, held_bytes)


def _opened(
    model: Model,
    data: Any,
    y: Any,
    given: Settings,
    need_label: bool,
    keep: KeptColumns = NOTHING_KEPT,
    sample_weight: Any = None,
) -> BlockSource:
    argument = "y" if y is not None else "sample_weight" if sample_weight is not None else None
    if in_batches(data):
        if argument:
            raise UsageError(f"{argument} goes with arrays; batches have their labels and weights in them")
    elif not names_files(data) or _are_documents(model, data):
        if given.format is not None:
            raise UsageError(f"--format {given.format} is for files, but arrays were given; leave it out")
        asked = {"weight": given.weight, "where": given.where}
        asked |= {"missing-label": given.missing_label} if given.missing_label == "drop" else {}
        column_option = next((option for option, value in asked.items() if value is not None), None)
        if not (column_option or argument or "table" in model.extra or given.label is None) and column_names(
            data
        ):
            column_option = "label"  # a column of a frame, of which a model of arrays knows nothing
        if column_option is None:
            return held_rows(model, data, y, given.label, need_label, keep, sample_weight)
        if argument or column_names(data) is None:
            raise UsageError(
                f"--{column_option} is about columns: give a data frame that has its label in it too, "
                f"without {argument or 'y'}"
            )
    else:
        if argument:
            raise UsageError(f"{argument} goes with arrays, and {NAMES_FILES}")
        _refuse_documents(model, data)
    return open_for_settings(model, data, given, need_label, keep)


def _are_documents(model: Model, data: Any) -> bool:
    """Return whether a list holds documents for a model trained on nothing but documents: no element names a file
    or ends in a suffix of a file format."""
    if only_text(model.extra) is None or not isinstance(data, list | tuple):
        return False
    suffixes = {suffix for each in FORMATS.values() for suffix in each.suffixes}
    return not any(
        isinstance(each, os.PathLike) or may_be_file(each) or base_suffix(each) in suffixes for each in data
    )


def _refuse_documents(model: Model, data: Any) -> None:
    """Raise UsageError for text that a model of documents is given in the place of files' names."""
    columns = [
        each["name"] for each in model.extra.get("table", {}).get("columns", ()) if each["kind"] == "document"
    ]
    given = named_files(data)
    if columns and (others := [str(each) for each in given if not may_be_file(each)]):
        alone = "as an array, or " if isinstance(data, list | tuple) else "as a list, or "
        alone = alone if only_text(model.extra) is not None else ""
        raise UsageError(
            f"{short(others[0])}: no file is called so, and text, or a list of it, names files: give documents "
            f"{alone}as a data frame with the column {columns[0]}"
        )


def open_for_settings(
    model: Model,
    data: Any,
    given: Settings,
    need_label: bool,
    keep: KeptColumns = NOTHING_KEPT,
) -> BlockSource:
    """Return files to score, read as the model's training data were, but for what is given otherwise."""
    options = {} if given.zero_based == "auto" else {"zero_based": given.zero_based}
    threads = given.threads or default_threads()
    return open_for(
        model,
        data,
        need_label,
        format=given.format,
        threads=threads,
        options={
            "label": given.label,
            "keep": keep,
            "weight": given.weight,
            "where": given.where,
            "missing_label": given.missing_label,
        },
        **options,
    )


make_callable(__name__, predict)
