"""Text that reaches a terminal."""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    """``text`` with all that a terminal would obey, or not show, escaped: control characters and escape sequences
    as \\x1b, bidirectional marks as \\u202e, bytes that are no text as \\udc80.

    Names, labels and paths come from data and models of strangers. keep: characters that stay.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode()
        for each in text
    )
