"""Predictions that go on: tables of them, CSV and Parquet, with columns of the data; and what Python hands back."""

import csv
import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from test_labels_memory import cli
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.errors import DataError, UsageError
from llsvm.models.decisions import THRESHOLD
from llsvm.models.model import Model

N = 300


def table(classes: int) -> pa.Table:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, 2))
    label = (np.digitize(x[:, 0] + 0.3 * x[:, 1], [-0.5, 0.5]) if classes == 3 else 1 * (x[:, 0] > 0)) * 10
    return pa.table(
        {
            "id": pa.array([f"{i:06d}" for i in range(N)]),
            "number": pa.array([None if i == 3 else 2**60 + i for i in range(N)]),
            "date": pa.array(np.datetime64("2024-01-01") + np.arange(N)),
            "note": pa.array([f'a "{i}", b' if i % 2 else None for i in range(N)]),
            "a": x[:, 0],
            "b": x[:, 1],
            "label": label,
        }
    )


@pytest.fixture(scope="module", params=[2, 3])
def case(request, tmp_path_factory):
    """(model, its file, a table as Parquet, as CSV)."""
    folder, data = tmp_path_factory.mktemp("tables"), table(request.param)
    pq.write_table(data, folder / "t.parquet", row_group_size=70)
    pacsv.write_csv(data, folder / "t.csv")
    model = llsvm.train(folder / "t.parquet", features=("a", "b"), loss="logistic")
    model.save(folder / "m")
    return model, folder / "m", folder / "t.parquet", folder / "t.csv"


def call(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet"])
def test_a_table_has_what_was_kept_and_what_the_model_says(case, tmp_path, suffix):
    model, path, data, _ = case
    out = tmp_path / f"out{suffix}"
    done = call("predict", path, data, "--output", out, "--keep", "id,n*,date", "--scores", "--probabilities")
    assert done.exit_code == 0, done.output
    X = np.column_stack([pq.read_table(data)[name] for name in ("a", "b")]).astype(np.float32)  # as files are
    several = len(model.classes_) > 2
    scores = np.asarray(model.decision_function(X)).reshape(N, -1)
    names = [f"score_{label}" for label in model.labels] if several else ["score"]
    more = dict(zip(names, scores.T, strict=True))
    more |= dict(zip([f"probability_{c}" for c in model.labels], model.predict_proba(X).T, strict=True))
    expected = ["id", "number", "note", "date", "prediction", *more]
    kept = pq.read_table(data)
    if suffix == ".parquet":
        got = pq.read_table(out)
        assert got.column_names == expected
        assert got.select(["id", "number", "note", "date"]).equals(
            kept.select(["id", "number", "note", "date"])
        )
        assert got["prediction"].to_pylist() == model.predict(X).astype(int).tolist()
        for name, values in more.items():
            assert np.array_equal(got[name].to_numpy(), values)
        return
    with (gzip.open if suffix.endswith(".gz") else open)(out, "rt", newline="") as lines:
        rows = list(csv.reader(lines, delimiter="\t" if suffix == ".tsv" else ","))
    assert rows[0] == expected
    got = dict(zip(expected, zip(*rows[1:], strict=True), strict=True))
    assert list(got["id"]) == kept["id"].to_pylist()
    assert list(got["note"]) == [each or "" for each in kept["note"].to_pylist()]
    assert got["number"][2:5] == (str(2**60 + 2), "", str(2**60 + 4))
    assert got["date"][31] == "2024-02-01"
    assert np.array_equal(np.array(got["prediction"], float), model.predict(X))
    for name, values in more.items():
        assert np.array_equal(np.array(got[name], float), values)


def test_columns_of_csv_come_as_they_are_written(case, tmp_path):
    """A number that is not read for the model loses neither zeros nor digits."""
    _, path, _, data = case
    text = data.read_text().splitlines()
    (tmp_path / "t.csv").write_text("\n".join([text[0], *(line.replace('"', "", 2) for line in text[1:])]))
    out = tmp_path / "out.csv"
    assert call("predict", path, tmp_path / "t.csv", "-o", out, "--keep", "id,number").exit_code == 0
    rows = list(csv.reader(out.open()))
    assert rows[0] == ["id", "number", "prediction"]
    assert rows[1][:2] == ["000000", str(2**60)]
    assert rows[4][:2] == ["000003", ""]


@pytest.mark.parametrize("comma", [False, True])
def test_features_of_csv_come_as_they_are_written_too(tmp_path, comma):
    rows = [
        [
            f"{i:05}",
            "NA" if i == 3 else f"{i * 3 % 7}.50",
            f"{i * 7919:011}",
            f"{i % 24:02}:30",
            "no" if i % 3 else "yes",
        ]
        for i in range(40)
    ]
    rows = [[each.replace(".", ",") if comma else each for each in row] for row in rows]
    lines = [["zip", "amount", "number", "clock", "label"], *rows]
    data, out, more = tmp_path / "t.csv", tmp_path / "out.csv", tmp_path / "more.csv"
    data.write_text("".join(";".join(line) + "\n" for line in lines))
    model = llsvm.train(data, missing="mean", output=tmp_path / "m")
    assert model.n_features_in_ == 4
    assert call("predict", tmp_path / "m", data, "-o", out, "--keep", "*", "--scores").exit_code == 0
    assert call("predict", tmp_path / "m", data, "-o", more, "--scores").exit_code == 0
    got = list(csv.reader(out.open()))
    assert [line[:5] for line in got] == lines
    assert [line[5:] for line in got] == list(csv.reader(more.open()))


@pytest.mark.parametrize("features", ["x", "x,clock,moment,day,user.day"])
def test_dates_and_times_of_json_lines_come_as_they_are_written(tmp_path, features):
    """Features or not, also of objects; the predictions are those of a run that hands nothing on."""
    moments = ["2024-01-31T12:00:00+02:00", "2024-02-01 12:00:00Z"]
    clocks = ["12:00", "07:30", "08:15:30"]
    rows = [
        {"x": k % 7, "clock": clocks[k % 3], "moment": moments[k % 2], "day": f"2024-01-{k % 9 + 1:02}"}
        for k in range(40)
    ]
    rows = [row | {"user": {"day": row["day"]}, "y": f"{k % 2 + 8:02}:00"} for k, row in enumerate(rows)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    llsvm.train(tmp_path / "t.jsonl", label="y", features=features.split(","), output=tmp_path / "m")
    names = "clock,moment,day,user.day,y"
    out, bare = tmp_path / "out.csv", tmp_path / "bare.csv"
    assert call("predict", tmp_path / "m", tmp_path / "t.jsonl", "-o", out, "--keep", names).exit_code == 0
    assert call("predict", tmp_path / "m", tmp_path / "t.jsonl", "-o", bare).exit_code == 0
    got = list(csv.reader(out.open()))
    expected = [[row["clock"], row["moment"], row["day"], row["day"], row["y"]] for row in rows]
    assert [line[:5] for line in got] == [names.split(","), *expected]
    assert [line[5:] for line in got] == list(csv.reader(bare.open()))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_what_folders_say_is_kept_and_groups_rows(tmp_path, kind):
    """As a feature, and where the model does not know it."""
    for month in (1, 2):
        rows = pd.DataFrame({"x": [1.5, 2.5, 3.5, month], "label": [0, 0, 1, 1]})
        path = tmp_path / "d" / f"month={month}" / f"t.{kind}"
        path.parent.mkdir(parents=True)
        if kind == "csv":
            rows.to_csv(path, index=False)
        elif kind == "jsonl":
            rows.to_json(path, orient="records", lines=True)
        else:
            rows.to_parquet(path, index=False)
    data, out = tmp_path / "d", tmp_path / "out.csv"
    for features in ("x,month", "x"):
        llsvm.train(data, features=features.split(","), output=tmp_path / "m")
        assert call("predict", tmp_path / "m", data, "-o", out, "--keep", "month").exit_code == 0
        assert [row[0] for row in csv.reader(out.open())] == ["month", *"11112222"]
        groups = llsvm.evaluate(tmp_path / "m", data, by="month")["groups"]
        assert [(str(each["group"]), each["rows"]) for each in groups] == [("1", 4), ("2", 4)]


def test_rows_of_text_come_with_what_was_kept(tmp_path):
    """Blocks of documents are put together anew, wherever a file's batches end."""
    data = table(2)
    pq.write_table(
        data.append_column("text", [[f"word{i % 7} other" for i in range(N)]]), tmp_path / "t.parquet"
    )
    model = llsvm.train(tmp_path / "t.parquet", text=["text"], features=("text", "a"), tol=0.1)
    assert llsvm.write_predictions(model, tmp_path / "t.parquet", tmp_path / "o.csv", keep=["id"]) == N
    assert [row[0] for row in csv.reader((tmp_path / "o.csv").open())] == ["id", *data["id"].to_pylist()]


def test_a_threshold_decides_and_is_shown(case, tmp_path):
    model, _, data, _ = case
    if len(model.classes_) > 2:
        return
    rule = {"value": 0.7, "rule": "f1", "n_rows": 9, "precision": 1.0, "recall": 1.0, "f1": 1.0}
    with_threshold = Model(
        model.coef_,
        model.intercept_,
        model.classes_,
        settings=model.settings,
        feature_names=model.feature_names,
        extra={**model.extra, THRESHOLD: rule},
    )
    assert llsvm.write_predictions(with_threshold, data, tmp_path / "o.parquet", scores=True) == N
    got = pq.read_table(tmp_path / "o.parquet")
    assert set(got["threshold"].to_pylist()) == {0.7}
    above = got["score"].to_numpy() > 0.7
    assert np.array_equal(got["prediction"].to_numpy(), np.where(above, *model.classes_[::-1].astype(int)))
    assert np.any((got["score"].to_numpy() > 0) & ~above)


def test_frames_and_arrays_as_tables(case, tmp_path):
    model, _, data, _ = case
    frame = pq.read_table(data)
    assert llsvm.write_predictions(model, frame, tmp_path / "f.parquet", keep=["id"]) == N
    assert llsvm.write_predictions(model, data, tmp_path / "g.parquet", keep=["id"]) == N
    assert pq.read_table(tmp_path / "f.parquet").equals(pq.read_table(tmp_path / "g.parquet"))
    X = np.column_stack([frame[name] for name in ("a", "b")])
    assert llsvm.write_predictions(model, X, tmp_path / "x.csv") == N
    assert (tmp_path / "x.csv").read_text().startswith("prediction\n")
    with pytest.raises(UsageError, match="keep names columns, and X has none"):
        llsvm.write_predictions(model, X, tmp_path / "y.csv", keep=["id"])


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--keep", "id"], 2, "--keep goes with a table of predictions"),
        (["--output", "OUT.csv", "--keep", "nmae"], 3, "there is no column 'nmae' (--keep)"),
        (["--scores", "--probabilities"], 2, "choose one, or name an --output"),
        (["--output", "OUT.csv", "--keep", "list"], 3, "column list has type list<"),
        (["--output", "OUT.csv", "--keep", "prediction"], 2, "a column of the predictions has that name"),
    ],
)
def test_what_is_refused_leaves_no_file(case, tmp_path, options, code, says):
    _, path, data, _ = case
    more = (
        pq.read_table(data).append_column("list", pa.array([[1]] * N)).append_column("prediction", [[0] * N])
    )
    pq.write_table(more, tmp_path / "t.parquet")
    done = call(
        "predict", path, tmp_path / "t.parquet", *[w.replace("OUT", f"{tmp_path}/o") for w in options]
    )
    assert done.exit_code == code
    assert says in done.output
    assert sorted(each.name for each in tmp_path.iterdir()) == ["t.parquet"]


@pytest.mark.parametrize(
    "name",
    [
        "o.csv.zst",
        "o.CSV.BZ2",
        "o.tsv.xz",
        "o.txt.gz",
        "o.lz4",
        "o.jsonl",
        "o.json",
        "o.arrow",
        "o.xlsx",
        "o.parquet.gz",
    ],
)
def test_lines_of_text_are_not_written_under_the_name_of_another_format(case, tmp_path, name):
    _, path, data, _ = case
    done = call("predict", path, data, "--output", tmp_path / name)
    assert done.exit_code == 2
    assert f"{name}: what is written here are lines of plain text" in done.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("e.csv", [], 0),
        ("e.txt", [], 0),
        ("e.jsonl", ["--json"], 0),
        ("e.jsonl", [], 2),
        ("e.csv.gz", [], 2),
        ("e.parquet", [], 2),
        ("e.jsonl.gz", ["--json"], 2),
    ],
)
def test_explanations_too(case, tmp_path, name, options, code):
    _, path, data, _ = case
    done = call("predict", path, data, "--explain", "--output", tmp_path / name, *options)
    assert done.exit_code == code, done.output


def test_rows_without_columns_keep_none(case, tmp_path):
    (tmp_path / "t.svm").write_text("1 1:1 2:3\n0 1:-1\n")
    model = Model(np.ones((1, 2)), np.zeros(1), np.array([0.0, 1.0]))
    model.save(tmp_path / "m")
    done = call("predict", tmp_path / "m", tmp_path / "t.svm", "--output", tmp_path / "o.csv", "--keep", "id")
    assert done.exit_code == 2
    assert "svmlight has no columns for --keep" in done.output
    assert call("predict", tmp_path / "m", tmp_path / "t.svm", "--output", tmp_path / "o.csv").exit_code == 0
    assert (tmp_path / "o.csv").read_text() == "prediction\n1\n0\n"
    with pytest.raises(UsageError, match="a table of predictions is CSV or Parquet"):
        llsvm.write_predictions(model, tmp_path / "t.svm", tmp_path / "o.txt")


def test_files_of_other_types_are_cast_or_refused(case, tmp_path):
    model, _, data, _ = case
    whole = pq.read_table(data)
    pq.write_table(whole.set_column(0, "id", [[*range(N)]]), tmp_path / "1.parquet")
    pq.write_table(whole.set_column(0, "id", [pa.array(range(N), pa.int16())]), tmp_path / "2.parquet")
    files = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    assert llsvm.write_predictions(model, files, tmp_path / "o.parquet", keep=["id"]) == 2 * N
    assert pq.read_table(tmp_path / "o.parquet")["id"].to_pylist() == 2 * [*range(N)]
    pq.write_table(whole.set_column(0, "id", [["x"] * N]), tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"column .* of keep has type .* in the first rows, and .* later"):
        llsvm.write_predictions(model, files, tmp_path / "o.parquet", keep=["id"])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_get_back_what_they_are(case, library):
    model, _, data, _ = case
    made = pytest.importorskip(library)
    columns = {name: pq.read_table(data)[name].to_numpy() for name in ("a", "b")}
    frame = made.DataFrame(columns, **({"index": np.arange(N)[::-1]} if library == "pandas" else {}))
    labels, shares = llsvm.predict(model, frame), llsvm.predict(model, frame, probabilities=True)
    assert type(labels) is made.Series
    assert labels.name == "prediction"
    assert list(shares.columns) == model.labels
    assert np.array_equal(labels.to_numpy(), model.predict(frame))
    assert np.array_equal(shares.to_numpy(), model.predict_proba(frame))
    if library == "pandas":
        assert labels.index.equals(frame.index)
        assert shares.index.equals(frame.index)


@pytest.mark.slow
def test_many_rows_go_by_under_the_limit(tmp_path):
    """100 MB of text that is kept, which would not fit beside the rest."""
    n = 1_000_000
    rng = np.random.default_rng(0)
    with pq.ParquetWriter(
        tmp_path / "t.parquet", pa.schema([("a", "f8"), ("b", "f8"), ("id", pa.string())])
    ) as writer:
        for start in range(0, n, 100_000):
            ids = pa.array([f"{i:0100d}" for i in range(start, start + 100_000)])
            x = rng.standard_normal((2, 100_000))
            writer.write_table(pa.table({"a": x[0], "b": x[1], "id": ids}), row_group_size=50_000)
    Model(np.ones((1, 2)), np.zeros(1), np.array([0.0, 1.0]), feature_names=("a", "b")).save(tmp_path / "m")
    limit = 325_000_000
    for suffix in ("parquet", "csv"):
        words = ["predict", tmp_path / "m", tmp_path / "t.parquet", "--keep", "id", "--scores"]
        words += ["--output", tmp_path / f"o.{suffix}", "--memory-limit", limit]
        status, errors, peak = cli(*words)
        assert status == 0, errors
        assert peak < limit
    assert pq.read_metadata(tmp_path / "o.parquet").num_rows == n


@pytest.mark.parametrize("loss", ["hinge", "least-squares"])
@pytest.mark.parametrize(
    "labels", [("01", "27.50", "1234567890123457.52"), ("True", "false"), ("1", "NA", "")]
)
def test_labels_of_csv_are_kept_as_they_are_written(loss, labels, tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{i % 7},{i % 2}\n" for i in range(60)))
    model = llsvm.train(tmp_path / "t.csv", label="y", loss=loss, tol=0.1)
    written = [labels[i % len(labels)] for i in range(60)]
    (tmp_path / "new.csv").write_text(
        "a,y\n" + "".join(f"{i % 7},{word}\n" for i, word in enumerate(written))
    )
    for name in ("out.csv", "out.parquet"):
        assert llsvm.write_predictions(model, tmp_path / "new.csv", tmp_path / name, keep=["y"]) == 60
    assert pq.read_table(tmp_path / "out.parquet")["y"].to_pylist() == written
    assert [row["y"] for row in csv.DictReader((tmp_path / "out.csv").open())] == written
