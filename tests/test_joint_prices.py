"""When Newton's method takes over from loops: when these have cost as much as it would."""

from __future__ import annotations

import numpy as np
import pytest

from llsvm.process.work import Work
from llsvm.solvers.sequential_dual.multipliers import (
    STAGE_STEPS,
    JointMultipliers,
    NewtonRoom,
    line_bytes,
    newton_prices,
)

N, K, D = 1000, 3, 9


def price(dense, width, room_bytes, in_memory=True):
    """With so many columns, D values a row and 100 rows on a face."""
    prices = newton_prices(dense, (width, K), D, room_bytes)
    return JointMultipliers(NewtonRoom(room_bytes, True), prices, in_memory).price(N, 100)


def test_newtons_method_costs_what_its_steps_do():
    step = Work(
        multiplied_rows=2 * K * N,
        multiplied_dense_values=2 * K * N * D,
        dense_matrix_terms=100 * (D + 1) ** 2 // 2,
        factorizations=1,
        factor_terms=(K * (D + 1)) ** 3 // 3,
        solved_terms=(K * (D + 1)) ** 2,
    )
    assert price(True, D + 1, 10**6) == pytest.approx(STAGE_STEPS * step.seconds)


def test_newtons_method_has_no_price_without_room():
    assert price(False, 10**5, 10**3) == np.inf
    assert price(False, 10**5, 10**8) < np.inf  # by the rows
    assert price(False, 10**5, 10**8, in_memory=False) == np.inf


def test_blocks_of_the_matrix_of_columns_have_room_one_for_each_thread_that_makes_one():
    d, order = D + 1, K * (D + 1)
    without, with_them = (
        line_bytes((d, K), 8, matrices) - matrices for matrices in (8 * order**2 - 1, 8 * order**2)
    )
    assert with_them - without == 8 * K * d**2
