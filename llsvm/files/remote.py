"""Files that are elsewhere: addresses such as ``s3://bucket/key`` that pyarrow's file systems understand.

Whatever goes wrong there becomes one sentence with the address, the reason and the remedy; the libraries' own
messages run to several lines. Credentials (``s3://KEY:SECRET@bucket/x``) are taken out of an address where it comes
in, and put back where it is opened, so that no message, model or log can hold them.
"""

from __future__ import annotations

import glob
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from fnmatch import fnmatchcase
from functools import lru_cache
from os.path import commonpath
from typing import Any, BinaryIO, cast
from urllib.parse import quote

from llsvm.errors import DataError, UsageError
from llsvm.process.signals import registered_cleanup

_GS_RETRY_SECONDS = 60  # the library's own limit is 15 minutes, in which nothing is said
_REASON_CHARACTERS = 240
_LIBRARY_BYTES = 24_000_000  # measured with S3, its buffers included
_COPY_BYTES = 1 << 20
_SUFFIX = re.compile(r"[^/]\.[A-Za-z]\w*$")  # part.1 is another part, and no copy of part
_END_OF_NAME = re.compile(r"[.-](?=[^/]*$)")
_OBJECT_STORES = ("s3", "gcs", "abfs")
_abandoned: list[Any] = []  # streams to object stores that must never be closed
_REMEDIES = {
    "s3": "check bucket, key and region, and the credentials ($AWS_ACCESS_KEY_ID and $AWS_SECRET_ACCESS_KEY, or "
    "~/.aws); $AWS_ENDPOINT_URL names a server other than Amazon's",
    "gs": "check bucket and key, and the credentials ($GOOGLE_APPLICATION_CREDENTIALS), or read a public bucket as "
    "gs://anonymous@bucket/...",
    "hdfs": "check the address, and that Java and Hadoop's client are installed ($JAVA_HOME, $HADOOP_HOME, "
    "$CLASSPATH)",
    **dict.fromkeys(("http", "https"), "download it first, or pipe it: curl -s ADDRESS | llsvm train - ..."),
}
# key:secret@; slashes may stand in a secret
_USER = re.compile(r"(?<=://)(?:[^/@]*:[^/@]*|[^/@:]*:(?!\d*/)[^@]*)@")
_SECRETS = re.compile(r"[?&](?:\w*(?:key|secret|token|password)\w*|sig)=[^&\s]*", re.IGNORECASE)
_credentials: dict[str, tuple[str, str]] = {}  # by the address they were given with: before and behind it
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_READABLE = re.compile(r"(file|s3|gs|gcs|abfss?|hdfs|viewfs|mock)://\S*")


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Return whether it is an address, such as ``s3://bucket/key``."""
    return _ADDRESS.match(os.fspath(path)) is not None


def is_readable(address: str) -> bool:
    """Return whether the address names a file system that pyarrow knows; no link on the web does, nor a sentence
    with one."""
    return _READABLE.fullmatch(address) is not None


def file_system(path: str) -> tuple[Any, str]:
    """Return the file system of an address, and what the file is called there. Raises DataError."""
    full = with_credentials(path)
    try:
        return _file_system(full)
    except Exception as error:  # ArrowInvalid, NotImplementedError, OSError: by file system
        cause = error if full == path else None  # its text may hold the credentials
        raise unreachable(path, error, "no file system for this address") from cause


@lru_cache(maxsize=256)
def _file_system(path: str) -> tuple[Any, str]:
    from pyarrow import fs

    if path.startswith("gs://") and "retry_limit_seconds=" not in path:
        path += f"{'&' if '?' in path else '?'}retry_limit_seconds={_GS_RETRY_SECONDS}"
    system, inner = fs.FileSystem.from_uri(path)
    return system, inner


def unreachable(path: str, error: Exception, what: str = "cannot be read") -> DataError:
    """Return the error to raise for what a file system said of an address."""
    if isinstance(error, FileNotFoundError):
        return DataError(f"{path}: there is no such file; check the address, the bucket included")
    reason = hide_credentials(str(error).strip()) or type(error).__name__
    reason = re.sub(
        r"\s*(\(Request ID|error_info=|Learn more about|; Details:).*", "", reason, flags=re.DOTALL
    )
    reason = re.sub(r"\s+", " ", reason.split("\n")[0])
    reason = reason.rstrip(" .;")[:_REASON_CHARACTERS]
    remedy = _REMEDIES.get(path.split("://")[0], "check the address and the credentials")
    return DataError(f"{path}: {what}: {reason}; {remedy}")


def library_bytes(paths: Sequence[str]) -> int:
    """Return the bytes to reserve for the file systems' libraries; 0 where all files are local."""
    return _LIBRARY_BYTES if any(map(is_remote, paths)) else 0


def status(path: str) -> tuple[int, int]:
    """Return (bytes, modification time) of a file. Raises DataError."""
    system, inner = file_system(path)
    try:
        info = system.get_file_info(inner)
    except OSError as error:
        raise unreachable(path, error) from error
    if not info.is_file:
        raise unreachable(path, FileNotFoundError())
    return int(info.size or 0), int(info.mtime_ns or 0)


def open_stream(path: str, buffer_bytes: int) -> Any:
    """Return a pyarrow stream of the file's bytes. Raises DataError."""
    system, inner = file_system(path)
    try:
        return system.open_input_stream(inner, compression=None, buffer_size=buffer_bytes)
    except OSError as error:
        raise unreachable(path, error) from error


def open_file(path: str) -> Any:
    """Return a pyarrow file that can be read anywhere. Raises DataError."""
    system, inner = file_system(path)
    try:
        return system.open_input_file(inner)
    except OSError as error:
        raise unreachable(path, error) from error


def expand(path: str) -> tuple[list[str], list[str]]:
    """Return the addresses that a pattern or a folder stands for, in order of name; else the address itself. A
    pattern means what it means for local files: ``*`` stays within a folder, ``**`` does not. And those that are
    left out of a folder, see ``copies_among``. Raises DataError."""
    from pyarrow import fs

    address = without_options(path)
    options = path[len(address) :]
    start = address.index("://") + 3
    magic = min((address.find(c, start) for c in "*?[" if c in address[start:]), default=-1)
    if magic >= 0 and "/" not in address[start:magic]:
        raise DataError(
            f"{path}: a pattern cannot stand for the name of a bucket, or of a host; write that out"
        )
    top = path if magic < 0 else address[: address.rindex("/", 0, magic)] + options
    system, inner = file_system(top)
    try:
        if magic < 0 and system.get_file_info(inner).type != fs.FileType.Directory:
            return [path], []
        entries = system.get_file_info(fs.FileSelector(inner, recursive=True, allow_not_found=True))
    except OSError as error:
        raise unreachable(path, error) from error
    names = sorted(entry.path for entry in entries if entry.type == fs.FileType.File)
    top_parts = len(inner.strip("/").split("/"))
    pattern = None if magic < 0 else address[start:].split("/")[-(address[magic:].count("/") + 1) :]
    matching = [name for name in names if _matches(name.strip("/").split("/")[top_parts:], pattern)]
    if not matching:
        raise DataError(f"{path}: there is no file there; check the address")
    host = address[: address.find("/", start)] if "/" in address[start:] else address
    copies = copies_among(matching) if pattern is None else set()
    both: tuple[list[str], list[str]] = ([], [])
    for name in matching:
        both[name in copies].append(host + quote(_below_host(name), safe="/=:@+,;!$&'()~") + options)
    return both


def without_options(path: str) -> str:
    """Return ``s3://bucket/key`` of ``s3://bucket/key?region=eu-west-1``; a ? of a pattern is not the start of
    options."""
    return re.sub(r"\?\w+=[^/]*(/.*)?$", "", path) if is_remote(path) else path


def _below_host(inner: str) -> str:
    """Return ``/key`` of ``bucket/key`` (object stores) and of ``/key`` (file systems)."""
    return inner if inner.startswith("/") else "/" + inner.partition("/")[2]


def counts(name: str) -> bool:
    """Return whether a file or folder of this name belongs to the data of the folder that it is in: hidden ones and
    backups do not."""
    return not name.startswith((".", "_")) and not name.endswith(("~", ".bak"))


def copies_among(files: Sequence[str]) -> set[str]:
    """Return the files of a folder whose name is that of another one and more, as names of backups and of rotated
    files are: rows.csv.1, rows.csv.2.gz and rows.csv-2024-01-31 beside rows.csv. Their rows would count twice."""
    known = {file for file in files if _SUFFIX.search(file)}
    return {
        file for file in files if any(file[: end.start()] in known for end in _END_OF_NAME.finditer(file))
    }


def _matches(parts: list[str], pattern: list[str] | None) -> bool:
    """Return whether a file below the folder, by the names on its way, matches; without a pattern, whether it is
    not hidden."""
    if pattern is None:
        return all(map(counts, parts))
    if not pattern or not parts:
        return not pattern and not parts
    if pattern[0] == "**":
        return any(_matches(parts[i:], pattern[1:]) for i in range(len(parts) + 1))
    is_hidden = parts[0].startswith(".") and glob.has_magic(pattern[0]) and not pattern[0].startswith(".")
    return not is_hidden and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def require_folder(path: str) -> None:
    """Raise UsageError unless a file can be expected to be written to the address."""
    from pyarrow import fs

    if path.endswith("/") or path.count("/") < 3:
        raise UsageError(f"{path}: is a folder; name a file in it")
    try:
        system, inner = file_system(path)
        top = inner.split("/")[0] if not inner.startswith("/") else os.path.dirname(inner)
        missing = system.get_file_info(top).type == fs.FileType.NotFound
    except (DataError, OSError) as error:
        raise UsageError(str(error if isinstance(error, DataError) else unreachable(path, error))) from error
    if missing:
        raise UsageError(f"{path}: there is no {top} to write to; create it first")


@contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Yield a local temporary file ($TMPDIR) that is sent to the address when the block ends without an error.

    Nothing is sent after an error in the block; should sending itself fail, what was at the address stays.
    Raises UsageError.
    """
    with ExitStack() as stack:
        local = stack.enter_context(tempfile.NamedTemporaryFile(prefix="llsvm-"))
        stack.enter_context(registered_cleanup(lambda: os.unlink(local.name)))
        yield cast(BinaryIO, local)
        local.flush()
        local.seek(0)
        system, inner = file_system(path)
        try:
            _send(cast(BinaryIO, local), system, inner)
        except OSError as error:
            raise UsageError(
                f"{unreachable(path, error, 'cannot be written')}; what was there is as it was"
            ) from error


def _send(local: BinaryIO, system: Any, inner: str) -> None:
    """In a store of objects one appears, or takes another's place, when its stream is closed, and only then; a file
    elsewhere is written beside its place, and renamed."""
    store = system.type_name in _OBJECT_STORES
    there = inner if store else os.path.join(os.path.dirname(inner), f".llsvm-{secrets.token_hex(8)}.tmp")
    out = system.open_output_stream(there, compression=None)
    try:
        while piece := local.read(_COPY_BYTES):
            out.write(piece)
    except BaseException:
        if store:
            _abandoned.append(out)  # letting go of it would close it
        raise
    else:
        out.close()
        if system.type_name == "hdfs":  # it renames to a free name alone
            with suppress(OSError):
                system.delete_file(inner)
        if not store:
            system.move(there, inner)
    finally:
        if not store:
            with suppress(OSError):
                out.close()
            with suppress(OSError):  # renamed, as a rule
                system.delete_file(there)


def without_credentials(path: str) -> str:
    """Return the address as it may be shown: ``s3://bucket/x`` for ``s3://KEY:SECRET@bucket/x``.

    The credentials are remembered for whatever is opened under that address. Whatever takes an address from outside
    calls this first; other text comes back as it is.
    """
    if "://" not in path:
        return path
    user, options = _USER.search(path), "&".join(secret[1:] for secret in _SECRETS.findall(path))
    if user is None and not options:
        return path
    shown = hide_credentials(path)
    _credentials[shown] = (quote(user[0][:-1], safe=":%") + "@" if user else "", options)
    return shown


def hide_credentials(text: str) -> str:
    """Return ``text`` without the credentials of the addresses in it."""
    text = _SECRETS.sub(lambda match: "?" if match[0].startswith("?") else "", _USER.sub("", text))
    return re.sub(r"\?(&|$)", lambda match: "?" if match[1] else "", text)


def with_credentials(path: str) -> str:
    """Return the address with the credentials given for it, or for the one most like it in the same place."""
    host = path[: path.find("/", path.index("://") + 3)]
    same = [shown for shown in _credentials if shown.startswith(host)]
    if not same:
        return path
    user, options = _credentials[max(same, key=lambda shown: len(commonpath([shown, path])))]
    full = path.replace("://", f"://{user}", 1)
    return f"{full}{'&' if '?' in full else '?'}{options}" if options else full
