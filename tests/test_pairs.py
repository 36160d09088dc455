"""One-vs-one (and one-vs-rest) on the binary solver: all problems in the same passes, each with its certificate."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from cells import in_turn
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from oracle import liblinear, objective, rows, run, with_bias, write_svmlight
from scipy import sparse

from llsvm.block import CSR, Block
from llsvm.errors import BudgetError, ModelError, UsageError
from llsvm.estimators.classifier import LLSVMClassifier
from llsvm.models.liblinear import write_liblinear
from llsvm.models.model import Model
from llsvm.objective.losses import loss_of
from llsvm.objective.problems import Problems
from llsvm.settings.settings import Settings
from llsvm.solvers.llsvm.duals import BlockState
from llsvm.solvers.llsvm.sweeps import Sweeps

K = 4
PAIRS = [(i, j) for i in range(K) for j in range(i + 1, K)]


def slot(own, other):
    return other if other < own else other - 1


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("left", [range(len(PAIRS)), [1, 4]])
def test_margins_of_pairs_equal_their_slow_twin(dense, threads, left):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 5)) * (rng.random((30, 5)) < 0.6)
    y = rng.integers(0, K, 30).astype(np.int32)
    w, bias = rng.normal(size=(len(PAIRS), 6)), 0.7
    S = sparse.csr_matrix(X)
    matrix = X if dense else CSR(S.indptr.astype(np.int64), S.indices, S.data)
    problems, loss = Problems(K, one_vs_one=True), loss_of(Settings())
    part = BlockState(problems, Block(matrix, y, np.arange(30)), np.ones(30), np.zeros((K - 1, 30)), loss)
    with closing(Sweeps(problems, 5, loss, bias, threads, False)) as sweeps:
        sweeps.begin(left, 0.0)
        sweeps.measure(part, w)
    expected = np.full((K - 1, 30), np.nan)
    for c in left:
        i, j = PAIRS[c]
        for row in range(30):
            score = w[c] @ np.append(X[row], bias)
            if y[row] == i:
                expected[slot(i, j), row] = score
            if y[row] == j:
                expected[slot(j, i), row] = -score
    np.testing.assert_allclose(part.margin, expected, rtol=1e-12)


@hypothesis_settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 6), st.integers(0, 40))
def test_a_row_has_a_dual_for_each_pair_of_its_class(seed, k, n):
    """What is stored for one problem is seen by it alone, and every place is used by exactly one problem."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n).astype(np.int32)
    problems = Problems(k, one_vs_one=True)
    block = Block(np.zeros((n, 1), np.float32), y, np.arange(n))
    duals = BlockState(problems, block, np.ones(n), np.zeros((k - 1, n)), loss_of(Settings()))
    for c in range(len(problems)):
        members = rng.permutation(duals.members(c))
        assert set(members) == set(np.flatnonzero(problems.signs(c)[y]))
        alpha, margin = duals.load(c, members)
        assert not alpha[members].any()
        alpha[members], margin[members] = c + 1, -c
        duals.store(c, members, alpha, margin)
    assert (duals.alpha > 0).all()
    for c in range(len(problems)):
        _, alpha, margin = duals.of(c)
        assert (alpha == c + 1).all()
        assert (margin == -c).all()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_each_pair_has_liblinears_optimum(loss):
    X, y = rows(n=900, classes=K, seed=1)
    training = run(X, y, multiclass="ovo", loss=loss, tol=1e-6, bias=1.0)
    certificate = training.model.certificate
    for c, (i, j) in enumerate(PAIRS):
        some = (y == i) | (y == j)
        optimum, _ = liblinear(X[some], np.where(y[some] == i, 1, 0), loss=loss, bias=1.0)
        assert certificate.primal[c] == pytest.approx(optimum, rel=1e-5)
        assert certificate.dual[c] <= optimum * (1 + 1e-9)
        w = np.append(training.coef[c][: X.shape[1]], training.coef[c][-1])
        sign = np.where(y[some] == i, 1.0, -1.0)
        got = objective(w, with_bias(X[some], 1.0), sign, np.ones(some.sum()), loss == "squared_hinge")
        assert got == pytest.approx(certificate.primal[c], rel=1e-9)


@pytest.mark.parametrize(("multiclass", "threads"), [("ovr", 1), ("ovo", 2)])
def test_out_of_core_finds_the_same_optimum(tmp_path, multiclass, threads):
    X, y = rows(n=30_000, d=12, classes=K, seed=2)
    order = np.argsort(y, kind="stable")  # sorted by class
    path = write_svmlight(tmp_path / "a.svm", X[order], y[order])
    options = {"multiclass": multiclass, "spill_dir": str(tmp_path), "tol": 1e-4}
    within = run(str(path), **options).model.certificate
    outside = run(str(path), ledger=5_000_000, threads=threads, **options)
    assert not outside.stream.in_one_block
    assert outside.reports[-1].converged
    for c in range(len(within.primal)):
        assert outside.model.certificate.dual[c] <= within.primal[c] <= within.dual[c] * (1 + 1.1e-4)
        assert within.dual[c] <= outside.model.certificate.primal[c]


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_problems_that_have_converged_are_left_alone(multiclass):
    """One class lies apart: its problems are done at once, and are not visited while the others go on.

    It lies so far apart that Newton's method does not end all problems in the same pass."""
    X, y = rows(n=4000, d=6, classes=3, seed=3)
    X[:, 0] = 20.0 * (y == 0)
    training = run(X, y, multiclass=multiclass, tol=1e-6)
    passes = [r for r in training.reports if r.kind == "pass"]
    assert passes[-1].converged
    gaps = np.array([np.subtract(r.certificate.primal, r.certificate.dual) for r in passes])
    primals = np.array([r.certificate.primal for r in passes])
    done = gaps <= 1e-6 * primals
    for c in range(gaps.shape[1]):
        since = int(np.argmax(done[:, c]))
        assert (primals[since:, c] == primals[since, c]).all()
        duals = np.array([r.certificate.dual[c] for r in passes])[since:]
        assert (duals == duals[0]).all()
    assert len({int(np.argmax(done[:, c])) for c in range(gaps.shape[1])}) > 1


def test_paper_mode_has_pairs_too():
    X, y = rows(n=600, classes=3, seed=4)
    model = run(X, y, multiclass="ovo", paper=True).model
    assert len(model.coef_) == 3
    assert model.certificate.relative_gap < 0.5


def test_a_seed_repeats_exactly():
    X, y = rows(n=500, classes=3)
    a, b = (run(X, y, multiclass="ovo", threads=2).model.coef_ for _ in range(2))
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("multiclass", "ledger"), in_turn(["ovr", "ovo"], [None, 5_000_000], 1))
def test_problems_do_not_depend_on_who_works_on_them(tmp_path, multiclass, ledger):
    """Threads that take whole problems find, to the last bit, what one thread finds that takes them in turn; out of
    core, where blocks are smaller with more threads, they find it again."""
    X, y = rows(n=30_000 if ledger else 3000, d=12, classes=5, seed=3)
    path = write_svmlight(tmp_path / "a.svm", X, y)
    options = {"multiclass": multiclass, "solver": "llsvm", "ledger": ledger, "spill_dir": str(tmp_path)}
    one, three = (run(str(path), threads=threads, **options) for threads in (3 if ledger else 1, 3))
    assert three.stream.in_one_block == (ledger is None)
    np.testing.assert_array_equal(one.model.coef_, three.model.coef_)


def test_predictions_are_votes_and_ties_go_to_the_larger_sum():
    extra = {"multi_class": "ovo"}
    # pairs (a, b), (a, c), (b, c): each class has one vote; b's sum is the largest
    model = Model(np.array([[1.0], [-1.0], [5.0]]), np.zeros(3), np.array(["a", "b", "c"]), extra=extra)
    X = np.array([[1.0]])
    assert model.predict(X) == ["b"]
    scores = model.decision_function(X)
    assert scores.shape == (1, 3)
    np.testing.assert_array_equal(np.round(scores), [[1, 1, 1]])
    assert model.problem_names == ["a, not b", "a, not c", "b, not c"]
    X, y = rows(n=900, classes=K, seed=1)
    model = run(X, y, multiclass="ovo").model
    pairs = X @ model.coef_.T + model.intercept_
    votes = np.zeros((len(X), K), int)
    for c, (i, j) in enumerate(PAIRS):
        votes[np.arange(len(X)), np.where(pairs[:, c] > 0, i, j)] += 1
    best = votes == votes.max(axis=1, keepdims=True)
    assert best[np.arange(len(X)), model.predict(X)].all()
    np.testing.assert_array_equal(np.argmax(model.decision_function(X), axis=1), model.predict(X))


def test_the_estimator_has_pairs():
    X, y = rows(n=300, classes=3)
    classifier = LLSVMClassifier(multi_class="ovo", random_state=0).fit(X, y)
    assert classifier.coef_.shape == (3, X.shape[1])
    assert classifier.decision_function(X).shape == (300, 3)


def test_two_classes_are_one_problem_whatever_is_asked():
    X, y = rows(n=200)
    a, b = (run(X, y, multiclass=name).model for name in ("ovr", "ovo"))
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_what_pairs_cannot_do_is_refused(tmp_path):
    with pytest.raises(UsageError, match="paper is for solver llsvm"):
        Settings(multiclass="ovo", penalty="l1", paper=True)
    X, y = rows(n=300, classes=3)
    model = run(X, y, multiclass="ovo", solver="auto").model
    with pytest.raises(ModelError, match="one-vs-one"):
        write_liblinear(model, tmp_path / "m")
    X, y = rows(n=400, d=20_000, classes=40, density=0.001)
    with pytest.raises(BudgetError, match="weights"):
        run(sparse.csr_matrix(X), y, multiclass="ovo")


def test_command_line_trains_shows_and_scores_pairs(tmp_path):
    from typer.testing import CliRunner

    from llsvm.cli import app

    X, y = rows(n=150, classes=3)
    path = str(write_svmlight(tmp_path / "a.svm", X, y))
    model, run_ = str(tmp_path / "m"), CliRunner().invoke
    assert run_(app, ["train", path, "--model", model, "--multiclass", "ovo", "-q"]).exit_code == 0
    shown = run_(app, ["inspect", model])
    assert shown.exit_code == 0
    assert "1, not 2" in shown.output
    scored = run_(app, ["predict", model, path, "--scores"]).output.splitlines()
    assert all(len(line.split("\t")) == 4 for line in scored)
    assert "accuracy" in run_(app, ["evaluate", model, path]).output
