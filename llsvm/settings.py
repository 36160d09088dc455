"""Settings: every option of training, checked in one place, and stored in the model as it was used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from llsvm.errors import UsageError

LOSSES = ("hinge", "squared_hinge")
CACHES = ("auto", "always", "never")
SPILL_FORMATS = ("arrow", "hdf5")
ZERO_BASED = ("auto", "yes", "no")
SCALES = ("none", "maxabs", "minmax", "standard", "unit-row")
MISSING = ("refuse", "zero", "mean")
HEADERS = ("auto", "yes", "no")
DIRECT = ("crammer-singer", "weston-watkins")  # one joint problem
MULTI_CLASS = ("ovr", *DIRECT)
SOLVERS = ("llsvm", "smsvm", "auto")
PENALTIES = ("l2", "l1", "elasticnet")


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def _positive(name: str, value: float | None) -> None:
    if value is None or not (value > 0 and math.isfinite(value)):
        raise UsageError(f"{name} must be a positive number, not {value!r}")


@dataclass(frozen=True, slots=True)
class Settings:
    """How to train. Raises UsageError on construction for a value that makes no sense.

    The objective is ½‖w‖² + C Σ_i c_i loss(y_i w·x_i), c_i the class weight times the sample weight. Other
    penalties take the place of ½‖w‖²: ‖w‖₁ ("l1"), (1 − l1_ratio)/2 ‖w‖² + l1_ratio ‖w‖₁ ("elasticnet").

    multi_class: what more than two classes become: "ovr" one problem for each class against the rest;
    "crammer-singer" or "weston-watkins" one joint problem, also of two classes, with the hinge loss (its objective:
    see kernels/multiclass.py).
    solver: which method; "auto" chooses by shape, loss and penalty.
    C: penalty, > 0. loss: "hinge" or "squared_hinge".
    penalty: "l2", "l1" or "elasticnet", with l1_ratio (0 < ratio < 1). lambda1, lambda2: instead of C, the
        factors in (1/N) Σ c_i loss + (λ₂/2)‖w‖² + λ₁‖w‖₁; "l2" takes lambda2, "l1" lambda1, "elasticnet"
        both (not l1_ratio).
    paper: the slides' algorithm to the letter, instead of rounds to a certified gap.
    tol: relative duality gap at which to stop. max_passes: full passes at most, None for no limit of its own; at
        least 2 are made: one trains, one measures.
    max_seconds: stop after the pass in which this time runs out.
    class_weight: None, "balanced" (n / (k * count), as scikit-learn has it) or label -> factor.
    bias: value of the constant feature appended to every row, penalised like the others; 0 for none.
    seed: of every random choice. threads: None for all processors that the process may use.
    memory_limit: "2GB", "512MiB", "25%" of what is available, or bytes; None for half of what is free
        (beyond what the process holds already).
    disk_limit: the same for the spill folder; None for no limit of its own.
    spill_dir: where to spill; None for $TMPDIR, else beside the output. spill_format: "arrow" or "hdf5".
    cache: "auto", "always" or "never" keep a binary copy of the data set for later passes.
    zero_based: "auto", "yes" or "no", of svmlight's column indices.
    survivors: at most this share of the rows is kept between full passes (0 < share <= 1).
    scale: "none", "maxabs", "minmax", "standard" or "unit-row", see llsvm.scaling; the model takes raw data.
    missing: "refuse", "zero" or "mean" for missing values. positive: this label against all others.
    The rest says how tables and HDF5 files are read, see llsvm.tables.options: format, label, features,
    exclude, weight, text, header, hash_bits.
    """

    solver: str = "llsvm"
    C: float = 1.0
    loss: str = "hinge"
    multi_class: str = "ovr"
    penalty: str = "l2"
    l1_ratio: float = 0.5
    lambda1: float | None = None
    lambda2: float | None = None
    paper: bool = False
    tol: float = 1e-3
    max_passes: int | None = 200
    max_seconds: float | None = None
    class_weight: str | Mapping[Any, float] | None = None
    bias: float = 0.0
    seed: int = 0
    threads: int | None = None
    memory_limit: str | int | None = None
    disk_limit: str | int | None = None
    spill_dir: str | None = None
    spill_format: str = "arrow"
    cache: str = "auto"
    zero_based: str = "auto"
    survivors: float = 1.0
    scale: str = "none"
    missing: str = "refuse"
    positive: str | None = None
    format: str | None = None
    label: str | None = None
    features: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    weight: str | None = None
    text: tuple[str, ...] = ()
    header: str = "auto"
    hash_bits: int | None = None

    def __post_init__(self) -> None:
        _choice("solver", self.solver, SOLVERS)
        _choice("loss", self.loss, LOSSES)
        _choice("multi_class", self.multi_class, MULTI_CLASS)
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
        if self.multi_class in DIRECT and (self.loss != "hinge" or self.paper):
            raise UsageError(f"{self.multi_class} has one loss, the hinge, and no paper mode: leave them out")
        if self.max_passes is not None:
            _positive("max_passes", self.max_passes)
        if self.max_seconds is not None:
            _positive("max_seconds", self.max_seconds)
        if self.threads is not None:
            _positive("threads", self.threads)
        if not (self.bias >= 0 and math.isfinite(self.bias)):
            raise UsageError(f"bias must be 0 (none) or a positive number, not {self.bias!r}")
        if not 0 < self.survivors <= 1:
            raise UsageError(f"survivors must be a share of the rows, 0 < share <= 1, not {self.survivors!r}")
        if isinstance(self.class_weight, str):
            _choice("class_weight", self.class_weight, ("balanced",))
        elif self.class_weight is not None:
            for label, factor in self.class_weight.items():
                if not (factor >= 0 and math.isfinite(factor)):
                    raise UsageError(f"class weight of {label!r} must be 0 or more, not {factor!r}")

    def _check_penalty(self) -> None:
        _choice("penalty", self.penalty, PENALTIES)
        if self.penalty != "l2" and self.solver not in ("smsvm", "auto"):
            raise UsageError(f"penalty {self.penalty} goes with solver smsvm or auto, not {self.solver}")
        if not 0 < self.l1_ratio < 1:
            raise UsageError(
                f"l1_ratio must be between 0 and 1, not {self.l1_ratio!r} (for the ends: penalty l2 or l1)"
            )
        given = {name for name in ("lambda1", "lambda2") if getattr(self, name) is not None}
        for name in given:
            _positive(name, getattr(self, name))
        wanted = {"l2": {"lambda2"}, "l1": {"lambda1"}, "elasticnet": {"lambda1", "lambda2"}}[self.penalty]
        if given and given != wanted:
            takes, got = " and ".join(sorted(wanted)), " and ".join(sorted(given))
            raise UsageError(f"penalty {self.penalty} takes {takes} (or C), not {got}")

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; class_weight's labels become text."""
        values = asdict(self)
        if isinstance(self.class_weight, Mapping):
            values["class_weight"] = {str(label): float(f) for label, f in self.class_weight.items()}
        return values
