"""The svmlight parser's slow twin: the rules again, in plain Python, one token at a time."""

import math
import re

import numpy as np

NUMBER = re.compile(rb"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
FOREIGN = (
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ\x00",
    b"\x28\xb5\x2f\xfd",
    b"PAR1",
    b"\x89HDF\r\n\x1a\n",
    b"PK\x03\x04",
    b"\x93NUMPY",
)


class Refused(Exception):
    """line: the number of the offending line; None where the file as a whole is refused."""

    def __init__(self, line=None):
        super().__init__(line)
        self.line = line


def slow_parse(text, zero_based="auto"):
    """[(label, [index, ...], [float32 value, ...]), ...], or a Refused."""
    try:
        return parse_text(text, zero_based)
    except Refused as refused:
        return refused


def finite(token, kind, number):
    if not NUMBER.fullmatch(token):
        raise Refused(number)
    with np.errstate(over="ignore"):
        value = kind(float(token))
    if not math.isfinite(value):
        raise Refused(number)
    return value


def parse_text(text, zero_based):
    if text.startswith(FOREIGN):
        raise Refused
    rows = []
    for number, line in enumerate(text.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        tokens = [token for token in re.split(rb"[ \t\r]", line.partition(b"#")[0]) if token]
        if not tokens:
            continue
        label = finite(tokens[0], float, number)
        indices, values = [], []
        for position, token in enumerate(tokens[1:]):
            if position == 0 and re.fullmatch(rb"qid:[0-9]+", token):
                continue
            match = re.fullmatch(rb"([0-9]+):([^:]+)", token)
            if not match:
                raise Refused(number)
            index, value = int(match[1]), finite(match[2], np.float32, number)
            if index > 2**31 - 1 or (index == 0 and zero_based == "no") or (indices and index <= indices[-1]):
                raise Refused(number)
            indices.append(index)
            values.append(value)
        rows.append((label, indices, values))
    if not rows:
        raise Refused
    return rows
