"""Options: how data is read, the n-grams of its text, and what becomes of its columns before a solver sees them.

Of tables see llsvm.features.table_options, too.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from llsvm.settings.option import DATA, FEATURES, KERNELS, POSITIVE, TEXT, Rule, option


def _is_delimiter(text: str) -> bool:
    return text in ("tab", "space") or (len(text) == 1 and text.isascii() and text not in '"\r\n\0')


@dataclass(frozen=True)
class DataOptions:
    format: str | None = option(
        None,
        DATA,
        "Of the data.",
        choices=("svmlight", "vw", "fasttext", "csv", "jsonl", "parquet", "arrow", "hdf5", "numpy"),
        shown_default="by name and first bytes",
    )
    label: str | None = option(
        None,
        DATA,
        "The label: a column's name, its position from 0, last, or an expression ('delay > 15'); an array in HDF5 "
        "and npz.",
        metavar="COLUMN",
        shown_default="label, labels, target, class or y",
        accepts="str | int | None",
    )
    positive: str | None = option(
        None,
        DATA,
        "This label (as 1) against all others (as -1).",
        metavar="LABEL",
        shown_default="none",
        accepts="str | float | None",
    )
    features: tuple[str, ...] = option(
        (),
        DATA,
        "The feature columns: names, positions, patterns; the array in HDF5 and npz.",
        metavar="A,B,C*",
        shown_default="all others",
    )
    exclude: tuple[str, ...] = option(
        (), DATA, "Columns that are no features.", metavar="A,B,C*", shown_default="none"
    )
    weight: str | None = option(
        None,
        DATA,
        "Column of sample weights.",
        metavar="COLUMN",
        shown_default="none",
        accepts="str | int | None",
    )
    where: str | None = option(
        None,
        DATA,
        "Only rows for which this is true, an expression of a table's columns: 'month < 12 and carrier != \"AA\"'.",
        metavar="EXPRESSION",
        shown_default="all rows",
    )
    missing_label: str = option(
        "refuse", DATA, "What to do with rows of tables whose label is missing.", choices=("refuse", "drop")
    )
    categorical: tuple[str, ...] = option(
        (),
        DATA,
        "Columns of categories, whatever their values look like; the label, too (01 is not 1 then).",
        metavar="A,B,C*",
        shown_default="none",
    )
    header: str = option(
        "auto", DATA, "Has CSV a line of names? If not, they are 0, 1, ...", choices=("auto", "yes", "no")
    )
    delimiter: str | None = option(
        None,
        DATA,
        "Between the values of CSV: a character, tab or space.",
        rule=Rule("one ASCII character that is no quote and no end of line, or tab, or space", _is_delimiter),
        metavar="CHAR",
        shown_default="told by the first line",
    )
    missing: str = option(
        "refuse", DATA, "What to do with missing values.", choices=("refuse", "zero", "mean")
    )
    hash_bits: int | None = option(
        None,
        DATA,
        "Hash categories, and what is crossed with them, into 2^INT columns.",
        rule=Rule("from 1 to 30", lambda bits: 1 <= bits <= 30),
        metavar="INT",
        shown_default="a column for each category",
    )
    cross: tuple[str, ...] = option(
        (),
        DATA,
        "Two columns, or namespaces of VW, whose features count together too: categories by categories, categories "
        "by numbers, numbers by numbers.",
        metavar="A:B",
        shown_default="none",
        repeatable=True,
    )
    zero_based: str = option(
        "auto", DATA, "Do svmlight column indices start at 0?", choices=("auto", "yes", "no")
    )


ANALYZERS = ("word", "char", "char_wb")
ACCENTS = ("unicode", "ascii")
WEIGHTS = ("auto", "tfidf", "sublinear", "tf", "count", "binary")
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
        choices=("auto", "exact", "hashed"),
    )
    encoding: str = option(
        "utf-8",
        TEXT,
        "Of CSV and JSON Lines, such as latin-1.",
        rule=Rule("the name of an encoding, such as latin-1", _is_encoding),
        metavar="NAME",
    )


AUTO = "auto"
KERNEL_NAMES = ("rbf", "poly", "linear", "precomputed")


def _is_bias(value: float | str) -> bool:
    """Return whether squares of such a constant feature, times costs, are 64-bit floats."""
    return value == AUTO if isinstance(value, str) else value == 0 or 1e-100 <= value <= 1e100


@dataclass(frozen=True)
class FeatureOptions:
    scale: str = option(
        AUTO,
        FEATURES,
        "Scaling of the columns, learned and kept in the model. auto: standard for tables (CSV, JSON Lines, "
        "Parquet, Arrow; maxabs with loss one_class), none for svmlight, arrays and kernels.",
        choices=("auto", "none", "maxabs", "minmax", "standard", "unit-row"),
    )
    target_scale: str = option(
        AUTO,
        FEATURES,
        "Scaling of a regression's labels to mean 0 and variance 1, learned and kept in the model; -C, --epsilon "
        "and --delta are then those of the scaled labels. auto: standard for tables, none for svmlight and arrays.",
        choices=("auto", "none", "standard"),
    )
    bias: float | str = option(
        AUTO,
        FEATURES,
        "Value of a constant feature, penalised too; 0 for none. auto: 1 for tables, 0 for svmlight, arrays and "
        "kernels.",
        rule=Rule("auto, 0 (none) or a number from 1e-100 to 1e100", _is_bias),
        metavar="auto|FLOAT",
        accepts='float | Literal["auto"]',
    )
    intercept: bool = option(
        False,
        FEATURES,
        "A constant feature whose weight is not penalised, as LIBSVM's, instead of --bias (solvers smsvm, "
        "nesvm, smo; softmax).",
        flags=("--intercept",),
        methods=("smsvm", "nesvm", "smo", "kernel", "softmax"),
    )
    kernel: str | None = option(
        None,
        KERNELS,
        "Kernel machine (smo, nesvm), or what --feature-map approximates. rbf: exp(-gamma |x - z|^2); poly: "
        "(gamma x.z + coef0)^degree; precomputed: the rows are the kernel matrix's.",
        choices=KERNEL_NAMES,
        shown_default="none; rbf with a map",
    )
    gamma: float | None = option(
        None,
        KERNELS,
        "Of the kernel.",
        rule=POSITIVE,
        metavar="FLOAT",
        shown_default="1 / number of features",
    )
    degree: int = option(3, KERNELS, "Of kernel poly.", rule=POSITIVE, metavar="INT")
    coef0: float = option(0.0, KERNELS, "Of kernel poly.", metavar="FLOAT")
    feature_map: str | None = option(
        None,
        KERNELS,
        "Approximate the kernel by so many --components; any solver then trains on them.",
        choices=("nystroem", "rff"),
        shown_default="none",
    )
    components: int = option(500, KERNELS, "Of the feature map.", rule=POSITIVE, metavar="INT")
