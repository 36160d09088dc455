"""What is wrong with a line of JSON Lines, in a sentence: slow and exact, as it runs once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.types as types

from llsvm.data.jsonl_parse import is_nan
from llsvm.data.text_chunks import Chunk
from llsvm.files.decoding import as_utf8

_SHOWN = 40
_PLACE = re.compile(r" in row \d+$")  # where pyarrow says it is, in the few lines it was given
_NAMES = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
}


class _TwiceError(ValueError):
    """A key stands twice in an object."""


def complaint(
    chunk: Chunk,
    schema: pa.Schema,
    remedy: Callable[[str], str],
    parse: Callable[[Chunk], Any],
    predicting: bool,
) -> tuple[int, str] | None:
    """Return (line, what is wrong with it) of the first bad line of a chunk; None where no line is bad.

    schema: see ``parsed_schema``. remedy: what to do about a value of another type in a column. parse: a chunk,
    as it is parsed; it raises ValueError (as ArrowInvalid is) where that fails. predicting: see ``as_utf8``.
    """
    lines = chunk.text.split(b"\n")
    for place, line in enumerate(lines):
        if line.strip() and (sentence := _about(line, schema, remedy, predicting)):
            return chunk.number + place, sentence
    good, bad = 0, len(lines)  # so many lines can be parsed, and cannot
    error = _error_of(lines, chunk.number, parse)
    while error is not None and bad > good + 1:
        middle = (good + bad) // 2
        nearer = _error_of(lines[good:middle], chunk.number, parse)
        good, bad, error = (middle, bad, error) if nearer is None else (good, middle, nearer)
    if error is None:
        return None
    reason = _PLACE.sub("", " ".join(str(error).split())).rstrip(".")
    return chunk.number + good, reason if "--" in reason else f"not readable: {reason}; correct the line"


def _error_of(lines: list[bytes], number: int, parse: Callable[[Chunk], Any]) -> ValueError | None:
    try:
        parse(Chunk(b"\n".join([*lines, b""]), number))
    except ValueError as error:
        return error
    return None


def _about(line: bytes, schema: pa.Schema, remedy: Callable[[str], str], predicting: bool) -> str:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        byte = f"byte {line[error.start]:#04x} is not UTF-8"
        return f"{byte}; {as_utf8(line, predicting)}"
    if "\0" in text:
        return f"zero bytes: this is no JSON text in UTF-8; {as_utf8(line, predicting)}"
    text = text.strip()
    if text.startswith("["):
        return "an array, where one object a line is wanted; jq -c '.[]' writes it so"
    if not text.startswith("{"):
        return (
            f"{_short(text)}, where one JSON object a line is wanted; write each row so, in a line of its own"
        )
    try:
        value = json.loads(text, object_pairs_hook=_without_doubles)
    except _TwiceError as error:
        return f"the key {error.args[0]!r} is there twice in one object; rename one of them"
    except json.JSONDecodeError as error:
        return _about_syntax(text, error)
    except ValueError:  # so many digits are no whole number that Python reads
        return "a whole number of thousands of digits; write it as a decimal, or as text"
    except RecursionError:
        return "objects or lists within each other, too deep; flatten the row"
    return _about_types(value, schema, remedy)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise _TwiceError(key)
        members[key] = value
    return members


def _about_syntax(text: str, error: json.JSONDecodeError) -> str:
    if error.msg == "Extra data":
        trailing = _short(text[error.pos :].strip())
        return f"{trailing} after the object; write one object a line, and nothing between them"
    if error.pos >= len(text) or "Unterminated" in error.msg:
        return (
            "the object does not end in its line; write one whole object a line (jq -c .), or fetch the file again "
            "if it is cut off here"
        )
    near = _short(text[error.pos : error.pos + _SHOWN])
    return f"broken JSON: {error.msg} at character {error.pos + 1}, near {near}; correct the line"


def _about_types(value: dict[str, Any], schema: pa.Schema, remedy: Callable[[str], str]) -> str:
    for field in schema:
        if field.name in value and (misfit := _misfit(value[field.name], field.type, field.name)):
            name, wrong, expected = misfit
            what = f"{_short(json.dumps(wrong, ensure_ascii=False), False)} is {_NAMES[type(wrong)]}"
            return f"column {name}: {what}, where {expected} expected; {remedy(name)}"
    return ""


def _misfit(value: Any, type_: pa.DataType, name: str) -> tuple[str, Any, str] | None:
    """Return (column, value, what it is not) of the first value that is not of its column's type."""
    if value is None or is_nan(value):
        return None
    if types.is_struct(type_):
        if not isinstance(value, dict):
            return name, value, "objects are"
        parts = ((value.get(field.name), field.type, f"{name}.{field.name}") for field in type_)
        return next(filter(None, (_misfit(*part) for part in parts)), None)
    if types.is_list(type_):
        if not isinstance(value, list):
            return name, value, "a list is"
        return next(filter(None, (_misfit(each, type_.value_type, name) for each in value)), None)
    good, expected = _EXPECTED[type_.id]
    fits = isinstance(value, good) and (isinstance(value, bool) == (good is bool))
    return None if fits else (name, value, expected)


_EXPECTED: dict[int, tuple[Any, str]] = {
    pa.string().id: (str, "text is"),
    pa.bool_().id: (bool, "true or false is"),
    pa.int64().id: (int, "a whole number is"),
    pa.float64().id: (int | float, "a number is"),
    pa.null().id: ((), "null is"),
}


def _short(text: str, quoted: bool = True) -> str:
    text = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
    return repr(text) if quoted else text
