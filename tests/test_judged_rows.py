"""Which rows ``evaluate`` and ``report`` count, and by which weights, whatever the files are."""

import json
import re

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv
from sklearn import metrics
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app

N = 240
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)).astype(np.float32)
Y = (X[:, 0] + RNG.normal(size=N) > 0).astype(int)
W = RNG.integers(0, 5, N) / 2
PARTS = {"part=a": slice(0, 70), "part=b": slice(70, N)}


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def table():
    return pa.table({f"x{j}": X[:, j] for j in range(3)} | {"label": Y, "w": W, "month": np.arange(N) % 12})


@pytest.fixture
def model(tmp_path):
    llsvm.train(table().select(["x0", "x1", "x2", "label"]), tol=0.1, scale="none", output=tmp_path / "m")
    return tmp_path / "m"


def figures(model, rows=slice(None), w=None):
    scores = llsvm.load(model).decision_function(X[rows])
    theirs = {"sample_weight": None if w is None else w[rows]}
    return {
        "rows": len(scores),
        "accuracy": pytest.approx(metrics.accuracy_score(Y[rows], scores > 0, **theirs), rel=1e-9),
        "roc_auc": pytest.approx(metrics.roc_auc_score(Y[rows], scores, **theirs), rel=1e-9),
    }


def told(*words):
    done = call("evaluate", *words, "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    return {name: answer[name] for name in ("rows", "accuracy", "roc_auc")}


def test_where_of_several_files_and_of_partitions(model, tmp_path):
    """A condition may be about the partition's name alone, or leave nothing of a file."""
    for part, rows in PARTS.items():
        (tmp_path / "d" / part).mkdir(parents=True)
        pq.write_table(table()[rows], tmp_path / "d" / part / "t.parquet", row_group_size=50)
        write_csv(table()[rows], tmp_path / f"{part}.csv")
    month = np.arange(N) % 12
    both = [tmp_path / f"{part}.csv" for part in PARTS]
    for data in ([tmp_path / "d"], both):
        assert told(model, *data, "--where", "month < 3") == figures(model, month < 3)
        assert told(model, *data, "--where", "month < 3", "--weight", "w") == figures(model, month < 3, W)
    assert told(model, tmp_path / "d", "--where", 'part == "b"') == figures(model, slice(70, N))
    own = (month >= 6) & (np.arange(N) >= 70)
    assert told(model, tmp_path / "d", "--where", 'part != "a" and month >= 6') == figures(model, own)
    none = call("evaluate", model, tmp_path / "d", "--where", "month > 12")
    assert none.exit_code == 3
    assert "there is no row for which --where 'month > 12' is true" in none.output
    trained = llsvm.train([str(each) for each in both], where="month < 3", exclude=["w", "month"], tol=0.1)
    other = llsvm.train(
        str(tmp_path / "d"), label="label", where="month < 3", features=["x0", "x1", "x2"], tol=0.1
    )
    assert (trained.n_rows, other.n_rows) == ((month < 3).sum(),) * 2
    assert np.array_equal(trained.coef_, other.coef_)


@pytest.mark.parametrize("form", ["h5", "npz", "vw"])
def test_weights_of_files_without_columns(form, tmp_path):
    model, path = tmp_path / "m", tmp_path / f"rows.{form}"
    words = ["--weight", "w"]
    if form == "h5":
        with h5py.File(path, "w") as file:
            file.update({"X": X, "y": Y, "w": W})
    elif form == "npz":
        np.savez(path, X=X, y=Y, w=W)
    else:
        lines = [
            f"{2 * y - 1} {w} | " + " ".join(f"x{j}:{value!r}" for j, value in enumerate(row.tolist()))
            for y, w, row in zip(Y, W, X, strict=True)
        ]
        path.write_text("\n".join(lines) + "\n")
        words = []
    llsvm.train(str(path), weight="w" if words else None, tol=0.1, output=model)
    found = told(model, path, *words)
    names = llsvm.load(model).feature_names
    order = [0, 1, 2] if names is None or form != "vw" else [int(name[-1]) for name in names]
    scores = X[:, order] @ llsvm.load(model).coef_[0].astype(np.float32) + llsvm.load(model).intercept_[0]
    assert found["accuracy"] == pytest.approx(
        metrics.accuracy_score(Y, scores > 0, sample_weight=W), rel=1e-9
    )
    assert found["roc_auc"] == pytest.approx(metrics.roc_auc_score(Y, scores, sample_weight=W), rel=1e-5)


def test_rows_of_svmlight_have_no_weights(tmp_path):
    (tmp_path / "t.svm").write_text("1 1:1 2:3\n0 1:-1\n")
    llsvm.train(str(tmp_path / "t.svm"), output=tmp_path / "m")
    done = call("evaluate", tmp_path / "m", tmp_path / "t.svm", "--weight", "w")
    assert done.exit_code == 2
    assert "read as svmlight, which has no columns to choose from; leave out --label" in done.output
    done = call("evaluate", tmp_path / "m", tmp_path / "t.svm", "--where", "w > 1")
    assert done.exit_code == 2
    assert "svmlight has no columns for --where" in done.output


def test_a_report_counts_the_same_rows_by_the_same_weights(model, tmp_path):
    write_csv(table(), tmp_path / "t.csv")
    words = ["--weight", "w", "--where", "month < 9"]
    done = call("report", model, "--data", tmp_path / "t.csv", *words, "-o", tmp_path / "r.html")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "r.html").read_text()
    shown = dict(re.findall(r'<data value="([^"]*)"[^>]*data-figure="([^"]*)"', text)[::-1])
    shown = {name: float(value) for value, name in shown.items()}
    answer = json.loads(call("evaluate", model, tmp_path / "t.csv", *words, "--json").stdout)
    assert shown["accuracy"] == answer["accuracy"]
    assert shown["weight"] == W[np.arange(N) % 12 < 9].sum()
    assert text == llsvm.report(str(model), str(tmp_path / "t.csv"), weight="w", where="month < 9")
    weighted = llsvm.report(str(model), X, Y, sample_weight=W)
    assert f'data-figure="weight">{W.sum():.6g}<' in weighted
    for option in (["--weight", "w"], ["--where", "month < 3"], ["--format", "csv"]):
        refused = call("report", model, *option, "-o", tmp_path / "none.html")
        assert refused.exit_code == 2
        assert "pass --data too" in refused.output
    with pytest.raises(llsvm.UsageError, match="sample_weight goes with data"):
        llsvm.report(str(model), sample_weight=W)


def test_a_test_file_needs_no_columns_of_where_and_weight(tmp_path):
    """They are of the training data alone."""
    write_csv(table(), tmp_path / "t.csv")
    write_csv(table().drop_columns(["w", "month"]), tmp_path / "test.csv")
    words = ["--where", "month < 6", "--weight", "w", "--features", "x*", "--test", tmp_path / "test.csv"]
    done = call("train", tmp_path / "t.csv", "--model", tmp_path / "m", *words, "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)["test"]
    assert answer["rows"] == N
    assert "weight" not in answer
    alone = json.loads(call("evaluate", tmp_path / "m", tmp_path / "test.csv", "--json").stdout)
    assert answer == alone
