"""The one set of options that every kernel is compiled with.

A cached kernel that calls a jitted helper of another file goes stale when only the helper is edited, so every
kernel file is self-contained: it imports nothing jitted.
"""

from __future__ import annotations

from typing import Any

# nogil: kernels run in plain Python threads. cache: the compilation is part of the user's time only once.
JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
