"""LAPACK from the library that SciPy brings along, without SciPy; and where there is no such library, with it."""

import subprocess
import sys

import numpy as np
import pytest

from llsvm.solvers.optim import lapack

SOLVED = """
import hashlib, sys
import numpy as np
from llsvm.solvers.optim import lapack
from llsvm.solvers.optim.lapack import one_blas_thread
lapack.LIBRARIES = sys.argv[1]
A = np.random.default_rng(0).standard_normal((60, 40))
with one_blas_thread():
    solved = lapack.Cholesky(A.T @ A).solve(np.arange(80.0).reshape(40, 2))
    values, vectors = lapack.eigenvectors(A.T @ A)
    total = np.zeros((40, 40))
    lapack.add_outer(total, A, 0.3)
arrays = solved, values, vectors, total
digest = hashlib.sha256(b"".join(each.tobytes() for each in arrays)).hexdigest()
print(digest, "scipy.linalg" in sys.modules)
"""


def solved(libraries):
    done = subprocess.run(
        [sys.executable, "-c", SOLVED, libraries], capture_output=True, text=True, timeout=120, check=True
    )
    digest, loaded = done.stdout.split()
    return digest, loaded == "True"


@pytest.mark.skipif(lapack.load() is None, reason="SciPy brings no library of its own here")
def test_scipy_is_not_loaded_for_its_library_and_what_is_solved_is_the_same():
    alone, scipy_loaded = solved(lapack.LIBRARIES)
    assert not scipy_loaded
    assert solved("none-*.so") == (alone, True)


@pytest.mark.parametrize("factor", [1.0, -0.3])
def test_a_sum_of_outer_products(factor):
    rng = np.random.default_rng(2)
    X, H = rng.standard_normal((7, 20)), rng.standard_normal((20, 20))
    right, above = H + factor * X.T @ X, np.triu(H, 1)
    lapack.add_outer(H, X, factor)
    np.testing.assert_allclose(np.tril(H), np.tril(right))
    np.testing.assert_array_equal(np.triu(H, 1), above)


def test_against_numpy():
    A = np.random.default_rng(1).standard_normal((30, 20))
    H, right = A.T @ A, np.arange(20.0)
    np.testing.assert_allclose(lapack.Cholesky(H.copy()).solve(right), np.linalg.solve(H, right), rtol=1e-9)
    values, vectors = lapack.eigenvectors(H)
    np.testing.assert_allclose(vectors * values @ vectors.T, H, atol=1e-10)
    with pytest.raises(np.linalg.LinAlgError):
        lapack.Cholesky(-H)
