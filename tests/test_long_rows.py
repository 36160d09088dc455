"""A row of any length is read where the limit has room for it."""

import io

import numpy as np
import pytest
from oracle import run

from llsvm import Model
from llsvm.data import open_source
from llsvm.data.svmlight import SvmlightSource
from llsvm.errors import BudgetError, DataError
from llsvm.memory.plan import MAX_READ_BYTES, READING_PAGES
from llsvm.scoring.predictions import predict_file

MB = 1_000_000
N = 1_500_000  # columns of the long row: more text than twice the largest block that is read


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    path = tmp_path_factory.mktemp("long") / "rows.svm"
    short = [f"{i % 2} " + " ".join(f"{j + 1}:{(i * j) % 7}" for j in range(20)) for i in range(40)]
    row = "1 " + " ".join(f"{j + 1}:1" for j in range(N))
    path.write_text("\n".join([*short[:20], row, *short[20:]]) + "\n")
    assert len(row) > 2 * MAX_READ_BYTES
    return path


@pytest.mark.parametrize("cache", ["auto", "always", "never"])
def test_training(long, tmp_path, cache):
    options = {"cache": cache, "max_passes": 2, "spill_dir": str(tmp_path)}
    training = run(long, ledger=1000 * MB if cache == "auto" else 560 * MB, **options)
    dataset = training.stream.dataset
    assert (dataset.n_rows, dataset.n_features) == (41, N)
    assert training.reports[-1].certificate is not None


def test_where_there_is_no_room_the_limit_that_works_is_named(long):
    with pytest.raises(BudgetError) as caught:
        run(long, ledger=100 * MB, max_passes=2)
    assert not caught.value.at_least
    training = run(long, ledger=caught.value.smallest_bytes, max_passes=2)
    assert training.stream.dataset.n_rows == 41


def test_where_the_row_itself_has_no_room_it_is_not_read_to_name_the_limit(long, monkeypatch):
    """What is named is the least that reading it takes."""
    asked = []
    blocks = SvmlightSource.blocks

    def counted(self, max_bytes):
        asked.append(max_bytes)
        return blocks(self, max_bytes)

    monkeypatch.setattr(SvmlightSource, "blocks", counted)
    with pytest.raises(BudgetError) as caught:
        run(long, ledger=20 * MB, max_passes=2)
    assert caught.value.at_least
    assert caught.value.smallest_bytes > READING_PAGES * long.stat().st_size // 2
    assert max(asked) < 2 * MB


def test_predictions(long):
    model = Model(np.arange(1.0, 21.0)[None, :] - 5, np.zeros(1), np.array([0.0, 1.0]))
    with pytest.raises(BudgetError):
        predict_file(model, open_source(long, zero_based="no"), io.StringIO(), memory_limit="280MB")
    out = io.StringIO()
    # blocks of a megabyte, as far as the long row
    assert predict_file(model, open_source(long, zero_based="no"), out, memory_limit="2GB") == 41
    assert len(out.getvalue().splitlines()) == 41


def test_rows_before_a_long_one_come_once(long):
    from llsvm.scoring.predictions import score_blocks

    model = Model(np.ones((1, 20)), np.zeros(1), np.array([0.0, 1.0]))
    asked = []

    def grow(nbytes):
        asked.append(nbytes)
        return nbytes

    blocks = score_blocks(model, open_source(long, zero_based="no"), 3000, None, grow)
    seen = [int(row) for block, _ in blocks for row in block.rows]
    assert seen == list(range(41))
    assert len(asked) == 1


def test_a_line_in_what_can_be_read_once_only_is_refused(long, monkeypatch):
    with open(long, "rb") as file:
        monkeypatch.setattr("sys.stdin", file)
        with pytest.raises(DataError, match=r"-:21: a line of [\d,]+ bytes, too long"):
            run("-", ledger=400 * MB)
