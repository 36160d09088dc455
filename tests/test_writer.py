"""The page writer: rows in, pages out, whatever their kind and size; errors of its thread surface."""

import itertools
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_suite import blocks, make_block, same

from llsvm.block import concat
from llsvm.errors import DiskError
from llsvm.spill.workspace import Workspace
from llsvm.spill.writer import PageWriter, open_store

NUMBERS = itertools.count()


@pytest.fixture
def workspace(tmp_path):
    with Workspace(tmp_path) as workspace:
        yield workspace


def writer(workspace, page_bytes):
    return PageWriter(page_bytes, lambda: open_store(workspace, f"pages{next(NUMBERS)}", "arrow"))


def as_pieces(block):
    """The rows one by one, so that pages cut in other places compare equal."""
    return [block.slice(i, i + 1) for i in range(block.n_rows)]


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given=st.lists(blocks(), max_size=6), page_bytes=st.integers(1, 3000), by_row=st.booleans())
def test_all_rows_come_back_in_order(workspace, given, page_bytes, by_row):
    pages = writer(workspace, page_bytes)
    expected = []
    for number, block in enumerate(given):
        block.y = block.y.astype(np.int32)  # class ids
        chosen = np.arange(number % 2, block.n_rows, 2) if by_row else np.arange(block.n_rows)
        if by_row:
            pages.append_rows(block, chosen)
        else:
            pages.append(block)
        expected += as_pieces(block.take(chosen))
    assert pages.n_rows == len(expected)
    store = pages.finish()
    if not expected:
        assert store is None or store.n_rows == 0
        return
    found = [piece for i in range(len(store.pages)) for piece in as_pieces(store.read(i))]
    assert len(found) == len(expected)
    assert all(same(a, b) for a, b in zip(found, expected, strict=True))
    assert pages.n_rows == 0
    store.delete()


def test_small_blocks_become_large_pages(workspace):
    pages = writer(workspace, 100_000)
    given = [make_block(20, seed=i, consecutive=False) for i in range(200)]
    for block in given:
        pages.append(block)
    store = pages.finish()
    assert len(store.pages) < 10
    assert same(concat([store.read(i) for i in range(len(store.pages))]), concat(given))


def test_a_writer_is_used_again(workspace):
    pages = writer(workspace, 1000)
    first, second = make_block(100, seed=1), make_block(90, seed=2)
    pages.append(first)
    one = pages.finish()
    pages.append(make_block(50))
    pages.discard()
    pages.append(second)
    two = pages.finish()
    assert (one.n_rows, two.n_rows) == (100, 90)
    assert workspace.used_bytes == one.nbytes + two.nbytes


def test_a_full_disk_surfaces_and_leaves_nothing(tmp_path):
    with Workspace(tmp_path, 20_000) as workspace:
        pages = writer(workspace, 1000)
        many = concat([make_block(50, seed=seed) for seed in range(100)])
        with pytest.raises(DiskError, match="disk limit too small"):
            pages.append_rows(many, np.arange(many.n_rows))
        pages.discard()
        assert workspace.used_bytes == 0
        pages.append(make_block(5))
        assert pages.finish().n_rows == 5


def test_a_thread_interrupted_as_it_starts_ends(workspace, monkeypatch):
    """Else the process would wait for it for ever."""
    start, started = threading.Thread.start, []

    def interrupted(thread):
        start(thread)
        started.append(thread)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    pages = writer(workspace, 100)
    with pytest.raises(KeyboardInterrupt):
        pages.append(make_block(100))
    pages.close()
    started[0].join(10)
    assert not started[0].is_alive()
