"""Labels other than the source has them: one against the rest; numbers; none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.data.source import BlockSource, SourceInfo
from llsvm.errors import DataError
from llsvm.features.labels import BOOL_LABELS, number_of, quoted
from llsvm.features.targets import as_targets
from llsvm.settings.objective import REGRESSION

POSITIVE, NEGATIVE = 1.0, -1.0
_SHOWN = 12


class OneAgainstRest:
    """The rows of another source; y is 1 where its label is ``positive``, else -1.

    source: of the rows.
    positive: a label as text; 1, 1.0 and "1" are the same, and so are true, True and TRUE.
    must_occur: DataError at the end of a pass in which no row had the label.
    """

    def __init__(self, source: BlockSource, positive: str, must_occur: bool = True) -> None:
        self.source = source
        self._positive = positive.strip()
        self._must_occur = must_occur
        self._names: tuple[Any, Any] | None = None
        number = number_of(self._positive)
        self._number = math.nan if number is None else float(number)
        self._whole = number if isinstance(number, int) else None  # of which a float may not have all digits

    @property
    def bytes_read(self) -> int:
        return self.source.bytes_read

    def info(self) -> SourceInfo:
        info = self.source.info()  # its batches have the labels as they were
        return replace(info, record_batches=None, class_names=self._names)

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        others: set[str] = set()
        found, rest, several = not self._must_occur, None, False
        for block in self.source.blocks(max_bytes):
            same = self._same(block.y)
            if not found:
                found = bool(same.any())
                others |= {quoted(label) for label in np.unique(block.y)[:_SHOWN]}
            if not several and not same.all():
                own = block.y[~same]
                rest = own[0] if rest is None else rest
                several = bool(np.any(own != rest))
            yield replace(block, y=np.where(same, POSITIVE, NEGATIVE))
        if not found:
            raise DataError(
                f"{self.info().name}: no row has the label {self._positive!r} (--positive); "
                f"there are {', '.join(sorted(others)[:_SHOWN])}"
            )
        self._names = self._named(None if several else rest)

    def _named(self, other: Any) -> tuple[Any, Any]:
        """The labels -1 and 1 as the source has them. other: the only one beside ``positive``, if there is one."""
        if other is None:
            return f"not {self._positive}", self._positive
        if isinstance(other, str):
            return str(other), self._positive
        if isinstance(other, bool | np.bool_):
            return bool(other), not other
        if self._whole is not None and isinstance(other, int | np.integer) and self._whole != self._number:
            return int(other), self._whole
        return float(other), self._number

    def _same(self, y: NDArray[Any]) -> NDArray[np.bool_]:
        word = self._positive.lower()
        if y.dtype.kind == "b" and word in BOOL_LABELS:
            return y == (word == "true")
        if y.dtype.kind in "iu" and self._whole is not None:
            return np.asarray(y == self._whole)
        if y.dtype.kind not in "OU":
            return y == self._number
        same: NDArray[np.bool_] = y == self._positive
        if word in BOOL_LABELS:  # however it is written, as in CSV
            spellings = {word, word.title(), word.upper()}
            same = same | np.fromiter((each in spellings for each in y), bool, len(y))
            if same.any():
                self._positive = str(y[np.argmax(same)])
        return same


class LabelsOfKind:
    """The rows of another source, whose labels are taken for what they are in a regression, or left aside.

    source: of the rows. kind: REGRESSION or UNLABELLED, see llsvm.settings.objective. scale_targets: see
    SourceInfo. Raises DataError, while reading, for the first label of a regression that is no finite number.
    """

    def __init__(self, source: BlockSource, kind: str, scale_targets: bool = False) -> None:
        self.source = source
        self._kind, self._scale_targets = kind, scale_targets
        encoder = source.info().encoder
        if encoder is not None:  # which knows the row, and the file that it is in
            encoder.label_kind = kind

    @property
    def bytes_read(self) -> int:
        return self.source.bytes_read

    def info(self) -> SourceInfo:
        return replace(self.source.info(), label_kind=self._kind, scale_targets=self._scale_targets)

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """See BlockSource."""
        for block in self.source.blocks(max_bytes):
            if self._kind != REGRESSION or not self.source.info().labelled:
                yield block
                continue
            try:
                y = as_targets(block.y)
            except ValueError as error:
                at, reason = error.args
                raise DataError(f"{self.info().name}: row {block.rows[at] + 1}: {reason}") from error
            yield replace(block, y=y)
