"""The ``llsvm`` program, also ``python -m llsvm``: signals are answered before anything else is loaded."""

from __future__ import annotations

import io
import os
import sys
from errno import EPIPE
from typing import Any

from llsvm.files.file_objects import Waiting
from llsvm.process.loading import is_of_loading
from llsvm.process.signals import watch


class _StandardError(Waiting):
    """Standard error, which never ends a run: what a full disk or a terminal that has gone does not take is lost.
    A reader that went away is another matter: it has seen enough."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno == EPIPE:
                raise
            return len(data)


def _prepare_standard_files() -> None:
    """Nothing of ours gets the number of a standard file that the caller has closed: what is meant for standard
    error would be written into it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
    encoding = "utf-8" if sys.stderr is None else sys.stderr.encoding
    sys.stderr = _text(_StandardError(2, "w", closefd=False), encoding, "backslashreplace", lines=True)
    if isinstance(out := sys.stdout, io.TextIOWrapper):  # None where the caller has closed it
        encoding = out.encoding if out.isatty() else "utf-8"  # as in files; a terminal may have another
        sys.stdout = _text(
            Waiting(1, "w", closefd=False), encoding, "backslashreplace", lines=out.line_buffering
        )


def _text(file: Waiting, encoding: str, errors: str | None, lines: bool) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedWriter(file), encoding, errors, line_buffering=lines)


def main() -> None:
    """Run a command and exit with its code."""
    import atexit
    from contextlib import suppress

    code: object = 0
    try:
        _prepare_standard_files()
        watch()
        from llsvm.cli import main as run

        run()
    except SystemExit as ended:
        code = ended.code
    except Exception as error:  # before any command could answer
        if not isinstance(error, MemoryError | OSError) and not is_of_loading(error):
            raise
        code = 4
        with suppress(OSError):
            os.write(2, f"llsvm: error: the system refuses to load the program: {error}\n".encode())
    # The interpreter's own way out takes its modules apart for a while, in which signals are not answered.
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    main()
