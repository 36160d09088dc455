"""What stands beside a model, in ``PATH.log.json``: a comfort, which predictions never need."""

from __future__ import annotations

import stat
import warnings
from pathlib import Path
from typing import Any

from llsvm.errors import LLSVMWarning
from llsvm.files.json_checks import check, is_number, list_of, parsed
from llsvm.memory.sizes import format_size
from llsvm.models.header import check_log

_MAX_BYTES = 4_000_000  # of tens of thousands of passes


def read_log(path: Path, members: list[int]) -> dict[str, Any]:
    """Empty where there is none, where it is of another model, and where it is damaged, of which it warns. members:
    checksums of the model's own."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return {}
        if status.st_size > _MAX_BYTES:
            raise ValueError(f"it has {format_size(status.st_size)}")
        log = parsed(path.read_bytes())
        check(log, {"members": list_of(is_number)}, "text")
        if log["members"] != members:
            return {}
        check_log(log)
    except OSError:
        return {}
    except (ValueError, RecursionError) as error:
        said = f"{path}: is not what llsvm writes beside a model, and is ignored: {error}"
        warnings.warn(said, LLSVMWarning, stacklevel=4)
        return {}
    return dict(log)
