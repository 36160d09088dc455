"""Data frames (pandas, Polars, tables of pyarrow): the names of their columns, and their rows as numbers; documents
that stand alone (lists, arrays and Series of text) as tables with one column."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence, Set, Sized
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix, refuse_damaged
from llsvm.errors import DataError, LLSVMWarning, ModelError, UsageError
from llsvm.features.array_labels import in_common_unit, refuse_dictionaries, refuse_masked, refuse_records
from llsvm.features.column import Column, Sort
from llsvm.features.table_options import listed, missing_columns, own_names

PREDICTION = "prediction"  # how the column of them is named
FILL_IN = "fill it in, or train with missing='zero' or missing='mean'"  # a missing value
_CHUNK_BYTES = 1 << 20
_LOOKED_AT_ROWS = 10_000  # to see what text is read as
_GAPS = "Input X contains NaN"  # as scikit-learn says it


def without_fills(X: Any) -> Any:
    """Return X, a data frame of pandas with its sparse columns dense where they leave out another value than 0."""
    types = (
        dict(X.dtypes) if hasattr(X, "iloc") and hasattr(X, "dtypes") and hasattr(X.dtypes, "items") else {}
    )
    dense = {
        name: type_.subtype
        for name, type_ in types.items()
        if str(type_).startswith("Sparse") and type_.fill_value != 0
    }
    return X.astype(dense) if dense else X


def as_rows(X: Any) -> Any:
    """Return X, where it has a shape, else the array that it makes. Raises ModelError for what has no rows and
    columns, DataError for what holds no numbers."""
    refuse_masked(X=X)
    refuse_records(X)
    array = X if hasattr(X, "shape") else np.asarray(X)
    if len(array.shape) != 2:
        if isinstance(X, str | bytes | os.PathLike):
            raise ModelError(f"X is text, not rows; llsvm.predict(model, {X!r}) reads files")
        raise ModelError(
            f"X has the shape {tuple(array.shape)} ({type(X).__name__}), which is no rows and columns; pass an "
            "(n, d) array, a SciPy sparse matrix or a data frame (a lazy one when it is collected)"
        )
    if isinstance(array, np.ndarray) and array.dtype.kind not in "biufO":
        raise DataError(f"X has dtype {array.dtype}; it must hold numbers")
    return _rows_of_sparse(array) if hasattr(array, "tocsr") else array


def _rows_of_sparse(X: Any) -> Any:
    """Return a sparse matrix that can be cut into rows."""
    X = X.tocsr()
    if X.dtype.isnative:
        return X
    return type(X)((X.data.astype(X.dtype.newbyteorder("=")), X.indices, X.indptr), shape=X.shape)


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame, whatever its columns are named."""
    return _columns_of(X) is not None


def column_names(X: Any, numbered: Collection[str] = ()) -> tuple[str, ...] | None:
    """Return the names of a data frame's columns, as text; None for arrays, and for columns that are numbered 0, 1,
    2, ... in order, as pandas does where it is given no names, unless the numbers ``numbered`` are what is looked
    for.

    Raises UsageError where some are text and others are not.
    """
    labels = _columns_of(X)
    if labels is None:
        return None
    texts = [isinstance(name, str) for name in labels]
    if any(texts) and not all(texts):
        other = labels[texts.index(False)]
        raise UsageError(f"X has columns named by text and others not ({other!r}); rename them all to text")
    names = tuple(map(_as_text, labels))
    return names if labels != tuple(range(len(labels))) or (numbered and set(numbered) <= {*names}) else None


def _as_text(name: Any) -> str:
    """Return the name of a column as Arrow has it, and a Parquet file that is written of the frame."""
    if isinstance(name, tuple):  # of a column with several levels
        return str(tuple(map(_as_text, name)))
    return name.decode() if isinstance(name, bytes) else str(name)


def _columns_of(X: Any) -> tuple[Any, ...] | None:
    # every library of frames calls them so; pyarrow's ``columns`` are the values
    names = getattr(X, "column_names", None)
    if names is None and hasattr(X, "collect_schema"):  # Polars warns of a lazy frame's ``columns``
        names = X.collect_schema().names()
    names = getattr(X, "columns", None) if names is None else names
    return None if names is None or callable(names) else tuple(names)


@contextmanager
def naming_bad_text(X: Any) -> Iterator[None]:
    """Refuse by its place, within the context, text in a data frame, or in a list of documents, that is no valid
    Unicode. Raises DataError."""
    try:
        yield
    except UnicodeEncodeError as error:
        what = "text that is no valid Unicode: half of a surrogate pair"
        remedy = "replace it (text.encode('utf-8', 'replace').decode()), or leave the row out"
        raise DataError(f"X: {_bad_text(X)}{what}; {remedy}") from error


@contextmanager
def naming_unreadable(X: Any) -> Iterator[None]:
    """Refuse by its column, within the context, what Arrow cannot hold of a data frame. Raises DataError."""
    import pyarrow as pa

    try:
        with naming_bad_text(X):
            yield
    except (pa.ArrowException, NotImplementedError, OverflowError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        why = _unreadable(X) or f"cannot be read as a table: {' '.join(map(str, error.args))}"
        raise DataError(f"X: {why}") from error


def as_table(X: Any) -> Any:
    """Return a data frame as a table of pyarrow. Raises DataError for what no table can hold, and see
    ``refuse_objects``."""
    import pyarrow as pa

    from llsvm.features.arrow_types import plain_table

    refuse_objects(X)
    with naming_unreadable(X):
        table = plain_table(pa.table(X))
    return without_types_of_nothing(table)


def as_frame(X: Any, column: str) -> Any:
    """Return X, if it is a data frame, or else documents, (n,) or (n, 1), as a table with that column of text.

    Missing documents (None, NaN) are empty. Raises DataError for values that are no text."""
    if is_frame(X):
        return X
    refuse_masked(X=X)
    refuse_dictionaries(X)
    import pyarrow as pa

    if isinstance(X, Set | Iterator):
        raise DataError(f"X is a {type(X).__name__}: give documents in order, as a list")
    if isinstance(X, str | bytes) or not isinstance(X, Sized):
        raise DataError("X is one document, or none: give a list of them")
    if isinstance(X, np.ndarray):
        X = X[:, 0] if X.ndim == 2 and X.shape[1] == 1 else X
        if X.ndim != 1:
            raise DataError(
                f"X has the shape {X.shape}, and documents are (n,): give a list, or a column of a data frame"
            )
        X = X.astype(object) if X.dtype.kind == "U" else X  # of which pyarrow takes what is before a NUL
    try:
        with naming_bad_text(X):
            texts = X if isinstance(X, pa.Array | pa.ChunkedArray) else pa.array(X, from_pandas=True)
    except (pa.ArrowException, TypeError) as error:
        raise DataError(
            f"X holds what is no text: {_no_text(X) or error}; make it text, or leave the row out"
        ) from error
    from llsvm.features.columns import can_be_text

    if not can_be_text(texts.type) and len(texts):
        raise DataError(
            f"X holds what is no text: {_no_text(X) or texts.type}; make it text, or leave text=True out"
        )
    return pa.table({column: texts.cast(pa.string()) if pa.types.is_null(texts.type) else texts})


def _no_text(X: Any) -> str:
    """Return, in words, the first value that is neither text nor missing."""
    for row, value in enumerate(X):
        missing = value is None or (isinstance(value, float) and value != value)
        if not isinstance(value, str | bytes) and not missing:
            return f"X[{row}] is {value!r} ({type(value).__name__})"
    return ""


def without_types_of_nothing(table: Any) -> Any:
    """Return the table; a column of numbers without a value is of null type, and so of any sort: pandas has floats
    or whole numbers where a file had nothing, whatever the column is of."""
    import pyarrow as pa
    from pyarrow import types

    n = table.num_rows
    for i, (name, type_) in enumerate(zip(table.column_names, table.schema.types, strict=True)):
        if n and (types.is_floating(type_) or types.is_integer(type_)) and table.column(i).null_count == n:
            table = table.set_column(i, name, pa.nulls(n))
    return table


def refuse_objects(X: Any, names: Collection[str] | None = None) -> None:
    """Raise DataError for columns of Python's objects, in data frames of pandas, that Arrow takes for what they are
    not: sets, whose values have no order, for lists, and times without a zone, beside such with one, for UTC; of
    Polars, whose objects it takes for bytes, those of ``names``: of the columns that count, None for all."""
    if not hasattr(X, "iloc"):
        types = dict(getattr(X, "schema", ())) if names and hasattr(X, "lazy") else {}
        for name in (name for name in names or () if str(types.get(name)) == "Object"):
            raise DataError(
                f"X: column {name} has the type Object, which holds objects of Python; leave it out, or make "
                "text of it"
            )
        return
    if not hasattr(X, "dtypes") or not hasattr(X, "columns"):  # a Series, or rows that only look like a frame
        return
    for place, (name, type_) in enumerate(zip(X.columns, X.dtypes, strict=True)):
        if str(type_) != "object" or (names is not None and _as_text(name) not in names):
            continue
        values = X.iloc[:, place].array
        kinds = set(map(type, values))
        if any(issubclass(kind, set | frozenset) for kind in kinds):
            remedy = "leave it out, or write lists of one length"
            raise DataError(f"X: column {name} holds sets, whose values have no order; {remedy}")
        if any(issubclass(kind, datetime) for kind in kinds):
            times = (each for each in values if isinstance(each, datetime | np.datetime64) and each == each)
            if len({isinstance(each, datetime) and each.tzinfo is not None for each in times}) > 1:
                raise DataError(
                    f"X: column {name} holds {Sort.ZONED.plural} beside {Sort.DATE.plural}; write all of them with "
                    "a zone, or all without"
                )


@contextmanager
def naming_no_number(X: Any, first: int = 0) -> Iterator[None]:
    """Refuse by its place, within the context, what is no number in rows that are to be numbers. Raises DataError
    for text, TypeError for what Python makes no number of."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if str(error).startswith(_GAPS):
            raise DataError(f"{_GAPS}: a value is missing; {FILL_IN}") from error
        if isinstance(error, DataError) or not (cell := _no_number(X, first)):
            raise
        remedy = "make numbers of it, or give a data frame, whose text, dates and times are features, too"
        if isinstance(error, TypeError):
            raise TypeError(f"X: {cell} is no number: {remedy} ({error})") from error
        raise DataError(f"X: {cell} is no number: {remedy}") from error


def no_score(row: int) -> str:
    """Return what to say of a row, from 0, that has no finite score."""
    return f"row {row + 1} of X has no finite score: it holds a NaN or an infinite value; {FILL_IN}"


def _no_number(X: Any, first: int) -> str:
    """Return the first cell that is none, in words; "" where all are, or X has no rows and columns. first: the
    number of its first row, from 0."""
    if not isinstance(X, list | tuple) and not (isinstance(X, np.ndarray) and X.dtype.kind in "OUSMm"):
        return ""  # numbers are not made objects, which take eight times the memory
    cells = np.asarray(X, object)
    if cells.ndim != 2:
        return ""
    for row, column in np.ndindex(*cells.shape):
        value = cells[row, column]
        try:
            float(value)
        except (TypeError, ValueError):
            return f"{value!r} in row {first + row + 1}, column {column}"
    return ""


def _unreadable(X: Any) -> str:
    """Return the first column that alone cannot be read, and why, in words; "" where each can be."""
    import pyarrow as pa

    for name in column_names(X) or ():
        one = columns(X, [name])
        one = one.head(0).collect() if hasattr(one, "collect") else one  # a lazy frame of Polars
        try:
            pa.table(one)
        except (pa.ArrowException, NotImplementedError, OverflowError, TypeError, ValueError):
            (kind,) = map(str, one.dtypes)
            what, remedy = (
                f"has the type {kind}, which a table cannot hold",
                "make 64-bit numbers or text of it",
            )
            if kind.startswith("Sparse"):
                remedy = "make it dense (pandas: column.sparse.to_dense())"
            elif kind == "object":
                type_names = list(
                    dict.fromkeys(type(value).__name__ for value in one.iloc[:, 0] if value is not None)
                )
                if type_names == ["int"]:
                    what, remedy = "has whole numbers of more than 64 bits", "make text or floats of it"
                elif type_names[1:]:
                    what = f"has values of several types ({', '.join(type_names[:4])})"
                elif type_names:
                    what = f"has values of the type {type_names[0]}, which a table cannot hold"
                    remedy = "make text or numbers of it (pandas: column.astype(str))"
            return f"column {name} {what}; leave it out, or {remedy}"
    return ""


def _bad_text(X: Any) -> str:
    """Return the place of the first text that is not valid Unicode, in words."""
    names = column_names(X)
    columns = [("", X)] if names is None else [(f"column {name}, ", X[name]) for name in names]
    for name, column in columns:
        for row, value in enumerate(column):
            if isinstance(value, str) and any("\ud800" <= sign <= "\udfff" for sign in value):
                return f"{name}row {row + 1}: "
    return ""


def require_order(X: Any) -> None:
    """Raise DataError for a data frame whose columns are numbered 0, 1, 2, ..., but do not stand in that order."""
    names = column_names(X) or ()
    numbers = tuple(map(str, range(len(names))))
    if set(names) == set(numbers) and names != numbers:
        raise DataError(
            f"X: its columns are numbered {listed(names)}, but the model knows its columns by their position only; "
            "put them in order, or pass X.to_numpy() if they are"
        )


def columns(X: Any, names: Sequence[str]) -> Any:
    """Return the data frame with the columns ``names``, in that order. Raises DataError where one is missing."""
    there = column_names(X, names) or ()
    if there == tuple(names):
        return X
    of_index = set(getattr(getattr(X, "index", None), "names", ())) & set(names).difference(there)
    if of_index:
        X = X.reset_index(level=list(of_index))  # it was taken for a feature when it was asked for
        there = column_names(X, names) or ()
    if stored := own_names(there, names):
        X = _renamed(X, {there.index(name): new for new, name in stored.items()})
        there = column_names(X, names) or ()
    known = set(there)
    if any("." in name for name in set(names) - known) and any(map(_holds_objects, _types_of(X))):
        from llsvm.features.arrow_types import flat_table

        return columns(flat_table(as_table(X)), names)
    if missing := [name for name in names if name not in known]:
        raise DataError(f"X: {missing_columns(missing)}; it has {listed(there)}")
    if twice := [name for name in names if there.count(name) > 1]:
        raise DataError(f"X: two columns are named {twice[0]!r}; rename one of them")
    if hasattr(X, "iloc"):  # pandas, where names may be numbers, or have several levels
        at = {name: place for place, name in enumerate(there)}
        return X.iloc[:, [at[name] for name in names]]
    return selected(X, names)


def selected(X: Any, names: Sequence[str]) -> Any:
    """Return these columns of a table of pyarrow or a frame of Polars, lazy ones too, in this order."""
    if type(X).__module__.partition(".")[0] != "polars":
        return X.select(list(names))
    return X.select(import_module("polars.selectors").by_name(*names))  # "*" and "^a$" are no patterns here


def _types_of(X: Any) -> list[Any]:
    """Return the types of a data frame's columns, as its library calls them."""
    return list(X.schema.types if hasattr(X, "column_names") else X.dtypes)


def _holds_objects(type_: Any) -> bool:
    """Return whether values of that type may be objects within objects, whose fields are columns of their own."""
    return str(type_).lower().startswith(("struct", "object"))


def holding_fields(X: Any, names: Collection[str]) -> set[str]:
    """Return the columns of a data frame that hold objects of whose fields there are some among ``names``."""
    return holding_objects(X, {name.partition(".")[0] for name in names if "." in name})


def holding_objects(X: Any, roots: Collection[str]) -> set[str]:
    """Return those of the columns ``roots`` of a data frame that hold objects."""
    places = [(place, name) for place, name in enumerate(column_names(X, roots) or ()) if name in roots]
    types = [str(type_).lower() for type_ in (_types_of(X) if places else ())]
    structs = {name for place, name in places if types[place].startswith("struct")}
    objects = [(place, name) for place, name in places if types[place] == "object" and hasattr(X, "iloc")]
    return structs | {
        n for place, n in objects if isinstance(next(iter(X.iloc[:, place].dropna()), None), dict)
    }


def _renamed(X: Any, names: Mapping[int, str]) -> Any:
    """Return the data frame with other names of the columns in those places."""
    if hasattr(X, "iloc"):
        X = X.copy(deep=False)
        X.columns = [names.get(place, name) for place, name in enumerate(X.columns)]
        return X
    there = _columns_of(X) or ()
    if hasattr(X, "rename_columns"):  # of pyarrow
        return X.rename_columns([names.get(place, name) for place, name in enumerate(there)])
    return X.rename({there[place]: name for place, name in names.items()})


def rows(X: Any, start: int, stop: int) -> Any:
    """Return those rows of a data frame or an array."""
    return (
        X.iloc[start:stop] if hasattr(X, "iloc") else X[start:stop]
    )  # pandas: by position, whatever the index


def taken(X: Any, places: NDArray[np.int64]) -> Any:
    """Return the rows of a data frame in those places."""
    if hasattr(X, "iloc"):
        return X.iloc[places]
    return X.take(places) if hasattr(X, "take") else X[places]


def like_frame(X: Any, values: NDArray[Any], names: Sequence[str]) -> Any:
    """Return ``values``, (n,) or (n, k) with columns ``names``, of the rows of X: where that is a frame of pandas
    or Polars (a lazy one too) as its Series or DataFrame, with the index of pandas; else as they are."""
    library = type(X).__module__.partition(".")[0]
    is_frame = hasattr(X, "iloc") or hasattr(X, "collect_schema")  # of pandas; of Polars, lazy ones too
    if library not in ("pandas", "polars") or not is_frame:
        return values
    made, values = import_module(library), in_common_unit(values)
    index = {"index": X.index} if library == "pandas" else {}
    if values.ndim == 1 and library == "pandas":
        return made.Series(values, name=PREDICTION, **index)
    if values.ndim == 1:
        return made.Series(PREDICTION, values)
    return made.DataFrame(dict(zip(names, values.T, strict=True)), **index)


def text_types(X: Any, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the types as which a model reads text of a data frame, by the first rows. table: what it knows of its
    columns."""
    from llsvm.features.schema import read_as

    known = [Column.of(each) for each in table["columns"]]
    frame = columns(rows(X, 0, _LOOKED_AT_ROWS), [column.name for column in known])
    arrow = as_table(frame)
    with naming_unreadable(frame):
        return read_as(
            "X", arrow.schema, known, lambda names: {n: {*arrow[n].to_pylist()} - {None} for n in names}
        )


def encoded(
    X: Any, table: Mapping[str, Any], double: bool, first: int = 0, types: Mapping[str, Any] | None = None
) -> Iterator[Matrix]:
    """Yield the rows of a data frame as a model reads those of files: ``table`` is what it knows of its columns.

    double: as 64-bit floats. first: the number of the first row, from 0, for messages. types: see ``text_types``.
    Warns (LLSVMWarning) of categories that the model does not know. Raises DataError where a column is missing, or
    holds what the model cannot take.
    """
    from llsvm.features.columns import MissingValues
    from llsvm.features.encoder import TableEncoder
    from llsvm.features.schema import check_columns

    types = text_types(X, table) if types is None else types
    encoder = TableEncoder.from_dict({**table, "label": None})
    if double:
        encoder.rounding.keep_double()
    frame = columns(X, [column.name for column in encoder.columns])
    arrow = as_table(frame)
    check_columns("X", arrow.schema, encoder)
    row = first
    step = max(1, _CHUNK_BYTES // (8 * sum(column.width for column in encoder.columns)))
    for batch in arrow.to_batches(max_chunksize=step):
        try:
            yield encoder.encode(batch, types=types).X
        except MissingValues as error:
            raise DataError(
                f"X: column {error.name}: the value is missing in row {row + error.row + 1}; {FILL_IN}"
            ) from error
        except ValueError as error:
            at, reason = error.args if len(error.args) == 2 else (0, str(error))
            raise DataError(f"X: row {row + at + 1}: {reason}") from error
        row += batch.num_rows
    for sentence in encoder.categories.tell_unknown():
        warnings.warn(f"X: {sentence}", LLSVMWarning, stacklevel=2)


def as_matrices(X: Any, first: int = 0) -> Iterator[Matrix]:
    """Yield X as the kernels want it; a dense one in pieces, since each is widened to float64. first: the number of
    its first row, from 0. Raises DataError or TypeError for objects that are no numbers."""
    n, d = X.shape
    if hasattr(X, "tocsr"):
        X = X.tocsr()
        refuse_damaged(X)
        narrow = X.data.dtype in (np.float32, np.float64)
        values = X.data if narrow else X.data.astype(np.float64)
        yield CSR(X.indptr.astype(np.int64), X.indices.astype(np.int32, copy=False), values)
        return
    step = max(1, _CHUNK_BYTES // (8 * max(d, 1)))
    for start in range(0, n, step):
        piece = X[start : start + step]
        if X.dtype == object:
            with naming_no_number(piece, first + start):
                piece = piece.astype(np.float64)
        yield piece
