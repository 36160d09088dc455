"""Outputs that would replace one of the inputs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from llsvm.errors import DataError, UsageError
from llsvm.files.expansion import expand
from llsvm.files.remote import is_remote


def refuse_overwriting(output: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Raise UsageError if ``output`` is one of the files that ``inputs`` (files, folders, patterns) stand for."""
    path = os.fspath(output)
    if not is_remote(path) and not os.path.exists(path):
        return
    for each in inputs:
        with suppress(DataError):  # an input that cannot be found is reported by its reader
            for file in expand([each]):
                if file == path or _is_same(file, path):
                    raise UsageError(f"{path}: would overwrite the input {file}; choose another name")


def _is_same(file: str, path: str) -> bool:
    with suppress(OSError):
        return os.path.samefile(file, path)
    return False
