"""Documents as estimators are given them: lists, arrays and columns of text, and data frames with such columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Sized
from typing import Any, Literal

from llsvm.data.held_table import columns_of_text
from llsvm.errors import UsageError
from llsvm.features.frames import as_frame, column_names
from llsvm.settings.kinds import plain
from llsvm.settings.option import TEXT
from llsvm.settings.settings import OPTIONS

COLUMN = "text"  # of documents that have no other name
TEXT_OPTIONS = (
    *(name for name, each in OPTIONS.items() if each.group == TEXT and name != "encoding"),
    "hash_bits",
    "cross",
    "categorical",
    "missing",
    "scale",
    "target_scale",
)
Text = bool | str | Sequence[str]


def text_of(text: Text | None) -> Literal[True] | tuple[str, ...]:
    """The parameter ``text``: True, or names. Raises UsageError."""
    given = plain(text)
    if given is True:
        return True
    if isinstance(given, str):
        return (given,)
    if given is None or given is False:
        return ()
    if not isinstance(given, list | tuple | set) or not all(isinstance(each, str) for each in given):
        raise UsageError(f"text must be True, or names of columns, not {text!r}")
    return tuple(given)


def names_columns(text: Text | None, cross: Any) -> bool:
    """Do the parameters ``text`` and ``cross`` make features of columns? Raises UsageError."""
    return bool(text_of(text)) or bool(plain(cross))


def is_documents(X: Any) -> bool:
    """Is it a list, an array or a Series of text?"""
    if len(getattr(X, "shape", (0,))) != 1 or not isinstance(X, Collection) or isinstance(X, str | bytes):
        return False
    there = (each for each in X if each is not None and (isinstance(each, Sized) or each == each))
    return isinstance(next(there, None), str)


def with_columns(text: Text, X: Any) -> tuple[Any, tuple[str, ...]]:
    """X, documents as a data frame, and its columns that the parameter ``text`` means. Raises UsageError."""
    given = text_of(text)
    if given is not True:
        return X, given
    columns = _only_column(X)
    return as_frame(X, columns[0]), columns


def _only_column(X: Any) -> tuple[str, ...]:
    names = column_names(X, ("0",))
    if names is None:
        return (COLUMN,)
    if len(names) != 1:
        of_text = columns_of_text(X)
        remedy = f"name those of text, text=[{of_text[0]!r}]" if of_text else "leave it out: none is of text"
        raise UsageError(f"text=True is for documents alone, and X has {len(names)} columns: {remedy}")
    return names
