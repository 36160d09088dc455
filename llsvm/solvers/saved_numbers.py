"""SavedNumbers: what a state holds beside arrays, taken out with its type, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, cast

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
        return float(self._of_type(name, int, float))

    def whole(self, name: str) -> int:
        return cast(int, self._of_type(name, int))

    def flag(self, name: str) -> bool:
        return cast(bool, self._of_type(name, bool))

    def mapping(self, name: str) -> Mapping[str, Value]:
        return cast(Mapping[str, Value], self._of_type(name, dict))

    def part(self, name: str) -> SavedNumbers:
        """Numbers within these."""
        return SavedNumbers(self.mapping(name))

    def parts(self, name: str, count: int) -> list[SavedNumbers]:
        """So many of them, one for each problem."""
        value = self._of_type(name, list)
        if len(value) != count:
            raise self._refusal(name, value)
        return [SavedNumbers(each if isinstance(each, dict) else {}) for each in value]

    def into(self, values: D) -> D:
        """A dataclass of numbers with those that were saved, by its fields' names: each of the type that the field
        has in ``values``, where None stands for a float that there may not be."""
        typed = {float: self.real, int: self.whole, bool: self.flag, NoneType: self._real_or_none}
        return replace(values, **{name: typed[type(value)](name) for name, value in asdict(values).items()})

    def _real_or_none(self, name: str) -> float | None:
        return None if self._values.get(name) is None else self.real(name)

    def _of_type(self, name: str, *types: type) -> Any:
        value = self._values.get(name)
        if type(value) not in types:  # a bool is an int to isinstance
            raise self._refusal(name, value)
        return value

    @staticmethod
    def _refusal(name: str, value: Value) -> UsageError:
        return UsageError(
            f"the saved state does not belong to this run: {name!r} is {value!r}; continue with the data and "
            "options it was saved with"
        )
