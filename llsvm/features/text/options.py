"""TextOptions: how documents become rows. Users set them by the options in llsvm.settings.data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from typing import Any

from llsvm.errors import UsageError
from llsvm.files.json_checks import (
    check,
    is_flag,
    is_number,
    is_text,
    is_whole,
    list_of,
    maybe,
    one_of,
)
from llsvm.settings.data import ACCENTS, ANALYZERS, WEIGHTS, TextSettings, ngram_range

DEFAULT_BITS = 20
ENGLISH = "english"  # stop words
MAX_LENGTH = 999  # of n-grams
MAX_STOP_CHARACTERS = 1_000_000  # of a list of stop words, which is in memory and in the model


@dataclass(frozen=True, slots=True)
class TextOptions:
    """Options of documents, with the names and defaults of scikit-learn's TfidfVectorizer.

    analyzer: n-grams of what: "word" (two or more letters, digits and underscores), "char" (characters; white
        space is one space) or "char_wb" (characters of a word and the spaces beside it).
    ngrams: the shortest and the longest.
    lowercase: documents are taken in small letters.
    strip_accents: "" (no), "unicode" (marks are taken off, NFKD) or "ascii" (what is not ASCII then is dropped).
    stop_words: that are left out, as they are after the two above; of "word" only.
    min_df, max_df: n-grams in fewer, or more, documents are left out: a count (int), or a share of all (float).
    max_features: only so many, those that occur most often, in the most documents where the weight is binary; of
        equals the first in alphabetical order. None: all.
    weight: "tfidf" (counts times ln((1 + n) / (1 + df)) + 1), "sublinear" (of 1 + ln count the same), "tf" (counts)
        "count" or "binary"; "auto": "tfidf", or "tf" of hashed columns, for which df must be counted first.
    unit: rows have the length 1; None: but for count and binary.
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
    weight: str = "auto"
    unit: bool | None = None
    hash_bits: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the options as plain values, as JSON has them."""
        return asdict(self) | {"ngrams": list(self.ngrams), "stop_words": list(self.stop_words)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TextOptions:
        """Return the options that ``as_dict`` gave. Raises ValueError for values that they cannot have."""
        check(values, _CHECKS, "text options")
        known = {name: values[name] for name in _CHECKS}
        shortest, longest = values["ngrams"]
        if not 1 <= shortest <= longest:
            raise ValueError(f"n-grams from {shortest} to {longest}")
        return cls(**known | {"ngrams": (shortest, longest), "stop_words": tuple(values["stop_words"])})

    @property
    def n_sizes(self) -> int:
        """Number of lengths that n-grams have."""
        return self.ngrams[1] - self.ngrams[0] + 1

    @property
    def idf(self) -> bool:
        """Whether document frequencies are needed."""
        return self.weight in ("tfidf", "sublinear") or (self.weight == "auto" and self.hash_bits is None)

    @property
    def chooses(self) -> bool:
        """Whether n-grams of a vocabulary are left out by how many documents have them."""
        return (self.min_df, self.max_df, self.max_features) != (1, 1.0, None)

    @property
    def unit_rows(self) -> bool:
        """Whether rows are scaled to the length 1."""
        return self.weight not in ("count", "binary") if self.unit is None else self.unit


def _is_pair(value: Any) -> bool:
    return list_of(is_whole(1, MAX_LENGTH))(value) and len(value) == 2


_CHECKS = {
    "analyzer": one_of(*ANALYZERS),
    "ngrams": _is_pair,
    "lowercase": is_flag,
    "strip_accents": one_of("", *ACCENTS),
    "stop_words": list_of(is_text),
    "min_df": is_number,
    "max_df": is_number,
    "max_features": maybe(is_whole(1)),
    "weight": one_of(*WEIGHTS),
    "unit": maybe(is_flag),
    "hash_bits": maybe(is_whole(1, 30)),
}


def text_options(settings: TextSettings, hash_bits: int | None) -> TextOptions:
    """Return the options that users set. hash_bits: of n-grams; None: they are not hashed. Raises UsageError for
    stop words that cannot be read, and for options that choose among n-grams where these are hashed."""
    hashed = settings.vocabulary == "hashed" or (settings.vocabulary == "auto" and hash_bits is not None)
    selection = {
        "--min-df": settings.min_df,
        "--max-df": settings.max_df,
        "--max-features": settings.max_features,
    }
    if hashed and (given := [option for option, value in selection.items() if value is not None]):
        raise UsageError(
            f"{given[0]} chooses among the n-grams of a vocabulary, and hashed ones have none: pass --vocabulary "
            f"exact (--hash-bits is then of categories), or leave {given[0]} out"
        )
    return TextOptions(
        analyzer=settings.analyzer,
        ngrams=ngram_range(settings.ngrams),
        strip_accents=settings.strip_accents or "",
        stop_words=_stop_words(settings.stop_words),
        min_df=1 if settings.min_df is None else settings.min_df,
        max_df=1.0 if settings.max_df is None else settings.max_df,
        max_features=settings.max_features,
        weight=settings.term_weight,
        hash_bits=(hash_bits or DEFAULT_BITS) if hashed else None,
    )


def _stop_words(given: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the words to leave out, each once. given: the words, "english", or the path of a file of words."""
    if given == ENGLISH:
        return _of_scikit_learn()
    return _words(given) if isinstance(given, str) else tuple(dict.fromkeys(given or ()))


def _of_scikit_learn() -> tuple[str, ...]:
    """Return its list of English words, without loading the modules around it. Raises UsageError."""
    package = find_spec("sklearn")
    folders = None if package is None else package.submodule_search_locations
    for folder in folders or ():
        path = os.path.join(folder, "feature_extraction", "_stop_words.py")
        spec = spec_from_file_location("llsvm_stop_words", path)
        if os.path.exists(path) and spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return tuple(sorted(module.ENGLISH_STOP_WORDS))
    raise UsageError(
        f"--stop-words {ENGLISH} is the list of scikit-learn, which is not installed: install it, or give a file "
        f"of words (./{ENGLISH} for one of that name)"
    )


def _words(path: str) -> tuple[str, ...]:
    """Return the words of a file, in order, each once."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(MAX_STOP_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"--stop-words {path}: {error}; give {ENGLISH}, the only list with a name, or a file of words in UTF-8"
        ) from error
    if len(text) > MAX_STOP_CHARACTERS:
        raise UsageError(
            f"--stop-words {path}: more than {MAX_STOP_CHARACTERS:,} characters; give a list of common words, and "
            "leave out what is in many documents with --max-df"
        )
    return tuple(dict.fromkeys(text.split()))
