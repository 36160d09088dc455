"""A source through an approximate feature map, fitted under the memory limit before anything is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llsvm.data.source import BlockSource
from llsvm.memory.budget import WORKING, MemoryBudget
from llsvm.memory.plan import READING_BLOCKS
from llsvm.memory.process import MIN_WORK_BYTES
from llsvm.settings.settings import Settings

if TYPE_CHECKING:
    from llsvm.data.mapped import MappedSource

FEATURE_MAP = "feature map"  # a line of the ledger


def mapped(source: BlockSource, settings: Settings, budget: MemoryBudget) -> tuple[MappedSource, int]:
    """The source through the map, which becomes part of the model; and what was held while that was fitted, in
    bytes, beside the map that is left. Raises BudgetError, DataError."""
    from llsvm.data.mapped import FIT_BYTES, MapOptions, MappedSource

    most = signed = 0

    def sign(nbytes: int) -> None:
        nonlocal most, signed
        most, more = max(most, nbytes), max(0, nbytes - signed)
        budget.require({FEATURE_MAP: more, WORKING: MIN_WORK_BYTES})
        budget.resize(FEATURE_MAP, nbytes)
        signed = nbytes

    s = settings
    fitting = READING_BLOCKS * FIT_BYTES + source.info().reader_bytes
    options = MapOptions(
        s.feature_map or "", s.kernel or "rbf", s.components, s.gamma, s.degree, s.coef0, s.seed
    )
    with budget.reserve("reading", fitting):
        through = MappedSource(source, options, sign)
    return through, fitting + most - signed
