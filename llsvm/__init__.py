"""Linear SVMs on data larger than memory, under a byte limit, with a certificate."""

from __future__ import annotations

import os

__version__ = "0.1.0"
__all__ = ["LLSVMClassifier", "Model", "__version__", "load", "train"]

TYPE_CHECKING = False  # as typing's, which the program would wait for before it can answer a signal
if TYPE_CHECKING:
    from typing import Any

    from llsvm.estimators import LLSVMClassifier
    from llsvm.models.model import Model
    from llsvm.train import load, train

# Before pyarrow is loaded: its own allocators keep what readers free, 100 MB of it after a wide Parquet file.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

# Loaded when first used, so that ``import llsvm`` and ``llsvm --help`` stay instant.
_WHERE = {
    "LLSVMClassifier": "llsvm.estimators",
    "Model": "llsvm.models.model",
    "load": "llsvm.train",
    "train": "llsvm.train",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'llsvm' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value
