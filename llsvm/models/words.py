"""Words about a model, and its strongest weights: shown by ``inspect``, by reports, and in notebooks.

Features are ranked by what they contribute to the score: the weight times the spread (standard deviation) of the
feature over the rows trained on. Where a model does not know the spreads of all features, which it does if its
training scaled columns, by the weight alone. They are looked for in pieces, since a model may be as large as
memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llsvm.models.record import ModelRecord
from llsvm.models.sparse import n_nonzero
from llsvm.settings.objective import KINDS, REGRESSION, UNLABELLED, auto_values
from llsvm.settings.settings import OPTIONS

if TYPE_CHECKING:
    from llsvm.models.markup import Markup


from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from llsvm.models.header import SPREAD, TEXT
from llsvm.models.sparse import between, of_columns
from llsvm.models.tables import namer
from llsvm.settings.objective import CLASSIFICATION

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
        if name not in OPTIONS
        or not (value == (default := known.get(name, OPTIONS[name].default)) or (default == () and not value))
    }


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
    for problem in of_each_problem(model, _WEIGHTS, _PROBLEMS):
        rows = [(feature["feature"], f"{feature['weight']:+.6g}") for feature in problem["features"]]
        parts.append(table(("feature", "weight"), rows, f"Strongest weights, + for {problem['class']}"))
    return tag("div", join(parts), class_="llsvm-model")


PIECE_WEIGHTS = 1 << 20
CONTRIBUTION, WEIGHT = "contribution", "weight"


def spreads_of(model: ModelRecord) -> NDArray[np.floating] | None:
    """Return (d,) spreads of the features; None where they are not known, or not to be relied on."""
    spreads = model.extra.get(SPREAD)
    if (
        not isinstance(spreads, np.ndarray)
        or spreads.dtype not in (np.float32, np.float64)
        or spreads.shape != model.weights.shape[1:]
    ):
        return None
    return spreads if np.isfinite(spreads).all() else None


def ranked_by(model: ModelRecord) -> str:
    """Return what features are ranked by: "contribution" or "weight"."""
    return WEIGHT if spreads_of(model) is None else CONTRIBUTION


def of_each_problem(model: ModelRecord, count: int, max_problems: int | None = None) -> list[dict[str, Any]]:
    """Return for each row of ``coef_``, or the first ``max_problems``: what positive scores mean (class), and the
    strongest features, whatever their sign (features: a dict each: feature, weight, and where spreads are known
    spread and contribution). [] where weights are not those of columns."""
    names = model.problem_names[:max_problems]
    return _strongest(model, count, [(name, row, 0) for row, name in enumerate(names)])


def of_each_class(model: ModelRecord, count: int) -> list[dict[str, Any]]:
    """Return what ``of_each_problem`` does; but of a model of text, whose features are never negative, for each
    class those that speak for it, and of one of two classes those that speak against the other."""
    names = model.problem_names
    if TEXT not in model.extra or model.label_kind != CLASSIFICATION or model.one_vs_one:
        return of_each_problem(model, count)
    signed_rows = [(name, row, 1) for row, name in enumerate(names)]
    if len(model.classes_) == 2:
        signed_rows.insert(0, (model.labels[0], 0, -1))
    return _strongest(model, count, signed_rows)


def of_all(model: ModelRecord, count: int) -> list[dict[str, Any]]:
    """Return the strongest features of all classes together: class, and as ``of_each_problem``."""
    all_features = [
        {"class": problem["class"], **feature}
        for problem in of_each_problem(model, count)
        for feature in problem["features"]
    ]
    return sorted(all_features, key=lambda feature: -abs(feature.get(CONTRIBUTION, feature[WEIGHT])))[:count]


def _strongest(
    model: ModelRecord, count: int, signed_rows: Sequence[tuple[str, int, int]]
) -> list[dict[str, Any]]:
    """Return the strongest features. signed_rows: what it is called, the row of ``coef_``, and the sign that
    counts, 0 for both."""
    if model.feature_map is not None:
        return []  # they are not weights of columns
    spreads, names = spreads_of(model), namer(model)
    places = _places(model, spreads, [(row, sign) for _, row, sign in signed_rows], count)
    strongest = []
    for (name, row, _), columns in zip(signed_rows, places, strict=True):
        values = of_columns(model.weights, row, np.array(columns, np.int64)).tolist()
        features = [
            {"feature": feature, WEIGHT: weight}
            for feature, weight in zip(names(columns), values, strict=True)
        ]
        if spreads is not None:
            for feature, column in zip(features, columns, strict=True):
                spread = float(spreads[column])
                feature |= {"spread": spread, CONTRIBUTION: feature[WEIGHT] * spread}
        strongest.append({"class": name, "features": features})
    return strongest


def _places(
    model: ModelRecord,
    spreads: NDArray[np.floating] | None,
    signed_rows: Sequence[tuple[int, int]],
    count: int,
) -> list[list[int]]:
    """Return for each (row, sign) the columns of the strongest, in order; equally strong ones in theirs."""
    k, d = model.weights.shape
    best: list[list[tuple[float, int]]] = [[] for _ in signed_rows]
    step = max(1, PIECE_WEIGHTS // k)
    for start in range(0, d, step):
        piece = between(model.weights, start, min(start + step, d))
        if spreads is not None:
            piece = piece * spreads[start : start + step]
        for number, (row, sign) in enumerate(signed_rows):
            strength = sign * piece[row] if sign else np.abs(piece[row])
            n = min(count, len(strength))
            columns = _first(strength, n)
            ranked = zip((-strength[columns]).tolist(), (columns + start).tolist(), strict=True)
            best[number] = sorted(best[number] + [place for place in ranked if place[0] < 0])[:count]
    return [[column for _, column in ranked] for ranked in best]


def _first(strength: NDArray[np.float64], n: int) -> NDArray[np.intp]:
    """Return the places of the n largest; of equal ones the first."""
    if n == 0:
        return np.zeros(0, np.intp)
    threshold = np.partition(strength, len(strength) - n)[len(strength) - n]
    above, equal = np.flatnonzero(strength > threshold), np.flatnonzero(strength == threshold)
    return np.concatenate([above, equal[: n - len(above)]])
