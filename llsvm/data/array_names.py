"""Names of arrays in files: which one holds the features, the labels, the sample weights."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from llsvm.errors import DataError, MissingColumnError, UsageError

FEATURE_NAMES = ("X", "x", "data", "features", "X_train", "train")
LABEL_NAMES = ("y", "Y", "label", "labels", "target", "targets", "class", "y_train")
WEIGHT_NAMES = ("weight", "weights", "sample_weight")


def find_name(
    where: str, names: Collection[str], wanted: str | None, usual: tuple[str, ...], option: str
) -> str | None:
    """The array that is meant: the one asked for, else one with a usual name, else None. Raises DataError."""
    if wanted:
        if wanted in names:
            return wanted
        raise MissingColumnError(
            f"{where}: there is no array", wanted, option, f"it has {', '.join(sorted(names)[:12])}"
        )
    return next((name for name in usual if name in names), None)


def unasked_weights(where: str, names: Collection[str], wanted: str | None) -> tuple[str, ...]:
    """A note on an array that could be sample weights, where none is asked for."""
    name = next((name for name in WEIGHT_NAMES if name in names), None)
    if wanted or name is None:
        return ()
    return (f"{where}: the array {name!r} is left aside (--weight {name} takes it for sample weights)",)


def one_name(where: str, features: Any) -> str | None:
    """The one array that --features names in such a file."""
    if not features:
        return None
    if len(features) != 1:
        raise UsageError(
            f"{where}: --features names the one array of features in such a file, not {len(features)}"
        )
    return str(features[0])


def no_labels(where: str, names: Collection[str]) -> DataError:
    return DataError(
        f"{where}: no labels: none of the arrays is named {', '.join(LABEL_NAMES[:5])}; "
        f"pass --label with the name of one ({', '.join(sorted(names)[:12])})"
    )
