"""Rows are counted from 1 in messages, whichever way they come."""

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import llsvm
from llsvm.errors import DataError

ROOM = {"memory_limit": "2GB"}
N, BAD = 40, 11
Y = np.arange(N) % 2


def good():
    return pd.DataFrame({"a": np.arange(N) % 5.0, "b": np.arange(N) % 3.0, "label": Y})


def bad():
    frame = good()
    frame.loc[BAD, "b"] = np.nan
    return frame


def csv(frame, path):
    frame.to_csv(path / "t.csv", index=False)
    return path / "t.csv"


def jsonl(frame, path):
    frame.to_json(path / "t.jsonl", orient="records", lines=True)
    return path / "t.jsonl"


def parquet(frame, path):
    frame.to_parquet(path / "t.parquet")
    return path / "t.parquet"


def hdf5(frame, path):
    with h5py.File(path / "t.h5", "w") as file:
        file["X"], file["y"] = frame[["a", "b"]].to_numpy(), Y
    return path / "t.h5"


def held(frame, path):
    return frame


def arrow(frame, path):
    return pa.table(frame)


DOORS = {f.__name__: f for f in (csv, jsonl, parquet, hdf5, held, arrow)}


@pytest.mark.parametrize("door", DOORS)
def test_a_missing_value_is_named_by_its_row(door, tmp_path):
    def opened(frame):
        return DOORS[door](frame, tmp_path)

    options = {} if door == "hdf5" else {"label": "label"}
    model = llsvm.train(opened(good()), **options, **ROOM)
    data = opened(bad())
    for asked in (
        lambda: llsvm.train(data, **options, **ROOM),
        lambda: llsvm.predict(model, data),
        lambda: llsvm.evaluate(model, data),
    ):
        with pytest.raises(DataError, match=rf"\brow {BAD + 1}\b"):
            asked()


@pytest.mark.parametrize("score", [llsvm.predict, lambda model, X: llsvm.evaluate(model, X, Y)])
def test_rows_of_arrays_without_a_score_are_named_as_those_of_files(score):
    X = good()[["a", "b"]].to_numpy(copy=True)
    model = llsvm.train(X, Y, **ROOM)
    X[BAD, 1] = np.nan
    with pytest.raises(DataError, match=rf"row {BAD + 1} of X has no finite score"):
        score(model, X)


@pytest.mark.parametrize("target", ["soon", None])
def test_labels_are_named_by_their_row(target):
    frame = good().astype({"label": float})
    model = llsvm.train(frame, label="label", loss="huber", **ROOM)
    frame["label"] = [target if i == BAD else "2.5" for i in range(N)]
    for asked in (
        lambda: llsvm.train(frame, label="label", loss="huber", **ROOM),
        lambda: llsvm.evaluate(model, frame, label="label"),
    ):
        with pytest.raises(DataError, match=rf"\brow {BAD + 1}\b"):
            asked()


def test_groups_that_cannot_be_are_named_by_their_row():
    frame = good()
    model = llsvm.train(frame, label="label", **ROOM)
    frame["town"] = ["x" * 300 if i == BAD else "Rome" for i in range(N)]
    with pytest.raises(llsvm.UsageError, match=rf"row {BAD + 1} has a value of 300 characters"):
        llsvm.evaluate(model, frame, by="town")


def test_explained_rows_count_alike():
    frame = good()
    model = llsvm.train(frame, label="label", **ROOM)
    assert [each["row"] for each in llsvm.explain(model, frame)] == list(range(1, N + 1))
