"""A SolverState in a container, and back: its arrays are read when they are asked for, its rows piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.state import RowValues, SolverState
from llsvm.state.container import PIECE_BYTES, Container, ContainerWriter

_ARRAYS, ROWS = "arrays/", "rows/"  # how their parts are called


def nbytes_of(state: SolverState) -> int:
    """What its arrays and rows take."""
    rows = sum(each.n_rows * each.width * each.dtype.itemsize for each in state.rows.values())
    return rows + sum(array.nbytes for array in state.arrays.values())


def write(state: SolverState, writer: ContainerWriter) -> dict[str, Any]:
    """Add its parts; returns the rest, as JSON has it. No array is copied but in pieces."""
    for name, array in state.arrays.items():
        writer.add(_ARRAYS + name, array.dtype, array.shape, _pieces(array))
    for name, values in state.rows.items():
        write_rows(writer, ROWS + name, values)
    return {
        "solver": state.solver,
        "passes": int(state.passes),
        "of": dict(state.of),
        "numbers": dict(state.numbers),
    }


def write_rows(writer: ContainerWriter, name: str, values: RowValues) -> None:
    """Add them as a part, a piece at a time."""
    writer.add(name, values.dtype, (values.n_rows, values.width), _pieces_of_rows(values))


def read(container: Container, about: Mapping[str, Any]) -> SolverState:
    """about: what ``write`` returned. It is valid until the container is closed."""
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
    """Each is read anew whenever it is asked for, so that none is held longer than it is used."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._names = [n.removeprefix(_ARRAYS) for n in container.parts if n.startswith(_ARRAYS)]

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._container.array(_ARRAYS + name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class SavedRows:
    """RowValues (llsvm.solvers.state) in the container."""

    def __init__(self, container: Container, name: str) -> None:
        self.n_rows, self.width = container.parts[name].shape
        self.dtype = np.dtype(container.parts[name].dtype)
        self._container, self._name = container, name

    def get(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        values = self._container.rows(self._name, rows)
        return values[:, 0] if self.width == 1 else values


def _pieces(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """In C order."""
    if array.nbytes <= PIECE_BYTES or not array.ndim:
        yield array
    elif array[0].nbytes > PIECE_BYTES:
        for each in array:
            yield from _pieces(each)
    else:
        step = max(1, PIECE_BYTES * len(array) // array.nbytes)
        for start in range(0, len(array), step):
            yield array[start : start + step]


def _pieces_of_rows(values: RowValues) -> Iterator[NDArray[Any]]:
    step = max(1, PIECE_BYTES // max(1, values.width * values.dtype.itemsize))
    for start in range(0, values.n_rows, step):
        yield values.get(np.arange(start, min(start + step, values.n_rows)))
