"""Options: how data is read. See llsvm.features.table_options for tables."""

from __future__ import annotations

from dataclasses import dataclass

from llsvm.settings.option import DATA, Rule, option

ZERO_BASED = ("auto", "yes", "no")
MISSING = ("refuse", "zero", "mean")
HEADERS = ("auto", "yes", "no")
MISSING_LABELS = ("refuse", "drop")
FORMATS = ("svmlight", "vw", "fasttext", "csv", "jsonl", "parquet", "arrow", "hdf5", "numpy")


def _is_delimiter(text: str) -> bool:
    return text in ("tab", "space") or (len(text) == 1 and text.isascii() and text not in '"\r\n\0')


@dataclass(frozen=True)
class DataOptions:
    format: str | None = option(
        None, DATA, "Of the data.", choices=FORMATS, shown_default="by name and first bytes"
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
        "refuse", DATA, "What to do with rows of tables whose label is missing.", choices=MISSING_LABELS
    )
    categorical: tuple[str, ...] = option(
        (),
        DATA,
        "Columns of categories, whatever their values look like; the label, too (01 is not 1 then).",
        metavar="A,B,C*",
        shown_default="none",
    )
    header: str = option("auto", DATA, "Has CSV a line of names? If not, they are 0, 1, ...", choices=HEADERS)
    delimiter: str | None = option(
        None,
        DATA,
        "Between the values of CSV: a character, tab or space.",
        rule=Rule("one ASCII character that is no quote and no end of line, or tab, or space", _is_delimiter),
        metavar="CHAR",
        shown_default="told by the first line",
    )
    missing: str = option("refuse", DATA, "What to do with missing values.", choices=MISSING)
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
    zero_based: str = option("auto", DATA, "Do svmlight column indices start at 0?", choices=ZERO_BASED)
