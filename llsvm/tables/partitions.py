"""Columns that folders named ``key=value`` give, as Hive and Spark write them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa

from llsvm.tables.encoder import TableEncoder

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def partition_values(paths: Sequence[str], encoder: TableEncoder | None) -> list[dict[str, pa.Scalar]]:
    """What folders named ``key=value`` say of each file: columns. For training, those that differ among files."""
    found: list[dict[str, str]] = []
    for path in paths:
        pairs = (part.partition("=") for part in os.path.dirname(path).split("/"))
        found.append({unquote(key): unquote(value) for key, equals, value in pairs if equals and key})
    keys = [key for key in found[0] if all(key in each for each in found)] if found else []
    if encoder is None:
        keys = [key for key in keys if len({each[key] for each in found}) > 1]
    else:
        keys = [key for key in keys if key in encoder.used]
    columns = {}
    for key in keys:
        values = [None if each[key] == _NULL_PARTITION else each[key] for each in found]
        whole = all(value is None or re.fullmatch(r"-?\d{1,18}", value) for value in values)
        type_ = pa.int64() if whole and any(values) else pa.string()
        columns[key] = [pa.scalar(value, pa.string()).cast(type_) for value in values]
    return [{key: columns[key][i] for key in keys} for i in range(len(found))]
