"""What is kept from one run to the next of the same program, which begins where that has come to.

No run goes on as if it were the one before, and none is refused: it begins at the dual variables of the rows
that it has in common with that; where there are none, anew.
"""

from __future__ import annotations

from typing import Any

from llsvm.models.model import Model
from llsvm.state.beginning import Beginning, beginning
from llsvm.state.checkpoints import Checkpoints
from llsvm.state.earlier_runs import EarlierRuns
from llsvm.state.folder import StateFolder
from llsvm.state.record import Record


class _RunsOfProgram(EarlierRuns):
    """Runs whose dual variables are all that is taken from them."""

    def _open(self) -> None:
        super()._open()
        self.saved = self._state = None

    def require_settings(self, settings: dict[str, Any]) -> None:
        """All are taken."""

    def beginning(self, now: Record) -> Beginning | None:
        """See EarlierRuns; other rows are rows to begin anew with."""
        return beginning(self._runs, now)

    def result_of(self, settings: dict[str, Any], data: dict[str, Any]) -> tuple[Model, Record, str] | None:
        """None: its passes are made, which are few where nothing has changed."""
        return None


class LastRun(Checkpoints):
    """Checkpoints of such runs. See the file's head."""

    def __init__(self, folder: StateFolder, classes_known: bool = False) -> None:
        """folder: locked. classes_known: see Checkpoints. Raises DataError where what is there is damaged."""
        super().__init__(folder, _RunsOfProgram(folder), classes_known=classes_known)

    def sync_newest(self) -> str:
        """Nobody is told of a folder that is gone with the program."""
        super().sync_newest()
        return ""
