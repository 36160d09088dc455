"""Noted: a source of which its user should know one thing more; LabelsNoted: of its labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from llsvm.block import Block
from llsvm.data.source import BlockSource, SourceInfo
from llsvm.features.labels import is_text, look_alike

_MOST_LABELS = 1000  # that are looked at


class Noted:
    """The rows of another source. note: a sentence beside those that it has."""

    def __init__(self, source: BlockSource, note: str) -> None:
        self.source, self._note = source, note

    @property
    def bytes_read(self) -> int:
        return self.source.bytes_read

    def info(self) -> SourceInfo:
        """See BlockSource."""
        info = self.source.info()
        return replace(info, notes=(self._note, *info.notes))

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """See BlockSource."""
        return self.source.blocks(max_bytes)


class LabelsNoted(Noted):
    """The rows of another source, and a note once two labels of the first reading differ in case or space alone."""

    def __init__(self, source: BlockSource) -> None:
        super().__init__(source, "")
        self._words: set[str] = set()
        self._complete = False  # a reading has come to its end

    def info(self) -> SourceInfo:
        """See BlockSource."""
        return super().info() if self._note else self.source.info()

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """See BlockSource."""
        for block in self.source.blocks(max_bytes):
            if not (self._complete or self._note) and len(self._words) < _MOST_LABELS and is_text(block.y):
                self._look(set(block.y.tolist()))
            yield block
        self._complete = True

    def _look(self, words: set[str]) -> None:
        if not words <= self._words:
            self._words |= words
            self._note = look_alike(self._words)
