"""The same documents give the same model bit for bit from every format, also where rows do not stay in memory."""

import csv
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import llsvm
from llsvm.block import CSR, Block
from llsvm.data import open_source, table_options
from llsvm.data.source import filled
from llsvm.errors import DataError, UsageError
from llsvm.features.text import vectorizer
from llsvm.features.text.vocabulary import frequent_first
from llsvm.memory.budget import MemoryBudget
from llsvm.models.model import Model
from llsvm.scoring.sources import open_for
from llsvm.settings.settings import Settings
from llsvm.state.checkpoints import checkpoints_in
from llsvm.training.training import Training

MB = 1_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """4,000 documents of 40 to 300 words, in three formats."""
    folder, rng = tmp_path_factory.mktemp("documents"), np.random.default_rng(5)
    lengths = rng.integers(40, 300, 4000)
    texts = [
        " ".join(f"w{j}" for j in np.r_[rng.zipf(1.2, n) % 6000, 7000 + i % 2]) for i, n in enumerate(lengths)
    ]
    stars = [i % 2 if rng.random() < 0.9 else 1 - i % 2 for i in range(len(texts))]
    pq.write_table(pa.table({"stars": stars, "review": texts}), folder / "rows.parquet", row_group_size=300)
    with open(folder / "rows.csv", "w", newline="") as out:
        csv.writer(out).writerows([("stars", "review"), *zip(stars, texts, strict=True)])
    with open(folder / "rows.jsonl", "w") as out:
        out.writelines(
            json.dumps({"stars": y, "review": x}) + "\n" for y, x in zip(stars, texts, strict=True)
        )
    return folder


def trained(path, threads, **options):
    """The model, where rows are after the first reading, and the plan; with room for less than half of the rows."""
    settings = Settings(label="stars", text=("review",), threads=threads, hash_bits=13, **options)
    source = open_source(path, options=table_options(settings), threads=threads)
    limit = 20 * MB + int((source.info().reader_bytes + 2 * MB) / 0.85)  # a seventh is for reading
    with Training(source, settings, path.with_suffix(".model"), MemoryBudget(limit, 20 * MB)) as run:
        list(run)
        return run.model, run.stream.place, run.stream.plan


@pytest.mark.parametrize(("threads", "weight"), [(1, "tf"), (2, "tfidf")])
def test_every_format_gives_the_same_model_where_rows_do_not_stay_in_memory(folder, threads, weight):
    model, place, plan = trained(folder / "rows.parquet", threads, term_weight=weight)
    assert place == "cache"
    assert not plan.in_one_block
    for end in ("csv", "jsonl"):
        other, *where = trained(folder / f"rows.{end}", threads, term_weight=weight)
        assert where == [place, plan]
        np.testing.assert_array_equal(other.coef_, model.coef_)
        assert other.intercept_ == model.intercept_
        assert other.certificate == model.certificate


def test_scoring_signs_for_its_own_reader_only(folder):
    settings = Settings(label="stars", text=("review",), threads=1, hash_bits=13)
    path = folder / "rows.csv"
    training = open_source(path, options=table_options(settings), threads=1)
    scoring = open_for(
        llsvm.train(path, label="stars", text=["review"], hash_bits=13, tol=0.5), path, threads=1
    )
    spared = training.info().encoder.documents.reader_bytes
    assert spared > 25 * MB
    assert scoring.info().reader_bytes < training.info().reader_bytes - spared // 2


def test_where_blocks_are_cut_follows_from_the_rows_alone():
    rng = np.random.default_rng(0)
    indptr = np.r_[0, np.cumsum(rng.integers(0, 40, 500))]
    X = CSR(indptr, np.arange(indptr[-1], dtype=np.int32), rng.random(indptr[-1], np.float32))
    rows = Block(X, rng.random(500), np.arange(500))

    def pieces(step):
        return [rows.slice(start, min(start + step, 500)) for start in range(0, 500, step)]

    whole = list(filled([rows], 2000))
    for step in (1, 7, 499):
        found = list(filled(pieces(step), 2000))
        assert [block.n_rows for block in found] == [block.n_rows for block in whole]
        for block, expected in zip(found, whole, strict=True):
            mine, theirs = (each.take(np.arange(each.n_rows)) for each in (block, expected))
            np.testing.assert_array_equal(mine.X.indices, theirs.X.indices)
            np.testing.assert_array_equal(mine.X.data, theirs.X.data)
            np.testing.assert_array_equal(mine.X.indptr, theirs.X.indptr)
            np.testing.assert_array_equal(mine.rows, theirs.rows)
    assert max(block.nbytes for block in whole) <= 2000
    assert [block.n_rows for block in filled(pieces(100), 1)] == [1] * 500  # a row may be larger


def test_columns_that_training_numbers_anew_are_the_features_own_in_the_model(folder, tmp_path, monkeypatch):
    rows = pq.read_table(folder / "rows.parquet").slice(0, 400)
    titles = [text.as_py()[:60] for text in rows["review"]]
    lengths = [len(text.as_py()) for text in rows["review"]]
    path = tmp_path / "rows.parquet"
    pq.write_table(rows.append_column("title", [titles]).append_column("length", [lengths]), path)
    settings = Settings(label="stars", text=("title", "review"), hash_bits=12, term_weight="tfidf", tol=1e-5)
    models = []
    for values in (1 << 40, 20_000):  # too many to learn from, and not
        monkeypatch.setattr(vectorizer, "SAMPLE_VALUES", values)
        source = open_source(path, options=table_options(settings))
        with (
            checkpoints_in(tmp_path / str(values), 0, False) as kept,
            Training(source, settings, checkpoints=kept) as run,
        ):
            list(run)
            models.append(run.finish(tmp_path / f"{values}.model"))
        places = source.info().encoder.documents.places
        assert (places is not None) == (values == 20_000)
    plain, ordered = models
    assert any(not np.array_equal(each, np.arange(1 << 12)) for each in places)
    np.testing.assert_allclose(ordered.coef_, plain.coef_, atol=1e-2)
    np.testing.assert_allclose(ordered.certificate.primal, plain.certificate.primal, rtol=1e-4)
    np.testing.assert_array_equal(ordered.extra["text_1_documents"], plain.extra["text_1_documents"])
    found = llsvm.verify(tmp_path / "20000.model", path, state=tmp_path / "20000")
    assert found["holds"], found
    assert found["not_checked"] == ""
    scores = Model.load(tmp_path / "20000.model").decision_function(
        rows.append_column("title", [titles]).append_column("length", [lengths])
    )
    right = np.mean((scores > 0) == np.array(rows["stars"].to_pylist()))
    assert right > 0.95


def test_frequent_columns_come_first_and_each_has_a_place_of_its_own():
    rng = np.random.default_rng(2)
    columns = rng.zipf(1.5, 5000) * 37 % 1000
    places = frequent_first(columns, 1000)
    np.testing.assert_array_equal(np.sort(places), np.arange(1000))
    counts = np.bincount(columns, minlength=1000)
    ordered = np.zeros(1000, int)
    ordered[places] = counts
    assert (np.diff(ordered) <= 0).all()


# -- text that is no valid Unicode --------------------------------------------------------------------------

DOCUMENTS = [
    *(f"good word {i % 5}" for i in range(7)),
    "bad \ud800 half",
    *(f"good word {i % 5}" for i in range(32)),
]


@pytest.mark.parametrize("options", [{"text": ["t"]}, {}])
def test_halves_of_surrogate_pairs_are_refused_by_their_place(options):
    y, said = [0, 1] * 20, r"X: column t, row 8: text that is no valid Unicode.*replace it"
    good, bad = (
        pd.DataFrame({"t": pd.Series(words, dtype=object), "y": y})
        for words in ([word.replace("\ud800", "") for word in DOCUMENTS], DOCUMENTS)
    )
    for data in (bad, iter([bad]), lambda: iter([bad])):
        with pytest.raises(DataError, match=said):
            llsvm.train(data, label="y", **options)
    if options:
        with pytest.raises(DataError, match=said):
            llsvm.train(bad[["t"]], y, **options)
        with pytest.raises(DataError, match=r"X: row 8: text that is no valid Unicode"):
            llsvm.LLSVMClassifier(text=True).fit(DOCUMENTS, y)
    model = llsvm.train(good, label="y", **options)
    for predict in (lambda: model.predict(bad), lambda: list(llsvm.predict(model, bad))):
        with pytest.raises(DataError, match=said):
            predict()


def test_tables_of_text_that_is_no_utf8_are_refused_by_their_place():
    words = [word.encode("utf-8", "surrogatepass") for word in DOCUMENTS]
    text = pa.Array.from_buffers(pa.string(), 40, pa.array(words, pa.binary()).buffers())
    for table, column in (({"t": text, "y": [0, 1] * 20}, "t"), ({"t": range(40), "y": text}, "y")):
        with pytest.raises(
            DataError, match=rf"X: row 8: column {column}: text that is not UTF-8; write it so"
        ):
            llsvm.train(pa.table(table), label="y")


def test_a_file_with_the_mark_of_utf8_is_no_text_of_another_encoding(tmp_path):
    rows = "text,y\n" + "".join(f"caf\u00e9 {'good' if i % 2 else 'bad'},{i % 2}\n" for i in range(20))
    (tmp_path / "t.csv").write_text(rows, encoding="cp1252")
    (tmp_path / "new.csv").write_text(rows, encoding="utf-8-sig")
    model = llsvm.train(tmp_path / "t.csv", label="y", text=["text"], encoding="cp1252", tol=0.1)
    with pytest.raises(DataError, match="byte order mark of UTF-8: it is no cp1252 text"):
        list(llsvm.predict(model, tmp_path / "new.csv"))
    assert (
        llsvm.train(tmp_path / "new.csv", label="y", text=["text"], encoding="utf-8-sig", tol=0.1).n_rows
        == 20
    )


def test_data_read_once_are_told_to_leave_an_exact_vocabulary_out():
    table = pa.table({"text": ["good one", "bad one"] * 10, "y": [1, 0] * 10})
    batches = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
    with pytest.raises(UsageError, match="leave vocabulary exact out, pass hash_bits 20"):
        llsvm.train(batches, label="y", text=["text"], vocabulary="exact")
