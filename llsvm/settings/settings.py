"""Settings: every option of training, checked in one place, and stored in the model as it was used."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from llsvm.errors import UsageError
from llsvm.files.remote import without_credentials
from llsvm.settings.data import DataOptions
from llsvm.settings.features import AUTO, FeatureOptions
from llsvm.settings.kinds import is_kind, plain, require_choice, require_kind
from llsvm.settings.methods import Demand, Method, able_methods, demands, only_method
from llsvm.settings.objective import (
    CLASSIFICATION,
    KINDS,
    OF_LOSSES,
    ONE_CLASS,
    REGRESSION,
    ObjectiveOptions,
    auto_values,
)
from llsvm.settings.option import Option, declared
from llsvm.settings.resources import ResourceOptions
from llsvm.settings.solver import SolverOptions
from llsvm.settings.text import TextSettings, ngrams_text

# Fields of text that need not be given so: names of columns, labels and folders; and of bytes.
_NAMES = ("label", "weight", "positive", "spill_dir", "stop_words")
_SIZES = ("memory_limit", "disk_limit")
_OF_TEXT = (
    *("analyzer", "ngrams", "strip_accents", "stop_words", "min_df", "max_df", "max_features"),
    *("term_weight", "vocabulary"),
)
_OF_KERNELS = {"gamma": ("rbf", "poly"), "degree": ("poly",), "coef0": ("poly",)}
_SCALED = {"standard": "mean 0 and variance 1", "maxabs": "at most 1"}
_COSTS = ("C", "lambda1", "lambda2")  # how much losses count against the penalty


@cache
def _kinds() -> dict[str, tuple[Any, ...]]:
    """Return the kinds that each field of Settings is declared with, keys of ``llsvm.settings.kinds.WORDS``."""
    hints = {name: hint for name, hint in get_type_hints(Settings).items() if name in OPTIONS}
    kinds = {name: get_args(hint) if isinstance(hint, UnionType) else (hint,) for name, hint in hints.items()}
    return {name: tuple(get_origin(kind) or kind for kind in each) for name, each in kinds.items()}


@dataclass(frozen=True)
class Settings(ResourceOptions, SolverOptions, ObjectiveOptions, FeatureOptions, TextSettings, DataOptions):
    """How to train; each option is declared, and explained, in the class of its group. Raises UsageError on
    construction for a value that makes no sense, and for what no method does (llsvm.settings.methods).

    The objective is ½‖w‖² + C Σ_i c_i loss(y_i w·x_i), c_i the class weight times the sample weight. Other
    penalties take the place of ½‖w‖²: ‖w‖₁ ("l1"), (1 − l1_ratio)/2 ‖w‖² + l1_ratio ‖w‖₁ ("elasticnet").
    lambda1, lambda2 are, instead of C, the factors in (1/N) Σ c_i loss + (λ₂/2)‖w‖² + λ₁‖w‖₁; "l2" takes lambda2,
    "l1" lambda1, "elasticnet" both (not l1_ratio). The joint problems' objective: see
    solvers/sequential_dual/problem.py; that of one_class: objective/one_class.py. class_weight "balanced" is
    n / (k · n_c), as scikit-learn has it, of sums of sample weights. Of three or more classes, each against the
    rest, a class weight is that of the positive rows of its class's problem; other rows have 1.
    The model takes raw data, whatever ``scale`` was.
    """

    def __post_init__(self) -> None:
        for name, each in OPTIONS.items():
            self._take(name, each)
        self._check_class_weight()
        self._check_target_scale()
        self._check_lambdas()
        self._check_constant_term()
        self._check_kernel()
        self._check_unused()
        able_methods(self, self._demands)

    def _take(self, name: str, option: Option) -> None:
        """Check one value; a list or a set of names is as good as a tuple, a path, a number or a pair of lengths as
        its text, and 2e9 bytes as a whole number."""
        kinds = _kinds()[name]
        value = plain(getattr(self, name), Mapping in kinds)
        if name == "ngrams":
            value = ngrams_text(value)
        if isinstance(value, set | frozenset) and tuple in kinds:
            value = tuple(sorted(value))
        object.__setattr__(self, name, value)
        if tuple in kinds and isinstance(value, list):
            object.__setattr__(self, name, value := tuple(value))
        elif name in _NAMES and isinstance(value, os.PathLike):
            object.__setattr__(self, name, value := os.fspath(value))
        elif (name in _NAMES and is_kind(value, float)) or (name == "positive" and is_kind(value, bool)):
            object.__setattr__(self, name, value := str(value))
        elif name in _SIZES and isinstance(value, float) and value.is_integer():
            object.__setattr__(self, name, value := int(value))
        require_kind(option.flag, value, kinds)
        if isinstance(value, str):  # a label may be an address
            object.__setattr__(self, name, without_credentials(value))
        if value is None:
            return
        if option.choices:
            require_choice(option.flag, value, option.choices)
        if not option.rule.holds(value):
            raise UsageError(f"{option.flag} must be {option.rule.words}, not {value!r}")
        if name == "max_passes" and value == 0:
            object.__setattr__(self, name, None)

    @property
    def _demands(self) -> list[Demand]:
        return demands(self, OPTIONS)

    @property
    def method(self) -> Method:
        """Return the method that the settings ask for; with "auto" the one that it begins with."""
        return able_methods(self, self._demands)[0]

    @property
    def only_solver(self) -> tuple[str, str] | None:
        """Return what "auto" takes (a solver's name, or the method's where it has none) and why, where that does
        not depend on the data; None where it does."""
        demanded = self._demands
        only = only_method(able_methods(replace(self, solver=AUTO), demanded), demanded)
        return None if only is None else (only[0].solver or only[0].name, only[1])

    @property
    def has_text(self) -> bool:
        """Return whether there are columns of text, as far as the settings say; fastText's lines have one
        unasked."""
        return bool(self.text) or self.format == "fasttext"

    @property
    def kernel_machine(self) -> str | None:
        """Return the kernel, where it is not approximated by a feature map."""
        return self.kernel if self.feature_map is None else None

    @property
    def constant(self) -> float:
        """Return the value of the constant feature: 1 for an unpenalised intercept, as −ρ of loss one_class is,
        else ``bias`` ("auto" is 0 here)."""
        if self.intercept or self.loss == ONE_CLASS:
            return 1.0
        return 0.0 if isinstance(self.bias, str) else float(self.bias)

    @property
    def takes_rows_as_they_are(self) -> bool:
        """Return whether a kernel or a feature map works on the rows themselves: their columns are not scaled."""
        return self.kernel is not None or self.feature_map is not None

    def resolved(self, is_table: bool) -> Settings:
        """Return the settings with what "auto" means for such data, see ``auto_values``."""
        values = auto_values(self.loss, self.intercept, self.takes_rows_as_they_are, is_table)
        return replace(self, **{name: value for name, value in values.items() if getattr(self, name) == AUTO})

    def _check_class_weight(self) -> None:
        if isinstance(self.class_weight, str):
            if self.class_weight != "balanced":
                raise UsageError(
                    f"--class-weight must be balanced, or factors of labels, not {self.class_weight!r}"
                )
        elif self.class_weight is not None:
            for label, factor in self.class_weight.items():
                if not (is_kind(factor, float) and factor >= 0 and math.isfinite(factor)):
                    raise UsageError(f"class weight of {label!r} must be 0 or more, not {factor!r}")

    def _check_target_scale(self) -> None:
        if KINDS[self.loss] != REGRESSION and self.target_scale not in (AUTO, "none"):
            raise UsageError(
                f"--target-scale is for labels that are numbers, and --loss {self.loss} takes none"
            )

    def _check_lambdas(self) -> None:
        given = {name for name in ("lambda1", "lambda2") if getattr(self, name) is not None}
        allowed = {"l2": {"lambda2"}, "l1": {"lambda1"}, "elasticnet": {"lambda1", "lambda2"}}[self.penalty]
        if given and given != allowed:
            these, got = (" and ".join(f"--{name}" for name in sorted(names)) for names in (allowed, given))
            raise UsageError(f"--penalty {self.penalty} takes {these} (or -C), not {got}")
        if given and OPTIONS["C"].default != self.C:
            got = " and ".join(f"--{name}" for name in sorted(given))
            raise UsageError(f"-C and {got} say the same in two ways; leave one of them out")

    def _check_constant_term(self) -> None:
        if self.intercept and self.bias not in (AUTO, 0):
            raise UsageError("--intercept and --bias are two ways to have a constant term; choose one")
        if self.loss == ONE_CLASS and (self.intercept or self.bias not in (AUTO, 0)):
            raise UsageError(
                f"--loss {ONE_CLASS} has a constant term of its own, the threshold rho: leave "
                f"{'--intercept' if self.intercept else '--bias'} out"
            )

    def _check_kernel(self) -> None:
        if self.prune is not None and self.takes_rows_as_they_are:
            raise UsageError(
                "--prune is for linear models: a kernel's or a feature map's weights are not those of columns; "
                "leave one of them out"
            )
        allowed_scales = (AUTO, "none") if self.feature_map else (AUTO, "none", "unit-row")
        if self.takes_rows_as_they_are and self.scale not in allowed_scales:
            raise UsageError(
                f"--scale {self.scale} is for linear models: a kernel or a feature map takes rows as they are"
            )
        if self.feature_map is None:
            return
        if self.missing == "mean":
            raise UsageError(
                "--missing mean is for linear models and kernels: a feature map is learnt from the rows as they "
                "are; pass --missing zero"
            )
        for flag, given in (("--text", self.text), ("--cross", self.cross)):
            if given:
                raise UsageError(
                    f"--feature-map is for columns of numbers and categories: leave it or {flag} out"
                )
        allowed = ("rbf",) if self.feature_map == "rff" else ("rbf", "poly", "linear")
        if self.kernel not in (None, *allowed):
            raise UsageError(
                f"--feature-map {self.feature_map} is for --kernel {' or '.join(allowed)}, not {self.kernel}"
            )

    def _check_unused(self) -> None:
        """Refuse what would silently be left aside, because another option is not there."""
        _refuse(self.unused, (name for name in self.unused if getattr(self, name) != OPTIONS[name].default))

    def refuse_typed(self, typed: Iterable[str]) -> None:
        """Raise UsageError for one of the options typed, by name, that nothing looks at, even if its value is the
        default: whoever types it believes that it counts."""
        _refuse(self.unused_if_typed, typed)

    @property
    def unused_if_typed(self) -> dict[str, str]:
        """Return ``unused`` with the options of other kernels; grids of estimators vary the kernel and keep
        these."""
        kernel = self.kernel or "rbf"
        if not self.takes_rows_as_they_are:
            return self.unused
        other = {
            name: f"has no meaning with --kernel {kernel}: pass --kernel {' or '.join(kernels)}, or leave it out"
            for name, kernels in _OF_KERNELS.items()
            if kernel not in kernels
        }
        return other | self.unused

    @property
    def unused(self) -> dict[str, str]:
        """Return the options that nothing looks at, because another is not there: name -> why, and what to do."""
        kernel, one_class, kind = self.takes_rows_as_they_are, self.loss == ONE_CLASS, KINDS[self.loss]
        where = {  # option -> whether something looks at it, and what to do
            "nu": (one_class, f"pass --loss {ONE_CLASS}"),
            **dict.fromkeys(_COSTS, (not one_class, f"--loss {ONE_CLASS} takes --nu: pass that")),
            "paper": (
                not one_class,
                f"the slides' algorithm is not for --loss {ONE_CLASS}: pass --loss hinge",
            ),
            "mu_end": (self.stop == "change", "pass --stop change"),
            "l1_ratio": (
                self.penalty == "elasticnet" and self.lambda1 is None,
                "pass --penalty elasticnet, without --lambda1 and --lambda2",
            ),
            **{
                name: (self.loss in losses, f"pass --loss {' or '.join(losses)}")
                for name, losses in OF_LOSSES.items()
            },
            "components": (self.feature_map is not None, "pass --feature-map nystroem or rff"),
            "gamma": (kernel, "pass --kernel rbf or poly"),
            "degree": (kernel, "pass --kernel poly"),
            "coef0": (kernel, "pass --kernel poly"),
            **dict.fromkeys(
                _OF_TEXT,
                (self.has_text, "pass --text with a column's name, or --format fasttext for such lines"),
            ),
        }
        unused = {
            name: f"has no meaning here: {remedy}, or leave it out"
            for name, (used, remedy) in where.items()
            if not used
        }
        if kind != CLASSIFICATION:
            labels = "takes labels for numbers" if kind == REGRESSION else "looks at no labels"
            words = f"is for classes, and --loss {self.loss} {labels}: leave one of them out"
            unused |= {"positive": words, "multiclass": words}
            unused["class_weight"] = f"{words}; --weight names a column of weights of rows"
        return unused

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; class_weight's labels become text."""
        values = asdict(self)
        if isinstance(self.class_weight, Mapping):
            values["class_weight"] = {str(label): float(f) for label, f in self.class_weight.items()}
        return values


def said_of_defaults(given: Settings, is_table: bool) -> str:
    """Return what "auto" of scale and bias has made of a table, in a sentence; "" where they change nothing."""
    if not is_table:
        return ""
    settings, words, undo = given.resolved(is_table), [], []
    if given.scale == AUTO and settings.scale in _SCALED:
        words.append(f"columns scaled to {_SCALED[settings.scale]}")
        undo.append("--scale none")
    if given.bias == AUTO and settings.bias:
        words.append(f"bias {settings.bias:g}")
        undo.append("--bias 0")
    if given.target_scale == AUTO and settings.target_scale == "standard":
        words.append("labels scaled to mean 0 and variance 1")
        undo.append("--target-scale none")
    if not words:
        taken_raw = given.takes_rows_as_they_are and given.scale == AUTO
        if not taken_raw:
            return ""
        return (
            "table: columns as they are (a kernel or a feature map takes no --scale: bring columns of unlike "
            "ranges to like ones before)"
        )
    as_they_are = "none" if undo == ["--bias 0"] else "the columns as they are"
    return f"table: {', '.join(words)} ({' '.join(undo)} for {as_they_are})"


def _refuse(unused: Mapping[str, str], given: Iterable[str]) -> None:
    for name in given:
        if name in unused:
            raise UsageError(f"{OPTIONS[name].flag} {unused[name]}")


# name -> declaration
OPTIONS: dict[str, Option] = declared({each.name: each for each in fields(Settings)})
