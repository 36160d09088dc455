"""A file a month, or a night: folders that name columns, nights without rows, the same from every format."""

import datetime as dt
import errno
import gzip
import json
import os
import shutil
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.errors import DataError, UsageError
from llsvm.files.expansion import expand

N = 40
ROOM = {"memory_limit": "8GB", "threads": 1, "label": "y", "tol": 1e-6}
FORMATS = ["csv", "jsonl", "parquet", "feather"]


def month(seed, rows=N):
    rng = np.random.default_rng(seed)
    amount, town = (
        np.round(rng.normal(size=rows), 2),
        np.array(["Oslo", "Lima", "Rome"])[rng.integers(0, 3, rows)],
    )
    days = [dt.date(2024, 1, 1) + dt.timedelta(int(k)) for k in rng.integers(0, 300, rows)]
    label = np.where(amount + (town == "Oslo") + rng.normal(size=rows) / 2 > 0, "yes", "no")
    return pa.table({"amount": amount, "town": town, "day": pa.array(days), "y": label})


def write(table, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()))
    else:
        how = {".csv": pacsv.write_csv, ".parquet": pq.write_table, ".feather": pa.feather.write_feather}
        how[path.suffix](table, path)


def primal(data, **options):
    return llsvm.train(str(data), **ROOM, **options).certificate.primal


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize("format", FORMATS)
def test_folders_named_by_dates_are_dates_in_every_format(tmp_path, format):
    """... and so is the day of a night that training has not seen."""
    for seed, day in enumerate(["2024-01-31", "2024-02-29", "2024-03-31"]):
        write(month(seed), tmp_path / "d" / f"dt={day}" / f"rows.{format}")
    model = llsvm.train(str(tmp_path / "d"), **ROOM)
    assert [name for name in model.feature_names if name.startswith("dt")] == ["dt"]
    rows = [month(k).append_column("dt", pa.array([day] * N)) for k, day in enumerate(DAYS)]
    assert model.certificate.primal == pytest.approx(primal_of(pa.concat_tables(rows)), rel=1e-9)
    write(month(7), tmp_path / "e" / "dt=2024-04-30" / f"rows.{format}")
    new = month(7).append_column("dt", pa.array([dt.date(2024, 4, 30)] * N))
    assert list(llsvm.predict(model, str(tmp_path / "e"))) == list(llsvm.predict(model, new))


DAYS = [dt.date(2024, 1, 31), dt.date(2024, 2, 29), dt.date(2024, 3, 31)]


def primal_of(table):
    return llsvm.train(table, **ROOM).certificate.primal


@pytest.mark.parametrize("format", FORMATS)
def test_a_column_that_folders_and_files_have_is_the_folders(tmp_path, format):
    for k, town in enumerate(["Oslo", "Lima", "Rome"]):
        write(month(k), tmp_path / "both" / f"town={town}" / f"rows.{format}")
        write(month(k).drop(["town"]), tmp_path / "folders" / f"town={town}" / f"rows.{format}")
    assert primal(tmp_path / "both") == pytest.approx(primal(tmp_path / "folders"), rel=1e-9)
    model = llsvm.train(str(tmp_path / "folders"), **ROOM)
    got = llsvm.evaluate(model, str(tmp_path / "both"), by="town")
    assert got["accuracy"] == llsvm.evaluate(model, str(tmp_path / "folders"))["accuracy"]


@pytest.mark.parametrize("format", FORMATS)
def test_codes_that_folders_give_are_noted_as_those_of_columns_of_csv(tmp_path, format):
    for k, code in enumerate(["1150", "0150", "0301"]):
        write(month(k), tmp_path / f"k={code}" / f"rows.{format}")
    told = "column k: values such as '0150' are read as numbers; pass categorical k if they are codes"
    with pytest.warns(UserWarning, match=told):
        model = llsvm.train(str(tmp_path), **ROOM)
    assert "k" in model.feature_names
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        model = llsvm.train(str(tmp_path), categorical=["k"], **ROOM)
    assert "k=0150" in model.feature_names
    assert not [each for each in notes if "column k" in str(each.message)]


@pytest.mark.parametrize("format", FORMATS)
def test_a_model_that_replaces_what_is_missing_finds_the_columns_of_folders(tmp_path, format):
    for k, town in enumerate(["Oslo", "__HIVE_DEFAULT_PARTITION__", "Rome"]):
        write(month(k).drop(["town"]), tmp_path / f"town={town}" / f"rows.{format}")
    model = llsvm.train(str(tmp_path), missing="mean", **ROOM)
    rows = [month(k).drop(["town"]).append_column("town", pa.array([t] * N, pa.string())) for k, t in TOWNS]
    expected = llsvm.evaluate(model, pa.concat_tables(rows))["accuracy"]
    assert llsvm.evaluate(model, str(tmp_path))["accuracy"] == expected
    assert llsvm.evaluate(model, str(tmp_path), where="town is null")["rows"] == N


TOWNS = [(0, "Oslo"), (1, None), (2, "Rome")]


def test_backups_in_a_folder_are_no_data(tmp_path):
    """An editor's and those of a careful user: their rows would count twice."""
    write(month(0), tmp_path / "rows" / "1.csv")
    for name in ("1.csv~", "1.csv.bak"):
        shutil.copy(tmp_path / "rows" / "1.csv", tmp_path / "rows" / name)
    assert llsvm.train(str(tmp_path / "rows"), **ROOM).n_rows == N
    (tmp_path / "rows" / "1.csv").unlink()
    with pytest.raises(DataError, match=r"the folder has no file .*bak, do not count"):
        llsvm.train(str(tmp_path / "rows"), **ROOM)


@pytest.mark.parametrize(
    "copy", ["1.csv.1", "1.csv.2.gz", "1.csv.gz", "1.csv.old", "1.csv-20240131", "1.csv.2024-01-31"]
)
@pytest.mark.parametrize("address", ["", "file://"])
def test_older_copies_in_a_folder_are_left_out_with_a_note(tmp_path, copy, address):
    """Those of a rotated file: they are read where they are named. Parts of a file are no copies of it."""
    folder = tmp_path / "rows"
    write(month(0), folder / "1.csv")
    shutil.copy(folder / "1.csv", folder / copy)
    if copy.endswith(".gz"):
        (folder / copy).write_bytes(gzip.compress((folder / "1.csv").read_bytes()))
    with pytest.warns(UserWarning, match=rf"{copy}: left out of the folder"):
        model = llsvm.train(f"{address}{folder}", **ROOM)
    assert model.n_rows == N
    with pytest.warns(UserWarning, match=rf"{copy}: left out of the folder"):
        assert len(llsvm.predict(model, f"{address}{folder}", memory_limit="8GB")) == N
    assert llsvm.train([str(folder / "1.csv"), str(folder / copy)], format="csv", **ROOM).n_rows == 2 * N
    assert llsvm.train(f"{address}{folder}/*", format="csv", **ROOM).n_rows == 2 * N
    for part in ("part", "part.1", "part-2"):
        write(month(0), tmp_path / "parts" / f"{part}.csv")
        (tmp_path / "parts" / f"{part}.csv").rename(tmp_path / "parts" / part)
    assert llsvm.train(f"{address}{tmp_path / 'parts'}", **ROOM).n_rows == 3 * N


@pytest.mark.parametrize(
    ("name", "text", "what"), [("README.txt", "", "empty"), ("zz.md", "Sales by town", "svmlight")]
)
def test_a_file_of_another_format_in_a_folder_is_named_with_the_remedy(tmp_path, name, text, what):
    write(month(0), tmp_path / "rows.csv")
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=rf"{name} is {what}.*a pattern such as '\*\.csv'"):
        llsvm.train(str(tmp_path), **ROOM)


@pytest.mark.parametrize("format", FORMATS)
def test_text_in_a_column_that_the_first_file_has_no_value_of_is_read(tmp_path, format):
    first = month(0).set_column(
        1, "town", pa.nulls(N, pa.null() if format in ("parquet", "feather") else pa.string())
    )
    write(first, tmp_path / f"1.{format}")
    write(month(1), tmp_path / f"2.{format}")
    assert len(llsvm.train(str(tmp_path), missing="zero", **ROOM).feature_names) == 5
    model = llsvm.train(str(tmp_path), missing="zero", categorical=["town"], **ROOM)
    assert len(model.feature_names) == 5


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_night_without_rows_changes_nothing_wherever_it_stands(tmp_path, format, place):
    whole, quiet = tmp_path / "whole", tmp_path / "quiet"
    for k in range(2):
        write(month(k), whole / f"{k}.{format}")
        write(month(k), quiet / f"{k + (k >= place)}.{format}")
    write(month(0, rows=0), quiet / f"{place}.{format}")
    assert primal(quiet) == primal(whole)
    model = llsvm.train(str(whole), **ROOM)
    assert llsvm.evaluate(model, str(quiet))["rows"] == 2 * N
    assert list(llsvm.predict(model, str(quiet))) == list(llsvm.predict(model, str(whole)))
    outputs = [tmp_path / f"{name}.parquet" for name in ("a", "b")]
    for folder, output in zip((whole, quiet), outputs, strict=True):
        assert run("convert", folder, output).exit_code == 0
    assert pq.read_table(outputs[0]).equals(pq.read_table(outputs[1]))


@pytest.mark.parametrize("door", ["parquet", "feather", "tables", "iterator", "callable"])
@pytest.mark.parametrize("empty", ["typed", "as pandas writes it"])
def test_a_night_without_rows_does_not_say_what_columns_mean(tmp_path, door, empty):
    """Text that means dates or numbers, and columns without a type."""
    rows = month(0).append_column("size", pa.array([f"{k / 7:.2f}" for k in range(N)]))
    rows = rows.set_column(2, "day", rows["day"].cast(pa.string()))
    none = pd.DataFrame(columns=rows.column_names)
    none = rows.slice(0, 0) if empty == "typed" else pa.Table.from_pandas(none, preserve_index=False)

    def data(nights, folder):
        if door in ("parquet", "feather"):
            for k, table in enumerate(nights):
                write(table, tmp_path / folder / f"{k}.{door}")
            return str(tmp_path / folder)
        return {"tables": nights, "iterator": iter(nights), "callable": lambda: iter(nights)}[door]

    whole = llsvm.train(data([rows, rows], "whole"), **ROOM)
    quiet = llsvm.train(data([none, none, rows, none, rows], "quiet"), **ROOM)
    assert whole.feature_names == ("amount", "day", "size", "town=Rome", "town=Lima", "town=Oslo")
    assert quiet.feature_names == whole.feature_names
    assert quiet.certificate.primal == pytest.approx(whole.certificate.primal, rel=1e-9)
    assert list(llsvm.predict(whole, data([none, rows], "new"))) == list(llsvm.predict(whole, rows))
    last = llsvm.train(data([none, none, rows], "last"), **ROOM)
    assert last.feature_names == whole.feature_names
    assert last.extra["table"]["columns"] == whole.extra["table"]["columns"]


@pytest.mark.parametrize("kind", [pa.ipc.new_file, pa.ipc.new_stream])
def test_a_record_batch_without_rows_does_not_say_what_columns_mean(tmp_path, kind):
    """... nor does a file that has nothing but such a one."""
    rows = month(0)
    rows = rows.set_column(2, "day", rows["day"].cast(pa.string()))
    none = pa.table({name: pa.nulls(0) for name in rows.column_names})
    for name, table, rest in (("1.arrow", none, None), ("2.arrow", rows.slice(0, 0), rows)):
        with kind(str(tmp_path / name), table.schema) as writer:
            empty = [pa.array([], field.type) for field in table.schema]
            writer.write_batch(pa.record_batch(empty, schema=table.schema))
            if rest is not None:
                writer.write_table(rest)
    with pytest.warns(UserWarning, match=r"2.arrow: column day: text that means dates"):
        model = llsvm.train(str(tmp_path), **ROOM)
    assert model.extra["table"]["columns"][-1]["sort"] == "date"


@pytest.mark.parametrize("ends", ["", "\n", "\r\n"])
def test_a_header_takes_its_columns_from_the_next_file_with_rows(tmp_path, ends):
    """Whole numbers, fractions, dates; also where nothing ends the line of the header."""
    for name in ("0.csv", "1.csv", "3.csv"):
        (tmp_path / name).write_bytes(b"n,town,day,y" + ends.encode())
    (tmp_path / "2.csv").write_text("town,day,n,y\nOslo,2024-01-05,1,0\nLima,2024-02-05,2,1\n")
    (tmp_path / "4.csv").write_text("n,town,day,y\n1.5,Oslo,2024-01-07,0\n2.5,Lima,2024-03-05,1\n")
    model = llsvm.train(str(tmp_path), **ROOM)
    assert model.feature_names == ("n", "day", "town=Oslo", "town=Lima")
    assert list(llsvm.predict(model, str(tmp_path))) == [0, 1, 0, 1]
    for name in ("2.csv", "4.csv"):
        (tmp_path / name).write_bytes(b"n,town,day,y" + ends.encode())
    with pytest.raises(DataError, match="there is no row in it"):
        llsvm.train(str(tmp_path), **ROOM)


@pytest.mark.parametrize("text", ["", "\n", "\n\n\r\n"])
def test_json_lines_without_a_line_have_no_predictions(tmp_path, text):
    """They have no header either: what is asked for is there, and empty."""
    llsvm.train(month(0), output=tmp_path / "m", **ROOM)
    path = tmp_path / "none.jsonl"
    path.write_text(text)
    done = run("predict", tmp_path / "m", path)
    assert (done.exit_code, done.output) == (0, "")
    done = run(
        "predict", tmp_path / "m", path, "--keep", "id,town", "--scores", "--output", tmp_path / "o.csv"
    )
    assert (done.exit_code, done.output) == (0, "")
    assert (tmp_path / "o.csv").read_text() == "id,town,prediction,score\n"
    for words in (
        ("evaluate", tmp_path / "m", path),
        ("train", path, "--label", "y", "--model", tmp_path / "n"),
    ):
        done = run(*words)
        assert done.exit_code == 3
        assert "give a file with at least one row" in done.stderr


def test_many_blank_lines_are_no_rows(tmp_path):
    path, lines = tmp_path / "rows.jsonl", [json.dumps(row, default=str) for row in month(0).to_pylist()]
    path.write_text("\n".join([*lines[:20], "\n" * 3_000_000, *lines[20:]]))
    assert primal(path) == pytest.approx(primal_of(month(0)), rel=1e-9)


def test_a_pattern_of_folders_stands_for_their_files(tmp_path):
    """As where a shell expands it: in quotes, in run files, and in Python."""
    for k in range(3):
        write(month(k), tmp_path / "d" / f"month={k}" / "rows.csv")
    named = [str(tmp_path / "d" / f"month={k}") for k in range(3)]
    assert primal(tmp_path / "d" / "month=*") == llsvm.train(named, **ROOM).certificate.primal
    assert llsvm.train(str(tmp_path / "d" / "month=[12]"), **ROOM).n_rows == 2 * N
    with pytest.raises(DataError, match="no file is called so"):
        llsvm.train(str(tmp_path / "d" / "week=*"), **ROOM)


def test_links_to_folders_are_followed_but_not_back(tmp_path):
    """As a pattern follows them."""
    write(month(1), tmp_path / "p" / "m=1" / "rows.csv")
    write(month(2), tmp_path / "elsewhere" / "rows.csv")
    (tmp_path / "p" / "m=2").symlink_to("../elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to("../p")
    (tmp_path / "elsewhere" / "self").symlink_to(".")
    model = llsvm.train(tmp_path / "p", **ROOM)
    assert (model.n_rows, "m" in model.feature_names) == (2 * N, True)
    assert llsvm.train(str(tmp_path / "p/*/*.csv"), **ROOM).certificate.primal == model.certificate.primal
    assert len(llsvm.predict(model, tmp_path / "p", memory_limit="8GB")) == 2 * N
    alone = tmp_path / "links"
    alone.mkdir()
    (alone / "m=2").symlink_to("../elsewhere")
    assert llsvm.train(alone, **ROOM).n_rows == 2 * N


def locked(monkeypatch, folder):
    """As for a user without rights to it: neither list its names nor enter it."""
    (scan, list_names, stat), inside = (os.scandir, os.listdir, os.stat), f"{folder}{os.sep}"

    def refused(ask, within):
        def asked(path=".", *rest, **more):
            path = path if isinstance(path, int) else os.fspath(path)
            if isinstance(path, str) and (os.path.join(path, "") if within else path).startswith(inside):
                if not within and path == inside:
                    return ask(path, *rest, **more)
                raise PermissionError(errno.EACCES, "Permission denied", path)
            return ask(path, *rest, **more)

        return asked

    monkeypatch.setattr(os, "scandir", refused(scan, True))
    monkeypatch.setattr(os, "listdir", refused(list_names, True))
    for name, ask in (("stat", stat), ("lstat", os.lstat)):
        monkeypatch.setattr(os, name, refused(ask, False))


@pytest.mark.parametrize("pattern", ["", "/*/*.csv", "/**/*.csv", "/*", "/**", "/*/rows.csv", "/m=2/*"])
@pytest.mark.parametrize("months", [(1, 2), (2,)])
def test_a_folder_that_cannot_be_read_is_refused(tmp_path, monkeypatch, pattern, months):
    """Its rows would be missing without a word."""
    for k in months:
        write(month(k), tmp_path / "hv" / f"m={k}" / "rows.csv")
    llsvm.train(month(0), output=tmp_path / "model", **ROOM)
    locked(monkeypatch, tmp_path / "hv" / "m=2")
    named = f"{tmp_path / 'hv'}{pattern}"
    with pytest.raises(DataError, match=r"hv/m=2\S*: cannot be read: Permission denied"):
        llsvm.train(named, **ROOM)
    commands = [
        ("train", named, "--label", "y", "--model", tmp_path / "n"),
        ("predict", tmp_path / "model", named),
        ("evaluate", tmp_path / "model", named),
        ("verify", tmp_path / "model", named),
        ("convert", named, tmp_path / "o.parquet"),
    ]
    for words in commands:
        done = run(*words)
        assert done.exit_code == 3, (words, done.output)
        assert "Permission denied" in done.stderr
        assert "hv/m=2" in done.stderr


@pytest.mark.parametrize("format", FORMATS)
def test_a_column_that_one_files_folders_do_not_give_is_none_and_that_is_said(tmp_path, format):
    for seed, folder in enumerate(("shop=1", "shop=2", "stray")):
        write(month(seed), tmp_path / "sales" / folder / f"rows.{format}")
    with pytest.warns(
        UserWarning, match=rf"stray/rows.{format}: no folder of it gives shop, .*shop=1.*no column"
    ):
        model = llsvm.train(tmp_path / "sales", **ROOM)
    assert not any(name.startswith("shop") for name in model.feature_names)


@pytest.mark.parametrize("named", ["rows", "rows/*.csv", "rows/1.csv"])
def test_no_output_takes_the_place_of_a_file_that_is_read(tmp_path, monkeypatch, named):
    monkeypatch.chdir(tmp_path)
    for night in (1, 2):
        write(month(night), tmp_path / "rows" / f"{night}.csv")
    before = (tmp_path / "rows" / "1.csv").read_bytes()
    model = llsvm.train("rows", **ROOM, output="m")
    commands = [
        f"train {named} --label y --model rows/1.csv",
        f"train rows/2.csv --label y --model n --test {named} --trace rows/1.csv",
        f"train {named} --label y --model n --trace rows/1.csv",
        f"train {named} --label y --model n --save-run rows/1.csv",
        f"tune {named} --label y --model rows/1.csv",
        f"predict m {named} --output rows/1.csv",
        f"report m --data {named} --output rows/1.csv",
        f"convert {named} rows/1.csv --to parquet",
    ]
    for command in commands:
        done = CliRunner().invoke(app, command.split())
        assert done.exit_code == 2, (command, done.output)
        assert "rows/1.csv: would overwrite the input rows/1.csv" in done.output
    calls = [
        lambda: llsvm.train(named, **ROOM, output="rows/1.csv"),
        lambda: llsvm.train([named], **ROOM, output="rows/1.csv"),
        lambda: llsvm.tune(named, label="y", output="rows/1.csv"),
        lambda: llsvm.write_predictions(model, named, "rows/1.csv"),
        lambda: llsvm.report(model, named, output="rows/1.csv"),
    ]
    for call in calls:
        with pytest.raises(llsvm.UsageError, match="would overwrite the input"):
            call()
    assert (tmp_path / "rows" / "1.csv").read_bytes() == before


@pytest.mark.parametrize("format", ["parquet", "feather"])
@pytest.mark.parametrize("types", [("us", "UTC"), ("UTC", "us"), ("day", "Europe/Berlin")])
def test_times_with_a_zone_in_some_files_alone_are_refused_as_in_text(tmp_path, format, types):
    """Nobody can tell how many hours lie between them."""
    known = {"us": pa.timestamp("us"), "day": pa.date32()}
    folders = {"mixed": types, "alike": types[:1] * 2}
    for folder, kinds in folders.items():
        for k, kind in enumerate(kinds):
            rows = month(k)
            day = rows["day"].cast(pa.timestamp("us")).cast(known.get(kind, pa.timestamp("us", kind)))
            write(rows.set_column(2, "day", day), tmp_path / folder / f"{k}.{format}")
    with pytest.raises(DataError, match=r"1\.\w+: column day has type"):
        llsvm.train(str(tmp_path / "mixed"), **ROOM)
    model = llsvm.train(str(tmp_path / "alike"), **ROOM)
    with pytest.raises(DataError, match=r"1\.\w+: column day has type"):
        llsvm.predict(model, str(tmp_path / "mixed"))


@pytest.mark.parametrize("format", ["parquet", "feather"])
@pytest.mark.parametrize("options", [{}, {"text": ["town"]}, {"where": 'town != "Rome" or town is null'}])
def test_a_column_without_a_type_in_the_first_file_has_that_of_the_next_that_has_one(
    tmp_path, format, options
):
    """... as the same rows of typed columns have it, in training, in `convert`, and where labels are missing."""
    tables = [month(seed) for seed in range(4)]
    for number in (0, 1):
        for place, name in ((1, "town"), (2, "day")):
            tables[number] = tables[number].set_column(place, name, pa.nulls(N))
    typed = [table.cast(tables[3].schema) for table in tables]
    for name, made in (("null", tables), ("typed", typed)):
        for number, table in enumerate(made):
            write(table, tmp_path / name / f"{number}.{format}")
    found, wanted = (
        llsvm.train(str(tmp_path / name), **ROOM, missing="zero", **options) for name in ("null", "typed")
    )
    assert list(found.feature_names) == list(wanted.feature_names)
    np.testing.assert_array_equal(found.coef_, wanted.coef_)
    done = run("convert", tmp_path / "null", "--to", "parquet", tmp_path / "all.parquet")
    assert done.exit_code == 0, done.output
    assert pq.read_table(tmp_path / "all.parquet").column("town").to_pylist()[2 * N :] == [
        *tables[2].column("town").to_pylist(),
        *tables[3].column("town").to_pylist(),
    ]


@pytest.mark.parametrize("format", ["parquet", "feather"])
def test_text_labels_that_the_first_file_has_none_of(tmp_path, format):
    write(month(0).set_column(3, "y", pa.nulls(N)), tmp_path / f"0.{format}")
    write(month(1), tmp_path / f"1.{format}")
    model = llsvm.train(str(tmp_path), **ROOM, missing_label="drop")
    assert model.labels == ["no", "yes"]


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
@pytest.mark.parametrize(
    ("key", "values"),
    [("month", ["2024-01", "2024-02"]), ("rate", ["1,5", "2,5"]), ("day", ["05.01.2024", "06.01.2024"])],
)
def test_remedies_for_what_folders_give_are_for_folders(tmp_path, suffix, key, values):
    """No cell has these values: none can be written otherwise."""
    rng = np.random.default_rng(0)
    for value in values:
        folder = tmp_path / f"{key}={value}"
        folder.mkdir()
        frame = pd.DataFrame({"a": rng.normal(size=40).round(2)})
        frame["y"] = (frame["a"] > 0).astype(int)
        write = {"csv": frame.to_csv, "parquet": frame.to_parquet, "jsonl": frame.to_json}[suffix]
        more = {"orient": "records", "lines": True} if suffix == "jsonl" else {"index": False}
        write(folder / f"rows.{suffix}", **more)
    with pytest.raises(DataError) as refused:
        llsvm.train(tmp_path, label="y")
    said = str(refused.value)
    assert said.startswith(f"column {key}, which folders give: values such as ")
    assert "write" not in said.partition("written as text")[2]
    assert f"(exclude {key}), or keep its values as categories all the same (categorical {key})" in said
    names = [llsvm.train(tmp_path, label="y", **{way: [key]}).labels for way in ("exclude", "categorical")]
    assert names == [["0", "1"]] * 2


def test_links_to_siblings_are_said_by_every_command_that_reads(tmp_path):
    write(month(1), tmp_path / "p" / "m=1" / "rows.csv")
    (tmp_path / "p" / "m=2").symlink_to("m=1")
    (tmp_path / "p" / "again.csv").symlink_to("m=1/rows.csv")
    model = tmp_path / "model"
    llsvm.train(month(0), output=model, **ROOM)
    named = tmp_path / "p"
    commands = [
        ("train", named, "--label", "y", "--model", tmp_path / "n"),
        ("predict", model, named, "--output", tmp_path / "o.txt"),
        ("evaluate", model, named),
        ("inspect", named, "--label", "y"),
        ("convert", named, tmp_path / "o.parquet", "--label", "y"),
    ]
    for words in commands:
        done = run(*words)
        assert done.exit_code == 0, (words, done.output)
        assert "the file is named more than once, and its rows count each time" in done.output, words


@pytest.mark.parametrize("pattern", ["", "/**", "/**/*.csv", "/**/rows.csv", "/**/b/*"])
def test_links_that_lead_round_end_and_name_no_file_again_and_again(tmp_path, pattern):
    """Two of them in one folder are 2^40 ways, as far as the system follows links."""
    top = tmp_path / "top"
    for name in ("a", "b"):
        write(month(1), top / name / "rows.csv")
        for link, to in (("up", ".."), ("self", "."), ("a", "../a"), ("b", "../b")):
            if link != name:
                (top / name / link).symlink_to(to)
    files = expand([f"{top}{pattern}"]).files
    assert len(files) == len(set(files)) == (3 if pattern == "/**/b/*" else 4)
    assert {os.path.realpath(each) for each in files} <= {str(top / each / "rows.csv") for each in "ab"}
    with pytest.warns(UserWarning, match="named more than once"):
        llsvm.train(f"{top}{pattern}", **ROOM)


@pytest.mark.skipif(os.getuid() != 0, reason="the folder is the administrator's")
@pytest.mark.parametrize("pattern", ["", "/**/*.csv", "/*/*.csv", "/*/rows.csv", "/**"])
def test_what_a_file_system_keeps_for_itself_is_left_out_with_a_note(tmp_path, monkeypatch, pattern):
    write(month(1), tmp_path / "disk" / "m=1" / "rows.csv")
    (tmp_path / "disk" / "lost+found").mkdir()
    locked(monkeypatch, tmp_path / "disk" / "lost+found")
    with pytest.warns(
        UserWarning, match=r"lost\+found: left out: it cannot be read, and is the file system's own"
    ):
        assert llsvm.train(f"{tmp_path / 'disk'}{pattern}", **ROOM).n_rows == N
    (tmp_path / "disk" / "lost+found").rename(tmp_path / "disk" / "Lost+Found")
    locked(monkeypatch, tmp_path / "disk" / "Lost+Found")
    with pytest.raises(DataError, match=r"Lost\+Found\S*: cannot be read"):
        llsvm.train(f"{tmp_path / 'disk'}{pattern}", **ROOM)
