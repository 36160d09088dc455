"""When Newton's method takes over from loops: by what they have cost, and at what rate they close the gap."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from llsvm.solvers.sequential_dual.prices import Due, what_is_due
from llsvm.solvers.sequential_dual.tuning import DEFAULT

N, K, D, TOL, LOSS_AT_ZERO = 1000, 3, 9, 1e-3, 1000.0


def due(spent, gap, newton=True, begun=False):
    """spent: on loops, of what Newton's method is expected to take. gap: relative to the loss at 0."""
    part = SimpleNamespace(share=np.full((N, K), 0.5), block=SimpleNamespace(nbytes=N * 50))
    dataset = SimpleNamespace(nnz=N * D, n_rows=N, n_columns=D, is_dense=True)
    tuning = DEFAULT
    steps = tuning.newton_steps * N * 2 * K * (tuning.step_score + tuning.step_value * D)
    pairs = N * (K + 1) ** 2 * (D + 1) ** 2 * tuning.step_product
    price = steps + tuning.newton_steps * (pairs + (K * (D + 1)) ** 3 * tuning.step_factor)
    scores = (spent * price + tuning.newton_start) / (tuning.score + tuning.score_value * D)
    loops = SimpleNamespace(
        made=0,
        scores=scores,
        moved=0.0,
        dual=LOSS_AT_ZERO * (1 - gap),
        loss_at_zero=lambda part: LOSS_AT_ZERO,
    )
    multipliers = SimpleNamespace(W=np.zeros(1) if begun else None, matrix_numbers=10**6) if newton else None
    return what_is_due(multipliers, loops, part, dataset, tuning, LOSS_AT_ZERO, TOL)


@pytest.mark.parametrize(
    ("spent", "gap", "expected"),
    [
        (0.2, 0.9, Due.NOTHING),  # less than it takes to see how fast they are
        (0.4, 0.9, Due.NEWTON),  # at this rate they would need 26 times what Newton's method does
        (0.5, 0.01, Due.NOTHING),  # two thirds of the way are gone: 0.25 more
        (1.9, 0.01, Due.NOTHING),
        (1.9, 0.05, Due.NEWTON),  # 2.5 more
        (2.1, 0.0011, Due.NEWTON),  # not for ever
        (2.1, 0.0009, Due.NOTHING),  # what is asked for is reached
    ],
)
def test_loops_go_on_while_they_close_the_gap_for_less(spent, gap, expected):
    assert due(spent, gap) is expected


def test_the_rate_decides_where_both_would_cost_the_same():
    """Spent 0.5, closed ln(1 / gap): the rest, ln(gap / tol), costs 1 where ln(gap / tol) = 2 ln(1 / gap)."""
    gap = math.exp(math.log(TOL) / 3)
    assert due(0.5, gap * 1.02) is Due.NEWTON
    assert due(0.5, gap / 1.02) is Due.NOTHING


def test_nothing_is_due_without_room_or_once_it_has_begun():
    assert due(3.0, 0.9, newton=False) is Due.NOTHING
    assert due(3.0, 0.9, begun=True) is Due.NOTHING
