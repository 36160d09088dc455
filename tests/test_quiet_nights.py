"""Tables with a header and no row: predictions of nothing, and no error."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.errors import DataError, ModelError

ROWS = {
    "n": [1.5, 2.5, -1.0, 0.5] * 10,
    "town": ["Rome", "Oslo", "Rome", "Bonn"] * 10,
    "review": ["good film", "bad film", "dull", "good"] * 10,
    "label": [1, 0, 0, 1] * 10,
}


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def write(table, path):
    {"csv": pacsv.write_csv, "parquet": pq.write_table}.get(path.suffix[1:], pa.feather.write_feather)(
        table, path
    )
    return path


@pytest.fixture(scope="module", params=["numbers", "categories", "text", "kernel"])
def model(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("m") / "m"
    chosen = {"numbers": ["n"], "categories": ["n", "town"], "text": ["n", "review"], "kernel": ["n"]}
    text = {"text": ["review"]} if request.param == "text" else {}
    more = {"kernel": "rbf"} if request.param == "kernel" else {}
    llsvm.train(pa.table(ROWS), label="label", features=chosen[request.param], output=path, **text, **more)
    return path


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_a_header_without_rows_has_no_predictions(tmp_path, model, suffix):
    table = pa.table(ROWS)
    path = write(table.slice(0, 0), tmp_path / f"none.{suffix}")
    done = run("predict", model, path)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")
    done = run("predict", model, path, "--output", tmp_path / "out.txt")
    assert done.exit_code == 0
    assert (tmp_path / "out.txt").read_bytes() == b""
    done = run("predict", model, path, "--scores", "--keep", "town,n", "--output", tmp_path / "out.csv")
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "out.csv").read_text() == "town,n,prediction,score\n"
    assert run("predict", model, path, "--output", tmp_path / "out.parquet").exit_code == 0
    assert pq.read_table(tmp_path / "out.parquet").schema.names == ["prediction"]
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 0
    for data, name in (
        (path, "none"),
        (write(table, tmp_path / f"all.{suffix}"), "all"),
    ):  # types are the same
        keep = ("--keep", "town,n,label", "--output", tmp_path / f"kept-{name}.parquet")
        assert run("predict", model, data, *keep).exit_code == 0
    none, every = (pq.read_schema(tmp_path / f"kept-{name}.parquet") for name in ("none", "all"))
    assert [none.field(each).type for each in none.names[:3]] == [
        every.field(each).type for each in none.names[:3]
    ]
    assert llsvm.predict(model, path).shape == (0,)
    # one of several files, and not in training and evaluation
    whole = write(table, tmp_path / f"rows.{suffix}")
    assert len(llsvm.predict(model, [whole, path, whole])) == 80
    report = ("report", model, "--data", path, "--output", tmp_path / "report.html")
    for command in (("evaluate", model, path), report, ("train", path, "--model", tmp_path / "new")):
        done = run(*command)
        assert done.exit_code == 3
        assert "there is no row in it" in done.stderr


def test_a_header_alone_needs_its_columns_and_nothing_at_all_is_refused(tmp_path):
    llsvm.train(pa.table(ROWS), label="label", features=["n"], output=tmp_path / "m")
    (tmp_path / "other.csv").write_text("a,b\n")
    assert "columns is missing: n" in run("predict", tmp_path / "m", tmp_path / "other.csv").stderr
    (tmp_path / "empty.csv").write_text("")
    assert run("predict", tmp_path / "m", tmp_path / "empty.csv").exit_code == 3
    (tmp_path / "header.csv").write_text("town,n")  # without an end of line
    assert run("predict", tmp_path / "m", tmp_path / "header.csv").exit_code == 0


def test_names_with_commas_stand_in_quotes(tmp_path):
    rows = {"a, b": [1.0, 2.0] * 20, 'say "x",y': [1, 2] * 20, "n": [0.5, 1.5] * 20, "label": [0, 1] * 20}
    path = tmp_path / "rows.csv"
    pacsv.write_csv(pa.table(rows), path)
    names = '"a, b","say ""x"",y"'
    done = run(
        "train", path, "--exclude", names, "--model", tmp_path / "m", "--save-run", tmp_path / "r.toml"
    )
    assert done.exit_code == 0, done.stderr
    assert llsvm.Model.load(tmp_path / "m").feature_names == ("n",)
    done = run("predict", tmp_path / "m", path, "--keep", '"a, b"', "--output", tmp_path / "out.csv")
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "out.csv").read_text().startswith('"a, b",prediction\n')
    (tmp_path / "m").unlink()
    assert run("run", tmp_path / "r.toml").exit_code == 0
    assert llsvm.Model.load(tmp_path / "m").feature_names == ("n",)
    listed = 'exclude = ["a, b", "say \\"x\\",y"]'
    text = (tmp_path / "r.toml").read_text()
    (tmp_path / "r.toml").write_text(
        "\n".join(listed if "exclude" in line else line for line in text.splitlines())
    )
    (tmp_path / "m").unlink()
    assert run("run", tmp_path / "r.toml").exit_code == 0
    assert llsvm.Model.load(tmp_path / "m").feature_names == ("n",)
    done = run("train", path, "--exclude", "a, b", "--model", tmp_path / "m")
    assert done.exit_code == 3
    assert "a name with commas stands in quotes: '\"a, b\"'" in done.stderr


def empty_of(kind):
    none = pa.table(ROWS).slice(0, 0)
    if kind == "pandas":
        pytest.importorskip("pandas")
        return none.to_pandas()
    return pytest.importorskip("polars").from_arrow(none) if kind == "Polars" else none


@pytest.mark.parametrize("kind", ["pandas", "Polars", "pyarrow"])
def test_a_frame_without_rows_has_no_predictions(tmp_path, model, kind):
    none = empty_of(kind)
    assert llsvm.predict(model, none).shape == (0,)
    out = tmp_path / "out.csv"
    assert llsvm.write_predictions(model, none, out, keep=["town", "n"], scores=True) == 0
    assert out.read_text() == "town,n,prediction,score\n"
    with pytest.raises(DataError, match="there is no row in it"):
        llsvm.evaluate(model, none)
    with pytest.raises(DataError, match=r"columns (is|are) missing: n"):
        llsvm.predict(model, pa.table({"town": pa.array([], pa.string())}))


def test_an_array_without_rows_has_no_predictions():
    model = llsvm.train(np.arange(8.0).reshape(4, 2), [0, 1, 0, 1])
    for none in (np.zeros((0, 2)), sp.csr_array((0, 2))):
        assert llsvm.predict(model, none).tolist() == []
    with pytest.raises(ModelError, match="3"):
        llsvm.predict(model, np.zeros((0, 3)))


def test_an_input_without_a_byte_is_said_to_be_empty_whatever_its_name(tmp_path, model):
    for name, content in (("night.txt", b""), ("night", b"\n"), ("night.log.gz", gzip.compress(b""))):
        (tmp_path / name).write_bytes(content)
        for command in ("predict", "evaluate"):
            done = run(command, model, tmp_path / name)
            assert done.exit_code == 3
            assert f"{name}: the file is empty; give a file with at least one row" in done.stderr
        done = run("train", tmp_path / name, "--label", "label", "--model", tmp_path / "new")
        assert (done.exit_code, "the file is empty" in done.stderr) == (3, True)
        done = run("predict", model, tmp_path / name, "--format", "jsonl")  # as the message says
        assert (done.exit_code, done.stdout) == (0, "")


def test_a_last_line_of_one_value_is_refused_in_the_singular(tmp_path, model):
    path = write(pa.table(ROWS), tmp_path / "half.csv")
    path.write_text(path.read_text() + "1.5\n")
    done = run("predict", model, path)
    assert done.exit_code == 3
    assert "half.csv:42: 1 value, where 4 are expected" in done.stderr


LINES = {
    "csv": ("x,y\n", "{0},{1}\n"),
    "jsonl": ("", '{{"x": {0}, "y": {1}}}\n'),
    "svm": ("", "{1} 1:{0}\n"),
    "vw": ("", "{1} | x:{0}\n"),
    "ft": ("", "__label__{1} word{1}\n"),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("suffix", LINES)
def test_a_file_of_text_without_a_byte_among_others_has_no_rows(tmp_path, suffix, packed):
    header, line = LINES[suffix]
    full, empty = tmp_path / f"2.{suffix}", tmp_path / f"1.{suffix}{'.gz' * packed}"
    full.write_text(header + "".join(line.format(i - 20.5, 2 * (i > 20) - 1) for i in range(40)))
    empty.write_bytes(gzip.compress(b"") if packed else b"")
    kind = {"format": "fasttext", "text": ["text"]} if suffix == "ft" else {}
    wanted = llsvm.train(full, **kind)
    for paths in ([empty, full], [full, empty]):
        with pytest.warns(UserWarning, match="the file is empty: it has no row"):
            model = llsvm.train(paths, **kind)
        np.testing.assert_array_equal(model.coef_, wanted.coef_)
        with pytest.warns(UserWarning, match="the file is empty: it has no row"):
            assert len(llsvm.predict(model, paths)) == 40
    with pytest.raises(DataError, match=r"empty|no row"):
        llsvm.train([empty, empty], **kind)
