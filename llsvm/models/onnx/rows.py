"""Rows in ONNX, as far as their scores: inputs, what replaces missing values, categories, n-grams, weights.

A model of numbers alone has one input, ``X``, with its columns in their order; one of a table with text an input
for each column: numbers (n, 1), vectors (n, width), categories text (n, 1), documents their words in order, (n, m)
text filled up with "". A category is looked up and its weights are added, so that no column of 0 and 1 is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import ModelError
from llsvm.features.column import Column
from llsvm.features.encoder import TableEncoder
from llsvm.features.text.options import TextOptions
from llsvm.models.header import CROSSES
from llsvm.models.model import Model
from llsvm.models.onnx.graph import ML, Graph
from llsvm.models.tables import CENTER, intercept_of, means_of, table_of

if TYPE_CHECKING:
    from llsvm.features.text.vocabulary import Vocabulary

INPUT = "X"
_MAX_BYTES = 1_900_000_000  # of weights: a file of ONNX has 2 GiB at most


def refuse_unsayable(model: Model) -> None:
    """Raise ModelError for a model whose scores ONNX's operators cannot compute, or its files cannot hold."""
    table = model.extra.get("table", {"columns": [], "hash_bits": None})
    kinds = {column["kind"]: column["name"] for column in table["columns"]}
    text = model.extra.get("text", {"options": {}})["options"]
    because = ""
    if model.feature_map is not None:
        because = "not a kernel or a feature map: train without --kernel and --feature-map"
    elif CROSSES in model.extra:
        because = "not what crossed columns are (--cross): train without them"
    elif table["hash_bits"] is not None and "text" in kinds:
        because = f"not the hash of categories (column {kinds['text']}): train without --hash-bits"
    elif text.get("hash_bits") is not None:
        because = "not the hash of n-grams: train with --vocabulary exact"
    elif text.get("analyzer", "word") != "word":
        because = f"not n-grams of characters ({text['analyzer']}): train with --analyzer word"
    elif lists := [kinds[kind] for kind in ("indices", "struct") if kind in kinds]:
        because = f"not sparse lists (column {lists[0]}): write them as columns, or as vectors of one length"
    elif 8 * model.weights.shape[0] * model.weights.shape[1] > _MAX_BYTES:
        because = "in 2 GB at most, and these weights take more: train on fewer columns, or on fewer classes"
    if because:
        raise ModelError(f"ONNX can say what its operators compute, {because}")


def scores(graph: Graph, model: Model) -> str:
    """Return (n, k) float64 scores of the model's problems."""
    rows = _Rows(graph, np.ascontiguousarray(model.coef_.T), bool(model.extra.get("unit_row")))
    number = "double" if model.extra.get("double") else "float"  # as files are read
    table, center = table_of(model.extra), model.extra.get(CENTER)
    if table is None:
        value = graph.wide(graph.input(INPUT, number, rows.n_columns))
        rows.add_numbers(value, rows.n_columns, _fill(model, rows.n_columns), center)
    else:
        encoder = TableEncoder.from_dict(table)
        numbers = [c for c in encoder.columns if c.kind in ("number", "vector")]
        if numbers:
            only_numbers = len(numbers) == len(encoder.columns)
            value = _numbers(graph, numbers, number, only_numbers)
            width = sum(c.width for c in numbers)
            rows.add_numbers(value, width, _fill(model, width), center)
        for name, vocabulary in _documents(encoder):
            assert encoder.documents is not None
            rows.add_words(
                graph.input(name, "text", f"words of {name}"), vocabulary, encoder.documents.options
            )
        if encoder.categories.names:
            rows.add_categories(encoder.categories.names, encoder.categories.keys)
    return rows.scores(intercept_of(model))


def _numbers(graph: Graph, columns: Sequence[Column], number: str, one_input: bool) -> str:
    """Return columns (n, columns) float64, of one input or of one for each column."""
    if one_input:
        return graph.wide(graph.input(INPUT, number, sum(c.width for c in columns)))
    values = [graph.wide(graph.input(c.name, number, c.width)) for c in columns]
    return graph.node("Concat", *values, axis=1)


def _documents(encoder: TableEncoder) -> list[tuple[str, Vocabulary]]:
    if encoder.documents is None:
        return []
    return list(zip(encoder.documents.names, encoder.documents.vocabularies or (), strict=True))


def _fill(model: Model, n_columns: int) -> NDArray[np.float64] | None:
    """Return what replaces missing values of the first so many features; None where they are refused."""
    if (means := means_of(model.extra)) is not None:
        return np.pad(means, (0, n_columns - len(means)))
    return np.zeros(n_columns) if model.settings.get("missing") == "zero" else None


class _Rows:
    """Sums that columns add to the scores, one kind after the other, with the weights ``coef`` (d, k)."""

    def __init__(self, graph: Graph, coef: NDArray[np.float64], unit: bool) -> None:
        self._graph, self._coef, self._unit = graph, coef, unit
        self.n_columns = len(coef)
        self._at = 0  # the next column
        self._sums: list[str] = []
        self._squares: list[str] = []  # of rows that are brought to unit length: Σ x²

    def _weights(self, width: int) -> NDArray[np.float64]:
        self._at += width
        return self._coef[self._at - width : self._at]

    def add_numbers(
        self, X: str, width: int, fill: NDArray[np.float64] | None, center: NDArray[np.float64] | None
    ) -> None:
        """Add numbers X: (n, width) float64. fill: (width,) what replaces NaN, or None. center: see
        llsvm.models.tables."""
        graph = self._graph
        if fill is not None:
            X = graph.node("Where", graph.node("IsNaN", X), graph.constant(fill), X)
        if center is not None:
            X = graph.node("Sub", X, graph.constant(center[:width]))
        self._add(X, self._weights(width))

    def _add(self, X: str, weights: NDArray[np.float64]) -> None:
        graph = self._graph
        self._sums.append(graph.node("MatMul", X, graph.constant(weights)))
        if self._unit:
            self._squares.append(graph.sum(graph.node("Mul", X, X)))

    def add_categories(self, names: Sequence[str], keys: Sequence[tuple[str, str]]) -> None:
        """Add what categories weigh. names: of the columns. keys: (column, value) of each category."""
        graph, weights = self._graph, self._weights(len(keys))
        none = np.zeros((1, weights.shape[1]))
        for name in names:
            value = graph.input(name, "text", 1)
            numbers = [number for number, (column, _) in enumerate(keys) if column == name]
            if not numbers:
                continue
            at = graph.node(
                "LabelEncoder",
                value,
                domain=ML,
                keys_strings=[keys[number][1] for number in numbers],
                values_int64s=list(range(len(numbers))),
                default_int64=len(numbers),
            )
            at = graph.node("Reshape", at, graph.constant(np.array([-1])))
            table = graph.constant(np.concatenate([weights[numbers], none]))
            self._sums.append(graph.node("Gather", table, at))
            if self._unit:
                there = np.ones((len(numbers) + 1, 1))
                there[-1] = 0.0
                self._squares.append(graph.node("Gather", graph.constant(there), at))

    def add_words(self, words: str, vocabulary: Vocabulary, options: TextOptions) -> None:
        """Add what words weigh. words: (n, m), of documents."""
        weights = self._weights(len(vocabulary))
        if not len(vocabulary):
            return
        graph = self._graph
        X = graph.wide(graph.node("TfIdfVectorizer", words, **_pool(vocabulary, options)))
        if options.weight == "binary":
            X = graph.node("Min", X, graph.constant(np.array(1.0)))
        elif options.weight == "sublinear":  # 1 + ln count, of those that are there
            one = graph.constant(np.array(1.0))
            logarithm = graph.node("Add", graph.node("Log", graph.node("Max", X, one)), one)
            X = graph.node("Mul", logarithm, graph.node("Min", X, one))
        if options.idf:
            X = graph.node("Mul", X, graph.constant(vocabulary.weights().by_column(len(vocabulary))))
        if options.unit_rows:
            X = graph.node("Div", X, _length(graph, graph.sum(graph.node("Mul", X, X))))
        self._add(X, weights)

    def scores(self, intercept: NDArray[np.float64]) -> str:
        graph = self._graph
        total = self._sums[0] if len(self._sums) == 1 else graph.node("Sum", *self._sums)
        if self._unit:
            squares = self._squares[0] if len(self._squares) == 1 else graph.node("Sum", *self._squares)
            total = graph.node("Div", total, _length(graph, squares))
        return graph.node("Add", total, graph.constant(intercept))


def _length(graph: Graph, squares: str) -> str:
    """Return the square roots, 1 where they are 0."""
    zero, one = graph.constant(np.array(0.0)), graph.constant(np.array(1.0))
    return graph.node("Where", graph.node("Greater", squares, zero), graph.node("Sqrt", squares), one)


def _pool(vocabulary: Vocabulary, options: TextOptions) -> dict[str, Any]:
    """Return the n-grams, those of one length after those of another, and the column of each."""
    shortest, longest = options.ngrams
    grams = [gram.split(" ") for gram in vocabulary.words()]
    order = sorted(range(len(grams)), key=lambda column: len(grams[column]))
    counts = [0] * (longest + 1)
    for gram in grams:
        counts[len(gram)] += len(gram)
    return {
        "pool_strings": [word for column in order for word in grams[column]],
        "ngram_counts": np.cumsum(counts[:-1]).tolist(),
        "ngram_indexes": order,
        "min_gram_length": shortest,
        "max_gram_length": longest,
        "max_skip_count": 0,
        "mode": "TF",
    }
