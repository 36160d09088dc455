"""Work divided over threads: every row once, results in order, errors raised once all is done."""

import ast
import gc
import threading
import time
from pathlib import Path

import pytest

import llsvm
from llsvm.data.text_chunks import Chunk, parse_ahead
from llsvm.process.threads import Pool, Threads, prefetched, row_ranges


@pytest.mark.parametrize("n_rows", [0, 1, 5, 1000])
@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_ranges_hold_every_row_once_in_order(n_rows, parts):
    ranges = row_ranges(n_rows, parts)
    assert len(ranges) == parts
    assert [i for start, stop in ranges for i in range(start, stop)] == list(range(n_rows))
    assert max(stop - start for start, stop in ranges) - min(stop - start for start, stop in ranges) <= 1


def test_each_thread_has_a_range_of_rows_and_results_are_in_order():
    with Threads(3) as threads:
        assert threads.over_rows(10, lambda t, start, stop: (t, start, stop)) == [
            (0, 0, 3),
            (1, 3, 6),
            (2, 6, 10),
        ]


def test_pieces_are_of_one_size_but_the_last_and_results_in_order():
    def work(start, stop):
        time.sleep(0.02 if start == 0 else 0.0)  # the first is done last
        return start, stop

    with Threads(2) as threads:
        assert threads.over_pieces(10, 4, work) == [(0, 4), (4, 8), (8, 10)]
        assert threads.over_pieces(0, 4, work) == []


def test_threads_work_at_the_same_time():
    both = threading.Barrier(2, timeout=10)
    with Threads(2) as threads:
        threads.map(lambda _: both.wait(), range(2))


def test_what_fails_is_raised_once_all_work_is_done():
    done = []

    def work(item):
        if item == 0:
            raise ValueError("the first")
        time.sleep(0.05)
        done.append(item)

    with Threads(2) as threads, pytest.raises(ValueError, match="the first"):
        threads.map(work, range(4))
    assert sorted(done) == [1, 2, 3]


@pytest.mark.parametrize("in_thread", [False, True])
def test_one_item_is_made_ahead_and_errors_come_at_their_turn(in_thread):
    made = []

    def items():
        for number in range(5):
            if number == 3:
                raise ValueError("the fourth")
            made.append(number)
            yield number

    taken = prefetched(items(), in_thread)
    assert next(taken) == 0
    if not in_thread:
        assert made == [0]
    assert [next(taken), next(taken)] == [1, 2]
    assert made == [0, 1, 2]
    with pytest.raises(ValueError, match="the fourth"):
        next(taken)


def test_what_is_made_ahead_ends_when_it_is_closed():
    before = threading.active_count()
    taken = prefetched(iter(range(10)), True)
    assert next(taken) == 0
    assert threading.active_count() == before + 1
    taken.close()
    assert threading.active_count() == before
    assert list(prefetched(iter([]), True)) == []


def test_the_first_item_is_for_the_thread_that_calls():
    found, both = {}, threading.Barrier(2, timeout=10)

    def work(item):
        both.wait()  # at the same time
        found[item] = threading.current_thread()

    with Threads(2) as threads:
        threads.map_with_caller(work, ["a", "b"])
        assert found["a"] is threading.current_thread()
        assert found["b"] is not threading.current_thread()
        threads.map_with_caller(lambda item: found.update({item: None}), [])
        one = []
        threads.map_with_caller(lambda item: one.append(threading.current_thread()), ["c"])
        assert one == [threading.current_thread()]


def test_more_items_than_threads_are_not_for_the_thread_that_calls():
    found = []
    with Threads(2) as threads:
        threads.map_with_caller(lambda item: found.append(threading.current_thread()), range(5))
    assert len(found) == 5
    assert threading.current_thread() not in found


@pytest.mark.parametrize("fails", ["first", "second"])
def test_what_fails_beside_the_caller_is_raised_once_all_work_is_done(fails):
    done, stopped = [], []

    def work(item):
        if item == fails:
            raise ValueError(item)
        time.sleep(0.05)
        done.append(item)

    with Threads(2, lambda: stopped.append(True)) as threads, pytest.raises(ValueError, match=fails):
        threads.map_with_caller(work, ["first", "second"])
    assert len(done) == 1
    assert bool(stopped) == (fails == "first")


def left_behind(work):
    """A generator that only the garbage collector finds, whose thread is at ``work``."""

    def generator():
        with Pool(1, "test") as pool:
            pool.submit(work)
            yield own

    own = [None]
    own[0] = generator()
    next(own[0])


def test_a_generator_that_is_closed_waits_for_its_threads():
    done, begun = [], threading.Event()

    def work(chunk):
        begun.set()
        time.sleep(0.05)
        done.append(chunk.number)
        return chunk.number

    parsed = parse_ahead((Chunk(b"row", number) for number in range(100)), work, 2, 10)
    assert next(parsed)[1]() == 0
    parsed.close()
    count = len(done)
    assert not [each for each in threading.enumerate() if each.name.startswith("llsvm-parse")]
    assert begun.is_set()
    assert len(done) == count < 10


def test_a_generator_that_the_garbage_collector_closes_waits_for_nothing():
    """The collector may run under any lock, also the one that Python holds while a thread starts."""
    may_end, ended = threading.Event(), threading.Event()

    def work():
        may_end.wait()
        ended.set()

    left_behind(work)
    gc.collect()  # would never return
    assert not ended.is_set()
    may_end.set()
    assert ended.wait(20)


def test_generators_have_pools_whose_threads_nobody_joins():
    joining = [
        f"{path.name}:{each.lineno}"
        for path in sorted(Path(llsvm.__file__).parent.rglob("*.py"))
        for each in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(each, ast.FunctionDef)
        and any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(each))
        and any(isinstance(node, ast.Name) and node.id == "ThreadPoolExecutor" for node in ast.walk(each))
    ]
    assert joining == []
