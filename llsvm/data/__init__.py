"""Readers: one file per format, all handing out blocks. A new format is a file here and a line in FORMATS."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import PurePath
from typing import Any, NamedTuple, cast

from llsvm.data.source import BlockSource, SourceInfo
from llsvm.errors import UsageError

__all__ = ["FORMATS", "BlockSource", "Format", "SourceInfo", "open_source"]


class Format(NamedTuple):
    """A file format. reader: "module:class", loaded when it is used. suffixes: of file names, lower case."""

    reader: str
    suffixes: tuple[str, ...]


DEFAULT_FORMAT = "svmlight"
FORMATS = {
    "svmlight": Format(
        "llsvm.data.svmlight:SvmlightSource", (".svm", ".svmlight", ".libsvm", ".txt", ".dat")
    ),
}


def open_source(
    data: Any,
    y: Any = None,
    sample_weight: Any = None,
    format: str | None = None,
    zero_based: str = "auto",
    threads: int = 1,
) -> BlockSource:
    """A source of blocks over a file or over arrays.

    data: a path; or X, (n, d), with y, (n,), and perhaps sample_weight, (n,); see ArraySource.
    format: a name in FORMATS; None: by the path's suffix, svmlight for a suffix that nobody claims.
    zero_based: "auto", "yes" or "no": whether the file's column indices start at 0. threads: that parse.
    Raises UsageError for arguments that do not belong together, DataError for data that cannot be read.
    """
    if not isinstance(data, str | os.PathLike):
        if y is None:
            raise UsageError("y is missing: arrays need their labels, pass X and y (or the path of a file)")
        if format is not None:
            raise UsageError(f"format={format!r} is for files, but arrays were given; leave it out")
        from llsvm.data.arrays import ArraySource

        return ArraySource(data, y, sample_weight)
    if y is not None or sample_weight is not None:
        raise UsageError("y and sample_weight go with arrays; a file has its own labels")
    if format is not None and format not in FORMATS:
        raise UsageError(f"unknown format {format!r}; known are {', '.join(FORMATS)}")
    module, name = FORMATS[format or _format_of(data)].reader.split(":")
    reader = getattr(import_module(module), name)
    return cast(BlockSource, reader(data, zero_based=zero_based, threads=threads))


def _format_of(path: str | os.PathLike[str]) -> str:
    suffix = PurePath(path).suffix.lower()
    return next((name for name, entry in FORMATS.items() if suffix in entry.suffixes), DEFAULT_FORMAT)
