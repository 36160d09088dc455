"""Every error a user can cause, each with the exit code that the command line answers it with.

A message says what failed, where, the numbers and the remedy, in one or two sentences.
"""

from __future__ import annotations

from collections.abc import Mapping

EXIT_CONVERGED = 0
EXIT_INTERNAL = 1
EXIT_USAGE = 2
EXIT_BAD_INPUT = 3
EXIT_LIMIT = 4
EXIT_NOT_CONVERGED = 5
EXIT_SPILL = 6
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


class LLSVMWarning(UserWarning):
    """Something beside the result went wrong; the result is what was asked for."""


class LLSVMError(Exception):
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
        return type(self), (str(self), self.row_bytes)


class ModelError(DataError):
    """A model file cannot be read, or does not fit what is asked of it."""


class CertificateError(LLSVMError, ArithmeticError):
    """What was measured is no proof: an objective that is not finite, or a dual above the primal."""


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
        held = "; ".join(f"{name} {nbytes / mb:,.1f} MB" for name, nbytes in self.lines.items())
        least, more = "", "more"
        if at_least:
            least, more = "at least ", "rather more: the rest is known once the data have been read"
        super().__init__(
            f"memory limit too small for {what}: the limit is {limit_bytes / mb:,.0f} MB "
            f"and {least}{smallest_mb:,} MB are needed ({held}); pass --memory-limit {smallest_mb}MB or {more}"
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
