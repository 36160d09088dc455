"""TableFiles: the files of a table as a format's reader gives them, by the names that the table's columns have; and
the columns that folders named ``key=value`` give."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn
from urllib.parse import unquote

import pyarrow as pa

from llsvm.data.source import READ_AS_NUMBERS
from llsvm.data.table_columns import named_as, refuse_damage
from llsvm.data.table_rows import columns_of_expressions
from llsvm.features.arrow_types import column_at, with_fields
from llsvm.features.columns import has_values
from llsvm.features.table_options import TableOptions
from llsvm.files.fingerprint import Reading
from llsvm.files.inputs import size_and_mtime, unchanged


class TableFiles(ABC):
    """Files of one format, with the same columns.

    paths: of the files. requested: names of columns that count where those of a file differ by space alone; and so
    do, for further files, those of the first one.
    """

    format: str
    no_footer: tuple[str, ...] = ()
    """What the library says of a file that lacks its end."""
    magic: bytes = b""
    """What such files begin with."""
    types_in_files: bool = False
    """Whether files say themselves of which types their columns are: one without a value may be of none."""

    def __init__(self, paths: Sequence[str], requested: Sequence[str]) -> None:
        self._paths = list(paths)
        self._prints = [self._print_of(path) for path in self._paths]
        self._requested, self._first_names = tuple(requested), tuple[str, ...]()
        self._own_names: dict[int, dict[str, str]] = {}  # by file, where they are not those of the schema
        self._paths_within: dict[int, dict[str, tuple[str, ...]]] = {}  # by file, of columns within structs
        self._later_types: dict[str, pa.DataType] | None = None  # of columns that have none in the first file
        # what folders say of each, see ``partition_values``
        self._partitions: Sequence[Mapping[str, pa.Scalar]] = [{}] * len(self._paths)

    # -- a format says -----------------------------------------------------------------------------------

    @abstractmethod
    def _schema(self, number: int) -> pa.Schema:
        """Return the schema of file ``number``. Raises DataError."""

    @abstractmethod
    def _batches(
        self, number: int, names: list[str], max_rows: int, max_bytes: int, reading: Reading | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the columns ``names`` of file ``number``, in order, in batches of about ``max_rows`` rows and
        ``max_bytes`` bytes at most; counts ``bytes_read``. reading: is shown what is read; its fingerprint of the
        file goes to ``_fingerprints`` when all has been. pyarrow's errors may pass."""

    def _has_rows(self, number: int) -> bool:
        """Return False if file ``number`` is known to have no row without reading it."""
        return True

    def _without_values(self) -> set[str]:
        """Return the columns of the first file that are of numbers, as pandas writes those without a value, if it
        has none."""
        return set()

    def _explain(self, number: int, error: Exception) -> NoReturn:
        self._refuse_damage(number, "", error)

    def _refuse_damage(self, number: int, place: str, error: Exception) -> NoReturn:
        """Raise DataError for damage. place: where in the file, such as "row group 3", or ""."""
        refuse_damage(self._paths[number], self._prints[number][0], self, place, error)

    def _move_files_without_rows(self) -> None:
        """Move the files without rows that come first behind the others: the first file decides what columns mean,
        and the columns of an empty one often have no types, as pandas writes it."""
        for number in range(len(self._paths) if len(self._paths) > 1 else 0):
            with self._explaining(number):
                if self._has_rows(number):
                    self._paths = self._paths[number:] + self._paths[:number]
                    self._prints = self._prints[number:] + self._prints[:number]
                    return

    # -- by names ---------------------------------------------------------------------------------------

    def _full_schema(self, number: int) -> pa.Schema:
        with self._explaining(number):
            schema = self._schema(number)
            _ = schema.names  # in a damaged file they need not be UTF-8
        schema, within = with_fields(schema)
        self._paths_within |= {number: within} if within else {}
        schema, stored = named_as(self._paths[number], schema, (*self._requested, *self._first_names), within)
        self._own_names |= {number: stored} if stored else {}
        self._first_names = self._first_names or tuple(schema.names)
        schema = with_given(schema, self._partitions[number])
        return self._with_later_types(schema) if number == 0 and self.types_in_files else schema

    def _field_paths(self) -> Mapping[str, Sequence[str]]:
        """Return the paths of the first file's columns that are within objects or structs, by their names."""
        stored_names, within = self._own_names.get(0, {}), self._paths_within.get(0, {})
        names = {stored: name for name, stored in stored_names.items()}
        return {names.get(stored, stored): path for stored, path in within.items()}

    def _with_later_types(self, schema: pa.Schema) -> pa.Schema:
        """Return the first file's schema; columns of null type, and those of numbers that have no value, have the
        type of the first file that has another one for them."""
        if self._later_types is None:
            self._later_types = {}
            with self._explaining(0):
                empty = self._without_values() if len(self._paths) > 1 else ()
            places = {f.name for f in schema if pa.types.is_null(f.type) or f.name in empty}
            for number in range(1, len(self._paths)):
                if unknown := places - self._later_types.keys():
                    typed = [f for f in self._full_schema(number) if f.name in unknown]
                    self._later_types |= {
                        f.name: f.type
                        for f in typed
                        if not (pa.types.is_null(f.type) or pa.types.is_nested(f.type))
                        and f.type != schema.field(f.name).type
                    }
        for name, type_ in self._later_types.items():
            schema = schema.set(schema.get_field_index(name), pa.field(name, type_))
        return schema

    def _named(self, number: int, names: list[str], *how: Any) -> Iterator[pa.RecordBatch]:
        """Yield batches as ``_batches`` does, of columns by the names that ``_full_schema`` has."""
        later = self._later_types or {}
        for batch in self._batches(number, self._stored_names(number, names), *how):
            batch = self._by_names(number, batch, names)
            for i, (name, type_) in enumerate(zip(batch.schema.names, batch.schema.types, strict=True)):
                if name in later and type_ != later[name] and not has_values(batch.column(i)):
                    batch = batch.set_column(i, name, pa.nulls(batch.num_rows, later[name]))
            yield batch

    def _by_names(self, number: int, batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
        """Return the columns ``names`` of what ``_batches`` gives of ``_stored_names``."""
        stored_names, within = self._own_names.get(number, {}), self._paths_within.get(number, {})
        if within:
            stored = (stored_names.get(name, name) for name in names)
            return pa.record_batch([column_at(batch, within.get(name, (name,))) for name in stored], names)
        return batch.rename_columns(names) if stored_names else batch

    def _stored_names(self, number: int, names: Sequence[str]) -> list[str]:
        """Return the columns of file ``number`` that hold those with the names that ``_full_schema`` has."""
        stored_names, within = self._own_names.get(number, {}), self._paths_within.get(number, {})
        stored = (stored_names.get(name, name) for name in names)
        return list(dict.fromkeys(within.get(name, (name,))[0] for name in stored))

    def _print_of(self, path: str) -> tuple[int, int]:
        """Return what a change of the file is noticed by; see ``size_and_mtime``."""
        return size_and_mtime(path)

    def _unchanged(self, number: int) -> AbstractContextManager[None]:
        return unchanged(self._paths[number], self._prints[number])

    @contextmanager
    def _explaining(self, number: int) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, KeyError, EOFError, UnicodeError) as error:
            self._explain(number, error)


# Columns that folders named ``key=value`` give, as Hive and Spark write them.

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def partition_values(
    folders: Sequence[Mapping[str, str]],
    used: Collection[str] | None,
    options: TableOptions,
    text: Collection[str] = (),
) -> list[dict[str, pa.Scalar]]:
    """Return, of each file, its values of the columns ``used`` that ``folders`` give of all (see ``folders_of``);
    None for those that differ among files, or are named by an option: one that has a single value so far counts
    where it is asked for. Of columns in ``text`` the values are text as written (``01``), else numbers where all
    are whole."""
    keys = [key for key in folders[0] if all(key in given for given in folders)] if folders else []
    if used is None:
        named = _named(options)
        keys = [key for key in keys if key in named or len({given[key] for given in folders}) > 1]
    else:
        keys = [key for key in keys if key in used]
    columns = {}
    for key in keys:
        values = [None if given[key] == _NULL_PARTITION else given[key] for given in folders]
        whole = all(value is None or re.fullmatch(r"-?\d{1,18}", value) for value in values)
        type_ = pa.int64() if whole and any(values) and key not in text else pa.string()
        columns[key] = pa.array(values, pa.string()).cast(type_)
    return [{key: columns[key][i] for key in keys} for i in range(len(folders))]


def codes_read_as_numbers(
    paths: Sequence[str], folders: Sequence[Mapping[str, str]], names: Iterable[str]
) -> list[str]:
    """Return a sentence for each column ``names`` that folders give and that is read as numbers, where there are
    codes with zeros in front."""
    given = [(name, path, entry[name]) for name in names for path, entry in zip(paths, folders, strict=True)]
    codes = {name: (path, value) for name, path, value in reversed(given) if re.fullmatch(r"0\d+", value)}
    return [
        f"{path}: column {name}: values such as {code!r} {READ_AS_NUMBERS}; pass --categorical {name} if they are "
        "codes"
        for name, (path, code) in codes.items()
    ]


def partly_given(paths: Sequence[str], folders: Sequence[Mapping[str, str]]) -> list[str]:
    """Return a sentence for each column that folders give of some files, but not of all: it is none."""
    by_path = dict(zip(paths, folders, strict=True))
    first_paths: dict[str, str] = {}  # the first file of each
    for path, given in by_path.items():
        first_paths = dict.fromkeys(given, path) | first_paths
    return [
        f"{lacking}: no folder of it gives {key}, as those of {first} do: {key} is no column"
        for key, first in first_paths.items()
        if (lacking := next((path for path, given in by_path.items() if key not in given), None)) is not None
    ]


def folders_of(path: str) -> dict[str, str]:
    """Return what folders named ``key=value`` say of a file."""
    pairs = (part.partition("=") for part in os.path.dirname(path).split("/"))
    return {unquote(key): unquote(value) for key, equals, value in pairs if equals and key}


def with_given(schema: pa.Schema, partition: Mapping[str, pa.Scalar]) -> pa.Schema:
    """Return the schema with the columns that folders give, which count where the file has such, too, as for
    Spark."""
    fields = [field for field in schema if field.name not in partition]
    given = [pa.field(name, value.type) for name, value in partition.items()]
    return pa.schema([*fields, *given], schema.metadata)


def with_partition(
    batch: pa.RecordBatch, partition: Mapping[str, pa.Scalar], names: Collection[str]
) -> pa.RecordBatch:
    """Return the batch with those columns ``names`` that the folders of its file give."""
    for name, value in partition.items():
        if name in names:
            batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
    return batch


def _named(options: TableOptions) -> set[str]:
    """Return the names and patterns of columns in the options."""
    pairs = (name for pair in options.cross for name in pair.split(":"))
    lists = (options.features, options.exclude, options.categorical, options.text, options.keep.names, pairs)
    single = (options.label, options.weight, *columns_of_expressions(options, None))
    return {name for each in lists for name in each} | {name for name in single if name is not None}
