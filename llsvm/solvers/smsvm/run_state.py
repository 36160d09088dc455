"""The state of a NewtonRun, between two passes: weights and a few numbers, see run.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from llsvm.errors import UsageError
from llsvm.solvers.smsvm.run import NewtonRun
from llsvm.solvers.smsvm.step import NewtonStep
from llsvm.solvers.state import SolverState, Value


def arrays_of(run: NewtonRun) -> dict[str, NDArray[Any]]:
    """For a SolverState; views."""
    arrays = {**run.best.arrays, **run.stall.arrays, "dual": np.array([p.dual for p in run.problems])}
    for c, problem in enumerate(run.problems):
        arrays |= problem.arrays(f"problem {c}")
    for step in run.steps:
        name = f"problem {run.problems.index(step.problem)}"
        own = {"diagonal": step.diagonal, "ridge": step.ridge}
        arrays |= {f"{name} {each}": array for each, array in own.items()} | step.system.arrays(name)
    return arrays


def numbers_of(run: NewtonRun) -> dict[str, Value]:
    """For a SolverState."""
    return {
        **_kind(run),
        "live": [run.problems.index(p) for p in run.live],
        "steps": [run.problems.index(step.problem) for step in run.steps],
        "products": run.products,
        "slack_threshold": run.near.threshold,
        "random_state": run.stream.random_state,
    }


def _kind(run: NewtonRun) -> dict[str, Value]:
    layout = run.layout
    return {
        "by_columns": layout.by_columns,
        "by_products": layout.by_products,
        "most_active": layout.most_active,
        "all_near": layout.all_near,
    }


def restore(run: NewtonRun, state: SolverState) -> None:
    """Go on from there. Raises UsageError where the memory limit was another."""
    for name, value in _kind(run).items():
        if state.numbers.get(name) != value:
            raise UsageError(
                f"this state was made with another memory limit or number of threads ({name} "
                f"{state.numbers.get(name)}, here {value}): go on under the same, or begin anew"
            )
    k, n, arrays = len(run.problems), len(run.problems[0].w), state.arrays
    state.require_shapes({"best_coef": (k, n), **{f"problem {c} w": (n,) for c in range(k)}})
    run.passes = state.passes
    run.best.restore(arrays)
    run.stall.restore(arrays)
    for c, problem in enumerate(run.problems):
        problem.restore(f"problem {c}", arrays)
    numbers: Mapping[str, Any] = state.numbers
    run.live = [run.problems[c] for c in numbers["live"]]
    run.steps = [_restored_step(run, c, state) for c in numbers["steps"]]
    run.products = numbers["products"]
    run.near.threshold = numbers["slack_threshold"]
    run.stream.restore_random_state(cast(dict[str, Any], numbers["random_state"]))


def _restored_step(run: NewtonRun, c: int, state: SolverState) -> NewtonStep:
    name, problem = f"problem {c}", run.problems[c]
    diagonal, ridge = (np.array(state.arrays[f"{name} {a}"]) for a in ("diagonal", "ridge"))
    point = replace(problem.new_point(), straight=False, diagonal=True)
    step = NewtonStep(problem, point, diagonal, ridge, run.tuning.cg_until)
    step.system.restore(name, state)
    return step


def begin_with(run: NewtonRun, state: SolverState) -> None:
    """Begin at w = 0, with the best weights, their primal and the dual bound that another solver has found for
    the same objective."""
    run.passes = state.passes
    k, n = len(run.problems), len(run.problems[0].w)
    state.require_shapes({"best_coef": (k, n), "best_primal": (k,), "dual": (k,)})
    coef, primal, dual = (state.arrays[name] for name in ("best_coef", "best_primal", "dual"))
    run.best.coef, run.best.primal = np.array(coef), np.array(primal)
    for problem, least, bound in zip(run.problems, primal.tolist(), dual.tolist(), strict=True):
        problem.know(least, bound)
