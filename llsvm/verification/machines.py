"""Machines: what scores rows, as training had it: a model's weights are for rows as they are in files, and its
certificate is of the weights for scaled rows.

LinearMachine: w·x. MappedMachine: w·φ(x), φ an approximate feature map. KernelMachine: Σ_j β_j k(z_j, x), z_j the
support vectors. All with a constant feature, whose weight is penalised unless there is --intercept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.block import CSR, Block, Matrix
from llsvm.dataset import DatasetInfo
from llsvm.features.feature_map import FeatureMap
from llsvm.features.scaling import Scaling
from llsvm.models.model import Model
from llsvm.models.tables import CENTER, intercept_of
from llsvm.settings.objective import ONE_CLASS
from llsvm.settings.settings import Settings
from llsvm.verification.products import (
    PIECE_VALUES,
    add_rows,
    dense,
    kernel,
    kernel_lost,
    longest,
    lost_in_sum,
    norms,
    scores,
)
from llsvm.verification.reading import Rows
from llsvm.verification.sums import KernelSums, WeightSums

Array = NDArray[np.float64]


class Scored(NamedTuple):
    """Rows, as a machine has them.

    values, lost: (n, k) scores, and by how much rounding may have changed each, at most. norms, off: (n,) ‖φ(x_i)‖,
    and by how much rounding may have moved φ(x_i), or what it adds to a sum; 0 of kernels."""

    values: Array
    lost: Array
    norms: Array
    off: Array


class Machine(Protocol):
    """Scorer of rows. width: numbers that a row's scores, or what they are made of, take."""

    width: int

    def scores(self, block: Block) -> Scored:
        """Return the scores of rows as ``Rows`` has them."""
        ...

    def norms(self) -> tuple[Array, Array, Array, Array]:
        """Return (k,) numbers ‖w‖² and ‖w‖₁ of the weights that are penalised, and by how much rounding may have
        changed each; known after all rows have been scored."""
        ...

    def new_sums(self, count: int, n_rows: int) -> WeightSums:
        """Return sums without rows. count: of weights. n_rows: of all data."""
        ...


def machine_of(
    model: Model,
    settings: Settings,
    dataset: DatasetInfo,
    scaling: Scaling | None,
    mapped_dtype: type[np.floating],
) -> Machine:
    """Return the machine of a model. settings: of the training. dataset, scaling: of ``Rows`` that have been
    read. mapped_dtype: as which the features of an approximate map were kept."""
    target = dataset.target
    unit, shift, rest = (1.0, 0.0, 0.0) if target is None else (target.unit, target.shift, target.shift_rest)
    coef, constant = model.coef_ / unit, (model.intercept_ - shift - rest) / unit
    # a model's intercept is for targets as they are: where these are far from 0 beside their spread, it has fewer
    # digits than the constant that was trained
    size = (np.abs(intercept_of(model)) + abs(shift)) / unit
    if model.feature_map is None:
        weights = np.zeros((len(coef), dataset.n_columns))
        weights[:, dataset.first_column :] = coef
        moved = size
        if scaling is not None:
            d, center = len(scaling.scale), np.zeros(dataset.n_columns)
            center[dataset.first_column :] = model.extra.get(CENTER, 0.0)
            constant = (intercept_of(model) - shift - rest) / unit
            moved = size + np.abs(constant) + np.abs(weights[:, :d]) @ np.abs(scaling.shift - center[:d])
            constant = constant + weights[:, :d] @ (scaling.shift - center[:d])
            constant = constant + weights[:, scaling.far] @ scaling.shift_rest
            weights[:, :d] /= scaling.scale
        lost = lost_in_sum(weights.shape[1]) * float(moved.max())
        return LinearMachine(*_of_each_class(settings, dataset, weights, constant), settings, lost)
    if model.feature_map.kind == "kernel":
        return KernelMachine(coef, constant, settings, model.feature_map)
    weights, constant = _of_each_class(settings, dataset, coef, constant)
    lost = lost_in_sum(0) * float(size.max())
    return MappedMachine(weights, constant, settings, model.feature_map, mapped_dtype, lost)


def _of_each_class(
    settings: Settings, dataset: DatasetInfo, weights: Array, constant: Array
) -> tuple[Array, Array]:
    """Return the weights of each class: of two that were trained jointly a model has the difference, and they
    sum to 0."""
    if settings.multiclass in ("ovr", "ovo") or len(dataset.classes) != 2:
        return weights, constant
    halves = np.array([[-0.5], [0.5]])
    return halves * weights, halves[:, 0] * constant


class LinearMachine:
    """Linear model. weights: (k, d). constant: (k,) what the constant feature adds. lost: by how much rounding may
    have changed that."""

    def __init__(self, weights: Array, constant: Array, settings: Settings, lost: float = 0.0) -> None:
        self.weights, self.constant, self.lost = weights, constant, lost
        self._norms = np.sqrt(np.einsum("ij,ij->i", weights, weights))
        self.width = len(weights)
        free = settings.intercept or settings.loss == ONE_CLASS
        # a model that has no constant feature, and a constant, has been changed: it is penalised as if it had one
        self._of_constant = np.zeros(len(weights)) if free else constant / (settings.constant or 1.0)
        self._lost_constant = 0.0 if free else lost / (settings.constant or 1.0)

    def scores(self, block: Block) -> Scored:
        size = norms(block.X)
        off = lost_in_sum(longest(block.X)) * size
        lost = np.outer(off, self._norms) + self.lost
        return Scored(scores(block.X, self.weights) + self.constant, lost, size, off)

    def new_sums(self, count: int, n_rows: int) -> WeightSums:
        return LinearSums(self, count)

    def add(self, block: Block, coefficients: Array, sums: Array) -> None:
        """Add rows: sums += Σ_i coefficients_i φ(x_i)ᵀ. coefficients: (n, count)."""
        add_rows(block.X, coefficients, sums)

    def norms(self) -> tuple[Array, Array, Array, Array]:
        squares = np.einsum("ij,ij->i", self.weights, self.weights) + self._of_constant**2
        sizes, last = np.abs(self.weights).sum(axis=1) + np.abs(self._of_constant), self._lost_constant
        return squares, sizes, (2.0 * np.abs(self._of_constant) + last) * last, np.full(len(sizes), last)


class LinearSums:
    """WeightSums of a LinearMachine."""

    def __init__(self, machine: LinearMachine, count: int) -> None:
        """Begin with no rows. w: (count, d), without the constant feature's weights."""
        self._machine = machine
        self.w = np.zeros((count, machine.weights.shape[1]))

    def add(self, block: Block, coefficients: Array) -> None:
        self._machine.add(block, coefficients, self.w)

    def squares(self, rows: Rows, mixture: Array | None = None) -> Array:
        w = self.w if mixture is None else (mixture @ self.w)[None, :]
        return np.einsum("ij,ij->i", w, w)


class MappedMachine(LinearMachine):
    """Linear machine of an approximate feature map. weights: (k, m), of the map's features."""

    def __init__(
        self,
        weights: Array,
        constant: Array,
        settings: Settings,
        map_: FeatureMap,
        dtype: type[np.floating],
        lost: float,
    ) -> None:
        """Begin with the weights. dtype: of features as they were kept."""
        super().__init__(weights, constant, settings, lost)
        self._map, self._dtype = map_, dtype
        self.width = max(map_.width, map_.n_features)

    def scores(self, block: Block) -> Scored:
        exact, lost = self._exact_features(block.X)
        features = self._rounded_as_kept(exact)
        # kept as 32-bit floats, what differs a little may differ by one of these
        off = self._rounded_as_kept(exact + lost)
        off -= features
        exact -= lost
        del lost
        np.maximum(off, features - self._rounded_as_kept(exact), out=off)
        off += lost_in_sum(features.shape[1]) * np.abs(features)
        values = features @ self.weights.T + self.constant
        return Scored(values, off @ np.abs(self.weights).T + self.lost, norms(features), norms(off))

    def add(self, block: Block, coefficients: Array, sums: Array) -> None:
        sums += coefficients.T @ self._rounded_as_kept(self._exact_features(block.X)[0])

    def _rounded_as_kept(self, features: Array) -> Array:
        return features.astype(self._dtype).astype(np.float64)

    def _exact_features(self, X: Matrix) -> tuple[Array, Array]:
        """Return the features (n, m), and by how much rounding may have changed each."""
        map_ = self._map
        assert map_.projection is not None
        if map_.kind == "rff":
            omega = np.asarray(map_.landmarks, np.float64)
            angles = scores(X, np.pad(omega.T, ((0, 0), (map_.base, 0))))
            size = np.sqrt(2.0 / map_.width)
            lost = lost_in_sum(longest(X)) * np.outer(norms(X), np.sqrt((omega * omega).sum(axis=0)))
            return size * np.cos(angles + map_.projection), size * (lost + lost_in_sum(4))
        values, lost = _kernel_values(map_, X)
        lost = (lost + lost_in_sum(map_.width) * np.abs(values)) @ np.abs(map_.projection)
        return values @ map_.projection, lost


class KernelMachine:
    """Kernel machine. beta: (k, m) of the support vectors."""

    def __init__(self, beta: Array, constant: Array, settings: Settings, map_: FeatureMap) -> None:
        self.width = max(map_.width, map_.n_features)
        self._beta, self._constant, self._map = beta, constant, map_
        free = settings.intercept
        self._of_constant = np.zeros(len(beta)) if free else constant / (settings.constant or 1.0)
        self._squares = np.zeros(len(beta))  # βᵀKβ, of a kernel that only the rows have
        self._lost_squares = np.zeros(len(beta))

    def scores(self, block: Block) -> Scored:
        nothing = np.zeros(block.n_rows)
        if self._map.function.name != "precomputed":
            values, lost = _kernel_values(self._map, block.X)
            sums = values @ self._beta.T + self._constant
            return Scored(sums, self._lost(values, lost), nothing, nothing)
        columns = np.asarray(self._map.landmarks) + self._map.base
        if isinstance(block.X, CSR):
            weights = np.zeros((len(self._beta), int(max(block.X.indices.max(initial=0), columns.max())) + 1))
            weights[:, columns] = self._beta
            absolute = block.X._replace(data=np.abs(block.X.data))
            values, sizes = (scores(X, w) for X, w in ((block.X, weights), (absolute, np.abs(weights))))
        else:
            K = block.X[:, columns].astype(np.float64)
            values, sizes = K @ self._beta.T, np.abs(K) @ np.abs(self._beta).T
        lost = lost_in_sum(len(columns)) * sizes
        support = np.isin(block.rows, self._map.landmarks)
        place = np.searchsorted(self._map.landmarks, block.rows[support])
        self._squares += (self._beta[:, place] * values[support].T).sum(axis=1)
        self._lost_squares += (np.abs(self._beta[:, place]) * lost[support].T).sum(axis=1)
        lost = lost + lost_in_sum(0) * np.abs(self._constant)
        return Scored(values + self._constant, lost, nothing, nothing)

    def norms(self) -> tuple[Array, Array, Array, Array]:
        squares, lost = self._squares, self._lost_squares
        if self._map.function.name != "precomputed":
            squares, lost = np.zeros(len(self._beta)), np.zeros(len(self._beta))
            for start, Z in _landmarks(self._map):
                values, off = _kernel_values(self._map, Z, 0)
                part = self._beta[:, start : start + len(Z)]
                squares += ((part @ values) * self._beta).sum(axis=1)
                off += lost_in_sum(self._map.width) * np.abs(values)
                lost += ((np.abs(part) @ off) * np.abs(self._beta)).sum(axis=1)
        return squares + self._of_constant**2, np.zeros(len(lost)), lost, np.zeros(len(lost))

    def _lost(self, values: Array, lost: Array) -> Array:
        """Return what rounding may have changed of scores. values, lost: (n, m) of the kernel."""
        lost = lost + lost_in_sum(self._map.width) * np.abs(values)
        return lost @ np.abs(self._beta).T + lost_in_sum(0) * np.abs(self._constant)

    def new_sums(self, count: int, n_rows: int) -> WeightSums:
        return KernelSums(self._map, count, n_rows)


def _landmarks(map_: FeatureMap) -> Iterator[tuple[int, Array]]:
    """Yield the number of the first of some landmarks, and these, (n, d) float64."""
    step, Z = max(1, PIECE_VALUES // max(map_.n_features, map_.width)), cast(Matrix, map_.landmarks)
    for start in range(0, map_.width, step):
        stop = min(start + step, map_.width)
        part = CSR(Z.indptr[start : stop + 1], Z.indices, Z.data) if isinstance(Z, CSR) else Z[start:stop]
        yield start, dense(part, 0, map_.n_features)


def _kernel_values(map_: FeatureMap, X: Matrix, base: int | None = None) -> tuple[Array, Array]:
    """Return (n, m) k(x_i, z_j), and by how much rounding may have changed each."""
    function = map_.function
    if base is None:
        base = map_.base
    rows = dense(X, base, map_.n_features)
    out, lost = np.empty((2, len(rows), map_.width))
    for start, Z in _landmarks(map_):
        given = function.name, function.gamma, function.degree, function.coef0, rows, Z
        block = slice(start, start + len(Z))
        out[:, block] = kernel(*given)
        lost[:, block] = kernel_lost(*given, out[:, block])
    return out, lost
