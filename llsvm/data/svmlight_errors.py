"""What is wrong with a line that the svmlight parser refused: slow and exact, as it runs once.

It keeps the rules of ``llsvm.kernels.parse``: same numbers, same white space, same order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NoReturn

import numpy as np

from llsvm.errors import DataError

MAX_INDEX = 2**31 - 1
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
NOT_FINITE = re.compile("[+-]?(nan|inf|infinity)", re.IGNORECASE)
MAX_LABEL_BYTES = 1000
CONTROL = re.compile(rb"[^#\x00-\x08\x0b\x0c\x0e-\x1f]*+[\x00-\x08\x0b\x0c\x0e-\x1f]")
TOO_LARGE = "the value is too large for a 32-bit float; scale the data"
SHOWN_CHARACTERS = 40


def shorten(text: str) -> str:
    """Offending text, fit to be shown within a sentence."""
    if len(text) > SHOWN_CHARACTERS:
        text = text[: SHOWN_CHARACTERS - 3] + "..."
    return repr(text)


def looks_binary(line: bytes | memoryview) -> bool:
    """Whether the data part of a line (comments may hold anything) has bytes that no text has."""
    return CONTROL.match(line) is not None


def refuse_binary(name: str, number: int) -> NoReturn:
    raise DataError(
        f"{name}:{number}: control bytes: this looks like a binary file, not svmlight text; "
        "unpack or convert it, or name its format"
    )


def is_number(label: bytes) -> bool:
    """Whether a label is a number, as the parser reads them."""
    return NUMBER.fullmatch(label.decode("utf-8", "replace")) is not None


def is_label_word(label: bytes) -> bool:
    """Whether a label can only be meant as a word: there is a letter in it, and it is no number."""
    text = label.decode("utf-8", "replace")
    strange = "\ufffd" in text or ":" in text or "," in text or not text.isprintable()
    return not (strange or is_number(label) or NOT_FINITE.fullmatch(text)) and any(map(str.isalpha, text))


def refuse_line(
    name: str, number: int, line: bytes, lowest: int, cut_off: bool, text_labels: bool = False
) -> NoReturn:
    """Raise the DataError that says what is wrong with a line.

    number: the line's number, from 1. lowest: the smallest index allowed. text_labels: labels may be words.
    cut_off: the line is the file's last and has no end of line.
    """
    if looks_binary(line):
        refuse_binary(name, number)
    if re.search(rb"\r[^\r\n]", line):
        raise DataError(
            f"{name}:{number}: lines end with carriage returns alone; convert it (tr '\\r' '\\n')"
        )
    text = line.split(b"#", 1)[0].decode("utf-8", "replace")
    tokens = (found[0] for found in re.finditer("[^ \t\r\n]+", text))  # of a long line there are very many
    complaint = _complaint(tokens, lowest, text_labels)
    hint = "; the file ends in the middle of this line, it may be cut off" if cut_off else ""
    raise DataError(f"{name}:{number}: {complaint}{hint}")


def _complaint(tokens: Iterator[str], lowest: int, text_labels: bool) -> str:
    complaint = _about_label(next(tokens, ""), text_labels)
    if complaint:
        return complaint
    last = lowest - 1
    for number, token in enumerate(tokens):
        if number == 0 and re.fullmatch("qid:[0-9]+", token):
            continue
        complaint = _about_feature(token, last, lowest)
        if complaint:
            return complaint
        last = _index(token.partition(":")[0])
    return "this line cannot be read as 'label index:value index:value ...'"


def _about_label(label: str, text_labels: bool) -> str | None:
    shown = shorten(label)
    if label.startswith(("{", "[{")):
        return f"the line starts with {shown}; is this JSON, an object a line? Then pass --format jsonl"
    if ":" in label:
        return (
            f"the label is missing: the line starts with {shown}; put one number or word before the features"
        )
    if "," in label:
        return (
            f"label {shown}: several labels on one row; llsvm needs one label a row, "
            "make one file for each label (this label against the rest)"
        )
    if text_labels:
        return _about_text_label(label, shown)
    if not NUMBER.fullmatch(label):
        if NOT_FINITE.fullmatch(label):
            return f"label {shown} is not finite; remove the row or give it a finite label"
        return (
            f"label {shown} is not a number, as those before it and those of a regression are; write all labels as "
            "numbers, such as -1 and 1, or, of classes, all as words"
        )
    if math.isinf(float(label)):
        return f"label {shown} is too large for a 64-bit float; write the classes as small numbers"
    return None


def _about_text_label(label: str, shown: str) -> str | None:
    if "\ufffd" in label:
        return f"label {shown} is not UTF-8; convert the text, perhaps with iconv -f latin1 -t utf-8"
    if not label.isprintable() or len(label) > MAX_LABEL_BYTES // 4:
        return (
            f"label {shown} has characters that cannot be shown, or too many; name the class by a short word"
        )
    return None


def _about_feature(token: str, last: int, lowest: int) -> str | None:
    shown = shorten(token)
    index, colon, value = token.partition(":")
    if token.startswith("|"):
        return f"{shown} is no feature; is this Vowpal Wabbit text? Then pass --format vw"
    if not colon:
        table = "; of a table with spaces between its columns, pass --format csv --delimiter space"
        return f"{shown} has no colon; a feature is written index:value{table if last < lowest else ''}"
    if ":" in value:
        return (
            f"{shown} has two colons; fields (libffm's field:index:value) are not supported, "
            "write index:value"
        )
    if index == "qid":
        return f"{shown}: qid must be a whole number and stand right after the label"
    if re.fullmatch("-[0-9]+", index):
        return f"negative index {shorten(index)}; indices are whole numbers from {lowest} up"
    if not re.fullmatch("[0-9]+", index):
        return f"index {shorten(index)} is not a whole number; a feature is written index:value"
    return _about_index(index, last, lowest) or _about_value(value, shown)


def _about_index(digits: str, last: int, lowest: int) -> str | None:
    index = _index(digits)
    if index > MAX_INDEX:
        return (
            f"index {shorten(digits)} is too large; the largest is {MAX_INDEX}, renumber or hash the features"
        )
    if index < lowest:
        return f"index {index}, but indices start at {lowest} (pass --zero-based yes)"
    if index == last:
        return f"index {index} is repeated; add up its values, or keep one of them"
    if index < last:
        return f"index {index} after {last}, but indices must ascend; sort the features of every row"
    return None


def _index(digits: str) -> int:
    """The index, or a number above MAX_INDEX if there are too many digits for Python to convert."""
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= len(str(MAX_INDEX)) else MAX_INDEX + 1


def _about_value(value: str, shown: str) -> str | None:
    if not value:
        return f"{shown} has no value after the colon; write index:value"
    if not NUMBER.fullmatch(value):
        if re.fullmatch("[+-]?(nan|inf|infinity)", value, re.IGNORECASE):
            return f"{shown}: the value is not finite; replace it, or leave the feature out"
        return f"{shown}: the value is not a number; write index:value"
    with np.errstate(over="ignore"):
        if not np.isfinite(np.float32(float(value))):
            wide = math.isfinite(float(value))
            return f"{shown}: {TOO_LARGE if wide else 'the value is too large for a 64-bit float; scale the data'}"
    return None
