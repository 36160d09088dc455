"""How a memory limit is spent: sums that never exceed it, what a larger one does, and the smallest that works."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from oracle import rows, write_svmlight

from llsvm.data import open_source
from llsvm.dataset import DatasetInfo, Pages, ReadingFacts
from llsvm.errors import BudgetError
from llsvm.memory.budget import MemoryBudget
from llsvm.memory.plan import (
    MemoryLeft,
    Needs,
    StoredPages,
    left_after_reading,
    smallest_for,
    smallest_limit,
)
from llsvm.settings.settings import Settings
from llsvm.solvers import make_solver
from llsvm.training.training import Training

SOLVERS = {
    "llsvm": {"solver": "llsvm"},
    "paper": {"solver": "llsvm", "paper": True},
    "ovr": {"solver": "llsvm", "classes": 5},
    "ovo": {"multiclass": "ovo", "classes": 5},
    "smsvm": {"solver": "smsvm"},
    "smsvm l1": {"solver": "smsvm", "penalty": "l1", "C": 0.1},
    "nesvm": {"solver": "nesvm"},
    "nesvm l1": {"solver": "nesvm", "penalty": "l1"},
    "nesvm ovo": {"solver": "nesvm", "multiclass": "ovo", "classes": 4, "intercept": True},
    "kernel": {"kernel": "rbf", "solver": "nesvm"},
    "crammer-singer": {"multiclass": "crammer-singer", "classes": 4},
    "weston-watkins": {"multiclass": "weston-watkins", "classes": 40},
    "auto": {"solver": "auto"},
    "scaled": {"solver": "auto", "scale": "standard"},
    "never cached": {"solver": "llsvm", "cache": "never"},
}


def facts(n_rows=100_000, columns=50, per_row=12.0, classes=2, dense=False, views=False, cached=True):
    per_row = columns if dense else per_row
    held = per_row * (4 if dense else 8) + 20
    n_pages = 0 if views else int(n_rows * held / 50_000) + 1
    pages = Pages(64_000, n_pages, 64_000, int(64_000 / held) + 1, 1 / held, int(held) + 8)
    return DatasetInfo(
        name="rows",
        n_rows=n_rows,
        n_columns=columns,
        first_column=0,
        nnz=int(n_rows * per_row),
        classes=np.arange(classes),
        counts=np.full(classes, n_rows // classes),
        is_dense=dense,
        dtype=np.dtype(np.float32),
        weighted=False,
        squared_norm=per_row,
        pages=pages,
        reading=ReadingFacts(labels_bytes=100 * classes, views=views, cached=cached),
    )


datasets = st.builds(
    facts,
    n_rows=st.integers(10, 3_000_000),
    columns=st.integers(1, 300_000),
    per_row=st.floats(0, 300),
    classes=st.sampled_from([2, 3, 40, 500]),
    views=st.booleans(),
    cached=st.booleans(),
)
needs = st.builds(
    Needs,
    st.builds(lambda nbytes: {"weights": nbytes}, st.integers(0, 20_000_000)),
    row_work_bytes=st.sampled_from([16, 100, 3000]),
    copy_survivors=st.booleans(),
    row_state_bytes=st.sampled_from([0, 4, 400]),
    sparse_state=st.booleans(),
    resident_survivors=st.booleans(),
)
limits = st.integers(1_000_000, 2_000_000_000)


@given(dataset=datasets, needs=needs, limit=limits)
@hypothesis_settings(max_examples=50, deadline=None)
def test_what_is_planned_never_exceeds_the_limit(dataset, needs, limit):
    left = left_after_reading(dataset, limit, {"process": 500_000})
    plan = None if left is None else left.plan(needs)
    if plan is None:
        return
    assert min(plan.lines.values()) >= 0
    assert sum(left.lines.values()) + sum(plan.lines.values()) <= limit
    if not plan.in_one_block:
        assert plan.block_bytes >= plan.pages.largest_bytes  # a page has room in a block
        if needs.resident_survivors:
            assert plan.survivor_bytes == plan.block_bytes == plan.lines["survivors"]
        else:
            assert plan.survivor_bytes == 0
            assert "survivors" not in plan.lines


@given(dataset=datasets, needs=needs, limit=limits)
@hypothesis_settings(max_examples=50, deadline=None)
def test_without_survivors_in_memory_blocks_are_larger(dataset, needs, limit):
    left = left_after_reading(dataset, limit, {})
    plans = [
        None if left is None else left.plan(dataclasses.replace(needs, resident_survivors=resident))
        for resident in (True, False)
    ]
    if plans[0] is None:
        return
    assert plans[1] is not None
    if not plans[0].in_one_block and not plans[1].in_one_block:
        assert plans[1].block_bytes >= plans[0].block_bytes or plans[1].pages != plans[0].pages


@given(dataset=datasets, needs=needs, limit=limits, more=st.integers(0, 300_000_000))
@hypothesis_settings(max_examples=50, deadline=None)
def test_a_larger_limit_never_refuses_what_a_smaller_one_took(dataset, needs, limit, more):
    def takes(limit):
        left = left_after_reading(dataset, limit, {})
        return left is not None and left.has_room(needs)

    assert takes(limit + more) or not takes(limit)


@pytest.mark.parametrize("case", SOLVERS)
@given(
    n_rows=st.integers(10, 300_000),
    columns=st.integers(1, 30_000),
    dense=st.booleans(),
    limit=st.integers(2_000_000, 500_000_000),
    more=st.integers(0, 100_000_000),
)
@hypothesis_settings(max_examples=25, deadline=None)
def test_nor_does_any_solver(case, n_rows, columns, dense, limit, more):
    options = dict(SOLVERS[case])
    dataset = facts(n_rows, columns, classes=options.pop("classes", 2), dense=dense)
    solver = solver_of(dataset, options)

    def takes(limit):
        left = left_after_reading(dataset, limit, {})
        return left is not None and left.has_room(solver(left).needs(left))

    assert takes(limit + more) or not takes(limit)


def solver_of(dataset, options):
    """(left) -> the solver that would be at work."""
    from llsvm.solvers.auto import Auto

    settings, weights = Settings(**options), np.ones(len(dataset.classes))
    if settings.solver == "auto":
        return lambda left: Auto(settings, weights, 2, left)
    return lambda left: make_solver(settings, weights, 2)


@given(dataset=datasets, needs=needs, limit=st.integers(2_000_000, 100_000_000))
@hypothesis_settings(max_examples=50, deadline=None)
def test_a_store_of_pages_that_are_cut_anew_takes_no_part_in_the_plan(dataset, needs, limit):
    """What a limit takes does not hang on how large the pages are that the rows were first written in."""
    size = 4_000_000
    dataset = dataclasses.replace(dataset, reading=ReadingFacts(cached=True))
    large = dataclasses.replace(
        dataset.pages, page_bytes=size, n_pages=1, largest_bytes=size, largest_rows=dataset.n_rows
    )
    left = MemoryLeft(dataset, limit, {}, "cache", None, large)
    written = dataclasses.replace(left, stored=StoredPages(1, dataset.n_rows, 3 * size))
    plan = left.plan(needs)
    if plan is not None and plan.pages.page_bytes < size:
        assert written.plan(needs) == plan


def test_the_smallest_number_that_will_do():
    assert [smallest_limit(lambda n: n >= 1000, floor) for floor in (0, 1, 999, 1000, 5000)] == [
        1000,
        1000,
        1000,
        1000,
        5000,
    ]


def test_many_classes_are_not_refused_for_the_size_of_pages():
    """Work on the rows of 500 classes is more than their bytes, so that large pages, which a larger limit brings,
    need more than it has: they are cut to a size that has room."""
    dataset = facts(n_rows=100_000, columns=1000, classes=500)
    solver = solver_of(dataset, {"solver": "llsvm"})
    smallest = smallest_for(dataset, {}, lambda left: solver(left).needs(left), 1)
    assert sum(smallest.lines.values()) <= smallest.nbytes
    for limit in range(smallest.nbytes, 4 * smallest.nbytes, 1_000_000):
        left = left_after_reading(dataset, limit, {})
        assert left.has_room(solver(left).needs(left)), limit
    assert smallest.nbytes < 90_000_000  # pages of a hundredth of it alone would need 2.3 times as much


# -- what is told beforehand is what is done ----------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """(classes) -> a file of rows of so many classes, that are no more than a megabyte."""
    folder, made = tmp_path_factory.mktemp("rows"), {}

    def file(classes):
        if classes not in made:
            X, y = rows(n=1500, d=30, classes=classes)
            X[:, 3:] *= np.random.default_rng(0).random(X[:, 3:].shape) < 0.3
            made[classes] = write_svmlight(folder / f"{classes}.svm", X, y)
        return made[classes]

    return file


def training(files, case, ledger, tmp_path, dry=False):
    options = dict(SOLVERS[case])
    source = open_source(files(options.pop("classes", 2)))
    settings = Settings(threads=1, max_passes=2, tol=0.9, spill_dir=str(tmp_path), **options)
    return Training(source, settings, budget=MemoryBudget(ledger, 0), dry=dry)


@pytest.mark.parametrize("case", SOLVERS)
def test_the_smallest_limit_works_and_one_less_is_refused(files, tmp_path, case):
    with training(files, case, 20_000_000, tmp_path, dry=True) as run:
        run.plan()
        smallest = run.smallest_limit(1)
    assert sum(smallest.lines.values()) <= smallest.nbytes
    with training(files, case, smallest.nbytes, tmp_path) as run:
        plan = run.plan()
    assert dict(smallest.lines) | dict(plan.lines) == dict(smallest.lines)
    with training(files, case, smallest.nbytes - 1, tmp_path) as run, pytest.raises(BudgetError) as caught:
        run.plan()
    assert (caught.value.limit_bytes, caught.value.smallest_bytes) == (smallest.nbytes - 1, smallest.nbytes)


@pytest.mark.parametrize("ledger", [2_400_000, 4_000_000, 60_000_000])
@pytest.mark.parametrize("case", SOLVERS)
def test_what_is_told_without_writing_is_what_is_done(files, tmp_path, case, ledger):
    """And the ledger has just the lines of the plan."""
    try:
        with training(files, case, ledger, tmp_path, dry=True) as told:
            foretold = told.plan()
    except BudgetError as error:
        with training(files, case, ledger, tmp_path) as run, pytest.raises(BudgetError) as caught:
            run.plan()
        assert caught.value.smallest_bytes == error.smallest_bytes  # noqa: PT017
        return
    with training(files, case, ledger, tmp_path) as run:
        run.read()
        held = dict(run.stream.budget.lines)
    with training(files, case, ledger, tmp_path) as run:
        plan = run.plan()
        assert dict(run.stream.budget.lines) == {**held, **plan.lines}
    assert dataclasses.asdict(plan) == dataclasses.asdict(foretold)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("cache", ["always", "auto", "never"])
def test_rows_are_cut_anew_where_their_pages_are_too_large(tmp_path, cache):
    """The same rows in every pass, of pages smaller than those they were read in; also of rows that were in
    memory."""
    rng, n = np.random.default_rng(0), 80_000
    path = tmp_path / "rows.npy"
    np.save(path, np.c_[rng.normal(size=(n, 30)), np.arange(n) % 2].astype(np.float32))
    source = open_source(path, options={"label": "last"})
    settings = Settings(cache=cache, spill_dir=str(tmp_path), label="last")
    ledger = 24_000_000 if cache == "auto" else 12_000_000
    with Training(source, settings, budget=MemoryBudget(ledger, 0)) as run:
        run.read()
        left = run.stream.memory_left
        assert left.place == {"always": "cache", "auto": "memory", "never": "source"}[cache]
        page_bytes, place = left.pages.page_bytes, left.place
        for left_bytes in (3_500_000, 2_450_000):  # of one solver, then of another that needs more
            weights = {"weights": run.stream.memory_left.available_bytes - left_bytes}
            run.stream.prepare(Needs(weights, 96, row_state_bytes=4))
            assert run.stream.place == ("cache" if place == "memory" else place)
            assert run.stream.plan.pages.page_bytes < page_bytes
            page_bytes = run.stream.plan.pages.page_bytes
            for _ in range(2):
                seen = np.concatenate([block.rows.copy() for block in run.stream.all()])
                np.testing.assert_array_equal(np.sort(seen), np.arange(n))
            run.stream.reset()
