"""Preprocessing that is learned before training: approximate feature maps, crosses and vocabularies of text
columns, each in passes of its own before the rows are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from llsvm.data.source import BlockSource
from llsvm.memory.budget import WORKING, MemoryBudget
from llsvm.memory.plan import READING_BLOCKS, MemoryLeft, Needs
from llsvm.memory.process import MIN_WORK_BYTES
from llsvm.process.trace import trace
from llsvm.settings.settings import Settings
from llsvm.stream.stream import Stream
from llsvm.training.pruning import pass_bytes

if TYPE_CHECKING:
    from llsvm.data.mapped import MappedSource

FEATURE_MAP = "feature map"  # its name in the memory budget


def fit_feature_map(
    source: BlockSource, settings: Settings, budget: MemoryBudget
) -> tuple[MappedSource, int]:
    """Return the source through an approximate feature map, which becomes part of the model; and the bytes that
    were held while it was fitted, beside the map that is left. Raises BudgetError, DataError."""
    from llsvm.data.mapped import FIT_BYTES, MapOptions, MappedSource

    peak_bytes = reserved_bytes = 0

    def reserve(nbytes: int) -> None:
        nonlocal peak_bytes, reserved_bytes
        peak_bytes, more = max(peak_bytes, nbytes), max(0, nbytes - reserved_bytes)
        budget.require({FEATURE_MAP: more, WORKING: MIN_WORK_BYTES})
        budget.resize(FEATURE_MAP, nbytes)
        reserved_bytes = nbytes

    s = settings
    fitting = READING_BLOCKS * FIT_BYTES + source.info().reader_bytes
    options = MapOptions(
        s.feature_map or "", s.kernel or "rbf", s.components, s.gamma, s.degree, s.coef0, s.seed
    )
    with budget.reserve("reading", fitting):
        mapped = MappedSource(source, options, reserve)
    return mapped, fitting + peak_bytes - reserved_bytes


def learn_columns(stream: Stream, settings: Settings) -> None:
    """Learn what is crossed, and the vocabularies of text columns, if there are any; only then are the kernels of
    these loaded."""
    info, progress = stream.source.info(), stream.progress
    encoder = info.encoder
    if encoder is None:
        return
    if not encoder.crosses.known:
        from llsvm.data.crosses import learn_crosses

        progress.begin("learning crosses", info.n_rows or 0, info.n_bytes or 0)
        learn_crosses(stream.source, stream.budget, progress.count)
    if encoder.documents is not None:
        from llsvm.training.texts import WEIGHT_BYTES, learn_texts

        ordered = not settings.takes_rows_as_they_are
        learn_texts(stream, settings.vocabulary == "exact", WEIGHT_BYTES if ordered else 0, ordered)


def hash_instead(
    stream: Stream, settings: Settings, held: Mapping[str, int], needs: Callable[[MemoryLeft], Needs]
) -> bool:
    """Hash n-grams that were given columns of their own, if ``vocabulary`` is "auto" and a solver has no room for
    so many. Returns whether the data must be read again, where ``learn_columns`` may have to learn more.

    stream: read. held: bytes by name before it was. needs: of the solver, a function of what is left.
    """
    info = stream.source.info()
    documents = None if info.encoder is None else info.encoder.documents
    free = settings.vocabulary == "auto" and settings.feature_map is None and info.rereadable
    if documents is None or documents.vocabularies is None or not free:
        return False
    from llsvm.training.texts import hash_where_weights_do_not_fit

    hashed = hash_where_weights_do_not_fit(
        documents, stream.memory_left, held, needs, partial(pass_bytes, settings)
    )
    if hashed:
        trace("text.hashed", why="no room for the weights of all n-grams", features=stream.dataset.n_features)
    return hashed
