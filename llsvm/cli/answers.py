"""What a command answers when it ends, in whatever way: one message on standard error and an exit code."""

from __future__ import annotations

import functools
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import typer

from llsvm.errors import EXIT_BAD_INPUT, EXIT_INTERNAL, EXIT_LIMIT, LLSVMError
from llsvm.files import NO_ROOM

EXIT_SIGNAL = 128  # plus the signal's number, as shells have it: 130 for Ctrl-C, 143 for kill
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """A signal asks to stop. Raised where the program is, so that every context manager cleans up."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def answering(command: Callable[..., int | None]) -> Callable[..., None]:
    """``command`` with its errors turned into messages and exit codes; an int it returns is the exit code."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        if not gc.isenabled():  # see ``main``
            gc.freeze()  # what the command line is made of stays: no collection need look at it again
            gc.enable()
        try:
            with _signals_raise():
                code = command(*args, **kwargs) or 0
                if sys.stdout is not None:  # closed by the caller
                    sys.stdout.flush()
        except Exception as error:
            code = _explained(error)
        except KeyboardInterrupt as error:
            number = error.number if isinstance(error, Stopped) else int(signal.SIGINT)
            _say(f"stopped by {signal.Signals(number).name}: temporary files are removed, outputs untouched")
            code = EXIT_SIGNAL + number
        raise typer.Exit(code)

    return run


def _explained(error: Exception) -> int:
    """Say what happened on standard error and return the exit code."""
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        _give_up_output()
        return EXIT_SIGNAL + int(signal.SIGPIPE)
    if os.environ.get("LLSVM_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, LLSVMError):
        _say(f"error: {error}")
        return error.exit_code
    if isinstance(error, MemoryError):
        _say("error: the system has no memory left; pass a smaller --memory, or free some")
        return EXIT_LIMIT
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        _give_up_output()
        _say(f"error: {error.filename or 'standard output'}: {error.strerror}; free some space")
        return EXIT_LIMIT
    if isinstance(error, OSError) and error.filename is not None:
        _say(f"error: {error.filename}: {error.strerror}")
        return EXIT_BAD_INPUT
    what = f"{type(error).__name__}: {error}"
    _say(f"internal error: {what} (a bug in llsvm; LLSVM_DEBUG=1 shows the traceback)")
    return EXIT_INTERNAL


def _give_up_output() -> None:
    """The interpreter flushes standard output once more at its end: let that succeed, into nowhere."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(message: str) -> None:
    with suppress(OSError):
        typer.echo(f"llsvm: {message}", err=True)


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Within, the first SIGINT, SIGTERM or SIGHUP raises Stopped, and later ones wait for the clean-up."""

    def stop(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(number)

    # What the caller has us ignore (nohup: SIGHUP; a background job: SIGINT) stays ignored.
    before = {each: signal.getsignal(each) for each in _SIGNALS}
    before = {each: handler for each, handler in before.items() if handler is not signal.SIG_IGN}
    for each in before:
        signal.signal(each, stop)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
