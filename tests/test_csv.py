"""CSV as people write it: headers or none, odd names, separators, line ends, wide rows."""

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pytest
from test_formats import dense_of
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.data import open_source
from llsvm.data.csv import CSVSource
from llsvm.errors import DataError, MissingColumnError, UsageError

_LLSVM = [sys.executable, "-m", "llsvm"]


def write(folder, text, encoding="utf-8"):
    path = folder / "rows.csv"
    path.write_bytes(text.encode(encoding))
    return path


def names_of(path, **options):
    source = open_source(path, options=options)
    list(source.blocks(1 << 20))
    return source.info().feature_names


HEADERS = {  # text: the names of its columns, or None where there is no header
    "0,1,2,label\n1.5,2,3,0\n4,5,6,1\n": ("0", "1", "2"),
    ",a,b,label\n0,1.5,2,0\n1,3,4,1\n": ("a", "b"),  # the rows' numbers are left out
    "a,b,label\nx,y,yes\nu,v,no\n": ("a=x", "b=y", "a=u", "b=v"),
    "a,b,label\n1,NA,0\n2,3,1\n": ("a", "b"),
    "NA,2,0\n1,3,1\n4,5,1\n": None,
    "?,2,0\n1,3,1\n4,5,1\n": None,
    "0,tcp,http,normal.\n1,udp,smtp,attack.\n": None,
    "x,y,x,no\nu,v,w,yes\n": None,
    "1,2,0\n3,4,1\n": None,
    ' a  b ,ünïcode,"x,y","q""u\nv",label\n1,2,3,4,0\n4,3,2,1,1\n': ("a b", "ünïcode", "x,y", 'q"u v'),
    "\n\r\na,b,label\n1,2,0\n\n3,4,1\n\n": ("a", "b"),
    "\ufeffa,b,label\r\n1,2,0\r\n3,4,1": ("a", "b"),
}


@pytest.mark.parametrize("text", HEADERS)
def test_is_the_first_row_a_header(tmp_path, text):
    path = write(tmp_path, text)
    expected = HEADERS[text]
    names = names_of(path, label=None if expected else "last", missing="zero")
    if expected is None:
        assert {name.split("=")[0] for name in names} == {
            str(i) for i in range(text.split("\n")[0].count(","))
        }
        found, _ = dense_of(open_source(path, options={"label": "last", "missing": "zero"}))
        assert len(found) == len(text.strip().split("\n"))
    else:
        assert names == expected


def wide(header, n=30, label="ab", town="town {}"):
    """Rows of a town, two numbers, and a class."""
    rows = (f"{town.format(i)},{i * 7 % 31}.5,{1000 + i},{label[i % len(label)]}" for i in range(n))
    return "\n".join([header, *rows]) + "\n"


@pytest.mark.parametrize(
    ("text", "options", "names"),
    [
        (wide("city,2019,2020,price", label="123"), {"label": "price"}, ("2019", "2020")),
        (wide("city,2019,2020,group"), {"label": "last"}, ("2019", "2020")),  # below are a and b alone
        (wide("city,2019,2020,group", 3), {"label": "group"}, ("2019", "2020")),
        (wide("city,2019,2020,class", 3), {}, ("2019", "2020")),
        (wide(",2019,2020,class", town="{}"), {}, ("2019", "2020")),
        # above a and b, above 1 and 2, and above nothing
        (wide("2018,2019,2020,2021", town="{}"), {"label": "last"}, ("2018", "2019", "2020")),
        (wide("2018,2019,2020,2021", town="{}", label="12"), {"label": "last"}, ("0", "1", "2")),
        (wide("2018,2019,2020,2021", town="{}", label=["", "NA"]), {"label": "0"}, ("1", "2")),
        (wide("town x,7.25,2020,a"), {"label": "last"}, ("1", "2")),
        (wide("town x,8,2020,a"), {"label": "last"}, ("1", "2")),  # a is there again
        (wide("2024-01-05,8,2020,c", town="2024-02-{:02}", n=20), {"label": "last"}, ("1", "2")),
    ],
)
def test_a_number_among_the_names_of_a_header(tmp_path, text, options, names):
    assert names_of(write(tmp_path, text), features=names, **options) == names


@pytest.mark.parametrize("header", ["city,2019,2020", "city,2019,group"])
def test_a_first_line_that_may_be_either_is_refused_with_the_option_that_says_so(tmp_path, header):
    rows = "\n".join(f"town {i},{i}.5,{'x' * (header[-1] == 'p')}{i}" for i in range(30))
    path = write(tmp_path, f"{header}\n{rows}\n")
    with pytest.raises(
        DataError, match=rf"the first line \({header.replace(',', ', ')}\) a header, or a row\?"
    ):
        open_source(path, options={"label": "last"})
    for said, names in (("yes", ("2019",)), ("no", ("1",))):
        assert names_of(path, label="last", header=said, features=names) == names
    (tmp_path / "rest").mkdir()
    rest = write(tmp_path / "rest", rows)  # of a file that was split
    source = open_source([path, rest], options={"label": header.split(",")[2], "features": ("2019",)})
    assert sum(block.n_rows for block in source.blocks(1 << 20)) == 60


@pytest.mark.parametrize("word", ["?", "NA", "", "-", "None", "NaN"])
def test_words_for_missing_numbers(tmp_path, word):
    path = write(tmp_path, f"a,t,label\n1,{word or 'x'},0\n{word},u,1\n3,v,1\n")
    with pytest.raises(DataError, match=r"column a: the value is missing in row 2 \(1 missing"):
        list(open_source(path).blocks(1 << 20))
    found, _ = dense_of(open_source(path, options={"missing": "zero"}))
    np.testing.assert_array_equal(found, [[1, 1, 0, 0], [0, 0, 1, 0], [3, 0, 0, 1]])


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("comma", [False, True])
def test_separators_and_decimal_commas(tmp_path, separator, comma):
    if comma and separator == ",":
        pytest.skip("values would need quotes")
    values = np.array([[1.5, -2.25], [3, 0.125], [-0.5, 4]])
    lines = [separator.join([*map(str, row), str(i % 2)]) for i, row in enumerate(values.tolist())]
    text = "\n".join([separator.join(["a", "b", "label"]), *lines])
    path = write(tmp_path, text.replace(".", ",") if comma else text)
    found, y = dense_of(open_source(path))
    np.testing.assert_array_equal(found, values.astype(np.float32))
    np.testing.assert_array_equal(y, [0, 1, 0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("\n\n\n", "the file is empty"),
        ("a,b,label\n", "there is no row"),
        ("a,b,label", "there is no row"),
        ("a,label\r1,0\r2,1\r", "carriage returns"),
        ("label\n1\n0\n", "no column is left as a feature"),
    ],
)
def test_files_without_data(tmp_path, text, said):
    path = write(tmp_path, text)
    with pytest.raises(DataError, match=said) as error:
        list(open_source(path).blocks(1 << 20))
    assert str(path) in str(error.value)


def test_one_row(tmp_path):
    found, y = dense_of(open_source(write(tmp_path, "a,b,label\n1,2,1")))
    np.testing.assert_array_equal(found, [[1, 2]])
    np.testing.assert_array_equal(y, [1])


def test_lines_within_quotes_wherever_chunks_end(tmp_path):
    n = 40_000
    path = write(tmp_path, "a,t,label\n" + "".join(f'{i},"x\n{i % 3}, ""q""",{i % 2}\n' for i in range(n)))
    source = open_source(path)
    found, _ = dense_of(source)
    assert source.info().feature_names == ("a", *(f't=x\n{i}, "q"' for i in range(3)))
    np.testing.assert_array_equal(found[:, 0], np.arange(n, dtype=np.float32))


def test_several_files_may_differ_in_order_and_only_the_first_may_have_a_header(tmp_path):
    texts = ["a,t,label\n1,x,0\n2,y,1\n", "label,a,t,more\n1,3,y,7\n", "4,x,0\n"]
    paths = [tmp_path / f"{i}.csv" for i in range(3)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    found, y = dense_of(open_source(paths))
    np.testing.assert_array_equal(found, [[1, 1, 0], [2, 0, 1], [3, 0, 1], [4, 1, 0]])
    np.testing.assert_array_equal(y, [0, 1, 1, 0])
    paths[2].write_text("4,x,0,9\n")
    with pytest.raises(DataError, match=r"2\.csv: 4 columns, where .*0\.csv has 3"):
        dense_of(open_source(paths))
    paths[2].write_text("a,label\n4,x\n")
    with pytest.raises(DataError, match=r"2\.csv: without the column t"):
        dense_of(open_source(paths))


@pytest.mark.parametrize(
    ("gone", "options", "excludable"),
    [
        ("t", {}, True),
        ("t", {"exclude": ["a"]}, True),
        ("label", {}, False),
        ("a", {"weight": "a"}, False),
        ("a", {"where": "a > 0"}, False),
        ("a", {"where": "a > 0", "exclude": ["a"]}, False),
        ("a", {"label": "a > 1", "exclude": ["label"]}, False),
    ],
)
def test_a_column_that_a_later_file_lacks_is_not_to_be_excluded_where_it_is_needed(
    tmp_path, gone, options, excludable
):
    rows = [{"a": "1", "t": "x", "label": "0"}, {"a": "2", "t": "y", "label": "1"}]
    paths = [tmp_path / f"{i}.csv" for i in range(2)]
    for path, left_out in zip(paths, (None, gone), strict=True):
        names = [name for name in rows[0] if name != left_out]
        path.write_text(
            "".join(",".join(line) + "\n" for line in [names, *([r[n] for n in names] for r in rows)])
        )
    with pytest.raises(
        DataError, match=rf"1\.csv: without the column {gone} that .*0\.csv has; give it"
    ) as found:
        llsvm.train(paths, **{"label": "label", **options})
    assert (f"exclude {gone}" in str(found.value)) == excludable
    if not options:
        model = llsvm.train(paths[0], label="label")
        data = [paths[0], paths[1]]
        with pytest.raises(DataError, match=f"without the column {gone}") as found:
            llsvm.evaluate(model, data)
        assert "exclude" not in str(found.value)  # which evaluate has not


def test_thousands_of_columns(tmp_path):
    """Work and memory per column stay small; the ledger knows of the memory."""
    n, d = 40, 3000
    X = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32).round(2)
    head = ",".join(f"c{j}" for j in range(d))
    body = "".join(",".join(map(str, row.tolist())) + f",{i % 2}\n" for i, row in enumerate(X))
    source = open_source(write(tmp_path, f"{head},label\n{body}"))
    found, _ = dense_of(source)
    np.testing.assert_array_equal(found, X)
    assert source.info().reader_bytes > 24_000_000 + 20_000 * d


def test_a_header_longer_than_what_is_looked_at_first(tmp_path):
    path, names = tmp_path / "t.csv", [f"{'n' * 300}{i}" for i in range(4000)]  # 1.2 MB
    rows = "".join(",".join([str(i % 3)] * 4000) + f",{i % 2}\n" for i in range(4))
    path.write_text(",".join(names) + ",label\n" + rows)
    source = open_source(path)
    assert sum(block.n_rows for block in source.blocks(1 << 22)) == 4
    assert source.info().feature_names == tuple(names)


@pytest.mark.parametrize("start", ["a,b,label\n", ""])
def test_a_line_without_end(tmp_path, start):
    path = tmp_path / "t.csv"
    path.write_text(start + "1," * 5_000_000)
    with pytest.raises(DataError, match="a line of more than 4 MB, or a quote"):
        list(open_source(path, options={"label": "0"} if not start else {}).blocks(1 << 20))


@pytest.mark.slow
def test_types_of_many_columns_take_little_memory(tmp_path):
    """The whole process, where the limit is refused: pyarrow would hold 20 kB for each column."""
    path, d = tmp_path / "t.csv", 40_000
    row = ",".join(["1"] * d)
    path.write_text(",".join(f"c{i}" for i in range(d)) + ",label\n" + f"{row},0\n{row},1\n")
    code = """import llsvm.cli, llsvm.memory.process as process
try: llsvm.cli.main()
finally: print(process.peak_resident_bytes())"""
    command = [sys.executable, "-c", code, "train", path, "--model", tmp_path / "m", "--memory", "300MB"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert int(done.stdout.split()[-1]) < 300_000_000


# -- separators ---------------------------------------------------------------------------------------------

ROWS = [["x", "z", "label"], ["1.5", "a", "0"], ["2.5", "b", "1"], ["3", "a", "1"]]


def separated(separator, end="\n"):
    return "".join(separator.join(row) + end for row in ROWS)


@pytest.mark.parametrize(
    "before", ["sep=;\n", "sep=;\r\n", '"sep=;"\n', "SEP=;\n", "\ufeffsep=;\n", "\nsep=;\n"]
)
@pytest.mark.parametrize("header", [True, False])
def test_a_line_that_names_the_separator(tmp_path, before, header):
    text = separated(";", "\r\n" if "\r" in before else "\n")
    path = write(tmp_path, before + (text if header else text.partition("\n")[2]))
    source = open_source(path, options={"label": "last"})
    found, y = dense_of(source)
    np.testing.assert_array_equal(found, [[1.5, 1, 0], [2.5, 0, 1], [3, 1, 0]])
    np.testing.assert_array_equal(y, [0, 1, 1])
    assert source.info().feature_names == (("x", "z=a", "z=b") if header else ("0", "1=a", "1=b"))


def test_a_separator_that_the_first_line_names_is_any_character(tmp_path):
    assert names_of(write(tmp_path, "sep=:\n" + separated(":"))) == ("x", "z=a", "z=b")


@pytest.mark.parametrize(
    ("separator", "named"), [(":", ":"), ("^", "^"), (" ", "space"), ("\t", "tab"), ("\x01", "\x01")]
)
def test_separators_that_are_named(tmp_path, separator, named):
    path = write(tmp_path, separated(separator))
    assert names_of(path, delimiter=named) == ("x", "z=a", "z=b")
    if separator != "\t":
        with pytest.raises(
            DataError, match=r"columns are .*several, name what is between them \(delimiter\)"
        ):
            names_of(path)
    commas = write(
        tmp_path, separated(separator).replace(f"{separator}a{separator}", f"{separator}a,a,a,a{separator}")
    )
    assert names_of(commas, delimiter=named) == ("x", "z=a,a,a,a", "z=b")


def test_the_separator_is_of_the_run_and_of_the_model(tmp_path):
    path, saved, model = write(tmp_path, separated(":")), tmp_path / "run.toml", tmp_path / "m"
    runner = CliRunner()
    words = ["train", path, "--delimiter", ":", "--model", model, "--save-run", saved]
    assert runner.invoke(app, list(map(str, words))).exit_code == 0
    model.unlink()
    assert runner.invoke(app, ["run", str(saved)]).exit_code == 0
    loaded = llsvm.load(model)
    answers = list(llsvm.predict(loaded, path))
    assert answers == list(llsvm.train(path, delimiter=":").predict(pd.read_csv(path, sep=":")))
    assert list(llsvm.predict(loaded, write(tmp_path, separated(",")))) == answers  # told by its first line
    assert runner.invoke(app, ["evaluate", str(model), str(write(tmp_path, separated(":")))]).exit_code == 0
    with pytest.raises(UsageError, match="delimiter"):
        llsvm.train(path, delimiter="::")


# -- what later files have ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_a_column_that_only_a_later_file_has_is_said(tmp_path, kind):
    tables = [{"a": [1, 2], "label": [0, 1]}, {"a": [1, 2], "more": [5, 6], "label": [0, 1]}]
    paths = [tmp_path / f"{i}.{kind}" for i in range(3)]
    for path, table in zip(paths, [*tables, tables[1]], strict=True):
        frame = pd.DataFrame(table)
        if kind == "csv":
            frame.to_csv(path, index=False)
        elif kind == "parquet":
            frame.to_parquet(path)
        else:
            frame.to_json(path, orient="records", lines=True)
    source = open_source(paths)
    for _ in range(2):
        list(source.blocks(1 << 20))
        (note,) = source.info().notes
        assert "1." + kind + ": column more is left out" in note
    list((source := open_source(paths, options={"features": ("a",)})).blocks(1 << 20))
    assert source.info().notes == ()


@pytest.mark.parametrize(
    ("column", "n"), [("t,a\n,b\n,  \n,c\n", 1), ("t,a\n,b\n,\n,c\n", 1), ("t,1\n,2\n,\n,NA\n", 2)]
)
def test_missing_values_are_counted_as_they_are_read(tmp_path, column, n):
    rows = [line.removeprefix(",") for line in column.removeprefix("t,").splitlines()]
    path = write(tmp_path, "t,label\n" + "".join(f"{row},{i % 2}\n" for i, row in enumerate(rows)))
    with pytest.raises(
        DataError, match=rf"column t: the value is missing in row 3 \({n} missing in that column\)"
    ):
        list(open_source(path).blocks(1 << 20))


def test_missing_values_of_vectors_and_dictionaries_are_counted(tmp_path):
    path = str(tmp_path / "t.feather")
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, 0]), pa.array(["a", None]))
    for column in (pa.array([[1.0, 2], [3, None], [5, 6], [float("nan"), 1]]), words):
        feather.write_feather(pa.table({"v": column, "label": [0, 1, 0, 1]}), path)
        with pytest.raises(
            DataError, match=r"column v: the value is missing in row 2 \(2 missing in that column\)"
        ):
            list(open_source(path).blocks(1 << 20))


@pytest.mark.slow
def test_the_limit_named_for_many_columns_is_taken(tmp_path):
    path, d = tmp_path / "t.csv", 12_000
    rows = "".join(",".join(str((i + j) % 10) for j in range(d)) + f",{i % 2}\n" for i in range(60))
    path.write_text(",".join(f"c{i}" for i in range(d)) + ",label\n" + rows)
    words = ["train", path, "--model", tmp_path / "m", "--max-passes", "1", "--memory-limit"]
    refused = subprocess.run(
        [*_LLSVM, *map(str, words), "340MB"], capture_output=True, text=True, check=False
    )
    limit = re.search(r"pass --memory-limit (\d+MB)", refused.stderr)[1]
    done = subprocess.run([*_LLSVM, *map(str, words), limit], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 5), done.stderr


@pytest.mark.parametrize("separator", list(";\t|"))
def test_commas_of_thousands_are_no_decimal_commas(tmp_path, separator):
    """Beside numbers below 1000, which have none; where all have three decimals, they are decimals."""
    path = tmp_path / "rows.csv"

    def read(words):
        rows = [separator.join([word, str(i % 2)]) for i, word in enumerate(words)]
        path.write_text("\n".join([f"a{separator}y", *rows]) + "\n")
        return dense_of(open_source(path, options={"label": "y"}))[0][:, 0].tolist()

    with pytest.raises(DataError, match=r"column a: values such as '18,500'.* are numbers written as text"):
        read(["18,500", "344", "1,200", "999", "245,321"])
    assert read(["1,799", "1,819", "0,999"]) == pytest.approx([1.799, 1.819, 0.999])
    assert read(["1,799", "1,819", "2,009"]) == pytest.approx([1.799, 1.819, 2.009])
    assert read(["1,5", "2", "1,125"]) == pytest.approx([1.5, 2.0, 1.125])
    assert read(["0,125", "2", "1,125"]) == pytest.approx([0.125, 2.0, 1.125])


@pytest.mark.parametrize("separator", list(";\t|"))
def test_decimal_commas_that_may_separate_thousands_are_noted(tmp_path, separator):
    path = tmp_path / "rows.csv"

    def noted(words, **options):
        rows = [separator.join([word, "1,5" if options else "3", str(i % 2)]) for i, word in enumerate(words)]
        path.write_text("\n".join([separator.join("aby"), *rows]) + "\n")
        return " ".join(open_source(path, options={"label": "y", **options}).info().notes)

    told = noted(["1,799", "1,819", "2,009"])
    assert "column a: the comma of values such as '1,799' is taken for a decimal comma" in told
    assert "write 1799 if it separates thousands" in told
    assert noted(["1,79", "1,819", "2,009"]) == ""
    assert noted(["1,799", "1,819", "2,009"], exclude=()) == noted(["1,799", "0,819", "2,009"]) == ""
    assert noted(["1,799", "1,819", "2,009"], features=("b",)) == ""


@pytest.mark.parametrize("separator", list(";\t|"))
def test_decimal_commas_beside_a_column_of_points(tmp_path, separator):
    """Each column of numbers is read as it is written; points before three digits each may separate thousands."""
    path = tmp_path / "rows.csv"

    def read(points):
        rows = [separator.join([f"{i},5", point, str(i % 2)]) for i, point in enumerate(points)]
        path.write_text("\n".join([separator.join("aby"), *rows]) + "\n")
        return dense_of(open_source(path, options={"label": "y"}))[0]

    expected = [[0.5, 1.25], [1.5, 3], [2.5, 0.125]]
    np.testing.assert_array_equal(read(["1.25", "3", "0.125"]), expected)
    with pytest.raises(DataError, match=r"column a: values such as '0,5'.* are numbers written as text"):
        read(["12.500", "3.250", "7"])


@pytest.mark.parametrize(
    "lines",
    [
        ['a, "b", "y"', "1,2,0", "2,1,1"],
        ["a,b,y", '1, "u",0', '2, "v, w",1', '3,, "x"'],
        ["1,2,0", '1, "u",0', '2, "v", 1'],
        ['"a";"b";\t"y"', '1;"x";"u"', '2;"z";"v"'],
    ],
)
def test_a_space_before_a_quote_is_refused(tmp_path, lines):
    """Else quotes become part of names, labels and categories."""
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match="a space stands between a separator and a quote"):
        open_source(path, options={"label": "last"})


def test_a_quoted_value_that_begins_with_a_space_is_text(tmp_path):
    path = write(tmp_path, 'y,t\n0,"he said, ""no"""\n1," ""yes"""\n0, no\n')
    assert dense_of(open_source(path, options={"label": "y"}))[0].shape == (3, 3)


@pytest.mark.parametrize("label", ["last", "20"])
def test_whole_numbers_above_columns_of_decimals_may_be_names(tmp_path, label):
    """Channels of an instrument, or months: which row is the first one is asked for; 1, 2 above 1.0, 2.5 is not."""
    rows = [f"{i % 7}.{i % 9},0.{i % 5},{i % 3}.5,{i % 2}" for i in range(30)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["3,7,12,20", *rows]) + "\n")
    with pytest.raises(DataError, match=r"is the first line \(3, 7, 12, 20\) a header, or a row\?"):
        open_source(path, options={"label": label})
    assert dense_of(open_source(path, options={"label": label, "header": "yes"}))[0].shape == (30, 3)
    assert dense_of(open_source(path, options={"label": "last", "header": "no"}))[0].shape == (31, 3)
    path.write_text("\n".join(["3,7.5,12,1", *rows]) + "\n")
    assert dense_of(open_source(path, options={"label": "last"}))[0].shape == (31, 3)


@pytest.mark.parametrize("document", ["3.14", "2,50"])
def test_a_number_among_documents_is_no_decimal_point(tmp_path, document):
    """Which point numbers have, columns of numbers tell."""
    point = "," if "." in document else "."
    lines = [f"{'ab'[i % 2]};{document if i == 3 else 'word ' * (i % 3 + 1)};{i}{point}5;" for i in range(40)]
    path = tmp_path / "rows.csv"
    path.write_text("y;review;price;none\n" + "\n".join(lines))
    model = llsvm.train(path, label="y", text=["review"], exclude=["none"], memory_limit="8GB")
    assert model.feature_names[0] == "price"
    assert model.coef_[0, 0] != 0


def test_columns_are_told_by_records_not_by_lines(tmp_path):
    """A document with line ends does not move the cells behind it into other columns."""
    lines = ["y;text;n;code", '0;"two', '7;x;007;z";1;012', "1;one here;2;013", "0;it;3.5;014"]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(lines) + "\n")
    source = open_source(path, options={"label": "y", "text": ("text",)})
    codes = "values such as '012' are read as numbers; pass --categorical code if they are codes"
    assert source.info().notes == (f"{path}: column code: {codes}",)


@pytest.mark.parametrize("last", ['1,"a text', '1,"a text\n0,other\n', '1,"a ""text""\n0,""\n'])
@pytest.mark.parametrize("label", ["0", "1"])
def test_a_file_that_ends_within_quotes_is_refused(tmp_path, last, label):
    """All that follows the quote would be one value, and its rows would be lost."""
    path = tmp_path / "rows.csv"
    path.write_text('y,t\n0,one\n1,"two, ""2"""\n' + last)
    with pytest.raises(DataError, match="ends within quotes"):
        dense_of(open_source(path, options={"label": label, "categorical": ("t",)}))


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("separator", list(",;\t|"))
def test_rows_between_two_values_that_begin_with_a_quote_are_not_lost(tmp_path, separator, first):
    """The quotes are of inches, feet or nothing, and all between them would be one value."""
    path, names = tmp_path / "rows.csv", ["t", "y", "a", "b"] if first else ["y", "a", "b", "t"]
    rows = [{"y": i % 2, "a": i, "b": 0.5, "t": '"6 pipe' if i in (20, 25) else "pipe"} for i in range(40)]
    lines = [names, *([str(row[name]) for name in names] for row in rows)]
    path.write_text("\n".join(map(separator.join, lines)) + "\n")
    options = {"label": "y", "categorical": ("t",)}
    with pytest.raises(
        DataError, match=r"column t: the value in row 21, .*'6 pipe.* is of 6 lines that look"
    ):
        dense_of(open_source(path, options=options))
    with pytest.raises(DataError, match="lines that look like rows"):
        llsvm.train(path, label="y", text=["t"], memory_limit="2GB")


@pytest.mark.parametrize("labels", [("0", "1"), ("no", "yes"), ("2024-01-05", "2024-01-06")])
@pytest.mark.parametrize("second", ['"fine, again"', 'with "quotes" within'])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("option", ["text", "categorical"])
def test_rows_of_two_columns_are_not_lost_between_quotes_either(tmp_path, labels, second, first, option):
    path = tmp_path / "rows.csv"
    texts = ["good film" if i % 3 else "dull" for i in range(40)]
    texts[20:22] = ['"unclosed', second] if not first or second[0] != '"' else ['"unclosed', "next"]
    texts[25] = '"closed' if texts[21] == "next" else texts[25]
    rows = [(text, labels[i % 2]) if first else (labels[i % 2], text) for i, text in enumerate(texts)]
    names = "t,y" if first else "y,t"
    path.write_text("\n".join([names, *map(",".join, rows)]) + "\n")
    with pytest.raises(DataError, match=r"lines that look like rows|ends within quotes|values?, where 2 are"):
        llsvm.train(path, label="y", memory_limit="2GB", **{option: ["t"]})


def test_documents_of_two_columns_may_have_lines_with_commas(tmp_path):
    path = tmp_path / "rows.csv"
    texts = ['"one, two\nthree, 1"', '"Dear Sir,\n1, yes\nno, 2"', '"1,5 million\n2,5 more"', '"a,b\nc"']
    path.write_text("t,y\n" + "".join(f"{texts[i % 4]},{i % 2}\n" for i in range(40)))
    model = llsvm.train(path, label="y", text=["t"], memory_limit="2GB")
    assert llsvm.evaluate(model, path)["rows"] == 40


@pytest.mark.parametrize("rest", ["", '; ""really""'])
@pytest.mark.parametrize("first", [True, False])
def test_a_document_of_two_lines_may_have_a_line_that_looks_like_a_row(tmp_path, first, rest):
    """One line alone tells nothing: there would be no way to write such a value."""
    path = tmp_path / "rows.csv"
    odd = f'"Top score,1\nwell played{rest}",0' if first else f'0,"Top score\n1,well played{rest}"'
    rows = [f"film {i % 3},{i % 2}" if first else f"{i % 2},film {i % 3}" for i in range(40)]
    path.write_text("\n".join(["t,y" if first else "y,t", *rows, odd, *rows]) + "\n")
    assert llsvm.train(path, label="y", text=["t"], memory_limit="2GB").n_rows == 81


def test_lines_like_rows_are_refused_with_remedies_that_work(tmp_path):
    path, again = tmp_path / "rows.csv", tmp_path / "rows.parquet"
    texts = ["Top score,1\nsecond,0\nwell played", *(f"film {i % 3}" for i in range(39))]
    frame = pd.DataFrame({"t": texts, "y": [i % 2 for i in range(40)]})
    frame.to_csv(path, index=False)
    with pytest.raises(DataError, match=r"row 1, .* is of 3 lines .* write the table as Parquet or JSON"):
        llsvm.train(path, label="y", text=["t"], memory_limit="2GB")
    frame.to_parquet(again)
    assert llsvm.train(again, label="y", text=["t"], memory_limit="2GB").n_rows == 40


def test_values_of_several_lines_are_looked_at_once_and_to_the_first_misfit(tmp_path, monkeypatch):
    path, asked = tmp_path / "rows.csv", []
    text = "Dear Sir,1\n" + "a,b,c\n" * 500
    path.write_text("t,y\n" + "".join(f'"{text}",{i % 2}\n"no\nrow,1\n",1\n' for i in range(8)))
    fits = CSVSource._fits

    def counting(self, head, batch):
        return [
            fit and (lambda cell, fit=fit: asked.append(cell) or fit(cell)) for fit in fits(self, head, batch)
        ]

    monkeypatch.setattr(CSVSource, "_fits", counting)
    source = open_source(path, options={"label": "y", "categorical": ("t",)})
    dense_of(source)
    assert asked == ["1"] * 8
    dense_of(source)
    assert len(asked) == 8


def test_documents_of_several_lines_are_values_all_the_same(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("y,a,t\n" + '0,1,"one\ntwo, three, and more"\n1,2,"four\n\tfive\n"\n' * 20)
    assert llsvm.train(path, label="y", text=["t"], memory_limit="2GB").n_rows == 40


@pytest.mark.parametrize(
    "last", ['1,5" wide', '1,"a text"', '1,"a\ntext"\n', '1,a "b" "\n\n\n', '1,"a" b"\r\n']
)
def test_quotes_within_values_are_no_end(tmp_path, last):
    path = tmp_path / "rows.csv"
    path.write_text("y,t\n0,one\n" + last)
    _, y = dense_of(open_source(path, options={"label": "y", "categorical": ("t",)}))
    assert y.tolist() == [0, 1]


@pytest.mark.parametrize("cell", ["2", "yes"])
@pytest.mark.parametrize("column", ["open", "label"])
def test_a_late_cell_beside_true_and_false_is_told_so(tmp_path, column, cell):
    first, later = (tmp_path / name for name in ("a.csv", "b.csv"))
    first.write_text("a,open,label\n" + "1,True,False\n2,False,True\n" * 10)
    row = {"open": "True", "label": "False", column: cell}
    later.write_text(f"a,open,label\n1,{row['open']},{row['label']}\n")
    with pytest.raises(
        DataError, match=rf"b\.csv:2: column {column}: .*'{cell}'.* is neither true nor false"
    ):
        dense_of(open_source([first, later]))


NAMES = ["size,town,label", "2019,2020,2021", "1.5,2.5,label", "size,town,2019"]


@pytest.mark.parametrize("names", NAMES)
def test_a_model_reads_the_parts_of_a_split_file_as_training_did(tmp_path, names):
    """Only the first part has a header, or each has one."""
    rows = [f"{i},{i % 7},{i % 2}" for i in range(40)]
    parts = [tmp_path / f"{i}.csv" for i in range(3)]
    for path, lines in zip(parts, ([names, *rows[:20]], rows[20:30], [names, *rows[30:]]), strict=True):
        path.write_text("\n".join(lines) + "\n")
    label = names.split(",")[2]
    parts[1].write_text("7,7,1\n" + parts[1].read_text())  # no names: the first row has a value twice
    model = llsvm.train([parts[0], parts[2]], label=label, header="yes", memory_limit="2GB", threads=1)
    assert llsvm.evaluate(model, parts)["rows"] == 41
    assert len(llsvm.predict(model, parts)) == 41


@pytest.mark.parametrize("option", [{"label": "2022"}, {"label": "2022", "exclude": ["2020"]}])
def test_a_column_named_in_a_first_line_of_numbers_has_the_header_as_its_remedy(option, tmp_path):
    rows = [f"{i},{i % 7},{1 + (i > 9)}" for i in range(20)]
    (tmp_path / "t.csv").write_text("\n".join(["2020,2021,2022", *rows, ""]))
    with pytest.raises(MissingColumnError, match=r"'2022' \(label\);.*first line has it.*, pass header yes$"):
        llsvm.train(tmp_path / "t.csv", memory_limit="8GB", **option)
    model = llsvm.train(tmp_path / "t.csv", memory_limit="8GB", header="yes", **option)
    assert model.classes_.tolist() == [1, 2]


def test_a_header_above_text_alone_is_said_to_be_one_unless_it_is_asked_for(tmp_path):
    rows = [
        f"{a},{b},{c}"
        for a, b, c in zip(
            ["red", "blue"] * 20,
            ["big", "small", "big"] * 13 + ["small"],
            ["yes"] * 19 + ["no"] * 21,
            strict=True,
        )
    ]

    def notes(first, label, header="auto", **options):
        path = tmp_path / "rows.csv"
        path.write_text("\n".join([*first, *rows, ""]))
        source = open_source(str(path), options={"label": label, "header": header, **options})
        return [each for each in source.info().notes if "is taken for the columns' names" in each]

    (note,) = notes(["green,huge,perhaps"], "last")
    assert "the first line, 'green,huge,perhaps'," in note
    assert "--header no makes a row of it" in note
    assert notes(["colour,size,bought"], "bought") == []  # which is asked for by its name
    assert notes(["colour,size,bought"], "last", exclude=("size",)) == []
    assert notes(["colour,size,y"], "last") == []
    for header in ("yes", "no"):
        assert notes(["green,huge,perhaps"], "last", header) == []
    assert notes([], "last", "no") == []


@pytest.mark.parametrize("sign", [";", ",", "\t"])
def test_a_last_separator_of_each_line_makes_no_column(tmp_path, sign):
    """As spreadsheets write it; but a value there is refused, wherever it is."""
    rng = np.random.default_rng(0)
    rows = [[f"{a:.3f}", f"{b:.3f}", str(int(a > 0))] for a, b in rng.normal(size=(40, 2))]

    def write(name, tail, n=1, last=""):
        lines = [["a", "b", "y"], *rows * n]
        text = "".join(sign.join(line) + tail + "\n" for line in lines)
        (tmp_path / name).write_text(text.removesuffix("\n") + last + "\n")
        return tmp_path / name

    plain, trailing = write("plain.csv", ""), write("trailing.csv", sign)
    expected = llsvm.train(plain, label="y", seed=0, threads=1)
    with pytest.warns(UserWarning, match="column 3, the last one, has neither a name nor a value: left out"):
        model = llsvm.train(trailing, label="y", seed=0, threads=1)
    assert model.feature_names == ("a", "b")
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    for each in (plain, trailing):
        np.testing.assert_array_equal(llsvm.predict(model, each), llsvm.predict(expected, plain))
        assert llsvm.evaluate(expected, each) == llsvm.evaluate(model, plain)
    with pytest.raises(DataError, match="column 3: the value is missing in row 1"):
        llsvm.train(write("odd.csv", sign, last="7"), label="y")
    late = write("late.csv", sign, 3000, "7")
    with pytest.raises(
        DataError, match=r"row 120000: column 3, the last one, has no name, and the value '7'"
    ):
        llsvm.train(late, label="y", max_passes=2)
    assert llsvm.train(late, label="y", exclude=["3"], max_passes=2).feature_names == ("a", "b")
