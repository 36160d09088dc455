"""The page of ``llsvm report``: its figures are those of evaluate, and it is looked at in a browser."""

import json
import re

import numpy as np
import pytest
from browser import CHROMIUM, Browser
from sklearn.metrics import auc
from test_labels_memory import cli
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.models.model import Model
from llsvm.scoring.metrics import Histogram

HARMFUL = '<script>document.title="run"</script>'
DRAWN = {"roc_auc", "average_precision", "log_loss", "brier_score"}


def rows(n_classes, n=300, d=4):
    rng = np.random.default_rng(n_classes)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n, d)) + 2 * rng.normal(size=(n_classes, d))[y]
    return X.astype(np.float32), np.array([f"class {k}" for k in y])


def table(path, n=200):
    """With a column, a value and a class whose names are HTML."""
    rng = np.random.default_rng(5)
    lines = [f'"{HARMFUL.replace(chr(34), chr(34) * 2)}",town,word,price,y']
    for x in rng.normal(size=n).round(3):
        label = "<b>yes" if x + 0.3 * rng.normal() > 0 else "no"
        word = "dull plot" if x < 0 else "lovely <img src=x onerror=alert(1)>"
        lines.append(f"{x},<i>Oslo,{word},{3 * x + rng.normal():.4f},{label}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Name -> (path of a page, what evaluate says of the same data)."""
    folder = tmp_path_factory.mktemp("pages")
    file = table(folder / "rows.csv")
    told = {
        "binary": llsvm.train(file, label="y", exclude=["word", "price"], loss="logistic"),
        "text": llsvm.train(file, label="y", text=["word"], features=["word"], C=0.1),
        "regression": llsvm.train(
            file, label="price", exclude=["y", "word"], loss="squared_epsilon_insensitive"
        ),
    }
    data = dict.fromkeys(told, (file, None))
    data["105 classes"] = rows(105, 630, 20)
    told["105 classes"] = llsvm.train(*data["105 classes"], max_passes=2, tol=0.9)
    found = {}
    for name, model in told.items():
        path = folder / f"{name}.html"
        llsvm.report(model, *data[name], output=path)
        found[name] = path, llsvm.evaluate(model, *data[name])
    return found


def figures_in(text):
    return {
        name: float(value)
        for value, name in re.findall(r'<data value="([^"]*)"[^>]*data-figure="([^"]*)"', text)
    }


@pytest.mark.parametrize("name", ["binary", "text", "regression", "105 classes"])
def test_the_figures_are_those_of_evaluate(pages, name):
    path, answer = pages[name]
    numbers = {key: value for key, value in answer.items() if isinstance(value, int | float)}
    assert figures_in(path.read_text()) == numbers
    assert len(numbers) >= 5
    if name == "binary":
        assert numbers.keys() >= DRAWN


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium of the distribution here: apt-get install chromium")
def test_in_a_browser(pages):
    """No complaints, nothing fetched, nothing wider than the window, figures as evaluate says, names harmless."""
    with Browser() as browser:
        for name, (path, answer) in pages.items():
            for width in (360, 800, 1600):
                browser.look(path, width, dark=width == 800)
                assert browser.value("document.documentElement.scrollWidth") == width, name
            shown = browser.value(
                "Object.fromEntries([...document.querySelectorAll('[data-figure]')].map("
                "each => [each.dataset.figure, [each.value, each.textContent]]))"
            )
            numbers = {key: value for key, value in answer.items() if isinstance(value, int | float)}
            assert shown.keys() == numbers.keys()
            for key, (value, text) in shown.items():
                assert float(value) == numbers[key]
                assert float(text.replace(",", "")) == pytest.approx(numbers[key], rel=1e-5)
            assert browser.value("document.querySelectorAll('script, i, img, b').length") == 0
            assert browser.value("document.title") == "the model: report"
            drawings = browser.value(
                "[...document.querySelectorAll('svg[role=img]')].map(e => e.ariaLabel || '')"
            )
            assert len(drawings) >= 5
            assert all(drawings)
            levels = browser.value("[...document.querySelectorAll('h1, h2, h3')].map(e => e.tagName)")
            assert levels[0] == "H1"
            assert levels.count("H1") == 1
        assert browser.complaints == []


def test_the_table_of_thresholds():
    X, y = rows(2, 1000, 2)
    X += np.random.default_rng(2).normal(size=X.shape).astype(np.float32) * 4
    model = llsvm.train(X, y)
    text = llsvm.report(model, X, y).split("<h3>Thresholds</h3>")[1].split("</table>")[0]
    found = re.findall(
        r'<th scope="row" class="text">(\S+)[^<]*</th>' + '<td class="number">([^<]+)</td>' * 5, text
    )
    assert len(found) >= 10
    assert text.count("(largest f1)") == 1
    scores, true = model.decision_function(X), y == "class 1"
    for score, *shown in found:
        above = scores >= float(score) - 1e-5
        assert float(shown[0]) == pytest.approx(above.mean(), abs=2e-3)  # the score has six digits
        assert float(shown[1]) == pytest.approx(true[above].mean(), abs=5e-3)
        assert float(shown[2]) == pytest.approx(above[true].mean(), abs=5e-3)
        assert float(shown[4]) == pytest.approx(above[~true].mean(), abs=5e-3)
    assert float(found[-1][3]) == 1.0


def test_names_are_escaped(pages):
    text = pages["binary"][0].read_text()
    assert HARMFUL not in text
    assert "&lt;script&gt;" in text
    assert "&lt;b&gt;yes" in text
    assert not re.search(r"<(script|img|b|i|link|iframe)\b", text)
    assert "http" not in text.replace("http-equiv", "")


def test_two_models_side_by_side(tmp_path):
    X, y = rows(2)
    ours, theirs = llsvm.train(X, y, C=1), llsvm.train(X, y, C=0.001)
    text = llsvm.report(ours, X, y, compare=theirs)
    shown, other = figures_in(text), llsvm.evaluate(theirs, X, y)
    assert shown["other.accuracy"] == other["accuracy"]
    assert shown["other.roc_auc"] == other["roc_auc"]
    assert '<td class="number">0.001</td>' in text.split("Settings that differ")[1]


def test_a_page_without_data_and_without_the_log(tmp_path):
    X, y = rows(3)
    model = llsvm.train(X, y, output=tmp_path / "m")
    assert "Memory against the limit" in llsvm.report(tmp_path / "m")
    (tmp_path / "m.log.json").unlink()
    text = llsvm.report(tmp_path / "m")
    assert "Memory against the limit" not in text
    assert f"within {model.certificate.relative_gap:.3%}" in text


def test_the_command(tmp_path):
    file = table(tmp_path / "rows.csv")
    llsvm.train(file, label="y", features=["town"], output=tmp_path / "m")
    run = CliRunner().invoke
    page = tmp_path / "page.html"
    done = run(app, ["report", str(tmp_path / "m"), "--data", file, "-o", str(page)])
    assert done.exit_code == 0, done.output
    answer = json.loads(run(app, ["evaluate", str(tmp_path / "m"), file, "--json"]).stdout)
    assert figures_in(page.read_text())["accuracy"] == answer["accuracy"]
    piped = run(app, ["report", str(tmp_path / "m"), "--data", file, "-o", "-"])
    assert piped.stdout == page.read_text()
    for words, said in (
        (["--label", "y"], "pass --data too"),
        (["--data", file, "-o", file], "would overwrite the input"),
        (["-o", str(tmp_path / "none" / "p.html")], "none"),
        (["-o", str(tmp_path / "p.pdf")], "the page is HTML"),
        (["-o", str(tmp_path / "p.html.gz")], "the page is HTML"),
        (["--compare", file], "not an llsvm model"),
    ):
        refused = run(app, ["report", str(tmp_path / "m"), *words])
        assert refused.exit_code in (2, 3), (words, refused.output)
        assert said in refused.output


@pytest.mark.parametrize("step", [7, 1000])
def test_histograms_do_not_depend_on_blocks(step):
    rng = np.random.default_rng(0)
    x, y = np.exp(3 * rng.normal(size=1000)), rng.normal(size=1000) * 1e-3
    whole, blocks = Histogram(2, bins=64), Histogram(2, bins=64)
    whole.add(x, y)
    order = rng.permutation(1000)
    for start in range(0, 1000, step):
        part = order[start : start + step]
        blocks.add(x[part], y[part])
    assert blocks.answer(16) == whole.answer(16)
    answer = whole.answer(64)
    edges, counts = answer["edges"], np.array(answer["counts"][0])
    expected = np.histogram2d(x, y, bins=[np.array(each) for each in edges])[0]
    assert counts.sum() == 1000
    assert np.array_equal(counts, expected)


def test_the_curve_has_the_area():
    """Of 5,000 rows, thinned to some hundred points."""
    X, y = rows(2, 5000, 2)
    model = llsvm.train(X + np.random.default_rng(1).normal(size=X.shape) * 3, y)
    from llsvm.predict import evaluate_with
    from llsvm.settings.settings import Settings

    answer = evaluate_with(model, X, y, Settings(), shapes=True)
    curve = answer["shapes"]["curve"]
    false = np.array([0, *curve["false_positives"]]) / curve["others"]
    true = np.array([0, *curve["true_positives"]]) / curve["positives"]
    assert (false[-1], true[-1]) == (1, 1)
    assert len(true) < 1500
    assert auc(false, true) == pytest.approx(answer["roc_auc"], abs=1e-4)
    spread = np.array(answer["shapes"]["scores"]["counts"])
    assert spread.sum(axis=1).tolist() == [2500, 2500]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["two classes", "numbers"])
def test_a_page_is_made_under_the_limit(kind, tmp_path):
    """Of a million rows and 400,000 weights; the rows' scores are ranked from a file."""
    n, d = 1_000_000, 400_000
    rng = np.random.default_rng(0)
    with open(tmp_path / "t.svm", "w") as file:
        for _ in range(10):
            columns, y = rng.integers(1, d + 1, n // 10), rng.normal(size=n // 10)
            labels = (y > 0).astype(int) if kind == "two classes" else y.round(3)
            file.writelines(f"{label} {j}:1\n" for label, j in zip(labels, columns, strict=True))
    extra = {} if kind == "two classes" else {"label_kind": "regression"}
    classes = np.array([0.0, 1.0]) if kind == "two classes" else np.zeros(0)
    extra["spread"] = rng.random(d).astype(np.float32)
    Model(rng.normal(size=(1, d)), np.zeros(1), classes, extra=extra).save(tmp_path / "m")
    words = ["report", tmp_path / "m", "--data", tmp_path / "t.svm", "-o", tmp_path / "r.html"]
    status, errors, peak = cli(*words, "--memory-limit", "290MB")
    assert status == 0, errors
    assert peak < 290_000_000
    assert figures_in((tmp_path / "r.html").read_text())["rows"] == n
