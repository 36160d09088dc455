"""Trace: decisions of a run and the numbers behind them, each as a line of JSON; off by default.

``--trace FILE`` and ``llsvm.tracing`` turn it on (llsvm/files/tracing.py); ``llsvm guide trace`` lists the events.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_write: Callable[[str], object] | None = None
_began = 0.0  # by time.monotonic
_lock = threading.RLock()


def trace(event: str, /, **facts: Any) -> None:
    """Record a decision. Facts are numbers, texts, and lists and mappings of these; sizes end in ``bytes``."""
    if (write := _write) is not None:
        said = _plain(facts)
        with _lock:  # so that lines of several threads are in the order of their times
            seconds = round(time.monotonic() - _began, 6)
            write(json.dumps({"seconds": seconds, "event": event, **said}, allow_nan=False) + "\n")


def is_tracing() -> bool:
    """Return whether events are recorded: facts that cost something are worked out only then."""
    return _write is not None


@contextmanager
def traced_by(write: Callable[[str], object]) -> Iterator[None]:
    """Give ``write`` a line of text for each event within this context, from any thread, one at a time."""
    global _write, _began
    before = _write, _began
    _write, _began = write, time.monotonic()
    try:
        yield
    finally:
        _write, _began = before


def _plain(value: Any) -> Any:
    """Return ``value`` as JSON has it; NaN and infinities become null."""
    if hasattr(value, "tolist"):  # NumPy's
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
