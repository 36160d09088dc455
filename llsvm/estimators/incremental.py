"""Base of estimators that train one model: fits that begin where the last one has come to (``warm_start``), rows
that come call by call (``partial_fit``), and scikit-learn's callbacks.

Of a fit with callbacks each full pass is a subtask. scikit-learn has them from version 1.9 on: with an older one an
estimator has no ``set_callbacks``, and nothing is called.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import _check_sample_weight

from llsvm.data import names_files
from llsvm.data.frame_tables import columns_of_no_numbers
from llsvm.errors import DataError, DiskError, LLSVMWarning, UsageError
from llsvm.estimators.base import REMEDIES, LLSVMEstimator, own_names
from llsvm.estimators.inputs import class_labels, is_documents, names_columns, require_rows, spans_as_numbers
from llsvm.features.array_labels import labels_of, refuse_masked
from llsvm.features.frames import column_names, refuse_objects
from llsvm.files.fingerprint import TRAINED_ON
from llsvm.files.writing import naming
from llsvm.memory.sizes import format_size, parse_size
from llsvm.models.model import Model
from llsvm.settings.objective import CLASSIFICATION
from llsvm.settings.option import plain
from llsvm.settings.settings import Settings
from llsvm.solvers.base import Report
from llsvm.spill.workspace import Workspace, choose_parent
from llsvm.state.checkpoints import Checkpoints, WarmStartCheckpoints
from llsvm.state.folder import StateFolder
from llsvm.train import train_with
from llsvm.training.training import Training

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    FRAMES = 1  # that ``with_callbacks`` adds to a call
except ImportError:
    FRAMES = 0

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Mixin without callbacks."""

    def with_callbacks(method: Any) -> Any:
        return method


class Tasks:
    """Tasks of one fit, which an estimator's callbacks are told of."""

    def __init__(
        self,
        estimator: Any,
        data: Mapping[str, Any],
        max_passes: int | None,
        attributes: Callable[[Model], Mapping[str, Any]],
    ) -> None:
        """Begin the fit. data: X, y and metadata, as far as there are any. attributes: of the estimator, if it were
        fitted with a model."""
        self._reported = {"estimator": estimator, **data}
        self._attributes = attributes
        # the last one is begun, and ends as nothing
        max_subtasks = None if max_passes is None else max_passes + 1
        self._whole = estimator._init_callback_context(max_subtasks=max_subtasks)
        self._whole.call_on_fit_task_begin(**self._reported)
        self._pass: Any = None  # that is under way

    def follow(self, report: Report, training: Training) -> None:
        """Call the callbacks after each report. Raises KeyboardInterrupt where a callback has had enough."""
        stop = False
        if report.kind == "pass" and self._pass is not None:

            def reached() -> Mapping[str, Any] | None:
                model = training.model_so_far()
                return None if model is None else self._attributes(model)

            stop = self._pass.call_on_fit_task_end(reconstruction_attributes=reached, **self._reported)
            self._pass = None
        if stop:
            raise KeyboardInterrupt
        if self._pass is None:
            self._pass = self._whole.subcontext(task_name="pass")
            self._pass.call_on_fit_task_begin(**self._reported)

    def end(self, model: Model) -> None:
        """End the fit."""
        if self._pass is not None:
            self._pass.call_on_fit_task_end(estimator=self._reported["estimator"])
        self._whole.call_on_fit_task_end(
            reconstruction_attributes=lambda: self._attributes(model), **self._reported
        )


_OWN = ("_workspace", "_given")  # what a copy of the estimator does not have
WEIGHT = "weight"  # the array of a file that has the sample weights


@contextmanager
def last_run(workspace: Workspace, classes_known: bool = False) -> Iterator[Checkpoints]:
    """Open the last run of an estimator in its folder, for one that begins where it has come to. classes_known: see
    Checkpoints. Raises UsageError, DataError."""
    with StateFolder(workspace.path("state")) as folder:
        checkpoints = WarmStartCheckpoints(folder, classes_known)
        try:
            yield checkpoints
        finally:
            checkpoints.close()


class GivenRows:
    """The rows that ``partial_fit`` was given so far: of each call a file.

    classes: (k,) all that labels may be, None where they are no classes. files: their paths, in ``workspace``,
    which has the last run too. unseen: so many rows of no weight are among them, one of each class that the first
    call had none of, so that there is a problem for it.
    """

    def __init__(self, workspace: Workspace, classes: NDArray[Any] | None) -> None:
        self.workspace, self.classes = workspace, classes
        self.files: list[str] = []
        self.unseen = 0

    def add(self, X: Any, y: Any, sample_weight: Any, settings: Settings) -> None:
        """Write the rows of a call to a file. X: (n, d) array or CSR. y: (n,) labels; None: there are none.
        sample_weight: (n,), or None. settings: whose limits hold. Raises DataError, DiskError."""
        if self.classes is not None:
            strange = np.setdiff1d(y, self.classes).tolist()
            if strange:
                raise DataError(
                    f"y has the label {strange[0]!r}, which is not among the classes of the first call: "
                    f"{', '.join(map(repr, self.classes.tolist()))}"
                )
            unseen = np.setdiff1d(self.classes, y) if not self.files else ()
            if len(unseen):
                self.unseen = len(unseen)
                nothing = X[np.zeros(len(unseen), np.int64)] * 0
                self._write(nothing, unseen, np.zeros(len(unseen)), settings)
        self._write(X, y, np.ones(X.shape[0]) if sample_weight is None else sample_weight, settings)

    def _write(self, X: Any, y: Any, weight: Any, settings: Settings) -> None:
        path = self.workspace.path(f"rows-{len(self.files)}.npz")
        y = labels_of(np.zeros(X.shape[0]) if y is None else y, X.shape[0])
        arrays = {"y": y, WEIGHT: weight}
        if issparse(X):  # as SciPy writes it
            arrays |= {name: getattr(X, name) for name in ("data", "indices", "indptr", "shape")}
            arrays["format"] = np.array(b"csr")
        else:
            arrays["X"] = X
        self._require_disk(sum(np.asarray(each).nbytes for each in arrays.values()), settings)
        with naming(path):
            np.savez(path, **arrays)
        self.files.append(os.fspath(path))

    def forget(self, number: int) -> None:
        """Remove all files from that number on."""
        for path in self.files[number:]:
            os.unlink(path)
        del self.files[number:]

    @property
    def nbytes(self) -> int:
        """Return the bytes of the files."""
        return sum(os.stat(path).st_size for path in self.files)

    def left(self, settings: Settings) -> Settings:
        """Return the settings, with what the files leave of the disk."""
        if settings.disk_limit is None:
            return settings
        return replace(settings, disk_limit=max(1, parse_size(settings.disk_limit) - self.nbytes))

    def _require_disk(self, nbytes: int, settings: Settings) -> None:
        limit, held = settings.disk_limit, self.nbytes
        if limit is not None and held + nbytes > parse_size(limit):
            raise DiskError(
                f"partial_fit keeps the rows that it is given: those so far take {format_size(held)}, these "
                f"{format_size(nbytes)}, and disk_limit is {limit}; allow more, or begin anew"
            )


class Incremental(CallbackSupportMixin, LLSVMEstimator):
    """An estimator that can go on from what it has come to."""

    _not_options: ClassVar[tuple[str, ...]] = ("warm_start", "verbose")

    warm_start: bool
    spill_dir: str | os.PathLike[str] | None
    _workspace: Workspace | None = None  # of fits with warm_start
    _given: GivenRows | None = None  # to partial_fit

    @with_callbacks
    def _trained(
        self, settings: Settings, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> Model:
        tasks = self._tasks(settings, X, y, sample_weight)
        with self._last_run() as checkpoints:
            model = train_with(
                settings,
                X,
                y,
                sample_weight,
                names=self._names,
                warn_at=5 + FRAMES,
                remedies=None if y is None and names_files(X) else REMEDIES,
                checkpoints=checkpoints,
                follow=None if tasks is None else tasks.follow,
                verbose=self.verbose,
            )
        if tasks is not None:
            tasks.end(model)
        return model

    def _tasks(self, settings: Settings, X: Any, y: Any, sample_weight: Any) -> Tasks | None:
        """Return the tasks that callbacks are told of."""
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
        """Return the run that a fit begins at."""
        self._given = None
        if not self.warm_start:
            self._workspace = None
            return nullcontext()
        self._workspace = self._workspace or self._new_workspace()
        return last_run(self._workspace)

    def _new_workspace(self) -> Workspace:
        """Return a folder of the estimator, which is removed with it. Raises DiskError."""
        parent = None if self.spill_dir is None else os.fspath(self.spill_dir)
        return Workspace(choose_parent(parent, None))

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
        given = given or GivenRows(self._new_workspace(), classes)
        before = len(given.files)
        with own_names(self._names):
            settings = self._settings(weight=WEIGHT)
            try:
                given.add(X, y, sample_weight, settings)
                with last_run(given.workspace, classes_known=True) as checkpoints:
                    model = train_with(
                        given.left(settings),
                        given.files,
                        names=self._names,
                        warn_at=4,
                        remedies=REMEDIES,
                        checkpoints=checkpoints,
                        verbose=self.verbose,
                    )
            except BaseException:  # an interrupt too: the same call can be made again
                given.forget(before)
                raise
        self._given, self._workspace = given, None
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
