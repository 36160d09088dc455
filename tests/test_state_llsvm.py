"""Coordinate descent is stopped after each round, and goes on as if it had not been."""

import pytest
from oracle import small_pages
from state_suite import Case, check_refuses, check_resumes

LEDGER = 40_000  # bytes: with small_pages, a few blocks, survivors in memory and spilled

REGRESSION = ("epsilon_insensitive", "squared_epsilon_insensitive", "quantile", "huber")
MULTICLASS = [(2, "ovr"), (4, "ovr"), (4, "ovo")]


@pytest.mark.parametrize(("classes", "multiclass"), MULTICLASS)
@pytest.mark.parametrize(("threads", "loss"), [(1, "hinge"), (2, "squared_hinge"), (1, "least-squares")])
def test_in_memory(tmp_path, classes, multiclass, threads, loss):
    settings = {"multiclass": multiclass, "loss": loss, "tol": 1e-4}
    check_resumes(Case(settings, threads=threads, n=150, classes=classes, in_one_block=True), tmp_path)


def test_data_too_large_to_be_swept_over_at_will(tmp_path):
    check_resumes(Case(n=3000, d=8, threads=2, weighted=True, in_one_block=True), tmp_path)


def test_rows_shared_out_to_threads(tmp_path):
    check_resumes(Case({"tol": 1e-2}, n=4000, d=600, density=0.02, threads=2, in_one_block=True), tmp_path)


@pytest.mark.parametrize(
    ("classes", "multiclass", "threads", "place"),
    [(2, "ovr", 2, "source"), (4, "ovr", 1, "cache"), (4, "ovo", 2, None), (4, "ovo", 1, "cache")],
)
def test_out_of_core(tmp_path, monkeypatch, classes, multiclass, threads, place):
    small_pages(monkeypatch)
    case = Case(
        {"multiclass": multiclass, "tol": 1e-3, "max_passes": 4},
        ledger=LEDGER * (1 if classes == 2 else 2),
        threads=threads,
        n=700,
        classes=classes,
        from_file=place,
        in_one_block=False,
        spills=True,
    )
    check_resumes(case, tmp_path)


@pytest.mark.parametrize(
    ("loss", "place", "spills"),
    [
        ("epsilon_insensitive", "source", True),
        ("squared_epsilon_insensitive", "cache", None),
        ("quantile", "cache", None),
        ("huber", "source", True),
        ("one_class", "cache", True),
    ],
)
def test_other_losses_out_of_core(tmp_path, monkeypatch, loss, place, spills):
    small_pages(monkeypatch)
    settings = {"loss": loss, "tol": 1e-3, "max_passes": 4, "bias": float(loss in REGRESSION)}
    settings |= {"nu": 0.2} if loss == "one_class" else {}
    check_resumes(Case(settings, LEDGER, n=700, from_file=place, in_one_block=False, spills=spills), tmp_path)


@pytest.mark.parametrize("from_file", ["cache", None])
def test_logistic_regression(tmp_path, monkeypatch, from_file):
    settings = {"loss": "logistic", "tol": 1e-4, "max_passes": 4}
    if from_file:
        small_pages(monkeypatch)
        case = Case(settings, LEDGER, n=700, from_file=from_file, in_one_block=False)
    else:
        case = Case(settings, n=150, classes=4, threads=2, in_one_block=True)
    check_resumes(case, tmp_path)


def test_few_survivors(tmp_path, monkeypatch):
    small_pages(monkeypatch)
    case = Case({"survivors": 0.1, "max_passes": 4}, LEDGER, n=700, from_file="cache", in_one_block=False)
    check_resumes(case, tmp_path)


@pytest.mark.parametrize("ledger", [100_000_000, LEDGER])
def test_paper_mode(tmp_path, monkeypatch, ledger):
    small_pages(monkeypatch)
    check_resumes(Case({"paper": True, "tol": 1e-2}, ledger, n=700, from_file="cache"), tmp_path)


def test_states_of_others_are_refused(tmp_path):
    check_refuses(Case({"max_passes": 3}), tmp_path)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        check_refuses(Case({"max_passes": 3}, make=_Anything), tmp_path)


class _Anything:
    """Goes on from whatever it is given."""

    def __init__(self, *arguments):
        from llsvm.solvers import make_solver

        self._solver = make_solver(*arguments)
        self.solve, self.state = self._solver.solve, self._solver.state

    def restore(self, state):
        pass
