"""Which store keeps pages in which format. A new format is a file here and a line in ``open_store``."""

from __future__ import annotations

from llsvm.errors import UsageError
from llsvm.spill.store import PageStore
from llsvm.spill.workspace import Workspace


def open_store(workspace: Workspace, name: str, spill_format: str) -> PageStore:
    """A new, empty store in the file ``name`` of ``workspace``. ``spill_format``: "arrow" or "hdf5"."""
    if spill_format == "arrow":
        from llsvm.spill.arrow import ArrowStore

        return ArrowStore(workspace, name)
    if spill_format == "hdf5":
        from llsvm.spill.hdf5 import HDF5Store

        return HDF5Store(workspace, name)
    raise UsageError(f"spill format must be arrow or hdf5, not {spill_format!r}")
