"""Files that may be set not to block: O_NONBLOCK belongs to the open file, which another program may share."""

from __future__ import annotations

import io
import select
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Waiting(io.FileIO):
    """A file whose reads wait for data and whose writes wait for room, whether it is set to block or not."""

    def readinto(self, buffer: Any) -> int:
        return self._waited(lambda: super(Waiting, self).readinto(buffer), select.POLLIN)

    def read(self, size: int | None = -1) -> bytes:
        return self._waited(lambda: super(Waiting, self).read(size), select.POLLIN)

    def write(self, data: Any) -> int:
        return self._waited(lambda: super(Waiting, self).write(data), select.POLLOUT)

    def _waited(self, attempt: Callable[[], T | None], event: int) -> T:
        """What the attempt returns once it is not None, which stands for "not now"."""
        while (done := attempt()) is None:
            poll = select.poll()
            poll.register(self, event)
            poll.poll()
        return done
