"""What scoring needs of the memory limit; and where that is too small, the one that works, which is known before
any row has been scored: also where the model itself does not fit, whose weights are then left unread."""

from __future__ import annotations

import os
from collections.abc import Mapping

from llsvm.data.source import BlockSource
from llsvm.errors import BudgetError, LongRowError
from llsvm.memory.budget import LIBRARY, MemoryBudget
from llsvm.memory.process import MEASURED_BYTES, RUNTIME_BYTES, resident_bytes
from llsvm.memory.sizes import memory_limit_bytes
from llsvm.models.header import MEAN, SPREAD
from llsvm.models.model import Model, UnreadModel, model_bytes

DEFAULT_MEMORY = "50%"
_LARGEST_BLOCK_BYTES = 8 << 20
SMALLEST_BLOCK_BYTES = 256 << 10
BLOCKS_HELD = 8  # five in the source, one being scored, its scores and its lines of text
_LABEL_BYTES = 200  # of a row: its predicted class and its line without scores
_VOTE_BYTES = 48  # of a row and class, where pairs of classes vote
_RUNTIME, _BLOCKS = "interpreter and libraries", "blocks of rows"
_LARGER = 50  # what the process holds is a measurement: the next run may find this part (1/50) more
_LONG_ROWS = ("svmlight", "numpy", "hdf5")  # formats whose rows may be longer than blocks


def block_bytes(
    n_weights: int,
    n_classes: int,
    memory_limit: str | int | None = None,
    reader_bytes: int = 0,
    more: Mapping[str, int] | None = None,
    at_least: int = SMALLEST_BLOCK_BYTES,
) -> int:
    """Return the bytes that a block may have while a model of ``n_weights`` weights scores, under a limit on the
    process; see ``bytes_for_blocks``."""
    left = bytes_for_blocks(n_weights, n_classes, memory_limit, reader_bytes, more, at_least)
    return min(max(_LARGEST_BLOCK_BYTES, at_least), left // BLOCKS_HELD)


def bytes_for_blocks(
    n_weights: int,
    n_classes: int,
    memory_limit: str | int | None = None,
    reader_bytes: int = 0,
    more: Mapping[str, int] | None = None,
    at_least: int = SMALLEST_BLOCK_BYTES,
    unread: int | None = None,
) -> int:
    """Return the bytes that the limit leaves for all blocks together.

    memory_limit: as Settings has it; None for "50%". reader_bytes: see SourceInfo. more: what else is held, in
    bytes, by name. at_least: bytes that a block must have. unread: the model has not been read, and this is what it
    takes beside its weights. Raises BudgetError, UsageError.
    """
    limit = memory_limit_bytes(DEFAULT_MEMORY if memory_limit is None else memory_limit)
    # a model of several classes may be held twice: as it was made, and with each feature's weights together
    of_model = 8 * n_weights * (2 if n_classes > 2 else 1)
    # the model may be resident already; what else the process holds counts where it exceeds our own runtime
    held = resident_bytes() - of_model if unread is None else resident_bytes() + unread
    fixed = {_RUNTIME: max(RUNTIME_BYTES, held), "model": of_model}
    if reader_bytes:
        fixed[LIBRARY] = reader_bytes
    fixed |= more or {}
    if sum(fixed.values()) + BLOCKS_HELD * at_least > limit and held > RUNTIME_BYTES:
        fixed[_RUNTIME] += held // _LARGER
    MemoryBudget(limit, 0).require(fixed | {_BLOCKS: BLOCKS_HELD * at_least})
    return limit - sum(fixed.values())


def load_model(
    path: str | os.PathLike[str],
    memory_limit: str | int | None = None,
    with_log: bool = False,
    other_bytes: int = 0,
) -> Model:
    """Return the model in the file ``path``; an UnreadModel where the limit has no room for it. with_log: see
    ``Model.load``. other_bytes: bytes that are held too. Raises ModelError, and BudgetError where not even its
    names and vocabularies fit the limit."""
    sizes = model_bytes(path)
    try:
        # weights are held twice where they score
        require_room_for(sizes.total + sizes.weights, memory_limit, other_bytes)
    except BudgetError as error:
        if resident_bytes() + sizes.others > max(error.limit_bytes, RUNTIME_BYTES):
            raise error.as_least() from error
        return UnreadModel.of_file(path, error, other_bytes)
    return Model.load(path, with_log)


def require_room(path: str | os.PathLike[str], memory_limit: str | int | None, other_bytes: int = 0) -> None:
    """Raise BudgetError as ``require_room_for`` of the model in the file ``path``."""
    require_room_for(model_bytes(path).total, memory_limit, other_bytes)


def require_room_for(nbytes: int, memory_limit: str | int | None, other_bytes: int = 0) -> None:
    """Raise BudgetError unless a model of so many bytes fits the limit. other_bytes: bytes that are held too."""
    limit = memory_limit_bytes(DEFAULT_MEMORY if memory_limit is None else memory_limit)
    needs = {
        _RUNTIME: RUNTIME_BYTES,
        "model": nbytes,
        _BLOCKS: BLOCKS_HELD * SMALLEST_BLOCK_BYTES,
    }
    MemoryBudget(limit, 0).require(needs | ({"the other model": other_bytes} if other_bytes else {}))


def row_bytes(model: Model, text_bytes: int = 0) -> int:
    """Return the bytes of a row's scores, the votes of pairs and its predicted label included. text_bytes: its
    line's."""
    votes = _VOTE_BYTES * len(model.classes_) if model.one_vs_one else 0
    return 8 * model.n_problems + votes + _LABEL_BYTES + text_bytes


def max_block_bytes(
    model: Model,
    source: BlockSource,
    memory_limit: str | int | None,
    more: Mapping[str, int],
    at_least: int = SMALLEST_BLOCK_BYTES,
) -> int:
    """Return ``block_bytes`` of this model and source. more: what else is held, in bytes, by name."""
    try:
        left = _left(model, source, memory_limit, more, at_least)
    except BudgetError as error:
        if source.info().format in _LONG_ROWS:
            _left(model, source, memory_limit, more, _longest_row(source, error, at_least))
        raise
    return min(max(_LARGEST_BLOCK_BYTES, at_least), left // BLOCKS_HELD)


def spare_bytes(
    model: Model, source: BlockSource, memory_limit: str | int | None, more: Mapping[str, int]
) -> int:
    """Return the bytes that may be taken for something else: half of what blocks could have, or all that is more
    than they ever take, but for the smallest blocks. The limit suffices for ``max_block_bytes``."""
    left = _left(model, source, memory_limit, more)
    all_bytes = left - BLOCKS_HELD * SMALLEST_BLOCK_BYTES
    return min(all_bytes, max(left // 2, left - BLOCKS_HELD * _LARGEST_BLOCK_BYTES))


def with_spare(nbytes: int) -> int:
    """Return the bytes that a limit must have room for beside the smallest blocks, so that ``spare_bytes`` are so
    many."""
    blocks = BLOCKS_HELD * SMALLEST_BLOCK_BYTES
    return max(nbytes, min(2 * nbytes, nbytes + BLOCKS_HELD * _LARGEST_BLOCK_BYTES) - blocks)


def _left(
    model: Model,
    source: BlockSource,
    memory_limit: str | int | None,
    more: Mapping[str, int],
    at_least: int = SMALLEST_BLOCK_BYTES,
) -> int:
    """Return ``bytes_for_blocks``. Raises BudgetError with what takes most: the model when it is read, or when it
    scores."""
    n_values = model.weights.nbytes // 8 + sum(
        len(model.extra.get(name, ())) for name in ("fill", MEAN, SPREAD)
    )
    support = 0
    if model.feature_map is not None:
        more, support = {**more, "feature map": model.feature_map.work_bytes}, model.feature_map.nbytes
    n_classes, reader_bytes = len(model.classes_), source.info().reader_bytes
    asked = n_values, n_classes, memory_limit, reader_bytes, more, at_least
    if not isinstance(model, UnreadModel):
        return bytes_for_blocks(*asked)
    refused = model.refusal
    try:
        bytes_for_blocks(*asked, support + model.held_bytes)
    except BudgetError as error:
        raise max(error, refused, key=lambda each: each.smallest_bytes) from None
    raise refused


def _longest_row(source: BlockSource, error: BudgetError, at_least: int) -> int:
    """Return the bytes that a block must have for the longest row. error: raised, with "at least", where that is
    not to be found out. at_least: that a block must have by now."""
    longest, room = at_least, max(error.limit_bytes, RUNTIME_BYTES) - resident_bytes()
    while _can_be_read(source) and (longest == SMALLEST_BLOCK_BYTES or BLOCKS_HELD * longest <= room):
        try:
            for _ in source.blocks(longest):
                pass
            return longest
        except LongRowError as row:
            longest = row.row_bytes
    raise error.as_least() from error


def n_rows_of(source: BlockSource) -> int | None:
    """Return the number of rows of a source, which are counted where they are not known; None where that would take
    long."""
    if (known := source.info().n_rows) is not None:
        return known
    if not _can_be_read(source):
        return None
    return sum(block.n_rows for block in source.blocks(SMALLEST_BLOCK_BYTES))


def can_be_looked_through(source: BlockSource, memory_limit: str | int | None) -> bool:
    """Return whether it can be read once more in the smallest blocks, beside what the process holds already."""
    limit = memory_limit_bytes(DEFAULT_MEMORY if memory_limit is None else memory_limit)
    taken = source.info().reader_bytes + BLOCKS_HELD * SMALLEST_BLOCK_BYTES
    return _can_be_read(source) and resident_bytes() + taken <= max(limit, RUNTIME_BYTES)


def _can_be_read(source: BlockSource) -> bool:
    """Return whether it can be read once more, only to find out what it takes."""
    info = source.info()
    return info.rereadable and (info.n_bytes or 0) <= MEASURED_BYTES
