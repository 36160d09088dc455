"""StateArrays: the vectors of all problems, under each name in one array, so that a solver's state is what it works
on and asking for it copies nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.state import require_shape

Array = NDArray[np.float64]


class StateArrays:
    """Arrays are made when a problem first asks for its part: of zeros, or as they were saved."""

    def __init__(self, widths: Sequence[int], saved: Mapping[str, NDArray[Any]] | None = None) -> None:
        """widths: how long the vectors of each problem are. saved: of a state, to be copied; None to begin anew."""
        self.by_name: dict[str, Array] = {}
        self._saved = saved
        self._starts = np.concatenate([[0], np.cumsum(widths)]).tolist()

    def of(self, problem: int) -> ProblemArrays:
        return ProblemArrays(self, problem)

    def vectors(self, problem: int, name: str, count: int) -> Array:
        """(count, width) of a problem: a view."""
        start, stop = self._starts[problem], self._starts[problem + 1]
        whole = self._made(name, (count * self._starts[-1],))
        return whole[count * start : count * stop].reshape(count, stop - start)

    def table(self, problem: int, name: str, shape: tuple[int, ...]) -> Array:
        """An array of that shape, the same for each problem: a view."""
        return self._made(name, (len(self._starts) - 1, *shape))[problem]

    def forget_saved(self) -> None:
        """All that was saved has been taken up: arrays that are made from now on are new."""
        self._saved = None

    def _made(self, name: str, shape: tuple[int, ...]) -> Array:
        if name not in self.by_name:
            if self._saved is None:
                self.by_name[name] = np.zeros(shape)
            else:
                require_shape(name, self._saved[name].shape if name in self._saved else None, shape)
                self.by_name[name] = np.array(self._saved[name], np.float64)
        return self.by_name[name]


class ProblemArrays:
    """The arrays of one problem among ``arrays``."""

    def __init__(self, arrays: StateArrays, problem: int) -> None:
        self._arrays = arrays
        self._problem = problem

    @classmethod
    def alone(cls, width: int) -> ProblemArrays:
        """Of the only problem there is."""
        return cls(StateArrays([width]), 0)

    def vector(self, name: str) -> Array:
        """(width,) zeros, or what has been put there."""
        return self.vectors(name, 1)[0]

    def vectors(self, name: str, count: int) -> Array:
        """(count, width)."""
        return self._arrays.vectors(self._problem, name, count)

    def table(self, name: str, *shape: int) -> Array:
        """Of a shape that does not depend on the problem."""
        return self._arrays.table(self._problem, name, shape)
