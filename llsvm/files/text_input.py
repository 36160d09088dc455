"""TextInput: the bytes of a file of text, or what the file is instead."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from llsvm.errors import DataError
from llsvm.files.inputs import MAGIC, Input
from llsvm.files.recoded import UTF_8

if TYPE_CHECKING:
    from llsvm.files.fingerprint import Reading

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
    """An Input of text. Raises DataError where the first bytes are those of another kind of file."""

    def __init__(
        self, path: str, reading: Reading | None = None, encoding: str = UTF_8, predicting: bool = False
    ) -> None:
        super().__init__(path, reading, encoding, predicting)
        try:
            refuse_other_kinds(path, self.head)
        except DataError:
            self.close()
            raise
