"""Arrow columns as NumPy arrays: numbers, vectors, categories, lists, labels and sample weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from numpy.typing import NDArray

from llsvm.features.arrow_types import decoded, kind_of
from llsvm.features.column import Sort, remedy_for
from llsvm.features.labels import NOT_A_NUMBER, WHOLE_BELOW
from llsvm.features.spelling import parsed, sort_of, types_alike
from llsvm.features.targets import as_targets
from llsvm.features.value_texts import LabelWords, as_text, most_ticks
from llsvm.objective.rounding import lost_as_float, lost_of_text

Types = Mapping[str, pa.DataType]  # what text is read as, by column
_PLAIN = {pa.int8().id, pa.int16().id, pa.int32().id, pa.int64().id, pa.uint8().id, pa.uint16().id} | {
    *(pa.uint32().id, pa.uint64().id, pa.float32().id, pa.float64().id)
}
_FLOAT_DIGITS = 16  # decimals of fewer digits are told apart as 64-bit floats
_MAX_DIGITS = 73  # of decimals that are compared
_PIECE = 1 << 12
_SPLIT = 2.0**27 + 1.0  # makes two numbers of 26 bits of a 64-bit float
_UNITS_PER_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}


class MissingValues(Exception):
    """A value is missing where that is refused.

    name: of the column. row: in the batch, from 0.
    """

    def __init__(self, name: str, row: int) -> None:
        super().__init__(name, row)
        self.name, self.row = name, row


def is_time(type_: pa.DataType) -> bool:
    """Return whether the type is a date, a time or a span of time."""
    return is_time(type_.value_type) if types.is_dictionary(type_) else bool(types.is_temporal(type_))


def are_plain_numbers(type_: pa.DataType) -> bool:
    """Return whether values of that Arrow type are numbers as arrays have them."""
    return bool(types.is_boolean(type_) or types.is_integer(type_) or types.is_floating(type_))


def can_be_text(type_: pa.DataType, or_none: bool = False) -> bool:
    """Return whether a column of that Arrow type can hold documents. One that is always missing can: they are
    empty. or_none: floats may be there, see ``other_numbers``: ``text_column`` refuses others."""
    if types.is_dictionary(type_):
        return can_be_text(type_.value_type)
    bytes_ = types.is_binary(type_) or types.is_large_binary(type_) or types.is_binary_view(type_)
    return (
        kind_of(type_) == "text" or bytes_ or types.is_null(type_) or (or_none and types.is_floating(type_))
    )


def text_column(column: pa.Array, name: str) -> pa.Array:
    """Return a column of documents; floats that are all missing are empty ones. Raises ValueError(row, reason) for
    others."""
    if not types.is_floating(column.type):
        return column
    there = ~np.isnan(numbers(column))
    if there.any():
        what = f"column {name} has type {column.type}, which is no text; write it as text"
        raise ValueError(int(np.argmax(there)), what)
    return pa.nulls(len(column), pa.string())


def other_numbers(sort: Sort | None, type_: pa.DataType, or_none: bool = False) -> str:
    """Return what a column of numbers is expected to hold where one of that type holds something else, or "".

    sort: as ``Column`` has it. 20240101 and 2024-01-01 are the same day to people, and not as numbers. Text may
    spell either, see ``numbers``, but no spans of time. or_none: floats may be there, which pandas has where a
    column of whatever sort has no value: ``number_column`` refuses others."""
    kind = kind_of(type_)
    if or_none and types.is_floating(type_):
        return ""
    if (kind == "text" and sort != Sort.SPAN) or (
        kind == "number" and (sort is None or sort.includes(sort_of(type_)))
    ):
        return ""
    if sort is None or (sort == Sort.NUMBER and kind != "number"):
        return "numbers"
    times = kind == "number" and sort_of(type_) != Sort.NUMBER  # whose zone matters
    return Sort.ANY_TIME.plural if sort == Sort.DATE and not times else sort.plural


@lru_cache(maxsize=64)
def _dtype(type_: pa.DataType) -> np.dtype:
    return np.dtype(type_.to_pandas_dtype())


def plain(column: pa.Array) -> NDArray[Any]:
    """Return the numbers of an array without nulls, as a view. ``to_numpy`` would do, but imports pandas where it
    is installed: 40 MB."""
    dtype = _dtype(column.type)
    buffer = column.buffers()[1]
    if buffer is None or len(column) == 0:
        return np.zeros(len(column), dtype)
    return np.frombuffer(buffer, dtype, len(column), column.offset * dtype.itemsize)


def nulls(column: pa.Array) -> NDArray[np.bool_]:
    """Return the mask (n,) of missing values."""
    return plain(column.is_null().cast(pa.uint8())).astype(bool)


def has_values(column: pa.Array) -> bool:
    """Return whether any value is neither missing nor NaN."""
    if types.is_floating(column.type):
        return not bool(np.isnan(numbers(column)).all())
    return bool(column.null_count < len(column))


def numbers(
    column: pa.Array, sort: Sort | None = None, spelled: pa.DataType | None = None
) -> NDArray[np.float64]:
    """Return the values (n,) as float64, NaN for what is missing. Dates and times are days since 1970, infinite
    where databases have them so, booleans 0 and 1. sort, spelled: what text is read as, see ``types_alike``. Raises
    ValueError(row, reason) for text that is none."""
    if kind_of(column.type) == "text":
        column = parsed(column, types_alike(spelled, sort), spelled is not None)
    type_ = column.type
    if type_.id in _PLAIN and not column.null_count:  # at once: wide tables have thousands of such columns
        return plain(column).astype(np.float64, copy=False)
    if types.is_dictionary(type_):
        column, type_ = decoded(column), type_.value_type
    if types.is_null(type_):
        return np.full(len(column), np.nan)
    per_unit = 1.0
    if types.is_temporal(type_):
        column, per_unit = _ticks(column)
        infinite = float(most_ticks(column.type))
    elif types.is_boolean(type_):
        column = column.cast(pa.uint8())
    elif types.is_decimal(type_):
        column = column.cast(pa.float64())
    if column.null_count:
        wide = column.cast(pa.float64(), safe=False)
        values = plain(wide.fill_null(float("nan")))
    else:
        values = plain(column)
    values = values.astype(np.float64, copy=False)
    if types.is_temporal(type_):
        values = np.where(np.abs(values) >= infinite, np.copysign(np.inf, values), values)
    return values / per_unit if per_unit != 1 else values


def lost(column: pa.Array, values: NDArray[np.float64], of_text: bool) -> list[NDArray[np.float64] | None]:
    """Return the difference between the column's values and ``values``, (n, width), the numbers read from it or
    from its lists; None: there is none. Two bounds where it is not known: it lies between them. of_text: floats
    were read from text.

    Of decimals: where they were told apart as 64-bit floats, nothing."""
    if kind_of(column.type) == "text" or (of_text and _item_type(column.type) == pa.float64()):
        bound = lost_of_text(values)
        return [bound] if bound is None else [bound, -bound]
    if kind_of(column.type) == "number":
        return [_lost(column, values)]
    there = ~nulls(column)
    flat = _lost(column.flatten(), values[there].reshape(-1, 1))
    if flat is None:
        return [None]
    differences = np.zeros(values.shape)
    differences[there] = flat.reshape(-1, values.shape[1])
    return [differences]


def _item_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of numbers, or of those in lists."""
    return type_ if kind_of(type_) == "number" else type_.value_type


def _lost(column: pa.Array, values: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return what ``lost`` does, of numbers, (n, 1)."""
    type_ = column.type.value_type if types.is_dictionary(column.type) else column.type
    if types.is_decimal(type_):
        may_lose = _FLOAT_DIGITS <= type_.precision <= _MAX_DIGITS and type_.scale >= 0
    else:
        may_lose = type_.id in (pa.int64().id, pa.uint64().id) or types.is_temporal(type_)
    if not may_lose:
        return None
    differences, any_lost = np.zeros((len(column), 1)), False
    for at in range(0, len(column), _PIECE):  # which takes little memory
        part, wide = column.slice(at, _PIECE), values[at : at + _PIECE, 0]
        part = decoded(part)
        piece = _lost_decimals(part, wide) if types.is_decimal(type_) else _lost_ticks(part)
        differences[at : at + _PIECE, 0] = np.where(np.isnan(wide), 0.0, piece)
        any_lost |= bool(piece.any())
    return differences if any_lost else None


def _lost_decimals(column: pa.Array, values: NDArray[np.float64]) -> NDArray[np.float64]:
    wide = pa.decimal256(column.type.precision + 2, column.type.scale)
    there = np.where(np.isnan(values), 0.0, values)
    floats = pa.Array.from_buffers(pa.float64(), len(there), [None, pa.py_buffer(there)])
    apart = pc.subtract(column.cast(wide), floats.cast(wide, safe=False))
    return plain(apart.cast(pa.float64()).fill_null(0.0))


def _lost_ticks(column: pa.Array) -> NDArray[np.float64]:
    per_unit = 1.0
    if types.is_temporal(column.type):
        column, per_unit = _ticks(column)
    ticks = plain(column.fill_null(0))
    wide = ticks.astype(np.float64)
    return lost_as_float(ticks, wide) / per_unit + _rest_of_division(wide, per_unit)


def _rest_of_division(a: NDArray[np.float64], b: float) -> NDArray[np.float64]:
    """Return by how much (n,) the quotients a / b, as 64-bit floats, are too small (Dekker's product)."""
    q = a / b
    high, of_b = (x * _SPLIT - (x * _SPLIT - x) for x in (q, b))
    low, rest = q - high, b - of_b
    product = q * b
    off = ((high * of_b - product) + high * rest + low * of_b) + low * rest
    return ((a - product) - off) / b


def _ticks(column: pa.Array) -> tuple[pa.Array, float]:
    """Return the values as integers, and how many of them make a day."""
    type_ = column.type
    if types.is_date32(type_):
        return column.cast(pa.int32()), 1.0
    if types.is_date64(type_):
        return column.cast(pa.int64()), float(_UNITS_PER_DAY["ms"])
    if types.is_time32(type_):
        return column.cast(pa.int32()), float(_UNITS_PER_DAY[type_.unit])
    return column.cast(pa.int64()), float(_UNITS_PER_DAY[type_.unit])


def categories(
    column: pa.Array, empty_is_missing: bool, written: Callable[[str], str] = str.strip
) -> tuple[NDArray[np.int64], list[str]]:
    """Return the codes (n,), -1 for what is missing, and the text that each code stands for, in order of
    appearance. Raises ValueError(row, reason) for text that is not UTF-8.

    Space around it is no part of a value: it stands around separators, and would be seen by nobody.
    empty_is_missing: "" is missing, as it is in CSV. written: makes one text of those that mean the same.
    """
    if types.is_dictionary(column.type):
        codes, values = _distinct_categories(column)
    else:
        column = as_text(column).dictionary_encode()
        codes, values = codes_of(column), column.dictionary
    try:
        words = [written(word) for word in values.to_pylist()]
    except UnicodeDecodeError as error:
        row = int(np.argmax(codes == _undecodable(values)))
        raise ValueError(row, "text that is not UTF-8; write it so, or as bytes to be decoded") from error
    distinct = {word: code for code, word in enumerate(dict.fromkeys(words))}
    if len(distinct) < len(words):
        codes = np.array([*(distinct[word] for word in words), -1])[codes]
        words = list(distinct)
    if empty_is_missing and "" in words:
        codes[codes == words.index("")] = -1
    return codes, words


def _undecodable(values: pa.Array) -> int:
    """Return the place of the first text that is not UTF-8."""
    for place, value in enumerate(values):
        try:
            value.as_py()
        except UnicodeDecodeError:
            return place
    return 0


def codes_of(column: pa.DictionaryArray) -> NDArray[np.int64]:
    """Return the positions (n,) in the dictionary, -1 for what is missing."""
    return np.array(plain(column.indices.cast(pa.int64()).fill_null(-1)))


def _distinct_categories(column: pa.DictionaryArray) -> tuple[NDArray[np.int64], pa.Array]:
    """Return what ``categories`` does, for a column with a dictionary, which is not decoded: a code may stand for a
    long text."""
    codes = codes_of(column)
    gone = nulls(column.dictionary)
    if gone.any():
        codes[np.append(gone, True)[codes]] = -1
    distinct, first, places = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first + len(codes) * (distinct < 0))  # what is missing comes last
    distinct = distinct[order][: np.count_nonzero(distinct >= 0)]
    numbered = np.empty(len(order), np.int64)
    numbered[order] = np.arange(len(order))
    codes = numbered[places]
    codes[codes == len(distinct)] = -1
    words = column.dictionary  # of views none can be taken
    words = words.cast(pa.large_string()) if types.is_string_view(words.type) else words
    return codes, as_text(words.take(pa.array(distinct)))


def number_column(
    column: pa.Array, name: str, sort: Sort | None, predicting: bool, spelled: pa.DataType | None
) -> NDArray[np.float64]:
    """Return the values (n,) of a feature as ``numbers`` does. Raises ValueError(row, reason) for text that is
    none."""
    try:
        values = numbers(column, sort, spelled)
    except ValueError as error:
        if len(error.args) != 2:  # of pyarrow
            raise
        sort = sort or Sort.NUMBER
        as_what = f"{'a plain number' if sort == Sort.NUMBER else 'a date or time'} such as {sort.example}"
        as_what += ", or true or false if the model knows these" * (predicting and sort == Sort.NUMBER)
        as_what = "true or false" if spelled == pa.bool_() else as_what
        remedy = f"write {as_what}, or nothing where there is none"
        more = "" if predicting else f", or read the column as categories (--categorical {name})"
        raise ValueError(error.args[0], f"column {name}: {error.args[1]}; {remedy}{more}") from error
    floats = types.is_floating(column.type)
    if floats and (expected := other_numbers(sort, column.type)) and not np.isnan(values).all():
        by_model = f"the model was trained on {expected}; {remedy_for(sort)}"
        what = by_model if predicting else f"holds {expected} in the rows before it"
        row = int(np.argmin(np.isnan(values)))
        raise ValueError(row, f"column {name} has type {column.type}, but {what}")
    return values


def empty_as_null(column: pa.Array) -> pa.Array:
    """Return the column with empty text as missing."""
    if kind_of(column.type) != "text":
        return column
    column = decoded(column)
    return pc.if_else(pc.equal(pc.utf8_trim_whitespace(column), ""), pa.scalar(None, column.type), column)


def vectors(column: pa.Array, name: str, width: int) -> NDArray[np.float64]:
    """Return lists of ``width`` numbers as (n, width) float64, NaN for what is missing. Raises ValueError(row,
    reason)."""
    remedy = (
        f"write lists of one length (or two, of indices and of values), or leave it out (--exclude {name})"
    )
    if width == 0:
        raise ValueError(0, f"column {name}: no list, or an empty one, in the first row; {remedy}")
    gone = nulls(column)
    if types.is_fixed_size_list(column.type) and column.type.list_size == width:
        start = column.offset * width
        values = numbers(column.values.slice(start, len(column) * width)).reshape(len(column), width)
        return np.where(gone[:, None], np.nan, values) if gone.any() else values
    lengths = plain(pc.list_value_length(column).fill_null(width))
    if np.any(lengths != width):
        row = int(np.argmax(lengths != width))
        what = f"a list of length {lengths[row]}, where the first row's has {width}"
        raise ValueError(row, f"column {name}: {what}; {remedy}")
    values = np.full((len(column), width), np.nan)
    values[~gone] = numbers(column.flatten()).reshape(-1, width)
    return values


def sparse_lists(
    indices: pa.Array, values: pa.Array
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return (indptr, indices, values) of rows that are given as two lists each. Raises ValueError(row, reason)."""
    n = len(indices)
    lengths = []
    for name, column in (("indices", indices), ("values", values)):
        if column.null_count:
            row = int(np.argmax(nulls(column)))
            raise ValueError(row, f"the list of {name} is missing; write an empty list")
        lengths.append(plain(pc.list_value_length(column)).astype(np.int64))
    if np.any(lengths[0] != lengths[1]):
        row = int(np.argmax(lengths[0] != lengths[1]))
        raise ValueError(row, f"{lengths[0][row]} indices, but {lengths[1][row]} values")
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(lengths[0], out=indptr[1:])
    flat, data = numbers(indices.flatten()), numbers(values.flatten())
    bad = ~(flat >= 0) | ~np.isfinite(data) | (flat > 2**31 - 2) | (flat != np.floor(flat))
    if bad.any():
        at = int(np.argmax(bad))
        row = int(np.searchsorted(indptr, at, "right")) - 1
        raise ValueError(
            row,
            f"index {flat[at]:g} with value {data[at]:g}; both must be finite, the index a whole number from 0 on",
        )
    return indptr, flat.astype(np.int64), data


# Labels and sample weights.


def labels(column: pa.Array, alike: LabelWords | None = None) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the labels (n,), as float64, int64 of a column of whole numbers without gaps, bool, or text as
    objects, and where they are missing. alike: makes one of the texts that spell the same value; None: they stay as
    they are."""
    if kind_of(column.type) != "text":
        column = decoded(column)
    if kind_of(column.type) == "text":
        codes, words = categories(column, True)
        words = [*(words if alike is None else alike.labels(words)), ""]
        # objects: as an array of text all rows would be as long as the longest label
        return np.array(words, object)[codes], np.array([not word for word in words])[codes]
    if types.is_boolean(column.type):
        return plain(column.fill_null(False).cast(pa.uint8())).astype(bool), nulls(column)
    if types.is_temporal(column.type):
        return labels(as_text(column))
    values = numbers(column)
    too_large = np.abs(values) >= WHOLE_BELOW
    if too_large.any():
        row = int(np.argmax(too_large))
        raise ValueError(
            row,
            f"the label {column[row]} is too large to be told from its neighbours; number the labels otherwise, or "
            "keep them as text (--categorical LABEL)",
        )
    gone = np.isnan(values)
    whole = types.is_integer(column.type) and not gone.any()
    return values.astype(np.int64) if whole else values, gone


def targets(column: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return numbers (n,), and where they are missing. Raises ValueError(row, reason) for the first label that is
    none."""
    if types.is_temporal(column.type):
        raise ValueError(0, f"a label of type {column.type}: {NOT_A_NUMBER}")
    if kind_of(column.type) == "text":
        words, gone = labels(column)
        return as_targets(np.where(gone, "0", words)), gone
    values = numbers(column)
    gone = np.isnan(values)
    return as_targets(np.where(gone, 0.0, values)), gone


def label_column(
    column: pa.Array, name: str, as_numbers: bool, may_be_missing: bool, alike: LabelWords | None = None
) -> NDArray[Any]:
    """Return the column (n,) as ``labels`` or ``targets``, NaN or "" where they may be missing. Raises
    ValueError(row, reason) where not, and for those that are no labels."""
    try:
        y, gone = targets(column) if as_numbers else labels(column, alike)
    except ValueError as error:
        if may_be_missing:
            return np.full(len(column), np.nan)
        if len(error.args) != 2:  # of pyarrow
            raise
        raise ValueError(error.args[0], f"column {name}: {error.args[1]}") from error
    if y.dtype == bool and gone.any() and may_be_missing:
        y = np.where(gone, np.nan, y)
    if gone.any() and not may_be_missing:
        reason = f"column {name}: the label is missing; fill it in, or pass --missing-label drop"
        raise ValueError(int(np.argmax(gone)), reason)
    return y


def weight_column(column: pa.Array, name: str, types: Types) -> NDArray[np.float64]:
    """Return the sample weights (n,). types: what text is read as. Raises ValueError(row, reason) for what is
    none."""
    try:
        values = numbers(column, Sort.NUMBER, types.get(name))
    except ValueError as error:
        if len(error.args) != 2:  # of pyarrow
            raise
        raise ValueError(error.args[0], f"column {name}: the weight {error.args[1]}") from error
    bad = ~((values >= 0) & np.isfinite(values))
    if bad.any():
        row = int(np.argmax(bad))
        what = "the weight is missing" if np.isnan(values[row]) else f"weight {values[row]:g}"
        raise ValueError(row, f"column {name}: {what}; weights are 0 or more, and 0 leaves a row out")
    return values
