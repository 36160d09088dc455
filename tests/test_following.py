"""What people see of a run: its test data, the logger ``llsvm``, a callback, Ctrl-C, the model in a notebook."""

import importlib
import json
import logging
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.datasets import dump_svmlight_file
from sklearn.metrics import accuracy_score
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app


def rows(n=400, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0, 1, -1)


@pytest.fixture
def files(tmp_path):
    for name, seed in (("train", 0), ("test", 1)):
        dump_svmlight_file(*rows(seed=seed), str(tmp_path / f"{name}.svm"), zero_based=False)
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_model_is_evaluated_on_test_data(files):
    model, test = files / "m", files / "test.svm"
    done = run("train", files / "train.svm", "--model", model, "--test", test, "--json")
    assert done.exit_code == 0, done.output
    evaluated = json.loads(run("evaluate", model, test, "--json").stdout)
    assert json.loads(done.stdout)["test"] == evaluated
    words = run("train", files / "train.svm", "--model", model, "--test", test, "-q").stdout
    assert f"accuracy {evaluated['accuracy']:.4%}" in words
    for given in (test, rows(seed=1)):
        assert llsvm.train(files / "train.svm", test=given).log["test"]["accuracy"] == evaluated["accuracy"]


def test_rows_of_test_data_count_by_the_column_of_weights_where_they_have_one(tmp_path):
    tables = {}
    for name, seed in (("train", 0), ("test", 1)):
        X, y = rows(seed=seed)
        table = pd.DataFrame(X, columns=list("abcde")).assign(
            label=y, kilos=1 + np.arange(len(X)) % 3, key="k"
        )
        tables[name] = table
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    tables["test"].drop(columns=["kilos", "key"]).to_csv(tmp_path / "bare.csv", index=False)
    train, test, model = tmp_path / "train.csv", tmp_path / "test.csv", tmp_path / "m"
    words = ("train", train, "--model", model, "--weight", "kilos", "--exclude", "key", "--json")
    weighted = json.loads(run(*words, "--test", test).stdout)["test"]
    predicted = llsvm.predict(model, tables["test"])
    truth, kilos = tables["test"]["label"], tables["test"]["kilos"]
    assert weighted["weight"] == kilos.sum()
    assert weighted["accuracy"] == pytest.approx(
        accuracy_score(truth, predicted, sample_weight=kilos), rel=1e-12
    )
    plain = json.loads(run(*words, "--test", tmp_path / "bare.csv").stdout)["test"]
    assert plain["accuracy"] == pytest.approx(accuracy_score(truth, predicted), rel=1e-12)
    assert "weight" not in plain
    options = {"label": "label", "weight": "kilos", "exclude": ["key"]}
    for given in (test, tables["test"], (tables["test"].drop(columns="label"), truth, kilos)):
        assert llsvm.train(train, test=given, **options).log["test"] == weighted
    with pytest.raises(llsvm.UsageError, match="not 4 of them"):
        llsvm.train(train, test=(1, 2, 3, 4), **options)


def test_test_data_that_are_not_there_are_refused_before_training(files):
    done = run("train", files / "train.svm", "--model", files / "m", "--test", files / "none.svm")
    assert done.exit_code == 3
    assert "none.svm" in done.output
    (files / "table.csv").write_text("a,b\n1,2\n")
    unlabelled = run("train", files / "train.svm", "--model", files / "m", "--test", files / "table.csv")
    assert unlabelled.exit_code == 3
    assert "which column is the label?" in unlabelled.output
    assert not (files / "m").exists()
    over = run("train", files / "train.svm", "--model", files / "test.svm", "--test", files / "test.svm")
    assert over.exit_code == 2
    assert "would overwrite the input" in over.output


def test_test_data_that_need_more_memory_are_refused_before_training(files):
    names = [f"c{j}" for j in range(2500)]
    lines = [",".join(["label", *names]), *(",".join([str(i), *["0.5"] * 2500]) for i in range(2))]
    (files / "wide.csv").write_text("\n".join(lines) + "\n")
    words = ["--test", files / "wide.csv", "--memory-limit", "300MB", "--model", files / "m", "-q"]
    command = [sys.executable, "-m", "llsvm", "train", files / "train.svm", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    assert "the file format's library" in done.stderr
    assert not (files / "m").exists()


def test_validation_data_of_a_path_are_looked_at_before_training(files, monkeypatch):
    monkeypatch.setattr(
        importlib.import_module("llsvm.path"), "path", lambda *given: pytest.fail("it is trained")
    )
    done = run("path", files / "train.svm", "--points", 2, "--validation", files / "none.svm")
    assert done.exit_code == 3
    assert "none.svm" in done.output


def test_test_data_in_a_run_file(files):
    text = (
        '[data]\nfiles = "train.svm"\n[model]\npath = "m"\n[[step]]\ncommand = "train"\ntest = "test.svm"\n'
    )
    (files / "run.toml").write_text(text)
    done = run("run", files / "run.toml", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "--test=test.svm" in json.loads(done.stdout)["line"]
    saved = run("train", files / "train.svm", "--model", files / "m", "--test", files / "test.svm", "--save-run",
                files / "saved.toml", "-q")  # fmt: skip
    assert saved.exit_code == 0, saved.output
    assert f'test = "{files}/test.svm"' in (files / "saved.toml").read_text()


def test_the_logger_has_a_line_for_each_report(caplog):
    heard = []
    with caplog.at_level(logging.INFO, logger="llsvm"):
        model = llsvm.train(*rows(), callback=heard.append)
    lines = [record.getMessage() for record in caplog.records if record.name == "llsvm"]
    passes = [report for report in heard if report.kind == "pass"]
    assert len(passes) == len(model.history) == sum(line.startswith("pass ") for line in lines)
    assert f"within {model.certificate.relative_gap:.3%} of the optimum" in lines[-1]
    assert heard[0].kind == "read"


def interrupted_after(passes):
    def callback(report):
        if report.kind == "pass" and report.passes >= passes:
            raise KeyboardInterrupt

    return callback


def test_who_interrupts_gets_the_best_certified_model(tmp_path):
    X, y = rows(3400)  # too many values to be solved in two passes
    with pytest.warns(
        llsvm.LLSVMWarning, match="stopped: this is the best certified model so far, after 2 full"
    ) as told:
        model = llsvm.train(X, y, tol=1e-9, output=tmp_path / "m", callback=interrupted_after(2))
    assert told[0].filename == __file__
    assert model.certificate.passes == 2
    assert not model.converged
    assert np.array_equal(llsvm.load(tmp_path / "m").coef_, model.coef_)


def test_who_interrupts_before_anything_is_certified_interrupts(tmp_path):
    with pytest.raises(KeyboardInterrupt) as stopped:
        llsvm.train(
            *rows(), output=tmp_path / "m", callback=lambda report: interrupted_after(0)(report_of_a_pass())
        )
    assert "no model is written" in stopped.value.__notes__[0]
    assert not (tmp_path / "m").exists()


def report_of_a_pass():
    from llsvm.solvers.base import Report

    return Report("pass", 1)


def test_what_a_callback_raises_ends_the_run():
    def callback(report):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        llsvm.train(*rows(), callback=callback)


def test_a_model_in_a_notebook():
    X, y = rows()
    table = pa.table({"<script>alert(1)</script>": X[:, 0], "b": X[:, 1], "y": y})
    model = llsvm.train(table, label="y", C=0.25)
    shown = model._repr_html_()
    assert f"within {model.certificate.relative_gap:.3%} of the optimum" in shown
    changed = dict(re.findall(r'<th scope="row" class="text">(\w+)</th><td class="text">([^<]+)</td>', shown))
    assert changed == {"C": "0.25", "label": "y"}
    assert "&lt;script&gt;" in shown
    assert "<script" not in shown
    classifier = llsvm.LLSVMClassifier(C=0.25)
    assert "Strongest weights" not in classifier._repr_mimebundle_()["text/html"]
    own = classifier.fit(X, y).model_._repr_html_()
    assert "Strongest weights, + for 1" in own
    assert own in classifier._repr_mimebundle_()["text/html"]
    assert own in classifier._repr_html_()
