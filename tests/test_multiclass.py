"""Direct multi-class: the kernel against its slow twin, the solver against LIBLINEAR and a generic optimiser."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import oracle
import pytest
import slow_multiclass as slow
from cells import in_turn
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

import llsvm
from llsvm import LLSVMClassifier
from llsvm.block import CSR, Block, parts_of
from llsvm.data import open_source
from llsvm.errors import UsageError
from llsvm.memory import plan as plan_module
from llsvm.memory.budget import MemoryBudget
from llsvm.process.threads import Threads
from llsvm.settings.settings import Settings
from llsvm.solvers.sequential_dual.kernels import ALL, MEASURE, SHRUNK, move_shares, sweep
from llsvm.solvers.sequential_dual.loops import JointExtrapolation, listed
from llsvm.solvers.sequential_dual.problem import BlockShares, JointProblem, joint_dual
from llsvm.stream.progress import Progress
from llsvm.training.training import Training

GRID = 2.0**50
DIRECT = ("crammer-singer", "weston-watkins")


def parts(X, dense):
    if dense:
        return parts_of(X)
    S = sparse.csr_matrix(X)
    return S.indptr.astype(np.int64), S.indices.astype(np.int32), S.data


def call(X, y, cost, share, w, bias, weston, mode=ALL, dense=True, order=None):
    n = len(X)
    order = np.arange(n) if order is None else order
    distance, totals = np.zeros(n, np.float32), np.zeros(4)
    tail = (w, bias, weston, mode, GRID, totals)
    left = sweep(*parts(X, dense), y.astype(np.int32), cost, share, distance, order, *tail)
    return left, totals, distance, order


def problem(seed, n=30, d=6, k=4, scale=1.0):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6) * scale).astype(np.float64)
    X[0] = 0
    return X, rng.integers(0, k, n), rng.uniform(0.1, 3, n), rng


def weights_of(X, y, cost, share, bias):
    beta = -cost[:, None] * share
    beta[np.arange(len(y)), y] = cost * share.sum(axis=1)
    return np.column_stack([X, np.full(len(X), bias)]).T @ beta


def dual_of(X, y, cost, share, bias):
    w = weights_of(X, y, cost, share, bias)
    return cost @ share.sum(axis=1) - 0.5 * np.sum(w * w)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.booleans(), st.floats(0.01, 100))
def test_sub_problem_is_solved_exactly(seed, k, weston, length):
    rng = np.random.default_rng(seed)
    yi = int(rng.integers(k))
    x = rng.normal(size=3)
    x *= length / np.linalg.norm(x)
    old = rng.choice([0.0, 1.0, 0.25, 0.5], size=k)
    old[yi] = 0
    if not weston and old.sum() > 1:
        old /= 2.0 ** np.ceil(np.log2(old.sum()))
    w = rng.normal(size=(4, k)) * rng.choice([0.0, 0.1, 3.0])
    w[3] = 0
    expected = slow.solve(w[:3].T @ x, yi, old, x @ x, weston)
    share = old[None].copy()
    call(x[None], np.array([yi]), np.ones(1), share, w, 0.0, weston)
    assert share[0, yi] == 0
    assert (share >= 0).all()
    assert (share <= 1).all()
    assert weston or share.sum() <= 1
    np.testing.assert_allclose(share[0], expected, atol=1e-8)
    if not weston and expected.sum() > 1 - 1e-9:  # exactly: else a row at its bound would count as free
        assert share.sum() == 1


@pytest.mark.parametrize("weston", [False, True])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("bias", [0.0, 1.5])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_sweep_equals_its_slow_twin(weston, dense, bias, k):
    X, y, cost, _ = problem(k, k=k)
    cost[3] = 0
    share, w = np.zeros((len(X), k)), np.zeros((X.shape[1] + 1, k))
    share2, w2 = share.copy(), w.copy()
    for _ in range(3):
        _, totals, _, _ = call(X, y, cost, share, w, bias, weston, dense=dense)
        gain, gap, losses = slow.sweep(X, y, cost, share2, w2, bias, weston)
        np.testing.assert_allclose(totals[:3], [gain, gap, losses], rtol=1e-9)
        np.testing.assert_allclose(w, w2, atol=1e-9)
        np.testing.assert_allclose(share, share2, atol=1e-9)
        share2[...] = share  # ties between empty rows' classes may differ by rounding
        w2[...] = w
    np.testing.assert_allclose(w, weights_of(X, y, cost, share, bias), atol=1e-12)


@pytest.mark.parametrize("weston", [False, True])
@pytest.mark.parametrize("k", [6, 40])
def test_shrunk_sweeps_ascend_and_stay_consistent(weston, k):
    X, y, cost, rng = problem(5, n=60, k=k)
    share, w = np.zeros((60, k)), np.zeros((7, k))
    dual = 0.0
    for loop in range(30):
        order = rng.permutation(60)
        before = (share > 0).sum(axis=1)
        _, totals, _, _ = call(
            X, y, cost, share, w, 1.0, weston, SHRUNK if loop % 3 else ALL, order=order, dense=loop % 2 == 0
        )
        assert totals[0] >= 0
        assert totals[1] >= -1e-9
        dual += totals[0]
        if loop % 3:
            assert ((share > 0).sum(axis=1) <= before).all()
    assert dual == pytest.approx(dual_of(X, y, cost, share, 1.0), rel=1e-10)
    np.testing.assert_allclose(w, weights_of(X, y, cost, share, 1.0), atol=1e-10)
    assert weston or (share.sum(axis=1) <= 1).all()


@pytest.mark.parametrize("weston", [False, True])
def test_measuring_changes_nothing_and_sums_to_the_primal(weston):
    X, y, cost, rng = problem(6, k=4)
    w = rng.normal(size=(7, 4))
    share = np.zeros((len(X), 4))
    left, totals, distance, order = call(X, y, cost, share, w.copy(), 0.7, weston, MEASURE)
    expected = slow.primal(X, y, cost, w, 0.7, weston) - 0.5 * np.sum(w * w)
    assert totals[2] == pytest.approx(expected, rel=1e-12)
    assert totals[0] == 0
    assert not share.any()
    # with no shares a row moves if it has a loss
    scores = np.column_stack([X, np.full(len(X), 0.7)]) @ w
    losing = {i for i in range(len(X)) if slow.loss(scores[i], y[i], weston) > 0}
    assert set(order[:left]) == losing
    assert set(np.flatnonzero(distance == 0)) == losing


@pytest.mark.parametrize("weston", [False, True])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("k", [3, 9])
def test_moved_shares_move_the_weights(weston, dense, k):
    X, y, cost, rng = problem(7, n=40, k=k)
    share, w = np.zeros((40, k)), np.zeros((7, k))
    for _ in range(2):
        call(X, y, cost, share, w, 1.0, weston)
    rows = np.arange(0, 40, 2)
    inside = listed(share, rows, weston, 16, 200)
    expected = [(i, m) for i in rows for m in range(k) if share[i, m] > 0 and (share[i, m] < 1 or not weston)]
    assert len(inside) == len(expected)
    np.testing.assert_array_equal(inside.at, [i * k + m for i, m in expected])
    step = rng.normal(size=len(inside)) * 0.5
    expected = slow.move_shares(share, rows, step, weston)
    before = cost @ share.sum(axis=1)
    gain = move_shares(
        *parts(X, dense),
        y.astype(np.int32),
        cost,
        share,
        rows,
        inside.first,
        inside.class_ids,
        step,
        w,
        1.0,
        weston,
        GRID,
    )
    np.testing.assert_allclose(share, expected, atol=1e-12)
    assert gain == pytest.approx(cost @ share.sum(axis=1) - before)
    np.testing.assert_allclose(w, weights_of(X, y, cost, share, 1.0), atol=1e-12)
    assert weston or (share.sum(axis=1) <= 1).all()


@pytest.mark.parametrize("weston", [False, True])
def test_an_extrapolation_maximises_the_dual_along_its_ways(weston):
    """Its lengths solve the unbounded problem; a reverted one leaves no trace."""
    X, y, cost, _ = problem(9, n=60, k=4)
    cost /= 100.0  # shares stay clear of their bounds, so that nothing is cut
    share, w = np.zeros((60, 4)), np.zeros((7, 4))
    rng = np.random.default_rng(0)
    share[np.arange(60), (y + 1) % 4] = np.round(rng.uniform(0.4, 0.5, 60) * GRID) / GRID
    w[...] = weights_of(X, y, cost, share, 1.0)
    rows = np.arange(60)
    start, way = np.zeros_like(w), np.zeros_like(w)
    block = Block(CSR(*parts(X, False)), y.astype(np.int32), rows)
    dual = joint_dual(DIRECT[weston])
    with Threads(1) as threads:
        of_rows = JointProblem(dual, w.shape, 1.0, GRID, threads, Progress())
    lists = [(BlockShares(block, cost, share), listed(share, rows, weston, 16, 240))]
    extrapolation = JointExtrapolation(lists, of_rows, w, start, way)
    old = share.copy()
    share[np.arange(60), (y + 1) % 4] += np.round(rng.normal(size=60) * 1e-3 * GRID) / GRID  # "a loop"
    w[...] = weights_of(X, y, cost, share, 1.0)
    looped, dual = share.copy(), dual_of(X, y, cost, share, 1.0)
    direction = looped - old
    gain = extrapolation.extrapolate()
    np.testing.assert_allclose(w, weights_of(X, y, cost, share, 1.0), atol=1e-12)
    got = dual_of(X, y, cost, share, 1.0)
    assert got - dual == pytest.approx(gain, rel=1e-6, abs=1e-12)
    lengths = (share - looped)[direction != 0] / direction[direction != 0]
    if np.ptp(lengths) < 1e-6:  # nothing was cut: no other length does better
        for other in (0.9, 1.1):
            assert dual_of(X, y, cost, looped + other * lengths[0] * direction, 1.0) <= got
    reverted = extrapolation.accept_or_revert(-1.0)
    np.testing.assert_array_equal(share, looped)
    assert got + reverted == pytest.approx(dual, rel=1e-12)
    np.testing.assert_allclose(w, weights_of(X, y, cost, looped, 1.0), atol=1e-12)


# -- the solver -----------------------------------------------------------------------------------------------


def fit(X, y, weight=None, ledger=None, **options):
    budget = None if ledger is None else MemoryBudget(limit_bytes=ledger, runtime_bytes=0)
    made = Settings(**{"tol": 1e-3, "threads": 1, "memory_limit": "4GB"} | options)
    with Training(open_source(X, y, weight), made, budget=budget) as training:
        for _ in training:
            pass
        return training.model, training


def weston_optimum(X, y, cost, k):
    """The Weston-Watkins optimum from the box-constrained dual, by SciPy's L-BFGS-B."""
    n = len(X)
    free = np.ones((n, k), bool)
    free[np.arange(n), y] = False

    def negative(a):
        share = np.zeros((n, k))
        share[free] = a
        w = weights_of(X, y, cost, share, 0.0)[:-1]
        scores = X @ w
        slope = 1 + scores - scores[np.arange(n), y][:, None]
        return -(cost @ share.sum(axis=1) - 0.5 * np.sum(w * w)), -(cost[:, None] * slope)[free]

    start = np.zeros(free.sum())
    options = {"maxiter": 100_000, "maxfun": 1_000_000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 50}
    found = minimize(
        negative, start, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * len(start), options=options
    )
    return -found.fun


def blobs(n=300, d=8, k=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    return rng.normal(size=(n, d)) + 1.2 * rng.normal(size=(k, d))[y], y


def test_weston_watkins_equals_a_generic_optimiser():
    X, y = blobs(n=100, d=6)
    weight = np.random.default_rng(1).uniform(0.2, 2, len(y)).astype(np.float32)
    model, _ = fit(X, y, weight, multiclass="weston-watkins", tol=1e-7, C=0.5, class_weight={2: 1.7})
    cost = 0.5 * weight.astype(float) * np.where(y == 2, 1.7, 1.0)
    optimum = weston_optimum(X, y, cost, 4)
    w = np.vstack([model.coef_.T, np.zeros(4)])
    got = slow.primal(X, y, cost, w, 0.0, True)
    assert got == pytest.approx(model.certificate.total_primal, rel=1e-9)
    assert got == pytest.approx(optimum, rel=1e-6)
    assert model.certificate.total_dual <= optimum * (1 + 1e-9)


@pytest.mark.skipif(shutil.which("liblinear-train") is None, reason="liblinear-train is not on the path")
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_crammer_singer_equals_liblinear(tmp_path, bias):
    from sklearn.datasets import dump_svmlight_file

    X, y = blobs(seed=3)
    X = X.astype(np.float32)
    dump_svmlight_file(X, y, str(tmp_path / "a"), zero_based=False)
    extra = ["-B", str(bias)] if bias else []
    command = ["liblinear-train", "-s", "4", "-c", "0.7", "-e", "1e-6", "-q", *extra, "a", "m"]
    subprocess.run(command, cwd=tmp_path, check=True)
    w = np.loadtxt(tmp_path / "m", skiprows=6)
    labels = [int(v) for v in (tmp_path / "m").read_text().splitlines()[2].split()[1:]]
    w = w[:, np.argsort(labels)]
    theirs = slow.primal(X, y, np.full(len(y), 0.7), w if bias else np.vstack([w, np.zeros(4)]), bias, False)
    model, _ = fit(X, y, multiclass="crammer-singer", tol=1e-6, C=0.7, bias=bias)
    assert model.certificate.total_primal == pytest.approx(theirs, rel=1e-5)
    assert model.certificate.total_dual <= theirs


@pytest.mark.parametrize("multiclass", DIRECT)
def test_the_certificate_is_the_objective_of_what_is_handed_back(multiclass):
    X, y = blobs(seed=4)
    model, _ = fit(X, y, multiclass=multiclass, bias=2.0)
    w = np.vstack([model.coef_.T, model.intercept_ / 2.0])
    got = slow.primal(X, y, np.ones(len(y)), w, 2.0, multiclass == "weston-watkins")
    assert got == pytest.approx(model.certificate.total_primal, rel=1e-6)
    assert model.certificate.relative_gap <= 1e-3


@pytest.mark.parametrize(("multiclass", "by_class"), in_turn(DIRECT, [False, True], 1))
def test_out_of_core_finds_the_same_optimum(tmp_path, multiclass, by_class):
    from sklearn.datasets import dump_svmlight_file

    X, y = blobs(n=24_000, d=12, k=5, seed=5)
    X = X.astype(np.float32)
    if by_class:
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    within, _ = fit(X, y, multiclass=multiclass)
    path = tmp_path / "a.svm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    budget = MemoryBudget(limit_bytes=3_000_000, runtime_bytes=0)
    made = Settings(multiclass=multiclass, threads=1, spill_dir=str(tmp_path))
    with Training(open_source(str(path)), made, budget=budget) as training:
        kinds = [report.kind for report in training]
        assert training.stream.place == "cache"
        assert not training.stream.in_one_block
        outside = training.model
    assert "epoch" in kinds
    assert outside.certificate.relative_gap <= 1e-3
    assert within.certificate.relative_gap <= 1e-3
    assert outside.certificate.total_dual <= within.certificate.total_primal
    assert within.certificate.total_dual <= outside.certificate.total_primal


@pytest.mark.parametrize(("multiclass", "share"), in_turn(DIRECT, [4, 10**9], 1))
def test_packed_shares_of_many_classes(tmp_path, monkeypatch, multiclass, share):
    """Shares of 40 classes are packed, in memory or, where there is no room, on disk; survivors are spilled."""
    X, y = blobs(n=4000, d=60, k=40, seed=8)
    X *= np.random.default_rng(0).random(X.shape) < 0.3
    within, _ = fit(X, y, multiclass=multiclass, tol=1e-2)
    monkeypatch.setattr(plan_module, "STATE_SHARE", share)
    oracle.small_pages(monkeypatch, 20_000, 60_000)
    path = oracle.write_svmlight(tmp_path / "a.svm", X, y)
    training = oracle.run(
        str(path), ledger=1_500_000, multiclass=multiclass, spill_dir=str(tmp_path), tol=1e-2
    )
    outside = training.model.certificate
    assert not training.stream.in_one_block
    assert training.summary()["bytes_spilled"] > 0
    assert training.summary()["solver"] == "sequential-dual"
    assert outside.relative_gap <= 1e-2
    assert outside.total_dual <= within.certificate.total_primal
    assert within.certificate.total_dual <= outside.total_primal


@pytest.mark.parametrize("multiclass", DIRECT)
def test_rows_without_features_cost_their_constant(multiclass):
    X, y = blobs(n=60, k=3)
    X[::7] = 0
    model, _ = fit(X, y, multiclass=multiclass, tol=1e-4)
    assert model.converged
    assert np.isfinite(model.coef_).all()
    empty = len(X[::7]) * (2 if multiclass == "weston-watkins" else 1)
    assert model.certificate.total_dual >= empty


@pytest.mark.parametrize("multiclass", DIRECT)
def test_two_classes_text_labels_and_predictions(multiclass):
    X, y = blobs(n=200, k=2)
    names = np.array(["ham", "spam"])[y]
    model, _ = fit(X, names, multiclass=multiclass)
    assert model.coef_.shape == (1, 8)
    assert np.mean(model.predict(X) == names) > 0.8


def test_a_seed_repeats_exactly():
    X, y = blobs()
    a, b = (fit(X, y, multiclass="crammer-singer", threads=2)[0] for _ in range(2))
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_direct_multiclass_refuses_what_it_does_not_have():
    with pytest.raises(UsageError, match="hinge"):
        Settings(multiclass="crammer-singer", loss="squared_hinge")
    with pytest.raises(UsageError, match="multiclass"):
        Settings(multiclass="one")


def test_command_line_trains_exports_and_draws(tmp_path):
    from sklearn.datasets import dump_svmlight_file
    from typer.testing import CliRunner

    from llsvm.cli import app
    from llsvm.models.model import Model

    X, y = blobs(n=120, k=3)
    dump_svmlight_file(X, y, str(tmp_path / "a.svm"), zero_based=False)
    data, model, picture = (str(tmp_path / name) for name in ("a.svm", "a.model", "a.png"))
    run = CliRunner().invoke
    done = run(app, ["train", data, "--model", model, "--multiclass", "crammer-singer", "-q"])
    assert done.exit_code == 0, done.output
    assert Model.load(model).settings["multiclass"] == "crammer-singer"
    done = run(app, ["evaluate", model, data, "--plot", picture])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert run(app, ["evaluate", model, data, "--plot", str(tmp_path / "a.gif")]).exit_code != 0


def test_crammer_singer_is_exported_as_such(tmp_path):
    from llsvm.models.liblinear import read_liblinear, write_liblinear

    X, y = blobs(n=120, k=3)
    model, _ = fit(X, y, multiclass="crammer-singer", bias=1.0)
    write_liblinear(model, tmp_path / "m")
    assert (tmp_path / "m").read_text().startswith("solver_type MCSVM_CS\nnr_class 3\n")
    np.testing.assert_array_equal(read_liblinear(tmp_path / "m").predict(X), model.predict(X))


# -- class weights ---------------------------------------------------------------------------------------------

RARE = {0: 0.5, 1: 3.0, 2: 8.0}


def uneven(n=400):
    rng = np.random.default_rng(0)
    y = rng.choice(3, n, p=[0.7, 0.2, 0.1])
    X = rng.normal(size=(n, 4))
    X[:, 0] += 1.2 * y
    X[:, 1] += 1.5 * (y == 1)
    return X, y


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "llsvm"},
        {"solver": "llsvm", "loss": "squared_hinge"},
        {"solver": "llsvm", "loss": "logistic"},
        {"solver": "llsvm", "loss": "least-squares"},
        {"solver": "smsvm"},
        {"solver": "smsvm", "loss": "logistic"},
        {"solver": "smsvm", "intercept": True, "bias": 0.0},
        {"solver": "smsvm", "loss": "squared_hinge", "penalty": "l1"},
        {"solver": "nesvm", "loss": "squared_hinge", "tol": 1e-5},
        {"solver": "nesvm", "loss": "least-squares", "intercept": True, "bias": 0.0, "tol": 1e-5},
        {"solver": "nesvm", "loss": "squared_hinge", "step": "paper", "tol": 1e-2},
        {"solver": "nesvm", "kernel": "rbf", "bias": 0.0, "tol": 1e-2},
        {"solver": "smo", "kernel": "rbf", "bias": 0.0, "tol": 1e-5},
    ],
)
def test_class_weights_against_the_rest_are_those_of_the_positive_rows(options):
    """As LIBLINEAR has it: in the problem of a class its weight counts, and the others' rows have weight 1."""
    X, y = uneven()
    weight = np.random.default_rng(1).integers(0, 3, len(y)) * 1.0
    options = {"threads": 2, "memory_limit": "2GB", "tol": 1e-6, "bias": 1.0} | options
    pruned = {} if "kernel" in options else {"prune": 1e-9}  # whose certificate is worked out once more
    model = llsvm.train(X, y, sample_weight=weight, class_weight=RARE, **pruned, **options)
    for c, primal in enumerate(model.certificate.primal):
        own = y == c
        alone = llsvm.train(X, own.astype(int), sample_weight=weight * np.where(own, RARE[c], 1.0), **options)
        assert primal == pytest.approx(alone.certificate.total_primal, rel=3 * options["tol"])
    assert model.converged
    assert llsvm.verify(model, X, y, sample_weight=weight)["differences"] == []


@pytest.mark.parametrize("class_weight", [RARE, "balanced"])
def test_class_weights_as_scikit_learn_has_them(class_weight):
    X, y = uneven()
    ours = LLSVMClassifier(loss="squared_hinge", class_weight=class_weight, tol=1e-8).fit(X, y)
    theirs = LinearSVC(class_weight=class_weight, tol=1e-10, max_iter=10**6).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-4)
    jointly = {"fit_intercept": False, "class_weight": class_weight}
    ours = LLSVMClassifier(multi_class="crammer-singer", tol=1e-8, **jointly).fit(X, y)
    theirs = LinearSVC(multi_class="crammer_singer", tol=1e-8, max_iter=10**6, **jointly).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    ours = LLSVMClassifier(loss="logistic", multi_class="softmax", tol=1e-9, **jointly).fit(X, y)
    theirs = LogisticRegression(tol=1e-10, max_iter=10**4, **jointly).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


@pytest.mark.parametrize("class_weight", [RARE, "balanced"])
def test_class_weights_of_pairs_are_those_of_support_vector_classification(class_weight):
    X, y = uneven()
    options = {"multiclass": "ovo", "solver": "smsvm", "intercept": True, "tol": 1e-7, "threads": 1}
    ours = llsvm.train(X, y, class_weight=class_weight, bias=0.0, memory_limit="2GB", **options)
    theirs = SVC(kernel="linear", class_weight=class_weight, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)
