"""SolverState: what a solver needs to go on from the end of a pass as if it had never stopped.

Named arrays and numbers, nothing else: no object of a solver, no place in a file. It carries a checkpoint, a warm
start, the change from one solver to another, and whatever else continues a run. Weights can be summed anew from
dual variables, but not to the last bit, so both are in it.

What a method knows from pass to pass is a dataclass of arrays and numbers, of which each step makes the next:
``saved_values`` and ``restored`` make it a part of a state, and the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from llsvm.dataset import DatasetInfo
from llsvm.errors import UsageError
from llsvm.features.scaling import Scaling
from llsvm.objective.problems import are_of_positive_rows
from llsvm.settings.settings import Settings

# Of rows (n,) by number: (n, width) α_i / C_i, floating; of rows that a problem leaves out they count nothing
Shares = Callable[[NDArray[np.int64]], NDArray[np.floating]]
Number = int | float | str | bool | None
Value = Number | list["Value"] | dict[str, "Value"]  # what JSON can hold; generators' states are such
# Rows' values are copied in pieces of so many bytes, and sums in pieces of so many numbers: fewer take more calls,
# and more take more memory.
_COPY_BYTES = 1 << 16
# Runs, one after the other, that begin at sums as the run before kept them; then sums are made of the rows again,
# which takes a pass. With more runs, rounding piles up in the sums; with fewer, there are more such passes.
MOST_RUNS = 30
# What of the settings makes another problem, beside C and the class weights.
_OBJECTIVE = (
    "multiclass",
    "loss",
    "epsilon",
    "quantile",
    "delta",
    "nu",
    "penalty",
    "l1_ratio",
    "C",
    "paper",
    "constant",
    "intercept",
    "scale",
    "kernel",
    "gamma",
    "degree",
    "coef0",
    "feature_map",
    "components",
    "step",
)
D = TypeVar("D")


class RowValues(Protocol):
    """Values of every row that may be too many for memory; RowState and SparseState are such."""

    n_rows: int
    width: int
    dtype: np.dtype[Any]

    def get(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """A copy of the rows' values, (len(rows), width), or (len(rows),) where width is 1."""
        ...


@dataclass(frozen=True, slots=True)
class ShareSums:
    """Sums of dual variables over rows: a run that starts at the dual variables need not read the rows for these.

    weights: the numbers of w(α) in the order in which the method keeps them, ``parts`` arrays of weights one after
        the other, as RowValues of width 1. linear: (p,) Σ C_i b_i(a_i) of D, of each problem.
    by_class: (n_classes,) C_i of a row of sample weight 1, where it is positive; and of others, where these are of
        other weight. dtype: of the a_i.
    runs: that have begun at such sums since they were last made of rows.
    scales: of the rows' columns, see llsvm.solvers.state; None: none are scaled.
    crawled: sweeps over these rows in memory were so slow, of every problem, that second order took over.
    """

    weights: RowValues
    parts: int
    linear: NDArray[np.float64]
    by_class: NDArray[np.float64]
    dtype: np.dtype[Any]
    runs: int
    scales: RowValues | None = None
    crawled: bool = False

    def factor(self, by_class: NDArray[np.float64], dtype: np.dtype[Any]) -> float | None:
        """By which all α_i have grown, where the a_i are kept with other costs as such a type; None where that is
        not one number, or rounding piles up, and w has to be made of rows."""
        if by_class.shape != self.by_class.shape or dtype.itemsize < self.dtype.itemsize:
            return None
        if self.runs >= MOST_RUNS or not (by_class > 0).all() or not (self.by_class > 0).all():
            return None
        factors = by_class / self.by_class
        same = np.ptp(factors) <= 2.0 * np.spacing(factors[0])  # they are quotients of rounded numbers
        return float(factors[0]) if same else None

    def read(self, w: NDArray[np.float64], inner: int, factor: float) -> None:
        """Let w, (parts, n · inner), be so many times the weights: of each column ``inner`` numbers, the constant
        feature's last; of columns that there were not, 0."""
        before = self.weights.n_rows // self.parts
        for part, out in enumerate(w):
            out[...] = 0.0
            for begin, end, target in ((0, before - inner, 0), (before - inner, before, len(out) - inner)):
                for start in range(begin, end, _COPY_BYTES):
                    stop = min(start + _COPY_BYTES, end)
                    values = self.weights.get(np.arange(part * before + start, part * before + stop))
                    at = target + start - begin
                    np.multiply(values, factor, out=out[at : at + stop - start])


@dataclass(frozen=True, slots=True)
class RowShares:
    """Dual variables a_i = α_i / C_i of every row in each problem that it takes part in: the point that a
    certificate's dual belongs to.

    values: (n_rows, width) in the order of the method's own, see llsvm.objective.problems and, of the joint
    multi-class problems, llsvm.solvers.sequential_dual.problem. sums: of them, where the method can begin at such.
    largest_cost: costs above it were taken for it; infinite: none were.
    """

    values: RowValues
    sums: ShareSums | None = None
    largest_cost: float = math.inf


@dataclass(frozen=True, slots=True)
class AtWeights:
    """The dual point at the very weights that a solver hands back: each row's α is the slope of its loss there, and
    softmax's probabilities, brought into the bounds of the problem as the guides say.

    smoothing: (p,) a of each problem: the slope of a loss with a kink is that of ½ (z + √(z² + a²)); 0 of smooth
    losses, () of softmax.
    """

    smoothing: tuple[float, ...] = ()


DualPoint = RowShares | AtWeights


class ArrayRows:
    """The rows of an array, (n_rows, width), as SettableRowValues."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array
        (self.n_rows, self.width), self.dtype = array.shape, array.dtype

    def get(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        values = self.array[rows]
        return values[:, 0] if self.width == 1 else values

    def set(self, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        self.array[rows] = values.reshape(-1, self.width)


class SettableRowValues(RowValues, Protocol):
    """Values of every row that can be changed."""

    def set(self, rows: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Store the rows' values, shaped as ``get`` returns them."""
        ...


@dataclass(frozen=True, slots=True)
class SolverState:
    """The state of a solver at the end of a pass.

    solver: the name of the method it belongs to, as in Settings.
    passes: full passes made.
    of: the data and the objective that it is the state for, from ``data_of`` and ``objective_of``.
    arrays: by name; their shapes and types are the solver's own. They may be views of what it works on, valid until
        it goes on: who keeps them, copies them.
    rows: by name, values of every row (dual variables), to be copied piece by piece.
    numbers: by name, what else there is, each a Value: counters, random generators' states, thresholds.
    """

    solver: str
    passes: int
    of: Mapping[str, Value] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    rows: Mapping[str, RowValues] = field(default_factory=dict)
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def require(self, solver: str, of: Mapping[str, Value]) -> None:
        """Raise UsageError unless it is of that method, and for those data or that objective."""
        if self.solver != solver:
            raise UsageError(
                f"this is the state of solver {self.solver}, which {solver} cannot go on from: "
                f"go on with solver {self.solver}, or begin anew"
            )
        for name, value in of.items():
            if self.of.get(name) != value:
                raise UsageError(
                    f"this is the state of a training with {name} {_shown(self.of.get(name))}, not "
                    f"{_shown(value)}: go on with the same data and settings, or begin anew"
                )

    def require_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Raise UsageError unless the named arrays are there, and of those shapes; and the named ``rows``, whose
        shape is (rows, width)."""
        for name, shape in shapes.items():
            saved_shape: tuple[int, ...] | None = None
            if name in self.arrays:
                saved_shape = self.arrays[name].shape
            elif name in self.rows:
                saved_shape = self.rows[name].n_rows, self.rows[name].width
            require_shape(name, saved_shape, shape)

    def require_share_type(self, dtype: np.dtype[Any]) -> None:
        """Raise UsageError unless the stored shares are of that type."""
        saved_type = self.rows["share"].dtype
        if saved_type != dtype:
            raise UsageError(
                f"this state has share as {saved_type}, not as {dtype}: it is of another memory limit or "
                "tolerance; go on with the same, or begin anew"
            )


def require_shape(name: str, actual: tuple[int, ...] | None, shape: tuple[int, ...]) -> None:
    """Raise UsageError unless what a state has under that name is of this shape. actual: None where it has none."""
    if actual != shape:
        raise UsageError(
            f"this state has {name} of shape {actual}, not {shape}: it is of other data, or of another memory "
            "limit; go on with the same, or begin anew"
        )


def objective_of(settings: Settings, class_weight: NDArray[np.float64]) -> dict[str, Value]:
    """Return the settings that a state depends on, by name: the objective. class_weight: (n_classes,) factors of
    C."""
    weights: list[Value] = class_weight.tolist()
    if are_of_positive_rows(class_weight, settings.multiclass == "ovr"):
        weights.append("of positive rows")  # of all rows, they are another objective
    return {name: getattr(settings, name) for name in _OBJECTIVE} | {"class weights": weights}


def data_of(dataset: DatasetInfo) -> dict[str, Value]:
    """Return the facts of the data that a state depends on, by name."""
    return {
        "rows": dataset.n_rows,
        "columns": dataset.n_columns,
        "values": dataset.nnz,
        "classes": [str(label) for label in dataset.classes],
        "data": dataset.digest,
    }


def copy_rows(values: RowValues, target: SettableRowValues) -> None:
    """Copy the values of every row, a piece at a time."""
    step = max(1, _COPY_BYTES // max(1, values.width * values.dtype.itemsize))
    for start in range(0, values.n_rows, step):
        rows = np.arange(start, min(start + step, values.n_rows))
        target.set(rows, values.get(rows))


def _shown(value: Value) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def saved_values(name: str, values: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Value]]:
    """Return the arrays and the numbers of a dataclass, and of those within it, by their names in a state, which
    begin with ``name``; arrays are not copied."""
    arrays: dict[str, NDArray[Any]] = {}
    numbers: dict[str, Value] = {}
    for value_field in fields(values):
        key, value = f"{name} {value_field.name}", getattr(values, value_field.name)
        if isinstance(value, np.ndarray):
            arrays[key] = value
        elif is_dataclass(value):
            within = saved_values(key, value)
            arrays, numbers = arrays | within[0], numbers | within[1]
        else:
            numbers[key] = value
    return arrays, numbers


def restored(name: str, state: SolverState, values: D) -> D:
    """Return ``values`` with all that ``saved_values`` gave a state, copied: numbers of the types, arrays of the
    shapes and types that they have in it. Raises UsageError where the state has no such."""
    saved: dict[str, Any] = {}
    for value_field in fields(values):  # type: ignore[arg-type]
        key, value = f"{name} {value_field.name}", getattr(values, value_field.name)
        number = state.numbers.get(key)
        if isinstance(value, np.ndarray):
            state.require_shapes({key: value.shape})
            saved[value_field.name] = np.array(state.arrays[key], value.dtype)
        elif is_dataclass(value):
            saved[value_field.name] = restored(key, state, value)
        elif type(number) is type(value):  # a bool is no int here
            saved[value_field.name] = number
        elif type(value) is float and type(number) is int:
            saved[value_field.name] = float(number)
        else:
            raise UsageError(
                f"the saved state does not belong to this run: {key!r} is {number!r}; continue with the data and "
                "options it was saved with"
            )
    return replace(values, **saved)  # type: ignore[type-var]


def problem_name(j: int) -> str:
    """Return what the arrays and numbers of a problem begin with."""
    return f"problem {j}"


# Scales of columns as rows of a state, and sums of scaled rows brought to other scales.
#
# A scaled value is x' = (x − shift) · scale, so of any coefficients c_i
#
#     Σ c_i x'_i = scale · (Σ c_i x_i − shift · Σ c_i),
#
# where Σ c_i is the weight of the constant feature, divided by its value. That is not quite so where the x'_i were
# rounded, or means that missing values were replaced by have changed: such sums are as good a start as exact ones,
# but no certificate may rest on them.

# Columns looked at together, 2.6 MB of their scales: fewer take more calls, more take more memory.
_PIECE = 1 << 16


class ColumnScales:
    """The shift, scale and fill of each scaled column, and what shift and fill lack of the mean, as RowValues: each
    column is a row of these."""

    width, dtype = 5, np.dtype(np.float64)

    def __init__(self, scaling: Scaling) -> None:
        self.n_rows = len(scaling.scale)
        self._scaling = scaling

    @classmethod
    def of(cls, scaling: Scaling | None) -> ColumnScales | None:
        """None where no column is scaled."""
        return None if scaling is None else cls(scaling)

    def get(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        scaling = self._scaling
        rest = np.zeros((2, len(rows)))
        _, among, far = np.intersect1d(rows, scaling.far, assume_unique=True, return_indices=True)
        rest[:, among] = scaling.shift_rest[far], scaling.rest[far]
        return np.stack([scaling.shift[rows], scaling.scale[rows], scaling.fill[rows], *rest], axis=1)


def are_same(before: RowValues | None, now: RowValues | None) -> bool:
    """Return whether columns are scaled as they were. Columns that are new in ``now`` count for nothing."""
    if before is None or now is None:
        return before is now
    pieces = _pieces(before.n_rows)
    return before.n_rows <= now.n_rows and all(
        np.array_equal(before.get(columns), now.get(columns)) for columns in pieces
    )


def rescale(w: NDArray[np.float64], before: RowValues | None, now: RowValues | None, constant: float) -> bool:
    """Bring sums (p, d + 1) of rows, the constant feature's the last, from one scaling to the other. constant: the
    value of that feature. False where this cannot be told; w is then of no use."""
    if before is None or now is None or before.n_rows > now.n_rows:
        return False
    for columns in _pieces(before.n_rows):
        shift, scale, _, rest, _ = before.get(columns).T
        new_shift, new_scale, _, new_rest, _ = now.get(columns).T
        moved = (shift - new_shift) + (rest - new_rest)
        part = w[:, columns[0] : columns[-1] + 1]
        with np.errstate(over="ignore", invalid="ignore"):
            part *= new_scale / scale
            if moved.any():
                if constant == 0:
                    return False
                part += np.outer(w[:, -1] / constant, moved * new_scale)
    return bool(np.isfinite(w).all())


def _pieces(n: int) -> list[NDArray[np.int64]]:
    return [np.arange(start, min(start + _PIECE, n)) for start in range(0, n, _PIECE)]
