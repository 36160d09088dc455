"""The memory limit and text: what readers of raw text hold, long cells, and weights of many classes."""

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from test_text_columns import written

from llsvm.data import open_source, table_options
from llsvm.errors import BudgetError
from llsvm.memory.budget import MemoryBudget
from llsvm.settings.settings import Settings
from llsvm.training.training import Training
from tools.bench.documents import SCHEMA, chunks
from tools.bench.measure import memory_cgroup
from tools.bench.measure import run as measured_run

MB = 1_000_000
CLASSES = 520


def of_many_classes(tmp_path, **options):
    """A training of 120 MB for all but the process, CLASSES and 20,000 words."""
    rng, n, words = np.random.default_rng(3), CLASSES, 20_000
    reviews = [" ".join([f"w{j}" for j in rng.choice(words, 300)] + [f"told{i}"] * 3) for i in range(n)]
    columns = {"stars": [f"class {i}" for i in range(n)], "review": reviews}
    path = written(tmp_path / "reviews.parquet", columns)
    settings = Settings(label="stars", text=("review",), threads=1, max_passes=2, tol=0.1, **options)
    source = open_source(path, options=table_options(settings))
    return Training(source, settings, budget=MemoryBudget(220 * MB, 100 * MB))


def test_n_grams_are_hashed_where_weights_of_many_classes_do_not_fit(tmp_path):
    with of_many_classes(tmp_path) as run:
        for _ in run:
            pass
        model, note = run.model, run.stream.note
    assert re.search(
        r"text: 20,\d{3} n-grams, whose weights \(520 classes\) take [\d.]+ MB: .*into 2\^13 ", note
    )
    assert model.extra["text"]["options"]["hash_bits"] == 13
    assert model.coef_.shape == (CLASSES, 8192)
    assert len(model.extra["text_0_columns"]) > 6000  # they have names
    assert run.stream.budget.reserved_bytes <= 220 * MB


def test_an_exact_vocabulary_of_many_classes_is_refused_with_the_smallest_limit(tmp_path):
    with of_many_classes(tmp_path, vocabulary="exact") as run, pytest.raises(BudgetError) as refused:
        list(run)
    assert refused.value.smallest_bytes > 100 * MB + 8 * CLASSES * 20_000  # others may lie on disk


def documents(n_bytes):
    """(labels, texts): words as often as in a language, and one that tells the label of most."""
    rng = np.random.default_rng(1)
    words = np.array([f"{'abcdefghij'[i % 10] * (i % 7 + 1)}{i}" for i in range(40_000)])
    shares = 1 / np.arange(1, len(words) + 1)
    drawn = rng.choice(len(words), (2000, 150), p=shares / shares.sum())
    texts = [" ".join([*words[row], ["bad", "good"][i % 2]]) for i, row in enumerate(drawn)]
    times = n_bytes // sum(map(len, texts)) + 1
    return [i % 2 for i in range(2000)] * times, texts * times


def file_of(path, labels, texts):
    kind = path.suffix
    if kind == ".fasttext":
        path.write_text("".join(f"__label__{y} {text}\n" for y, text in zip(labels, texts, strict=True)))
    elif kind == ".vw":
        path.write_text("".join(f"{2 * y - 1} | {text}\n" for y, text in zip(labels, texts, strict=True)))
    elif kind == ".jsonl":
        rows = zip(labels, texts, strict=True)
        path.write_text("".join(json.dumps({"y": y, "words": text}) + "\n" for y, text in rows))
    elif kind == ".csv":
        path.write_text("y,words\n" + "".join(f"{y},{text}\n" for y, text in zip(labels, texts, strict=True)))
    elif kind == ".parquet":
        pq.write_table(pa.table({"y": labels, "words": texts}), path, row_group_size=10_000)
    else:
        feather.write_feather(pa.table({"y": labels, "words": texts}), path, chunksize=5_000)
    return path


NAMED = {"fasttext": ("--format", "fasttext"), "vw": (), "csv": ("--label", "y", "--text", "words")}


def run(path, folder, *options):
    """(exit code, answer, errors) of a training in a process of its own."""
    command = [sys.executable, "-m", "llsvm", "train", str(path), "--model", str(folder / "m"), "--json"]
    command += ["--spill-dir", str(folder), *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def smallest_that_works(path, folder, *options):
    """(limit in bytes, answer), as refusals name it."""
    limit = 270
    while True:
        status, answer, errors = run(path, folder, *options, "--memory", f"{limit}MB")
        if status in (0, 5):
            return limit * MB, answer
        assert status == 4, errors
        named = int(re.search(r"pass --memory-limit (\d+)MB or (rather )?more", errors).group(1))
        assert named > limit, errors
        limit = named


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("fasttext", ("--vocabulary", "exact")),
        ("vw", ()),
        ("jsonl", ("--hash-bits", 16)),
        ("csv", ("--vocabulary", "exact")),
        ("csv", ("--hash-bits", 16)),
        ("parquet", ("--vocabulary", "exact")),
        ("arrow", ("--vocabulary", "exact")),
    ],
)
def test_readers_of_text_keep_the_smallest_limit_that_is_named(tmp_path, kind, options):
    path = file_of(tmp_path / f"documents.{kind}", *documents((10 if kind == "vw" else 30) * MB))
    options = (*options, *NAMED.get(kind, NAMED["csv"]), "--tol", 0.05, "--max-passes", 3)
    limit, answer = smallest_that_works(path, tmp_path, *options)
    assert answer["peak_rss_bytes"] <= limit


@pytest.mark.slow
def test_training_on_20_million_n_grams_in_a_cgroup_of_600_mb(tmp_path):
    documents, limit = 149_400, 600 * MB
    path = tmp_path / "reviews.parquet"
    with pq.ParquetWriter(path, SCHEMA) as file:
        for chunk in chunks(documents):
            file.write_table(chunk.table())
    command = [
        sys.executable,
        "-m",
        "llsvm",
        "train",
        str(path),
        "--label",
        "stars",
        "--text",
        "review",
        "--json",
    ]
    command += ["--ngrams", "1-3", "--vocabulary", "exact", "--memory", "600MB", "--threads", "1"]
    command += ["--model", str(tmp_path / "m"), "--spill-dir", str(tmp_path)]
    with ExitStack() as stack:
        try:
            cgroup = stack.enter_context(memory_cgroup(limit))
        except OSError as error:
            pytest.skip(f"no memory cgroup to be had here: {error}")
        done = measured_run(command, env=dict(os.environ), cgroup=cgroup)
    assert done.exit_code == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["converged"]
    assert answer["features"] > 20 * MB
    assert answer["rows"] == documents
    assert done.peak_rss_bytes <= limit
    assert not answer["notes"], "no n-grams are hashed"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "long"),
    [
        *((kind, 3 * MB) for kind in ("fasttext", "csv", "arrow")),
        *((kind, 55 * MB) for kind in ("jsonl", "csv", "parquet")),
    ],
)
def test_long_cells_are_refused_before_the_limit_is_broken(tmp_path, kind, long):
    labels, texts = documents(30 * MB)
    texts[len(texts) // 2] = "word " * (long // 5)
    path = file_of(tmp_path / f"documents.{kind}", labels, texts)
    command = [sys.executable, "-c", WITH_PEAK, "train", str(path), "--memory", "400MB", "--hash-bits", "16"]
    command += ["--model", str(tmp_path / "m"), *NAMED.get(kind, NAMED["csv"])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    *errors, peak = done.stderr.splitlines()
    assert done.returncode in (3, 4), errors
    assert int(peak) <= 400 * MB, errors


WITH_PEAK = """
import sys
from llsvm.cli import app
from llsvm.memory.process import peak_resident_bytes
try:
    app(sys.argv[1:])
finally:
    print(peak_resident_bytes(), file=sys.stderr)
"""
