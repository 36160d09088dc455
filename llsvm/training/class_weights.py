"""Class weights: what C is multiplied by, class by class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.dataset import DatasetInfo
from llsvm.errors import UsageError
from llsvm.features.labels import quoted

_SHOWN = 20  # classes
_BOOLS = (("false", "False"), ("true", "True"))  # names that classes of the type bool may have, too


def class_weights(
    class_weight: str | Mapping[Any, float] | None, dataset: DatasetInfo
) -> NDArray[np.float64]:
    """(n_classes,) factors of C; where labels are no classes, one, of all rows. "balanced": n / (k · n_c), as
    scikit-learn has it, n and n_c sums of the weights of all rows and of those of a class, k the classes that have
    some. Raises UsageError."""
    factors = np.ones(dataset.n_classes)
    if class_weight == "balanced":
        sums, some = dataset.class_sums, dataset.class_sums > 0
        factors[some] = sums.sum() / (np.count_nonzero(some) * sums[some])
        return factors
    if isinstance(class_weight, Mapping):
        position = {str(label_key(label)): i for i, label in enumerate(dataset.classes)}
        if dataset.classes.dtype == bool:
            position |= {name: i for each, i in position.items() for name in _BOOLS[int(each)]}
        for label, factor in class_weight.items():
            if str(label_key(label)) not in position:
                there = ", ".join(quoted(each) for each in dataset.classes[:_SHOWN])
                several = isinstance(label, str) and "=" in label
                more = (
                    "; of several the option is repeated: --class-weight a=2 --class-weight b=3"
                    if several
                    else ""
                )
                raise UsageError(f"class weight for {label!r}, but the classes are {there}{more}")
            factors[position[str(label_key(label))]] = factor
    return factors


def label_key(label: Any) -> Any:
    """1.0, 1 and "1" name the same class."""
    try:
        number = float(label)
    except (TypeError, ValueError):
        return str(label)
    return int(number) if number.is_integer() else number
