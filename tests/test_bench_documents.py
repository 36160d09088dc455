"""The benchmark's raw text: the same documents for a seed, in every format, and labels that words tell."""

import csv
import json
import sys

import pyarrow.parquet as pq
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC

from tools.bench import documents, vectorise


def test_every_format_has_the_same_documents(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(documents, "CHUNK", 30)
    paths = [tmp_path / f"reviews{ending}" for ending in (".jsonl", ".csv", ".parquet")]
    monkeypatch.setattr(sys, "argv", ["documents", *map(str, paths), "--size", "71600"])
    documents.main()
    assert "100 documents" in capsys.readouterr().out
    lines = [json.loads(line) for line in paths[0].read_text().splitlines()]
    with open(paths[1], encoding="utf-8", newline="") as file:
        cells = [{"stars": int(row["stars"]), "review": row["review"]} for row in csv.DictReader(file)]
    assert lines == cells == pq.read_table(paths[2]).to_pylist()
    everything = "".join(line["review"] for line in lines)
    assert all(mark in everything for mark in '".,!\n')
    assert not everything.isascii()


def test_documents_depend_on_the_seed_alone(monkeypatch):
    monkeypatch.setattr(documents, "CHUNK", 20)
    one, same, other = (
        [review for chunk in documents.chunks(50, seed, threads) for review in chunk.reviews()]
        for seed, threads in ((0, 1), (0, 3), (1, 2))
    )
    assert one == same
    assert len(one) == 50
    assert not set(one) & set(other)


@pytest.mark.slow
def test_words_tell_the_stars():
    found = list(documents.chunks(20_000))
    reviews = [review for chunk in found for review in chunk.reviews()]
    stars = [each for chunk in found for each in chunk.stars.tolist()]
    assert sum(len(chunk.text) for chunk in found) / 20_000 == pytest.approx(
        documents.BYTES_PER_DOCUMENT, rel=0.02
    )
    vectorizer = TfidfVectorizer()
    machine = LinearSVC().fit(vectorizer.fit_transform(reviews[:16_000]), stars[:16_000])
    assert 0.8 < machine.score(vectorizer.transform(reviews[16_000:]), stars[16_000:]) < 0.95


@pytest.mark.slow
def test_vectorising_beside_scikit_learn(tmp_path, capsys):
    folders = ["--work", str(tmp_path / "work"), "--out", str(tmp_path / "out"), "--peers", str(tmp_path)]
    arguments = ["--size", "100KB", "--rounds", "1", "--contestants", "scikit-learn,llsvm,vw", *folders]
    assert vectorise.main(arguments, {}) == 0
    rows = [
        line.split("|")
        for line in capsys.readouterr().out.splitlines()
        if line.startswith(("| llsvm", "| sci"))
    ]
    stored = [int(row[-2].replace(",", "")) for row in rows]
    assert len(stored) == 4
    assert max(stored) - min(stored) < 20, "they differ by columns that n-grams share alone"
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert found["bytes"] == pytest.approx(100_000, rel=0.3)
