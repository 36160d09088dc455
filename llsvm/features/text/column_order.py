"""Hashed columns as training numbers them: those that are there most often come first.

Words follow Zipf's law, and hashing scatters the frequent ones over all columns, each weight in a cache line of its
own. Side by side their weights stay in the processor's fast caches, and sweeps take two thirds of the time. The
first rows tell which columns are frequent; models have the features' own numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from llsvm.block import CSR, Block, concat
from llsvm.features.csr_rows import from_cells
from llsvm.features.text.columns import DocumentColumns

SAMPLE_VALUES = 1 << 18  # of the first rows; data with fewer are left as they are


def renumbered(blocks: Iterable[Block], documents: DocumentColumns, first: int) -> Iterator[Block]:
    """Blocks of rows whose n-grams begin at column ``first``. If their places are to be learned, the first blocks
    are held until they have SAMPLE_VALUES.
    """
    held: list[Block] = []
    for block in blocks:
        if not documents.lacks_places:
            yield block
            continue
        held.append(block)
        if sum(each.nnz for each in held) >= SAMPLE_VALUES:
            rows, held = concat(held), []
            X = rows.X
            assert isinstance(X, CSR), "n-grams are sparse"
            n_rows = int(np.searchsorted(X.indptr, X.indptr[0] + SAMPLE_VALUES))  # wherever blocks end
            sample = X.indices[X.indptr[0] : X.indptr[n_rows]]
            documents.learn_places(sample[sample >= first] - np.int32(first))
            yield _moved(rows, X, documents, first)
    yield from held


def _moved(rows: Block, X: CSR, documents: DocumentColumns, first: int) -> Block:
    """The rows with their n-grams, which begin at column ``first``, in their places."""
    columns = X.indices[X.indptr[0] : X.indptr[-1]].copy()
    text = columns >= first
    own = columns[text] - np.int32(first)
    documents.put(own)
    columns[text] = own + np.int32(first)
    row = np.repeat(np.arange(rows.n_rows), np.diff(X.indptr))
    values = X.data[X.indptr[0] : X.indptr[-1]]
    return Block(from_cells(row, columns, values, rows.n_rows), rows.y, rows.rows, rows.weight)
