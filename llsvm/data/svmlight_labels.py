"""Labels of svmlight text that are words: whether a file has such, and how they are read.

The parser knows numbers only. Where labels are words, each is taken out of the text before that is parsed, and a 0
put into its place; where they are numbers, as mostly, nothing of this is called.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llsvm.data.svmlight_errors import MAX_LABEL_BYTES, is_label_word, is_number

PROBE_BYTES = 1 << 20  # of text, whose labels decide whether a file's are words
_LABEL = re.compile(rb"^[ \t\r]*([^ \t\r\n#]+)", re.MULTILINE)
_LETTER = re.compile(rb"[A-Za-z\x80-\xff]")
_SPACE, _ZERO = ord(" "), ord("0")
_BLANK = np.isin(np.arange(256), list(b" \t\r"))
_ENDS_LABEL = np.isin(np.arange(256), list(b" \t\r\n#"))
_ENDS_LINE = np.isin(np.arange(256), list(b"\n#"))


def words_among(text: bytes) -> tuple[str, str] | None:
    """A label that is a word, and one that is a number or ""; None where no label is a word. text: whole lines."""
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
        """The label of a row into the text, for a message."""
        start, raw = int(self.start[row]), self.raw[row]
        text[start : start + len(raw)] = raw


def take_words(text: bytearray, start: int, stop: int) -> Words:
    """The labels of the lines ``text[start:stop]``, in whose places are numbers afterwards: but for those that are
    no labels, which the parser is to refuse."""
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
    """The text of a label; "" where it is none."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return ""
    good = len(raw) <= MAX_LABEL_BYTES and text.isprintable() and ":" not in text and "," not in text
    return text if good else ""
