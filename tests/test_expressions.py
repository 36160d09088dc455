"""Rows and labels by expressions: what they mean, what is refused, and that models keep them."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.errors import DataError, UsageError
from llsvm.features.expressions import Expression

ROWS = pa.record_batch(
    {
        "month": [1, 12, None, 5],
        "carrier": ["AA", "B6", "AA", None],
        "dep delay": [1.5, float("nan"), 20, 30],
        "day": pa.array([datetime.date(2024, 1, i + 1) for i in range(4)]),
        "small": pa.array([1, 2, 3, 4], pa.uint8()),
        "late": [True, False, None, True],
    }
)
T, F, N = True, False, None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('month < 12 and carrier != "AA"', [F, F, F, N]),
        ("month < 12 or carrier == 'B6'", [T, T, N, T]),
        ("`dep delay` > 15", [F, N, T, T]),
        ("`dep delay` != 15", [T, N, T, T]),
        ("`dep delay` is null", [F, T, F, F]),
        ("month is not null", [T, T, F, T]),
        ("month in (1, 5)", [T, F, N, T]),
        ("month not in [1, -5]", [F, T, N, T]),
        ("month in ()", [F, F, F, F]),
        ("small - 3 < 0", [T, T, F, F]),  # not where unsigned numbers begin anew
        ("small * 2 + 1 == (7 - small) / 1", [F, T, F, F]),
        ("1 < small <= 3", [F, T, T, F]),
        ('day >= "2024-01-03"', [F, F, T, T]),
        ('"2024-01-03" > day', [T, T, F, F]),
        ("not late or month == 12", [F, T, N, F]),
        ("late == true", [T, F, N, T]),
        ("-small", [-1.0, -2.0, -3.0, -4.0]),
    ],
)
def test_what_expressions_come_to(text, expected):
    assert Expression(text, "where").value(ROWS).to_pylist() == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("month = 12", "character 7: this is no expression; == compares"),
        ('__import__("os").system("ls")', "character 1: this cannot stand here"),
        ("month.real > 1", "character 1: this cannot stand here"),
        ("month < 2 and [x for x in y]", "character 15: this cannot stand here"),
        ("month in small", "in needs values in parentheses"),
        ("month == null", "is null asks for missing values"),
        ("`month", "a back quote that is not closed"),
        ("month <", "this is no expression"),
        ("-" * 3000 + "1", "--where"),
        ("x" * 5000, "5,000 characters"),
        ("", "this is no expression"),
    ],
)
def test_what_is_no_expression_is_refused_with_its_place(text, says):
    with pytest.raises(UsageError) as caught:
        Expression(text, "where")
    assert says in str(caught.value).replace("where ", "--where ")


def test_columns_are_named_with_the_nearest():
    with pytest.raises(DataError, match=r"t: where 'a < 1 and mnth < 1': character 11.*did you mean month"):
        Expression("a < 1 and mnth < 1", "where").require("t", ["a", "month"])
    with pytest.raises(DataError, match="carrier is string"):
        Expression("carrier > 5", "where").value(ROWS)


@pytest.fixture(scope="module")
def flights(tmp_path_factory):
    """A table, as Parquet and as CSV, and the rows of it that count, with the label as a column."""
    folder, rng, n = tmp_path_factory.mktemp("flights"), np.random.default_rng(1), 600
    distance, month = rng.uniform(100, 3000, n).round(1), rng.integers(1, 13, n)
    delay = [
        None if i % 11 == 0 else float(round(v)) for i, v in enumerate(distance / 100 + rng.normal(0, 4, n))
    ]
    carrier = np.array(["AA", "B6", "UA"])[rng.integers(0, 3, n)]
    table = pa.table({"distance": distance, "month": month, "carrier": carrier, "dep_delay": delay})
    pq.write_table(table, folder / "t.parquet", row_group_size=100)
    pacsv.write_csv(table, folder / "t.csv")
    counts = [d is not None and m < 12 and c != "AA" for d, m, c in zip(delay, month, carrier, strict=True)]
    own = table.filter(pa.array(counts))
    label = [str(d > 15).lower() for d in own["dep_delay"].to_pylist()]
    own = own.drop_columns(["dep_delay"]).append_column("late", [label])
    pq.write_table(own, folder / "own.parquet")
    pacsv.write_csv(own, folder / "own.csv")
    return folder


OPTIONS = {"label": "dep_delay > 15", "where": 'month < 12 and carrier != "AA"', "missing_label": "drop"}


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_the_model_is_that_of_the_rows_that_count(flights, suffix):
    model = llsvm.train(flights / f"t.{suffix}", **OPTIONS)
    own = llsvm.train(flights / f"own.{suffix}", label="late")
    assert model.n_rows == own.n_rows
    assert model.labels == ["false", "true"]
    assert model.feature_names == own.feature_names
    assert "dep_delay" not in model.feature_names
    np.testing.assert_array_equal(model.coef_, own.coef_)
    np.testing.assert_array_equal(model.intercept_, own.intercept_)


def test_models_keep_the_label_and_evaluate_computes_it(flights, tmp_path):
    path = tmp_path / "m"
    words = [str(flights / "t.csv"), "--label", OPTIONS["label"], "--where", OPTIONS["where"]]
    call = CliRunner().invoke
    done = call(app, ["train", *words, "--missing-label", "drop", "--model", str(path), "--quiet"])
    assert done.exit_code == 0, done.output
    done = call(app, ["evaluate", str(path), str(flights / "t.csv"), "--where", OPTIONS["where"]])
    assert done.exit_code == 0, done.output
    expected = llsvm.evaluate(
        llsvm.train(flights / "own.csv", label="late", output=path.with_suffix(".own")), flights / "own.csv"
    )
    assert f"{expected['correct']:,} of {expected['rows']:,} rows" in done.output
    whole = llsvm.evaluate(path, flights / "t.csv")
    assert whole["rows"] == sum(
        d is not None for d in pq.read_table(flights / "t.parquet")["dep_delay"].to_pylist()
    )
    assert len(llsvm.predict(path, flights / "t.csv")) == 600
    bare = pq.read_table(flights / "t.parquet").drop_columns(["dep_delay"])
    pq.write_table(bare, tmp_path / "bare.parquet")
    assert len(llsvm.predict(path, tmp_path / "bare.parquet")) == 600
    there = pq.read_table(flights / "t.parquet").filter(pa.compute.field("dep_delay").is_valid())
    assert llsvm.evaluate(path, there)["correct"] == whole["correct"]


def test_a_label_may_be_a_number(flights):
    own = {"loss": "epsilon_insensitive", "missing_label": "drop", "tol": 0.01}
    model = llsvm.train(flights / "t.parquet", label="dep_delay / 60 + 1", **own)
    plain = llsvm.train(flights / "t.parquet", label="dep_delay", **own)
    assert model.feature_names == plain.feature_names
    assert model.is_regression


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--label", "dep_delay > 15"], 3, "row 1: column dep_delay > 15: the label is missing"),
        (["--label", "dep_dely > 15"], 3, "there is no column 'dep_dely'; did you mean dep_delay?"),
        (["--label", "carrier", "--where", "month"], 2, "--where 'month' is neither true nor false"),
        (
            ["--label", "carrier", "--where", "month > 12"],
            3,
            "there is no row for which --where 'month > 12'",
        ),
        (["--label", "month", "--where", "distance > 'a'"], 3, "cannot be computed (distance is double)"),
        (["--where", "carrier == 'AA'", "--label", "month", "--missing", "refuse"], 3, "missing in row"),
    ],
)
def test_what_does_not_fit_is_said(flights, tmp_path, options, code, says):
    words = ["train", str(flights / "t.parquet"), "--model", str(tmp_path / "m"), *options]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, says in done.output) == (code, True), done.output
    if "missing in row" in says:  # by its number in the file, though rows before it do not count
        table = pq.read_table(flights / "t.parquet").to_pylist()
        first = next(i for i, r in enumerate(table) if r["carrier"] == "AA" and r["dep_delay"] is None)
        assert f"missing in row {first + 1} " in done.output


def test_rows_without_columns_have_no_choice(tmp_path):
    (tmp_path / "t.svm").write_text("1 1:1\n-1 1:2\n")
    for option in ({"where": "a > 1"}, {"missing_label": "drop"}):
        with pytest.raises(UsageError, match="has no columns for"):
            llsvm.train(tmp_path / "t.svm", **option)
        with pytest.raises(UsageError, match="X has no columns for"):
            llsvm.train(np.eye(4), [0, 1, 0, 1], **option)
