"""One table by every kind of file, from the shell and from Python: the same model, evaluation and predictions."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pytest
from cells import in_turn
from test_doors import FILES, LABELS, N, options, table
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app


def run(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


def as_typed(given):
    """Options of Python as the command line has them."""
    words = []
    for name, value in given.items():
        words += [f"--{name.replace('_', '-')}", ",".join(value) if isinstance(value, list) else value]
    return words


@pytest.mark.parametrize(("label", "door"), in_turn(LABELS, FILES, 1))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_shell_answers_as_python_does(tmp_path, door, label):
    data, rows = tmp_path / f"rows.{door}", table(label)
    FILES[door](rows, data)
    run("train", data, *as_typed(options(label)), "--model", tmp_path / "m", "--quiet")
    model, own = llsvm.train(str(data), **options(label)), llsvm.load(tmp_path / "m")
    assert own.feature_names == model.feature_names
    assert own.classes_.tolist() == model.classes_.tolist()
    np.testing.assert_array_equal(own.coef_, model.coef_)
    np.testing.assert_array_equal(own.intercept_, model.intercept_)

    figures = json.loads(run("evaluate", tmp_path / "m", data, "--weight", "weight", "--json"))
    expected = llsvm.evaluate(model, str(data), weight="weight")
    assert figures == json.loads(json.dumps(expected))

    found = llsvm.predict(model, str(data))
    lines = run("predict", tmp_path / "m", data).splitlines()
    assert len(lines) == len(found) == N
    if label == "number":
        np.testing.assert_array_equal(np.array(lines, float), found)
    else:
        names = dict(zip(model.classes_.tolist(), model.labels, strict=True))
        assert lines == [str(names[value]) for value in np.asarray(found).tolist()]
        assert set(lines) == set(map(str, model.labels))

    scores = label != "number"
    more = ("--keep", "age,color", *(["--scores"] if scores else []))
    run("predict", tmp_path / "m", data, *more, "--output", tmp_path / "shell.csv")
    llsvm.write_predictions(model, str(data), tmp_path / "python.csv", keep=["age", "color"], scores=scores)
    assert (tmp_path / "shell.csv").read_text() == (tmp_path / "python.csv").read_text()


@pytest.mark.parametrize(("door", "packed"), [("csv", gzip.compress), ("jsonl", bytes)])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_pipe_gives_what_the_file_gives(tmp_path, door, packed):
    data = tmp_path / f"rows.{door}"
    FILES[door](table("text"), data)
    train = ("train", *as_typed(options("text")), "--quiet", "--model")
    run(*train, tmp_path / "m", data)

    def piped(*words):
        command, text = [sys.executable, "-m", "llsvm", *map(str, words)], packed(data.read_bytes())
        return subprocess.run(command, input=text, capture_output=True, check=True).stdout.decode()

    for words in (("predict", tmp_path / "m"), ("evaluate", tmp_path / "m", "--json")):
        assert piped(*words, "-") == run(*words, data)
    columns, own = (
        json.loads(found)["columns"]
        for found in (piped("inspect", "-", "--json"), run("inspect", data, "--json"))
    )
    assert [column["type"] for column in columns] == [column["type"] for column in own]
    piped(*train, tmp_path / "other", "-")
    np.testing.assert_array_equal(llsvm.load(tmp_path / "other").coef_, llsvm.load(tmp_path / "m").coef_)
