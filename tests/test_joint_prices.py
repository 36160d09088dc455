"""When Newton's method takes over from loops: when these have cost as much as it would."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llsvm.process.work import Work
from llsvm.solvers.sequential_dual.prices import Due, Prices
from llsvm.solvers.sequential_dual.tuning import DEFAULT

N, K, D = 1000, 3, 9


def due(spent, newton=True, begun=False):
    """spent: on loops, of what Newton's method is taken to need, and to start."""
    part = SimpleNamespace(share=np.full((N, K), 0.5), block=SimpleNamespace(nbytes=N * 50))
    dataset = SimpleNamespace(nnz=N * D, n_rows=N, n_columns=D, is_dense=True, classes=np.arange(K))
    step = Work(
        multiplied_rows=2 * K * N,
        multiplied_dense_values=2 * K * N * D,
        dense_matrix_terms=N * (K + 1) ** 2 * (D + 1) ** 2,
        factorizations=1,
        factor_terms=(K * (D + 1)) ** 3 // 3,
    )
    price = spent * DEFAULT.newton_steps * step.seconds
    loops = SimpleNamespace(scores=price / Work(updated_rows=1, updated_dense_values=D).seconds, moved=0.0)
    multipliers = SimpleNamespace(W=np.zeros(1) if begun else None, matrix_numbers=10**6) if newton else None
    return Prices(loops, dataset, DEFAULT).due(multipliers, part)


@pytest.mark.parametrize(("spent", "expected"), [(0.0, Due.NOTHING), (0.99, Due.NOTHING), (1.01, Due.NEWTON)])
def test_newtons_method_begins_when_loops_have_cost_as_much(spent, expected):
    assert due(spent) is expected


def test_nothing_is_due_without_room_or_once_it_has_begun():
    assert due(3.0, newton=False) is Due.NOTHING
    assert due(3.0, begun=True) is Due.NOTHING
