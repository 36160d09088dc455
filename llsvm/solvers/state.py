"""SolverState: what a solver needs to go on from the end of a pass as if it had never stopped.

Named arrays and numbers, nothing else: no object of a solver, no place in a file. It carries a checkpoint, a warm
start, the change from one solver to another, and whatever else continues a run. Weights can be summed anew from
dual variables, but not to the last bit, so both are in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Number = int | float | str | bool | None
Value = Number | list["Value"] | dict[str, "Value"]  # what JSON can hold; generators' states are such


class RowValues(Protocol):
    """Values of every row that may be too many for memory; RowState and SparseState are such."""

    n_rows: int
    width: int
    dtype: np.dtype[Any]

    def get(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """A copy of the rows' values, (len(rows), width), or (len(rows),) where width is 1."""
        ...


@dataclass(frozen=True, slots=True)
class SolverState:
    """The state of a solver at the end of a pass.

    solver: the name of the method it belongs to, as in Settings.
    passes: full passes made.
    arrays: by name; their shapes and types are the solver's own. They may be views of what it works on, valid until
        it goes on: who keeps them, copies them.
    rows: by name, values of every row (dual variables), to be copied piece by piece.
    numbers: by name, what else there is: counters, random generators' states, thresholds.
    """

    solver: str
    passes: int
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    rows: Mapping[str, RowValues] = field(default_factory=dict)
    numbers: Mapping[str, Value] = field(default_factory=dict)
