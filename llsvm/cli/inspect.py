"""``llsvm inspect``: what is in a model or in a data file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from llsvm.cli.options import Json, Memory, open_data

if TYPE_CHECKING:
    from llsvm.model import Model

_LARGEST_WEIGHTS = 10
_CLASSES_SHOWN = 20


def inspect(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A model (LIBLINEAR's too) or data.")],
    memory: Memory = None,
    json: Json = False,
) -> None:
    """Show what is in a model or a data file."""
    start = _first_bytes(file)
    if start.startswith((b"PK", b"solver_type")):
        answer, show = describe_model(_loaded(file, start)), _print_model
    else:
        from llsvm.survey import survey

        answer, show = {"kind": "data", **survey(open_data([file]), memory)}, _print_data
    if json:
        from llsvm.model_file import json_bytes

        typer.echo(json_bytes(answer).decode(), nl=False)
    else:
        show(answer)


def _first_bytes(file: str) -> bytes:
    """The file's first bytes; none where it cannot be read, which its reader then explains."""
    import os

    if not os.path.isfile(file):  # reading from a pipe would take its first bytes away
        return b""
    with open(file, "rb") as stream:
        return stream.read(16)


def _loaded(file: str, start: bytes) -> Model:
    if start.startswith(b"PK"):
        from llsvm.model import Model

        return Model.load(file)
    from llsvm.liblinear import read_liblinear

    return read_liblinear(file)


def describe_model(model: Model) -> dict[str, Any]:
    """What ``inspect`` says of a model, as plain values."""
    import numpy as np

    return {
        "kind": "model",
        "version": model.version,
        "classes": model.labels,
        "features": model.n_features_in_,
        "nonzero_weights": int(np.count_nonzero(model.coef_)),
        "intercept": model.intercept_.tolist(),
        "index_base": model.index_base,
        "rows": model.n_rows,
        "converged": model.converged,
        "certificate": None if model.certificate is None else model.certificate.as_dict(),
        "settings": model.settings,
        "largest_weights": _largest_weights(model),
        "history": model.history,
        "log": model.log,
        "extra": {name: value for name, value in model.extra.items() if not isinstance(value, np.ndarray)},
    }


def _largest_weights(model: Model) -> list[dict[str, Any]]:
    """The largest in absolute value; features are numbered as in the svmlight file, or named."""
    import numpy as np

    weights = model.coef_.ravel()
    count = min(_LARGEST_WEIGHTS, len(weights))
    if count == 0:
        return []
    places = np.argpartition(-np.abs(weights), count - 1)[:count]
    places = places[np.lexsort((places, -np.abs(weights[places])))]
    rows, columns = np.divmod(places, model.n_features_in_)
    labels = model.labels[1:] if len(model.coef_) == 1 else model.labels
    return [
        {
            "class": labels[row],
            "feature": model.feature_names[j] if model.feature_names else str(j + model.index_base),
            "weight": float(model.coef_[row, j]),
        }
        for row, j in zip(rows.tolist(), columns.tolist(), strict=True)
        if model.coef_[row, j] != 0
    ]


def _print_model(answer: dict[str, Any]) -> None:
    from llsvm.cli.tables import cell_text, print_table

    certificate = answer["certificate"]
    typer.echo(
        f"A linear model of {len(answer['classes'])} classes ({_listed(answer['classes'])}) and "
        f"{answer['features']:,} features, {answer['nonzero_weights']:,} weights not 0, "
        f"made by llsvm {answer['version']}."
    )
    if certificate is None:
        typer.echo("It was imported; nothing proves how good it is.")
    else:
        state = "Converged" if answer["converged"] else "Not converged"
        typer.echo(
            f"{state}: within {certificate['relative_gap']:.3%} of the optimum after {certificate['passes']} "
            f"full passes over {answer['rows']:,} rows "
            f"(objective {certificate['primal']:.8g}, at least {certificate['dual']:.8g})."
        )
    intercept = answer["intercept"] if any(answer["intercept"]) else "none"
    settings = sorted({**answer["settings"], "intercept": intercept}.items())
    print_table(("setting", "value"), [[name, _setting_text(value)] for name, value in settings])
    if answer["largest_weights"]:
        names = ("feature", "weight", "class")
        rows = [[row[name] for name in names] for row in answer["largest_weights"]]
        print_table(("largest weights: feature", "weight", "for class"), rows)
    if answer["history"]:
        columns = list(answer["history"][-1])
        table = [[cell_text(row.get(name)) for name in columns] for row in answer["history"]]
        print_table(columns, table)


def _setting_text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return _listed([f"{item:.6g}" for item in value])
    if isinstance(value, dict):
        return _listed([f"{name}={item:g}" for name, item in value.items()])
    return str(value)


def _listed(words: list[str]) -> str:
    more = f", and {len(words) - _CLASSES_SHOWN} more" if len(words) > _CLASSES_SHOWN else ""
    return ", ".join(words[:_CLASSES_SHOWN]) + more


def _print_data(answer: dict[str, Any]) -> None:
    from llsvm.cli.tables import print_table
    from llsvm.memory import format_size

    rows = [[name.replace("_", " "), answer[name]] for name in _DATA_ROWS]
    rows.insert(1, ["size", "-" if answer["bytes"] is None else format_size(answer["bytes"])])
    rows.append(["density", f"{answer['density']:.4%}"])
    print_table((answer["name"], ""), rows)
    classes = sorted(answer["classes"].items(), key=lambda item: -item[1])
    shown = [[label, count, f"{count / answer['rows']:.2%}"] for label, count in classes[:_CLASSES_SHOWN]]
    if len(classes) > _CLASSES_SHOWN or answer["other_rows"]:
        count = sum(count for _, count in classes[_CLASSES_SHOWN:]) + answer["other_rows"]
        shown.append(["others", count, f"{count / answer['rows']:.2%}"])
    print_table(("class", "rows", "share"), shown)
    typer.echo(
        f"Training needs about --memory {_megabytes(answer['smallest_memory_bytes'])}; from about "
        f"{_megabytes(answer['in_memory_bytes'])} on it keeps all rows in memory and reads the file once."
    )


_DATA_ROWS = ("format", "rows", "features", "nonzeros", "empty_rows", "largest_value", "index_base")


def _megabytes(nbytes: int) -> str:
    return f"{-(-nbytes // 1_000_000)}MB"
