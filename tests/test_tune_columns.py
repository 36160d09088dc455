"""Folds of ``llsvm tune`` by a column: whole groups, and splits that go forward in time."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from oracle import rows
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app

QUICK = {"C": (0.01, 1.0), "tol": 1e-6, "threads": 1, "memory_limit": "2GB"}


def write_table(path, X, y, column, name="part"):
    lines = [f"a,b,c,{name},label"]
    lines += [
        ",".join([*map(repr, map(float, row)), str(value), str(label)])
        for row, value, label in zip(X, column, y, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def trained_and_scored(X, y, out, held, C, **options):
    model = llsvm.train(X[~out], y[~out], **{**QUICK, "C": C, **options})
    return llsvm.evaluate(model, X[held], y[held])


@pytest.mark.parametrize("text", [True, False])
def test_rows_of_a_group_are_in_the_same_fold(tmp_path, text):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 12, 240)
    X = np.eye(12)[group] + 0.01 * rng.normal(size=(240, 12))  # a row tells its group,
    y = rng.permutation(np.arange(12) % 2)[group]  # which tells its label, but nothing of another group's
    values = [f"patient {g}" for g in group] if text else group.tolist()
    lines = [",".join(map(str, [*row, value, label])) for row, value, label in zip(X, values, y, strict=True)]
    names = ",".join([f"x{j}" for j in range(12)] + ["part", "label"])
    (tmp_path / "r.csv").write_text("\n".join([names, *lines]) + "\n")
    options = {"C": (1.0, 10.0), "folds": 4, "scale": "none", "threads": 1, "memory_limit": "2GB"}
    whole = llsvm.tune(str(tmp_path / "r.csv"), group="part", **options)
    split = llsvm.tune(str(tmp_path / "r.csv"), exclude=["part"], **options)
    assert split.best_score == 1.0
    assert whole.best_score < 0.7
    assert len(whole.model.feature_names) == 12


def test_what_is_held_out_by_time_comes_after_what_was_trained_on(tmp_path):
    X, y = rows(n=200, d=3, seed=2, noise=0.6)
    when = np.random.default_rng(0).permutation(200) // 2
    texts = [f"2024-01-01T{hour // 60:02}:{hour % 60:02}" for hour in when]
    tables = []
    for values in (when.tolist(), texts):
        data = write_table(tmp_path / "r.csv", X, y, values)
        tables.append(llsvm.tune(data, folds=4, time="part", scale="none", bias=0.0, **QUICK).table)
    assert tables[0] == tables[1]
    for row in tables[0]:
        for fold in range(4):
            out, held = when >= 20 * (fold + 1), when // 20 == fold + 1
            figures = trained_and_scored(X, y, out, held, row["C"], scale="none", bias=0.0)
            assert row["scores"][fold] == pytest.approx(figures["accuracy"], abs=0.026)


@pytest.mark.parametrize("option", ["--group", "--time"])
def test_a_regression_is_split_by_a_column_too(tmp_path, option):
    X, _ = rows(n=120, d=3, seed=2)
    data = write_table(tmp_path / "r.csv", X, X[:, 0] + 0.1 * X[:, 1], [f"p{i // 3:02}" for i in range(120)])
    words = ["tune", data, "--model", str(tmp_path / "m"), "--C", "0.1,1", option, "part", "--json"]
    done = CliRunner().invoke(
        app, [*words, "--loss", "epsilon_insensitive", "--epsilon", "0.01", "--folds", "3", "--score", "r2"]
    )
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert [len(row["scores"]) for row in found["table"]] == [3, 3]
    assert found["best_score"] > 0.9


@pytest.mark.parametrize(
    ("words", "column", "message", "code"),
    [
        (["--group", "part"], ["x"] * 60, "--group part: all rows are of one group", 3),
        (["--group", "part"], list("abc") * 20, "there are 3 groups, too few for 5 folds", 3),
        (["--time", "part"], [1, 2, 3] * 20, "3 different times are too few for 5 splits", 3),
        (["--time", "part"], list(range(60)), "has no row of class", 3),
        (["--group", "part", "--time", "a"], list(range(60)), "two ways to make folds", 2),
        (["--group", "part", "--holdout", "0.2"], list(range(60)), "leave --holdout or --validation out", 2),
        (["--group", "label", "--label", "label"], list(range(60)), "is the column of the labels", 2),
        (["--group", "ward"], list(range(60)), "ward", 3),
    ],
)
def test_what_cannot_be_split_is_a_sentence(tmp_path, words, column, message, code):
    X, _ = rows(n=60, d=3)
    y = (np.arange(60) >= 50).astype(int)  # by time, the first parts have one class
    data = write_table(tmp_path / "r.csv", X, y, column)
    done = CliRunner().invoke(app, ["tune", data, "--model", str(tmp_path / "m"), "--C", "0.1,1", *words])
    assert message in done.stderr
    assert done.exit_code == code
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("option", ["group", "time"])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_folds_by_a_column_are_of_the_rows_that_count(tmp_path, option, suffix):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"a": rng.normal(size=300), "part": np.arange(300) // 10, "n": 1.0 * (np.arange(300) % 7 > 0)}
    )
    frame["label"] = np.where(frame.a + rng.normal(size=300) > 0, "yes", "no")
    frame.loc[::11, "label"] = None
    frame.loc[5:8, "part"] = np.nan
    whole = frame[frame.label.notna() & (frame.n > 0) & frame.part.notna()]
    paths = [str(tmp_path / f"{name}.{suffix}") for name in ("all", "whole")]
    for rows_, path in zip((frame, whole), paths, strict=True):
        rows_.to_csv(path, index=False) if suffix == "csv" else rows_.to_parquet(path, index=False)
    more = {**QUICK, option: "part", "label": "label", "weight": "n", "missing_label": "drop", "rule": "best"}
    found = llsvm.tune(paths[0], where="part is not null", **more)
    wanted = llsvm.tune(paths[1], **more)
    assert [row["scores"] for row in found.table] == [row["scores"] for row in wanted.table]
    with pytest.raises(
        llsvm.DataError, match=r"row 6: column part: the value is missing.*'part is not null'"
    ):
        llsvm.tune(paths[0], **more)


def test_data_without_columns_by_name_have_no_groups(tmp_path):
    (tmp_path / "r.svm").write_text("1 1:1\n-1 1:2\n" * 20)
    words = [
        "tune",
        str(tmp_path / "r.svm"),
        "--model",
        str(tmp_path / "m"),
        "--C",
        "0.1,1",
        "--group",
        "part",
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "--group names a column of a table" in done.stderr


def test_the_plot_has_a_curve_for_each_fold_and_is_refused_before_anything_is_trained(tmp_path):
    X, y = rows(n=200, d=3, seed=2, noise=0.6)
    data = write_table(tmp_path / "r.csv", X, y, np.arange(200))
    words = ["tune", data, "--model", str(tmp_path / "m"), "--C", "0.001..10", "--exclude", "part", "--plot"]
    refused = CliRunner().invoke(app, [*words, str(tmp_path / "scores.txt")])
    assert refused.exit_code == 2
    assert "the name must end in .png, .svg, .pdf" in refused.stderr
    assert not (tmp_path / "m").exists()
    done = CliRunner().invoke(app, [*words, str(tmp_path / "scores.svg"), "-q"])
    assert done.exit_code == 0, done.stderr
    drawn = (tmp_path / "scores.svg").read_text()
    assert "chosen: C =" in drawn
    assert drawn.count("stroke: #808080") >= 5
    once = CliRunner().invoke(app, [*words, str(tmp_path / "once.png"), "-q", "--holdout", "0.2"])
    assert once.exit_code == 0, once.stderr
    assert (tmp_path / "once.png").read_bytes().startswith(b"\x89PNG")


def test_probabilities_of_whole_groups_are_those_of_their_folds(tmp_path):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 12, 240)
    X = np.eye(12)[group] + 0.01 * rng.normal(size=(240, 12))
    y = rng.permutation(np.arange(12) % 2)[
        group
    ]  # a row tells its group, and so its label; another group's none
    names = ",".join([f"x{j}" for j in range(12)] + ["part", "label"])
    lines = [",".join(map(str, [*row, value, label])) for row, value, label in zip(X, group, y, strict=True)]
    (tmp_path / "r.csv").write_text("\n".join([names, *lines]) + "\n")
    options = {"folds": 4, "scale": "none", "probabilities": "platt", **QUICK, "tol": 1e-3}
    whole = llsvm.tune(str(tmp_path / "r.csv"), group="part", **options)
    split = llsvm.tune(str(tmp_path / "r.csv"), exclude=["part"], **options)
    of_truth = [found.model.predict_proba(X)[np.arange(240), y] for found in (whole, split)]
    assert -np.log(of_truth[0]).mean() > 0.5
    assert -np.log(of_truth[1]).mean() < 0.1
    assert whole.details["probabilities"] == "platt"


@pytest.mark.parametrize("option", ["group", "time"])
def test_a_column_that_is_not_there_is_refused_by_the_option_that_names_it(tmp_path, option):
    frame = pd.DataFrame({"x": range(20), "town": list("abcd") * 5, "g": [0, 1] * 10, "label": [0, 1] * 10})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(llsvm.DataError, match=rf"no column 'gg' \({option}\)"):
        llsvm.tune(tmp_path / "t.csv", memory_limit="2GB", **{option: "gg"})
    words = ["tune", str(tmp_path / "t.csv"), f"--{option}", "gg", "--model", str(tmp_path / "m")]
    assert f"no column 'gg' (--{option})" in CliRunner().invoke(app, words).output
    frame[["label"]].to_csv(tmp_path / "t.csv", index=False)  # one column, whose refusal says more
    assert re.search(
        rf"no column 'gg' \(--{option}\).*--delimiter", CliRunner().invoke(app, words).output, re.S
    )


def test_a_group_may_be_named_as_categorical(tmp_path):
    frame = pd.DataFrame(
        {"x": range(20), "town": list("abcd") * 5, "g": [0, 1, 2, 3, 4] * 4, "label": [0, 1] * 10}
    )
    tuned = llsvm.tune(
        frame, label="label", group="g", categorical=("g", "town"), memory_limit="2GB", C=[0.1, 1.0]
    )
    assert tuned.model.feature_names == ("x", "town=a", "town=b", "town=c", "town=d")
