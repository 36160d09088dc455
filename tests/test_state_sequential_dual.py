"""The sequential dual method is stopped after passes, and goes on as if it had not been."""

from dataclasses import replace

import numpy as np
import pytest
from oracle import small_pages
from state_suite import Case, check_refuses, check_resumes, first_state

from llsvm.errors import UsageError
from llsvm.solvers.sequential_dual import layout, multipliers
from llsvm.solvers.sequential_dual import solver as run_module
from llsvm.solvers.sequential_dual.multipliers import JointMultipliers
from llsvm.solvers.sequential_dual.problem import lower_costs

METHODS = ["crammer-singer", "weston-watkins"]


def joint(method, **settings):
    return {"solver": "auto", "multiclass": method, **settings}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("threads", "classes"), [(1, 4), (2, 4), (1, 2)])
def test_in_memory(tmp_path, method, threads, classes):
    settings = joint(method, tol=1e-6)
    check_resumes(Case(settings, threads=threads, classes=classes, in_one_block=True), tmp_path)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("threads", "stage"), [(1, 3), (2, 3), (1, 25)])
def test_newtons_method(tmp_path, monkeypatch, method, threads, stage):
    monkeypatch.setattr(JointMultipliers, "price", lambda *_: 0.0)
    monkeypatch.setattr(multipliers, "STAGE_STEPS", stage)
    made = []
    solve = JointMultipliers.solve
    monkeypatch.setattr(
        JointMultipliers, "solve", lambda self, *rest: made.append(solve(self, *rest)) or made[-1]
    )
    settings = joint(method, tol=1e-5, C=1e3)
    check_resumes(
        Case(settings, threads=threads, n=150, classes=4, factor=100.0, in_one_block=True),
        tmp_path,
    )
    assert any(gain > 0 for gain in made)


@pytest.mark.parametrize("method", METHODS)
def test_the_worst_rows_of_many_columns(tmp_path, monkeypatch, method):
    """By Newton's method, after loops that crawl."""
    small_pages(monkeypatch)
    monkeypatch.setattr(layout, "MOST_ORDER", 10)
    monkeypatch.setattr(run_module, "MANY_COLUMNS", 10)
    monkeypatch.setattr(layout, "WORST_ROWS", 10)
    monkeypatch.setattr(run_module, "SLOW", 0.0)
    settled, settle = [], run_module.settle_worst_rows

    def watched(part, loops, room):
        before = loops.D
        settle(part, loops, room)
        settled.append(loops.D - before)

    monkeypatch.setattr(run_module, "settle_worst_rows", watched)
    settings = joint(method, tol=1e-3, C=1e4, max_passes=9)
    case = Case(settings, ledger=100_000_000, n=900, d=150, classes=4, density=0.2, in_one_block=True)
    check_resumes(replace(case, from_file="cache"), tmp_path)
    assert any(gain > 0 for gain in settled)


@pytest.mark.parametrize(
    ("method", "threads", "place", "density"),
    [
        ("crammer-singer", 1, "cache", 0.3),
        ("weston-watkins", 2, "source", 1.0),
        ("crammer-singer", 1, None, 0.3),
        ("weston-watkins", 1, "cache", 0.3),
    ],
)
def test_out_of_core(tmp_path, monkeypatch, method, threads, place, density):
    small_pages(monkeypatch)
    case = Case(
        joint(method, tol=1e-3, max_passes=4),
        ledger=30_000,
        threads=threads,
        n=900,
        classes=4,
        density=density,
        weighted=place is None,
        from_file=place,
        in_one_block=False,
        spills=True if density < 1 and method == "crammer-singer" else None,
    )
    check_resumes(case, tmp_path)


@pytest.mark.parametrize("method", METHODS)
def test_packed_shares_of_many_classes(tmp_path, monkeypatch, method):
    small_pages(monkeypatch)
    settings = joint(method, tol=1e-4, max_passes=3)
    case = Case(settings, ledger=250_000, n=700, classes=40, from_file="cache", in_one_block=False)
    check_resumes(case, tmp_path)


def test_states_of_others_are_refused(tmp_path):
    check_refuses(Case(joint("crammer-singer", max_passes=3), classes=4), tmp_path)


def test_a_state_of_the_other_joint_method_is_refused(tmp_path):
    case = Case(joint("crammer-singer"), classes=4)
    with pytest.raises(UsageError, match="with multiclass crammer-singer, not weston-watkins"):
        Case(joint("weston-watkins"), classes=4).solver().restore(first_state(case, tmp_path))
    assert np.isfinite(first_state(case, tmp_path).arrays["w"]).all()


@pytest.mark.parametrize("method", METHODS)
def test_costs_that_dwarf_the_objective(tmp_path, monkeypatch, method):
    """Smaller ones are taken once the objective is known to be far less."""
    lowered = []
    monkeypatch.setattr(
        run_module, "lower_costs", lambda *rest: lowered.append(lower_costs(*rest)) or lowered[-1]
    )
    settings = joint(method, C=1e9, tol=1e-3)
    check_resumes(Case(settings, n=40, d=150, classes=3, factor=1e3, in_one_block=True), tmp_path)
    assert lowered
