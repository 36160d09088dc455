"""FeatureMap: from rows to the features that a model's weights belong to; part of the model.

    kernel     φ(x) = (k(x, z_1), ..., k(x, z_m)): a kernel machine, z its support vectors, coef_ its α y
    nystroem   φ(x) = k(x, z) K(z, z)^(-1/2), z rows chosen at random (Williams and Seeger 2001)
    rff        φ(x) = √(2/m) cos(x·ω + β), ω normal: the RBF kernel (Rahimi and Recht 2007)

Kernels: rbf exp(−γ ‖x − z‖²), poly (γ x·z + coef0)^degree, linear x·z, precomputed: column j of x is k(x, z_j).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Matrix
from llsvm.errors import DataError, ModelError
from llsvm.files.json_checks import MAX_FEATURES, check, is_number, is_whole, one_of

_CHUNK_BYTES = 1 << 22
EXTRA = "feature_map"  # the name in Model.extra and Model.requires
_HEAD = {
    "kind": one_of("kernel", "nystroem", "rff"),
    "kernel": one_of("rbf", "poly", "linear", "precomputed"),
    "gamma": is_number,
    "degree": is_whole(0, 1000),
    "coef0": is_number,
    "n_features": is_whole(1, MAX_FEATURES),
    "base": is_whole(0, 1),
}


@dataclass(frozen=True, slots=True)
class KernelFunction:
    """A kernel k(x, z), see the file's head.

    name: "rbf", "poly", "linear" or "precomputed".
    gamma, degree, coef0: its parameters, as far as it has them.
    """

    name: str
    gamma: float
    degree: int = 3
    coef0: float = 0.0

    def apply(
        self, dots: NDArray[np.float64], norms: NDArray[np.float64], other_norms: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return k of rows with dot products ``dots`` (n, m) and squared norms (n,) and (m,); written over
        ``dots``."""
        if self.name == "poly":
            dots *= self.gamma
            dots += self.coef0
            np.power(dots, self.degree, out=dots)
        elif self.name == "rbf":
            dots *= -2.0
            dots += norms[:, None]
            dots += other_norms[None, :]
            np.maximum(dots, 0.0, out=dots)  # rounding
            dots *= -self.gamma
            np.exp(dots, out=dots)
        return dots

    def diagonal(self, X: Matrix) -> NDArray[np.float64]:
        """Return (n,) k(x_i, x_i)."""
        norms = _squares(X)
        if self.name == "rbf":
            return np.ones_like(norms)
        return self.apply(norms.copy(), norms, norms)

    def sizes(self, X: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return s and a of the rows of X, both (n,): k(x_i, x_j) is known to a few roundings of s_i s_j + a_i +
        a_j, more than of itself where a power makes them more, or a distance is the difference of large numbers."""
        norms = _squares(X)
        if self.name == "rbf":
            return np.ones_like(norms), self.gamma * norms
        power = max(self.degree, 1) if self.name == "poly" else 1
        return np.sqrt(power * np.abs(self.diagonal(X))), np.zeros_like(norms)

    def between(self, X: Matrix, Z: Matrix, n_features: int, base: int = 0) -> NDArray[np.float64]:
        """Return (n, m) float64: k(x_i, z_j). base: subtracted from the columns of X; those of Z start at 0.

        X and Z: CSR or dense. Besides the answer, memory for small pieces only.
        """
        if self.name == "precomputed":
            raise ValueError("a precomputed kernel has no function")
        if self.name == "rbf" and not isinstance(X, CSR) and not isinstance(Z, CSR):
            X, Z, base = _centered(X, Z, base)
        dots = _dots(X, Z, n_features, base)
        return self.apply(dots, _squares(X), _squares(Z))


@dataclass(slots=True)
class FeatureMap:
    """φ, from rows to features; see the file's head.

    kind: "kernel", "nystroem" or "rff".
    function: the kernel.
    n_features: d, columns of the rows that it maps.
    landmarks: z, (m, d) CSR or float; (m,) int64 chosen columns for a precomputed kernel; ω, (d, m) float for rff.
    projection: (m, m) float64 for nystroem, β (m,) float64 for rff, None for kernel.
    base: the first column's number, 0 or 1, in the svmlight files that it was made from.
    """

    kind: str
    function: KernelFunction
    n_features: int
    landmarks: Matrix | NDArray[np.int64]
    projection: NDArray[np.float64] | None = None
    base: int = 0
    _width: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.kind == "rff":
            self._width = self.landmarks.shape[1]  # type: ignore[union-attr]
        else:
            rows = self.landmarks
            self._width = len(rows.indptr) - 1 if isinstance(rows, CSR) else len(rows)

    @property
    def width(self) -> int:
        """m: the number of mapped features."""
        return self._width

    @property
    def nbytes(self) -> int:
        parts: list[NDArray[Any]] = (
            list(self.landmarks) if isinstance(self.landmarks, CSR) else [self.landmarks]
        )
        return sum(part.nbytes for part in parts) + (0 if self.projection is None else self.projection.nbytes)

    @property
    def work_bytes(self) -> int:
        """Return the bytes that it holds, and that mapping a few rows takes beside them."""
        landmarks = (
            0 if isinstance(self.landmarks, CSR) else 8 * self.landmarks.size
        )  # as float64, transposed
        return self.nbytes + landmarks + mapping_bytes(self.width, self.n_features)

    def rows_at_once(self, nbytes: int = _CHUNK_BYTES) -> int:
        """Return the number of rows whose mapping takes about ``nbytes``."""
        return max(1, nbytes // (16 * self.width + 8 * self.n_features))

    def __call__(self, X: Matrix, base: int = 0) -> NDArray[np.float64]:
        """Return φ of the rows of X, (n, width) float64. base: subtracted from a CSR's columns."""
        if self.kind == "rff":
            out = _times(X, np.asarray(self.landmarks), base)
            out += cast(NDArray[np.float64], self.projection)
            np.cos(out, out=out)
            out *= np.sqrt(2.0 / self.width)
            return out
        if self.function.name == "precomputed":
            return _columns(X, np.asarray(self.landmarks), self.n_features, base)
        values = self.function.between(X, cast(Matrix, self.landmarks), self.n_features, base)
        return values if self.projection is None else values @ self.projection

    def as_extra(self) -> dict[str, Any]:
        """Return plain values and arrays for ``Model.extra``."""
        f = self.function
        extra: dict[str, Any] = {
            EXTRA: {
                "kind": self.kind,
                "kernel": f.name,
                "gamma": f.gamma,
                "degree": f.degree,
                "coef0": f.coef0,
                "n_features": self.n_features,
                "base": self.base,
            }
        }
        if isinstance(self.landmarks, CSR):
            for name, array in zip(CSR._fields, self.landmarks, strict=True):
                extra[f"landmarks_{name}"] = array
        else:
            extra["landmarks"] = self.landmarks
        if self.projection is not None:
            extra["projection"] = self.projection
        return extra

    @classmethod
    def from_extra(cls, extra: dict[str, Any], unread: bool = False) -> FeatureMap | None:
        """Return the map that ``Model.extra`` holds, or None. unread: its arrays have shapes alone. Raises
        ModelError where a part is missing, or does not fit the others: kernels follow its indices without
        looking."""
        if EXTRA not in extra:
            return None
        head = extra[EXTRA]
        try:
            check(head, _HEAD, "feature map")
            n_features = head["n_features"]
            if "landmarks" in extra:
                landmarks: Any = extra["landmarks"]
            else:
                parts = [extra[f"landmarks_{name}"] for name in CSR._fields]
                landmarks = CSR(*parts) if unread else _checked_csr(n_features, *parts)
            function = KernelFunction(head["kernel"], head["gamma"], head["degree"], head["coef0"])
            made = cls(head["kind"], function, n_features, landmarks, extra.get("projection"), head["base"])
            if not unread:
                made._check()
        except (KeyError, ValueError) as error:
            raise ModelError(f"its feature map is damaged: {error}") from error
        return made

    def _check(self) -> None:
        """Raise ValueError unless the arrays have the shapes that the class's docstring says."""
        rows, d, m = self.landmarks, self.n_features, self.width
        if self.function.name == "precomputed" and self.kind == "kernel":
            fits = (
                not isinstance(rows, CSR) and rows.ndim == 1 and rows.dtype.kind in "iu" and _within(rows, d)
            )
        elif isinstance(rows, CSR):
            fits = self.kind != "rff"
        else:
            fits = (
                rows.ndim == 2 and rows.dtype.kind == "f" and d == rows.shape[0 if self.kind == "rff" else 1]
            )
        if not fits or not m:
            raise ValueError(f"its landmarks do not fit {d:,} features")
        shape = {"kernel": None, "nystroem": (m, m), "rff": (m,)}[self.kind]
        if shape != (None if self.projection is None else self.projection.shape):
            raise ValueError(f"its projection does not fit {m:,} landmarks")
        if self.projection is not None and self.projection.dtype.kind != "f":
            raise ValueError("its projection is no numbers")


def _checked_csr(n_features: int, indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any]) -> CSR:
    whole = indptr.dtype.kind in "iu" and indices.dtype.kind in "iu" and data.dtype.kind == "f"
    if not whole or any(part.ndim != 1 for part in (indptr, indices, data)):
        raise ValueError("its landmarks are no sparse rows")
    ends = len(indptr) and indptr[0] == 0 and indptr[-1] == len(indices) == len(data)
    if not ends or np.any(indptr[1:] < indptr[:-1]) or not _within(indices, n_features):
        raise ValueError("its landmarks' indices lead outside")
    return CSR(indptr.astype(np.int64, copy=False), indices.astype(np.int32, copy=False), data)


def _within(indices: NDArray[Any], n: int) -> bool:
    return not len(indices) or (int(indices.min()) >= 0 and int(indices.max()) < n)


def mapping_bytes(width: int, n_features: int) -> int:
    """Return the bytes that mapping a few rows takes, beside the map."""
    return 2 * max(_CHUNK_BYTES, 16 * width + 8 * n_features)


def projection_bytes(n_landmarks: int, n_features: int, is_dense: bool) -> int:
    """Return the bytes that ``nystroem_projection`` takes while it works, its answer included: the kernel matrix,
    its eigenvectors, LAPACK's room, two products; and dense landmarks once more, as float64."""
    return 8 * (8 * n_landmarks**2 + n_features * (n_landmarks if is_dense else 1))


def nystroem_projection(function: KernelFunction, landmarks: Matrix, n_features: int) -> NDArray[np.float64]:
    """Return K(z, z)^(-1/2), (m, m); directions without length are left out."""
    with np.errstate(over="ignore", invalid="ignore"):
        K = function.between(landmarks, landmarks, n_features)
    if not np.isfinite(K).all():
        raise DataError(
            f"values of the {function.name} kernel are beyond 64-bit floats; pass a smaller --gamma or --degree, "
            "or --scale unit-row"
        )
    values, vectors = np.linalg.eigh(K)
    positive = values > 1e-12 * values[-1]
    return (vectors[:, positive] / np.sqrt(values[positive])) @ vectors[:, positive].T


def _centered(
    X: NDArray[np.floating], Z: NDArray[np.floating], base: int
) -> tuple[NDArray[np.floating], NDArray[np.floating], int]:
    """Return the rows as seen from the middle of Z, from where distances lose fewer digits; as they are where
    either has columns that the other lacks."""
    if not len(Z) or X.shape[1] - base != Z.shape[1]:
        return X, Z, base
    center = Z.mean(axis=0, dtype=np.float64)
    return X[:, base:] - center, Z - center, 0


def _squares(X: Matrix) -> NDArray[np.float64]:
    if not isinstance(X, CSR):
        return np.einsum("ij,ij->i", X, X, dtype=np.float64)
    sums = np.zeros(len(X.indptr))
    start, stop = int(X.indptr[0]), int(X.indptr[-1])
    lengths = np.diff(X.indptr)
    full = np.flatnonzero(lengths)
    if len(full):
        values = X.data[start:stop].astype(np.float64)
        sums[full] = np.add.reduceat(values * values, X.indptr[full] - start)
    return sums[:-1]


def _dots(X: Matrix, Z: Matrix, n_features: int, base: int) -> NDArray[np.float64]:
    """Return (n, m) float64 dot products; columns that one of the two lacks count as zero."""
    if not isinstance(Z, CSR):
        return _times(X, np.ascontiguousarray(Z.T, dtype=np.float64), base)
    if not isinstance(X, CSR):
        return np.ascontiguousarray(_times(Z, np.ascontiguousarray(X[:, base:].T, dtype=np.float64), 0).T)
    from llsvm.kernels.products import csr_dots

    out = np.empty((len(X.indptr) - 1, len(Z.indptr) - 1))
    csr_dots(*X, base, *Z, 0, out.shape[1], np.zeros(n_features), out)
    return out


def _times(X: Matrix, Z: NDArray[np.float64], base: int) -> NDArray[np.float64]:
    """Return X Z for Z (d, m) dense."""
    if isinstance(X, CSR):
        from llsvm.kernels.products import dense_dots

        out = np.zeros((len(X.indptr) - 1, Z.shape[1]))
        dense_dots(*X, base, Z, out)
        return out
    width = min(X.shape[1] - base, len(Z))
    return X[:, base : base + width].astype(np.float64, copy=False) @ Z[:width]


def _columns(X: Matrix, columns: NDArray[np.int64], n_features: int, base: int) -> NDArray[np.float64]:
    """Return X[:, columns] as float64."""
    if not isinstance(X, CSR):
        return X[:, columns + base].astype(np.float64)
    place = np.full(n_features, -1)
    place[columns] = np.arange(len(columns))
    out = np.zeros((len(X.indptr) - 1, len(columns)))
    start, stop = int(X.indptr[0]), int(X.indptr[-1])
    at = X.indices[start:stop].astype(np.int64) - base
    row = np.repeat(np.arange(len(out)), np.diff(X.indptr))
    known = (at >= 0) & (at < n_features)
    known[known] = place[at[known]] >= 0
    out[row[known], place[at[known]]] = X.data[start:stop][known]
    return out
