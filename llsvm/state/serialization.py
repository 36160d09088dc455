"""Contents of containers: the state of a solver, and the result of a run that has ended, which is the model that
the same command gives, with its dual variables. Arrays are read when they are asked for, rows in pieces."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.files.writing import naming
from llsvm.models.model import Model
from llsvm.models.model_file import log_path
from llsvm.solvers.state import AtWeights, DualPoint, RowValues, ShareSums, SolverState
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

ARRAYS, ROWS = "arrays/", "rows/"  # what the names of their parts begin with
_MODEL = "model"


def rows_bytes(values: RowValues) -> int:
    """Return the bytes of rows of values."""
    return values.n_rows * values.width * values.dtype.itemsize


def state_bytes(state: SolverState) -> int:
    """Return the bytes of a state's arrays and rows."""
    rows = sum(rows_bytes(values) for values in state.rows.values())
    return rows + sum(array.nbytes for array in state.arrays.values())


def write_state(state: SolverState, writer: ContainerWriter) -> dict[str, Any]:
    """Write a state's arrays and rows, in pieces; return the rest of it, as JSON has it."""
    for name, array in state.arrays.items():
        writer.add(ARRAYS + name, array.dtype, array.shape, _pieces(array))
    for name, values in state.rows.items():
        write_rows(writer, ROWS + name, values)
    return {
        "solver": state.solver,
        "passes": int(state.passes),
        "of": dict(state.of),
        "numbers": dict(state.numbers),
    }


def write_rows(writer: ContainerWriter, name: str, values: RowValues) -> None:
    """Write rows as a part, in pieces."""
    writer.add(name, values.dtype, (values.n_rows, values.width), _pieces_of_rows(values))


def read_state(container: Container, about: Mapping[str, Any]) -> SolverState:
    """Return a state, valid until the container is closed. about: what ``write_state`` returned."""
    rows = [name.removeprefix(ROWS) for name in container.parts if name.startswith(ROWS)]
    return SolverState(
        about["solver"],
        about["passes"],
        about["of"],
        _SavedArrays(container),
        {name: SavedRows(container, ROWS + name) for name in rows},
        about["numbers"],
    )


class _SavedArrays(Mapping[str, NDArray[Any]]):
    """Arrays of a state, read at each access, so that none is held longer than it is used."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._names = [n.removeprefix(ARRAYS) for n in container.parts if n.startswith(ARRAYS)]

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._container.array(ARRAYS + name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class SavedRows:
    """``RowValues`` (llsvm.solvers.state) in a container."""

    def __init__(self, container: Container, name: str) -> None:
        self.n_rows, self.width = container.parts[name].shape
        self.dtype = np.dtype(container.parts[name].dtype)
        self._container, self._name = container, name

    def get(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        values = self._container.rows(self._name, rows)
        return values[:, 0] if self.width == 1 else values


def _pieces(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield pieces of an array in C order."""
    if array.nbytes <= PIECE_BYTES or not array.ndim:
        yield array
    elif array[0].nbytes > PIECE_BYTES:
        for part in array:
            yield from _pieces(part)
    else:
        step = max(1, PIECE_BYTES * len(array) // array.nbytes)
        for start in range(0, len(array), step):
            yield array[start : start + step]


def _pieces_of_rows(values: RowValues) -> Iterator[NDArray[Any]]:
    step = max(1, PIECE_BYTES // max(1, values.width * values.dtype.itemsize))
    for start in range(0, values.n_rows, step):
        yield values.get(np.arange(start, min(start + step, values.n_rows)))


class ResultWriter:
    """Writer of a folder's next result: first the dual variables, while the solver has them, then the model. It is
    the result once ``end`` returns. All methods raise DiskError, UsageError."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._about: dict[str, Any] = {LARGEST_COST: None, SUMS: None, AT_WEIGHTS: None}
        self._writer = ContainerWriter(folder.file(RESULT + PART))

    def add_dual(self, point: DualPoint) -> None:
        """Write the dual point that the model's certificate is of."""
        if isinstance(point, AtWeights):
            self._about[AT_WEIGHTS] = list(point.smoothing)
            return
        write_rows(self._writer, SHARES, point.values)
        if math.isfinite(point.largest_cost):
            self._about[LARGEST_COST] = point.largest_cost
        if (sums := point.sums) is not None:
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
        """Complete the result with the model. cause: why it has not converged, as in reports, or ""."""
        file = self._folder.file(MODEL)
        try:
            model.save(file)
            nbytes = os.stat(file).st_size
            self._writer.add(_MODEL, np.dtype(np.uint8), (nbytes,), _pieces_of_file(file))
        finally:
            _remove(file)
        about = {"record": asdict(record), "cause": cause, **self._about}
        self._writer.end(about)
        self.close()
        self._folder.sync(RESULT + PART, RESULT)

    def close(self) -> None:
        self._writer.close()


def read_sums(result: Container) -> ShareSums | None:
    """Return the sums that were kept with the shares; their weights are read at each access."""
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
    """Return the model of a result. Raises DiskError, UsageError where it cannot be unpacked, ModelError where it
    is no model."""
    file = folder.file(MODEL)
    try:
        with naming(file), open(file, "wb") as unpacked:
            for piece in result.pieces(_MODEL):
                unpacked.write(piece)
        return Model.load(file, with_log=False)
    finally:
        _remove(file)


def _pieces_of_file(file: Path) -> Iterator[NDArray[np.uint8]]:
    with open(file, "rb") as model:
        while piece := model.read(PIECE_BYTES):
            yield np.frombuffer(piece, np.uint8)


def _remove(file: Path) -> None:
    for path in (file, log_path(file)):
        with suppress(OSError):
            os.unlink(path)
