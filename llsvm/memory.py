"""MemoryBudget: a ledger of bytes under one limit on the peak resident set of the whole process."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from llsvm.errors import BudgetError, UsageError

# What the interpreter, NumPy, Numba, PyArrow and the compiled kernels occupy: measured 160 to 185 MB, and up to
# 252 MB in the run that compiles the kernels. A constant, not a reading, so that the same limit gives the same
# blocks, and thus the same model, on every run.
RUNTIME_BYTES = 264_000_000
# The least that reading and working on rows takes, whatever the data; more is asked for once they are known.
LEAST_WORK_BYTES = 10_000_000
_GRAIN_BYTES = 32_000_000  # a larger process (arrays of the caller, other libraries) is rounded up to this

RUNTIME = "interpreter and libraries"
COMPILING = "compiling"  # more than the other solvers' kernels take

_UNITS = {
    "": 1,
    "B": 1,
    "K": 10**3,
    "KB": 10**3,
    "M": 10**6,
    "MB": 10**6,
    "G": 10**9,
    "GB": 10**9,
    "T": 10**12,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*")


def parse_size(text: str | int, available: int | None = None) -> int:
    """Bytes meant by ``"2GB"`` (10^9), ``"512MiB"`` (2^20), ``"25%"`` of ``available`` bytes, or a number of bytes.

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


def memory_limit_bytes(text: str | int) -> int:
    """``parse_size`` of a limit on memory. Raises UsageError where it is more than the machine, or its container,
    has: nothing would keep it."""
    import psutil

    limit, machine, container = parse_size(text), int(psutil.virtual_memory().total), container_limit_bytes()
    has, who = (
        (machine, "machine has") if container is None or container > machine else (container, "container has")
    )
    if limit > has:
        raise UsageError(
            f"a memory limit of {text} is more than the {format_size(has)} that this {who}: pass less with "
            "--memory (memory_limit in Python), or leave it out for half of what is free"
        )
    return limit


def format_size(nbytes: float) -> str:
    """``1234567`` as ``1.2 MB``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= size:
            return f"{nbytes / size:.1f} {unit}"
    return f"{nbytes:.0f} B"


def _read_int(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def container_limit_bytes(root: str = "/sys/fs/cgroup", self_cgroup: str = "/proc/self/cgroup") -> int | None:
    """The smallest memory limit of the control groups this process lives in (v1 and v2), or None."""
    limits = []
    try:
        lines = Path(self_cgroup).read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            top, name = Path(root), "memory.max"
            if not (top / "cgroup.controllers").exists():
                top = Path(root) / "unified"
        elif "memory" in controllers.split(","):
            top, name = Path(root) / "memory", "memory.limit_in_bytes"
        else:
            continue
        # In a container the path may name the host's folder, which is not visible here; then the top is ours.
        folder = top / group.lstrip("/")
        while True:
            limit = _read_int(folder / name)
            if limit is not None and limit < 2**60:  # v1 says "no limit" by a huge number
                limits.append(limit)
            if folder in (top, folder.parent):
                break
            folder = folder.parent
    return min(limits, default=None)


def available_bytes() -> int:
    """Bytes this process may come to hold in all: what it holds now plus what is free, containers counted."""
    import psutil

    free = int(psutil.virtual_memory().available) + resident_bytes()
    limit = container_limit_bytes()
    return free if limit is None else min(free, limit)


def _status_bytes(field: str) -> int:
    with open("/proc/self/status", "rb") as status:
        for line in status:
            if line.startswith(field.encode()):
                return int(line.split()[1]) * 1024
    return 0


def resident_bytes() -> int:
    """The resident set of this process now (VmRSS)."""
    return _status_bytes("VmRSS:")


def peak_resident_bytes() -> int:
    """The largest resident set this process ever had (VmHWM, what ``/usr/bin/time -v`` prints)."""
    return _status_bytes("VmHWM:")


def return_freed_memory() -> None:
    """Make glibc give large freed arrays back to the system at once, instead of keeping them for later.

    glibc raises its mapping threshold up to 32 MB as large arrays are freed; from then on freed blocks stay
    resident in the heap, and the peak creeps past what the ledger knows.
    """
    m_trim_threshold, m_mmap_threshold, one_mib = -1, -3, 1 << 20
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(m_mmap_threshold, one_mib)
        libc.mallopt(m_trim_threshold, one_mib)
    except (OSError, AttributeError):  # not glibc: its allocator has no such habit
        return


def process_bytes() -> int:
    """What this process takes before it holds any rows: at least RUNTIME_BYTES, rounded up beyond."""
    grains = max(0, -(-(resident_bytes() - RUNTIME_BYTES) // _GRAIN_BYTES))
    return RUNTIME_BYTES + grains * _GRAIN_BYTES


def default_limit_bytes() -> int:
    """The limit where none is given: what the process holds already and half of what is free beyond that.

    It stays within what is available, except that it never refuses small data in a large process.
    """
    held, available = process_bytes(), available_bytes()
    free = max(available - resident_bytes(), 0)
    return max(min(held + free // 2, available), held + LEAST_WORK_BYTES)


def trim_freed_memory() -> None:
    """Give back now what small freed pieces still hold: readers leave tens of megabytes of them behind."""
    with suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


class MemoryBudget:
    """Bytes promised to those who hold large arrays; the sum never exceeds the limit.

    The first line is the runtime (interpreter, libraries, and whatever the caller's process held before),
    so the limit bounds the peak resident set of the whole process.
    """

    def __init__(
        self, limit_bytes: int, runtime_bytes: int | None = None, more: Mapping[str, int] | None = None
    ) -> None:
        """``runtime_bytes``: what the process holds already; measured, at least RUNTIME_BYTES, if None. ``more``:
        lines to begin with. Raises BudgetError where these leave no room to work."""
        self.limit_bytes = limit_bytes
        self._lines: dict[str, int] = {}
        if runtime_bytes is None:
            runtime_bytes = process_bytes()
            needs = {RUNTIME: runtime_bytes, **(more or {})}
            self.require({**needs, "reading and working on rows": LEAST_WORK_BYTES})
        self.reserve(RUNTIME, runtime_bytes)
        for what, nbytes in (more or {}).items():
            self.reserve(what, nbytes)

    @property
    def lines(self) -> Mapping[str, int]:
        """Bytes signed for, by name; to be looked at only."""
        return MappingProxyType(self._lines)

    @property
    def reserved_bytes(self) -> int:
        return sum(self._lines.values())

    @property
    def available_bytes(self) -> int:
        return self.limit_bytes - self.reserved_bytes

    def reserve(self, what: str, nbytes: int) -> int:
        """Sign ``nbytes`` for ``what`` (added to its line, if it has one) and return them. Raises BudgetError."""
        self.require({what: nbytes})
        self._lines[what] = self._lines.get(what, 0) + nbytes
        return nbytes

    def require(self, needs: Mapping[str, int]) -> None:
        """Raise BudgetError unless all of ``needs`` fit together; signs nothing."""
        total = self.reserved_bytes + sum(needs.values())
        if total > self.limit_bytes:
            lines = dict(self._lines)
            for what, nbytes in needs.items():
                lines[what] = lines.get(what, 0) + nbytes
            what = next(iter(needs)) if len(needs) == 1 else "this data and solver"
            raise BudgetError(what, self.limit_bytes, total, lines)

    def resize(self, what: str, nbytes: int) -> None:
        """Make the line ``what`` one of ``nbytes``: new, larger, smaller, or none if 0. Raises BudgetError."""
        more = nbytes - self._lines.get(what, 0)
        if more > 0:
            self.reserve(what, more)
        elif more < 0:
            self.release(what, -more)

    def release(self, what: str, nbytes: int | None = None) -> None:
        """Give back ``nbytes`` of the line ``what``, or all of it.

        Raises ValueError for more than was signed for: whoever does that has lost count.
        """
        signed = self._lines.get(what, 0)
        left = 0 if nbytes is None else signed - nbytes
        if what not in self._lines or not 0 <= left <= signed:
            raise ValueError(f"{what}: {nbytes} bytes released, but {signed} were signed for")
        if left:
            self._lines[what] = left
        else:
            del self._lines[what]

    def mark(self) -> Mapping[str, int]:
        """The lines as they are now, for ``return_to``."""
        return dict(self._lines)

    def return_to(self, mark: Mapping[str, int], but: Collection[str] = ()) -> None:
        """Release what was signed since ``mark``. but: lines to leave as they are. Raises ValueError where a line
        has shrunk since: what was given back cannot be had again without asking."""
        for what in set(self._lines) | set(mark):
            if what not in but and self._lines.get(what, 0) != mark.get(what, 0):
                self.release(what, self._lines.get(what, 0) - mark.get(what, 0))


def default_threads() -> int:
    """Processors that this process may run on."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1
