"""Direct multi-class on real data and on many classes: optimum, accuracy, passes, spill, memory. Slow."""

from __future__ import annotations

import bz2
import json
import lzma
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from oracle import run, write_svmlight
from peaks import run_for_peak
from scipy import sparse

import llsvm
from tools.bench.datasets import array_rows, covtype_arrays, write

pytestmark = pytest.mark.slow
DIRECT = ("crammer-singer", "weston-watkins")
NEWS = ("20news/20news_multi.train.svm.xz", "20news/20news_multi.test.svm.xz")
SECTOR = ("sector/sector.scale.bz2", "sector/sector.t.scale.bz2")
ACCURACY = {"mnist": 92.81, "sector": 94.36, "20news": 84.80}  # LIBLINEAR -s 4 -c 1, %


def mnist(folder):
    def read(name, skip):
        with lzma.open(folder / "mnist" / name) as file:
            return np.frombuffer(file.read(), np.uint8, offset=skip)

    for part in ("train", "t10k"):
        X = read(f"{part}-images-idx3-ubyte.xz", 16).reshape(-1, 784).astype(np.float32) / 255
        yield sparse.csr_matrix(X), read(f"{part}-labels-idx1-ubyte.xz", 8).astype(int)


def svmlight(folder, names):
    from sklearn.datasets import load_svmlight_file

    width = None
    for name in names:
        with (bz2 if name.endswith("bz2") else lzma).open(folder / name) as file:
            X, y = load_svmlight_file(file, dtype=np.float32, n_features=width)
        width = X.shape[1]
        yield X, y.astype(int)


@pytest.fixture(scope="module", params=sorted(ACCURACY))
def real(request, data_dir):
    """Name, training rows, labels, test rows, labels."""
    if request.param == "mnist":
        (X, y), (X_test, y_test) = mnist(data_dir)
    else:
        (X, y), (X_test, y_test) = svmlight(data_dir, SECTOR if request.param == "sector" else NEWS)
    return request.param, X, y, X_test, y_test


@pytest.fixture(scope="module")
def news(data_dir, tmp_path_factory):
    """20news as it is (in random order) and sorted by class, as files."""
    X, y = next(svmlight(data_dir, NEWS))
    folder = tmp_path_factory.mktemp("news")
    shuffled = np.random.default_rng(0).permutation(len(y))
    by_class = np.argsort(y, kind="stable")
    return {
        name: str(write_svmlight(folder / name, X[order], y[order]))
        for name, order in (("shuffled", shuffled), ("sorted", by_class))
    }


def primal(model, X, y, weston):
    """The objective with C = 1, from the model's weights."""
    scores = X @ model.coef_.T
    ids = np.searchsorted(model.classes_, y)
    rows = np.arange(len(ids))
    over = 1 + scores - scores[rows, ids][:, None]
    over[rows, ids] = 0
    loss = np.maximum(over, 0).sum(axis=1) if weston else over.max(axis=1)
    return 0.5 * np.sum(model.coef_**2) + loss.sum()


@pytest.mark.parametrize("multiclass", DIRECT)
def test_optimum_and_accuracy(real, multiclass):
    name, X, y, X_test, y_test = real
    weston = multiclass == "weston-watkins"
    if weston and name == "mnist":
        X, y = X[:15_000], y[:15_000]  # all rows are for the accuracy
    model = run(X, y, multiclass=multiclass, ledger=4_000_000_000, threads=2).model
    assert model.certificate.relative_gap <= 1e-3
    assert primal(model, X, y, weston) == pytest.approx(model.certificate.total_primal, rel=1e-9)
    if not weston:
        assert 100 * np.mean(model.predict(X_test) == y_test) == pytest.approx(ACCURACY[name], abs=0.3)


@pytest.mark.skipif(shutil.which("liblinear-train") is None, reason="liblinear-train is not on the path")
def test_crammer_singer_is_within_a_thousandth_of_liblinear(real, tmp_path):
    name, X, y, _, _ = real
    if name == "mnist":
        X, y = X[:10_000], y[:10_000]  # to the tight tolerance, LIBLINEAR takes minutes on all rows
    path = write_svmlight(tmp_path / "a.svm", X, y)
    command = ["liblinear-train", "-s", "4", "-e", "0.001", "-q", str(path), str(tmp_path / "m")]
    subprocess.run(command, check=True, timeout=600)
    from llsvm.models.liblinear import read_liblinear

    theirs = read_liblinear(tmp_path / "m")
    X = X[:, : theirs.n_features_in_]
    model = run(X, y, multiclass="crammer-singer", ledger=4_000_000_000).model
    assert primal(model, X, y, False) <= 1.001 * primal(theirs, X, y, False)
    assert model.certificate.total_dual <= primal(theirs, X, y, False)


@pytest.fixture(scope="module")
def covertype(data_dir, tmp_path_factory):
    """Each fourth row of covertype: seven classes, columns scaled to [0, 1], as a file."""
    X, y = covtype_arrays(data_dir, classes=7)
    path = tmp_path_factory.mktemp("covertype") / "rows.svm"
    write(path, array_rows(X[::4], y[::4]))
    return path


def test_covertype_converges(covertype):
    model = run(str(covertype), multiclass="crammer-singer", ledger=2_000_000_000).model
    assert model.n_rows == 145_253
    assert model.certificate.relative_gap <= 1e-3


def test_covertype_converges_where_rows_are_read_for_each_of_newtons_steps(covertype, tmp_path):
    """Which read by far more than the few passes do."""
    model, limit = tmp_path / "m", 296
    options = (
        "--multiclass",
        "weston-watkins",
        "--threads",
        1,
        "--max-passes",
        8,
        "--spill-dir",
        tmp_path,
        "--quiet",
    )
    code, peak, said = run_for_peak(
        "train", covertype, "--model", model, *options, "--memory-limit", f"{limit}MB"
    )
    assert code == 0, said
    assert peak <= limit * 1_000_000
    log = llsvm.Model.load(model).log
    assert log["read_from"] == "cache"
    assert log["bytes_read"] > 10 * covertype.stat().st_size
    found = llsvm.verify(model, covertype)
    assert found["differences"] == []
    assert found["relative_gap"] <= 1e-3


@pytest.mark.parametrize("multiclass", DIRECT)
def test_sorted_files_and_spilled_survivors_reach_the_same_optimum(news, tmp_path, multiclass):
    """Survivors do not fit in memory; a file sorted by class takes at most twice the passes."""
    options = {"multiclass": multiclass, "spill_dir": str(tmp_path), "threads": 2}
    in_memory = run(news["shuffled"], ledger=1_000_000_000, **options)
    assert in_memory.summary()["bytes_spilled"] == 0
    within = in_memory.model.certificate
    passes = {}
    for name, path in news.items():
        outside = run(path, ledger=28_000_000, **options)
        assert not outside.stream.in_one_block
        assert outside.reports[-1].converged
        assert outside.summary()["bytes_spilled"] > 1_000_000
        certificate = outside.model.certificate
        assert certificate.total_dual <= within.total_primal
        assert within.total_dual <= certificate.total_primal
        passes[name] = certificate.passes
    assert passes["sorted"] <= 2 * passes["shuffled"]


def thousand_classes(path):
    rng = np.random.default_rng(0)
    n, k, d = 5_000, 1000, 20_000
    topics = rng.integers(1, d + 1, (k, 30))
    y = rng.permutation(n) % k
    with open(path, "w") as file:
        for label in y:
            columns = np.unique(np.concatenate([rng.choice(topics[label], 10), rng.integers(1, d + 1, 30)]))
            value = 1 / np.sqrt(len(columns))
            file.write(f"{label} " + " ".join(f"{j}:{value:.4f}" for j in columns) + "\n")


@pytest.mark.parametrize("multiclass", DIRECT)
def test_a_thousand_classes_keep_to_their_memory(made_once, tmp_path, multiclass):
    path, limit = made_once(thousand_classes, "a.svm"), 700_000_000
    cli = [sys.executable, "-c", "from llsvm.__main__ import main; main()"]
    options = ["--multiclass", multiclass, "--memory", str(limit), "--json", "--quiet"]
    done = subprocess.run(
        [*cli, "train", str(path), "--model", str(tmp_path / "m"), *options],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ},
    )
    answer = json.loads(done.stdout)
    assert answer["relative_gap"] <= 1e-3
    assert len(answer["classes"]) == 1000
    assert answer["peak_rss_bytes"] <= limit
