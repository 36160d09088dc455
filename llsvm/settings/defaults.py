"""What "auto" of scale and bias has made of a table, for people to read."""

from __future__ import annotations

from llsvm.settings.features import AUTO
from llsvm.settings.settings import Settings

_SCALED = {"standard": "mean 0 and variance 1", "maxabs": "at most 1"}


def said_of_defaults(chosen: Settings, is_table: bool) -> str:
    """What "auto" of scale and bias has made of a table, in a sentence; "" where they change nothing."""
    if not is_table:
        return ""
    settings, words, undo = chosen.resolved(is_table), [], []
    if chosen.scale == AUTO and settings.scale in _SCALED:
        words.append(f"columns scaled to {_SCALED[settings.scale]}")
        undo.append("--scale none")
    if chosen.bias == AUTO and settings.bias:
        words.append(f"bias {settings.bias:g}")
        undo.append("--bias 0")
    if chosen.target_scale == AUTO and settings.target_scale == "standard":
        words.append("labels scaled to mean 0 and variance 1")
        undo.append("--target-scale none")
    if not words:
        taken_raw = chosen.takes_rows_as_they_are and chosen.scale == AUTO
        if not taken_raw:
            return ""
        return (
            "table: columns as they are (a kernel or a feature map takes no --scale: bring columns of unlike "
            "ranges to like ones before)"
        )
    as_they_are = "none" if undo == ["--bias 0"] else "the columns as they are"
    return f"table: {', '.join(words)} ({' '.join(undo)} for {as_they_are})"
