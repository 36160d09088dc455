"""Runs of counted n-grams: on disk as in memory, merged in any room, and files that end early."""

from collections import Counter

import numpy as np
import pytest

from llsvm.features.text.counting import PARTS, Entries, SortedRun, StoredRun, merged_by_ranges


def entries(rng, n):
    """N-grams with keys all over the range, some the same in every run, and text of 0 to 40 bytes."""
    common = np.arange(n // 4, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    keys = np.unique(np.r_[common, rng.integers(1, 1 << 63, n, np.uint64) * np.uint64(2)])
    texts = [str(key).encode() * (int(key) % 3) for key in keys.tolist()]
    counts = rng.integers(1, 1 << 31, len(keys))
    lengths = np.array([len(text) for text in texts], np.int32)
    return Entries(keys, counts, counts * 5, lengths, np.frombuffer(b"".join(texts), np.uint8))


def listed(part):
    ends = np.cumsum(part.lengths).tolist()
    texts = [part.strings[e - n : e].tobytes() for e, n in zip(ends, part.lengths.tolist(), strict=True)]
    numbers = (part.keys.tolist(), part.documents.tolist(), part.occurrences.tolist())
    return list(zip(*numbers, texts, strict=True))


@pytest.fixture
def runs(tmp_path):
    rng = np.random.default_rng(0)
    ordered = [SortedRun(entries(rng, n)) for n in (900, 0, 1, 2000)]
    return [
        *ordered[:1],
        *(StoredRun(run, lambda _, n=n: tmp_path / str(n)) for n, run in enumerate(ordered[1:])),
    ], ordered


def test_what_is_stored_is_what_was_sorted(runs, tmp_path):
    found, ordered = runs
    for run, expected in zip(found[1:], ordered[1:], strict=True):
        assert run.sizes().tolist() == expected.sizes().tolist()
        for begin, stop in ((0, PARTS), (0, 1), (100, 103), (255, 256)):
            assert listed(run.ranges(begin, stop)) == listed(expected.ranges(begin, stop))
    assert [(tmp_path / str(n)).stat().st_size for n in range(3)] == [
        run.sizes().sum() for run in ordered[1:]
    ]


@pytest.mark.parametrize("room", [0, 20_000, 1 << 40])
def test_runs_are_merged_in_any_room(runs, room):
    found, ordered = runs
    parts = list(merged_by_ranges(found, room))
    assert (len(parts) == 1) == (room == 1 << 40)
    assert len(parts) <= PARTS
    documents, occurrences, texts = Counter(), Counter(), {}
    for run in ordered:
        for key, n, all_of_them, text in listed(run.entries):
            documents[key] += n
            occurrences[key] += all_of_them
            texts[key] = text
    merged = [each for part in parts for each in listed(part)]
    assert merged == [(key, documents[key], occurrences[key], texts[key]) for key in sorted(texts)]


def test_a_file_that_ends_early_is_told(runs, tmp_path):
    with open(tmp_path / "2", "r+b") as file:
        file.truncate(1000)
    with pytest.raises(OSError, match="ends early"):
        list(merged_by_ranges(runs[0], 1 << 40))
