"""LastRun: what is kept from one run to the next of the same program, which begins where that has come to.

Other than with Checkpoints, of which it is a case, no run goes on as if it were the one before, and none is
refused: it begins at the dual variables of the rows that it has in common with that; where there are none, anew.
"""

from __future__ import annotations

from typing import Any

from llsvm.models.model import Model
from llsvm.state.beginning import Beginning
from llsvm.state.checkpoints import Checkpoints
from llsvm.state.record import Record


class LastRun(Checkpoints):
    """See the file's head, and Checkpoints."""

    def _open(self) -> None:
        super()._open()
        self.saved = self._state = None

    def require_settings(self, settings: dict[str, Any]) -> None:
        """All are taken."""
        self._most_passes = settings["max_passes"]

    def beginning(self, now: Record) -> Beginning | None:
        """See Checkpoints; other rows are rows to begin anew with."""
        return self._beginning(now)

    def result_of(self, settings: dict[str, Any], data: dict[str, Any]) -> tuple[Model, Record, str] | None:
        """None: its passes are made, which are few where nothing has changed."""
        return None

    def sync_newest(self) -> str:
        """Nobody is told of a folder that is gone with the program."""
        super().sync_newest()
        return ""
