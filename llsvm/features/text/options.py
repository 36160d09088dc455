"""TextOptions: how documents become rows."""

from __future__ import annotations

from dataclasses import dataclass

ANALYZERS = ("word", "char", "char_wb")
ACCENTS = ("", "unicode", "ascii")
WEIGHTS = ("tfidf", "sublinear", "count", "binary")


@dataclass(frozen=True, slots=True)
class TextOptions:
    """As scikit-learn's TfidfVectorizer has it, with its defaults.

    analyzer: n-grams of what: "word" (two or more letters, digits and underscores), "char" (characters; white
        space is one space) or "char_wb" (characters of a word and the spaces beside it).
    ngrams: the shortest and the longest.
    lowercase: documents are taken in small letters.
    strip_accents: "" (no), "unicode" (marks are taken off, NFKD) or "ascii" (what is not ASCII then is dropped).
    stop_words: that are left out, as they are after the two above; of "word" only.
    min_df, max_df: n-grams in fewer, or more, documents are left out: a count (int), or a share of all (float).
    max_features: only so many, those that occur most often; None: all.
    weight: "tfidf" (counts times ln((1 + n) / (1 + df)) + 1), "sublinear" (of 1 + ln count the same), "count" or
        "binary". unit: rows have the length 1; None: with tfidf and sublinear.
    hash_bits: n-grams are numbered by so many bits of their hash, without a vocabulary; None: each has its number.
    """

    analyzer: str = "word"
    ngrams: tuple[int, int] = (1, 1)
    lowercase: bool = True
    strip_accents: str = ""
    stop_words: tuple[str, ...] = ()
    min_df: int | float = 1
    max_df: int | float = 1.0
    max_features: int | None = None
    weight: str = "tfidf"
    unit: bool | None = None
    hash_bits: int | None = None

    @property
    def idf(self) -> bool:
        return self.weight in ("tfidf", "sublinear")

    @property
    def unit_rows(self) -> bool:
        return self.idf if self.unit is None else self.unit
