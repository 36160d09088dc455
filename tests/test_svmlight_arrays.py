"""Arrays of blocks that nobody has any more are used again, those that somebody looks at never."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from llsvm.data.svmlight import ReusedArrays, SvmlightSource


def address(array):
    return array.__array_interface__["data"][0]


def test_an_array_is_used_again_once_no_view_of_it_is_left():
    arrays = ReusedArrays()
    first = arrays.take(1000, np.int32)
    place, part = address(first), first[10:20][2:]
    del first
    part[:] = 7
    other = arrays.take(1000, np.int32)
    other[:] = 0
    assert address(other) != place
    assert (part == 7).all()
    del part
    assert address(arrays.take(999, np.int32)) == place
    assert address(arrays.take(999, np.float32)) != place
    assert len(arrays.take(5000, np.int32)) == 5000


def test_what_is_kept_stays_as_it_was():
    """However many arrays are kept, and by however many threads they are taken."""
    arrays = ReusedArrays()

    def take(number):
        mine = arrays.take(100, np.int64)
        mine[:] = number
        arrays.take(100, np.int64)[:] = -1  # let go at once
        return mine

    with ThreadPoolExecutor(4) as pool:
        kept = list(pool.map(take, range(500)))
    assert all((array == number).all() for number, array in enumerate(kept))


def test_reading_a_text_takes_few_arrays(tmp_path):
    path = tmp_path / "text.svm"
    path.write_text("".join(f"{i % 2} 1:0.5 {i % 90 + 2}:{i}\n" for i in range(20_000)))
    places, n_blocks = set(), 0
    for block in SvmlightSource(path, threads=2).blocks(20_000):
        places.add(address(block.X.data))
        n_blocks += 1
        del block
    assert n_blocks > 40
    assert len(places) < n_blocks // 2
