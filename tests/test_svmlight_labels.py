"""Labels of svmlight text that are words."""

import gzip
import sys

import numpy as np
import pytest
from source_suite import SourceSuite, joined

import llsvm
from llsvm.data import open_source
from llsvm.data.svmlight import SvmlightSource
from llsvm.errors import DataError, ModelError

SAMPLE = (
    "spam 1:0.5 7:2 # a: comment\n"
    "\n# nothing\n"
    "  hàm qid:3 2:1 8:-0.25\r\n"
    "eggs\n"
    "\tspam# 3:1\n"
    "12 1:1e-3\n"
    "nan 12:3.141592653589793 13:1\n"
)
LABELS = ["spam", "hàm", "eggs", "spam", "12", "nan"]


def write(folder, text, name="rows.svm"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def numbered(text, words):
    """The text with numbers for its words."""
    for i, word in enumerate(words):
        text = text.replace(word, str(i))
    return text


class TestWords(SourceSuite):
    def make_source(self, tmp_path):
        return SvmlightSource(write(tmp_path, SAMPLE * 30), threads=2)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("max_bytes", [1, 200, 1 << 20])
def test_rows_are_those_of_the_same_text_with_numbers(tmp_path, threads, max_bytes):
    text = SAMPLE * 50
    ours = joined(SvmlightSource(write(tmp_path, text), threads=threads), max_bytes)
    plain = write(tmp_path, numbered(text, ("spam", "hàm", "eggs", "nan")), "plain.svm")
    theirs = joined(SvmlightSource(plain, threads=threads), max_bytes)
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if i != 3:
            np.testing.assert_array_equal(a, b)
    assert ours[3].tolist() == LABELS * 50


def sample(n=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)).round(3)
    words = np.array(["ham", "spam", "eggs"])[np.argmax(X[:, :3], axis=1)]
    lines = [
        f"{w} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(x)) for w, x in zip(words, X, strict=True)
    ]
    return "\n".join(lines) + "\n", words


def test_predictions_give_the_words_back(tmp_path):
    text, words = sample()
    path = write(tmp_path, text)
    model = llsvm.train(path, output=tmp_path / "m")
    plain = write(tmp_path, numbered(text, ("eggs", "ham", "spam")), "plain.svm")
    np.testing.assert_array_equal(model.coef_, llsvm.train(plain).coef_)
    predicted = llsvm.predict(tmp_path / "m", path)
    assert set(predicted) == {"ham", "spam", "eggs"}
    assert np.mean(predicted == words) == llsvm.evaluate(model, path)["accuracy"] > 0.9
    dummy = write(
        tmp_path, "\n".join("0 " + line.split(" ", 1)[1] for line in text.splitlines()), "dummy.svm"
    )
    np.testing.assert_array_equal(llsvm.predict(model, dummy), predicted)
    with pytest.raises(ModelError, match=r"labels are numbers \(0\), the data's text"):
        llsvm.evaluate(llsvm.train(plain), path)


def test_a_model_of_words_is_evaluated_on_those_that_look_like_numbers(tmp_path):
    model = llsvm.train(write(tmp_path, "spam 1:1\n1 1:-1\nspam 1:2\n1 1:-2\n"))
    answer = llsvm.evaluate(model, write(tmp_path, "1 1:-1\n1 1:-3\n", "more.svm"))
    assert answer["accuracy"] == 1.0


def test_one_word_against_the_rest(tmp_path):
    text, words = sample()
    model = llsvm.train(write(tmp_path, text), positive="spam")
    assert model.classes_.tolist() == model.labels
    assert model.classes_[1] == "spam"
    assert llsvm.evaluate(model, tmp_path / "rows.svm")["rows"] == len(words)


def test_numbers_stay_numbers(tmp_path):
    y = joined(SvmlightSource(write(tmp_path, "1 1:1\n-1.0 1:2\n1e0 1:1\n")))[3]
    assert y.dtype == np.float64
    assert y.tolist() == [1, -1, 1]


def test_words_and_numbers_are_all_text_and_this_is_said(tmp_path):
    source = SvmlightSource(write(tmp_path, "1 1:1\n1.0 1:2\nspam 1:1\n"))
    assert joined(source)[3].tolist() == ["1", "1.0", "spam"]
    assert any("'spam', and others look like numbers, such as 1:" in note for note in source.info().notes)


@pytest.mark.parametrize("name", ["rows.svm", "rows.svm.gz"])
def test_a_word_after_the_first_megabyte(tmp_path, name):
    text = "1 1:1\n" * 200_000 + "spam 1:2\n"
    path = write(tmp_path, gzip.compress(text.encode()) if name.endswith("gz") else text, name)
    with pytest.raises(DataError, match=r"rows.*:200001: label 'spam' is not a number, as those before it"):
        joined(SvmlightSource(path))
    text = "spam 1:1\n" * 200_000 + "1 1:2\n"
    path = write(tmp_path, gzip.compress(text.encode()) if name.endswith("gz") else text, name)
    assert joined(SvmlightSource(path))[3].tolist() == ["spam"] * 200_000 + ["1"]


def test_the_first_file_decides(tmp_path):
    words, numbers = write(tmp_path, "spam 1:1\n2 1:1\n"), write(tmp_path, "1 1:1\n", "1.svm")
    assert joined(open_source([words, numbers]))[3].tolist() == ["spam", "2", "1"]
    with pytest.raises(DataError, match=r"rows\.svm:1: label 'spam' is not a number, as those before it"):
        joined(open_source([numbers, words]))


def test_standard_input(tmp_path, monkeypatch):
    text, words = sample()
    with write(tmp_path, text).open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert joined(open_source("-"))[3].tolist() == words.tolist()


def test_the_labels_of_a_regression_are_numbers(tmp_path):
    path = write(tmp_path, "1 1:1\nspam 1:2\n")
    with pytest.raises(
        DataError, match=r"rows\.svm:2: label 'spam' is not a number, .* those of a regression"
    ):
        llsvm.train(path, loss="huber")


BAD = {
    b"ham 1:1 1:2": "index 1 is repeated",
    b"ham 1:x": "'1:x': the value is not a number",
    b"3:1": "the label is missing: the line starts with '3:1'; put one number or word",
    b"ham,spam 1:1": "several labels on one row",
    b"h\xe4m 1:1": r"label .* is not UTF-8; convert the text.* iconv",
    b"h\xe2\x80\x8bm 1:1": "has characters that cannot be shown",
    b"x" * 1200 + b" 1:1": "or too many; name the class by a short word",
    b"h\x01m 1:1": "control bytes: this looks like a binary file",
    b"ham spam 1:1": "'spam' has no colon",
}


@pytest.mark.parametrize("line", BAD)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_bad_line_is_named(tmp_path, line, threads):
    path = write(tmp_path, b"spam 1:1\n\n" * 3 + line + b"\nspam 1:1\n")
    with pytest.raises(DataError, match=rf"rows\.svm:7: {BAD[line]}|rows\.svm:7: .*{BAD[line]}"):
        joined(SvmlightSource(path, threads=threads))
