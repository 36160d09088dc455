"""Advice to raise the memory limit, for runs that get on too slowly under it."""

import math
import re
from types import SimpleNamespace

import pytest
from oracle import run, small_pages, write_svmlight
from out_of_core import tall

from llsvm.errors import BudgetError
from llsvm.memory.plan import SmallestLimit
from llsvm.process.work import Work
from llsvm.settings.settings import Settings
from llsvm.solvers.base import SECONDS, UPDATES, Report
from llsvm.solvers.llsvm.second_order import SECOND_ORDER
from llsvm.training import memory_limit
from llsvm.training.memory_limit import LONG_SECONDS, LONG_UPDATES, MIN_PASSES, MemoryAdvice

LIMIT = 275_000_000
ENOUGH = SmallestLimit(291_400_000, {})
SLOW = [0.63, 0.61, 0.6, 0.59, 0.58, 0.575, 0.57, 0.565]
FAST = [0.5 * 0.4**i for i in range(8)]


def at(gaps, solver="llsvm", mixed=False, **settings):
    """A run after so many passes."""
    stream = SimpleNamespace(
        budget=SimpleNamespace(limit_bytes=LIMIT),
        dataset=SimpleNamespace(reading=SimpleNamespace(mixed=mixed)),
    )
    history = [{"relative_gap": None}, *({"relative_gap": gap} for gap in gaps)]
    return SimpleNamespace(history=history, stream=stream, solver=solver, settings=Settings(**settings))


def look(*args, enough=lambda: ENOUGH, kind="pass", extra=None, **options):
    advice, passes = MemoryAdvice(), 1 + len(args[0])
    report = Report(kind, passes, note="before", extra=extra or {})
    return advice, advice.add_to(report, at(*args, **options), enough)


def test_the_sentence_names_the_limit_that_would_do():
    advice, report = look(SLOW)
    assert "275 MB" in advice.sentence
    assert "--memory-limit 292MB" in advice.sentence
    assert advice.enough_bytes == ENOUGH.nbytes
    assert report.note == f"before; {advice.sentence}"
    again = advice.add_to(Report("pass", 10), at([*SLOW, 0.56]), lambda: ENOUGH)
    assert not again.note  # once


@pytest.mark.parametrize(
    ("gaps", "options"),
    [
        (FAST, {}),
        (SLOW[: MIN_PASSES - 1], {}),
        (SLOW, {"enough": lambda: SmallestLimit(LIMIT + 1, {})}),
        (SLOW, {"mixed": True}),
        (SLOW, {"solver": "smsvm"}),
        (SLOW, {"solver": "llsvm", "paper": True}),
        (SLOW, {"kind": "epoch"}),
        (SLOW, {"max_passes": 9}),  # it was the last
    ],
)
def test_who_gets_on_or_has_no_such_limit_is_told_nothing(gaps, options):
    assert not look(gaps, **options)[0].sentence


@pytest.mark.parametrize("most", [200, 0, 20])
@pytest.mark.parametrize("gaps", [[1.0] * 8, [0.9997] * 8, SLOW, [0.1 * 0.8**i for i in range(8)]])
def test_too_slow_is_a_matter_of_counts(gaps, most):
    """At a fifth less from pass to pass, 15 passes more would do where there are so many."""
    enough = gaps[-1] < 0.1 and most != 20
    assert bool(look(gaps, max_passes=most)[0].sentence) == (not enough)


@pytest.mark.parametrize(
    ("gaps", "updates", "seconds", "told"),
    [
        ([0.86, 0.32], 1.1, 0.1, "about 6 more passes"),
        ([0.86, 0.859], 1.1, 0.1, "it hardly falls"),
        ([math.nextafter(0.999, 1.0), 0.999], 1.1, 0.1, "it hardly falls"),
        ([0.86], 1.1, 0.1, ""),  # says nothing of a rate
        ([1.0, 0.32], 1.1, 0.1, ""),
        ([0.86, 0.02], 1.1, 0.1, ""),  # one or two do
        ([0.32, 0.86], 1.1, 0.1, ""),
        ([0.86, 0.32], 0.9, 0.1, ""),  # it is the data that are large
        ([0.86, 0.32], 1.1, 0.01, ""),
    ],
)
def test_of_long_passes_fewer_tell(gaps, updates, seconds, told):
    """updates, seconds: of a pass, so many times what makes it long, and what is too long for all to come."""
    passes = 1 + len(gaps)
    work = {UPDATES: updates * LONG_UPDATES * passes, SECONDS: 2 * seconds * LONG_SECONDS * passes}
    sentence = look(gaps, solver="sequential-dual", extra=work)[0].sentence
    assert told in sentence
    assert bool(sentence) == bool(told)


def test_a_limit_that_cannot_be_told():
    def refuses():
        raise BudgetError("rows", 1, 2)

    advice, report = look(SLOW, enough=refuses)
    assert advice.sentence == ""
    assert not advice.enough_bytes
    assert report.note == "before"


def test_a_run_is_told_and_the_limit_it_is_told_of_does(tmp_path, monkeypatch):
    small_pages(monkeypatch, 2400, 8000)
    path = write_svmlight(tmp_path / "rows.svm", *tall(n=300))
    options = {"solver": "llsvm", "C": 100.0, "spill_dir": str(tmp_path)}
    training = run(path, ledger=100_000, max_passes=8, **options)
    (note,) = training.summary()["notes"]
    told = [report.note for report in training.reports if note in report.note]
    assert len(told) == 1
    assert "--memory-limit 1MB" in note
    assert "going on" in note
    assert training.history[-1]["passes"] == 8
    enough = training._limit_in_memory().nbytes
    assert training._run.enough_bytes == enough  # for the advice at the end
    better = run(path, ledger=enough, **options)
    assert better.stream.in_one_block
    assert better.stream.plan.lines[SECOND_ORDER] >= 8 * 81 * 81
    assert better.reports[-1].converged


@pytest.mark.parametrize("method", ["crammer-singer", "weston-watkins"])
def test_joint_methods_tell_what_their_passes_cost(tmp_path, monkeypatch, method):
    small_pages(monkeypatch, 2400, 8000)
    monkeypatch.setattr(memory_limit, "LONG_UPDATES", 5)
    monkeypatch.setattr(memory_limit, "LONG_SECONDS", 1e-4)
    path = write_svmlight(tmp_path / "rows.svm", *tall(n=300, classes=3))
    options = {"multiclass": method, "C": 1.0, "max_passes": MIN_PASSES - 1, "spill_dir": str(tmp_path)}
    training = run(path, ledger=100_000, **options)
    assert not training.stream.in_one_block
    works = [report.extra for report in training.reports if report.kind == "pass"]
    assert works == sorted(works, key=lambda work: (work[UPDATES], work[SECONDS]))
    updates = works[-1][UPDATES]
    assert updates > 5 * len(works)
    assert works[-1][SECONDS] > Work(updated_rows=int(updates * 300 * 3)).seconds
    (note,) = training.summary()["notes"]
    assert note.startswith("after 2 passes the gap falls too slowly")
    assert "no room for all rows and second order" in note


def test_pairs_out_of_core_tell_what_sweeps_cost_beside_their_rows(tmp_path, monkeypatch):
    """Many problems, each begun on each block of rows, are slow however few rows there are."""
    small_pages(monkeypatch, 2400, 8000)
    monkeypatch.setattr(memory_limit, "LONG_UPDATES", 2)
    monkeypatch.setattr(memory_limit, "LONG_SECONDS", 1e-4)
    path = write_svmlight(tmp_path / "rows.svm", *tall(n=300, classes=8))
    options = {"multiclass": "ovo", "solver": "llsvm", "C": 100.0, "max_passes": MIN_PASSES - 1}
    training = run(path, ledger=240_000, spill_dir=str(tmp_path), **options)
    assert not training.stream.in_one_block
    work = [
        report.extra[SECONDS] for report in training.reports if report.passes > 1 and report.kind == "pass"
    ]
    assert 0 < work[0] < work[-1]
    (note,) = training.summary()["notes"]
    assert re.match("after [23] passes the gap falls too slowly", note)
    assert "no room for all rows" in note
    whole = run(path, spill_dir=str(tmp_path), **options)
    assert all(SECONDS not in report.extra for report in whole.reports)
