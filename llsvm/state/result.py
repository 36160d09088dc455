"""The result of a run that has come to its end, in its state's folder: the model that the same command gives."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.files.writing import naming
from llsvm.models.model import Model
from llsvm.models.model_file import log_path
from llsvm.solvers.state import AtWeights, DualPoint, ShareSums
from llsvm.state.container import PIECE_BYTES, Container, ContainerWriter
from llsvm.state.folder import (
    AT_WEIGHTS,
    LARGEST_COST,
    MODEL,
    PART,
    RESULT,
    SCALES,
    SHARES,
    SUMS,
    StateFolder,
)
from llsvm.state.record import Record
from llsvm.state.solver_state import SavedRows, write_rows

_MODEL = "model"


class ResultWriter:
    """The next result of a folder: the dual variables first, while the solver has them, then the model; which is
    the result once ``end`` returns. All methods raise DiskError, UsageError."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._about: dict[str, Any] = {LARGEST_COST: None, SUMS: None, AT_WEIGHTS: None}
        self._writer = ContainerWriter(folder.file(RESULT + PART))

    def add_dual(self, point: DualPoint) -> None:
        """That which the model's certificate is of."""
        if isinstance(point, AtWeights):
            self._about[AT_WEIGHTS] = list(point.smoothing)
            return
        shares = point
        write_rows(self._writer, SHARES, shares.values)
        if math.isfinite(shares.largest_cost):
            self._about[LARGEST_COST] = shares.largest_cost
        if (sums := shares.sums) is not None:
            write_rows(self._writer, SUMS, sums.weights)
            if sums.scales is not None:
                write_rows(self._writer, SCALES, sums.scales)
            self._about[SUMS] = {
                "parts": sums.parts,
                "linear": sums.linear.tolist(),
                "by_class": sums.by_class.tolist(),
                "dtype": sums.dtype.str,
                "runs": sums.runs,
                "crawled": sums.crawled,
            }

    def end(self, model: Model, record: Record, cause: str) -> None:
        """cause: why it has not converged, as in reports, or ""."""
        file = self._folder.file(MODEL)
        try:
            model.save(file)
            nbytes = os.stat(file).st_size
            self._writer.add(_MODEL, np.dtype(np.uint8), (nbytes,), _pieces(file))
        finally:
            _remove(file)
        about = {"record": record.as_dict(), "cause": cause, **self._about}
        self._writer.end(about)
        self.close()
        self._folder.sync(RESULT + PART, RESULT)

    def close(self) -> None:
        self._writer.close()


def sums_in(result: Container) -> ShareSums | None:
    """What was kept with the shares; its weights are read when they are asked for."""
    if (about := result.about[SUMS]) is None:
        return None
    return ShareSums(
        SavedRows(result, SUMS),
        about["parts"],
        np.array(about["linear"]),
        np.array(about["by_class"]),
        np.dtype(about["dtype"]),
        about["runs"],
        SavedRows(result, SCALES) if SCALES in result.parts else None,
        about.get("crawled", False),
    )


def read_model(folder: StateFolder, result: Container) -> Model:
    """Raises DiskError, UsageError where it cannot be unpacked, ModelError where it is none."""
    file = folder.file(MODEL)
    try:
        with naming(file), open(file, "wb") as unpacked:
            for piece in result.pieces(_MODEL):
                unpacked.write(piece)
        return Model.load(file, with_log=False)
    finally:
        _remove(file)


def _pieces(file: Path) -> Iterator[NDArray[np.uint8]]:
    with open(file, "rb") as model:
        while piece := model.read(PIECE_BYTES):
            yield np.frombuffer(piece, np.uint8)


def _remove(file: Path) -> None:
    for path in (file, log_path(file)):
        with suppress(OSError):
            os.unlink(path)
