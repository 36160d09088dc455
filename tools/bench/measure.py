"""Runs a command in a process of its own and measures it: time, CPU, peak resident set, bytes read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_LAUNCHER = Path(__file__).with_name("launch.py")
_V1, _V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Measurement:
    """Of one process. Seconds and bytes; None: the kernel does not say.

    read_bytes: by read calls, whether they were served from the page cache or not (mapped files do not count).
    device_read_bytes: fetched from a disk. exit_code: negative for a signal, -9 where memory ran out in a cgroup.
    """

    wall_seconds: float
    cpu_seconds: float
    peak_rss_bytes: int
    read_bytes: int | None
    device_read_bytes: int | None
    written_bytes: int | None
    exit_code: int
    timed_out: bool
    stdout: str = ""
    stderr: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name not in ("stdout", "stderr")}


def run(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cgroup: Cgroup | None = None,
    timeout: float = 3600,
) -> Measurement:
    """Run ``command`` to its end, or kill it after ``timeout`` seconds."""
    reader, writer = os.pipe()
    procs = "" if cgroup is None else str(cgroup.procs)
    launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(writer), procs, str(timeout), *command]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, os.fdopen(reader) as report:
        try:
            process = subprocess.Popen(
                launcher, stdout=out, stderr=err, stdin=subprocess.DEVNULL, pass_fds=[writer], env=env
            )
        finally:
            os.close(writer)
        text = report.read()
        process.wait()
        out.seek(0)
        err.seek(0)
        streams = out.read().decode(errors="replace"), err.read().decode(errors="replace")
    if not text:
        raise RuntimeError(f"{' '.join(command)}: could not be measured: {streams[1]}")
    return Measurement(**json.loads(text), stdout=streams[0], stderr=streams[1])


@dataclass(frozen=True)
class Cgroup:
    """A memory cgroup that commands are run in."""

    folder: Path
    limit_bytes: int

    @property
    def procs(self) -> Path:
        return self.folder / "cgroup.procs"


@contextmanager
def memory_cgroup(limit_bytes: int) -> Iterator[Cgroup]:
    """A memory cgroup (version 1 or 2) with a limit, page cache counted in, without swap.

    Raises OSError where this process may not make one.
    """
    v1 = (_V1 / "memory.limit_in_bytes").exists()
    folder = Path(tempfile.mkdtemp(prefix="llsvm-bench-", dir=_V1 if v1 else _V2))
    try:
        limit, swap = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        if not v1:
            limit, swap = "memory.max", "memory.swap.max"
        (folder / limit).write_text(str(limit_bytes))
        if (folder / swap).exists():
            (folder / swap).write_text(str(limit_bytes) if v1 else "0")
        yield Cgroup(folder, limit_bytes)
    finally:
        folder.rmdir()
