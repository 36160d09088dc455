"""The parsing of JSON Lines by pyarrow.

pyarrow is given no text that has not been looked at: a line that is no object, such as ``null``, would end the
process; and an object that goes on in the next line must not be cut in two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence, Set

import numpy as np
import pyarrow as pa
import pyarrow.json as pajson
import pyarrow.types as types

from llsvm.data.jsonl_columns import Leaf, flat, parsed_schema
from llsvm.data.text_chunks import Chunk
from llsvm.data.whole_numbers import may_be_alike
from llsvm.features.columns import numbers
from llsvm.features.spelling import DECIMALS, WHOLE_TYPES
from llsvm.objective.rounding import beyond_floats

_SPACE = b" \t\r"
_NEWLINE, _OPEN, _CLOSE = b"\n{}"
_TEXT_OR_NAN = re.compile(rb'("[^"\\]*(?:\\.[^"\\]*)*")|:[ \t]*NaN\b')
_NULL_BETWEEN = re.compile(rb"\}[ \t\r]*null")


def parse(chunk: Chunk, schema: pa.Schema, leaves: Sequence[Leaf]) -> pa.RecordBatch:
    """The columns ``leaves`` of the rows in a chunk. schema: of what pyarrow parses, see ``parsed_schema``.

    Raises ArrowInvalid or ValueError where a line is not what it should be; ``jsonl_errors`` tells which and why.
    """
    text = chunk.text
    if not text.isascii():
        text.decode()
    n_rows = _count_objects(text)
    try:
        table = _table(text, schema)
    except pa.ArrowInvalid:
        if b"NaN" not in text:  # which pyarrow takes for a number, and Python writes for any missing value
            raise
        table = _table(_TEXT_OR_NAN.sub(lambda found: found[1] or b":null", text), schema)
    if table.num_rows != n_rows:
        raise ValueError("there is more than one object in a line")
    batches = table.to_batches()
    return flat(batches[0] if batches else pa.RecordBatch.from_pylist([], schema), leaves)


def _table(text: bytes, schema: pa.Schema) -> pa.Table:
    options = pajson.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    read = pajson.ReadOptions(use_threads=False, block_size=len(text) + 1)
    return pajson.read_json(pa.BufferReader(text), read_options=read, parse_options=options)


def parse_whole(
    chunk: Chunk, schema: pa.Schema, leaves: Sequence[Leaf], names: Set[str], exact: Set[str]
) -> pa.RecordBatch:
    """As ``parse``; columns of ``names`` that may be whole numbers which 64-bit floats do not tell apart, and those
    ``exact`` beyond these, are parsed again as whole numbers, where they are such, and those ``exact`` as decimals,
    where they are not; and so are whole numbers of more than 64 bits."""
    try:
        batch = parse(chunk, schema, leaves)
    except pa.ArrowInvalid:
        wide = [
            leaf._replace(type=WHOLE_TYPES[1]) if leaf.type == WHOLE_TYPES[0] else leaf for leaf in leaves
        ]
        if wide == list(leaves):
            raise
        batch = parse(chunk, parsed_schema(wide), wide)
    for name in {leaf.name for leaf in leaves} & (names | exact):
        place = batch.schema.get_field_index(name)
        column = batch.column(place)
        long = name in exact and types.is_floating(column.type) and beyond_floats(numbers(column)).any()
        if not (long or may_be_alike(column)):
            continue
        for whole in (*WHOLE_TYPES, *((DECIMALS,) if long else ())):
            again = [
                leaf._replace(type=pa.list_(whole) if types.is_list(leaf.type) else whole)
                for leaf in leaves
                if leaf.name == name
            ]
            try:
                found = parse(chunk, parsed_schema(again), again)
            except pa.ArrowInvalid:
                continue
            batch = batch.set_column(place, name, found.column(0))
            break
    return batch


def _count_objects(text: bytes) -> int:
    """Lines that are not blank. Raises ValueError unless each looks like one object."""
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data == _NEWLINE)
    if data[-1] != _NEWLINE:
        ends = np.append(ends, len(data))
    starts = np.concatenate([[0], ends[:-1] + 1])
    odd = np.flatnonzero((data[starts] != _OPEN) | (data[ends - 1] != _CLOSE))
    n_rows = len(ends)
    for start, end in zip(starts[odd].tolist(), ends[odd].tolist(), strict=True):
        line = text[start:end].strip(_SPACE)
        if not line:
            n_rows -= 1
        elif line[0] != _OPEN or line[-1] != _CLOSE:
            raise ValueError("a line is no object")
    for found in _NULL_BETWEEN.finditer(text):
        start = text.rfind(b"\n", 0, found.start()) + 1
        json.loads(text[start : (text.find(b"\n", start) + 1) or len(text)])
    return n_rows
