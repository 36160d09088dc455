"""``train``: train a model on files or arrays. Read this file first; llsvm/training/ has the run itself."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from llsvm.data import named_files, names_files, open_with_settings
from llsvm.errors import BudgetError, LLSVMWarning, MissingColumnError, UsageError, in_python
from llsvm.features.frames import column_names
from llsvm.files.writing import refuse_overwriting
from llsvm.memory.process import default_threads
from llsvm.models import model_file
from llsvm.models.header import PRUNED
from llsvm.models.model import Model
from llsvm.scoring.room import block_bytes
from llsvm.settings.python import make_callable, options_in, takes_options
from llsvm.settings.settings import Settings
from llsvm.solvers.advice import NOTHING
from llsvm.solvers.base import Report, in_passes
from llsvm.state.checkpoints import Checkpoints, checkpoints_in
from llsvm.training.persistence import NO_MODEL
from llsvm.training.progress_display import listener, report_display
from llsvm.training.pruning import all_gone
from llsvm.training.training import Training

__all__ = ["load", "train"]


@takes_options
def train(
    data: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    output: str | os.PathLike[str] | None = None,
    state: str | os.PathLike[str] | None = None,
    checkpoint_every: str | float = "5m",
    fresh: bool = False,
    keep_cache: bool = False,
    test: Any = None,
    callback: Callable[[Report], object] | None = None,
    verbose: int = 0,
    memory_limit: str | int | None = None,
    label: str | int | None = None,
    scale: Literal["auto", "none", "maxabs", "minmax", "standard", "unit-row"] = "auto",
    C: float = 1.0,
    class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
    multiclass: Literal["ovr", "ovo", "crammer-singer", "weston-watkins", "softmax"] = "ovr",
    solver: Literal["llsvm", "smsvm", "nesvm", "smo", "auto"] = "auto",
    tol: float = 0.001,
    max_passes: int | None = 200,
    max_seconds: float | None = None,
    threads: int | None = None,
    prune: float | None = None,
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
    cross: Sequence[str] = (),
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
    intercept: bool = False,
    kernel: Literal["rbf", "poly", "linear", "precomputed"] | None = None,
    gamma: float | None = None,
    degree: int = 3,
    coef0: float = 0.0,
    feature_map: Literal["nystroem", "rff"] | None = None,
    components: int = 500,
    loss: Literal[
        "hinge",
        "squared_hinge",
        "least-squares",
        "logistic",
        "epsilon_insensitive",
        "squared_epsilon_insensitive",
        "quantile",
        "huber",
        "one_class",
    ] = "hinge",
    epsilon: float = 0.1,
    quantile: float = 0.5,
    delta: float = 1.0,
    nu: float = 0.5,
    penalty: Literal["l2", "l1", "elasticnet"] = "l2",
    l1_ratio: float = 0.5,
    lambda1: float | None = None,
    lambda2: float | None = None,
    seed: int = 0,
    paper: bool = False,
    step: Literal["auto", "paper"] = "auto",
    mu: float | None = None,
    mu_end: float = 0.01,
    homotopy: bool = True,
    stop: Literal["gap", "change"] = "gap",
    disk_limit: str | int | None = None,
    spill_dir: str | os.PathLike[str] | None = None,
    spill_format: Literal["arrow", "hdf5"] = "arrow",
    cache: Literal["auto", "always", "never"] = "auto",
    survivors: float = 1.0,
) -> Model:
    """Train a linear SVM on a file or on arrays, and write the model to ``output`` if that is given.

    data: a file, pattern, folder or address, or several, in any format that ``llsvm.data.FORMATS`` has; or an
    (n, d) array, data frame of numbers or SciPy sparse matrix, then with y (n,). A data frame, table or dataset
    without y has its labels in the column ``label``, and is read as a file is; so are batches: an iterator, or a
    callable that gives an iterable each time, of tables or of (X, y) or (X, y, sample_weight).
    Tables of named columns in files are scaled and get a bias unless ``scale`` and ``bias`` say otherwise, arrays
    and data frames do not (``model.settings`` tells what was done).
    sample_weight: (n,) factors of C, with arrays. output: a path, or None to write nothing.
    state: a folder for the state of the run, from which the same call goes on, however it was stopped, or None.
    prune: afterwards weights below this in absolute value become zero; the certificate is of what is left,
    ``model.extra["pruned"]`` says what it cost, and ``converged`` is judged before that.
    checkpoint_every: seconds, or "5m", between two that are written; 0: after every pass. fresh: begin anew,
    whatever is there. keep_cache: keep binary copies of svmlight files in the state, which are not parsed again.
    test: labelled data, or arrays (X, y) or (X, y, sample_weight): ``model.log["test"]`` is then what ``evaluate``
    says of them. Rows of files and data frames count by the column ``weight``, where they have it.
    callback: called with each Report (llsvm.solvers.base); what it raises ends the run. The logger "llsvm" has a
    line for each report, too. verbose: 1: live lines on a terminal or in a notebook, elsewhere a line on standard
    error for each pass; 2: a line for each report; 0: nothing.

    Returns the model. Raises LLSVMError's subclasses; a run that ends before it converged warns
    (sklearn.exceptions.ConvergenceWarning) and hands back the best certified model, and so does one that Ctrl-C
    (KeyboardInterrupt) stops (LLSVMWarning), unless no pass has been certified yet. What the reader took for
    granted (see SourceInfo.notes) becomes a UserWarning.
    """
    settings = Settings(**options_in(locals()))
    test_weight = None if test is None else check_test(test, settings)
    with checkpoints_in(state, checkpoint_every, fresh, keep_cache) as checkpoints:
        model = train_with(
            settings,
            data,
            y,
            sample_weight,
            output,
            warn_at=4,  # past takes_options
            checkpoints=checkpoints,
            callback=callback,
            verbose=verbose,
        )
    if test is not None:
        model.log["test"] = evaluated_on(model, test, settings, test_weight)
    return model


def train_with(
    settings: Settings,
    data: Any,
    y: Any = None,
    sample_weight: Any = None,
    output: str | os.PathLike[str] | None = None,
    names: Mapping[str, str] | None = None,
    warn_at: int = 3,
    remedies: Mapping[str, str] | None = None,
    checkpoints: Checkpoints | None = None,
    callback: Callable[[Report], object] | None = None,
    follow: Callable[[Report, Training], object] | None = None,
    verbose: int = 0,
) -> Model:
    """Train as ``train`` does, with settings. names: see ``llsvm.errors.in_python``. warn_at: the frame that
    warnings are about. remedies: sentences by cause, instead of those of ``Training.advice``. checkpoints: to go on
    from, and keep. callback, verbose: see ``train``. follow: called with each report, and the training."""
    threads = settings.threads or default_threads()
    if output is not None:
        model_file.require_writable(output)
        refuse_overwriting(output, named_files(data))
    source = open_with_settings(settings, data, y, sample_weight, threads)
    with Training(source, settings, output, checkpoints=checkpoints) as training:
        try:
            with report_display(training.progress, training.settings, verbose) as show:
                listen = listener(show, callback)
                for report in training:
                    listen(report)
                    if follow is not None:
                        follow(report, training)
            model = training.finish(output)
        except KeyboardInterrupt as interrupt:
            return _interrupted(training, output, interrupt, warn_at + 1)
        cause, advice = training.advice
        advice = (remedies or {}).get(cause, advice)
    for note in source.info().notes:
        warnings.warn(in_python(note, names), stacklevel=warn_at)
    if model.certificate is not None and model.certificate.is_nothing:
        warnings.warn(in_python(NOTHING, names), stacklevel=warn_at)
    if sentence := all_gone(model.extra.get(PRUNED)):
        warnings.warn(in_python(sentence, names), stacklevel=warn_at)
    if not model.converged:
        warn_not_converged(model, in_python(advice, names), warn_at + 1)
    return model


def _interrupted(
    training: Training, output: str | os.PathLike[str] | None, interrupt: KeyboardInterrupt, warn_at: int
) -> Model:
    """Return the model as of the last full pass, written to ``output`` if that is given; raise ``interrupt`` where
    there is none."""
    model = training.model_so_far()
    if model is None or model.certificate is None:
        if words := ("" if output is None else NO_MODEL) + training.keep_state():
            interrupt.add_note(f"llsvm: stopped{words}")
        raise interrupt
    if output is not None:
        model.save(output)
    certificate = model.certificate
    warnings.warn(
        f"stopped: this is the best certified model so far, after {in_passes(certificate.passes, 'full pass')} "
        f"within {certificate.relative_gap:.3%} of the optimum{training.keep_state()}",
        LLSVMWarning,
        stacklevel=warn_at,
    )
    return model


def check_test(test: Any, settings: Settings) -> str | None:
    """Return the column, or array, with the weights of ``test``, see ``train``: that of the training, where test
    data have one; None where they have none.

    Raises LLSVMError's subclasses for files that cannot be read, before there is any work: they are read as the
    training data are, but need no weights, no columns of ``exclude`` or ``where``, and no separate file of
    labels."""
    if isinstance(test, tuple):
        if len(test) not in (2, 3):
            raise UsageError(
                f"test must be labelled data, (X, y) or (X, y, sample_weight), not {len(test)} of them"
            )
        return None
    if not names_files(test):
        names = column_names(test)
        return settings.weight if names is not None and settings.weight in names else None
    if (settings.label or "").endswith(".npy"):
        return None
    asked = replace(settings, where=None)
    while True:
        try:
            reader_bytes = open_with_settings(asked, test).info().reader_bytes
        except MissingColumnError as error:
            if error.option == "weight":
                asked = replace(asked, weight=None)
            elif error.option == "exclude":
                asked = replace(asked, exclude=tuple(name for name in asked.exclude if name != error.column))
            else:
                raise
        else:
            try:
                block_bytes(0, 2, settings.memory_limit, reader_bytes)
            except BudgetError as error:  # it is not known what training takes
                raise error.as_least() from error
            return asked.weight


def evaluated_on(model: Model, test: Any, settings: Settings, weight: str | None) -> dict[str, Any]:
    """Return what ``evaluate`` does for ``test``, see ``train``, with the limits and the format of the training.
    weight: as ``check_test`` returns it."""
    from llsvm.predict import evaluate_with

    given = Settings(
        memory_limit=settings.memory_limit, threads=settings.threads, format=settings.format, weight=weight
    )
    X, y, sample_weight = (*test, None)[:3] if isinstance(test, tuple) else (test, None, None)
    if not names_files(X):
        given = replace(given, format=None)
    return evaluate_with(model, X, y, given, sample_weight)


def warn_not_converged(model: Model, advice: str, warn_at: int) -> None:
    """Warn that a model has not converged. advice: the sentence of ``Training.advice``."""
    from sklearn.exceptions import ConvergenceWarning

    gap = float("nan") if model.certificate is None else model.certificate.relative_gap
    warnings.warn(
        f"not converged: relative gap {gap:.2g} after {in_passes(len(model.history), 'full pass')} "
        f"(asked for {model.settings.get('tol')}): {advice}",
        ConvergenceWarning,
        stacklevel=warn_at,
    )


def load(path: str | os.PathLike[str]) -> Model:
    """Load a model from its file. Raises ModelError."""
    return Model.load(path)


make_callable(__name__, train)
