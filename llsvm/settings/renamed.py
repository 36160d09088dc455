"""Options that had another name once: old names are refused with the new one named, and read in old models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RENAMED = {"multi_class": "multiclass", "text": "categorical"}  # old name -> new one


def with_new_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a model was saved with, by the names that they have today."""
    old = {name for name, new in RENAMED.items() if name in settings and new not in settings}
    return {RENAMED[name] if name in old else name: value for name, value in settings.items()}
