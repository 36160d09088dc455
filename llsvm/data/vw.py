"""Vowpal Wabbit text: sparse rows whose columns have names, each with a column of its own, in order of appearance.

The names are learned in the first reading and kept in the model; predictions look up the model's, and what it does
not know counts nothing. Nothing is hashed, but pairs of features where that is asked for (``vw_rows``). See
``vw_rows`` for a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from sys import getsizeof

import numpy as np
from numpy.typing import NDArray

from llsvm.block import Block
from llsvm.data.arrow_memory import use_system_memory
from llsvm.data.block_sizes import cut
from llsvm.data.source import FILE_BYTES, SourceInfo
from llsvm.data.table import LIBRARY_BYTES
from llsvm.data.text_chunks import BYTE_ORDER_MARK, Chunk, cut_lines, parse_ahead
from llsvm.data.vw_rows import (
    CELL_BYTES,
    MAX_CELLS,
    BadLineError,
    Examples,
    chosen,
    parse_rows,
    require_met,
    with_crosses,
)
from llsvm.errors import DataError
from llsvm.features.csr_rows import from_cells
from llsvm.files.fingerprint import FileFingerprint, Reading, of_all
from llsvm.files.inputs import STDIN, TextInput, size_and_mtime, unchanged
from llsvm.files.remote import library_bytes
from llsvm.objective.rounding import FULL_DIGITS, Rounding, lost_of_text

_PROBE_BYTES = 1 << 16
_CHUNK_BYTES = (1 << 14, 1 << 18)  # of text, parsed together
_TEXT_FACTOR = 40  # bytes held for each byte of a chunk while it is parsed; measured
_ROW_FACTOR = 8  # of which blocks a reader may hold five: that much for a line longer than a chunk
_NAME_BYTES = 120  # held for each name beside its text: its place in the dictionary; measured
_NAME_COPIES = 2  # of its text: here and while the model is written
_MAX_ROWS = 1 << 14  # of a chunk
_SHOWN = 3


class VWSource:
    """Files of Vowpal Wabbit text as blocks: X CSR float32, y float64, weight where rows have importance weights.

    paths: of the files, or "-" for standard input; read as one.
    need_label: refuse rows without a label.
    names: of the columns of a model, to read for prediction; None: they are learned.
    threads: that parse; blocks do not depend on it.
    cross: pairs of namespaces, "A:B"; see ``vw_rows``. hash_bits: pairs are hashed into 2^hash_bits columns
        for each.
    Raises DataError for a path that is not a readable file, and while reading for the first line that is wrong.
    """

    def __init__(
        self,
        paths: Sequence[str],
        need_label: bool = True,
        names: Sequence[str] | None = None,
        threads: int = 1,
        cross: Sequence[str] = (),
        hash_bits: int | None = None,
    ) -> None:
        use_system_memory()
        self._paths, self._need_label, self._threads = list(paths), need_label, threads
        self._learning = names is None
        self._pairs, self._hash_bits = chosen(str(paths[0]), cross), hash_bits
        self._spaces: set[str] = set()  # namespaces that rows have
        self._numbers: dict[str, int] = {name: i for i, name in enumerate(names or ())}
        self._names: tuple[str, ...] | None = None if names is None else tuple(names)
        self._name_bytes = _NAME_BYTES * len(names or ())  # a model has the text itself
        self._n_unknown = [
            0,
            0,
        ]  # values of features that a model does not know, in a pass; and rows with such
        self._unknown: list[str] = []  # some of these features
        self._notes: list[str] = []
        self._n_rows: int | None = None
        self._file_rows: tuple[int, ...] | None = None
        self._prints = [size_and_mtime(path) for path in self._paths]
        self._n_bytes = None if STDIN in self._paths else sum(size for size, _ in self._prints)
        self._library_bytes = LIBRARY_BYTES + library_bytes(paths) + FILE_BYTES * len(paths)
        self._fingerprints: list[FileFingerprint | None] = [None] * len(self._paths)
        self._all_fingerprints: tuple[FileFingerprint, ...] | None = None  # once there are all
        self._window_bytes = 0  # of the decompressor, the largest so far
        self.bytes_read = 0
        self.rounding = Rounding()
        self._stdin: TextInput | None = None
        file = self._open(0)
        try:
            first = file.peek(_PROBE_BYTES)
        finally:
            if self._paths[0] != STDIN:
                file.close()
        if self._paths[0] == STDIN:
            self._stdin = file
        self._weighted, self._labelled = _probed(first)

    def info(self) -> SourceInfo:
        """Return what is known of the source: rows, columns and names after a complete pass."""
        library = self._library_bytes + self._name_bytes
        held = _TEXT_FACTOR * _CHUNK_BYTES[1] * (self._threads + 1 if self._threads > 1 else 1)
        held += CELL_BYTES * MAX_CELLS if self._pairs else 0
        return SourceInfo(
            name=self._paths[0]
            if len(self._paths) == 1
            else f"{self._paths[0]} ... ({len(self._paths)} files)",
            format="vw",
            n_bytes=self._n_bytes,
            rereadable=self._n_bytes is not None,
            n_rows=self._n_rows,
            n_features=None if self._names is None else len(self._names),
            feature_names=self._names,
            reader_bytes=library + held + self._window_bytes,
            library_bytes=library,
            labelled=self._labelled,
            fingerprints=self._all_fingerprints,
            file_rows=self._file_rows,
            notes=tuple(self._notes),
            rounding=(self.rounding,),
        )

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows, file after file; see BlockSource. Raises DataError."""
        n_rows, self._n_unknown = 0, [0, 0]
        ends = [0]  # of the files, in rows
        for number, path in enumerate(self._paths):
            with unchanged(path, self._prints[number]):
                for rows, line in self._read(number, max_bytes):
                    block = self._block(number, rows, line, n_rows)
                    n_rows += block.n_rows
                    if block.n_rows:
                        yield from cut(block, max_bytes)
            ends.append(n_rows)
        if n_rows == 0:
            raise DataError(f"{self.info().name}: there is no row in it; give a file with at least one row")
        self._n_rows, self._file_rows = n_rows, tuple(b - a for a, b in pairwise(ends))
        self._all_fingerprints = of_all(self._fingerprints)
        if self._learning:
            require_met(self.info().name, self._pairs, self._spaces)
            self._learning, self._names = False, tuple(self._numbers)
        if self._unknown:
            shown = ", ".join(self._unknown)
            values, rows_with = self._n_unknown
            what = f"{values:,} values in {rows_with:,} of {n_rows:,} rows are of features that the model does not"
            self._note(f"{self.info().name}: {what} know, such as {shown}; they count nothing")

    def _read(self, number: int, max_bytes: int) -> Iterator[tuple[Examples, int]]:
        """Yield the rows of a file, and the number of the line that each part begins with."""
        path, seen = self._paths[number], 0
        if path != STDIN:
            file = self._open(number, Reading(path, self._fingerprints[number]))
        elif self._stdin is None:
            raise DataError("-: standard input can be read once only; write the data to a file")
        else:
            file, self._stdin = self._stdin, None
        size = min(max(max_bytes // 2, _CHUNK_BYTES[0]), _CHUNK_BYTES[1])
        longest = max(_CHUNK_BYTES[1], max_bytes // _ROW_FACTOR)
        with file:
            read = lambda n: bytes(file.read(n) or b"")  # noqa: E731
            chunks = cut_lines(read, path, size, _MAX_ROWS, longest, _ROW_FACTOR)
            for chunk, parsed in parse_ahead(chunks, _parsed, self._threads, size):
                self._window_bytes = max(self._window_bytes, file.window_bytes)
                self.bytes_read += file.raw_bytes_read - seen
                seen = file.raw_bytes_read
                try:
                    rows = parsed()
                except BadLineError as error:
                    raise DataError(f"{path}:{chunk.number + error.line}: {error.reason}") from error
                if not self._pairs:
                    yield rows, chunk.number
                    continue
                if self._learning:
                    self._spaces.update(rows.spaces)
                for part in with_crosses(rows, self._pairs, self._hash_bits):
                    yield part, chunk.number
            self._fingerprints[number] = file.finish() or self._fingerprints[number]

    def _block(self, number: int, rows: Examples, line: int, first_row: int) -> Block:
        unlabelled = np.isnan(rows.label)
        if self._need_label and unlabelled.any():
            at = line + int(rows.line[np.argmax(unlabelled)])
            raise DataError(
                f"{self._paths[number]}:{at}: the row has no label; write one before the bar, or leave the row out"
            )
        columns = self._columns(rows.names)[rows.name]
        known = columns >= 0
        self._n_unknown[0] += int(np.count_nonzero(~known))
        self._n_unknown[1] += len(np.unique(rows.row[~known]))
        X = from_cells(rows.row[known], columns[known], rows.value[known], len(rows.label))
        values = self.rounding.values(X.data, lost_of_text(X.data, FULL_DIGITS))
        if not np.isfinite(values).all():
            row = np.searchsorted(X.indptr, np.argmax(~np.isfinite(values)), "right") - 1
            raise DataError(
                f"{self._paths[number]}:{line + int(rows.line[row])}: a value is too large for "
                f"{self.rounding.kind}; scale the data"
            )
        weight = None
        if self._weighted or (rows.weight != 1).any():
            weight = rows.weight
        ids = np.arange(first_row, first_row + len(rows.label), dtype=np.int64)
        return Block(X._replace(data=values), np.where(unlabelled, 0.0, rows.label), ids, weight)

    def _columns(self, names: list[str]) -> NDArray[np.int64]:
        """Return the columns of some names; -1 for those that are not known."""
        if not self._learning:
            columns = np.array([self._numbers.get(name, -1) for name in names], np.int64)
            if len(self._unknown) < _SHOWN and (columns < 0).any():
                new = (name for name, at in zip(names, columns.tolist(), strict=True) if at < 0)
                self._unknown = list(dict.fromkeys([*self._unknown, *new]))[:_SHOWN]
            return columns
        for name in names:
            if name not in self._numbers:
                self._numbers[name] = len(self._numbers)
                self._name_bytes += _NAME_BYTES + _NAME_COPIES * getsizeof(name)
        return np.array([self._numbers[name] for name in names], np.int64)

    def _note(self, sentence: str) -> None:
        if sentence not in self._notes:
            self._notes.append(sentence)

    def _open(self, number: int, reading: Reading | None = None) -> TextInput:
        path = self._paths[number]
        file = TextInput(path, Reading(STDIN) if path == STDIN else reading)
        if file.head.startswith(BYTE_ORDER_MARK):
            file.read(len(BYTE_ORDER_MARK))
        self._window_bytes = max(self._window_bytes, file.window_bytes)
        return file


def _parsed(chunk: Chunk) -> Examples:
    return parse_rows(chunk.text)


def _probed(text: bytes) -> tuple[bool, bool]:
    """Return whether rows have importance weights, and labels, by the first ones. What is wrong is said later."""
    whole = text if len(text) < _PROBE_BYTES else text[: text.rfind(b"\n") + 1]
    try:
        rows = parse_rows(whole) if whole.strip() else None
    except BadLineError:
        rows = None
    if rows is None:
        return False, True
    return bool((rows.weight != 1).any()), not bool(np.isnan(rows.label).all())
