"""Access to LAPACK and BLAS beneath NumPy and SciPy: decompositions, sums Xᵀ X, and the number of BLAS threads.

SciPy's functions hold the interpreter's lock while they are at work: seconds, for some thousands of unknowns, in
which no other thread gets on and no signal is answered. The same routines, called from here by ctypes, do not.
Solvers with threads of their own set BLAS to one thread meanwhile (``one_blas_thread``), and multiply vectors
without it (``dot``).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.process.loading import loading_blas
from llsvm.process.trace import trace
from llsvm.process.work import count_factorization, count_solutions
from llsvm.solvers.optim.line_search import ROUNDING

Array = NDArray[np.float64]

ROUTINES = ("dpotrf", "dpotrs", "dsyevd", "dsyrk")
OF_BLAS = ("dsyrk",)
LIBRARIES = "libscipy_openblas-*.so"  # SciPy's own, of 32-bit integers
_NAME = "scipy_{}_"  # of a routine there
# Factor from one ridge to the next, where a matrix stays indefinite. Lower takes more decompositions (from ROUNDING
# to 1 there are seven); higher adds a larger ridge than it takes, which shortens the step.
_RIDGE_GROWTH = 100.0
_lock = threading.Lock()
_at_work = 0  # solvers that are within
_before: dict[str, int] = {}  # threads of each library (by its file) when the first of them came


class Cholesky:
    """The factor of a matrix H (n, n), of its lower triangle, whose place it takes: H is float64, contiguous, in C
    order.

    Raises np.linalg.LinAlgError where H is not positive definite, or not finite; H is spoilt then.
    """

    def __init__(self, H: Array) -> None:
        assert H.flags.c_contiguous
        assert H.dtype == np.float64
        count_factorization(len(H))
        self._factor, self._n = H, len(H)
        # the upper triangle, as Fortran sees it: transposed
        if _call("dpotrf", b"U", self._n, H, max(self._n, 1)) or not np.isfinite(H.diagonal()).all():
            raise np.linalg.LinAlgError("the matrix is not positive definite")

    def solve(self, right: Array) -> Array:
        """H⁻¹ right; right: (n,), or (n, r) for several."""
        columns = np.array(right.T, np.float64, order="C")  # which is Fortran's order of right
        n, r = self._n, columns.size // max(self._n, 1)
        count_solutions(n, r)
        _call("dpotrs", b"U", n, r, self._factor, max(n, 1), columns, max(n, 1))
        return columns.T


def factor_with_ridge(H: Array, ridge: float = ROUNDING) -> Cholesky | None:
    """The factor of H, of its lower triangle, which takes its place. Where rounding has made H indefinite, with a
    ridge: as small a share of its diagonal as it takes, of the mean where that is not above 0. None where none
    does: H is not finite.

    ridge: the least, as a share."""
    mirror(H)
    diagonal = H.diagonal().copy()
    mean = float(diagonal.mean()) if len(H) else 0.0
    scale = np.where(diagonal > 0, diagonal, max(mean, 1e-300))  # above 0 even where all of it is 0
    while True:
        try:
            return Cholesky(H)
        except np.linalg.LinAlgError:
            if not ridge < 1.0:
                return None
            mirror(H.T)  # from the triangle that was left alone
            H.flat[:: len(H) + 1] = diagonal + ridge * scale
            trace("factor.ridge", order=len(H), ridge=ridge)
            ridge *= _RIDGE_GROWTH


def mirror(H: Array) -> None:
    """Make the upper triangle of H (n, n) the transpose of the lower one."""
    for i in range(len(H)):
        H[i, i + 1 :] = H[i + 1 :, i]


def add_outer(H: Array, X: Array, factor: float = 1.0) -> None:
    """Lower triangle of H (n, n) += factor Xᵀ X, in its place; X: (p, n); both float64, contiguous, in C order."""
    p, n = X.shape
    assert H.flags.c_contiguous
    assert X.flags.c_contiguous
    # as Fortran sees them, transposed: upper triangle, X Xᵀ
    _call("dsyrk", b"U", b"N", n, p, factor, X, max(n, 1), 1.0, H, max(n, 1), info=False)


def eigenvectors(H: Array) -> tuple[Array, Array]:
    """Eigenvalues (n,), ascending, and eigenvectors (n, n), in columns, of a symmetric H (n, n), whose lower
    triangle is looked at. Raises np.linalg.LinAlgError where they are not found."""
    n = len(H)
    vectors, values = np.array(H, np.float64, order="F"), np.empty(n)
    size, whole_size = np.empty(1), np.empty(1, np.int32)
    head = (b"V", b"L", n, vectors, max(n, 1), values)
    _call("dsyevd", *head, size, -1, whole_size, -1)  # asks how much room is best
    work, whole = np.empty(int(size[0])), np.empty(int(whole_size[0]), np.int32)
    if _call("dsyevd", *head, work, len(work), whole, len(whole)):
        raise np.linalg.LinAlgError("the eigenvalues of the matrix are not found")
    return values, vectors


def _call(name: str, *arguments: bytes | float | NDArray[Any], info: bool = True) -> int:
    """A routine with these arguments and, of LAPACK, ``info``, which it returns."""
    status = ctypes.c_int(0)

    def pointer(argument: bytes | float | NDArray[Any]) -> Any:
        if isinstance(argument, np.ndarray):
            return ctypes.c_void_p(argument.ctypes.data)
        if isinstance(argument, bytes):
            return argument
        return ctypes.byref(
            ctypes.c_int(argument) if isinstance(argument, int) else ctypes.c_double(argument)
        )

    _routine(name)(*map(pointer, arguments), *([ctypes.byref(status)] if info else []))
    return status.value


@cache
def load() -> ctypes.CDLL | None:
    """Load LAPACK, and the BLAS beneath it: the library that SciPy's packages for Linux bring along, by itself, as
    what is around it takes longer to load than many a problem to solve; else with SciPy, and then None."""
    with loading_blas():
        for file in _beside_scipy():
            with suppress(OSError, AttributeError):  # no library of this machine, or without these names
                library = ctypes.CDLL(file)
                if all(hasattr(library, _NAME.format(name)) for name in ROUTINES):
                    return library
        import scipy.linalg  # noqa: F401

    return None


def _beside_scipy() -> list[str]:
    """Return the paths of ``LIBRARIES`` that SciPy brings along."""
    scipy = find_spec("scipy")
    if scipy is None or scipy.origin is None:
        return []
    return sorted(map(str, (Path(scipy.origin).parents[1] / "scipy.libs").glob(LIBRARIES)))


@cache
def _routine(name: str) -> Any:
    """LAPACK's or BLAS's; its arguments are pointers, and ctypes calls it without the interpreter's lock."""
    library = load()
    if library is not None:
        return ctypes.CFUNCTYPE(None)((_NAME.format(name), library))
    from scipy.linalg import cython_blas, cython_lapack  # which have addresses for compiled code

    capsule = (cython_blas if name in OF_BLAS else cython_lapack).__pyx_capi__[name]
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)
    address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    signature = name_of(("PyCapsule_GetName", ctypes.pythonapi))(capsule)
    address = address_of(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, signature)
    return ctypes.CFUNCTYPE(None)(address)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS threads and ours would fight for the processors. Their number is the whole process's, so the first to
    enter notes it, and the last to leave sets it back; only OpenMP keeps one for each thread that calls."""
    global _at_work
    load()  # with a BLAS of its own, which no one finds before it is loaded
    libraries = _libraries()
    with _lock:
        if _at_work == 0:
            _before.clear()
        for library in libraries:
            _before.setdefault(library.filepath, library.num_threads)
            _set(library, 1)
        _at_work += 1
    try:
        yield
    finally:
        with _lock:
            _at_work -= 1
            for library in libraries:
                if _at_work == 0 or library.info().get("threading_layer") == "openmp":
                    _set(library, _before[library.filepath])


def dot(a: Array, b: Array) -> float:
    """⟨a, b⟩, not by BLAS, whose threads would spin between products."""
    return float(np.einsum("i,i", a.ravel(), b.ravel()))


def _libraries() -> list[Any]:
    """Find the BLAS libraries of this process: a look at each library that is loaded, which takes under a
    millisecond."""
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set(library: Any, threads: int) -> None:
    """Set a library's threads, from whichever thread of ours: threadpoolctl listens to the first alone, until it is
    told that this one is done."""
    from threadpoolctl import OpenBLASController

    OpenBLASController.clear_controlling_thread(force=True)
    library.set_num_threads(threads)
    OpenBLASController.clear_controlling_thread(force=True)
