"""A checkout of another commit, for tools that compare two."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@contextmanager
def checkout_of(commit: str) -> Iterator[Path]:
    """A checkout of a commit, as long as it is needed; kernels that are compiled from it are kept in it."""
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory(prefix="llsvm-checkout-") as parent:
        folder = Path(parent) / "llsvm"
        subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
        try:
            yield folder
        finally:
            subprocess.run([*git, "remove", "--force", str(folder)], check=True)
