"""Which columns of a table are what: label, weight, features."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any, NamedTuple

from llsvm.errors import DataError, MissingColumnError, UsageError, counted
from llsvm.features.text.options import TextOptions

LABEL_NAMES = ("label", "labels", "target", "class", "y")  # taken for the label if none is named
MISSING_LABEL_DROP = "drop"
_SHOWN = 12


class KeptColumns(NamedTuple):
    """Columns that come with the rows as they are (Block.kept). names: names, positions or patterns, in the order
    in which they come. option: that asks for them, for messages."""

    names: tuple[str, ...] = ()
    option: str = "keep"


NOTHING_KEPT = KeptColumns()


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How a table is read.

    label: the label's column: its name, its position from 0, or "last"; None: the one column that is named label,
        target, class or y.
    features: names, positions or patterns ("x*") of the columns that count; () for all others.
    exclude: of those, these not.
    weight: the column of sample weights; None: all are 1.
    categorical: columns that are categories, though their values may look like numbers, documents or identifiers.
    header: of CSV: "auto", "yes" or "no". delimiter: of CSV: a character, "tab" or "space"; None: told by the file.
    missing: "refuse", "zero" or "mean".
    hash_bits: categories are hashed into 2^hash_bits columns; None: they are not.
    cross: pairs of columns, "A:B", see llsvm.features.crosses.
    text: columns that are documents: names, positions or patterns. text_options: how they become n-grams.
    encoding: of files of text.
    keep: see KeptColumns.
    where: an expression of columns (llsvm.features.expressions): rows for which it is true count; None: all.
    missing_label: "refuse" rows whose label is missing, or "drop" them.
    left_out: names and patterns of columns that a model need not know, though it is used on them.
    labels_apart: the column of the label was added to the data, whose labels are an array.
    """

    label: str | None = None
    features: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    weight: str | None = None
    categorical: tuple[str, ...] = ()
    header: str = "auto"
    delimiter: str | None = None
    missing: str = "refuse"
    hash_bits: int | None = None
    cross: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    text_options: TextOptions = field(default_factory=TextOptions)
    encoding: str = "utf-8"
    keep: KeptColumns = NOTHING_KEPT
    where: str | None = None
    missing_label: str = "refuse"
    left_out: tuple[str, ...] = ()
    labels_apart: bool = False


@dataclass(frozen=True, slots=True)
class Roles:
    """Column names by what they are for.

    label, weight: of one column each; None: there is none. features: of those that count, in the table's order.
    """

    label: str | None
    weight: str | None
    features: tuple[str, ...]


def assign_roles(
    where: str,
    names: Sequence[str],
    options: TableOptions,
    need_label: bool = True,
    row_names: Sequence[str] = (),
) -> Roles:
    """Assign the columns ``names`` of the table ``where`` to their roles. Raises DataError.

    row_names: of these, those that number or name the rows: no features, unless asked for by their names.
    """
    label = find_column(where, names, options.label, "label") if options.label else usual_label(names)
    if label is None and need_label:
        raise DataError(
            f"{where}: which column is the label? None is named {', '.join(LABEL_NAMES)}; pass --label with a "
            f"name, a position from 0, or last; the columns are {listed(names)}"
        )
    weight = find_column(where, names, options.weight, "weight") if options.weight else None
    for option, patterns in (("features", options.features), ("text", options.text)):
        for each in patterns:
            _require_free(where, each, option, label, weight)
    others = [name for name in names if name not in (label, weight)]
    selected = set(others)
    if options.features:
        selected = set().union(*(matching(where, others, each, "features") for each in options.features))
    selected -= set(row_names) - set(options.features)
    for each in options.text:
        named = matching(where, others, each, "text")
        is_pattern = any(sign in each for sign in "*?[")
        selected |= named & selected if options.features and is_pattern else named
    selected -= excluded(where, names, options)
    features = tuple(name for name in others if name in selected)
    if not features:
        raise DataError(f"{where}: no column is left as a feature; the columns are {listed(names)}")
    return Roles(label, weight, features)


def excluded(where: str, names: Sequence[str], options: TableOptions) -> set[str]:
    """Return the columns that --exclude names. Raises DataError."""
    return set().union(*(matching(where, names, each, "exclude") for each in options.exclude))


def _require_free(where: str, column: str, option: str, label: str | None, weight: str | None) -> None:
    """Raise DataError where the column for ``option`` is the label's, or that of the weights."""
    for name, role, other in ((label, "the label", "label"), (weight, "the sample weight", "weight")):
        if column == name:
            raise DataError(
                f"{where}: column {name} is {role}, and cannot be --{option} too: leave it out there, or name "
                f"another column with --{other}"
            )


def own_names(names: Sequence[str], wanted: Collection[str]) -> dict[str, str]:
    """Return for each of the names ``wanted`` that is not among ``names``, but differs by space alone from one of
    these that is not wanted itself: that one."""
    known = set(names)
    rest = set(wanted) - known
    if not rest:
        return {}
    alike: dict[str, list[str]] = {}
    for name in known.difference(wanted):
        alike.setdefault(tidy(name), []).append(name)
    asked = Counter(tidy(name) for name in rest)
    matches = ((name, alike.get(tidy(name), ())) for name in rest)
    return {name: stored[0] for name, stored in matches if len(stored) == asked[tidy(name)] == 1}


def tidy(name: str) -> str:
    """Return a column's name without space around it, and single spaces within."""
    return " ".join(name.split())


def with_names(names: Sequence[str], options: TableOptions) -> TableOptions:
    """Return the options with the names of the columns that they mean by position.

    Positions count all columns ``names`` of the table, whatever these are for."""

    def named(given: Sequence[str]) -> tuple[str, ...]:
        return tuple(_meant(names, each) or each for each in given)

    return replace(
        options,
        features=named(options.features),
        exclude=named(options.exclude),
        categorical=named(options.categorical),
        text=named(options.text),
    )


def with_objects(
    options: TableOptions, names: Sequence[str], paths: Mapping[str, Sequence[str]]
) -> TableOptions:
    """Return the options with the columns within an object in its place where they name one.

    names: of all columns of the table. paths: of those within objects, see ``TableFiles._field_paths``."""
    within = dict[str, list[str]]()
    for name in (name for name in names if name in paths):
        for end in range(1, len(paths[name])):
            within.setdefault(".".join(paths[name][:end]), []).append(name)
    within = {each: fields for each, fields in within.items() if each not in names and not each.isdigit()}
    if not within:
        return options
    roles = [_meant(names, each) for each in (options.label, options.weight) if each is not None]

    def named(given: Sequence[str], but: Collection[str | None] = ()) -> tuple[str, ...]:
        expanded = (([name for name in within.get(each, ()) if name not in but] or [each]) for each in given)
        return tuple(chain.from_iterable(expanded))

    return replace(
        options,
        features=named(options.features, roles),
        exclude=named(options.exclude),
        categorical=named(options.categorical),
        text=named(options.text, roles),
        keep=options.keep._replace(names=named(options.keep.names)),
    )


def _meant(names: Sequence[str], asked: str) -> str | None:
    """Return the column that ``asked`` (a name, a position from 0, "last") means, if there is one."""
    if asked in names:
        return asked
    if stored := own_names(names, [asked]):
        return stored[asked]
    if asked == "last" and names:
        return names[-1]
    if asked.lstrip("-").isdigit() and -len(names) <= int(asked) < len(names):
        return names[int(asked)]
    return None


def columns_of(names: Sequence[str], patterns: Sequence[str]) -> set[str]:
    """Return the columns that names, positions or patterns mean, if there are any."""
    meant = {_meant(names, each) for each in patterns} - {None}
    return {name for name in names if name in meant or any(fnmatchcase(name, each) for each in patterns)}


def find_column(where: str, names: Sequence[str], wanted: str, option: str) -> str:
    """Return the column that ``wanted`` (a name, a position from 0, "last") means. Raises DataError."""
    if (name := _meant(names, wanted)) is not None:
        return name
    commas = next((name for name in names if "," in name and name.startswith(wanted)), None)
    hint = "" if commas is None else f"; a name with commas stands in quotes: '\"{commas}\"'"
    raise MissingColumnError(
        f"{where}: there is no column",
        wanted,
        option,
        f"the {'only column is' if len(names) == 1 else f'{len(names)} columns are'} {listed(names)}{hint}",
    )


def matching(where: str, names: Sequence[str], pattern: str, option: str) -> set[str]:
    """Return the columns that a name, a position or a pattern means; at least one. Raises DataError."""
    matched = {name for name in names if fnmatchcase(name, pattern)} if pattern not in names else {pattern}
    return matched or {find_column(where, names, pattern, option)}


def unknown_columns(
    rows: Mapping[str, int], used: Collection[str], left_out: Sequence[str], n_rows: int
) -> list[str]:
    """Return a sentence on those columns that a model does not know, if there are any: they are neither used nor
    left out (names and patterns). rows: by the column's name, how many of the ``n_rows`` have it: not all files
    need to."""
    known = {tidy(each) for each in left_out}
    unknown = [
        each
        for each in rows
        if each not in used and tidy(each) not in known and not any(fnmatchcase(each, p) for p in left_out)
    ]
    n_values = sum(rows[each] for each in unknown)
    if n_values == 0:
        return []
    what = "the column" if len(unknown) == 1 else f"the {len(unknown):,} columns"
    return [
        f"the model does not know {what} {listed(unknown)}: "
        f"{counted(n_values, 'value')} in {counted(n_rows, 'row')} {'counts' if n_values == 1 else 'count'} nothing"
    ]


def in_order(where: str, names: Sequence[str], patterns: Sequence[str], option: str) -> list[str]:
    """Return the columns that names, positions or patterns mean, each once, as they are asked for. Raises
    DataError."""
    ordered: dict[str, None] = {}
    for each in patterns:
        matched = matching(where, names, each, option)
        ordered |= dict.fromkeys(name for name in names if name in matched)
    return list(ordered)


def chooses_columns(options: Mapping[str, Any]) -> str | None:
    """Return the first option that names columns for what they are. options: as TableOptions has them."""
    names = ("text", "cross", "features", "exclude", "weight", "categorical")
    return next((name for name in names if options.get(name)), None)


def refuse_column_options(what: str, options: Mapping[str, Any], may_choose: bool = True) -> None:
    """Raise UsageError where options ask for columns beside features of data that have none, or choose among their
    rows by them. what: the data. options: as TableOptions has them. may_choose: columns, and how they are read."""
    keep: KeptColumns = options.get("keep", NOTHING_KEPT)
    drop = options.get("missing_label") == MISSING_LABEL_DROP
    asked = {keep.option: bool(keep.names), "where": options.get("where") is not None, "missing-label": drop}
    for option, given in asked.items():
        if given:
            raise UsageError(
                f"{what} has no columns for --{option}: leave it out, or give CSV, JSON Lines, Parquet, Arrow, or "
                "a data frame with its label in it"
            )
    if not may_choose and (chooses := chooses_columns(options)) is not None:
        raise UsageError(
            f"--{chooses} names columns, and {what} has none: leave it out, or give a data frame whose columns "
            "have names"
        )


def listed(names: Sequence[str]) -> str:
    """Return the first few of some names."""
    more = f", ... ({len(names)} in all)" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def missing_columns(names: Sequence[str]) -> str:
    """Return the sentence for columns of a model that data have not."""
    verb = "is" if len(names) == 1 else "are"
    return f"{len(names)} of the model's columns {verb} missing: {listed(names)}"


def usual_label(names: Sequence[str]) -> str | None:
    """Return the one column that has a name as labels have."""
    candidates = [name for name in names if tidy(name).lower() in LABEL_NAMES]
    return candidates[0] if len(candidates) == 1 else None
