"""Signals: SIGINT, SIGTERM and SIGHUP end the program within a second, from its first line to its last.

An exception raised by a signal's handler is lost where it meets a callback of compiled code, and comes late where a
compiled call takes long. So no handler raises: the interpreter's own part in C writes the signal's number into a
pipe, and a thread that waits there ends the process: it has the model so far written, runs the cleanups, says one
sentence and exits, whatever the other threads are at.

Whoever makes something that must not outlive the process (a temporary file, a folder, a hidden cursor) registers
here, before it makes it, how to undo it. On every ordinary exit it undoes it itself. A cleanup runs in a thread of
its own while all others go on. So it removes names and closes nothing, whose number another file would get; and it
does not mind if there is nothing to remove.
"""

from __future__ import annotations

import itertools
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from llsvm.process import printable

EXIT_SIGNAL = 128  # plus the signal's number, as shells have it: 130 for Ctrl-C, 143 for kill
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE_SECONDS = 0.8
_TELL_SECONDS = 0.2
_AGAIN_SECONDS = 0.02  # between two runs of the cleanups
Cleanup = Callable[[], object]

_cleanups: dict[int, Cleanup] = {}
_keys = itertools.count()
_cleaning = False
_claim = threading.Lock()  # held for good by whoever ends the process: the command, or a signal
_watching = False
_came = threading.Event()  # a signal came
_last_words: list[Callable[[], str]] = []
_number = 0  # of the signal that ends the process


def watch() -> None:
    """Let signals end the process from now on, as the file's head says. Call it first of all, in the main
    thread."""
    global _watching
    if _watching:
        return
    _watching = True
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    # What the caller has us ignore (nohup: SIGHUP; a background job: SIGINT) stays ignored.
    answered = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in answered:
        signal.signal(number, _note)
    try:
        threading.Thread(target=_wait, args=(reader,), name="llsvm-signals", daemon=True).start()
    except RuntimeError:  # no more threads; whatever needs one will say so
        for number in answered:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def last_words(say: Callable[[], str]) -> Iterator[None]:
    """Let a signal within this context first call ``say``, which saves what there is and tells in words what became
    of it."""
    _last_words.append(say)
    try:
        yield
    finally:
        _last_words.remove(say)


def ending() -> signal.Signals:
    """Return the signal that ends the process; for ``last_words``."""
    return signal.Signals(_number)


def finish() -> None:
    """End the time in which signals end the process: the command is done. Does not return where one came before."""
    if _watching and (_came.is_set() or not _claim.acquire(blocking=False)):
        threading.Event().wait()


def sentence(number: int, words: str = "") -> str:
    name = signal.Signals(number).name
    return f"stopped by {name}: temporary files are removed{words or ', outputs are untouched'}"


def tell(text: str) -> None:
    """Write to standard error past all that buffers and locks it; not where a full pipe or a stopped terminal would
    keep us waiting."""
    with suppress(OSError, ValueError):
        if select.select([], [2], [], _TELL_SECONDS)[1]:
            os.write(2, text.encode(errors="backslashreplace"))


def register_cleanup(action: Cleanup) -> int:
    """Run ``action`` if the process ends by a signal; return the key for ``cancel_cleanup``.

    Once cleanups run, this never returns: nothing new is to be made.
    """
    if _cleaning:
        threading.Event().wait()
    key = next(_keys)
    _cleanups[key] = action
    return key


def cancel_cleanup(key: int) -> None:
    _cleanups.pop(key, None)


@contextmanager
def registered_cleanup(action: Cleanup) -> Iterator[None]:
    """Run ``action`` if the process ends by a signal within this context."""
    key = register_cleanup(action)
    try:
        yield
    finally:
        cancel_cleanup(key)


def _run_cleanups() -> None:
    """Run all actions, the newest first, twice: a thread may have been about to make what it had announced."""
    global _cleaning
    _cleaning = True
    for pause in (_AGAIN_SECONDS, 0.0):
        for _, action in sorted(_cleanups.items(), reverse=True):
            with suppress(Exception):
                action()
        time.sleep(pause)


def _note(number: int, frame: FrameType | None) -> None:
    _came.set()


def _wait(reader: int) -> None:
    global _number
    _number = number = os.read(reader, 1)[0]
    _came.set()
    if not _claim.acquire(blocking=False):  # the command is done; let the interpreter come to its end
        time.sleep(_GRACE_SECONDS)
        os._exit(EXIT_SIGNAL + number)
    began = time.monotonic()
    try:
        threading.Thread(target=_end, args=(number,), name="llsvm-end", daemon=True).start()
    except RuntimeError:  # no more threads: in this one, and whoever insists waits
        _end(number)
    while True:
        # whoever insists need not wait for a disk that hangs; a second signal at once is the same one
        again = os.read(reader, 1)[0]
        if time.monotonic() - began > _GRACE_SECONDS:
            os._exit(EXIT_SIGNAL + again)


def _end(number: int) -> None:
    try:
        words = ""
        for say in reversed(_last_words):
            try:
                words += say()
            except Exception as error:
                words += f", no model is written: {error}"
        _run_cleanups()
        tell(f"llsvm: {printable(sentence(number, words))}\n")
    finally:
        os._exit(EXIT_SIGNAL + number)
