"""The memory limit of a run, and the ledger that it begins with."""

from __future__ import annotations

from llsvm.data.source import SourceInfo
from llsvm.errors import BudgetError
from llsvm.memory.budget import COMPILING, MemoryBudget
from llsvm.memory.plan import STATE
from llsvm.memory.process import MEASURED_BYTES, default_limit_bytes
from llsvm.memory.sizes import memory_limit_bytes
from llsvm.settings.settings import Settings
from llsvm.state.checkpoints import HELD_BYTES, Checkpoints

_JOINT = ("crammer-singer", "weston-watkins")
# Their kernels take more to compile than the others: measured 308 MB under a limit of 300, 8 MB too many. It is
# asked for whether they are compiled or not, so that the same limit gives the same model.
_JOINT_COMPILE_BYTES = 20_000_000
# As those of two solvers do, where pairs of classes go over from coordinate descent to the smoothed Newton method:
# measured 308 MB under a limit of 302.
_PAIRS_COMPILE_BYTES = 12_000_000
# As those of text do: measured 431 MB under a limit of 430, of which 20 MB were for this, and 391 MB under one of
# 390, of which 26 MB were.
_TEXT_COMPILE_BYTES = 29_000_000
# As those that score held-out rows do, beside a solver's: measured 513 MB under a limit of 500, of which 20 MB were
# for this.
_TUNE_COMPILE_BYTES = 40_000_000


def budget_of(
    settings: Settings, info: SourceInfo, checkpoints: Checkpoints | None, tunes: bool = False
) -> tuple[MemoryBudget, BudgetError | None]:
    """The ledger; and, where the limit leaves no room to work, the refusal: the ledger is then of the smallest that
    does, since the data may ask for more still. info: of the source. tunes: see Training.

    Raises BudgetError where that is not to be found out. UsageError: no limit that could be kept."""
    nbytes = limit_of(settings, checkpoints)
    has_text = info.encoder is not None and info.encoder.documents is not None
    compiling = (settings.multiclass in _JOINT) * _JOINT_COMPILE_BYTES
    compiling += (settings.multiclass == "ovo") * _PAIRS_COMPILE_BYTES
    compiling += has_text * _TEXT_COMPILE_BYTES + tunes * _TUNE_COMPILE_BYTES
    more = {COMPILING: compiling} if compiling else {}
    if checkpoints is not None:
        more[STATE] = HELD_BYTES
    try:
        return MemoryBudget(nbytes, more=more), None
    except BudgetError as error:
        if settings.feature_map is not None or (info.n_bytes or 0) > MEASURED_BYTES:
            raise error.as_least() from error
        return MemoryBudget(error.smallest_bytes, more=more), error


def limit_of(settings: Settings, checkpoints: Checkpoints | None = None) -> int:
    """The memory limit in bytes. A run that goes on has the one that it began with, unless another is given."""
    if settings.memory_limit is not None:
        return memory_limit_bytes(settings.memory_limit)
    before = None if checkpoints is None else checkpoints.earlier.limit_bytes(settings)
    return default_limit_bytes() if before is None else memory_limit_bytes(before)
