"""Dates, times and spans of time that name a label: the text that a label of that value has."""

from __future__ import annotations

import re
from datetime import date, time, timedelta
from typing import Any

_DAY = 86_400 * 10**9  # nanoseconds
_ZEROS = re.compile(r"(\.\d*[1-9])0+(?=$|[^0-9])|\.0+(?=$|[^0-9])")  # at the end of a fraction
_COARSE = ("[Y]", "[M]", "[W]", "[D]", "[h]", "[m]")  # units of NumPy without seconds


def time_as_text(value: Any) -> str | None:
    """The text of a label that is that date, time or span of time, of Python, NumPy or pandas; None for others."""
    kind = type(value).__name__
    rest = value.nanoseconds if kind == "Timedelta" else 0  # of pandas; Python's spans have none
    if kind == "timedelta64":
        try:
            return span_as_text(int(value.astype("m8[ns]").astype("i8")))
        except TypeError:  # months have no length
            return str(value)
    if isinstance(value, timedelta):
        nanoseconds = (value.days * 86_400 + value.seconds) * 10**9 + value.microseconds * 1000
        return span_as_text(nanoseconds + rest)
    if kind == "datetime64":
        text = str(value.astype("M8[s]") if value.dtype.name.endswith(_COARSE) else value).replace("T", " ")
    elif isinstance(value, date | time):
        text = str(value)
    else:
        return None
    text = re.sub(r"([+-]\d\d):(\d\d)$", r"\1\2", _ZEROS.sub(lambda found: found[1] or "", text))  # of a zone
    text = re.sub(r"\+0000$", "Z", text)
    return text.removesuffix(" 00:00:00")


def span_as_text(nanoseconds: int) -> str:
    """A span of time as pandas writes it."""
    days, rest = divmod(nanoseconds, _DAY)
    seconds, fraction = divmod(rest, 10**9)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    digits = f".{fraction:09}".removesuffix("000") if fraction else ""
    return f"{days} days {'+' * (days < 0)}{clock}{digits}"
