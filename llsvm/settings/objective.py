"""Options: what is minimised. What each method takes of it is said in llsvm.settings.methods."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llsvm.settings.data import AUTO
from llsvm.settings.option import OBJECTIVE, POSITIVE, Rule, option

# What labels are to a loss: classes, numbers to be met, or nothing that counts.
CLASSIFICATION, REGRESSION, UNLABELLED = "classification", "regression", "unlabelled"
KINDS = {  # loss -> what it takes for labels
    "hinge": CLASSIFICATION,
    "squared_hinge": CLASSIFICATION,
    "least-squares": CLASSIFICATION,
    "logistic": CLASSIFICATION,
    "epsilon_insensitive": REGRESSION,
    "squared_epsilon_insensitive": REGRESSION,
    "quantile": REGRESSION,
    "huber": REGRESSION,
    "one_class": UNLABELLED,
}
LOSSES = tuple(KINDS)
DEFAULT_LOSS, ONE_CLASS = "hinge", "one_class"
KINKED = (
    "hinge",
    "epsilon_insensitive",
    "quantile",
    "one_class",
)  # that are smoothed where a method takes smooth losses alone
OF_LOSSES = {  # options that only some losses look at
    "epsilon": ("epsilon_insensitive", "squared_epsilon_insensitive"),
    "quantile": ("quantile",),
    "delta": ("huber",),
}
PENALTIES = ("l2", "l1", "elasticnet")
DIRECT = ("crammer-singer", "weston-watkins")  # one joint problem, of hinges
SOFTMAX = "softmax"  # and of the logistic loss
MULTICLASS = ("ovr", "ovo", *DIRECT, SOFTMAX)


def scaled_targets(target_scale: str, kind: str, is_table: bool) -> str:
    """Return the option ``target_scale`` without "auto". kind: of labels. is_table: see SourceInfo."""
    if target_scale != AUTO:
        return target_scale
    return "standard" if is_table and kind == REGRESSION else "none"


def auto_values(loss: str, intercept: bool, rows_as_they_are: bool, is_table: bool) -> dict[str, Any]:
    """Return what "auto" of ``scale``, ``bias`` and ``target_scale`` means. rows_as_they_are: see Settings.
    is_table: see SourceInfo."""
    usual, one_class = is_table and not rows_as_they_are, loss == ONE_CLASS
    return {
        # rows around 0 have no half-space away from it
        "scale": ("maxabs" if one_class else "standard") if usual else "none",
        "bias": 1.0 if usual and not intercept and not one_class else 0.0,
        "target_scale": scaled_targets(AUTO, KINDS[loss], is_table),
    }


@dataclass(frozen=True)
class ObjectiveOptions:
    C: float = option(
        1.0,
        OBJECTIVE,
        "Penalty on the loss; larger fits closer.",
        rule=POSITIVE,
        metavar="FLOAT",
        flags=("-C",),
    )
    loss: str = option(
        DEFAULT_LOSS,
        OBJECTIVE,
        "Loss of a row: of classes; from epsilon_insensitive on, of labels that are numbers (regression); "
        "one_class looks at no labels, and tells outliers.",
        choices=LOSSES,
    )
    epsilon: float = option(
        0.1,
        OBJECTIVE,
        "How far from its label a prediction costs nothing, in the units of the labels, or of scaled ones where "
        "--target-scale scales them (losses epsilon_insensitive, squared_epsilon_insensitive).",
        rule=Rule("0 or a positive number", lambda value: value >= 0 and math.isfinite(value)),
        metavar="FLOAT",
    )
    quantile: float = option(
        0.5,
        OBJECTIVE,
        "Which quantile of the labels is predicted (loss quantile): 0.5 is the median.",
        rule=Rule("between 0 and 1", lambda value: 0 < value < 1),
        metavar="FLOAT",
    )
    delta: float = option(
        1.0,
        OBJECTIVE,
        "Up to which residual the loss is a square, in the units of the labels as --epsilon is; beyond, it is "
        "linear (loss huber).",
        rule=POSITIVE,
        metavar="FLOAT",
    )
    nu: float = option(
        0.5,
        OBJECTIVE,
        "Share of the rows that may be outliers (loss one_class, which has no -C): at most so many are.",
        rule=Rule("above 0 and at most 1", lambda value: 0 < value <= 1),
        metavar="FLOAT",
    )
    multiclass: str = option(
        "ovr",
        OBJECTIVE,
        "More than two classes: each against the rest, each pair (which vote), or one joint problem.",
        choices=MULTICLASS,
    )
    penalty: str = option(
        "l2", OBJECTIVE, "Penalty on the weights; l1 makes most of them zero.", choices=PENALTIES
    )
    l1_ratio: float = option(
        0.5,
        OBJECTIVE,
        "Share of l1 in elasticnet, between 0 and 1.",
        rule=Rule("between 0 and 1 (for the ends: --penalty l2 or l1)", lambda ratio: 0 < ratio < 1),
        metavar="FLOAT",
    )
    lambda1: float | None = option(
        None,
        OBJECTIVE,
        "Instead of -C: factor of ‖w‖₁ beside the mean loss.",
        rule=POSITIVE,
        metavar="FLOAT",
        shown_default="none",
    )
    lambda2: float | None = option(
        None,
        OBJECTIVE,
        "Instead of -C: factor of ½‖w‖² beside the mean loss.",
        rule=POSITIVE,
        metavar="FLOAT",
        shown_default="none",
    )
    class_weight: str | Mapping[Any, float] | None = option(
        None,
        OBJECTIVE,
        "Multiplies C for a class: balanced, or a factor for each label.",
        metavar="balanced|LABEL=FACTOR...",
        repeatable=True,
        shown_default="none",
        accepts='Literal["balanced"] | Mapping[Any, float] | None',
    )
