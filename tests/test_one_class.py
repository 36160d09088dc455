"""The one-class SVM against scikit-learn's and quadratic programs, in memory and out of core; certificates of
objectives below 0."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from cells import pairwise
from oracle import run, small_pages, write_svmlight
from sklearn.datasets import load_iris, load_wine
from sklearn.svm import OneClassSVM
from typer.testing import CliRunner

import llsvm
from llsvm import LLSVMOutlierDetector
from llsvm.cli import app
from llsvm.errors import CertificateError, UsageError
from llsvm.objective.certificate import Certificate, relative_gap
from llsvm.objective.one_class import Candidates, best_threshold, feasible_weights, linear_part
from llsvm.settings.settings import Settings

LEDGER = 45_000  # bytes: with small_pages, a few blocks, survivors in memory and spilled
NUS = [0.01, 0.1, 0.5, 0.9, 1.0]


def rows(n=900, d=8, density=1.0, seed=0, centre=1.0):
    """Float32 values held by float64 arrays."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) + centre) * (rng.random((n, d)) < density)
    return X.astype(np.float32).astype(float)


def primal(w, rho, X, nu, weight=None):
    weight = np.ones(X.shape[0]) if weight is None else weight
    losses = weight @ np.maximum(0.0, rho - X @ w)
    return float(0.5 * w @ w - nu * weight.sum() * rho + losses)


def optimum(X, nu, weight=None):
    """The dual's, a quadratic program: that of a primal is off where X is far from 1."""
    weight = np.ones(len(X)) if weight is None else weight
    alpha = cp.Variable(len(X))
    scale = 1.0 / (nu * weight.sum() * np.linalg.norm(X, axis=1).mean())
    size = cp.sum_squares((scale * X).T @ alpha)
    within = [alpha >= 0, alpha <= weight, cp.sum(alpha) == nu * weight.sum()]
    cp.Problem(cp.Minimize(size), within).solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-11)
    v = X.T @ alpha.value
    return -0.5 * float(v @ v)


def certified(found, X, nu, weight=None):
    """The certificate of a run or a model, held against the weights that came with it, and the optimum."""
    model = isinstance(found, llsvm.Model)
    certificate = found.certificate if model else found.reports[-1].certificate
    w, rho = (found.coef_[0], -found.intercept_[0]) if model else (found.coef[0, :-1], -found.coef[0, -1])
    best = optimum(X, nu, weight)
    noise = 1e-6 * abs(best)
    assert primal(w, rho, X, nu, weight) == pytest.approx(certificate.primal[0], rel=1e-6)
    assert certificate.dual[0] - noise <= best <= certificate.primal[0] + noise
    return certificate


# -- out of core, in memory -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("nu", "density", "survivors"), pairwise(NUS, [1.0, 0.2], [1.0, 0.1]))
def test_out_of_core_is_certified(monkeypatch, nu, density, survivors):
    """Many blocks, survivors in memory and spilled, float32 dual variables, rows of weight 0, 1 and 2."""
    X = rows(density=density)
    weight = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    small_pages(monkeypatch)
    options = {"loss": "one_class", "nu": nu, "tol": 1e-4, "max_passes": 60, "survivors": survivors}
    training = run(X, None, weight, ledger=LEDGER, **options)
    assert not training.stream.in_one_block
    assert training.reports[-1].converged
    assert certified(training, X, nu, weight).relative_gap <= 1e-4


@pytest.mark.parametrize(("seed", "n", "weights"), [(0, 40, (-12, 12)), (1, 30, (-6, 13)), (5, 30, (-6, 13))])
def test_no_primal_is_what_rounding_has_left_of_far_larger_terms(seed, n, weights):
    """0 is amidst the rows, and the optimum is as good as 0: rounding of ρ times the costs is far more."""
    rng = np.random.default_rng(seed)
    X, weight = rng.normal(size=(n, 3)), 10.0 ** rng.uniform(*weights, n)
    options = {"loss": "one_class", "nu": 1.0, "scale": "standard", "tol": 1e-9, "threads": 1}
    with pytest.warns(UserWarning, match="0 is amidst the rows"):
        model = llsvm.train(X, sample_weight=weight, **options)
    assert model.certificate.primal == (0.0,)
    assert llsvm.verify(model, X, None, weight)["holds"]


@pytest.mark.parametrize("load", [load_wine, load_iris])
@pytest.mark.parametrize("nu", [*NUS, 1e-6])
def test_raw_columns_with_defaults(load, nu):
    X = load().data.astype(np.float32).astype(float)
    model = llsvm.train(X, loss="one_class", nu=nu, threads=1)
    assert model.converged
    assert certified(model, X, nu).relative_gap <= 1e-3
    scores = model.decision_function(X)
    assert np.mean(scores < 0) <= nu + 1e-9
    np.testing.assert_array_equal(model.predict(X), np.where(scores > 0, 1, -1))


def test_scikit_learns_is_inside_the_certificate():
    X = rows(n=300)
    for nu in (0.05, 0.4):
        machine = OneClassSVM(kernel="linear", nu=nu, tol=1e-8).fit(X)
        theirs = primal(machine.coef_[0], machine.offset_[0], X, nu)
        certificate = llsvm.train(X, loss="one_class", nu=nu, tol=1e-5, threads=1).certificate
        assert certificate.dual[0] <= theirs * (1 - 1e-9)
        assert theirs == pytest.approx(certificate.primal[0], rel=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_sparse_rows_beyond_small_data(threads):
    X = sp.random(2000, 700, 0.02, "csr", np.float32, np.random.default_rng(0))
    model = llsvm.train(X, loss="one_class", nu=0.2, threads=threads)
    assert model.converged
    measured = primal(model.coef_[0], -model.intercept_[0], X.astype(float), 0.2)
    assert measured == pytest.approx(model.certificate.primal[0], rel=1e-6)
    machine = OneClassSVM(kernel="linear", nu=0.2, tol=1e-6).fit(X.astype(float))
    theirs = primal(machine.coef_.toarray()[0], machine.offset_[0], X.astype(float), 0.2)
    assert model.certificate.dual[0] <= theirs
    assert model.certificate.primal[0] <= theirs + 1e-3 * abs(theirs)


def test_repeated_rows_are_weights_and_columns_may_be_in_any_order():
    X = rows(n=120, d=4)
    weight = np.random.default_rng(3).integers(0, 4, len(X))
    options = {"loss": "one_class", "nu": 0.3, "threads": 1}
    weighted = llsvm.train(X, sample_weight=weight.astype(float), **options)
    repeated = llsvm.train(np.repeat(X, weight, axis=0), **options)
    turned = llsvm.train(np.repeat(X, weight, axis=0)[::-1, ::-1], **options)
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-6)
    np.testing.assert_allclose(turned.decision_function(X[:, ::-1]), repeated.decision_function(X), atol=1e-6)
    np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))


@pytest.mark.parametrize("nu", [0.3, 1.0])
def test_rows_that_are_all_alike(nu):
    for X in (np.full((50, 3), 2.0), np.full((1, 3), 2.0)):
        model = llsvm.train(X, loss="one_class", nu=nu, threads=1)
        assert model.converged
        assert model.certificate.primal[0] == pytest.approx(-0.5 * (nu * len(X)) ** 2 * 12.0, rel=1e-6)
        assert (model.predict(X) == 1).all()


def test_rows_that_weigh_nothing_count_for_nothing():
    X = rows(n=60, d=3)
    X[:20] = -100.0
    weight = np.where(np.arange(60) < 20, 0.0, 1.0)
    model = llsvm.train(X, sample_weight=weight, loss="one_class", nu=0.2, threads=1)
    certified(model, X[20:], 0.2)
    with pytest.raises(llsvm.DataError, match="all 60 rows have the weight 0"):
        llsvm.train(X, sample_weight=np.zeros(60), loss="one_class", nu=0.2, threads=1)


def test_random_problems_have_no_false_certificate():
    """Of all sizes and scales, at whatever a run has come to when it ends."""
    rng = np.random.default_rng(11)
    for trial in range(40):
        n, d = int(rng.integers(2, 60)), int(rng.integers(1, 6))
        X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-2, 3, d) + rng.normal() * 10.0 ** rng.integers(
            -1, 2
        )
        X = X.astype(np.float32).astype(float)
        nu, weight = float(rng.uniform(0.01, 1.0)), rng.integers(0, 3, n).astype(float)
        weight[0] = 1.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = llsvm.train(
                X,
                sample_weight=weight,
                loss="one_class",
                nu=nu,
                max_passes=int(rng.integers(2, 6)),
                seed=trial,
                threads=1,
            )
        certificate, best = model.certificate, optimum(X, nu, weight)
        size = 1e-6 * abs(best) + 1e-9 * (nu * weight.sum()) ** 2 * float((X**2).sum(axis=1).max())
        assert certificate.dual[0] - size <= best <= certificate.primal[0] + size, trial
        assert primal(model.coef_[0], -model.intercept_[0], X, nu, weight) <= certificate.primal[0] + size
        if certificate.relative_gap <= 1e-3 and not certificate.is_nothing:
            assert certificate.primal[0] <= best + 1.01e-3 * abs(best) + size


# -- 0 amidst the rows ------------------------------------------------------------------------------------------


def test_where_0_is_amidst_the_rows_it_is_said():
    X = np.random.default_rng(0).normal(size=(300, 3))
    with pytest.warns(UserWarning, match="0 is amidst the rows.*feature_map rff"):
        model = llsvm.train(X, loss="one_class", nu=0.3, threads=1)
    assert model.converged
    assert model.certificate.is_nothing
    assert model.certificate.primal[0] <= 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mapped = llsvm.train(X, loss="one_class", nu=0.3, feature_map="rff", components=100, threads=1)
    assert np.mean(mapped.predict(X) == -1) == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("seed", [217, 477, 675, 1033])
def test_the_dual_is_that_of_the_dual_variables_that_are_kept(tmp_path, seed):
    """It may have been larger before."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(20, 90)), int(rng.choice([2, 4, 30, 200]))
    X = rng.normal(size=(n, d))
    sizes = [lambda: 1.0, lambda: rng.uniform(-40, 36, size=d), lambda: rng.uniform(-20, 20, size=(n, d))]
    sizes.append(lambda: rng.uniform(-60, 60))
    kind = rng.integers(4)
    X *= 10.0 ** sizes[kind]() if kind else 1.0
    weights = [10.0 ** rng.uniform(*ends, n) for ends in ((-40, 0), (-40, -30), (-40, 36))]
    weights.append(np.where(rng.random(n) < 0.5, 1e-40, 1.0))
    weight = weights[rng.integers(4)]
    X = X.astype(np.float32) if rng.random() < 0.2 else X
    options = {"loss": "one_class", "nu": float(rng.choice([1e-5, 0.1, 0.3, 0.9, 1.0])), "threads": 1}
    options |= {"max_passes": int(rng.choice([3, 20]))}
    options |= {"scale": str(rng.choice(["none", "standard", "minmax", "unit-row"]))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not all converge
        model = llsvm.train(X, sample_weight=weight, state=tmp_path, **options)
    assert llsvm.verify(model, X, sample_weight=weight, state=tmp_path)["differences"] == []


@pytest.mark.parametrize("size", [1e10, 1e14, 1e20])
def test_large_values_are_certified_as_small_ones_are(size):
    """The threshold grows with them, and is no feature's weight: rounding takes its last digits, and no more."""
    X = size * rows(centre=5.0)
    model = llsvm.train(X, loss="one_class", nu=0.1, scale="none", threads=1)
    assert model.converged
    assert llsvm.verify(model, X)["differences"] == []


def test_no_certificate_before_there_is_one():
    """Where the first pass has weights 0 and the dual is below 0, nothing is within anything of the optimum."""
    X = rows()
    reports = run(X, loss="one_class", nu=0.3, tol=1e-6).reports
    first = next(report for report in reports if report.kind == "pass")
    assert first.certificate.primal == (0.0,)
    assert first.certificate.relative_gap >= 1.0
    assert not first.converged


def test_gaps_of_objectives_below_0():
    assert relative_gap(-9.0, -10.0, negligible=0.0) == pytest.approx(0.1)
    assert relative_gap(0.0, -10.0, negligible=1e-9) == 1.0
    assert relative_gap(3.0, -10.0, negligible=1e-9) > 1.0
    assert relative_gap(0.0, -1e-10, negligible=1e-9) == 0.0
    assert relative_gap(-1e-11, -1e-10, negligible=1e-9) == 0.0
    assert relative_gap(0.0, 0.0) == relative_gap(0.0, -1e-30) == 0.0  # of losses that are never below 0
    assert relative_gap(-9.0, -10.0, 0.5, 0.0) == pytest.approx(0.15)
    with pytest.raises(CertificateError):
        Certificate((-10.0,), (-9.0,), 1, negligible=0.0)


def test_the_certificate_is_kept_with_the_model(tmp_path):
    model = llsvm.train(rows(), loss="one_class", nu=0.3, output=tmp_path / "m", threads=1)
    again = llsvm.load(tmp_path / "m")
    assert again.certificate == model.certificate
    assert again.certificate.relative_gap == model.certificate.relative_gap > 0
    np.testing.assert_array_equal(again.predict(rows()), model.predict(rows()))


# -- the parts ---------------------------------------------------------------------------------------------------


def test_thresholds_are_the_best_there_are():
    rng = np.random.default_rng(2)
    score, cost = rng.normal(size=201), rng.integers(0, 4, 201).astype(float)
    for nu in (0.003, 0.3, 0.77, 1.0):
        total = nu * cost.sum()
        each = [linear_part(score, cost, total, rho) for rho in score[cost > 0]]
        found = linear_part(score, cost, total, best_threshold(score, cost, total))
        assert found == pytest.approx(min(each), rel=1e-8)
        candidates = Candidates(best_threshold(score, cost, total) + 0.01, 1.0)
        for some in np.array_split(np.arange(201), 4):
            candidates.add(score[some] - (best_threshold(score, cost, total) + 0.01), cost[some])
        rho, value = candidates.best(total)
        assert value == pytest.approx(linear_part(score, cost, total, rho), rel=1e-9)
        assert min(each) - 1e-9 * cost.sum() <= value <= min(each) + 0.002 * cost.sum()


def test_any_dual_variables_make_feasible_ones():
    rng = np.random.default_rng(4)
    X, cost = rng.normal(size=(30, 4)), rng.uniform(0, 2, 30)
    for nu in (0.1, 0.6, 1.0):
        alpha = cost * rng.uniform(size=30)
        total, every = nu * cost.sum(), cost @ X
        v = feasible_weights(alpha @ X, alpha.sum(), total, cost.sum(), every, out=np.empty(4))
        if alpha.sum() >= total:
            beta = alpha * total / alpha.sum()
        else:
            share = (total - alpha.sum()) / (cost - alpha).sum()
            beta = alpha + share * (cost - alpha)
        assert beta.sum() == pytest.approx(total)
        assert ((beta >= 0) & (beta <= cost * (1 + 1e-12))).all()
        np.testing.assert_allclose(v, beta @ X, atol=1e-12)


# -- options, files, command line -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"nu": 0.0}, "^nu must be above 0 and at most 1, not 0.0"),
        ({"nu": 1.5}, "^nu must be above 0 and at most 1, not 1.5"),
        ({"loss": "hinge", "nu": 0.1}, "^nu has no meaning here: pass loss one_class"),
        ({"C": 2.0}, "^C has no meaning here: loss one_class takes nu"),
        ({"lambda2": 2.0}, "^lambda2 has no meaning here: loss one_class takes nu"),
        ({"bias": 1.0}, "has a constant term of its own, the threshold rho: leave bias out"),
        ({"intercept": True}, "has a constant term of its own, the threshold rho: leave intercept out"),
        ({"paper": True}, "^paper has no meaning here"),
        ({"penalty": "l1"}, "^loss one_class is for solver llsvm, penalty l1 for"),
        ({"solver": "smsvm"}, "^loss one_class is for solver llsvm, not for smsvm"),
        (
            {"kernel": "rbf"},
            "^kernel rbf is for solver smo or nesvm, loss one_class for solver llsvm: .* pass feature_map",
        ),
        ({"class_weight": "balanced"}, "^class_weight is for classes.*weight names a column"),
        ({"multiclass": "ovo"}, "^multiclass is for classes"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(asked, sentence):
    with pytest.raises(UsageError, match=sentence):
        Settings(**{"loss": "one_class", **asked})


def test_labels_are_not_looked_at(tmp_path):
    """Files with labels that are all the same, of two kinds, or text."""
    X = rows(n=80, d=3)
    found = []
    for number, labels in enumerate((np.ones(80, int), np.where(np.arange(80) % 3, 1, -1))):
        path = write_svmlight(tmp_path / f"{number}.svm", X, labels)
        found.append(llsvm.train(path, loss="one_class", nu=0.2, memory_limit="2GB", threads=1))
    table = tmp_path / "rows.csv"
    body = [",".join(["ok" if i % 2 else "odd", *map(repr, x)]) for i, x in enumerate(X.tolist())]
    table.write_text("\n".join(["label,a,b,c", *body]) + "\n")
    options = {"memory_limit": "2GB", "threads": 1, "scale": "none"}
    found.append(llsvm.train(table, loss="one_class", nu=0.2, **options))
    for model in found:
        np.testing.assert_allclose(model.coef_, found[0].coef_, rtol=1e-6)
        np.testing.assert_allclose(model.intercept_, found[0].intercept_, rtol=1e-6)


def test_columns_of_tables_are_not_centred(tmp_path):
    X = np.random.default_rng(0).normal((5.0, 5.0, 50.0), size=(100, 3))
    path = tmp_path / "rows.csv"
    np.savetxt(path, X, delimiter=",", header="a,b,c", comments="")
    model = llsvm.train(path, loss="one_class", nu=0.1, memory_limit="2GB", threads=1)
    assert (model.settings["scale"], model.settings["bias"]) == ("maxabs", 0.0)
    assert not model.certificate.is_nothing
    assert np.mean(model.predict(X) == -1) == pytest.approx(0.1, abs=0.03)


def test_the_command_line(tmp_path):
    X = rows(n=200, d=3, centre=4.0)
    data, model, out = (str(tmp_path / name) for name in ("rows.svm", "m", "out"))
    X[:10] = -1.0
    write_svmlight(data, X, np.where(np.arange(200) < 10, -1, 1))
    call = CliRunner().invoke
    done = call(app, ["train", data, "--model", model, "--loss", "one_class", "--nu", "0.1"])
    assert done.exit_code == 0, done.output
    assert "no weights whatever reach less than -" in done.output
    assert call(app, ["predict", model, data, "--output", out]).exit_code == 0
    assert set(np.loadtxt(out)) == {-1.0, 1.0}
    assert (np.loadtxt(out)[:10] == -1).all()
    shown = call(app, ["evaluate", model, data, "--json"]).output
    assert '"recall": 1.0' in shown or '"recall":1.0' in shown
    exported = str(tmp_path / "exported")
    assert call(app, ["export", model, exported]).exit_code == 0
    assert "solver_type ONECLASS_SVM" in (tmp_path / "exported").read_text()
    again = str(tmp_path / "again")
    assert call(app, ["import", exported, "--model", again]).exit_code == 0
    np.testing.assert_array_equal(llsvm.load(again).predict(X), llsvm.load(model).predict(X))
    refused = call(app, ["train", data, "--model", model, "--loss", "one_class", "--nu", "2"])
    assert refused.exit_code == 2


# -- scikit-learn ------------------------------------------------------------------------------------------------


def test_the_detector_agrees_with_one_class_svm():
    X = rows(n=300, d=4)
    ours = LLSVMOutlierDetector(nu=0.2, tol=1e-8).fit(X)
    theirs = OneClassSVM(kernel="linear", nu=0.2, tol=1e-10).fit(X)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4)
    np.testing.assert_allclose(ours.offset_, theirs.offset_[0], rtol=1e-4)
    np.testing.assert_allclose(ours.score_samples(X) - ours.offset_, ours.decision_function(X))
    np.testing.assert_array_equal(ours.predict(X), np.where(ours.decision_function(X) > 0, 1, -1))
    assert (ours.fit_predict(X) == ours.predict(X)).all()


def test_batches_need_no_label():
    """As files and frames do not."""
    pl, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    X = rows(n=200, d=3)
    frame = pl.DataFrame({f"x{j}": column for j, column in enumerate(X.T)})
    table = frame.to_arrow()
    options = {"loss": "one_class", "nu": 0.1, "memory_limit": "8GB", "scale": "none"}
    expected = llsvm.train(frame, **options)
    relation = duckdb.from_arrow(table)
    for data in (frame.lazy(), relation, [frame[:90], frame[90:]], iter(table.to_batches()), lambda: [table]):
        model = llsvm.train(data, **options)
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-4)
    np.testing.assert_array_equal(llsvm.predict(model, [table]), llsvm.predict(model, frame))
