"""Base of the estimators: parameters as options, arrays and files to train on, rows to predict."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_sample_weight,
    check_array,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from llsvm.data.frame_tables import holds_more_than_numbers
from llsvm.errors import DataError, LLSVMError, UsageError
from llsvm.estimators.inputs import (
    OPTION_NAMES,
    TEXT_OPTIONS,
    is_documents,
    names_columns,
    require_rows,
    text_of,
    with_columns,
)
from llsvm.features.array_labels import refuse_masked, refuse_times
from llsvm.features.frames import (
    column_names,
    is_frame,
    naming_no_number,
    refuse_objects,
    require_order,
    without_fills,
)
from llsvm.features.table_options import listed
from llsvm.memory.process import default_threads
from llsvm.models.model import Model
from llsvm.models.tables import column_names_of, given_names, has_names, names_of, only_text, table_columns
from llsvm.objective.certificate import Certificate
from llsvm.settings.objective import CLASSIFICATION, KINDS, REGRESSION, UNLABELLED
from llsvm.settings.option import ESTIMATOR_NAMES, plain, plain_options, require_kind
from llsvm.settings.python import options_in, takes_options
from llsvm.settings.settings import OPTIONS, Settings

_JOINT = {"crammer_singer": "crammer-singer", "weston_watkins": "weston-watkins"}  # as scikit-learn writes it
REMEDIES = {  # fit scales nothing
    "scale": "the columns are not scaled, and then few methods get on: put a StandardScaler, or a MaxAbsScaler for "
    "sparse rows, before the estimator (or pass scale='standard', or 'maxabs')"
}
_KINDS: dict[str, tuple[type, ...]] = {  # of what Settings knows by another name, or not at all
    "max_iter": (int, type(None)),
    "fit_intercept": (bool,),
    "intercept_scaling": (float,),
    "penalize_intercept": (bool,),
    "n_jobs": (int, type(None)),
}
_IN_MEMORY = {"exclude": "drop"}  # no parameter, but what pandas and Polars call it
_NO_INTERCEPT = {"fit_intercept": False, "intercept_scaling": 0.0, "penalize_intercept": True}
# of an estimator that has no such parameters
_ESTIMATORS = {
    CLASSIFICATION: "LLSVMClassifier",
    REGRESSION: "LLSVMRegressor",
    UNLABELLED: "LLSVMOutlierDetector",
}


class LLSVMEstimator(BaseEstimator):
    """An estimator whose parameters are options of Settings, some by scikit-learn's names (ESTIMATOR_NAMES)."""

    _label_kind: ClassVar[str]
    """What labels are, a name of llsvm.settings.objective."""
    _not_options: ClassVar[tuple[str, ...]] = ()
    """Parameters that say how an option is chosen."""
    _names: ClassVar[Mapping[str, str]] = ESTIMATOR_NAMES
    """What options are called here, where it is otherwise."""

    verbose: int = 0
    feature_names_in_: NDArray[Any]
    kernel: str | None
    text: bool | str | Sequence[str]
    cross: Sequence[str]
    categorical: Sequence[str] = ()
    missing: str = "refuse"
    random_state: int | np.random.RandomState | None
    n_jobs: int | None

    @takes_options
    def fit_file(
        self,
        path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        format: str | None = None,
        label: str | int | None = None,
        positive: str | float | None = None,
        features: Sequence[str] = (),
        exclude: Sequence[str] = (),
        weight: str | int | None = None,
        where: str | None = None,
        missing_label: str = "refuse",
        categorical: Sequence[str] = (),
        header: str = "auto",
        delimiter: str | None = None,
        missing: str = "refuse",
        hash_bits: int | None = None,
        cross: Sequence[str] = (),
        zero_based: str = "auto",
        text: Sequence[str] = (),
        analyzer: str = "word",
        ngrams: str | int | tuple[int, int] = "1",
        strip_accents: str | None = None,
        stop_words: str | os.PathLike[str] | Collection[str] | None = None,
        min_df: float | None = None,
        max_df: float | None = None,
        max_features: int | None = None,
        term_weight: str = "auto",
        vocabulary: str = "auto",
        encoding: str = "utf-8",
        scale: str = "auto",
        target_scale: str = "auto",
    ) -> Self:
        """Train on a file, or several, which may be larger than memory. Warns and raises as ``fit`` does.

        How the file is read is said by the options of ``llsvm.train`` that are parameters here: columns of tables
        are scaled to mean 0 and variance 1 unless ``scale`` is "none", and so is the target of a regression
        (``target_scale``); svmlight, and arrays in ``fit``, stay as they are. Afterwards ``predict`` takes rows of
        numbers, or data frames whose columns have the names that the file's have, in any order, those of text too.
        """
        reading = self._reading(options_in(locals()))
        self._taken(None)  # labels of files are never datetime64
        with own_names(self._names):
            model = self._trained(self._settings(**reading), path)
        self._keep_columns(model, in_file=True)
        return self._keep(model, by_name=True)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return (n_features,) the names of the features that weights are for: n-grams (``review:good movie``),
        categories (``country=FR``) and columns; hashed categories have numbers. input_features: of arrays
        without names; else x0, x1, ..."""
        check_is_fitted(self)
        if not has_names(self.model_) and not table_columns(self.model_.extra):
            return np.asarray(_check_feature_names_in(self, input_features))
        return np.array(names_of(self.model_, range(self.model_.n_features_in_)), object)

    def _reading(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the options of reading files, as they are ``given``, else as the estimator has them. Raises
        UsageError."""
        text = text_of(self.text)
        parameters = self.get_params(deep=False) | {"text": text}
        if text is True and not given["text"]:
            raise UsageError(
                "text=True is for documents in memory: of a file name the columns, text=['review']"
            )
        options = {
            name: parameters[name]
            for name in TEXT_OPTIONS
            if name in parameters and given[name] == OPTIONS[name].default
        }
        return given | options

    def _keep_columns(self, model: Model, in_file: bool) -> None:
        """Set what scikit-learn knows of the columns of a table in a file, and of documents, which have none."""
        self.n_features_in_ = model.n_features_in_
        if "feature_names_in_" in vars(self):
            del self.feature_names_in_  # of an earlier fit
        if in_file and model.named_columns and (names := column_names_of(model)) is not None:
            self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, object)

    def _fit_table(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        """Train on documents, or on a data frame with columns of them, or of categories. y: as in ``_fit``."""
        given = X
        X, columns = with_columns(self.text, X)
        y = None if self._label_kind == UNLABELLED else column_or_1d(y, warn=True)
        if self._label_kind == CLASSIFICATION:
            check_classification_targets(y)
        if sample_weight is not None:
            rows = X if y is None else y
            sample_weight = _check_sample_weight(sample_weight, rows, ensure_non_negative=True)
        with own_names({**self._names, **_IN_MEMORY}):
            model = self._trained(self._settings(text=columns), X, y, sample_weight, groups)
        if is_frame(given):
            validate_data(self, given, skip_check_array=True)  # which notes its columns
        else:
            self._keep_columns(model, in_file=False)
        return self._keep(model, by_name=True)

    def _fit(self, X: Any, y: Any, sample_weight: Any, groups: Any = None) -> Self:
        """Train on arrays, on text, or on a data frame with crosses, or with columns that are no numbers. groups:
        (n,) of rows that stay in one fold, where there are folds."""
        require_rows(X)
        refuse_objects(X, column_names(X))
        y = self._taken(y)
        categorical = bool(plain(self.categorical))
        of_tables = categorical or self._takes_gaps()
        if names_columns(self.text, self.cross) or (
            is_frame(X) and (of_tables or holds_more_than_numbers(X))
        ):
            return self._fit_table(X, y, sample_weight, groups)
        if is_documents(X):
            raise UsageError(
                "X is text, a document for each row: pass text=True, which makes n-grams of its words"
            )
        if categorical:
            raise UsageError(
                "categorical has no meaning here: it is for data frames, and for files (fit_file)"
            )
        refuse_masked(X=X, y=y, sample_weight=sample_weight)
        names = column_names(X)
        X, y = self._checked(X, y)
        if self._label_kind == CLASSIFICATION:
            check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        with own_names({**self._names, **_IN_MEMORY}):
            model = self._trained(self._settings(), X, y, sample_weight, groups)
        return self._keep(replace(model, feature_names=names))

    def _takes_gaps(self) -> bool:
        """Return whether missing values (NaN) are no error."""
        return bool(self.missing != OPTIONS["missing"].default)

    def _taken(self, y: Any) -> Any:
        """Return the labels as scikit-learn can take them. Raises DataError."""
        if self._label_kind == REGRESSION:
            refuse_times(y)
        return y

    def _checked(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, Any]:
        """Return arrays of numbers and labels, None where there are none. Raises what is wrong with them."""
        rows = self._row_checks() | {"reset": reset}
        X = without_fills(X)
        with naming_no_number(X):
            if self._label_kind == UNLABELLED:
                return validate_data(self, X, **rows), None
            X, y = validate_data(self, X, y, y_numeric=self._label_kind == REGRESSION, **rows)
            return X, y

    def _row_checks(self) -> dict[str, Any]:
        """Return what scikit-learn is to make of rows, and not to refuse."""
        gaps = "allow-nan" if self._takes_gaps() else True
        return {"accept_sparse": "csr", "dtype": "numeric", "ensure_all_finite": gaps}

    def _trained(
        self, settings: Settings, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> Model:
        """Return the model of arrays, or of files, whose labels are theirs. groups: see ``_fit``. Warnings are
        about what called the caller."""
        raise NotImplementedError

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        require_rows(X)
        refuse_masked(X=X)
        if not self._by_name:
            refuse_objects(X, column_names(X))
        if only_text(self.model_.extra) is not None:
            return X  # documents, a frame of them, or what the model makes of these
        names = None
        if self.model_.named_columns:
            names = column_names(X, table_columns(self.model_.extra))
        else:
            require_order(X)
        if self._by_name and names is not None:
            return X  # the model finds them by name, and refuses what it lacks
        if "feature_names_in_" not in vars(self) and names not in (None, given_names(self.model_)):
            raise DataError(  # of frames that scikit-learn does not know; it refuses those that it does
                f"X has the columns {listed(names or ())}, but was fitted on "
                f"{listed(given_names(self.model_) or ())}; give it these, in this order"
            )
        with naming_no_number(X):
            if self._by_name:
                return self._encoded_rows(without_fills(X))
            return validate_data(self, without_fills(X), reset=False, **self._row_checks())

    def _encoded_rows(self, X: Any) -> Any:
        """Return the rows without names, as they are after columns have become features; see ``n_features_in_``."""
        rows, width = check_array(X, estimator=self, **self._row_checks()), self.model_.n_features_in_
        if rows.shape[1] != width:
            raise ValueError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting {width} features as input"
                ": those of get_feature_names_out(), or a data frame with the columns by name"
            )
        return rows

    def _settings(self, **reading: Any) -> Settings:
        given: dict[str, Any] = _NO_INTERCEPT | plain_options(self.get_params(deep=False))
        for name in self._not_options:
            del given[name]
        for name, kinds in _KINDS.items():
            require_kind(name, given[name], kinds)
        fits, scaling, penalised = (given.pop(name) for name in _NO_INTERCEPT)
        seed, n_jobs, form = given.pop("random_state"), given.pop("n_jobs"), given.pop("multi_class", "ovr")
        loss = given.get("loss")
        if isinstance(loss, str) and loss in KINDS and (kind := KINDS[loss]) != self._label_kind:
            raise UsageError(f"loss {loss} is for {_ESTIMATORS[kind]}, not for {type(self).__name__}")
        return Settings(
            bias=scaling if fits and penalised else 0.0,
            intercept=fits and not penalised,
            seed=int(check_random_state(seed).randint(2**31 - 1)),
            threads=_threads(n_jobs),
            multiclass=_JOINT.get(form, form),
            **{OPTION_NAMES.get(name, name): value for name, value in given.items()} | reading,
        )

    def _keep(self, model: Model, by_name: bool = False) -> Self:
        self.model_, self._by_name = model, by_name
        of_kernel = model.feature_map is not None and model.feature_map.kind == "kernel"
        for name in ("coef_", "dual_coef_"):
            if name in vars(self):
                delattr(self, name)  # of an earlier fit
        if of_kernel:
            self.dual_coef_ = model.coef_
        else:
            self.coef_ = model.coef_
        self.intercept_: NDArray[np.float64] = model.intercept_
        self.certificate_: Certificate | None = model.certificate
        self.n_iter_ = 0 if model.certificate is None else model.certificate.passes
        return self

    def __getattr__(self, name: str) -> Any:
        if name == "coef_" and "dual_coef_" in vars(self):
            raise AttributeError("coef_ is of linear models, and this one has a kernel: see dual_coef_")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's HTML, and that of the model once there is one."""
        return super()._repr_html_inner() + self._html_of_model()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in shown:
            shown["text/html"] += self._html_of_model()
        return shown

    def _html_of_model(self) -> str:
        return self.model_._repr_html_() if "model_" in vars(self) else ""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        text = text_of(self.text)
        taken = replace(
            tags.input_tags,
            sparse=not text,
            string=bool(text),
            one_d_array=text is True,
            allow_nan=self._takes_gaps(),
            pairwise=self.kernel == "precomputed",
        )
        return replace(tags, input_tags=taken)


@contextmanager
def own_names(names: Mapping[str, str]) -> Iterator[None]:
    """Let errors name options as the estimator does."""
    try:
        yield
    except LLSVMError as error:
        error.names = names
        raise


def _threads(n_jobs: int | None) -> int | None:
    """Return the threads that scikit-learn's ``n_jobs`` means; negative numbers count down from all + 1."""
    if n_jobs == 0:
        raise UsageError("n_jobs must not be 0: pass 1 or more, or -1 or None for all processors")
    return n_jobs if n_jobs is None or n_jobs > 0 else max(1, default_threads() + 1 + n_jobs)
