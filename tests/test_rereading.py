"""Rereading: every pass has every row once, wherever rows lie, whatever was read before."""

import numpy as np
import pytest
from oracle import small_pages, write_svmlight
from test_stream import mixed_rows, opened

from llsvm.stream.progress import OutOfTime
from llsvm.stream.rereading import Rereading


class Numbers:
    """Of a block's rows, copied as it comes: it must stay as it is while it is worked on."""

    def __init__(self, block):
        self.rows, self.y = block.rows.copy(), block.y
        self.block = block

    def __len__(self):
        return len(self.rows)


def once(parts, y):
    """The rows of a pass; while each part is worked on, its block is what it was."""
    seen = []
    for part in parts:
        np.testing.assert_array_equal(part.block.rows, part.rows)
        np.testing.assert_array_equal(part.y, y[part.rows])
        seen += part.rows.tolist()
    return seen


def begun(where, tmp_path, monkeypatch):
    small_pages(monkeypatch)
    X, y = mixed_rows("even")
    ledger = 10_000_000 if where == "memory" else 60_000
    cache = {"cache": "always", "source": "never"}.get(where, "auto")
    arrays = where == "arrays"
    data = X if arrays else write_svmlight(tmp_path / "rows.svm", X, y)
    stream = opened(data, tmp_path, y if arrays else None, None, ledger, cache=cache)
    return stream, y


@pytest.mark.parametrize("where", ["cache", "source", "memory", "arrays"])
def test_every_row_once_in_every_pass(monkeypatch, tmp_path, where):
    stream, y = begun(where, tmp_path, monkeypatch)
    with stream:
        reading = Rereading(stream, Numbers)
        orders = [once(reading.all(), y) for _ in range(3)]
        for order in orders:
            assert sorted(order) == list(range(len(y)))
            assert stream.progress.rows_done == len(y)
            assert stream.progress.bytes_done == stream.progress.bytes_total
            assert (stream.progress.bytes_total > 0) == (where == "cache")
        assert (orders[0] != orders[1]) == (where == "cache")
        reading.end()


def test_the_next_pass_is_begun_while_the_last_block_is_worked_on(monkeypatch, tmp_path):
    stream, _ = begun("cache", tmp_path, monkeypatch)
    made = []

    def make(block):
        made.append(block.rows[0])
        return Numbers(block)

    with stream:
        reading = Rereading(stream, make)
        n_blocks = sum(1 for _ in reading.all())
        assert n_blocks > 2
        reading.end()  # by when the thread is at its end
        assert len(made) == n_blocks + 1


@pytest.mark.parametrize("where", ["cache", "source"])
def test_a_pass_that_is_broken_off_is_followed_by_a_whole_one(monkeypatch, tmp_path, where):
    stream, y = begun(where, tmp_path, monkeypatch)
    with stream:
        reading = Rereading(stream, Numbers)
        for _ in reading.all():
            break
        assert sorted(once(reading.all(), y)) == list(range(len(y)))
        parts = reading.all()
        next(parts)
        parts.close()  # as where work on a part raises
        assert sorted(once(reading.all(), y)) == list(range(len(y)))
        reading.end()


def test_time_that_is_over_ends_a_pass(monkeypatch, tmp_path):
    stream, y = begun("cache", tmp_path, monkeypatch)
    with stream:
        reading = Rereading(stream, Numbers)
        once(reading.all(), y)
        stream.progress.stop()
        stream.progress.patience = 0.0
        with pytest.raises(OutOfTime):
            once(reading.all(), y)
        reading.end()
