"""What many or long labels take, in training and in scoring: nothing that the ledger has not signed for."""

import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

from llsvm import Model
from llsvm.block import CSR, Block
from llsvm.data.source import SourceInfo
from llsvm.errors import BudgetError, DataError
from llsvm.features.column import Column
from llsvm.features.encoder import TableEncoder
from llsvm.features.labels import MAX_CLASSES, LabelEncoder
from llsvm.features.value_texts import LabelWords, value_in
from llsvm.objective.problems import Problems, class_signs
from llsvm.scoring.measure import measure
from llsvm.scoring.predictions import score_blocks
from llsvm.scoring.room import load_model, require_room

MB = 1_000_000


def cli(*arguments):
    """llsvm in a process of its own: its exit status, errors and peak resident set in bytes."""
    code = (
        "import sys, atexit\nfrom llsvm.memory.process import peak_resident_bytes\n"
        "atexit.register(lambda: print('PEAK', peak_resident_bytes(), file=sys.stderr))\n"
        "from llsvm.__main__ import main\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    *errors, peak = done.stderr.strip().splitlines()
    return done.returncode, "\n".join(errors), int(peak.removeprefix("PEAK "))


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("k", [2, 3, 4, 7, 60])
def test_signs_of_a_problem_are_those_of_the_table(k, pairs):
    problems, table = Problems(k, pairs), class_signs(k, pairs)
    assert len(problems) == len(table)
    for c, row in enumerate(table):
        np.testing.assert_array_equal(problems.signs(c), row)
        if problems.pairs:
            assert problems.pair(c) == (np.argmax(row), np.argmin(row))


def test_the_last_pair_of_many_classes():
    problems = Problems(100_000, one_vs_one=True)
    assert problems.pair(0) == (0, 1)
    assert problems.pair(len(problems) - 1) == (99_998, 99_999)


@pytest.mark.parametrize("form", ["word {}", "{}", "0{}", "{}.50", "2024-01-05 10:00:00.{:06}"])
def test_words_of_labels_count_what_they_take(form):
    """Beside the labels, each word is held, and its value."""
    words = LabelWords()
    words.labels([form.format(0)])
    value_in.cache_clear()
    tracemalloc.start()
    words.labels(form.format(i) for i in range(2000))
    value_in.cache_clear()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert words.nbytes / 4 < taken < words.nbytes
    encoder = TableEncoder((Column("x", "number"),), label="y", weight=None)
    before = encoder.nbytes
    encoder.label_words.labels(["one", "two"])
    assert encoder.nbytes > before


def test_text_labels_count_what_they_take():
    encoder = LabelEncoder()
    ids = encoder.encode(np.array(["b", "a" * 5000, "b"], object))
    assert ids.tolist() == [0, 1, 0]
    assert encoder.rank.tolist() == [1, 0]
    assert encoder.counts.tolist() == [2, 1]
    assert 5000 + encoder.classes.nbytes <= encoder.nbytes <= 60_000
    assert encoder.final(np.array(["a" * 5000, "b"])).tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_identifiers_are_no_labels(kind):
    y = np.arange(MAX_CLASSES + 1.0)
    with pytest.raises(DataError, match="look like identifiers, not classes; name the column"):
        LabelEncoder().encode(y if kind == "numbers" else y.astype(str).astype(object))


@pytest.mark.slow
def test_one_long_label_does_not_make_all_rows_as_long(tmp_path):
    path = tmp_path / "rows.csv"
    lines = [f"{i % 13},{'ab'[i % 2]}\n" for i in range(200_000)]
    path.write_text("x,label\n" + "".join(lines) + "1," + "c" * 12_000 + "\n")
    status, errors, peak = cli(
        "train", path, "--label", "label", "--model", tmp_path / "m", "--memory", "400MB", "--max-passes", 2
    )
    assert status in (0, 5), errors
    assert peak <= 400 * MB


@pytest.mark.slow
def test_thousands_of_classes_are_refused_within_the_limit(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"{i % 15_000} 1:{i % 7} 3:1\n" for i in range(30_000)))
    status, errors, peak = cli("train", path, "--model", tmp_path / "m", "--memory", "300MB")
    assert (status, "memory limit too small" in errors) == (4, True), errors
    assert peak <= 300 * MB


@pytest.mark.slow
def test_identifiers_as_labels_are_refused_within_the_limit(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,label\n" + "".join(f"{i % 13},user-{i:060d}\n" for i in range(300_000)))
    status, errors, peak = cli(
        "train", path, "--label", "label", "--model", tmp_path / "m", "--memory", "400MB"
    )
    assert (status, "look like identifiers" in errors) == (3, True), errors
    assert peak <= 400 * MB


def test_signs_of_classes_are_signed_for_before_they_are_made(tmp_path):
    from oracle import run

    path = tmp_path / "rows.svm"
    path.write_text("".join(f"{i} 1:{i % 7} 3:1\n" for i in range(3000)))
    with pytest.raises(BudgetError) as caught:
        run(path, ledger=60 * MB, solver="nesvm")
    assert caught.value.lines["signs of classes"] >= 8 * 3000**2


class ShortRows:
    """Rows of one value each."""

    bytes_read = 0

    def __init__(self, n):
        self.n = n

    def info(self):
        return SourceInfo("short", "arrays", index_base=0)

    def blocks(self, max_bytes):
        X = CSR(np.arange(self.n + 1), np.zeros(self.n, np.int32), np.ones(self.n, np.float32))
        yield Block(X, np.zeros(self.n), np.arange(self.n))


def model_of(k, d=2):
    rng = np.random.default_rng(0)
    return Model(rng.normal(size=(k, d)), rng.normal(size=k), np.arange(float(k)))


def test_scores_of_short_rows_take_no_more_than_a_block():
    parts = [(b.n_rows, s.nbytes) for b, s in score_blocks(model_of(500), ShortRows(10_000), 100_000)]
    assert sum(n for n, _ in parts) == 10_000
    assert max(nbytes for _, nbytes in parts) <= 200_000
    whole = np.vstack([s.copy() for _, s in score_blocks(model_of(500), ShortRows(100), 10**9)])
    sliced = np.vstack([s for _, s in score_blocks(model_of(500), ShortRows(100), 10_000, 5_000)])
    np.testing.assert_array_equal(whole, sliced)


def test_the_confusion_of_many_classes_is_signed_for(steady_process):
    with pytest.raises(BudgetError) as caught:
        measure(model_of(2000), ShortRows(10), memory_limit="300MB")
    assert caught.value.lines["figures, and the confusion of classes"] >= 16 * 2000**2
    assert measure(model_of(2000), ShortRows(10), memory_limit=caught.value.smallest_bytes)["rows"] == 10


def test_a_model_that_unpacks_to_more_than_the_limit_is_not_unpacked(tmp_path, steady_process):
    path = tmp_path / "m"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        with archive.open("coef.npy", "w") as member:
            for _ in range(200):
                member.write(bytes(1_000_000))
    assert path.stat().st_size < MB
    with pytest.raises(BudgetError) as caught:
        require_room(path, "400MB")
    assert caught.value.lines["model"] >= 200 * MB
    require_room(path, caught.value.smallest_bytes)


def test_the_weights_of_a_model_that_does_not_fit_stay_unread(tmp_path, monkeypatch):
    for name in ("llsvm.memory.process.resident_bytes", "llsvm.scoring.room.resident_bytes"):
        monkeypatch.setattr(name, lambda: 200 * MB)  # as in a process of its own: tests leave more here
    model_of(20, d=500_000).save(tmp_path / "m")
    tracemalloc.start()
    model = load_model(tmp_path / "m", "400MB")
    assert tracemalloc.get_traced_memory()[1] < 20 * MB
    tracemalloc.stop()
    with pytest.raises(BudgetError) as caught:
        measure(model, ShortRows(10), memory_limit="400MB")
    assert caught.value.lines["model"] >= 160 * MB  # held twice, where the classes are several
    smallest = caught.value.smallest_bytes
    assert measure(load_model(tmp_path / "m", smallest), ShortRows(10), memory_limit=smallest)["rows"] == 10


@pytest.mark.slow
def test_predictions_of_many_classes_stay_within_the_limit(tmp_path):
    model_of(1500).save(tmp_path / "m")
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"{i % 1500} 1:1\n" for i in range(3000)))
    for options in ([], ["--scores"]):
        status, errors, peak = cli(
            "predict", tmp_path / "m", path, "--output", tmp_path / "p", "--memory", "290MB", *options
        )
        assert status == 0, errors
        assert peak <= 290 * MB
