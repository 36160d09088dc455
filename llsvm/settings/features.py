"""Options: what becomes of the columns before a solver sees them."""

from __future__ import annotations

from dataclasses import dataclass

from llsvm.settings.option import FEATURES, KERNELS, POSITIVE, Rule, option

AUTO = "auto"
SCALES = (AUTO, "none", "maxabs", "minmax", "standard", "unit-row")
TARGET_SCALES = (AUTO, "none", "standard")
KERNEL_NAMES = ("rbf", "poly", "linear", "precomputed")
FEATURE_MAPS = ("nystroem", "rff")


def _is_bias(value: float | str) -> bool:
    """Squares of a constant feature, times costs, must be 64-bit floats."""
    return value == AUTO if isinstance(value, str) else value == 0 or 1e-100 <= value <= 1e100


@dataclass(frozen=True)
class FeatureOptions:
    scale: str = option(
        AUTO,
        FEATURES,
        "Scaling of the columns, learned and kept in the model. auto: standard for tables (CSV, JSON Lines, "
        "Parquet, Arrow; maxabs with loss one_class), none for svmlight, arrays and kernels.",
        choices=SCALES,
    )
    target_scale: str = option(
        AUTO,
        FEATURES,
        "Scaling of a regression's labels to mean 0 and variance 1, learned and kept in the model; -C, --epsilon "
        "and --delta are then those of the scaled labels. auto: standard for tables, none for svmlight and arrays.",
        choices=TARGET_SCALES,
    )
    bias: float | str = option(
        AUTO,
        FEATURES,
        "Value of a constant feature, penalised too; 0 for none. auto: 1 for tables, 0 for svmlight, arrays and "
        "kernels.",
        rule=Rule("auto, 0 (none) or a number from 1e-100 to 1e100", _is_bias),
        metavar="auto|FLOAT",
        accepts='float | Literal["auto"]',
    )
    intercept: bool = option(
        False,
        FEATURES,
        "A constant feature whose weight is not penalised, as LIBSVM's, instead of --bias (solvers smsvm, "
        "nesvm, smo; softmax).",
        flags=("--intercept",),
        methods=("smsvm", "nesvm", "smo", "kernel", "softmax"),
    )
    kernel: str | None = option(
        None,
        KERNELS,
        "Kernel machine (smo, nesvm), or what --feature-map approximates. rbf: exp(-gamma |x - z|^2); poly: "
        "(gamma x.z + coef0)^degree; precomputed: the rows are the kernel matrix's.",
        choices=KERNEL_NAMES,
        shown_default="none; rbf with a map",
    )
    gamma: float | None = option(
        None,
        KERNELS,
        "Of the kernel.",
        rule=POSITIVE,
        metavar="FLOAT",
        shown_default="1 / number of features",
    )
    degree: int = option(3, KERNELS, "Of kernel poly.", rule=POSITIVE, metavar="INT")
    coef0: float = option(0.0, KERNELS, "Of kernel poly.", metavar="FLOAT")
    feature_map: str | None = option(
        None,
        KERNELS,
        "Approximate the kernel by so many --components; any solver then trains on them.",
        choices=FEATURE_MAPS,
        shown_default="none",
    )
    components: int = option(500, KERNELS, "Of the feature map.", rule=POSITIVE, metavar="INT")
