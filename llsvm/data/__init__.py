"""Readers: one file per format, all handing out blocks. A new format is a file here and a line in FORMATS.

The way in is ``open_source``, or ``open_with_settings``; what comes out is a BlockSource (``llsvm.data.source``),
which declares all that it can do in SourceInfo. The verbs, the stream and the survey enter here. Sources that wrap
others are opened by whoever needs them: ``mapped`` by a training, those in ``derived`` by predictions. Readers
never import readers; nothing here knows a solver, or how much memory there is.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from llsvm.data.source import BlockSource, SourceInfo
from llsvm.errors import DataError, UsageError
from llsvm.files.inputs import STDIN
from llsvm.files.remote import is_readable
from llsvm.settings.objective import CLASSIFICATION, KINDS, REGRESSION, UNLABELLED, scaled_targets

if TYPE_CHECKING:
    from llsvm.data.batches import Batches
    from llsvm.settings.settings import Settings

__all__ = [
    "DEFAULT_FORMAT",
    "FORMATS",
    "BlockSource",
    "Format",
    "SourceInfo",
    "open_source",
    "open_with_settings",
]


class Format(NamedTuple):
    """A file format.

    reader: "module:class", loaded when it is used.
    suffixes: of file names, lower case.
    magic: the files' first bytes, any of these.
    kind: "rows" (one file; text), "table" (columns with names; several files),
    "named" (sparse rows of features with names; several files)
    or "matrix" (one file; options name what is in it).
    """

    reader: str
    suffixes: tuple[str, ...]
    magic: tuple[bytes, ...] = ()
    kind: str = "rows"


NAMES_FILES = (
    "text, or a list of it, is the name of a file, which has its own labels and weights: give documents as a "
    "column of a data frame"
)
DEFAULT_FORMAT = "svmlight"
FORMATS = {
    "svmlight": Format("llsvm.data.svmlight:SvmlightSource", (".svm", ".svmlight", ".libsvm")),
    "csv": Format("llsvm.data.csv:CSVSource", (".csv", ".tsv", ".tab"), kind="table"),
    "vw": Format("llsvm.data.vw:VWSource", (".vw",), kind="named"),
    "fasttext": Format(
        "llsvm.data.fasttext:FastTextSource", (".ft", ".fasttext"), (b"__label__",), kind="table"
    ),
    "jsonl": Format("llsvm.data.jsonl:JSONLinesSource", (".jsonl", ".ndjson", ".json"), kind="table"),
    "parquet": Format("llsvm.data.parquet:ParquetSource", (".parquet", ".pq"), (b"PAR1",), kind="table"),
    "arrow": Format(
        "llsvm.data.arrow:ArrowSource",
        (".arrow", ".feather", ".ipc", ".arrows"),
        (b"ARROW1", b"\xff\xff\xff\xff"),
        kind="table",
    ),
    "hdf5": Format(
        "llsvm.data.hdf5:HDF5Source",
        (".h5", ".hdf5", ".hdf", ".h5ad"),
        (b"\x89HDF\r\n\x1a\n",),
        kind="matrix",
    ),
    "numpy": Format(
        "llsvm.data.npy:NumpySource", (".npy", ".npz"), (b"\x93NUMPY", b"PK\x03\x04"), kind="matrix"
    ),
}

_BINARY = ("parquet", "arrow", "hdf5", "numpy")
_BINARY_SUFFIXES = tuple(suffix for name in _BINARY for suffix in FORMATS[name].suffixes)


def names_files(data: Any) -> bool:
    """Return whether the data are a path, or a list of paths."""
    if isinstance(data, str | os.PathLike):
        return True
    return (
        isinstance(data, list | tuple) and bool(data) and all(isinstance(d, str | os.PathLike) for d in data)
    )


def named_files(data: Any) -> list[str | os.PathLike[str]]:
    """Return the paths that ``data`` consists of; arrays, data frames and batches have none."""
    if not names_files(data):
        return []
    return [data] if isinstance(data, str | os.PathLike) else list(data)


def may_be_file(name: str | os.PathLike[str]) -> bool:
    """Return whether a file has that name, or matches it as a pattern, or may exist on another machine."""
    path = os.fspath(name)
    return path == STDIN or is_readable(path) or os.path.exists(path) or bool(glob.glob(path, recursive=True))


def open_source(
    data: Any,
    y: Any = None,
    sample_weight: Any = None,
    format: str | None = None,
    zero_based: str = "auto",
    threads: int = 1,
    options: Mapping[str, Any] | None = None,
    positive: str | None = None,
    table: Mapping[str, Any] | None = None,
    need_label: bool = True,
    told: Mapping[str, Any] | None = None,
    label_kind: str = CLASSIFICATION,
    target_scale: str = "none",
) -> BlockSource:
    """Return a source of blocks over files or over arrays.

    data: a path, pattern, folder, address or "-", or a list of them; or X, (n, d), with y, (n,), and perhaps
    sample_weight, (n,); see ArraySource. format: a name in FORMATS; None: by suffix, then by the first bytes.
    zero_based: "auto", "yes" or "no": whether svmlight column indices start at 0. threads: that parse text.
    options: the fields of TableOptions. positive: y is 1 for this label, -1 for all others. table: what a
    model knows of its table (``extra["table"]``), to read for prediction. need_label: refuse data without labels.
    label_kind: what labels are to be taken for, a name of llsvm.settings.objective; unlabelled rows need none.
    target_scale: of a regression's, a choice of that option.
    told: label, features, missing, text_labels, cross, hash_bits and names (of the columns) as a model's own data
    were read: they hold where ``options`` does not say, and the format has such a thing.
    Raises UsageError for arguments that do not belong together, DataError for data that cannot be read.
    """
    needed = need_label and label_kind != UNLABELLED
    if names_files(data):
        from llsvm.data.derived import Noted
        from llsvm.files.expansion import expand, named_twice, without_empty

        if y is not None or sample_weight is not None:
            raise UsageError(f"y and sample_weight go with arrays, and {NAMES_FILES}")
        read, told = dict(options or {}), dict(told or {})
        if label_kind == REGRESSION:
            told["text_labels"] = False
        expansion = expand(named_files(data))
        files, empty = without_empty(expansion.files, _BINARY_SUFFIXES)
        source = _open_files(files, format, zero_based, threads, read, table, needed, not need_label, told)
        for note in filter(None, (named_twice(files), *expansion.notes, empty)):
            source = Noted(source, note)
    elif batches := _batches(data, y, options or {}, label_kind, table):
        source = _in_batches(batches, y, sample_weight, format, options or {}, table, needed, told, threads)
    else:
        from llsvm.features.array_labels import refuse_dictionaries, refuse_times

        refuse_dictionaries(data)
        if y is None and label_kind != UNLABELLED:
            raise UsageError("y is missing: arrays need their labels, pass X and y (or the path of a file)")
        if format is not None:
            raise UsageError(f"format={format!r} is for files, but arrays were given; leave it out")
        if label_kind == REGRESSION:
            refuse_times(y)
        source = _held(data, y, sample_weight, options or {}, threads)
    if label_kind != CLASSIFICATION:
        from llsvm.data.derived import LabelsOfKind

        scaled = scaled_targets(target_scale, label_kind, source.info().is_table)
        return LabelsOfKind(source, label_kind, scaled == "standard")
    if need_label:
        from llsvm.data.derived import LabelsNoted

        source = LabelsNoted(source)
    if positive is None:
        return source
    from llsvm.data.derived import OneAgainstRest

    return OneAgainstRest(source, positive, must_occur=table is None and need_label)


def table_options(settings: Settings) -> dict[str, Any]:
    """Return what the settings say of tables, as the fields of TableOptions."""
    columns = ("label", "features", "exclude", "weight", "categorical")
    names = (*columns, "header", "delimiter", "missing", "hash_bits", "cross", "where", "missing_label")
    more: dict[str, Any] = {"text": settings.text, "encoding": settings.encoding}
    if settings.has_text:
        from llsvm.features.text.options import text_options

        more["text_options"] = text_options(settings, settings.hash_bits)
    return {name: getattr(settings, name) for name in names} | more


def open_with_settings(
    settings: Settings, data: Any, y: Any = None, sample_weight: Any = None, threads: int = 1
) -> BlockSource:
    """Return a source over files or arrays, read as the settings say."""
    source = open_source(
        data,
        y,
        sample_weight,
        format=settings.format,
        zero_based=settings.zero_based,
        threads=threads,
        options=table_options(settings),
        positive=settings.positive,
        label_kind=KINDS[settings.loss],
        target_scale=settings.target_scale,
    )
    encoder = source.info().encoder
    if settings.feature_map is not None and encoder is not None and encoder.documents is not None:
        raise UsageError(
            f"{source.info().name}: --feature-map is for columns of numbers and categories, not of text"
        )
    return source


def _batches(data: Any, y: Any, options: Mapping[str, Any], label_kind: str, table: Any) -> Batches | None:
    """Return batches that are given as such; or a data frame that has its labels in a column."""
    from llsvm.data.batches import batches_of, in_batches, stream_of
    from llsvm.features.frames import is_frame

    if in_batches(data):
        return batches_of(data) or stream_of(data)
    if y is not None or not is_frame(data) or (label_kind == UNLABELLED and not options.get("label")):
        return None
    return stream_of(data)


def _in_batches(
    batches: Batches,
    y: Any,
    sample_weight: Any,
    format: str | None,
    options: Mapping[str, Any],
    table: Any,
    need_label: bool,
    told: Mapping[str, Any] | None,
    threads: int,
) -> BlockSource:
    if y is not None or sample_weight is not None:
        if y is None and batches.schema is not None:
            raise UsageError(
                f"{batches.name}: the weights of a table are a column of it: put them there, and name it (--weight "
                "NAME), instead of sample_weight"
            )
        raise UsageError(
            f"{batches.name}: labels and weights come with the batches: (X, y, sample_weight), or tables with "
            "columns that --label and --weight name"
        )
    if format is not None:
        raise UsageError(f"format={format!r} is for files, but {batches.name} was given; leave it out")
    if batches.schema is None:
        from llsvm.data.arrays import ArrayBatches, ArraySource
        from llsvm.features.table_options import refuse_column_options

        refuse_column_options(batches.name, options, may_choose=False)

        return ArrayBatches(batches, partial(ArraySource, missing=options.get("missing", "refuse")))
    from llsvm.data.frame_tables import streamed

    given = dict(options)
    given |= {key: told[key] for key in ("label", "missing") if told and told.get(key) and not given.get(key)}
    return streamed(batches, given, table, need_label=need_label, lenient=not need_label, threads=threads)


def _held(X: Any, y: Any, sample_weight: Any, options: Mapping[str, Any], threads: int) -> BlockSource:
    """Return a source over arrays; or over a data frame, as a table where columns are no numbers, or options say
    how they are read."""
    from llsvm.data.arrays import ArraySource
    from llsvm.features.frames import is_frame
    from llsvm.features.table_options import TableOptions, chooses_columns, refuse_column_options

    framed = is_frame(X)
    refuse_column_options("X", options, may_choose=framed)
    for option, apart, given in (("label", "y", y), ("weight", "sample_weight", sample_weight)):
        if given is not None and options.get(option):
            raise UsageError(
                f"--{option} {options[option]} and {apart} are both given: leave one of them out"
            )
    if framed:
        from llsvm.data.frame_tables import HeldTable, holds_more_than_numbers

        asked = chooses_columns(options) is not None or options.get("missing", "refuse") != "refuse"
        if asked or holds_more_than_numbers(X):
            return HeldTable(X, y, sample_weight, TableOptions(**options), threads)
    return ArraySource(X, y, sample_weight, options.get("missing", "refuse"))


def _open_files(
    paths: Sequence[str],
    format: str | None,
    zero_based: str,
    threads: int,
    options: dict[str, Any],
    table: Mapping[str, Any] | None,
    need_label: bool,
    lenient: bool,
    told: dict[str, Any],
) -> BlockSource:
    if format is not None and format not in FORMATS:
        raise UsageError(f"unknown format {format!r}; known are {', '.join(FORMATS)}")
    name = format or format_of(paths[0])
    for path in paths[1:]:
        if format is None and format_of(path) != name:
            _refuse_formats(path, paths[0])
    from llsvm.files.inputs import head_of

    named = any(options.get(key) for key in ("label", "features", "weight", "text"))
    by_name = format is None and name == DEFAULT_FORMAT and (named or table is not None)
    if by_name and not head_of(paths[0], 1 << 12).strip():
        raise DataError(
            f"{paths[0]}: the file is empty; give a file with at least one row, or, where empty JSON Lines are a "
            "night without rows to predict, say so (--format jsonl)"
        )
    entry = FORMATS[name]
    module, reader_name = entry.reader.split(":")
    reader = getattr(import_module(module), reader_name)
    sources: list[Any]
    if entry.kind == "table":
        options |= {key: told[key] for key in ("label", "missing") if told.get(key) and not options.get(key)}
        from llsvm.features.encoder import TableEncoder
        from llsvm.features.table_options import TableOptions

        options["delimiter"] = told.get("delimiter") or options.get("delimiter")
        options["encoding"] = told.get("encoding") or options.get("encoding", "utf-8")
        encoder = None if table is None else TableEncoder.from_dict(table)
        result: BlockSource = reader(paths, TableOptions(**options), encoder, need_label, lenient, threads)
        return result
    from llsvm.features.table_options import refuse_column_options

    refuse_column_options(f"{paths[0]}: {name}", options)
    if entry.kind in ("rows", "named") and named:
        raise UsageError(
            f"{paths[0]}: read as {name}, which has no columns to choose from; leave out --label, "
            "--features, --weight and --text, or pass --format csv or another"
        )
    if entry.kind == "named":
        cross = told.get("cross") or options.get("cross", ())
        bits = told.get("hash_bits") or options.get("hash_bits")
        rows: BlockSource = reader(paths, need_label, told.get("names"), threads, cross, bits)
        return rows
    if options.get("cross"):
        raise UsageError(
            f"{paths[0]}: {name} has no categories and no namespaces to cross; leave --cross out, or give CSV, "
            "JSON Lines, Parquet, Arrow or Vowpal Wabbit text"
        )
    if entry.kind == "matrix":
        if texts := options.get("text"):
            if name == "numpy":
                reader(paths[0], need_label=False)  # which tells other ZIP archives, such as workbooks
            raise UsageError(
                f"{paths[0]}: --text {texts[0]}: of {name} files arrays of numbers are read, not text; write its "
                "columns as Parquet, Arrow, CSV or JSON Lines, or leave --text out"
            )
        picked = {
            key: options.get(key) or told.get(key) for key in ("label", "features", "weight", "missing")
        }
        read = partial(reader, need_label=need_label, **picked)
        sources = [read(paths[0])]
        sources += [read(path, first=sources[0]) for path in paths[1:]]
    else:
        read = partial(reader, zero_based=zero_based, threads=threads)
        sources = [read(paths[0], text_labels=told.get("text_labels"))]
        sources += [read(path, text_labels=sources[0].text_labels, first=sources[0]) for path in paths[1:]]
    if len(sources) == 1:
        only: BlockSource = sources[0]
        return only
    from llsvm.data.derived import SeveralSources

    return SeveralSources([sources[0], *(_named_as(sources[0], source) for source in sources[1:])])


def _refuse_formats(*paths: str) -> NoReturn:
    """Raise UsageError for two files that are not of one format."""
    from llsvm.files.inputs import base_suffix, head_of

    what = [format_of(path) if head_of(path, 1) else "empty" for path in paths]
    known = [suffix for entry in FORMATS.values() for suffix in entry.suffixes]
    suffixes = [each for each in map(base_suffix, paths) if each in known]
    pattern = f" or a pattern such as '*{suffixes[0]}'," if suffixes else ""
    raise UsageError(
        f"{paths[0]} is {what[0]}, but {paths[1]} is {what[1]}: name the files of one format alone,{pattern} or "
        "pass --format for all"
    )


def _named_as(first: BlockSource, source: BlockSource) -> BlockSource:
    """Return ``source`` with its columns in the order of the first file's, where columns have names. Raises
    DataError."""
    names, first_names = source.info().feature_names, first.info().feature_names
    if names == first_names:
        return source
    if names is None or first_names is None:
        with_names, without = (first, source) if names is None else (source, first)
        raise DataError(
            f"{without.info().name}: its columns have no names, but those of {with_names.info().name} have; "
            "give files with the same columns"
        )
    if more := sorted(set(names) - set(first_names)):
        raise DataError(
            f"{source.info().name}: has the column {more[0]!r}, which {first.info().name} has not"
        )
    from llsvm.data.derived import ColumnsByName

    return ColumnsByName(source, first_names)


def format_of(path: str | os.PathLike[str]) -> str:
    """Return a name in FORMATS: by the suffix (that of a compressed file before .gz and the like), else by the
    first bytes, else svmlight. Raises DataError if the file cannot be read."""
    from llsvm.files.inputs import base_suffix, head_of, refuse_other_kinds

    suffix = base_suffix(os.fspath(path))
    for name, entry in FORMATS.items():
        if suffix in entry.suffixes and name != DEFAULT_FORMAT:
            return name
    head = head_of(os.fspath(path), 1 << 12).removeprefix(b"\xef\xbb\xbf")
    for name, entry in FORMATS.items():
        if head.startswith(entry.magic) and entry.magic:
            return name
    if suffix in FORMATS[DEFAULT_FORMAT].suffixes:
        return DEFAULT_FORMAT
    refuse_other_kinds(os.fspath(path), head)
    return _guess_text(head)


def _guess_text(head: bytes) -> str:
    """Return svmlight, CSV or JSON Lines, by the first line that is no comment: of a file whose name does not
    tell."""
    line = next((line for line in head.splitlines() if line.strip() and not line.startswith(b"#")), b"")
    if line.lstrip().startswith((b"{", b"[{")):
        return "jsonl"
    vw = line.startswith(b"|") or b" |" in line or b"'" in line
    separated = any(sign in line for sign in (b",\t;" if vw else b",\t;|"))
    return "csv" if separated and b":" not in b" ".join(line.split()[:2]) else DEFAULT_FORMAT
