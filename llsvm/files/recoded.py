"""Text in another encoding, as UTF-8, as it is read."""

from __future__ import annotations

import codecs
import io
from typing import Any

from llsvm.errors import DataError

UTF_8 = "utf-8"
_OF_BYTES = "latin-1"  # bytes do not tell it from cp1251 and others
_PIECE_BYTES = 1 << 16


def is_utf8(encoding: str) -> bool:
    """Return whether an encoding is that of UTF-8, by whatever name."""
    return codecs.lookup(encoding).name == UTF_8


def as_utf8(text: bytes = b"", predicting: bool = False) -> str:
    """Return the remedy for text that is not UTF-8. text: some of it, the first bytes at best. predicting: it is
    read for a model that was trained on UTF-8, not to train on it."""
    if predicting:
        return as_trained(UTF_8)
    likely = _likely_encoding(text)
    others = ", or cp1251, shift_jis or what else it is" if likely == _OF_BYTES else ""
    return f"write it as UTF-8, or, to train on it, name its encoding (--encoding {likely}){others}"


def as_trained(encoding: str) -> str:
    """Return the remedy for text that is not in the encoding of a model's training data."""
    name = "UTF-8" if is_utf8(encoding) else encoding
    return f"write it as {name}, as the training data were (iconv converts text)"


def _likely_encoding(text: bytes) -> str:
    """Return the encoding that zero bytes of letters, or the mark that text may begin with, speak for."""
    marked = text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE))
    if b"\0" not in text and not marked:
        return _OF_BYTES
    wide = "utf-32" if b"\0\0\0" in text else "utf-16"
    return wide if marked else f"{wide}-be" if text.startswith(b"\0") else f"{wide}-le"


class Recoded(io.RawIOBase):
    """The text of a stream of bytes, in UTF-8. Raises DataError for bytes that the encoding does not have."""

    def __init__(self, stream: Any, path: str, encoding: str, predicting: bool) -> None:
        """stream: has ``read``. path: for messages. encoding: of the stream. predicting: see ``as_utf8``."""
        self._predicting = predicting
        self._stream, self._path, self._encoding = stream, path, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._marked = codecs.lookup(encoding).name == "utf-8-sig"  # has such a mark
        self._pending = b""
        self._taken = 0  # bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        while not self._pending:
            part = bytes(self._stream.read(_PIECE_BYTES) or b"")
            if self._taken == 0 and part.startswith(codecs.BOM_UTF8) and not self._marked:
                raise DataError(
                    f"{self._path}: the file begins with the byte order mark of UTF-8: it is no {self._encoding} "
                    f"text; {as_trained(self._encoding) if self._predicting else 'leave --encoding out'}"
                )
            try:
                self._pending = self._decoder.decode(part, final=not part).encode()
            except UnicodeError as error:
                place = error.start if isinstance(error, UnicodeDecodeError) else 0
                raise DataError(
                    f"{self._path}: byte {self._taken + place + 1:,} or near it is no {self._encoding} text; "
                    f"{as_trained(self._encoding) if self._predicting else 'name its encoding with --encoding'}"
                ) from error
            self._taken += len(part)
            if not part:
                break
        n = min(len(view), len(self._pending))
        view[:n] = self._pending[:n]
        self._pending = self._pending[n:]
        return n
