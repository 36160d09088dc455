"""Models most of whose weights are zero: neither held nor written, and scored with as others are."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import llsvm
from llsvm.errors import ModelError
from llsvm.models import sparse
from llsvm.models.model import Model
from llsvm.models.sparse import SparseWeights
from llsvm.models.words import of_all

K, D = 4, 30_000


def weights(nnz=500, k=K, d=D, seed=0):
    rng = np.random.default_rng(seed)
    coef = np.zeros((k, d))
    coef[rng.integers(0, k, nnz), rng.integers(0, d, nnz)] = rng.standard_normal(nnz)
    return coef


def made(coef, **more):
    k = len(coef)
    return Model(coef, np.arange(k) / 7, np.arange(max(k, 2)), index_base=1, **more)


def rows(n=300, d=D, seed=1):
    return sp.random_array(
        (n, d), density=0.02, rng=np.random.default_rng(seed), format="csr", dtype=np.float32
    )


def test_weights_without_zeros_score_as_those_with_them(tmp_path, monkeypatch):
    monkeypatch.setattr(sparse, "_PIECE_WEIGHTS", 1000)
    coef, X = weights(), rows()
    model = made(coef)
    model.save(tmp_path / "m")
    held = Model.load(tmp_path / "m")
    assert isinstance(held.weights, SparseWeights)
    assert held.weights.nbytes < coef.nbytes / 6
    np.testing.assert_array_equal(held.coef_, coef)
    np.testing.assert_array_equal(held.decision_function(X), model.decision_function(X))
    dense = X[:, :D].toarray()[:20]
    np.testing.assert_allclose(
        held.decision_function(dense), model.decision_function(dense), rtol=1e-9, atol=1e-12
    )
    assert of_all(held, 7) == of_all(model, 7)
    told = [list(llsvm.explain(each, X[:5], all_scores=True)) for each in (held, model)]
    assert told[0] == told[1]
    held.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    assert (tmp_path / "m").stat().st_size < 20_000
    assert replace(held, n_rows=3).coef_.shape == coef.shape


@pytest.mark.parametrize(
    "coef", [weights(k=1), weights()[:, :500], np.random.default_rng(0).normal(size=(4, 20_000))]
)
def test_others_are_written_as_they_were(tmp_path, coef):
    made(coef).save(tmp_path / "m")
    held = Model.load(tmp_path / "m")
    assert isinstance(held.weights, np.ndarray)
    np.testing.assert_array_equal(held.coef_, coef)
    assert "sparse_weights" not in held.requires


@pytest.mark.parametrize("part", ["coef_counts", "coef_problems", "coef_values"])
def test_parts_that_do_not_fit_each_other_are_refused(tmp_path, monkeypatch, part):
    right = sparse.as_arrays
    made(weights()).save(tmp_path / "m")
    held = Model.load(tmp_path / "m")

    def wrong(found):
        arrays = right(found)
        arrays[part] = arrays[part][:-1] if part != "coef_problems" else arrays[part] + K
        if part == "coef_counts":
            arrays[part][0] += 1
        return arrays

    monkeypatch.setattr("llsvm.models.sparse.as_arrays", wrong)
    held.save(tmp_path / "m")
    with pytest.raises(ModelError, match="damaged"):
        Model.load(tmp_path / "m")


def test_a_model_of_five_million_columns_and_twenty_classes_predicts_without_a_dense_matrix(tmp_path):
    d, k, nnz = 5_000_000, 20, 200_000
    rng = np.random.default_rng(0)
    columns = np.sort(rng.choice(d, nnz, replace=False))
    indptr = np.zeros(d + 1, np.int32)
    np.cumsum(np.bincount(columns, minlength=d), out=indptr[1:])
    held = SparseWeights(indptr, rng.integers(0, k, nnz).astype(np.int32), rng.standard_normal(nnz), k)
    Model(held, np.zeros(k), np.arange(k), index_base=1).save(tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 4_000_000  # dense: 800 MB
    lines = (f"0 {a + 1}:1 {b + 1}:0.5\n" for a, b in zip(columns[:2000:2], columns[1:2001:2], strict=True))
    (tmp_path / "a.svm").write_text("".join(lines))
    code = (
        "import sys; from llsvm.cli import app\n"
        "try: app(sys.argv[1:])\n"
        "finally: print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0], file=sys.stderr)\n"
    )
    arguments = ["predict", str(tmp_path / "m"), str(tmp_path / "a.svm"), "--memory-limit", "500MB"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    found = [int(line) for line in done.stdout.split()]
    expected = [held.problems[2 * i] for i in range(1000)]
    assert len(found) == 1000
    positive = held.values[:2000:2] > 0.5 * np.abs(held.values[1:2001:2])
    assert np.array_equal(np.array(found)[positive], np.array(expected)[positive])
    assert int(done.stderr.split()[-1]) < 450_000  # kB; 20 classes x 5 million weights are 800 MB
