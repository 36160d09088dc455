"""When Newton's method takes over from loops: when these have cost as much as it would."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llsvm.process.work import Work
from llsvm.solvers.sequential_dual.prices import PAIRS, STEPS, Prices

N, K, D = 1000, 3, 9


def test_newtons_method_costs_what_its_steps_do():
    part = SimpleNamespace(share=np.full((N, K), 0.5), block=SimpleNamespace(nbytes=N * 50))
    dataset = SimpleNamespace(nnz=N * D, n_rows=N, n_columns=D, is_dense=True, classes=np.arange(K))
    step = Work(
        multiplied_rows=2 * K * N,
        multiplied_dense_values=2 * K * N * D,
        dense_matrix_terms=N * PAIRS * (D + 1) ** 2,
        factorizations=1,
        factor_terms=(K * (D + 1)) ** 3 // 3,
    )
    assert Prices(dataset).newton(part, 10**6) == pytest.approx(STEPS * step.seconds)


def test_newtons_method_has_no_price_without_room():
    wide = 10**5
    part = SimpleNamespace(share=np.full((N, K), 0.5), block=SimpleNamespace(nbytes=N * 50))
    dataset = SimpleNamespace(nnz=N * D, n_rows=N, n_columns=wide, is_dense=False, classes=np.arange(K))
    assert Prices(dataset).newton(part, 10**6) == np.inf
    assert Prices(dataset).newton(part, 10**8) < np.inf  # by the rows
