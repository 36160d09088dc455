"""``export``: models for other programs; llsvm/models/ writes them."""

from __future__ import annotations

import os
from typing import Literal

from llsvm.errors import UsageError
from llsvm.models.model import Model
from llsvm.settings.option import EXPORTED, require_choice
from llsvm.settings.python import make_callable, takes_options

__all__ = ["export"]


@takes_options
def export(
    model: Model | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    to: Literal["liblinear", "onnx"] = "liblinear",
) -> None:
    """Write a model in the format of another program, atomically.

    model: a model, or the path of its file. path: of the new file. to: liblinear, the text that LIBLINEAR's
    ``predict`` reads; or onnx, for onnxruntime and others (needs the package onnx: pip install 'llsvm[onnx]').

    Warns (LLSVMWarning) of what is left out. Raises ModelError for what the format cannot say, UsageError,
    DiskError.
    """
    require_choice("to", to, EXPORTED)
    if to != "onnx" and os.fspath(path).lower().endswith(".onnx"):
        raise UsageError(f"{os.fspath(path)}: pass --to onnx, or a name that does not say that it is ONNX")
    loaded = model if isinstance(model, Model) else Model.load(model, with_log=False)
    if to == "onnx":
        from llsvm.models.onnx.export import write_onnx

        write_onnx(loaded, path)
    else:
        from llsvm.models.liblinear import write_liblinear

        write_liblinear(loaded, path)


make_callable(__name__, export)
