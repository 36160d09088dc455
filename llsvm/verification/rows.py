"""The rows of a training, read again as that read them: by the settings in the model, under a memory limit of one's
own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from llsvm.block import CSR
from llsvm.data import open_with_settings
from llsvm.data.batches import in_batches
from llsvm.dataset import DatasetInfo
from llsvm.errors import BudgetError, ModelError
from llsvm.features.documents import as_frame
from llsvm.features.frames import is_frame
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.plan import LIBRARY, MEASURED_BYTES, Needs, smallest_for
from llsvm.memory.process import default_limit_bytes, default_threads
from llsvm.memory.sizes import memory_limit_bytes
from llsvm.models.model import Model
from llsvm.models.tables import only_text
from llsvm.models.unread import UnreadModel
from llsvm.objective.rounding import ValuesRounded, keep_double
from llsvm.settings.names import with_new_names
from llsvm.settings.settings import OPTIONS, Settings
from llsvm.spill.workspace import choose_parent
from llsvm.stream.stream import Stream
from llsvm.training.learning import learn_columns
from llsvm.verification.dual import KeptDual
from llsvm.verification.problems import Problems
from llsvm.verification.products import WORK_BYTES
from llsvm.verification.sums import kernel_sums_bytes

_MODEL = "model and weights"  # a line of the ledger
_PLACE = ("memory_limit", "threads", "disk_limit", "spill_dir")  # of the training, and of no other run


def settings_of(model: Model, given: Settings) -> Settings:
    """Those of the training, but for what says where and how data are read now. given: with memory_limit, threads,
    spill_dir, and label and format where these are asked for. Raises ModelError."""
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
    """The settings, with no columns that they name for what comes apart from X, or that it has not."""
    apart: dict[str, Any] = {"label": None}
    if sample_weight is not None:
        apart["weight"] = None
    if not is_frame(X):
        apart |= {"weight": None, "features": (), "exclude": (), "categorical": ()}
    return replace(settings, **apart)


@contextmanager
def rows_of(
    model: Model, settings: Settings, data: Any, y: Any, sample_weight: Any, kept: KeptDual | None = None
) -> Iterator[Stream]:
    """A Stream that has read the data, and hands out the rows that training met. settings: of ``settings_of``.
    kept: dual variables whose weights are to be summed, beside the model's; None: none are.

    Nothing is written to disk unless data can be read once only, or n-grams are counted.
    Raises BudgetError, DataError, DiskError, UsageError."""
    given, threads = settings.memory_limit, settings.threads or default_threads()
    limit_bytes = default_limit_bytes() if given is None else memory_limit_bytes(given)
    copies = 4 if kept is None else 12
    model_bytes = copies * model.weights.nbytes + 8 * len(model.extra.get("fill", ()))
    budget, refused = _budget(limit_bytes, model, model_bytes)
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
    if (encoder := source.info().encoder) is not None and encoder.documents is not None:
        encoder.documents.number_as(model.extra)
        format = settings.format if settings.has_text else "fasttext"  # as the first bytes told
        settings = replace(settings, vocabulary="exact", format=format)  # else they are hashed by now
    if _as_float64(model):
        keep_double(source.info().rounding)
    work = WORK_BYTES if model.feature_map is None else WORK_BYTES + model.feature_map.work_bytes

    def needs(dataset: DatasetInfo) -> Needs:
        of_kernel = _kernel_bytes(model, kept, dataset, Problems.of(settings, dataset).count)
        return Needs({"sums over rows": work, "rows with dual variables": of_kernel}, 8)

    with Stream(
        source,
        budget,
        choose_parent(settings.spill_dir, None),
        cache="never",
        scale=settings.scale,
        fill_missing=settings.missing == "mean",
    ) as stream:
        held = budget.mark()
        try:
            if refused is not None:
                raise refused
            learn_columns(stream, settings)
            stream.read()
            stream.prepare(needs(stream.dataset))
        except BudgetError as error:
            floor = max(limit_bytes + 1, budget.floor_bytes, error.smallest_bytes if refused else 0)
            raise _with_smallest(error, stream, settings, held, needs, floor) from error
        except ValuesRounded as error:
            raise ModelError(
                f"{source.info().name}: values are too near to 0, or to each other, for 32-bit floats, and this "
                "model was trained on such: train again"
            ) from error
        yield stream


def _budget(limit_bytes: int, model: Model, model_bytes: int) -> tuple[MemoryBudget, BudgetError | None]:
    """The ledger, with the model in it; and the refusal where the limit has no room for these, the ledger being of
    the smallest that has: the data may ask for more still."""
    refused = model.refused if isinstance(model, UnreadModel) else None
    try:
        budget = MemoryBudget(limit_bytes)
    except BudgetError as error:
        refused = refused or error
        budget = MemoryBudget(error.smallest_bytes + model_bytes)
    try:
        budget.reserve(_MODEL, model_bytes)
    except BudgetError as error:
        refused = refused or error
        budget = MemoryBudget(error.smallest_bytes)
        budget.reserve(_MODEL, model_bytes)
    return budget, refused


def _with_smallest(
    error: BudgetError,
    stream: Stream,
    settings: Settings,
    held: Mapping[str, int],
    needs: Callable[[DatasetInfo], Needs],
    floor_bytes: int,
) -> BudgetError:
    """The refusal with the smallest limit that works, which is no less than ``floor_bytes``. held: before anything
    was read."""
    info = stream.source.info()
    if not info.rereadable or (info.n_bytes or 0) > MEASURED_BYTES:
        return error.as_least()
    try:
        learn_columns(stream, settings)
    except BudgetError as more:
        nbytes = max(error.smallest_bytes, more.smallest_bytes)
        return BudgetError(error.what, error.limit_bytes, nbytes, more.lines, at_least=True)
    try:
        smallest = smallest_for(stream.measure(), held, lambda left: needs(left.dataset), floor_bytes)
    except BudgetError:
        reading = {**held, LIBRARY: info.reader_bytes}
        if sum(reading.values()) <= error.smallest_bytes:
            return error.as_least()
        return BudgetError(error.what, error.limit_bytes, sum(reading.values()), reading, at_least=True)
    return BudgetError(error.what, error.limit_bytes, smallest.nbytes, smallest.lines)


def _kernel_bytes(model: Model, kept: KeptDual | None, dataset: DatasetInfo, count: int) -> int:
    """What the sums of dual variables take beside the rows, where it is a kernel machine's. count: of problems."""
    map_ = model.feature_map
    if kept is None or not kept.has_rows or map_ is None or map_.kind != "kernel":
        return 0
    used = 0 if map_.function.name == "precomputed" else kept.rows_used()
    return kernel_sums_bytes(dataset, count, used)


def _as_float64(model: Model) -> bool:
    """Were values kept as 64-bit floats? What is mapped always is, and a matrix that was given; of other kernel
    machines, support vectors tell."""
    map_ = model.feature_map
    if map_ is None or map_.kind != "kernel":
        return bool(model.extra.get("double"))
    if map_.function.name == "precomputed":
        return True
    values = map_.landmarks.data if isinstance(map_.landmarks, CSR) else map_.landmarks
    return bool(values.dtype == np.float64)
