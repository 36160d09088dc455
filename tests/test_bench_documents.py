"""The benchmark's raw text: the same documents for a seed, in every format, and labels that words tell."""

import csv
import json
import sys

import pyarrow.parquet as pq
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.svm import LinearSVC

from tools.bench import documents


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
