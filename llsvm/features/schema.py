"""How a table's columns are read: an encoder for its schema, and whether a model's encoder fits it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa
from pyarrow.types import is_dictionary

from llsvm.errors import DataError
from llsvm.features import columns as arrow
from llsvm.features.arrow_types import kind_of
from llsvm.features.column import Column, Sort, remedy_for
from llsvm.features.crosses import Crosses, chosen
from llsvm.features.doubts import Doubts
from llsvm.features.encoder import TableEncoder
from llsvm.features.spelling import NUMBERS, sort_of, type_spelled, types_alike
from llsvm.features.table_options import Roles, TableOptions, excluded, listed, matching, missing_columns

_TAKEN = {  # kinds of Arrow's types that a column of a model can read
    "text": ("text", "number"),
    "vector": ("list", "vector"),
    "indices": ("list", "vector"),
    "values": ("list", "vector"),
    "struct": ("struct",),
}


def plan(
    where: str,
    schema: pa.Schema,
    roles: Roles,
    options: TableOptions,
    widths: Mapping[str, int],
    header: bool,
    lenient: bool = False,
    threads: int = 1,
    spelled: Mapping[str, pa.DataType] | None = None,
) -> TableEncoder:
    """Return an encoder for a table with that schema. widths: of list columns that are vectors. lenient: what
    cannot be a feature is left out. threads: that analyse text. spelled: what columns of text are read as, see
    ``type_spelled``. Raises DataError."""
    documents = _documents(where, schema, roles, options)
    forced: set[str] = set()
    others = set(schema.names).difference(
        roles.features
    )  # which are no features: the label, what is left out
    for each in set(options.categorical) - others:
        forced |= matching(where, roles.features, each, "categorical")
    if both := sorted(forced & documents):
        raise DataError(f"{where}: column {both[0]} cannot be both --text and --categorical; choose one")
    kinds = {
        name: "document" if name in documents else kind_of(schema.field(name).type) for name in roles.features
    }
    if lenient:
        kinds = {name: kind for name, kind in kinds.items() if kind}
    for name, kind in kinds.items():
        if not kind or (name in forced and kind not in ("text", "number")):
            type_ = schema.field(name).type
            raise DataError(
                f"{where}: column {name} has type {type_}, which cannot be a feature; leave it out (--exclude "
                f"{name})"
            )
    if roles.label is not None and kind_of(schema.field(roles.label).type) not in ("number", "text"):
        raise DataError(
            f"{where}: column {roles.label} has type {schema.field(roles.label).type}, which cannot be the label; "
            "cast it to numbers or text, or name another column with --label"
        )
    spelled = spelled or {}
    weight = None if roles.weight is None else schema.field(roles.weight)
    if (
        weight is not None
        and (kind_of(weight.type) != "number" or arrow.is_time(weight.type))
        and spelled.get(weight.name) not in NUMBERS
    ):
        raise DataError(
            f"{where}: column {weight.name} has type {weight.type}, which cannot be weights; cast it to numbers, "
            "or name another column with --weight"
        )
    lists = [name for name, kind in kinds.items() if kind == "list"]
    pair = _sparse_pair(schema, lists)
    columns = []
    for name, kind in kinds.items():
        if name in pair:
            columns.append(Column(name, pair[name]))
        elif kind in ("list", "vector"):
            type_ = schema.field(name).type
            columns.append(Column(name, "vector", type_.list_size if kind == "vector" else widths[name]))
        else:
            type_ = spelled.get(name, schema.field(name).type) if kind == "text" else schema.field(name).type
            kind = "text" if name in forced else kind_of(type_) if kind == "text" else kind
            columns.append(Column(name, kind, sort=sort_of(type_) if kind == "number" else None))
    if sum(c.kind == "struct" for c in columns) > (0 if pair else 1):
        raise DataError(f"{where}: several columns of sparse vectors; keep one (--features, --exclude)")
    texts = None
    if names := [c.name for c in columns if c.kind == "document"]:
        from llsvm.features.text.vectorizer import DocumentColumns

        texts = DocumentColumns(names, options.text_options, threads)
    crosses = _crosses(where, schema, roles, options, columns)
    typed = [
        name for name, kind in kinds.items() if kind == "text" and is_dictionary(schema.field(name).type)
    ]
    encoder = TableEncoder(
        columns,
        roles.label,
        roles.weight,
        options.missing,
        options.hash_bits,
        header,
        documents=texts,
        crosses=crosses,
        labels_apart=options.labels_apart,
        doubts=Doubts(forced, lenient, typed),
    )
    encoder.text_label = roles.label in options.categorical
    encoder.excluded = tuple(sorted(excluded(where, schema.names, options)))
    return encoder


def _crosses(
    where: str, schema: pa.Schema, roles: Roles, options: TableOptions, features: Sequence[Column]
) -> Crosses | None:
    """Return what is crossed, if anything is. Raises DataError."""
    if not options.cross:
        return None
    kinds = {c.name: c.kind for c in features}
    others = {name: "no feature (--features, --exclude)" for name in schema.names if name not in kinds}
    others |= {name: "the weight" for name in (roles.weight,) if name is not None}
    others |= {name: "the label" for name in (roles.label,) if name is not None}
    names = [c.name for c in features if c.kind == "text"]
    crosses = chosen(where, options.cross, schema.names, kinds, others)
    return Crosses(crosses, names, options.hash_bits, options.missing == "mean")


def _documents(where: str, schema: pa.Schema, roles: Roles, options: TableOptions) -> set[str]:
    """Return the columns that are documents. Raises DataError for those that cannot be."""
    documents: set[str] = set()
    for each in options.text:
        documents |= matching(where, roles.features, each, "text")
    for name in sorted(documents):
        type_ = schema.field(name).type
        if not arrow.can_be_text(type_, or_none=True):
            raise DataError(
                f"{where}: column {name} has type {type_}, which is no text; leave it out of --text, or "
                "write it as text"
            )
    return documents


def _sparse_pair(schema: pa.Schema, lists: Sequence[str]) -> dict[str, str]:
    """Return the two list columns that are indices and values of sparse rows, if there are such."""
    if len(lists) != 2:
        return {}
    whole = [name for name in lists if pa.types.is_integer(schema.field(name).type.value_type)]
    if len(whole) == 2:  # values may be whole numbers too: then the names decide
        whole = [name for name in whole if name.lower().startswith(("ind", "idx", "col"))]
    return {name: "indices" if name in whole else "values" for name in lists} if len(whole) == 1 else {}


def read_as(
    where: str,
    schema: pa.Schema,
    columns: Sequence[Column],
    words: Callable[[list[str]], Mapping[str, Collection[str]]],
) -> dict[str, pa.DataType]:
    """Return the types as which text is read where a model has numbers or dates, see ``type_spelled``. words: the
    first ones of columns. Raises DataError for text that means times of another sort than the model was trained
    on."""
    sorts = {
        c.name: c.sort for c in columns if c.kind == "number" and kind_of(schema.field(c.name).type) == "text"
    }
    spelled = dict[str, pa.DataType]()
    for name, texts in words(list(sorts)).items():
        if (type_ := type_spelled(texts)) is None:
            continue
        sort, other = sorts[name], sort_of(type_)
        if type_ in types_alike(None, sort):
            spelled[name] = type_
        elif sort is not None and other is not None and Sort.NUMBER not in (sort, other):
            what = f"text that means {other.plural}, but the model was trained on {sort.plural}"
            raise DataError(f"{where}: column {name} has {what}; {remedy_for(sort)}")
    return spelled


def check_columns(where: str, schema: pa.Schema, encoder: TableEncoder) -> None:
    """Raise DataError unless the table has the columns that a model was trained on, of their kinds."""
    names: list[str] = schema.names
    there = set(names)
    missing = [c.name for c in encoder.columns if c.name not in there]
    if missing:
        raise DataError(f"{where}: {missing_columns(missing)}; the table has {listed(names)}")
    for c in encoder.columns:
        type_ = schema.field(c.name).type
        if c.kind == "document" and not arrow.can_be_text(type_, or_none=True):
            raise DataError(
                f"{where}: column {c.name} has type {type_}, but the model was trained on text; write it as text"
            )
        if c.kind == "number" and (expected := arrow.other_numbers(c.sort, type_, or_none=True)):
            mismatch = f"{where}: column {c.name} has type {type_}, but the model was trained on {expected}"
            raise DataError(f"{mismatch}; {remedy_for(c.sort)}")
        if expected := _other_kind(c, type_):
            raise DataError(
                f"{where}: column {c.name} has type {type_}, but the model was trained on {expected}"
            )


def _other_kind(column: Column, type_: pa.DataType) -> str:
    """Return what a column that is none of numbers is expected to hold where one of that type cannot be read as
    such, or ""."""
    if column.kind not in _TAKEN or kind_of(type_) in _TAKEN[column.kind]:
        return ""
    return "text, as categories" if column.kind == "text" else "lists of numbers"


def without_column(name: str, first: str, excludable: Collection[str]) -> str:
    """Return what is said of data that lack the column ``name``, which ``first`` has.

    excludable: the columns that ``--exclude`` can leave out."""
    remedy = "give it that column, or leave its rows out"
    if name in excludable:
        remedy = (
            f"give it that column (of missing values, perhaps), or leave it out of all (--exclude {name})"
        )
    return f"without the column {name} that {first} has; {remedy}"


def check_as_first(
    where: str,
    schema: pa.Schema,
    first: str,
    encoder: TableEncoder,
    names: Sequence[str],
    excludable: Collection[str],
) -> None:
    """Raise DataError unless the columns ``names`` of the file ``first`` are there, of the same kind.

    excludable: the columns that ``--exclude`` can leave out."""
    there = set(schema.names)
    if missing := [name for name in names if name not in there]:
        raise DataError(f"{where}: {without_column(missing[0], first, excludable)}")
    for column in encoder.columns:
        if column.name not in names:
            continue
        type_ = schema.field(column.name).type
        numbers = column.kind == "number"
        if expected := (
            arrow.other_numbers(column.sort, type_, or_none=True) if numbers else _other_kind(column, type_)
        ):
            raise DataError(
                f"{where}: column {column.name} has type {type_}, but holds {expected} in {first}; write it as one "
                "type in all files"
            )
