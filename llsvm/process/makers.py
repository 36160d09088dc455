"""Makers: names of temporary files and folders that say which process has made them, so that what a killed one has
left is known for what it is, at once, and nothing of one alive is taken for that."""

from __future__ import annotations

import os
import re
import secrets
from functools import cache
from hashlib import blake2b
from pathlib import Path

_SIGNED = re.compile(r"[0-9a-f]{16}-([0-9a-f]{8})-([0-9]+)(?:\.|$)")
_UNKNOWN = "0" * 8


def signed_name(prefix: str, suffix: str = "") -> str:
    """A name that no other process, on whatever host, nor thread makes."""
    return f"{prefix}{secrets.token_hex(8)}-{_processes()}-{os.getpid()}{suffix}"


def maker_is_dead(name: str) -> bool:
    """Is the process that has made a ``signed_name`` known to be gone? No, where it ran elsewhere."""
    found = _SIGNED.search(name)
    if found is None or found[1] == _UNKNOWN or found[1] != _processes():
        return False
    return not os.path.exists(f"/proc/{found[2]}")


@cache
def _processes() -> str:
    """What tells the processes that are numbered with this one from those of another host, boot or container, which
    may have the same numbers; 8 hexadecimal digits."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        told = boot + os.readlink("/proc/self/ns/pid")
    except OSError:
        return _UNKNOWN
    return blake2b(told.encode(), digest_size=4).hexdigest()
