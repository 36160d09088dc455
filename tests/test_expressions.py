"""Rows and labels by expressions: what they mean, what is refused, and that models keep them."""

import datetime
import decimal
import random
import re

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
        ("month in (1)", [T, F, N, F]),
        ("month not in (1) and month not in ( -5 )", [F, T, N, T]),
        ('day in ("2024-01-03")', [F, F, T, F]),
        ("late in (true)", [T, F, N, T]),
        ('carrier == "é" or month in (1)', [T, F, N, N]),
        ("small - 3 < 0", [T, T, F, F]),  # not where unsigned numbers begin anew
        ("small * 2 + 1 == (7 - small) / 1", [F, T, F, F]),
        ("1 < small <= 3", [F, T, T, F]),
        ('day >= "2024-01-03"', [F, F, T, T]),
        ('"2024-01-03" > day', [T, T, F, F]),
        ('day == "2024-01-03 00:00"', [F, F, T, F]),
        ('day < "2024-01-03 00:30" and day not in ("2024-01-01T00:00:00")', [F, T, T, F]),
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
        ("month in (small)", "in needs values in parentheses"),
        ("(month in 5)", "in needs values in parentheses"),
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


# -- against SQL ---------------------------------------------------------------------------------------------

DAYS = [datetime.date(2024, 1, 1) + datetime.timedelta(days=5 * i) for i in range(6)]
TIMES = [datetime.datetime(2024, 1, 1, 12) + datetime.timedelta(hours=30 * i) for i in range(6)]
CLOCKS = [datetime.time(4 * i, 30) for i in range(6)]
WORDS = ["", "a", "B", "ab", "é", "5"]
AMOUNTS = [decimal.Decimal(x) for x in ("-1.50", "0.10", "2.00", "2.50", "99.99", "1000.00")]
SAID = {  # literals of each kind
    "number": [
        "0",
        "3",
        "-2",
        "2.5",
        "0.1",
        "200",
        "99.99",
        "3000000000",
        "1" + 22 * "0",
    ],
    "text": ["'a'", "'B'", "''", "'é'", "'5'", "'zz'"],
    "truth": ["true", "false"],
    "date": ["'2024-01-11'", "'2023-12-31'", "'2024-01-16'"],
    "moment": ["'2024-01-02'", "'2024-01-03 18:00:00'", "'2024-01-02T18:00:00'"],
    "clock": ["'12:30'", "'08:30:00'"],
}
SQL_COLUMNS = {
    "i8": ("number", pa.int8(), [-2, 0, 3, 7, 100, 3]),
    "u8": ("number", pa.uint8(), [0, 3, 200, 255, 3, 1]),
    "i64": ("number", pa.int64(), [-(2**62), -2, 0, 3, 3000000000, 2**62]),
    "u64": ("number", pa.uint64(), [0, 3, 200, 2**63 + 1, 2**64 - 1, 5]),
    "f32": ("number", pa.float32(), [-0.5, 0.1, 2.5, 3, 200, -2]),
    "f64": ("number", pa.float64(), [-0.5, 0.1, 2.5, 3, 1e3, 99.99]),
    "amount": ("number", pa.decimal128(10, 2), AMOUNTS),
    "late": ("truth", pa.bool_(), [True, False, True, True, False, False]),
    "word": ("text", pa.string(), WORDS),
    "large": ("text", pa.large_string(), WORDS),
    "view": ("text", pa.string_view(), WORDS),
    "code": ("text", pa.dictionary(pa.int8(), pa.string()), WORDS),
    "day": ("date", pa.date32(), DAYS),
    "day64": ("date", pa.date64(), DAYS),
    "seconds": ("moment", pa.timestamp("s"), TIMES),
    "micros": ("moment", pa.timestamp("us"), TIMES),
    "nanos": ("moment", pa.timestamp("ns"), TIMES),
    "zoned": ("moment", pa.timestamp("us", "UTC"), TIMES),
    "clock": ("clock", pa.time64("us"), CLOCKS),
    "nothing": ("number", pa.null(), [None] * 6),
}


def sql_table():
    """Each value in several rows, in another order in each column, and missing in some."""
    chance, columns = random.Random(0), {}
    for name, (_, type_, values) in SQL_COLUMNS.items():
        cells = [*values, None] * 12
        chance.shuffle(cells)
        columns[name] = pa.array(cells, type_)
    return pa.table(columns)


def generated(chance, kind, depth=2, mixed=0.0):
    """An expression of that kind as we have it, and as SQL has it. mixed: how often kinds are mixed."""
    if kind == "truth" and depth:
        form = chance.choice(["compare"] * 5 + ["chain", "in", "in", "null", "and", "or", "not"])
        if form in ("and", "or"):
            (a, x), (b, y) = (generated(chance, "truth", depth - 1, mixed) for _ in range(2))
            return f"({a} {form} {b})", f"({x} {form} {y})"
        if form == "not":
            a, x = generated(chance, "truth", depth - 1, mixed)
            return f"(not {a})", f"(not {x})"
        own = chance.choice([*SAID, "number"])
        a, x = generated(chance, own, 0 if own != "number" or chance.random() < 0.7 else 1)
        if form == "null":
            word = chance.choice(["is null", "is not null"])
            return f"({a} {word})", f"({x} {word})"
        if form == "in":
            values = ", ".join(chance.choices(SAID[own], k=2))
            word = chance.choice(["in", "not in"])
            return f"({a} {word} ({values}))", f"({x} {word} ({values}))"
        sides = []
        for _ in range(2 if form == "chain" else 1):
            side = chance.choice(list(SAID)) if chance.random() < mixed else own
            said = chance.choice(SAID[side])
            sides.append((said, said) if chance.random() < 0.6 else generated(chance, side, 0))
        op = chance.choice(["<", "<=", ">", ">=", "==", "!="])
        sql = op.replace("==", "=")
        if form == "chain":
            (b, y), (c, z) = sides
            return f"({b} <= {a} {op} {c})", f"({y} <= {x} and {x} {sql} {z})"
        return f"({a} {op} {sides[0][0]})", f"({x} {sql} {sides[0][1]})"
    if kind == "number" and depth:
        (a, x), (b, y) = (
            generated(chance, "number", 0),
            chance.choice([("2", "2"), ("0.5", "0.5"), ("4", "4")]),
        )
        op = chance.choice("+-*/")
        # ours are 64-bit floats
        return f"({a} {op} {b})", f"(({x})::DOUBLE {op} {y}::DOUBLE)"
    name = chance.choice([name for name, (own, *_) in SQL_COLUMNS.items() if own == kind])
    return name, name


@pytest.mark.parametrize("mixed", [0.0, 0.5])
def test_as_many_rows_as_sql_has_or_a_refusal_of_our_own(mixed):
    duckdb = pytest.importorskip("duckdb")
    table, chance = sql_table(), random.Random(7)
    batch = table.to_batches()[0]
    known = duckdb.connect()
    known.sql("set TimeZone = 'UTC'")
    known.register("t", table)
    answered, refused = 0, []
    for _ in range(400):
        ours, sql = generated(chance, "truth", mixed=mixed)
        try:
            found = Expression(ours, "where").value(batch)
        except DataError as error:
            refused.append(str(error))
            continue
        try:
            [(n,)] = known.sql(f"select count(*) from t where {sql}").fetchall()
        except duckdb.Error:
            continue  # more strict than we are
        assert found.type == pa.bool_()
        assert n == found.fill_null(False).to_numpy(zero_copy_only=False).sum(), (ours, sql)
        answered += 1
    assert answered > (150 if mixed else 350)
    assert bool(refused) == bool(mixed)
    for said in refused:
        assert re.search(r"cannot be computed \(.*\): .* (compared|are for)", said), said
        assert not re.search("[Aa]rrow|kernel|function|Unsupported|Failed", said), said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('berlin > "2024-01-01"', "a time with its zone, as the column has one (Europe/Berlin)"),
        ("berlin > day", "times with a zone (Europe/Berlin) cannot be compared with days"),
        ("day > 5", "dates cannot be compared with numbers"),
        ('day > "last week"', "'last week' is compared with dates; write a day such as"),
        ('day > "2024-W01-1"', "write a day such as"),
        ('micros > "20240101"', "write a day such as"),
        ('micros > "2024-01-01T00:00+01:00"', "without a zone, as the column has none"),
        ('clock > "noon"', "write a time of day such as"),
        (
            "word > 5",
            "text cannot be compared with numbers: write both as text, in quotes, or both as numbers",
        ),
        ('month > "5"', "numbers cannot be compared with text: write 5, without quotes"),
        ('month in ("5", "6")', "numbers cannot be compared with text: write 5, without quotes"),
        ('late == "yes"', "write both as text, in quotes, or both as true or false, without"),
        ("word == true", "write both as text, in quotes, or both as true or false, without"),
        ("not month", "and, or, not are for truth values, not for numbers"),
        ("month and late", "and, or, not are for truth values, not for numbers"),
        ("word + 1 > 2", "+ - * / are for numbers, not for text"),
        ('-"a" > 2', "+ - * / are for numbers, not for text"),
        ("many == 1", "values of type list<item: int64> cannot be compared: `is null` is all"),
        ("span > 5", "values of type duration[s] cannot be compared"),
        ("bytes == 'a'", "values of type binary cannot be compared"),
        ("amount > 1e60", "cannot be compared with decimals"),
    ],
)
def test_types_that_do_not_go_together_are_refused_in_our_words(text, says):
    rows = pa.table(
        {
            "berlin": pa.array(TIMES, pa.timestamp("us", "Europe/Berlin")),
            "day": DAYS,
            "micros": pa.array(TIMES, pa.timestamp("us")),
            "clock": CLOCKS,
            "word": WORDS,
            "month": range(6),
            "late": [True] * 6,
            "many": [[1]] * 6,
            "span": pa.array(range(6), pa.duration("s")),
            "bytes": [b"a"] * 6,
            "amount": AMOUNTS,
        }
    ).to_batches()[0]
    with pytest.raises(DataError) as caught:
        Expression(text, "where").value(rows)
    assert says in str(caught.value)


def test_times_with_a_zone_are_compared_with_times_that_have_one():
    rows = pa.record_batch({"berlin": pa.array(TIMES, pa.timestamp("ms", "Europe/Berlin"))})
    found = Expression('berlin > "2024-01-03T01:00:00+01:00"', "where").value(rows).to_pylist()
    utc = [each.replace(tzinfo=datetime.UTC) for each in TIMES]
    assert found == [each > datetime.datetime(2024, 1, 3, tzinfo=datetime.UTC) for each in utc]


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
