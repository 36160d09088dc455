"""TextInput: the bytes of a file of text, or what the file is instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llsvm.errors import DataError
from llsvm.files.inputs import MAGIC, Input
from llsvm.files.recoded import UTF_8

if TYPE_CHECKING:
    from llsvm.files.fingerprint import Reading

# What text does not begin with, compressed text neither.
_NO_TEXT = (
    *((magic, f"{kind} data") for magic, kind in MAGIC),
    (b"PAR1\x15", "a Parquet file"),
    (b"ARROW1\x00", "an Arrow file"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy file"),
    (b"PK\x03\x04", "a ZIP archive, or an Excel workbook"),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook, or another file of Microsoft Office"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"Obj\x01", "an Avro file"),
    (b"MATLAB 5.0 MAT", "a MATLAB file"),
    (b"\x80\x04\x95", "a pickle of Python"),
    (b"\x80\x05\x95", "a pickle of Python"),
    (b"%PDF-", "a PDF document"),
    (b"\x89PNG", "an image"),
    (b"<!DOCTYPE html", "a web page"),
    (b"<!doctype html", "a web page"),
    (b"<html", "a web page"),
)


class TextInput(Input):
    """An Input of text. Raises DataError where the first bytes are those of another kind of file."""

    def __init__(self, path: str, reading: Reading | None = None, encoding: str = UTF_8) -> None:
        super().__init__(path, reading, encoding)
        what = next((what for magic, what in _NO_TEXT if self.head.startswith(magic)), None)
        if what is not None:
            self.close()
            raise DataError(
                f"{path}: this is {what}, not text; unpack it, save it as CSV, or name its format"
            )
