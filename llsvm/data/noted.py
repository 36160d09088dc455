"""Noted: a source of which its user should know one thing more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from llsvm.block import Block
from llsvm.data.source import BlockSource, SourceInfo


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
