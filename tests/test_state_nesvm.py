"""NESVM stopped after each pass, linear and with kernels, goes on in a new object over a new stream."""

from dataclasses import replace

import numpy as np
import pytest
import state_suite
from oracle import rows, small_pages
from sklearn.metrics.pairwise import rbf_kernel
from state_suite import Case, check_refuses, check_resumes, first_state

from llsvm.errors import UsageError

CHOSEN = {"solver": "nesvm", "tol": 1e-3, "C": 0.1, "max_passes": 30}
LINEAR = {
    "binary": Case(CHOSEN),
    "two threads": Case(CHOSEN, threads=2),
    "weighted, sparse": Case(CHOSEN, weighted=True, density=0.3),
    "intercept, ovr": Case({**CHOSEN, "bias": 0.0, "intercept": True}, classes=3, n=200),
    "ovo": Case({**CHOSEN, "multiclass": "ovo"}, classes=3, n=200),
    "least squares": Case({**CHOSEN, "loss": "least-squares", "bias": 0.0, "intercept": True, "tol": 1e-7}),
    "squared hinge": Case({**CHOSEN, "loss": "squared_hinge", "bias": 0.0, "intercept": True, "tol": 1e-6}),
    "l1": Case({**CHOSEN, "penalty": "l1", "max_passes": 200, "tol": 0.02}, n=100),
    "paper's step": Case({**CHOSEN, "step": "paper", "stop": "change", "max_passes": 15}),
    "paper's step, least squares": Case(
        {**CHOSEN, "loss": "least-squares", "step": "paper", "max_passes": 30}, n=100
    ),
    "out of passes": Case({**CHOSEN, "tol": 1e-9, "max_passes": 12}),
}


@pytest.mark.parametrize("case", LINEAR.values(), ids=LINEAR)
def test_goes_on_as_if_it_had_not_stopped(case, tmp_path):
    check_resumes(case, tmp_path)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("where", ["cache", "source"])
def test_goes_on_over_blocks_from_disk(where, threads, tmp_path, monkeypatch):
    small_pages(monkeypatch)
    case = Case({**CHOSEN, "max_passes": 4}, 38_000, threads, n=400, from_file=where, in_one_block=False)
    check_resumes(case, tmp_path)


KERNEL = {"solver": "nesvm", "kernel": "rbf", "gamma": 0.2, "tol": 1e-4, "bias": 0.0, "max_passes": 25}
KERNELS = {
    "binary": Case({**KERNEL, "intercept": True}, n=100),
    "two threads": Case(KERNEL, threads=2, n=100),
    "poly, ovr, bias": Case(
        {**KERNEL, "kernel": "poly", "degree": 2, "bias": 1.0, "tol": 0.01}, classes=3, n=80
    ),
    "ovo, weighted": Case({**KERNEL, "multiclass": "ovo"}, classes=3, n=100, weighted=True),
    "least squares": Case({**KERNEL, "loss": "least-squares", "intercept": True}, n=100),
    "squared hinge": Case({**KERNEL, "loss": "squared_hinge", "intercept": True}, n=100),
    "linear": Case({**KERNEL, "kernel": "linear", "C": 0.01}, n=60),
}


@pytest.mark.parametrize("case", KERNELS.values(), ids=KERNELS)
def test_kernel_machines_go_on_as_if_they_had_not_stopped(case, tmp_path):
    check_resumes(case, tmp_path)


def test_kernel_machines_go_on_with_a_matrix_on_disk(tmp_path, monkeypatch):
    small_pages(monkeypatch)
    case = Case({**KERNEL, "tol": 0.1}, 1_000_000, n=500, d=20, from_file="cache")
    assert 8 * case.n**2 > case.ledger
    check_resumes(case, tmp_path)


def test_kernel_machines_go_on_with_a_matrix_that_was_given(tmp_path, monkeypatch):
    """Its rows come in random order from the cache, which must go on too."""
    small_pages(monkeypatch)

    def kernel_matrix(n, d, classes, density):
        X, y = rows(n=n, d=5, classes=classes, density=density)
        return rbf_kernel(X, gamma=0.1) + 0.1 * np.eye(n), y

    monkeypatch.setattr(state_suite, "rows", kernel_matrix)
    settings = {**KERNEL, "kernel": "precomputed", "gamma": None, "tol": 0.01, "max_passes": 6}
    check_resumes(Case(settings, 220_000, n=120, d=120, from_file="cache", in_one_block=False), tmp_path)


@pytest.mark.parametrize("case", [LINEAR["binary"], KERNELS["two threads"]], ids=["linear", "kernel"])
def test_states_of_something_else_are_refused(case, tmp_path):
    check_refuses(case, tmp_path)


@pytest.mark.parametrize("case", [LINEAR["binary"], KERNELS["two threads"]], ids=["linear", "kernel"])
def test_damaged_states_are_refused(case, tmp_path):
    state = first_state(case, tmp_path)
    name = next(iter(state.arrays))
    numbers = dict(state.numbers)
    damaged = [
        (replace(state, arrays={**state.arrays, name: np.zeros(3)}), f"{name} of shape"),
        (
            replace(state, arrays={k: v for k, v in state.arrays.items() if k != name}),
            f"{name} of shape None",
        ),
        (
            replace(state, numbers={k: v for k, v in numbers.items() if k != "problem 0 mu"}),
            "does not belong to this run: 'problem 0 mu' is None",
        ),
        (replace(state, numbers={**numbers, "problem 0 mu": "large"}), "'problem 0 mu' is 'large'"),
    ]
    for wrong, said in damaged:
        with case.stream(tmp_path) as stream, pytest.raises(UsageError, match=said):  # noqa: PT012
            solver = case.solver()
            solver.restore(wrong)
            next(solver.solve(stream))
