"""``evaluate --by COLUMN``: scikit-learn's figures of each group of rows, in memory and not, weighted and not."""

import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv
from sklearn import metrics
from test_labels_memory import cli
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.errors import UsageError
from llsvm.scoring.ranking import SpoolFile

N = 900
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)).astype(np.float32).astype(float)  # as files are read
HOME = RNG.choice(["east", "north", "", "7"], N)  # "" is missing
WEIGHT = RNG.integers(0, 5, N) / 4
COLUMNS = {f"x{j}": X[:, j] for j in range(3)} | {"w": WEIGHT, "home": HOME}


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def labels(k):
    return np.digitize(X[:, 0] + RNG.normal(size=N), np.linspace(-1, 1, k - 1))


def trained(y, **options):
    return llsvm.train(
        pa.table(COLUMNS | {"label": y}).select(["x0", "x1", "x2", "label"]), tol=0.01, **options
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [2, 3])
def test_figures_of_groups_are_scikit_learns(k, weighted, tmp_path, monkeypatch):
    """Scores go to a file, in chunks of a few rows."""
    monkeypatch.setattr("llsvm.scoring.measure.SpoolFile", lambda: SpoolFile(2000))
    y = labels(k)
    model = trained(y, loss="logistic")
    write_csv(pa.table(COLUMNS | {"label": y}), tmp_path / "t.csv")
    weight = {"weight": "w"} if weighted else {}
    answer = llsvm.evaluate(model, tmp_path / "t.csv", label="label", by="home", **weight)
    whole = llsvm.evaluate(model, tmp_path / "t.csv", label="label", **weight)
    assert {name: value for name, value in answer.items() if name not in ("by", "groups")} == whole
    assert [each["group"] for each in answer["groups"]] == ["7", "east", "north", None]
    assert answer["by"] == "home"
    told, p, scores = model.predict(X), model.predict_proba(X), model.decision_function(X)
    for each in answer["groups"]:
        own = (each["group"] or "") == HOME
        w = WEIGHT[own] if weighted else None
        theirs = {"y_true": y[own], "y_pred": told[own], "sample_weight": w}
        assert each["rows"] == own.sum()
        assert each.get("weight") == (w.sum() if weighted else None)
        precision, recall, f1, support = metrics.precision_recall_fscore_support(**theirs, zero_division=0)
        found = [[c[name] for c in each["classes"]] for name in ("precision", "recall", "f1", "support")]
        assert np.array(found) == pytest.approx(np.array([precision, recall, f1, support]), rel=1e-9)
        expected = {
            "accuracy": metrics.accuracy_score(**theirs),
            "macro_f1": f1.mean(),
            "balanced_accuracy": metrics.balanced_accuracy_score(**theirs),
            "matthews_corrcoef": metrics.matthews_corrcoef(**theirs),
            "log_loss": metrics.log_loss(y[own], p[own], sample_weight=w),
        }
        if k == 2:
            expected["roc_auc"] = metrics.roc_auc_score(y[own], scores[own], sample_weight=w)
            expected["average_precision"] = metrics.average_precision_score(
                y[own], scores[own], sample_weight=w
            )
            expected["brier_score"] = metrics.brier_score_loss(y[own], p[own, 1], sample_weight=w)
        assert {name: each[name] for name in expected} == pytest.approx(expected, rel=1e-9)
        assert each["confusion"]["counts"] == pytest.approx(metrics.confusion_matrix(**theirs))


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_of_a_regression(weighted, tmp_path):
    y = X[:, 0] + RNG.normal(size=N)
    model = trained(y, loss="epsilon_insensitive")
    pq.write_table(pa.table(COLUMNS | {"label": y}), tmp_path / "t.parquet")
    answer = llsvm.evaluate(
        model, tmp_path / "t.parquet", label="label", by="home", weight="w" if weighted else None
    )
    told = model.predict(X)
    for each in answer["groups"]:
        own = (each["group"] or "") == HOME
        w = WEIGHT[own] if weighted else None
        expected = {
            "r2": metrics.r2_score(y[own], told[own], sample_weight=w),
            "mean_absolute_error": metrics.mean_absolute_error(y[own], told[own], sample_weight=w),
            "mean_squared_error": metrics.mean_squared_error(y[own], told[own], sample_weight=w),
        }
        assert {name: each[name] for name in expected} == pytest.approx(expected, rel=1e-9)


def test_any_column_can_group_whatever_else_it_is(tmp_path):
    """A feature, the label, a partition, numbers in their order; of files and frames."""
    y = labels(2)
    model = trained(y)
    number = RNG.choice([2.0, 10.0, -1.0, np.nan], N)
    table = pa.table(COLUMNS | {"label": y, "number": number, "flag": number > 3})
    for place, rows in (("part=a", slice(0, 300)), ("part=b", slice(300, N))):
        (tmp_path / place).mkdir()
        pq.write_table(table[rows], tmp_path / place / "t.parquet")
    for data in (tmp_path, table.to_pandas().assign(part=["a"] * 300 + ["b"] * 600)):
        by = {
            name: llsvm.evaluate(model, data, by=name)["groups"]
            for name in ("number", "part", "label", "flag")
        }
        assert [each["group"] for each in by["number"]] == ["-1", "2", "10", None]
        assert [(each["group"], each["rows"]) for each in by["part"]] == [("a", 300), ("b", 600)]
        assert [each["group"] for each in by["label"]] == ["0", "1"]
        assert [each["group"] for each in by["flag"]] == ["false", "true"]
        assert by["number"][0]["accuracy"] == np.mean(model.predict(X[number == -1]) == y[number == -1])
        assert by["label"][0]["balanced_accuracy"] == by["label"][0]["accuracy"]
    frame = table.to_pandas()
    of_arrays = llsvm.evaluate(model, frame.drop(columns="label"), y, WEIGHT, by="home")
    assert of_arrays["groups"] == llsvm.evaluate(model, frame, weight="w", by="home")["groups"]
    none = np.where(HOME == "east", 0, WEIGHT)
    weightless = llsvm.evaluate(model, frame.drop(columns="label"), y, none, by="home")["groups"][1]
    assert weightless == {"group": "east", "rows": (HOME == "east").sum(), "weight": 0.0}


@pytest.mark.parametrize("by", [3, np.int64(3)])
def test_the_column_of_groups_by_its_position(by):
    frame = pa.table(COLUMNS | {"label": labels(2)}).to_pandas()
    model = llsvm.train(frame[["x0", "x1", "x2", "label"]], label="label", tol=0.01)
    assert llsvm.evaluate(model, frame, by=by) == llsvm.evaluate(model, frame, by="w")


@pytest.mark.parametrize("by", [["home"], ("home", "w"), 1.5])
def test_groups_of_several_columns_are_refused_in_python(by):
    y = labels(2)
    with pytest.raises(
        UsageError, match=r"by is of type .*, and rows are grouped by one column: give its name"
    ):
        llsvm.evaluate(trained(y), pa.table(COLUMNS | {"label": y}), by=by)


def test_names_of_groups_do_not_depend_on_the_unit_of_their_type(tmp_path):
    y = labels(2)
    model, hours = trained(y), np.resize(np.array([0, 12, 37], "M8[h]"), N)
    times = {"at": pa.array(hours.astype("M8[us]")), "day": pa.array(hours.astype("M8[D]"))}
    times |= {
        "zoned": times["at"].cast(pa.timestamp("us", "UTC")),
        "clock": times["at"].cast(pa.time64("us")),
    }
    wanted = {
        "at": ["1970-01-01", "1970-01-01 12:00:00", "1970-01-02 13:00:00"],
        "day": ["1970-01-01", "1970-01-02"],
        "zoned": ["1970-01-01 00:00:00Z", "1970-01-01 12:00:00Z", "1970-01-02 13:00:00Z"],
        "clock": ["00:00:00", "12:00:00", "13:00:00"],
    }
    table = pa.table(COLUMNS | {"label": y} | times)
    write_csv(table, tmp_path / "t.csv")
    other = {"at": pa.timestamp("ns"), "zoned": pa.timestamp("ns", "Etc/UTC"), "clock": pa.time64("ns")}
    units = pa.table(
        {name: table[name].cast(other.get(name, table[name].type)) for name in table.column_names}
    )
    units = units.set_column(
        units.schema.get_field_index("day"), "day", table["day"].cast(pa.timestamp("ms"))
    )
    for data in (tmp_path / "t.csv", table, units, units.to_pandas()):
        for by, names in wanted.items():
            assert [each["group"] for each in llsvm.evaluate(model, data, by=by)["groups"]] == names


def test_what_is_shown(tmp_path):
    y = labels(2)
    trained(y).save(tmp_path / "m")
    write_csv(pa.table(COLUMNS | {"label": y}), tmp_path / "t.csv")
    words = ["evaluate", tmp_path / "m", tmp_path / "t.csv", "--by", "home"]
    shown, told = call(*words), json.loads(call(*words, "--json").stdout)
    assert (shown.exit_code, len(told["groups"])) == (0, 4)
    header, *lines = [line.split() for line in shown.output.splitlines() if line.strip()][-6:]
    assert header[0] == "home"
    for line, group in zip(lines[1:], told["groups"], strict=True):
        assert line[0] == (group["group"] or "(missing)")
        assert line[1:3] == [str(group["rows"]), f"{group['accuracy']:.4g}"]
        assert line[-3:] == [f"{group['classes'][1][name]:.4g}" for name in ("precision", "recall", "f1")]


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (
            ["--by", "id"],
            2,
            "--by id: more than 1,000 groups of rows (that of '1000', in row 1001, is the next)",
        ),
        (["--by", "nothing"], 3, "there is no column 'nothing' (--by)"),
        (["--by", "x*"], 2, "rows are grouped by one column, and 3 are meant: x0, x1, x2; name one"),
        (["--by", "list"], 3, "--by list: the column has type list<"),
        (["--by", "note"], 2, "row 1 has a value of 300 characters, and a group's name has 200 at most"),
    ],
)
def test_what_makes_no_groups_is_a_sentence(options, code, says, tmp_path):
    n = 1100
    columns = {f"x{j}": np.resize(X[:, j], n) for j in range(3)} | {"label": np.arange(n) % 2}
    columns |= {"id": np.arange(n), "list": [[1.0]] * n, "note": ["long " * 60] * n}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    trained(labels(2)).save(tmp_path / "m")
    done = call("evaluate", tmp_path / "m", tmp_path / "t.parquet", *options)
    assert done.exit_code == code
    assert says in done.output


@pytest.mark.slow
def test_a_thousand_groups_are_ranked_under_the_limit(tmp_path):
    """10 MB of scores, of all rows and once more by group; a smaller limit is refused with one that works."""
    n = 400_000
    rows, home = np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32), np.arange(n) * 7 % 1000
    columns = {f"x{j}": rows[:, j] for j in range(3)} | {"label": rows[:, 0] > rows[:, 1], "home": home}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=50_000)
    llsvm.train(tmp_path / "t.parquet", exclude=["home"], max_passes=1, tol=0.9, output=tmp_path / "m")
    words = [
        "evaluate",
        tmp_path / "m",
        tmp_path / "t.parquet",
        "--by",
        "home",
        "--json",
        "--thresholds",
        100,
    ]
    status, errors, peak = cli(*words, "--memory-limit", "300MB")
    assert status == 4
    limit = int(re.findall(r"pass --memory-limit (\d+)MB or more", errors)[0])
    assert limit <= 530
    status, errors, peak = cli(*words, "--memory-limit", f"{limit}MB")
    assert (status, errors) == (0, "")
    assert peak <= limit * 1_000_000


def test_data_without_columns_have_no_groups(tmp_path):
    (tmp_path / "t.svm").write_text("1 1:1 2:3\n0 1:-1\n")
    model = llsvm.train(np.array([[1.0, 3.0], [-1.0, 0.0]]), [1, 0])
    with pytest.raises(llsvm.UsageError, match="svmlight has no columns for by"):
        llsvm.evaluate(model, tmp_path / "t.svm", by="home")
    with pytest.raises(llsvm.UsageError, match="by names columns, and X has none"):
        llsvm.evaluate(model, np.ones((2, 2)), [1, 0], by="home")
    with pytest.raises(llsvm.UsageError, match="has no columns for by"):
        llsvm.evaluate(model, lambda: iter([(np.ones((2, 2)), [1, 0])]), by="home")
