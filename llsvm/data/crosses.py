"""What crosses of columns must know before rows are made, in a reading of its own: which pairs of categories there
are, and the means that replace what is missing of crossed numbers."""

from __future__ import annotations

from collections.abc import Callable

from llsvm.data.source import BlockSource
from llsvm.data.table_columns import refuse_cell
from llsvm.errors import BudgetError, UsageError
from llsvm.features.columns import number_column
from llsvm.features.crosses import PAIR_BYTES
from llsvm.features.encoder import TableEncoder
from llsvm.memory.budget import LIBRARY, READING, MemoryBudget
from llsvm.memory.process import MIN_WORK_BYTES, trim_freed_memory

LEARNING = "learning crosses"  # a line of the budget
WEIGHT_BYTES = 100  # that a solver holds of a column, at least
_READ_SHARE, _READ_BYTES = 50, (1 << 16, 1 << 20)  # of batches, of the memory there is
_BATCHES_HELD = 6  # by the reader and here


def learn_crosses(
    source: BlockSource, budget: MemoryBudget, count: Callable[[int, int], None] | None = None
) -> None:
    """Learn what the crosses of a source must know, if it has any that do not know it yet; what that takes is part
    of its ``library_bytes`` from then on.

    source: before it is read. budget: of the run. count: is told the rows of each batch, and how many bytes have
    been read. Raises BudgetError, DataError, UsageError.
    """
    encoder = source.info().encoder
    if encoder is None or encoder.crosses.known:
        return
    if not source.info().rereadable:
        why, remedy = "pairs of categories", "pass --hash-bits 20"
        if not encoder.crosses.learns_pairs:
            why, remedy = "means of what is missing", "pass --missing zero"
        raise UsageError(
            f"{source.info().name}: what can be read only once cannot be looked through for {why} (--cross) before "
            f"it is trained on; {remedy}, or write it to a file"
        )
    try:
        with budget.scope():
            _learn(source, budget, encoder, count)
    except BudgetError as error:  # it is not known what comes after
        raise error.as_least() from error
    finally:
        trim_freed_memory()


def _learn(
    source: BlockSource,
    budget: MemoryBudget,
    encoder: TableEncoder,
    count: Callable[[int, int], None] | None,
) -> None:
    info, crosses, categories = source.info(), encoder.crosses, encoder.categories
    assert info.columns is not None, "a table with crosses reads their columns"
    low, high = _READ_BYTES
    minimum = {LIBRARY: info.reader_bytes, READING: _BATCHES_HELD * low, LEARNING: MIN_WORK_BYTES}
    budget.require(minimum)
    free_bytes = budget.available_bytes - sum(minimum.values())
    budget.reserve(LIBRARY, info.reader_bytes)
    read_bytes = min(low + free_bytes // _READ_SHARE, high)
    budget.reserve(READING, _BATCHES_HELD * read_bytes)
    names = (*crosses.numbers, *(categories.names if crosses.learns_pairs else ()), *info.weight_columns)
    before = source.bytes_read
    for batch in info.columns(names, read_bytes):
        try:
            values = {
                name: number_column(batch.rows.column(name), name, None, False, None)
                for name in crosses.numbers
            }
        except ValueError as error:
            refuse_cell(batch, error)
        ids, weight = None, batch.weights(encoder)
        if crosses.learns_pairs:
            ids = categories.ids(categories.coded(batch.rows), batch.words, weight)
        crosses.learn(values, ids, weight)
        n = crosses.n_learned
        budget.require(
            {
                f"{n:,} pairs of categories, with their weights (--hash-bits)": (PAIR_BYTES + WEIGHT_BYTES)
                * n,
                "categories": categories.nbytes,
            }
        )
        if count is not None:
            count(batch.rows.num_rows, source.bytes_read - before)
    if crosses.learns_pairs:
        categories.finish()
    crosses.finish(categories.keys)
