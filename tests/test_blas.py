"""BLAS threads while the smoothed Newton method is at work: one, of SciPy's library too; as before afterwards."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from oracle import rows

from llsvm.estimators.classifier import LLSVMClassifier
from llsvm.solvers.optim import lapack
from llsvm.solvers.optim.lapack import one_blas_thread

threadpoolctl = pytest.importorskip("threadpoolctl")

# In a process of its own, since only there SciPy's library is not loaded yet.
SEEN = """
import numpy as np
from threadpoolctl import threadpool_info
from llsvm.solvers.smsvm import newton
from llsvm.train import train

threads, solve = [], newton.Dense.solve
def look(*arguments):
    answer = solve(*arguments)
    threads.append([pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"])
    return answer
newton.Dense.solve = look
rng = np.random.default_rng(0)
X = rng.standard_normal((300, 4))
train(X, (X[:, 0] + rng.standard_normal(300) > 0).astype(int), solver="smsvm", threads=2, memory_limit="1GB")
print(max(map(max, threads)), max(map(len, threads)))
"""

# In a process of its own, which a second copy of a library would stay in.
LATE = """
import ctypes, shutil, sys
import threadpoolctl
from llsvm.solvers.optim import lapack
from llsvm.solvers.optim.lapack import one_blas_thread

def threads():
    return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]

with one_blas_thread():
    pass
ctypes.CDLL(shutil.copy(lapack.load()._name, sys.argv[1]))
before = threads()
with one_blas_thread():
    assert set(threads()) == {1}, threads()
assert threads() == before
"""


def blas_threads():
    return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]


def test_no_library_has_more_than_one_thread_while_newtons_steps_are_solved():
    answer = subprocess.run([sys.executable, "-c", SEEN], capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stderr
    most, libraries = map(int, answer.stdout.split())
    assert most == 1
    assert libraries >= 1


def test_a_library_that_is_loaded_later_has_one_thread_too(tmp_path):
    if lapack.load() is None:
        pytest.skip("SciPy has no library of its own here")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", LATE, str(tmp_path / "libscipy_openblas-late.so")],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stderr


def test_threads_that_overlap_leave_blas_as_it_was():
    import scipy.linalg  # noqa: F401

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        inside, leave = threading.Event(), threading.Event()

        def other():
            with one_blas_thread():
                inside.set()
                leave.wait(10)

        thread = threading.Thread(target=other)
        with one_blas_thread():
            thread.start()
            assert inside.wait(10)
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}  # the other is still at work
        leave.set()
        thread.join()
        assert blas_threads() == before
        assert max(before) == 2


def test_fits_in_threads_leave_blas_as_it_was():
    X, y = rows(n=300, d=4)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with ThreadPoolExecutor(4) as threads:  # a fit that fails is raised by its result
            fits = [
                threads.submit(LLSVMClassifier(solver="smsvm", memory_limit="4GB", C=c).fit, X, y)
                for c in np.geomspace(0.1, 10, 4)
            ]
        assert all(len(fit.result().coef_) for fit in fits)
        assert blas_threads() == before
