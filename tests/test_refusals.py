"""``inspect`` of tables that training refuses: what, in how many rows, where first, and the remedy, which works."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app

N = 60


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def frame(**changed):
    """With some values changed: column -> (rows, value)."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"a": rng.normal(size=N), "b": rng.normal(size=N), "town": ["Oslo", "Lima", "Rome"] * 20}
    )
    table["label"] = np.where(table["a"] > 0, "yes", "no")
    for name, (rows, value) in changed.items():
        table.loc[rows, name] = value
    return table


def saved(table, path):
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_all_that_is_refused_is_told_with_remedies_that_work(suffix, tmp_path):
    table = frame(a=([7, 9], np.inf), b=([3, 4, 5], np.nan), label=([2, 20], None), town=([0], None))
    path = saved(table, tmp_path / f"t{suffix}")
    done = run("inspect", path, "--missing", "refuse", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["rows"] == N
    missing = {each["name"]: each["missing"] for each in told["columns"]}
    assert (missing["a"], missing["b"], missing["label"]) == (0, 3, 2)
    infinite, gap, label = told["refused"]
    assert infinite.startswith("column a: the value is infinite")
    assert f"in 2 rows, first in {path}: row 8: " in infinite
    assert f"column b: the value is missing in 3 rows, first in {path}: row 4: pass --missing zero" in gap
    assert f"column label: the label is missing in 2 rows, first in {path}: row 3: " in label
    shown = run("inspect", path).stdout.replace("\n", " ")
    assert "It cannot be trained on as it is:" in shown
    assert "Values are missing in b: training refuses them" in shown
    refused = run("train", path, "--model", tmp_path / "m")
    assert refused.exit_code == 3
    remedies = ["--exclude", "a", "--missing", "mean", "--missing-label", "drop"]
    assert run("train", path, "--model", tmp_path / "m", *remedies).exit_code == 0
    mended = json.loads(run("inspect", path, *remedies, "--json").stdout)
    assert (mended["refused"], mended["rows"], mended["untrainable"]) == ([], N - 2, "")


def test_rows_that_do_not_count_are_not_refused(tmp_path):
    path = saved(frame(a=([7], np.inf), b=([8], np.inf)), tmp_path / "t.csv")
    told = json.loads(run("inspect", path, "--where", "a < 100", "--json").stdout)
    assert [each.partition(":")[0] for each in told["refused"]] == ["column b"]
    assert "row 9: " in told["refused"][0]


def test_text_among_numbers_is_refused(tmp_path):
    table = frame()
    table["a"] = table["a"].astype(str)
    table.loc[7, "a"] = "n/a?"
    path = saved(table, tmp_path / "t.csv")
    what = (
        r"column a: 'n/a\?' in row 8 of .*t.csv is text among numbers: 59 of 60 different values are numbers; "
        "write a number, or"
    )
    with pytest.raises(llsvm.DataError, match=what):
        llsvm.train(path)
    assert "is text among numbers" in run("inspect", path).stdout.replace("\n", " ")
    assert llsvm.train(path, categorical=["a"]).n_features_in_ == 60 + 1 + 3
    table.loc[7, "a"] = ""
    assert llsvm.train(saved(table, path), missing="mean").n_features_in_ == 2 + 3
    mixed = frame(town=(range(40), "K1A"))
    mixed["town"] += pd.Series(range(N)).astype(str)  # codes of letters and digits
    assert llsvm.train(saved(mixed, path)).n_features_in_ == 2 + N
