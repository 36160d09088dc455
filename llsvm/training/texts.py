"""Vocabularies of text columns, counted in a reading of their own before the first one, under the memory limit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from llsvm.errors import BudgetError, DataError, DiskError, UsageError
from llsvm.features.text.analyzer import Analyzer, Documents, Grams, NotUTF8, workspace_bytes
from llsvm.features.text.columns import DocumentColumns, not_utf8
from llsvm.features.text.vectorizer import PIECE_BYTES
from llsvm.features.text.vocabulary import Vocabulary, VocabularyCounter, VocabularyTooLarge
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.plan import LIBRARY, READING
from llsvm.memory.process import MIN_WORK_BYTES, trim_freed_memory
from llsvm.memory.sizes import format_size
from llsvm.process.threads import Threads
from llsvm.spill.workspace import Workspace
from llsvm.stream.stream import Stream

COUNTING = "counting n-grams"  # a line of the ledger
TABLE_SHARE = 3  # tables take this part (1/3) of the memory there is: they are sorted in as much again
_READ_SHARE, _READ_BYTES = 50, (1 << 16, 1 << 20)  # of batches, of the memory there is
_BATCHES_HELD = 6  # by the reader and here
WEIGHT_BYTES = 100  # that a solver holds of a column, at least
HASHED_BITS = (20, 24)
_HASHED_SHARE = 8  # hashed columns may take this part (1/8) of the memory there is


def learn_texts(stream: Stream, exact: bool) -> None:
    """Learn the vocabularies of the text columns of a stream's source, if it has any that are not known yet; what
    they take is part of its ``library_bytes`` from then on.

    stream: before it is read; with the source, the ledger, and the folder for what does not fit in memory.
    exact: raise where a vocabulary cannot be held; else n-grams are hashed then.
    Raises BudgetError, DataError, DiskError, UsageError.
    """
    source, budget = stream.source, stream.budget
    encoder = source.info().encoder
    documents = None if encoder is None else encoder.documents
    if documents is None or documents.known:
        return
    if not source.info().rereadable:
        if exact:
            raise UsageError(
                f"{source.info().name}: what can be read only once cannot be counted before it is trained on; pass "
                "--hash-bits 20, or write it to a file"
            )
        documents.note = _hashed(documents, budget, "data that can be read only once")
        return
    mark = budget.mark()
    try:
        documents.vocabularies = _counted(stream, documents)
    except VocabularyTooLarge as error:
        what = f"{error.n:,} n-grams, which would take {format_size(error.nbytes)} with their weights"
        budget.return_to(mark)
        if exact:
            raise _too_large(error, budget) from error
        documents.note = _hashed(documents, budget, what)
    except BudgetError as error:  # it is not known what comes after
        raise error.as_least() from error
    finally:
        budget.return_to(mark)
        trim_freed_memory()


def _too_large(error: VocabularyTooLarge, budget: MemoryBudget) -> BudgetError:
    lines = {**budget.lines, f"a vocabulary of {error.n:,} n-grams (--min-df, --hash-bits)": error.nbytes}
    return BudgetError("this vocabulary", budget.limit_bytes, sum(lines.values()), lines)


def _hashed(documents: DocumentColumns, budget: MemoryBudget, why: str) -> str:
    """Go on without vocabularies; returns what people should know of it."""
    bits, most = HASHED_BITS
    room = budget.available_bytes // (_HASHED_SHARE * WEIGHT_BYTES * len(documents.names))
    while bits < most and 1 << (bits + 1) <= room:
        bits += 1
    documents.options = replace(documents.options, hash_bits=bits)
    return (
        f"text: {why}: n-grams are hashed into 2^{bits} columns, without names and document frequencies; a file, "
        "a larger --memory-limit or --min-df 2 may keep them"
    )


def _counted(stream: Stream, documents: DocumentColumns) -> list[Vocabulary]:
    source, budget, progress = stream.source, stream.budget, stream.progress
    info, options, n_threads = source.info(), documents.options, documents.n_threads
    assert info.columns is not None, "a table with text columns reads them"
    budget.reserve(LIBRARY, info.reader_bytes)
    low, high = _READ_BYTES
    read_bytes = min(max(budget.available_bytes // _READ_SHARE, low), high)
    budget.reserve(READING, _BATCHES_HELD * read_bytes + n_threads * workspace_bytes(options, PIECE_BYTES))
    budget.require({COUNTING: MIN_WORK_BYTES})
    room = budget.available_bytes
    budget.reserve(COUNTING, room)
    files = RunFiles(stream.open_workspace)
    progress.begin("counting n-grams", info.n_rows or 0, info.n_bytes or 0)
    before = source.bytes_read
    try:
        with Threads(n_threads) as threads:
            tables = room // (TABLE_SHARE * len(documents.names))
            counters = [
                VocabularyCounter(options, threads, tables, files.new) for _ in range(len(documents.names))
            ]
            analyzers = [Analyzer(options) for _ in range(n_threads)]
            for batch in info.columns(documents.names, read_bytes):
                columns = dict(zip(batch.rows.schema.names, batch.rows.columns, strict=True))
                try:
                    _count(documents, columns, counters, analyzers, threads)
                except ValueError as error:
                    row, reason = error.args
                    raise DataError(f"{batch.path}: row {batch.first_row + row + 1}: {reason}") from error
                progress.rows_done += batch.rows.num_rows
                progress.bytes_done = source.bytes_read - before
            del analyzers
            return _finished(counters, room)
    except DiskError:
        raise
    except OSError as error:
        raise DiskError(f"counting n-grams: {error}; pass another --spill-dir") from error
    finally:
        files.close()


def _count(
    texts: DocumentColumns,
    columns: Mapping[str, pa.Array],
    counters: list[VocabularyCounter],
    analyzers: list[Analyzer],
    threads: Threads,
) -> None:
    """The n-grams of a batch. Raises ValueError(row, reason) for text that is not UTF-8."""
    for name, documents, counter in zip(texts.names, texts.documents(columns), counters, strict=True):
        pieces = documents.pieces(PIECE_BYTES)
        for start in range(0, len(pieces), threads.number):
            some = list(enumerate(pieces[start : start + threads.number]))

            def grams(numbered: tuple[int, tuple[int, int]], documents: Documents = documents) -> Grams:
                t, (first, stop) = numbered
                return analyzers[t].grams(documents, first, stop)

            try:
                counter.add(threads.map(grams, some))
            except NotUTF8 as error:
                raise not_utf8(name, error) from error


def _finished(counters: list[VocabularyCounter], room: int) -> list[Vocabulary]:
    """room: that vocabularies may take, and what they are made of, with the weights of their columns. Raises
    VocabularyTooLarge."""
    vocabularies: list[Vocabulary] = []
    used = 0
    while counters:
        vocabularies.append(counters.pop(0).finish(room - used))
        used += vocabularies[-1].nbytes
    n = sum(map(len, vocabularies))
    if used + WEIGHT_BYTES * n > room:
        raise VocabularyTooLarge(n, used + WEIGHT_BYTES * n)
    return vocabularies


class RunFiles:
    """Runs in the workspace, gone when it is closed. Thread safe: tables may be full at the same time."""

    def __init__(self, workspace: Callable[[], Workspace]) -> None:
        self._workspace = workspace
        self._made: list[tuple[Path, int]] = []
        self._mutex = threading.Lock()

    def new(self, nbytes: int) -> Path:
        """A path for so many bytes. Raises DiskError."""
        with self._mutex:
            workspace = self._workspace()  # made when it is first asked for
            workspace.claim(nbytes)
            path = workspace.path(f"ngrams-{len(self._made)}")
            self._made.append((path, nbytes))
        return path

    def close(self) -> None:
        for path, nbytes in self._made:
            path.unlink(missing_ok=True)
            self._workspace().release(nbytes)
        self._made.clear()
