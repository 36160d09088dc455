"""Leftovers: what must be cleared away when a signal ends the process between any two of its instructions.

Whoever makes something that must not outlive the process (a temporary file, a folder, a hidden cursor) says here,
before it makes it, how to undo it. On every ordinary exit it undoes it itself; ``clear`` is for the other kind.

An action runs in a thread of its own while all others go on. So it removes names and closes nothing, whose number
another file would get; and it does not mind if there is nothing to remove.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Action = Callable[[], object]

_actions: dict[int, Action] = {}
_keys = itertools.count()
_clearing = False
_AGAIN_SECONDS = 0.02


def expect(action: Action) -> int:
    """Run ``action`` if the process ends by a signal; returns the key to ``forget`` it by.

    Once clearing has begun this never returns: nothing new is to be made.
    """
    if _clearing:
        threading.Event().wait()
    key = next(_keys)
    _actions[key] = action
    return key


def forget(key: int) -> None:
    _actions.pop(key, None)


@contextmanager
def expected(action: Action) -> Iterator[None]:
    """Run ``action`` if the process ends by a signal within this context."""
    key = expect(action)
    try:
        yield
    finally:
        forget(key)


def clear() -> None:
    """Run all actions, the newest first, twice: a thread may have been about to make what it had announced."""
    global _clearing
    _clearing = True
    for pause in (_AGAIN_SECONDS, 0.0):
        for _, action in sorted(_actions.items(), reverse=True):
            with suppress(Exception):
                action()
        time.sleep(pause)
