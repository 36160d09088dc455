"""What a reader could silently take for something else: refused with the remedy, or said."""

import io
import json

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.data import open_source
from llsvm.errors import DataError
from llsvm.features.labels import LabelEncoder
from llsvm.scoring.measure import measure
from llsvm.scoring.predictions import predict_file
from llsvm.scoring.sources import open_for

LIMIT = "2GB"


def read(source):
    """All labels and weights."""
    blocks = list(source.blocks(1 << 20))
    weight = None if blocks[0].weight is None else np.concatenate([block.weight for block in blocks])
    return np.concatenate([block.y for block in blocks]).tolist(), weight


def write(path, text):
    path.write_text(text)
    return str(path)


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


# -- labels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first_is_text", [True, False])
def test_files_with_labels_of_two_types_are_refused_by_name(first_is_text, tmp_path):
    labels = [["0", "1"], [0, 1]] if first_is_text else [[0, 1], ["0", "1"]]
    paths = [str(tmp_path / f"{i}.parquet") for i in range(2)]
    for path, y in zip(paths, labels, strict=True):
        pq.write_table(pa.table({"x": [1.0, 2.0], "label": y}), path)
    with pytest.raises(DataError, match=r"1.parquet: column label: the labels are .* in .*0.parquet"):
        read(open_source(paths))
    both = [str(tmp_path / f"{i}.h5") for i in range(2)]
    for path, y in zip(both, labels, strict=True):
        with h5py.File(path, "w") as file:
            file["X"], file["y"] = np.eye(2), y
    with pytest.raises(DataError, match="text in some rows and numbers in others, such as"):
        llsvm.train(both, memory_limit=LIMIT)


def bool_file(kind, folder):
    x, y = np.array([-2.0, -1.0, 1.0, 2.0] * 9), np.array([False, False, True, True] * 9)
    path = str(folder / f"bool.{kind}")
    if kind == "csv":
        rows = "".join(f"{a},{'true' if b else 'false'}\n" for a, b in zip(x, y, strict=True))
        return write(folder / "bool.csv", "x,label\n" + rows)
    if kind == "npz":
        np.savez(path, X=x[:, None], y=y)
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            file["X"], file["y"] = x[:, None], y
    else:
        pa_write = pq.write_table if kind == "parquet" else pa.feather.write_feather
        pa_write(pa.table({"x": x, "label": y}), path)
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "h5", "npz"])
def test_true_and_false_come_back(kind, tmp_path):
    path = bool_file(kind, tmp_path)
    model = llsvm.train(path, memory_limit=LIMIT)
    assert model.labels == ["false", "true"]
    out = io.StringIO()
    predict_file(model, open_for(model, path), out, memory_limit=LIMIT)
    assert out.getvalue().split() == ["false", "false", "true", "true"] * 9
    assert measure(model, open_for(model, path, True), memory_limit=LIMIT)["accuracy"] == 1.0


def test_space_around_labels_is_no_part_of_them(tmp_path):
    path = write(tmp_path / "iris.csv", "x, label\n1, setosa\n2,virginica \n3,setosa\n4, virginica\n")
    assert read(open_source(path))[0] == ["setosa", "virginica", "setosa", "virginica"]
    assert read(open_source(path, positive=" setosa"))[0] == [1, -1, 1, -1]
    with pytest.raises(
        DataError, match=r"no row has the label 'versicolor' .* there are 'setosa', 'virginica'"
    ):
        read(open_source(path, positive="versicolor"))
    write(tmp_path / "iris.csv", "x, label\n1, a\n2,  \n")
    with pytest.raises(DataError, match="row 2: column label: the label is missing"):
        read(open_source(path))


def test_labels_in_messages_are_quoted(tmp_path):
    path = write(tmp_path / "one.csv", "x,label\n1,ham\n2,ham\n")
    with pytest.raises(DataError, match="the same label, 'ham'"):
        llsvm.train(path, memory_limit=LIMIT)
    path = write(tmp_path / "one.svm", "1 1:1\n1 1:2\n")
    with pytest.raises(DataError, match="the same label, 1:"):
        llsvm.train(path, memory_limit=LIMIT)


LARGE = (2**53, 2**53 + 1)


@pytest.mark.parametrize("kind", ["svm", "csv", "parquet"])
def test_labels_that_floats_cannot_tell_apart_are_refused(kind, tmp_path):
    """Files of arrays have them as whole numbers: see test_labels_alike."""
    path = str(tmp_path / f"ids.{kind}")
    if kind == "svm":
        write(tmp_path / "ids.svm", "".join(f"{label} 1:1\n" for label in LARGE))
    elif kind == "csv":
        write(tmp_path / "ids.csv", "x,label\n" + "".join(f"1,{label}\n" for label in LARGE))
    else:
        pq.write_table(pa.table({"x": [1.0, 2.0], "label": LARGE}), path)
    with pytest.raises(
        DataError, match=rf"ids.{kind}: .*(cannot be told from their neighbours|too large to be told)"
    ):
        llsvm.train(path, memory_limit=LIMIT)


def test_large_labels_of_arrays_are_kept_apart():
    encoder = LabelEncoder()
    encoder.encode(np.array(LARGE))
    assert encoder.classes.tolist() == list(LARGE)
    with pytest.raises(DataError, match="9007199254740992"):
        LabelEncoder().encode(np.array([-float(2**53), 1.0]))
    LabelEncoder().encode(np.array([1.0 - 2**53, 2**53 - 1.0]))


# -- weights ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["h5ad", "npz"])
def test_only_the_option_takes_weights(kind, tmp_path):
    path, weight = str(tmp_path / f"rows.{kind}"), np.arange(4.0)
    if kind == "npz":
        np.savez(path, X=np.eye(4), y=[0, 1, 0, 1], weight=weight)
    else:
        with h5py.File(path, "w") as file:
            file["X"] = np.eye(4)
            obs = file.create_group("obs")
            obs["y"], obs["weight"] = [0, 1, 0, 1], weight
    source = open_source(path)
    assert read(source)[1] is None
    assert source.info().notes == (
        f"{path}: the array 'weight' is left aside (--weight weight takes it for sample weights)",
    )
    source = open_source(path, options={"weight": "weight"})
    np.testing.assert_array_equal(read(source)[1], weight)
    assert source.info().notes == ()
    with pytest.warns(UserWarning, match="the array 'weight' is left aside"):
        llsvm.train(path, memory_limit=LIMIT)
    model = llsvm.train(path, weight="weight", memory_limit=LIMIT)
    np.savez(tmp_path / "new.npz", X=np.eye(4))  # predictions know no weights
    assert len(model.predict(np.eye(4))) == predict_file(
        model, open_for(model, str(tmp_path / "new.npz")), io.StringIO(), memory_limit=LIMIT
    )


# -- columns ----------------------------------------------------------------------------------------------


def documents(n, text):
    return "label,body,x\n" + "".join(f"{i % 2},{text(i)},{i % 7}\n" for i in range(n))


def test_a_text_column_of_documents_is_refused_with_remedies(tmp_path):
    path = write(tmp_path / "docs.csv", documents(400, lambda i: f"a document of its own number {i}"))
    with pytest.raises(
        DataError,
        match=r"column body: 400 of 400 rows have a value that no other row has, such as 'a doc.*"
        r"exclude body.*categorical body",
    ):
        llsvm.train(path, memory_limit=LIMIT)
    llsvm.train(path, exclude=("body",), memory_limit=LIMIT)
    assert llsvm.train(path, categorical=("body",), memory_limit=LIMIT).n_features_in_ == 401
    said = run("inspect", path).stdout.replace("\n", " ")
    assert "400 of 400 rows have a value that no other row has" in said


def test_categories_of_which_some_are_rare_are_no_documents(tmp_path):
    some = documents(400, lambda i: f"rare {i}" if i < 199 else f"common {i % 5}")
    assert llsvm.train(write(tmp_path / "some.csv", some), memory_limit=LIMIT).n_features_in_ == 199 + 5 + 1
    few = documents(100, lambda i: f"value {i}")  # so few do no harm
    assert llsvm.train(write(tmp_path / "few.csv", few), memory_limit=LIMIT).n_features_in_ == 101


@pytest.mark.parametrize(
    "amount", ['"$1,234.50"', "$5", "12 %", '"1,234"', '"€ 1.234,50"', "5 €", '"(1,234.50)"', "-$3.20"]
)
def test_amounts_are_no_categories(amount, tmp_path):
    path = write(tmp_path / "sales.csv", documents(30, lambda i: amount))
    with pytest.raises(
        DataError, match=r"column body: values such as .* are numbers written as text.*exclude"
    ):
        llsvm.train(path, memory_limit=LIMIT)
    assert llsvm.train(path, categorical=("body",), memory_limit=LIMIT).n_features_in_ == 2


@pytest.mark.parametrize("word", ["1-800-5", "v1.2", "2024-01-02x", "A4", '"Oslo, Norway"', "10-20", "+"])
def test_categories_with_digits_are_no_amounts(word, tmp_path):
    path = write(tmp_path / "words.csv", documents(30, lambda i: word))
    assert llsvm.train(path, memory_limit=LIMIT).n_features_in_ == 2


def test_the_index_of_pandas_is_left_out_and_that_is_said(tmp_path):
    path = str(tmp_path / "frame.parquet")
    columns = {"x": [1.0, 2.0], "label": [0, 1], "__index_level_0__": [7, 8]}
    pq.write_table(pa.table(columns), path)
    with pytest.warns(UserWarning, match=r"frame.parquet: column __index_level_0__ is an index"):
        model = llsvm.train(path, memory_limit=LIMIT)
    assert model.feature_names == ("x",)
    assert "__index_level_0__ is an index" in run("inspect", path).stdout
    named = llsvm.train(path, features=("x", "__index_level_0__"), memory_limit=LIMIT)
    assert named.feature_names == ("x", "__index_level_0__")
    assert open_source(path, options={"exclude": ("__index*",)}).info().notes == ()
    text = write(tmp_path / "frame.csv", ",x,label\n0,1,0\n1,2,1\n")
    source = open_source(text)
    assert source.info().feature_names == ("x",)
    assert "column 0 is an index" in source.info().notes[0]


# -- text that may be damaged -----------------------------------------------------------------------------


@pytest.mark.parametrize("max_bytes", [1, 1 << 20])
def test_one_index_zero_is_said(max_bytes, tmp_path):
    path = write(tmp_path / "zero.svm", "# head 0:\n1 1:1\n-1 1:2 3:1\n1 0:3 2:1\n-1 0:1\n")
    source = open_source(path)
    assert source.info().notes == ()
    for _ in range(2):
        list(source.blocks(max_bytes))
        (note,) = source.info().notes
        assert note.startswith(f"{path}:4: an index 0, so the columns of the whole file are counted from 0")
    source = open_source(path, zero_based="yes")
    list(source.blocks(max_bytes))
    assert source.info().notes == ()
    with pytest.warns(UserWarning, match="zero.svm:4: an index 0"):
        llsvm.train([path, path], memory_limit=LIMIT)


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("cut.svm", "1 1:1\n-1 1:2\n1 1:12", "line 3"),
        ("cut.csv", "x,label\n1,0\n2,1\n3,1", "the last line"),
    ],
)
@pytest.mark.parametrize("max_bytes", [1, 1 << 20])
def test_a_last_line_without_its_end_is_said(max_bytes, name, text, place, tmp_path):
    path = write(tmp_path / name, text)
    source = open_source(path)
    for _ in range(2):
        list(source.blocks(max_bytes))
        (note,) = source.info().notes
        assert note.startswith(f"{path}: {place} does not end with an end of line: if the file was cut off")
    model = tmp_path / "m"
    done = run("train", path, "--model", model, "--memory", LIMIT)
    assert "does not end with an end of line" in done.stderr
    assert "does not end with an end of line" in run("evaluate", model, path).stderr
    assert "does not end with an end of line" in run("inspect", path).stdout.replace("\n", " ")
    write(tmp_path / name, text + "\n")
    source = open_source(path)
    list(source.blocks(max_bytes))
    assert source.info().notes == ()


def test_what_is_said_of_hashed_and_of_too_many_categories(tmp_path, monkeypatch):
    path = write(tmp_path / "sales.csv", documents(30, lambda i: f"${i}"))
    with pytest.raises(DataError, match="are numbers written as text"):
        llsvm.train(path, hash_bits=8, memory_limit=LIMIT)
    monkeypatch.setattr("llsvm.features.categories.MAX_CATEGORIES", 300)
    monkeypatch.setattr("llsvm.data.table._MAX_ROWS", 250)
    path = write(tmp_path / "docs.csv", documents(1000, lambda i: f"a document of its own number {i}"))
    with pytest.raises(DataError, match="rows have a value that no other row has"):  # hashing would not help
        llsvm.train(path, memory_limit=LIMIT)
    path = write(tmp_path / "codes.csv", documents(1000, lambda i: f"code {i % 400}"))
    with pytest.raises(DataError, match="hash_bits"):
        llsvm.train(path, categorical=("body",), memory_limit=LIMIT)


def test_path_and_convert_say_notes_too(tmp_path):
    path = write(tmp_path / "cut.svm", "1 1:1\n-1 1:2\n1 1:3\n-1 2:12")
    assert "line 4 does not end" in run("path", path, "--points", 2, "--memory", LIMIT).stderr
    assert "line 4 does not end" in run("convert", path, tmp_path / "x.parquet", "--zero-based", "no").stderr
    frame = tmp_path / "frame.csv"
    write(frame, ",x,label\n0,1,0\n1,2,1\n")
    assert "is an index" in run("convert", frame, tmp_path / "frame.svm").stderr
    assert "is an index" not in run("convert", frame, tmp_path / "frame.parquet").stderr


def test_notes_are_in_the_answer(tmp_path):
    path = write(tmp_path / "cut.svm", "1 1:1\n-1 1:2\n1 1:12")
    done = run("train", path, "--model", tmp_path / "m", "--memory", LIMIT, "--json", "-q")
    (note,) = json.loads(done.stdout)["notes"]
    assert "line 3 does not end with an end of line" in note


def test_labels_by_another_name_are_asked_for(tmp_path):
    model = llsvm.train(pa.table({"x": [1.0, 2.0]}), [0, 1], memory_limit=LIMIT)
    path = write(tmp_path / "rows.csv", "x,outcome\n1,0\n2,1\n")
    with pytest.raises(DataError, match="which column has the labels"):
        open_for(model, path, True)
    assert measure(model, open_for(model, path, True, options={"label": "outcome"}))["rows"] == 2


@pytest.mark.parametrize(("labels", "other"), [(["yes", "no"], "YES"), ([3, 8], 5)])
@pytest.mark.parametrize("first", [0, 1])
def test_a_third_label_is_unknown_to_a_model_of_two_as_to_any_other(tmp_path, labels, other, first):
    x = np.linspace(-1, 1, 60)
    y = np.where(x > 0.1, *labels)
    frame, path = pd.DataFrame({"x": x, "y": y}), str(tmp_path / "rows.csv")
    more = frame.assign(y=np.where(np.arange(60) % 4, y, np.array(other)))
    more.to_csv(path, index=False)
    wanted = llsvm.evaluate(llsvm.train(frame, label="y"), path)
    assert wanted["unknown_labels"] == {str(other): 15}
    model = llsvm.train(frame, label="y", positive=str(labels[first]))
    for data in ((path,), (more,), (more[["x"]], more["y"])):
        found = llsvm.evaluate(model, *data)
        assert {name: found[name] for name in ("unknown_labels", "unknown_rows", "correct", "accuracy")} == {
            name: wanted[name] for name in ("unknown_labels", "unknown_rows", "correct", "accuracy")
        }
    rest = llsvm.train(more, label="y", positive=str(labels[first]))
    assert llsvm.evaluate(rest, more.replace({other: labels[1 - first]}))["unknown_rows"] == 0


@pytest.mark.parametrize("suffix", ["csv", "svm"])
@pytest.mark.parametrize(
    ("labels", "positive", "named"),
    [
        (["no", "yes"], "yes", ["no", "yes"]),
        (["no", "yes"], "no", ["yes", "no"]),
        ([0, 1], 0, [1, 0]),
        ([1.5, 2.5], "2.5", [1.5, 2.5]),
        (["a", "b", "c"], "b", ["not b", "b"]),
        ([1, 2, 3], 3, ["not 3", "3"]),
    ],
)
def test_one_label_against_the_others_keeps_its_name(tmp_path, suffix, labels, positive, named):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=60), np.resize(labels, 60)
    x += 6.0 * (y == type(labels[0])(positive))
    path = tmp_path / f"rows.{suffix}"
    if suffix == "csv":
        path.write_text("x,label\n" + "".join(f"{a},{b}\n" for a, b in zip(x, y, strict=True)))
    else:
        path.write_text("".join(f"{b} 1:{a}\n" for a, b in zip(x, y, strict=True)))
    llsvm.train(path, positive=positive, bias=1.0, output=tmp_path / "m")
    model = llsvm.Model.load(tmp_path / "m")
    assert model.labels == [str(name) for name in named]
    found = llsvm.predict(model, path)
    assert set(found.tolist()) == set(named)
    expected = np.where(y == type(labels[0])(positive), named[1], named[0])
    assert (found == expected).mean() > 0.9
    figures = llsvm.evaluate(model, path)
    assert figures["accuracy"] == pytest.approx((found == expected).mean())
    assert [each["label"] for each in figures["classes"]] == [str(name) for name in named]
    said = run("predict", tmp_path / "m", path)
    assert said.stdout.split("\n")[:-1] == [str(label).removesuffix(".0") for label in found.tolist()]
    # arrays, and the estimator
    model = llsvm.train(x[:, None], y, positive=positive, bias=1.0)
    np.testing.assert_array_equal(model.predict(x[:, None]), found)
    fitted = llsvm.LLSVMClassifier().fit_file(path, positive=positive)
    assert fitted.classes_.tolist() == named
