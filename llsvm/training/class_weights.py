"""Class weights: what C is multiplied by, class by class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llsvm.dataset import DatasetInfo
from llsvm.errors import DataError, UsageError
from llsvm.features.labels import number_of, quoted

_SHOWN = 20  # classes
_BOOLS = (("false", "False"), ("true", "True"))  # names that classes of the type bool may have, too


def require_classes(dataset: DatasetInfo) -> None:
    """Raise DataError where fewer than two classes have rows whose weight is above 0."""
    present = dataset.class_sums > 0
    if not dataset.has_targets and len(present) > 1 and np.count_nonzero(present) < 2:
        raise DataError(
            f"{dataset.name}: all rows whose weight is above 0 have the same label, "
            f"{quoted(dataset.classes[present][0])}: one class; training needs rows of at least two classes"
        )


def class_weights(
    class_weight: str | Mapping[Any, float] | None, dataset: DatasetInfo
) -> NDArray[np.float64]:
    """Return (n_classes,) factors of C; where labels are no classes, one for all rows. "balanced": n / (k · n_c),
    as in scikit-learn, n and n_c sums of the weights of all rows and of those of a class, k the number of classes
    whose sum is above 0. Raises UsageError."""
    factors = np.ones(dataset.n_classes)
    if class_weight == "balanced":
        sums, present = dataset.class_sums, dataset.class_sums > 0
        factors[present] = sums.sum() / (np.count_nonzero(present) * sums[present])
        return factors
    if isinstance(class_weight, Mapping):
        places = _Places(dataset.classes)
        for label, factor in class_weight.items():
            place = places.of(label)
            if place is None:
                names = ", ".join(quoted(name) for name in dataset.classes[:_SHOWN])
                several = isinstance(label, str) and "=" in label
                remedy = (
                    "; of several the option is repeated: --class-weight a=2 --class-weight b=3" * several
                )
                raise UsageError(f"class weight for {label!r}, but the classes are {names}{remedy}")
            factors[place] = factor
    return factors


class _Places:
    """Index of the classes by their names: as they are written, or as numbers where only one class has that number:
    1.0 and "1" name the class 1, and "01" is another one than "1" where there are both."""

    def __init__(self, classes: NDArray[Any]) -> None:
        self._written = {str(label): i for i, label in enumerate(classes)}
        if classes.dtype == bool:
            self._written |= {name: i for i, label in enumerate(classes) for name in _BOOLS[int(label)]}
        self._numbers = dict[float, list[int]]()
        for i, label in enumerate(classes):
            if (number := number_of(label)) is not None:
                self._numbers.setdefault(number, []).append(i)

    def of(self, label: Any) -> int | None:
        """Return the place of the class; None where there is none, or more than one."""
        if str(label) in self._written:
            return self._written[str(label)]
        number = number_of(label)
        places = [] if number is None else self._numbers.get(number, [])
        return places[0] if len(places) == 1 else None


def plain_label(label: Any) -> Any:
    """Return a label as JSON has it: a number, where it is one or its text is written as that."""
    number = number_of(label)
    return str(label) if number is None or (isinstance(label, str) and str(number) != label) else number
