"""SmSVM on the real data that its promises are about: optima from LIBLINEAR solved tightly, passes counted."""

import lzma

import numpy as np
import pytest
from oracle import run
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from typer.testing import CliRunner

from llsvm.cli import app
from tools.bench.replicate import replicate

MAX_PASSES = 25
NEAR = 1.0005  # the primal's share of the optimum's


def assert_kept(training, optimum):
    """The optimum (of LIBLINEAR with tolerance 1e-9) is known to seven digits."""
    report = training.reports[-1]
    assert report.converged
    assert report.certificate.relative_gap <= 1e-3
    assert optimum * (1 - 1e-6) <= report.certificate.total_primal <= optimum * NEAR
    assert report.certificate.total_dual <= optimum * (1 + 1e-6)
    assert report.passes <= MAX_PASSES


@pytest.mark.parametrize(
    ("file", "positive", "loss", "C"),
    [
        ("adult/a9a.xz", 1, "logistic", 0.1),
        pytest.param("20news/20news_multi.train.svm.xz", 1, "logistic", 1.0, marks=pytest.mark.slow),
        pytest.param("20news/20news_multi.train.svm.xz", 1, "squared_hinge", 1.0, marks=pytest.mark.slow),
    ],
)
def test_l1_has_liblinears_zeros(data_dir, file, positive, loss, C):
    with lzma.open(data_dir / file) as rows:
        X, y = load_svmlight_file(rows)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    y = (y == positive).astype(int)
    options = {"C": C, "fit_intercept": False, "tol": 1e-8, "max_iter": 20_000}
    if loss == "logistic":
        model = LogisticRegression(solver="liblinear", l1_ratio=1.0, **options)
    else:
        model = LinearSVC(penalty="l1", dual=False, **options)
    theirs = model.fit(X, y).coef_[0] != 0
    training = run(X, y, solver="smsvm", loss=loss, penalty="l1", C=C, tol=1e-6)
    assert training.reports[-1].converged
    ours, columns = training.coef[0][: X.shape[1]] != 0, X.tocsc()
    for j in np.flatnonzero(ours != theirs):  # either of two columns that are the same
        same = [k for k in np.flatnonzero(ours | theirs) if (columns[:, k] != columns[:, j]).nnz == 0]
        assert ours[same].any()
        assert theirs[same].any()


def test_a9a(data_dir):
    file = str(data_dir / "adult" / "a9a.xz")
    assert_kept(run(file, solver="smsvm", tol=1e-3), 11433.81)


@pytest.mark.slow
def test_covertype(data_dir):
    with lzma.open(data_dir / "covtype" / "covtype.data.xz", "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    X, y = table[:, :-1], np.where(table[:, -1] == 2, 1, -1)
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1)
    for threads in (1, 2):
        assert_kept(run(X, y, solver="smsvm", tol=1e-3, threads=threads), 337953.0)


@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_colon_is_wide_and_needs_no_hessian(data_dir, penalty):
    from scipy.io import loadmat

    data = loadmat(data_dir / "colon" / "colon.mat")
    X, y = data["X"].astype(float), data["Y"].ravel()
    training = run(X, y, solver="smsvm", penalty=penalty, C=0.1, tol=1e-3)
    assert training.reports[-1].converged
    assert "no Hessian over all 2,000 features" in training.summary()["note"]
    assert "Hessian" not in training.stream.budget.lines


def test_replicated_rows_are_the_rows_with_a_little_noise(tmp_path):
    source, target = tmp_path / "few.svm", tmp_path / "many.svm"
    source.write_text("+1 1:0.5 2:1\n-1 1:0.25 3:0.75\n-1 2:1 3:0.125\n")
    written = replicate(source, target, 100_000, noise=0.01)
    assert written == target.stat().st_size
    X, y = load_svmlight_file(str(target))
    assert X.shape == (100_000, 3)
    assert np.array_equal(y, np.tile([1, -1, -1], 33_334)[:100_000])
    some = X[::3].toarray()
    assert np.array_equal(some[:, 1], np.ones(len(some)))  # indicators stay
    assert some[:, 0].mean() == pytest.approx(0.5, abs=0.001)
    assert some[:, 0].std() == pytest.approx(0.01, rel=0.1)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--penalty l2", "needs --penalty"),
        ("--penalty elasticnet", "needs --lambda2"),
        ("--points 0", "at least 1"),
        ("--lambda1 -1", "positive"),
        ("--plot path.gif", ".png"),
        ("--plot nowhere/path.png", "nowhere"),
    ],
)
def test_path_refuses_before_it_reads(tmp_path, monkeypatch, words, reason):
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(app, ["path", "no-such-file.svm", *words.split()])
    assert answer.exit_code == 2
    assert reason in str(answer.exception) + answer.output


def test_path_reads_tables(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{a:.4f},{1000 * b:.1f},{'uv'[int(a + 0.2 * b > 0)]}" for a, b in rng.normal(size=(200, 2))]
    data, picture = tmp_path / "rows.csv", tmp_path / "path.svg"
    data.write_text("a,b,kind\n" + "\n".join(lines) + "\n")
    options = ["--label", "kind", "--scale", "standard", "--points", "4", "--plot", str(picture), "-q"]
    answer = CliRunner().invoke(app, ["path", str(data), *options])
    assert answer.exit_code == 0, answer.output
    assert "<!-- a -->" in picture.read_text()  # named by its column
