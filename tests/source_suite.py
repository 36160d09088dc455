"""What every reader promises: one suite for the BlockSource protocol, which each reader's tests subclass; and what
a source that wraps another promises besides."""

from dataclasses import fields, replace

import numpy as np
import pytest

from llsvm.block import CSR, Block, concat
from llsvm.data.source import Parsing, SourceInfo
from llsvm.features.encoder import TableEncoder
from llsvm.files.fingerprint import FileFingerprint
from llsvm.objective.rounding import Rounding
from llsvm.settings.objective import UNLABELLED

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
    weight = np.ones(whole.n_rows) if whole.weight is None else whole.weight
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
            assert block.weight is None or block.weight.dtype == np.float64

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


class Declaring:
    """A source of three rows whose declaration has in every field a value other than the default's: one that a
    wrapper makes anew, instead of from the wrapped one's, is noticed."""

    def __init__(self, **fields):
        self.bytes_read = 12_345
        encoder = TableEncoder.of_numbers(("height", "width"))
        self._info = SourceInfo(
            **{
                "name": "inner.csv",
                "format": "inner",
                "n_bytes": 99,
                "n_rows": 3,
                "n_features": 2,
                "rereadable": False,
                "in_memory": True,
                "index_base": 1,
                "feature_names": ("height", "width"),
                "first_indicator": 1,
                "reader_bytes": 77,
                "library_bytes": 55,
                "is_dense": True,
                "is_table": True,
                "labelled": False,
                "label_kind": UNLABELLED,
                "scale_targets": True,
                "fingerprints": (FileFingerprint("inner.csv", 99, (("bytes", b"12345678"),)),),
                "file_rows": (3,),
                "notes": ("inner note",),
                "class_names": ("no", "yes"),
                "encoder": encoder,
                "describe": lambda: [],
                "record_batches": lambda max_bytes: iter(()),
                "columns": lambda names, max_bytes: iter(()),
                "rounding": (Rounding(squares=1.0),),
                "parsing": (Parsing(),),
                **fields,
            }
        )

    def info(self):
        return self._info

    def blocks(self, max_bytes):
        X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
        yield Block(X, np.array([1.0, 2.0, 1.0]), np.arange(3))


class WrapperSuite(SourceSuite):
    """For sources that wrap others. Besides ``make_source`` give it

    wrap(source): the wrapper around ``source``.
    changes: field of SourceInfo -> why the wrapper does not declare what the wrapped source does.
    """

    changes: dict[str, str]

    def wrapped(self):
        inner = Declaring()
        return inner, self.wrap(inner)

    def test_every_field_is_kept_or_changed_for_a_reason(self):
        inner, outer = self.wrapped()
        names = {each.name for each in fields(SourceInfo)}
        assert set(self.changes) <= names
        for name in names:
            same = getattr(outer.info(), name) == getattr(inner.info(), name)
            assert same == (name not in self.changes), f"{name}: {self.changes.get(name, 'is to be kept')}"

    def test_what_was_read_is_counted_as_the_wrapped_source_does(self):
        inner, outer = self.wrapped()
        list(outer.blocks(PLENTY))
        assert outer.bytes_read == inner.bytes_read

    def test_what_is_learned_later_is_declared_later(self):
        inner, outer = self.wrapped()
        inner._info = replace(inner._info, notes=("another",))
        assert outer.info().notes == ("another",)
