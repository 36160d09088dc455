"""Subject: what a page is about, or one of the two that it holds side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llsvm.models.model import Model


@dataclass(frozen=True, slots=True)
class Subject:
    """name: of the model, for people. evaluation: what ``evaluate`` says of ``data`` (their name), with shapes, or
    None where there are none."""

    name: str
    model: Model
    data: str = ""
    evaluation: Mapping[str, Any] | None = None

    @property
    def figures(self) -> Mapping[str, Any]:
        """The evaluation's numbers, by their names there."""
        numbers = self.evaluation or {}
        return {name: value for name, value in numbers.items() if isinstance(value, int | float)}

    @property
    def classes(self) -> Mapping[str, Any] | None:
        """The evaluation of classes, if there is one: of outliers, that of the rows with labels."""
        found = self.evaluation or {}
        return found if "confusion" in found else found.get("labelled")
