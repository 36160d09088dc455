"""The result of a run that has come to its end, in its state's folder: the model that the same command gives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from llsvm.files.writing import naming
from llsvm.models.model import Model
from llsvm.state.container import PIECE_BYTES, Container, ContainerWriter
from llsvm.state.folder import MODEL, PART, RESULT, StateFolder
from llsvm.state.record import Record

_MODEL = "model"


def write_result(folder: StateFolder, model: Model, record: Record, cause: str) -> None:
    """cause: why it has not converged, as in reports, or "". Raises DiskError, UsageError."""
    file = folder.file(MODEL)
    try:
        model.save(file)
        writer = ContainerWriter(folder.file(RESULT + PART))
        try:
            nbytes = os.stat(file).st_size
            writer.add(_MODEL, np.dtype(np.uint8), (nbytes,), _pieces(file))
            writer.end({"record": record.as_dict(), "cause": cause})
        finally:
            writer.close()
        folder.sync(RESULT + PART, RESULT)
    finally:
        _remove(file)


def read_model(folder: StateFolder, result: Container) -> Model:
    """Raises DiskError, UsageError where it cannot be unpacked, ModelError where it is none."""
    file = folder.file(MODEL)
    try:
        with naming(file), open(file, "wb") as unpacked:
            for piece in result.pieces(_MODEL):
                unpacked.write(piece)
        return Model.load(file)
    finally:
        _remove(file)


def _pieces(file: Path) -> Iterator[NDArray[np.uint8]]:
    with open(file, "rb") as model:
        while piece := model.read(PIECE_BYTES):
            yield np.frombuffer(piece, np.uint8)


def _remove(file: Path) -> None:
    for path in (file, Path(f"{file}.log.json")):
        with suppress(OSError):
            os.unlink(path)
