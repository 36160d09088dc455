"""A source some of whose rows count nothing: those of a fold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.data.source import BlockSource, SourceInfo
from llsvm.dataset import DatasetInfo
from llsvm.objective.problems import Fold
from llsvm.tuning.held_out import class_ids_of


class LeftOut:
    """The rows of another source, those of ``fold`` with weight 0: columns are scaled, and classes counted, as if
    they were there.

    dataset: of the same rows, whose classes tell what is in the fold."""

    def __init__(self, source: BlockSource, fold: Fold, dataset: DatasetInfo) -> None:
        self._source, self._fold, self._dataset = source, fold, dataset

    @property
    def bytes_read(self) -> int:
        return self._source.bytes_read

    def info(self) -> SourceInfo:
        return self._source.info()

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """See BlockSource."""
        for block in self._source.blocks(max_bytes):
            out = self._fold.contains(block.rows, self._class_ids(block))
            weight = np.ones(block.n_rows) if block.weight is None else block.weight
            left = np.where(out, 0.0, weight)
            yield Block(block.X, block.y, block.rows, left, learned_weight=weight)

    def _class_ids(self, block: Block) -> NDArray[np.int32]:
        if self._dataset.has_targets:
            return np.zeros(block.n_rows, np.int32)
        return class_ids_of(self._dataset.name, block.y, self._dataset.classes)
