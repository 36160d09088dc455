"""SmSVM against LIBLINEAR, HiGHS and Clarabel, its passes, and what no block size, layout or thread may change."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import liblinear, rows, run, small_pages, with_bias, with_smsvm_tuning, write_svmlight
from scipy.optimize import linprog
from sklearn.datasets import load_svmlight_file
from typer.testing import CliRunner

from llsvm.cli import app
from llsvm.data import open_source
from llsvm.errors import UsageError
from llsvm.models.model import Model
from llsvm.path import path
from llsvm.settings.settings import Settings
from llsvm.train import train
from tools.golden_data import sparse

MAX_PASSES = 25  # to a relative gap of 1e-3 on data with more rows than columns


def solve(X, y=None, **options):
    return run(X, y, **{"solver": "smsvm", "tol": 1e-6, **options})


def true_objective(coef, X, y, C, l1=0.0, l2=1.0):
    sign = np.where(y == np.max(y), 1.0, -1.0)
    hinge = np.maximum(0, 1 - sign * (X @ coef)).sum()
    return C * hinge + 0.5 * l2 * coef @ coef + l1 * np.abs(coef).sum()


@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_l2_reaches_liblinears_optimum(C, layout, bias):
    X, y = rows(n=300, d=6)
    training = solve(layout(X), y, C=C, bias=bias)
    certificate = training.reports[-1].certificate
    theirs, _ = liblinear(X, y, C, bias=bias)
    assert training.reports[-1].converged
    assert certificate.total_dual <= theirs * (1 + 1e-9)
    assert certificate.total_primal <= theirs * (1 + 2e-6)
    coef = training.coef[0] if bias else training.coef[0][:-1]
    assert true_objective(coef, with_bias(X, bias), y, C) == pytest.approx(certificate.total_primal, rel=1e-9)


def test_weights_are_factors_of_C():
    X, y = rows(n=250, d=5, seed=2)
    weight = np.random.default_rng(0).random(250) * 3
    training = run(X, y, weight, solver="smsvm", tol=1e-6, class_weight={"1": 2.0})
    theirs, _ = liblinear(X, y, weight=weight * np.where(y == 1, 2.0, 1.0))
    assert training.reports[-1].certificate.total_primal == pytest.approx(theirs, rel=2e-6)


def test_more_than_two_classes_are_one_against_the_rest():
    X, y = rows(n=240, d=5, classes=3, seed=3)
    training = solve(X, y)
    for c, primal in enumerate(training.reports[-1].certificate.primal):
        assert primal == pytest.approx(liblinear(X, (y == c).astype(int))[0], rel=2e-6)


@pytest.mark.parametrize(("n", "d", "C"), [(60, 5, 1.0), (200, 20, 0.1), (300, 40, 1.0), (40, 100, 1.0)])
def test_l1_equals_linear_programming(n, d, C):
    X, y = rows(n=n, d=d, seed=d)
    sign = np.where(y == 1, 1.0, -1.0)[:, None]
    A = -np.hstack([sign * X, -sign * X, np.eye(n)])
    theirs = linprog(np.r_[np.ones(2 * d), np.full(n, C)], A_ub=A, b_ub=-np.ones(n), method="highs")
    training = solve(X, y, penalty="l1", C=C)
    certificate = training.reports[-1].certificate
    assert abs(certificate.total_primal / theirs.fun - 1) <= 1e-6
    assert certificate.total_dual <= theirs.fun * (1 + 1e-9)
    ours = training.coef[0][:-1]
    assert true_objective(ours, X, y, C, 1.0, 0.0) == pytest.approx(certificate.total_primal, rel=1e-9)
    support = np.abs(theirs.x[:d] - theirs.x[d : 2 * d]) > 1e-7
    assert np.count_nonzero(ours) <= support.sum() + 1


@pytest.mark.parametrize("options", [{"penalty": "l1"}, {"penalty": "elasticnet", "l1_ratio": 0.9}])
def test_the_active_set_may_change_where_rows_near_the_margin_are_gone_on_with(options, tmp_path):
    """The Hessian of the first step there is that of the pass before, and of the columns active in it."""
    path = tmp_path / "rows.svm"
    path.write_text(sparse(1100, 530, seed=1))
    training = solve(str(path), tol=1e-3, C=0.5, **options)
    assert training.reports[-1].converged
    assert any(report.survivors for report in training.reports)
    X, y = load_svmlight_file(str(path), n_features=530, dtype=np.float32)
    l1 = options.get("l1_ratio", 1.0)
    coef = training.coef[0][1:-1]  # the file counts columns from 1
    value = true_objective(coef, X.toarray().astype(float), y, 0.5, l1, 1.0 - l1)
    assert value == pytest.approx(training.reports[-1].certificate.total_primal, rel=1e-9)


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.9])
def test_elasticnet_equals_a_generic_convex_solver(ratio):
    cvxpy = pytest.importorskip("cvxpy")
    X, y = rows(n=120, d=15, seed=5)
    sign, w = np.where(y == 1, 1.0, -1.0), cvxpy.Variable(15)
    terms = cvxpy.sum(cvxpy.pos(1 - cvxpy.multiply(sign, X @ w))) * 0.3
    terms += (1 - ratio) / 2 * cvxpy.sum_squares(w) + ratio * cvxpy.norm1(w)
    theirs = cvxpy.Problem(cvxpy.Minimize(terms)).solve(solver="CLARABEL")
    certificate = solve(X, y, penalty="elasticnet", l1_ratio=ratio, C=0.3).reports[-1].certificate
    assert certificate.total_primal == pytest.approx(theirs, rel=2e-6)
    assert certificate.total_dual <= theirs * (1 + 1e-7)


@pytest.mark.parametrize("penalty", ["l2", "l1", "elasticnet"])
def test_passes_are_few_and_do_not_grow_with_rows(penalty):
    passes = []
    for n in (1_000, 4_000, 16_000):
        X, y = rows(n=n, d=10, seed=1)
        training = solve(X, y, penalty=penalty, tol=1e-3, C=1.0)
        assert training.reports[-1].converged
        passes.append(training.reports[-1].passes)
    assert max(passes) <= MAX_PASSES
    assert passes[-1] <= passes[0] + 3


def test_every_pass_is_counted(monkeypatch):
    X, y = rows(n=500, d=6)
    from llsvm.stream.stream import Stream

    calls, all_rows = [], Stream.all
    monkeypatch.setattr(Stream, "all", lambda stream: calls.append(1) or all_rows(stream))
    training = solve(X, y)
    assert training.reports[-1].passes == len(calls)
    assert [r.passes for r in training.reports if r.kind == "pass"] == list(range(1, len(calls) + 1))


@pytest.mark.parametrize("density", [0.3, 0.9])
def test_out_of_core_reaches_the_same_weights(density, tmp_path, monkeypatch):
    small_pages(monkeypatch)
    with_smsvm_tuning(monkeypatch, piece_bytes=4000)
    X, y = rows(n=1500, d=6, density=density)
    path = write_svmlight(tmp_path / "data.svm", X, y)
    inside, outside, roomy = (solve(str(path), ledger=ledger) for ledger in (None, 40_000, 160_000))
    assert [t.stream.place for t in (inside, outside, roomy)] == ["memory", "cache", "cache"]
    for other in (outside, roomy):
        np.testing.assert_allclose(inside.coef, other.coef, rtol=3e-4, atol=1e-4)
        assert other.reports[-1].passes <= MAX_PASSES
    assert sum(r.survivors for r in roomy.reports) > 0  # there is room for rows near the margin


def test_without_room_for_rows_near_the_margin_passes_are_the_papers(tmp_path, monkeypatch):
    """Then the number of passes does not depend on where the rows are."""
    small_pages(monkeypatch)
    with_smsvm_tuning(monkeypatch, near_share=0.0, piece_bytes=4000)
    X, y = rows(n=1500, d=6)
    path = write_svmlight(tmp_path / "data.svm", X, y)
    inside, outside = solve(str(path)), solve(str(path), ledger=40_000)
    assert (inside.stream.place, outside.stream.place) == ("memory", "cache")
    assert inside.reports[-1].passes == outside.reports[-1].passes
    np.testing.assert_allclose(inside.coef, outside.coef, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("threads", [1, 2])
def test_runs_repeat_bit_for_bit(threads):
    X, y = rows(n=3000, d=6)
    first, again = (solve(X, y, threads=threads).coef for _ in range(2))
    assert first.tobytes() == again.tobytes()


WIDE = {"l2": {"C": 1e-3}, "l1": {"C": 0.02}, "elasticnet": {"C": 0.02, "l1_ratio": 0.7}}


@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("penalty", WIDE)
def test_wide_data_in_memory_needs_no_hessian_and_says_so(penalty, layout, bias):
    X, y = rows(n=60, d=600, seed=4)
    training = solve(layout(X), y, penalty=penalty, tol=1e-5, bias=bias, **WIDE[penalty])
    last = training.reports[-1]
    assert last.converged
    assert last.passes <= 4
    assert "no Hessian over all 600 features, which would take 2.9 MB" in last.note
    assert "in memory" in last.note
    assert "Hessian" not in training.stream.budget.lines
    l1 = {"l2": 0.0, "l1": 1.0, "elasticnet": 0.7}[penalty]
    wide = with_bias(X, bias)
    coef = training.coef[0] if bias else training.coef[0][:-1]
    value = true_objective(coef, wide, y, WIDE[penalty]["C"], l1, 1.0 - l1)
    assert value == pytest.approx(last.certificate.total_primal, rel=1e-9)


def test_wide_data_in_memory_equals_liblinear_and_linear_programming():
    X, y = rows(n=60, d=600, seed=4)
    theirs, _ = liblinear(X, y, C=1e-3)
    assert solve(X, y, C=1e-3, tol=1e-5).reports[-1].certificate.total_primal == pytest.approx(
        theirs, rel=2e-5
    )
    sign = np.where(y == 1, 1.0, -1.0)[:, None]
    A = -np.hstack([sign * X, -sign * X, np.eye(60)])
    program = linprog(np.r_[np.ones(1200), np.full(60, 0.02)], A_ub=A, b_ub=-np.ones(60), method="highs")
    found = solve(X, y, penalty="l1", C=0.02, tol=1e-6).reports[-1].certificate
    assert found.total_primal == pytest.approx(program.fun, rel=1e-6)
    assert found.total_dual <= program.fun * (1 + 1e-9)


@pytest.mark.parametrize(
    ("penalty", "C", "words"),
    [("l2", 1e-3, "a pass for each product"), ("l1", 0.01, "the active set is limited to 24 of them")],
)
def test_wide_data_out_of_core_keeps_to_its_limits_and_says_so(penalty, C, words, tmp_path, monkeypatch):
    small_pages(monkeypatch)
    with_smsvm_tuning(monkeypatch, max_active=30, piece_bytes=1280)
    X, y = rows(n=800, d=300, seed=4, density=0.1)
    path = write_svmlight(tmp_path / "data.svm", X, y)
    whole = solve(str(path), penalty=penalty, tol=1e-4, C=C)
    training = solve(str(path), penalty=penalty, tol=1e-4, ledger=140_000, C=C)
    last = training.reports[-1]
    assert training.stream.place == "cache"
    assert last.converged
    assert words in last.note
    assert last.certificate.total_dual <= whole.reports[-1].certificate.total_primal * (1 + 1e-9)
    assert whole.reports[-1].certificate.total_dual <= last.certificate.total_primal * (1 + 1e-9)


def test_sparse_models_stay_sparse_on_disk(tmp_path):
    X, y = rows(n=300, d=30)
    model = train(X, y, solver="smsvm", penalty="l1", C=0.02, output=str(tmp_path / "m"))
    loaded = Model.load(tmp_path / "m")
    assert 0 < np.count_nonzero(loaded.coef_) < 30
    assert np.array_equal(loaded.coef_ == 0, model.coef_ == 0)
    assert loaded.extra["solver"] == "smsvm"


def test_refusals():
    X, y = rows(n=20, d=2)
    for options in ({"paper": True}, {"multiclass": "crammer-singer"}):
        with pytest.raises(UsageError, match="smsvm"):
            solve(X, y, **options)


def test_a_path_starts_at_zero_weights_and_reaches_what_single_runs_reach():
    X, y = rows(n=300, d=12, seed=6)
    settings = Settings(solver="smsvm", penalty="l1", lambda1=1.0, tol=1e-4)
    points = list(path(open_source(X, y), settings, 6))
    assert points[0].nonzero_weights <= 1
    assert points[-1].nonzero_weights > points[0].nonzero_weights
    assert [p.lambda1 for p in points] == sorted((p.lambda1 for p in points), reverse=True)
    for point in points:
        alone = train(X, y, solver="smsvm", penalty="l1", lambda1=point.lambda1, tol=1e-4)
        assert point.model.converged
        ours, theirs = point.model.certificate, alone.certificate
        assert ours.total_dual <= theirs.total_primal * (1 + 1e-9)
        assert theirs.total_dual <= ours.total_primal * (1 + 1e-9)


def test_path_command_shows_and_draws(tmp_path):
    pytest.importorskip("matplotlib")
    X, y = rows(n=200, d=5)
    data = str(write_svmlight(tmp_path / "data.svm", X, y))
    picture = tmp_path / "path.png"
    answer = CliRunner().invoke(
        app, ["path", data, "--points", "4", "--validation", data, "--plot", str(picture), "--json", "-q"]
    )
    assert answer.exit_code == 0, answer.output
    shown = json.loads(answer.stdout)["points"]
    assert len(shown) == 4
    assert shown[-1]["accuracy"] > shown[0]["accuracy"] - 0.05
    assert picture.read_bytes().startswith(b"\x89PNG")
