"""JSON Lines as people write them: nested objects, missing keys, dates, lists; and every way they can be wrong."""

import gzip
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from test_formats import dense_of

import llsvm
from llsvm.convert import convert
from llsvm.data import format_of, open_source
from llsvm.data.jsonl_parse import parse_whole
from llsvm.errors import DataError

PLENTY = 1 << 24


def write(folder, *lines, name="rows.jsonl", end="\n"):
    path = folder / name
    path.write_text(
        "".join(line + end if isinstance(line, str) else json.dumps(line) + end for line in lines)
    )
    return path


def names_of(path, **options):
    source = open_source(path, options=options)
    list(source.blocks(PLENTY))
    return source.info().feature_names


def people(n=400):
    rng = np.random.default_rng(0)
    towns, days = ["Aix", "Bonn", "Como"], ["2024-01-01", "2023-11-30", "2024-02-29"]
    return [
        {
            "age": float(rng.integers(18, 90)),
            "town": towns[rng.integers(3)],
            "since": days[rng.integers(3)],
            "at": f"{rng.integers(10, 24)}:{rng.integers(10, 60)}:07",
            "seen": f"2024-01-{rng.integers(10, 28)}T10:11:12Z",
            "score": round(float(rng.normal()), 6),
            "vip": bool(rng.integers(2)),
            "cost": float(rng.integers(1, 4)),
            "label": ["no", "yes"][rng.integers(2)],
        }
        for _ in range(n)
    ]


@pytest.mark.parametrize("weight", [None, "cost"])
def test_the_model_is_that_of_csv_and_parquet(tmp_path, weight):
    rows = people()
    data = write(tmp_path, *rows)
    pacsv.write_csv(pa.Table.from_pylist(rows), tmp_path / "rows.csv")
    typed = pacsv.read_csv(tmp_path / "rows.csv")  # Parquet has dates as dates
    pq.write_table(typed, tmp_path / "rows.parquet")
    models = [
        llsvm.train(path, weight=weight, max_passes=30)
        for path in (data, tmp_path / "rows.csv", tmp_path / "rows.parquet")
    ]
    for other in models[1:]:
        np.testing.assert_array_equal(models[0].coef_, other.coef_)
        np.testing.assert_array_equal(models[0].intercept_, other.intercept_)
        assert models[0].feature_names == other.feature_names
    np.testing.assert_array_equal(
        llsvm.predict(models[0], tmp_path / "rows.csv"), llsvm.predict(models[1], data)
    )


def test_objects_within_objects_are_named_by_their_path(tmp_path):
    path = write(
        tmp_path,
        {"label": 1, "user": {"country": "FR", "address": {"zip": 3}}, "age": 1},
        {"age": 2, "user": {"address": {"zip": 4, "more": 1}, "country": "DE"}, "label": 0},
        {"label": 1, "user": None, "age": 3},
        {"label": 1, "user": {"country": "FR", "address": None, "later": 5}},
    )
    with pytest.raises(
        DataError, match=r"column user\.address\.zip: the value is missing in row 3 \(2 missing"
    ):
        names_of(path)
    found, y = dense_of(open_source(path, options={"missing": "zero", "exclude": ("user.later",)}))
    np.testing.assert_array_equal(found, [[3, 0, 1, 1, 0], [4, 1, 2, 0, 1], [0, 0, 3, 0, 0], [0, 0, 0, 1, 0]])
    np.testing.assert_array_equal(y, [1, 0, 1, 1])
    assert names_of(path, features=("user.country", "age"), missing="zero") == (
        *("age", "user.country=FR", "user.country=DE"),
    )


def test_dates_that_are_one_label_are_noted_and_no_words_are_held(tmp_path):
    days = ["2024-01-05 00:00:00", "2024-01-06", "2024-01-05"]
    path = write(tmp_path, *({"x": i % 5, "label": days[i % 3]} for i in range(60)))
    source = open_source(path)
    assert source.info().encoder.label_words.alike == ("2024-01-05", "2024-01-05 00:00:00")
    assert source.info().encoder.label_words.nbytes == 0


def test_a_key_and_a_path_of_the_same_name(tmp_path):
    path = write(tmp_path, {"label": 1, "a.b": 1, "a": {"b": 2}})
    with pytest.raises(DataError, match=r"two columns are named 'a.b'; rename one of them"):
        open_source(path)


@pytest.mark.parametrize("opener", [open, gzip.open])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n \n"])
def test_ends_of_line_blank_lines_and_no_last_end(tmp_path, opener, end):
    rows = [{"x": i, "word": "ünï" * (i % 3), "label": i % 2} for i in range(50)]
    text = end.join(json.dumps(row, ensure_ascii=bool(i % 2)) for i, row in enumerate(rows))
    path = tmp_path / "nameless"
    with opener(path, "wb") as out:
        out.write(b"\xef\xbb\xbf" + text.encode())
    assert format_of(path) == "jsonl"
    found, y = dense_of(open_source(path, options={"missing": "zero"}))
    assert found.shape == (50, 3)  # an empty text is missing, as in CSV
    np.testing.assert_array_equal(found[:, 0], range(50))
    np.testing.assert_array_equal(y, np.arange(50) % 2)


def test_numbers_are_read_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(1)
    values = (rng.normal(size=500) * 10.0 ** rng.integers(-30, 30, 500)).astype(np.float32)
    path = write(tmp_path, *({"x": float(v), "label": i % 2} for i, v in enumerate(values)))
    found, _ = dense_of(open_source(path))
    np.testing.assert_array_equal(found[:, 0], values)


def test_missing_values_nan_and_infinity(tmp_path):
    path = write(
        tmp_path, '{"x": NaN, "label": 1}', '{"x": 1, "label": 2}', '{"label": 2}', '{"x": null, "label": 1}'
    )
    with pytest.raises(DataError, match=r"column x: the value is missing in row 1 \(3 missing"):
        names_of(path)
    infinite = write(tmp_path, {"x": 1, "label": 1}, '{"x": Infinity, "label": 1}')
    with pytest.raises(
        DataError, match=r"row 2: column x: a value is infinite.*; write a finite number .*exclude x"
    ):
        names_of(infinite)


def test_numbers_as_categories(tmp_path):
    path = write(tmp_path, *({"zip": z, "label": i % 2} for i, z in enumerate([7, 10115, 7, 3])))
    assert names_of(path, categorical=("zip",)) == ("zip=7", "zip=10115", "zip=3")
    path = write(tmp_path, {"vip": True, "label": 1}, {"vip": False, "label": 0})
    assert names_of(path, categorical=("vip",)) == ("vip=true", "vip=false")


def test_lists_are_vectors_and_sparse_rows(tmp_path):
    path = write(tmp_path, {"v": [1, 2.5, 3], "label": 1}, {"v": [4, 5, 6], "label": 0})
    np.testing.assert_array_equal(dense_of(open_source(path))[0], [[1, 2.5, 3], [4, 5, 6]])
    path = write(tmp_path, {"i": [0, 3], "x": [1, 2], "label": 1}, {"i": [], "x": [], "label": 0})
    with pytest.raises(DataError, match="row 2: column i: a list of length 0, where the first row's has 2"):
        names_of(path)
    for rows in (
        [{"idx": [0, 3], "val": [1, 2], "label": 1}, {"idx": [], "val": [], "label": 0}],
        [
            {"f": {"indices": [0, 3], "values": [1, 2]}, "label": 1},
            {"f": {"indices": [], "values": []}, "label": 0},
        ],
    ):
        np.testing.assert_array_equal(
            dense_of(open_source(write(tmp_path, *rows)))[0], [[1, 0, 0, 2], [0, 0, 0, 0]]
        )


def test_lists_of_text_are_refused_by_name(tmp_path):
    path = write(tmp_path, {"tags": ["a", "b"], "x": 1, "label": 1}, {"tags": [], "x": 2, "label": 0})
    with pytest.raises(
        DataError, match=r"column tags has type list<.*string>, .* leave it out \(exclude tags\)"
    ):
        open_source(path)
    assert names_of(path, exclude=("tags",)) == ("x",)


def test_a_column_of_several_types_does_no_harm_where_it_is_left_out(tmp_path):
    path = write(
        tmp_path,
        {"m": "a", "x": 1, "label": 1},
        {"m": {"b": 1}, "x": 2, "label": 0},
        {"m": 3, "x": 1, "label": 0},
    )
    with pytest.raises(
        DataError,
        match=r'rows.jsonl:2: column m: \{"b": 1\} is an object, where text is expected; .*exclude m',
    ):
        names_of(path)
    assert names_of(path, exclude=("m",)) == ("x",)
    described = open_source(path, options={"exclude": ("m",)}, need_label=False).info().describe()
    assert [column["name"] for column in described] == ["m", "x", "label"]


def test_keys_that_come_late_are_no_columns_and_said_to_be_so(tmp_path):
    long = {"x": 1, "word": "a" * 1000, "label": 1}
    rows = [long] * 1100 + [{**long, "new": 5}] * 1100
    source = open_source(write(tmp_path, *rows), options={"exclude": ("word",)})
    list(source.blocks(PLENTY))
    assert source.info().feature_names == ("x",)
    assert any("the key 'new' (line " in note and "no column" in note for note in source.info().notes)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("max_bytes", [1, 3000, PLENTY])
def test_every_late_key_is_said_wherever_chunks_end(tmp_path, threads, max_bytes):
    pad = "z" * 900 + ' "quoted": 1'  # text that looks like a key
    rows = [{"x": i, "pad": pad, "of": {"a": 1}, "label": i % 2} for i in range(2400)]
    rows[1999]["late"] = rows[2001]["späte"] = 1
    rows[2111]["of"] = {"a": 1, "b": 2}
    rows[2200]["nothing"] = None
    path = Path(write(tmp_path, *rows))
    for text in (path.read_text(), path.read_text().replace('":', '" :')):
        path.write_text(text)
        source = open_source(path, options={"exclude": ("pad",)}, threads=threads)
        list(source.blocks(max_bytes))
        said = [
            re.search(r"the key '(.*)' \(line ([\d,]+)\) is no column", note) for note in source.info().notes
        ]
        assert [each.groups() for each in said] == [("late", "2,000"), ("späte", "2,002"), ("of.b", "2,112")]
        with pytest.raises(DataError, match=r"no column 'late'.*the keys of the first megabyte"):
            open_source(path, options={"features": ("x", "late")})


def test_a_key_that_only_some_files_have(tmp_path):
    paths = [
        write(tmp_path, {"x": 1, "y2": 5, "label": 1}, name="0.jsonl"),
        write(tmp_path, {"x": 2, "label": 0}, name="1.jsonl"),
    ]
    found, _ = dense_of(open_source(paths, options={"missing": "zero"}))
    np.testing.assert_array_equal(found, [[1, 5], [2, 0]])


def test_predictions_of_rows_without_a_key(tmp_path):
    rows = people()
    data = write(tmp_path, *rows)
    model = llsvm.train(data, missing="mean", max_passes=30)
    few = write(tmp_path, {"score": 1.0, "age": 30}, name="few.jsonl")
    assert llsvm.predict(model, few)[0] in ("no", "yes")
    strict = llsvm.train(data, max_passes=30)
    with pytest.raises(DataError, match="6 of the model's columns are missing: town"):
        llsvm.predict(strict, few)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("max_bytes", [1, 3000, PLENTY])
def test_blocks_do_not_depend_on_threads(tmp_path, threads, max_bytes):
    rows = [{"x": i, "word": "a" * (i % 500), "label": i % 2} for i in range(3000)]
    path = write(tmp_path, *rows)
    options = {"exclude": ("word",)}
    ours = list(open_source(path, options=options, threads=threads).blocks(max_bytes))
    theirs = list(open_source(path, options=options).blocks(max_bytes))
    assert [block.n_rows for block in ours] == [block.n_rows for block in theirs]
    np.testing.assert_array_equal(np.concatenate([b.X[:, 0] for b in ours]), range(3000))


GOOD = '{"x": 1, "word": "a", "label": 1}'
BROKEN = {
    '[{"x": 1}]': r"an array, where one object a line is wanted; jq -c '\.\[\]'",
    "3": "'3', where one JSON object a line is wanted",
    "null": "'null', where one JSON object a line is wanted",
    '{"x": 1} null {"x": 1}': "'null {\"x\": 1}' after the object; write one object a line",
    '{"x": 1}{"x": 2}': ".* after the object; write one object a line",
    '{"x": 1},': "',' after the object; write one object a line",
    "{": "the object does not end in its line; write one whole object a line",
    '{"x": 1, "word": "a': "the object does not end in its line",
    '{"x": 01}': "broken JSON: .* at character 8",
    "{'x': 1}": "broken JSON: .* at character 2, near ",
    '{"x": 1,}': "broken JSON",
    '{"x": "b"}': r'column x: "b" is text, where a number is expected; .*\(exclude x\)',
    '{"x": true}': "column x: true is true or false, where a number is expected",
    '{"x": [1]}': r"column x: \[1\] is a list, where a number is expected",
    '{"word": 5}': "column word: 5 is a number, where text is expected",
    '{"label": "b"}': "column label: .* where a number is expected; write the labels as one type",
    '{"x": 1, "x": 2}': "the key 'x' is there twice in one object; rename one",
    '{"x": 1e999}': "not readable: .*[Nn]umber too big",
    '{"word": "\\ud800"}': "not readable: .*surrogate",
}


@pytest.mark.parametrize("bad", BROKEN)
@pytest.mark.parametrize("far", [False, True])
def test_a_bad_line_is_named(tmp_path, bad, far):
    """At once, and beyond the first megabyte, after which the columns' types are known."""
    before = [GOOD] * (40_000 if far else 2)
    path = write(tmp_path, *before, "", bad, GOOD)
    with pytest.raises(DataError, match=rf"rows\.jsonl:{len(before) + 2}: {BROKEN[bad]}"):
        names_of(path)


def test_text_that_is_not_utf8(tmp_path):
    path = write(tmp_path, GOOD)
    path.write_bytes(path.read_bytes() + '{"x": 1, "word": "é", "label": 2}\n'.encode("latin-1"))
    with pytest.raises(DataError, match=r"rows\.jsonl:2: byte 0xe9 is not UTF-8; write it as UTF-8"):
        names_of(path)


def test_text_in_utf16(tmp_path):
    path = write(tmp_path, GOOD, GOOD)
    path.write_bytes(path.read_text().encode("utf-16"))
    with pytest.raises(DataError, match=r"rows\.jsonl:1: byte 0x.. is not UTF-8"):
        names_of(path)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_text_in_a_wide_encoding_without_a_mark(tmp_path, encoding):
    path = write(tmp_path, GOOD, GOOD)
    path.write_bytes(path.read_text().encode(encoding))
    with pytest.raises(DataError, match=rf"rows\.jsonl.*zero bytes.*encoding {encoding}"):
        names_of(path)


@pytest.mark.parametrize("value", ["1e400", r'"\ud800"'])
def test_what_pyarrow_says_has_one_line_number(tmp_path, value):
    key = "x" if value[0] != '"' else "word"
    path = write(tmp_path, *[f'{{"{key}": {each}, "label": 1}}' for each in ("null", value, "null")])
    with pytest.raises(DataError, match=r"rows\.jsonl:2: not readable: JSON parse error") as error:
        names_of(path, missing="zero")
    assert " row " not in str(error.value)
    assert str(error.value).endswith("; correct the line")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("\n \n", "there is no row in it"),
        ("{}\n{}\n", "which column is the label"),
        ('{\n  "x": 1\n}\n', ":1: the object does not end in its line"),
        ('[\n  {"x": 1}\n]\n', ":1: an array, where one object a line is wanted"),
        (GOOD + '\n{"x": "' + "a" * (5 << 20) + '"}\n', ":2: a line of more than 4 MB; .*jq -c"),
        ('{"x": "' + "a" * (6 << 20) + '"}\n', "a line of more than 4 MB"),
    ],
)
def test_files_that_are_something_else(tmp_path, text, message):
    path = write(tmp_path, text, end="", name="rows.json")
    with pytest.raises(DataError, match=message):
        names_of(path)


def test_dates_that_are_none(tmp_path):
    path = write(tmp_path, *[{"day": "2024-01-01", "label": 1}] * 40_000, {"day": "soon", "label": 0})
    with pytest.raises(DataError, match=r"rows\.jsonl:40001: column day: .*soon.*categorical day"):
        names_of(path)
    assert names_of(path, categorical=("day",)) == ("day=2024-01-01", "day=soon")


def test_the_labels_of_a_regression(tmp_path):
    path = write(tmp_path, {"x": 1, "label": 1}, {"x": 1, "label": "b"})
    with pytest.raises(DataError, match=r"rows\.jsonl:2: column label: .*labels of a regression"):
        llsvm.train(path, loss="huber")


def test_standard_input(tmp_path, monkeypatch):
    path = write(tmp_path, *people())
    with open(path, "rb") as file:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(file))
        piped = llsvm.train("-", format="jsonl", max_passes=30)
    np.testing.assert_array_equal(piped.coef_, llsvm.train(path, max_passes=30).coef_)


def test_converted_it_is_the_same_table(tmp_path):
    path = write(tmp_path, *people())
    convert(open_source(path), tmp_path / "rows.parquet")
    ours, theirs = (llsvm.train(each, max_passes=30) for each in (path, tmp_path / "rows.parquet"))
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)


def test_columns_are_looked_up_and_not_searched(tmp_path, monkeypatch):
    """Rows of thousands of keys would take the square of their number otherwise."""
    seen = []

    def parse(chunk, schema, leaves, names, exact):
        seen.append(names)
        return parse_whole(chunk, schema, leaves, names, exact)

    monkeypatch.setattr("llsvm.data.jsonl.parse_whole", parse)
    path = write(tmp_path, "".join(f'{{"y": {i % 2}, "k{i}": {i}}}\n' for i in range(40)))
    llsvm.train(str(path), label="y", missing="zero", memory_limit="8GB")
    assert seen
    assert all(isinstance(names, frozenset | set) and len(names) == 40 for names in seen)


def test_nan_is_missing_in_columns_of_every_type(tmp_path):
    """As Python's json writes what is missing, whatever the type of the column."""

    def row(i, gone):
        return {
            "y": "ab"[i % 2],
            "words": [gone, 'price: NaN, "q": NaN', '\\": NaN'][i % 3],
            "number": gone if i % 4 == 0 else i,
            "never": gone,
            "within": {"word": gone if i % 5 == 0 else "z", "bool": gone if i % 2 else True},
            "day": gone if i % 7 == 0 else "2024-01-31",
        }

    ours, theirs = (
        llsvm.train(
            write(tmp_path, *(row(i, gone) for i in range(60)), name=name),
            missing="mean",
            label="y",
            tol=1e-9,
        )
        for gone, name in ((float("nan"), "nan.jsonl"), (None, "null.jsonl"))
    )
    assert ours.feature_names == theirs.feature_names
    assert 'words=price: NaN, "q": NaN' in ours.feature_names
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    labels = [{"x": i, "y": [float("nan"), "a", "b"][i % 3]} for i in range(60)]
    model = llsvm.train(write(tmp_path, *labels), label="y", missing_label="drop")
    assert (model.classes_.tolist(), model.n_rows) == (["a", "b"], 40)


@pytest.mark.parametrize(
    ("values", "options", "line"),
    [
        ((5, "w"), {"text": ("t",)}, "1: column t: 5 is a number, where text is expected"),
        ((True, "w"), {"text": ("t",)}, "1: column t: true is true or false, where text is expected"),
        (("w", 5), {"text": ("t",)}, "2: column t: 5 is a number, where text is expected"),
        ((5, "w"), {}, '2: column t: "w" is text, where a number is expected'),
        ((5, "w"), {"categorical": ("t",)}, '2: column t: "w" is text, where a whole number is expected'),
        ((True, "w"), {}, '2: column t: "w" is text, where true or false is expected'),
    ],
)
@pytest.mark.parametrize("within", [False, True])
def test_a_number_in_a_column_of_text_is_named_with_its_line_and_what_makes_it_text(
    tmp_path, values, options, line, within
):
    rows = [{"t": value} for value in values]
    rows = [{**({"o": row} if within else row), "x": k, "label": k} for k, row in enumerate(rows)]
    name, keys = ("o.t", '["o"]["t"]') if within else ("t", '["t"]')
    options = dict.fromkeys(options, (name,))
    path = write(tmp_path, *rows)
    with pytest.raises(DataError) as error:
        names_of(path, **options)
    remedy = f"write the column as one type (all of it as text: jq -c '.{keys} |= tostring'), or leave it out"
    assert str(error.value).startswith(f"{path}:{line.replace(' t:', f' {name}:')}; {remedy}")
    for row in rows:  # as jq does
        inner = row["o"] if within else row
        inner["t"] = inner["t"] if isinstance(inner["t"], str) else json.dumps(inner["t"])
    llsvm.train(write(tmp_path, *rows), label="label", **(options or {"categorical": (name,)}))
