"""SparseState: packed rows, as a dense array would have them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llsvm.spill.row_state import RowState
from llsvm.spill.workspace import Workspace
from llsvm.stream.sparse_state import SparseState


def state(n, width, nbytes=1 << 20, dtype=np.float32):
    moved = []

    def overflow():
        moved.append(RowState(n, width, dtype))
        return moved[-1]

    return SparseState(n, width, dtype, nbytes, overflow), moved


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 9), st.sampled_from([100, 400, 700, 5000]))
def test_it_is_an_array(seed, n, width, nbytes):
    """Whatever the room: with garbage, compacted, or moved elsewhere."""
    rng = np.random.default_rng(seed)
    packed, moved = state(n, width, nbytes)
    expected = np.zeros((n, width), np.float32)
    for _ in range(12):
        rows = rng.permutation(n)[: rng.integers(0, n + 1)]
        values = (rng.normal(size=(len(rows), width)) * (rng.random((len(rows), width)) < 0.3)).astype(
            np.float32
        )
        packed.set(rows, values)
        expected[rows] = values
        some = rng.integers(0, n, 7)
        np.testing.assert_array_equal(packed.get(some), expected[some])
    np.testing.assert_array_equal(packed.get(np.arange(n)), expected)
    assert packed.in_memory == (not moved)
    assert len(moved) <= 1


def test_room_is_used_again_before_rows_move():
    n, width = 5000, 50
    packed, _ = state(n, width, nbytes=n * (28 + 3 * 6))  # three values a row
    values = np.zeros((n, width), np.float32)
    values[:, [3, 40]] = 0.5
    for turn in range(6):
        packed.set(np.arange(n), values * (turn + 1))
    assert packed.in_memory
    np.testing.assert_array_equal(packed.get(np.arange(n)), values * 6)
    packed.set(np.arange(n), np.ones_like(values))
    assert not packed.in_memory
    assert (packed.get(np.arange(n)) == 1).all()
    packed.set(np.array([7]), np.zeros((1, width)))
    assert not packed.get(np.array([7])).any()


def test_rows_that_are_not_there():
    packed, _ = state(3, 2)
    with pytest.raises(IndexError):
        packed.get(np.array([3]))
    with pytest.raises(IndexError):
        packed.set(np.array([-1]), np.zeros((1, 2)))


@pytest.mark.parametrize("nbytes", [0, 100_000, 2_000_000, 4_000_000])
def test_it_holds_no_more_than_it_was_given(tmp_path, nbytes):
    """The rows' places count, and so does dropping garbage."""
    n, width = 100_000, 40
    disk = Workspace(tmp_path)
    RowState(10, width, np.float32, disk, "first").set(
        np.arange(10), np.ones((10, width))
    )  # loads and compiles
    tracemalloc.start()
    try:
        state = SparseState(n, width, np.float32, nbytes, lambda: RowState(n, width, np.float32, disk))
        assert tracemalloc.get_traced_memory()[1] <= nbytes + 30_000
        values = np.zeros((4096, width), np.float32)
        values[:, 3] = 1
        for first in [*range(0, n - 4096, 4096)] * 3:
            state.set(np.arange(first, first + 4096), values)
        assert tracemalloc.get_traced_memory()[1] <= nbytes + 2_500_000  # and a step of rows, with its cells
        assert (state.get(np.arange(5000, 5010))[:, 3] == 1).all()
    finally:
        tracemalloc.stop()
        state.close()
        disk.close()
