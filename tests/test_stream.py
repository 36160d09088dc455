"""The stream: every row once in every pass, from wherever it lies, and never more memory than the ledger has."""

import os
import tracemalloc
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from cells import pairwise
from oracle import dense, rows, run, small_pages, write_svmlight

from llsvm.data import open_source
from llsvm.errors import BudgetError
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.plan import Needs
from llsvm.row_buffer import RowBuffer
from llsvm.solvers.llsvm.epochs import Epochs
from llsvm.stream.passes import prepared
from llsvm.stream.stream import Stream

LEDGER = 30_000
OVERHEAD_BYTES = 400_000  # small objects, the solver's threads: part of the process, not of the ledger


def opened(data, folder, y=None, weight=None, ledger=LEDGER, **options):
    stream = Stream(open_source(data, y, weight), MemoryBudget(ledger, 0), folder, **options)
    stream.read()
    stream.prepare(Needs({}, 100))
    return stream


def mixed_rows(kind, n=600, d=40):
    """Rows of very different lengths, one kind after the other, as sorted files have them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).astype(np.float32)
    short = {
        "short first": slice(0, n // 2),
        "long first": slice(n // 2, n),
        "few long": slice(0, n - n // 50),
    }
    if kind in short:
        X[short[kind], 1:] = 0
    elif kind == "few empty":
        X[: int(0.4 * n)] = 0
    return X.astype(float), rng.integers(0, 2, n)


KINDS = ["even", "short first", "long first", "few long", "few empty"]


@pytest.mark.parametrize(
    ("kind", "where", "spill_format"),
    pairwise(KINDS, ["cache", "source", "memory", "arrays", "sparse arrays"], ["arrow", "hdf5"]),
)
def test_every_row_once_in_every_pass(monkeypatch, tmp_path, kind, where, spill_format):
    small_pages(monkeypatch)
    X, y = mixed_rows(kind)
    ledger = 10_000_000 if where == "memory" else 60_000
    if where.endswith("arrays"):
        data, labels = (sp.csr_matrix(X) if where == "sparse arrays" else X), y
    else:
        data, labels = write_svmlight(tmp_path / "rows.svm", X, y), None
    cache = {"cache": "always", "source": "never"}.get(where, "auto")
    with opened(data, tmp_path, labels, None, ledger, cache=cache, spill_format=spill_format) as stream:
        assert stream.place == ("memory" if where.endswith("arrays") else where)
        first = stream.dataset.first_column
        for _ in range(2):
            seen, blocks = [], 0
            for block in stream.all():
                wide = np.zeros((block.n_rows, stream.dataset.n_columns))
                matrix = dense(block.take(np.arange(block.n_rows)).X)
                wide[:, : matrix.shape[1]] = matrix
                np.testing.assert_array_equal(wide[:, first:], X[block.rows])
                np.testing.assert_array_equal(block.y, y[block.rows])
                assert block.n_rows <= stream.plan.block_rows
                seen += block.rows.tolist()
                blocks += 1
            assert sorted(seen) == list(range(len(y)))
            assert (blocks == 1) == (where == "memory")


def test_blocks_of_the_cache_come_in_random_order(monkeypatch, tmp_path):
    small_pages(monkeypatch)
    X, y = mixed_rows("even")
    path = write_svmlight(tmp_path / "rows.svm", X, y)

    def order(seed):
        with opened(path, tmp_path, cache="always", seed=seed) as stream:
            return [[block.rows[0] for block in stream.all()] for _ in range(2)]

    first, second = order(1)
    assert first != second
    assert order(1) == [first, second]
    assert order(2) != [first, second]


@pytest.mark.parametrize("where", ["cache", "source"])
def test_the_next_block_is_prepared_while_one_is_worked_on(monkeypatch, tmp_path, where):
    """What it is prepared with is what there was before work on that one began, whatever the timing."""
    small_pages(monkeypatch)
    X, y = mixed_rows("even")
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    worked_on = []
    with opened(path, tmp_path, cache="always" if where == "cache" else "never") as stream:

        def begin():
            seen = len(worked_on)
            return lambda block: (seen, block, block.rows.copy())

        for seen, block, numbers in prepared(stream.again, begin):
            assert seen == (max(len(worked_on) - 1, 0) if where == "cache" else len(worked_on))
            np.testing.assert_array_equal(block.rows, numbers)
            np.testing.assert_array_equal(block.y, y[numbers])
            worked_on.append(numbers)
    assert len(worked_on) > 2
    assert sorted(np.concatenate(worked_on)) == list(range(len(y)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "d", "cache", "spill_format"), pairwise(KINDS, (4, 400), ("always", "never"), ("arrow", "hdf5"))
)
def test_training_holds_no_more_than_the_ledger(monkeypatch, tmp_path, kind, cache, d, spill_format):
    """Counted by tracemalloc, which knows every NumPy array; a buffer counts as what it may come to hold."""
    X, y = mixed_rows(kind, n=max(40_000 // d, 120), d=d)
    text = write_svmlight(tmp_path / "rows.svm", X, y).read_text().splitlines(keepends=True)
    path = tmp_path / "rows.svm"
    path.write_text("".join(line * 16 for line in text))
    options = {"cache": cache, "spill_format": spill_format, "spill_dir": str(tmp_path), "max_passes": 3}
    for ledger in (None, 5_000_000):
        run(path, ledger=ledger, **options)  # imports and compiles
    buffers, peaks = [], []
    made, prepare = RowBuffer.__init__, Stream.prepare

    def counting(self, *args, **kwargs):
        made(self, *args, **kwargs)
        buffers.append(weakref.ref(self))

    def note_peak():
        """The peak since the last note, the buffers that live now counted as what they may come to hold."""
        spared = 0
        for buffer in filter(None, (ref() for ref in buffers)):
            arrays = (buffer._indptr, buffer._rows, buffer._y, buffer._weight, buffer._indices, buffer._data)
            spared += sum(array.nbytes for array in arrays) - buffer.capacity_bytes
        peaks.append(tracemalloc.get_traced_memory()[1] - spared)
        tracemalloc.reset_peak()

    def noting(self, *args, **kwargs):
        if self.place == "memory":  # later it would be gone, and its peak still counted
            note_peak()
            prepare(self, *args, **kwargs)
            tracemalloc.reset_peak()
        else:
            tracemalloc.reset_peak()
            prepare(self, *args, **kwargs)

    monkeypatch.setattr(RowBuffer, "__init__", counting)
    monkeypatch.setattr(Stream, "prepare", noting)
    survivor_epochs = Epochs.over_survivors

    def noting_epochs(self, *args):
        answer = survivor_epochs(self, *args)
        note_peak()
        return answer

    monkeypatch.setattr(Epochs, "over_survivors", noting_epochs)
    try:
        tracemalloc.start()
        run(path, ledger=5_000_000, **options)
    finally:
        tracemalloc.stop()
    assert peaks
    assert max(peaks) <= 5_000_000 + OVERHEAD_BYTES


def test_the_smallest_limit_named_is_enough(tmp_path):
    for d, classes in ((5, 2), (400, 2), (5, 12)):
        X, y = rows(n=6000 if d == 5 else 1500, d=d, classes=classes)
        path = write_svmlight(tmp_path / f"{d}.svm", X, y)
        ledger = 600_000
        for _ in range(2):
            try:
                run(path, ledger=ledger, max_passes=2, spill_dir=str(tmp_path))
                break
            except BudgetError as error:
                assert error.smallest_bytes > ledger  # noqa: PT017
                ledger = error.smallest_bytes
        else:
            pytest.fail(f"{ledger} bytes were named as enough and refused")


def test_rows_of_a_changed_file_are_noticed(monkeypatch, tmp_path):
    small_pages(monkeypatch)
    X, y = mixed_rows("even")
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    with opened(path, tmp_path, cache="never", ledger=60_000) as stream:
        with open(path, "a") as file:
            file.write("1 1:1\n")
        with pytest.raises(ValueError, match="changed while it was in use"):
            list(stream.all())


def test_a_file_that_changes_during_a_later_pass_is_noticed(monkeypatch, tmp_path):
    small_pages(monkeypatch)
    X, y = mixed_rows("even")
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    os.utime(path, ns=(0, 0))
    with opened(path, tmp_path, cache="never", ledger=60_000) as stream:
        assert sum(block.n_rows for block in stream.all()) == len(y)
        blocks = stream.all()
        next(blocks)
        os.utime(path)  # as whoever writes the same number of bytes does
        with pytest.raises(ValueError, match="changed while it was in use"):
            list(blocks)


def test_a_column_that_first_appears_late_leaves_mostly_filled_rows_in_memory(monkeypatch, tmp_path):
    small_pages(monkeypatch)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 40)).astype(np.float32), rng.integers(0, 2, 600)
    X[:-1, 39] = 0  # of the last row alone
    X[:200, 30:] = 0  # of later pages
    path = write_svmlight(tmp_path / "rows.svm", X.astype(float), y)
    with opened(path, tmp_path, ledger=10_000_000) as stream:
        assert (stream.place, stream.dataset.is_dense) == ("memory", True)
        assert stream.bytes_read == path.stat().st_size
        (block,) = stream.all()
        np.testing.assert_array_equal(block.X[:, 1:], X)
        np.testing.assert_array_equal(block.y, y)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["rows.svm"]


def test_a_far_column_does_not_blow_mostly_filled_rows_up(monkeypatch, tmp_path):
    small_pages(monkeypatch)
    X, y = mixed_rows("even")
    path = write_svmlight(tmp_path / "rows.svm", X, y)
    path.write_text(path.read_text() + "1 1000000:1\n")
    with opened(path, tmp_path, ledger=10_000_000) as stream:
        assert not stream.dataset.is_dense
        assert sum(block.n_rows for block in stream.all()) == 601
