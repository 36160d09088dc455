"""The container that models are kept in: a JSON header and named arrays in one ``.npz`` file.

``numpy.load`` opens it, without pickle, whatever its name. Equal contents give equal bytes. What comes from
clocks and places (seconds, peak memory, the spill folder) is kept beside it, in ``PATH.log.json``; a model
works without that file.
What the header of a model holds is said in ``llsvm.model``.
"""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

import llsvm
from llsvm.credentials import without_credentials
from llsvm.errors import DataError, ModelError
from llsvm.files import replacing
from llsvm.inputs import open_binary
from llsvm.remote import is_remote

FORMAT = "llsvm-model"
FORMAT_VERSION = 1
# names in ``requires`` that this package honours
KNOWN_REQUIREMENTS = frozenset({"unit_row", "feature_map", "multi_class"})

_HEADER = "header.json"
_CHUNK_BYTES = 1 << 20
_ZEROS_PAY = (
    0.1  # arrays with a smaller share of other values are deflated; else it takes longer than writing
)
_DEFLATE_LEVEL = 1  # weights that are mostly zeros: a third of the time of level 6 for 5 % more bytes
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, TypeError, ValueError, NotImplementedError)


def write(
    path: str | os.PathLike[str],
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    log: Mapping[str, Any],
) -> None:
    """Write header and arrays to ``path`` and ``log`` to ``path.log.json``, each atomically (no log where the path
    is an address such as ``s3://bucket/model``).

    Raises DiskError where the disk is full, UsageError where the path cannot be written.
    """
    with replacing(path) as stream:
        with zipfile.ZipFile(stream, "w") as archive:
            head = json_bytes({"format": FORMAT, "format_version": FORMAT_VERSION, **header})
            _write_member(archive, _HEADER, [head], compress=True)
            for name, array in arrays.items():
                mostly_zeros = array.dtype.kind == "f" and np.count_nonzero(array) < _ZEROS_PAY * array.size
                _write_member(archive, f"{name}.npy", _npy_pieces(array), bool(mostly_zeros))
        members = _fingerprint(archive)
    if os.path.isfile(path):  # not beside /dev/null
        with replacing(log_path(path)) as stream:
            stream.write(json_bytes({"format": "llsvm-log", "members": members, **log}))


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]], dict[str, Any]]:
    """Header, arrays by name, and log (empty if missing, or if of another model). Raises ModelError."""
    with _opened(path) as archive:
        header = _header(archive)
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        arrays = {name: _read_array(archive, name) for name in names}
        members = _fingerprint(archive)
    return header, arrays, _read_log(log_path(path), members)


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The header alone, to know a model's size (``n_weights``) before it is loaded. Raises ModelError."""
    with _opened(path) as archive:
        return _header(archive)


def log_path(path: str | os.PathLike[str]) -> Path:
    return Path(os.fspath(path) + ".log.json")


def json_bytes(value: Any) -> bytes:
    """``value`` as JSON text, keys sorted, ending in a newline; NaN and infinities become null."""
    return json.dumps(_plain(value), sort_keys=True, indent=1, allow_nan=False).encode() + b"\n"


def _plain(value: Any) -> Any:
    """``value`` as JSON has it; numbers that JSON lacks (NaN, infinities) become null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _write_member(archive: zipfile.ZipFile, name: str, pieces: Iterable[bytes], compress: bool) -> None:
    # A ZipInfo of our own has a fixed date; the container would otherwise differ from one second to the next.
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    info._compresslevel = _DEFLATE_LEVEL  # type: ignore[attr-defined]  # public only from Python 3.13 on
    info.external_attr = 0o644 << 16
    with archive.open(info, "w", force_zip64=True) as member:
        for piece in pieces:
            member.write(piece)


def _npy_pieces(array: NDArray[Any]) -> Iterator[bytes]:
    """``array`` as a little-endian, C-ordered .npy file, in pieces, whatever its layout in memory."""
    if array.dtype.hasobject:
        raise ModelError(f"an array of Python objects cannot be stored in a model: {array.dtype}")
    array = np.atleast_1d(array.astype(array.dtype.newbyteorder("<"), copy=False))
    head = io.BytesIO()
    layout = {"descr": npy.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
    npy.write_array_header_1_0(head, layout)
    yield head.getvalue()
    step = max(1, _CHUNK_BYTES * len(array) // max(array.nbytes, 1))
    for start in range(0, len(array), step):
        yield array[start : start + step].tobytes()


def _read_array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    with archive.open(f"{name}.npy") as member:
        array: NDArray[Any] = npy.read_array(member, allow_pickle=False)
        if member.read(1):  # reading to the end also makes zipfile compare the checksum
            raise ValueError(f"{name}: bytes after the array")
        return array


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[zipfile.ZipFile]:
    """The container at ``path``; whatever is wrong with its bytes becomes a ModelError that names it."""
    path = without_credentials(os.fspath(path))
    try:
        with open_binary(path) if is_remote(path) else open(path, "rb") as stream:
            start = stream.read(11)
            try:
                yield zipfile.ZipFile(stream)
            except _DAMAGE as error:
                raise ModelError(f"{path}: {_diagnosis(start, error)}") from error
    except DataError:
        raise
    except FileNotFoundError as error:
        raise ModelError(f"{path}: no such model file") from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from error


def _diagnosis(start: bytes, error: Exception) -> str:
    if isinstance(error, ModelError):
        return str(error)
    if start == b"solver_type":
        return "is a LIBLINEAR model; convert it: llsvm import PATH --model NEW"
    if start.startswith(b"PK"):
        return f"the model file is truncated or damaged ({error}); train again, or take it from a backup"
    return "is not an llsvm model"


def _header(archive: zipfile.ZipFile) -> dict[str, Any]:
    header = json.loads(archive.read(_HEADER)) if _HEADER in archive.namelist() else {}
    if header.get("format") != FORMAT:
        raise ModelError("is not an llsvm model")
    if int(header["format_version"]) > FORMAT_VERSION:
        raise ModelError(
            f"a model file of version {header['format_version']}, made by llsvm {header.get('version')}; "
            f"this is llsvm {llsvm.__version__}, which reads up to version {FORMAT_VERSION}: upgrade it"
        )
    if unknown := sorted(set(header["requires"]) - KNOWN_REQUIREMENTS):
        raise ModelError(
            f"made by llsvm {header['version']}, it needs {', '.join(unknown)}, "
            f"which llsvm {llsvm.__version__} does not know: upgrade it"
        )
    return dict(header)


def _fingerprint(archive: zipfile.ZipFile) -> list[int]:
    """Checksums of the members: they come with the container, without reading it."""
    return [info.CRC for info in archive.infolist()]


def _read_log(path: Path, members: list[int]) -> dict[str, Any]:
    try:
        log = json.loads(path.read_bytes())
        return dict(log) if log["members"] == members else {}
    except (OSError, ValueError, KeyError, TypeError):  # the log is a comfort; predictions never need it
        return {}
