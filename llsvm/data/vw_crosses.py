"""Crosses of namespaces, as VW's -q: a feature for each pair of a feature of one and a feature of the other, whose
value is the product of the two values. Such a feature is named ``user^ann & item^shoe``, or ``user & item#17``
where pairs are hashed; they follow the row's own features, pair of namespaces by pair."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from llsvm.data.vw_rows import Examples
from llsvm.errors import DataError
from llsvm.features.crosses import MARK
from llsvm.features.table_options import listed

CELL_BYTES = 150  # held of a crossed feature while its row is made; measured
MAX_CELLS = 1 << 17  # of rows that are crossed together, unless one has more

Pair = tuple[str, str]


def chosen(where: str, wanted: Sequence[str]) -> list[Pair]:
    """The namespaces that ``--cross`` asks for, "A:B" each. Raises DataError."""
    found: list[Pair] = []
    for each in wanted:
        a, colon, b = each.partition(":")
        if not colon or ":" in b:
            raise DataError(f"{where}: --cross {each} names no two namespaces; write A:B")
        if a == b:
            raise DataError(f"{where}: --cross {each} crosses namespace {a!r} with itself; name two")
        if (a, b) in found or (b, a) in found:
            raise DataError(f"{where}: --cross {each}: these namespaces are crossed twice; name them once")
        found.append((a, b))
    return found


def require_met(where: str, pairs: Sequence[Pair], met: set[str]) -> None:
    """Raise DataError for a namespace that no row has. met: those that rows have."""
    for a, b in pairs:
        for name in (a, b):
            if name not in met:
                raise DataError(
                    f"{where}: no row has the namespace {name!r} (--cross {a}:{b}); there are "
                    f"{listed([repr(each) for each in sorted(met)])}"
                )


def with_crosses(rows: Examples, pairs: Sequence[Pair], hash_bits: int | None) -> Iterator[Examples]:
    """The rows with what is crossed, some at a time."""
    n = len(rows.label)
    space = np.array(rows.spaces, object)[rows.name] if len(rows.name) else np.zeros(0, object)
    cells = np.zeros(n, np.int64)
    for a, b in pairs:
        cells += np.bincount(rows.row[space == a], minlength=n) * np.bincount(
            rows.row[space == b], minlength=n
        )
    start, total = 0, np.cumsum(cells)
    while start < n:
        before = int(total[start - 1]) if start else 0
        stop = max(int(np.searchsorted(total, before + MAX_CELLS, "right")), start + 1)
        first, last = np.searchsorted(rows.row, [start, stop])
        part = Examples(
            rows.label[start:stop],
            rows.weight[start:stop],
            rows.line[start:stop],
            rows.row[first:last] - start,
            rows.name[first:last],
            rows.value[first:last],
            rows.names,
            rows.spaces,
        )
        yield _crossed(part, space[first:last], pairs, hash_bits)
        start = stop


def _crossed(
    rows: Examples, space: NDArray[np.object_], pairs: Sequence[Pair], hash_bits: int | None
) -> Examples:
    """space: of each feature of each row."""
    n, m = len(rows.label), len(rows.names)
    row, key, value = [rows.row], [rows.name], [rows.value]
    for a, b in pairs:
        left, right = np.flatnonzero(space == a), np.flatnonzero(space == b)
        counts = np.bincount(rows.row[right], minlength=n)
        starts = np.cumsum(counts) - counts
        times = counts[rows.row[left]]
        one = np.repeat(left, times)
        within = np.arange(len(one)) - np.repeat(np.cumsum(times) - times, times)
        other = right[starts[rows.row[one]] + within] if len(one) else one
        row.append(rows.row[one])
        key.append(m + rows.name[one] * m + rows.name[other])
        value.append(rows.value[one] * rows.value[other])
    all_rows, keys = np.concatenate(row), np.concatenate(key)
    order = np.argsort(all_rows, kind="stable")  # a row's own features first
    keys = keys[order]
    distinct, at, which = np.unique(keys, return_index=True, return_inverse=True)
    by_place = np.argsort(at)
    rank = np.empty(len(by_place), np.int64)
    rank[by_place] = np.arange(len(by_place))
    names = [_name(each, rows, hash_bits) for each in distinct[by_place].tolist()]
    return rows._replace(
        row=all_rows[order], name=rank[which], value=np.concatenate(value)[order], names=names, spaces=[]
    )


def _name(key: int, rows: Examples, hash_bits: int | None) -> str:
    m = len(rows.names)
    if key < m:
        return rows.names[key]
    a, b = divmod(key - m, m)
    name = f"{rows.names[a]}{MARK}{rows.names[b]}"
    if hash_bits is None:
        return name
    return f"{rows.spaces[a]}{MARK}{rows.spaces[b]}#{zlib.crc32(name.encode()) & ((1 << hash_bits) - 1)}"
