"""Vowpal Wabbit text: rows, names, weights; what predictions do with it; and every way it can be wrong."""

import gzip
import re
import subprocess
import sys

import numpy as np
import pytest
from source_suite import SourceSuite, joined
from test_formats import dense_of
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.data import open_source
from llsvm.errors import EXIT_LIMIT, DataError, ModelError, UsageError

SAMPLE = (
    "1 2.0 'tag|f:2.0 a:1.5 b |g c\n"
    "\n"
    "-1 |f a a:2 | x:1e-3\r\n"
    "1 0.5 other|g\tc:-1  d:.5\n"
    "-1 'x |\n"
    "+1 1 0 t| ü:3\n"
)
NAMES = ("f^a", "f^b", "g^c", "x", "g^d", "ü")
DENSE = [[3, 2, 1, 0, 0, 0], [3, 0, 0, 1e-3, 0, 0], [0, 0, -1, 0, 0.5, 0], [0] * 6, [0, 0, 0, 0, 0, 3]]


def write(folder, text, name="rows.vw"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def twin(text, numbers):
    """Rows as (label, weight, {column: value}), by Python's own means; numbers: of the names, added to."""
    rows = []
    for line in text.split("\n"):
        if not line.strip():
            continue
        head, *spaces = re.split(r"\|", line)
        words = head.split()
        row: dict[int, float] = {}
        for space in spaces:
            prefix, factor, features = "", 1.0, space.split()
            if space[:1].strip():
                name, _, value = features.pop(0).partition(":")
                prefix, factor = f"{name}^", float(value or 1)
            for feature in features:
                name, _, value = feature.partition(":")
                at = numbers.setdefault(prefix + name, len(numbers))
                row[at] = row.get(at, 0.0) + factor * float(value or 1)
        rows.append((float(words[0]), float(words[1]) if len(words) > 1 else 1.0, row))
    return rows


class TestVW(SourceSuite):
    def make_source(self, tmp_path):
        return open_source(write(tmp_path, SAMPLE * 30))


def test_a_sample(tmp_path):
    source = open_source(write(tmp_path, SAMPLE))
    found, y = dense_of(source)
    np.testing.assert_array_equal(found, np.array(DENSE, np.float32))
    np.testing.assert_array_equal(y, [1, -1, 1, -1, 1])
    np.testing.assert_array_equal(joined(source)[-1], [2, 1, 0.5, 1, 1])
    assert source.info().feature_names == NAMES


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("max_bytes", [100, 1 << 20])
def test_random_rows_are_those_of_the_slow_twin(tmp_path, threads, max_bytes):
    rng = np.random.default_rng(0)
    words = ["a", "b:2", "cä:-1.5", "d:1e-2", "e:.25", "1:3", "a:0.5"]
    lines = []
    for _ in range(3000):
        line = f"{rng.integers(-3, 4)} " + ("0.5 " if rng.random() < 0.3 else "")
        for _ in range(rng.integers(1, 4)):
            line += "|" + str(rng.choice(["f", "g:2", "", "h:0.1"])) + " "
            line += " ".join(f"{w}{rng.integers(9)}" for w in rng.choice(words, rng.integers(0, 6))) + " "
        lines.append(line)
    text = "\n".join(lines)
    numbers: dict[str, int] = {}
    rows = twin(text, numbers)
    source = open_source(write(tmp_path, text), threads=threads)
    found = joined(source, max_bytes)
    np.testing.assert_array_equal(found[3], [row[0] for row in rows])
    np.testing.assert_array_equal(found[5], np.array([row[1] for row in rows], np.float32))
    np.testing.assert_array_equal(found[0], [len(row[2]) for row in rows])
    np.testing.assert_array_equal(found[1], [column for row in rows for column in sorted(row[2])])
    values = [row[2][column] for row in rows for column in sorted(row[2])]
    np.testing.assert_array_max_ulp(found[2], np.array(values, np.float32), 1)
    assert source.info().feature_names == tuple(numbers)


def sample(n=400, seed=0):
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        words = rng.integers(0, 30, 6)
        y = 1 if np.sin(words).sum() > 0 else -1
        lines.append(
            f"{y} {rng.choice([1, 2])} |w " + " ".join(f"t{w}" for w in words) + f" |n age:{rng.random():.3f}"
        )
    return "\n".join(lines) + "\n"


def test_the_model_is_that_of_the_same_rows_as_svmlight(tmp_path):
    text = sample().replace(" 2 |", " 1 |")
    path = write(tmp_path, text)
    model = llsvm.train(path, output=tmp_path / "m")
    numbers: dict[str, int] = {}
    rows = twin(text, numbers)
    lines = [f"{y:.0f} " + " ".join(f"{j + 1}:{row[j]:.9g}" for j in sorted(row)) for y, _, row in rows]
    plain = llsvm.train(write(tmp_path, "\n".join(lines) + "\n", "rows.svm"))
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-9)
    assert model.feature_names == tuple(numbers)
    again = llsvm.Model.load(tmp_path / "m")
    assert again.feature_names == model.feature_names
    np.testing.assert_array_equal(llsvm.predict(again, path), llsvm.predict(plain, tmp_path / "rows.svm"))


def test_spilled_or_not_it_is_the_same_optimum(tmp_path):
    path = write(tmp_path, sample(3000))
    whole = llsvm.train(path, tol=1e-6, max_passes=1000)
    spilled = llsvm.train(path, tol=1e-6, max_passes=1000, threads=2, cache="never")
    assert abs(whole.certificate.total_primal / spilled.certificate.total_primal - 1) < 1e-5


def test_importance_is_a_sample_weight(tmp_path):
    twice = write(tmp_path, "1 2 |f a b:0.5\n-1 |f b a:.2\n1 |f c\n-1 |f a\n")
    copied = write(tmp_path, "1 |f a b:0.5\n1 |f a b:0.5\n-1 |f b a:.2\n1 |f c\n-1 |f a\n", "copied.vw")
    ours, theirs = (llsvm.train(path, tol=1e-8, max_passes=1000) for path in (twice, copied))
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


def test_predictions_find_features_by_name_and_count_what_they_do_not_know(tmp_path):
    model = llsvm.train(write(tmp_path, sample()))
    other = "\n".join(
        f"|n age:0.5 |unknown q r:2 |w {' '.join(reversed(re.findall('t[0-9]+', line)))}"
        for line in sample(50, 1).splitlines()
    )
    path = write(tmp_path, other + "\n", "other.vw")
    names = {name: j for j, name in enumerate(model.feature_names)}
    numbers = dict(names)
    rows = twin("\n".join("0 " + line for line in other.splitlines()), numbers)
    weights = dict(enumerate(model.coef_[0].tolist()))
    scores = [sum(weights.get(j, 0.0) * v for j, v in row.items()) for _, _, row in rows]
    np.testing.assert_array_equal(llsvm.predict(model, path), np.where(np.array(scores) > 0, 1, -1))
    source = open_source(path, need_label=False, told={"names": model.feature_names})
    list(source.blocks(1 << 20))
    assert source.info().notes == (
        f"{path}: 100 values in 50 of 50 rows are of features that the model does not know, such as unknown^q, "
        "unknown^r; they count nothing",
    )
    assert source.info().n_features == len(names)


def test_rows_without_labels_are_for_predictions(tmp_path):
    path = write(tmp_path, "1 |f a\n-1 |f b\n'tag |f a\n")
    with pytest.raises(DataError, match=r"rows\.vw:3: the row has no label; write one before the bar"):
        llsvm.train(path)
    model = llsvm.train(write(tmp_path, "1 |f a\n-1 |f b\n", "good.vw"))
    np.testing.assert_array_equal(llsvm.predict(model, path), [1, -1, 1])
    with pytest.raises(DataError, match=r"rows\.vw:3: the row has no label"):
        llsvm.evaluate(model, path)


def test_a_regression(tmp_path):
    path = write(tmp_path, "".join(f"{0.5 * i + 1} |f x:{i} c\n" for i in range(-20, 20)))
    model = llsvm.train(path, loss="epsilon_insensitive", epsilon=0, C=100)
    assert llsvm.evaluate(model, path)["r2"] > 0.99


@pytest.mark.parametrize("kind", ["files", "gz", "stdin"])
def test_several_compressed_and_piped(tmp_path, kind, monkeypatch):
    if kind == "files":
        data = [write(tmp_path, SAMPLE, "0.vw"), write(tmp_path, "1 |new q |g c\n", "1.vw")]
    else:
        text = (SAMPLE + "1 |new q |g c\n").encode()
        data = write(tmp_path, gzip.compress(text) if kind == "gz" else text, "rows.vw.gz")
    if kind == "stdin":
        with data.open() as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            source = open_source("-", format="vw")
            found, _ = dense_of(source)
            with pytest.raises(DataError, match="standard input can be read once only"):
                list(source.blocks(1 << 20))
    else:
        source = open_source(data)
        found, _ = dense_of(source)
    assert source.info().feature_names == (*NAMES, "new^q")
    np.testing.assert_array_equal(found[-1], [0, 0, 1, 0, 0, 0, 1])


def test_a_vocabulary_that_the_limit_cannot_hold(tmp_path):
    lines = (f"{(-1) ** i} |f " + " ".join(f"w{i}_{k}" for k in range(500)) for i in range(2000))
    path = write(tmp_path, "\n".join(lines) + "\n")
    words = ["train", path, "--model", tmp_path / "m", "--memory-limit", "400MB"]
    done = subprocess.run([sys.executable, "-m", "llsvm", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == EXIT_LIMIT
    assert re.search(
        r"the file format's library, names, categories, vocabularies [23]\d\d\.. MB; .*--memory-limit",
        done.stderr,
    )


BAD = {
    b"1 a:1": "no bar (|) before the features; write 'label |namespace feature:value ...'",
    b"1|f a": "1 touches the bar, so that VW takes it for the row's tag",
    b"x |f a": "label 'x': it is not a number; write one finite number",
    b"nan |f a": "label 'nan': it is not a number",
    b"1:2 3:1 |f a": "label '1:2': costs of classes (class:cost) are not read",
    b"1 -1 |f a": "importance weight '-1'; weights are numbers, 0 or more",
    b"1 1 0.5 |f a": "'0.5' after label and weight: initial predictions are not supported",
    b"1 |f a:b": "'a:b': the value is not a finite number",
    b"1 |f a:nan": "'a:nan': the value is not a finite number",
    b"1 |f a:": "'a:': the value is not a finite number",
    b"1 |f a:1e300": "a value is too large for a 32-bit float",
    b"1 |f a:1:2": "'a:1:2': write a feature as name or name:value, with one colon",
    b"1 |f :2": "':2': write a feature as name or name:value",
    b"1 |f:x a": "namespace 'f:x': its value is not a number",
    b"1 |f \xe4": "byte 0xe4 is not UTF-8; convert the text, perhaps with iconv",
}


@pytest.mark.parametrize("line", BAD)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_bad_line_is_named(tmp_path, line, threads):
    path = write(tmp_path, b"1 |f k\n\n" * 9000 + line + b"\n1 |f k\n")
    with pytest.raises(DataError, match=rf"rows\.vw:18001: .*{re.escape(BAD[line])}"):
        list(open_source(path, threads=threads).blocks(1 << 20))


@pytest.mark.parametrize(("text", "message"), [("", "no row in it"), ("\n\n", "no row in it")])
def test_nothing_in_it(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        list(open_source(write(tmp_path, text)).blocks(1 << 20))


def test_models_and_options_of_other_formats(tmp_path):
    path = write(tmp_path, SAMPLE)
    svm = write(tmp_path, "1 1:1\n-1 1:-1\n", "rows.svm")
    with pytest.raises(ModelError, match="the model was not trained on Vowpal Wabbit text"):
        llsvm.predict(llsvm.train(svm), path)
    table = tmp_path / "rows.csv"
    table.write_text("a,label\n1,0\n-1,1\n")
    with pytest.raises(
        ModelError, match=r"rows\.vw: vw is no table of named columns, .* trained on one, with .* a;"
    ):
        llsvm.predict(llsvm.train(table), path)
    with pytest.raises(UsageError, match="read as vw, which has no columns to choose from; leave out label"):
        open_source(path, options={"label": "y"})


def test_inspect_tells_of_columns_by_name_not_of_index_bases(tmp_path):
    shown = CliRunner().invoke(app, ["inspect", str(write(tmp_path, SAMPLE))])
    assert shown.exit_code == 0
    assert "features" in shown.stdout
    assert "index base" not in shown.stdout
