"""Options: how they are declared, and their other names (earlier ones, and those of the estimators).

Each option is declared once, as a field of ``Settings``: the command line is built from these declarations, and so
are the docstrings of functions and estimators. ``tools/signatures.py`` writes the annotation and the default of
each parameter that is an option. Earlier names are refused with the new one named, and read in old models;
estimators have scikit-learn's names where scikit-learn has the option.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

# Groups, in the order in which ``--help`` shows them.
PLAIN = "Options"
MOST_USED = "Most used"
DATA = "Data"
TEXT = "Text"
FEATURES = "Features"
OBJECTIVE = "Objective"
SOLVER = "Solver"
RESOURCES = "Resources"
OUTPUT = "Output"
KERNELS = "Kernels and feature maps"
OF_LLSVM = "Of solver llsvm alone"
OF_NESVM = "Of solver nesvm alone"
HELP = "Help"
GROUPS = (
    PLAIN,
    MOST_USED,
    DATA,
    TEXT,
    FEATURES,
    OBJECTIVE,
    SOLVER,
    RESOURCES,
    OUTPUT,
    KERNELS,
    OF_LLSVM,
    OF_NESVM,
    HELP,
)
# What most people need, beside the files, in the order of ``--help``.
COMMON = (
    *("memory_limit", "label", "scale", "C", "class_weight", "multiclass", "solver", "tol", "max_passes"),
    *("max_seconds", "threads"),
)

RENAMED = {"multi_class": "multiclass"}  # old name -> new one
# Of models saved before "text" was the name of another option.
_IN_OLD_MODELS = {**RENAMED, "text": "categorical"}
# Option -> parameter of LLSVMClassifier, where they differ. penalize_intercept=False is intercept=True;
# intercept_scaling counts where fit_intercept is true and the intercept is penalised, else bias is 0.
ESTIMATOR_NAMES = {
    "max_passes": "max_iter",
    "multiclass": "multi_class",
    "threads": "n_jobs",
    "seed": "random_state",
    "bias": "intercept_scaling",
    "intercept": "penalize_intercept",
}
EXPORTED = ("liblinear", "onnx")  # formats of other programs that models are written in
_KEY = "option"  # of a field's metadata


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule for a value, in words, and the check of it. None, where an option allows it, is not asked about."""

    words: str
    holds: Callable[[Any], bool]


POSITIVE = Rule("a positive number", lambda value: value > 0 and math.isfinite(value))
ANY = Rule("anything", lambda value: True)


@dataclass(frozen=True, slots=True)
class Option:
    """name: as Settings and Python have it. default: its value where it is not given. help: a sentence. group: of
    GROUPS. choices: the allowed values, where these are few. rule: what else a value must be. metavar: what stands
    for the value in help. flags: as the command line calls it, "--name" if there are none; "--yes/--no" for a truth
    value that is on by default or has a name for off. shown_default: what a default of None comes to, in words.
    methods: those that look at it (keys of llsvm.settings.methods.METHODS); () for all.
    repeatable: on the command line; its values are then a list. accepts: the annotation of Python's parameters,
    where these take more than what Settings makes of it.
    """

    name: str
    default: Any
    group: str
    help: str
    choices: tuple[str, ...] = ()
    rule: Rule = ANY
    metavar: str = ""
    flags: tuple[str, ...] = ()
    shown_default: str = ""
    methods: tuple[str, ...] = ()
    repeatable: bool = False
    accepts: str = ""

    @property
    def holds_names(self) -> bool:
        """Return whether its value is names of columns, which stand between commas unless the option is
        repeated."""
        return self.default == () and not self.repeatable

    @property
    def stands_for(self) -> str:
        """Return what help shows in the place of the value; "" for a truth value."""
        return self.metavar or "|".join(self.choices)

    @property
    def flag(self) -> str:
        """Return the name of the option in messages; see ``llsvm.errors``."""
        return self.flags[0].partition("/")[0] if self.flags else f"--{self.name.replace('_', '-')}"


def option(default: Any, group: str, help: str, **more: Any) -> Any:
    """Return a field of Settings with its declaration; see Option."""
    return field(default=default, metadata={_KEY: (default, group, help, more)})


def declared(fields: Mapping[str, Any]) -> dict[str, Option]:
    """Return the declarations that a dataclass's fields carry, by name."""
    options = {}
    for name, each in fields.items():
        default, group, help, more = each.metadata[_KEY]
        options[name] = Option(name, default, group, help, **more)
    return options


def with_new_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a model was saved with, by the names that they have today."""
    old = {name for name, new in _IN_OLD_MODELS.items() if name in settings and new not in settings}
    return {_IN_OLD_MODELS[name] if name in old else name: value for name, value in settings.items()}
