"""Predictions: scores of rows, block by block, and the labels that they stand for, as lines or as a table.

A table has a header, and columns of the data as they are, of what is predicted, of scores and of probabilities; CSV
or Parquet, written as the rows go by."""

from __future__ import annotations

import csv
import gzip
import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.types as types
from numpy.typing import NDArray

from llsvm.block import Block, Matrix
from llsvm.data.source import BlockSource, growing_blocks
from llsvm.data.table import LIBRARY_BYTES
from llsvm.errors import BudgetError, DataError, UsageError
from llsvm.features.array_labels import in_common_unit
from llsvm.features.arrow_types import decoded, writable
from llsvm.features.frames import PREDICTION, no_score
from llsvm.features.labels import is_text
from llsvm.features.spelling import DECIMALS
from llsvm.features.value_texts import as_text, has_text, in_full
from llsvm.files.decoding import COMPRESSED_SUFFIXES
from llsvm.files.writing import replacing
from llsvm.models.decisions import THRESHOLD
from llsvm.models.model import Model
from llsvm.models.record import label_text
from llsvm.scoring.room import SMALLEST_BLOCK_BYTES, max_block_bytes, n_rows_of, row_bytes

Columns = Literal["none", "scores", "probabilities"]
_SCORE_BLOCKS = 2  # of those held, for scores and lines of text
_SCORE_TEXT_BYTES = 160  # of a score as a number and as text
_WORK_BYTES = 8  # of a row: its class as a position, while they are joined


def score_blocks(
    model: Model,
    source: BlockSource,
    max_bytes: int,
    each_bytes: int | None = None,
    grow: Callable[[int], int] | None = None,
) -> Iterator[tuple[Block, NDArray[np.float64]]]:
    """Yield the rows of ``source``, block by block, with their scores (n, k) float64, k = 1 for two classes.

    Columns that the model does not know count nothing, columns that the data lacks count as zero.
    max_bytes: of a block; the source holds about five. Of short rows, whose scores take more than they do, fewer
    come at a time: each_bytes is what a row's scores, and what is made of them, take (None: the scores alone).
    grow: asked for blocks of at least so many bytes where a row is too long for the current blocks; it may refuse.
    Raises DataError for malformed data.
    """
    each_bytes = each_bytes or 8 * model.n_problems
    yield from score_rows(model.scorer(), column_base(model, source), source, max_bytes, each_bytes, grow)


def score_rows(
    score: Callable[[Matrix, int], NDArray[np.float64]],
    base: int,
    source: BlockSource,
    max_bytes: int,
    each_bytes: int,
    grow: Callable[[int], int] | None = None,
) -> Iterator[tuple[Block, NDArray[np.float64]]]:
    """Yield rows and scores as ``score_blocks``. score: a function of rows, and their first column's number, which
    is ``base``."""
    held = source.info().in_memory
    step = max(1, _SCORE_BLOCKS * max_bytes // each_bytes)
    for block in growing_blocks(source, max_bytes, grow):
        for start in range(0, max(block.n_rows, 1), step):  # a block of no row has its columns, too
            part = block if block.n_rows <= step else block.slice(start, min(start + step, block.n_rows))
            values = score(part.X, base)
            if held and not np.isfinite(values).all():  # readers of files refuse such values themselves
                row = int(part.rows[~np.isfinite(values).all(axis=1)][0])
                raise DataError(no_score(row))
            yield part, values


def column_base(model: Model, source: BlockSource) -> int:
    """Return the number of the first column in the blocks of ``source``."""
    base = source.info().index_base
    return model.index_base if base is None else base


def predict_file(
    model: Model,
    source: BlockSource,
    out: TextIO,
    *,
    more: Columns = "none",
    memory_limit: str | int | None = None,
) -> int:
    """Write what is predicted, a label or of a regression a number, a line to ``out``, in the source's order, and
    return the number of rows.

    more: what follows, tab separated, all digits: "scores", one for two classes (positive means the second), else
    one per class in the order of ``model.classes_``; or "probabilities", one per class.
    Raises BudgetError where ``memory_limit`` is too small, DataError for malformed data; UsageError for
    the scores of a regression, ModelError for probabilities where the loss gives none.
    """
    if more == "scores":
        refuse_scores_of_numbers(model)
    if more == "probabilities":
        model.require_probabilities()
    n_rows, text_bytes = 0, max(map(len, model.labels), default=_SCORE_TEXT_BYTES)
    if more != "none":
        text_bytes += _SCORE_TEXT_BYTES * (
            1 if (more, len(model.classes_)) == ("scores", 2) else len(model.classes_)
        )
    each_bytes = row_bytes(model, text_bytes)
    grow = partial(max_block_bytes, model, source, memory_limit, {"scores of a row": each_bytes})
    texts = np.array(model.labels, dtype=object)
    for _, values in score_blocks(model, source, grow(), each_bytes, grow):
        lines = [repr(value) for value in values[:, 0].tolist()]
        if not model.is_regression:
            lines = texts[model.class_ids(values)].tolist()
        if more != "none":
            columns = model.probabilities(values) if more == "probabilities" else model.class_scores(values)
            rows = zip(lines, columns.tolist(), strict=True)
            lines = ["\t".join([label, *map(repr, row)]) for label, row in rows]
        out.write("\n".join(lines) + "\n" if lines else "")
        n_rows += len(lines)
    return n_rows


def refuse_scores_of_numbers(model: Model) -> None:
    """Raise UsageError for a regression."""
    if model.is_regression:
        raise UsageError(
            "--scores: the score of a regression is the number that it predicts; leave --scores out"
        )


def predict_rows(
    model: Model, source: BlockSource, *, probabilities: bool = False, memory_limit: str | int | None = None
) -> NDArray[Any]:
    """Return (n,) what is predicted of each row, in the source's order: of ``model.classes_``, or of a regression
    numbers; or (n, n_classes) ``probabilities``. Raises as ``predict_file``, and BudgetError where there is no room
    for the predictions themselves."""
    if probabilities:
        model.require_probabilities()
    as_ids = not (probabilities or model.is_regression)
    each_bytes, n_rows = row_bytes(model), 0
    parts: list[NDArray[Any]] = []
    classes = model.classes_
    kept_bytes = classes.dtype.itemsize if as_ids else 8 * max(len(model.classes_), 1)

    def grow(at_least: int = 0, rows: int = 0) -> int:
        more = {"scores of a row": each_bytes, "predictions": rows * (kept_bytes + _WORK_BYTES)}
        return max_block_bytes(model, source, memory_limit, more, max(at_least, SMALLEST_BLOCK_BYTES))

    try:
        for _, values in score_blocks(model, source, grow(), each_bytes, grow):
            if as_ids:
                parts.append(model.class_ids(values).astype(np.int32))
            else:
                parts.append(model.probabilities(values) if probabilities else values[:, 0].copy())
            n_rows += len(values)
            grow(rows=n_rows)
    except BudgetError as error:
        parts.clear()
        if (rows := n_rows_of(source)) is None:
            raise error.as_least() from error
        grow(rows=rows)
        raise
    if not parts:  # of arrays
        at_least_one(n_rows, source)
    values = np.concatenate(parts)
    return model.as_given(classes[values]) if as_ids else values


def at_least_one(n_rows: int, source: BlockSource) -> int:
    if n_rows == 0:
        raise DataError(f"{source.info().name}: there is no row in it")
    return n_rows


# -- tables --------------------------------------------------------------------------------------------------------

SCORE, PROBABILITY = "score", "probability"
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_PARQUET, _GZIP = (".parquet", ".pq"), ".gz"
_OF_JSON = (".jsonl", ".ndjson", ".json")
_NO_LINES = (*_PARQUET, ".arrow", ".feather", ".ipc", ".h5", ".hdf5", ".npy", ".npz", ".xlsx", ".xls", ".zip")
_CELL_BYTES = 100  # of a value, as a number or text, and as it is written
_GROUP_ROWS = 1 << 16  # of a row group of Parquet, at most
_GROUP_BYTES = 4 << 20
_GROUPS_HELD = 3  # collected, put together, and encoded


class Shown(NamedTuple):
    """Columns that follow the prediction. scores: one of two classes, else one of each. probabilities: of each
    class."""

    scores: bool = False
    probabilities: bool = False


class _Writer(Protocol):
    def write(self, batch: pa.RecordBatch) -> None: ...


def is_table_name(path: str | os.PathLike[str]) -> bool:
    """Return whether the file's name is that of a table."""
    name = os.fspath(path).lower()
    return name.endswith(_PARQUET) or name.removesuffix(_GZIP).endswith(tuple(_DELIMITERS))


def require_table_name(path: str | os.PathLike[str]) -> None:
    """Raise UsageError unless ``is_table_name``."""
    if not is_table_name(path):
        raise UsageError(
            f"{os.fspath(path)}: a table of predictions is CSV or Parquet: name a file that ends in .csv, .tsv, "
            ".csv.gz, .tsv.gz or .parquet"
        )


def require_lines_name(path: str | os.PathLike[str], json: bool = False) -> None:
    """Raise UsageError where a file of lines of text has the name of another format, or of compressed text. json:
    whether each line is an object of JSON."""
    name = os.fspath(path).lower()
    if name.endswith((*COMPRESSED_SUFFIXES, *_NO_LINES, *(() if json else _OF_JSON))):
        raise UsageError(
            f"{os.fspath(path)}: what is written here are lines of plain text, and the name says otherwise: name a "
            "file that ends in .txt; tables of predictions end in .csv, .tsv, .csv.gz, .tsv.gz or .parquet"
        )


def write_table(
    model: Model,
    source: BlockSource,
    output: str | os.PathLike[str],
    *,
    more: Shown = Shown(),  # noqa: B008 (a value)
    memory_limit: str | int | None = None,
) -> int:
    """Write the predictions for ``source``, in its order, to the file ``output``, which takes the place of an old
    one when it is whole; returns the number of rows.

    Columns: those that the source keeps (Block.kept); ``prediction``, by the model's threshold where it has one;
    with scores ``score``, or ``score_LABEL`` of each of several classes, and ``threshold`` of a model that has
    one; with probabilities ``probability_LABEL`` of each class.
    Raises as ``predict_file``, DiskError, and DataError for kept columns that the format cannot hold.
    """
    if more.scores:
        refuse_scores_of_numbers(model)
    if more.probabilities:
        model.require_probabilities()
    # not those of the header, which is one row
    cells = 2 + (more.scores + more.probabilities) * max(1, len(model.classes_))
    each_bytes = row_bytes(model, _CELL_BYTES * cells)
    held = {"scores of a row": each_bytes, "rows to be written": _GROUPS_HELD * _GROUP_BYTES}
    if source.info().encoder is None:
        held["writer of tables"] = LIBRARY_BYTES
    grow = partial(max_block_bytes, model, source, memory_limit, held)
    n_rows, has_columns = 0, False
    with _writing(output) as writer:
        for block, values in score_blocks(model, source, grow(), each_bytes, grow):
            writer.write(_batch(model, block.kept, values, more))
            n_rows, has_columns = n_rows + block.n_rows, True
        if not has_columns:
            at_least_one(n_rows, source)
    return n_rows


def _batch(
    model: Model, kept_columns: pa.RecordBatch | None, values: NDArray[np.float64], more: Shown
) -> pa.RecordBatch:
    columns: dict[str, Any] = {PREDICTION: pa.array(_plain(model, model.predictions(values)))}
    if more.scores:
        scores = model.class_scores(values)
        names = [SCORE] if scores.shape[1] == 1 else [f"{SCORE}_{label}" for label in model.labels]
        columns |= dict(zip(names, map(pa.array, scores.T.copy()), strict=True))
        if THRESHOLD in model.extra:
            columns[THRESHOLD] = pa.array(np.full(len(values), model.threshold))
    if more.probabilities:
        names = [f"{PROBABILITY}_{label}" for label in model.labels]
        columns |= dict(zip(names, map(pa.array, model.probabilities(values).T.copy()), strict=True))
    if kept_columns is not None:
        if both := [name for name in kept_columns.schema.names if name in columns]:
            raise UsageError(
                f"--keep {both[0]}: a column of the predictions has that name; rename it in the data"
            )
        columns = (
            dict(zip(kept_columns.schema.names, map(writable, kept_columns.columns), strict=True)) | columns
        )
    return pa.record_batch(list(columns.values()), names=list(columns))


def _plain(model: Model, predictions: NDArray[Any]) -> Any:
    """Return predictions as columns hold them: whole numbers as such, where all classes are."""
    if is_text(predictions):
        return pa.array(predictions.tolist(), pa.string())  # where there is no row, too
    if predictions.dtype.kind in "bmM":
        return in_common_unit(predictions)
    whole = not model.is_regression and np.all(model.classes_ % 1 == 0)
    return predictions.astype(np.int64) if whole else predictions


@contextmanager
def _writing(output: str | os.PathLike[str]) -> Iterator[_Writer]:
    """Yield a writer for the format that the file's name says."""
    name = os.fspath(output).lower()
    with ExitStack() as stack:
        stream = stack.enter_context(replacing(output))
        if name.endswith(_PARQUET):
            parquet = _Parquet(stream)
            stack.callback(
                parquet.close
            )  # after an error, too: the file is open still, and to be thrown away
            yield parquet
            parquet.flush()
            return
        if name.endswith(_GZIP):  # the same bytes for the same rows, whenever and under whichever name
            stream = stack.enter_context(gzip.GzipFile("", "wb", fileobj=stream, mtime=0))  # type: ignore[assignment]
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        yield _CSV(text, _DELIMITERS[os.path.splitext(name.removesuffix(_GZIP))[1]])
        text.flush()
        text.detach()


class _CSV:
    """Text, with a line of names. What is missing is an empty cell; numbers have all digits."""

    def __init__(self, out: io.TextIOWrapper, delimiter: str) -> None:
        self._writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
        self._names: list[str] | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if self._names is None:
            self._names = batch.schema.names
            for field in batch.schema:
                if not has_text(field.type):
                    raise DataError(
                        f"column {field.name} has type {field.type}, which has no text: write Parquet, or leave "
                        "the column out of --keep"
                    )
            self._writer.writerow(self._names)
        self._writer.writerows(zip(*map(column_texts, batch.columns), strict=True))


def column_texts(column: pa.Array) -> list[str]:
    """Return the values as text, all digits of numbers; "" of what is missing."""
    if types.is_floating(column.type):
        return ["" if value is None else label_text(value) for value in column.to_pylist()]
    words = as_text(column) if column.type == DECIMALS else in_full(decoded(column))
    return ["" if value is None else value for value in words.to_pylist()]


class _Parquet:
    """Row groups of up to _GROUP_ROWS rows; columns have the types that they had first."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._writer: Any = None
        self._held: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        import pyarrow.parquet as pq

        if self._writer is None:
            schema = pa.schema([(field.name, field.type) for field in batch.schema])
            _refuse_unwritable(batch)
            self._writer = pq.ParquetWriter(pa.PythonFile(self._stream, "w"), schema)
        if batch.schema != self._writer.schema:
            batch = _cast(batch, self._writer.schema)
        self._held.append(batch)
        rows, size = sum(each.num_rows for each in self._held), sum(each.nbytes for each in self._held)
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held), row_group_size=_GROUP_ROWS)
            self._held = []

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _refuse_unwritable(batch: pa.RecordBatch) -> None:
    """Raise DataError for a column that no file of Parquet holds."""
    import pyarrow.parquet as pq

    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            pq.write_table(pa.table({name: column}), pa.BufferOutputStream())
        except pa.ArrowException as error:
            raise DataError(
                f"column {name} has type {column.type}, which Parquet does not hold: leave the column out of "
                f"--keep, or write it as text before ({' '.join(str(error).split())})"
            ) from error


def _cast(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        try:
            if types.is_decimal(column.type) and types.is_floating(field.type):
                raise pa.ArrowInvalid("floats lack digits of it")
            columns.append(column.cast(field.type))
        except pa.ArrowException as error:
            raise DataError(
                f"column {field.name} of --keep has type {field.type} in the first rows, and {column.type} later "
                f"({' '.join(str(error).split())}): write CSV, or the column as one type in all files"
            ) from error
    return pa.record_batch(columns, schema=schema)
