"""A feature column of a table, and the sort of its numbers: values of two sorts cannot stand in one column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Sort(StrEnum):
    """Sort of quantity that numbers stand for."""

    NUMBER = "number"
    DATE = "date"  # or a time without a zone: a date is its midnight
    ZONED = "time with a zone"
    CLOCK = "time of day"
    SPAN = "span of time"
    ANY_TIME = "date or time"  # of a model whose file does not say which

    def includes(self, other: Sort | None) -> bool:
        """Return whether values of another sort can stand in a column of this one. None: all of them are
        missing."""
        return other in (None, self) or (self is Sort.ANY_TIME and other is not Sort.NUMBER)

    @property
    def example(self) -> str:
        """Return an example as text spells it; text cannot spell spans of time."""
        return _EXAMPLES.get(self, "2024-01-31")

    @property
    def plural(self) -> str:
        """Such values, in words."""
        return _PLURALS[self]


_EXAMPLES = {Sort.NUMBER: "1234.5", Sort.ZONED: "2024-01-31 12:30:00Z", Sort.CLOCK: "12:30"}
_PLURALS = {
    Sort.NUMBER: "numbers that are no dates",
    Sort.DATE: "dates or times without a zone",
    Sort.ZONED: "times with a zone",
    Sort.CLOCK: "times of day",
    Sort.SPAN: "spans of time",
    Sort.ANY_TIME: "dates or times",
}


def remedy_for(sort: Sort | None) -> str:
    """Return what to do where numbers of that sort are expected."""
    if sort == Sort.SPAN:
        return "hand it over with a type that has them, as Parquet and data frames do"
    return "write plain numbers" if sort in (None, Sort.NUMBER) else f"write them as {sort.example}"


LISTS = ("vector", "indices", "values", "struct")  # kinds of columns that hold arrays


@dataclass(frozen=True, slots=True)
class Column:
    """A feature column.

    name: in the table.
    kind: "number", "text" (categories), "document", "vector", "indices", "values" or "struct".
    width: numbers in each value of a vector.
    sort: of numbers; None where a model's file does not say, or all values were missing.
    """

    name: str
    kind: str
    width: int = 1
    sort: Sort | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Column:
        """Return the column that a model's file describes. The first files say nothing of sorts, later ones whether
        the numbers are those of dates or times."""
        sort = values.get("sort")
        if (dates := values.get("dates")) is not None:
            sort = Sort.ANY_TIME if dates else Sort.NUMBER
        return cls(values["name"], values["kind"], values["width"], None if sort is None else Sort(sort))
