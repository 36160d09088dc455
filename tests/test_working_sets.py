"""Working sets: survivors that do not fit in memory with all else, brought together for second order."""

import json
import lzma
import math
import subprocess
import sys
import weakref
from dataclasses import replace

import numpy as np
import pytest
from oracle import small_pages
from out_of_core import Out, wide_rows
from state_suite import Case, check_resumes

from llsvm.objective.problems import Variant
from llsvm.solvers.llsvm import tuning as tuning_module
from llsvm.solvers.llsvm.working_sets import WorkingSets
from llsvm.stream.rereading import GATHERED, Gathered

AT_ONCE = math.inf  # the doubt with which they begin as soon as they can


class Watch:
    """Counts what working sets do, and looks at the ledger meanwhile."""

    def __init__(self, monkeypatch):
        self.groups, self.lines, self.over = [], [], 0
        self.dropped, self.kept = [], 0
        together, enter, forget = WorkingSets._solve_together, Gathered.__enter__, Gathered.drop_resident

        def solve(sets, gathered, problems, gap):
            self.groups.append((len(problems), gathered.rows.n_rows))
            plan = sets._run.stream.plan
            used = gathered.rows.used_bytes + sets._row_bytes * gathered.rows.n_rows
            self.over += used > gathered.room_bytes + plan.lines["work on rows"]
            self.kept += sum(rows() is not None for rows in self.dropped)
            self.lines.append(dict(sets._run.stream.budget.lines))
            together(sets, gathered, problems, gap)

        def begin(gathered):
            self.before = dict(gathered._stream.budget.lines)
            self.stream = gathered._stream
            return enter(gathered)

        def drop(gathered):
            rows = gathered._stream.survivors.resident.X.data
            self.dropped.append(weakref.ref(rows if rows.base is None else rows.base))
            forget(gathered)

        monkeypatch.setattr(Gathered, "drop_resident", drop)
        monkeypatch.setattr(WorkingSets, "_solve_together", solve)
        monkeypatch.setattr(Gathered, "__enter__", begin)


def apart(n=700, d=150, classes=2):
    """Rows of classes that are some way apart: few of them are free at a large C."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.06)).astype(np.float32)
    scores = X @ rng.normal(size=(d, classes))
    return X, np.argmax(np.sign(scores) * (np.abs(scores) + 0.3), axis=1)


@pytest.mark.parametrize(("classes", "multiclass", "kb"), [(2, "ovr", 130), (4, "ovo", 230), (2, "ovr", 110)])
def test_weights_and_dual_are_those_of_alpha(tmp_path, monkeypatch, classes, multiclass, kb):
    small_pages(monkeypatch)
    watch = Watch(monkeypatch)
    options = {"C": 1e3, "multiclass": multiclass, "max_passes": 4, "doubt": AT_ONCE}
    out = Out(*apart(classes=classes), tmp_path, 1000 * kb, 2, **options)
    assert watch.groups
    assert not watch.over
    assert watch.dropped or classes > 2  # of several problems, others want the rows again
    assert not watch.kept
    np.testing.assert_allclose(out.run.sweeps.w, out.weights, atol=1e-6 * np.abs(out.weights).max())
    np.testing.assert_allclose(out.run.sweeps.dual, out.dual, rtol=1e-6)
    # what is lent is signed for once, and given back
    assert all(sum(lines.values()) == sum(watch.before.values()) for lines in watch.lines)
    assert all(lines[GATHERED] > 0 for lines in watch.lines)
    assert dict(watch.stream.budget.lines) == watch.before


def test_class_weights_of_a_variant_are_those_of_the_run(tmp_path, monkeypatch):
    small_pages(monkeypatch)
    solved, solve = [], WorkingSets.solve

    def noted(sets, problems, n_free, gap):
        solved.append(n_free.tolist())
        return solve(sets, problems, n_free, gap)

    monkeypatch.setattr(WorkingSets, "solve", noted)
    X, y = wide_rows(600, 500, 2, "squared_hinge")
    weights = (3.0, 0.25)
    given = {"ledger": 130_000, "doubt": AT_ONCE, "loss": "squared_hinge", "C": 10.0, "tol": 1e-3}
    whole = Out(X, y, tmp_path, **given, weights=weights)
    solved_of_whole = solved.copy()
    variant = Out(X, y, tmp_path, **given, variant=Variant(class_weight=weights))
    assert variant.last.converged
    assert variant.last.passes == whole.last.passes
    assert len(solved) == 2 * len(solved_of_whole) > 0
    np.testing.assert_allclose(variant.dual, whole.dual, rtol=1e-4)


def test_free_rows_that_had_no_room_are_not_surveyed_again_as_they_are(tmp_path, monkeypatch):
    """Nearly all rows are free, and fewer than half of them have room."""
    small_pages(monkeypatch)
    rng = np.random.default_rng(0)
    X, y = (
        (rng.normal(size=(120, 400)) * (rng.random((120, 400)) < 0.3)).astype(np.float32),
        np.arange(120) % 2,
    )
    surveys, survey = [], WorkingSets._survey

    def counted(sets, gathered, problems, gap):
        surveys.append(dict(survey(sets, gathered, problems, gap)))
        return surveys[-1]

    monkeypatch.setattr(WorkingSets, "_survey", counted)
    out = Out(X, y, tmp_path, 130_000, C=10.0, tol=1e-6, doubt=AT_ONCE)
    assert out.last.converged
    assert out.last.passes > 4
    assert len(surveys) == 1


def test_runs_repeat(tmp_path, monkeypatch):
    small_pages(monkeypatch)
    found = [Out(*apart(), tmp_path, 140_000, 2, C=100.0, max_passes=6, doubt=AT_ONCE) for _ in range(2)]
    assert found[0].last.converged
    np.testing.assert_array_equal(found[0].coef, found[1].coef)


def test_a_run_that_was_stopped_goes_on(tmp_path, monkeypatch):
    small_pages(monkeypatch)
    watch = Watch(monkeypatch)
    tuning = replace(tuning_module.DEFAULT, doubt=AT_ONCE)
    monkeypatch.setattr("llsvm.solvers.llsvm.solver.DEFAULT", tuning)
    settings = {"solver": "llsvm", "C": 100.0, "tol": 1e-3, "max_passes": 3}
    case = Case(
        settings, 130_000, n=700, d=150, density=0.06, from_file="cache", in_one_block=False, spills=True
    )
    check_resumes(case, tmp_path)
    assert watch.groups


@pytest.mark.slow
def test_classes_of_text_at_a_large_cost_under_a_small_limit(data_dir, tmp_path):
    """In a process of its own: sweeps over the spill, are far from it after as many
    passes."""
    rows, path, limit = tmp_path / "rows.svm", tmp_path / "model", 305_000_000
    with lzma.open(data_dir / "20news" / "20news_multi.train.svm.xz") as packed:
        rows.write_bytes(packed.read())
    options = ["-C", "1e4", "--memory-limit", str(limit), "--max-passes", "4", "--spill-dir", str(tmp_path)]
    command = [sys.executable, "-m", "llsvm", "train", str(rows), "--model", str(path), *options, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert told["peak_rss_bytes"] <= limit
