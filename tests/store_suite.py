"""What every PageStore must do. A backend's test class sets ``spill_format`` and inherits the rest."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llsvm.block import CSR, Block, concat
from llsvm.errors import DiskError, SpillError
from llsvm.row_buffer import RowBuffer
from llsvm.spill.store import PageStore, Scratch
from llsvm.spill.workspace import Workspace
from llsvm.spill.writer import open_store

# One test, two backends: hypothesis sees two classes run it, on purpose.
quickly = settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)


def make_block(
    n: int,
    *,
    width: int | None = None,
    value: str = "float32",
    y: str = "int32",
    consecutive: bool = True,
    weight: bool = False,
    seed: int = 0,
) -> Block:
    """A random block of ``n`` rows, some empty; dense if ``width`` is given."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 6, n)
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    nnz = int(indptr[-1])
    if width is None:
        index = rng.integers(0, 2**31 - 1, nnz).astype(np.int32)
        X = CSR(indptr, index, rng.standard_normal(nnz).astype(value))
    else:
        X = rng.standard_normal((n, width)).astype(value)
    first = int(rng.integers(0, 2**40))
    rows = first + np.arange(n) if consecutive else rng.permutation(3 * n + 3)[:n].astype(np.int64)
    weights = rng.random(n) if weight else None
    return Block(X, rng.integers(-9, 9, n).astype(y), rows, weights)


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    """Blocks of every kind, whole or as a view into a larger one."""
    n = draw(st.integers(0, 12))
    block = make_block(
        n,
        width=draw(st.none() | st.integers(0, 5)),
        value=draw(st.sampled_from(["float32", "float64"])),
        y=draw(st.sampled_from(["int32", "float64"])),
        consecutive=draw(st.booleans()),
        weight=draw(st.booleans()),
        seed=draw(st.integers(0, 2**32)),
    )
    start = draw(st.integers(0, n))
    return block.slice(start, draw(st.integers(start, n)))


def arrays_of(block: Block) -> Iterator[tuple[str, np.ndarray]]:
    if isinstance(block.X, CSR):
        start, stop = block.X.indptr[0], block.X.indptr[-1]
        yield "indptr", block.X.indptr - start
        yield "indices", block.X.indices[start:stop]
        yield "data", block.X.data[start:stop]
    else:
        yield "X", block.X
    yield "y", block.y
    yield "rows", block.rows
    if block.weight is not None:
        yield "weight", block.weight


def same(a: Block, b: Block) -> bool:
    left, right = dict(arrays_of(a)), dict(arrays_of(b))
    return left.keys() == right.keys() and all(
        x.dtype == right[name].dtype and x.shape == right[name].shape and bool((x == right[name]).all())
        for name, x in left.items()
    )


class StoreSuite:
    spill_format: str

    @pytest.fixture
    def workspace(self, tmp_path):
        with Workspace(tmp_path) as workspace:
            yield workspace

    def store(self, workspace: Workspace, *pages: Block, name: str = "pages") -> PageStore:
        store = open_store(workspace, name, self.spill_format)
        for block in pages:
            store.append(block)
        store.finish()
        return store

    @quickly
    @given(pages=st.lists(blocks(), max_size=6), seed=st.integers(0, 2**32))
    def test_pages_come_back_in_any_order(self, workspace, pages, seed):
        store = self.store(workspace, *pages)
        scratch = Scratch()
        for i in np.random.default_rng(seed).permutation(np.repeat(np.arange(len(pages)), 2)):
            assert same(store.read(i, scratch), pages[i])
            assert same(store.read(i), pages[i])
        assert store.n_rows == sum(block.n_rows for block in pages)
        assert scratch.nbytes == (store.scratch_bytes if pages else 0)
        store.delete()
        assert workspace.used_bytes == 0

    @quickly
    @given(data=st.data(), value=st.sampled_from(["float32", "float64"]), weighted=st.booleans())
    def test_pages_are_filled_into_an_arena(self, workspace, data, value, weighted):
        sizes, seed = (
            data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=5)),
            data.draw(st.integers(0, 99)),
        )
        pages = [
            make_block(n, value=value, weight=weighted, consecutive=i % 2 == 0, seed=seed + i)
            for i, n in enumerate(sizes)
        ]
        store = self.store(workspace, *pages)
        buffer = RowBuffer(1_000_000, np.dtype(value), None, weighted)
        other = RowBuffer(1_000_000, np.dtype("float32" if value == "float64" else "float64"))
        assert store.is_like(buffer)
        assert not store.is_like(other)
        assert not store.is_like(RowBuffer(1_000_000, np.dtype(value), 5))
        rooms = [buffer.extend(block.n_rows, block.nnz) for block in pages]
        for i in reversed(range(len(pages))):  # in any order
            store.fill(i, rooms[i], Scratch())
        assert same(buffer.block(), concat(pages))
        store.delete()

    def test_a_store_may_be_written_over_one_that_is_retired(self, workspace):
        store = self.store(workspace, *[make_block(50, seed=i) for i in range(20)], name="one")
        claimed = workspace.used_bytes
        store.retire()
        with pytest.raises(ValueError, match="deleted"):
            store.read(0)
        page = make_block(9, seed=7)
        shorter = self.store(workspace, page, name="two")
        assert same(shorter.read(0), page)
        assert os.listdir(workspace.folder).count("one") == 0
        assert workspace.path("two").stat().st_size == shorter.nbytes == workspace.used_bytes < claimed
        shorter.delete()
        assert workspace.used_bytes == 0

    @quickly
    @given(block=blocks())
    def test_a_page_is_described_and_fit_for_kernels(self, workspace, block):
        store = self.store(workspace, block)
        (info,) = store.pages
        assert (info.n_rows, info.nnz) == (block.n_rows, block.nnz)
        assert info.is_dense == block.is_dense
        assert info.width == (block.X.shape[1] if block.is_dense else None)
        assert info.nbytes <= store.nbytes
        for _, array in arrays_of(store.read(0, Scratch())):
            assert array.flags.c_contiguous
            assert array.flags.aligned
            assert array.flags.writeable
        store.delete()

    def test_consecutive_rows_take_no_disk(self, workspace):
        counted = self.store(workspace, make_block(10_000), name="a")
        listed = self.store(workspace, make_block(10_000, consecutive=False), name="b")
        assert 78_000 < listed.nbytes - counted.nbytes < 82_000

    def test_account_is_the_size_of_the_file(self, workspace):
        store = self.store(workspace, *(make_block(500, seed=i) for i in range(20)))
        assert store.nbytes == workspace.used_bytes == workspace.path("pages").stat().st_size
        assert sum(page.nbytes for page in store.pages) <= store.nbytes
        store.delete()
        store.delete()
        assert workspace.used_bytes == 0
        assert not workspace.path("pages").exists()

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("different", [1, 200, 5000, 40_000])
    @pytest.mark.parametrize("columns", [50, 70_000, 2**31 - 1])
    def test_packed_pages_come_back(self, workspace, different, columns, dtype):
        rng = np.random.default_rng(different)
        n, k = 4000, 25
        index = np.sort(rng.integers(0, columns, (n, k)), axis=1).astype(np.int32)
        index[7] = rng.permutation(index[7])  # nothing promises that columns ascend
        value = rng.standard_normal(different).astype(dtype)[rng.integers(0, different, n * k)]
        value[:3] = np.nan, -0.0, np.inf
        block = Block(
            CSR(np.arange(n + 1) * k, index.reshape(-1), value), np.zeros(n, np.int32), np.arange(n)
        )
        store = self.store(workspace, block)
        back = store.read(0, Scratch())
        assert np.array_equal(back.X.indices, block.X.indices)
        assert back.X.data.dtype == dtype
        assert np.array_equal(back.X.data.view(np.uint32), value.view(np.uint32))
        itemsize = value.itemsize
        value_bytes = 1 if different <= 200 else 2 if different <= 5000 else itemsize
        index_bytes = 2 if columns <= 70_000 else 4
        table_bytes = itemsize * different
        assert store.nbytes <= (value_bytes + index_bytes) * n * k + 2 * n + 4 * n + table_bytes + 9000

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("different", [1, 300, 40_000])
    def test_packed_dense_pages_come_back(self, workspace, different, dtype):
        rng = np.random.default_rng(different)
        X = rng.standard_normal(different).astype(dtype)[rng.integers(0, different, (999, 101))]
        block = Block(X, np.zeros(999, np.int32), np.arange(999))
        store = self.store(workspace, block)
        assert same(store.read(0, Scratch()), block)
        value_bytes = 1 if different <= 200 else 2 if different <= 5000 else X.itemsize
        assert store.nbytes <= value_bytes * X.size + 4 * 999 + X.itemsize * different + 9000

    def test_a_small_page_of_different_values_says_nothing_of_those_after_it(self, workspace):
        def page(different, n=4000, k=25):
            rng = np.random.default_rng(n)
            index = np.sort(rng.integers(0, 50, (n, k)), axis=1).astype(np.int32)
            value = rng.standard_normal(different).astype(np.float32)[rng.integers(0, different, n * k)]
            return Block(
                CSR(np.arange(n + 1) * k, index.reshape(-1), value), np.zeros(n, np.int32), np.arange(n)
            )

        few = page(200)
        alone = self.store(workspace, few, name="alone").nbytes
        store = self.store(workspace, page(40_000, n=40), few, name="both")
        assert store.nbytes < alone + 20_000  # codes of a byte, not values of four
        assert same(store.read(1), few)

    def test_scratch_is_overwritten_and_own_arrays_are_not(self, workspace):
        first, second = make_block(50, seed=1), make_block(50, seed=2)
        store = self.store(workspace, first, second)
        scratch = Scratch(store.scratch_bytes)
        in_scratch, own = store.read(0, scratch), store.read(0)
        store.read(1, scratch)
        assert scratch.nbytes == store.scratch_bytes
        assert not same(in_scratch, first)
        assert same(own, first)

    def test_appended_arrays_may_be_overwritten(self, workspace):
        block, twin = make_block(50, width=4), make_block(50, width=4)
        store = open_store(workspace, "pages", self.spill_format)
        store.append(block)
        for _, array in arrays_of(block):
            array[:] = 0
        store.finish()
        assert same(store.read(0), twin)

    def test_two_threads_read_at_once(self, workspace):
        pages = [make_block(2000, seed=i, consecutive=i % 2 == 0) for i in range(16)]
        store = self.store(workspace, *pages)
        wrong: list[int] = []

        def reader(seed: int) -> None:
            scratch = Scratch()
            for i in np.random.default_rng(seed).integers(0, len(pages), 200):
                if not same(store.read(i, scratch), pages[i]):
                    wrong.append(i)

        threads = [threading.Thread(target=reader, args=(seed,)) for seed in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []

    def test_order_of_calls(self, workspace):
        store = open_store(workspace, "pages", self.spill_format)
        store.append(make_block(3))
        with pytest.raises(ValueError, match="finish"):
            store.read(0)
        store.finish()
        with pytest.raises(ValueError, match="no more pages"):
            store.append(make_block(3))
        with pytest.raises(IndexError):
            store.read(1)
        store.delete()
        with pytest.raises(ValueError, match="deleted"):
            store.read(0)

    @pytest.mark.parametrize("name", ["y", "rows", "weight", "X"])
    def test_other_types_are_refused(self, workspace, name):
        block = make_block(3, width=2)
        setattr(block, name, np.zeros((3, 2) if name == "X" else 3, np.int8))
        store = open_store(workspace, "pages", self.spill_format)
        with pytest.raises(TypeError, match=f"{name} of type int8"):
            store.append(block)

    @pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9])
    def test_truncation_is_noticed(self, workspace, share):
        pages = [make_block(300, seed=i) for i in range(8)]
        store = self.store(workspace, *pages)
        os.truncate(workspace.path("pages"), int(share * store.nbytes))
        whole = 0
        for i, block in enumerate(pages):
            if all(s.offset + s.nbytes <= int(share * store.nbytes) for s in store.pages[i].segments):
                whole += 1
                assert same(store.read(i), block)
            else:
                what = rf"pages: page {i} of 8: .*expected, .*found \(the file is truncated\).*spill_dir"
                with pytest.raises(SpillError, match=what):
                    store.read(i)
        assert whole <= 8 * share

    @quickly
    @given(place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
    def test_a_changed_byte_is_noticed_or_harmless(self, workspace, place, flip):
        pages = [make_block(8, seed=1), make_block(5, width=3), make_block(4, consecutive=False, weight=True)]
        store = self.store(workspace, *pages)
        offset = int(place * store.nbytes)
        with open(workspace.path("pages"), "r+b") as file:
            file.seek(offset)
            (byte,) = file.read(1)
            file.seek(offset)
            file.write(bytes([byte ^ flip]))
        for i, block in enumerate(pages):
            hit = any(s.offset <= offset < s.offset + s.nbytes for s in store.pages[i].segments)
            if hit:
                with pytest.raises(SpillError, match=rf"page {i} of 3: checksum \w+ expected, \w+ found"):
                    store.read(i)
            else:
                assert same(store.read(i), block)
        store.delete()

    def test_an_unreadable_disk_is_a_spill_error(self, workspace, monkeypatch):
        store = self.store(workspace, make_block(3))

        def fail(*args: object) -> int:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(os, "preadv", fail)
        with pytest.raises(SpillError, match=r"page 0 of 1.*Input/output error"):
            store.read(0)

    def test_short_reads_and_writes_go_on(self, workspace, monkeypatch):
        pwrite, preadv = os.pwrite, os.preadv
        monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:1000], at))
        monkeypatch.setattr(os, "pwritev", lambda fd, pieces, at: pwrite(fd, b"".join(pieces)[:1000], at))
        monkeypatch.setattr(os, "preadv", lambda fd, parts, at: preadv(fd, [parts[0][:700]], at))
        block = make_block(1000)
        assert same(self.store(workspace, block).read(0), block)

    def test_disk_limit(self, tmp_path):
        with Workspace(tmp_path, disk_limit_bytes=50_000) as workspace:
            store = open_store(workspace, "pages", self.spill_format)
            for seed in range(4):
                store.append(make_block(200, seed=seed))
            with pytest.raises(DiskError, match="disk_limit"):
                store.append(make_block(5000))
            assert workspace.path("pages").stat().st_size <= 50_000
            store.delete()
            assert workspace.used_bytes == 0
        assert list(tmp_path.iterdir()) == []

    def test_full_disk(self, workspace, monkeypatch):
        def full(*args: object) -> int:
            raise OSError(28, "No space left on device")

        store = open_store(workspace, "pages", self.spill_format)
        store.append(make_block(200))
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", full)
            patched.setattr(os, "pwritev", full)
            with pytest.raises(DiskError, match=r"pages: cannot write.*No space left.*spill_dir"):
                store.append(make_block(200))
        store.delete()
        assert workspace.used_bytes == 0
