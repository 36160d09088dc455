"""Options: how they are declared, and their other names (earlier ones, and those of the estimators).

Each option is declared once, as a field of ``Settings``: the command line is built from these declarations, and so
are the docstrings of functions and estimators. ``tools/signatures.py`` writes the annotation and the default of
each parameter that is an option. Earlier names are refused with the new one named, and read in old models;
estimators have scikit-learn's names where scikit-learn has the option.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

from llsvm.errors import UsageError

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
    return field(default=default, metadata={"default": default, "group": group, "help": help, **more})


def with_new_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a model was saved with, by the names that they have today."""
    old = {name for name, new in _IN_OLD_MODELS.items() if name in settings and new not in settings}
    return {_IN_OLD_MODELS[name] if name in old else name: value for name, value in settings.items()}


WORDS: dict[Any, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    tuple: "a list of text",
    Mapping: "a mapping of labels to numbers",
    type(None): "None",
}


_DAY = 86_400 * 10**9  # nanoseconds
_ZEROS = re.compile(r"(\.\d*[1-9])0+(?=$|[^0-9])|\.0+(?=$|[^0-9])")  # at the end of a fraction
_COARSE = ("[Y]", "[M]", "[W]", "[D]", "[h]", "[m]")  # units of NumPy without seconds


def plain(value: Any, by_label: bool = False) -> Any:
    """Return NumPy's scalars as Python's, also in lists, tuples and mappings; arrays, and pandas' Series and
    indexes, as lists; anything else as it is. by_label: a Series is a mapping of its labels to its values."""
    library = type(value).__module__.partition(".")[0]
    if by_label and library == "pandas" and hasattr(value, "to_dict"):
        value = value.to_dict()
    elif library in ("numpy", "pandas") and hasattr(value, "__len__") and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return (tuple if isinstance(value, tuple) else list)(plain(each, by_label) for each in value)
    if isinstance(value, Mapping):
        return {_name_of(key): plain(each) for key, each in value.items()}
    if is_kind(value, bool):
        return bool(value)
    if is_kind(value, int):
        return int(value)
    if is_kind(value, float):
        return float(value)
    return str.__str__(value) if isinstance(value, str) else value  # of an enumeration's member, its value


def _name_of(label: Any) -> Any:
    """Return a key of a mapping as a ``plain`` value; dates, times and spans of time are called as labels of
    them are."""
    named = time_as_text(label)
    return plain(label) if named is None else named


def plain_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by name as ``plain`` values; class weights may be a Series by labels."""
    return {name: plain(value, name == "class_weight") for name, value in given.items()}


def require_kind(name: str, value: object, kinds: Iterable[Any]) -> None:
    """Raise UsageError unless ``value`` is of one of the kinds, keys of ``WORDS``."""
    kinds = tuple(kinds)
    if not any(is_kind(value, kind) for kind in kinds):
        words = " or ".join(dict.fromkeys(WORDS[kind] for kind in kinds))
        raise UsageError(f"{name} must be {words}, not {value!r}{_as_list(value) if tuple in kinds else ''}")


def _as_list(value: object) -> str:
    """Return a remedy for a word, or for whole numbers, where there is to be a list of text; else ""."""
    each = list(value) if isinstance(value, list | tuple) else [value]
    if not all(isinstance(one, str) or is_kind(one, int) for one in each):
        return ""
    return f": write {[str(one) for one in each]}"


def require_choice(flag: str, value: str, choices: Sequence[str]) -> None:
    """Raise UsageError unless the value is one of the choices."""
    if value not in choices:
        near = get_close_matches(str(value), choices, 2)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(f"{flag} must be one of {', '.join(choices)}, not {value!r}{hint}")


def is_kind(value: object, kind: Any) -> bool:
    """Return whether the value is of one of the kinds; NumPy's numbers are numbers, a truth value is none."""
    if kind in (int, float):
        is_span = type(value).__name__ == "timedelta64"  # which NumPy calls a whole number
        return isinstance(value, Integral if kind is int else Real) and not (
            isinstance(value, bool) or is_span
        )
    if kind is bool:
        return type(value).__name__ in ("bool", "bool_")  # Python's and NumPy's
    if kind is tuple:
        return isinstance(value, tuple) and all(isinstance(each, str) for each in value)
    return isinstance(value, kind)


def time_as_text(value: Any) -> str | None:
    """Return the text of a label that is that date, time or span of time, of Python, NumPy or pandas; None for
    others."""
    kind = type(value).__name__
    rest = value.nanoseconds if kind == "Timedelta" else 0  # of pandas; Python's spans have none
    if kind == "timedelta64":
        try:
            return span_as_text(int(value.astype("m8[ns]").astype("i8")))
        except TypeError:  # months have no length
            return str(value)
    if isinstance(value, timedelta):
        nanoseconds = (value.days * 86_400 + value.seconds) * 10**9 + value.microseconds * 1000
        return span_as_text(nanoseconds + rest)
    if kind == "datetime64":
        text = str(value.astype("M8[s]") if value.dtype.name.endswith(_COARSE) else value).replace("T", " ")
    elif isinstance(value, date | time):
        text = str(value)
    else:
        return None
    text = re.sub(r"([+-]\d\d):(\d\d)$", r"\1\2", _ZEROS.sub(lambda match: match[1] or "", text))  # of a zone
    text = re.sub(r"\+0000$", "Z", text)
    return text.removesuffix(" 00:00:00")


def span_as_text(nanoseconds: int) -> str:
    """Return a span of time as pandas writes it."""
    days, rest = divmod(nanoseconds, _DAY)
    seconds, fraction = divmod(rest, 10**9)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    digits = f".{fraction:09}".removesuffix("000") if fraction else ""
    return f"{days} days {'+' * (days < 0)}{clock}{digits}"
