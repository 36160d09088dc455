"""Dates, times with a zone, times of day and spans of time are not taken for each other, by any way in."""

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cells import in_turn
from pyarrow.dataset import dataset

import llsvm
from llsvm.errors import DataError
from llsvm.estimators.classifier import LLSVMClassifier

ROOM = {"label": "label", "memory_limit": "2GB", "threads": 1}
N = 24
LABELS = ["a" if i < N // 2 else "b" for i in range(N)]
MOMENTS = [dt.datetime(2024, 1, 1 + i, i % 24, 30, 5) for i in range(N)]
TYPED = {
    "day": pa.array([each.date() for each in MOMENTS]),
    "moment": pa.array(MOMENTS, pa.timestamp("us")),
    "zoned": pa.array(MOMENTS, pa.timestamp("us", "UTC")),
    "clock": pa.array([each.time() for each in MOMENTS], pa.time64("us")),
    "span": pa.array([each - MOMENTS[0] for each in MOMENTS], pa.duration("us")),
    "number": pa.array([1.0 * i for i in range(N)]),
}
WRITTEN = {
    "day": [str(each.date()) for each in MOMENTS],
    "moment": [str(each) for each in MOMENTS],
    "zoned": [f"{each}Z" for each in MOMENTS],
    "clock": [str(each.time()) for each in MOMENTS],
    "number": [f"{i}.5" for i in range(N)],
}
ALIKE = {"day": {"day", "moment"}, "moment": {"day", "moment"}}  # others stand alone
IN_WORDS = {
    "day": "dates or times without a zone",
    "moment": "dates or times without a zone",
    "zoned": "times with a zone",
    "clock": "times of day",
    "span": "spans of time",
    "number": "numbers",
}
DOORS = ["csv", "jsonl", "parquet of text", "pandas of text", "parquet", "arrow", "pandas", "polars", "lazy"]


def data_of(door, sort, folder):
    """The same rows; None where that way cannot hand over such values."""
    texts = door in ("csv", "jsonl") or door.endswith("of text")
    if texts and sort not in WRITTEN:
        return None
    columns = {"when": WRITTEN[sort] if texts else TYPED[sort], "label": LABELS}
    path = str(folder / f"{sort}.{door.split()[0]}")
    if door == "csv":
        pd.DataFrame(columns).to_csv(path, index=False)
    elif door == "jsonl":
        with open(path, "w") as file:
            file.writelines(
                json.dumps({"when": a, "label": b}) + "\n" for a, b in zip(*columns.values(), strict=True)
            )
    elif door.startswith("parquet"):
        pq.write_table(pa.table(columns), path)
    elif door.startswith("pandas"):
        return pa.table(columns).to_pandas()
    elif door == "arrow":
        return pa.table(columns)
    else:
        return pl.from_arrow(pa.table(columns)).lazy() if door == "lazy" else pl.from_arrow(pa.table(columns))
    return path


@pytest.fixture(scope="module")
def models():
    return {sort: llsvm.train(pa.table({"when": TYPED[sort], "label": LABELS}), **ROOM) for sort in TYPED}


@pytest.mark.parametrize(("door", "given"), in_turn(DOORS, TYPED, 3))
def test_values_of_another_sort_are_refused(models, door, given, tmp_path):
    if (data := data_of(door, given, tmp_path)) is None:
        return
    for sort, model in models.items():
        if given in ALIKE.get(sort, {sort}):
            assert llsvm.evaluate(model, data)["rows"] == N
            assert len(llsvm.predict(model, data)) == N
            continue
        for ask in (llsvm.evaluate, llsvm.predict):
            with pytest.raises(DataError, match=r"column when\b.*(write|hand)") as error:
                ask(model, data)
            if sort != "number" and given != "number":
                assert f"trained on {IN_WORDS[sort]}" in str(error.value)
        if door in ("pandas", "polars", "arrow"):
            with pytest.raises(DataError, match=r"X: (row 1: )?column when .*trained on"):
                model.predict(data)


@pytest.mark.parametrize(("sort", "given"), [("day", "clock"), ("moment", "zoned"), ("span", "clock")])
def test_estimators_and_later_files_refuse_them_too(sort, given, tmp_path):
    frames = [pa.table({"when": TYPED[each]}).to_pandas() for each in (sort, given)]
    estimator = LLSVMClassifier().fit(frames[0], LABELS)
    with pytest.raises(DataError, match=f"trained on {IN_WORDS[sort]}"):
        estimator.predict(frames[1])
    with pytest.raises(DataError, match=f"holds {IN_WORDS[sort]} in"):
        llsvm.train([data_of("parquet", each, tmp_path) for each in (sort, given)], **ROOM)


def test_columns_without_any_value_are_of_every_sort():
    for sort in TYPED:
        table = pa.table({"when": TYPED[sort], "label": LABELS})
        filled = llsvm.train(table, missing="mean", **ROOM)
        assert len(llsvm.predict(filled, pa.table({"when": pa.nulls(N)}))) == N


@pytest.mark.parametrize("dates", [True, False, None, "absent"])
def test_models_of_before_take_what_they_took(models, dates, tmp_path):
    """Their files say whether numbers are dates or times, or nothing at all."""
    model = llsvm.load(saved(models["number" if dates is False else "day"], tmp_path))
    column = model.extra["table"]["columns"][0]
    del column["sort"]
    if dates != "absent":
        column["dates"] = dates
    old = llsvm.load(saved(model, tmp_path))
    takes = {True: {*TYPED} - {"number"}, False: {"number"}}.get(dates, {*TYPED})
    for door in ("parquet", "csv", "pandas"):
        for given in TYPED:
            if (data := data_of(door, given, tmp_path)) is None:
                continue
            if given in takes:
                assert len(llsvm.predict(old, data)) == N
            else:
                with pytest.raises(DataError, match="column when"):
                    llsvm.predict(old, data)


def saved(model, folder):
    model.save(folder / "m")
    return folder / "m"


def test_a_sort_that_is_not_known_is_refused(models, tmp_path):
    model = llsvm.load(saved(models["day"], tmp_path))
    model.extra["table"]["columns"][0]["sort"] = "moon"
    with pytest.raises(llsvm.ModelError, match="sort"):
        llsvm.load(saved(model, tmp_path))


def test_a_word_of_another_sort_among_others_is_refused_by_its_row(models):
    words = pa.table({"when": ["2024-01-05", "2024-01-06", "12:30"]})
    with pytest.raises(
        DataError, match=r"X: row 3: column when: '12:30' is no date or time; .* such as 2024"
    ):
        llsvm.predict(models["day"], words)


def mixed(first, second):
    """The rows of both sorts, one after the other, as programs hand them over."""
    tables = [pa.table({"when": TYPED[sort], "label": LABELS}) for sort in (first, second)]
    frames = [table.to_pandas() for table in tables]
    return {
        "concat": pd.concat(frames, ignore_index=True),
        "tables": tables,
        "record batches": [batch for table in tables for batch in table.to_batches()],
        "frames": frames,
        "callable": lambda: iter(tables),
    }


@pytest.mark.parametrize("order", [("moment", "zoned"), ("zoned", "moment")])
@pytest.mark.parametrize("door", ["concat", "tables", "record batches", "frames", "callable"])
def test_times_with_a_zone_beside_others_are_refused_in_memory(models, door, order):
    """... where Arrow would take those without one for UTC; in training, and in prediction."""
    data = mixed(*order)[door]
    with pytest.raises(DataError, match=r"column when .*zone"):
        llsvm.train(data, **ROOM)
    for score in (llsvm.evaluate, llsvm.predict):
        with pytest.raises(DataError, match=r"column when .*zone"):
            score(models["moment"], data, memory_limit="2GB", threads=1)


def test_estimators_refuse_times_with_a_zone_beside_others():
    """A missing time is of either sort, and times of two zones are of one."""
    with pytest.raises(DataError, match=r"column when holds times with a zone beside dates"):
        LLSVMClassifier().fit(mixed("zoned", "moment")["concat"][["when"]], LABELS * 2)
    zones = [pd.Timestamp(each, tz=("UTC", "Asia/Tokyo")[i % 2]) for i, each in enumerate(MOMENTS)]
    frame = pd.DataFrame({"when": pd.Series([*zones[1:], pd.NaT], dtype=object), "label": LABELS})
    assert llsvm.train(frame, missing="mean", **ROOM).feature_names == ("when",)


@pytest.mark.parametrize("order", [("moment", "zoned"), ("zoned", "moment")])
def test_datasets_refuse_times_with_a_zone_beside_others(order, tmp_path):
    paths = [str(tmp_path / f"{sort}.parquet") for sort in order]
    for path, sort in zip(paths, order, strict=True):
        pq.write_table(pa.table({"when": TYPED[sort], "label": LABELS}), path)
    with pytest.raises(DataError, match=rf"{order[1]}.parquet: column when has type .*zone"):
        llsvm.train(dataset(paths), **ROOM)


@pytest.mark.parametrize("format", ["csv", "jsonl"])
@pytest.mark.parametrize("zone", ["", "Z"])
def test_later_times_in_nanoseconds_are_refused_as_such(format, zone, tmp_path):
    """... behind the first megabyte, which tells what the column holds."""
    times = [f"2024-01-{1 + i % 28:02}T00:00:0{i % 10}{zone}" for i in range(50_000)]
    times.append(f"2024-01-01T00:00:00.123456789{zone}")
    path = tmp_path / f"rows.{format}"
    with open(path, "w") as file:
        file.writelines(["when,label\n"] * (format == "csv"))
        for i, each in enumerate(times):
            row = {"when": each, "label": "ab"[i % 2]}
            file.write(f"{each},{row['label']}\n" if format == "csv" else json.dumps(row) + "\n")
    with pytest.raises(DataError, match=r"column when: .* is finer than a microsecond"):
        llsvm.train(str(path), **ROOM)


def test_a_later_batch_has_values_of_the_first_ones_sorts():
    first = pa.table({"when": TYPED["day"], "label": LABELS})
    later = {"number": TYPED["number"], "clock": TYPED["clock"], "list": pa.array([[1.0]] * N)}
    for values in later.values():
        with pytest.raises(
            DataError, match=r"(a later one|row 25): column when has type .*, but holds dates"
        ):
            llsvm.train([first, pa.table({"when": values, "label": LABELS})], **ROOM)


DAYS = [dt.datetime(2024, 1, 1 + i // 8) for i in range(N)]
UNITS = {
    **{unit: pa.array(DAYS, pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    "day": pa.array([each.date() for each in DAYS]),
    "dictionary": pa.array(DAYS, pa.timestamp("ms")).dictionary_encode(),
    "text": pa.array([str(each.date()) for each in DAYS]),
}
SPANS = {unit: pa.array([each - DAYS[0] for each in DAYS], pa.duration(unit)) for unit in ("s", "us", "ns")}
CLOCKS = {
    unit: pa.array([dt.time(9, each.day) for each in DAYS], type_)
    for unit, type_ in (("s", pa.time32("s")), ("us", pa.time64("us")))
}
SCALES = {
    scale: pa.array([Decimal(each.day).scaleb(-1) for each in DAYS], pa.decimal128(9, scale))
    for scale in (1, 2, 5)
}


@pytest.mark.parametrize(
    "written", [UNITS, SPANS, CLOCKS, SCALES], ids=["times", "spans", "clocks", "decimals"]
)
def test_categories_do_not_depend_on_the_unit_of_their_type(written):
    """A model of nanoseconds, as pandas had them, knows the days that pandas now has in microseconds."""
    tables = [pa.table({"when": each, "label": LABELS}) for each in written.values()]
    models = [llsvm.train(each, categorical=["when"], **ROOM) for each in tables]
    assert {model.feature_names for model in models} == {models[0].feature_names}
    for model in models:
        assert {llsvm.evaluate(model, each)["accuracy"] for each in tables} == {1.0 - 4 / N}


def test_documents_that_are_dates_are_text_in_json_lines_too(tmp_path):
    path, of_dates = str(tmp_path / "rows.jsonl"), str(tmp_path / "later.jsonl")
    days = [f"2024-01-{1 + i:02}" for i in range(N)]
    with open(path, "w") as file, open(of_dates, "w") as later:
        for day, label in zip(days, LABELS, strict=True):
            line = json.dumps({"seen": {"when": day}, "then": day, "label": label}) + "\n"
            file.write(line)
            later.write(line)
    frame = pd.DataFrame({"seen.when": days, "then": days, "label": LABELS})
    for named in ("seen.when", "0", "seen*"):
        model = llsvm.train(path, text=[named], **ROOM)
        expected = llsvm.train(frame, text=[named], **ROOM)
        assert model.feature_names == expected.feature_names
        assert model.coef_ == pytest.approx(expected.coef_)
        assert llsvm.predict(model, of_dates).tolist() == llsvm.predict(expected, frame).tolist()


@pytest.mark.parametrize("door", ["files", "tables", "frames"])
def test_a_column_whose_first_file_has_no_value_takes_the_sort_of_the_next(door, tmp_path):
    """It mixed days and plain numbers without a word, and so did predictions."""
    rng = np.random.default_rng(0)
    days = pa.array(np.datetime64("2024-01-01") + np.arange(30)).cast(pa.date32())

    def table(when):
        a = rng.normal(size=30)
        return pa.table({"a": a, "when": when, "y": (a > 0).astype(int)})

    tables = [table(pa.nulls(30)), table(days), table(pa.array(range(0, 30_000, 1000)))]

    def given(parts):
        if door == "files":
            folder = tmp_path / str(len(parts))
            folder.mkdir()
            for number, part in enumerate(parts):
                pq.write_table(part, folder / f"{number}.parquet")
            return str(folder)
        return [part.to_pandas() for part in parts] if door == "frames" else parts

    with pytest.raises(DataError, match=r"column when has type int64, but holds dates or times"):
        llsvm.train(given(tables), label="y", missing="mean")
    model = llsvm.train(given(tables[:2]), label="y", missing="mean")
    assert len(llsvm.predict(model, tables[1])) == 30
    with pytest.raises(DataError, match=r"column when has type int64, but the model was trained on dates"):
        llsvm.predict(model, tables[2])


@pytest.mark.parametrize("name", ["day", "zoned", "clock", "span"])
@pytest.mark.parametrize("door", ["pandas", "polars", "parquet", "feather", "csv"])
def test_floats_that_are_all_missing_are_of_any_sort(tmp_path, door, name):
    n = 60
    days = pd.date_range("2024-01-01", periods=n)
    clock = [time.time() for time in pd.date_range("2024-01-01", periods=n, freq="min")]
    both = {"day": days, "zoned": days.tz_localize("UTC"), "clock": clock, "span": days - days[0]}
    rows = pd.DataFrame({"x": np.arange(n) % 7.0, name: both[name], "label": np.arange(n) % 2})
    gaps = rows.assign(**{name: np.nan})  # as pandas reads a column of whatever sort that has no value

    def data_of(frame, number):
        path = tmp_path / f"{number}.{door}"
        if door == "parquet":
            frame.to_parquet(path)
        elif door == "feather":
            frame.to_feather(path)
        elif door == "csv":
            frame.to_csv(path, index=False)
        else:
            return frame if door == "pandas" else pl.from_pandas(frame)
        return path

    options = {"label": "label", "missing": "mean", "memory_limit": "2GB", "threads": 1}
    if (door, name) != ("csv", "span"):  # which text cannot spell
        model = llsvm.train(data_of(rows, 0), **options)
        assert len(llsvm.predict(model, data_of(gaps, 1))) == n
        other = data_of(gaps.assign(**{name: [*[np.nan] * 9, *np.arange(n - 9.0)]}), 2)
        with pytest.raises(
            DataError, match=f"row 10: column {name} has type double, but the model was trained on"
        ):
            llsvm.predict(model, other)
        if door in ("parquet", "feather", "csv"):
            files = [tmp_path / f"{number}.{door}" for number in range(2)]
            assert llsvm.train(files, **options).n_rows == 2 * n
            with pytest.raises(DataError, match=rf"column {name}\b.*(but holds|is no date)"):
                llsvm.train([files[0], other], **options)
