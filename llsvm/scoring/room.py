"""What scoring needs of the memory limit."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping

from llsvm.data.source import BlockSource
from llsvm.errors import DataError
from llsvm.files.inputs import open_binary
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.plan import LIBRARY
from llsvm.memory.process import RUNTIME_BYTES, resident_bytes
from llsvm.memory.sizes import memory_limit_bytes
from llsvm.models.header import SPREAD
from llsvm.models.model import Model

DEFAULT_MEMORY = "50%"
_LARGEST_BLOCK_BYTES = 8 << 20
_SMALLEST_BLOCK_BYTES = 256 << 10
BLOCKS_HELD = 8  # five in the source, one being scored, its scores and its lines of text
_LABEL_BYTES = 200  # of a row: its predicted class and its line without scores
_VOTE_BYTES = 48  # of a row and class, where pairs of classes vote
_HEADER_FACTOR = 8  # a model's header as objects, over its text


def block_bytes(
    n_weights: int,
    n_classes: int,
    memory_limit: str | int | None = None,
    reader_bytes: int = 0,
    more: Mapping[str, int] | None = None,
    at_least: int = _SMALLEST_BLOCK_BYTES,
) -> int:
    """Bytes a block may have while a model of ``n_weights`` weights scores, under a limit on the process; see
    ``bytes_for_blocks``."""
    left = bytes_for_blocks(n_weights, n_classes, memory_limit, reader_bytes, more, at_least)
    return min(max(_LARGEST_BLOCK_BYTES, at_least), left // BLOCKS_HELD)


def bytes_for_blocks(
    n_weights: int,
    n_classes: int,
    memory_limit: str | int | None = None,
    reader_bytes: int = 0,
    more: Mapping[str, int] | None = None,
    at_least: int = _SMALLEST_BLOCK_BYTES,
) -> int:
    """Bytes that the limit leaves, all blocks together.

    memory_limit: as Settings has it; None for "50%". reader_bytes: see SourceInfo. more: what else is held, in
    bytes, by name. at_least: bytes that a block must have. Raises BudgetError, UsageError.
    """
    limit = memory_limit_bytes(DEFAULT_MEMORY if memory_limit is None else memory_limit)
    # a model of several classes may be held twice: as it was made, and with each feature's weights together
    model_bytes = 8 * n_weights * (2 if n_classes > 2 else 1)
    budget = MemoryBudget(limit, 0)
    # the model may be resident already; what else the process holds counts where it exceeds our own runtime
    fixed = {
        "interpreter and libraries": max(RUNTIME_BYTES, resident_bytes() - model_bytes),
        "model": model_bytes,
    }
    if reader_bytes:
        fixed[LIBRARY] = reader_bytes
    fixed |= more or {}
    budget.require(fixed | {"blocks of rows": BLOCKS_HELD * at_least})
    return limit - sum(fixed.values())


def require_room(path: str | os.PathLike[str], memory_limit: str | int | None = None) -> None:
    """Raise BudgetError unless the model in the file ``path`` fits the limit once it is unpacked, by what its
    directory declares; nothing is unpacked for that. What is wrong with the file is left to whoever loads it."""
    try:
        with open_binary(os.fspath(path)) as stream:
            parts = {part.filename: part.file_size for part in zipfile.ZipFile(stream).infolist()}
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, DataError):
        return
    texts = sum(size for name, size in parts.items() if not name.endswith(".npy"))
    arrays = sum(parts.values()) - texts + parts.get("coef.npy", 0)  # these are held twice where they score
    limit = memory_limit_bytes(DEFAULT_MEMORY if memory_limit is None else memory_limit)
    MemoryBudget(limit, 0).require(
        {
            "interpreter and libraries": RUNTIME_BYTES,
            "model": arrays + _HEADER_FACTOR * texts,
            "blocks of rows": BLOCKS_HELD * _SMALLEST_BLOCK_BYTES,
        }
    )


def row_bytes(model: Model, text_bytes: int = 0) -> int:
    """What a row's scores take, the votes of pairs and its predicted label included. text_bytes: its line's."""
    votes = _VOTE_BYTES * len(model.classes_) if model.one_vs_one else 0
    return 8 * model.n_problems + votes + _LABEL_BYTES + text_bytes


def max_block_bytes(
    model: Model,
    source: BlockSource,
    memory_limit: str | int | None,
    more: Mapping[str, int],
    at_least: int = _SMALLEST_BLOCK_BYTES,
) -> int:
    """``block_bytes`` of this model and source. more: what else is held, in bytes, by name."""
    return block_bytes(*_needs(model, source, memory_limit, more), at_least)


def spare_bytes(
    model: Model, source: BlockSource, memory_limit: str | int | None, more: Mapping[str, int]
) -> int:
    """Bytes that may be taken for something else: half of what blocks could have, or all that is more than they
    ever take. As ``max_block_bytes``."""
    left = bytes_for_blocks(*_needs(model, source, memory_limit, more))
    return max(left // 2, left - BLOCKS_HELD * _LARGEST_BLOCK_BYTES)


def _needs(
    model: Model, source: BlockSource, memory_limit: str | int | None, more: Mapping[str, int]
) -> tuple[int, int, str | int | None, int, Mapping[str, int]]:
    n_values = model.weights.nbytes // 8 + sum(len(model.extra.get(name, ())) for name in ("fill", SPREAD))
    if model.feature_map is not None:
        more = {**more, "feature map": model.feature_map.work_bytes}
    return n_values, len(model.classes_), memory_limit, source.info().reader_bytes, more
