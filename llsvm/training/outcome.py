"""Outcome of a run: its model, its summary in plain values, and advice where it has not converged."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.data import DEFAULT_FORMAT
from llsvm.data.source import column_name
from llsvm.errors import DataError
from llsvm.features.feature_map import FeatureMap
from llsvm.features.scaling import ROW_SCALE
from llsvm.files.fingerprint import TRAINED_ON, files_summary
from llsvm.files.growing import column, copied, count_nonzero
from llsvm.memory.process import peak_resident_bytes, resident_bytes
from llsvm.models.header import CLASS_NAMES, CROSSES, MEAN, PRUNED, SPREAD
from llsvm.models.model import Model
from llsvm.models.model_file import KNOWN_REQUIREMENTS
from llsvm.models.tables import AT_CENTER, CENTER, CENTERED
from llsvm.process.trace import trace
from llsvm.process.work import Work
from llsvm.settings.objective import CLASSIFICATION, UNLABELLED
from llsvm.settings.settings import Settings
from llsvm.solvers.advice import Ending, advise
from llsvm.solvers.base import Report
from llsvm.stream.stream import Stream
from llsvm.training.class_weights import plain_label

_LARGE_SCALE = 1e200  # of columns whose weights, when they are for raw values, may be beyond 64-bit floats
# Classes of models that were trained on rows without labels, as in scikit-learn and LIBLINEAR.
OUTLIER_OR_NOT = np.array([-1.0, 1.0])


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """State of a run at one moment.

    stream: with the facts of the data. settings: as they were resolved for this data.
    solver, why: the solver that trains, and why "auto" has chosen it, or "".
    history: a dict for each full pass. last: the last report with a certificate, None before there is one.
    seconds: since it began. out_of_time: it has used up the time that it was given.
    feature_map: what the rows go through before they reach a solver, or None.
    support: (n_rows,) of a kernel machine: which rows are support vectors, else None.
    memory_advice: the advice to raise its memory limit that was given while it went on, or "". enough_bytes:
    the limit that it named, or 0. spent: the seconds by what they went into. work: that it has done.
    float64_bytes: the limit that keeping values as 64-bit floats takes, where rounding hides the optimum; else 0.
    """

    stream: Stream
    settings: Settings
    solver: str
    why: str
    history: list[dict[str, Any]]
    last: Report | None
    seconds: float
    out_of_time: bool
    feature_map: FeatureMap | None
    support: NDArray[np.bool_] | None
    memory_advice: str = ""
    spent: dict[str, float] = field(default_factory=dict)
    enough_bytes: int = 0
    work: Work = field(default_factory=Work)
    float64_bytes: int = 0


def history_row(report: Report, seconds: float, bytes_read: int) -> dict[str, Any]:
    """Return the history's row of a full pass, and trace the pass. seconds, bytes_read: since the training began;
    used_bytes, peak_rss_bytes: of memory, now and at most until now."""
    certificate = report.certificate
    primal = None if certificate is None else certificate.total_primal
    relative_gap = None if certificate is None else certificate.relative_gap
    trace(
        "pass.measured",
        passes=report.passes,
        primal=primal,
        dual=report.dual,
        relative_gap=relative_gap,
        rounding_gap=None if certificate is None else certificate.rounding_gap,
        survivors=report.survivors,
        bytes_read=bytes_read,
        converged=report.converged,
        cause=report.cause,
    )
    return {
        "passes": report.passes,
        "seconds": round(seconds, 3),
        "bytes_read": bytes_read,
        "primal": primal,
        "dual": report.dual,
        "relative_gap": relative_gap,
        "survivors": report.survivors,
        "used_bytes": resident_bytes(),
        "peak_rss_bytes": peak_resident_bytes(),
    }


def model_of(run: TrainingRun, report: Report, coef: NDArray[np.float64]) -> Model:
    """Return the model of these weights. coef: (k, d + 1) as training has them, which are copied, once."""
    dataset = run.stream.dataset
    if run.support is not None:
        coef, intercept = coef[:, :-1][:, run.support], coef[:, -1]
    else:
        intercept = column(coef, dataset.n_columns) * run.settings.constant
        coef = copied(coef[:, : dataset.n_columns])
        if run.stream.scaling is not None:
            intercept = run.stream.scaling.raw_weights(coef, intercept)
            _require_finite(run, coef)
        coef = coef[:, dataset.first_column :]
    if dataset.target is not None:
        coef *= dataset.target.unit
        intercept = intercept * dataset.target.unit + dataset.target.shift_rest + dataset.target.shift
    encoder = run.stream.source.info().encoder
    if encoder is not None and encoder.documents is not None:
        _, _, first, stop, *_ = encoder.parts
        encoder.documents.by_feature(coef[:, first:stop])
    extra = _extra(run, coef)
    if run.support is None and run.stream.scaling is not None:
        center = run.stream.scaling.center[dataset.first_column :]
        if center.any():
            extra[CENTERED] = True
            extra[CENTER] = center = np.pad(center, (0, coef.shape[1] - len(center)))
            extra[AT_CENTER], intercept = intercept, intercept - coef @ center
    if report.pruned is not None:
        extra[PRUNED] = report.pruned
    names = run.stream.source.info().feature_names
    n_features = coef.shape[1] if run.feature_map is None else run.feature_map.n_features
    return Model(
        coef_=coef,
        intercept_=intercept,
        classes_=OUTLIER_OR_NOT if dataset.kind == UNLABELLED else dataset.classes,
        certificate=report.certificate,
        settings=run.settings.as_dict(),
        history=run.history,
        index_base=_index_base(run),
        converged=report.converged,
        n_rows=dataset.n_rows,
        feature_names=names if names is not None and len(names) == n_features else None,
        extra=extra,
        requires=tuple(name for name in extra if name in KNOWN_REQUIREMENTS),
        log=resources(run),
    )


def _require_finite(run: TrainingRun, coef: NDArray[np.float64]) -> None:
    """Raise DataError where a column is so small that its weights are not finite. coef: (k, d) of raw columns."""
    scaling, info = run.stream.scaling, run.stream.source.info()
    assert scaling is not None
    for number in np.flatnonzero(scaling.scale > _LARGE_SCALE).tolist():
        if not np.isfinite(coef[:, number]).all():
            raise DataError(
                f"{info.name}: {column_name(info, number)}: its values are so near to 0, or to each other, that "
                "its weights are no 64-bit floats; multiply the column by a power of ten, or leave it out"
            )


def resources(run: TrainingRun) -> dict[str, Any]:
    """Return the resources that the run has used. Sizes in bytes, times in seconds; spent: see Clock, work: see
    Work."""
    workspace = run.stream.workspace
    return {
        "seconds": round(run.seconds, 3),
        "spent": {kind: round(seconds, 3) for kind, seconds in run.spent.items()},
        "peak_rss_bytes": peak_resident_bytes(),
        "memory_limit_bytes": run.stream.budget.limit_bytes,
        "bytes_read": run.stream.bytes_read,
        "bytes_spilled": run.stream.bytes_spilled,
        "peak_disk_bytes": 0 if workspace is None else workspace.peak_bytes,
        "read_from": run.stream.place,
        "work": replace(run.work, source_bytes=run.stream.source.bytes_read).as_dict(),
    }


def _extra(run: TrainingRun, coef: NDArray[np.float64]) -> dict[str, Any]:
    """Return what predictions need beside weights: the table's columns, positive label, unit rows, exact values;
    and the fingerprints of the files that it was trained on."""
    extra: dict[str, Any] = {"solver": run.solver, "why": run.why}
    if (files := files_summary(run.stream.source.info().fingerprints)) is not None:
        extra[TRAINED_ON] = files
    if run.stream.dataset.dtype == np.float64 or run.feature_map is not None:
        extra["double"] = True
    encoder, scaling = run.stream.source.info().encoder, run.stream.scaling
    fill = None
    if scaling is not None and run.settings.missing == "mean":
        fill = scaling.fill[run.stream.dataset.first_column :]
    if encoder is not None:
        if fill is not None:
            encoder.set_fill(fill)
        extra["table"] = encoder.as_dict()
        if encoder.documents is not None:
            _, _, first, stop, *_ = encoder.parts
            used = np.any(coef[:, first:stop], axis=0)
            extra |= encoder.documents.as_extra(used)
        if encoder.crosses.crosses:
            extra |= encoder.crosses.as_extra()
    elif fill is not None:
        extra["fill"] = fill
    extra |= _moments(run)
    if encoder is None and run.settings.cross:  # of namespaces: the names of the features tell which
        extra[CROSSES] = {"pairs": [], "widths": [0, 0, 0], "means": {}}
    if run.stream.dataset.kind != CLASSIFICATION:
        extra["label_kind"] = run.stream.dataset.kind
    if run.settings.positive is not None:
        extra["positive"] = run.settings.positive
        if (named := run.stream.source.info().class_names) is not None:
            extra[CLASS_NAMES] = list(named)
    if run.settings.scale == ROW_SCALE:
        extra["unit_row"] = True
    if run.feature_map is not None:
        extra |= run.feature_map.as_extra()
    if run.settings.multiclass == "ovo" and len(run.stream.dataset.classes) > 2:
        extra["multi_class"] = "ovo"
    return extra


def _moments(run: TrainingRun) -> dict[str, NDArray[np.floating]]:
    """Return by their names in a model (n_features,) the features' standard deviations over the rows, by which
    weights are compared, and (m,) the means of those features that are dense numbers, which come first; without
    those that scaling has not learned."""
    dataset, scaling, encoder = run.stream.dataset, run.stream.scaling, run.stream.source.info().encoder
    if scaling is None or scaling.kind == ROW_SCALE or run.feature_map is not None:
        return {}
    moments: dict[str, NDArray[np.floating]] = {}
    spread = scaling.spread[dataset.first_column :]
    if len(spread) < dataset.n_features and encoder is not None:
        share = encoder.categories.doubts.sums / (dataset.weight_sum or 1.0)
        spread = np.concatenate([spread, np.sqrt(share * (1.0 - share)).astype(np.float32)])
    if len(spread) == dataset.n_features:
        moments[SPREAD] = spread
    n_dense = len(scaling.fill) * dataset.is_dense if encoder is None else encoder.n_dense
    if 0 < n_dense <= len(scaling.fill):
        moments[MEAN] = scaling.fill[:n_dense]
    return moments


def _index_base(run: TrainingRun) -> int:
    """Return the number of the first column. Only columns of svmlight files are numbered; models of other data
    score such files as LIBLINEAR would."""
    if run.stream.source.info().format != DEFAULT_FORMAT:
        return 1
    return run.stream.dataset.first_column if run.feature_map is None else run.feature_map.base


def summary(run: TrainingRun) -> dict[str, Any]:
    """Return the run in plain values, for people's scripts. Sizes in bytes, times in seconds."""
    dataset, report = run.stream.dataset, run.last
    cause, sentence = advice_on(run)
    certificate = None if report is None else report.certificate
    return {
        "converged": report is not None and report.converged,
        "primal": None if certificate is None else certificate.total_primal,
        "dual": None if certificate is None else certificate.total_dual,
        "relative_gap": None if certificate is None else certificate.relative_gap,
        "passes": 0 if report is None else report.passes,
        "values": str(dataset.dtype),
        "solver": run.solver,
        "why": run.why,
        "scale": run.settings.scale,
        "bias": run.settings.bias,
        "nonzero_weights": None if report is None or report.coef is None else count_nonzero(report.coef),
        "leave_one_out": None
        if report is None or report.left_out is None or not report.converged
        else report.left_out.as_dict(),
        "pruned": None if report is None else report.pruned,
        "rows": dataset.n_rows,
        "features": dataset.n_features,
        "label_kind": dataset.kind,
        "classes": [plain_label(label) for label in dataset.classes],
        "target": None if dataset.target is None else asdict(dataset.target),
        **resources(run),
        "notes": [*run.stream.source.info().notes, *filter(None, [run.memory_advice])],
        "note": run.stream.note if report is None else report.note or run.stream.note,
        "cause": cause,
        "advice": sentence,
    }


def advice_on(run: TrainingRun) -> tuple[str, str]:
    """Return why the run has most likely not converged, in a word, and in a sentence with the remedy; "" if it
    has."""
    report = run.last
    if report is None or report.converged:
        return "", ""
    gaps = [row["relative_gap"] for row in run.history if row["relative_gap"] is not None]
    in_memory = run.stream.place == "memory"
    ending = Ending(
        gaps,
        report.cause,
        run.solver,
        run.stream.dataset.largest_value,
        not run.stream.dataset.is_dense,
        in_memory,
        run.out_of_time,
        run.seconds,
        0.0 if report.certificate is None else report.certificate.rounding_floor,
        run.enough_bytes,
        run.stream.rounded and not run.stream.source.info().rereadable,
        run.float64_bytes if run.stream.rounded else 0,
    )
    return advise(run.settings, ending)
