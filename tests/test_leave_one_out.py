"""The bound on leaving each row out: as a slow twin has it, and never less than what leaving them out comes to."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import rows, run, small_pages, with_bias, write_svmlight
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.svm import LinearSVC
from typer.testing import CliRunner

from llsvm.block import CSR, Block
from llsvm.cli import app
from llsvm.objective.certificate import LeaveOneOutCounts


@pytest.mark.parametrize("sparse", [False, True])
def test_counts_are_those_of_a_slow_twin(sparse, monkeypatch):
    monkeypatch.setattr("llsvm.objective.certificate._PIECE_BYTES", 2000)
    rng = np.random.default_rng(0)
    X, y = rows(n=300, d=6, density=0.5)
    alpha, margin = rng.choice([0.0, 0.05, 0.3, 1.0], 300), rng.normal(0.5, 1, 300)
    there, expected = rng.random(300) < 0.9, np.zeros((2, 2), int)
    for i in np.flatnonzero(there):
        wrong = margin[i] <= 0 or (alpha[i] > 0 and alpha[i] * (X[i] @ X[i] + 4) >= margin[i])
        expected[1 - y[i]] += 1, wrong
    csr = sp.csr_matrix(X)
    held = CSR(csr.indptr.astype(np.int64), csr.indices, csr.data) if sparse else X
    counts = LeaveOneOutCounts(2.0)
    for part in (slice(0, 130), slice(130, 300)):
        block = Block(held, y, np.arange(300)).slice(part.start, part.stop)
        counts.add(block, alpha[part], margin[part], y[part] == 1, there[part])
    found = counts.answer()
    assert [
        [found.positives, found.wrong_positives],
        [found.negatives, found.wrong_negatives],
    ] == expected.tolist()


def data_sets():
    iris, cancer = load_iris(return_X_y=True), load_breast_cancer(return_X_y=True)
    some = iris[1] > 0
    yield "overlapping", *rows(n=60, d=3, noise=0.6), 1.0
    yield "small C", *rows(n=60, d=3, seed=1), 0.01
    yield "iris", iris[0][some][::2], iris[1][some][::2] - 1, 1.0
    some = cancer[0][::8, :10]
    yield "cancer", (some - some.mean(axis=0)) / some.std(axis=0), cancer[1][::8], 10.0


@pytest.mark.parametrize(("name", "X", "y", "C"), [pytest.param(*each, id=each[0]) for each in data_sets()])
def test_leaving_out_each_row_is_never_worse(name, X, y, C):
    X = np.asarray(X, np.float32).astype(float)
    trained = run(X, y, C=C, tol=1e-8, bias=1.0, solver="llsvm")
    bound = trained.summary()["leave_one_out"]
    wide, wrong = with_bias(X, 1.0), np.zeros(len(y), bool)
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        svm = LinearSVC(C=C, loss="hinge", tol=1e-8, max_iter=1_000_000, fit_intercept=False, random_state=0)
        wrong[i] = svm.fit(wide[others], y[others]).predict(wide[[i]])[0] != y[i]
    recall = 1 - wrong[y == 1].mean()
    precision = (~wrong & (y == 1)).sum() / ((~wrong & (y == 1)) | (wrong & (y == 0))).sum()
    assert bound["rows"] == len(y)
    assert bound["error"] >= wrong.mean()
    assert bound["recall"] <= recall
    assert bound["precision"] <= precision
    assert bound["error"] < 0.7  # it says something


def test_rows_on_disk_have_the_same_bound(monkeypatch):
    small_pages(monkeypatch)
    X, y = rows(n=400, d=4, noise=0.6)
    plenty, little = run(X, y, tol=1e-6), run(X, y, tol=1e-6, ledger=60_000)
    assert not little.stream.in_one_block
    one, two = (each.summary()["leave_one_out"] for each in (plenty, little))
    assert two == {name: pytest.approx(value, abs=0.005) for name, value in one.items()}


@pytest.mark.parametrize(
    "options", [{"loss": "squared_hinge"}, {"solver": "nesvm"}, {"paper": True}, {"multiclass": "ovo"}]
)
def test_where_it_is_not_known_it_is_not_given(options):
    X, y = rows(n=60, d=3, classes=3 if "multiclass" in options else 2)
    assert run(X, y, **options).summary()["leave_one_out"] is None


def test_train_says_what_it_means(tmp_path):
    X, y = rows(n=200, d=4, noise=0.6)
    data = str(write_svmlight(tmp_path / "rows.svm", X, y))
    words = ["train", data, "--model", str(tmp_path / "m")]
    bound = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)["leave_one_out"]
    said = CliRunner().invoke(app, words).stdout
    assert f"leaving each row out: at most {bound['error']:.2%} would be wrong" in said
    other = CliRunner().invoke(app, [*words, "--loss", "squared_hinge"]).stdout
    assert "leaving each row out" not in other
