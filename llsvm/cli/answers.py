"""Answer of a command when it ends, in whatever way: one message on standard error and an exit code."""

from __future__ import annotations

import functools
import gc
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from errno import ENOMEM
from typing import Any

import typer

from llsvm.errors import (
    EXIT_BAD_INPUT,
    EXIT_INTERNAL,
    EXIT_LIMIT,
    LLSVMError,
    LLSVMWarning,
    UsageError,
    options_as_typed,
)
from llsvm.files.writing import NO_PLACE, NO_ROOM, room_for
from llsvm.process import printable
from llsvm.process.loading import is_of_loading, loading_blas
from llsvm.process.signals import EXIT_SIGNAL, finish, sentence

_LIBRARY = (".py", ".pyc", ".so")
_NO_CACHE = "no locator available"  # as numba says it
_READ, _WRITTEN = ("test", "validation"), ("model", "plot", "save_run")  # files, beside those that train
_NO_THREAD = ("start new thread", "launch worker thread")  # as Python and pyarrow say it


def answering(command: Callable[..., int | None], loads_numpy: bool = True) -> Callable[..., None]:
    """Return the command with its errors turned into messages and exit codes; an int it returns is the exit code.
    loads_numpy: it needs NumPy, which is then loaded first of all."""

    @functools.wraps(command)
    @options_as_typed()
    def run(*args: Any, **kwargs: Any) -> None:
        if not gc.isenabled():  # see ``main``
            gc.freeze()  # what the command line is made of stays: no collection need look at it again
            gc.enable()
        try:
            if loads_numpy:
                with loading_blas():
                    import numpy  # noqa: F401
            with _limited(kwargs.get("memory_limit")), _traced(kwargs):
                code = command(*args, **kwargs) or 0
            if sys.stdout is not None:  # closed by the caller
                sys.stdout.flush()
            finish()
        except Exception as error:
            finish()
            code = explain_error(error)
        except KeyboardInterrupt:  # in a program that is not our own
            say(sentence(signal.SIGINT))
            code = EXIT_SIGNAL + signal.SIGINT
        raise typer.Exit(code)

    return run


def _limited(memory_limit: Any) -> AbstractContextManager[None]:
    """Open data within this context under the limit that a command was given."""
    if not isinstance(memory_limit, str):
        return nullcontext()
    from llsvm.memory.budget import opening_under
    from llsvm.memory.sizes import memory_limit_bytes

    return opening_under(memory_limit_bytes(memory_limit))


def _traced(arguments: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Trace the whole command, with its errors, to the file that ``--trace`` names. Raises UsageError,
    DiskError."""
    path = arguments.get("trace")
    if path is None:
        return nullcontext()
    from llsvm.cli.options import check_output
    from llsvm.files.tracing import tracing

    read, written = (filter(None, map(arguments.get, names)) for names in (_READ, _WRITTEN))
    check_output(path, [*arguments["data"], *read])
    if any(os.path.realpath(path) == os.path.realpath(each) for each in written):
        raise UsageError(f"--trace {path}: another option has this file written; choose another name")
    return tracing(path)


_warn = warnings.showwarning


def show_warning(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
    """Show a warning of ours in a sentence, others as ever."""
    if issubclass(category, LLSVMWarning):
        say(f"warning: {message}")
    else:
        _warn(message, category, *where, **more)


def explain_error(error: Exception) -> int:
    """Say what happened on standard error and return the exit code."""
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        _give_up_output()
        return EXIT_SIGNAL + int(signal.SIGPIPE)
    if os.environ.get("LLSVM_DEBUG"):
        traceback.print_exception(error)
    if refusal := _refusal(error):
        say(f"error: {refusal}")
        return EXIT_LIMIT
    if isinstance(error, LLSVMError):
        say(f"error: {error}")
        return error.exit_code
    if isinstance(error, OSError):
        return _explained_system(error)
    what = f"{type(error).__name__}: {error}"
    say(f"internal error: {what} (a bug in llsvm; LLSVM_DEBUG=1 shows the traceback)")
    return EXIT_INTERNAL


def _refusal(error: BaseException | None) -> str:
    """Return in a sentence what the system has refused, whatever became of that on its way; "" for nothing."""
    while error is not None:
        ours = isinstance(error, LLSVMError)
        if not ours and (isinstance(error, MemoryError) or _number(error) == ENOMEM):
            return "the system has no memory left; pass a smaller --memory-limit, or free some"
        if not ours and any(words in str(error) for words in _NO_THREAD):
            return (
                "the system starts no more threads; end other programs, raise the limit (ulimit -u, or the "
                "container's), or pass --threads 1 where the command takes it"
            )
        if is_of_loading(error) or _NO_CACHE in str(error):
            return (
                f"a library cannot be loaded or has failed: {error}; memory may be short, the disk may be failing, "
                "or the installation be damaged"
            )
        error = error.__cause__ or (None if ours else error.__context__)
    return ""


def _number(error: BaseException) -> int | None:
    return error.errno if isinstance(error, OSError) else None


def _explained_system(error: OSError) -> int:
    """Explain an error of the system about a file, or anything else that was asked of it."""
    reason = error.strerror or str(error) or type(error).__name__
    if error.errno in NO_ROOM:
        _give_up_output()
        say(f"error: {error.filename or 'standard output'}: {reason}; {room_for(error)}")
        return EXIT_LIMIT
    if error.filename is not None:
        say(f"error: {error.filename}: {reason}")
        of_library = str(error.filename).endswith(_LIBRARY)
        return EXIT_BAD_INPUT if error.errno in NO_PLACE and not of_library else EXIT_LIMIT
    say(f"error: the system has refused what was asked of it, or a disk fails: {reason}")
    return EXIT_LIMIT


def _give_up_output() -> None:
    """Let the interpreter's last flush of standard output succeed, into nowhere."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(message: str) -> None:
    with suppress(OSError):
        typer.echo(f"llsvm: {printable(message)}", err=True)
