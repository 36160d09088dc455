"""Vocabularies of text columns, or document frequencies of hashed ones, counted in a reading of their own before
the first one, under the memory limit.

Where the columns of exact vocabularies leave a solver no room, n-grams are hashed instead, into as many columns as
there is room for. How many classes there are is known when the data have been read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from llsvm.dataset import DatasetInfo
from llsvm.errors import BudgetError, DataError, DiskError, UsageError
from llsvm.features.text.analysis import PIECE_BYTES, Analyzer, Documents, NotUTF8, workspace_bytes
from llsvm.features.text.counting import VocabularyCounter, VocabularyTooLarge
from llsvm.features.text.vectorizer import DocumentColumns, Vectorizer, not_utf8
from llsvm.features.text.vocabulary import ColumnFrequencies, Vocabulary, lookup_bytes, most_n_grams
from llsvm.memory.budget import LIBRARY, READING, MemoryBudget
from llsvm.memory.plan import MemoryLeft, Needs, left_after_reading
from llsvm.memory.process import MIN_WORK_BYTES, trim_freed_memory
from llsvm.memory.sizes import format_size
from llsvm.process.threads import Threads
from llsvm.spill.workspace import Workspace
from llsvm.stream.stream import Stream

COUNTING = "counting n-grams"  # a line of the budget
TABLE_SHARE = 3  # tables take this part (1/3) of the memory there is: they are sorted in as much again
_READ_SHARE, _READ_BYTES = 50, (1 << 16, 1 << 19)  # of batches, of the memory there is
_BATCHES_HELD = 6  # by the reader and here
WEIGHT_BYTES = 48  # that a solver of one problem holds of a column, and something for the rows
_MIN_WEIGHT_BYTES = 12  # ... at least: with few copies of the weights
_COUNT_BYTES, _WEIGHED_BYTES = 4, 8  # of a column, where documents are counted, or their weights summed
HASHED_BITS = (20, 24)  # of columns that are hashed for want of memory, or where data can be read only once
_HASHED_SHARE = 8  # hashed columns may take this part (1/8) of the memory there is
_MIN_BITS = 12  # of columns that are hashed since the weights of a vocabulary do not fit
# ... where this part (1/4) of the memory there is is left to rows, beside what they take at least
_ROWS_SHARE = 4


def learn_texts(
    stream: Stream,
    exact: bool,
    column_bytes: int = WEIGHT_BYTES,
    ordered: bool = False,
    for_training: bool = True,
) -> None:
    """Learn the vocabularies of the text columns of a stream's source, or the frequencies of hashed ones that are
    weighted by them, if they are not known yet; what they take is part of its ``library_bytes`` from then on.

    stream: before it is read; with the source, the budget, and the folder for what does not fit in memory.
    exact: raise where a vocabulary cannot be held; else n-grams are hashed then.
    column_bytes: that each column will take once the rows are made, and their lookup gone; n-grams are hashed as
    well where these do not fit.
    ordered: hashed columns are numbered anew in blocks, see DocumentColumns. for_training: the readers of all
    formats reserve the same memory.
    Raises BudgetError, DataError, DiskError, UsageError.
    """
    source, budget = stream.source, stream.budget
    encoder = source.info().encoder
    if encoder is None or (documents := encoder.documents) is None:
        return
    documents.fit_into(budget, ordered, for_training)
    if documents.known:
        return
    if not source.info().rereadable:
        if exact or replace(documents.options, hash_bits=HASHED_BITS[0]).idf:
            leave = "leave --vocabulary exact out, " * exact
            raise UsageError(
                f"{source.info().name}: what can be read only once cannot be counted before it is trained on; "
                f"{leave}pass --hash-bits 20 and --term-weight tf, or write it to a file"
            )
        # Nothing is known of their number: many columns would take more time and memory than a few rows.
        _hash(documents, HASHED_BITS[0], "data that can be read only once", "--hash-bits or a file")
        return
    if documents.options.hash_bits is None:
        _learn_vocabularies(stream, documents, exact, column_bytes)
        if documents.width == 0 and all(column.kind == "document" for column in encoder.columns):
            raise DataError(f"{source.info().name}: there is no feature: {documents.notes[0]}")
    if not documents.known or (
        documents.vocabularies and documents.options.idf and source.info().weight_columns
    ):
        _count_frequencies(stream, documents)


def _learn_vocabularies(stream: Stream, documents: DocumentColumns, exact: bool, column_bytes: int) -> None:
    """Learn the vocabularies of the text columns, with the parameters of ``learn_texts``."""
    budget = stream.budget
    mark = budget.mark()
    try:  # where they must be exact, the solver that has the weights says what it needs
        documents.know(_counted(stream, documents, 0 if exact else column_bytes))
    except VocabularyTooLarge as error:
        weight_bytes = min(column_bytes, _MIN_WEIGHT_BYTES) if exact else column_bytes
        nbytes = max(lookup_bytes(error.n), weight_bytes * error.n)
        refusal = _too_large(error.n, nbytes, budget)
        budget.return_to(mark)
        if exact:
            raise refusal from error
        smallest_mb = -(-refusal.smallest_bytes // 1_000_000)
        what = f"{error.n:,} n-grams, which would take {format_size(nbytes)}"
        what += " with their weights" if column_bytes else " to be looked up"
        remedy = f"--memory-limit {smallest_mb}MB or rather more, or --min-df 2"
        _hash(documents, _hashed_bits(documents, budget.available_bytes), what, remedy)
    except BudgetError as error:  # it is not known what comes after
        raise error.as_least() from error
    finally:
        budget.return_to(mark)
        trim_freed_memory()


def _too_large(n: int, nbytes: int, budget: MemoryBudget) -> BudgetError:
    """Return the refusal of n n-grams that take ``nbytes``, while ``budget`` is as they were counted with."""
    what = f"a vocabulary of {n:,} n-grams (--min-df 2 and --max-features keep fewer, --hash-bits needs none)"
    lines = {name: each for name, each in budget.lines.items() if name != COUNTING} | {"n-grams": nbytes}
    return BudgetError(what, budget.limit_bytes, sum(lines.values()), lines, at_least=True)


def _hashed_bits(documents: DocumentColumns, available_bytes: int) -> int:
    """Return the bits of hashed columns for one problem in so much memory."""
    bits, max_bits = HASHED_BITS
    room = available_bytes // (_HASHED_SHARE * WEIGHT_BYTES * len(documents.names))
    while bits < max_bits and 1 << (bits + 1) <= room:
        bits += 1
    return bits


def _hash(documents: DocumentColumns, bits: int, why: str, remedy: str) -> None:
    """Hash the n-grams, with a note for the user."""
    shared = f"n-grams are hashed into 2^{bits} columns, which several share"
    documents.hash_into(bits, f"text: {why}: {shared}; {remedy} may give each its own")


def _counted(stream: Stream, documents: DocumentColumns, column_bytes: int) -> list[Vocabulary]:
    """Return the vocabulary of each column. column_bytes: see ``learn_texts``. Raises VocabularyTooLarge."""
    budget, n_threads, options = stream.budget, documents.n_threads, documents.options
    read_bytes = _reserve_reading(stream, documents, MIN_WORK_BYTES)
    room = budget.available_bytes
    budget.reserve(COUNTING, room)
    files = [RunFiles(stream.open_workspace, name) for name in range(len(documents.names))]
    try:
        with Threads(n_threads) as threads:
            tables = room // (TABLE_SHARE * len(documents.names))
            counters = [VocabularyCounter(options, threads, tables, each) for each in files]
            analyzers = [Analyzer(options) for _ in range(n_threads)]

            def count(number: int, texts: Documents, _: NDArray[np.float64] | None) -> None:
                pieces = texts.pieces(PIECE_BYTES)
                for start in range(0, len(pieces), n_threads):
                    work = zip(analyzers, pieces[start : start + n_threads], strict=False)
                    counters[number].add(threads.map(lambda item: item[0].grams(texts, *item[1]), work))

            _read(stream, documents, read_bytes, count)
            return _finished(counters, files, most_columns(room, column_bytes))
    except DiskError:
        raise
    except OSError as error:
        raise DiskError(f"counting n-grams: {error}; pass another --spill-dir") from error
    finally:
        for each in files:
            each.close()


def most_columns(nbytes: int, column_bytes: int) -> int:
    """Return how many n-grams fit in ``nbytes`` while rows are made, and with ``column_bytes`` each afterwards."""
    n = most_n_grams(nbytes)
    return min(n, nbytes // column_bytes) if column_bytes else n


def _count_frequencies(stream: Stream, documents: DocumentColumns) -> None:
    """Learn in how many documents each hashed column is there; where rows have weights, what these sum to, of the
    columns of a vocabulary too. Raises BudgetError, DataError."""
    budget = stream.budget
    options = replace(documents.options, weight="binary")
    weighted = bool(stream.source.info().weight_columns)
    try:
        with budget.scope():
            nbytes = (_WEIGHED_BYTES if weighted else _COUNT_BYTES) * documents.width
            read_bytes = _reserve_reading(stream, documents, nbytes)
            budget.reserve(COUNTING, nbytes)
            dtype = np.float64 if weighted else np.uint32
            counted = [ColumnFrequencies(np.zeros(width, dtype)) for width in documents.widths]
            with Threads(documents.n_threads) as threads:
                known: Sequence[Vocabulary | None] = documents.vocabularies or [None] * len(counted)
                vectorizers = [Vectorizer(options, each, threads) for each in known]

                def count(number: int, texts: Documents, weight: NDArray[np.float64] | None) -> None:
                    counted[number].add(vectorizers[number].rows(texts), weight)

                _read(stream, documents, read_bytes, count)
            if documents.vocabularies is None:
                documents.know(None, counted)
            else:
                documents.know(
                    [
                        replace(vocabulary, documents=each.documents, n_documents=each.n_documents)
                        for vocabulary, each in zip(documents.vocabularies, counted, strict=True)
                    ]
                )
    except BudgetError as error:  # it is not known what comes after
        raise error.as_least() from error


def _reserve_reading(stream: Stream, documents: DocumentColumns, counting_bytes: int) -> int:
    """Reserve what reading documents holds; returns the bytes of a batch. counting_bytes: that are left, at least.
    Raises BudgetError."""
    budget, info = stream.budget, stream.source.info()
    low, high = _READ_BYTES
    work = documents.n_threads * workspace_bytes(documents.options, PIECE_BYTES)
    minimum = {LIBRARY: info.reader_bytes, READING: _BATCHES_HELD * low + work, COUNTING: counting_bytes}
    budget.require_of_any_limit(minimum)
    unused_bytes = budget.available_bytes - sum(minimum.values())
    budget.reserve(LIBRARY, info.reader_bytes)
    read_bytes = min(low + unused_bytes // _READ_SHARE, high)
    budget.reserve(READING, _BATCHES_HELD * read_bytes + work)
    return read_bytes


def _read(
    stream: Stream,
    documents: DocumentColumns,
    read_bytes: int,
    count: Callable[[int, Documents, NDArray[np.float64] | None], None],
) -> None:
    """Call ``count`` with the number of each column, its documents and the weights of their rows, batch by batch.

    Raises DataError with the row for text that is not UTF-8, of which ``count`` raises NotUTF8, and documents that
    are too long."""
    source, progress = stream.source, stream.progress
    info, before = source.info(), source.bytes_read
    assert info.columns is not None, "a table with text columns reads them"
    assert info.encoder is not None
    progress.begin("counting n-grams", info.n_rows or 0, info.n_bytes or 0)
    for batch in info.columns((*documents.names, *info.weight_columns), read_bytes):
        weight = batch.weights(info.encoder)
        columns = dict(zip(batch.rows.schema.names, batch.rows.columns, strict=True))
        try:
            for number, texts in enumerate(documents.documents(columns)):
                try:
                    count(number, texts, weight)
                except NotUTF8 as error:
                    raise not_utf8(documents.names[number], error) from error
        except ValueError as error:
            row, reason = error.args
            raise DataError(f"{batch.path}: row {batch.row(row) + 1}: {reason}") from error
        progress.count(batch.rows.num_rows, source.bytes_read - before)


def _finished(counters: list[VocabularyCounter], files: list[RunFiles], max_columns: int) -> list[Vocabulary]:
    """Return the vocabulary of each counter. files: of each. max_columns: of all. Raises VocabularyTooLarge."""
    vocabularies: list[Vocabulary] = []
    n = 0
    for column_files in files:
        try:
            vocabularies.append(counters.pop(0).finish(max_columns - n))
        except VocabularyTooLarge as error:
            vocabularies.clear()
            for each in files:
                each.release(each.array_bytes)
            raise VocabularyTooLarge(n + error.n) from error
        column_files.close()
        n += len(vocabularies[-1])
    return vocabularies


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
    needs: of the solver, a function of what is left. room: in bytes, by name, that is reserved beside it.
    """
    left = replace(left, lines={**left.lines, **room(left.dataset)})
    needed = needs(left)
    if left.plan(needed) is not None:
        return False
    available = left.limit_bytes - sum(held.values())
    for bits in range(_hashed_bits(documents, available), _MIN_BITS - 1, -1):
        dataset = _as_hashed(left.dataset, documents, bits)
        memory = left_after_reading(dataset, left.limit_bytes, {**held, **room(dataset)})
        if memory is None:
            continue
        memory = replace(memory, limit_bytes=left.limit_bytes - available // _ROWS_SHARE)
        if memory.plan(needs(memory)) is not None:
            what = f"{documents.width:,} n-grams, whose weights ({left.dataset.n_classes:,} classes) take "
            _hash(documents, bits, what + format_size(needed.nbytes), "a larger --memory-limit or --min-df 2")
            return True
    return False


def _as_hashed(dataset: DatasetInfo, documents: DocumentColumns, bits: int) -> DatasetInfo:
    """Return the facts of the data as they would be with hashed n-grams."""
    options = replace(documents.options, hash_bits=bits)
    hashed = DocumentColumns(documents.names, options, documents.n_threads, ordered=documents.ordered)
    facts = dataset.reading
    counts = hashed.nbytes + (_COUNT_BYTES * hashed.width if options.idf else 0)
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


class RunFiles:
    """ScratchFiles in the workspace: runs, gone when it is closed, and arrays of a vocabulary. Thread safe: tables
    may be full at the same time."""

    def __init__(self, workspace: Callable[[], Workspace], number: int) -> None:
        """number: of the column, among those of text."""
        self._workspace, self._number = workspace, number
        self._made: list[tuple[Path, int]] = []
        self._n_arrays = 0
        self.array_bytes = 0  # of the disk
        self._mutex = threading.Lock()

    def new(self, nbytes: int) -> Path:
        """Return a path for a file of ``nbytes``. Raises DiskError."""
        with self._mutex:
            workspace = self._workspace()  # made when it is first asked for
            workspace.claim(nbytes)
            path = workspace.path(f"ngrams-{self._number}-{len(self._made)}")
            self._made.append((path, nbytes))
        return path

    def new_array(self) -> Path:
        """Return a path for a file that grows by what is claimed for it."""
        with self._mutex:
            self._n_arrays += 1
            return self._workspace().path(f"vocabulary-{self._number}-{self._n_arrays}")

    def claim(self, nbytes: int) -> None:
        """Claim disk space for an array. Raises DiskError."""
        self._workspace().claim(nbytes)
        self.array_bytes += nbytes

    def release(self, nbytes: int) -> None:
        """Release disk space that was claimed for arrays."""
        self._workspace().release(nbytes)
        self.array_bytes -= nbytes

    def close(self) -> None:
        """Delete the runs; arrays stay."""
        for path, nbytes in self._made:
            path.unlink(missing_ok=True)
            self._workspace().release(nbytes)
        self._made.clear()
