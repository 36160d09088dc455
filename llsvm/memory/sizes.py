"""Sizes in bytes, read from text and written for people."""

from __future__ import annotations

import mmap
import re

from llsvm.errors import UsageError
from llsvm.memory.process import available_bytes, container_limit_bytes

_UNITS = {"": 1, "B": 1}
for _power, _prefix in enumerate("KMGT", 1):
    _UNITS |= {_prefix: 1000**_power, f"{_prefix}B": 1000**_power, f"{_prefix}IB": 1024**_power}

_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*")


def parse_size(text: str | int, available: int | None = None) -> int:
    """Return the bytes of ``"2GB"`` (10^9), ``"512MiB"`` (2^20), ``"25%"`` of ``available``, or a number of bytes.

    ``available`` defaults to ``available_bytes()``. Raises UsageError.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        nbytes = text
    else:
        text = str(text)
        number, unit = "", ""
        if match := _SIZE.fullmatch(text.removesuffix("%")):
            number, unit = match.group(1), match.group(2).upper()
        if not number or (text.endswith("%") and unit) or unit not in _UNITS:
            raise UsageError(f"not a size: {text!r} (write 2GB, 512MiB, 25% or a number of bytes)")
        if text.endswith("%"):
            if not 0 < float(number) <= 100:
                raise UsageError(f"not a share of memory: {text!r} (more than 0%, at most 100%)")
            nbytes = int(float(number) / 100 * (available_bytes() if available is None else available))
        else:
            nbytes = int(float(number) * _UNITS[unit])
    if nbytes <= 0:
        raise UsageError(f"not a size: {text!r} (must be more than 0 bytes)")
    return nbytes


def format_size(nbytes: float) -> str:
    """Return a size as people write it: ``1234567`` as ``1.2 MB``."""
    for unit in ("GB", "MB", "kB"):
        if nbytes >= (size := _UNITS[unit.upper()]):
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes:.0f} B"


def memory_limit_bytes(text: str | int) -> int:
    """Return the bytes of a memory limit, see ``parse_size``. Raises UsageError where it is more than the machine,
    or its container, has in whole pages: such a limit could not be kept."""
    import psutil

    limit, machine, container = parse_size(text), int(psutil.virtual_memory().total), container_limit_bytes()
    has, who = (
        (machine, "machine has") if container is None or container > machine else (container, "container has")
    )
    if limit >= has + mmap.PAGESIZE:  # the kernel rounds a container's limit down to whole pages
        raise UsageError(
            f"a memory limit of {text} is more than the {format_size(has)} that this {who}: pass less with "
            "--memory-limit, or leave it out for half of what is free"
        )
    return limit
