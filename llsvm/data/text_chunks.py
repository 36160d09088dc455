"""What the readers of text share: files opened one after the other, and chunks of whole lines, several of them
parsed at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DataError, LongRowError
from llsvm.files.decoding import UTF_8
from llsvm.files.file_objects import looking_ahead
from llsvm.files.fingerprint import Reading
from llsvm.files.inputs import STDIN, TextInput
from llsvm.process.threads import Pool

MAX_LINE_BYTES = 4 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NEWLINE = ord("\n")
T = TypeVar("T")


class Chunk(NamedTuple):
    """Some whole lines.

    text: their bytes. number: of the first line, from 1.
    """

    text: bytes
    number: int


def cut_lines(
    read: Callable[[int], bytes],
    name: str,
    size: int,
    max_rows: int,
    longest: int = MAX_LINE_BYTES,
    row_factor: int = 1,
) -> Iterator[Chunk]:
    """Yield chunks of about ``size`` bytes, one long line excepted, and of ``max_rows`` lines at most.

    read: the next bytes, so many at most; b"" at the end. name: of the file. longest: bytes of a line. row_factor:
    a longer line asks for blocks of so many times its bytes.
    Raises LongRowError; DataError for a line of more than MAX_LINE_BYTES.
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
        if stop > longest:
            _require_no_longer(np.diff(ends, prepend=0, append=stop), name, number, longest, row_factor)
        start = 0
        for end in ends[max_rows - 1 :: max_rows].tolist():
            yield Chunk(text[start:end], number)
            start, number = end, number + max_rows
        if start < stop:
            yield Chunk(text[start:stop], number)
            number += len(ends) % max_rows


def _require_no_longer(
    lengths: NDArray[np.int64], name: str, number: int, longest: int, row_factor: int
) -> None:
    """Raise LongRowError for a line that is too long. lengths: of lines, the first of which is ``number``."""
    length = int(lengths.max())
    if length > longest:
        raise LongRowError(
            f"{name}:{number + int(lengths.argmax())}: a line of {length:,} bytes, too long for the memory limit; "
            "pass a larger --memory-limit",
            row_factor * length,
        )


def refuse_long(name: str, number: int) -> NoReturn:
    """Raise the DataError for a line of more than MAX_LINE_BYTES. number: of the line."""
    raise DataError(
        f"{name}:{number}: a line of more than {MAX_LINE_BYTES >> 20} MB; write one row a line (JSON: jq -c .), "
        "and rows that long as svmlight or Parquet"
    )


def parse_ahead(
    chunks: Iterator[Chunk], work: Callable[[Chunk], T], threads: int, size: int
) -> Iterator[tuple[Chunk, Callable[[], T]]]:
    """Yield each chunk, in order, and a function that waits for what it becomes, while ``threads`` work at those
    after it: as many as if they were of ``size`` bytes each, fewer where they are longer."""
    if threads == 1:
        for each in chunks:
            yield each, partial(work, each)
        return
    waiting: deque[tuple[Chunk, Future[T]]] = deque()
    failed: DataError | None = None
    held = 0  # bytes of those that wait
    with Pool(threads, "llsvm-parse", drop=True) as pool:
        while True:
            chunk: Chunk | None = None
            try:
                chunk = next(chunks, None)
            except DataError as error:  # what is wrong with the lines before it comes first
                failed = error
            more = 0 if chunk is None else len(chunk.text)
            while waiting and (chunk is None or len(waiting) > threads or held + more > (threads + 2) * size):
                done, future = waiting.popleft()
                held -= len(done.text)
                yield done, future.result
                del done, future
            if chunk is None:
                break
            waiting.append((chunk, pool.submit(work, chunk)))
            held += more
    if failed is not None:
        raise failed


class TextSource:
    """Base of readers of text, which opens files one after the other, standard input once, and cuts their lines.

    bytes_read: from disk, of all readings; see BlockSource.
    """

    bytes_read: int
    _threads: int
    _window_bytes = 0  # of decompressors, the largest so far
    _stdin_is_read = False

    @property
    def _text_options(self) -> tuple[str, bool]:
        """Return encoding and ``predicting`` of TextInput."""
        return UTF_8, False

    def _first_text(
        self, path: str, n_bytes: int, is_enough: Callable[[bytes], bool] = lambda text: True
    ) -> bytes:
        """Return the first ``n_bytes`` of a file behind its byte order mark, or a multiple of these that is enough;
        fewer where the file ends. They are read again."""
        with looking_ahead(), TextInput(path, None, *self._text_options) as stream:
            mark = len(BYTE_ORDER_MARK) if stream.head.startswith(BYTE_ORDER_MARK) else 0
            size = n_bytes
            while len(text := stream.peek(mark + size)[mark:]) >= size and not is_enough(text):
                size += n_bytes
            self._window_bytes = max(self._window_bytes, stream.window_bytes)
        return text

    @contextmanager
    def _opened(self, path: str, reading: Reading | None = None) -> Iterator[TextInput]:
        """Open a file behind its byte order mark, and close it. Raises DataError."""
        if path == STDIN:
            if self._stdin_is_read:
                raise DataError("-: standard input can be read once only; write the data to a file")
            self._stdin_is_read = True
        with TextInput(path, reading, *self._text_options) as stream:
            if stream.head.startswith(BYTE_ORDER_MARK):
                stream.read(len(BYTE_ORDER_MARK))
            yield stream

    def _counted(self, stream: TextInput, parts: Iterable[T]) -> Iterator[T]:
        """Yield the parts that are made of the stream, and count its bytes. No part is held while the next one is
        awaited: readers use their arrays again."""
        seen = 0
        for part in parts:
            self._window_bytes = max(self._window_bytes, stream.window_bytes)
            self.bytes_read += stream.raw_bytes_read - seen
            seen = stream.raw_bytes_read
            yielded = [part]
            del part
            yield yielded.pop()

    def _parsed(
        self, stream: TextInput, work: Callable[[Chunk], T], size: int, max_rows: int, *longest: int
    ) -> Iterator[tuple[Chunk, Callable[[], T]]]:
        """Yield chunks of the stream's lines, and functions that wait for what ``work`` makes of them. size,
        max_rows, longest: see ``cut_lines``."""
        chunks = cut_lines(lambda n: bytes(stream.read(n) or b""), stream.path, size, max_rows, *longest)
        yield from self._counted(stream, parse_ahead(chunks, work, self._threads, size))
