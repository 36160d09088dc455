"""Vocabularies larger than memory: arrays that go to disk, and n-grams that are numbered as they are merged."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_text_analysis import Scratch
from test_text_memory import WITH_PEAK

from llsvm.data import open_source, table_options
from llsvm.features.text import vocabulary as vocabulary_module
from llsvm.features.text.analysis import Analyzer, Documents
from llsvm.features.text.counting import VocabularyCounter, VocabularyTooLarge
from llsvm.features.text.options import TextOptions
from llsvm.features.text.vectorizer import Vectorizer
from llsvm.features.text.vocabulary import ColumnWeights, Lookup, Vocabulary, lookup_bytes
from llsvm.files.growing import GrowingArray, is_mapped, let_go
from llsvm.kernels import ngrams as kernels
from llsvm.memory.budget import MemoryBudget
from llsvm.models.model import Model
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.stream.stream import Stream
from llsvm.training import texts
from tools.bench.documents import SCHEMA, chunks
from tools.bench.measure import memory_cgroup

RNG = np.random.default_rng(5)
WORDS = [f"wörd{i}" for i in range(3000)]
TEXTS = [" ".join(RNG.choice(WORDS, 40)) for _ in range(400)]


def counted(options, scratch, room, most=1 << 31):
    documents = Documents.of(pa.array(TEXTS))
    with Threads(2) as threads:
        counter, analyzer = VocabularyCounter(options, threads, room, scratch), Analyzer(options)
        for first in range(0, 400, 50):
            counter.add([analyzer.grams(documents, first, first + 50)])
        return counter.finish(most)


@pytest.mark.parametrize("memory_bytes", [0, 100, 1000, 1 << 30])
def test_a_growing_array_is_what_was_put_into_it_wherever_it_lies(tmp_path, memory_bytes):
    scratch = Scratch(tmp_path)
    array, parts = GrowingArray(np.int32, scratch, memory_bytes), [np.arange(n) for n in (3, 0, 40, 200)]
    for part in parts:
        array.append(part)
    whole = array.finish()
    assert is_mapped(whole) == (memory_bytes < 4 * 243) == (scratch.claimed == 4 * 243)
    whole[5] = 77
    let_go(whole)
    np.testing.assert_array_equal(whole, np.r_[0:3, 0, 1, 77, 3:40, 0:200])
    assert not list(tmp_path.iterdir())  # it has no name any more
    del whole
    array.discard()
    assert scratch.claimed == 0


@pytest.mark.parametrize("options", [{}, {"min_df": 2}, {"max_features": 500}, {"max_features": 10**6}])
def test_a_vocabulary_on_disk_is_the_one_in_memory(tmp_path, options):
    options = TextOptions(ngrams=(1, 2), **options)
    small, large = counted(options, Scratch(tmp_path), 1 << 14), counted(options, None, 1 << 30)
    assert is_mapped(small.keys) or len(small) == 500
    assert not is_mapped(large.keys)
    for name, array in large.arrays().items():
        assert small.arrays()[name].dtype == array.dtype
        np.testing.assert_array_equal(small.arrays()[name], array)
    some = [len(large) - 1, 0, 17]
    assert small.words_of(some) == large.words_of(some)
    assert small.nbytes < large.nbytes or len(small) == 500
    order = np.lexsort((large.keys, -np.asarray(large.documents, np.int64)[large.columns]))
    np.testing.assert_array_equal(large.columns[order], np.arange(len(large)))


@pytest.mark.parametrize("options", [{}, {"min_df": 2}, {"max_features": 2500}])
def test_only_the_vocabulary_itself_keeps_its_disk(tmp_path, options):
    scratch = Scratch(tmp_path)
    vocabulary = counted(TextOptions(**options), scratch, 1 << 14)
    runs = sum(path.stat().st_size for path in tmp_path.iterdir())
    on_disk = [array.nbytes for array in vocabulary.arrays().values() if is_mapped(array)]
    assert len(on_disk) == 5
    assert scratch.claimed - runs == sum(on_disk)


def test_a_vocabulary_of_too_many_columns_is_counted_to_its_end(tmp_path):
    for n, options in enumerate(({}, {"max_features": 101})):
        (tmp_path / str(n)).mkdir()
        scratch = Scratch(tmp_path / str(n))
        with pytest.raises(VocabularyTooLarge) as refused:
            counted(TextOptions(**options), scratch, 1 << 14, most=100)
        assert refused.value.n == len({word for text in TEXTS for word in text.split()})
        assert scratch.claimed == sum(path.stat().st_size for path in scratch.folder.iterdir())  # of runs
    scratch = Scratch(tmp_path / "0")
    assert len(counted(TextOptions(max_features=100), scratch, 1 << 14, most=100)) == 100


@pytest.mark.slow
def test_names_of_n_grams_are_not_held_in_memory(tmp_path):
    """The limit is the smallest that the run asks for, and little more: names that are held do not fit."""
    n, limit = 700_000, 420_000_000
    words = [f"{'abcdefghij' * 11}{i:07d}" for i in range(n)]  # 117 letters each
    reviews = [" ".join([*words[i : i + 7], ["bad", "good"][i // 7 % 2]]) for i in range(0, n, 7)] * 2
    stars = [i % 2 for i in range(len(reviews))]
    path = tmp_path / "reviews.parquet"
    pq.write_table(pa.table({"stars": stars, "review": reviews}), path, row_group_size=10_000)
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
    command += ["--memory-limit", str(limit), "--spill-dir", str(tmp_path), "--model", str(tmp_path / "m")]
    done = subprocess.run([*command, "--min-df", "2"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["converged"]
    assert answer["peak_rss_bytes"] <= limit
    assert not list(tmp_path.glob("llsvm-*"))
    extra = Model.load(tmp_path / "m").extra
    assert extra["text"]["options"]["hash_bits"] is None
    assert extra["text"]["widths"] == [n + 2]
    assert len(extra["text_0_names"]) > 80_000_000


def rows_of(vocabulary, options):
    with Threads(2) as threads:
        rows = Vectorizer(options, vocabulary, threads).rows(Documents.of(pa.array(TEXTS)))
    return rows.indptr, rows.indices, rows.data


@pytest.mark.parametrize("alone", [0, 1, 2999, 1 << 20])
def test_rows_do_not_depend_on_how_columns_are_looked_up_and_weighed(tmp_path, monkeypatch, alone):
    options = TextOptions(ngrams=(1, 2), weight="sublinear")
    expected = rows_of(counted(options, None, 1 << 30), options)
    monkeypatch.setattr(vocabulary_module, "WEIGHED_ALONE", alone)
    monkeypatch.setattr(vocabulary_module, "BUCKET_BITS", (3, 3))  # many of a bucket are gone through
    mapped = counted(options, Scratch(tmp_path), 1 << 14)
    assert is_mapped(mapped.keys)
    for array, same in zip(rows_of(mapped, options), expected, strict=True):
        np.testing.assert_array_equal(array, same)


def test_no_bit_of_a_key_is_lost_in_its_lookup():
    high = np.arange(300, dtype=np.uint64) << np.uint64(40)  # all of the first bucket
    keys = np.sort(np.r_[high, high | np.uint64(2), np.uint64(1) << np.uint64(63), ~np.uint64(0)])[1:]
    n = len(keys)
    columns = np.random.default_rng(0).permutation(n).astype(np.int32)
    vocabulary = Vocabulary(
        keys, columns, np.ones(n, np.uint32), 1, np.zeros(n, np.uint8), np.ones(n, np.int32)
    )
    asked = np.unique(np.r_[keys, keys + np.uint64(1), keys - np.uint64(1), keys ^ np.uint64(1 << 62)])
    found = {}
    table, none = Lookup.of(vocabulary), ColumnWeights.none()
    for key in asked:
        out = np.zeros(2, np.int64), np.zeros(1, np.int32), np.zeros(1, np.float32)
        kernels.encode(
            np.array([key]),
            np.array([0, 1]),
            *(table.entries, table.buckets, n.bit_length(), False, np.zeros(0, np.int32)),
            *(none.alone, none.first, none.shared, kernels.COUNTS, False),
            *(np.zeros((2, 1), np.uint32), np.zeros(1, np.int32), np.zeros(1)),
            *(*kernels.encode_workspaces(), *out),
        )
        if out[0][1]:
            found[int(key)] = int(out[1][0])
    assert found == dict(zip(keys.tolist(), columns.tolist(), strict=True))


@pytest.mark.parametrize("n", [1, 70_000, 3_000_000, 20_200_000])
def test_what_a_lookup_takes_is_known_before(monkeypatch, n):
    taken = lookup_bytes(n)
    assert vocabulary_module.most_n_grams(taken) == n
    assert vocabulary_module.most_n_grams(taken - 1) < n
    if n < 10**6:
        monkeypatch.setattr(vocabulary_module, "WEIGHED_ALONE", n // 2)
        keys = np.sort(np.random.default_rng(1).integers(0, 1 << 63, n).astype(np.uint64))
        documents = np.repeat(np.arange(n // 100 + 1)[::-1], 100)[:n].astype(np.uint32)
        vocabulary = Vocabulary(
            keys, np.arange(n, dtype=np.int32), documents, n, *[np.zeros(0, np.uint8)] * 2
        )
        table, weights = Lookup.of(vocabulary), vocabulary.weights()
        arrays = table.entries, table.buckets, weights.alone, weights.first, weights.shared
        assert sum(array.nbytes for array in arrays) <= lookup_bytes(n) + 4
    else:
        assert taken <= {3_000_000: 19, 20_200_000: 12}[n] * n


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A file of 200,000 different n-grams, most of which are met once."""
    rng = np.random.default_rng(2)
    words = rng.integers(0, 30_000, (1000, 100))
    reviews = [" ".join(f"w{word}" for word in row) for row in words.tolist()]
    path = tmp_path_factory.mktemp("wide") / "reviews.parquet"
    pq.write_table(pa.table({"stars": [1, 5] * 500, "review": reviews}), path, row_group_size=100)
    return str(path)


def opened(path):
    settings = Settings(label="stars", text=("review",), ngrams="1-3", threads=1)
    return open_source(path, options=table_options(settings))


def rows_with(monkeypatch, path, folder, limit, column_bytes=0):
    """(bytes that n-grams may take under a limit, beside a process of 100 MB; the text columns; the rows, if it
    is enough for a vocabulary)."""
    rooms = []
    with monkeypatch.context() as here:
        known = texts.most_columns
        here.setattr(texts, "MIN_WORK_BYTES", 1_000_000)
        here.setattr(texts, "most_columns", lambda nbytes, each: rooms.append(nbytes) or known(nbytes, each))
        source, budget = opened(path), MemoryBudget(limit, 100_000_000)
        with Stream(source, budget, folder) as stream:
            texts.learn_texts(stream, exact=False, column_bytes=column_bytes)
    documents = source.info().encoder.documents
    if documents.vocabularies is None:
        return rooms[0], documents, None
    blocks = [block.X for block in source.blocks(1 << 20)]
    assert source.info().reader_bytes <= budget.available_bytes
    rows = [np.concatenate([getattr(X, name) for X in blocks]) for name in ("indices", "data")]
    return rooms[0], documents, rows


def test_a_vocabulary_is_exact_where_memory_holds_its_lookup_only(tmp_path, monkeypatch, wide):
    _, plenty, expected = rows_with(monkeypatch, wide, tmp_path, 400_000_000)
    n = plenty.width
    assert n > 200_000
    limit = 191_000_000
    room, small, rows = rows_with(monkeypatch, wide, tmp_path, limit)
    assert lookup_bytes(n) < room < 2 * lookup_bytes(n)
    assert is_mapped(small.vocabularies[0].keys)
    assert small.vocabularies[0].nbytes == 0
    assert small.width == n
    for array, same in zip(rows, expected, strict=True):
        np.testing.assert_array_equal(array, same)
    some = list(range(0, n, 997))
    assert small.names_of(some) == plenty.names_of(some)
    # there is no room for weights of so many, nor for fewer bytes than a lookup takes
    for less, column_bytes in ((limit, texts.WEIGHT_BYTES), (limit - 4_000_000, 0)):
        _, hashed, _ = rows_with(monkeypatch, wide, tmp_path, less, column_bytes)
        assert hashed.vocabularies is None
        assert f"{n:,} n-grams, which would take " in hashed.note


@pytest.mark.slow
def test_features_of_an_exact_vocabulary_of_6_million_n_grams_in_a_cgroup_of_440_mb(tmp_path):
    """The limit is 5 MB more than the smallest that the run asks for."""
    documents, limit = 38_000, 440_000_000
    path = tmp_path / "reviews.parquet"
    with pq.ParquetWriter(path, SCHEMA) as file:
        for chunk in chunks(documents):
            file.write_table(chunk.table())
    last, rows, ended = -1, 0, b""
    try:
        with memory_cgroup(limit) as cgroup:
            enter = lambda: cgroup.procs.write_text(str(os.getpid()))  # noqa: E731
            command = [sys.executable, "-c", WITH_PEAK, "convert", str(path), "-", "--label", "stars"]
            command += ["--text", "review", "--ngrams", "1-3", "--vocabulary", "exact", "--memory", "440MB"]
            pipes = {
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                "preexec_fn": enter,
                "cwd": tmp_path,
            }
            with subprocess.Popen(command, **pipes) as process:
                for line in process.stdout:
                    rows += 1
                    last = max(last, int(line[line.rindex(b" ") :].partition(b":")[0]))
                ended = process.stderr.read()
    except OSError as error:
        pytest.skip(f"no memory cgroup to be had here: {error}")
    assert process.returncode == 0, ended
    assert rows == documents
    assert last > 5_900_000  # columns are numbered without gaps, and each n-gram has one
    assert b"hashed" not in ended
    assert int(ended.splitlines()[-1]) <= limit
