"""What ``convert`` writes trains to the same model as what it read, for every pair of formats that hold a table."""

import csv
import datetime as dt
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import llsvm
from llsvm.convert import convert
from llsvm.data import open_source

FROM, TO = ("csv", "jsonl", "parquet", "arrow"), ("parquet", "arrow")
N = 60
ROOM = {"memory_limit": "8GB", "threads": 1}
CELLS = {
    "text": ["a", "b", "c"],
    "code": ["01", "02"],
    "flag": [True, False],
    "day": [f"2024-01-0{k}" for k in range(1, 9)],
    "whole": [1, 2, 3],
    "number": [0.25, -1.5, 7.0],
    "document": ["good film", "bad film", "long good story"],
}


def table(seed, gaps):
    """Columns of each kind; those in ``gaps`` have cells without a value."""
    rng = np.random.default_rng(seed)
    score = np.round(rng.normal(size=N), 3)
    columns = {"score": score.tolist()}
    for name, cells in CELLS.items():
        missing = rng.random(N) < (0.3 if name in gaps else 0)
        picks = rng.integers(0, len(cells), N)
        columns[name] = [None if gap else cells[k] for gap, k in zip(missing, picks, strict=True)]
    columns["y"] = ["p" if s + rng.normal() / 3 > 0 else "q" for s in score]
    return columns


def write(columns, path, kind):
    rows = list(zip(*columns.values(), strict=True))
    if kind == "csv":
        with open(path, "w", newline="") as file:
            out = csv.writer(file)
            out.writerow(columns)
            out.writerows([["" if cell is None else cell for cell in row] for row in rows])
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
    else:
        frame = pd.DataFrame(columns)
        frame["day"] = [None if day is None else dt.date.fromisoformat(day) for day in columns["day"]]
        frame.to_parquet(path, index=False) if kind == "parquet" else frame.to_feather(path)


def answer(path, documents):
    """The model's weights by feature and its predictions, or the refusal without the file's name."""
    more = {"text": ["document"]} if documents else {"exclude": ["document"]}
    try:
        model = llsvm.train(path, label="y", missing="mean", tol=1e-9, **more, **ROOM)
    except llsvm.LLSVMError as error:
        return str(error).replace(str(path), ""), None, None
    return tuple(model.feature_names), np.ravel(model.coef_), list(llsvm.predict(model, path))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("written", TO)
@pytest.mark.parametrize("read", FROM)
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 1000), gaps=st.sets(st.sampled_from(sorted(CELLS))), documents=st.booleans())
@example(seed=1, gaps={"text"}, documents=False)
@example(seed=1, gaps=set(CELLS), documents=True)
def test_what_it_writes_trains_to_the_same_model(tmp_path_factory, read, written, seed, gaps, documents):
    folder = tmp_path_factory.mktemp("pair")
    start, end = folder / f"start.{read}", folder / f"end.{written}"
    write(table(seed, gaps), start, read)
    convert(open_source(start), end)
    names, weights, predictions = answer(start, documents)
    names_after, weights_after, predictions_after = answer(end, documents)
    assert names_after == names
    if weights is not None:
        np.testing.assert_allclose(weights_after, weights, rtol=1e-6, atol=1e-9)
        assert predictions_after == predictions
