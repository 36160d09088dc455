"""What training would refuse of a table whose rows cannot be read as they are: per column how many values, where
the first of them is, and the remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llsvm.data.source import BlockSource, ColumnsBatch
from llsvm.features.columns import kind_of, numbers
from llsvm.features.label_columns import labels

_PIECE_BYTES = 1_000_000


@dataclass(slots=True)
class _Count:
    """Of one kind of value in one column. place: of the first, in words."""

    rows: int = 0
    place: str = ""

    def add(self, batch: ColumnsBatch, found: NDArray[np.bool_]) -> None:
        if found.any() and not self.rows:
            self.place = f"{batch.path}: row {batch.row(int(np.argmax(found))) + 1}"
        self.rows += int(np.count_nonzero(found))


class _Column:
    """missing, infinite: of a column's rows so far."""

    def __init__(self, name: str, kind: str | None) -> None:
        self.name, self.kind = name, kind  # None: the label's
        self.missing, self.infinite = _Count(), _Count()

    def add(self, batch: ColumnsBatch, values: pa.Array) -> None:
        if self.kind is None:
            _, gone = labels(values)
        elif kind_of(values.type) == "number":
            own = numbers(values)
            gone = np.isnan(own)
            self.infinite.add(batch, np.isinf(own))
        else:  # text without a value is a category less
            return
        self.missing.add(batch, gone)

    def refusals(self, missing: str) -> list[str]:
        """Sentences. missing: as TableOptions has it."""
        exclude = f"leave the column out (--exclude {self.name})"
        found = []
        if self.missing.rows and self.kind is None:
            found.append(("the label is missing", self.missing, "fill it in, or pass --missing-label drop"))
        elif self.missing.rows and missing == "refuse":
            found.append(("the value is missing", self.missing, f"pass --missing zero or mean, or {exclude}"))
        if self.infinite.rows:
            what = "the value is infinite, or too large for a 64-bit float"
            found.append((what, self.infinite, f"write a finite number or none at all, or {exclude}"))
        return [
            f"column {self.name}: {what} in {_rows(count.rows)}, first in {count.place}: {remedy}"
            for what, count, remedy in found
        ]


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def refusals(source: BlockSource, missing: str) -> dict[str, Any] | None:
    """Of a table that can be read again: name, format, bytes, rows, columns (see TableSource.describe, and missing,
    the rows without a value) and refused, sentences; None where nothing is refused, or the source is no such table.
    missing: as TableOptions has it. Raises DataError where not even its columns can be read."""
    info = source.info()
    encoder = info.encoder
    if info.columns is None or info.describe is None or encoder is None:
        return None
    columns = [_Column(each.name, each.kind) for each in encoder.columns if each.kind in ("number", "text")]
    columns += [] if encoder.label is None else [_Column(encoder.label, None)]
    n_rows = 0
    for batch in info.columns([each.name for each in columns], _PIECE_BYTES):
        n_rows += batch.rows.num_rows
        for each in columns:
            each.add(batch, batch.rows.column(each.name))
    found = [sentence for each in columns for sentence in each.refusals(missing)]
    if not found:
        return None
    counts = {each.name: each.missing.rows for each in columns}
    told = [{**each, "missing": counts.get(each["name"])} for each in info.describe()]
    about = {"name": info.name, "format": info.format, "bytes": info.n_bytes, "rows": n_rows}
    return {**about, "columns": told, "refused": found}
