"""The same rows in one piece and in many give the same model: files, batches, folds."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from cells import in_turn

import llsvm
from llsvm.errors import DataError
from llsvm.tuning import folds


@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_folds_of_groups_do_not_depend_on_how_rows_are_cut(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=240), "g": rng.integers(0, 30, 240)})
    frame["g"] = frame.g if kind == "numbers" else "g" + frame.g.astype(str)
    frame["y"] = np.where(frame.x + rng.normal(0, 0.6, 240) > 0, "a", "b")
    for start in range(0, 240, 50):
        frame.iloc[start : start + 50].to_csv(tmp_path / f"{start:03}.csv", index=False)
    found = []
    parts_of_rows = folds._parts_of_rows

    def spy(*args):  # type: ignore[no-untyped-def]
        found.append(parts_of_rows(*args))
        return found[-1]

    monkeypatch.setattr(folds, "_parts_of_rows", spy)
    ways = (frame, lambda: (frame.iloc[i : i + 50] for i in range(0, 240, 50)), str(tmp_path / "*.csv"))
    for data in ways:
        llsvm.tune(data, label="y", C=[0.1, 1], folds=3, group="g")
    assert [len(set(map(tuple, found))), len(found)] == [1, 3]


_ROWS = np.arange(300)
_COLUMNS = {
    "codes": [str(v) for v in np.random.default_rng(1).integers(0, 100, 300)],
    "none, then codes": [None if i < 10 else str(i) for i in _ROWS],
    "none, then dates": [None if i < 10 else f"2024-01-{i % 28 + 1:02}" for i in _ROWS],
    "none, then categories": [None if i < 10 else f"k{i % 4}" for i in _ROWS],
    "truth values, then words": ["true" if i < 10 else ["true", "false", "maybe"][i % 3] for i in _ROWS],
    "numbers, then versions": ["1.0" if i < 10 else ["1.0", "2.0", "2.0.1"][i % 3] for i in _ROWS],
}
# Text in a later CSV file, where the first one has numbers or truth values alone, is refused by its place.
_REFUSED_IN_CSV = ("truth values, then words", "numbers, then versions")
_LABEL_LATE = "labels that the first file lacks"


def _write(frame: pd.DataFrame, format_: str, path: Path) -> None:
    table = pa.Table.from_pandas(frame, _SCHEMA, preserve_index=False)
    if format_ == "csv":
        frame.to_csv(path, index=False)
    elif format_ == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif format_ == "parquet":
        pq.write_table(table, path)
    else:
        feather.write_feather(table, str(path))


_SCHEMA = pa.schema([("x", pa.float64()), ("c", pa.string()), ("y", pa.string())])


@pytest.mark.parametrize(
    ("column", "format_"),
    [
        *in_turn([*_COLUMNS, _LABEL_LATE], ["csv", "jsonl", "parquet", "feather"], 2),
        ("numbers, then versions", "csv"),
    ],
)
def test_many_files_give_the_columns_of_one(tmp_path: Path, format_: str, column: str) -> None:
    x = np.random.default_rng(1).normal(size=300).round(4)
    y = np.where(x > 0, "a", "b").astype(object)
    if column == _LABEL_LATE:
        y[:10] = None
    frame = pd.DataFrame({"x": x, "c": _COLUMNS.get(column, _COLUMNS["codes"]), "y": y})
    _write(frame, format_, tmp_path / f"one.{format_}")
    (tmp_path / "many").mkdir()
    for start in range(0, 300, 10):
        _write(frame.iloc[start : start + 10], format_, tmp_path / "many" / f"{start:03}.{format_}")
    how = {"label": "y", "missing": "zero", "missing_label": "drop"}
    if format_ == "csv" and column in _REFUSED_IN_CSV:
        with pytest.raises(DataError, match="column c"):
            llsvm.train(str(tmp_path / "many"), **how)
        return
    one, many = (llsvm.train(str(tmp_path / data), **how) for data in (f"one.{format_}", "many"))
    assert sorted(one.feature_names) == sorted(many.feature_names)
    assert list(one.classes_) == list(many.classes_)
