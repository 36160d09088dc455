"""Where a run begins that is not the one that a state is of: at the dual variables of that, as far as its rows are
there still. They are kept as shares α_i / C_i, which are feasible whatever C is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.solvers.state import Shares, ShareSums
from llsvm.state.container import Container
from llsvm.state.folder import LARGEST_COST, SHARES
from llsvm.state.known_rows import KnownRows, known_rows
from llsvm.state.record import MAY_DIFFER, Record
from llsvm.state.result import sums_in
from llsvm.state.solver_state import ROWS

_OF_STATE = ROWS + "share"


@dataclass(frozen=True, slots=True)
class Earlier:
    """A run that the folder knows. part: which of the container has its shares by row; None where there are none
    that mean something without it. sums: of them."""

    record: Record
    container: Container
    part: str | None
    sums: ShareSums | None = None

    @classmethod
    def ended(cls, result: Container) -> Earlier:
        """By its result."""
        by_row = SHARES in result.parts and result.about[LARGEST_COST] is None
        record = Record.of(result.about["record"])
        return cls(record, result, SHARES, sums_in(result)) if by_row else cls(record, result, None)

    @classmethod
    def stopped(cls, state: Container) -> Earlier:
        """By its state."""
        by_row = _OF_STATE in state.parts and LARGEST_COST not in state.about["solver"]["numbers"]
        return cls(Record.of(state.about["record"]), state, _OF_STATE if by_row else None)

    def shares(self, known: KnownRows) -> Shares:
        """Of rows by their number now; 0 of those that are new: the first pass moves them as their margin asks."""
        assert self.part is not None
        name = self.part
        stored = self.container.parts[name]

        def of(rows: NDArray[np.int64]) -> NDArray[np.floating]:
            before = known.numbers(rows)
            found = np.zeros((len(rows), *stored.shape[1:]), stored.dtype)
            found[before >= 0] = self.container.rows(name, before[before >= 0])
            return found

        return of


@dataclass(frozen=True, slots=True)
class Beginning:
    """shares: to begin at; None: anew. sums: of them, where they are known. note: for people."""

    shares: Shares | None
    sums: ShareSums | None
    note: str


def beginning(earlier: Sequence[Earlier], now: Record) -> Beginning | None:
    """Where a run with other settings, or over other rows, begins. earlier: the newest first. now: the run that is
    to begin. None where the earlier runs have nothing in common with it."""
    settings, data, files = now.settings, now.data, now.files
    usable = [each for each in earlier if not each.record.differing(settings, MAY_DIFFER)]
    anew: Beginning | None = None
    for each in usable:
        record = each.record
        known = KnownRows.all(data["rows"]) if record.data == data else None
        if known is None and record.files is not None and files is not None:
            known = known_rows(record.files, files)
            if known is None:
                anew = anew or Beginning(
                    None,
                    None,
                    "begun anew: of data in this format it is not known which rows were there, and are the same",
                )
                continue
        if known is None or not known.kept:
            continue
        if each.part is None:
            anew = anew or Beginning(
                None, None, "begun anew: the run before has left no dual variables by row"
            )
        elif record.data["classes"] != data["classes"]:
            anew = anew or Beginning(None, None, "begun anew: the data have other labels than those before")
        else:
            sums = each.sums if record.columns == now.columns and not known.gone else None
            return Beginning(each.shares(known), sums, _note(record, settings, known))
    return anew


def _note(record: Record, settings: Mapping[str, Any], known: KnownRows) -> str:
    changes = record.changes(settings, record.differing(settings))
    note = f"beginning at the dual variables of the run of {record.written}" + (
        f", with {changes}" * bool(changes)
    )
    if known.new or known.gone:
        note += f": {known.kept:,} rows keep theirs, {known.new:,} are new, {known.gone:,} of those before are gone"
    return note
