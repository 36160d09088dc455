"""Patterns of --text among other options of columns."""

import pandas as pd
import pytest

import llsvm


@pytest.mark.parametrize("door", ["csv", "parquet", "jsonl", "frame"])
def test_patterns_of_text_are_among_the_features_that_are_named(tmp_path, door):
    columns = {"title": ["good film", "bad film"] * 10, "body": ["nice", "awful"] * 10, "n": range(20)}
    frame = pd.DataFrame({**columns, "y": ["p", "q"] * 10})
    path = tmp_path / f"rows.{door}"
    if door == "csv":
        frame.to_csv(path, index=False)
    elif door == "parquet":
        frame.to_parquet(path)
    elif door == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    data = frame if door == "frame" else path
    model = llsvm.train(data, label="y", text=["*"], features=["title", "body"], memory_limit="8GB")
    assert {name.split(":")[0] for name in model.feature_names} == {"title", "body"}
    assert llsvm.evaluate(model, frame)["accuracy"] == 1.0
