"""What columns have to be learnt, each in a reading of its own, before the rows can be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from llsvm.memory.plan import MemoryLeft, Needs
from llsvm.process.trace import trace
from llsvm.settings.settings import Settings
from llsvm.stream.stream import Stream


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

        column_bytes = 0 if settings.takes_rows_as_they_are else WEIGHT_BYTES
        ordered = not settings.takes_rows_as_they_are
        learn_texts(stream, settings.vocabulary == "exact", column_bytes, ordered)


def hash_instead(
    stream: Stream, settings: Settings, held: Mapping[str, int], needs: Callable[[MemoryLeft], Needs]
) -> bool:
    """Hash n-grams that were given columns of their own, if ``vocabulary`` is "auto" and a solver has no room for
    so many. Returns whether the data are to be read again, of which ``learn_columns`` may have to learn more.

    stream: read. held: in bytes, by name, before it was. needs: of the solver, a function of what is left.
    """
    info = stream.source.info()
    documents = None if info.encoder is None else info.encoder.documents
    free = settings.vocabulary == "auto" and settings.feature_map is None and info.rereadable
    if documents is None or documents.vocabularies is None or not free:
        return False
    from llsvm.training.pruning import room
    from llsvm.training.texts import hash_where_weights_do_not_fit

    hashed = hash_where_weights_do_not_fit(
        documents, stream.memory_left, held, needs, partial(room, settings)
    )
    if hashed:
        trace("text.hashed", why="no room for the weights of all n-grams", features=stream.dataset.n_features)
    return hashed
