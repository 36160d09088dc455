"""Solver: the protocol that every method keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from llsvm.solvers.report import Report
from llsvm.stream.stream import Stream


class Solver(Protocol):
    """A generator of passes. Whoever iterates shows the progress and stops on time.

    The last report's ``coef`` and ``certificate`` are the result. A solver holds no large array that
    ``stream.prepare`` was not told of, and reads rows through the stream only.
    """

    def solve(self, stream: Stream) -> Iterator[Report]:
        """Passes over a stream that has been read; ends when converged, or out of passes."""
        ...
