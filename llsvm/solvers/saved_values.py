"""Dataclasses of arrays and numbers as parts of a SolverState: what a method knows from pass to pass is one such
value, of which each step makes the next."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import UsageError
from llsvm.solvers.state import SolverState, Value

D = TypeVar("D")


def saved_values(name: str, values: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Value]]:
    """Return the arrays and the numbers of a dataclass, and of those within it, by their names in a state, which
    begin with ``name``; arrays are not copied."""
    arrays: dict[str, NDArray[Any]] = {}
    numbers: dict[str, Value] = {}
    for field in fields(values):
        key, value = f"{name} {field.name}", getattr(values, field.name)
        if isinstance(value, np.ndarray):
            arrays[key] = value
        elif is_dataclass(value):
            within = saved_values(key, value)
            arrays, numbers = arrays | within[0], numbers | within[1]
        else:
            numbers[key] = value
    return arrays, numbers


def restored(name: str, state: SolverState, values: D) -> D:
    """Return ``values`` with all that ``saved_values`` gave a state, copied: numbers of the types, arrays of the
    shapes and types that they have in it. Raises UsageError where the state has no such."""
    saved: dict[str, Any] = {}
    for field in fields(values):  # type: ignore[arg-type]
        key, value = f"{name} {field.name}", getattr(values, field.name)
        number = state.numbers.get(key)
        if isinstance(value, np.ndarray):
            state.require_shapes({key: value.shape})
            saved[field.name] = np.array(state.arrays[key], value.dtype)
        elif is_dataclass(value):
            saved[field.name] = restored(key, state, value)
        elif type(number) is type(value):  # a bool is no int here
            saved[field.name] = number
        elif type(value) is float and type(number) is int:
            saved[field.name] = float(number)
        else:
            raise UsageError(
                f"the saved state does not belong to this run: {key!r} is {number!r}; continue with the data and "
                "options it was saved with"
            )
    return replace(values, **saved)  # type: ignore[type-var]


def problem_name(j: int) -> str:
    """Return what the arrays and numbers of a problem begin with."""
    return f"problem {j}"
