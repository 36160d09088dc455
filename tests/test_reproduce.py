"""tools/reproduce: the protocol's parts, on rows made up here; the papers' data is not needed."""

import numpy as np
import pytest

from tools.reproduce import sequential_dual


def blobs(n=200, k=3):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(k), [n // 2, n // 4, n - n // 2 - n // 4])
    return (rng.normal(size=(n, 4)) + 2 * rng.normal(size=(k, 4))[y]).astype(np.float32), y


def test_partitions_are_stratified_and_take_every_row_once():
    _, y = blobs()
    parts = list(sequential_dual.partition(y, seed=3))
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(y)))
    for part, share in zip(parts, (0.6, 0.2, 0.2), strict=True):
        np.testing.assert_allclose(np.bincount(y[part]), share * np.bincount(y), atol=1)
    other = list(sequential_dual.partition(y, seed=4))
    assert not np.array_equal(parts[0], other[0])


@pytest.mark.parametrize("method", sequential_dual.METHODS.values())
def test_C_is_chosen_on_validation_rows_and_accuracy_is_that_of_test_rows(monkeypatch, method):
    X, y = blobs()
    seen = []
    accuracy = sequential_dual.accuracy

    def watched(X, y, train, test, **options):
        seen.append((len(train), len(test), options["C"], accuracy(X, y, train, test, **options)))
        return seen[-1][-1]

    monkeypatch.setattr(sequential_dual, "accuracy", watched)
    got, C = sequential_dual.chosen(X, y, 0, method)
    *tried, last = seen
    assert [run[2] for run in tried] == list(sequential_dual.COSTS)
    assert all(run[:2] == (120, 40) for run in tried)
    assert last == (160, 40, C, got)
    assert max(run[3] for run in tried) == {run[2]: run[3] for run in tried}[C]
    assert got > 60


def test_the_table_prints_our_figures_beside_the_papers(monkeypatch, capsys):
    monkeypatch.setattr(sequential_dual, "DATA", {"COVER": blobs})
    monkeypatch.setattr(sequential_dual, "PARTITIONS", 2)
    monkeypatch.setattr(sequential_dual, "COSTS", (0.1, 1.0))
    sequential_dual.table(quick=False)
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split("|")[2].strip() for line in lines] == ["OVR", "CS", "WW"]
    assert "71.35 (0.33)" in lines[0]
    assert "72.40 (0.25)" in lines[2]


def test_a_climb_is_recorded_loop_by_loop():
    X, y = blobs()
    points = sequential_dual.climb(X, y, (True, True), 1e-3, 10.0)
    assert len(points) > 2
    assert (np.diff(points, axis=0) >= 0).all()
