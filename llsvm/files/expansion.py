"""Files by name, pattern or folder: those that paths stand for, those left out, and those named twice."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from llsvm.errors import DataError
from llsvm.files import remote
from llsvm.files.credentials import without_credentials
from llsvm.files.inputs import COMPRESSED_SUFFIXES, STDIN, base_suffix, head_of, unreadable

_PACKED_BYTES = 100  # a compressed file of more holds something


class Expanded(NamedTuple):
    """files: that paths stand for. copies: files of folders that are left out, see ``remote.copies_among``."""

    files: list[str]
    copies: list[str]

    @property
    def note(self) -> str:
        """What to say of the copies, or ""."""
        if not self.copies:
            return ""
        more = f" and {len(self.copies) - 1:,} more" if len(self.copies) > 1 else ""
        why = "its name continues another file's, as that of a backup or of an older copy does"
        return f"{self.copies[0]}{more}: left out of the folder: {why}; name the file to have it read"


def expand(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """See ``expanded``."""
    return expanded(paths).files


def expanded(paths: Sequence[str | os.PathLike[str]]) -> Expanded:
    """The files that paths, patterns (``part-*.csv``) and folders stand for, each folder's in order of name; of a
    pattern that no file matches the folders' (``month=*``), as a shell would name them.

    Raises DataError for a pattern or a folder without files, and for a folder on the way that cannot be read.
    """
    found: list[str] = []
    copies: list[str] = []
    for each in paths:
        path = without_credentials(os.fspath(each))
        if remote.is_remote(path):
            files, of_folder = remote.expand(path)
            found, copies = found + files, copies + of_folder
        elif os.path.isdir(path):
            empty = (
                "the folder has no file (names that begin with . or _, or end with ~ or .bak, do not count)"
            )
            files, of_folder = _files_under(path)
            found, copies = found + _some(path, files, empty), copies + of_folder
        elif glob.has_magic(path) and not os.path.exists(path):
            _refuse_unreadable_folders(path)
            matching = sorted(glob.glob(path, recursive=True))
            files = [each for each in matching if _is(stat.S_ISREG, each)]
            folders = [] if files else [_files_under(each) for each in matching if os.path.isdir(each)]
            files += [file for each in folders for file in each.files]
            copies += [file for each in folders for file in each.copies]
            found += _some(path, files, "no file is called so")
        else:
            found.append(path)
    return Expanded(found, copies)


def named_twice(paths: Sequence[str]) -> str:
    """A note where a file is among them more than once, by whatever name; else ""."""
    seen: set[Any] = set()
    for path in paths if len(paths) > 1 else ():
        known: Any = path
        if not remote.is_remote(path):
            try:
                about = os.stat(path)
            except OSError:  # which whoever reads it says
                continue
            known = (about.st_dev, about.st_ino) if stat.S_ISREG(about.st_mode) else None
        if known is not None and known in seen:
            return f"{path}: the file is named more than once, and its rows count each time"
        seen.add(known)
    return ""


def without_empty(paths: Sequence[str], but: Collection[str]) -> tuple[list[str], str]:
    """The files but for those of no bytes, also once they are unpacked, and a note on these; all where no other of
    that suffix is there, which whoever reads them refuses. but: suffixes of files that stay, for they are cut off
    then."""
    empty = [path for path in paths if len(paths) > 1 and base_suffix(path) not in but and _is_empty(path)]
    suffixes = {base_suffix(path) for path in paths if path not in empty} if empty else set()
    empty = [path for path in empty if base_suffix(path) in suffixes]  # others may be of another format
    if not empty:
        return list(paths), ""
    more = "" if len(empty) == 1 else f" (and {len(empty) - 1:,} more)"
    return [
        path for path in paths if path not in empty
    ], f"{empty[0]}{more}: the file is empty: it has no row"


def _is_empty(path: str) -> bool:
    """Of remote files it is not asked."""
    if path == STDIN or remote.is_remote(path):
        return False
    try:
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode) or about.st_size > _PACKED_BYTES:
            return False
        return about.st_size == 0 or (path.lower().endswith(COMPRESSED_SUFFIXES) and not head_of(path, 1))
    except (OSError, DataError):  # whoever reads it says what is wrong
        return False


def _some(path: str, files: list[str], otherwise: str) -> list[str]:
    if not files:
        raise DataError(f"{path}: {otherwise}; check the path")
    return files


def _files_under(folder: str) -> Expanded:
    files = list(_walk(folder))
    copies = remote.copies_among(files)
    return Expanded(sorted(set(files) - copies), sorted(copies))


def _walk(folder: str, above: frozenset[str] = frozenset()) -> Iterator[str]:
    """The files of a folder, and of the folders in it; links back to those ``above`` are left out. Raises
    DataError."""
    real = os.path.realpath(folder)
    if real in above:
        return
    for name in _names(folder):
        if remote.counts(name):
            path = os.path.join(folder, name)
            if _is(stat.S_ISDIR, path):
                yield from _walk(path, above | {real})
            else:
                yield path


def _names(folder: str) -> list[str]:
    """What is in a folder. Raises DataError."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except OSError as error:
        raise unreadable(folder, error) from error


def _is(kind: Callable[[int], bool], path: str) -> bool:
    """Is there a file of that kind? Raises DataError where a folder on the way must not be entered."""
    try:
        return kind(os.stat(path).st_mode)
    except PermissionError as error:
        raise unreadable(path, error) from error
    except OSError:
        return False


def _refuse_unreadable_folders(pattern: str) -> None:
    """Raise DataError for a folder that ``glob`` skips without a word, as it cannot be read."""
    parts = pattern.split(os.sep)
    for place, part in enumerate(parts):
        above = os.sep.join([*parts[:place], ""]) or os.curdir
        if glob.has_magic(part):
            _is(stat.S_ISDIR, above)
            below = os.path.join(above, "**", "") if part == "**" else above
            for folder in glob.iglob(below, recursive=True):
                _names(folder)
        elif glob.has_magic(above):
            for folder in glob.iglob(above, recursive=True):
                _is(stat.S_ISREG, os.path.join(folder, part))
