"""Columns of text that mean numbers or dates, by the first rows of a table; see ``llsvm.features.spelling``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from llsvm.features.columns import is_plain_text, kind_of, numbers
from llsvm.features.spelling import (
    MISSING,
    NUMBER,
    kind_of_word,
    may_be_codes,
    short,
    type_spelled,
)
from llsvm.features.table_options import Roles, TableOptions, matching

_READ_AS = {pa.float64(): "numbers", pa.bool_(): "true or false"}  # else dates or times
LOOKED_AT_ROWS, LOOKED_AT_BYTES = 10_000, 1 << 20


def plain_texts(where: str, schema: pa.Schema, roles: Roles, options: TableOptions) -> list[str]:
    """Those of the features and weights whose text may mean something else: no documents, and none that are
    categories by their type or by an option. Raises DataError."""
    named = _named(where, roles, "text", options.text)
    named |= _categorical(where, schema, roles, options)
    return [
        name
        for name in (*roles.features, *filter(None, [roles.weight]))
        if name not in named and is_plain_text(schema.field(name).type)
    ]


def _named(where: str, roles: Roles, option: str, patterns: Collection[str]) -> set[str]:
    """The features that an option names. Raises DataError."""
    found: set[str] = set()
    for each in patterns:
        found |= matching(where, roles.features, each, option)
    return found


def _categorical(where: str, schema: pa.Schema, roles: Roles, options: TableOptions) -> set[str]:
    """The features that are categories by an option; it may name other columns, too. Raises DataError."""
    others = set(schema.names).difference(roles.features)
    return _named(where, roles, "categorical", set(options.categorical) - others)


def first_words(
    read: Callable[[list[str], int, int], Iterator[pa.RecordBatch]],
    names: list[str],
    together: int,
    partitions: Sequence[Mapping[str, pa.Scalar]],
) -> dict[str, set[str]]:
    """The different values of columns of text in the first rows, or in the first that have any, if they mean
    something else. read: columns, in batches of so many rows and bytes. together: columns that are read at a time.
    partitions: of each file, its values of the columns that its folders give."""
    found: dict[str, set[str]] = {name: set() for name in names}
    for name in partitions[0].keys() & found.keys():
        found[name] = {each[name].as_py() or "" for each in partitions}
    stored = [name for name in names if name not in partitions[0]]
    for some in (stored[start : start + together] for start in range(0, len(stored), together)):
        _look(read, some, found, set())
        if empty := [name for name in some if _are_missing(found[name])]:
            _look(read, empty, found, set(empty))
        for name in some:  # there may be very many columns
            if type_spelled(found[name]) is None:
                del found[name]
    return found


def _look(
    read: Callable[[list[str], int, int], Iterator[pa.RecordBatch]],
    names: list[str],
    found: Mapping[str, set[str]],
    awaited: set[str],
) -> None:
    """Take in the values of the first rows, counted once each of the columns ``awaited`` has one."""
    rows = held = 0
    for batch in read(names, LOOKED_AT_ROWS, LOOKED_AT_BYTES):
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if not is_plain_text(column.type):  # of a later batch, which is checked when its rows are encoded
                nothing_yet = _are_missing(found[name])  # but a type
                if nothing_yet and kind_of(column.type) == "number":
                    found[name].update(map(str, numbers(pc.drop_null(column.unique()))))
                continue
            try:
                found[name].update(pc.drop_null(column.unique()).to_pylist())
            except UnicodeDecodeError:  # which whoever encodes the rows refuses by its place
                found[name].add("\ufffd")
        awaited = {name for name in awaited if _are_missing(found[name])}
        if not awaited:
            rows, held = rows + batch.num_rows, held + batch.nbytes
        if rows >= LOOKED_AT_ROWS or held >= LOOKED_AT_BYTES:
            break


def _are_missing(words: Collection[str]) -> bool:
    return all(kind_of_word(word) == MISSING for word in words)


def meanings(
    where: str, words: Mapping[str, Collection[str]], weight: str | None
) -> tuple[dict[str, pa.DataType], list[str]]:
    """The types that columns are read as, of their first words, see ``type_spelled``; and sentences for their
    user, but for the column of weights."""
    found, notes = dict[str, pa.DataType](), []
    for name, own in words.items():
        if (type_ := type_spelled(own)) is None:
            continue
        if name == weight:
            found[name] = type_
        elif type_ == pa.float64() and may_be_codes(own):
            code = min(word for word in own if kind_of_word(word) == NUMBER)
            notes.append(
                f"{where}: column {name}: numbers written as text, such as {short(code)}, are taken for codes, "
                "which become categories (write them as numbers if they are quantities)"
            )
        else:
            found[name] = type_
            what = _READ_AS.get(type_, "dates or times")
            notes.append(
                f"{where}: column {name}: text that means {what} is read as such (--categorical {name} makes "
                "categories of it)"
            )
    return found, notes


def coded_numbers(where: str, schema: pa.Schema, roles: Roles, options: TableOptions) -> list[str]:
    """A sentence for each feature whose type is that of categories, but whose values are numbers or dates."""
    chosen = _categorical(where, schema, roles, options)
    return [
        f"{where}: column {name}: its type is that of categories, but its values are no text: they are read as "
        f"numbers (--categorical {name} makes categories of them)"
        for name in roles.features
        if types.is_dictionary(schema.field(name).type)
        and kind_of(schema.field(name).type) == "number"
        and name not in chosen
    ]


def more_columns(
    where: str, schema: pa.Schema, first: str, first_schema: pa.Schema, known: set[str]
) -> list[str]:
    """A sentence for each column that a later file has and ``first`` has not, but for those ``known``,
    which they join."""
    there = known.union(first_schema.names)
    new = [name for name in schema.names if name not in there]
    known.update(new)
    return [f"{where}: column {name} is left out: {first} has none of that name" for name in new]
