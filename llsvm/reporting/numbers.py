"""Predictions of numbers against the true ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llsvm.models.markup import Markup, card
from llsvm.reporting.axis import axis_of
from llsvm.reporting.curves import histogram
from llsvm.reporting.plot import Plot


def errors(shapes: Mapping[str, Any]) -> Markup:
    """How the residuals are spread."""
    if "errors" not in shapes:
        return Markup("")
    return histogram(
        shapes["errors"], "Residuals: the true number less the predicted one", "residual", {"rows": "a"}
    )


def predicted_against_true(shapes: Mapping[str, Any]) -> Markup:
    """Cells of a plane, the more rows the stronger their colour."""
    if "predictions" not in shapes:
        return Markup("")
    (x, y), (counts,) = shapes["predictions"]["edges"], shapes["predictions"]["counts"]
    largest = max(max(row) for row in counts)
    x_axis, y_axis = axis_of("predicted", x), axis_of("true", y)
    plot = Plot("True against predicted numbers; the line is where they are equal", x_axis, y_axis)
    rows = []
    for a, b, column in zip(x, x[1:], counts, strict=False):
        for c, d, n in zip(y, y[1:], column, strict=False):
            if n:
                told = f"predicted {a:.6g} to {b:.6g}, true {c:.6g} to {d:.6g}: {n:,} rows"
                plot.cell((a, b), (c, d), (n / largest) ** 0.5, told)
                rows.append((f"{a:.6g} to {b:.6g}", f"{c:.6g} to {d:.6g}", n))
    ends = min(x[0], y[0]), max(x[-1], y[-1])
    plot.line("", ends, ends, "faint")
    plot.values(("predicted", "true", "rows"), rows)
    return card("True against predicted", plot.draw())
