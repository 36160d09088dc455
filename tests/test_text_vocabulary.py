"""Vocabularies larger than memory: arrays that go to disk, and n-grams that are numbered as they are merged."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_text_analysis import Scratch

from llsvm.features.text.analyzer import Analyzer, Documents
from llsvm.features.text.counting import VocabularyCounter, VocabularyTooLarge
from llsvm.features.text.options import TextOptions
from llsvm.files.growing import GrowingArray, is_mapped, let_go
from llsvm.models.model import Model
from llsvm.process.threads import Threads

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
    """Those of this vocabulary alone are more than the limit leaves beside what the process is."""
    n, limit = 700_000, 400_000_000
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
    done = subprocess.run([*command, "--min-df", "2"], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert answer["converged"]
    assert answer["peak_rss_bytes"] <= limit
    assert not list(tmp_path.glob("llsvm-*"))
    extra = Model.load(tmp_path / "m").extra
    assert extra["text"]["options"]["hash_bits"] is None
    assert extra["text"]["widths"] == [n + 2]
    assert len(extra["text_0_names"]) > 80_000_000
