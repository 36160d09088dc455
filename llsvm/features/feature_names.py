"""Names of a table's features: ``age``, ``embedding[3]``, ``age & income``, ``country=FR & age``,
``review:good movie``, ``country=FR``, ``country=FR & shop=web``; and the number of a feature that has none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llsvm.features.encoder import TableEncoder

Namer = Callable[[Sequence[int]], list[str]]


def names_of(encoder: TableEncoder, features: Sequence[int]) -> list[str]:
    """Names of some features of a table, by their numbers."""
    dense, keys = encoder.dense_names, encoder.categories.keys
    documents, crosses, edges = encoder.documents, encoder.crosses, encoder.parts

    def category(columns: Sequence[int]) -> list[str]:
        return ["=".join(keys[j]) if keys else str(edges[3] + j + 1) for j in columns]

    namers: list[Namer] = [
        lambda columns: [dense[j] for j in columns],
        lambda columns: crosses.slope_names(columns, keys),
        lambda columns: [] if documents is None else documents.names_of(columns),
        category,
        lambda columns: crosses.pair_names(columns, keys),
        lambda columns: [str(edges[5] + j + 1) for j in columns],
    ]
    told: dict[int, str] = {}
    wanted = sorted(set(features))
    for (first, end), name in zip(pairwise(edges), namers, strict=True):
        own = [j for j in wanted if first <= j < end]
        told |= zip(own, name([j - first for j in own]), strict=True)
    return [told[j] for j in features]
