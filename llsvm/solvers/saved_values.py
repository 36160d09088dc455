"""Dataclasses of arrays and numbers as parts of a SolverState: what a method knows from pass to pass is one such
value, of which each step makes the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import UsageError
from llsvm.solvers.state import SolverState, Value

D = TypeVar("D")


def arrays_of(name: str, values: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays of a dataclass, and of those within it, by their names in a state; they are not copied."""
    found = {}
    for field, value in _items(values):
        if isinstance(value, np.ndarray):
            found[f"{name} {field}"] = value
        elif is_dataclass(value):
            found |= arrays_of(f"{name} {field}", value)
    return found


def numbers_of(values: Any) -> dict[str, Value]:
    """Return the numbers of a dataclass, by their fields, and mappings of those within it."""
    return {
        field: numbers_of(value) if is_dataclass(value) else value
        for field, value in _items(values)
        if not isinstance(value, np.ndarray)
    }


@dataclass(frozen=True, slots=True)
class SavedValues:
    """The values that a state has of one dataclass.

    name: that its arrays begin with, as ``arrays_of`` was given it.
    state: has the arrays.
    numbers: what ``numbers_of`` gave.
    """

    name: str
    state: SolverState
    numbers: Value

    @classmethod
    def of_problems(cls, state: SolverState, count: int) -> list[SavedValues]:
        """Return those of so many problems, as ``problems_of`` gave them. Raises UsageError for another number."""
        each = state.numbers.get("problems")
        if not isinstance(each, list) or len(each) != count:
            raise _refusal("problems", each)
        return [cls(problem_name(j), state, numbers) for j, numbers in enumerate(each)]

    def into(self, values: D) -> D:
        """Return ``values`` with all that was saved, copied: numbers of the types, arrays of the shapes and types
        that they have in it. Raises UsageError where the state has no such."""
        if not isinstance(self.numbers, dict):
            raise _refusal(self.name, self.numbers)
        found: dict[str, Any] = {}
        for field, value in _items(values):
            key, number = f"{self.name} {field}", self.numbers.get(field)
            if isinstance(value, np.ndarray):
                self.state.require_shapes({key: value.shape})
                found[field] = np.array(self.state.arrays[key], value.dtype)
            elif is_dataclass(value):
                found[field] = SavedValues(key, self.state, number).into(value)
            elif type(number) is type(value):  # a bool is no int here
                found[field] = number
            elif type(value) is float and type(number) is int:
                found[field] = float(number)
            else:
                raise _refusal(field, number)
        return replace(values, **found)  # type: ignore[type-var]


def problems_of(problems: Sequence[Any]) -> tuple[dict[str, NDArray[Any]], dict[str, Value]]:
    """Return the arrays and numbers for a state of dataclasses, one for each problem."""
    arrays: dict[str, NDArray[Any]] = {}
    for j, values in enumerate(problems):
        arrays |= arrays_of(problem_name(j), values)
    return arrays, {"problems": [numbers_of(values) for values in problems]}


def problem_name(j: int) -> str:
    """Return what the arrays of a problem begin with."""
    return f"problem {j}"


def _items(values: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(values, field.name)) for field in fields(values)]


def _refusal(name: str, value: Value) -> UsageError:
    return UsageError(
        f"the saved state does not belong to this run: {name!r} is {value!r}; continue with the data and "
        "options it was saved with"
    )
