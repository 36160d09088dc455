"""JSON Lines cut into chunks of whole lines, and their parsing by pyarrow, several at a time.

pyarrow is given no text that has not been looked at: a line that is no object, such as ``null``, would end the
process; and an object that goes on in the next line must not be cut in two.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.json as pajson

from llsvm.data.jsonl_columns import Leaf, flat
from llsvm.errors import DataError

MAX_LINE_BYTES = 4 << 20
_SPACE = b" \t\r"
_NEWLINE, _OPEN, _CLOSE = b"\n{}"
_NULL_BETWEEN = re.compile(rb"\}[ \t\r]*null")


class Chunk(NamedTuple):
    """Some whole lines.

    text: their bytes. number: of the first line, from 1.
    """

    text: bytes
    number: int


def cut_lines(read: Callable[[int], bytes], name: str, size: int, max_rows: int) -> Iterator[Chunk]:
    """Chunks of about ``size`` bytes, one long line excepted, and of ``max_rows`` lines at most.

    read: the next bytes, so many at most; b"" at the end. name: of the file.
    Raises DataError for a line of more than MAX_LINE_BYTES.
    """
    number, carry, ended = 1, b"", False
    while not ended:
        parts, n_bytes, broken = [carry], len(carry), False
        while not ended and (n_bytes < size or not broken):
            part = read(size - n_bytes if n_bytes < size else size)
            ended = not part
            broken = broken or b"\n" in part
            parts.append(part)
            n_bytes += len(part)
            if not broken and n_bytes > MAX_LINE_BYTES:
                refuse_long(name, number)
        text = b"".join(parts)
        stop = len(text) if ended else text.rfind(b"\n") + 1
        carry = text[stop:]
        ends = np.flatnonzero(np.frombuffer(text, np.uint8, stop) == _NEWLINE) + 1
        start = 0
        for end in ends[max_rows - 1 :: max_rows].tolist():
            yield Chunk(text[start:end], number)
            start, number = end, number + max_rows
        if start < stop:
            yield Chunk(text[start:stop], number)
            number += len(ends) % max_rows


def refuse_long(name: str, number: int) -> NoReturn:
    """Raise the DataError for a line of more than MAX_LINE_BYTES. number: of the line."""
    raise DataError(
        f"{name}:{number}: a line of more than {MAX_LINE_BYTES >> 20} MB; write one object a line (jq -c .), and "
        "rows that long as svmlight or Parquet"
    )


def parse(chunk: Chunk, schema: pa.Schema, leaves: Sequence[Leaf]) -> pa.RecordBatch:
    """The columns ``leaves`` of the rows in a chunk. schema: of what pyarrow parses, see ``parsed_schema``.

    Raises ArrowInvalid or ValueError where a line is not what it should be; ``jsonl_errors`` tells which and why.
    """
    text = chunk.text
    if not text.isascii():
        text.decode()
    n_rows = _count_objects(text)
    options = pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    read = pajson.ReadOptions(use_threads=False, block_size=len(text) + 1)
    table = pajson.read_json(pa.BufferReader(text), read_options=read, parse_options=options)
    if table.num_rows != n_rows:
        raise ValueError("there is more than one object in a line")
    batches = table.to_batches()
    return flat(batches[0] if batches else pa.RecordBatch.from_pylist([], schema), leaves)


def _count_objects(text: bytes) -> int:
    """Lines that are not blank. Raises ValueError unless each looks like one object."""
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data == _NEWLINE)
    if data[-1] != _NEWLINE:
        ends = np.append(ends, len(data))
    starts = np.concatenate([[0], ends[:-1] + 1])
    odd = np.flatnonzero((data[starts] != _OPEN) | (data[ends - 1] != _CLOSE))
    n_rows = len(ends)
    for start, end in zip(starts[odd].tolist(), ends[odd].tolist(), strict=True):
        line = text[start:end].strip(_SPACE)
        if not line:
            n_rows -= 1
        elif line[0] != _OPEN or line[-1] != _CLOSE:
            raise ValueError("a line is no object")
    for found in _NULL_BETWEEN.finditer(text):
        start = text.rfind(b"\n", 0, found.start()) + 1
        json.loads(text[start : (text.find(b"\n", start) + 1) or len(text)])
    return n_rows


def parse_ahead(
    chunks: Iterator[Chunk], work: Callable[[Chunk], pa.RecordBatch], threads: int
) -> Iterator[tuple[Chunk, Callable[[], pa.RecordBatch]]]:
    """Each chunk, in order, and a function that waits for what it becomes, while ``threads`` work at those after
    it."""
    if threads == 1:
        for each in chunks:
            yield each, partial(work, each)
        return
    pool = ThreadPoolExecutor(threads, "llsvm-parse")
    waiting: deque[tuple[Chunk, Future[Any]]] = deque()
    failed: DataError | None = None
    try:
        while True:
            chunk: Chunk | None = None
            try:
                chunk = next(chunks, None) if failed is None else None
            except DataError as error:  # what is wrong with the lines before it comes first
                failed = error
            if chunk is not None:
                waiting.append((chunk, pool.submit(work, chunk)))
            if waiting and (chunk is None or len(waiting) > threads):
                done, future = waiting.popleft()
                yield done, future.result
                del done, future
            elif chunk is None:
                break
    finally:
        pool.shutdown(cancel_futures=True)
    if failed is not None:
        raise failed
