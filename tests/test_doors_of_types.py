"""Values of types that databases and data frames have, and text has not: the same by every way in, also where they
are handed on, group rows or are compared; or refused by the column's name."""

import csv as csvs
import datetime as dt
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest
from cells import pairwise
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.data.csv_head import CSVHead
from llsvm.errors import DataError, UsageError

N = 60
ROOM = {"memory_limit": "8GB", "threads": 1}
X = np.random.default_rng(3).normal(size=N)
Y = (X > 0).astype(int)


def third(make):
    return [make(i % 3) for i in range(N)]


def extension(type_, values):
    return pa.ExtensionArray.from_storage(type_, pa.array(values, type_.storage_type))


COLUMNS = {
    "uuid": extension(pa.uuid(), third(lambda k: bytes(15) + bytes([k]))),
    "json": extension(pa.json_(), third(lambda k: f'{{"k":{k}}}')),
    "runs": pa.RunEndEncodedArray.from_arrays([20, 40, N], pa.array(["a", "b", "c"])),
    "span": pa.array(third(lambda k: dt.timedelta(hours=k)), pa.duration("us")),
    "bytes": pa.array(third(lambda k: b"b%d" % k)),
    "fixed": pa.array(third(lambda k: b"b%d" % k), pa.binary(2)),
    "months": pa.array(third(lambda k: pa.MonthDayNano([k, 0, 0]))),
    "day": pa.array(third(lambda k: [-(2**31) + 1, 19_000, 2**31 - 1][k]), pa.int32()).cast(pa.date32()),
    "time": pa.array(third(lambda k: [-(2**63) + 1, 10**15, 2**63 - 1][k]), pa.int64()).cast(
        pa.timestamp("us", "UTC")
    ),
}
TEXTS = {
    "uuid": third(lambda k: f"00000000-0000-0000-0000-00000000000{k}"),
    "json": third(lambda k: f'{{"k":{k}}}'),
    "runs": ["abc"[i // 20] for i in range(N)],
    "span": third(lambda k: f"0 days 0{k}:00:00"),
    "day": third(lambda k: ["-infinity", "2022-01-08", "infinity"][k]),
}
GROUPS = {"time": ["-infinity", "2001-09-09 01:46:40Z", "infinity"]}


def table(name):
    return pa.table({"x": X, "c": COLUMNS[name], "y": Y})


def as_arrow(rows, path):
    with ipc.new_file(str(path), rows.schema) as writer:
        writer.write_table(rows)
    return str(path)


def as_parquet(rows, path):
    pq.write_table(rows, path)
    return str(path)


DOORS = {
    "table": lambda rows, path: rows,
    "batches": lambda rows, path: rows.to_batches(max_chunksize=25),
    "arrow": as_arrow,
    "parquet": as_parquet,
}


@pytest.fixture(scope="module")
def model():
    return llsvm.train(pa.table({"x": X, "y": Y}), label="y", **ROOM)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", COLUMNS)
def test_values_are_handed_on_and_group_rows_as_text_or_are_refused(model, name, door, tmp_path):
    if door == "parquet" and name in ("runs", "months"):
        pytest.skip("Parquet has no such type")
    data = DOORS[door](table(name), tmp_path / "rows")

    def kept():
        llsvm.write_predictions(model, data, tmp_path / "kept.csv", keep=["c"])
        return [row["c"] for row in csvs.DictReader((tmp_path / "kept.csv").open())]

    if name in ("bytes", "fixed", "months"):
        with pytest.raises(DataError, match=r"by c: the column has type .*, whose values have no text"):
            llsvm.evaluate(model, data, by="c")
        with pytest.raises(DataError, match=r"column c has type .*, which has no text"):
            kept()
    else:
        found = [each["group"] for each in llsvm.evaluate(model, data, by="c")["groups"]]
        assert found == sorted(set(GROUPS.get(name) or TEXTS[name]))
        if name in TEXTS:
            assert kept() == TEXTS[name]
    if name == "months":
        with pytest.raises(DataError, match=r"column c has type .*, which Parquet does not hold"):
            llsvm.write_predictions(model, data, tmp_path / "kept.parquet", keep=["c"])
        return
    assert llsvm.write_predictions(model, data, tmp_path / "kept.parquet", keep=["c"]) == N


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", ["uuid", "json", "runs"])
def test_identifiers_json_and_runs_are_categories_and_labels_as_in_csv(name, door, tmp_path):
    if door == "parquet" and name == "runs":
        pytest.skip("Parquet has no such type")
    text = pa.table({"x": X, "c": TEXTS[name], "y": Y})
    pacsv.write_csv(text, tmp_path / "rows.csv")
    data = DOORS[door](table(name), tmp_path / "rows")
    wanted, found = (llsvm.train(each, label="y", tol=1e-9, **ROOM) for each in (tmp_path / "rows.csv", data))
    assert found.feature_names == wanted.feature_names
    np.testing.assert_allclose(found.coef_, wanted.coef_, atol=1e-6)
    np.testing.assert_array_equal(llsvm.predict(wanted, data), llsvm.predict(wanted, tmp_path / "rows.csv"))
    labelled = llsvm.train(data, label="c", features=["x"], tol=0.1, **ROOM)
    assert labelled.classes_.tolist() == sorted(set(TEXTS[name]))
    assert llsvm.evaluate(labelled, tmp_path / "rows.csv", label="c")["unknown_rows"] == 0


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", ["day", "time"])
def test_infinite_dates_and_times_are_no_numbers(name, door, tmp_path):
    data = DOORS[door](table(name), tmp_path / "rows")
    for missing in ("refuse", "mean"):
        with pytest.raises(
            DataError, match=r"row 1: column c: a value is infinite.* write a finite date or time"
        ):
            llsvm.train(data, label="y", missing=missing, **ROOM)
    there = llsvm.train(data, label="y", where='c > "2000-01-01" and c < "2100-01-01" or x > 9', **ROOM)
    assert there.n_rows == N // 3
    if door in ("arrow", "parquet"):
        shown = CliRunner().invoke(app, ["inspect", str(data), "--label", "y"]).output
        assert "infinity" in shown
        assert "column c: the value is infinite" in " ".join(shown.split())


def test_periods_that_pandas_writes_are_no_numbers(model, tmp_path):
    """Whoever reads the file without pandas finds whole numbers in it."""
    field = pa.field("c", pa.int64(), metadata={"ARROW:extension:name": "a.period"})
    rows = pa.table([X, pa.array(range(N)), Y], pa.schema([("x", pa.float64()), field, ("y", pa.int64())]))
    for data in (rows, as_arrow(rows, tmp_path / "rows.arrow"), as_parquet(rows, tmp_path / "rows.parquet")):
        with pytest.raises(DataError, match=r"column c has type .*a\.period.* cannot be a feature"):
            llsvm.train(data, label="y", **ROOM)
        with pytest.raises(DataError, match=r"by c: the column has type .*, whose values have no text"):
            llsvm.evaluate(model, data, by="c")


# -- whole numbers that 64-bit floats do not tell apart --------------------------------------------------------


def files_of(columns, folder):
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csvs.DictWriter(file, list(columns))
        writer.writeheader()
        writer.writerows(rows)
    return {kind: folder / f"rows.{kind}" for kind in ("csv", "jsonl")}


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("first", [2**53, 2**63, 2**70])
def test_whole_numbers_keep_their_digits_where_they_are_compared_or_handed_on(model, first, kind, tmp_path):
    apart = [first + i % 4 for i in range(N)]  # no feature: floats do not tell them apart
    wide = [(first + 1) * (i % 4 + 1) for i in range(N)]
    path = files_of({"x": X.tolist(), "apart": apart, "wide": wide, "y": Y.tolist()}, tmp_path)[kind]
    of_wide = llsvm.train(path, label="y", features=["x", "wide"], **ROOM)
    for known in (model, of_wide):
        for name, values in (("apart", apart), ("wide", wide)):
            for output in ("kept.csv", "kept.parquet"):
                llsvm.write_predictions(known, path, tmp_path / output, keep=[name])
            rows = csvs.DictReader((tmp_path / "kept.csv").open())
            assert [row[name] for row in rows] == list(map(str, values))
            assert list(map(str, pq.read_table(tmp_path / "kept.parquet")[name].to_pylist())) == [
                *map(str, values)
            ]
            groups = [each["group"] for each in llsvm.evaluate(known, path, by=name)["groups"]]
            assert sorted(groups) == sorted(set(map(str, values)))
            for sign, rows in (("==", N // 4), (">", N // 2), ("<=", N // 2)):
                where = f"{name} {sign} {values[1]}"
                assert llsvm.evaluate(known, path, where=where)["rows"] == rows
    computed = llsvm.train(path, label=f"apart > {apart[1]}", features=["x"], tol=0.1, **ROOM)
    counts = llsvm.evaluate(computed, path)["confusion"]["counts"]
    assert [sum(row) for row in counts] == [N // 2, N // 2]
    words = llsvm.train(path, label="y", categorical=["apart"], features=["x", "apart"], **ROOM)
    assert f"apart={first + 3}" in words.feature_names
    some = llsvm.train(
        path,
        label="y",
        features=["x", "apart"],
        categorical=["apart"],
        where=f"apart == {first + 1} or x > 1",
        **ROOM,
    )
    assert some.n_rows < N // 2


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("first", [2**53, 2**70])
@pytest.mark.parametrize("some", [1.5, None])
def test_whole_numbers_keep_their_digits_beside_others(model, some, first, kind, tmp_path):
    some = "NA" if kind == "csv" and some is None else some
    values = [some if i < 4 else first + i % 4 for i in range(N)]
    path = files_of({"x": X.tolist(), "v": values, "y": Y.tolist()}, tmp_path)[kind]
    words = sorted({*map(str, values)} - {"None", "NA"}, key=lambda word: (float(word), word))
    known = [each["group"] for each in llsvm.evaluate(model, path, by="v")["groups"] if each["group"]]
    assert known == words
    assert llsvm.evaluate(model, path, where=f"v == {first + 1}")["rows"] == N // 4 - 1
    llsvm.write_predictions(model, path, tmp_path / "kept.csv", keep=["v"])
    kept = [row["v"] for row in csvs.DictReader((tmp_path / "kept.csv").open())]
    assert kept == ["" if value is None else str(value) for value in values]
    if some == 1.5:
        found = llsvm.train(path, label="y", categorical=["v"], **ROOM).feature_names
        assert sorted(name.removeprefix("v=") for name in found if name != "x") == sorted(words)
        assert llsvm.train(path, label="v", categorical=["v"], **ROOM).labels == sorted(words)


@pytest.mark.parametrize(("kind", "first", "small"), pairwise(["csv", "jsonl"], [2**53, 2**70], [1, 1.5]))
def test_whole_numbers_keep_their_digits_where_a_later_batch_has_larger_ones(
    model, small, first, kind, tmp_path
):
    """Types that numbers are read as are those of a batch."""
    n = 60_000  # two of the largest batches of text
    some = [small * (1 + i % 4) for i in range(n // 2)]
    large = [first + i % 4 for i in range(n // 2)]
    for values in (some + large, large + some) if small == 1 else (some + large,):
        columns = {"x": (X.tolist() * n)[:n], "v": values, "y": (Y.tolist() * n)[:n]}
        path = files_of(columns, tmp_path)[kind]
        groups = llsvm.evaluate(model, path, by="v")["groups"]
        expected = {str(value).removesuffix(".0") for value in values}
        assert {each["group"]: each["rows"] for each in groups} == dict.fromkeys(expected, n // 8)
        for where, rows in (
            (f"v == {first + 1}", n // 8),
            (f"v < {first + 2}", n // 4 * 3),
            ("v <= 3", n // 8 * 3),
        ):
            rows = n // 4 if where == "v <= 3" and small == 1.5 else rows
            assert llsvm.evaluate(model, path, where=where)["rows"] == rows
        llsvm.write_predictions(model, path, tmp_path / "kept.csv", keep=["v"])
        kept = [row["v"].removesuffix(".0") for row in csvs.DictReader((tmp_path / "kept.csv").open())]
        assert kept == [str(value).removesuffix(".0") for value in values]
        try:
            llsvm.write_predictions(model, path, tmp_path / "kept.parquet", keep=["v"])
        except DataError as error:
            assert kind == "jsonl"
            assert "column v of keep has type" in str(error)  # noqa: PT017
        else:
            kept = pq.read_table(tmp_path / "kept.parquet")["v"].to_pylist()
            assert [
                f"{value}".rstrip("0").rstrip(".") if "." in f"{value}" else f"{value}" for value in kept
            ] == [str(value).removesuffix(".0") for value in values]


def test_columns_within_objects_are_named_in_back_quotes(model, tmp_path):
    rows = [{"x": X[i], "user": {"id": 2**53 + i % 4}, "y": int(Y[i])} for i in range(N)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UsageError, match=r"`user\.id`, a name with a dot, stands in back quotes"):
        llsvm.evaluate(model, tmp_path / "rows.jsonl", where=f"user.id == {2**53 + 1}")
    assert llsvm.evaluate(model, tmp_path / "rows.jsonl", where=f"`user.id` == {2**53 + 1}")["rows"] == N // 4


def test_a_late_cell_that_is_no_number_is_named_with_its_row_where_it_is_compared(tmp_path):
    path = files_of({"x": X.tolist(), "a": [*range(N - 1), "none of it"], "y": Y.tolist()}, tmp_path)["csv"]
    text = path.read_text().replace("none of it", "7")
    path.write_text(text + "".join(f"0.5,{i},1\n" for i in range(120_000)) + "0.5,odd,1\n")
    with pytest.raises(DataError, match=f"rows.csv: row {N + 120_001}: column a: 'odd' is not a number"):
        llsvm.train(path, label="y", where="a > 3", features=["x"], **ROOM)


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_groups_by_a_column_of_numbers_are_called_the_same_by_every_way_in(model, kind, tmp_path):
    pd = pytest.importorskip("pandas")
    values, days = third(lambda k: [1.0, 2.5, None][k]), third(lambda k: [dt.date(2024, 1, 1), None][k % 2])
    rows = pd.DataFrame(
        {"x": X, "v": values, "d": days, "b": third(lambda k: [True, None, False][k]), "y": Y}
    )
    path = tmp_path / f"rows.{kind}"
    if kind == "parquet":
        rows.to_parquet(path)
    elif kind == "jsonl":
        rows.to_json(path, orient="records", lines=True, date_format="iso")
    else:
        text = rows.to_csv(index=False, sep="\t" if kind == "tsv" else ",", na_rep="NA")
        path.write_text(text.replace("2.5", "2.50"))
    found = {by: [each["group"] for each in llsvm.evaluate(model, path, by=by)["groups"]] for by in "vdb"}
    assert found == {"v": ["1", "2.5", None], "d": ["2024-01-01", None], "b": ["false", "true", None]}


def test_codes_and_late_words_of_csv_group_rows_as_they_are_written(model, tmp_path):
    zips = third(lambda k: ["01234", "94105", "60601"][k])
    path = files_of({"x": X.tolist(), "zip": zips, "y": Y.tolist()}, tmp_path)["csv"]
    assert [each["group"] for each in llsvm.evaluate(model, path, by="zip")["groups"]] == sorted(set(zips))
    rows = "".join(f"{x},{i % 2},1\n" for i, x in enumerate(np.resize(X, 300_000).tolist()))
    path.write_text(f"x,v,y\n{rows}1.0,odd,1\n")
    assert [each["group"] for each in llsvm.evaluate(model, path, by="v")["groups"]] == ["0", "1", "odd"]


# -- data frames ----------------------------------------------------------------------------------------------


def test_objects_of_python_that_arrow_has_not_are_refused_by_their_column(model):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    large = pd.DataFrame({"x": X, "c": pd.Series([2**70 + i for i in range(N)], dtype=object), "y": Y})
    asked = [
        lambda: llsvm.train(large, label="y", **ROOM),
        lambda: llsvm.LLSVMClassifier(memory_limit="8GB").fit(large[["x", "c"]], Y),
        lambda: llsvm.evaluate(model, large, by="c"),
    ]
    for ask in asked:
        with pytest.raises(
            DataError, match="X: column c has whole numbers of more than 64 bits; leave it out"
        ):
            ask()
    objects = pl.DataFrame({"x": X, "c": pl.Series([object() for _ in X], dtype=pl.Object), "y": Y})
    with pytest.raises(
        DataError, match="X: column c has the type Object, which holds objects of Python; leave it out"
    ):
        llsvm.evaluate(model, objects, by="c")
    assert llsvm.evaluate(model, objects, by="y")["rows"] == N


@pytest.mark.parametrize("name", ["p.parquet", "p.csv"])
def test_objects_of_lazy_frames_are_refused_where_they_count(model, name, tmp_path):
    """Polars hands on where they are in memory."""
    pl = pytest.importorskip("polars")
    objects = pl.DataFrame({"x": X, "c": pl.Series([object() for _ in X], dtype=pl.Object), "y": Y}).lazy()
    with pytest.raises(DataError, match=r"column c has type .*, which cannot be a feature; leave it out"):
        llsvm.train(objects, label="y", **ROOM)
    asked = [
        lambda: llsvm.evaluate(model, objects, by="c"),
        lambda: llsvm.write_predictions(model, objects, tmp_path / name, keep=["c"]),
    ]
    for ask in asked:
        with pytest.raises(
            DataError, match="column c has the type Object, which holds objects of Python; leave it out"
        ):
            ask()
    assert not (tmp_path / name).exists()
    assert llsvm.train(objects, label="y", exclude=["c"], **ROOM).n_rows == N
    assert llsvm.evaluate(model, objects, by="y")["rows"] == N
    assert llsvm.write_predictions(model, objects, tmp_path / name, keep=["x"]) == N


def test_fields_of_objects_in_memory_are_kept_as_those_of_files_are(model, tmp_path):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows = [
        {"x": X[i], "user": {"town": "abc"[i % 3], "geo": {"lat": i / 2}}, "y": int(Y[i])} for i in range(N)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    frames = [pa.Table.from_pylist(rows), pd.DataFrame(rows), pl.DataFrame(rows)]
    for keep in (["user"], ["user.town"], ["x", "user.geo"], ["*"]):
        found = []
        for data in (tmp_path / "rows.jsonl", *frames):
            llsvm.write_predictions(model, data, tmp_path / "kept.csv", keep=keep)
            found.append((tmp_path / "kept.csv").read_text())
        assert len(set(found)) == 1
    for data in frames:
        assert len(llsvm.evaluate(model, data, by="user.town")["groups"]) == 3


def test_rows_without_a_label_are_left_out_by_the_option_that_the_message_names(model, tmp_path):
    rows = pa.table({"x": X, "y": pa.array(Y, mask=np.arange(N) % 6 == 0)})
    for data in (rows, rows.to_pandas(), as_parquet(rows, tmp_path / "rows.parquet"), rows.to_batches()):
        with pytest.raises(DataError, match="pass missing_label drop"):
            llsvm.evaluate(model, data, label="y")
        assert llsvm.evaluate(model, data, label="y", missing_label="drop")["rows"] == N - N // 6


def test_what_is_missing_names_the_option_that_fills_it_in(model):
    gaps = np.where(np.arange(N) == 3, np.nan, X)[:, None]
    fitted = llsvm.LLSVMClassifier(memory_limit="8GB").fit(X[:, None], Y)
    for ask in (fitted.predict, lambda rows: llsvm.predict(model, rows)):
        with pytest.raises(DataError, match=r"NaN.*missing='zero' or missing='mean'"):
            ask(gaps)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "pandas"])
def test_a_word_where_a_model_knows_truth_values_says_what_is_expected(kind, tmp_path):
    pd = pytest.importorskip("pandas")
    rows = pd.DataFrame({"x": X, "member": X > 0.1, "y": Y})
    known = llsvm.train(rows, label="y", **ROOM)
    data = rows.assign(member=["true"] * (N - 1) + ["N"])
    path = tmp_path / f"rows.{kind}"
    if kind == "csv":
        data.to_csv(path, index=False)
    elif kind == "jsonl":
        data.to_json(path, orient="records", lines=True)
    elif kind == "parquet":
        data.to_parquet(path)
    match = (
        rf"row {N}: column member: 'N' is not a number; write .* or true or false if the model knows these"
    )
    with pytest.raises(DataError, match=match):
        llsvm.predict(known, data if kind == "pandas" else path)


def test_labels_that_no_model_knows_come_with_the_remedy():
    known = llsvm.train(pa.table({"x": X, "y": np.where(X > 0, "yes", "no")}), label="y", **ROOM)
    with pytest.warns(UserWarning, match="it knows no, yes; write them as the training data have them"):
        llsvm.evaluate(known, pa.table({"x": X, "y": X > 0}))


# -- files that are something else -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("rows.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", r"an Excel workbook.*read_excel"),
        ("rows.sqlite", b"SQLite format 3\x00", "an SQLite database.*sqlite3 -csv"),
        ("rows.duckdb", b"12345678DUCK\xe7\x03\0\0", "a DuckDB database.*copy TABLE"),
        ("rows.orc", b"ORC\x0a\x0b\x03", "an ORC file.*pyarrow.orc"),
        ("rows.avro", b"Obj\x01\x04\x14", "an Avro file.*read_avro"),
        ("rows.xls", b'\n<html xmlns:o="urn">', "a web page.*read_html"),
        ("rows.html", b"<!DOCTYPE HTML>", "a web page.*read_html"),
        ("rows.sav", b"$FL2@(#) SPSS", "an SPSS file.*read_spss"),
        ("rows.dta", b"<stata_dta><header>", "a Stata file.*read_stata"),
        ("rows.sas7bdat", bytes(12) + b"\xc2\xea\x81\x60", "a SAS file.*read_sas"),
        ("rows.rds", b"X\n\x00\x00\x00\x03", r"an R file.*write\.csv"),
        ("rows.pkl", b"\x80\x03cpandas.core", "a pickle of Python"),
        ("rows.xml", b'<?xml version="1.0"?>', "an XML file.*read_xml"),
        ("rows.tar", b"rows.txt".ljust(257, b"\0") + b"ustar\x0000", "a tar archive.*tar -xf"),
    ],
)
def test_files_of_other_programs_say_how_they_become_text(name, content, says, tmp_path):
    (tmp_path / name).write_bytes(content + bytes(600))
    (tmp_path / f"{name}.csv").write_bytes(content + bytes(600))
    for path in (tmp_path / name, tmp_path / f"{name}.csv"):
        for more in ({}, {"label": "y"}):
            with pytest.raises(DataError, match=f"{path.name}: this is {says}"):
                llsvm.train(path, **more, **ROOM)


def test_a_table_whose_first_column_is_called_orc_is_text(tmp_path):
    (tmp_path / "rows").write_text("ORC,x,y\n" + "".join(f"{i},{i % 7},{i % 2}\n" for i in range(N)))
    assert llsvm.train(tmp_path / "rows", label="y", tol=0.1, **ROOM).n_rows == N


BODY = "name,age,y\n" + "".join(f"n{i % 3},{i},{'yn'[i % 2]}\n" for i in range(N))


@pytest.mark.parametrize(
    ("title", "sign", "line"),
    [
        ("Sales report\n", ",", 2),
        ("Sales report\n\n", ",", 2),
        ("Report, 2024\n", ",", 2),
        ("Sales report,,\n", ",", 2),
        ('"Sales, a report"\n', ",", 2),
        ("Sales\nof 2024\n", ",", 3),
        ("Bericht\n", ";", 2),
        ("Report\n", "\t", 2),
        ("Report\n", "|", 2),
        ("Report, Berlin, 2024\n", ",", 2),
        ("# a, b, c\n", ",", 2),
        ("Report, Berlin, 2024, final\n", ",", 2),
        ("Sales: a, b, c, d, e, f\n", ",", 2),
        ("Report | Berlin | 2024\n", ",", 2),
        ("Report, Berlin\nCreated, 2024-01-01, Bob\n", ",", 3),
        ("Report, Berlin, 2024\n", ";", 2),
        ("Report; created 2024, by Bob\n", ";", 2),
        ("a;b,c\n", ";", 2),
        ("From,2024-01-01\nTo,2024-02-01\n", ";", 3),
        ("Report, Berlin, 2024\n", "\t", 2),
        ("Report; created 2024, by Bob\n", "\t", 2),
        ("Report, Berlin\n\n", "\t", 2),
        ("Report; Berlin\n", "|", 2),
    ],
)
def test_a_title_above_the_header_is_told(title, sign, line, tmp_path):
    (tmp_path / "rows.csv").write_text(title + BODY.replace(",", sign))
    with pytest.raises(DataError, match=rf"the rows have 3 .*: remove a title .*\(tail -n \+{line}\)"):
        llsvm.train(tmp_path / "rows.csv", label="y", **ROOM)


@pytest.mark.parametrize(
    "text",
    [
        BODY,
        ",".join(["", BODY.replace("\n", "\n0,").removesuffix("0,")]),
        BODY.replace("\n", ",\n"),
        "a text,y\n" + "".join(f'"n, {i % 3}",{"yn"[i % 2]}\n' for i in range(N)),
        "a;y\n" + "".join(f"{i},5;{'yn'[i % 2]}\n" for i in range(N)),
        "y,a|b;c\n" + "".join(f"{'yn'[i % 2]},{i}|r;{i}\n" for i in range(N)),
        "y;2023;2024\n" + "".join(f"{'yn'[i % 2]};a,b|{i},5;{i}\n" for i in range(N)),
        "a,b,y\n" + "".join(f"t;u,{i},{'yn'[i % 2]}\n" for i in range(N)),
    ],
)
def test_headers_are_no_titles(text, tmp_path):
    (tmp_path / "rows.csv").write_text(text)
    assert llsvm.train(tmp_path / "rows.csv", label="y", missing="zero", tol=0.1, **ROOM).n_rows == N


@pytest.mark.parametrize(
    ("rows", "delimiter"),
    [
        ("good film {0}, a bad actor", "\t"),
        ("good film {0}, {0}", "\t"),
        ("{0},5", ";"),
        ("x|{0}", None),
        ("x{0}|y", None),
    ],
)
def test_one_column_with_other_separators_has_no_title(rows, delimiter):
    text = "a\n" + "".join(rows.format(i) + "\n" for i in range(N))
    assert CSVHead("rows.csv", text.encode(), "auto", (), delimiter, False).first_line == ["a"]


@pytest.mark.parametrize("rows", ["{0},{1},{2},\n", "r{0},{0},{1},{2}\n"])
def test_rows_with_a_value_too_many_are_told_by_the_row(rows, tmp_path):
    (tmp_path / "rows.csv").write_text("a,b,y\n" + "".join(rows.format(i, i % 3, i % 2) for i in range(N)))
    with pytest.raises(DataError, match=r":2: 4 values, where 3 are expected"):
        llsvm.train(tmp_path / "rows.csv", label="y", **ROOM)


# -- notes ----------------------------------------------------------------------------------------------------


def test_categories_that_spell_the_same_number_are_noted(tmp_path):
    words = third(lambda k: ["1.2", "1.20", "3"][k])
    path = files_of({"x": X.tolist(), "v": words, "y": Y.tolist()}, tmp_path)["csv"]
    with pytest.warns(UserWarning, match=r"column v: the categories '1.2' and '1.20' spell the same value"):
        assert len(llsvm.train(path, label="y", categorical=["v"], **ROOM).feature_names) == 4


def test_lists_written_as_text_are_noted(tmp_path):
    words = third(lambda k: f"[{k}, 2]")
    path = files_of({"x": X.tolist(), "v": words, "y": Y.tolist()}, tmp_path)["csv"]
    with pytest.warns(UserWarning, match=r"column v: values such as '\[0, 2\]' .* are lists written as text"):
        llsvm.train(path, label="y", **ROOM)


@pytest.mark.parametrize("orient", ["columns", "index", "split", "table"])
def test_a_frame_that_pandas_writes_as_one_object_is_told(tmp_path, orient):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": X, "y": Y})
    frame.to_json(tmp_path / "rows.json", orient=orient)
    with pytest.raises(DataError, match=r"rows.json:1: one object holds all rows.*lines=True"):
        llsvm.train(tmp_path / "rows.json", label="y", **ROOM)
    frame.to_json(tmp_path / "rows.json", orient="records", lines=True)
    assert llsvm.train(tmp_path / "rows.json", label="y", **ROOM).n_rows == N


def test_objects_that_are_always_empty_are_refused_as_elsewhere(tmp_path):
    rows = [{"x": X[i], "o": {}, "y": int(Y[i])} for i in range(N)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for data in (tmp_path / "rows.jsonl", pa.Table.from_pylist(rows)):
        with pytest.raises(DataError, match=r"column o has type struct<>, which cannot be a feature"):
            llsvm.train(data, label="y", **ROOM)
        assert llsvm.train(data, label="y", exclude=["o"], **ROOM).feature_names == ("x",)


def test_a_column_without_a_value_in_very_many_batches_takes_the_sort_of_the_next_file(tmp_path):
    days = [dt.date(2024, 1, 1 + i % 9) for i in range(N)]
    empty = pa.table({"x": X, "d": pa.nulls(N, pa.float64()), "y": Y})
    with ipc.new_file(str(tmp_path / "1.arrow"), empty.schema) as writer:
        writer.write_table(pa.concat_tables([empty] * 4), max_chunksize=2)
    as_arrow(pa.table({"x": X, "d": days, "y": Y}), tmp_path / "2.arrow")
    found = llsvm.train([tmp_path / "1.arrow", tmp_path / "2.arrow"], label="y", missing="mean", **ROOM)
    assert found.feature_names == ("x", "d")


@pytest.mark.parametrize("times", [1, 20])
@pytest.mark.parametrize("sign", [",", "\t"])
@pytest.mark.parametrize("rows", ["good film {0},pos\nbad {0},neg\n", "{0},pos\n{0}.5,neg\n"])
def test_a_header_among_the_rows_is_refused(rows, sign, times, tmp_path):
    """Files put behind each other: of text it would be a row, and its label a class."""
    body = "".join(rows.format(i) for i in range(N * times * 50)).replace(",", sign)
    header, path = f"the review{sign}mood\n", tmp_path / "rows.csv"
    path.write_text(header + body + header + body)
    options = {"text": ["the review"]} if "good" in rows else {}
    with pytest.raises(DataError, match=r"rows\.csv:.* (the header stands here again|is not a number)"):
        llsvm.train(path, label="mood", **options, **ROOM)
    path.write_text(header + body)
    known = llsvm.train(path, label="mood", tol=0.5, **options, **ROOM)
    assert known.n_rows == N * times * 100
    if options:
        path.write_text(header + body + header + body)
        with pytest.raises(DataError, match=r"rows\.csv:.* the header stands here again.* one by one$"):
            llsvm.evaluate(known, path)
    quoted = f'"one\n{header}two"{sign}pos\n'
    path.write_text(header + "the reviews,mood\n".replace(",", sign) + quoted + body)
    if options:
        assert llsvm.train(path, label="mood", tol=0.5, **options, **ROOM).n_rows == N * times * 100 + 2


def test_objects_of_polars_are_refused_by_column_and_type():
    pl = pytest.importorskip("polars")
    x = np.random.default_rng(0).normal(size=40)
    objects = pl.Series("o", [object() for _ in x], dtype=pl.Object)
    frame = pl.DataFrame({"x": x, "o": objects, "y": (x > 0).astype(int)})
    X, y = frame[["x", "o"]], frame["y"]
    fitted = llsvm.LLSVMClassifier().fit(frame[["x"]], y)
    other = llsvm.LLSVMRegressor().fit(frame[["x"]], frame["x"])
    for run in (
        lambda: llsvm.LLSVMClassifier().fit(X, y),
        lambda: llsvm.LLSVMClassifier(categorical=["o"]).fit(X, y),
        lambda: llsvm.LLSVMClassifier(text=["o"]).fit(X, y),
        lambda: llsvm.LLSVMClassifier().partial_fit(X, y, classes=[0, 1]),
        lambda: llsvm.LLSVMRegressor().fit(X, frame["x"]),
        lambda: llsvm.LLSVMOutlierDetector().fit(X),
        lambda: fitted.predict(X),
        lambda: fitted.predict(X.select(pl.col("o").alias("x"))),
        lambda: other.predict(X.rename({"x": "was", "o": "x"})[["x"]]),
    ):
        with pytest.raises(
            DataError, match=r"X: column [ox] has the type Object, which holds objects of Python"
        ):
            run()
    for run in (lambda: llsvm.train(frame, label="y"), lambda: llsvm.train(frame.lazy(), label="y")):
        with pytest.raises(
            DataError, match=r"column o has type \S+, which cannot be a feature; leave it out"
        ):
            run()
    with pytest.raises(DataError, match="y: a label of type object: it is not a number"):
        llsvm.LLSVMRegressor().fit(frame[["x"]], objects)
    assert llsvm.train(frame, label="y", exclude=["o"]).n_features_in_ == 1
