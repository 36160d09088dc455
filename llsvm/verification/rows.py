"""The rows of a training, read again as that read them: by the settings in the model, under a memory limit of one's
own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from llsvm.block import CSR
from llsvm.data import open_with_settings
from llsvm.data.batches import in_batches
from llsvm.data.crosses import learn_crosses
from llsvm.dataset import DatasetInfo
from llsvm.errors import BudgetError, DataError, ModelError
from llsvm.features.frames import as_frame, is_frame
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.process import (
    MEASURED_BYTES,
    default_limit_bytes,
    default_threads,
    resident_bytes,
    trim_freed_memory,
)
from llsvm.memory.sizes import memory_limit_bytes
from llsvm.models.model import Model, UnreadModel
from llsvm.models.tables import only_text, table_columns
from llsvm.settings.option import with_new_names
from llsvm.settings.settings import OPTIONS, Settings
from llsvm.verification.dual import KeptDual
from llsvm.verification.problems import Problems
from llsvm.verification.products import WORK_BYTES
from llsvm.verification.reading import Rows, looking_at
from llsvm.verification.sums import kernel_sums_bytes

_MODEL, _WORK = "model and weights", "sums over rows"  # lines of the budget
_PLACE = ("memory_limit", "threads", "disk_limit", "spill_dir")  # of the training, and of no other run


def settings_of(model: Model, given: Settings) -> Settings:
    """Return the settings of the training, but for what says where and how data are read now. given: with
    memory_limit, threads, spill_dir, and label and format where these are asked for. Raises ModelError."""
    known = {name: value for name, value in with_new_names(model.settings).items() if name in OPTIONS}
    if model.certificate is None or "C" not in known:
        raise ModelError("this model has no certificate (it was imported, say): there is nothing to verify")
    for name in _PLACE:
        known[name] = getattr(given, name)
    for name in ("label", "format"):
        if (value := getattr(given, name)) is not None:
            known[name] = value
    return Settings(**known)


def _of_arrays(settings: Settings, X: Any, sample_weight: Any) -> Settings:
    """Return the settings, with no columns that they name for what comes apart from X, or that it has not."""
    apart: dict[str, Any] = {"label": None}
    if sample_weight is not None:
        apart["weight"] = None
    if not is_frame(X):
        apart |= {"weight": None, "features": (), "exclude": (), "categorical": ()}
    return replace(settings, **apart)


@contextmanager
def rows_of(
    model: Model, settings: Settings, data: Any, y: Any, sample_weight: Any, kept: KeptDual | None = None
) -> Iterator[Rows]:
    """Yield the rows that training met, read once. settings: of ``settings_of``. kept: dual variables whose weights
    are to be summed, beside the model's; None: none are.

    Nothing is written to disk unless data can be read once only. Raises BudgetError, DataError, DiskError,
    UsageError."""
    given, threads = settings.memory_limit, settings.threads or default_threads()
    limit_bytes = default_limit_bytes() if given is None else memory_limit_bytes(given)
    copies = 4 if kept is None else 12
    model_bytes = copies * model.weights.nbytes + 8 * len(model.extra.get("fill", ()))
    column = only_text(model.extra)
    if (
        column is not None
        and y is not None
        and not isinstance(data, str | os.PathLike)
        and not in_batches(data)
    ):
        data = as_frame(data, column)
    reading = settings if y is None and sample_weight is None else _of_arrays(settings, data, sample_weight)
    source = open_with_settings(reading, data, y, sample_weight, threads)
    info = source.info()
    if _as_float64(model):
        for rounding in info.rounding:
            rounding.keep_double()
    work = WORK_BYTES if model.feature_map is None else WORK_BYTES + model.feature_map.work_bytes

    def needs(dataset: DatasetInfo) -> int:
        return _kernel_bytes(model, kept, dataset, Problems.of(settings, dataset).count)

    def read(rows: Rows) -> Rows:
        rows.budget.reserve(_MODEL, model_bytes)
        if (encoder := info.encoder) is not None:
            if encoder.documents is not None:
                encoder.documents.number_as(model.extra)
                encoder.documents.fit_into(rows.budget)
            learn_crosses(source, rows.budget)
        rows.budget.reserve(_WORK, work)
        rows.read()
        if encoder is not None:
            _check_order(info.name, [column.name for column in encoder.columns], table_columns(model.extra))
        return rows

    try:
        if isinstance(model, UnreadModel):
            raise model.refusal
        rows = read(Rows(source, MemoryBudget(limit_bytes), settings, needs))
    except BudgetError as error:
        if not info.rereadable or (info.n_bytes or 0) > MEASURED_BYTES:
            raise error.as_least() from error
        trim_freed_memory()
        looked_at, at_least = looking_at(source, settings, needs, max(limit_bytes, resident_bytes())), False
        try:
            read(looked_at)
        except BudgetError:
            at_least = True
        lines = dict(looked_at.budget.lines)
        smallest = max(limit_bytes + 1, error.smallest_bytes, sum(lines.values()))
        raise BudgetError(error.what, error.limit_bytes, smallest, lines, at_least) from error
    with closing(rows):
        yield rows


def _check_order(name: str, names: list[str], known: list[str]) -> None:
    """Raise DataError where the data have the model's columns in another order: features would be others."""
    if names == known or sorted(names) != sorted(known):
        return
    at = next(j for j, (one, other) in enumerate(zip(names, known, strict=True)) if one != other)
    raise DataError(
        f"{name}: the columns are in another order than those that the model was trained on: feature column "
        f"{at + 1} is {names[at]!r}, and was {known[at]!r}; pass the columns in that order"
    )


def _kernel_bytes(model: Model, state: KeptDual | None, dataset: DatasetInfo, count: int) -> int:
    """Return the bytes of the sums of dual variables beside the rows, for a kernel machine. count: of problems."""
    map_ = model.feature_map
    if state is None or not state.has_rows or map_ is None or map_.kind != "kernel":
        return 0
    used = 0 if map_.function.name == "precomputed" else state.rows_used()
    return kernel_sums_bytes(dataset, count, used)


def _as_float64(model: Model) -> bool:
    """Return whether values were kept as 64-bit floats: what is mapped always is, and a matrix that was given;
    of other kernel machines, support vectors tell."""
    map_ = model.feature_map
    if map_ is None or map_.kind != "kernel":
        return bool(model.extra.get("double"))
    if map_.function.name == "precomputed":
        return True
    values = map_.landmarks.data if isinstance(map_.landmarks, CSR) else map_.landmarks
    return bool(values.dtype == np.float64)
