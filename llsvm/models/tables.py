"""What a model knows of the columns that it was trained on: their encoder's values, and the features' names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llsvm.models.header import TEXT

if TYPE_CHECKING:
    from llsvm.models.model import Model


def table_of(extra: Mapping[str, Any]) -> dict[str, Any] | None:
    """For TableEncoder.from_dict; None of a model that was not trained on a table. Raises ModelError where a
    vocabulary is damaged.

    extra: of the model."""
    if "table" not in extra:
        return None
    if TEXT not in extra:
        return dict(extra["table"])
    from llsvm.features.text.columns import DocumentColumns

    return extra["table"] | {"documents": DocumentColumns.from_extra(extra)}


def has_names(model: Model) -> bool:
    """Have its features names?"""
    return model.feature_names is not None or TEXT in model.extra


def names_of(model: Model, features: Sequence[int]) -> list[str]:
    """Names of some columns of ``coef_``; their numbers, as in the svmlight file, where they have none."""
    if model.feature_names is not None:
        return [model.feature_names[j] for j in features]
    table = table_of(model.extra)
    if table is None or TEXT not in model.extra:
        return [str(j + model.index_base) for j in features]
    from llsvm.features.encoder import TableEncoder

    return TableEncoder.from_dict(table).names_of(features)
