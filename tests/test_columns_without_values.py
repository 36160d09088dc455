"""A column without a value, in the first part of the data or in later ones, takes its type from the others, or from
the model, whatever type its reader gave it; and a dataset of several files does not make other values of theirs."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from cells import in_turn, pairwise

import llsvm
from llsvm.data.arrow import ArrowSource
from llsvm.data.table_files import TableFiles

ROOM = {"memory_limit": "8GB", "threads": 1}
PLAIN = {"label": "y", "missing": "zero", **ROOM}
NOTHING = {
    "objects": lambda n: pd.Series([None] * n, dtype=object),
    "floats": lambda n: pd.Series([np.nan] * n),
    "nullable": lambda n: pd.Series([pd.NA] * n, dtype="Int64"),
}
VALUES = {
    "numbers": [7, 9, 8, 10],
    "text": ["Oslo", "Lima", "Oslo", "Rome"],
    "days": [*pd.date_range("2024", periods=4)],
}
DOORS = ["list", "iterator", "callable", "readers", "parquet", "feather", "csv", "jsonl", "polars"]


def frame(k):
    return pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "k": k, "y": list("njnj")})


def given(frames, door, folder):
    if door in ("list", "iterator", "callable"):
        return {"list": frames, "iterator": iter(frames), "callable": lambda: iter(frames)}[door]
    if door == "polars":  # where a file has nothing its CSV reader has text
        some = [each.assign(k=each.k.astype(object)) if each.k.isna().all() else each for each in frames]
        made = [pl.from_pandas(each) for each in some]
        return [
            each.with_columns(k=pl.lit(None, pl.String)) if each["k"].is_null().all() else each
            for each in made
        ]
    if door == "readers":
        tables = [pa.Table.from_pandas(each, preserve_index=False) for each in frames]
        return iter([batch for table in tables for batch in table.to_batches()])
    paths = [folder / f"{number}.{door}" for number in range(len(frames))]
    for each, path in zip(frames, paths, strict=True):
        if door in ("parquet", "feather"):
            (each.to_parquet if door == "parquet" else each.to_feather)(path)
        elif door == "csv":
            each.to_csv(path, index=False)
        else:
            each.to_json(path, orient="records", lines=True, date_format="iso", date_unit="s")
    return paths


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("door", "values", "nothing"), pairwise(DOORS, VALUES, NOTHING))
def test_the_part_that_has_values_types_the_column(tmp_path, door, values, nothing):
    full, empty = frame(VALUES[values]), frame(NOTHING[nothing](4))
    wanted = llsvm.train([full, empty], **PLAIN).feature_names
    model = llsvm.train(given([empty, full], door, tmp_path), **PLAIN)
    assert set(model.feature_names) == set(wanted)
    assert len(wanted) == (4 if values == "text" else 2)
    if values == "days" and nothing == "nullable" and door in ("parquet", "feather"):
        with pytest.raises(llsvm.DataError, match="column k has type int64"):
            llsvm.predict(model, given([empty], door, tmp_path))
        return
    assert len(llsvm.predict(model, given([empty], door, tmp_path))) == 4


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("door", "nothing"), in_turn(DOORS, NOTHING, 2))
def test_documents_that_are_all_empty(tmp_path, door, nothing):
    """Scored, and where training begins with them."""
    full, empty = frame(["good film", "bad film", "good", "bad"]), frame(NOTHING[nothing](4))
    if door in ("parquet", "feather") and nothing == "nullable":
        with pytest.raises(
            llsvm.DataError, match="column k has type int64, but the model was trained on text"
        ):
            llsvm.predict(llsvm.train([full], label="y", text=["k"], **ROOM), given([empty], door, tmp_path))
        return
    options = {"label": "y", "text": ["k"], **ROOM}
    model = llsvm.train([full], **options)
    expected = llsvm.predict(model, [empty.assign(k="")])
    np.testing.assert_array_equal(llsvm.predict(model, given([empty], door, tmp_path)), expected)
    if door not in ("iterator", "readers"):  # which are read once, and hash their text
        both = llsvm.train(given([empty, full], door, tmp_path), **options)
        assert set(both.feature_names) == set(model.feature_names)
    fitted = llsvm.LLSVMClassifier(text=["k"], memory_limit="8GB").fit(full[["x", "k"]], full.y)
    np.testing.assert_array_equal(
        fitted.predict(empty[["x", "k"]]), fitted.predict(empty[["x", "k"]].assign(k=""))
    )


def test_numbers_are_no_documents_in_a_later_row(tmp_path):
    path = tmp_path / "rows.parquet"
    frame([np.nan, np.nan, 1.5, np.nan]).to_parquet(path)
    model = llsvm.train(frame(["good film", "bad film", "good", "bad"]), label="y", text=["k"], **ROOM)
    with pytest.raises(
        llsvm.DataError, match="row 3: column k has type double, which is no text; write it as text"
    ):
        llsvm.predict(model, path)


@pytest.mark.parametrize(
    ("first", "later", "refused"),
    [
        ([True, False, True, False], [0, 1, 2, 2], True),
        (["True", "False"] * 2, [True, False, True, False], True),
        ([1, 2, 3, 4], [0.5, 2, 1, 3], True),
        ([1, 2, 3, 4], ["03", "3", "1", "2"], True),
        ([1.5, 2, 3, 4], [1, 2, 3, 4], False),
        ([None] * 4, [None] * 4, False),
    ],
)
def test_files_of_a_dataset_whose_values_it_would_change_are_refused(tmp_path, first, later, refused):
    for number, values in enumerate((first, later)):
        pq.write_table(
            pa.table({"x": np.arange(4.0), "k": values, "y": [0, 1, 0, 1]}), tmp_path / f"{number}.parquet"
        )
    data = ds.dataset([tmp_path / "0.parquet", tmp_path / "1.parquet"])
    if refused:
        with pytest.raises(
            llsvm.DataError, match=r"1.parquet: column k has type .* in the dataset: its values would"
        ):
            llsvm.train(data, **PLAIN)
        assert llsvm.train(data, exclude=["k"], **PLAIN).feature_names == ("x",)
    else:
        assert llsvm.train(data, **PLAIN).feature_names == ("x", "k")


def test_a_blank_file_among_json_lines_has_no_column(tmp_path, recwarn):
    """As pandas writes a frame without rows."""
    paths = [tmp_path / "0.jsonl", tmp_path / "1.jsonl"]
    paths[0].write_text("".join(json.dumps({"x": i, "y": i % 2}) + "\n" for i in range(6)))
    paths[1].write_text("\n")
    assert llsvm.train(paths, label="y", **ROOM).n_rows == 6
    assert not [each for each in recwarn if "left out" in str(each.message)]


@pytest.mark.parametrize("room", [True, False])
def test_of_an_arrow_file_all_rows_tell_which_columns_have_no_values(tmp_path, monkeypatch, room):
    """And none where there is no room for a batch."""
    paths, n = [tmp_path / name for name in ("a.arrow", "b.arrow")], 100
    empty = pa.table({"x": np.arange(n) % 5.0, "k": pa.nulls(n, pa.float64()), "y": ["n", "j"] * (n // 2)})
    feather.write_feather(empty, paths[0], chunksize=1)
    feather.write_feather(empty.set_column(1, "k", pa.array(["a", "b"] * (n // 2))), paths[1])
    asked, batch = [], ArrowSource._batch
    monkeypatch.setattr(ArrowSource, "_batch", lambda *how: asked.append(how[3]) or batch(*how))
    monkeypatch.setattr("llsvm.data.arrow.has_room", lambda nbytes: room)
    source = ArrowSource.__new__(ArrowSource)
    TableFiles.__init__(source, list(map(str, paths)), ())
    source.bytes_read = 0
    assert source._without_values() == ({"k"} if room else set())
    assert n * room <= len(asked) <= n * room + 1


def test_a_column_of_text_without_values_may_be_hashed(tmp_path):
    path, n = tmp_path / "data.parquet", 40
    columns = {
        "y": list("nj") * (n // 2),
        "k": pa.array([None] * n, pa.string()),
        "shop": [*"abcd"] * (n // 4),
    }
    pq.write_table(pa.table(columns), path)
    model = llsvm.train(path, hash_bits=4, **PLAIN)
    assert llsvm.predict(model, path).shape == (n,)
