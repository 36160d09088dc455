"""The grid, as it is asked for: C's, and objectives to try each of them with.

An objective is a loss, a penalty and class weights: settings that have all but C.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from llsvm.errors import UsageError
from llsvm.settings.objective import KINDS, OF_LOSSES
from llsvm.settings.settings import OPTIONS, Settings

DEFAULT_COSTS = "0.001..1000"
POINTS = 7  # of a range
OF_OBJECTIVE = ("loss", "penalty", "l1_ratio", "class_weight")
_DIGITS = 12  # of a point: 0.1, not 0.10000000000000002


def costs_of(asked: str | float | Iterable[float], n_objectives: int = 1) -> tuple[float, ...]:
    """Return the C's, ascending, each once: of "0.001..1000" (seven, evenly on a log scale), "0.1,1,10" or numbers.

    Raises UsageError for what is none, and where there is nothing to choose: a single C of one objective."""
    given = asked if isinstance(asked, str) else ",".join(str(each) for each in _listed(asked))
    low, dots, high = given.partition("..")
    if dots:
        first, last = _number(low, given), _number(high, given)
        if first >= last:
            raise UsageError(
                f"-C {given}: a range goes from a smaller to a larger C, such as {DEFAULT_COSTS}"
            )
        steps = [(last / first) ** (i / (POINTS - 1)) for i in range(POINTS)]
        costs = {float(f"{first * step:.{_DIGITS}g}") for step in steps}
    else:
        costs = {_number(each, given) for each in given.split(",")}
    if len(costs) * n_objectives < 2:
        raise UsageError(f"-C {given}: there is nothing to choose from one C; give several, or train with it")
    return tuple(sorted(costs))


def _listed(asked: float | Iterable[float]) -> list[float]:
    return list(asked) if isinstance(asked, Iterable) else [asked]


def _number(text: str, given: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise UsageError(
            f"-C {given}: {text.strip()!r} is no positive number; write a list as 0.1,1,10, a range as 0.001..1000"
        )
    return value


def objectives_of(given: Mapping[str, Any]) -> tuple[Settings, ...]:
    """Return settings for each combination of the losses, penalties, shares of L1 and class weights in ``given``,
    each of which may be a list; all else is the same. What only some losses look at goes to these, and a share of
    L1 to elasticnet. Raises UsageError."""
    losses, penalties, ratios, weights = (
        _alternatives(given.get(name, OPTIONS[name].default)) for name in OF_OBJECTIVE
    )
    _require_one_kind(losses)
    objectives = list[Settings]()
    for loss, penalty, weight in product(losses, penalties, weights):
        for ratio in ratios if penalty == "elasticnet" or "elasticnet" not in penalties else [None]:
            varied = {"loss": loss, "penalty": penalty, "class_weight": weight}
            varied |= {} if ratio is None else {"l1_ratio": ratio}
            left = {
                name: value
                for name, value in given.items()
                if name not in OF_OBJECTIVE and not _of_another(name, loss, losses)
            }
            objectives.append(Settings(**left, **varied))
    return tuple(objectives)


def refuse_unused(objectives: Sequence[Settings], given: Iterable[str]) -> None:
    """Raise UsageError for one of the options given, by name, that none of the objectives looks at."""
    unused = set.intersection(*(set(each.unused_if_typed) for each in objectives))
    objectives[0].refuse_typed(name for name in given if name in unused)


def solver_of(objective: Settings) -> str:
    """Return the solver that searches over it: the one that has many problems in the same passes, where that has
    the penalty; else one candidate follows the other."""
    return "llsvm" if objective.penalty == "l2" else "smsvm"


def described(objective: Settings) -> dict[str, Any]:
    """Return its loss, penalty, share of L1 (None where the penalty has none) and class weights, as plain
    values."""
    values = objective.as_dict()
    ratio = values["l1_ratio"] if objective.penalty == "elasticnet" else None
    return {**{name: values[name] for name in OF_OBJECTIVE}, "l1_ratio": ratio}


def told_apart(objectives: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return which of the settings that ``described`` has are not the same for all."""
    each = list(objectives)
    return [name for name in OF_OBJECTIVE if any(one[name] != each[0][name] for one in each)]


def said_of(name: str, value: Any) -> str:
    """Return one of them, for people."""
    if isinstance(value, Mapping):
        value = " ".join(f"{label}={factor:g}" for label, factor in value.items())
    return f"{name.replace('_', ' ')} {'none' if value is None else value}"


def _alternatives(given: Any) -> list[Any]:
    """Return each once, in their order."""
    alternatives = list[Any]()
    for each in given if isinstance(given, list | tuple) else [given]:
        if each not in alternatives:
            alternatives.append(each)
    return alternatives or [given]


def _of_another(name: str, loss: str, losses: list[str]) -> bool:
    """Return whether it is an option that ``loss`` does not use, but another of the losses does."""
    of = OF_LOSSES.get(name, (loss,))
    return loss not in of and any(each in of for each in losses)


def _require_one_kind(losses: list[Any]) -> None:
    kinds = {KINDS[loss]: loss for loss in losses if loss in KINDS}
    if len(kinds) > 1:
        one, other = list(kinds.values())[:2]
        raise UsageError(
            f"--loss {one} and {other} are for labels of two kinds, {KINDS[one]} and {KINDS[other]}, and no score "
            "is for both: leave one of them out"
        )
