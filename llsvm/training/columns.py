"""columns_of: by which it is known that rows of two runs are the same as numbers, but for the scales of columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from llsvm.stream.stream import Stream


def columns_of(stream: Stream, settings: Mapping[str, Any]) -> str:
    """A digest of what makes of a row's features and target its numbers, before columns are scaled. Where the rows
    themselves may have a part in that (vocabularies, crosses, feature maps), of the rows too. Columns may be added
    at the end.

    stream: that has been read. settings: of the run, plain values."""
    info, dataset = stream.source.info(), stream.dataset
    target = None if dataset.target is None else (dataset.target.unit, dataset.target.shift)
    known: list[Any] = [info.format, info.feature_names, dataset.first_column, str(dataset.dtype), target]
    learned, encoder = bool(settings["cross"] or settings["feature_map"]), info.encoder
    if encoder is not None:
        learned |= encoder.documents is not None or bool(encoder.crosses.crosses)
        known += [dataset.n_columns, None if learned else encoder.as_dict()]
    if learned:
        known += [dataset.digest, settings["seed"]]
    return blake2b(json.dumps(known, default=str).encode(), digest_size=16).hexdigest()
