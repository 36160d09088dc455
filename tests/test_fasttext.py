"""fastText's lines: labels and text, as a table of the same; and every way they can be wrong."""

import gzip
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import llsvm
from llsvm.data import format_of, open_source
from llsvm.errors import DataError, UsageError

RNG = np.random.default_rng(1)
LABELS = RNG.choice(["sports", "art", "1"], 80).tolist()
TEXTS = [
    " ".join([*RNG.choice(["naïve", "a café", "of it"], 4), f"about {label}{label}"]) for label in LABELS
]
LINES = [f"__label__{label} {text}\n" for label, text in zip(LABELS, TEXTS, strict=True)]


def written(path, lines=LINES):
    text = "".join(lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def same(a, b):
    np.testing.assert_array_equal(a.coef_, b.coef_)
    np.testing.assert_array_equal(a.classes_, b.classes_)
    np.testing.assert_array_equal(a.extra["text_0_names"], b.extra["text_0_names"])


@pytest.mark.parametrize("threads", [1, 2])
def test_the_model_is_that_of_a_table(tmp_path, threads):
    pq.write_table(pa.table({"label": LABELS, "text": TEXTS}), tmp_path / "rows.parquet")
    expected = llsvm.train(tmp_path / "rows.parquet", text=["text"], ngrams="1-2", threads=threads)
    moved = [
        f"{t} __label__{y}\r\n\n" if i % 3 else f"__label__{y}\t{t}\n"
        for i, (y, t) in enumerate(zip(LABELS, TEXTS, strict=True))
    ]
    for name, lines in (
        ("rows.ft", LINES),
        ("rows.ft.gz", LINES),
        ("cooking.txt", LINES),
        ("moved.fasttext", moved),
    ):
        path = written(tmp_path / name, lines)
        assert format_of(path) == "fasttext"
        same(llsvm.train(path, format="fasttext", ngrams="1-2", threads=threads), expected)
    model = llsvm.train(tmp_path / "rows.ft")  # text unasked
    same(model, llsvm.train(tmp_path / "rows.parquet", text=["text"]))
    assert sorted(model.classes_) == ["1", "art", "sports"]


def test_predictions_take_lines_without_labels(tmp_path):
    model = llsvm.train(written(tmp_path / "rows.ft"))
    expected = model.predict(pa.table({"text": TEXTS}))
    assert np.mean(expected == np.array(LABELS)) > 0.95
    for lines in (
        LINES,
        [f"{text}\n" for text in TEXTS],
        [f"__label__a __label__b {text}\n" for text in TEXTS],
    ):
        path = written(tmp_path / "new.ft", lines)
        np.testing.assert_array_equal(llsvm.predict(model, path), expected)
    assert llsvm.evaluate(model, tmp_path / "rows.ft")["accuracy"] == np.mean(expected == np.array(LABELS))


def test_blank_lines_that_have_no_prediction_are_counted(tmp_path):
    model = llsvm.train(written(tmp_path / "rows.ft"))
    path = written(tmp_path / "new.ft", [f"{text}\n" for text in [*TEXTS[:3], "", "  ", *TEXTS[3:6]]])
    with pytest.warns(
        llsvm.LLSVMWarning, match=r"new.ft: blank lines \(2\) are left out, and have no prediction"
    ):
        assert len(llsvm.predict(model, path)) == 6
    path = written(tmp_path / "named.ft", ["__label__a\n" for _ in range(3)])
    assert len(llsvm.predict(model, path)) == 3


def test_standard_input(tmp_path, monkeypatch):
    path = written(tmp_path / "rows.ft")
    with open(path, "rb") as file:
        monkeypatch.setattr(sys, "stdin", file)
        model = llsvm.train("-", format="fasttext", hash_bits=10)
    np.testing.assert_array_equal(model.coef_, llsvm.train(path, format="fasttext", hash_bits=10).coef_)
    with open(path, "rb") as file:
        monkeypatch.setattr(sys, "stdin", file)
        model = llsvm.train([path, "-"], format="fasttext", hash_bits=10)
    with pytest.warns(UserWarning, match="named more than once"):
        twice = llsvm.train([path, path], format="fasttext", hash_bits=10)
    np.testing.assert_array_equal(model.coef_, twice.coef_)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["__label__a __label__b words\n"], r":81: 2 labels \(a, b\).*keep one"),
        (["words __label__a and __label__b\n"], r":81: 2 labels \(a, b\)"),
        (["\n", "words alone\n"], ":82: the line has no label; write __label__NAME"),
        (["__label__ words\n"], ":81: a label without a name"),
    ],
)
def test_lines_that_are_wrong_are_refused_by_their_number(tmp_path, lines, said):
    path = written(tmp_path / "rows.ft", [*LINES, *lines])
    with pytest.raises(DataError, match=said):
        llsvm.train(path)


def test_encodings_and_empty_files(tmp_path):
    path = tmp_path / "latin.ft"
    path.write_bytes("".join(LINES).encode("latin-1"))
    with pytest.raises(DataError, match=r"latin.ft:\d+: the text is not UTF-8.*encoding latin-1"):
        llsvm.train(path)
    same(llsvm.train(path, encoding="latin-1"), llsvm.train(written(tmp_path / "utf8.ft")))
    (tmp_path / "marked.txt").write_bytes("".join(LINES).encode("utf-8-sig"))  # as Windows writes it
    assert format_of(tmp_path / "marked.txt") == "fasttext"
    same(llsvm.train(tmp_path / "marked.txt"), llsvm.train(tmp_path / "utf8.ft"))
    with pytest.raises(DataError, match=r"no row|empty"):
        list(open_source(written(tmp_path / "none.ft", [])).blocks(1 << 20))


def test_a_feature_map_takes_no_text(tmp_path):
    with pytest.raises(UsageError, match="feature_map is for columns of numbers and categories"):
        llsvm.train(written(tmp_path / "rows.ft"), feature_map="rff")
