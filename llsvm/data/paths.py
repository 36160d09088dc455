"""Data that are given by the names of files."""

from __future__ import annotations

import os
from typing import Any

NAMES_FILES = (
    "text, or a list of it, is the name of a file, which has its own labels and weights: give documents as a "
    "column of a data frame"
)


def names_files(data: Any) -> bool:
    """Is it a path, or a list of paths?"""
    if isinstance(data, str | os.PathLike):
        return True
    return (
        isinstance(data, list | tuple) and bool(data) and all(isinstance(d, str | os.PathLike) for d in data)
    )
