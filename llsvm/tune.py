"""``tune``: the C, and the loss, penalty and class weights, that predict held-out rows best, and the model of them;
llsvm/tuning/ has the run itself."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import Any, Literal

from llsvm.calibration.learning import learning_request
from llsvm.data import named_files, names_files, open_with_settings
from llsvm.data.batches import in_batches
from llsvm.data.source import BlockSource
from llsvm.errors import MissingColumnError, UsageError, in_python
from llsvm.features.frames import column_names
from llsvm.files.writing import refuse_overwriting
from llsvm.memory.process import default_threads
from llsvm.models import model_file
from llsvm.models.model import Model
from llsvm.objective.problems import Fold
from llsvm.scoring.sources import held_rows, open_validation
from llsvm.settings.objective import KINDS, ONE_CLASS
from llsvm.settings.python import make_callable, options_in, takes_options
from llsvm.settings.settings import Settings
from llsvm.solvers.base import Report
from llsvm.stream.stream import Stream
from llsvm.train import warn_not_converged
from llsvm.training.progress_display import listener, report_display
from llsvm.training.training import Training
from llsvm.tuning.folds import Splits, by_group, by_splits, by_time
from llsvm.tuning.grid import DEFAULT_COSTS, costs_of, objectives_of, solver_of
from llsvm.tuning.scores import RULES, Score, called_score, score_of
from llsvm.tuning.search import Question, Tuning

__all__ = ["Tuned", "tune"]

DEFAULT_FOLDS = 5


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of ``tune``. model: of best_C, trained on all rows. best_C: as the rule chose it. best: with the
    loss, penalty, l1_ratio and class_weight that it was chosen with. best_score: its mean over the folds. score:
    the name. table: a dict for each of these and each C, ascending: C, mean, spread (standard deviation over the
    folds, None of one), relative_gap (the largest of its candidates), converged, dropped, and by fold scores and
    gaps. details: all that ``llsvm tune --json`` has."""

    model: Model
    best_C: float
    best: dict[str, Any]
    best_score: float
    score: str
    table: list[dict[str, Any]]
    details: dict[str, Any]


@takes_options
def tune(
    data: Any,
    y: Any = None,
    *,
    C: str | Sequence[float] = DEFAULT_COSTS,  # candidates
    folds: int | None = None,
    validation: Any = None,
    holdout: float | None = None,
    score: Literal[
        "accuracy",
        "balanced_accuracy",
        "roc_auc",
        "average_precision",
        "f1",
        "log_loss",
        "r2",
        "mae",
        "mse",
        "pinball",
    ]
    | Callable[..., float]
    | None = None,
    rule: Literal["best", "1se"] = "best",
    race: bool = False,
    group: str | None = None,
    time: str | None = None,
    probabilities: Literal["platt", "isotonic", "temperature"] | None = None,
    threshold: str | None = None,
    sample_weight: Any = None,
    output: str | os.PathLike[str] | None = None,
    memory_limit: str | int | None = None,
    label: str | int | None = None,
    scale: Literal["auto", "none", "maxabs", "minmax", "standard", "unit-row"] = "auto",
    class_weight: str
    | Mapping[Any, float]
    | Sequence[str | Mapping[Any, float] | None]
    | None = None,  # or a list
    multiclass: Literal["ovr", "ovo"] = "ovr",  # those with a problem for each C
    tol: float = 0.001,
    max_passes: int | None = 200,
    threads: int | None = None,
    format: Literal["svmlight", "vw", "fasttext", "csv", "jsonl", "parquet", "arrow", "hdf5", "numpy"]
    | None = None,
    positive: str | float | None = None,
    features: Sequence[str] = (),
    exclude: Sequence[str] = (),
    weight: str | int | None = None,
    where: str | None = None,
    missing_label: Literal["refuse", "drop"] = "refuse",
    categorical: Sequence[str] = (),
    header: Literal["auto", "yes", "no"] = "auto",
    delimiter: str | None = None,
    missing: Literal["refuse", "zero", "mean"] = "refuse",
    hash_bits: int | None = None,
    zero_based: Literal["auto", "yes", "no"] = "auto",
    text: Sequence[str] = (),
    analyzer: Literal["word", "char", "char_wb"] = "word",
    ngrams: str | int | tuple[int, int] = "1",
    strip_accents: Literal["unicode", "ascii"] | None = None,
    stop_words: str | os.PathLike[str] | Collection[str] | None = None,
    min_df: float | None = None,
    max_df: float | None = None,
    max_features: int | None = None,
    term_weight: Literal["auto", "tfidf", "sublinear", "tf", "count", "binary"] = "auto",
    vocabulary: Literal["auto", "exact", "hashed"] = "auto",
    encoding: str = "utf-8",
    target_scale: Literal["auto", "none", "standard"] = "auto",
    bias: float | Literal["auto"] = "auto",
    loss: str | Sequence[str] = "hinge",  # or a list
    penalty: str | Sequence[str] = "l2",  # or a list
    l1_ratio: float | Sequence[float] = 0.5,  # or a list
    epsilon: float = 0.1,
    quantile: float = 0.5,
    delta: float = 1.0,
    seed: int = 0,
    disk_limit: str | int | None = None,
    spill_dir: str | os.PathLike[str] | None = None,
    callback: Callable[[Report], object] | None = None,
    verbose: int = 0,
) -> Tuned:
    """Choose the C whose models predict held-out rows best, and train a model with it on all rows.

    data, y, sample_weight, output: as for ``llsvm.train``. C: numbers, "0.1,1,10", or a range "0.001..1000" of
    seven, evenly on a log scale. folds: each row is held out once, by models that are trained on the other folds
    (5 unless holdout or validation is given); stratified, and the same for the same rows and seed. holdout: the
    share of rows that is held out, once. group, time: a column that is no feature: rows of the same group are in
    the same fold; or each fold is trained on the rows before it in time. validation: other data to score on, a
    path, (X, y) or a data frame with its labels. score: accuracy unless it is given, of a regression what goes
    with its loss: mae (epsilon_insensitive, huber), r2 (squared_epsilon_insensitive) or pinball (quantile); f1 is
    of the second of two classes, of more their mean; mae, mse and pinball are the mean absolute, squared and
    pinball error; or a function of labels and predictions, or a scorer of scikit-learn: larger is better, and X
    are the numbers of a fold's held-out rows. rule: "1se" takes the smallest C whose mean score is within a
    standard error of the best.
    race: drop candidates that could
    not be the best even if they predicted the folds to come without an error. loss, penalty, l1_ratio,
    class_weight: one, or a list of which each is tried with each C. probabilities: learn, from the scores of
    held-out rows, what scores of the model stand for, so that it has ``predict_proba``: by Platt's sigmoid, by
    isotonic regression (of 1,000 rows and more), or by one temperature of all classes' scores. threshold: of two
    classes, the score above which a row is of the second, chosen on held-out rows: "precision=0.9" (with the
    largest recall), "recall=0.9" (with the largest precision), "f1", or "cost=FP:FN", what a false positive and a
    false negative cost. Both count rows by their sample weights. callback, verbose: as for ``llsvm.train``, of the
    passes of all candidates and of the model's.

    All candidates are trained in the same passes over the data, as many at once as the memory limit has room for,
    each to its own certificate. Raises LLSVMError's subclasses; warns as ``llsvm.train`` does.
    """
    given = locals()
    objectives = objectives_of({name: value for name, value in options_in(given).items() if name != "C"})
    asks = {name: given[name] for name in signature(asked).parameters if name in given}
    more: dict[str, Any] = {"warn_at": 4, "callback": callback, "verbose": verbose}
    return tune_with(objectives, data, y, sample_weight, output, **more, **asks)


def tune_with(
    objectives: Sequence[Settings],
    data: Any,
    y: Any = None,
    sample_weight: Any = None,
    output: str | os.PathLike[str] | None = None,
    names: Mapping[str, str] | None = None,
    warn_at: int = 3,
    remedies: Mapping[str, str] | None = None,
    callback: Callable[[Report], object] | None = None,
    verbose: int = 0,
    **asks: Any,
) -> Tuned:
    """Tune as ``tune`` does. objectives: settings that have all but C. names, warn_at, remedies: see
    ``llsvm.train.train_with``. asks: as ``asked`` takes it."""
    objectives = tuning_settings(objectives, asks.get("group"), asks.get("time"))
    settings = objectives[0]
    if output is not None:
        model_file.require_writable(output)
        refuse_overwriting(output, named_files(data))
    threads_used = settings.threads or default_threads()

    def opened(settings: Settings) -> BlockSource:
        return open_with_settings(settings, data, y, sample_weight, threads_used)

    source, question = open_question(objectives, opened, **asks)
    with Training(source, settings, output, tunes=True) as training:
        tuning = Tuning(training, question)
        with report_display(training.progress, settings, verbose) as show:
            tuning.run(listener(show, callback))
        model, details = tuning.model, tuning.as_dict()
        cause, advice = training.advice
        advice = (remedies or {}).get(cause, advice)
    for note in source.info().notes:
        warnings.warn(in_python(note, names), stacklevel=warn_at)
    if not model.converged:
        warn_not_converged(model, in_python(advice, names), warn_at + 1)
    if output is not None:
        model.save(output)
    best = tuning.best
    return Tuned(model, best.C, details["best"], best.mean, question.score.name, details["table"], details)


def open_question(
    objectives: Sequence[Settings], opened: Callable[[Settings], BlockSource], **asks: Any
) -> tuple[BlockSource, Question]:
    """Open the data, and return them with the checked options of a tuning run. opened: opens them with settings.
    asks: as ``asked`` takes it. Raises UsageError, and DataError for a column of --group or --time that the data
    do not have."""
    try:
        source = opened(objectives[0])
    except MissingColumnError as error:
        option = {asks.get("time"): "time", asks.get("group"): "group"}.get(error.column)
        if error.option != "exclude" or option is None:
            raise
        raise error.with_option(option) from error
    return source, asked(objectives, source=source, again=opened, **asks)


def tuning_settings(
    objectives: Sequence[Settings], group: str | None = None, time: str | None = None
) -> list[Settings]:
    """Return the settings of candidates. Raises UsageError for what they cannot be trained with. group, time:
    columns that tell rows apart, and are no features."""
    checked = list[Settings]()
    for settings in objectives:
        if settings.loss == ONE_CLASS:
            raise UsageError(
                f"--loss {ONE_CLASS} has no C to choose, and no labels to score predictions with"
            )
        replace(settings, solver=solver_of(settings))  # which says what it does not do
        for option, column in (("--group", group), ("--time", time)):
            if column is not None and column == settings.label:
                raise UsageError(
                    f"{option} {column} is the column of the labels: name one that says something else"
                )
            if column is not None and column not in settings.exclude:
                settings = replace(settings, exclude=(*settings.exclude, column))
        checked.append(settings)
    return checked


def asked(
    objectives: Sequence[Settings],
    C: str | Sequence[float],
    folds: int | None,
    validation: Any,
    holdout: float | None,
    score: str | Callable[..., float] | None,
    rule: str,
    source: BlockSource,
    again: Any,
    probabilities: str | None = None,
    threshold: str | None = None,
    group: str | None = None,
    time: str | None = None,
    race: bool = False,
    splits: Splits | None = None,
) -> Question:
    """Check the options of a tuning run and return them as a Question. again: opens the data anew, with the
    settings that it is given. splits: folds that the caller has made. Raises UsageError."""
    settings = objectives[0]
    costs, chosen_score, folds = check_choices(
        objectives, C, folds, validation, holdout, score, rule, race, splits is None
    )
    opened = None if validation is None else partial(_validation, settings, validation)
    reread = partial(again, settings) if again is not None and source.info().rereadable else None
    learning = learning_request(probabilities, threshold, settings)
    if splits is None:
        by_column = _by_column(settings, group, time, source, again, bool(folds))
    else:
        folds, by_column = len(splits.roles), partial(by_splits, splits)
        if folds == 1 and rule == "1se":
            raise UsageError("--rule 1se needs several folds to know a standard error, and cv has one")
        if splits.overlap and (chosen_score.ranks or chosen_score.call is not None or learning):
            raise UsageError(
                "cv holds rows out more than once, and probabilities, thresholds, callables and scores that rank "
                "rows take each once: pass a splitter that does (StratifiedKFold), or another --score"
            )
    of_rows = folds or 0, holdout, opened, reread
    return Question(tuple(objectives), costs, chosen_score, rule, race, *of_rows, learning, by_column)


def check_choices(
    objectives: Sequence[Settings],
    C: str | Sequence[float],
    folds: int | None,
    validation: Any,
    holdout: float | None,
    score: str | Callable[..., float] | None,
    rule: str,
    race: bool,
    makes_folds: bool = True,
) -> tuple[tuple[float, ...], Score, int | None]:
    """Return the C's, the score and the number of folds, None where there are none, that options of a tuning run
    ask for. makes_folds: the caller has made none. Raises UsageError for what is refused whatever the data are."""
    costs = costs_of(C, len(objectives))
    kind = KINDS[objectives[0].loss]
    chosen_score = called_score(score, kind) if callable(score) else score_of(score, objectives)
    given = [
        name
        for name, value in (("--folds", folds), ("--validation", validation), ("--holdout", holdout))
        if value is not None
    ]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} are several ways to hold rows out; choose one")
    if rule not in RULES:
        raise UsageError(f"--rule must be {' or '.join(RULES)}, not {rule!r}")
    if rule == "1se" and (validation is not None or holdout is not None):
        raise UsageError(
            f"--rule 1se needs several folds to know a standard error: leave it or {given[0]} out"
        )
    if race and rule == "1se":
        raise UsageError(
            "--race drops what can no longer be the best, and --rule 1se takes another one: leave one of them out"
        )
    if race and chosen_score.call is not None:
        raise UsageError(
            f"--race drops what the best possible score could not save, and that of {chosen_score.name} is not "
            "known: leave --race out, or name one of llsvm's scores"
        )
    if race and (validation is not None or holdout is not None):
        raise UsageError(f"--race drops candidates between folds: leave it or {given[0]} out")
    if not given and makes_folds:
        folds = DEFAULT_FOLDS
    if folds is not None and (isinstance(folds, bool) or not isinstance(folds, int) or folds < 2):
        raise UsageError(f"--folds must be a whole number, 2 or more, not {folds!r}")
    if holdout is not None and not 0 < holdout < 1:
        raise UsageError(f"--holdout must be a share of the rows, between 0 and 1, not {holdout!r}")
    return costs, chosen_score, folds


def _by_column(
    settings: Settings, group: str | None, time: str | None, source: BlockSource, again: Any, in_folds: bool
) -> Callable[[Stream, int], list[Fold]] | None:
    """Return the function that makes folds by the values of a column; None if neither a group nor a time column is
    given."""
    if group is None and time is None:
        return None
    if group is not None and time is not None:
        raise UsageError("--group and --time are two ways to make folds; choose one")
    option = "--time" if group is None else "--group"
    if not in_folds:
        raise UsageError(f"{option} makes --folds: leave --holdout or --validation out")
    info = source.info()
    if not (info.is_table and info.rereadable):
        raise UsageError(
            f"{option} names a column of a table in files, which is read once more; {info.name} is none"
        )
    if time is not None:
        return partial(by_time, again, settings, time)
    assert group is not None
    return partial(by_group, again, settings, group, settings.seed)


def _validation(settings: Settings, data: Any, model: Model) -> BlockSource:
    """Return data to score on, read as the model's are. Raises UsageError."""
    if not names_files(data) and (isinstance(data, tuple) or not in_batches(data)):
        is_pair = isinstance(data, tuple | list) and len(data) == 2
        X, y = data if is_pair else (data, None)
        if not is_pair and (isinstance(X, tuple) or column_names(X) is None):
            raise UsageError(
                "validation must be files, (X, y), or a data frame that has its labels in a column"
            )
        return held_rows(model, X, y, settings.label, need_label=True)
    return open_validation(model, data, settings)


make_callable(__name__, tune)
