"""MappedSource: a source whose rows pass through an approximate feature map on their way, so that every linear
solver trains a kernel machine. The map is learnt in one reading of the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from llsvm.block import CSR, Block, Matrix, concat
from llsvm.data.source import BlockSource, DerivedSource, SourceInfo, column_name, growing_blocks
from llsvm.errors import DataError, LongRowError
from llsvm.features.feature_map import (
    FeatureMap,
    KernelFunction,
    mapping_bytes,
    nystroem_projection,
    projection_bytes,
)
from llsvm.features.scaling import MAX_UNSCALED
from llsvm.objective.rounding import HALF_ULP, Rounding, keep_double

FIT_BYTES = 1 << 20
_ALIKE = (
    "its values are too near to each other for the 64-bit floats that they are read as (whole numbers beyond "
    "2^53), and a feature map would take them for equal: subtract the same from all, or leave the column out"
)
_HELD_BYTES = 5  # a source holds about so many blocks of its own


@dataclass(frozen=True, slots=True)
class MapOptions:
    """Options of the feature map that is learned.

    kind: "nystroem" or "rff". kernel: "rbf", "poly" or "linear"; see llsvm.features.feature_map.
    n_components: features of the map.
    gamma, degree, coef0: of the kernel; gamma None for 1 / features.
    seed: of the random numbers.
    """

    kind: str
    kernel: str
    n_components: int
    gamma: float | None = None
    degree: int = 3
    coef0: float = 0.0
    seed: int = 0


class MappedSource(DerivedSource):
    """The rows of a source through a feature map that is learned from them, dense float32 (see Rounding).

    source: read once to learn the map, in blocks of ``FIT_BYTES``.
    options: which map.
    sign: called with the bytes that the map takes now, or is about to; it refuses by raising.
    Raises DataError.
    """

    def __init__(
        self, source: BlockSource, options: MapOptions, sign: Callable[[int], object] = lambda nbytes: None
    ) -> None:
        if not source.info().in_memory:
            keep_double(source.info().rounding)  # what is mapped are the file's own values
        super().__init__(source)
        self.rounding = Rounding()
        self.map = _learn(source, options, sign)
        _refuse_alike(source.info(), self.map.function.gamma)
        sign(max(2 * self.map.nbytes, self.map.work_bytes))

    def info(self) -> SourceInfo:
        return replace(
            self.source.info(),
            n_features=self.map.width,
            in_memory=False,
            index_base=0,
            first_indicator=None,
            is_dense=True,
            record_batches=None,
            rounding=(self.rounding,),
        )

    def blocks(self, max_bytes: int) -> Iterator[Block]:
        """Yield the source's blocks, mapped; each has at most ``max_bytes``, or one row."""
        step = max(1, max_bytes // (20 * self.map.width + 8 * self.map.n_features))
        try:
            for block in self.source.blocks(max(max_bytes // _HELD_BYTES, 1)):
                for start in range(0, block.n_rows, step):
                    part = block.slice(start, min(start + step, block.n_rows))
                    values = self.rounding.values(self.map(part.X, self.map.base))
                    yield replace(part, X=values, y=part.y.copy(), rows=part.rows.copy())
        except LongRowError as error:
            raise LongRowError(str(error), _HELD_BYTES * error.row_bytes) from error


def _refuse_alike(info: SourceInfo, gamma: float) -> None:
    """Raise DataError for a column of nearly equal values that have lost so much, as 64-bit floats, that rows move
    by more than 32-bit floats do: in the space of kernel rbf by up to sqrt(2 gamma) times that."""
    for rounding in info.rounding:
        spread = rounding.spread
        moved = np.sqrt(2.0 * gamma) * np.where(spread.constant, spread.high - spread.low, 0.0)
        if (moved > HALF_ULP).any():
            raise DataError(f"{info.name}: {column_name(info, int(np.argmax(moved > HALF_ULP)))}: {_ALIKE}")


def _learn(source: BlockSource, options: MapOptions, sign: Callable[[int], object]) -> FeatureMap:
    rng = np.random.default_rng(options.seed)
    kind, n_components = options.kind, options.n_components
    sample, columns = _sample(source, n_components if kind == "nystroem" else 1, rng, sign)
    base = source.info().index_base or 0
    d = max(columns - base, source.info().n_features or 0, 1)
    gamma = 1.0 / d if options.gamma is None else options.gamma
    function = KernelFunction(options.kernel, gamma, options.degree, options.coef0)
    if kind == "rff":
        # ω, and once more while it is scaled, or in the model
        sign(8 * n_components * (2 * d + 2) + mapping_bytes(n_components, d))
        omega = rng.standard_normal((d, n_components)) * np.sqrt(2.0 * function.gamma)
        phase = rng.uniform(0.0, 2.0 * np.pi, n_components)
        return FeatureMap(kind, function, d, omega, phase, base)
    X = sample.X
    n_rows = sample.n_rows
    sign(2 * sample.nbytes + projection_bytes(n_rows, d, sample.is_dense) + mapping_bytes(n_rows, d))
    if isinstance(X, CSR):
        landmarks: CSR | np.ndarray = CSR(X.indptr, X.indices - np.int32(base), X.data)
    else:
        landmarks = X[:, base:]
    return FeatureMap(kind, function, d, landmarks, nystroem_projection(function, landmarks, d), base)


def _sample(
    source: BlockSource, n: int, rng: np.random.Generator, sign: Callable[[int], object]
) -> tuple[Block, int]:
    """Return n rows chosen uniformly in one reading, those with the smallest random keys of all that have a weight;
    and the number of columns."""
    sample: Block | None = None
    keys = np.empty(0)
    columns = beside = 0

    def grow(row_bytes: int) -> int:
        nonlocal beside
        beside = _HELD_BYTES * row_bytes
        sign(beside)
        return row_bytes

    for block in growing_blocks(source, FIT_BYTES, grow):
        X = block.X
        _require_products(source, X)
        if isinstance(X, CSR):
            columns = max(columns, int(X.indices[X.indptr[0] : X.indptr[-1]].max(initial=-1)) + 1)
        else:
            columns = max(columns, X.shape[1])
        if block.counts is not None and not block.counts.all():
            block = block.take(block.counts > 0)
        drawn = rng.random(block.n_rows)
        worst = np.inf if len(keys) < n else keys.max()
        picked = np.flatnonzero(drawn < worst)
        if len(picked) == 0:
            continue
        held = 0 if sample is None else sample.nbytes
        sign(beside + 3 * (held + block.nbytes))  # what is kept, joined with more, and what is chosen of both
        part = block.take(picked)
        sample = part if sample is None else concat([sample, part])
        keys = np.concatenate([keys, drawn[picked]])
        if len(keys) > n:
            best = np.sort(np.argpartition(keys, n)[:n])
            sample, keys = sample.take(best), keys[best]
    if sample is None:
        raise DataError(f"{source.info().name}: there is no row in it")
    return sample, columns


def _require_products(source: BlockSource, X: Matrix) -> None:
    """Raise DataError for a value that is too large to be mapped."""
    values = X.data[X.indptr[0] : X.indptr[-1]] if isinstance(X, CSR) else X
    size = 0.0 if not values.size else max(float(values.max()), -float(values.min()))
    if size > MAX_UNSCALED:
        place, info = int(np.argmax(np.abs(values))), source.info()
        column = X.indices[X.indptr[0] + place] if isinstance(X, CSR) else place % X.shape[1]
        raise DataError(
            f"{info.name}: {column_name(info, int(column))}: a value of size {size:.3g}: products of such values "
            "are no 64-bit floats; multiply the column by a power of ten, or leave it out"
        )
