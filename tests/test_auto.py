"""solver="auto": what only one solver does, the trial of coordinate descent, and the change to Newton's method."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import liblinear, rows, run, small_pages, sweeps_alone, write_svmlight
from resume import Case, go
from sklearn.base import clone
from typer.testing import CliRunner

from llsvm.cli import app
from llsvm.dataset import DatasetInfo
from llsvm.errors import UsageError
from llsvm.estimators.classifier import LLSVMClassifier
from llsvm.estimators.regressor import LLSVMRegressor
from llsvm.memory.plan import MemoryLeft
from llsvm.settings.settings import Settings
from llsvm.solvers.auto import Auto, choose, newton_updates, why_trial_ends
from llsvm.solvers.smsvm.tuning import SmSVMTuning

PLENTY = 10**9


def with_tuning(monkeypatch, tuning):
    """Let trainings that change to smsvm do so with this tuning, whose code costs nothing to load."""
    monkeypatch.setattr("llsvm.solvers.auto.NEWTON_START", 0.0)
    monkeypatch.setattr("llsvm.training.training.Auto", partial(Auto, tuning=tuning))


@pytest.fixture
def no_start(monkeypatch):
    """Loading code costs nothing: else no trial on a few thousand rows would ever end."""
    monkeypatch.setattr("llsvm.solvers.auto.NEWTON_START", 0.0)
    sweeps_alone(monkeypatch)


def hard(n=4000, d=10, **options):
    """Rows that coordinate descent needs hundreds of updates for, with C = 10."""
    return rows(n=n, d=d, seed=3, noise=0.8, **options)


def dataset(n_rows=100_000, columns=50, per_row=12.0, classes=2, dense=False):
    return DatasetInfo(
        name="rows",
        n_rows=n_rows,
        n_columns=columns,
        first_column=0,
        nnz=int(n_rows * per_row),
        classes=np.arange(classes),
        counts=np.full(classes, n_rows // classes),
        is_dense=dense,
        dtype=np.dtype(np.float32),
        weighted=False,
    )


def left(dataset, available_bytes=PLENTY, in_memory=False):
    if not in_memory:
        return MemoryLeft(dataset, available_bytes, place="cache")
    rows_bytes = dataset.n_rows * 8 + dataset.nnz * 8
    return MemoryLeft(dataset, available_bytes, place="memory", rows_bytes=rows_bytes)


def test_auto_is_what_everything_begins_with():
    assert Settings().solver == "auto"
    assert LLSVMClassifier().solver == "auto"


@pytest.mark.parametrize(
    ("options", "solver"),
    [
        ({"paper": True}, "llsvm"),
        ({"paper": True, "multiclass": "ovo"}, "llsvm"),
        ({"loss": "squared_hinge", "penalty": "l1"}, "smsvm"),
        ({"multiclass": "crammer-singer"}, "sequential-dual"),
        ({"multiclass": "weston-watkins"}, "sequential-dual"),
        ({"penalty": "l1"}, "smsvm"),
        ({"penalty": "elasticnet"}, "smsvm"),
        ({"penalty": "elasticnet", "lambda1": 0.01, "lambda2": 0.01}, "smsvm"),
        ({"penalty": "l1", "multiclass": "ovo"}, "smsvm"),
        ({"loss": "squared_hinge", "penalty": "elasticnet", "multiclass": "ovo"}, "smsvm"),
        ({"loss": "logistic", "penalty": "l1"}, "smsvm"),
        ({"intercept": True}, "smsvm"),
        ({"intercept": True, "loss": "squared_hinge"}, "smsvm"),
        ({"intercept": True, "loss": "logistic"}, "smsvm"),
        ({"intercept": True, "loss": "huber", "penalty": "elasticnet"}, "smsvm"),
        ({"intercept": True, "multiclass": "ovo"}, "smsvm"),
        ({"intercept": True, "loss": "logistic", "multiclass": "ovo"}, "smsvm"),
        ({"intercept": True, "penalty": "elasticnet", "multiclass": "ovo"}, "smsvm"),
        ({"step": "paper"}, "nesvm"),
        ({"kernel": "rbf"}, "smo"),
        ({"kernel": "rbf", "mu": 2.0}, "nesvm"),
    ],
)
def test_what_one_solver_alone_does_it_does(options, solver):
    settings = Settings(**options)
    assert settings.only_solver[0] == solver
    choice = choose(settings, 2, left(dataset(classes=3)))
    assert (choice.solver, choice.why, choice.newton) == (*settings.only_solver, None)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "least-squares"])
def test_pairs_are_on_trial_as_one_against_the_rest_is(loss):
    settings, pairs = Settings(loss=loss), Settings(loss=loss, multiclass="ovo")
    memory = left(dataset(100_000, classes=7))
    one, other = (choose(each, 2, memory) for each in (settings, pairs))
    assert (one.solver, other.solver) == ("llsvm", "llsvm")
    # a row is in six pairs, where it is in seven problems of a class against the rest
    assert 0.8 * one.newton < other.newton < one.newton


def test_kernels_with_squared_hinge_go_by_whether_the_matrix_fits():
    settings = Settings(kernel="rbf", loss="squared_hinge")
    assert choose(settings, 2, left(dataset(n_rows=3000))).solver == "smo"
    choice = choose(settings, 2, left(dataset(n_rows=3000), 40_000_000))
    assert choice.solver == "nesvm"
    assert "3,000 rows is on disk" in choice.why
    assert choose(replace(settings, loss="hinge"), 2, left(dataset(n_rows=3000), 40_000_000)).solver == "smo"


@pytest.mark.parametrize(
    ("options", "solver"),
    [
        ({"loss": "squared_hinge", "penalty": "elasticnet"}, "smsvm"),
        ({"loss": "squared_hinge", "penalty": "elasticnet", "multiclass": "ovo"}, "smsvm"),
        ({"multiclass": "crammer-singer"}, "sequential-dual"),
        ({"penalty": "elasticnet"}, "smsvm"),
        ({"loss": "least-squares", "intercept": True}, "smsvm"),
        ({"loss": "least-squares", "intercept": True, "multiclass": "ovo"}, "smsvm"),
        ({"mu": 0.05, "multiclass": "ovo", "max_passes": 3000}, "nesvm"),
        ({"kernel": "rbf", "max_passes": 3000}, "smo"),
    ],
)
def test_it_runs_and_says_why(options, solver):
    X, y = rows(n=60, d=4, classes=3, seed=1)
    training = run(X, y, tol=0.05, **options)
    assert (training.solver, training.summary()["solver"]) == (solver, solver)
    assert training.why == training.summary()["why"] != ""
    assert training.why in training.reports[0].note
    assert training.model.extra["solver"] == solver
    assert training.reports[-1].converged


@pytest.mark.parametrize("solver", ["llsvm", "smsvm", "nesvm"])
def test_a_solver_asked_for_is_obeyed(solver):
    X, y = rows(n=100, d=3)
    training = run(X, y, solver=solver, tol=0.05, max_passes=3000)
    assert (training.solver, training.why) == (solver, "")


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "smsvm", "multiclass": "crammer-singer"},
        {"paper": True, "penalty": "l1"},
        {"loss": "squared_hinge", "penalty": "elasticnet", "multiclass": "crammer-singer"},
        {"loss": "logistic", "multiclass": "crammer-singer", "intercept": True},
        {"multiclass": "ovo", "penalty": "elasticnet", "kernel": "rbf"},
        {"kernel": "rbf", "paper": True},
    ],
)
def test_what_no_solver_does_is_refused(options):
    with pytest.raises(UsageError):
        Settings(**options)


def test_without_memory_for_hessians_there_is_no_trial():
    assert choose(Settings(), 2, left(dataset(columns=1000))).newton is not None
    choice = choose(Settings(), 2, left(dataset(columns=1000), 50_000_000))
    assert (choice.newton, "memory limit" in choice.why) == (None, True)
    choice = choose(Settings(), 2, left(dataset(), 500_000))
    assert (choice.newton, "memory limit" in choice.why) == (None, True)


def test_hessians_are_priced_by_their_size():
    """A few columns have room under any limit, and for any number of classes."""
    for n_rows, classes in ((10_000, 10), (15_000, 26)):
        narrow = dataset(n_rows=n_rows, columns=16, classes=classes, dense=True)
        assert choose(Settings(), 2, left(narrow, 10_000_000)).newton
    smooth = Settings(loss="squared_hinge")
    small = choose(smooth, 2, left(dataset(n_rows=178, columns=13, classes=3, dense=True)))
    few = choose(smooth, 2, left(dataset(n_rows=100, columns=60, dense=True)))
    assert small.newton
    assert few.newton


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "quantile"])
def test_there_is_no_trial_where_rows_in_memory_leave_room_for_second_order(loss):
    settings, tall = Settings(loss=loss), dataset(n_rows=200_000, columns=13, dense=True)
    choice = choose(settings, 2, left(tall, in_memory=True))
    assert (choice.solver, choice.newton) == ("llsvm", None)
    assert "all rows are in memory" in choice.why
    # 23 MB of rows; no room for vectors over them, in which blocks would not help
    tight = choose(settings, 2, left(tall, 40_000_000, in_memory=True))
    assert tight.newton
    assert choose(settings, 2, left(tall, in_memory=False)).newton


def test_there_is_no_trial_where_no_hessian_has_room():
    wide = dataset(n_rows=20_000, columns=8000)
    for loss in ("hinge", "squared_hinge", "logistic"):
        for available, in_memory in ((PLENTY, True), (20_000_000, False)):
            choice = choose(Settings(loss=loss), 2, left(wide, available, in_memory))
            assert (choice.solver, choice.newton) == ("llsvm", None)
            assert ("all rows are in memory" if in_memory else "Hessians of 8,000 features") in choice.why


def test_newtons_price_rises_with_the_length_of_rows_and_falls_with_their_number():
    prices = [newton_updates(dataset(per_row=r, columns=200)) for r in (5, 20, 80, 160)]
    assert prices == sorted(prices)
    prices = [newton_updates(dataset(n_rows=n)) for n in (10_000, 100_000, 10_000_000)]
    assert prices == sorted(prices, reverse=True)
    assert newton_updates(dataset(columns=1000, dense=True)) > newton_updates(dataset(columns=20, dense=True))
    assert newton_updates(dataset(), 3) < 3 * newton_updates(dataset())  # code is loaded once
    many = 10**9
    assert newton_updates(dataset(many), 3) == pytest.approx(3 * newton_updates(dataset(many)), rel=1e-3)


def test_a_trial_ends_when_it_has_cost_as_much_as_newtons_method():
    newton, n = 30.0, 1000
    assert not why_trial_ends(newton, n, 28_000, 1, 0)
    assert "not converged" in why_trial_ends(
        newton, n, 29_000, 1, 0
    )  # a pass counts as an update of each row
    assert not why_trial_ends(newton, n, 9_000, 2, 20)  # few rows move
    assert "80% of the rows still moved" in why_trial_ends(newton, n, 9_000, 2, 800)


@pytest.mark.usefixtures("no_start")
@pytest.mark.parametrize("where", ["dense", "sparse", "disk"])
def test_newton_takes_over_where_coordinate_descent_takes_long(where, tmp_path, monkeypatch):
    X, y = hard()
    data, ledger = {"dense": X, "sparse": sp.csr_matrix(X)}.get(where), None
    if where == "disk":
        X *= np.random.default_rng(0).random(X.shape) < 0.4
        data, ledger = str(write_svmlight(tmp_path / "rows.svm", X, y)), 700_000
        small_pieces = SmSVMTuning(piece_bytes=5000)
        with_tuning(monkeypatch, small_pieces)
        small_pages(monkeypatch, 4000, 20_000)
    labels = None if where == "disk" else y
    training = run(data, labels, ledger=ledger, C=10.0, tol=1e-4)
    assert training.stream.place == ("cache" if where == "disk" else "memory")
    assert training.solver == "smsvm"
    assert "updates a row" in training.why
    assert sum("going on with smsvm" in r.note for r in training.reports) == 1
    optimum, _ = liblinear(X, y, C=10.0)
    certificate = training.reports[-1].certificate
    assert training.reports[-1].converged
    assert optimum * (1 - 1e-9) <= certificate.total_primal <= optimum * (1 + 1e-4)
    passes = [r.passes for r in training.reports if r.kind == "pass"]
    assert passes == list(range(1, len(passes) + 1))  # counted on
    assert len(passes) <= 26
    assert training.reports[-1].note == ""  # a Hessian has room, as it would have had at the start
    assert not training.stream.budget.lines.get("dual variables")  # what the first was given is taken back
    assert training.stream.budget.available_bytes >= 0
    assert (training.stream.bytes_spilled > 0) == (where == "disk")  # by the first
    again = run(data, labels, ledger=ledger, C=10.0, tol=1e-4)
    assert np.array_equal(again.coef, training.coef)
    assert again.why == training.why


@pytest.mark.usefixtures("no_start")
def test_columns_are_scaled_once(tmp_path):
    X, y = hard()
    X = X * 10.0 ** np.arange(-2, 8, dtype=float)
    path = str(write_svmlight(tmp_path / "rows.svm", X, y))
    options = {"scale": "standard", "C": 10.0, "tol": 1e-4, "bias": 1.0}
    training, alone = run(path, **options), run(path, solver="llsvm", max_passes=5000, **options)
    assert (training.solver, alone.solver) == ("smsvm", "llsvm")
    ours, theirs = training.reports[-1].certificate, alone.reports[-1].certificate
    assert ours.total_dual <= theirs.total_primal * (1 + 1e-9)
    assert theirs.total_dual <= ours.total_primal * (1 + 1e-9)
    assert np.mean(training.model.predict(X) == alone.model.predict(X)) > 0.99


@pytest.mark.usefixtures("no_start")
def test_problems_that_have_converged_keep_their_weights():
    """One class against the rest is easy, two are hard: Newton takes over for what is left."""
    X, y = hard(classes=3)
    training = run(X, y, C=10.0, tol=1e-3)
    assert training.solver == "smsvm"
    for c in range(3):
        optimum, _ = liblinear(X, np.where(y == c, 1, 0), C=10.0)
        primal = training.reports[-1].certificate.primal[c]
        assert optimum * (1 - 1e-9) <= primal <= optimum * (1 + 1e-3)


@pytest.mark.usefixtures("no_start")
def test_newton_takes_over_with_the_squared_hinge_too():
    X, y = hard()
    training = run(X, y, C=10.0, tol=1e-4, loss="squared_hinge")
    assert training.solver == "smsvm"
    optimum, _ = liblinear(X, y, C=10.0, loss="squared_hinge")
    certificate = training.reports[-1].certificate
    assert training.reports[-1].converged
    assert optimum * (1 - 1e-9) <= certificate.total_primal <= optimum * (1 + 1e-4)
    assert certificate.total_dual <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_coordinate_descent_takes_back_what_newton_does_not_end(tmp_path, monkeypatch, where):
    """Its weights are kept, and on disk it makes the file of its dual variables anew."""
    small_pieces = SmSVMTuning(piece_bytes=5000)
    with_tuning(monkeypatch, small_pieces)
    monkeypatch.setattr("llsvm.solvers.smsvm.descent.ROUNDING", 0.5)
    X, y = hard()
    if where == "memory":
        sweeps_alone(monkeypatch)
        training = run(X, y, C=10.0, tol=1e-6)
    else:
        small_pages(monkeypatch, 4000, 20_000)
        monkeypatch.setattr("llsvm.memory.plan.STATE_SHARE", 10**6)
        X *= np.random.default_rng(0).random(X.shape) < 0.4
        data = str(write_svmlight(tmp_path / "rows.svm", X, y))
        training = run(data, None, ledger=700_000, C=10.0, tol=1e-6)
    assert training.stream.plan.state_bytes == 0
    assert training.stream.in_one_block == (where == "memory")
    assert training.solver == "llsvm"
    assert "passes of smsvm" in training.why
    notes = [report.note for report in training.reports if report.note]
    assert any("going on with smsvm" in note for note in notes)
    assert any("going on with llsvm" in note for note in notes)
    primal = [r.certificate.total_primal for r in training.reports if r.certificate is not None]
    assert all(np.diff(primal) <= 0)
    optimum, _ = liblinear(X, y, C=10.0)
    assert training.reports[-1].converged
    assert optimum * (1 - 1e-9) <= primal[-1] <= optimum * (1 + 1e-6)


@pytest.mark.usefixtures("no_start")
def test_a_restart_in_64_bit_values_begins_with_what_followed_the_trial(tmp_path):
    """It makes no sweep, also where it is stopped after its first passes, and gone on with."""
    X, y = hard()
    data, state = write_svmlight(tmp_path / "rows.svm", X + 600.0, y), tmp_path / "state"
    case, readings = Case({"C": 10.0}), []

    def after_restart(report):
        readings.extend([report.passes] * (report.kind == "read"))
        return len(readings) == 2 and report.passes == 3

    whole = go(case, data, tmp_path / "whole", None)
    assert whole.summary()["values"] == "float64"
    assert whole.model.converged
    assert sum("going on with smsvm" in note for note in whole.notes) == 1
    restarted = [note for note in whole.notes if "64-bit floats" in note]
    assert len(restarted) == 1
    assert "solver smsvm: coordinate descent had not converged after" in restarted[0]
    assert go(case, data, tmp_path / "model", state, stop=after_restart) is None
    went_on = go(case, data, tmp_path / "model", state)
    assert went_on.notes[0].startswith("going on from the state after")
    assert "64-bit floats" in went_on.notes[0]
    assert not any("going on with smsvm" in note for note in went_on.notes)
    assert (tmp_path / "model").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.usefixtures("no_start")
def test_no_change_on_the_last_pass_allowed():
    X, y = hard()
    training = run(X, y, C=10.0, tol=1e-9, max_passes=2)
    assert training.reports[-1].passes == 2
    assert not training.reports[-1].converged


def test_where_coordinate_descent_is_fast_it_is_all_there_is():
    X, y = rows(n=4000, d=10)
    auto, alone = run(X, y, C=0.01), run(X, y, C=0.01, solver="llsvm")
    assert auto.solver == "llsvm"
    assert "all rows are in memory" in auto.why
    assert np.array_equal(auto.coef, alone.coef)
    assert [r.passes for r in auto.reports] == [r.passes for r in alone.reports]


def test_the_choice_is_in_the_log_the_answer_and_json(tmp_path):
    X, y = rows(n=300, d=4)
    data, model = str(write_svmlight(tmp_path / "data.svm", X, y)), str(tmp_path / "m")
    answer = CliRunner().invoke(app, ["train", data, "--model", model])
    assert answer.exit_code == 0, answer.output
    assert "(solver llsvm: " in answer.stdout
    assert "solver llsvm: " in answer.stderr.splitlines()[0]
    answer = CliRunner().invoke(app, ["train", data, "--model", model, "--penalty", "l1", "--json", "-q"])
    shown = json.loads(answer.stdout)
    assert shown["solver"] == "smsvm"
    assert "l1 penalty" in shown["why"]


def test_the_estimator_takes_solver_and_penalty():
    X, y = rows(n=300, d=30, seed=2)
    sparse = LLSVMClassifier(C=0.02, penalty="l1").fit(X, y)
    assert 0 < np.count_nonzero(sparse.coef_) < 30
    assert sparse.model_.extra["solver"] == "smsvm"
    both = clone(LLSVMClassifier(C=0.05, penalty="elasticnet", l1_ratio=0.3)).fit(X, y)
    assert both.certificate_.relative_gap <= 1e-3
    by_lambda = LLSVMClassifier(penalty="l2", lambda2=1 / (300 * 0.5), random_state=0).fit(X, y)
    by_cost = LLSVMClassifier(C=0.5, random_state=0).fit(X, y)
    np.testing.assert_array_equal(by_lambda.coef_, by_cost.coef_)
    with pytest.raises(UsageError, match="l1_ratio"):
        LLSVMClassifier(penalty="elasticnet", l1_ratio=2.0).fit(X, y)


def test_regressions_whose_weights_meet_all_targets_stay_with_coordinate_descent():
    rng = np.random.default_rng(98)
    X = rng.normal(size=(30, 150)) * 10.0 ** rng.uniform(-3, 3, 150)
    y = X @ (rng.normal(size=150) / np.abs(X).max(0)) + rng.normal(size=30)
    model = LLSVMRegressor(loss="quantile", C=14.0, n_jobs=1, memory_limit="4GB").fit(X, y)
    assert model.certificate_.relative_gap <= 1e-3
    assert "more rows than features" in model.model_.extra["why"]
