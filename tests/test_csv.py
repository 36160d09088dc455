"""CSV as people write it: headers or none, odd names, separators, line ends, wide rows."""

import subprocess
import sys

import numpy as np
import pytest
from test_formats import dense_of

from llsvm.data import open_source
from llsvm.errors import DataError


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
