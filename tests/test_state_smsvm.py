"""SmSVM and auto can be stopped after any pass, and go on as if they had not been."""

from dataclasses import replace

import numpy as np
import pytest
from oracle import liblinear, rows, small_pages, sweeps_alone
from state_suite import Case, check_refuses, check_resumes, kept

from llsvm.errors import UsageError
from llsvm.solvers.auto import Auto
from llsvm.solvers.llsvm.solver import LLSVM
from llsvm.solvers.smsvm.solver import SmSVM
from llsvm.solvers.smsvm.tuning import SmSVMTuning

SMALL = SmSVMTuning(piece_bytes=4000)


@pytest.fixture(autouse=True)
def without_second_order(monkeypatch):
    """Else coordinate descent would be on no trial, and solve these alone."""
    sweeps_alone(monkeypatch)


def case(*, C=1.0, loss="hinge", tuning=SMALL, **more):
    settings = {"solver": "smsvm", "C": C, "loss": loss, **more.pop("settings", {})}
    return Case(settings, make=lambda *arguments: SmSVM(*arguments, tuning=tuning), **more)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("classes", [2, 3])
def test_in_memory(loss, classes, threads, tmp_path):
    check_resumes(
        case(loss=loss, classes=classes, threads=threads, weighted=True, in_one_block=True), tmp_path
    )


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("settings", [{"penalty": "l1"}, {"penalty": "elasticnet", "l1_ratio": 0.3}])
def test_with_an_l1_part(settings, loss, tmp_path):
    check_resumes(case(settings=settings, loss=loss, classes=3, C=0.1), tmp_path)


@pytest.mark.parametrize(("place", "ledger"), [("cache", 40_000), ("source", 160_000)])
def test_beyond_memory(place, ledger, tmp_path, monkeypatch):
    """With room for rows near the margin, and without."""
    small_pages(monkeypatch)
    settings = {"tol": 1e-3, "max_passes": 8}
    limits = {"ledger": ledger, "from_file": place, "in_one_block": False}
    check_resumes(case(n=1500, d=6, density=0.9, settings=settings, **limits), tmp_path)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_wide_rows_in_memory(loss, tmp_path):
    check_resumes(case(n=60, d=600, C=1e-3, loss=loss, settings={"tol": 1e-3}), tmp_path)


def test_wide_rows_by_their_columns(tmp_path):
    check_resumes(case(n=60, d=600, C=0.02, settings={"penalty": "l1"}), tmp_path)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_between_the_products_of_a_step(loss, tmp_path, monkeypatch):
    """Where no Hessian has room and the rows are on disk, each product of conjugate gradients is a pass."""
    small_pages(monkeypatch)
    tuning = SmSVMTuning(max_active=30, piece_bytes=1280)
    settings = {"tol": 0.05, "max_passes": 9}
    options = {"n": 400, "d": 150, "density": 0.1, "ledger": 90_000, "from_file": "cache"}
    check_resumes(case(C=1e-2, loss=loss, tuning=tuning, settings=settings, **options), tmp_path)


def test_refusals(tmp_path):
    check_refuses(case(), tmp_path)


def test_another_memory_limit_is_refused(tmp_path):
    limited = case(d=20, settings={"penalty": "l1"}, tuning=replace(SMALL, max_active=10))
    with limited.stream(tmp_path) as stream:
        solver = limited.solver()
        next(solver.solve(stream))
        state = kept(solver.state())
    whole = case(d=20, settings={"penalty": "l1"})
    with whole.stream(tmp_path) as stream:
        solver = whole.solver()
        solver.restore(state)
        with pytest.raises(UsageError, match="another memory limit"):
            next(solver.solve(stream))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_state_of_coordinate_descent_is_a_warm_start(loss, tmp_path):
    newton = case(loss=loss, settings={"tol": 1e-3})
    first = replace(newton, settings={**newton.settings, "solver": "llsvm"}, make=LLSVM)
    with first.stream(tmp_path) as stream:
        solver = first.solver()
        before = list(solver.solve(stream))[-1]
        state = kept(solver.state())
    with newton.stream(tmp_path) as stream:
        solver = newton.solver()
        solver.restore(state)
        report = next(solver.solve(stream))
    assert report.passes == state.passes + 1
    assert report.converged  # at zero weights: the best are those that were measured before
    assert report.certificate.primal == pytest.approx(before.certificate.primal)
    with pytest.raises(UsageError, match=r"with C 1\.0, not 3\.0"):
        replace(newton, settings={**newton.settings, "C": 3.0}).solver().restore(state)


# -- auto -----------------------------------------------------------------------------------------------------


def change_soon(monkeypatch):
    """Let trials end on few rows."""
    monkeypatch.setattr("llsvm.solvers.auto.NEWTON_START", 0.0)
    monkeypatch.setattr("llsvm.solvers.auto.ROUNDS_TO_COME", 1000)


def auto_case(folder, tuning, **more):
    """Auto asks for the memory that is left when it is made."""
    wanted = Case({"solver": "auto", "tol": 1e-4, **more.pop("settings", {})}, **more)
    with wanted.stream(folder) as stream:
        memory = stream.memory_left

    def make(settings, class_weight, threads):
        return Auto(settings, class_weight, threads, memory, tuning)

    return replace(wanted, make=make)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("threads", [1, 2])
def test_auto_changes_the_solver_wherever_it_is_stopped(loss, threads, tmp_path, monkeypatch):
    change_soon(monkeypatch)
    wanted = auto_case(tmp_path, SMALL, n=600, settings={"C": 10.0, "loss": loss}, threads=threads)
    with wanted.stream(tmp_path) as stream:
        solver = wanted.solver()
        reports = list(solver.solve(stream))
        assert solver.choice.solver == "smsvm"
        assert any("going on with smsvm" in report.note for report in reports)
        assert reports[-1].converged
    check_resumes(wanted, tmp_path)


def test_auto_changes_back_wherever_it_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr("llsvm.solvers.smsvm.descent.ROUNDING", 0.5)
    change_soon(monkeypatch)
    wanted = auto_case(tmp_path, SMALL, n=600, settings={"C": 10.0})
    with wanted.stream(tmp_path) as stream:
        solver = wanted.solver()
        reports = list(solver.solve(stream))
        assert solver.choice.solver == "llsvm"
        assert any("going on with llsvm" in report.note for report in reports)
        assert reports[-1].converged
    check_resumes(wanted, tmp_path)


def test_auto_that_stays_with_coordinate_descent(tmp_path):
    check_resumes(auto_case(tmp_path, SmSVMTuning(), settings={"C": 0.1}), tmp_path)


def test_auto_where_one_solver_alone_does_it(tmp_path):
    check_resumes(auto_case(tmp_path, SmSVMTuning(), settings={"penalty": "l1", "C": 0.1}), tmp_path)


def test_auto_refuses(tmp_path):
    wanted = auto_case(tmp_path, SmSVMTuning())
    with wanted.stream(tmp_path) as stream:
        solver = wanted.solver()
        assert any(report.resumable for report in solver.solve(stream))
        state = kept(solver.state())
    for wrong, said in (
        (replace(state, solver="llsvm"), "solver llsvm"),
        (replace(state, of={**state.of, "C": 1234.5}), "C 1234.5"),
    ):
        with pytest.raises(UsageError, match=said):
            wanted.solver().restore(wrong)


def test_what_newton_is_told_is_kept_through_a_state(tmp_path, monkeypatch):
    """The best weights and the dual bound of the trial certify the first pass of Newton's method."""
    X, y = rows(n=600, d=8)
    change_soon(monkeypatch)
    wanted = auto_case(tmp_path, SMALL, n=600, settings={"C": 10.0})
    with wanted.stream(tmp_path) as stream:
        solver = wanted.solver()
        change = next(report for report in solver.solve(stream) if "going on with" in report.note)
        assert change.resumable
        state = kept(solver.state())
    assert sum(array.nbytes for array in state.arrays.values()) < 1000  # nothing of each row
    with wanted.stream(tmp_path) as stream:
        solver = wanted.solver()
        solver.restore(state)
        first = next(solver.solve(stream))
    assert first.passes == change.passes + 1
    assert first.certificate.total_dual >= change.certificate.total_dual
    theirs, _ = liblinear(X, y, 10.0, weight=np.where(y == 1, 1.5, 1.0), bias=1.0)
    assert first.certificate.total_dual <= theirs * (1 + 1e-9)
    assert first.certificate.total_primal >= theirs * (1 - 1e-9)
