"""Model: what training hands back, what predictions need, and the fields of its file.

The file (``llsvm.models.model_file`` says how it is packed; version 1) holds

    header.json     every plain value: settings, certificate, history, index_base, converged, n_rows,
                    feature_names, package version, extra, requires; and the shape, dtype and CRC-32 of every array
    coef.npy        (d, k) float64: ``coef_`` transposed, so that a feature's weights lie together; or, of few
                    weights that are not zero, coef_*.npy, see ``llsvm.models.sparse``
    intercept.npy   (k,) float64
    classes.npy     (n_classes,) numbers or text, ascending; none of a regression
    extra/NAME.npy  the arrays of ``extra``

A later feature adds a field to ``extra``. If predictions would be wrong without it, it also puts the field's
name into ``requires``, and a package too old to know that name refuses the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NoReturn, Self, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block, Matrix
from llsvm.errors import BudgetError, DataError, LLSVMError, ModelError
from llsvm.features.feature_map import FeatureMap
from llsvm.features.frames import (
    as_matrices,
    column_names,
    columns,
    encoded,
    naming_no_number,
    no_score,
    require_order,
)
from llsvm.features.scaling import filled, unit_rows
from llsvm.features.table_options import listed
from llsvm.models import decisions, model_file, sparse
from llsvm.models.decisions import Calibration, threshold_of
from llsvm.models.header import CLASS_NAMES, CLOCK, PLACE_SETTINGS, certificate_of, certificate_values
from llsvm.models.model_file import HEADER, open_member, opened
from llsvm.models.record import ModelRecord
from llsvm.models.sparse import COUNTS, PARTS, SparseWeights, Weights, from_arrays
from llsvm.models.tables import (
    FeatureNames,
    centered,
    check_center,
    given_names,
    intercept_of,
    means_of,
    rows_for,
    table_columns,
    table_of,
    trained_classes,
)
from llsvm.settings.objective import CLASSIFICATION
from llsvm.settings.option import with_new_names

_PLAIN_FIELDS = ("index_base", "converged", "version", "n_rows")
_CLOCK_COLUMNS = tuple(CLOCK)  # of the history
_PLACE_SETTINGS = tuple(PLACE_SETTINGS)


@dataclass
class Model(ModelRecord):
    """A trained linear model: a classifier, a regression, or one that tells outliers.

    coef_: (k, d) float64; k = 1 for two classes (positive scores mean ``classes_[1]``), else a row per class. Of a
        regression k = 1, and scores are what it predicts.
    intercept_: (k,) float64.
    classes_: (n_classes,) numbers or text, ascending, but what one label was trained against comes before it;
        none of a regression; -1 (outliers) and 1 where it was trained without labels.
    certificate: how far from the optimum the weights are at most; None for an imported model.
    settings: the training options, plain values.
    history: a dict per pass: passes, seconds, bytes_read, primal, dual, relative_gap, survivors, used_bytes and
        peak_rss_bytes (None where not known).
    index_base: first column index, 0 or 1, of the svmlight file it was trained on, hence of those it scores.
    converged: to the tolerance asked for.
    version: of the package that made it.
    n_rows: rows it was trained on.
    feature_names: (d,) text; those of n-grams are made when they are asked for. None: columns have no names.
    extra: more fields, JSON values or arrays; "trained_on" is of the files, see ``files_summary`` in
        llsvm.files.fingerprint.
    requires: names in ``extra`` that predictions depend on.
    log: what differs between equal runs (seconds, ...), and "test" of ``llsvm.train``; not in the model file.
    weights: ``coef_`` as it is held, which may be without zeros (``llsvm.models.sparse``).
    calibration, threshold: as ``extra`` has them: how scores become probabilities, None where nothing was learned
        for that; and the score of two classes above which a row is of the second.
    Raises ModelError on construction where shapes and classes do not fit each other.
    """

    _unread: ClassVar[tuple[str, ...]] = ()  # arrays of the file that ``load`` leaves out
    _weights = staticmethod(sparse.from_arrays)

    def __post_init__(self) -> None:
        self.intercept_ = np.asarray(self.intercept_, np.float64)
        self.classes_ = np.asarray(self.extra.get(CLASS_NAMES, self.classes_))
        if self.classes_.dtype.kind in "OU":
            self.classes_ = np.array([str(label) for label in self.classes_])
        k = self.n_problems
        unfit = len(self.classes_) > 0 if self.is_regression else len(self.classes_) < 2
        if unfit or len(self.weights.shape) != 2 or self.weights.shape[0] != k:
            raise ModelError(f"weights of shape {self.weights.shape} do not fit {len(self.classes_)} classes")
        if self.intercept_.shape != (k,):
            raise ModelError(f"intercept of shape {self.intercept_.shape} does not fit {k} rows of weights")
        trained = trained_classes(self)
        if self.classes_.ndim != 1 or not np.all(trained[:-1] < trained[1:]):
            raise ModelError("classes must be distinct and ascending")
        self.calibration = Calibration.from_extra(self.extra, k)
        self.threshold = threshold_of(self.extra)
        check_center(self)
        if self.feature_map is not None and self.feature_map.width != self.weights.shape[1]:
            raise ModelError(f"{self.weights.shape[1]} weights for {self.feature_map.width} mapped features")
        if (names := given_names(self)) is not None and len(names) != self.n_features_in_:
            raise ModelError(f"{len(names)} feature names for {self.n_features_in_} features")

    @property
    def named_columns(self) -> bool:
        """Return whether it was trained on columns with names (those of a CSV file without a header have none)."""
        table = self.extra.get("table")
        return given_names(self) is not None if table is None else bool(table["header"])

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores of the rows of X, an (n, d) array or SciPy sparse matrix: (n,) for two classes, else
        (n, k).

        X may be a data frame (pandas, Polars, a table of pyarrow): where the model was trained on columns with
        names, they are found by name, those of text too, and others are left aside. Columns of arrays are found by
        position.

        Two classes: above ``threshold`` means ``classes_[1]``. More: the largest is the predicted class; one-vs-one
        models score a class by its votes plus less than ½ for the sum of its pairs' scores, which decides between
        equals.
        A regression: the numbers that it predicts.
        Raises ModelError where X has another width, DataError where a column is missing, cannot be what the model
        was trained on, or a score is not a finite number.
        """
        scores = self.class_scores(self._scores(X))
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row of X, as ``classes_`` has it, or of a regression its number: (n,). Dates
        and spans of time are in the type that an estimator was given. Errors as ``decision_function``."""
        return self.predictions(self._scores(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return (n, n_classes) the probability of each class for each row of X. Errors as
        ``decision_function``, and ModelError where the loss gives none."""
        self.require_probabilities()
        return self.probabilities(self._scores(X))

    def predictions(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        """Return what ``predict`` says where scores are (n, k)."""
        return scores[:, 0] if self.is_regression else self.as_given(self.classes_[self.class_ids(scores)])

    @property
    def has_probabilities(self) -> bool:
        """Return whether scores stand for probabilities: those of the logistic loss do, those of the others
        where they are calibrated."""
        return self.calibration is not None or self.settings.get("loss") == "logistic"

    def require_probabilities(self) -> None:
        """Raise ModelError where there are none."""
        if not self.has_probabilities:
            loss = self.settings.get("loss", "hinge")
            if self.label_kind != CLASSIFICATION:
                raise ModelError(f"the {loss} loss knows no classes, and so no probabilities of them")
            raise ModelError(
                f"the {loss} loss gives scores, but no probabilities: train with --loss logistic, or let "
                "`llsvm tune --probabilities platt` learn what scores stand for"
            )

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (n, n_classes) probabilities of classes for scores of problems (n, k), where there are such."""
        if self.calibration is not None:
            return self.calibration.probabilities(scores, len(self.classes_), self.one_vs_one)
        joint = self.settings.get("multiclass") == "softmax"
        return decisions.probabilities(scores, len(self.classes_), self.one_vs_one, joint)

    def class_ids(self, scores: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return positions in ``classes_``, (n,), that scores (n, k) stand for; a tie goes to the first class."""
        return decisions.class_ids(scores, len(self.classes_), self.one_vs_one, self.threshold)

    def class_scores(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores of classes, as ``decision_function`` has them, for those of problems (n, problems)."""
        return decisions.class_scores(scores, len(self.classes_), self.one_vs_one)

    def _scores(self, X: Any) -> NDArray[np.float64]:
        X = rows_for(self.extra, X)
        scores = np.empty((X.shape[0], self.n_problems))
        score = self.scorer()
        start = 0
        with naming_no_number(X):
            for matrix in self.matrices(X):
                part = score(matrix, 0)
                scores[start : start + len(part)] = part
                start += len(part)
        if not np.isfinite(scores).all():
            row = int(np.flatnonzero(~np.isfinite(scores).all(axis=1))[0])
            raise DataError(no_score(row))
        return scores

    def matrices(self, X: Any, first: int = 0, types: Mapping[str, Any] | None = None) -> Iterator[Matrix]:
        """Return the rows of X (``decision_function``), in pieces, as for ``scorer`` of base 0. See ``encoded``."""
        if (by_name := self._by_name(X, first, types)) is not None:
            return by_name
        X = X if hasattr(X, "tocsr") else np.asarray(X)
        if X.ndim != 2 or X.shape[1] != self.n_features_in_:
            raise ModelError(f"X has shape {X.shape}, {self._what_it_takes()}")
        return as_matrices(X, first)

    def _what_it_takes(self) -> str:
        table = self.extra.get("table", {})
        if not any(column["kind"] == "text" for column in table.get("columns", ())):
            return f"the model {self.n_features_in_} features"
        named = (
            "" if table.get("header") else ", named by their positions from 0 (X.columns = range(X.shape[1]))"
        )
        takes = listed(table_columns(self.extra))
        return f"and the model takes the columns {takes}, with categories: give a data frame that has them{named}"

    def _by_name(self, X: Any, first: int, types: Mapping[str, Any] | None) -> Iterator[Matrix] | None:
        """Return the rows of a data frame, its columns found by name; None where X or the model has no names."""
        if (names := column_names(X, known := table_columns(self.extra))) is None:
            return None
        if not self.named_columns:
            require_order(X)
            if not known or len(names) == len(known) == self.n_features_in_ or not {*known} <= {*names}:
                return None
        if (table := table_of(self.extra)) is not None:
            return encoded(X, table, bool(self.extra.get("double")), first, types)
        return as_matrices(np.asarray(columns(X, given_names(self) or ())))

    def scorer(self) -> Callable[[Matrix, int], NDArray[np.float64]]:
        """Return a function of rows (n) and their first column's number that gives their scores, (n, k) float64."""
        mapping, prepared = self.feature_map, self.preparer()
        if mapping is None:
            linear = sparse.linear_scorer(self.weights, intercept_of(self))
            return lambda X, base: linear(prepared(X, base), base)
        weights = np.ascontiguousarray(self.coef_.T)

        def mapped(X: Matrix, base: int) -> NDArray[np.float64]:
            X = prepared(X, base)
            rows = Block(X, np.empty(n_rows_of(X)), np.empty(0, np.int64))
            scores = np.empty((rows.n_rows, weights.shape[1]))
            step = mapping.rows_at_once()
            for start in range(0, rows.n_rows, step):
                part = rows.slice(start, min(start + step, rows.n_rows))
                scores[start : start + part.n_rows] = mapping(part.X, base) @ weights + self.intercept_
            return scores

        return mapped

    def preparer(self) -> Callable[[Matrix, int], Matrix]:
        """Return a function of rows and their first column's number that gives the rows as weights meet them."""
        unit, fill, off = bool(self.extra.get("unit_row")), means_of(self.extra), self.extra.get("center")
        fills = fill is not None or self.settings.get("missing") == "zero"

        def prepared(X: Matrix, base: int) -> Matrix:
            X = filled(X, fill, base) if fills else X
            X = unit_rows(X) if unit else X
            return X if off is None else centered(X, off, base)

        return prepared

    def strongest(self, top: int = 10) -> list[dict[str, Any]]:
        """Return the strongest features of each class: class, and features, ``top`` dicts: feature, weight and,
        where training learned it, spread (standard deviation) and contribution (their product), by which they
        are ranked. [] for a kernel or a feature map."""
        from llsvm.models.words import of_each_class

        return of_each_class(self, top)

    def _repr_html_(self) -> str:
        """Return the HTML that notebooks show."""
        from llsvm.models.words import html_of

        return html_of(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to ``path`` (atomically) and its clock readings to ``path.log.json``.

        Raises DiskError where the disk is full, UsageError where the path cannot be written.
        """
        more = {name: value for name, value in self.extra.items() if isinstance(value, np.ndarray)}
        weights = sparse.as_arrays(self.weights)
        without_zeros = {} if "coef" in weights else {sparse.NAME: True}
        header = {name: getattr(self, name) for name in _PLAIN_FIELDS} | {
            "n_features": self.n_features_in_,
            "n_weights": weights[sparse.PARTS[-1] if without_zeros else "coef"].size,
            "certificate": None if self.certificate is None else certificate_values(self.certificate),
            "settings": _without(self.settings, _PLACE_SETTINGS),
            "history": [_without(row, _CLOCK_COLUMNS) for row in self.history],
            "feature_names": given_names(self),
            "extra": _without(self.extra, tuple(more)) | without_zeros,
            "requires": (*self.requires, *without_zeros),
        }
        arrays = {**weights, "intercept": self.intercept_, "classes": trained_classes(self)}
        arrays |= {f"extra/{name}": more[name] for name in sorted(more)}
        log = {
            "log": self.log,
            "settings": _only(self.settings, _PLACE_SETTINGS),
            "history": [_only(row, _CLOCK_COLUMNS) for row in self.history],
        }
        model_file.write(path, header, arrays, log)

    @classmethod
    def load(cls, path: str | os.PathLike[str], with_log: bool = True) -> Model:
        """Return the model in the file ``path``, and ``path.log.json`` if with_log. Raises ModelError."""
        header, arrays, log = model_file.read(path, with_log, cls._unread)
        more = {n.removeprefix("extra/"): value for n, value in arrays.items() if n.startswith("extra/")}
        try:
            certificate, names = header["certificate"], header["feature_names"]
            model = cls(
                coef_=cast(Any, cls._weights(arrays, arrays["intercept"].size)),
                intercept_=arrays["intercept"],
                classes_=arrays["classes"],
                certificate=None if certificate is None else certificate_of(certificate),
                settings=with_new_names(header["settings"] | _only(log.get("settings", {}), _PLACE_SETTINGS)),
                history=[dict(row) for row in header["history"]],
                **{name: header[name] for name in _PLAIN_FIELDS},
                feature_names=None if names is None else tuple(names),
                extra=_without(header["extra"], (sparse.NAME,)) | more,
                requires=tuple(name for name in header["requires"] if name != sparse.NAME),
                log=log.get("log", {}),
            )
            if model.n_features_in_ != header["n_features"]:
                raise ModelError(
                    f"{model.n_features_in_} features, but the header says {header['n_features']}"
                )
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{path}: the model file is damaged ({error})") from error
        for row, clock in zip(model.history, log.get("history", []), strict=False):
            row.update(_only(clock, _CLOCK_COLUMNS))
        return model


Model.coef_, Model.feature_names = sparse.Coef(), FeatureNames()  # type: ignore[assignment]  # given, or made


def n_rows_of(X: Matrix) -> int:
    return len(X.indptr) - 1 if isinstance(X, CSR) else len(X)


def _without(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def _only(values: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in names}


_WEIGHTS = ("coef", *PARTS)
_OF_MAP = (*(f"landmarks{part}" for part in ("", "_indptr", "_indices", "_data")), "projection")
_PIECE_BYTES = 1 << 20
# A header as Python's objects: its text twice, and what each mark in it makes at most, a list or a mapping, a value
# in one, an entry of a mapping.
_TEXTS, _MARKS = 2, {b"{": 72, b"[": 72, b",": 64, b":": 100}
_LABELS = 8  # classes as Python's texts, over the intercept of each


@dataclass(frozen=True, slots=True)
class ModelBytes:
    """Bytes that a model takes once it is read. weights: these. support: of a kernel or a feature map. others:
    its other arrays, and its header as Python's objects."""

    weights: int = 0
    support: int = 0
    others: int = 0

    @property
    def total(self) -> int:
        return self.weights + self.support + self.others


def model_bytes(path: str | os.PathLike[str]) -> ModelBytes:
    """Return the bytes by what the file ``path`` declares, of which nothing is unpacked but its header, piece by
    piece. What is wrong with the file is left to whoever loads it: it is then 0."""
    try:
        with opened(path) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            header = 0
            if HEADER in sizes:
                with open_member(archive, archive.getinfo(HEADER)) as stream:
                    while piece := stream.read(_PIECE_BYTES):
                        header += _TEXTS * len(piece)
                        header += sum(cost * piece.count(mark) for mark, cost in _MARKS.items())
    except LLSVMError:
        return ModelBytes()
    weights = sum(sizes.get(f"{name}.npy", 0) for name in _WEIGHTS) + sizes.get(f"{COUNTS}.npy", 0)
    support = sum(sizes.get(f"extra/{name}.npy", 0) for name in _OF_MAP)
    arrays = sum(size for name, size in sizes.items() if name.endswith(".npy"))
    others = arrays + sizes.get(f"{COUNTS}.npy", 0) - weights - support
    labels = _LABELS * sizes.get("intercept.npy", 0) + sizes.get("classes.npy", 0)
    return ModelBytes(weights, support, others + header + labels)


@dataclass
class UnreadModel(Model):
    """A model that the memory limit has no room for: all of it but its weights, and what a kernel or a feature map
    is made of, which have their shapes alone. What it takes to score rows can be told, and they cannot be scored.

    refused: with what the model alone takes. held_bytes: of other models in memory."""

    _unread = (*_WEIGHTS, *(f"extra/{name}" for name in _OF_MAP))
    refused: BudgetError | None = None
    held_bytes: int = 0

    @staticmethod
    def _weights(arrays: Mapping[str, NDArray[Any]], k: int) -> Weights:
        if COUNTS not in arrays:
            return from_arrays(arrays, k)
        counts, problems, values = (arrays[name] for name in PARTS)
        return SparseWeights(np.broadcast_to(np.int32(0), (len(counts) + 1,)), problems, values, k)

    @classmethod
    def of_file(cls, path: str | os.PathLike[str], refused: BudgetError, held_bytes: int = 0) -> Self:
        """Raises ModelError."""
        model = cast(Self, cls.load(path, with_log=False))
        model.refused, model.held_bytes = refused, held_bytes
        return model

    @property
    def refusal(self) -> BudgetError:
        assert self.refused is not None
        return self.refused

    @cached_property
    def feature_map(self) -> FeatureMap | None:
        return FeatureMap.from_extra(self.extra, unread=True)

    def scorer(self) -> NoReturn:
        """Raises BudgetError."""
        raise self.refusal
