"""Labels of svmlight text that are words, and what is wrong with a line that the parser refused.

The error is found by code that is slow and exact, as it runs once: it keeps the rules of ``llsvm.kernels.parse``,
the same numbers, the same white space, the same order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import DataError

MAX_INDEX = 2**31 - 1
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
NOT_FINITE = re.compile("[+-]?(nan|inf|infinity)", re.IGNORECASE)
MAX_LABEL_BYTES = 1000
CONTROL = re.compile(rb"[^#\x00-\x08\x0b\x0c\x0e-\x1f]*+[\x00-\x08\x0b\x0c\x0e-\x1f]")
TOO_LARGE = "the value is too large for a 32-bit float; scale the data"
SHOWN_CHARACTERS = 40


def shorten(text: str) -> str:
    """Return offending text, fit to be shown within a sentence."""
    if len(text) > SHOWN_CHARACTERS:
        text = text[: SHOWN_CHARACTERS - 3] + "..."
    return repr(text)


def looks_binary(line: bytes | memoryview) -> bool:
    """Return whether the data part of a line (comments may hold anything) has bytes that no text has."""
    return CONTROL.match(line) is not None


def refuse_binary(name: str, number: int) -> NoReturn:
    raise DataError(
        f"{name}:{number}: control bytes: this looks like a binary file, not svmlight text; "
        "unpack or convert it, or name its format"
    )


def is_number(label: bytes) -> bool:
    """Return whether a label is a number, as the parser reads them."""
    return NUMBER.fullmatch(label.decode("utf-8", "replace")) is not None


def is_label_word(label: bytes) -> bool:
    """Return whether a label can only be meant as a word: there is a letter in it, and it is no number."""
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
    tokens = (match[0] for match in re.finditer("[^ \t\r\n]+", text))  # of a long line there are very many
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
    """Return the index, or a number above MAX_INDEX if there are too many digits for Python to convert."""
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


# Labels of svmlight text that are words: whether a file has such, and how they are read. The parser knows
# numbers only. Where labels are words, each is taken out of the text before that is parsed, and a 0 put into
# its place; where they are numbers, as mostly, nothing of this is called.

PROBE_BYTES = 1 << 20  # of text, whose labels decide whether a file's are words
_LABEL = re.compile(rb"^[ \t\r]*([^ \t\r\n#]+)", re.MULTILINE)
_LETTER = re.compile(rb"[A-Za-z\x80-\xff]")
_SPACE, _ZERO = ord(" "), ord("0")
_BLANK = np.isin(np.arange(256), list(b" \t\r"))
_ENDS_LABEL = np.isin(np.arange(256), list(b" \t\r\n#"))
_ENDS_LINE = np.isin(np.arange(256), list(b"\n#"))


def words_among(text: bytes) -> tuple[str, str] | None:
    """Return a label that is a word, and one that is a number or ""; None where no label is a word. text: whole
    lines."""
    labels = dict.fromkeys(match[1] for match in _LABEL.finditer(text))  # of 500,000 short lines, one
    lettered = (label for label in labels if _LETTER.search(label))
    word = next((label.decode() for label in lettered if is_label_word(label)), None)
    if word is None:
        return None
    return word, next((label.decode() for label in labels if is_number(label)), "")


@dataclass(slots=True)
class Words:
    """The labels of some lines, in order.

    labels: (n,) text as objects. start: (n,) where each stood. raw: (n,) as they stood there.
    """

    labels: NDArray[np.object_]
    start: NDArray[np.int64]
    raw: list[bytes]

    def put_back(self, text: bytearray, row: int) -> None:
        """Put the label of a row back into the text, for a message."""
        start, raw = int(self.start[row]), self.raw[row]
        text[start : start + len(raw)] = raw


def take_words(text: bytearray, start: int, stop: int) -> Words:
    """Return the labels of the lines ``text[start:stop]``, in whose places are numbers afterwards: but for those
    that are no labels, which the parser is to refuse."""
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(data[start:stop] == ord("\n")) + start
    first = np.concatenate([[start], ends[:-1] + 1])
    while (blank := _BLANK[data[first]]).any():
        first[blank] += 1
    first = first[~_ENDS_LINE[data[first]]]
    lengths = np.zeros(len(first), np.int64)
    going = np.arange(len(first))
    while len(going) and lengths[going[0]] <= MAX_LABEL_BYTES:
        lengths[going] += 1
        going = going[~_ENDS_LABEL[data[first[going] + lengths[going]]]]
    with memoryview(text) as view:
        spans = zip(first.tolist(), (first + lengths).tolist(), strict=True)
        raw = [bytes(view[begin:end]) for begin, end in spans]
    words = {each: _as_label(each) for each in dict.fromkeys(raw)}
    labels = np.array([words[each] for each in raw], object)
    good = labels != ""
    first_good, n_bytes = first[good], lengths[good]
    before = np.cumsum(n_bytes) - n_bytes
    data[np.repeat(first_good - before, n_bytes) + np.arange(n_bytes.sum())] = _SPACE
    data[first_good] = _ZERO
    return Words(labels, first, raw)


def _as_label(raw: bytes) -> str:
    """Return the text of a label; "" where it is none."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return ""
    good = len(raw) <= MAX_LABEL_BYTES and text.isprintable() and ":" not in text and "," not in text
    return text if good else ""
