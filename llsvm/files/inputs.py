"""Input bytes: local files, remote ones, standard input; plain or compressed; whether they stay the same.

Readers see an ``Input``: something to ``readinto``. What is compressed is told by its first bytes, not by its name.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

from llsvm.errors import DataError
from llsvm.files import remote
from llsvm.files.decoding import (
    COMPRESSED_SUFFIXES,
    DECODING_ERRORS,
    MAGIC,
    UTF_8,
    WINDOW_HEAD_BYTES,
    Recoded,
    Xz,
    ZstdFrames,
    compression_of,
    declared_window,
    decompressed,
    is_utf8,
    xz_text_bytes,
)
from llsvm.files.file_objects import StandardInput, Waiting, looking_ahead

if TYPE_CHECKING:
    from llsvm.files.fingerprint import FileFingerprint, Reading

STDIN = "-"
HEAD_BYTES = 16
_REST_BYTES = 1 << 16
REMOTE_BUFFER_BYTES = 1 << 21  # each is a request of its own, which takes tens of milliseconds
_ZSTD_WINDOW = "requires too much memory"  # zstd's words for a window of more than 128 MB
_DISK_ERRORS = (errno.EIO, errno.ENXIO, errno.ESTALE, errno.ETIMEDOUT, errno.EREMOTEIO)


class Input(io.RawIOBase):
    """Decompressed bytes of one input, once, from the beginning. Close it.

    ``raw_bytes_read``: of the file itself, so compressed. A damaged or truncated compressed file, and a file
    that changes or cannot be read, is a DataError.
    """

    def __init__(
        self, path: str, reading: Reading | None = None, encoding: str = UTF_8, predicting: bool = False
    ) -> None:
        """path: a file, an address, or STDIN. reading: takes in the bytes of the file itself. encoding: of its
        text, which comes as UTF-8. predicting: it is that of a model's training data. Raises DataError."""
        self.path = path
        self._reading = reading
        self._raw = _Counting(path, reading)
        self.head = self._pending = b""
        try:
            start = self._raw.peek(WINDOW_HEAD_BYTES)
            self.head = start[:HEAD_BYTES]
            self._kind = compression_of(self.head)
            self._declared = declared_window(self._kind, start)
            if self._kind == "zstd":
                self._raw.frames = ZstdFrames()
            self._stream: Any = self._raw
            if self._kind == "xz":
                text_bytes = self._raw.xz_text_bytes()
                self._stream = Xz(self._raw, self._declared, text_bytes)
                if text_bytes is not None:  # of its dictionary it touches no more
                    self._declared = min(self._declared, text_bytes)
            elif self._kind:
                self._stream = decompressed(self._raw, self._kind)
            if not is_utf8(encoding):
                self._stream = Recoded(self._stream, path, encoding, predicting)
            if self._stream is not self._raw:
                self.head = self._pending = self._read(HEAD_BYTES)
        except BaseException:
            self._raw.close()
            raise

    @property
    def raw_bytes_read(self) -> int:
        return self._raw.bytes_read

    @property
    def window_bytes(self) -> int:
        """Return what the decompressor holds at most, by what the file has declared so far."""
        return self._declared if self._raw.frames is None else self._raw.frames.largest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if self._pending:
            n = min(len(view), len(self._pending))
            view[:n] = self._pending[:n]
            self._pending = self._pending[n:]
            return n
        if self._stream is self._raw:
            return self._raw.readinto(view)
        return self._guarded(lambda: int(self._stream.readinto(view)))

    def peek(self, n: int) -> bytes:
        """Return the next ``n`` bytes, less only at the end; they are read again."""
        self._pending = read_up_to(self, n) + self._pending
        return self._pending[:n]

    def skip_line(self) -> bool:
        """Go on behind the next end of line; False where there is none, and nothing is left."""
        while part := self.read(_REST_BYTES):
            if (end := part.find(b"\n") + 1) > 0:
                self._pending = part[end:] + self._pending
                return True
        return False

    def finish(self) -> FileFingerprint | None:
        """Complete the fingerprint of the file after the last byte of text, if a reading takes one. Raises
        DataError."""
        if self._reading is None:
            return None
        while self._raw.read(_REST_BYTES):  # what a decompressor leaves
            pass
        return self._reading.finish(self._raw.bytes_read)

    def _read(self, n: int) -> bytes:
        return self._guarded(lambda: bytes(self._stream.read(n)))

    def _guarded(self, read: Any) -> Any:
        try:
            return read()
        except DataError:
            raise
        except (*DECODING_ERRORS, OSError, ValueError) as error:
            if disk_failed(error):
                raise unreadable(self.path, error) from error
            if _ZSTD_WINDOW in str(error):
                raise DataError(
                    f"{self.path}: zstd data whose decoder would hold {self.window_bytes // 10**6:,} MB of text; "
                    "compress it anew with a window of 128 MiB at most, as zstd does by default"
                ) from error
            raise DataError(
                f"{self.path}: {self._kind} data that is cut off or damaged near byte {self.raw_bytes_read} "
                f"({error}); fetch or write the file again"
            ) from error

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _Counting(io.RawIOBase):
    """Bytes of the file itself, counted, and shown to ``reading``; sequential."""

    def __init__(self, path: str, reading: Reading | None) -> None:
        self.path = path
        self._reading = reading
        self.bytes_read = 0
        self.frames: ZstdFrames | None = None  # told of all bytes that are handed out
        self._head = b""
        self._file: Any
        try:
            if path == STDIN:
                if sys.stdin is None:
                    raise DataError("-: standard input is closed; name a file, or pipe data in")
                self._file = StandardInput()
            elif remote.is_remote(path):
                self._file = remote.open_stream(path, REMOTE_BUFFER_BYTES)
            else:
                check_regular(path)
                self._file = Waiting(path)
        except (OSError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise unreadable(path, error) from error

    def peek(self, n: int) -> bytes:
        head = b""
        while len(head) < n:
            part = self._bytes(n - len(head))
            if not part:
                break
            head += part
        self._head = head
        return head

    def xz_text_bytes(self) -> int | None:
        """Return ``xz_text_bytes`` of this file; None where only what is next can be read of it."""
        if self.path == STDIN or not isinstance(self._file, io.FileIO):
            return None
        return xz_text_bytes(self._file.fileno())

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if self._head:
            got = self._head[: len(view)]
            self._head = self._head[len(got) :]
            view[: len(got)] = got
            n = len(got)
        elif isinstance(self._file, io.FileIO):
            try:
                n = self._file.readinto(view)
            except OSError as error:
                raise unreadable(self.path, error) from error
            self._count(view[:n])
        else:
            got = self._bytes(len(view))
            view[: len(got)] = got
            n = len(got)
        if self.frames is not None:
            self.frames.feed(view[:n])
        return n

    def _bytes(self, n: int) -> bytes:
        try:
            got = bytes(self._file.read(n) or b"")
        except OSError as error:
            raise unreadable(self.path, error) from error
        self._count(got)
        return got

    def _count(self, data: bytes | memoryview) -> None:
        self.bytes_read += len(data)
        if self._reading is not None:
            self._reading.add(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def check_regular(path: str) -> os.stat_result:
    """Return the status of a regular file. Raises DataError."""
    if path == STDIN:
        raise DataError(
            "-: standard input is for svmlight, VW, fastText, CSV and JSON Lines; write this format to a file first"
        )
    try:
        status = os.stat(path)
    except OSError as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(status.st_mode):
        if stat.S_ISDIR(status.st_mode):
            remedy = "name a file in it"
        elif stat.S_ISFIFO(status.st_mode):  # of <(command)
            piped = "name - with its --format (command | llsvm ... - --format csv)"
            remedy = f"write the data to a file first, or pipe text into llsvm and {piped}"
        else:
            remedy = "write the data to a file first"
        raise DataError(f"{path}: not a regular file; {remedy}")
    return status


def unreadable(path: str, error: Exception) -> DataError:
    if remote.is_remote(path):
        return remote.unreachable(path, error)
    remedy = "the disk may be failing" if disk_failed(error) else "check the path and its permissions"
    number = error.errno if isinstance(error, OSError) else None
    reason = os.strerror(number) if number else " ".join(str(error).split())
    return DataError(f"{path}: cannot be read: {reason}; {remedy}")


def disk_failed(error: Exception) -> bool:
    """Return whether a disk, and not what is on it, is at fault, whatever library was reading from it."""
    return isinstance(error, OSError) and error.errno in _DISK_ERRORS


def open_seekable(path: str) -> Any:
    """Return a pyarrow file that can be read anywhere, for formats that need it. Raises DataError."""
    import pyarrow as pa

    if remote.is_remote(path):
        return remote.open_file(path)
    try:
        check_regular(path)
        return pa.OSFile(path)
    except OSError as error:
        raise unreadable(path, error) from error


def open_binary(path: str) -> BinaryIO:
    """Return a buffered Python file that can be read anywhere; what ``open`` gives, but remote too. Raises
    DataError."""
    if remote.is_remote(path):
        return io.BufferedReader(remote.open_file(path), REMOTE_BUFFER_BYTES)
    check_regular(path)
    try:
        return open(path, "rb")
    except OSError as error:
        raise unreadable(path, error) from error


def read_up_to(stream: Input, n: int) -> bytes:
    """Return the next ``n`` bytes, less only at the end."""
    parts = []
    while n > 0:
        part = stream.read(n)
        if not part:
            break
        parts.append(part)
        n -= len(part)
    return b"".join(parts)


def head_of(path: str, n: int = HEAD_BYTES) -> bytes:
    """Return the first n bytes, decompressed, less only where there are no more; standard input has them still."""
    with looking_ahead(), Input(path) as stream:
        return stream.peek(n)


def base_suffix(path: str) -> str:
    """Return the suffix that tells the format, lower case: ``.csv`` of ``train.csv.gz``."""
    stem, suffix = os.path.splitext(remote.without_options(path).rstrip("/").lower())
    return os.path.splitext(stem)[1] if suffix in COMPRESSED_SUFFIXES else suffix


_UNPACK = "unpack it, save it as CSV, or name its format"
_OF_PANDAS = "save it as CSV (pandas: read_{}(PATH).to_csv(OUTPUT, index=False))"
_PAGE = "a web page", _OF_PANDAS.format("html")  # of which there is a list of tables
# What text does not begin with, compressed text neither; and how it becomes text.
_NO_TEXT = (
    *((re.escape(magic), f"{kind} data", _UNPACK) for magic, kind in MAGIC),
    (rb"PAR1\x15", "a Parquet file", _UNPACK),
    (rb"ARROW1\x00", "an Arrow file", _UNPACK),
    (rb"\x89HDF\r\n\x1a\n", "an HDF5 file", _UNPACK),
    (rb"\x93NUMPY", "a NumPy file", _UNPACK),
    (rb"PK\x03\x04", "a ZIP archive, or an Excel workbook", _UNPACK),
    (
        rb"\xd0\xcf\x11\xe0",
        "an Excel workbook, or another file of Microsoft Office",
        _OF_PANDAS.format("excel"),
    ),
    (rb".{257}ustar", "a tar archive", "unpack it (tar -xf PATH)"),
    (rb"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (rb"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    (
        rb"SQLite format 3\x00",
        "an SQLite database",
        "save a table as CSV (sqlite3 -csv -header PATH 'select ...')",
    ),
    (
        rb".{8}DUCK.{1,3}\0",
        "a DuckDB database",
        "save a table as Parquet (DuckDB: copy TABLE to 'OUTPUT.parquet')",
    ),
    (rb"ORC.{0,12}[\x00-\x08\x0e-\x1f]", "an ORC file", "save it as Parquet (pyarrow.orc.read_table)"),
    (rb"Obj\x01", "an Avro file", "save it as Parquet or CSV (DuckDB: from read_avro('PATH'))"),
    (rb"MATLAB 5\.0 MAT", "a MATLAB file", _UNPACK),
    (rb"\$FL[23]", "an SPSS file", _OF_PANDAS.format("spss")),
    (rb"<stata_dta>", "a Stata file", _OF_PANDAS.format("stata")),
    (rb"\0{12}\xc2\xea\x81\x60", "a SAS file", _OF_PANDAS.format("sas")),
    (
        rb"RD[AXB][23]\n|[XAB]\n\0",
        "an R file",
        "save its table as CSV (R: write.csv(TABLE, OUTPUT, row.names=F))",
    ),
    (rb"\x80[\x02-\x05][\x95c}\](]", "a pickle of Python", _UNPACK),
    (rb"%PDF-", "a PDF document", _UNPACK),
    (rb"\x89PNG", "an image", _UNPACK),
    (rb"(?i:\s*<(!doctype html|html|table))", *_PAGE),
    (rb"\s*<\?xml", "an XML file", _OF_PANDAS.format("xml")),
)


def refuse_other_kinds(path: str, head: bytes) -> None:
    """Raise DataError where a file of that beginning is another kind of file than text."""
    for magic, what, remedy in _NO_TEXT:
        if re.match(magic, head, re.DOTALL):
            raise DataError(f"{path}: this is {what}, not text; {remedy}")


class TextInput(Input):
    """Bytes of a text file. Raises DataError where the first bytes are those of another kind of file."""

    def __init__(
        self, path: str, reading: Reading | None = None, encoding: str = UTF_8, predicting: bool = False
    ) -> None:
        super().__init__(path, reading, encoding, predicting)
        try:
            refuse_other_kinds(path, self.head)
        except DataError:
            self.close()
            raise


def size_and_mtime(path: str) -> tuple[int, int]:
    """Return (bytes, modification time), by which a change is noticed before anything is read; (0, 0) for standard
    input."""
    if path == STDIN:
        return 0, 0
    if remote.is_remote(path):
        return remote.status(path)
    status = check_regular(path)
    return status.st_size, status.st_mtime_ns


@contextmanager
def unchanged(path: str, expected: tuple[int, int]) -> Iterator[None]:
    """Require that a file stays the same while it is read within this context: it must be as ``expected`` (see
    ``size_and_mtime``) when that begins, and the same file, no different, when it ends or fails.

    What is read while somebody writes is neither the old data nor the new, and beyond a file's end some libraries
    read zeros.
    Raises DataError. Standard input can be read only once and is not looked at.
    """
    if path == STDIN:
        yield
        return
    before = _require_unchanged(path, expected)
    try:
        yield
    except Exception as error:  # a file that is written to is no longer what it claims to be
        try:
            _require_unchanged(path, expected, before)
        except DataError as change:
            raise change from error
        raise
    _require_unchanged(path, expected, before)


def _require_unchanged(
    path: str, expected: tuple[int, int], identity: tuple[int, int] | None = None
) -> tuple[int, int]:
    """Return the identity of the file of that name: device and number, as far as it has one."""
    who = 0, 0
    try:
        if remote.is_remote(path):
            now = remote.status(path)
        else:
            status = check_regular(path)
            now, who = (status.st_size, status.st_mtime_ns), (status.st_dev, status.st_ino)
        if now == expected and identity in (None, who):
            return who
        how = f"{expected[0]:,} bytes at first, now {now[0]:,}"
    except DataError as error:
        if identity is None:
            raise
        how = str(error)
    from llsvm.files.fingerprint import changed  # which loads NumPy

    raise changed(path, how)
