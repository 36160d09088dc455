"""Random tables by every way in: the same columns, the same notes on them, the same rows; or refused by all."""

import datetime as dt
import json
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import dense

from llsvm.data import open_source
from llsvm.errors import LLSVMError


def jsonl(rows, path):
    with open(path, "w") as file:
        for row in rows.to_pylist():
            cells = {name: v.isoformat() if isinstance(v, dt.date) else v for name, v in row.items()}
            file.write(json.dumps(cells) + "\n")


FILES = {
    "csv": pacsv.write_csv,
    "jsonl": jsonl,
    "parquet": lambda rows, path: pq.write_table(rows, path, row_group_size=7),
    "arrow": lambda rows, path: feather.write_feather(rows, path, compression="uncompressed", chunksize=5),
}


def polars(rows):
    return pytest.importorskip("polars").from_arrow(rows)


FRAMES = {
    "table": lambda rows: rows,
    "batches": lambda rows: rows.to_batches(max_chunksize=4),
    "pandas": lambda rows: rows.to_pandas(),
    "polars": polars,
    "lazy": lambda rows: polars(rows).lazy(),
}

WORDS = ["red", "green", "blue", "a b", "O'Neill", "ü", "x,y"]
DAYS = [dt.date(2023, 1, 1) + dt.timedelta(k) for k in (0, 1, 30, 365, -400)]
COLUMNS = {
    "whole": (st.integers(-1000, 1000), pa.int64()),
    "real": (st.floats(-1e6, 1e6, width=32).map(lambda x: round(x, 3)), pa.float64()),
    "flag": (st.booleans(), pa.bool_()),
    "word": (st.sampled_from(WORDS), pa.string()),
    "day": (st.sampled_from(DAYS), pa.date32()),
    "time": (
        st.sampled_from(DAYS).map(lambda day: dt.datetime(*day.timetuple()[:3], 7, 30)),
        pa.timestamp("us"),
    ),
}
LABELS = {"whole": st.integers(-2, 2), "flag": st.booleans(), "word": st.sampled_from(WORDS[:3])}
TYPES = {name: type_ for name, (_, type_) in COLUMNS.items()}


@st.composite
def tables(draw):
    """Columns of every kind, some with missing cells, a label and perhaps weights; and the options to read it."""
    n = draw(st.integers(2, 25))

    def cells(values):
        return draw(st.lists(values, min_size=n, max_size=n))

    columns, missing = {}, draw(st.sampled_from(["refuse", "zero", "mean"]))
    for place, kind in enumerate(draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=4))):
        values, type_ = COLUMNS[kind]
        gaps = draw(st.booleans())
        found = cells(st.none() | values if gaps else values)
        found[draw(st.integers(0, n - 1))] = draw(values)  # without any, text files do not tell what it holds
        columns[f"{kind}{place}"] = pa.array(found, type_)
    label = draw(st.sampled_from(list(LABELS)))
    columns["y"] = pa.array(cells(LABELS[label]), TYPES[label])
    options = {"label": "y", "missing": missing}
    names = [name for name in columns if name.startswith("whole")]
    options["categorical"] = draw(st.lists(st.sampled_from(names), max_size=1)) if names else []
    options["exclude"] = (
        draw(st.lists(st.sampled_from(list(columns)[:-1]), max_size=1)) if len(columns) > 2 else []
    )
    if draw(st.booleans()):
        columns["w"] = pa.array(cells(st.sampled_from([0.0, 0.5, 1.0, 2.0])))
        options["weight"] = "w"
    return pa.table(columns), options


def facts_of(data, options, max_bytes):
    """What a source tells of a table: columns and their kinds, rows as numbers, labels, weights."""
    source = open_source(data, options=options)
    blocks = list(source.blocks(max_bytes))
    info = source.info()
    n, d = sum(block.n_rows for block in blocks), info.n_features
    X, y, weight = np.zeros((n, d), np.float32), [], []
    start = 0
    for block in blocks:
        assert block.rows.tolist() == list(range(start, start + block.n_rows))
        rows = dense(block.X)
        X[start : start + block.n_rows, : rows.shape[1]] = rows
        start += block.n_rows
        y += block.y.tolist()
        weight += np.ones(block.n_rows).tolist() if block.weight is None else block.weight.tolist()
    names = info.encoder.names_of(range(d))
    kinds = [(column.name, column.kind) for column in info.encoder.columns]
    notes = [note.replace(info.name, "ROWS") for note in info.notes]
    facts = {"rows": info.n_rows, "names": names, "kinds": kinds, "y": y, "weight": weight, "notes": notes}
    return facts, X


@given(tables(), st.sampled_from([1 << 9, 1 << 20]))
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
def test_columns_and_rows_are_the_same_by_every_way_in(table, max_bytes):
    rows, options = table
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        for door in [*FILES, *FRAMES]:
            if door in FILES:
                data = str(Path(folder) / f"rows.{door}")
                FILES[door](rows, data)
            else:
                data = FRAMES[door](rows)
            try:
                answers[door] = facts_of(data, options, max_bytes)
            except LLSVMError as error:
                answers[door] = error
    first = answers["parquet"]
    for door, answer in answers.items():
        if isinstance(first, LLSVMError):
            assert type(answer) is type(first), f"parquet: {first}; {door}: {answer}"
            continue
        assert not isinstance(answer, LLSVMError), f"{door}: {answer}"
        assert answer[0] == first[0], door
        np.testing.assert_array_equal(answer[1], first[1], err_msg=door)
