"""Exact vocabularies whose columns leave a solver no room, of many classes say: n-grams are hashed instead, into as
many columns as there is room for. How many classes there are is known when the data have been read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from llsvm.dataset import DatasetInfo
from llsvm.features.text.columns import DocumentColumns
from llsvm.memory.plan import MemoryLeft, Needs, left_after_reading
from llsvm.memory.sizes import format_size
from llsvm.training.texts import COUNT_BYTES, hashed_bits, hashed_note

MIN_BITS = 12
_ROWS_SHARE = 4  # this part (1/4) of the memory there is is left to rows, beside what they take at least


def hash_where_weights_do_not_fit(
    documents: DocumentColumns,
    left: MemoryLeft,
    held: Mapping[str, int],
    needs: Callable[[MemoryLeft], Needs],
    room: Callable[[DatasetInfo], Mapping[str, int]],
) -> bool:
    """Hash the n-grams, if what a solver needs does not fit beside their vocabularies, and it does then. Returns
    whether it was done: the data are to be read again.

    documents: with vocabularies. left: after the data were read with these. held: in bytes, by name, before that.
    needs: of the solver, a function of what is left. room: in bytes, by name, that is set aside beside it.
    """
    left = replace(left, lines={**left.lines, **room(left.dataset)})
    needed = needs(left)
    if left.plan(needed) is not None:
        return False
    available = left.limit_bytes - sum(held.values())
    for bits in range(hashed_bits(documents, available), MIN_BITS - 1, -1):
        dataset = _hashed(left.dataset, documents, bits)
        memory = left_after_reading(dataset, left.limit_bytes, {**held, **room(dataset)})
        if memory is None:
            continue
        memory = replace(memory, limit_bytes=left.limit_bytes - available // _ROWS_SHARE)
        if memory.plan(needs(memory)) is not None:
            what = f"{documents.width:,} n-grams, whose weights ({left.dataset.n_classes:,} classes) take "
            remedy = "a larger --memory-limit or --min-df 2"
            documents.hash_into(bits, hashed_note(what + format_size(needed.nbytes), bits, remedy))
            return True
    return False


def _hashed(dataset: DatasetInfo, documents: DocumentColumns, bits: int) -> DatasetInfo:
    """The facts, were n-grams hashed."""
    options = replace(documents.options, hash_bits=bits)
    hashed = DocumentColumns(documents.names, options, documents.n_threads, ordered=documents.ordered)
    facts = dataset.reading
    counts = hashed.nbytes + (COUNT_BYTES * hashed.width if options.idf else 0)
    library = facts.library_bytes - documents.nbytes + counts
    reader = facts.reader_bytes - documents.nbytes - documents.work_bytes + counts + hashed.work_bytes
    return replace(
        dataset,
        n_columns=dataset.n_columns - documents.width + hashed.width,
        reading=replace(
            facts,
            reader_bytes=reader,
            library_bytes=library,
            begun_bytes=facts.begun_bytes + reader - facts.reader_bytes,
        ),
    )
