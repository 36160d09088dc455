"""Data that are given by the names of files."""

from __future__ import annotations

import glob
import os
from typing import Any

from llsvm.files.inputs import STDIN
from llsvm.files.remote import is_readable

NAMES_FILES = (
    "text, or a list of it, is the name of a file, which has its own labels and weights: give documents as a "
    "column of a data frame"
)


def names_files(data: Any) -> bool:
    """Return whether the data are a path, or a list of paths."""
    if isinstance(data, str | os.PathLike):
        return True
    return (
        isinstance(data, list | tuple) and bool(data) and all(isinstance(d, str | os.PathLike) for d in data)
    )


def named_files(data: Any) -> list[str | os.PathLike[str]]:
    """Return the paths that ``data`` consists of; arrays, data frames and batches have none."""
    if not names_files(data):
        return []
    return [data] if isinstance(data, str | os.PathLike) else list(data)


def may_be_file(name: str | os.PathLike[str]) -> bool:
    """Return whether a file has that name, or matches it as a pattern, or may exist on another machine."""
    path = os.fspath(name)
    return path == STDIN or is_readable(path) or os.path.exists(path) or bool(glob.glob(path, recursive=True))
