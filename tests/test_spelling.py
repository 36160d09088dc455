"""Text that means numbers or dates: one rule, whatever carries it (the table of the guide's page on formats)."""

import datetime
import json
import random
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from cells import in_turn
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.errors import DataError
from llsvm.features import spelling
from llsvm.features.spelling import BOOL, DATE, MISSING, NUMBER, OTHER_DATE, OTHER_NUMBER, TEXT, kind_of_word

LIMIT = "2GB"
N = 400
NUMBERS = [str(round(i * 0.37 - 40, 2)) for i in range(N)]
DATES = [str(datetime.date(2022, 1, 1) + datetime.timedelta(days=i)) for i in range(N)]
BOOLS = [str(i % 5 < 2 or i > N // 2) for i in range(N)]
LABELS = ["no"] * (N // 2) + ["yes"] * (N // 2)


def data_of(door, words, folder, name="rows"):
    """A column x of text, and labels."""
    table = {"x": list(words), "label": LABELS}
    path = str(folder / f"{name}.{door}")
    if door == "csv":
        pd.DataFrame(table).to_csv(path, index=False)
    elif door == "jsonl":
        with open(path, "w") as file:
            file.writelines(
                json.dumps(dict(zip(table, row, strict=True))) + "\n"
                for row in zip(*table.values(), strict=True)
            )
    elif door == "parquet":
        pq.write_table(pa.table(table), path)
    elif door == "feather":
        pyarrow.feather.write_feather(pa.table(table), path)
    else:
        frames = {"arrow": pa.table, "pandas": pd.DataFrame, "polars": pl.DataFrame, "lazy": pl.LazyFrame}
        frames["batches"] = lambda table: iter(pa.table(table).to_batches())
        return frames[door](table)
    return path


TYPED = ["jsonl", "parquet", "feather", "arrow", "pandas", "polars", "lazy", "batches"]
DOORS = ["csv", *TYPED]


def trained(data, **options):
    """The model, and what was noted."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        model = llsvm.train(data, memory_limit=LIMIT, **options)
    return model, " ".join(str(each.message) for each in noted)


def with_cell(words, row, cell):
    return [*words[:row], cell, *words[row + 1 :]]


# -- words --------------------------------------------------------------------------------------------------

WORDS = {
    NUMBER: "1|-1.5|+2|1e5|.5|3.|007|inf",
    DATE: (
        "2024-01-05|2024-01-05 10:11|2024-01-05T10:11:12.5Z|10:11|23:59:59|2024-01-05 10:11:12+00|2024-01-05T10-05"
        "|10:11:12.5|10:11:12.000000000"
    ),
    BOOL: "true|False|TRUE",
    OTHER_NUMBER: (
        "1.234,50|1 234|1\u00a0234,5|1\u202f234|\u22120.5|\u20135|1'234.50|1\u2019234|$5|€ 1.234,50|12 %|5 €"
        "|(1,234)|12,5|,5|1,234.50|12,34,567|-$5|$-5.00|100-|1.234.567|１２|١٢"
        "|USD 5|5 EUR|CHF 1'000.50|R$ 10,00|1_000|5,-|1,5e3|₹500|99,99 zł"
        '|\'0150|\'1.5|\u20198|="8"|="0150"'
        "|~228|≈ 1.5|ca. 361|ca 12,5|approx. $5"
        "|3 days 04:00:00|-1 days +20:30:00.123456|1 day, 4:00:00"
    ),
    OTHER_DATE: (
        "05.01.2024|1/5/2024|1/5/24|2024/01/05|2024.1.5|5-1-2024|05 Jan 2024|5-Jan-24|Jan 5, 2024|January 5th, 2024"
        "|5. März 2024|Mon, 05 Jan 2024 10:11:12 +0000"
        "|1/5/2024 3:04 PM|05.01.2024 13:05|9:05|9:05 PM|2024-1-5|05.01.24"
        "|Mon, 01 Jan 2024 00:00:00 GMT|01/Jan/2024:00:00:00 +0000|Mon Jan  1 00:00:00 2024"
        "|Mon Jan 01 10:11:12 CET 2024|01JAN2024|01jan24|01JAN2024:10:11:12|2024-01-05 10:11:12 CET"
        "|2024-01-05T10:11:12+01:00[Europe/Berlin]"
        "|04/2015|4/2015|12-2015|2015/04|2015-04|Apr 2015|Apr-2015|April 2015|März 2015|sept. 2015"
        "|20240105T101112Z|20240105 10:11|2024-W01-1|2024年01月05日|2024년 1월 5일|0:42:33.8|44:16.5|61:05"
        "|10:07:00+00|10:07+02:00|9:07:30.5Z"
    ),
    TEXT: (
        "0000-00-00|2023-02-30|unknown|\\N|1.2.3|10.4.1|1.10.12|192.168.100.200|A12|1-2|10-20|3+|2024-13|tRUE|yes"
        "|555 123 4567|5kg|M|$|%|().|n/a?|1/2|1/2/3|32/13/2024|001-002|v1.2|-x|--|€|3 days|5 days 4"
        "|13/2015|00/2015|04/3015|1/200|2015/13|Room 2015|477*|12h30"
        "|~|ca.|1~5|cab 5|12DECK24|20240105T|2024-W01|2024年01月|10:11:12:13"
    ),
    MISSING: "|NA|?|-|null|nan",
}


@pytest.mark.parametrize(
    ("kind", "word"), [(kind, word) for kind, all_ in WORDS.items() for word in all_.split("|")]
)
def test_what_a_word_means(kind, word):
    assert kind_of_word(f" {word} ") == kind


# -- (a) numbers and dates ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        *(NUMBERS, DATES, BOOLS),
        *(
            [f"{day} 10:{i % 60:02}:07{zone}" for i, day in enumerate(DATES)]
            for zone in ("", "Z", "+00", "-0530")
        ),
        *([f"10:{i % 60:02}:07{rest}" for i in range(N)] for rest in (".5", ".25", ".000000000")),
    ],
)
def test_text_that_is_all_numbers_dates_or_bools_is_read_as_such_by_every_door(words, tmp_path):
    csv = data_of("csv", words, tmp_path)
    wanted, noted = trained(csv)
    assert (wanted.n_features_in_, noted) == (1, "")
    answers = llsvm.predict(wanted, csv)
    for door in TYPED:
        model, noted = trained(data_of(door, words, tmp_path))
        np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=1e-6)
        assert "column x: text that means" in noted or (door == "jsonl" and words is not NUMBERS)
        np.testing.assert_array_equal(llsvm.predict(wanted, data_of(door, words, tmp_path)), answers)
        np.testing.assert_array_equal(llsvm.predict(model, csv), answers)
    frame = data_of("pandas", words, tmp_path)
    np.testing.assert_array_equal(wanted.predict(frame[["x"]]), answers)


@pytest.mark.parametrize("door", DOORS)
def test_other_words_beside_true_and_false_make_categories(door, tmp_path):
    words = ["unknown" if i % 7 == 0 else word for i, word in enumerate(BOOLS)]
    assert trained(data_of(door, words, tmp_path))[0].feature_names == ("x=unknown", "x=True", "x=False")


def test_a_late_word_that_is_no_truth_value_is_refused_with_what_to_write():
    words = ["true", "false"] * 6000
    frame = pd.DataFrame({"x": [*words, "yes"], "label": [*range(2)] * 6000 + [1]})
    with pytest.raises(
        DataError, match=r"'yes' is neither true nor false.*; write true or false, or nothing"
    ):
        llsvm.train(frame, memory_limit=LIMIT)


@pytest.mark.parametrize("door", DOORS)
def test_missing_numbers_as_text(door, tmp_path):
    data = data_of(door, with_cell(NUMBERS, 7, "NA"), tmp_path)
    assert trained(data, missing="mean")[0].n_features_in_ == 1
    counted = "" if door == "batches" else r" \(1 missing in that column\)"
    with pytest.raises(DataError, match=rf"column x: the value is missing in row 8{counted}"):
        llsvm.train(data_of(door, with_cell(NUMBERS, 7, "NA"), tmp_path), memory_limit=LIMIT)


BLANK = [" ", "\t", "\u00a0", " NA ", "Null", "NONE"]


@pytest.mark.parametrize(
    "words", [NUMBERS, DATES, [f"{day} 10:{i % 60:02}:07 " for i, day in enumerate(DATES)]]
)
@pytest.mark.parametrize("cell", BLANK)
def test_blank_cells_are_missing_by_every_door(words, cell, tmp_path):
    words = with_cell(with_cell(words, 7, cell), 90, "")
    wanted, _ = trained(data_of("parquet", words, tmp_path), missing="mean")
    csv = data_of("csv", words, tmp_path)
    model, noted = trained(csv, missing="mean")
    assert (model.feature_names, noted) == (("x",), "")
    np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=1e-6)
    blank = tmp_path / "blank.csv"
    blank.write_text(f"x,label\n{cell},no\n", encoding="utf-8")
    assert len(llsvm.predict(model, str(blank))) == 1
    with pytest.raises(
        DataError, match=r"column x: the value is missing in row 8 \(2 missing in that column"
    ):
        llsvm.train(csv, memory_limit=LIMIT)


def test_a_blank_weight_is_missing(tmp_path):
    pd.DataFrame({"x": with_cell(NUMBERS, 7, " "), "z": range(N), "label": LABELS}).to_csv(
        tmp_path / "t.csv", index=False
    )
    with pytest.raises(DataError, match="column x: the weight is missing"):
        llsvm.train(str(tmp_path / "t.csv"), weight="x", where="z == 7", memory_limit=LIMIT)


@pytest.mark.parametrize("door", ["jsonl", "parquet"])
def test_words_for_none_in_any_letters(door, tmp_path):
    assert (
        trained(data_of(door, with_cell(DATES, 7, "Null"), tmp_path), missing="mean")[0].n_features_in_ == 1
    )


def test_blank_cells_beside_decimal_commas(tmp_path):
    rows = [f"{number.replace('.', ',')};{label}" for number, label in zip(NUMBERS, LABELS, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["x;label", *with_cell(rows, 7, " ;no")]))
    model, _ = trained(str(tmp_path / "t.csv"), missing="mean")
    wanted, _ = trained(data_of("parquet", with_cell(NUMBERS, 7, ""), tmp_path), missing="mean")
    np.testing.assert_allclose(model.coef_, wanted.coef_, rtol=1e-6)


def test_a_late_cell_of_a_column_with_blank_ones_is_refused_by_its_row(tmp_path):
    n = 200_000
    words = with_cell(["1.25"] * n, 5, " NA ")
    pd.DataFrame({"x": with_cell(words, n - 3, "oops"), "label": [0, 1] * (n // 2)}).to_csv(
        tmp_path / "t.csv", index=False
    )
    with pytest.raises(DataError, match=rf"column x: row {n - 2}: 'oops' is not a number.*categorical x"):
        llsvm.train(str(tmp_path / "t.csv"), missing="mean", memory_limit=LIMIT)


@pytest.mark.parametrize("cell", [" ", "\t", "\u00a0", "NULL", "None"])
def test_a_late_cell_that_is_missing_is_that(cell, tmp_path):
    n = 200_000
    words = with_cell(["1.25", "2.5"] * (n // 2), n - 3, cell)
    pd.DataFrame({"x": words, "label": [0, 1] * (n // 2)}).to_csv(tmp_path / "t.csv", index=False)
    model = llsvm.train(str(tmp_path / "t.csv"), missing="mean", memory_limit=LIMIT)
    assert model.feature_names == ("x",)
    with pytest.raises(DataError, match=rf"column x: the value is missing in row {n - 2}"):
        llsvm.train(str(tmp_path / "t.csv"), memory_limit=LIMIT)


@pytest.mark.parametrize("cell", [" ", "", "NULL", "n/a", "2024-01-05", "12:30"])
@pytest.mark.parametrize("words", [["2024-01-05", "2024-02-07"], ["12:30", "13:05"]])
def test_a_late_cell_among_dates_of_json_lines_is_what_it_is_in_csv(words, cell, tmp_path):
    n = 60_000
    table = pd.DataFrame({"x": with_cell(words * (n // 2), n - 3, cell), "label": [0, 1] * (n // 2)})
    table.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    table.to_csv(tmp_path / "t.csv", index=False)
    if cell[-1:].isdigit() and len(cell) != len(words[0]):
        with pytest.raises(DataError, match=rf"{n - 2}: column x: '{cell}' is no date or time, as those"):
            llsvm.train(str(tmp_path / "t.jsonl"), missing="mean", memory_limit=LIMIT)
        return
    models = [
        llsvm.train(str(tmp_path / name), missing="mean", memory_limit=LIMIT) for name in ("t.csv", "t.jsonl")
    ]
    assert models[0].feature_names == models[1].feature_names == ("x",)
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


@pytest.mark.parametrize("door", DOORS)
def test_hexadecimal_numbers_are_text(door, tmp_path):
    words = [f"0x{i % 12 + 5:X}" for i in range(N)]
    model, _ = trained(data_of(door, words, tmp_path))
    assert (model.n_features_in_, model.feature_names[0]) == (12, "x=0x5")
    with pytest.raises(DataError, match=r"column x: '0xFF' in row 6 of .* is text among numbers"):
        llsvm.train(
            data_of(door, with_cell(list(map(str, range(N))), 5, "0xFF"), tmp_path), memory_limit=LIMIT
        )


@pytest.mark.parametrize("door", DOORS)
def test_categorical_keeps_categories(door, tmp_path):
    words = [f"{i % 30}.5" for i in range(N)]
    model, noted = trained(data_of(door, words, tmp_path), categorical=("x",))
    assert (model.n_features_in_, noted) == (30, "")


def test_a_type_of_categories_keeps_them(tmp_path):
    words = [f"{i % 30}.5" for i in range(N)]
    frame = data_of("pandas", words, tmp_path).astype({"x": "category"})
    assert trained(frame)[0].n_features_in_ == 30


# -- (b) one odd cell ---------------------------------------------------------------------------------------

RATINGS = [str(i % 5 + 1) for i in range(N)]


@pytest.mark.parametrize(
    ("words", "cell", "door"),
    [
        (*first, second)
        for first, second in in_turn(
            [
                (DATES, "0000-00-00"),
                (DATES, "2023-02-30"),
                (DATES, "unknown"),
                (RATINGS, "\\N"),
                (NUMBERS, "oops"),
                (NUMBERS, "1.234,50"),
                (["0", "1"] * (N // 2), "\\N"),
            ],
            DOORS,
            3,
        )
    ],
)
def test_one_odd_cell_is_refused_by_its_place(door, words, cell, tmp_path):
    data = data_of(door, with_cell(words, 307, cell), tmp_path)
    with pytest.raises(
        DataError, match=r"column x: .* in row 308 of .*is text among.*missing.*categorical"
    ) as error:
        llsvm.train(data, memory_limit=LIMIT)
    assert repr(cell) in str(error.value)
    data = data_of(door, with_cell(words, 307, cell), tmp_path)
    assert trained(data, categorical=("x",))[0].n_features_in_ == len({*with_cell(words, 307, cell)})


@pytest.mark.parametrize("more", [{}, {"hash_bits": 10}])
def test_odd_cells_up_to_one_in_a_hundred_values(more, tmp_path):
    words = [str(i) for i in range(200)] * 2
    few = data_of("csv", with_cell(with_cell(words, 5, "a"), 9, "b"), tmp_path)
    with pytest.raises(
        DataError, match=r"column x: 'a' in row 6 of .*200 of 202 different values are numbers"
    ):
        llsvm.train(few, memory_limit=LIMIT, **more)
    postal = [f"{i % 60 + 1000:05}" for i in range(N - 1)]
    assert trained(data_of("csv", [*postal[:18] * 22, *postal[:3], "SW1A"], tmp_path))[0].n_features_in_ == 19
    codes = [f"{i % 7}{'ab' * (i % 7 > 4)}" for i in range(N)]  # 0 to 4, 5ab, 6ab
    assert trained(data_of("csv", codes, tmp_path))[0].n_features_in_ == 7


@pytest.mark.parametrize("row", [10, 150_000])
def test_a_bad_cell_after_those_that_tell_what_a_column_is(row, tmp_path):
    n = 200_000
    for words, what in ((["1.25"] * n, "not a number"), (["2024-01-05"] * n, "no date or time")):
        words = [*(NUMBERS[:50] if what == "not a number" else DATES[:50]), *words[50:]]
        table = {"x": with_cell(words, row, "oops"), "label": [i % 2 for i in range(n)]}
        csv, parquet = str(tmp_path / "t.csv"), str(tmp_path / "t.parquet")
        pd.DataFrame(table).to_csv(csv, index=False)
        pq.write_table(pa.table(table), parquet)
        for path in (csv, parquet):
            with pytest.raises(DataError, match=r"column x: 'oops'.*categorical x") as error:
                llsvm.train(path, memory_limit=LIMIT)
            assert (what in str(error.value)) == (row > 10)


SORTS = {
    "days": DATES,
    "times of day": [f"{i // 60 % 24:02}:{i % 60:02}" for i in range(N)],
    "times with a zone": [f"{day}T10:11:12Z" for day in DATES],
    "numbers": NUMBERS,
    "truth values": BOOLS,
    "whole numbers": [str(i % 5) for i in range(N)],
}


def of_sorts(door, folder, *sorts):
    """The column x with so many rows of each sort that they fill batches, and more than what is looked at first."""
    n = 12_000
    words = [SORTS[sort][i % N] for sort in sorts for i in range(n)]
    table = {"x": words, "pad": ["p" * 100] * len(words), "label": [i % 2 for i in range(len(words))]}
    path = str(folder / f"{len(sorts)}.{door}")
    if door == "csv":
        pd.DataFrame(table).to_csv(path, index=False)
    elif door == "jsonl":
        pd.DataFrame(table).to_json(path, orient="records", lines=True)
    elif door == "parquet":
        pq.write_table(pa.table(table), path)
    elif door == "batches":
        return pa.table(table).to_batches(max_chunksize=1000)
    else:
        return pl.DataFrame(table) if door == "polars" else pd.DataFrame(table)
    return path


@pytest.mark.parametrize(
    ("door", "sorts"),
    in_turn(
        ["csv", "jsonl", "parquet", "pandas", "polars", "batches"],
        [
            ("days", "times of day"),
            ("times of day", "days"),
            ("days", "times with a zone"),
            ("numbers", "truth values"),
            ("truth values", "numbers"),
        ],
        2,
    ),
)
def test_a_column_of_text_is_of_one_sort_in_every_batch(door, sorts, tmp_path):
    options = {"features": ["x"], "label": "label", "max_passes": 1, "tol": 0.5, "memory_limit": LIMIT}
    mixed, pure = of_sorts(door, tmp_path, *sorts), of_sorts(door, tmp_path, sorts[0])
    with pytest.raises(
        DataError, match=r"column x: .*no date or time|column x: .*(not a number|true nor false)"
    ):
        llsvm.train(mixed, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = llsvm.train(pure, **options)
    kept = tmp_path / "kept.csv"
    for scored in (
        lambda: llsvm.evaluate(model, mixed),
        lambda: llsvm.predict(model, mixed),
        lambda: llsvm.write_predictions(model, mixed, kept, keep=["x"]),
    ):
        with pytest.raises(DataError, match=r"column x: .*(no date or time|not a number|true nor false)"):
            scored()


@pytest.mark.parametrize("late", ["oops", "12:30"])
def test_a_late_word_is_found_without_reading_all_before_it_one_by_one(late, monkeypatch):
    read, tries = spelling._read, []
    monkeypatch.setattr(spelling, "_read", lambda *given: tries.append(given) or read(*given))
    words = pa.array([None, *DATES * 20, late, *DATES])
    with pytest.raises(ValueError, match=f"'{late}' is ") as refused:
        spelling.parsed(words, [pa.timestamp("s"), pa.time32("s")], True)
    assert refused.value.args[0] == 20 * N + 1
    assert len(tries) < 30


@pytest.mark.parametrize("door", ["csv", "parquet", "polars", "batches"])
def test_weights_are_of_one_sort_in_every_batch(door, tmp_path):
    mixed = of_sorts(door, tmp_path, "whole numbers", "truth values")
    options = {"features": ["pad"], "categorical": ["pad"], "weight": "x", "max_passes": 1}
    with pytest.raises(DataError, match=r"column x: .*not a number"):
        llsvm.train(mixed, label="label", memory_limit=LIMIT, **options)


@pytest.mark.parametrize("door", DOORS)
def test_days_beside_times_of_day_are_no_categories(door, tmp_path):
    words = ["12:30" if i % 3 else day for i, day in enumerate(DATES)]
    with pytest.raises(DataError, match=r"column x: dates or times such as .* are written in several ways"):
        trained(data_of(door, words, tmp_path))


# -- (c) other conventions ----------------------------------------------------------------------------------


KINDS = ["german", "space", "no-break", "swiss", "minus", "dollar", "share"]
OF_DATES = ["dots", "american", "slashes", "words", "clock", "log", "laps"]


def others(kind):
    rng = random.Random(1)
    days = [datetime.date(2022, 1, 1) + datetime.timedelta(days=rng.randrange(700)) for _ in range(N)]
    amounts = [rng.randrange(100_000, 900_000) / 100 for _ in range(N)]
    return {
        "german": [f"{a:,.2f}".replace(",", "x").replace(".", ",").replace("x", ".") for a in amounts],
        "space": [f"{a:,.2f}".replace(",", " ") for a in amounts],
        "no-break": [f"{a:,.2f}".replace(",", "\u202f").replace(".", ",") for a in amounts],
        "swiss": [f"{a:,.2f}".replace(",", "’") for a in amounts],
        "minus": ["\u2212" * (i % 2) + str(a) for i, a in enumerate(amounts)],
        "dollar": [f"${a}" for a in amounts],
        "share": [f"{i % 90} %" for i in range(N)],
        "dots": [f"{d:%d.%m.%Y}" for d in days],
        "american": [f"{d.month}/{d.day}/{d.year}" for d in days],
        "slashes": [f"{d:%Y/%m/%d}" for d in days],
        "words": [f"{d:%d %b %Y}" for d in days],
        "clock": [f"{i % 12 + 1}:{i % 60:02} PM" for i in range(N)],
        "log": [f"{d:%d/%b/%Y:%H:%M:%S +0000}" for d in days],
        "laps": [f"{i % 12}:{i % 60:02}.{i % 7}" for i in range(N)],
    }[kind]


@pytest.mark.parametrize(("kind", "door"), in_turn(KINDS + OF_DATES, DOORS, 3))
def test_other_conventions_are_refused(door, kind, tmp_path):
    words = others(kind)
    dates = kind in OF_DATES
    what = (
        "dates or times written as text; write dates as 2024"
        if dates
        else "numbers written as text; write plain"
    )
    with pytest.raises(DataError, match=rf"column x: values such as .* are {what}.*exclude x.*categorical x"):
        llsvm.train(data_of(door, words, tmp_path), memory_limit=LIMIT)
    assert trained(data_of(door, words, tmp_path), categorical=("x",))[0].n_features_in_ == len(set(words))


UNITS = {
    "kilograms": [f"{40 + i * 0.37:.1f} kg" for i in range(N)],
    "thousands": [f"{i}" if i < 100 else f"{i / 10}k" if i < 300 else f"{i / 100}M" for i in range(1, N + 1)],
    "dollars": [f"${i * 7 / 10}{'KMB'[i % 3]}" for i in range(1, N + 1)],
    "minutes": [f"{i % 90 + 1} min" for i in range(N)],
    "pixels": [f"{i}px" for i in range(N)],
    "durations": [f"{i // 60}h {i % 60}m" if i % 60 else f"{i // 60}h" for i in range(1, N + 1)],
    "areas": [f"{i * 13:,} sq ft" for i in range(N)],
    "days": [f"{i} day{'s' * (i != 1)}" if i % 9 else "unknown" for i in range(N)],
    "ordinals": [f"{i}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(i % 10, 'th') }" for i in range(20, 20 + N)],
    "ISO": [f"PT{i}H{i % 60}M" for i in range(N)],
    "footnotes": [f"{i}*" for i in range(N)],
    "some footnotes": [f"{i}{['', '*', '†', ' [1]', ' (b)'][i % 5]}" for i in range(N)],
    "prices with footnotes": [f"{i / 4:.2f} €{'*' * (i % 2)}" for i in range(N)],
    "clocks": [f"{i // 60}h{i % 60:02}" for i in range(N)],
    "heights": [f"{i // 100}m{i % 100:02}" for i in range(N)],
}


@pytest.mark.parametrize(("kind", "door"), in_turn(UNITS, ["csv", "parquet", "pandas"], 1))
def test_numbers_with_units_are_refused(door, kind, tmp_path):
    words = UNITS[kind]
    with pytest.raises(
        DataError,
        match=r"column x: values such as .* in row \d+ of .* are numbers .*exclude x.*categorical x",
    ):
        llsvm.train(data_of(door, words, tmp_path), memory_limit=LIMIT)
    assert trained(data_of(door, words, tmp_path), categorical=("x",))[0].n_features_in_ == len(set(words))


FEW_UNITS = {
    "kg": ["5 kg", "10 kg", "20 kg", "5 kg"],
    "kg and g": ["5 kg", "300 g", "200 g", "1 kg"],
    "weights": [f"{i} kg" for i in range(15)],
    "sizes": ["38EU", "40EU", "42EU"],
    "years": [*(f"{i} years" for i in range(2, 12)), "1 year", "< 1 year"][1:],
}


@pytest.mark.parametrize(("door", "kind"), in_turn(DOORS, FEW_UNITS, 2))
def test_few_numbers_with_units_are_categories_and_that_is_said(door, kind, tmp_path):
    words = [FEW_UNITS[kind][i % len(FEW_UNITS[kind])] for i in range(N)]
    model, noted = trained(data_of(door, words, tmp_path))
    assert model.n_features_in_ == len(set(words))
    assert re.search(r"column x: values such as .* are numbers with a unit, .* taken for categories", noted)
    assert trained(data_of(door, words, tmp_path), categorical=("x",))[1] == ""


@pytest.mark.parametrize(
    "words", [["1st", "2nd", "3rd"], ["4A", "4B", "5A"], ["36 months", "60 months"], ["7up", "x"]]
)
def test_codes_and_ordinals_are_categories_without_a_note(words, tmp_path):
    words = [words[i % len(words)] for i in range(N)]
    assert trained(data_of("csv", words, tmp_path))[1] == ""


def test_numbers_with_units_are_refused_where_they_are_hashed(tmp_path):
    with pytest.raises(DataError, match=r"column x: values such as '40.0 kg' .* are numbers with a unit"):
        llsvm.train(data_of("parquet", UNITS["kilograms"], tmp_path), hash_bits=10, memory_limit=LIMIT)


CODES = {
    "Dutch postal codes": [f"{1000 + i // 4} {'ABCDEFGH'[i % 4]}{'KLMN'[i // 7 % 4]}" for i in range(200)],
    "seats": [f"{i // 6 + 1}{'ABCDEF'[i % 6]}" for i in range(200)],
    "houses": [f"{i}" if i < 100 else f"{i // 3}{'abcd'[i % 4]}" for i in range(200)],
    "streets": [f"{i} {['Main', 'Oak', 'Elm', 'Pine'][i % 4]} St" for i in range(200)],
    "hashes": [f"{i * 7919 % 65536:04x}" for i in range(200)],
    "stars": [f"{i % 5 + 1}*" for i in range(200)],
    "halls": [f"{i // 20}B{i % 20:02}" for i in range(200)],
}


@pytest.mark.parametrize("kind", CODES)
def test_codes_of_numbers_and_letters_are_categories(kind, tmp_path):
    model, noted = trained(data_of("csv", CODES[kind] * 2, tmp_path))
    assert (model.n_features_in_, noted) == (len(set(CODES[kind])), "")


# -- (d) codes, (e) other text ------------------------------------------------------------------------------


@pytest.mark.parametrize("door", TYPED)
@pytest.mark.parametrize("words", [RATINGS, [f"{i % 60 + 1000:05}" for i in range(N)]])
def test_codes_stay_categories_and_that_is_said(door, words, tmp_path):
    model, noted = trained(data_of(door, words, tmp_path))
    assert model.n_features_in_ == len(set(words))
    assert "column x: numbers written as text" in noted


@pytest.mark.parametrize("missing", ["", "?", "-"])
def test_the_note_on_codes_names_one(tmp_path, missing):
    words = [missing, *RATINGS[1:]]
    _, noted = trained(data_of("parquet", words, tmp_path), missing="zero")
    assert f"such as {min(RATINGS)!r}, are taken for codes" in noted


def test_codes_of_csv_stay_numbers_and_that_is_said(tmp_path):
    model, noted = trained(data_of("csv", [f"{i % 60 + 1000:05}" for i in range(N)], tmp_path))
    assert (model.n_features_in_, "column x: values such as '01000' are read as numbers" in noted) == (
        1,
        True,
    )
    assert trained(data_of("csv", RATINGS, tmp_path))[1] == ""


@pytest.mark.parametrize(("door", "pattern"), in_turn(DOORS, ["1.2.{}", "K{}", "FY{:02}", "{}+"], 2))
def test_other_text_is_categories(door, pattern, tmp_path):
    words = [pattern.format(i % 12 + 1) for i in range(N)]
    model, noted = trained(data_of(door, words, tmp_path))
    assert (model.n_features_in_, noted) == (12, "")


# -- predictions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("door", DOORS)
def test_predictions_of_dates_written_otherwise_name_the_remedy(door, tmp_path):
    model, _ = trained(data_of("csv", DATES, tmp_path))
    data = data_of(door, with_cell(DATES, 30, "2024/01/05"), tmp_path, "more")
    with pytest.raises(DataError, match=r"'2024/01/05' is no date or time.*write .*2024-01-31") as error:
        list(llsvm.predict(model, data))
    assert "categorical" not in str(error.value)


# -- hashed categories --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [400, 60_000])
def test_hashed_identifiers_are_refused_as_others_are(n, tmp_path):
    rows = {"x": [f"id {i}" for i in range(n)], "z": np.arange(n) % 7, "label": np.arange(n) % 2}
    path = str(tmp_path / "ids.parquet")
    pq.write_table(pa.table(rows), path)
    with pytest.raises(
        DataError, match=r"column x: .* rows have a value that no other row has.*categorical x"
    ):
        llsvm.train(path, hash_bits=10, memory_limit=LIMIT)
    llsvm.train(path, hash_bits=10, categorical=("x",), memory_limit=LIMIT, max_passes=1)
    rows["x"] = [f"id {i // 3}" for i in range(n)]
    pq.write_table(pa.table(rows), path)
    llsvm.train(path, hash_bits=10, memory_limit=LIMIT, max_passes=1)


def test_inspect_says_what_training_refuses(tmp_path):
    path = data_of("csv", others("german"), tmp_path)
    said = " ".join(CliRunner().invoke(app, ["inspect", path]).stdout.split())
    assert "are numbers written as text" in said


def test_dates_that_folders_give(tmp_path):
    for i, day in enumerate(DATES[:6]):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(
            pa.table({"z": [1.0, 2.0], "label": [0, i % 2]}), tmp_path / f"day={day}" / "0.parquet"
        )
    model, _ = trained(str(tmp_path))
    assert set(model.feature_names) == {"z", "day"}
    assert len(list(llsvm.predict(model, str(tmp_path)))) == 12


def test_inspect_says_of_a_column_once_what_is_doubtful(tmp_path):
    table = pa.table(
        {"x": [*map(str, range(40)), "a", *map(str, range(41, 30_000))], "label": [0, 1] * 15_000}
    )
    pq.write_table(table, tmp_path / "t.parquet")
    said = " ".join(CliRunner().invoke(app, ["inspect", str(tmp_path / "t.parquet")]).stdout.split())
    assert said.count("is text among numbers") == 1


def test_spans_of_time_that_pandas_writes_as_text_are_no_categories(tmp_path):
    spans = pd.to_timedelta(np.arange(N) % 30 * 7, "h")
    assert llsvm.train(pd.DataFrame({"x": spans, "label": LABELS}), memory_limit=LIMIT).feature_names == (
        "x",
    )
    pd.DataFrame({"x": spans, "label": LABELS}).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(DataError, match=r"values such as '0 days 00:00:00' .* are numbers written as"):
        llsvm.train(str(tmp_path / "rows.csv"), memory_limit=LIMIT)


@pytest.mark.parametrize(
    ("words", "door"),
    in_turn(
        [
            ["2024-01-31", "2024-02-29", "2024-03-31"],
            ["2024-01-31 12:30", "2024-02-29 13:00"],
            ["12:30", "13:00"],
            ["1", "2", "2024-01-31"],
            ["$5", "$6", "$7"],
            [f"{i} kg" for i in range(30)],
            [*map(str, range(30)), "none of them"],
        ],
        ["pandas", "polars", "arrow", "parquet"],
        2,
    ),
)
def test_text_whose_type_is_that_of_categories_is_not_judged(door, words, tmp_path):
    words = [words[i % len(words)] for i in range(120)]
    rows = pa.table({"x": pa.array(words).dictionary_encode(), "label": [0, 1, 1, 0] * 30})
    if door == "parquet":
        pq.write_table(rows, tmp_path / "rows.parquet")
    data = {
        "pandas": rows.to_pandas,
        "polars": lambda: pl.from_arrow(rows),
        "arrow": lambda: rows,
        "parquet": lambda: tmp_path / "rows.parquet",
    }[door]()
    model = llsvm.train(data, label="label", memory_limit=LIMIT)
    assert model.feature_names == tuple(f"x={word}" for word in dict.fromkeys(words))
    plain = pa.table({"x": words})
    assert list(llsvm.predict(model, plain)) == list(llsvm.predict(model, data))
