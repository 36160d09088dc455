"""Words about a model: shown by ``inspect``, by reports, and in notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llsvm.models.record import ModelRecord
from llsvm.models.sparse import n_nonzero
from llsvm.models.strongest import of_each_problem
from llsvm.settings.objective import KINDS, REGRESSION, UNLABELLED, auto_values
from llsvm.settings.settings import OPTIONS

if TYPE_CHECKING:
    from llsvm.models.markup import Markup

_PROBLEMS, _WEIGHTS = 3, 10  # shown
_LISTED = 20
_SAYS = {REGRESSION: "that predicts numbers, of", UNLABELLED: "that tells outliers (-1), of"}


def machine(model: ModelRecord) -> str:
    """Return whether the model is linear, or which kernel or feature map it has."""
    mapping = model.feature_map
    if mapping is None:
        return "linear model"
    f = mapping.function
    kernel = f"{f.name} kernel" + (f", gamma {f.gamma:.6g}" if f.name in ("rbf", "poly") else "")
    if f.name == "poly":
        kernel += f", degree {f.degree}, coef0 {f.coef0:g}"
    if mapping.kind == "kernel":
        return f"kernel machine ({kernel}, {mapping.width:,} support vectors)"
    return f"linear model on {mapping.width:,} {mapping.kind} features ({kernel})"


def described(model: ModelRecord) -> str:
    """Return what the model is, in a sentence."""
    classes = f"of {len(model.classes_)} classes ({listed(model.labels)}) and"
    return (
        f"A {machine(model)} {_SAYS.get(model.label_kind, classes)} {model.n_features_in_:,} features, "
        f"{n_nonzero(model.weights):,} weights not 0, made by llsvm {model.version}."
    )


def proven(model: ModelRecord) -> str:
    """Return what its certificate says, in a sentence."""
    certificate = model.certificate
    if certificate is None:
        return "It was imported; nothing proves how good it is."
    state = "Converged" if model.converged else "Not converged"
    return (
        f"{state}: within {certificate.relative_gap:.3%} of the optimum after {certificate.passes} "
        f"full passes over {model.n_rows:,} rows "
        f"(objective {certificate.total_primal:.8g}, at least {certificate.total_dual:.8g})."
    )


def changed_settings(model: ModelRecord) -> dict[str, Any]:
    """Return the settings, as they were used, that are not what they are by default, "auto" being what it means
    for the data; in the order of their names."""
    settings = model.settings
    loss, known = settings.get("loss"), {}
    if loss in KINDS:
        as_they_are = any(settings.get(name) for name in ("kernel", "feature_map"))
        known = auto_values(loss, bool(settings.get("intercept")), as_they_are, "table" in model.extra)
    return {
        name: value
        for name, value in sorted(settings.items())
        if name not in OPTIONS or not _is_default(value, known.get(name, OPTIONS[name].default))
    }


def _is_default(value: Any, default: Any) -> bool:
    return bool(value == default or (default == () and not value))


def listed(words: list[str]) -> str:
    """Return the first of them, and how many more there are."""
    more = f", and {len(words) - _LISTED} more" if len(words) > _LISTED else ""
    return ", ".join(words[:_LISTED]) + more


def setting_text(value: Any) -> str:
    """Return a setting's value; "-" for none."""
    if isinstance(value, list | tuple):  # of columns' names, or of numbers
        return listed([f"{item:.6g}" if isinstance(item, float) else str(item) for item in value]) or "-"
    if isinstance(value, dict):
        return listed([f"{name}={item:g}" for name, item in value.items()])
    return "-" if value is None else str(value)


def html_of(model: ModelRecord) -> Markup:
    """Return the HTML that a notebook shows: what is proven of the model, settings that differ from the
    defaults, the strongest weights. Names in it are harmless, whatever they hold."""
    from llsvm.models.markup import join, table, tag

    changed = [(name, setting_text(value)) for name, value in changed_settings(model).items()]
    parts = [tag("p", described(model)), tag("p", tag("strong", proven(model)))]
    if changed:
        head, said = ("setting", "value"), "Settings that differ from the defaults"
        parts.append(table(head, changed, said, text_columns=2))
    for each in of_each_problem(model, _WEIGHTS, _PROBLEMS):
        rows = [(feature["feature"], f"{feature['weight']:+.6g}") for feature in each["features"]]
        parts.append(table(("feature", "weight"), rows, f"Strongest weights, + for {each['class']}"))
    return tag("div", join(parts), class_="llsvm-model")
