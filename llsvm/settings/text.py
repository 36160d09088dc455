"""Options: columns of text, and the n-grams that are made of them."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from llsvm.settings.option import TEXT, Rule, option

ANALYZERS = ("word", "char", "char_wb")
ACCENTS = ("unicode", "ascii")
WEIGHTS = ("auto", "tfidf", "sublinear", "tf", "count", "binary")
VOCABULARIES = ("auto", "exact", "hashed")
_COUNT_OR_SHARE = Rule(
    "a number of documents from 1 on, or a share of them such as 0.5",
    lambda value: (
        value >= 1 and float(value).is_integer() if value > 1 or isinstance(value, int) else value > 0
    ),
)


def _is_encoding(name: str) -> bool:
    try:
        codecs.lookup(name)
    except (LookupError, ValueError):
        return False
    return True


def _is_range(text: str) -> bool:
    match = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", text)
    return match is not None and 0 < int(match[1]) <= int(match[2] or match[1])


def ngrams_text(given: object) -> object:
    """Return a length, or the shortest and the longest, as ``--ngrams`` has them; anything else as it is."""
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    if isinstance(given, list | tuple) and all(isinstance(each, int) for each in given):
        return "-".join(map(str, given))
    return given


def ngram_range(text: str) -> tuple[int, int]:
    """Return the shortest and the longest of ``ngrams``."""
    shortest, _, longest = text.partition("-")
    return int(shortest), int(longest or shortest)


@dataclass(frozen=True)
class TextSettings:
    text: tuple[str, ...] = option(
        (), TEXT, "Columns of text, which become n-grams.", metavar="A,B,C*", shown_default="none"
    )
    analyzer: str = option(
        "word",
        TEXT,
        "n-grams of words (two or more letters, digits, underscores), of characters, or of characters within words "
        "and the spaces beside them.",
        choices=ANALYZERS,
    )
    ngrams: str = option(
        "1",
        TEXT,
        "Their length, or from the shortest to the longest: 1-2.",
        rule=Rule("a length such as 2, or two such as 1-2", _is_range),
        metavar="N|N-M",
        accepts="str | int | tuple[int, int]",
    )
    strip_accents: str | None = option(
        None,
        TEXT,
        "Letters without their accents; ascii: and nothing else that is not ASCII.",
        choices=ACCENTS,
        shown_default="as they are",
    )
    stop_words: str | tuple[str, ...] | None = option(
        None,
        TEXT,
        "Words to leave out: english (the list of scikit-learn), or a file of them.",
        metavar="english|FILE",
        shown_default="none",
        accepts="str | os.PathLike[str] | Collection[str] | None",
    )
    min_df: float | None = option(
        None,
        TEXT,
        "Leave out n-grams of fewer documents: 2, or a share such as 0.001.",
        rule=_COUNT_OR_SHARE,
        metavar="COUNT|SHARE",
        shown_default="1",
    )
    max_df: float | None = option(
        None,
        TEXT,
        "Leave out n-grams of more documents: 1000, or a share such as 0.5.",
        rule=_COUNT_OR_SHARE,
        metavar="COUNT|SHARE",
        shown_default="all",
    )
    max_features: int | None = option(
        None,
        TEXT,
        "Only so many n-grams of each column, those that occur most often.",
        rule=Rule("a positive number", lambda value: value > 0),
        metavar="INT",
        shown_default="all",
    )
    term_weight: str = option(
        "auto",
        TEXT,
        "Value of an n-gram: how often it occurs times its inverse document frequency, the same of 1 + ln of how "
        "often, how often (all three in rows of length 1), how often as it is, or 1. auto: tfidf; of hashed "
        "columns tf, for which nothing need be counted first.",
        choices=WEIGHTS,
    )
    vocabulary: str = option(
        "auto",
        TEXT,
        "A column for each n-gram, or 2 to the --hash-bits columns into which n-grams are hashed. "
        "auto: exact where that fits in memory and no --hash-bits are given.",
        choices=VOCABULARIES,
    )
    encoding: str = option(
        "utf-8",
        TEXT,
        "Of CSV and JSON Lines, such as latin-1.",
        rule=Rule("the name of an encoding, such as latin-1", _is_encoding),
        metavar="NAME",
    )
