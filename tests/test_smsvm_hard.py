"""Newton's method where others crawl: columns in units of their own, large C, little memory."""

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import rows, run, with_smsvm_tuning, write_svmlight
from test_auto import dataset, left

from llsvm.objective.losses import new_loss
from llsvm.settings.settings import Settings
from llsvm.solvers.auto import choose
from llsvm.solvers.smsvm.layout import layout
from llsvm.solvers.smsvm.multipliers import L1Multipliers


def raw(n=4000, d=12, seed=0):
    """Rows whose columns are given in units from 1e-2 to 1e4, as tables that nobody has scaled are."""
    X, y = rows(n, d, seed, noise=0.6)
    return (X * np.logspace(-2, 4, d)).astype(np.float32).astype(float), y


@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [100.0, 1e4])
def test_units_of_columns_do_not_slow_steps_down(C, loss, penalty):
    training = run(*raw(), solver="smsvm", C=C, loss=loss, penalty=penalty)
    last = training.reports[-1]
    assert last.certificate.relative_gap <= 1e-3
    assert last.passes <= 16
    assert len(training.reports) <= 60  # steps on the rows near the margin among them


@pytest.mark.parametrize("threads", [1, 16])
@pytest.mark.parametrize("dense", [True, False])
def test_where_few_columns_make_a_small_hessian_a_small_limit_has_room_for_it(threads, dense):
    memory = left(dataset(131_000, 74, 74, 2, dense), 5_000_000)
    plan = layout(1, threads, False, new_loss("hinge"), memory)
    assert not plan.wide
    assert plan.most_active == 75
    assert memory.has_room(plan.needs)
    assert choose(Settings(), threads, memory).newton is not None


@pytest.mark.parametrize("layout_of", [np.asarray, sp.csr_matrix])
def test_many_threads_under_a_small_limit_take_small_pieces(layout_of, tmp_path):
    X, y = raw()
    options = {"solver": "smsvm", "threads": 8, "C": 100.0, "spill_dir": str(tmp_path)}
    small = run(layout_of(X), y, ledger=1_500_000, **options)
    assert small.reports[-1].converged
    assert not small.reports[-1].note  # of a Hessian that has no room
    plenty = run(layout_of(X), y, **options)
    primal = [t.reports[-1].certificate.primal[0] for t in (small, plenty)]
    assert primal[0] == pytest.approx(primal[1], rel=1e-3)


@pytest.mark.parametrize("intercept", [False, True])
def test_nearly_separable_rows_that_are_not_in_memory_are_solved_near_the_margin(
    intercept, tmp_path, monkeypatch
):
    rng = np.random.default_rng(3)
    X, w = rng.random((20_000, 12)), rng.standard_normal(12)
    y = np.where(X @ w > np.median(X @ w), 1, 0)
    y[rng.integers(0, len(y), 3)] ^= 1
    path = write_svmlight(tmp_path / "a.svm", X, y)
    options = {"solver": "smsvm", "C": 1e4, "intercept": intercept, "spill_dir": str(tmp_path)}
    best = run(str(path), tol=1e-6, **options).reports[-1].certificate
    assert best.relative_gap <= 1e-6
    with_smsvm_tuning(monkeypatch, patience=4)
    solved = []
    monkeypatch.setattr(
        "llsvm.solvers.smsvm.hard_problems.L1Multipliers",
        lambda *arguments: solved.append(L1Multipliers(*arguments)) or solved[-1],
    )
    training = run(str(path), ledger=3_000_000, **options)
    assert not training.stream.in_one_block
    assert solved
    assert training.reports[-1].converged
    for report in training.reports:
        if (found := report.certificate) is not None:
            assert found.dual[0] <= best.primal[0] * (1 + 1e-9)
            assert found.primal[0] >= best.dual[0] * (1 - 1e-9)


def test_rows_in_memory_of_which_nothing_is_left_to_gain_are_certified():
    """Primal and dual that the method of multipliers ends with are the same number, or rounding puts the dual above
    it: its weights are taken all the same."""
    i, rng = np.arange(1, 81), np.random.default_rng(0)
    X = sp.csr_matrix(
        (np.c_[np.ones(80), i % 7].ravel(), np.c_[i, 199_999 + i % 2].ravel(), np.arange(0, 161, 2)),
        (80, 200_001),
    )
    for C in (0.0085, 0.009, 0.0095):
        some = rng.permutation(80)[:40]
        training = run(X[some].astype(np.float32), i[some] % 2, C=C, penalty="l1", loss="squared_hinge")
        assert training.reports[-1].converged
        assert training.reports[-1].passes <= 3
