"""Settings: every option of training, checked in one place, and stored in the model as it was used."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from llsvm.errors import UsageError
from llsvm.files.credentials import without_credentials
from llsvm.settings.kinds import is_kind, require_kind

LOSSES = ("hinge", "squared_hinge", "least-squares")
CACHES = ("auto", "always", "never")
SPILL_FORMATS = ("arrow", "hdf5")
ZERO_BASED = ("auto", "yes", "no")
AUTO = "auto"
SCALES = (AUTO, "none", "maxabs", "minmax", "standard", "unit-row")
MISSING = ("refuse", "zero", "mean")
HEADERS = ("auto", "yes", "no")
DIRECT = ("crammer-singer", "weston-watkins")  # one joint problem
MULTICLASS = ("ovr", "ovo", *DIRECT)
SOLVERS = ("llsvm", "smsvm", "nesvm", "auto")
PENALTIES = ("l2", "l1", "elasticnet")
STEPS = ("auto", "paper")
KERNELS = ("rbf", "poly", "linear", "precomputed")
FEATURE_MAPS = ("nystroem", "rff")
STOPS = ("gap", "change")


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def _positive(name: str, value: float | None) -> None:
    if value is None or not (value > 0 and math.isfinite(value)):
        raise UsageError(f"{name} must be a positive number, not {value!r}")


# Fields of text that need not be given so: names of columns, labels and folders; and of bytes.
_NAMES = ("label", "weight", "positive", "spill_dir")
_SIZES = ("memory_limit", "disk_limit")


@cache
def _kinds() -> dict[str, tuple[Any, ...]]:
    """The kinds that each field of Settings is declared with, keys of ``llsvm.settings.kinds.WORDS``."""
    hints = get_type_hints(Settings)
    kinds = {name: get_args(hint) if isinstance(hint, UnionType) else (hint,) for name, hint in hints.items()}
    return {name: tuple(get_origin(kind) or kind for kind in each) for name, each in kinds.items()}


@dataclass(frozen=True, slots=True)
class Settings:
    """How to train. Raises UsageError on construction for a value that makes no sense.

    The objective is ½‖w‖² + C Σ_i c_i loss(y_i w·x_i), c_i the class weight times the sample weight. Other
    penalties take the place of ½‖w‖²: ‖w‖₁ ("l1"), (1 − l1_ratio)/2 ‖w‖² + l1_ratio ‖w‖₁ ("elasticnet").

    multiclass: what more than two classes become: "ovr" one problem for each class against the rest;
    "ovo" one for each pair of classes (not with solver "smsvm"), which vote;
    "crammer-singer" or "weston-watkins" one joint problem, also of two classes, with the hinge loss (its objective:
    see solvers/sequential_dual/kernels.py).
    solver: which method; "auto" takes the only one that does what is asked for, else chooses by shape, and by how
    a trial goes (see llsvm.solvers.choose).
    C: penalty, > 0. loss: "hinge" or "squared_hinge".
    penalty: "l2", "l1" or "elasticnet", with l1_ratio (0 < ratio < 1). lambda1, lambda2: instead of C, the
        factors in (1/N) Σ c_i loss + (λ₂/2)‖w‖² + λ₁‖w‖₁; "l2" takes lambda2, "l1" lambda1, "elasticnet"
        both (not l1_ratio).
    paper: the slides' algorithm to the letter, instead of rounds to a certified gap.
    tol: relative duality gap at which to stop. max_passes: full passes at most, None for no limit of its own; at
        least 2 are made: one trains, one measures.
    max_seconds: stop after the pass in which this time runs out.
    class_weight: None, "balanced" (n / (k * count), as scikit-learn has it) or label -> factor.
    bias: value of the constant feature appended to every row, penalised like the others; 0 for none; "auto": see
        scale.
    seed: of every random choice. threads: None for all processors that the process may use.
    memory_limit: "2GB", "512MiB", "25%" of what is available, or bytes; None for half of what is free
        (beyond what the process holds already).
    disk_limit: the same for the spill folder; None for no limit of its own.
    spill_dir: where to spill; None for $TMPDIR, else beside the output. spill_format: "arrow" or "hdf5".
    cache: "auto", "always" or "never" keep a binary copy of the data set for later passes.
    zero_based: "auto", "yes" or "no", of svmlight's column indices.
    survivors: at most this share of the rows is kept between full passes (0 < share <= 1).
    scale: "none", "maxabs", "minmax", "standard" or "unit-row", see features/scaling.py; the model takes raw data.
        "auto", of scale and bias: "standard" and 1 for a table of named columns (CSV, Parquet, Arrow), "none" and 0
        for svmlight and arrays, and where there is a kernel or a feature map (see ``resolved``).
    missing: "refuse", "zero" or "mean" for missing values. positive: this label against all others.
    The rest says how tables and HDF5 files are read, see llsvm.features.table_options: format, label, features,
    exclude, weight, categorical, header, hash_bits.
    Of solver "nesvm": intercept: a constant feature of value 1 whose weight is not penalised, instead of ``bias``.
    step: "auto" or "paper". mu: first smoothing parameter, None for the step's own. homotopy: let mu fall; stop:
    "gap", or "change" for the paper's |F(w^{k+1}) − F(w^k)| < tol, once mu has come down to mu_end.
    kernel: None, "rbf", "poly", "linear" or "precomputed" (the rows are the kernel matrix's), with gamma (None for
    1 / features), degree and coef0, for solver "nesvm"; or, with feature_map "nystroem" or "rff" and so many
    components, approximated for every solver ("rbf" if it is None).
    """

    solver: str = "auto"
    C: float = 1.0
    loss: str = "hinge"
    multiclass: str = "ovr"
    penalty: str = "l2"
    l1_ratio: float = 0.5
    lambda1: float | None = None
    lambda2: float | None = None
    paper: bool = False
    tol: float = 1e-3
    max_passes: int | None = 200
    max_seconds: float | None = None
    class_weight: str | Mapping[Any, float] | None = None
    bias: float | str = AUTO
    seed: int = 0
    threads: int | None = None
    memory_limit: str | int | None = None
    disk_limit: str | int | None = None
    spill_dir: str | None = None
    spill_format: str = "arrow"
    cache: str = "auto"
    zero_based: str = "auto"
    survivors: float = 1.0
    scale: str = AUTO
    missing: str = "refuse"
    positive: str | None = None
    format: str | None = None
    label: str | None = None
    features: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    weight: str | None = None
    categorical: tuple[str, ...] = ()
    header: str = "auto"
    hash_bits: int | None = None
    intercept: bool = False
    step: str = "auto"
    mu: float | None = None
    mu_end: float = 0.01
    homotopy: bool = True
    stop: str = "gap"
    kernel: str | None = None
    gamma: float | None = None
    degree: int = 3
    coef0: float = 0.0
    feature_map: str | None = None
    components: int = 500

    def __post_init__(self) -> None:
        self._check_types()
        _choice("solver", self.solver, SOLVERS)
        _choice("loss", self.loss, LOSSES)
        _choice("multiclass", self.multiclass, MULTICLASS)
        self._check_direct()
        self._check_penalty()
        _choice("spill_format", self.spill_format, SPILL_FORMATS)
        _choice("cache", self.cache, CACHES)
        _choice("zero_based", self.zero_based, ZERO_BASED)
        _choice("scale", self.scale, SCALES)
        _choice("missing", self.missing, MISSING)
        _choice("header", self.header, HEADERS)
        if self.hash_bits is not None and not 1 <= self.hash_bits <= 30:
            raise UsageError(f"hash_bits must be from 1 to 30, not {self.hash_bits!r}")
        _positive("C", self.C)
        _positive("tol", self.tol)
        if self.max_passes is not None:
            _positive("max_passes", self.max_passes)
        if self.max_seconds is not None:
            _positive("max_seconds", self.max_seconds)
        if self.threads is not None:
            _positive("threads", self.threads)
        if self.seed < 0:
            raise UsageError(f"seed must be 0 or a positive number, not {self.seed!r}")
        good = (
            self.bias == AUTO if isinstance(self.bias, str) else self.bias >= 0 and math.isfinite(self.bias)
        )
        if not good:
            raise UsageError(f"bias must be auto, 0 (none) or a positive number, not {self.bias!r}")
        if not 0 < self.survivors <= 1:
            raise UsageError(f"survivors must be a share of the rows, 0 < share <= 1, not {self.survivors!r}")
        self._check_nesvm()
        if isinstance(self.class_weight, str):
            _choice("class_weight", self.class_weight, ("balanced",))
        elif self.class_weight is not None:
            for label, factor in self.class_weight.items():
                if not (is_kind(factor, float) and factor >= 0 and math.isfinite(factor)):
                    raise UsageError(f"class weight of {label!r} must be 0 or more, not {factor!r}")

    def _check_types(self) -> None:
        """Values of the declared types; a list of names is as good as a tuple, a path or a number as its text, and
        2e9 bytes as a whole number."""
        for name, kinds in _kinds().items():
            value = getattr(self, name)
            if tuple in kinds and isinstance(value, list):
                object.__setattr__(self, name, value := tuple(value))
            elif name in _NAMES and isinstance(value, os.PathLike):
                object.__setattr__(self, name, value := os.fspath(value))
            elif name in _NAMES and is_kind(value, float):
                object.__setattr__(self, name, value := str(value))
            elif name in _SIZES and isinstance(value, float) and value.is_integer():
                object.__setattr__(self, name, value := int(value))
            require_kind(name, value, kinds)
            if isinstance(value, str):  # a label may be an address
                object.__setattr__(self, name, without_credentials(value))

    @property
    def only_solver(self) -> tuple[str, str] | None:
        """The one solver (a key of SOLVERS) that does what is asked for, and why; None where several do."""
        if self.paper:
            return "llsvm", "the paper's algorithm is llsvm's"
        if self.multiclass in DIRECT:
            return "sequential-dual", f"{self.multiclass} is the sequential dual method's"
        if self.kernel is not None and self.feature_map is None:
            return "nesvm", f"the {self.kernel} kernel is nesvm's"
        for name in ("loss", "intercept", "step", "stop", "mu", "homotopy"):
            if name == "loss" and self.loss != "least-squares":
                continue
            if getattr(self, name) != _DEFAULTS[name]:
                return "nesvm", f"{name} {getattr(self, name)} is nesvm's"
        if self.loss != "hinge":
            return "llsvm", f"the {self.loss} loss is llsvm's alone"
        if self.penalty == "l1" and self.multiclass == "ovo":
            return "nesvm", "one against one with the l1 penalty is nesvm's"
        if self.penalty != "l2":
            return "smsvm", f"the {self.penalty} penalty is smsvm's"
        if self.multiclass == "ovo":
            return "llsvm", "one against one is llsvm's"
        return None

    @property
    def _method(self) -> str:
        """The solver that checks are made for: with "auto" the only one, or one of those that do it."""
        if self.solver != "auto":
            return self.solver
        return "llsvm" if self.only_solver is None else self.only_solver[0]

    def _check_direct(self) -> None:
        """The direct multi-class problems have one form, and one method."""
        if self.multiclass not in DIRECT:
            return
        if self.loss != "hinge" or self.penalty != "l2" or self.paper:
            raise UsageError(
                f"{self.multiclass} has one loss, the hinge, one penalty, l2, and no paper mode: leave them out"
            )
        if self.solver != "auto":
            raise UsageError(
                f"{self.multiclass} has a solver of its own, the sequential dual method, not {self.solver}: "
                "leave --solver out"
            )

    def _check_penalty(self) -> None:
        _choice("penalty", self.penalty, PENALTIES)
        takes = {"l1": ("smsvm", "nesvm"), "elasticnet": ("smsvm",)}.get(self.penalty)
        if takes is not None and self._method not in takes:
            raise UsageError(
                f"penalty {self.penalty} goes with solver {' or '.join(takes)}, not {self._method}"
                + (f" ({self.only_solver[1]})" if self.solver == "auto" and self.only_solver else "")
            )
        if self.multiclass == "ovo" and self._method == "smsvm":
            raise UsageError("multiclass ovo goes with solver llsvm (penalty l2) or nesvm, not with smsvm")
        if not 0 < self.l1_ratio < 1:
            raise UsageError(
                f"l1_ratio must be between 0 and 1, not {self.l1_ratio!r} (for the ends: penalty l2 or l1)"
            )
        given = {name for name in ("lambda1", "lambda2") if getattr(self, name) is not None}
        for name in given:
            _positive(name, getattr(self, name))
        wanted = {"l2": {"lambda2"}, "l1": {"lambda1"}, "elasticnet": {"lambda1", "lambda2"}}[self.penalty]
        if given and given != wanted:
            these, got = " and ".join(sorted(wanted)), " and ".join(sorted(given))
            raise UsageError(f"penalty {self.penalty} takes {these} (or C), not {got}")

    @property
    def constant(self) -> float:
        """The value of the constant feature: 1 for an unpenalised intercept, else ``bias`` ("auto" is 0 here)."""
        if self.intercept:
            return 1.0
        return 0.0 if isinstance(self.bias, str) else float(self.bias)

    @property
    def takes_rows_as_they_are(self) -> bool:
        """A kernel or a feature map looks at the rows themselves: their columns are not scaled."""
        return self.kernel is not None or self.feature_map is not None

    def resolved(self, is_table: bool) -> Settings:
        """With what "auto" of ``scale`` and ``bias`` means for such data, see SourceInfo.is_table."""
        usual = is_table and not self.takes_rows_as_they_are
        scale, bias = self.scale, self.bias
        if scale == AUTO:
            scale = "standard" if usual else "none"
        if bias == AUTO:
            bias = 1.0 if usual and not self.intercept else 0.0
        return replace(self, scale=scale, bias=bias)

    def _check_nesvm(self) -> None:
        _choice("step", self.step, STEPS)
        _choice("stop", self.stop, STOPS)
        _positive("mu_end", self.mu_end)
        if self.mu is not None:
            _positive("mu", self.mu)
        if self.intercept and self.bias not in (AUTO, 0):
            raise UsageError("intercept and bias are two ways to have a constant term; choose one")
        self._check_kernel()
        self._check_unused()
        if self._method == "nesvm":
            if self.loss == "squared_hinge":
                raise UsageError("solver nesvm has loss hinge or least-squares, not squared_hinge")
            if self.loss == "least-squares" and self.penalty == "l1":
                raise UsageError("loss least-squares goes with penalty l2 (LS-SVM), not with l1")
        elif self.loss == "least-squares" or self.intercept:
            what = "loss least-squares" if self.loss == "least-squares" else "intercept"
            raise UsageError(f"{what} is for solver nesvm, not for {self._method}: pass --solver nesvm")

    def _check_kernel(self) -> None:
        allowed_scales = (AUTO, "none") if self.feature_map else (AUTO, "none", "unit-row")
        if self.takes_rows_as_they_are and self.scale not in allowed_scales:
            raise UsageError(
                f"scale {self.scale} is for linear models: a kernel or a feature map takes rows as they are"
            )
        if self.kernel is not None:
            _choice("kernel", self.kernel, KERNELS)
        if self.gamma is not None:
            _positive("gamma", self.gamma)
        _positive("degree", self.degree)
        _positive("components", self.components)
        if self.feature_map is not None and self.missing == "mean":
            raise UsageError(
                "missing mean is for linear models and kernels: a feature map is learnt from the rows as they are; "
                "pass --missing zero"
            )
        if self.feature_map is not None:
            _choice("feature_map", self.feature_map, FEATURE_MAPS)
            allowed = ("rbf",) if self.feature_map == "rff" else ("rbf", "poly", "linear")
            if self.kernel not in (None, *allowed):
                raise UsageError(
                    f"feature map {self.feature_map} is for kernel {' or '.join(allowed)}, not {self.kernel}"
                )
        elif self.kernel is not None:
            if self._method != "nesvm":
                raise UsageError(
                    f"kernel {self.kernel} is for solver nesvm, not for {self._method}: pass --solver nesvm, "
                    "or --feature-map nystroem or rff, which works with every solver"
                )
            if self.penalty != "l2" or self.step != "auto" or self.stop != "gap":
                raise UsageError("a kernel goes with penalty l2, step auto and stop gap: leave these out")

    def _check_unused(self) -> None:
        """Refuse what the chosen method would silently leave aside."""
        nesvm, kernel = self._method == "nesvm", self.takes_rows_as_they_are
        where = {  # option -> whether something looks at it, and what to do
            "step": (nesvm, "pass --solver nesvm"),
            "stop": (nesvm, "pass --solver nesvm"),
            "homotopy": (nesvm, "pass --solver nesvm"),
            "mu": (nesvm, "pass --solver nesvm"),
            "mu_end": (self.stop == "change", "pass --stop change"),
            "components": (self.feature_map is not None, "pass --feature-map nystroem or rff"),
            "gamma": (kernel, "pass --kernel rbf or poly"),
            "degree": (kernel, "pass --kernel poly"),
            "coef0": (kernel, "pass --kernel poly"),
        }
        defaults = {field.name: field.default for field in fields(self)}
        for name, (used, remedy) in where.items():
            if not used and getattr(self, name) != defaults[name]:
                raise UsageError(f"{name} has no meaning here: {remedy}, or leave it out")
        if nesvm and self.paper:
            raise UsageError("paper is solver llsvm's: for Algorithm 1 with its own step pass --step paper")

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; class_weight's labels become text."""
        values = asdict(self)
        if isinstance(self.class_weight, Mapping):
            values["class_weight"] = {str(label): float(f) for label, f in self.class_weight.items()}
        return values


_DEFAULTS = {field.name: field.default for field in fields(Settings)}
