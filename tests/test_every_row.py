"""Every row of the cache, in blocks of whole pages, for work that reads them for each product."""

import numpy as np
import pytest
from oracle import dense, rows, small_pages, write_svmlight

from llsvm.data import open_source
from llsvm.memory.budget import MemoryBudget
from llsvm.stream.rereading import EveryRow
from llsvm.stream.stream import Stream

D = 12


@pytest.fixture
def stream(request, tmp_path, monkeypatch):
    """Over 120 rows in the cache, with columns in other units."""
    small_pages(monkeypatch)
    X, y = rows(n=120, d=D, density=request.param)
    source = open_source(write_svmlight(tmp_path / "rows.svm", X, y))
    with Stream(source, MemoryBudget(12_000, 0), tmp_path, scale="maxabs", has_bias=True) as stream:
        stream.read()
        assert stream.place == "cache"
        yield stream


def whole(block, d):
    """(n, d) the block's values."""
    found = dense(block.X)
    return np.hstack([found, np.zeros((block.n_rows, d - found.shape[1]))])


@pytest.mark.parametrize("stream", [0.3, 1.0], indirect=True)
@pytest.mark.parametrize("share", [0.0, 0.6, 3.0])
def test_every_row_is_read_scaled_in_blocks_of_which_some_stay(stream, share):
    every = EveryRow(stream, int(share * stream.dataset.n_rows * stream.dataset.held_bytes_per_row))
    assert every.n_held == {0.0: 0, 3.0: len(every)}.get(share, every.n_held)
    assert 0 <= every.n_held <= len(every)
    d = stream.dataset.n_columns
    X = np.vstack([whole(every.block(number), d) for number in range(len(every))])
    np.testing.assert_allclose(np.abs(X).max(axis=0)[-D:], 1.0, rtol=1e-6)  # scaled
    assert len(X) == every.first[-1] == 120
