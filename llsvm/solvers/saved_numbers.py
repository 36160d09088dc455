"""SavedNumbers: what a state holds beside arrays, taken out with its type, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from types import NoneType
from typing import TYPE_CHECKING, TypeVar

from llsvm.errors import UsageError
from llsvm.solvers.state import Value

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    D = TypeVar("D", bound=DataclassInstance)


class SavedNumbers:
    """Values by name. All methods raise UsageError where there is no such value of that type."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values

    def real(self, name: str) -> float:
        value = self._values.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._refusal(name, value)
        return float(value)

    def whole(self, name: str) -> int:
        value = self._values.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._refusal(name, value)
        return value

    def flag(self, name: str) -> bool:
        value = self._values.get(name)
        if not isinstance(value, bool):
            raise self._refusal(name, value)
        return value

    def mapping(self, name: str) -> Mapping[str, Value]:
        value = self._values.get(name)
        if not isinstance(value, dict):
            raise self._refusal(name, value)
        return value

    def part(self, name: str) -> SavedNumbers:
        """Numbers within these."""
        return SavedNumbers(self.mapping(name))

    def parts(self, name: str, count: int) -> list[SavedNumbers]:
        """So many of them, one for each problem."""
        value = self._values.get(name)
        if not isinstance(value, list) or len(value) != count:
            raise self._refusal(name, value)
        return [SavedNumbers(each if isinstance(each, dict) else {}) for each in value]

    def into(self, values: D) -> D:
        """A dataclass of numbers with those that were saved, by its fields' names: each of the type that the field
        has in ``values``, where None stands for a float that there may not be."""
        typed = {float: self.real, int: self.whole, bool: self.flag, NoneType: self._real_or_none}
        return replace(values, **{name: typed[type(value)](name) for name, value in asdict(values).items()})

    def _real_or_none(self, name: str) -> float | None:
        return None if self._values.get(name) is None else self.real(name)

    @staticmethod
    def _refusal(name: str, value: Value) -> UsageError:
        return UsageError(
            f"the saved state does not belong to this run: {name!r} is {value!r}; continue with the data and "
            "options it was saved with"
        )
