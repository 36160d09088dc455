"""Runs that begin where another has come to, to which a few rows have come: what they cost, and how they go on."""

import shutil

import numpy as np
import pytest
from oracle import rows, small_pages, sweeps_alone, write_svmlight

import llsvm
from llsvm.data import open_with_settings
from llsvm.memory.budget import MemoryBudget
from llsvm.settings.settings import Settings
from llsvm.solvers.llsvm.extrapolation import Extrapolation
from llsvm.state.checkpoints import checkpoints_in
from llsvm.training.training import Training

X, Y = rows(n=3000, d=40, noise=0.3)
NEW = 150  # the last of these rows: a twentieth
LITTLE = 450_000  # bytes, in which they do not fit


def train(files, state, model, limit_bytes=None, stop_after=None, **options):
    """The passes and updates a row; stop_after: so many reports, as a kill would."""
    settings = Settings(**{"threads": 1, "solver": "llsvm", **options})
    source, updates = open_with_settings(settings, [str(file) for file in files], threads=1), 0.0
    budget = None if limit_bytes is None else MemoryBudget(limit_bytes, runtime_bytes=0)
    with (
        checkpoints_in(state, 0.0, False) as checkpoints,
        Training(source, settings, model, budget=budget, checkpoints=checkpoints) as training,
    ):
        for number, report in enumerate(training):
            updates = report.extra.get("updates_per_row", updates)
            if number == stop_after:
                return None
        assert training.stream.in_one_block == (limit_bytes is None)
        return training.finish(model).certificate.passes, updates


def cut(folder):
    old = write_svmlight(folder / "old.svm", X[:-NEW], Y[:-NEW])
    return [old, write_svmlight(folder / "new.svm", X[-NEW:], Y[-NEW:])]


@pytest.fixture(autouse=True)
def pages(monkeypatch):
    """Of a few dozen rows each."""
    small_pages(monkeypatch, 6000, 20_000)


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """The folder of a state of all rows but the new ones; they fit in memory, or do not."""
    made = {}

    def of(limit_bytes):
        if limit_bytes not in made:
            made[limit_bytes] = folder = tmp_path_factory.mktemp("old")
            train(cut(folder)[:1], folder / "S", folder / "m", limit_bytes)
        return made[limit_bytes]

    return of


def begun(old, folder):
    """The files, and a copy of the state."""
    files = [shutil.copy2(old / name, folder / name) for name in ("old.svm", "new.svm")]
    return files, shutil.copytree(old / "S", folder / "S")


@pytest.mark.parametrize("limit_bytes", [None, LITTLE])
def test_a_twentieth_of_new_rows_costs_less_than_half(old, limit_bytes, tmp_path):
    (files, state), model = begun(old(limit_bytes), tmp_path), tmp_path / "m"
    _, scratch = train(files, tmp_path / "A", model, limit_bytes)
    _, updates = train(files, state, model, limit_bytes)
    assert updates <= scratch / 2
    found = llsvm.verify(model, [str(file) for file in files], state=state)
    assert found["differences"] == []
    assert found["relative_gap"] <= 1e-3


def test_a_twentieth_of_new_rows_of_four_classes_takes_few_passes(tmp_path):
    points = np.random.default_rng(0).normal(size=(3000, 40))
    scores = points @ np.random.default_rng(1).normal(size=(40, 4)) + np.random.default_rng(2).normal(
        size=(3000, 4)
    )
    ids, options = scores.argmax(axis=1), {"solver": "auto", "multiclass": "crammer-singer"}
    old = write_svmlight(tmp_path / "old.svm", points[:-NEW], ids[:-NEW])
    files = [old, write_svmlight(tmp_path / "new.svm", points[-NEW:], ids[-NEW:])]
    scratch, _ = train(files, tmp_path / "both", tmp_path / "both.m", **options)
    ends = []
    for name, stop_after in (("whole", None), ("stopped", 1)):
        state, model = tmp_path / name, tmp_path / f"{name}.m"
        train(files[:1], state, model, **options)
        if stop_after is not None:
            train(files, state, model, stop_after=stop_after, **options)
        passes, _ = train(files, state, model, **options)
        assert passes <= min(4, scratch)
        ends.append(model.read_bytes())
    assert ends[0] == ends[1]
    assert llsvm.verify(model, [str(file) for file in files], state=state)["holds"]


def test_another_cost_takes_a_round(old, tmp_path):
    (files, state), model = begun(old(None), tmp_path), tmp_path / "m"
    _, scratch = train(files[:1], tmp_path / "A", model, C=3.0)
    _, updates = train(files[:1], state, model, C=3.0)
    assert updates <= scratch / 2


@pytest.mark.parametrize("limit_bytes", [None, LITTLE])
def test_stopped_on_the_way_it_ends_the_same(old, limit_bytes, tmp_path):
    files, begin = begun(old(limit_bytes), tmp_path)
    models = []
    for stop_after in (None, 1, 2, 3):
        state, model = shutil.copytree(begin, tmp_path / f"{stop_after}"), tmp_path / f"{stop_after}.m"
        if stop_after is not None:
            train(files, state, model, limit_bytes, stop_after=stop_after)
        train(files, state, model, limit_bytes)
        models.append(model.read_bytes())
    assert models[1:] == models[:1] * 3


def test_another_cost_out_of_core_takes_less_than_from_nothing(old, tmp_path):
    (files, state), model = begun(old(LITTLE), tmp_path), tmp_path / "m"
    scratch, work = train(files[:1], tmp_path / "A", model, LITTLE, C=3.0)
    passes, updates = train(files[:1], state, model, LITTLE, C=3.0)
    assert passes <= scratch
    assert updates <= work / 2


def test_where_sweeps_crawled_before_second_order_comes_at_once(tmp_path):
    """Also where the run is stopped on the way."""
    rng = np.random.default_rng(0)
    points = 0.99**0.5 * rng.normal(size=(6000, 1)) + 0.1 * rng.normal(
        size=(6000, 30)
    )  # much alike: sweeps crawl
    ids = (points @ rng.normal(size=30) + 0.3 * rng.normal(size=6000) > 0).astype(int)
    old = write_svmlight(tmp_path / "old.svm", points[:-300], ids[:-300])
    files, models = [old, write_svmlight(tmp_path / "new.svm", points[-300:], ids[-300:])], []
    _, scratch = train(files, tmp_path / "A", tmp_path / "m", C=10.0)
    assert scratch > 20
    for name, stop in (("whole", None), ("stopped", 1)):
        state, model = tmp_path / name, tmp_path / f"{name}.m"
        train(files[:1], state, model, C=10.0)
        if stop is not None:
            train(files, state, model, stop_after=stop, C=10.0)
        passes, updates = train(files, state, model, C=10.0)
        assert passes <= 2
        assert updates < 1
        models.append(model.read_bytes())
    assert models[0] == models[1]
    assert llsvm.verify(model, [str(file) for file in files], state=state)["holds"]


def test_extrapolation_is_of_the_rows_that_sweeps_visit(tmp_path, monkeypatch):
    files, sizes, begin = cut(tmp_path), [], Extrapolation.__init__

    def counting(self, sweeps, part, c, problem):
        sizes.append(len(problem.at) / part.n_rows)
        begin(self, sweeps, part, c, problem)

    monkeypatch.setattr(Extrapolation, "__init__", counting)
    sweeps_alone(monkeypatch)  # second order would spare the last rounds
    train(files, tmp_path / "S", tmp_path / "m", tol=1e-6)
    assert sizes
    assert min(sizes) < 0.5  # survivors
    assert max(sizes) < 1.0
