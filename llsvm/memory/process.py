"""Memory of this process, of the machine and of its container: what is held, and what may be."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from contextlib import suppress
from pathlib import Path

# What the interpreter, NumPy, Numba, PyArrow and the compiled kernels occupy: measured 160 to 185 MB, and up to
# 252 MB in the run that compiles the kernels. A constant, not a reading, so that the same limit gives the same
# blocks, and thus the same model, on every run.
RUNTIME_BYTES = 264_000_000

# Of these, what may be there before a first run: the interpreter and NumPy (27 to 35 MB), PyArrow (another 40).
_BARE_BYTES, _ARROW_BYTES = 60_000_000, 40_000_000

# The least that reading and working on rows takes, whatever the data; more is asked for once they are known.
MIN_WORK_BYTES = 10_000_000

MEASURED_BYTES = 2_000_000_000  # a file up to this size is read to tell the smallest limit that works

KEPT_SHARE, KEPT_BYTES = 32, (1 << 20, 16 << 20)  # of what is freed: see return_freed_memory
_GRAIN_BYTES = 32_000_000  # a larger process (arrays of the caller, other libraries) is rounded up to this


def _read_int(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def container_limit_bytes(root: str = "/sys/fs/cgroup", self_cgroup: str = "/proc/self/cgroup") -> int | None:
    """Return the smallest memory limit of this process's control groups (v1 and v2), or None."""
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
    """Return the bytes that this process may hold in all: what it holds now and what is free, in its container
    too."""
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
    """Return the resident set of this process now (VmRSS)."""
    return _status_bytes("VmRSS:")


def peak_resident_bytes() -> int:
    """Return the largest resident set that this process has had (VmHWM, as ``/usr/bin/time -v`` prints it)."""
    return _status_bytes("VmHWM:")


# Held by the caller when this is imported, which is before whatever else is ours: his libraries, and his arrays.
_CALLERS_BYTES = resident_bytes() - _BARE_BYTES - ("pyarrow" in sys.modules) * _ARROW_BYTES


def return_freed_memory(room_bytes: int) -> None:
    """Make glibc give large freed arrays back to the system at once, instead of keeping them for later.

    glibc raises its mapping threshold up to 32 MB as large arrays are freed; from then on freed blocks stay
    resident in the heap, and the peak creeps past what the budget knows. Here each thread's heap keeps a small
    share of ``room_bytes``, what there is for rows, at most: what the work on a block takes and frees, and takes
    again for the next block, as memory from the system has to be cleared first, page by page."""
    m_trim_threshold, m_mmap_threshold = -1, -3
    kept_bytes = min(max(room_bytes // KEPT_SHARE, KEPT_BYTES[0]), KEPT_BYTES[1])
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(m_mmap_threshold, kept_bytes)
        libc.mallopt(m_trim_threshold, kept_bytes)
    except (OSError, AttributeError):  # not glibc: its allocator has no such habit
        return


def share_heaps() -> None:
    """Let all threads take small pieces from two heaps. glibc gives each thread one of its own, in which readers
    and whoever compiles kernels leave what they have freed: 10 to 20 MB more with text, measured."""
    m_arena_max = -8
    with suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).mallopt(m_arena_max, 2)


share_heaps()  # at import, as a heap that a thread has is never taken from it


def process_bytes() -> int:
    """Return what this process takes before it holds any rows: RUNTIME_BYTES and what the caller holds, rounded up.

    The caller holds what was there before llsvm was imported or, where that is more, what there is now beyond
    RUNTIME_BYTES."""
    if resident_bytes() > RUNTIME_BYTES:
        trim_freed_memory()  # what a look at many columns has left is nobody's
    callers = max(_CALLERS_BYTES, resident_bytes() - RUNTIME_BYTES, 0)
    return RUNTIME_BYTES + -(-callers // _GRAIN_BYTES) * _GRAIN_BYTES


def default_limit_bytes() -> int:
    """Return the limit where none is given: what the process holds already and half of what is free beyond that.

    It stays within what is available, except that it never refuses small data in a large process.
    """
    held, available = process_bytes(), available_bytes()
    free = max(available - resident_bytes(), 0)
    return max(min(held + free // 2, available), held + MIN_WORK_BYTES)


def trim_freed_memory() -> None:
    """Return freed small pieces to the system now: readers leave tens of megabytes of them behind."""
    with suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def return_dropped_memory() -> None:
    """Return the memory of a run that is over to the system now. The parts of a run refer to each other, so that
    its rows and weights would otherwise be held beside those of the next run."""
    gc.collect()
    trim_freed_memory()


def default_threads() -> int:
    """Return how many processors this process may run on."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1
