"""Files by name, pattern or folder: those that paths stand for, those left out, and those named twice."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from llsvm.errors import DataError
from llsvm.files import remote
from llsvm.files.decoding import COMPRESSED_SUFFIXES
from llsvm.files.inputs import STDIN, base_suffix, head_of, unreadable
from llsvm.files.remote import without_credentials

_PACKED_BYTES = 100  # a compressed file of more holds something
_RESCUED = "lost+found"  # where a file system puts what it has found after a crash, for its administrator
_ANY_FOLDERS = "**"
_TWICE, _COPY, _OWN = "the file is named more than once", "left out of the folder", "is the file system's own"
ABOUT_FILES = (_TWICE, _COPY, _OWN)  # words of the notes on which files are read


class Expanded(NamedTuple):
    """Files that paths stand for.

    files: their names. copies: files of folders that are left out, see ``remote.copies_among``. closed: folders
    that are left out, see ``_is_rescued``."""

    files: list[str]
    copies: list[str]
    closed: list[str]

    @property
    def notes(self) -> list[str]:
        """Return what to say of the files that are left out."""
        notes = [f"{folder}: left out: it cannot be read, and {_OWN}" for folder in self.closed]
        if self.copies:
            more = f" and {len(self.copies) - 1:,} more" if len(self.copies) > 1 else ""
            why = "its name continues another file's, as that of a backup or of an older copy does"
            notes.append(f"{self.copies[0]}{more}: {_COPY}: {why}; name the file to have it read")
        return notes


def expand(paths: Sequence[str | os.PathLike[str]]) -> Expanded:
    """Return the files that paths, patterns (``part-*.csv``) and folders stand for, each folder's in order of name;
    of a pattern that no file matches the folders' (``month=*``), as a shell would name them.

    Raises DataError for a pattern or a folder without files, and for a folder on the way that cannot be read.
    """
    all_files: list[str] = []
    copies: list[str] = []
    closed: list[str] = []
    for given in paths:
        path = without_credentials(os.fspath(given))
        if remote.is_remote(path):
            files, of_folder = remote.expand(path)
            all_files, copies = all_files + files, copies + of_folder
        elif os.path.isdir(path):
            empty = (
                "the folder has no file (names that begin with . or _, or end with ~ or .bak, do not count)"
            )
            files, of_folder = _files_under(path, closed)
            all_files, copies = all_files + _require_files(path, files, empty), copies + of_folder
        elif glob.has_magic(path) and not os.path.exists(path):
            matching = sorted(set(_matching(path, closed)))
            files = [name for name in matching if _is(stat.S_ISREG, name)]
            folders = (
                [] if files else [_files_under(name, closed) for name in matching if os.path.isdir(name)]
            )
            files += [file for those, _ in folders for file in those]
            copies += [file for _, those in folders for file in those]
            all_files += _require_files(path, files, "no file is called so")
        else:
            all_files.append(path)
    return Expanded(all_files, copies, [*dict.fromkeys(closed)])


def named_twice(paths: Sequence[str]) -> str:
    """Return a note where a file is among them more than once, by whatever name; else ""."""
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
            return f"{path}: {_TWICE}, and its rows count each time"
        seen.add(known)
    return ""


def without_empty(paths: Sequence[str], but: Collection[str]) -> tuple[list[str], str]:
    """Return the files but for those of no bytes, also once they are unpacked, and a note on these; all where no
    other of that suffix is there, which whoever reads them refuses. but: suffixes of files that stay, for they
    are cut off then."""
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
    """Return whether a file has no bytes, once it is unpacked; False for remote files, which are not asked."""
    if path == STDIN or remote.is_remote(path):
        return False
    try:
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode) or about.st_size > _PACKED_BYTES:
            return False
        return about.st_size == 0 or (path.lower().endswith(COMPRESSED_SUFFIXES) and not head_of(path, 1))
    except (OSError, DataError):  # whoever reads it says what is wrong
        return False


def _require_files(path: str, files: list[str], otherwise: str) -> list[str]:
    if not files:
        raise DataError(f"{path}: {otherwise}; check the path")
    return files


def _files_under(folder: str, closed: list[str]) -> tuple[list[str], list[str]]:
    """Return the files of a folder and of those in it, and the copies among them."""
    files = [
        os.path.join(parent, name)
        for parent, names in _folders(folder, closed, remote.counts)
        for name in names
        if remote.counts(name) and not _is(stat.S_ISDIR, os.path.join(parent, name))
    ]
    copies = remote.copies_among(files)
    return sorted(set(files) - copies), sorted(copies)


def _folders(
    folder: str, closed: list[str], counts: Callable[[str], bool], above: frozenset[str] = frozenset()
) -> Iterator[tuple[str, list[str]]]:
    """Yield a folder and those below it, each with the names in it; links back to those ``above`` are left out.
    closed: takes the folders that are left out, see ``_is_rescued``. counts: names of folders that are entered.
    Raises DataError."""
    real = os.path.realpath(folder)
    if real in above:
        return
    try:
        names = _names(folder)
    except DataError:
        if not _is_rescued(folder):
            raise
        closed.append(folder.rstrip(os.sep))
        return
    yield folder, names
    for name in filter(counts, names):
        if _is(stat.S_ISDIR, path := os.path.join(folder, name)):
            yield from _folders(path, closed, counts, above | {real})


def _is_rescued(folder: str) -> bool:
    """Return whether a folder that cannot be read is one in which a file system keeps what it has rescued."""
    try:
        return os.path.basename(folder.rstrip(os.sep)) == _RESCUED and os.stat(folder).st_uid == 0
    except OSError:
        return False


def _names(folder: str) -> list[str]:
    """Return the names in a folder. Raises DataError."""
    try:
        with os.scandir(folder or os.curdir) as entries:
            return [entry.name for entry in entries]
    except OSError as error:
        raise unreadable(folder, error) from error


def _is(kind: Callable[[int], bool], path: str) -> bool:
    """Return whether there is a file of that kind. Raises DataError where a folder on the way must not be
    entered."""
    try:
        return kind(os.stat(path).st_mode)
    except PermissionError as error:
        raise unreadable(path, error) from error
    except OSError:
        return False


def _matching(pattern: str, closed: list[str]) -> Iterator[str]:
    """Yield what matches, as ``glob`` has it, but a folder that cannot be read is refused, and links that lead
    round are followed once. closed: see ``_folders``. Raises DataError."""
    parts = pattern.split(os.sep)
    if _ANY_FOLDERS not in parts:
        _refuse_unreadable_folders(pattern, closed)
        yield from glob.iglob(pattern)
        return
    place = parts.index(_ANY_FOLDERS)
    above, below = os.sep.join([*parts[:place], ""]), os.sep.join(parts[place + 1 :])
    for top in _matching(above, closed) if glob.has_magic(above) else [above]:
        for folder, names in _folders(top, closed, lambda name: not name.startswith(".")):
            if below:
                yield from _matching(os.path.join(glob.escape(folder), below), closed)
            else:
                yield from (os.path.join(folder, name) for name in names if not name.startswith("."))


def _refuse_unreadable_folders(pattern: str, closed: list[str]) -> None:
    """Raise DataError for a folder that ``glob`` skips without a word, as it cannot be read."""
    parts = pattern.split(os.sep)
    for place, part in enumerate(parts):
        above = os.sep.join([*parts[:place], ""]) or os.curdir
        if not glob.has_magic(part) and not glob.has_magic(above):
            continue
        _is(stat.S_ISDIR, above)
        for folder in glob.iglob(above):
            try:
                if glob.has_magic(part):
                    _names(folder)
                else:
                    _is(stat.S_ISREG, os.path.join(folder, part))
            except DataError:
                if not _is_rescued(folder):
                    raise
                closed.append(folder.rstrip(os.sep))
