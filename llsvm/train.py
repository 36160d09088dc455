"""Training from end to end: read the source, run the solver's passes, hand back a model. The page to read first.

source ─ blocks ─▶ Stream ─ blocks ─▶ solver ─ reports ─▶ Training ─▶ Model
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import ModuleType, TracebackType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.data import DEFAULT_FORMAT, open_with_settings
from llsvm.data.source import BlockSource
from llsvm.errors import BudgetError, DataError, UsageError
from llsvm.features.feature_map import FeatureMap
from llsvm.features.labels import quoted
from llsvm.features.scaling import ROW_SCALE
from llsvm.files.remote import is_remote
from llsvm.memory.budget import COMPILING, MemoryBudget
from llsvm.memory.process import (
    MIN_WORK_BYTES,
    default_limit_bytes,
    default_threads,
    peak_resident_bytes,
    return_freed_memory,
)
from llsvm.memory.sizes import memory_limit_bytes, parse_size
from llsvm.models import model_file
from llsvm.models.model import Model
from llsvm.models.model_file import KNOWN_REQUIREMENTS
from llsvm.objective.penalty import Penalty
from llsvm.objective.rounding import SHARE, ValuesRounded, keep_double
from llsvm.settings.settings import AUTO, Settings
from llsvm.solvers import make_solver
from llsvm.solvers.advice import Ending, advise
from llsvm.solvers.auto import Auto
from llsvm.solvers.base import Solver
from llsvm.solvers.report import Report
from llsvm.spill.workspace import choose_parent
from llsvm.stream.first_reading import DatasetInfo
from llsvm.stream.progress import Progress
from llsvm.stream.stream import READING_BLOCKS, LimitFound, Stream

_LOOKS, _LOOK_SECONDS = 5, 0.02
_SHOWN = 20  # classes
_JOINT = ("crammer-singer", "weston-watkins")
# Their kernels take more to compile than the others: measured 308 MB under a limit of 300, 8 MB too many. It is
# asked for whether they are compiled or not, so that the same limit gives the same model.
_JOINT_COMPILE_BYTES = 20_000_000
_MEASURED_BYTES = 2_000_000_000  # a file up to this size is read to tell the smallest limit that works

MIN_TOL, MAX_C_PER_TOL = 1e-5, 1e6  # beyond, values that are no 32-bit floats are kept as 64-bit ones
_DOUBLE = "values are kept as 64-bit floats: rounding them to 32 bits could hide more than the gap asked for"


class Training:
    """One run. Iterate it for the reports; afterwards ``model`` and ``summary()`` have the result.

    A context manager: spill files vanish on every exit.
    """

    def __init__(
        self,
        source: BlockSource,
        settings: Settings | None = None,
        output: str | os.PathLike[str] | None = None,
        budget: MemoryBudget | None = None,
    ) -> None:
        """output: where the model will be written, beside which to spill by default (nothing is written here).
        budget: instead of the settings' memory limit. Raises UsageError, DataError, BudgetError, DiskError."""
        chosen, info = settings or Settings(), source.info()
        self.settings = chosen.resolved(info.is_table)
        self.defaults = said_of_defaults(chosen, info.is_table)
        self._auto: Auto | None = None
        self.history: list[dict[str, Any]] = []
        self._began = time.monotonic()
        return_freed_memory()
        self._refused: BudgetError | None = None
        if budget is None:
            limit = self.settings.memory_limit
            nbytes = default_limit_bytes() if limit is None else memory_limit_bytes(limit)
            more = {COMPILING: _JOINT_COMPILE_BYTES} if self.settings.multi_class in _JOINT else {}
            try:
                budget = MemoryBudget(nbytes, more=more)
            except BudgetError as error:
                if self.settings.feature_map is not None or (info.n_bytes or 0) > _MEASURED_BYTES:
                    raise error.as_least() from error
                self._refused = error  # the data may ask for more still
                budget = MemoryBudget(error.smallest_bytes, more=more)
        self._map: FeatureMap | None = None
        self._support: NDArray[np.bool_] | None = None
        if self.settings.feature_map is not None:
            source = self._mapped(source, budget)
        disk = self.settings.disk_limit
        local_output = None if output is None or is_remote(output) else os.fspath(output)
        self._new_stream = partial(
            Stream,
            source,
            budget,
            choose_parent(self.settings.spill_dir, local_output),
            disk_limit_bytes=None if disk is None else parse_size(disk),
            spill_format=self.settings.spill_format,
            cache=self.settings.cache,
            seed=self.settings.seed,
            survivors=self.settings.survivors,
            scale=self.settings.scale,
            has_bias=self.settings.constant != 0,
            fill_missing=self.settings.missing == "mean",
        )
        self._before = budget.mark()
        self._doubled = False  # values are not rounded to float32
        doubtful = settings_need_double(self.settings)
        if doubtful and (self.settings.kernel or not info.rereadable):
            self._double(source)
        self.stream = self._new_stream(refuse_rounding=doubtful and not self._doubled)
        if self.settings.max_seconds is not None:
            self.progress.stop_at = self._began + self.settings.max_seconds
        self._last: Report | None = None
        self._measured: tuple[Report, int] | None = None  # of the last pass, with the checksum of its weights

    def __enter__(self) -> Training:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stream.__exit__(kind, error, trace)

    @property
    def progress(self) -> Progress:
        """Counters that another thread may look at while the run goes on."""
        return self.stream.progress

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def __iter__(self) -> Iterator[Report]:
        """Run; a report after the first reading, after each full pass, after each run of epochs.

        Raises BudgetError with the smallest limit that works, LLSVMError's other subclasses."""
        try:
            if self._refused is not None:
                raise self._refused
            yield from self._reports()
        except BudgetError as error:
            if self._last is not None:
                raise
            raise self._with_smallest(error) from error

    def _with_smallest(self, error: BudgetError) -> BudgetError:
        """The error with the smallest limit that works, or that says that it cannot be told.

        The first need that did not fit may not be the last."""
        limit, smallest = error.limit_bytes, error
        try:
            self.stream.measure()
            while True:
                try:
                    self.stream.suppose(smallest.smallest_bytes)
                    next(iter(self._make_solver(self.stream.dataset).solve(self.stream)), None)
                except BudgetError as larger:
                    smallest = larger
        except LimitFound:
            return BudgetError(smallest.what, limit, smallest.smallest_bytes, smallest.lines)
        except (BudgetError, DataError, UsageError):  # what is known
            return error.as_least()

    def _reports(self) -> Iterator[Report]:
        while True:
            dataset = self.read()
            solver = self._make_solver(dataset)
            chosen = f"solver {self.solver}: {self.why}" if self.why else ""
            wide = _DOUBLE if self._doubled else ""
            yield Report("read", 0, note="; ".join(filter(None, (self.stream.note, wide, chosen))))
            reports, hidden = solver.solve(self.stream), False
            for report in reports:
                hidden = self._rounding_hides_the_optimum(report)
                if hidden and not self._doubled and self.stream.source.info().rereadable:
                    break
                self.note(report)
                yield report
                if self._out_of_time() or hidden:
                    hidden = False
                    break
            if not hidden:
                break
            cast(Generator[Report, None, None], reports).close()
            del solver, reports, report  # and all they hold
            self._keep_double()
        if self._last is not None and self._last.expand is not None:
            self._support, self._map = self._last.expand()

    def read(self) -> DatasetInfo:
        """The first reading. Where the settings leave no room for it, values are not rounded to 32-bit floats: the
        reading ends with the first that would be, and begins again."""
        try:
            return self.stream.read()
        except ValuesRounded:
            self._keep_double()
            return self.stream.read()

    def _rounding_hides_the_optimum(self, report: Report) -> bool:
        """May what rounding has hidden be so much of the gap asked for that this run cannot prove it?"""
        certificate, settings = report.certificate, self.settings
        if certificate is None or report.converged or settings.paper or settings.stop != "gap":
            return False
        part, tol = certificate.rounding_gap, settings.tol
        measured = certificate.relative_gap - part
        if self._doubled or not self.stream.source.info().rereadable:
            return part >= tol >= measured
        # far from the optimum little is known of the dual's move: only what stays there counts until it is near
        most = SHARE * tol
        return self.stream.rounded and (
            certificate.rounding_floor > most or (part > most and measured <= tol)
        )

    def _double(self, source: BlockSource) -> None:
        keep_double(source.info().rounding)
        self._doubled = True

    def _keep_double(self) -> None:
        """Begin again, with values as 64-bit floats."""
        stream, self._last, self._measured, self._auto = self.stream, None, None, None
        self.history.clear()
        stream.__exit__(None, None, None)
        budget, source, progress = stream.budget, stream.source, stream.progress
        budget.return_to(self._before)
        self._double(source)
        encoder = source.info().encoder
        if encoder is not None:
            encoder.begin_again()
        del stream
        self.stream = self._new_stream(progress=progress)

    def _mapped(self, source: BlockSource, budget: MemoryBudget) -> BlockSource:
        """The source through an approximate feature map, which becomes part of the model."""
        from llsvm.data.mapped import FIT_BYTES, MappedSource

        def sign(nbytes: int) -> None:
            more = max(0, nbytes - budget.lines.get("feature map", 0))
            budget.require({"feature map": more, "reading and working on rows": MIN_WORK_BYTES})
            budget.resize("feature map", nbytes)

        chosen = self.settings
        budget.reserve("reading", READING_BLOCKS * FIT_BYTES + source.info().reader_bytes)
        mapped = MappedSource(
            source,
            chosen.feature_map or "",
            chosen.kernel or "rbf",
            chosen.components,
            chosen.gamma,
            chosen.degree,
            chosen.coef0,
            chosen.seed,
            sign,
        )
        budget.release("reading")
        self._map = mapped.map
        return mapped

    def _make_solver(self, dataset: DatasetInfo) -> Solver:
        """The solver asked for, with C instead of λ₁ and λ₂."""
        settings, threads = self.settings, self.settings.threads or default_threads()
        weights = class_weights(settings.class_weight, dataset)
        penalty = Penalty.of(settings, dataset.n_rows)
        ratio = penalty.l1 if settings.penalty == "elasticnet" else settings.l1_ratio
        settings = replace(settings, C=penalty.C, l1_ratio=ratio, lambda1=None, lambda2=None)
        if settings.solver == "auto":
            self._auto = Auto(settings, weights, threads, self.stream)
            return self._auto
        return make_solver(settings, weights, threads)

    @property
    def solver(self) -> str:
        """Which solver is at work."""
        return self.settings.solver if self._auto is None else self._auto.choice.solver

    @property
    def why(self) -> str:
        """Why "auto" has chosen it, or ""."""
        return "" if self._auto is None else self._auto.choice.why

    def _out_of_time(self) -> bool:
        limit = self.settings.max_seconds
        has_result = self._last is not None and self._last.certificate is not None
        return limit is not None and has_result and self.seconds >= limit

    def note(self, report: Report) -> None:
        """Take in a solver's report: counters, history, and the result if it has one."""
        progress = self.progress
        progress.passes, progress.survivors = report.passes, report.survivors
        if report.certificate is not None:
            progress.relative_gap = report.certificate.relative_gap
            self._last = report
        if report.kind == "pass":
            if report.certificate is not None and report.coef is not None:
                self._measured = report, _checksum(report.coef)
            certificate = report.certificate
            self.history.append(
                {
                    "passes": report.passes,
                    "seconds": round(self.seconds, 3),
                    "bytes_read": self.stream.bytes_read,
                    "primal": None if certificate is None else certificate.total_primal,
                    "dual": report.dual,
                    "relative_gap": None if certificate is None else certificate.relative_gap,
                    "survivors": report.survivors,
                }
            )

    @property
    def model(self) -> Model:
        """The result: the best certified weights. Raises UsageError before there are any."""
        if self._last is None or self._last.coef is None:
            raise UsageError("no pass has been completed yet, so there is no model")
        return self._model_of(self._last, self._last.coef)

    def model_so_far(self) -> Model | None:
        """The model of the last certified pass while the run goes on, if need be in another thread; or None: there
        is none yet, the solver has changed its weights since they were measured, or it takes a pass to make it."""
        for _ in range(_LOOKS):  # the solver may just be between better weights and its report of them
            if self._measured is None:
                return None
            report, checksum = self._measured
            if report.coef is None or report.expand is not None:
                return None
            model = self._model_of(report, report.coef)
            if _checksum(report.coef) == checksum:
                return model
            time.sleep(_LOOK_SECONDS)
        return None

    def save_so_far(self, path: str | os.PathLike[str]) -> str:
        """Save ``model_so_far``; returns what became of it, to go on a sentence with."""
        model = self.model_so_far()
        if model is None or model.certificate is None:
            return ", no model is written: no pass has been certified, or its weights are gone"
        model.save(path)
        return (
            f", and the model so far is written to {path}: after {model.certificate.passes} passes within "
            f"{model.certificate.relative_gap:.3%} of the optimum"
        )

    def _model_of(self, report: Report, coef: NDArray[np.float64]) -> Model:
        dataset = self.stream.dataset
        if self._support is not None:
            coef, intercept = coef[:, :-1][:, self._support], coef[:, -1]
        else:
            coef, intercept = (
                coef[:, : dataset.n_columns],
                coef[:, dataset.n_columns] * self.settings.constant,
            )
            if self.stream.scaling is not None:
                coef, intercept = self.stream.scaling.raw_weights(coef, intercept)
            coef = coef[:, dataset.first_column :]
        extra = self._extra()
        names = self.stream.source.info().feature_names
        n_features = coef.shape[1] if self._map is None else self._map.n_features
        return Model(
            coef_=coef.copy(order="K"),  # transposing many classes' weights takes long
            intercept_=intercept,
            classes_=dataset.classes,
            certificate=report.certificate,
            settings=self.settings.as_dict(),
            history=self.history,
            index_base=self._index_base(),
            converged=report.converged,
            n_rows=dataset.n_rows,
            feature_names=names if names is not None and len(names) == n_features else None,
            extra=extra,
            requires=tuple(name for name in extra if name in KNOWN_REQUIREMENTS),
            log={"seconds": self.seconds, "peak_rss_bytes": peak_resident_bytes()},
        )

    def _extra(self) -> dict[str, Any]:
        """What predictions need beside weights: the table's columns, positive label, unit rows, exact values."""
        extra: dict[str, Any] = {"solver": self.solver, "why": self.why}
        if self.stream.dataset.dtype == np.float64 or self._map is not None:
            extra["double"] = True
        encoder, scaling = self.stream.source.info().encoder, self.stream.scaling
        fill = None
        if scaling is not None and self.settings.missing == "mean":
            fill = scaling.fill[self.stream.dataset.first_column :]
        if encoder is not None:
            if fill is not None:
                encoder.set_fill(fill)
            extra["table"] = encoder.as_dict()
        elif fill is not None:
            extra["fill"] = fill
        if self.settings.positive is not None:
            extra["positive"] = self.settings.positive
        if self.settings.scale == ROW_SCALE:
            extra["unit_row"] = True
        if self._map is not None:
            extra |= self._map.as_extra()
        if self.settings.multi_class == "ovo" and len(self.stream.dataset.classes) > 2:
            extra["multi_class"] = "ovo"
        return extra

    def _index_base(self) -> int:
        """Only columns of svmlight have numbers of their own; others score such files as LIBLINEAR would."""
        if self.stream.source.info().format != DEFAULT_FORMAT:
            return 1
        return self.stream.dataset.first_column if self._map is None else self._map.base

    def summary(self) -> dict[str, Any]:
        """The run in plain values, for people's scripts. Sizes in bytes, times in seconds."""
        dataset, report = self.stream.dataset, self._last
        certificate = None if report is None else report.certificate
        workspace = self.stream.workspace
        return {
            "converged": report is not None and report.converged,
            "primal": None if certificate is None else certificate.total_primal,
            "dual": None if certificate is None else certificate.total_dual,
            "relative_gap": None if certificate is None else certificate.relative_gap,
            "passes": 0 if report is None else report.passes,
            "values": str(dataset.dtype),
            "solver": self.solver,
            "why": self.why,
            "scale": self.settings.scale,
            "bias": self.settings.bias,
            "nonzero_weights": None
            if report is None or report.coef is None
            else int(np.count_nonzero(report.coef)),
            "rows": dataset.n_rows,
            "features": dataset.n_features,
            "classes": [label_key(label) for label in dataset.classes],
            "bytes_read": self.stream.bytes_read,
            "bytes_spilled": self.stream.bytes_spilled,
            "peak_rss_bytes": peak_resident_bytes(),
            "seconds": round(self.seconds, 3),
            "memory_limit_bytes": self.stream.budget.limit_bytes,
            "peak_disk_bytes": 0 if workspace is None else workspace.peak_bytes,
            "read_from": self.stream.place,
            "notes": list(self.stream.source.info().notes),
            "note": self.stream.note if report is None else report.note or self.stream.note,
            "cause": self.advice[0],
            "advice": self.advice[1],
        }

    @property
    def advice(self) -> tuple[str, str]:
        """Why the run has most likely not converged, in a word, and in a sentence with the remedy; "" if it has."""
        report = self._last
        if report is None or report.converged:
            return "", ""
        gaps = [each["relative_gap"] for each in self.history if each["relative_gap"] is not None]
        in_memory = self.stream.place == "memory"
        ending = Ending(
            gaps,
            report.cause,
            self.solver,
            self.stream.largest_value,
            not self.stream.dataset.is_dense,
            in_memory,
            self._out_of_time(),
            self.seconds,
        )
        return advise(self.settings, ending)


def said_of_defaults(chosen: Settings, is_table: bool) -> str:
    """What "auto" of scale and bias has made of a table, in a sentence; "" where they change nothing."""
    if not is_table:
        return ""
    settings, words, undo = chosen.resolved(is_table), [], []
    if chosen.scale == AUTO and settings.scale == "standard":
        words.append("columns scaled to mean 0 and variance 1")
        undo.append("--scale none")
    if chosen.bias == AUTO and settings.bias:
        words.append(f"bias {settings.bias:g}")
        undo.append("--bias 0")
    if not words:
        taken_raw = chosen.takes_rows_as_they_are and chosen.scale == AUTO
        if not taken_raw:
            return ""
        return (
            "table: columns as they are (a kernel or a feature map takes no --scale: bring columns of unlike "
            "ranges to like ones before)"
        )
    as_they_are = "none" if undo == ["--bias 0"] else "the columns as they are"
    return f"table: {', '.join(words)} ({' '.join(undo)} for {as_they_are})"


def settings_need_double(settings: Settings) -> bool:
    """Is the tolerance so small, C so large, that rounding a file's values to 32-bit floats, 2^-24 of them, can
    hardly be left out of the proof? Kernel machines take the rows as they are: what is large is their kernel."""
    exact = settings.kernel is not None and settings.feature_map is None
    return exact or settings.tol < MIN_TOL or MAX_C_PER_TOL * settings.tol * (1 + 1e-9) < settings.C


def class_weights(
    class_weight: str | Mapping[Any, float] | None, dataset: DatasetInfo
) -> NDArray[np.float64]:
    """(n_classes,) factors of C. "balanced": n / (k · count), as scikit-learn has it. Raises UsageError."""
    factors = np.ones(len(dataset.classes))
    if class_weight == "balanced":
        return dataset.n_rows / (len(dataset.classes) * dataset.counts)
    if isinstance(class_weight, Mapping):
        position = {str(label_key(label)): i for i, label in enumerate(dataset.classes)}
        for label, factor in class_weight.items():
            if str(label_key(label)) not in position:
                there = ", ".join(quoted(each) for each in dataset.classes[:_SHOWN])
                raise UsageError(f"class weight for {label!r}, but the classes are {there}")
            factors[position[str(label_key(label))]] = factor
    return factors


def label_key(label: Any) -> Any:
    """1.0, 1 and "1" name the same class."""
    try:
        number = float(label)
    except (TypeError, ValueError):
        return str(label)
    return int(number) if number.is_integer() else number


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


def _checksum(coef: NDArray[np.float64]) -> int:
    return int(np.add.reduce(np.ravel(coef, order="K").view(np.uint64)))


def make_settings(settings: Settings | None, options: Mapping[str, Any]) -> Settings:
    """Settings with ``options`` replaced. Raises UsageError for an option that does not exist."""
    base = settings or Settings()
    unknown = set(options) - set(base.as_dict())
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
