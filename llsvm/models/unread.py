"""Memory that a model needs, told by its file before its weights are read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, Self, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import BudgetError, LLSVMError
from llsvm.features.feature_map import FeatureMap
from llsvm.models.model import Model
from llsvm.models.model_file import HEADER, open_member, opened
from llsvm.models.sparse import COUNTS, PARTS, SparseWeights, Weights, from_arrays

_WEIGHTS = ("coef", *PARTS)
_OF_MAP = (*(f"landmarks{part}" for part in ("", "_indptr", "_indices", "_data")), "projection")
_PIECE_BYTES = 1 << 20
# A header as Python's objects: its text twice, and what each mark in it makes at most, a list or a mapping, a value
# in one, an entry of a mapping.
_TEXTS, _MARKS = 2, {b"{": 72, b"[": 72, b",": 64, b":": 100}
_LABELS = 8  # classes as Python's texts, over the intercept of each


@dataclass(frozen=True, slots=True)
class ModelBytes:
    """Bytes that a model takes once it is read. weights: these. support: of a kernel or a feature map. others:
    its other arrays, and its header as Python's objects."""

    weights: int = 0
    support: int = 0
    others: int = 0

    @property
    def total(self) -> int:
        return self.weights + self.support + self.others


def model_bytes(path: str | os.PathLike[str]) -> ModelBytes:
    """Return the bytes by what the file ``path`` declares, of which nothing is unpacked but its header, piece by
    piece. What is wrong with the file is left to whoever loads it: it is then 0."""
    try:
        with opened(path) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            header = 0
            if HEADER in sizes:
                with open_member(archive, archive.getinfo(HEADER)) as stream:
                    while piece := stream.read(_PIECE_BYTES):
                        header += _TEXTS * len(piece)
                        header += sum(cost * piece.count(mark) for mark, cost in _MARKS.items())
    except LLSVMError:
        return ModelBytes()
    weights = sum(sizes.get(f"{name}.npy", 0) for name in _WEIGHTS) + sizes.get(f"{COUNTS}.npy", 0)
    support = sum(sizes.get(f"extra/{name}.npy", 0) for name in _OF_MAP)
    arrays = sum(size for name, size in sizes.items() if name.endswith(".npy"))
    others = arrays + sizes.get(f"{COUNTS}.npy", 0) - weights - support
    labels = _LABELS * sizes.get("intercept.npy", 0) + sizes.get("classes.npy", 0)
    return ModelBytes(weights, support, others + header + labels)


@dataclass
class UnreadModel(Model):
    """A model that the memory limit has no room for: all of it but its weights, and what a kernel or a feature map
    is made of, which have their shapes alone. What it takes to score rows can be told, and they cannot be scored.

    refused: with what the model alone takes. beside: bytes that are held too."""

    _unread = (*_WEIGHTS, *(f"extra/{name}" for name in _OF_MAP))
    refused: BudgetError | None = None
    beside: int = 0

    @staticmethod
    def _weights(arrays: Mapping[str, NDArray[Any]], k: int) -> Weights:
        if COUNTS not in arrays:
            return from_arrays(arrays, k)
        counts, problems, values = (arrays[name] for name in PARTS)
        return SparseWeights(np.broadcast_to(np.int32(0), (len(counts) + 1,)), problems, values, k)

    @classmethod
    def of_file(cls, path: str | os.PathLike[str], refused: BudgetError, beside: int = 0) -> Self:
        """Raises ModelError."""
        model = cast(Self, cls.load(path, with_log=False))
        model.refused, model.beside = refused, beside
        return model

    @property
    def refusal(self) -> BudgetError:
        assert self.refused is not None
        return self.refused

    @cached_property
    def feature_map(self) -> FeatureMap | None:
        return FeatureMap.from_extra(self.extra, unread=True)

    def scorer(self) -> NoReturn:
        """Raises BudgetError."""
        raise self.refusal
