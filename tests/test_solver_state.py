"""What states are made of: best primals, copies of rows' values, and what a state is refused for."""

import numpy as np
import pytest

from llsvm.errors import UsageError
from llsvm.objective.best import BestPrimal
from llsvm.solvers.state import SolverState, copy_rows
from llsvm.spill.row_state import RowState


def test_the_best_primals_go_on_from_copies():
    best, w = BestPrimal(2), np.arange(6.0).reshape(2, 3)
    assert set(best.arrays) == {"best_primal", "best_close_squares"}
    best.offer(np.array([3.0, 4.0]), np.array([1.0, 2.0]), w)
    again = BestPrimal(2)
    again.restore(best.arrays)
    again.offer(np.array([2.0, 5.0]), np.array([7.0, 8.0]), w + 10)
    np.testing.assert_array_equal(again.coef, [w[0] + 10, w[1]])
    np.testing.assert_array_equal(again.primal, [2.0, 4.0])
    np.testing.assert_array_equal(again.close_squares, [7.0, 2.0])
    np.testing.assert_array_equal(best.coef, w)


@pytest.mark.parametrize("width", [1, 3, 20_000])
def test_rows_are_copied_in_pieces(width):
    n = 50_000 if width < 10 else 7
    values = RowState(n, width, np.float32)
    values.set(np.arange(n), np.arange(n * width, dtype=np.float32).reshape(n, width))
    target = RowState(n, width, np.float32)
    pieces = []
    put = target.set
    target.set = lambda rows, some: (pieces.append(some.nbytes), put(rows, some))
    copy_rows(values, target)
    np.testing.assert_array_equal(target.get(np.arange(n)), values.get(np.arange(n)))
    assert len(pieces) > 1
    assert max(pieces) <= max(1 << 16, 4 * width)


def test_states_of_others_are_refused():
    state = SolverState(
        "llsvm", 3, {"C": 1.0}, {"w": np.zeros((2, 3))}, {"share": RowState(4, 2, np.float32)}
    )
    state.require("llsvm", {"C": 1.0})
    state.require_shapes({"w": (2, 3), "share": (4, 2)})
    with pytest.raises(UsageError, match="the state of solver llsvm, which nesvm cannot go on from"):
        state.require("nesvm", {})
    with pytest.raises(UsageError, match=r"with C 1\.0, not 2\.0"):
        state.require("llsvm", {"C": 2.0})
    with pytest.raises(UsageError, match=r"w of shape \(2, 3\), not \(2, 4\)"):
        state.require_shapes({"w": (2, 4)})
    with pytest.raises(UsageError, match=r"alpha of shape None"):
        state.require_shapes({"alpha": (4, 2)})
