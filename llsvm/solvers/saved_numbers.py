"""SavedNumbers: what a state holds beside arrays, taken out with its type, or refused."""

from __future__ import annotations

from collections.abc import Mapping

from llsvm.errors import UsageError
from llsvm.solvers.state import Value


class SavedNumbers:
    """Values by name. All methods raise UsageError where there is no such value of that type."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values

    def has(self, name: str) -> bool:
        """Is there anything of that name?"""
        return self._values.get(name) is not None

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

    @staticmethod
    def _refusal(name: str, value: Value) -> UsageError:
        return UsageError(
            f"the saved state does not belong to this run: {name!r} is {value!r}; continue with the data and "
            "options it was saved with"
        )
