"""What columns have to be learnt, each in a reading of its own, before the rows can be read."""

from __future__ import annotations

from llsvm.settings.settings import Settings
from llsvm.stream.stream import Stream


def learn_columns(stream: Stream, settings: Settings) -> None:
    """Learn what is crossed, and the vocabularies of text columns, if there are any; only then are the kernels of
    these loaded."""
    encoder = stream.source.info().encoder
    if encoder is None:
        return
    if encoder.crosses.crosses:
        from llsvm.training.crosses import learn_crosses

        learn_crosses(stream)
    if encoder.documents is not None:
        from llsvm.training.texts import learn_texts

        learn_texts(stream, settings.vocabulary == "exact")
