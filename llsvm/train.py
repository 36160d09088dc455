"""``train``: a model from files or arrays. The page to read first; llsvm/training/ has the run itself."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from llsvm.data import open_with_settings
from llsvm.errors import UsageError
from llsvm.memory.process import default_threads
from llsvm.models import model_file
from llsvm.models.model import Model
from llsvm.settings.names import RENAMED
from llsvm.settings.settings import Settings
from llsvm.training.training import Training


def train(
    data: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    output: str | os.PathLike[str] | None = None,
    settings: Settings | None = None,
    **options: Any,
) -> Model:
    """Train a linear SVM on a file or on arrays, and write the model to ``output`` if that is given.

    data: a file, pattern, folder or address, or several, in any format that ``llsvm.data.FORMATS`` has; or an
    (n, d) array, data frame or SciPy sparse matrix, then with y (n,).
    Tables of named columns in files are scaled and get a bias unless ``scale`` and ``bias`` say otherwise, arrays
    and data frames do not (``model.settings`` tells what was done).
    sample_weight: (n,) factors of C, with arrays. options: the fields of Settings, such as C=10, tol=1e-4,
    memory_limit="2GB". Raises LLSVMError's subclasses; a run that ends before it converged warns
    (sklearn.exceptions.ConvergenceWarning) and hands back the best certified model. What the reader took for
    granted (see SourceInfo.notes) becomes a UserWarning.
    """
    chosen = make_settings(settings, options)
    threads = chosen.threads or default_threads()
    if output is not None:
        model_file.require_writable(output)
    source = open_with_settings(chosen, data, y, sample_weight, threads)
    with Training(source, chosen, output) as training:
        try:
            for _ in training:
                pass
            model = training.model
        except KeyboardInterrupt as stopped:
            if output is not None:
                stopped.add_note(f"llsvm: stopped{training.save_so_far(output)}")
            raise
        advice = training.advice[1]
    for note in source.info().notes:
        warnings.warn(note, stacklevel=3)  # see _CallableModule
    if not model.converged:
        warn_not_converged(model, advice)
    if output is not None:
        model.save(output)
    return model


def make_settings(settings: Settings | None, options: Mapping[str, Any]) -> Settings:
    """Settings with ``options`` replaced. Raises UsageError for an option that does not exist."""
    base = settings or Settings()
    unknown = set(options) - set(base.as_dict())
    if renamed := sorted(unknown & set(RENAMED)):
        raise UsageError(f"{renamed[0]} is now called {RENAMED[renamed[0]]}")
    if unknown:
        raise UsageError(f"unknown option {sorted(unknown)[0]!r}; there are {', '.join(base.as_dict())}")
    return replace(base, **options)


def warn_not_converged(model: Model, advice: str) -> None:
    """advice: ``Training.advice``'s sentence."""
    from sklearn.exceptions import ConvergenceWarning

    gap = float("nan") if model.certificate is None else model.certificate.relative_gap
    warnings.warn(
        f"not converged: relative gap {gap:.2g} after {len(model.history)} full passes "
        f"(asked for {model.settings.get('tol')}): {advice}",
        ConvergenceWarning,
        stacklevel=3,
    )


def load(path: str | os.PathLike[str]) -> Model:
    """A model from its file. Raises ModelError."""
    return Model.load(path)


class _CallableModule(ModuleType):
    """``llsvm.train`` is this module once anything has imported it; it must stay the function all the same."""

    def __call__(self, *args: Any, **options: Any) -> Model:
        return train(*args, **options)


sys.modules[__name__].__class__ = _CallableModule
