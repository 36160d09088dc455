"""Hashed n-grams: the names of their columns, and document frequencies, as scikit-learn's TfidfTransformer counts
them of hashed rows."""

import json
import sys
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from typer.testing import CliRunner

import llsvm
from llsvm.cli import app
from llsvm.errors import ModelError, UsageError
from llsvm.features.text import counting, vectorizer
from llsvm.features.text.analysis import Documents
from llsvm.features.text.counting import NameSampler
from llsvm.features.text.options import TextOptions
from llsvm.models.model import Model
from llsvm.models.tables import names_of
from llsvm.models.words import of_all
from llsvm.training import texts

RNG = np.random.default_rng(11)
WORDS = [f"wörd{i}" for i in range(300)]
N = 240
REVIEWS = [" ".join([*RNG.choice(WORDS, 30), ["dreadful", "lovely"][i % 2]]) for i in range(N)]
COLUMNS = {"stars": [i % 2 for i in range(N)], "n": RNG.standard_normal(N), "review": REVIEWS}


def written(path, columns=COLUMNS):
    rows = pa.table(columns)
    if path.suffix == ".csv":
        pa.csv.write_csv(rows, path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    else:
        pq.write_table(rows, path, row_group_size=50)
    return path


def trained(path, **options):
    return llsvm.train(path, label="stars", text=["review"], **{"hash_bits": 7, "seed": 1} | options)


def hashed_counts(path, bits):
    """Rows of the hashed columns alone, as counts, converted to svmlight."""
    rows = path.with_suffix(".counts.svm")
    said = f"convert {path} {rows} --label stars --text review --term-weight count --exclude n --hash-bits {bits}"
    done = CliRunner().invoke(app, said.split())
    assert done.exit_code == 0, done.output
    return load_svmlight_file(str(rows), n_features=1 << bits, zero_based=False)[0]


@pytest.mark.parametrize("weight", ["tfidf", "sublinear"])
def test_frequencies_are_those_of_the_tfidf_transformer_over_hashed_rows(tmp_path, weight):
    path = written(tmp_path / "reviews.parquet")
    model = trained(path, exclude=["n"], term_weight=weight, scale="none", output=tmp_path / "m", tol=1e-5)
    counts = hashed_counts(path, 7)
    transformer = TfidfTransformer(sublinear_tf=weight == "sublinear")
    X = transformer.fit_transform(counts)
    np.testing.assert_array_equal(model.extra["text_0_documents"], np.diff(counts.tocsc().indptr))
    assert model.extra["text"]["documents"] == [N]
    expected = X @ model.coef_[0] + model.intercept_[0]
    found = Model.load(tmp_path / "m").decision_function(pa.table(COLUMNS))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    other = {name: values[:9] for name, values in COLUMNS.items()}  # frequencies are those of the training
    np.testing.assert_allclose(model.decision_function(pa.table(other)), expected[:9], atol=1e-5)


def test_hashed_rows_are_read_once_unless_they_are_weighted_by_frequencies(tmp_path):
    path = written(tmp_path / "reviews.csv")
    once, twice = (trained(path, term_weight=weight) for weight in ("auto", "tfidf"))
    assert once.extra["text"]["documents"] == []
    read = [model.history[0]["bytes_read"] for model in (once, twice)]
    assert read[1] >= 1.9 * read[0]
    np.testing.assert_array_equal(trained(path, term_weight="tf").coef_, once.coef_)


def test_standard_input_has_no_frequencies(tmp_path, monkeypatch):
    with open(written(tmp_path / "reviews.csv"), "rb") as file:
        monkeypatch.setattr(sys, "stdin", file)
        with pytest.raises(UsageError, match=r"read only once .* term_weight tf"):
            trained("-", format="csv", term_weight="tfidf")


@pytest.mark.parametrize("threads", [1, 2])
def test_every_format_has_the_same_names(tmp_path, threads, monkeypatch):
    monkeypatch.setattr(counting, "SAMPLE_BYTES", 4000)
    models = [
        trained(written(tmp_path / f"reviews.{end}"), threads=threads, output=tmp_path / end)
        for end in ("parquet", "csv", "jsonl")
    ]
    for model in models[1:]:
        for part in ("columns", "others", "names", "lengths"):
            np.testing.assert_array_equal(model.extra[f"text_0_{part}"], models[0].extra[f"text_0_{part}"])


@pytest.mark.parametrize("weight", ["tf", "tfidf"])
def test_names_and_frequencies_are_those_of_one_thread_with_two(tmp_path, monkeypatch, weight):
    monkeypatch.setattr(vectorizer, "PIECE_BYTES", 1000)  # so that threads share each batch
    monkeypatch.setattr(counting, "SAMPLE_BYTES", 4000)
    path = written(tmp_path / "reviews.parquet")
    one, two = (trained(path, threads=threads, term_weight=weight).extra for threads in (1, 2))
    parts = [name for name in one if name.startswith("text_0_")]
    assert len(parts) == 4 + (weight == "tfidf")
    for part in parts:
        np.testing.assert_array_equal(one[part], two[part])


def test_names_say_which_n_grams_were_met_and_how_many_share_the_column(tmp_path):
    model = trained(written(tmp_path / "reviews.parquet"), output=tmp_path / "m")
    names = names_of(Model.load(tmp_path / "m"), range(model.coef_.shape[1]))
    assert names[0] == "n"
    vectorizer = CountVectorizer()
    rows = vectorizer.fit_transform(REVIEWS)
    documents = Counter(
        dict(zip(vectorizer.get_feature_names_out(), np.diff(rows.tocsc().indptr), strict=True))
    )
    told = [name.removeprefix("review:").removesuffix(" more)").split(" (and ") for name in names[1:]]
    there = [part for part, weight in zip(told, model.coef_[0, 1:], strict=True) if weight != 0]
    met = sum(1 + int(part[1]) if len(part) > 1 else 1 for part in there)
    assert met == len(documents)  # each of them is in one column
    assert all(part[0] in documents for part in there)
    strongest = of_all(model, 2)
    assert any("lovely" in each["feature"] or "dreadful" in each["feature"] for each in strongest)
    done = CliRunner().invoke(app, ["inspect", str(tmp_path / "m")])
    assert strongest[0]["feature"].split(" ")[0] in done.output


def test_columns_without_weights_have_no_names(tmp_path):
    path = written(tmp_path / "reviews.parquet")
    model = trained(path, hash_bits=10, penalty="l1", C=0.05, loss="squared_hinge")
    used = np.flatnonzero(np.any(model.coef_[:, 1:], axis=0))
    assert 0 < len(used) < 100
    np.testing.assert_array_equal(model.extra["text_0_columns"], used)
    zero = next(j for j in range(1, 1025) if model.coef_[0, j] == 0)
    assert names_of(model, [zero]) == [f"review#{zero - 1}"]


def sampled(texts, batch, options):
    sampler = NameSampler(options)
    for start in range(0, len(texts), batch):
        sampler.add(Documents.of(pa.array(texts[start : start + batch])))
    return sampler.finish()


def test_samples_in_little_room_do_not_depend_on_batches(monkeypatch):
    monkeypatch.setattr(counting, "SAMPLE_BYTES", 20_000)
    monkeypatch.setattr(counting, "TABLE_BYTES", 1 << 16)
    words = [f"w{i}" for i in range(40_000)]
    texts = [" ".join([*RNG.choice(words, 50), "often"]) for _ in range(1500)]
    options = TextOptions(ngrams=(1, 2), hash_bits=20)
    some = [sampled(texts, batch, options) for batch in (1, 77, 1500)]
    for other in some[1:]:
        for name, array in some[0].arrays().items():
            np.testing.assert_array_equal(other.arrays()[name], array)
    assert (
        100 < len(some[0].columns) < 4096 * 3 / 4 + 1
    )  # places of a table, of which rare n-grams were dropped
    assert "often" in some[0].of(some[0].columns.tolist()).values()
    assert np.all(np.diff(some[0].columns) > 0)


def test_later_documents_are_met_too(monkeypatch):
    monkeypatch.setattr(counting, "SAMPLE_BYTES", 5_000)
    texts = ["early bird " * 5] * 1000 + ["late bird " * 5] * 1000
    names = sampled(texts, 100, TextOptions(hash_bits=16))
    assert {"early", "bird", "late"} == set(names.of(names.columns.tolist()).values())


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("columns", lambda a: a[::-1]),
        ("columns", lambda a: a + 1000),
        ("others", lambda a: a[1:]),
        ("names", lambda a: a[1:]),
        ("lengths", lambda a: -a),
        ("names", lambda a: np.full_like(a, 255)),
    ],
)
def test_damaged_names_are_refused(tmp_path, part, change):
    model = trained(written(tmp_path / "reviews.parquet"))
    model.extra[f"text_0_{part}"] = change(model.extra[f"text_0_{part}"])
    with pytest.raises(ModelError, match="damaged"):
        names_of(model, [1])


def test_names_are_of_their_own_columns_beside_crosses(tmp_path):
    shops = {"shop": [["Rome", "Köln", "Oslo"][i % 3] for i in range(N)]}
    path = written(tmp_path / "reviews.parquet", COLUMNS | shops)
    model = trained(path, cross=["shop:n"], hash_bits=7, vocabulary="hashed", tol=1e-2)
    at = [name.startswith("review") for name in names_of(model, range(model.coef_.shape[1]))].index(True)
    assert at > 2  # behind numbers, and numbers by category
    used = np.flatnonzero(np.any(model.coef_[:, at : at + 128], axis=0))
    np.testing.assert_array_equal(model.extra["text_0_columns"], used)


@pytest.mark.parametrize("said", [{"min_df": 20}, {"max_df": 0.3}, {"max_features": 10}])
def test_what_chooses_among_n_grams_is_refused_where_they_are_hashed(tmp_path, said):
    """They would be ignored silently; a vocabulary beside hashed categories has them all the same."""
    path, (name,) = written(tmp_path / "rows.parquet"), said
    for hashed in ({}, {"vocabulary": "hashed"}, {"hash_bits": None, "vocabulary": "hashed"}):
        with pytest.raises(UsageError, match=f"{name} chooses among the n-grams.* vocabulary exact"):
            trained(path, **said, **hashed)
    assert trained(path, vocabulary="exact", **said).n_features_in_ < 1 + len(WORDS) + 2


@pytest.mark.parametrize("said", [{"max_features": 10}, {}])
def test_where_nothing_else_is_left_than_to_hash_the_note_says_what_counts_nothing(
    tmp_path, monkeypatch, said
):
    monkeypatch.setattr(texts, "HASHED_BITS", (12, 12))
    with open(written(tmp_path / "rows.csv"), "rb") as file:
        monkeypatch.setattr(sys, "stdin", file)
        with pytest.warns(UserWarning, match=r"n-grams are hashed into 2\^12") as told:
            trained("-", format="csv", hash_bits=None, **said)
    text = " ".join(str(each.message) for each in told)
    assert ("min_df, max_df and max_features count nothing" in text) is bool(said)
