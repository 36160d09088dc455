"""The file of a trace (llsvm/process/trace.py)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from llsvm.errors import UsageError
from llsvm.files.remote import is_remote
from llsvm.files.writing import naming, refuse_stdout
from llsvm.process.trace import trace, traced_by


@contextmanager
def tracing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Write what training decides, and why, to ``path``: a line of JSON for each decision, as it is made.

    A context manager for whatever trains within it, in this process. What is at ``path`` is overwritten, and each
    line is in the file at once. ``llsvm guide trace`` explains the lines.

    Raises
    ------
    UsageError, DiskError
        The file cannot be opened. If it cannot be written later (a full disk), the trace ends there, training goes
        on, and DiskError is raised at the end of the block.
    """
    if is_remote(os.fspath(path)):
        raise UsageError(f"{os.fspath(path)}: a trace is written line by line; name a file on this machine")
    refuse_stdout(path)
    with naming(path):
        stream = open(path, "w", encoding="utf-8")  # noqa: SIM115
    failures = list[OSError]()

    def write(line: str) -> None:
        if failures:
            return
        try:
            with naming(path):
                stream.write(line)
                stream.flush()
        except OSError as error:  # DiskError is one
            failures.append(error)

    try:
        with traced_by(write):
            try:
                yield
            except BaseException as error:
                trace("run.failed", error=type(error).__name__, why=str(error))
                raise
    finally:
        with suppress(OSError):  # what a failed write has left in the buffer
            stream.close()
    if failures:
        raise failures[0]
