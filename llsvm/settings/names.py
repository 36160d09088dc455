"""Options by other names: those they had once, which are refused with the new one named and read in old models, and
those of the estimators, which have scikit-learn's where scikit-learn has the thing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def with_new_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a model was saved with, by the names that they have today."""
    old = {name for name, new in _IN_OLD_MODELS.items() if name in settings and new not in settings}
    return {_IN_OLD_MODELS[name] if name in old else name: value for name, value in settings.items()}


EXPORTED = ("liblinear", "onnx")  # formats of other programs that models are written in
