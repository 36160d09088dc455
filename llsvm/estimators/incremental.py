"""Base of estimators that train one model: fits that begin where the last one has come to (``warm_start``), and
rows that come call by call (``partial_fit``)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight

from llsvm.data.frame_tables import columns_of_no_numbers
from llsvm.data.paths import names_files
from llsvm.errors import LLSVMWarning, UsageError
from llsvm.estimators.base import REMEDIES, LLSVMEstimator, own_names, require_rows
from llsvm.estimators.callbacks import FRAMES, CallbackSupportMixin, Tasks, with_callbacks
from llsvm.estimators.classifying import class_labels, spans_as_numbers
from llsvm.estimators.documents import is_documents, names_columns
from llsvm.estimators.kept_runs import WEIGHT, GivenRows, KeptRuns
from llsvm.features.array_labels import labels_of, refuse_masked
from llsvm.features.frames import column_names, refuse_objects
from llsvm.files.fingerprint import TRAINED_ON
from llsvm.models.model import Model
from llsvm.settings.kinds import plain
from llsvm.settings.objective import CLASSIFICATION
from llsvm.settings.settings import Settings
from llsvm.state.checkpoints import Checkpoints
from llsvm.train import train_with

_OWN = ("_runs", "_given")  # what a copy of the estimator does not have


class Incremental(CallbackSupportMixin, LLSVMEstimator):
    """An estimator that can go on from what it has come to."""

    _not_options: ClassVar[tuple[str, ...]] = ("warm_start", "verbose")

    warm_start: bool
    spill_dir: str | None
    _runs: KeptRuns | None = None  # of fits with warm_start
    _given: GivenRows | None = None  # to partial_fit

    _trained = with_callbacks(LLSVMEstimator._trained)
    _frames = FRAMES

    def _tasks(self, settings: Settings, X: Any, y: Any, sample_weight: Any) -> Tasks | None:
        if "_skl_callbacks" not in vars(self):
            return None
        metadata: dict[str, Any] = {} if names_files(X) else {"X": X, "y": y}
        if sample_weight is not None:
            metadata["metadata"] = {"sample_weight": sample_weight}
        return Tasks(self, metadata, settings.max_passes, self._attributes_of)

    def _attributes_of(self, model: Model) -> Mapping[str, Any]:
        """Return the attributes of this estimator, if it were fitted with that model."""
        by_name = names_columns(self.text, self.cross) or model.named_columns
        return vars(copy(self)._keep(model, by_name))

    def _last_run(self) -> AbstractContextManager[Checkpoints | None]:
        self._given = None
        if not self.warm_start:
            self._runs = None
            return super()._last_run()
        self._runs = self._runs or KeptRuns(self.spill_dir)
        return self._runs.last()

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Self:
        self._refuse_what_follows_from_all_rows(X)
        given = self._given
        fitted = "model_" in vars(self)
        if given is None and fitted:
            warnings.warn(
                "partial_fit trains on the rows that it was given itself: those of fit are not kept, nor does a "
                "copy of an estimator have any",
                LLSVMWarning,
                stacklevel=3,
            )
        refuse_masked(X=X, y=y, sample_weight=sample_weight)
        names = column_names(X)
        X, y = self._checked(X, self._taken(y), reset=not fitted)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        if self._label_kind == CLASSIFICATION:
            known = vars(self).get("classes_") if given is None else given.classes
            classes = _classes(known, classes)
        given = given or GivenRows(KeptRuns(self.spill_dir), classes)
        before = len(given.files)
        with own_names(self._names):
            settings = self._settings(weight=WEIGHT)
            more: dict[str, Any] = {
                "names": self._names,
                "warn_at": 4,
                "remedies": REMEDIES,
                "verbose": self.verbose,
            }
            try:
                given.add(X, y, sample_weight, settings)
                with given.runs.last(classes_known=True) as checkpoints:
                    more |= {"checkpoints": checkpoints, "verbose": self.verbose}
                    model = train_with(given.left(settings), given.files, **more)
            except BaseException:  # an interrupt too: the same call can be made again
                given.forget(before)
                raise
        self._given, self._runs = given, None
        return self._keep(_as_of_arrays(replace(model, feature_names=names), given))

    def _refuse_what_follows_from_all_rows(self, X: Any) -> None:
        parameters = self.get_params(deep=False)
        require_rows(X)
        refuse_objects(X, column_names(X))
        others = columns_of_no_numbers(X)
        if names_columns(self.text, self.cross) or plain(self.categorical) or others or is_documents(X):
            which = f" (column {others[0]}, say)" if others else ""
            raise UsageError(
                "partial_fit is for numbers: what features text, categories, dates and crosses have follows "
                f"from all rows{which}; make numbers of them first, with a HashingVectorizer or a "
                "ColumnTransformer, say"
            )
        for name, free in (("scale", ("auto", "none", "unit-row")), ("target_scale", ("auto", "none"))):
            if parameters.get(name, "none") not in free:
                raise UsageError(
                    f"partial_fit cannot learn --{name.replace('_', '-')} {parameters[name]} from rows that are "
                    "still to come: scale them first, with a StandardScaler, say"
                )
        if parameters.get("class_weight") == "balanced":
            raise UsageError(
                "partial_fit cannot balance classes, of which later calls may have more: give class_weight as "
                "label -> factor"
            )
        if any(parameters.get(name) is not None for name in ("lambda1", "lambda2")):
            raise UsageError("lambda1 and lambda2 are for a mean over rows, whose number grows here: give C")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name not in _OWN}


def _classes(known: NDArray[Any] | None, classes: Any) -> NDArray[Any]:
    """Return (k,) classes: those that are ``known``, else those that are given. Raises UsageError."""
    if known is None and classes is None:
        raise UsageError("classes must be passed on the first call to partial_fit: all that y may ever hold")
    known = spans_as_numbers(known)
    labels = known if classes is None else spans_as_numbers(np.unique(class_labels(classes)))
    assert labels is not None
    if known is not None and not np.array_equal(known, labels):
        raise UsageError(f"classes are {labels.tolist()}, but so far they were {known.tolist()}")
    return labels


def _as_of_arrays(model: Model, given: GivenRows) -> Model:
    """Return the model without the files that the rows have been in for a while."""
    classes = model.classes_ if given.classes is None else given.classes
    return replace(
        model,
        classes_=labels_of(classes, len(classes)) if classes.dtype.kind == "M" else classes,
        n_rows=model.n_rows - given.unseen,
        settings=model.settings | {"weight": None},
        extra={name: value for name, value in model.extra.items() if name != TRAINED_ON},
    )
