"""Files for what does not fit in memory, pages of rows and dual variables. They vanish on every exit."""

from __future__ import annotations

from llsvm.spill.rowstate import RowState
from llsvm.spill.store import PageInfo, PageStore, Scratch, open_store
from llsvm.spill.workspace import Workspace, choose_parent, is_memory_backed

__all__ = [
    "PageInfo",
    "PageStore",
    "RowState",
    "Scratch",
    "Workspace",
    "choose_parent",
    "is_memory_backed",
    "open_store",
]
