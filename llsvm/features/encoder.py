"""TableEncoder: columns of a table to columns of numbers, learned as the rows go by and kept in the model.

The numbered columns are, in this order: numeric columns as they stand in the table, and the elements of vector
columns; products of numbers, and numbers by category (``llsvm.features.crosses``); the n-grams of documents
(``llsvm.features.text``); the categories of other text columns (``llsvm.features.categories``), and pairs of them;
last the entries of sparse lists. Rows of numbers and vectors alone are dense, else CSR.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix, beside, from_cells, moved, ones
from llsvm.errors import DataError
from llsvm.features import columns as arrow
from llsvm.features.arrow_types import kind_of
from llsvm.features.categories import Categories, Place
from llsvm.features.column import Column, Sort
from llsvm.features.columns import Types, label_column, weight_column
from llsvm.features.crosses import Crosses
from llsvm.features.doubts import Doubts
from llsvm.features.spelling import sort_of
from llsvm.features.value_texts import LabelWords, alike_labels, as_text
from llsvm.objective.rounding import Rounding
from llsvm.row_buffer import sparsify
from llsvm.settings.objective import CLASSIFICATION, REGRESSION, UNLABELLED

if TYPE_CHECKING:
    from llsvm.features.text.vectorizer import DocumentColumns, RowsAhead

MAX_NAMES, MAX_NAMES_BYTES = 1_000_000, 1 << 26  # made together
_NAME_BYTES = 4000  # with this mean, none of them is long: see Categories.nbytes
_ANY: Types = {}  # what text is read as


@dataclass(slots=True)
class Encoded:
    """Rows of a batch.

    X: n rows. y: (n,) float64, or text as objects. weight: (n,) float64, or None.
    """

    X: Matrix
    y: NDArray[Any]
    weight: NDArray[np.float64] | None


class TableEncoder:
    """Encoder of a table's columns as columns of numbers; see the file's head. ``learning``: unseen categories are
    added; else they are all zero.

    columns: of the features, in the table's order.
    label, weight: names of those columns; None: there is none.
    missing: "refuse", "zero" or "mean": what becomes of a number that is missing.
    hash_bits: categories are hashed into 2^hash_bits columns; None: each has its own.
    header: a CSV file has a line of names.
    documents: of those columns that are documents.
    crosses: of two columns.
    known: categories of a model, see Categories.
    labels_apart: the label is in no column that other data could have.
    doubts: what is doubtful of the categories to be learned, None: as ``Doubts()`` finds it.
    Raises DataError for categories beside sparse lists without hash_bits.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        label: str | None,
        weight: str | None,
        missing: str = "refuse",
        hash_bits: int | None = None,
        header: bool = True,
        documents: DocumentColumns | None = None,
        crosses: Crosses | None = None,
        known: Sequence[tuple[str, str]] | None = None,
        labels_apart: bool = False,
        doubts: Doubts | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self.label, self.weight, self.missing, self.header = label, weight, missing, header
        self.learning = True
        self.predicting = False  # the encoder is a model's, which knows what replaces missing numbers
        self.rounding = Rounding()
        self.label_kind = CLASSIFICATION  # what labels are taken for
        self.labels_may_be_missing = False
        self._labels_apart = labels_apart
        self.text_label = False  # labels are text, whatever they look like
        self.label_words = LabelWords()
        self.excluded: tuple[str, ...] = ()  # names of columns that are no features, as training was told
        self.documents = documents
        self.fill: dict[str, float] = {}
        self.missing_counts = dict.fromkeys((c.name for c in self.columns), 0)
        """Rows without a value, by column, in the first reading; not of lists."""
        self._kinds = {c.name: c.kind for c in self.columns}
        self._largest_index = -1
        self._dense = [c for c in self.columns if c.kind in ("number", "vector")]
        categories = [c.name for c in self.columns if c.kind == "text"]
        self.categories = Categories(categories, hash_bits, known, doubts)
        self._lists = [c for c in self.columns if c.kind in ("indices", "values", "struct")]
        self.crosses = crosses or Crosses((), (), hash_bits)
        self._products = [Column(cross.name, "number") for cross in self.crosses.products]
        self.n_dense = sum(c.width for c in self._dense) + len(self._products)
        if (text := self.categories.names) and self._lists and hash_bits is None:
            raise DataError(
                f"text columns ({text[0]}) beside sparse lists ({self._lists[0].name}) need --hash-bits"
            )

    # -- what it is -------------------------------------------------------------------------------------

    @property
    def is_dense(self) -> bool:
        return not self.categories.names and not self._lists and self.documents is None

    @property
    def notes(self) -> list[str]:
        """Sentences on what is doubtful."""
        return [*filter(None, [self.label_note]), *self.categories.doubts.notes]

    @property
    def label_note(self) -> str:
        """A sentence where labels that are written otherwise are one label, else ""."""
        alike = self.label_words.alike
        if alike is None or self.label is None or self.label_kind != CLASSIFICATION:
            return ""
        return alike_labels(self.label, alike)

    @property
    def ready(self) -> bool:
        """Can rows be made? Vocabularies and what is crossed are learned before."""
        return self.crosses.known and (self.documents is None or self.documents.known)

    @property
    def has_lists(self) -> bool:
        """Return whether there are columns of sparse lists, whose values need not be exact."""
        return bool(self._lists)

    @property
    def first_indicator(self) -> int | None:
        return None if self.documents is None and not self.categories.names else self._first_document

    @property
    def n_features(self) -> int:
        return self._first_list + self._largest_index + 1

    @property
    def _first_document(self) -> int:
        return self.n_dense + self.crosses.slope_width

    @property
    def _first_category(self) -> int:
        return self._first_document + (0 if self.documents is None else self.documents.width)

    @property
    def _first_pair(self) -> int:
        return self._first_category + self.categories.width

    @property
    def _first_list(self) -> int:
        return self._first_pair + self.crosses.pair_width

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """A name for every feature: ``age``, ``embedding[3]``, ``country=FR``; None where there are none, or
        ``names_of`` has them."""
        hashed = self.categories.names and self.categories.hash_bits is not None
        crossed = self.crosses.slopes or self.crosses.pairs
        if hashed or crossed or self._lists or self.documents is not None or self.n_features > MAX_NAMES:
            return None
        if self.categories.nbytes > max(MAX_NAMES_BYTES, _NAME_BYTES * self.n_features):
            return None
        return tuple(self.names_of(range(self.n_features)))

    def names_of(self, features: Sequence[int]) -> list[str]:
        """Return the names of some features, by their numbers: ``age``, ``embedding[3]``, ``age & income``,
        ``country=FR & age``, ``review:good movie``, ``country=FR``, ``country=FR & shop=web``; the number of a
        feature that has none."""
        dense, keys, documents = self.dense_names, self.categories.keys, self.documents
        crosses, edges = self.crosses, self.parts
        namers: list[Callable[[Sequence[int]], list[str]]] = [
            lambda columns: [dense[j] for j in columns],
            lambda columns: crosses.slope_names(columns, keys),
            lambda columns: [] if documents is None else documents.names_of(columns),
            lambda columns: ["=".join(keys[j]) if keys else str(edges[3] + j + 1) for j in columns],
            lambda columns: crosses.pair_names(columns, keys),
            lambda columns: [str(edges[5] + j + 1) for j in columns],
        ]
        names: dict[int, str] = {}
        ordered = sorted(set(features))
        for (first, end), name in zip(pairwise(edges), namers, strict=True):
            part = [j for j in ordered if first <= j < end]
            names |= zip(part, name([j - first for j in part]), strict=True)
        return [names[j] for j in features]

    @property
    def parts(self) -> list[int]:
        """Return the columns at which the numbers begin, numbers by category, n-grams, categories, pairs of them,
        and lists; and at which these end."""
        first = (self.n_dense, self._first_document, self._first_category, self._first_pair, self._first_list)
        return [0, *first, self.n_features]

    @property
    def dense_names(self) -> list[str]:
        """Return the names of the columns of numbers."""
        names = []
        for c in self._dense:
            names += [c.name] if c.kind == "number" else [f"{c.name}[{i}]" for i in range(c.width)]
        return names + [c.name for c in self._products]

    @property
    def used(self) -> tuple[str, ...]:
        """The table's columns that are read."""
        more = [name for name in (self.label, self.weight) if name is not None]
        return tuple(dict.fromkeys([*(c.name for c in self.columns), *more]))

    @property
    def nbytes(self) -> int:
        """Return the bytes that the categories seen so far take, here and in the model, the words of labels, and
        the vocabularies of documents."""
        documents = 0 if self.documents is None else self.documents.nbytes
        return self.categories.nbytes + self.crosses.nbytes + self.label_words.nbytes + documents

    def kind(self, name: str) -> str | None:
        return "text" if self.text_label and name == self.label else self._kinds.get(name)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for the model."""
        return {
            "columns": [asdict(c) for c in self.columns],
            "label": None if self._labels_apart else self.label,
            "text_label": self.text_label,
            "excluded": list(self.excluded),
            "weight": self.weight,
            "missing": self.missing,
            "hash_bits": self.categories.hash_bits,
            "header": self.header,
            "categories": [list(key) for key in self.categories.keys],
            "largest_index": self._largest_index,
            "fill": self.fill,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableEncoder:
        """Return the encoder of a model, which learns nothing more. values: of ``as_dict``, and the model's
        DocumentColumns and Crosses, if it has such, as "documents" and "crosses"."""
        encoder = cls(
            [Column.of(c) for c in values["columns"]],
            values["label"],
            None,  # of the weights of rows to be scored: who reads them says so
            values["missing"],
            values["hash_bits"],
            values["header"],
            values.get("documents"),
            values.get("crosses"),
            [(name, value) for name, value in values["categories"]],
        )
        encoder._largest_index = values["largest_index"]
        encoder.fill = dict(values["fill"])
        encoder.text_label = bool(values.get("text_label"))  # not in the first files
        encoder.learning, encoder.predicting = False, True
        return encoder

    @classmethod
    def of_numbers(cls, names: Sequence[str]) -> TableEncoder:
        """Return the encoder of a model that knows its columns, all numbers, by ``names``, though it never saw a
        table."""
        encoder = cls([Column(name, "number") for name in names], None, None)
        encoder.learning, encoder.predicting = False, True
        return encoder

    def bind(self, label: str | None, weight: str | None, labels_may_be_missing: bool) -> None:
        """Bind the encoder to a table whose labels and weights are in these columns, None: in none.
        labels_may_be_missing: nobody looks at them."""
        self.label, self.weight, self.labels_may_be_missing = label, weight, labels_may_be_missing

    def set_fill(self, means: NDArray[np.float64]) -> None:
        """Replace missing numbers from now on by the columns' means (n_features,)."""
        at = 0
        for c in self._dense:
            if c.kind == "number":
                self.fill[c.name] = float(means[at])
            at += c.width

    # -- encoding ---------------------------------------------------------------------------------------

    def encode(
        self,
        batch: pa.RecordBatch,
        begun: RowsAhead | None = None,
        place: Place = None,
        types: Types = _ANY,
        of_text: bool = False,
    ) -> Encoded:
        """Return the rows of a batch. begun: those of its documents, where threads make them. place: of a row, in
        words. types: what text is read as. of_text: see ``arrow.lost``. Raises MissingValues, and ValueError(row,
        reason) for other bad cells."""
        dense = np.empty((batch.num_rows, self.n_dense), self.rounding.dtype)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        crosses, numbers, at = self.crosses, {}, 0
        with np.errstate(over="ignore"):  # becomes inf, which is refused
            for c in tuple(self._dense):
                if c.kind == "number":
                    how = c.name, c.sort, self.predicting, types.get(c.name)
                    wide = arrow.number_column(columns[c.name], *how)[:, None]
                    if c.sort is None and self.learning and not np.isnan(wide).all():
                        self._learn_sort(c, sort_of(types.get(c.name) or columns[c.name].type))
                    if c.name in crosses.numbers:
                        numbers[c.name] = crosses.filled(c.name, wide[:, 0])
                else:
                    wide = arrow.vectors(columns[c.name], c.name, c.width)
                dense[:, at : at + c.width] = wide
                for before in arrow.lost(columns[c.name], wide, of_text):
                    self.rounding.note(wide, dense[:, at : at + c.width], at, before)
                at += c.width
            for cross in crosses.products:
                product = (numbers[cross.a] * numbers[cross.b])[:, None]
                dense[:, at : at + 1] = product
                self.rounding.note(product, dense[:, at : at + 1], at)
                at += 1
        if not np.isfinite(dense).all():
            self._repair(dense)
        y, weight = self._labels(batch), self.weights(batch, types)
        if self.is_dense:
            return Encoded(dense, y, weight)
        assert crosses.known, "what is crossed is learned before rows are made"
        parts = [sparsify(dense)] if self.n_dense else []
        ids = np.zeros((0, 0), np.int64)
        if self.categories.names:
            ids = self._category_ids(batch, place, weight)
        if crosses.slopes:
            parts.append(self._slopes(numbers, ids))
        if self.documents is not None:
            parts.append(moved(self.documents.rows(columns, begun), self._first_document))
        if self.categories.names:
            row, column = self.categories.cells(ids)
            parts.append(ones(row, column + self._first_category, batch.num_rows))
        if crosses.pairs:
            row, column = crosses.pair_cells(ids)
            parts.append(ones(row, column + self._first_pair, batch.num_rows))
        if self._lists:
            parts.append(self._sparse(batch, of_text))
        return Encoded(beside(parts), y, weight)

    def _learn_sort(self, column: Column, sort: Sort | None) -> None:
        """Set the sort of a column that had no value until now: later values must be of the same sort."""
        known = replace(column, sort=sort)
        self.columns = tuple(known if c is column else c for c in self.columns)
        self._dense[self._dense.index(column)] = known

    def _repair(self, dense: NDArray[np.floating]) -> None:
        """Fill in what is missing (NaN) or refuse it; refuse what is infinite."""
        at = 0
        for c in (*self._dense, *self._products):
            part = dense[:, at : at + c.width]
            at += c.width
            gone = np.isnan(part)
            if gone.any():
                if self.missing == "refuse":
                    raise arrow.MissingValues(c.name, int(np.argmax(gone.any(axis=1))))
                if self.learning:
                    self.missing_counts[c.name] += int(np.count_nonzero(gone.any(axis=1)))
                if self.missing == "zero":
                    part[gone] = 0
                elif self.predicting:
                    part[gone] = self.fill.get(c.name, 0.0)
            bad = np.isinf(part).any(axis=1)
            if bad.any():
                row = int(np.argmax(bad))
                what = f"a value is infinite, or too large for {self.rounding.kind}"
                removable = c.name in self._kinds and not self.predicting
                leave = f" or none at all, or leave the column out (--exclude {c.name})" if removable else ""
                what_else = "number" if c.sort in (None, Sort.NUMBER) else "date or time"
                remedy = f"write a finite {what_else}{leave}"
                raise ValueError(row, f"column {c.name}: {what}; {remedy}")

    def _slopes(self, numbers: Mapping[str, NDArray[np.float64]], ids: NDArray[np.int64]) -> CSR:
        row, column, value = self.crosses.slope_cells(numbers, ids)
        X = from_cells(row, column + self.n_dense, value, len(ids))
        rounded = self.rounding.values(X.data)
        if not np.isfinite(rounded).all():
            bad = int(np.searchsorted(X.indptr, np.argmax(~np.isfinite(rounded)), "right")) - 1
            raise ValueError(bad, f"a crossed number is too large for {self.rounding.kind}")
        return CSR(X.indptr, X.indices, rounded)

    def _category_ids(
        self, batch: pa.RecordBatch, place: Place, weight: NDArray[np.float64] | None
    ) -> NDArray[np.int64]:
        """Return the numbers of categories as Categories.ids does. Raises MissingValues."""
        coded = self.categories.coded(batch)
        for name, codes, _ in coded:
            if self.missing == "refuse" and (codes < 0).any():
                raise arrow.MissingValues(name, int(np.argmax(codes < 0)))
            self.missing_counts[name] += self.learning * int(np.count_nonzero(codes < 0))
        return self.categories.ids(coded, place, weight)

    def begin_again(self) -> None:
        """Start again: the first reading has been broken off, and another takes its place; nothing was counted."""
        if self.learning:
            self.categories.begin_again()
            self.missing_counts = dict.fromkeys(self.missing_counts, 0)

    def finish(self) -> None:
        """End learning: all rows have been seen. Raises DataError, see Doubts."""
        if self.learning:
            self.learning = False
            self.categories.finish()

    def _sparse(self, batch: pa.RecordBatch, of_text: bool) -> CSR:
        offset = self._first_list
        if self._lists[0].kind == "struct":
            pair = batch.column(self._lists[0].name)
            indices, values = (pair.field(pair.type.get_field_index(part)) for part in ("indices", "values"))
        else:
            by_kind = {c.kind: batch.column(c.name) for c in self._lists}
            indices, values = by_kind["indices"], by_kind["values"]
        indptr, index, data = arrow.sparse_lists(indices, values)
        self._largest_index = max(self._largest_index, int(index.max(initial=-1)))
        row = np.repeat(np.arange(batch.num_rows), np.diff(indptr))
        before = arrow.lost(values.flatten(), data[:, None], of_text)[0]
        rounded = self.rounding.values(data, None if before is None else before[:, 0])
        if not np.isfinite(rounded).all():
            bad = int(row[np.argmax(~np.isfinite(rounded))])
            raise ValueError(bad, f"a value is too large for {self.rounding.kind}")
        rises = np.r_[True, (row[1:] != row[:-1]) | (index[1:] > index[:-1])] if len(row) else row
        if np.all(rises):
            return CSR(indptr, (index + offset).astype(np.int32), rounded)
        X = from_cells(row, index + offset, data, batch.num_rows)
        return CSR(X.indptr, X.indices, self.rounding.values(X.data))

    def _labels(self, batch: pa.RecordBatch) -> NDArray[Any]:
        if self.label is None or self.label_kind == UNLABELLED:
            return np.zeros(batch.num_rows)
        numbers, column = self.label_kind == REGRESSION, batch.column(self.label)
        if self.text_label and not numbers and kind_of(column.type) == "number":
            column = as_text(column)
        # a model knows its labels by their values
        alike = None if self.text_label or self.predicting else self.label_words
        return label_column(column, self.label, numbers, self.labels_may_be_missing, alike)

    def weights(self, batch: pa.RecordBatch, types: Types = _ANY) -> NDArray[np.float64] | None:
        """Return the sample weights (n,) of a batch's rows, None where there are none. Raises ValueError(row,
        reason)."""
        return None if self.weight is None else weight_column(batch.column(self.weight), self.weight, types)
