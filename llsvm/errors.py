"""Every error a user can cause, each with the exit code that the command line answers it with.

A message says what failed, where, the numbers and the remedy, in one or two sentences. It names options as the
command line does, ``--memory-limit``; whoever shows it to somebody who writes Python shows them as Python has them,
``memory_limit``: ``str`` of an error or a warning does, but in the command line's own process. Other sentences that
name options (notes, advice) go through ``in_python``. What stands in `backquotes` is left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

EXIT_CONVERGED = 0
EXIT_INTERNAL = 1
EXIT_USAGE = 2
EXIT_BAD_INPUT = 3
EXIT_LIMIT = 4
EXIT_NOT_CONVERGED = 5
EXIT_SPILL = 6
EXIT_REFUTED = 7
EXIT_WORSE = 8


_OPTION = re.compile(r"`[^`]*`|(?<![^\s(])(?:--(no-)?([a-z][a-z0-9]*(?:-[a-z0-9]+)*)|-(C)\b)")
_as_typed = False  # are messages for somebody who types options?


@contextmanager
def options_as_typed() -> Iterator[None]:
    """Within, ``str`` of errors and warnings leaves options as the command line has them."""
    global _as_typed
    before, _as_typed = _as_typed, True
    try:
        yield
    finally:
        _as_typed = before


def in_python(sentence: str, names: Mapping[str, str] | None = None) -> str:
    """The sentence with options as Python has them. names: of what is called otherwise there: name -> that."""

    def named(match: re.Match[str]) -> str:
        if match[0].startswith("`"):
            return match[0]
        name = match[3] or match[2].replace("-", "_")
        return (names or {}).get(name, name) + ("=False" if match[1] else "")

    return _OPTION.sub(named, sentence)


class _NamesOptions:
    """Mixin for messages that name options: ``str`` has them as Python does, but in the command line's own process.

    names: see ``in_python``.
    """

    names: Mapping[str, str] | None = None

    def __str__(self) -> str:
        sentence = super().__str__()
        return sentence if _as_typed else in_python(sentence, self.names)


class LLSVMWarning(_NamesOptions, UserWarning):
    """Something beside the result went wrong; the result is what was asked for."""


class LLSVMError(_NamesOptions, Exception):
    """Base of all errors that llsvm raises on purpose. ``exit_code`` is the command line's exit status."""

    exit_code = EXIT_INTERNAL


class UsageError(LLSVMError, ValueError):
    """An option, or a combination of options, that makes no sense."""

    exit_code = EXIT_USAGE


class DataError(LLSVMError, ValueError):
    """The input cannot be read as what it claims to be: bad row, bad label, empty file, single class."""

    exit_code = EXIT_BAD_INPUT


class LongRowError(DataError):
    """A row is longer than the blocks that were asked for allow. ``row_bytes``: blocks of so many would do."""

    def __init__(self, message: str, row_bytes: int) -> None:
        super().__init__(message)
        self.row_bytes = row_bytes

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (*self.args, self.row_bytes)


class MissingColumnError(DataError):
    """Data have no column (or array) that an option names. ``column``: as it was named. ``option``: its name."""

    def __init__(self, what: str, column: str, option: str, there: str) -> None:
        """what: what is missing, and where. there: what there is instead."""
        super().__init__(f"{what} {column!r} (--{option}); {there}")
        self.column, self.option = column, option
        self._what, self._there = what, there

    def with_option(self, option: str) -> MissingColumnError:
        """The same, where another option has named the column."""
        return MissingColumnError(self._what, self.column, option, self._there)

    def with_hint(self, hint: str) -> MissingColumnError:
        """The same, with more on what there is."""
        return MissingColumnError(self._what, self.column, self.option, f"{self._there}; {hint}")

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self._what, self.column, self.option, self._there)


class ModelError(DataError):
    """A model file cannot be read, or does not fit what is asked of it."""


class CertificateError(LLSVMError, ArithmeticError):
    """The measured objectives prove nothing: one of them is not finite, or a dual is above its primal."""


class BudgetError(LLSVMError, MemoryError):
    """The memory limit is too small.

    Attributes: ``limit_bytes``, ``smallest_bytes`` (the smallest limit that works), ``lines`` (what would be held,
    in bytes) and ``at_least`` (more may be needed than that: it is not known before the data have been read, and
    reading them does not fit the limit).
    """

    exit_code = EXIT_LIMIT

    def __init__(
        self,
        what: str,
        limit_bytes: int,
        smallest_bytes: int,
        lines: Mapping[str, int] | None = None,
        at_least: bool = False,
    ) -> None:
        self.what = what
        self.limit_bytes = limit_bytes
        self.smallest_bytes = smallest_bytes
        self.lines = dict(lines or {})
        self.at_least = at_least
        mb = 1_000_000
        smallest_mb = -(-smallest_bytes // mb)
        shown = [(name, nbytes / mb) for name, nbytes in self.lines.items() if nbytes >= 0.05 * mb]
        held = "; ".join(f"{name} {size:,.1f} MB" for name, size in shown) or "hardly anything yet"
        limit = f"{limit_bytes / mb:.0f} MB"
        if limit_bytes < mb:
            limit = f"{limit_bytes:,} bytes (a number without a unit means bytes)"
        qualifier, more = "", "more"
        if at_least:
            qualifier, more = "at least ", "rather more: the rest is known once the data have been read"
        super().__init__(
            f"memory limit too small for {what}: the limit is {limit} "
            f"and {qualifier}{smallest_mb} MB are needed ({held}); pass --memory-limit {smallest_mb}MB or {more}"
        )

    def as_least(self) -> BudgetError:
        """The same, saying that more may be needed."""
        return BudgetError(self.what, self.limit_bytes, self.smallest_bytes, self.lines, at_least=True)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.what, self.limit_bytes, self.smallest_bytes, self.lines, self.at_least)


class DiskError(LLSVMError, OSError):
    """The spill folder cannot hold what must be written: disk full, disk limit reached, not writable."""

    exit_code = EXIT_LIMIT


class SpillError(LLSVMError):
    """A spill or cache file is damaged: truncated, or its bytes do not match their checksum."""

    exit_code = EXIT_SPILL


def counted(n: int, noun: str) -> str:
    """A number of things in words: 1 row, 2,000 rows."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
