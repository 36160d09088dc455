"""The two plots: active rows per pass, and objective against time. Needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw(results: dict[str, Any], out: Path) -> list[Path]:
    """``active.png`` and ``objective.png`` in the folder ``out``, a panel per data set; the files written."""
    with_history = [each for each in results["datasets"] if _history(each)]
    if not with_history:
        return []
    paths = []
    for name, panel in (("active", _active), ("objective", _objective)):
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib.figure import Figure

        columns = min(3, len(with_history))
        rows = -(-len(with_history) // columns)
        figure = Figure(figsize=(4.5 * columns, 3.4 * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis, result in zip(axes, with_history, strict=False):
            panel(axis, result)
            axis.set_title(result["name"])
        for axis in axes[len(with_history) :]:
            axis.set_axis_off()
        paths.append(out / f"{name}.png")
        figure.savefig(paths[-1], dpi=120)
    return paths


def _history(result: dict[str, Any]) -> list[dict[str, Any]]:
    runs = result["contestants"].get("llsvm", {}).get("runs", [])
    good = [run for run in runs if not run["failure"]]
    return list(good[-1]["said"].get("history", [])) if good else []


def _active(axis: Any, result: dict[str, Any]) -> None:
    """Rows that are moving after each full pass, as a share of all."""
    history, rows = _history(result), result["facts"]["rows"]
    points = [(row["passes"], row["survivors"] / rows) for row in history if row.get("survivors") is not None]
    axis.plot(*zip(*points, strict=True), marker="o", label="llsvm")
    axis.set(xlabel="full passes", ylabel="share of rows active", ylim=(0, None))
    axis.set_xticks([passes for passes, _ in points])
    axis.legend()


def _objective(axis: Any, result: dict[str, Any]) -> None:
    """Distance of the primal from the best known against time, both from the start of the process.

    llsvm's points are from one run, at the moments when its weights were certified; what starting the process took
    is added to its own clock. Each of LIBLINEAR's is a run of its own that ended there.
    """
    curves = [point["primal"] for curve in result["curve"].values() for point in curve]
    best = min([result["best_primal"], *curves])
    run = next(run for run in reversed(result["contestants"]["llsvm"]["runs"]) if not run["failure"])
    history = [row for row in _history(result) if row.get("primal") is not None and "seconds" in row]
    if history:
        start = max(run["wall_seconds"] - history[-1]["seconds"], 0.0)
        points = [(start + row["seconds"], max(row["primal"] / best - 1, 1e-7)) for row in history]
        axis.plot(*zip(*points, strict=True), marker="o", label="llsvm")
    for name, curve in result["curve"].items():
        points = sorted((point["seconds"], max(point["primal"] / best - 1, 1e-7)) for point in curve)
        if points:
            axis.plot(*zip(*points, strict=True), marker="s", linestyle="none", label=name)
    axis.axhline(1e-3, color="grey", linewidth=0.8, linestyle=":")
    axis.set(xlabel="seconds from file to model", ylabel="primal above best known", yscale="log")
    axis.legend()
