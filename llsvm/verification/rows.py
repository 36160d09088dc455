"""The rows of a training, read again as that read them: by the settings in the model, under a memory limit of one's
own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from llsvm.block import CSR
from llsvm.data import open_with_settings
from llsvm.dataset import DatasetInfo
from llsvm.errors import ModelError
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.plan import Needs
from llsvm.memory.process import default_limit_bytes, default_threads
from llsvm.memory.sizes import memory_limit_bytes
from llsvm.models.model import Model
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


@contextmanager
def rows_of(
    model: Model, settings: Settings, data: Any, y: Any, sample_weight: Any, kept: KeptDual | None = None
) -> Iterator[Stream]:
    """A Stream that has read the data, and hands out the rows that training met. settings: of ``settings_of``.
    kept: dual variables whose weights are to be summed, beside the model's; None: none are.

    Nothing is written to disk unless data can be read once only, or n-grams are counted.
    Raises BudgetError, DataError, DiskError, UsageError."""
    limit = settings.memory_limit
    threads = settings.threads or default_threads()
    budget = MemoryBudget(default_limit_bytes() if limit is None else memory_limit_bytes(limit))
    copies = 4 if kept is None else 12
    budget.reserve("model and weights", copies * model.weights.nbytes + 8 * len(model.extra.get("fill", ())))
    source = open_with_settings(settings, data, y, sample_weight, threads)
    if (encoder := source.info().encoder) is not None and encoder.documents is not None:
        encoder.documents.number_as(model.extra)
        settings = replace(settings, vocabulary="exact")  # else they are hashed by now
    if _as_float64(model):
        keep_double(source.info().rounding)
    with Stream(
        source,
        budget,
        choose_parent(settings.spill_dir, None),
        cache="never",
        scale=settings.scale,
        fill_missing=settings.missing == "mean",
    ) as stream:
        learn_columns(stream, settings)
        try:
            stream.read()
        except ValuesRounded as error:
            raise ModelError(
                f"{source.info().name}: values are too near to 0, or to each other, for 32-bit floats, and this "
                "model was trained on such: train again"
            ) from error
        work = WORK_BYTES if model.feature_map is None else WORK_BYTES + model.feature_map.work_bytes
        count = Problems.of(settings, stream.dataset).count
        of_kernel = _kernel_bytes(model, kept, stream.dataset, count)
        stream.prepare(Needs({"sums over rows": work, "rows with dual variables": of_kernel}, 8))
        yield stream


def _kernel_bytes(model: Model, kept: KeptDual | None, dataset: DatasetInfo, count: int) -> int:
    """What the sums of dual variables take beside the rows, where it is a kernel machine's. count: of problems."""
    map_ = model.feature_map
    if kept is None or not kept.has_rows or map_ is None or map_.kind != "kernel":
        return 0
    used = 0 if map_.function.name == "precomputed" else kept.rows_used()
    return kernel_sums_bytes(dataset, count, used)


def _as_float64(model: Model) -> bool:
    """Were values kept as 64-bit floats? What is mapped always is; of kernel machines, support vectors tell, or
    that nothing was rounded."""
    map_ = model.feature_map
    if map_ is None or map_.kind != "kernel":
        return bool(model.extra.get("double"))
    if map_.function.name == "precomputed":
        return model.certificate is not None and not model.certificate.rounding
    values = map_.landmarks.data if isinstance(map_.landmarks, CSR) else map_.landmarks
    return bool(values.dtype == np.float64)
