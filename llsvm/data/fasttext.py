"""fastText's lines, ``__label__sports A document of words ...``: a table with the columns label and text; also
compressed and piped. A label may stand anywhere in its line, as in fastText; a line has one, or none where it is to
be predicted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from llsvm.data.table import TextTable
from llsvm.data.text_chunks import Chunk
from llsvm.errors import DataError
from llsvm.features.encoder import TableEncoder
from llsvm.files.decoding import as_utf8
from llsvm.files.fingerprint import Reading

LABEL, TEXT = "label", "text"  # the columns
PREFIX = "__label__"
_CHUNK_BYTES = (1 << 16, 1 << 20)  # of text, parsed together
_HELD_FACTOR = 6  # bytes held for each byte of a chunk while it is parsed
_SCHEMA = pa.schema([(LABEL, pa.string()), (TEXT, pa.string())])
_USUAL = rf"^{PREFIX}(?P<label>[^ \t\r\n\f\v]+)(?P<text>(?s:.*))$"
_SHOWN = 3


class FastTextSource(TextTable):
    """Files of such lines; see TableSource. Blank lines are left out."""

    format = "fasttext"

    def _begin(self, encoder: TableEncoder | None) -> None:
        if encoder is None and not self._options.text:
            self._options = replace(self._options, text=(TEXT,))

    def _schema(self, number: int) -> pa.Schema:
        return _SCHEMA

    def _reader_bytes(self) -> int:
        chunks = self._threads + 1 if self._threads > 1 else 1
        return (4 << 20) + _HELD_FACTOR * _CHUNK_BYTES[1] * chunks + self._window_bytes

    def _batches(
        self, number: int, names: list[str], max_rows: int, max_bytes: int, reading: Reading | None = None
    ) -> Iterator[pa.RecordBatch]:
        path, n_blank = self._paths[number], 0
        size = min(max(max_bytes, _CHUNK_BYTES[0]), _CHUNK_BYTES[1])
        needed = self._need_label and LABEL in names
        with self._opened(path, reading) as stream:
            work = partial(_parsed, path=path, needed=needed, predicting=self._predicting)
            for _, parsed in self._parsed(stream, work, size, max_rows):
                rows, n_left_out = parsed()
                n_blank += n_left_out
                yield rows.select(names)
            self._fingerprints[number] = stream.finish() or self._fingerprints[number]
        if n_blank and self._predicting and not self._need_label:
            self._note(
                f"{path}: blank lines ({n_blank:,}) are left out, and have no prediction: where they stand for "
                f"empty documents, write {PREFIX} and any name in them"
            )


def _parsed(chunk: Chunk, path: str, needed: bool, predicting: bool) -> tuple[pa.RecordBatch, int]:
    """Return the labels and texts of the lines that are not blank, and how many are. needed: each must have a
    label. predicting: see ``as_utf8``. Raises DataError."""
    lines = _lines(chunk, path, predicting)
    usual = pc.and_(pc.starts_with(lines, PREFIX), pc.equal(pc.count_substring(lines, PREFIX), 1))
    match = pc.extract_regex(lines, _USUAL)  # null where there is no match
    labels, texts = match.field(0), match.field(1)
    odd = np.flatnonzero(~np.asarray(pc.and_(usual, match.is_valid())))
    if not len(odd):
        return pa.record_batch([labels, texts], schema=_SCHEMA), 0
    keep = np.ones(len(lines), bool)
    all_labels, all_texts = labels.to_pylist(), texts.to_pylist()
    for row in odd.tolist():
        line = lines[row].as_py()
        keep[row] = bool(line.strip())
        if keep[row]:
            all_labels[row], all_texts[row] = _split(line, f"{path}:{chunk.number + row}", needed)
    whole = pa.record_batch(
        [pa.array(all_labels, pa.string()), pa.array(all_texts, pa.string())], schema=_SCHEMA
    )
    return whole.filter(pa.array(keep)), int(np.count_nonzero(~keep))


def _lines(chunk: Chunk, path: str, predicting: bool) -> pa.Array:
    """Return the lines of the chunk as text, each with its end."""
    text = chunk.text
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError as error:
            line = chunk.number + text.count(b"\n", 0, error.start)
            raise DataError(f"{path}:{line}: the text is not UTF-8; {as_utf8(text, predicting)}") from error
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1
    offsets = np.concatenate([[0], ends, [len(text)] if not text.endswith(b"\n") else []]).astype(np.int32)
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(text))


def _split(line: str, place: str, needed: bool) -> tuple[str | None, str]:
    """Return label and text of a line that does not begin with its one label, or has not one. Raises DataError."""
    words = line.split()
    labels = [word.removeprefix(PREFIX) for word in words if word.startswith(PREFIX)]
    if "" in labels:
        raise DataError(f"{place}: a label without a name; write one behind {PREFIX}, or leave the line out")
    if needed and len(labels) > 1:
        head = ", ".join(labels[:_SHOWN]) + (", ..." if len(labels) > _SHOWN else "")
        raise DataError(
            f"{place}: {len(labels)} labels ({head}), and a row has one class; keep one, or make one file for each "
            "label (this label against the rest)"
        )
    if needed and not labels:
        raise DataError(
            f"{place}: the line has no label; write {PREFIX}NAME before it, or leave the line out"
        )
    text = " ".join(word for word in words if not word.startswith(PREFIX))
    return (labels[0] if labels else None), text
