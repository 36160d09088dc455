"""What every reader promises: one suite for the BlockSource protocol, which each reader's tests subclass."""

import numpy as np
import pytest

from llsvm.block import CSR, concat

PLENTY = 1 << 24


def joined(source, max_bytes=PLENTY):
    """All rows of a source as plain arrays: (row lengths, indices, data) or (X,), then y, rows and weight."""
    whole = concat(list(source.blocks(max_bytes)))
    X = whole.X
    if isinstance(X, CSR):
        used = slice(X.indptr[0], X.indptr[-1])
        matrix = (np.diff(X.indptr), X.indices[used], X.data[used])
    else:
        matrix = (X,)
    weight = np.ones(whole.n_rows, np.float32) if whole.weight is None else whole.weight
    return (*matrix, whole.y, whole.rows, weight)


def assert_same(ours, theirs):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


class SourceSuite:
    """Subclass it and give it ``make_source(tmp_path)``: a source with at least three rows, not all alike."""

    max_bytes = (1, 100, 1000, 10_000)

    @pytest.fixture
    def source(self, tmp_path):
        return self.make_source(tmp_path)

    def test_types(self, source):
        for block in source.blocks(1000):
            if isinstance(block.X, CSR):
                assert block.X.indptr.dtype == np.int64
                assert block.X.indices.dtype == np.int32
                assert block.X.data.dtype in (np.float32, np.float64)
                assert len(block.X.indptr) == block.n_rows + 1
            else:
                assert block.X.dtype in (np.float32, np.float64)
                assert block.X.flags.c_contiguous
                assert len(block.X) == block.n_rows
            assert block.rows.dtype == np.int64
            assert block.weight is None or block.weight.dtype == np.float32

    def test_columns_ascend_within_a_row(self, source):
        for block in source.blocks(PLENTY):
            if isinstance(block.X, CSR):
                for i in range(block.n_rows):
                    row = block.X.indices[block.X.indptr[i] : block.X.indptr[i + 1]]
                    assert (np.diff(row) > 0).all()

    def test_two_passes_are_equal(self, source):
        assert_same(joined(source), joined(source))

    def test_passes_may_overlap(self, source):
        alone = joined(source, 100)
        for first, second in zip(source.blocks(100), source.blocks(100), strict=True):
            np.testing.assert_array_equal(first.rows, second.rows)
        assert_same(joined(source, 100), alone)

    def test_an_abandoned_pass_does_no_harm(self, source):
        whole = joined(source)
        abandoned = source.blocks(1)
        next(abandoned)
        abandoned.close()
        assert_same(joined(source), whole)

    def test_blocks_keep_to_their_size(self, source):
        for max_bytes in self.max_bytes:
            for block in source.blocks(max_bytes):
                assert 0 < block.nbytes <= max_bytes or block.n_rows == 1

    def test_block_size_does_not_change_the_data(self, source):
        whole = joined(source)
        for max_bytes in self.max_bytes:
            assert_same(joined(source, max_bytes), whole)

    def test_rows_are_consecutive(self, source):
        for max_bytes in self.max_bytes:
            rows = np.concatenate([block.rows for block in source.blocks(max_bytes)])
            np.testing.assert_array_equal(rows, np.arange(len(rows)))

    def test_held_blocks_are_not_overwritten(self, source):
        held, copies = [], []
        for block in source.blocks(300):
            held.append(block)
            copies.append(block.take(np.arange(block.n_rows)))
        for block, copy in zip(held, copies, strict=True):
            again = block.take(np.arange(block.n_rows))
            parts = zip(again.X, copy.X, strict=True) if isinstance(copy.X, CSR) else [(again.X, copy.X)]
            for a, b in (*parts, (again.y, copy.y), (again.rows, copy.rows)):
                np.testing.assert_array_equal(a, b)

    def test_info_after_a_pass(self, source):
        blocks = list(source.blocks(PLENTY))
        info = source.info()
        assert info.n_rows == sum(block.n_rows for block in blocks)
        assert info.n_bytes > 0
        assert info.index_base in (0, 1)
        for block in blocks:
            if isinstance(block.X, CSR):
                used = block.X.indices[block.X.indptr[0] : block.X.indptr[-1]] - info.index_base
                assert used.min() >= 0
                assert used.max() < info.n_features
            else:
                assert block.X.shape[1] == info.n_features
