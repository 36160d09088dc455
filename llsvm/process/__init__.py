"""Process that the program runs in: signals, threads, libraries, trace, work, and text that a terminal shows."""

VERSION = "0.1.0"  # of this package, as in pyproject.toml


def printable(text: str, keep: str = "") -> str:
    """Return ``text`` with all that a terminal would obey, or not show, escaped: control characters and escape
    sequences as \\x1b, bidirectional marks as \\u202e, bytes that are no text as \\udc80.

    Names, labels and paths come from data and models of strangers. keep: characters that stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)
