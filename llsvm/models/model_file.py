"""The container that models are kept in: a JSON header and named arrays in one ``.npz`` file.

``numpy.load`` opens it, without pickle, whatever its name. Equal contents give equal bytes. What comes from
clocks and places (seconds, peak memory, the spill folder) is kept beside it, in ``PATH.log.json``; a model
works without that file.
What the header of a model holds is said in ``llsvm.models.model``; besides, it lists the arrays: shape, dtype,
CRC-32
of each member. Everything is held against it before memory is taken for anything: what does not fit its own
declaration is refused.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import stat
import struct
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from llsvm.errors import BudgetError, DataError, DiskError, LLSVMWarning, ModelError, UsageError
from llsvm.files import writing as files
from llsvm.files.growing import in_pieces, let_go
from llsvm.files.inputs import open_binary
from llsvm.files.json_checks import check, is_number, is_text, list_of, parsed
from llsvm.files.remote import is_remote, without_credentials
from llsvm.files.writing import replacing
from llsvm.memory.budget import RUNTIME
from llsvm.memory.process import RUNTIME_BYTES, available_bytes, resident_bytes
from llsvm.memory.sizes import format_size
from llsvm.models.decisions import CALIBRATION, THRESHOLD
from llsvm.models.header import check_header, check_log
from llsvm.models.sparse import COUNTS, NAME, PARTS, InPieces, check_shapes
from llsvm.models.tables import CENTERED
from llsvm.process import VERSION

FORMAT = "llsvm-model"
FORMAT_VERSION = 1
# names in ``requires`` that this package honours
KNOWN_REQUIREMENTS = frozenset(
    {
        *("unit_row", "feature_map", "multi_class", "double", "label_kind", "text", "crosses"),
        *(CALIBRATION, THRESHOLD, NAME, CENTERED),
    }
)

HEADER = "header.json"
_CHUNK_BYTES = 1 << 20
_ZEROS_PAY = (
    0.1  # arrays with a smaller share of other values are deflated; else it takes longer than writing
)
_DEFLATE_LEVEL = 1  # weights that are mostly zeros: a third of the time of level 6 for 5 % more bytes
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    TypeError,
    ValueError,
    RuntimeError,  # what is encrypted; NotImplementedError, RecursionError
    struct.error,
)
_MEMBER = re.compile(r"(coef|coef_counts|coef_problems|coef_values|intercept|classes|extra/\w{1,64})\.npy")
_NEEDED = ("intercept", "classes")
_KINDS = "fiubUS"  # of arrays: numbers and text
_END = struct.Struct("<4s4H2LH")  # of a zip file: where its directory is, and how large
_MAX_DIRECTORY_BYTES = 1 << 20
_MAX_LOG_BYTES = 4_000_000  # that of tens of thousands of passes
_MAX_HEADER_BYTES = 1 << 30
_MAX_HEADER_RATIO = 100  # to its bytes in the file; names and categories shrink to a tenth


def write(
    path: str | os.PathLike[str],
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any] | InPieces],
    log: Mapping[str, Any],
) -> None:
    """Write header and arrays to ``path`` and ``log`` to ``path.log.json``, each atomically (no log where the path
    is an address such as ``s3://bucket/model``).

    Raises DiskError where the disk is full, UsageError where the path cannot be written.
    """
    files.refuse_stdout(path)
    with replacing(path) as stream:
        is_file = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
        with zipfile.ZipFile(stream if is_file else cast(Any, _Forwards(stream)), "w") as archive:
            listed = {}
            for name, array in arrays.items():
                array = array if isinstance(array, InPieces) else _stored(array)
                member = _write_member(archive, f"{name}.npy", _npy_pieces(array), _mostly_zeros(array))
                listed[name] = {"shape": array.shape, "dtype": array.dtype.str, "crc32": member.CRC}
            about = {"format": FORMAT, "format_version": FORMAT_VERSION, "arrays": listed}
            text = json_bytes(about | dict(header))
            _write_member(archive, HEADER, [text], _may_be_compressed(text))
        members = _fingerprint(archive)
    # not beside a device, an open file or an address
    if os.path.isfile(path) and not files.is_special(path) and not log_path(path).is_fifo():
        try:
            with replacing(log_path(path)) as stream:
                stream.write(json_bytes({"format": "llsvm-log", "members": members, **log}))
        except (DiskError, UsageError) as error:  # a comfort; the model is complete without it
            warnings.warn(f"{error} (the model itself is written)", LLSVMWarning, stacklevel=3)


def read(
    path: str | os.PathLike[str], with_log: bool = True, unread: Collection[str] = ()
) -> tuple[dict[str, Any], dict[str, NDArray[Any]], dict[str, Any]]:
    """Return header, arrays by name, and log (empty without with_log, if missing, if damaged, of which it warns, or
    if of another model). unread: arrays whose values are not read, and are NaN or 0: they take no memory. Raises
    ModelError."""
    with opened(path) as archive:
        header = _header(archive)
        members = _members(archive, header)
        needed = [member for member in members if member.name not in unread]
        require_memory(sum(member.nbytes * (1 + (member.name == COUNTS)) for member in needed))
        arrays = {
            member.name: _read_array(archive, member) if member in needed else _nothing(member)
            for member in members
        }
        fingerprint = _fingerprint(archive)
    return header, arrays, read_log(log_path(path), fingerprint) if with_log else {}


def require_writable(path: str | os.PathLike[str]) -> None:
    """Raise UsageError or DiskError unless a model can be written to ``path``, and its log beside it."""
    files.require_writable(path)
    if not is_remote(path) and not files.is_special(path):
        files.require_writable(log_path(path))


def log_path(path: str | os.PathLike[str]) -> Path:
    return Path(os.fspath(path) + ".log.json")


def json_bytes(value: Any) -> bytes:
    """Return ``value`` as JSON text, keys sorted, ending in a newline; NaN and infinities become null."""
    return json.dumps(_plain(value), sort_keys=True, indent=1, allow_nan=False).encode() + b"\n"


def _plain(value: Any) -> Any:
    """Return ``value`` as JSON has it; numbers that JSON lacks (NaN, infinities) become null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return os.fspath(value) if isinstance(value, os.PathLike) else value


class _Forwards:
    """Stream to a pipe or a device, in which zipfile cannot go back."""

    def __init__(self, stream: BinaryIO) -> None:
        self.write, self.flush = stream.write, stream.flush


def _write_member(
    archive: zipfile.ZipFile, name: str, pieces: Iterable[bytes], compress: bool
) -> zipfile.ZipInfo:
    # A ZipInfo of our own has a fixed date; the container would otherwise differ from one second to the next.
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    info._compresslevel = _DEFLATE_LEVEL  # type: ignore[attr-defined]  # public only from Python 3.13 on
    info.external_attr = 0o644 << 16
    with archive.open(info, "w", force_zip64=True) as member:
        for piece in pieces:
            member.write(piece)
    return info


def _may_be_compressed(header: bytes) -> bool:
    """Return whether that is a header that readers unpack. They refuse what becomes more than _MAX_HEADER_RATIO
    times as long."""
    # 1024 more, as pieces may be compressed a little better
    min_bytes = len(header) // _MAX_HEADER_RATIO + 1024
    return len(header) <= _MAX_DIRECTORY_BYTES or len(zlib.compress(header, _DEFLATE_LEVEL)) > min_bytes


def _stored(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as it is written: little-endian, of one dimension at least."""
    if array.dtype.hasobject:
        raise ModelError(f"an array of Python objects cannot be stored in a model: {array.dtype}")
    return np.atleast_1d(array.astype(array.dtype.newbyteorder("<"), copy=False))


def _mostly_zeros(array: NDArray[Any] | InPieces) -> bool:
    if isinstance(array, InPieces):
        return False
    n = array.size if array.dtype.kind not in "fu" else sum(map(np.count_nonzero, in_pieces(array)))
    return bool(n < _ZEROS_PAY * array.size)


def _npy_pieces(array: NDArray[Any] | InPieces) -> Iterator[bytes]:
    """Yield ``array`` as a C-ordered .npy file, in pieces, whatever its layout in memory."""
    head = io.BytesIO()
    layout = {"descr": npy.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    npy.write_array_header_1_0(head, layout)
    yield head.getvalue()
    if isinstance(array, InPieces):
        yield from (piece.tobytes() for piece in array.pieces())
        return
    step = max(1, _CHUNK_BYTES * len(array) // max(array.nbytes, 1))
    for start in range(0, len(array), step):
        yield array[start : start + step].tobytes()
        let_go(array)


@dataclass(frozen=True, slots=True)
class _Member:
    """Array in the container. offset: where its values begin in the member, by its own header."""

    name: str
    info: zipfile.ZipInfo
    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def _members(archive: zipfile.ZipFile, header: Mapping[str, Any]) -> list[_Member]:
    """Return the arrays, none of whose values have been read yet. Raises ValueError where the container, the
    members' own headers and the model's header do not say the same."""
    infos = [info for info in archive.infolist() if info.filename != HEADER]
    names = [info.filename for info in infos]
    if strange := [name for name in names if not _MEMBER.fullmatch(name)] or [
        *{n for n in names if names.count(n) > 1}
    ]:
        raise ValueError(f"it holds {strange[0][:60]!r}, which a model does not, or not twice")
    members = [_member(archive, info) for info in infos]
    there = {member.name: member for member in members}
    listed = header.get("arrays")  # the first files have no list
    weights = PARTS if header["extra"].get(NAME) else ("coef",)
    expected = {*_NEEDED, *weights, *(listed or ())}
    if missing := sorted(expected - set(there)):
        raise ValueError(f"its array {missing[0]} is missing")
    if listed is not None:
        for name, member in there.items():
            spec = {"shape": list(member.shape), "dtype": member.dtype.str, "crc32": member.info.CRC}
            if listed.get(name) != spec:
                raise ValueError(
                    f"its array {name} is not what its header says: {spec}, not {listed.get(name)}"
                )
    check_shapes({name: (m.shape, m.dtype.str[1:]) for name, m in there.items()}, header["n_weights"])
    return members


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Member:
    """Return what the member's own header says, if that is as long as the member is."""
    name = info.filename.removesuffix(".npy")
    with open_member(archive, info) as stream:
        if npy.read_magic(stream) != (1, 0):
            raise ValueError(f"its array {name} is of another version of .npy")
        shape, fortran, dtype = npy.read_array_header_1_0(stream)
        member = _Member(name, info, shape, dtype, stream.tell())
    if fortran or dtype.kind not in _KINDS or len(shape) > 2 or any(n < 0 for n in shape):
        raise ValueError(f"its array {name} is of a kind that a model has not: {dtype.str}, {shape}")
    if member.offset + member.nbytes != info.file_size:
        raise ValueError(
            f"its array {name} takes {info.file_size:,} bytes, and {member.nbytes:,} by its shape"
        )
    return member


def open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> BinaryIO:
    """Open a member: zipfile gives no more bytes than the directory declares, and compares the checksum at the
    end."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{info.filename[:60]!r} is compressed in a way that models are not")
    return cast(BinaryIO, archive.open(info))


def _read_array(archive: zipfile.ZipFile, member: _Member) -> NDArray[Any]:
    raw = np.empty(member.nbytes, np.uint8)
    with open_member(archive, member.info) as stream:
        stream.read(member.offset)
        done = 0
        while piece := stream.read(_CHUNK_BYTES):
            raw[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
            done += len(piece)
    if done != member.nbytes:
        raise ValueError(f"its array {member.name} ends after {done:,} of {member.nbytes:,} bytes")
    return raw.view(member.dtype).reshape(member.shape)


def _nothing(member: _Member) -> NDArray[Any]:
    """Return an array of the member's shape whose values all lie in one place."""
    value = np.full((), np.nan if member.dtype.kind == "f" else 0, member.dtype)
    return np.broadcast_to(value, member.shape)


def require_memory(nbytes: int) -> None:
    """Raise BudgetError where a model's arrays do not fit the memory that is available."""
    available, resident = available_bytes(), resident_bytes()
    if resident + nbytes > available:
        lines = {RUNTIME: max(resident, RUNTIME_BYTES), "model": nbytes}
        raise BudgetError("the model", available, sum(lines.values()), lines, at_least=True)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """Yield the container at ``path``; whatever is wrong with its bytes becomes a ModelError that names it."""
    path = without_credentials(os.fspath(path))
    try:
        with open_binary(path) if is_remote(path) else open(path, "rb") as stream:
            start = stream.read(11)
            try:
                _check_directory(stream)
                yield zipfile.ZipFile(stream)
            except _DAMAGE as error:
                raise ModelError(f"{path}: {_diagnosis(start, error)}") from error
    except DataError:
        raise
    except FileNotFoundError as error:
        raise ModelError(f"{path}: no such model file") from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error


def _check_directory(stream: BinaryIO) -> None:
    """Raise ValueError unless the directory, which is read as a whole, is the last thing in the file, and small."""
    if stream.seek(0, os.SEEK_END) < _END.size:
        raise zipfile.BadZipFile("no directory at its end")
    stream.seek(-_END.size, os.SEEK_END)
    signature, *_, nbytes, _, _ = _END.unpack(stream.read(_END.size))
    if signature != b"PK\5\6" or nbytes > _MAX_DIRECTORY_BYTES:
        raise zipfile.BadZipFile("no directory at its end")
    stream.seek(0)


def _diagnosis(start: bytes, error: Exception) -> str:
    if isinstance(error, ModelError):
        return str(error)
    if isinstance(error, RecursionError):
        error = ValueError("its header is nested too deeply")
    if start == b"solver_type":
        return "is a LIBLINEAR model; convert it: `llsvm import PATH --model NEW`"
    if start.startswith(b"PK"):
        return f"the model file is truncated or damaged ({error}); train again, or take it from a backup"
    return "is not an llsvm model"


def _header(archive: zipfile.ZipFile) -> dict[str, Any]:
    header = parsed(_header_text(archive))
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelError("is not an llsvm model")
    number = header.get("format_version")
    if type(number) is not int or number < 1:
        raise ValueError(f"its version is {str(number)[:60]!r}, which is no number")
    if number > FORMAT_VERSION:
        raise ModelError(
            f"a model file of version {number}, made by llsvm {header.get('version')}; "
            f"this is llsvm {VERSION}, which reads up to version {FORMAT_VERSION}: upgrade it"
        )
    check(header, {"requires": list_of(is_text), "version": is_text}, "header")
    if unknown := sorted(set(header["requires"]) - KNOWN_REQUIREMENTS):
        raise ModelError(
            f"made by llsvm {header['version']}, it needs {', '.join(unknown)}, "
            f"which llsvm {VERSION} does not know: upgrade it"
        )
    check_header(header)
    return header


def _header_text(archive: zipfile.ZipFile) -> bytes:
    if archive.namelist().count(HEADER) != 1:
        raise ModelError("is not an llsvm model")
    info = archive.getinfo(HEADER)
    max_bytes = min(_MAX_HEADER_BYTES, max(_MAX_DIRECTORY_BYTES, _MAX_HEADER_RATIO * info.compress_size))
    if info.file_size > max_bytes:
        raise ValueError(f"its header unpacks from {info.compress_size:,} bytes to {info.file_size:,}")
    with open_member(archive, info) as stream:
        return stream.read()


def _fingerprint(archive: zipfile.ZipFile) -> list[int]:
    """Return checksums of the members: they come with the container, without reading it."""
    return [info.CRC for info in archive.infolist()]


def read_log(path: Path, members: list[int]) -> dict[str, Any]:
    """Return the log beside a model; empty where there is none, where it is of another model, and where it is
    damaged, with a warning. members: checksums of the model's own."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return {}
        if status.st_size > _MAX_LOG_BYTES:
            raise ValueError(f"it has {format_size(status.st_size)}")
        log = parsed(path.read_bytes())
        check(log, {"members": list_of(is_number)}, "text")
        if log["members"] != members:
            return {}
        check_log(log)
    except OSError:
        return {}
    except (ValueError, RecursionError) as error:
        said = f"{path}: is not what llsvm writes beside a model, and is ignored: {error}"
        warnings.warn(said, LLSVMWarning, stacklevel=4)
        return {}
    return dict(log)
