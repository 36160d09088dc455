"""What every solver's state must do: a run that is stopped, and goes on in a new object over a new stream, ends
with the weights, bit for bit, of the run that was not stopped.

A solver's tests call ``check_resumes`` with cases of their own, and ``check_refuses``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import rows, write_svmlight

from llsvm.data import open_source
from llsvm.errors import UsageError
from llsvm.memory.budget import MemoryBudget
from llsvm.settings.objective import CLASSIFICATION, KINDS, REGRESSION
from llsvm.settings.settings import Settings
from llsvm.solvers import make_solver
from llsvm.solvers.state import SolverState
from llsvm.stream.stream import Stream


@dataclass(frozen=True)
class Case:
    """A training run.

    settings: of Settings. ledger: bytes for the data and all that belongs to it; with ``oracle.small_pages`` a few
    ten thousand make many blocks, survivors that are spilled, and dual variables on disk. from_file: the rows are
    read from a file: "cache" or "source" says where full passes find them; None: from the caller's arrays.
    factor: of all values. relabelled: by which all class numbers are moved on.
    spills, in_one_block: what the run must do, so that it goes on testing what it is there for; None: whatever.
    make: of a solver, from settings, class weights and threads.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    ledger: int = 100_000_000
    threads: int = 1
    n: int = 400
    d: int = 8
    classes: int = 2
    density: float = 1.0
    factor: float = 1.0
    relabelled: int = 0
    weighted: bool = False
    from_file: str | None = None
    spills: bool | None = None
    in_one_block: bool | None = None
    make: Any = make_solver

    @property
    def options(self) -> Settings:
        return Settings(**{"solver": "llsvm", "tol": 1e-5, "bias": 1.0, "scale": "none", **self.settings})

    def solver(self) -> Any:
        classes = self.classes if KINDS[self.options.loss] == CLASSIFICATION else 1
        return self.make(self.options, np.linspace(1.0, 1.5, classes), self.threads)

    @contextmanager
    def stream(self, folder: Path) -> Iterator[Stream]:
        """A new one over the same rows, which have been read."""
        X, y = rows(n=self.n, d=self.d, classes=self.classes, density=self.density)
        X, y = X * self.factor, (y + self.relabelled) % self.classes
        kind = KINDS[self.options.loss]
        if kind == REGRESSION:
            y = (
                (X.sum(axis=1) + np.random.default_rng(2).normal(size=self.n))
                .astype(np.float32)
                .astype(float)
            )
        weight = np.random.default_rng(1).integers(0, 3, self.n).astype(float) if self.weighted else None
        if self.from_file:
            assert weight is None
            path = folder / "rows.svm"
            source = open_source(path if path.exists() else write_svmlight(path, X, y), label_kind=kind)
        else:
            source = open_source(X, y, weight, label_kind=kind)
        options = self.options
        with Stream(
            source,
            MemoryBudget(self.ledger, 0),
            folder,
            cache="never" if self.from_file == "source" else "auto",
            seed=options.seed,
            survivors=options.survivors,
            has_bias=options.constant != 0,
        ) as stream:
            stream.read()
            yield stream


def check_resumes(case: Case, folder: Path) -> None:
    """Stop at each report that says ``resumable``, one after the other, and go on each time: every report is that
    of the run that was not stopped. So it is where the run is stopped only once."""
    reports, facts = unbroken(case, folder)
    assert_resumable_between_passes(reports)
    if case.spills is not None:
        assert (facts["bytes_spilled"] > 0) == case.spills
    if case.in_one_block is not None:
        assert facts["in_one_block"] == case.in_one_block
    if case.from_file and not facts["in_one_block"]:
        assert facts["place"] == case.from_file
    stops = [number for number, report in enumerate(reports) if report["resumable"]]
    assert stops
    state, begin = None, 0
    for stop in stops:
        state = _piece(case, folder, state, reports[begin : stop + 1])
        begin = stop + 1
    _piece(case, folder, state, reports[begin:])
    middle = stops[len(stops) // 2]
    state = _piece(case, folder, None, reports[: middle + 1])
    _piece(case, folder, state, reports[middle + 1 :])


def check_refuses(case: Case, folder: Path) -> None:
    """The state of another method, of other data, or for another objective ends in a sentence."""
    state = first_state(case, folder)
    for wrong, said in (
        (replace(state, solver="another"), "solver another"),
        (replace(state, of={**state.of, "C": 1234.5}), "C 1234.5"),
    ):
        with pytest.raises(UsageError, match=said):
            case.solver().restore(wrong)
    others = (
        (replace(case, n=case.n + 1), "rows"),
        (replace(case, d=case.d + 1), "columns"),
        (replace(case, classes=case.classes + 1), "class"),
        (replace(case, factor=0.5), "with data"),
        (replace(case, relabelled=1), "with data"),
        (replace(case, weighted=not case.weighted), "with data"),
        (replace(case, settings={**case.settings, "C": 0.7}), "with C"),
        (replace(case, settings={**case.settings, "bias": 2.0}), "with constant"),
    )
    for number, (other, said) in enumerate(others):
        there = folder / str(number)
        there.mkdir()
        with other.stream(there) as stream, pytest.raises(UsageError, match=said):  # noqa: PT012
            solver = other.solver()
            solver.restore(state)
            next(solver.solve(stream))


def first_state(case: Case, folder: Path) -> SolverState:
    """The state at the first report that has one."""
    with case.stream(folder) as stream:
        solver = case.solver()
        reports = solver.solve(stream)
        try:
            assert any(report.resumable for report in reports)
            return kept(solver.state())
        finally:
            reports.close()


def unbroken(case: Case, folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Every report of a run that is not stopped, and where its rows went."""
    with case.stream(folder) as stream:
        reports = [_seen(report) for report in case.solver().solve(stream)]
        facts = {name: getattr(stream, name) for name in ("bytes_spilled", "in_one_block", "place")}
    return reports, facts


def assert_resumable_between_passes(reports: list[dict[str, Any]]) -> None:
    passes = [number for number, report in enumerate(reports) if report["kind"] == "pass"]
    for first, second in pairwise(passes):
        assert any(report["resumable"] for report in reports[first:second]), f"none from {first} to {second}"


def kept(state: SolverState) -> SolverState:
    """As it comes back from where it was kept: arrays are copies, numbers went through JSON."""
    for name, array in state.arrays.items():
        assert isinstance(array, np.ndarray), name
        assert array.dtype != object, name
    return replace(
        state,
        of=json.loads(json.dumps(dict(state.of))),
        arrays={name: np.array(array) for name, array in state.arrays.items()},
        rows={name: _Kept(values) for name, values in state.rows.items()},
        numbers=json.loads(json.dumps(dict(state.numbers))),
    )


class _Kept:
    """A copy of RowValues, taken a few rows at a time."""

    def __init__(self, values: Any) -> None:
        self.n_rows, self.width, self.dtype = values.n_rows, values.width, values.dtype
        self._values = np.concatenate(
            [
                values.get(np.arange(start, min(start + 37, self.n_rows))).reshape(-1, self.width)
                for start in range(0, self.n_rows, 37)
            ]
        )
        assert self._values.dtype == self.dtype

    def get(self, rows: np.ndarray) -> np.ndarray:
        values = self._values[rows]
        return values[:, 0] if self.width == 1 else values


def _piece(
    case: Case, folder: Path, state: SolverState | None, expected: list[dict[str, Any]]
) -> SolverState | None:
    """Go on from the state over as many reports as are expected, and compare them; the state after the last."""
    with case.stream(folder) as stream:
        solver = case.solver()
        if state is not None:
            solver.restore(state)
        reports = solver.solve(stream)
        for want in expected:
            _assert_same(_seen(next(reports)), want)
        if expected and expected[-1]["resumable"]:
            after = kept(solver.state())
            reports.close()
            return after
        assert next(reports, None) is None
    return None


def _seen(report: Any) -> dict[str, Any]:
    """What a report says, as it says it now."""
    certificate = report.certificate
    return {
        "kind": report.kind,
        "passes": report.passes,
        "dual": float(report.dual).hex(),
        "survivors": report.survivors,
        "converged": report.converged,
        "cause": report.cause,
        "resumable": report.resumable,
        "primals": None if certificate is None else [value.hex() for value in certificate.primal],
        "duals": None if certificate is None else [value.hex() for value in certificate.dual],
        "coef": None if report.coef is None else np.array(report.coef),
    }


def _assert_same(got: dict[str, Any], want: dict[str, Any]) -> None:
    for name, value in want.items():
        if name == "coef" and value is not None and got[name] is not None:
            np.testing.assert_array_equal(got[name], value, err_msg=f"{want['kind']} {want['passes']}")
        else:
            assert got[name] == value, f"{name} at {want['kind']} {want['passes']}"
