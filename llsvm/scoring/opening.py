"""Data to score, read as a model's training data was; columns that the model does not know count nothing.

An svmlight row begins with a label; where it is not known, any number or word does (a dummy such as 0), and
predictions ignore it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from llsvm.block import CSR, Block
from llsvm.data import DEFAULT_FORMAT, open_source
from llsvm.data.source import BlockSource, DerivedSource, SourceInfo
from llsvm.data.table_rows import columns_of_expressions
from llsvm.errors import DataError, ModelError
from llsvm.features.labels import is_text
from llsvm.features.spelling import NUMBER, kind_of_word
from llsvm.features.table_options import TableOptions
from llsvm.models.model import Model
from llsvm.models.tables import drops_unlabelled, given_names, known_labels, label_against_rest, table_of
from llsvm.objective.rounding import keep_double
from llsvm.scoring.scores import column_base
from llsvm.settings.objective import CLASSIFICATION, REGRESSION

_FEWEST_ROWS = 20  # from which the index base of a file is doubted


def left_out_in_training(model: Model) -> tuple[str, ...]:
    """Return names and patterns of columns that are no features of the model because of its options, or they have
    another role: no note names them."""
    settings = model.settings
    if settings.get("features"):
        return ("*",)
    table = model.extra.get("table", {})
    label = table.get("label") or settings.get("label")
    asked = TableOptions(label=label, where=settings.get("where"))
    names = (label, settings.get("weight"), *(settings.get("exclude") or ()), *table.get("excluded", ()))
    return tuple(name for name in (*names, *columns_of_expressions(asked, None)) if name is not None)


class NumberedColumns(DerivedSource):
    """The rows of a source whose columns have numbers, not names; see BlockSource.

    model: that scores them. doubted: a file that seems to count its columns from 1, where the model's training data
    counted from 0, is refused once its number of rows is known: before its last block, if the source knows it then.
    """

    def __init__(self, source: BlockSource, model: Model, doubted: bool) -> None:
        super().__init__(source)
        self._model, self._doubted = model, doubted
        self._notes: tuple[str, ...] = ()

    def info(self) -> SourceInfo:
        """Return the facts of the source, with notes on columns that the model does not know."""
        info = self.source.info()
        return replace(info, notes=(*info.notes, *self._notes))

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the rows in order. Raises DataError."""
        end = column_base(self._model, self.source) + self._model.n_features_in_
        n_rows = n_beyond = n_values = n_next = 0
        for block in self.source.blocks(max_bytes):
            n_rows += block.n_rows
            if isinstance(block.X, CSR):
                indptr, indices, _ = block.X
                last = indices[indptr[1:][indptr[1:] > indptr[:-1]] - 1]  # of each row that has values
                if beyond := int(np.count_nonzero(last >= end)):
                    used = indices[indptr[0] : indptr[-1]]
                    n_beyond += beyond
                    n_values += int(np.count_nonzero(used >= end))
                    n_next += int(np.count_nonzero(used == end))
            if self.source.info().n_rows == n_rows:  # nothing has been made of a file of one block
                self._refuse_shifted(n_rows, n_next, end)
            yield block
        self._refuse_shifted(n_rows, n_next, end)
        name = self.source.info().name
        if n_values:
            self._notes = (
                f"{name}: {n_values:,} values in {n_beyond:,} of {n_rows:,} rows are in columns that the model "
                f"does not know, from index {end} on; they count nothing",
            )

    def _refuse_shifted(self, n_rows: int, n_next: int, end: int) -> None:
        """Raise DataError where the columns seem to count from 1. n_next: rows with the index ``end``, the one
        behind the model's last."""
        if self._doubted and n_rows >= _FEWEST_ROWS and 2 * n_next > n_rows:
            name = self.source.info().name
            raise DataError(
                f"{name}: {n_next:,} of {n_rows:,} rows have the index {end}, and the model knows the columns 0 to "
                f"{end - 1}: its training data counted columns from 0, and this file seems to count from 1; pass "
                f"--zero-based no (or --zero-based yes, if column {end} is a new one)"
            )


def zero_based(model: Model) -> str:
    """Return how the svmlight files that ``model`` scores count their columns, as an option of ``open_source``."""
    return "yes" if model.index_base == 0 else "no"


def open_for(model: Model, data: Any, need_label: bool = False, **options: Any) -> BlockSource:
    """Return the data to score, read as the model's training data was: same columns, categories, positive label,
    and values rounded to 32-bit floats or not.

    options: what ``open_source`` takes, to read it otherwise.
    """
    doubted = model.index_base == 0 and "zero_based" not in options
    options.setdefault("zero_based", zero_based(model))
    table, label = table_of(model.extra), None
    text = need_label and is_text(known_labels(model))
    as_trained: dict[str, Any] = {"text_labels": True} if text else {}
    if table is not None and text and any(kind_of_word(each) == NUMBER for each in known_labels(model)):
        table["text_label"] = True  # CSV would have numbers there
    as_trained |= {name: model.settings.get(name) for name in ("encoding", "delimiter")}
    if table is None and given_names(model) is not None:
        as_trained["names"] = given_names(model)
    if table is None:
        label = model.settings.get("label")
        if options.get("options", {}).get("label") or (label or "").endswith(".npy"):
            label = (
                None  # another is asked for; the file that had the labels of the training data has no others
            )
        as_trained |= {
            name: model.settings.get(name) for name in ("features", "missing", "cross", "hash_bits")
        }
        if given_names(model) is not None:
            table = _numbers_table(model)
    table_options = dict(options.pop("options", {})) | {"left_out": left_out_in_training(model)}
    if need_label and drops_unlabelled(model):
        table_options["missing_label"] = "drop"
    opened = partial(
        open_source,
        data,
        positive=label_against_rest(model),
        table=table,
        need_label=need_label,
        label_kind=REGRESSION if need_label and model.is_regression else CLASSIFICATION,
        options=table_options,
        **options,
    )
    source = opened(told={**as_trained, "label": label if need_label else None})
    info = source.info()
    if label and not need_label and info.is_dense and info.n_features == model.n_features_in_ + 1:
        source = opened(told={**as_trained, "label": label})  # one of the columns is the label
    _require_same_kind(model, source)
    if model.extra.get("double"):
        keep_double(source.info().rounding)
    names = source.info().feature_names
    if (
        source.info().encoder is None
        and None not in (names, given_names(model))
        and names != given_names(model)
    ):
        from llsvm.data.derived import ColumnsByName

        return ColumnsByName(source, given_names(model) or (), table_options["left_out"])
    if info.encoder is None and not info.is_dense and None in (names, given_names(model)):
        return NumberedColumns(source, model, doubted and info.format == DEFAULT_FORMAT)
    return source


def _numbers_table(model: Model) -> dict[str, Any]:
    """Return the table that a model reads whose columns have names, though it was not trained on one."""
    from llsvm.features.encoder import TableEncoder

    encoder = TableEncoder.of_numbers(given_names(model) or ())
    encoder.missing = model.settings.get("missing", "refuse")
    if "fill" in model.extra:
        encoder.set_fill(model.extra["fill"])
    return encoder.as_dict()


def _require_same_kind(model: Model, source: BlockSource) -> None:
    """Raise ModelError where columns would be taken for other columns: they are found by name or by number."""
    info, table = source.info(), model.extra.get("table")
    by_name = given_names(model) is not None and info.feature_names is not None
    if table is not None and info.encoder is None and not by_name:
        names = ", ".join(column["name"] for column in table["columns"][:6])
        raise ModelError(
            f"{info.name}: {info.format} is no table of named columns, but the model was trained on one, with "
            f"columns {names}{', ...' if len(table['columns']) > 6 else ''}; give it CSV, "
            "JSON Lines, Parquet or Arrow (or pass --format, if that is what it is)"
        )
    if given_names(model) is None and table is None and info.first_indicator is not None:
        raise ModelError(
            f"{info.name}: has text columns, but the model was not trained on a table; give it numbers only"
        )
    if info.format == "vw" and (table is not None or given_names(model) is None):
        raise ModelError(
            f"{info.name}: features have names, but the model was not trained on Vowpal Wabbit text; give it data "
            "of the format that it was trained on"
        )
    width, known = info.n_features, model.n_features_in_
    if info.is_dense and table is None and not by_name and width is not None and width != known:
        raise ModelError(f"{info.name}: {width} columns of features, but the model was trained on {known}")
